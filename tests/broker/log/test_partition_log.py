"""A partition's log against a plain list of records."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.segments import RollLimits
from pykafka2.errors import OffsetOutOfRange
from pykafka2.protocol.gathered_part import GatheredPart
from pykafka2.records.decoder import decode_tuples
from tests.broker.support.batches import batch, view
from tests.gate import examples

Row = tuple[int, int, bytes]  # offset, leader epoch, value


def rows_of(log: PartitionLog, offset: int = 0) -> list[Row]:
    return [
        (record[0], one.partition_leader_epoch, record[3] or b"")
        for one in log.batches(offset)
        for record in decode_tuples(one)
    ]


class LogAgainstList(RuleBasedStateMachine):
    """Append, replicate, truncate, advance the start: the log has the same rows as a list."""

    def __init__(self) -> None:
        super().__init__()
        self.log = PartitionLog("t", 0, bytes(16))
        self.copy = PartitionLog("t", 0, bytes(16))
        self.batches: list[list[Row]] = []
        self.epoch = 0
        self.end = 0
        self.start = 0

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.batches for row in rows]

    def between(self, share: float) -> int:
        return self.start + round((self.end - self.start) * share)

    @rule(count=st.integers(1, 4))
    def append(self, count: int) -> None:
        rows = [(self.end + n, self.epoch, b"%d" % (self.end + n)) for n in range(count)]
        appended = self.log.append_as_leader(view(batch([row[2] for row in rows])), self.epoch)
        assert (appended.base_offset, appended.last_offset) == (self.end, self.end + count - 1)
        self.batches.append(rows)
        self.end += count

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        """Roll a segment, which limits one read and changes nothing else."""
        had_active = bool(self.log.segments.active.size_bytes)
        assert self.log.roll() is had_active

    @rule(max_bytes=st.integers(1, 400))
    def limit_segments(self, max_bytes: int) -> None:
        self.log.limit_segments(RollLimits(max_bytes=max_bytes))

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        """Truncate all batches that have a record at or after the target; another leader continues."""
        self.epoch += 1
        target = self.between(share)
        self.log.truncate_to(target)
        while self.batches and self.batches[-1][-1][0] >= target:
            target = max(min(target, self.batches.pop()[0][0]), self.start)
        self.end = target

    @rule(share=st.floats(0, 1))
    def advance_start(self, share: float) -> None:
        self.start = self.between(share)
        self.log.advance_log_start(self.start)
        self.batches = [rows for rows in self.batches if rows[-1][0] >= self.start]
        self.log.drop_before_start()
        bases = [one.base_offset for one in self.log.segments]
        assert len(bases) == 1 or bases[1] > self.start, "a segment wholly before the start is gone"

    @rule(share=st.floats(0, 1), max_bytes=st.integers(0, 400), min_one=st.booleans())
    def read(self, share: float, max_bytes: int, min_one: bool) -> None:
        offset = self.between(share)
        result = self.log.read(offset, self.end, max_bytes, min_one=min_one)
        got = [record[0] for one in result.batches for record in decode_tuples(one)]
        expected = [row[0] for row in self.rows if row[0] >= offset]
        in_range = [number for number in got if number >= offset]
        assert in_range == expected[: len(in_range)], "a gap, or records that do not exist"
        assert result.size_bytes <= max_bytes or (min_one and len(result.batches) == 1)
        if expected and min_one:
            assert in_range

    @rule()
    def outside_is_an_error(self) -> None:
        for offset in (self.start - 1, self.end + 1):
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, self.end, 100, min_one=True)

    @rule()
    def replicate(self) -> None:
        """Truncate the follower's log by its leader epochs, then append what it fetches."""
        copy = self.copy
        if copy.log_end_offset < self.start or copy.log_end_offset > self.end:
            copy.truncate_fully_and_start_at(self.start)
        latest = copy.epochs.latest
        if latest >= 0:
            end = self.log.end_of_epoch(latest)
            if end.end_offset < 0:
                copy.truncate_fully_and_start_at(self.start)
            elif end.epoch < latest or end.end_offset < copy.log_end_offset:
                own = copy.end_of_epoch(end.epoch)
                target = end.end_offset if own.end_offset < 0 else min(end.end_offset, own.end_offset)
                copy.truncate_to(target)
                return
        while copy.log_end_offset < self.end:  # a read ends with its segment
            data = self.log.read(copy.log_end_offset, self.end, 1 << 20, min_one=True)
            assert copy.append_as_follower(data.joined()) > 0
        copied = {row[0]: row for row in rows_of(copy)}
        for row in self.rows:
            if row[0] in copied:
                assert copied[row[0]] == row

    @invariant()
    def holds_the_rows(self) -> None:
        assert rows_of(self.log) == self.rows
        assert self.log.log_start_offset == self.start
        assert self.log.log_end_offset == self.end
        assert self.start <= self.log.high_watermark <= self.end or self.log.high_watermark == 0
        segments = list(self.log.segments)
        assert self.log.size_bytes == sum(one.size_bytes for one in segments)
        assert self.log.size_bytes >= sum(one.size_bytes for one in self.log.batches())
        bases = [one.base_offset for one in segments]
        assert bases == sorted(set(bases))
        assert all(one.size_bytes for one in segments[:-1]), "only the active segment can be empty"


LogAgainstList.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=25, deadline=None)
TestLogAgainstList = LogAgainstList.TestCase


def test_offset_and_epoch_of_the_leader_leave_the_checksum_valid() -> None:
    log = PartitionLog("t", 0, bytes(16))
    log.append_as_leader(view(batch([b"a", b"b"])), 3)
    log.append_as_leader(view(batch([b"c"])), 4)
    stored = list(log.batches())
    assert [(one.base_offset, one.partition_leader_epoch) for one in stored] == [(0, 3), (2, 4)]
    for one in stored:
        one.verify_crc()


def test_read_from_an_offset_inside_a_batch_returns_the_whole_batch() -> None:
    log = PartitionLog("t", 0, bytes(16))
    log.append_as_leader(view(batch([b"a", b"b", b"c"])), 0)
    assert [one.base_offset for one in log.read(2, 3, 1 << 20, min_one=True).batches] == [0]


def test_high_watermark_decreases_only_by_truncation() -> None:
    log = PartitionLog("t", 0, bytes(16))
    log.append_as_leader(view(batch([b"a"])), 0)
    log.append_as_leader(view(batch([b"b"])), 0)
    assert log.advance_high_watermark(2)
    assert not log.advance_high_watermark(1)
    assert log.high_watermark == 2
    log.truncate_to(1)
    assert log.high_watermark == 1


def test_duplicate_batch_of_a_follower_is_appended_once() -> None:
    leader, follower = PartitionLog("t", 0, bytes(16)), PartitionLog("t", 0, bytes(16))
    leader.append_as_leader(view(batch([b"a", b"b"])), 0)
    data = leader.read(0, 2, 1 << 20, min_one=True).joined()
    assert follower.append_as_follower(data) == 1
    assert follower.append_as_follower(data) == 0
    assert rows_of(follower) == rows_of(leader)


def test_truncation_removes_epochs_without_remaining_batches() -> None:
    """Otherwise a follower could send an epoch that its leader never had, and not find where they diverge."""
    log = PartitionLog("t", 0, bytes(16))
    for epoch in (0, 0, 1, 3):
        log.append_as_leader(view(batch()), epoch)
    log.truncate_to(3)
    assert (log.epochs.latest, log.end_of_epoch(3)) == (1, (-1, -1))
    log.truncate_to(2)
    assert (log.epochs.latest, log.end_of_epoch(0)) == (0, (0, 2))
    # The epoch of a leader that wrote nothing is dropped, too, although no batch is.
    log.epochs.assign(5, 2)
    assert not log.truncate_to(2)
    assert (log.epochs.latest, log.end_of_epoch(5)) == (0, (-1, -1))


@pytest.mark.parametrize(("size", "kind"), [(9000, GatheredPart), (100, bytes)])
def test_several_batches_are_read_as_one_buffer_only_if_they_are_small(size: int, kind: type) -> None:
    log = PartitionLog("t", 0, bytes(16))
    for _ in range(3):
        log.append_as_leader(view(batch([bytes(size)])), 0)
    read = log.read(0, 3, 1 << 20, min_one=True)
    records = read.records()
    assert type(records) is kind
    assert (records.read() if isinstance(records, GatheredPart) else records) == read.joined()
