"""A log on disk against a log in memory: after any operations, restarts and crashes both hold the same."""

from __future__ import annotations

import shutil
import tempfile

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pykafka2.broker.log.compaction import Cleaned
from pykafka2.broker.log.disk.log_directory import on_disk
from pykafka2.broker.log.disk.producer_snapshots import entries_of
from pykafka2.broker.log.partition_log import EndMarker, PartitionLog
from pykafka2.broker.log.segments import RollLimits
from pykafka2.broker.replication.log_cleaner import CompactionPolicy, compact
from pykafka2.compression.steps import finish
from pykafka2.records.batch import TRANSACTIONAL_FLAG
from tests.broker.log.disk.on_disk import StorageOnDisk
from tests.broker.support.batches import batch, view
from tests.gate import examples

PRODUCERS = st.integers(1, 3)
LIMITS = RollLimits(max_bytes=1200, max_age_ms=50_000)
NOW_MS = 1_000_000


class Pair(RuleBasedStateMachine):
    """The same operations on a log in memory and on one on disk."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.disk = StorageOnDisk(self.directory, index_interval=200)
        self.log = self.disk.log()
        self.memory = PartitionLog("t", 0, bytes(16))
        self.epoch = 0
        self.coordinator_epoch = 0
        self.was_compacted = False
        self._limit()

    def teardown(self) -> None:
        self.disk.stop(is_clean=False)
        shutil.rmtree(self.directory)

    def _limit(self) -> None:
        for log in self.logs:
            log.limit_segments(LIMITS)

    @property
    def logs(self) -> tuple[PartitionLog, PartitionLog]:
        return self.memory, self.log

    # ------------------------------------------------------------------ appending

    @rule(count=st.integers(1, 4), size=st.integers(1, 300), at=st.integers(0, 60_000), key=st.integers(0, 2))
    def write(self, count: int, size: int, at: int, key: int) -> None:
        keys = [b"%d" % (key + number) for number in range(count)]
        data = batch([b"v" * size] * count, keys=keys, timestamp=at)
        for log in self.logs:
            log.append_as_leader(view(data), self.epoch)

    @rule(producer=PRODUCERS, count=st.integers(1, 3))
    def write_in_transaction(self, producer: int, count: int) -> None:
        keys = [b"k"] * count
        data = batch(
            [b"x"] * count, keys=keys, attributes=TRANSACTIONAL_FLAG, producer_id=producer, producer_epoch=0
        )
        for log in self.logs:
            log.append_as_leader(view(data), self.epoch, from_client=False)

    @rule(producer=PRODUCERS, commits=st.booleans())
    def end_transaction(self, producer: int, commits: bool) -> None:
        self.coordinator_epoch += 1
        for log in self.logs:
            log.append_marker(EndMarker(producer, 0, commits, self.coordinator_epoch), self.epoch, NOW_MS)

    @rule()
    def begin_leader_epoch(self) -> None:
        self.epoch += 1
        for log in self.logs:
            log.epochs.assign(self.epoch, log.log_end_offset)

    @rule()
    def roll(self) -> None:
        for log in self.logs:
            log.roll()

    @rule()
    def flush(self) -> None:
        for log in self.logs:
            log.flush()

    # ------------------------------------------------------------------ dropping

    def _at(self, part: float) -> int:
        start, end = self.memory.log_start_offset, self.memory.log_end_offset
        return start + round((end - start) * part)

    @rule(part=st.floats(0.5, 1))
    def truncate(self, part: float) -> None:
        if not self.was_compacted:
            # A crash forgets a log start that has no record after it, until the next checkpoint.
            batches = [
                one for one in self.memory.batches() if one.base_offset >= self.memory.log_start_offset
            ]
            if batches:
                offset = max(self._at(part), batches[0].next_offset)
                for log in self.logs:
                    log.truncate_to(offset)

    @rule(part=st.floats(0, 0.5))
    def delete_records(self, part: float) -> None:
        offset = self._at(part)
        for log in self.logs:
            log.advance_high_watermark(offset)
            log.advance_log_start(offset)

    @rule(skipped=st.integers(1, 20))
    def start_elsewhere(self, skipped: int) -> None:
        offset = self.memory.log_end_offset + skipped
        for log in self.logs:
            log.truncate_fully_and_start_at(offset)

    @rule()
    def compact(self) -> None:
        cleaned: list[Cleaned | None] = []
        for log in self.logs:
            log.advance_high_watermark(log.log_end_offset)
            log.roll()
            cleaned.append(finish(compact(log, CompactionPolicy(), NOW_MS, from_start=True)))
        assert (cleaned[0] is None) == (cleaned[1] is None)
        self.was_compacted = True

    # ------------------------------------------------------------------ restarts

    @rule()
    def restart(self) -> None:
        self.log = self.disk.restart()
        assert self.log.recovery_point == self.log.log_end_offset
        self._limit()
        self._forget_epochs()

    @rule()
    def kill(self) -> None:
        self._crash()

    @rule()
    def lose_unflushed(self) -> None:
        recovery_point = self.log.recovery_point
        if self.was_compacted or recovery_point < self.log.log_start_offset:
            return
        lost = self.log.log_end_offset - recovery_point
        assert self.disk.storage.lose_unflushed() == lost
        self.memory.truncate_to(recovery_point)
        self._crash()

    def _crash(self) -> None:
        start, mark = self.log.log_start_offset, self.log.high_watermark
        self.log = self.disk.restart(is_clean=False)
        self._limit()
        # The last checkpoints of these two are older; a follower gets the current ones from its leader.
        self.log.advance_high_watermark(mark)
        self.log.advance_log_start(start)
        self._forget_epochs()

    def _forget_epochs(self) -> None:
        """Drop the leader epochs without records, which do not survive a restart, as in Kafka."""
        for log in self.logs:
            log.epochs.truncate_to(log.log_end_offset)

    # ------------------------------------------------------------------ comparing

    @rule(part=st.floats(0, 1), below=st.floats(0, 1), max_bytes=st.integers(0, 2500), min_one=st.booleans())
    def read(self, part: float, below: float, max_bytes: int, min_one: bool) -> None:
        offset, upper = self._at(part), self._at(below)
        found = [log.read(offset, upper, max_bytes, min_one=min_one).joined() for log in self.logs]
        if self._has_same_segments():  # a read ends with its segment
            assert bytes(found[0]) == bytes(found[1])
        region = self.log.region(offset, upper, max_bytes, min_one=min_one)
        assert (b"" if region is None else region.read()) == bytes(found[1])

    def _has_same_segments(self) -> bool:
        """False after a crash that has left an empty segment at the end."""
        memory, disk = ([one.base_offset for one in log.segments] for log in self.logs)
        return memory == disk

    @invariant()
    def is_equal(self) -> None:
        memory, disk = self.logs
        assert disk.log_start_offset == memory.log_start_offset
        assert disk.log_end_offset == memory.log_end_offset
        assert [bytes(one.buffer) for one in disk.batches()] == [
            bytes(one.buffer) for one in memory.batches()
        ]
        assert disk.epochs.entries == memory.epochs.entries
        assert _aborted(disk) == _aborted(memory)
        if not self.was_compacted:
            assert _producers(disk) == _producers(memory)
        if self._has_same_segments():
            assert disk.size_bytes == memory.size_bytes

    @invariant()
    def indexes_are_inside_their_segments(self) -> None:
        for segment in on_disk(self.log.segments):
            places = {}
            position = 0
            for one in segment.iterate():
                places[position] = one
                position += len(one.buffer)
            assert position == segment.size_bytes == segment.log.size()
            for number in range(segment.offsets.count):
                offset, at = segment.offsets.entry(number)
                assert places[at].last_offset == segment.base_offset + offset
            times = [segment.times.entry(number) for number in range(segment.times.count)]
            assert times == sorted(times)
            assert all(segment.base_offset + offset < segment.next_offset for _, offset in times)
            largest = max((one.max_timestamp for one in places.values()), default=-1)
            assert segment.largest_timestamp == largest


def _aborted(log: PartitionLog) -> list[object]:
    """Return the aborted transactions, from the first batch that is left: recovery finds no earlier one."""
    left = [batch.base_offset for batch in log.batches()]
    return [
        attrs.evolve(one, first_offset=next((at for at in left if at >= one.first_offset), one.first_offset))
        for one in log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    ]


def _producers(log: PartitionLog) -> dict[int, object]:
    return {entry.producer_id: entry for entry in entries_of(log.producers)}


Pair.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=40, deadline=None)
TestPair = pytest.mark.filterwarnings("ignore")(Pair.TestCase)
