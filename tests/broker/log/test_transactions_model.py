"""A log's last stable offset and aborted list against a model that scans all records each time."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pykafka2.broker.log.partition_log import EndMarker, PartitionLog
from pykafka2.records.batch import TRANSACTIONAL_FLAG
from tests.broker.support.batches import NOW_MS, batch, view
from tests.gate import examples

PRODUCERS = st.integers(1, 3)


class Model:
    """The log as a list: ("data" | "plain" | "commit" | "abort", producer) at each offset."""

    def __init__(self) -> None:
        self.records: list[tuple[str, int]] = []

    def transactions(self) -> list[tuple[int, int, int | None, bool]]:
        """(producer, first offset, offset of the marker or None, committed)."""
        found = []
        first: dict[int, int] = {}
        for offset, (kind, producer) in enumerate(self.records):
            if kind == "data":
                first.setdefault(producer, offset)
            elif kind != "plain" and producer in first:
                found.append((producer, first.pop(producer), offset, kind == "commit"))
        return found + [(producer, offset, None, False) for producer, offset in first.items()]

    def last_stable_offset(self, high_watermark: int) -> int:
        holding = [
            first for _, first, marker, _ in self.transactions() if marker is None or marker >= high_watermark
        ]
        return min([high_watermark, *holding])

    def is_visible(self, offset: int) -> bool | None:
        """Whether a read_committed consumer reads the record; None while its transaction is open."""
        kind, producer = self.records[offset]
        if kind != "data":
            return kind == "plain"
        for owner, first, marker, committed in self.transactions():
            if owner == producer and first <= offset and (marker is None or offset < marker):
                return None if marker is None else committed
        raise AssertionError("every record of data is in a transaction")


class Log(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = PartitionLog("t", 0, bytes(16))
        self.follower = PartitionLog("t", 0, bytes(16))
        self.model = Model()
        self.epoch = 0
        self.coordinator_epoch = 0
        self.stable = 0

    @rule(producer=PRODUCERS, count=st.integers(1, 3))
    def write(self, producer: int, count: int) -> None:
        self._append([("data", producer)] * count)

    @rule()
    def write_plainly(self) -> None:
        self._append([("plain", -1)])

    def _append(self, records: list[tuple[str, int]]) -> None:
        kind, producer = records[0]
        data = batch(
            [b"x"] * len(records),
            attributes=TRANSACTIONAL_FLAG if kind == "data" else 0,
            producer_id=producer,
            producer_epoch=0 if kind == "data" else -1,
        )
        self.log.append_as_leader(view(data), self.epoch, from_client=False)
        self.model.records += records

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end(self, producer: int, committed: bool) -> None:
        marker = EndMarker(producer, 0, committed, self.coordinator_epoch)
        self.log.append_marker(marker, self.epoch, NOW_MS)
        self.model.records.append(("commit" if committed else "abort", producer))

    @precondition(lambda self: self.log.high_watermark < self.log.log_end_offset)
    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(self.log.high_watermark, self.log.log_end_offset))
        self.log.advance_high_watermark(at)

    @rule(data=st.data())
    def fetch_as_follower(self, data: st.DataObject) -> None:
        end = self.follower.log_end_offset
        found = self.log.read(end, self.log.log_end_offset, 1 << 20, min_one=True)
        if found.batches:
            self.follower.append_as_follower(found.joined())

    @precondition(lambda self: self.model.records)
    @rule(data=st.data())
    def fail_over(self, data: st.DataObject) -> None:
        """The follower leads, perhaps without the log's tail; the old leader truncates to it and follows."""
        kept = data.draw(st.integers(0, self.follower.log_end_offset))
        self.follower.truncate_to(kept)
        self.epoch += 1
        self.log.truncate_to(self.follower.log_end_offset)
        del self.model.records[self.log.log_end_offset :]
        self.follower.advance_high_watermark(self.log.high_watermark)
        self.log, self.follower = self.follower, self.log
        self.stable = 0  # an unclean election can decrease it

    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        assert self.log.log_end_offset == len(self.model.records)
        stable = self.log.last_stable_offset
        assert stable == self.model.last_stable_offset(self.log.high_watermark)
        assert self.stable <= stable <= self.log.high_watermark
        self.stable = stable

    @invariant()
    def read_committed_consumers_read_only_committed_records(self) -> None:
        """Check that exactly the committed records are left without the listed transactions."""
        stable = self.log.last_stable_offset
        for start in {0, stable // 2, max(stable - 1, 0)}:
            aborted = self.log.aborted_transactions(start, stable)
            for offset in range(start, stable):
                kind, producer = self.model.records[offset]
                is_skipped = any(
                    one.producer_id == producer and one.first_offset <= offset <= one.last_offset
                    for one in aborted
                )
                visible = self.model.is_visible(offset)
                assert visible is not None, "nothing below the last stable offset is open"
                if kind in ("data", "plain"):
                    assert visible is not is_skipped


Log.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestLog = pytest.mark.slow(Log.TestCase)
