"""Several offset lookups at once: which broker gets which partitions, and when the driver calls again."""

from __future__ import annotations

import random
import re
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka2.consumer.fetch.offset_lookups import OffsetLookup, OffsetLookups
from pykafka2.driver.pollable import Send
from pykafka2.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    TopicAuthorizationFailed,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnsupportedForMessageFormat,
)
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykafka2.types import PartitionInfo, TopicPartition
from tests.cluster.scripted import Hold
from tests.consumer.logs import LogCluster

ORDERS = [TopicPartition("orders", number) for number in range(4)]
EARLIEST, LATEST = -2, -1


class Bench:
    """Lookups in a cluster of two nodes; partition n is led by n % 2."""

    def __init__(self) -> None:
        self.metadata_requests = 0
        self.metadata = metadata = SimpleNamespace(
            want_topic=lambda topic, now: None,
            topic_error=lambda topic: None,
            leader_of=lambda topic, number: PartitionInfo(topic, number, number % 2, 5, (0, 1), (0, 1)),
            partition=lambda topic, number: PartitionInfo(topic, number, number % 2, 5, (0, 1), (0, 1)),
            request_update=self._request_update,
        )
        cluster: Any = SimpleNamespace(
            metadata=metadata,
            nodes=SimpleNamespace(has_connection=True),
            options=SimpleNamespace(retry_backoff=0.1, retry_backoff_max=1.0, request_timeout=30.0),
            driver=SimpleNamespace(entropy=SimpleNamespace(random=random.Random(1))),
        )
        self.lookups = OffsetLookups(cluster, isolation=0)
        self.found: list[tuple[TopicPartition, int, int]] = []
        self.failed: list[tuple[TopicPartition, KafkaError]] = []

    def _request_update(self, error: KafkaError | None = None) -> None:
        self.metadata_requests += 1

    def look_up(self, partition: TopicPartition, timestamp: int = LATEST, **more: float) -> OffsetLookup:
        lookup = OffsetLookup(
            partition,
            timestamp,
            on_found=lambda found, now: self.found.append((partition, timestamp, found.offset)),  # type: ignore[union-attr]
            on_failed=lambda error, now: self.failed.append((partition, error)),
            **more,  # type: ignore[arg-type]
        )
        self.lookups.add(lookup)
        return lookup


def requested(send: Send[Any]) -> list[tuple[int, int]]:
    request = send.request
    assert isinstance(request, ListOffsetsRequest)
    return [(one.partition_index, one.timestamp) for topic in request.topics for one in topic.partitions]


def answer(send: Send[Any], now: float, code: int = 0) -> None:
    """Answer every partition: with this error, or with an offset of 10 times its number and its time."""
    partitions = [
        ListOffsetsPartitionResponse(
            partition_index=number, error_code=code, offset=10 * number + timestamp + 2, timestamp=-1
        )
        for number, timestamp in requested(send)
    ]
    topics = [ListOffsetsTopicResponse(name="orders", partitions=partitions)]
    send.on_response(ListOffsetsResponse(topics=topics), now)


@pytest.mark.parametrize("deadlines", [(5.0, 9.0), (9.0, 5.0)])
def test_driver_wakes_at_the_earliest_lookup_deadline(deadlines: tuple[float, float]) -> None:
    bench = Bench()
    for partition, deadline in zip(ORDERS, deadlines, strict=False):
        bench.look_up(partition, deadline=deadline)
    assert [bench.lookups.poll(now).wake_at for now in (0.0, 1.0)] == [5.0, 5.0], "also in flight"
    assert bench.lookups.poll(5.0).wake_at == 9.0
    assert bench.lookups.poll(9.0).wake_at == float("inf")
    assert [type(error) for _, error in bench.failed] == [KafkaTimeoutError] * 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_driver_wakes_at_the_end_of_the_first_of_two_backoffs(order: tuple[int, int]) -> None:
    bench = Bench()
    lookups = [bench.look_up(ORDERS[number], deadline=60.0) for number in order]
    sends = bench.lookups.poll(0.0).sends
    for send, at in zip(sends, (1.0, 1.5), strict=True):
        answer(send, at, NotLeaderOrFollower.code)
    assert bench.metadata_requests == 2
    first = min(lookup.not_before for lookup in lookups)
    assert first < 1.5
    # The first of them is due at 1.5; it was not visited in between.
    for lookup in lookups:
        lookup.not_before += 1.0
    assert bench.lookups.poll(1.6).wake_at == first + 1.0


@pytest.mark.parametrize(
    ("error", "refreshes"), [(NotLeaderOrFollower, 2), (UnknownLeaderEpoch, 2), (UnknownServerError, 0)]
)
def test_offset_lookups_are_retried_after_retriable_errors(error: type[BrokerError], refreshes: int) -> None:
    bench = Bench()
    for partition in ORDERS[:2]:
        bench.look_up(partition, deadline=60.0)
    for send in bench.lookups.poll(0.0).sends:
        answer(send, 1.0, error.code or 0)
    assert bench.metadata_requests == refreshes
    for send in bench.lookups.poll(3.0).sends:
        answer(send, 3.0)
    assert bench.found == [(ORDERS[0], LATEST, 1), (ORDERS[1], LATEST, 11)]
    assert bench.failed == []


@pytest.mark.parametrize(
    ("is_usable", "expected"),
    [(True, "topic 'orders' has 2 partitions and no partition [23]"), (False, "orders is being created")],
)
def test_lookup_timeout_names_the_missing_partition_or_topic_error(is_usable: bool, expected: str) -> None:
    bench = Bench()
    metadata = bench.metadata
    metadata.leader_of = lambda topic, number: None
    metadata.topic = lambda topic: SimpleNamespace(is_usable=is_usable, partitions=dict.fromkeys(range(2)))
    if not is_usable:
        metadata.topic_error = lambda topic: LeaderNotAvailable("orders is being created")
    for partition in ORDERS[2:]:
        bench.look_up(partition, deadline=5.0)
    bench.lookups.poll(0.0)
    bench.lookups.poll(5.0)
    assert [partition for partition, _ in bench.failed] == ORDERS[2:]
    for _, error in bench.failed:
        assert re.search(expected, str(error))


def test_equal_questions_share_a_request_and_different_ones_for_a_partition_follow_each_other() -> None:
    bench = Bench()
    for timestamp in (LATEST, EARLIEST, LATEST, EARLIEST):
        for partition in (ORDERS[0], ORDERS[2]):
            bench.look_up(partition, timestamp)
    requests = []
    for now in (0.0, 1.0):
        [send] = bench.lookups.poll(now).sends
        requests.append(requested(send))
        answer(send, now)
    assert requests == [[(0, LATEST), (2, LATEST)], [(0, EARLIEST), (2, EARLIEST)]]
    assert sorted(bench.found) == sorted(
        [(ORDERS[0], LATEST, 1), (ORDERS[2], LATEST, 21), (ORDERS[0], EARLIEST, 0), (ORDERS[2], EARLIEST, 20)]
        * 2
    )
    assert bench.lookups.poll(2.0).sends == []


def test_first_of_two_errors_in_a_list_offsets_response_is_raised() -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    codes = (TopicAuthorizationFailed.code, UnsupportedForMessageFormat.code)

    def refuse(request: ListOffsetsRequest, broker: object) -> ListOffsetsResponse:
        partitions = [
            ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=code)
            for topic in request.topics
            for one, code in zip(topic.partitions, codes, strict=True)
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=partitions)])

    cluster.on(ListOffsetsRequest, refuse)
    with cluster.consumer() as consumer, pytest.raises(TopicAuthorizationFailed, match="orders-0"):
        consumer.end_offsets(ORDERS[:2])


@pytest.mark.parametrize("lead_ms", [-10, 0, 10], ids=["call first", "together", "request first"])
def test_silent_leader_is_a_timeout_whether_the_call_or_its_request_ends_first(lead_ms: int) -> None:
    """The request's timeout closes the only connection, but its broker was reached."""
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.on(ListOffsetsRequest, lambda request, broker: Hold())
    with (
        cluster.consumer(request_timeout_ms=2_000) as consumer,
        pytest.raises(KafkaTimeoutError, match="looking up an offset of orders-0 timed out"),
    ):
        consumer.end_offsets(ORDERS[:1], 2_000 + lead_ms)
