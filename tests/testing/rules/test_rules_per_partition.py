"""Produce, Fetch and ListOffsets answer for each partition and serve the others (002-08, 002-24)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pykafka2.protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka2.testing.cluster import KafkaCluster
from tests.testing.wire import Wire, batch

GOOD, UNKNOWN, ELSEWHERE = 0, 3, 6
Answers = dict[tuple[str, int], int]


def produced(wire: Wire, asked: list[tuple[str, int]]) -> Answers:
    topics = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=number, records=batch())])
        for topic, number in asked
    ]
    response = wire.call(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 12)
    return {
        (topic.name, one.index): one.error_code
        for topic in response.responses
        for one in topic.partition_responses
    }


def fetched(wire: Wire, asked: list[tuple[str, int]]) -> Answers:
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1000)],
        )
        for topic, number in asked
    ]
    # An epoch makes sure that only the leader serves: without one a follower may, too (KIP-392).
    for topic in topics:
        topic.partitions[0].current_leader_epoch = 0
    response = wire.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 10)
    return {
        (topic.topic, one.partition_index): one.error_code
        for topic in response.responses
        for one in topic.partitions
    }


def listed(wire: Wire, asked: list[tuple[str, int]]) -> Answers:
    topics = [
        ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=number, timestamp=-1)])
        for topic, number in asked
    ]
    response = wire.call(ListOffsetsRequest(replica_id=-1, topics=topics), 8)
    return {
        (topic.name, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }


@pytest.mark.kafka(brokers=2, topics={"t": 2})
@pytest.mark.parametrize("ask", [produced, fetched, listed])
def test_requirements_002_08_and_24_each_partition_has_its_own_answer(
    kafka_cluster: KafkaCluster,
    connect: Callable[[int], Wire],
    ask: Callable[[Wire, list[tuple[str, int]]], Answers],
) -> None:
    leader = kafka_cluster.partition("t", 0).leader
    assert kafka_cluster.partition("t", 1).leader == 1 - leader
    expected = {("t", 0): GOOD, ("t", 1): ELSEWHERE, ("t", 9): UNKNOWN, ("nosuch", 0): UNKNOWN}
    for order in (list(expected), list(reversed(expected))):
        assert ask(connect(leader), order) == expected
