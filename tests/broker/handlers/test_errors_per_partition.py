"""Produce, Fetch and ListOffsets have an error code for each partition and serve the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2 import errors
from pykafka2.broker.log.validation import ALWAYS_CHECKED
from pykafka2.testing.cluster import Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import (
    Place,
    epoch_end,
    fetch_request,
    list_offsets,
    list_offsets_request,
    produce,
    produce_all,
)
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

GOOD = 0
UNKNOWN, ELSEWHERE = errors.UnknownTopicOrPartition.code, errors.NotLeaderOrFollower.code
BROKEN = errors.UnknownServerError.code
FENCED, UNKNOWN_EPOCH = errors.FencedLeaderEpoch.code, errors.UnknownLeaderEpoch.code
Answers = dict[Place, int]


def produced(wire: RawClient, partitions: list[Place]) -> Answers:
    response = wire.call(produce_all(dict.fromkeys(partitions, batch()), acks=1), 12)
    return {
        (topic.name, one.index): one.error_code
        for topic in response.responses
        for one in topic.partition_responses
    }


def fetched(wire: RawClient, partitions: list[Place]) -> Answers:
    # An epoch makes sure that only the leader serves: without one a follower may, too (KIP-392).
    request = fetch_request(epoch=0)
    request.topics = [fetch_request(*place, epoch=0).topics[0] for place in partitions]
    return {
        (topic.topic, one.partition_index): one.error_code
        for topic in wire.call(request, 10).responses
        for one in topic.partitions
    }


def listed(wire: RawClient, partitions: list[Place]) -> Answers:
    return {
        (topic.name, one.partition_index): one.error_code
        for topic in wire.call(list_offsets_request(*partitions), 8).topics
        for one in topic.partitions
    }


@pytest.mark.kafka(brokers=2, topics={"t": 2})
@pytest.mark.parametrize("ask", [produced, fetched, listed])
def test_each_partition_has_its_own_error_code(
    live: LiveCluster, ask: Callable[[RawClient, list[Place]], Answers]
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
    request = produce_all({("", 0): batch(), ("t", 0): batch()})
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
        assert list_offsets(wire, epoch=epoch).error_code == code
        assert epoch_end(wire, 0, epoch=epoch).error_code == code


@pytest.mark.kafka(brokers=1, topics={"t": 1, "u": 1}, config={"log.validate": "headers"})
def test_unreadable_batch_fails_only_the_timestamp_lookup_of_its_partition(wire: RawClient) -> None:
    # Fewer records would be read, and rejected, when they are produced.
    unread = batch([b"v"] * (ALWAYS_CHECKED + 1), codec=1, damage=True)
    assert produce(wire, "t", 0, unread).error_code == GOOD
    request = list_offsets_request(("t", 0), ("u", 0), timestamp=0)
    assert [one.partitions[0].error_code for one in wire.call(request, 8).topics] == [BROKEN, GOOD]
