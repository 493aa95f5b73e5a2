"""Logs from which compaction took records: wherever reading begins, what is left comes once."""

from __future__ import annotations

import pytest

from pykafka2.records.batch import RecordBatch
from pykafka2.records.encoder import BatchBuilder
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster

LOG = TopicPartition("orders", 0)
KEPT = [
    [2, 3, 4],  # the beginning of the log, and of a batch, is gone
    [5, 9],
    [],  # the batch's header stays, as of the last one of a producer
    [15, 16, 17, 18],  # its end is gone
    None,  # no trace of it
    [27],
]
LEFT = [offset for kept in KEPT for offset in kept or ()]
END = 30


@pytest.fixture
def cluster() -> LogCluster:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    log = cluster.log("orders")
    for number, kept in enumerate(KEPT):
        if kept is not None:
            log.batches.append(compacted(number * 5, kept))
    log.end = END
    return cluster


def compacted(base_offset: int, kept: list[int]) -> bytes:
    """A batch of five, of which these are left; its header tells of all five."""
    builder = BatchBuilder()
    for offset in range(base_offset, base_offset + 5):
        builder.append(1000, b"key", b"%d" % offset)
    if kept:
        builder._records[:] = [builder._records[offset - base_offset] for offset in kept]
        blob = bytearray(builder.build(base_offset=base_offset))
    else:
        blob = bytearray(builder.build(base_offset=base_offset)[:61])
        blob[8:12] = (61 - 12).to_bytes(4, "big")
        blob[57:61] = (0).to_bytes(4, "big")
    blob[23:27] = (4).to_bytes(4, "big")
    assert RecordBatch(memoryview(blob)).next_offset == base_offset + 5
    return bytes(blob)


@pytest.mark.parametrize("limit", [1, 500])
@pytest.mark.parametrize("start", range(END + 1))
def test_reading_begins_anywhere_and_ends_behind_the_last_hole(
    cluster: LogCluster, start: int, limit: int
) -> None:
    with cluster.consumer(check_crcs=False, max_poll_records=limit) as consumer:
        consumer.assign([LOG])
        consumer.seek(LOG, start)
        found: list[int] = []
        for _ in range(20):
            found += [record.offset for record in consumer.poll(20).get(LOG, [])]
        assert found == [offset for offset in LEFT if offset >= start]
        assert consumer.position(LOG) == END


@pytest.mark.parametrize("start", range(END + 1))
def test_columns_and_iteration_meet_the_same(cluster: LogCluster, start: int) -> None:
    left = [offset for offset in LEFT if offset >= start]
    with cluster.consumer(check_crcs=False, consumer_timeout_ms=300) as consumer:
        consumer.assign([LOG])
        consumer.seek(LOG, start)
        columns: list[int] = []
        for _ in range(5):
            polled = consumer.poll_columns(100).get(LOG)
            columns += polled.offsets if polled is not None else []
        assert columns == left
        consumer.seek(LOG, start)
        assert [record.offset for record in consumer] == left
        assert consumer.position(LOG) == END
