"""A log that was cut behind what was read: seen by the leader epoch of the last record (KIP-320)."""

from __future__ import annotations

import logging

import pytest

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.consumer.fetch.fetched_data import log_truncated
from pykafka2.errors import LogTruncated
from pykafka2.protocol.messages.fetch import EpochEndOffset, FetchPartition, FetchRequest, PartitionData
from pykafka2.records.batch import RecordBatch, stamp
from tests.cluster.scripted import ScriptedBroker
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)


class EpochCluster(LogCluster):
    """Batches carry leader epochs, and fetches are compared with them as brokers do."""

    def __init__(self) -> None:
        super().__init__({"orders": [0]}, brokers=1)
        self.epoch = 1
        self.knows_epochs = True
        self.claims_end: int | None = None
        """The end offset of every epoch, whatever the request was."""

    @property
    def epoch(self) -> int:
        """The leader's, as metadata tell it."""
        return self.topics["orders"].epochs[0]

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.topics["orders"].epochs[0] = epoch

    def write(self, *values: bytes) -> None:
        log = self.log("orders")
        log.append(*values)
        batch = bytearray(log.batches[-1])
        stamp(batch, RecordBatch(memoryview(batch)).base_offset, self.epoch)
        log.batches[-1] = bytes(batch)
        self.arrive()

    def elect(self, end: int) -> None:
        """A leader that has only what lies before `end` (a batch's beginning)."""
        log = self.log("orders")
        log.batches = [b for b in log.batches if RecordBatch(memoryview(b)).base_offset < end]
        log.end = end
        self.move_leader("orders", 0, 0)

    def _fetch_partition(
        self,
        request: FetchRequest,
        name: str,
        topic_id: bytes,
        requested: FetchPartition,
        broker: ScriptedBroker,
        room: int,
    ) -> PartitionData:
        last = requested.last_fetched_epoch
        if last >= 0 and not self.knows_epochs:
            return PartitionData(partition_index=0, error_code=1, high_watermark=-1)
        if last >= 0 and self.claims_end is not None:
            return PartitionData(
                partition_index=0,
                high_watermark=self.log("orders").end,
                diverging_epoch=EpochEndOffset(epoch=last, end_offset=self.claims_end),
            )
        if last >= 0:
            known = [RecordBatch(memoryview(b)) for b in self.log("orders").batches]
            before = [b for b in known if b.partition_leader_epoch <= last]
            end = before[-1].next_offset if before else 0
            if all(b.partition_leader_epoch <= last for b in known):
                end = self.log("orders").end
            epoch = before[-1].partition_leader_epoch if before else -1
            if epoch < last or end < requested.fetch_offset:
                return PartitionData(
                    partition_index=0,
                    high_watermark=self.log("orders").end,
                    diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end),
                )
        return super()._fetch_partition(request, name, topic_id, requested, broker, room)


def values(consumer: KafkaConsumer, polls: int = 6) -> list[bytes]:
    return [record.value for _ in range(polls) for some in consumer.poll(600).values() for record in some]


@pytest.fixture
def cluster() -> EpochCluster:
    cluster = EpochCluster()
    cluster.write(b"0", b"1")
    cluster.epoch = 2
    cluster.write(b"2", b"3")
    cluster.write(b"4")
    return cluster


def test_reading_continues_at_the_end_of_the_common_log(
    cluster: EpochCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with cluster.consumer("orders") as consumer, caplog.at_level(logging.WARNING):
        assert values(consumer) == [b"0", b"1", b"2", b"3", b"4"]
        cluster.elect(4)
        cluster.write(b"new 4")
        cluster.write(b"new 5")
        assert values(consumer) == [b"new 4", b"new 5"], "the offset alone would have skipped the first"
        assert consumer.position(ORDERS_0) == 6
    assert "orders-0: the log was truncated to offset 4" in caplog.text


def test_reading_after_a_truncation_continues_with_the_previous_epoch(cluster: EpochCluster) -> None:
    """By it a second cut is seen before anything was read."""
    with cluster.consumer("orders") as consumer:
        assert len(values(consumer)) == 5
        cluster.elect(2)
        values(consumer)
        requested = cluster.requests(FetchRequest)[-1].topics[0].partitions[0]
        assert (requested.fetch_offset, requested.last_fetched_epoch) == (2, 1)


def test_without_a_policy_a_cut_log_is_raised_with_its_place(cluster: EpochCluster) -> None:
    with cluster.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([ORDERS_0])
        consumer.seek(ORDERS_0, 0)
        assert len(values(consumer)) == 5
        cluster.elect(2)
        cluster.write(b"new 2", b"new 3", b"new 4", b"new 5")
        for _ in range(2):
            with pytest.raises(LogTruncated, match=r"orders-0.*to offset 2") as caught:
                values(consumer)
            assert (caught.value.offset, caught.value.leader_epoch) == (2, 1)
            assert consumer.position(ORDERS_0) == 5
        consumer.seek(ORDERS_0, caught.value.offset)
        assert values(consumer) == [b"new 2", b"new 3", b"new 4", b"new 5"]


def test_truncation_never_moves_the_position_forward(cluster: EpochCluster) -> None:
    """A leader may return an end of the epoch behind the requested position: only the epoch is wrong."""
    with cluster.consumer("orders") as consumer:
        assert len(values(consumer)) == 5
        cluster.claims_end = 9
        cluster.write(b"5")
        values(consumer, 2)
        cluster.claims_end = None
        found = [b"5", *values(consumer)] if consumer.position(ORDERS_0) == 6 else values(consumer)
        assert found == [b"5"]


@pytest.mark.parametrize("epoch", [0, 2])
def test_broker_without_epoch_history_is_read_by_offset(cluster: EpochCluster, epoch: int) -> None:
    cluster.epoch = epoch
    cluster.write(b"5")
    with cluster.consumer("orders", auto_offset_reset="none") as consumer:
        consumer.unsubscribe()
        consumer.assign([ORDERS_0])
        consumer.seek(ORDERS_0, 0)
        assert len(values(consumer)) == 6
        cluster.knows_epochs = False
        cluster.write(b"6")
        assert values(consumer) == [b"6"]


@pytest.mark.parametrize("call", ["poll", "poll_columns"])
def test_skipped_records_are_not_taken_for_truncation(cluster: EpochCluster, call: str) -> None:
    """The record before the position may be of an older epoch than the offset before it."""
    cluster.epoch = 5
    cluster.write(b"5", b"6")
    cluster.epoch = 6
    cluster.write(b"7")
    damaged = bytearray(cluster.log("orders").batches[3])
    damaged[-2] ^= 0xFF
    cluster.log("orders").batches[3] = bytes(damaged)
    with cluster.consumer("orders", on_bad_record="skip") as consumer:
        found: list[int] = []
        for _ in range(10):
            for some in getattr(consumer, call)(600).values():
                found += some.offsets if call == "poll_columns" else [one.offset for one in some]
        assert found == [0, 1, 2, 3, 4, 7]


def test_columns_before_damage_are_not_taken_for_truncation(cluster: EpochCluster) -> None:
    """They do not tell their leader epoch, and that of the poll before is not theirs."""
    log = cluster.log("orders")
    damaged = bytearray(log.batches[2])
    damaged[-2] ^= 0xFF
    log.batches[2] = bytes(damaged)
    with cluster.consumer("orders", on_bad_record="skip") as consumer:
        found = [
            offset for one in consumer.poll_columns(600, max_records=2).values() for offset in one.offsets
        ]
        for _ in range(8):
            found += [offset for one in consumer.poll_columns(600).values() for offset in one.offsets]
        assert found == [0, 1, 2, 3]
        assert consumer.position(ORDERS_0) == 5


@pytest.mark.parametrize(
    ("end_epoch", "end_offset", "expected_offset", "expected_epoch"),
    [(2, 7, 7, 2), (3, 7, 7, 3), (4, 7, 7, -1), (2, 90, 10, 2), (-1, 7, 7, -1)],
)
def test_truncated_log_is_read_on_with_no_epoch_newer_than_the_last_record(
    end_epoch: int, end_offset: int, expected_offset: int, expected_epoch: int
) -> None:
    """The epoch of the last record itself is as good as an older one."""
    end = EpochEndOffset(epoch=end_epoch, end_offset=end_offset)
    error = log_truncated(TopicPartition("orders", 0), 10, 3, end)
    assert (error.offset, error.leader_epoch) == (expected_offset, expected_epoch)
