"""Members of KIP-848's groups on real sockets and threads: signals, forks, and what ends a client."""

from __future__ import annotations

import os
import signal
import time
import warnings
from typing import Any

import pytest

from pykafka2 import ConsumerRebalanceListener, KafkaConsumer
from pykafka2.consumer.group.kip848.membership import ConsumerMembership
from pykafka2.errors import ClientFailed, ForkedClientError
from pykafka2.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from pykafka2.testing import KafkaCluster
from tests.consumer.group.classic.test_classic_group_on_sockets import ORDERS, poll_all, produce

pytestmark = pytest.mark.slow


def member(cluster: KafkaCluster, **options: Any) -> KafkaConsumer:
    return KafkaConsumer(
        "orders",
        **{
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "g",
            "group_protocol": "consumer",
            "auto_offset_reset": "earliest",
            **options,
        },
    )


@pytest.mark.gate
@pytest.mark.kafka(topics=ORDERS)
def test_members_share_partitions_and_continue_when_their_coordinator_crashes(
    kafka_cluster: KafkaCluster,
) -> None:
    values = produce(kafka_cluster, 300)
    with member(kafka_cluster) as first, member(kafka_cluster) as second:
        found = poll_all(
            first, second, until=lambda: len(first.assignment()) == len(second.assignment()) == 3
        )
        kafka_cluster.controls.crash_broker(kafka_cluster.coordinator("g"))
        values += produce(kafka_cluster, 300, start=300)
        deadline = time.monotonic() + 20
        while not set(values) <= set(found) and time.monotonic() < deadline:
            for one in (first, second):
                found += [record.value for records in one.poll(20).values() for record in records]
        assert set(values) == set(found)
        for one in (first, second):
            one.commit()


@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_ctrl_c_in_a_listener_leaves_a_member_that_can_continue_or_close(kafka_cluster: KafkaCluster) -> None:
    class Interrupted(ConsumerRebalanceListener):
        times = 0

        def on_partitions_assigned(self, assigned: Any) -> None:
            self.times += 1
            if self.times == 1:
                signal.raise_signal(signal.SIGINT)
                time.sleep(5)

    listener = Interrupted()
    values = produce(kafka_cluster, 60)
    with member(kafka_cluster) as consumer:
        consumer.subscribe(["orders"], listener=listener)
        with pytest.raises(KeyboardInterrupt):
            poll_all(consumer, until=lambda: False)
        found: list[bytes] = []
        deadline = time.monotonic() + 10
        while len(found) < 60 and time.monotonic() < deadline:
            found += [record.value for records in consumer.poll(50).values() for record in records]
        assert sorted(found) == sorted(values)
        assert listener.times == 1
    assert kafka_cluster.group("g").members == {}


@pytest.mark.gate
@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_a_thread_that_computes_keeps_its_membership(kafka_cluster: KafkaCluster) -> None:
    with member(kafka_cluster) as consumer:
        poll_all(consumer, until=consumer.assignment)
        poll_all(consumer, until=lambda: consumer.health()["group"]["state"] == "stable")
        epoch = kafka_cluster.group("g").epoch
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            sum(range(10_000))
        assert kafka_cluster.history.count(ConsumerGroupHeartbeatRequest) > 5
        assert kafka_cluster.group("g").epoch == epoch
        assert len(kafka_cluster.group("g").members) == 1


@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_a_child_of_a_fork_takes_nothing_from_the_member(kafka_cluster: KafkaCluster) -> None:
    with member(kafka_cluster) as consumer:
        poll_all(consumer, until=consumer.assignment)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12+: this process has threads
            child = os.fork()
        if not child:
            status = 1
            try:
                consumer.poll()
            except ForkedClientError:
                consumer.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        values = produce(kafka_cluster, 60)
        found: list[bytes] = []
        deadline = time.monotonic() + 10
        while len(found) < 60 and time.monotonic() < deadline:
            found += [record.value for records in consumer.poll(50).values() for record in records]
        assert sorted(found) == sorted(values)
        assert len(kafka_cluster.group("g").members) == 1


@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_failed_io_thread_is_raised_by_poll(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = member(kafka_cluster)
    poll_all(consumer, until=consumer.assignment)

    def fail(self: ConsumerMembership, now: float) -> Any:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(ConsumerMembership, "_poll_heartbeat", fail)
    with pytest.raises(ClientFailed, match="planted"):
        poll_all(consumer, until=lambda: False)
    assert consumer.health()["state"] == "failed"
    consumer.close(timeout=1)
