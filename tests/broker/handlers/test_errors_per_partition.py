"""Produce, Fetch and ListOffsets have an error code for each partition and serve the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2 import errors
from pykafka2.broker.log.validation import ALWAYS_WALKED
from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka2.testing.cluster import Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

GOOD = 0
UNKNOWN, ELSEWHERE = errors.UnknownTopicOrPartition.code, errors.NotLeaderOrFollower.code
BROKEN = errors.UnknownServerError.code
FENCED, UNKNOWN_EPOCH = errors.FencedLeaderEpoch.code, errors.UnknownLeaderEpoch.code
Answers = dict[tuple[str, int], int]


def produced(wire: RawClient, partitions: list[tuple[str, int]]) -> Answers:
    topics = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=number, records=batch())])
        for topic, number in partitions
    ]
    response = wire.call(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 12)
    return {
        (topic.name, one.index): one.error_code
        for topic in response.responses
        for one in topic.partition_responses
    }


def fetched(wire: RawClient, partitions: list[tuple[str, int]]) -> Answers:
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1000)],
        )
        for topic, number in partitions
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


def listed(wire: RawClient, partitions: list[tuple[str, int]]) -> Answers:
    topics = [
        ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=number, timestamp=-1)])
        for topic, number in partitions
    ]
    response = wire.call(ListOffsetsRequest(replica_id=-1, topics=topics), 8)
    return {
        (topic.name, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }


@pytest.mark.kafka(brokers=2, topics={"t": 2})
@pytest.mark.parametrize("ask", [produced, fetched, listed])
def test_each_partition_has_its_own_error_code(
    live: LiveCluster, ask: Callable[[RawClient, list[tuple[str, int]]], Answers]
) -> None:
    leader = live.leader_id()
    assert live.leader_id(1) == 1 - leader
    expected = {("t", 0): GOOD, ("t", 1): ELSEWHERE, ("t", 9): UNKNOWN, ("nosuch", 0): UNKNOWN}
    for order in (list(expected), list(reversed(expected))):
        assert ask(live.connect(leader), order) == expected


@pytest.mark.kafka(brokers=2, topics={"t": Topic(replication_factor=2)})
@pytest.mark.parametrize("version", [3, 12])
def test_topic_without_a_name_is_unknown_and_the_others_are_replicated(
    live: LiveCluster, version: int
) -> None:
    """The response is made when the follower has fetched: an error then must not affect other topics."""
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch())])
        for name in ("", "t")
    ]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics)
    responses = live.leader().call(request, version).responses
    assert [one.name for one in responses] == ["", "t"]
    assert [one.partition_responses[0].error_code for one in responses] == [UNKNOWN, GOOD]
    live.cluster.check()


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_older_epoch_is_rejected_before_not_leader(live: LiveCluster) -> None:
    """Kafka's Partition checks the epoch of the request first, then whether it is the leader."""
    old = live.leader_id()
    live.controls.move_leader(("t", 0), 1 - old)
    wire = live.connect(old)
    expected = {0: FENCED, 1: ELSEWHERE, 2: UNKNOWN_EPOCH}
    for epoch, code in expected.items():
        timed = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
        listing = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[timed])])
        assert wire.call(listing, 8).topics[0].partitions[0].error_code == code
        partition = OffsetForLeaderPartition(partition=0, leader_epoch=0, current_leader_epoch=epoch)
        ending = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[partition])])
        assert wire.call(ending, 4).topics[0].partitions[0].error_code == code


@pytest.mark.kafka(brokers=1, topics={"t": 1, "u": 1}, config={"log.validate": "headers"})
def test_unreadable_batch_fails_only_the_timestamp_lookup_of_its_partition(live: LiveCluster) -> None:
    wire = live.leader()
    # Fewer records would be read, and rejected, when they are produced.
    unread = batch([b"v"] * (ALWAYS_WALKED + 1), codec=1, damage=True)
    assert produce(wire, "t", 0, unread).error_code == GOOD
    topics = [
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=0)])
        for name in ("t", "u")
    ]
    responses = wire.call(ListOffsetsRequest(replica_id=-1, topics=topics), 8).topics
    assert [one.partitions[0].error_code for one in responses] == [BROKEN, GOOD]
