"""Records of coordinators in a real log: written as batches, and loaded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.coordinators.groups.shard import GroupShard
from pykafka2.broker.coordinators.replay import Producer, Record
from pykafka2.broker.coordinators.replica_log import batch_of, entries_in
from pykafka2.broker.coordinators.runtime import Entry, Marker, ShardRuntime
from pykafka2.broker.log.batch import parse_batch
from pykafka2.broker.log.partition_log import EndMarker, PartitionLog
from pykafka2.broker.replication.log_cleaner import CompactionPolicy, compact
from pykafka2.compression.steps import finish
from tests.broker.support.bench import ShardBench

records_of = st.lists(
    st.builds(Record, key=st.binary(min_size=1), value=st.none() | st.binary()), min_size=1, max_size=8
)


@pytest.mark.gate
@given(st.lists(st.tuples(records_of, st.none() | st.builds(Producer, st.integers(0, 9), st.integers(0, 9)))))
def test_written_entries_equal_loaded_entries(written: list[tuple[list[Record], Producer | None]]) -> None:
    batches = [parse_batch(batch_of(records, producer, 5)) for records, producer in written]
    assert list(entries_in(batches)) == [
        Entry(record.key, record.value, producer, offset)
        for records, producer in written
        for offset, record in enumerate(records)
    ]


def test_marker_that_compaction_has_emptied_is_skipped() -> None:
    log = PartitionLog("__consumer_offsets", 0, bytes(16))
    producer = Producer(7, 0)
    stored = parse_batch(batch_of([Record(b"key", b"1")], producer, 5))
    log.append_as_leader(stored, 0, from_client=False)
    # The marker has the next epoch, as with transaction.version 2, so it is the producer's last batch.
    log.append_marker(EndMarker(7, 1, True, 0), 0, 5)
    for now_ms, value in ((10, b"2"), (20, b"3"), (30, b"4")):
        log.append_as_leader(parse_batch(batch_of([Record(b"key", value)], None, now_ms)), 0)
        log.advance_high_watermark(log.log_end_offset)
        log.roll()
        finish(compact(log, CompactionPolicy(delete_retention_ms=1), now_ms))
    emptied, last = log.batches()
    assert (emptied.is_control, emptied.count, last.base_offset) == (True, 0, 4)
    assert list(entries_in(log.batches())) == [Entry(b"key", b"4", None, 4)]


class RealLog:
    """A `ShardLog` with the log of a partition, as in the broker."""

    def __init__(self) -> None:
        self.log = PartitionLog("__consumer_offsets", 0, bytes(16))

    def append(self, records: Sequence[Record], producer: Producer | None, now: float) -> int:
        batch = parse_batch(batch_of(records, producer, round(now * 1000)))
        self.log.append_as_leader(batch, 0, from_client=False)
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.log.log_end_offset


def test_group_is_restored_from_a_real_log() -> None:
    real = RealLog()
    bench = ShardBench()
    bench.runtime = ShardRuntime(bench.shard, real)
    bench.runtime.load([], 0, bench.now)
    ids = bench.stable(2)
    bench.commit(5, member=ids[0], generation=1)
    mover = Producer(7, 0)
    bench.commit_transactional(9, mover, partition=1)
    real.log.append_marker(EndMarker(mover.id, mover.epoch, True, 3), 0, 5)
    bench.commit_transactional(4, Producer(8, 1), partition=2)
    other = GroupShard(bench.settings, lambda now: 0, lambda: "x")
    other.on_topics(bench.topics)
    entries = list(entries_in(real.log.batches()))
    assert Marker(mover, True) in entries
    ShardRuntime(other, real).load(entries, real.log.log_end_offset, 0.0)
    assert {place: one.offset for place, one in other.offsets.committed["billing"].items()} == {
        ("orders", 0): 5,
        ("orders", 1): 9,
    }
    assert other.offsets.is_pending("billing", ("orders", 2))
    assert set(other.groups["billing"].members) == set(ids)
