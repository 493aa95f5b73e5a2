"""Responses without usable records are requested again after a pause, never in a tight loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.errors import KafkaError, TopicAuthorizationFailed
from pykafka2.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from pykafka2.protocol.messages.offsets import ListOffsetsPartitionResponse, ListOffsetsRequest
from pykafka2.types import TopicPartition
from tests.cluster.scripted import Answer, Later, ScriptedBroker
from tests.consumer.logs import LogCluster, build_batch

ORDERS_0 = TopicPartition("orders", 0)
SECONDS = 10
MOST_PER_SECOND = 10

Change = Callable[[FetchResponse, PartitionData], None]


def out_of_range(response: FetchResponse, partition: PartitionData) -> None:
    partition.error_code, partition.records = 1, None


def foreign_topic(response: FetchResponse, partition: PartitionData) -> None:
    response.responses[0].topic, response.responses[0].topic_id = "others", b"o" * 16


def foreign_partition(response: FetchResponse, partition: PartitionData) -> None:
    partition.partition_index = 77


def no_answer(response: FetchResponse, partition: PartitionData) -> None:
    response.responses.clear()


def null_records(response: FetchResponse, partition: PartitionData) -> None:
    partition.records = None


def offsets_that_run_back(response: FetchResponse, partition: PartitionData) -> None:
    partition.records = memoryview(build_batch([(None, b"old")], 0))


def unknown_replica(response: FetchResponse, partition: PartitionData) -> None:
    partition.preferred_read_replica, partition.records = 99, None


def codec_error(response: FetchResponse, partition: PartitionData) -> None:
    partition.error_code, partition.records = 76, None


def corrupt_message(response: FetchResponse, partition: PartitionData) -> None:
    partition.error_code, partition.records = 2, None


def unknown_codec(response: FetchResponse, partition: PartitionData) -> None:
    batch = bytearray(build_batch([(None, b"new")], 3))
    batch[22] |= 7
    partition.records = memoryview(bytes(batch))


def no_session(response: FetchResponse, partition: PartitionData) -> None:
    response.error_code = 71
    response.responses.clear()


CHANGES: list[Change] = [
    out_of_range,
    foreign_topic,
    foreign_partition,
    no_answer,
    no_session,
    null_records,
    offsets_that_run_back,
    unknown_replica,
    codec_error,
    corrupt_message,
    unknown_codec,
]


def poll_for(cluster: LogCluster, consumer: KafkaConsumer, seconds: float) -> list[int]:
    """Poll as an application that only logs errors would; the offsets of partition 0."""
    found: list[int] = []
    until = cluster.now + seconds
    while cluster.now < until:
        try:
            records = consumer.poll(100)
        except KafkaError:
            cluster.runtime.run_for(0.0001)
        else:
            found += [record.offset for record in records.get(ORDERS_0, [])]
    return found


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_fetch_that_brings_nothing_usable_is_repeated_ten_times_a_second_at_most(change: Change) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    for number in range(3):
        cluster.append("orders", 0, b"%d" % number)

    def answering(request: FetchRequest, broker: ScriptedBroker) -> Answer:
        response = cluster.fetch_now(request, broker)
        change(response, response.responses[0].partitions[0])
        return Later(0.0002, lambda: response)

    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        assert poll_for(cluster, consumer, 2) == [0, 1, 2]
        cluster.brokers[0].on(FetchRequest, answering)
        poll_for(cluster, consumer, 1)  # what was under way
        before = len(cluster.requests(FetchRequest))
        poll_for(cluster, consumer, SECONDS)
        count = len(cluster.requests(FetchRequest)) - before
        assert 3 <= count <= SECONDS * MOST_PER_SECOND, "with a pause, and not given up"
        assert not cluster.requests(FetchRequest)[-1].topics[0].partitions[1:]
        del cluster.brokers[0].handlers[FetchRequest]
        cluster.append("orders", 0, b"3")
        found = poll_for(cluster, consumer, 3)
        assert found[-1] == 3, "and it goes on when the answers are good again"


def test_refused_offset_lookup_is_retried_at_most_ten_times_a_second() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, b"0")
    list_partition = cluster._list_partition

    def refuse(name: str, number: int, *more: Any) -> ListOffsetsPartitionResponse:
        return ListOffsetsPartitionResponse(partition_index=number, error_code=TopicAuthorizationFailed.code)

    cluster._list_partition = refuse  # type: ignore[method-assign, assignment]
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        poll_for(cluster, consumer, SECONDS)
        assert 3 <= len(cluster.requests(ListOffsetsRequest)) <= SECONDS * MOST_PER_SECOND + 1
        cluster._list_partition = list_partition  # type: ignore[method-assign]
        assert poll_for(cluster, consumer, 3) == [0]
