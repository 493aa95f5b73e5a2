"""A consumer is never alive and stuck: a partition that does not advance is looked up again, then reported
with its cause.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.errors import ConsumerStalled
from pykafka2.protocol.messages.fetch import FetchRequest, FetchResponse
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.offsets import ListOffsetsPartitionResponse
from pykafka2.types import TopicPartition
from tests.cluster.scripted import Answer, Hold, Later, ScriptedBroker
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)
# Retriable, for the partition alone: KAFKA_STORAGE_ERROR.
STORAGE_ERROR = 56


class StuckCluster(LogCluster):
    """Partition 0 of two answers every fetch with nothing, or an error; the rest of the cluster is well."""

    def __init__(self) -> None:
        super().__init__({"orders": [0, 0]}, brokers=1)
        self.is_stuck = True
        self.error_code = 0
        for _ in range(3):
            self.append("orders", 0, b"x")
        self.on(FetchRequest, self.sparse)

    def sparse(self, request: FetchRequest, broker: ScriptedBroker) -> Answer:
        answer = self.fetch(request, broker)
        if not self.is_stuck or not isinstance(answer, Later):
            return answer
        make = answer.make

        def make_sparse() -> FetchResponse:
            response = make()
            assert isinstance(response, FetchResponse)
            for topic in response.responses:
                for one in topic.partitions:
                    if one.partition_index == 0:
                        one.records, one.error_code = None, self.error_code
            return response

        answer.make = make_sparse
        return answer


def poll_for(cluster: LogCluster, consumer: KafkaConsumer, seconds: float, **how: bool) -> float | None:
    """Poll for so long; when ConsumerStalled was raised first."""
    began = cluster.now
    while cluster.now - began < seconds:
        try:
            consumer.poll(5000, **how)
        except ConsumerStalled:
            return cluster.now - began
    return None


pytestmark = pytest.mark.slow
gate = pytest.mark.gate


@pytest.mark.gate
@pytest.mark.parametrize("error_code", [pytest.param(0, marks=gate), STORAGE_ERROR], ids=["nothing", "error"])
def test_stalled_partition_is_refetched_and_then_raised(
    error_code: int, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = StuckCluster()
    cluster.error_code = error_code
    with cluster.consumer("orders") as consumer, caplog.at_level(logging.WARNING):
        assert poll_for(cluster, consumer, 25) is None
        before = len(cluster.requests(MetadataRequest))
        assert poll_for(cluster, consumer, 25) is None
        assert "orders-0 does not advance" in caplog.text
        assert len(cluster.requests(MetadataRequest)) > before
        assert consumer.health()["partitions"]["orders-0"]["stands_still_for"] >= 30
        assert consumer.health()["partitions"]["orders-1"]["stands_still_for"] == 0
        assert "it has not advanced for" in consumer.explain()
        with pytest.raises(ConsumerStalled, match="orders-0 does not advance: its position has been 0") as it:
            consumer.poll(float("inf"))
        cause = "sends no records from offset 0" if not error_code else "orders-0 at offset 0: "
        assert f"the last error: {'the broker ' * (not error_code)}{cause}" in str(it.value)
        again = poll_for(cluster, consumer, 300)
        assert again is not None
        assert again > 100, "not with every poll"
        cluster.is_stuck = False
        assert consumer.poll(2000)[ORDERS_0]
        assert consumer.health()["partitions"]["orders-0"]["last_trouble"] is None


@gate
def test_endless_poll_raises_consumer_stalled() -> None:
    cluster = StuckCluster()
    with cluster.consumer("orders") as consumer:
        began = cluster.now
        with pytest.raises(ConsumerStalled):
            consumer.poll(float("inf"))
        assert 120 <= cluster.now - began < 150


def test_lost_fetch_response_is_recovered_by_the_stall_detector() -> None:
    cluster = StuckCluster()
    cluster.is_stuck = False
    with cluster.consumer("orders") as consumer:
        assert len(consumer.poll(1000)[ORDERS_0]) == 3
        consumer._core.fetcher._nodes.in_flight[0].node_id = 99  # its answer is lost now
        cluster.append("orders", 0, b"x")
        consumer._core.fetcher.table.readable_ends[ORDERS_0] = 4
        began = cluster.now
        while ORDERS_0 not in consumer.poll(1000):
            assert cluster.now - began < 60


@pytest.mark.parametrize(
    "outage", ["no broker", "no leader", "throttled", "paused", pytest.param("not polled", marks=gate)]
)
def test_conditions_outside_the_client_are_no_stall(outage: str) -> None:
    cluster = StuckCluster()
    with cluster.consumer("orders", default_api_timeout_ms=10_000_000) as consumer:
        consumer.poll(1000)
        consumer.poll(1000)
        if outage == "no broker":
            cluster.brokers[0].stop()
        elif outage == "no leader":
            cluster.topics["orders"].leaders[:] = [-1, -1]
            consumer._core.cluster.metadata.request_update()
        elif outage == "throttled":
            link: Any = consumer._core.cluster.nodes.known_link(0)
            link.connection.throttled_until = cluster.now + 3600
        elif outage == "paused":
            consumer.pause(ORDERS_0)
        else:
            for _ in range(3):
                cluster.runtime.run_for(45)
                assert consumer.poll() == {}
            return
        assert poll_for(cluster, consumer, 200) is None


@pytest.mark.gate
def test_a_partition_that_waits_for_its_turn_does_not_stand_still() -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    for number in range(2):
        cluster.append("orders", number, *[b"x"] * 400)
    with cluster.consumer("orders", max_poll_records=1) as consumer:
        for _ in range(60):  # an application that takes its time
            consumer.poll(1000)
            cluster.runtime.run_for(5)


@pytest.mark.gate
def test_among_many_partitions_a_turn_may_take_minutes(caplog: pytest.LogCaptureFixture) -> None:
    """Each has data in the buffer, and the application takes one record in eleven seconds."""
    cluster = LogCluster({"orders": [0] * 14}, brokers=1)
    for number in range(14):
        cluster.append("orders", number, *[b"x"] * 10)
    with cluster.consumer("orders", max_poll_records=1) as consumer:
        for _ in range(40):
            assert consumer.poll(1000)
            cluster.runtime.run_for(11)
    assert "does not advance" not in caplog.text


@pytest.mark.gate
def test_time_without_poll_does_not_count_as_a_stall() -> None:
    """A suspended laptop, or an application that computes: no partition could have advanced meanwhile."""
    cluster = StuckCluster()
    with cluster.consumer("orders") as consumer:
        consumer.poll(15_000)
        for _ in range(3):
            cluster.runtime.run_for(200)
            consumer.poll()
        assert max(one["stands_still_for"] for one in consumer.health()["partitions"].values()) < 60


def test_unanswered_reset_raises_consumer_stalled() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    refusal = ListOffsetsPartitionResponse(partition_index=0, error_code=STORAGE_ERROR)
    cluster._list_partition = lambda *arguments: refusal  # type: ignore[method-assign]
    with (
        cluster.consumer("orders") as consumer,
        pytest.raises(ConsumerStalled, match=r"orders-0.*no position was found for.*last error"),
    ):
        consumer.poll(float("inf"))


@pytest.mark.gate
def test_repeated_poll_without_position_updates_is_no_stall() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, b"a", b"b")
    with cluster.consumer("orders") as consumer:
        consumer.poll(1000, update_offsets=False)
        began = cluster.now
        while cluster.now - began < 300:
            assert len(consumer.poll(1000, update_offsets=False)[ORDERS_0]) == 2
            cluster.runtime.run_for(5)
        assert "advance" not in consumer.explain()


@pytest.mark.gate
def test_poll_without_position_updates_raises_if_stalled() -> None:
    """Also after it has found something else once."""
    cluster = StuckCluster()
    cluster.append("orders", 1, b"y")
    with cluster.consumer("orders") as consumer:
        assert len(consumer.poll(1000, update_offsets=False)) == 1
        assert len(consumer.poll(1000)) == 1
        stalled_after = poll_for(cluster, consumer, 200, update_offsets=False)
    assert stalled_after is not None


def test_waiting_poll_checks_for_stalls_rarely() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    with cluster.consumer("orders") as consumer:
        for _ in range(5):
            assert consumer.poll(7000) == {}
            assert consumer._core.poller.stall_detector.due_at > cluster.now


def test_a_leader_that_throttles_is_ridden_out_though_another_broker_answers() -> None:
    cluster = LogCluster({"orders": [1]}, brokers=2)
    cluster.append("orders", 0, b"x")
    cluster.brokers[1].on(FetchRequest, lambda request, broker: FetchResponse(responses=[]))
    with cluster.consumer("orders") as consumer:
        consumer.poll(1000)
        link: Any = consumer._core.cluster.nodes.known_link(1)
        link.connection.throttled_until = cluster.now + 3600
        assert poll_for(cluster, consumer, 200) is None


@pytest.fixture
def silent() -> LogCluster:
    """Broker 0 never answers a fetch; broker 1 does."""
    cluster = LogCluster({"orders": [0, 1]}, brokers=2)
    cluster.append("orders", 0, b"x")
    cluster.brokers[0].on(FetchRequest, lambda request, broker: Hold())
    return cluster


def test_fetch_max_wait_does_not_count_as_a_stall(silent: LogCluster) -> None:
    options = {"fetch_max_wait_ms": 60_000, "request_timeout_ms": 10_000_000}
    with silent.consumer(**options) as consumer:
        consumer.assign([ORDERS_0])
        assert poll_for(silent, consumer, 160) is None
        assert poll_for(silent, consumer, 60) is not None


def test_other_partitions_are_read_beside_a_stalled_one(
    silent: LogCluster, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"fetch_max_wait_ms": 10_000, "request_timeout_ms": 10_000_000}
    with silent.consumer("orders", **options) as consumer:
        for _ in range(16):
            silent.append("orders", 1, b"x")
            assert consumer.poll(1000)
            silent.runtime.run_for(10)
    assert "the next poll() tries again" in caplog.text
    assert caplog.text.count("rediscovering it") == 1
