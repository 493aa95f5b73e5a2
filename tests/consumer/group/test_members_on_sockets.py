"""Members of classic and KIP-848 groups on real sockets and threads: signals, forks, crashes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from pykafka2 import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from pykafka2.consumer.group.classic.membership import Membership
from pykafka2.consumer.group.kip848.membership import ConsumerMembership
from pykafka2.errors import ClientFailed, ConcurrentUse, ForkedClientError
from pykafka2.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from pykafka2.protocol.messages.group import HeartbeatRequest, SyncGroupRequest
from pykafka2.testing import KafkaCluster
from tests.forks import in_child
from tests.gate import rest_in_gate

pytestmark = pytest.mark.slow

ORDERS = {"orders": 6}
PROTOCOLS = ["classic", "consumer"]
TIMES = {"classic": {"heartbeat_interval_ms": 100, "session_timeout_ms": 10_000}, "consumer": {}}
"""In a KIP-848 group the coordinator sets these times."""


def member(cluster: KafkaCluster, protocol: str = "classic", **options: Any) -> KafkaConsumer:
    return KafkaConsumer(
        "orders",
        **{
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "g",
            "group_protocol": protocol,
            "auto_offset_reset": "earliest",
            **TIMES[protocol],
            **options,
        },
    )


def produce(cluster: KafkaCluster, count: int, start: int = 0) -> list[bytes]:
    values = [b"%d" % number for number in range(start, start + count)]
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            producer.send("orders", value, partition=number % 6)
    return values


def poll_all(*members: KafkaConsumer, until: Any, seconds: float = 60) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, [one.explain() for one in members]
        for one in members:
            for records in one.poll(timeout_ms=20).values():
                found += [record.value for record in records]
    return found


def read(consumer: KafkaConsumer, count: int) -> list[bytes]:
    """Poll until there are `count` values or a minute has passed."""
    found: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += [record.value for records in consumer.poll(50).values() for record in records]
    return found


@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_no_lock_is_held_while_a_listener_runs(kafka_cluster: KafkaCluster) -> None:
    """But the guard of the single owner: another thread's questions are answered, and its poll refused."""
    answered: list[str] = []

    def ask() -> None:
        assert consumer.health()["partitions"].keys() == {f"orders-{number}" for number in range(6)}
        assert consumer.metrics()["assigned-partitions"] == 6
        assert consumer.explain()
        assert consumer._core.poller._buffer._lock.acquire(blocking=False)
        consumer._core.poller._buffer._lock.release()
        consumer.wakeup()
        with pytest.raises(ConcurrentUse):
            consumer.poll()
        answered.append("all")

    def on_assigned(partitions: object) -> None:
        other = threading.Thread(target=ask)
        other.start()
        other.join(30)

    with KafkaConsumer(group_id="g", bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
        consumer.subscribe(["orders"], on_assigned=on_assigned)
        poll_all(consumer, until=lambda: consumer.assignment() != set())
        assert answered == ["all"]


@pytest.mark.gate
@pytest.mark.kafka(topics=ORDERS)
def test_iteration_in_a_group_reads_every_record_once(kafka_cluster: KafkaCluster) -> None:
    values = produce(kafka_cluster, 300)
    with member(kafka_cluster, consumer_timeout_ms=4000) as first:
        assert sorted(record.value for record in first) == sorted(values)
    more = produce(kafka_cluster, 60, start=300)
    with member(kafka_cluster, consumer_timeout_ms=4000) as second:
        assert sorted(record.value for record in second) == sorted(more), "from the commits on"


@pytest.mark.gate
@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_ctrl_c_in_a_poll_that_waits_for_the_group_comes_at_once(kafka_cluster: KafkaCluster) -> None:
    with member(kafka_cluster) as first, member(kafka_cluster) as second:
        poll_all(first, until=first.assignment)
        # The second one waits for the first, which does not poll.
        pressed: list[float] = []

        def press() -> None:
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.3, press)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            second.poll(timeout_ms=30_000)
        # A tenth of a second on an idle machine; this one may be busy.
        assert time.monotonic() - pressed[0] < 10
        timer.join()
        poll_all(first, second, until=lambda: len(first.assignment()) == len(second.assignment()) == 3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_ctrl_c_in_a_listener_leaves_a_member_that_can_continue_or_close(
    kafka_cluster: KafkaCluster, protocol: str
) -> None:
    class Interrupted(ConsumerRebalanceListener):
        times = 0

        def on_partitions_assigned(self, assigned: Any) -> None:
            self.times += 1
            if self.times == 1:
                signal.raise_signal(signal.SIGINT)
                time.sleep(5)

    listener = Interrupted()
    values = produce(kafka_cluster, 60)
    with member(kafka_cluster, protocol) as consumer:
        consumer.subscribe(["orders"], listener=listener)
        with pytest.raises(KeyboardInterrupt):
            poll_all(consumer, until=lambda: False)
        assert sorted(read(consumer, 60)) == sorted(values)
        assert listener.times == 1
    assert kafka_cluster.group("g").members == {}


@pytest.mark.gate
@pytest.mark.parametrize(
    ("protocol", "heartbeat"),
    [("classic", HeartbeatRequest), ("consumer", ConsumerGroupHeartbeatRequest)],
    ids=PROTOCOLS,
)
@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_a_thread_that_computes_keeps_its_membership(
    kafka_cluster: KafkaCluster, protocol: str, heartbeat: type
) -> None:
    """It sends heartbeats; a session is longer than the test, as a busy machine can be late for it."""
    with member(kafka_cluster, protocol) as consumer:
        poll_all(consumer, until=consumer.assignment)
        poll_all(consumer, until=lambda: consumer.health()["group"]["state"] == "stable")
        generation, before = kafka_cluster.group("g").epoch, kafka_cluster.history.count(heartbeat)
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            sum(range(10_000))
        assert kafka_cluster.history.count(heartbeat) > before + 5
        assert kafka_cluster.group("g").epoch == generation
        assert len(kafka_cluster.group("g").members) == 1


@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_another_thread_is_refused_while_one_waits_for_the_group(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.controls.hold(SyncGroupRequest)
    consumer = member(kafka_cluster)
    thread = threading.Thread(target=consumer.poll, args=(20_000,))
    thread.start()
    deadline = time.monotonic() + 60
    while not kafka_cluster.controls.held(SyncGroupRequest):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for call in (consumer.unsubscribe, consumer.close, lambda: consumer.subscribe(["orders"])):
        with pytest.raises(ConcurrentUse):
            call()
    consumer.wakeup()
    thread.join(30)
    assert not thread.is_alive()
    consumer.close(timeout=1)


@pytest.mark.gate
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_a_child_of_a_fork_takes_nothing_from_the_member(kafka_cluster: KafkaCluster, protocol: str) -> None:
    with member(kafka_cluster, protocol) as consumer:
        poll_all(consumer, until=consumer.assignment)

        def is_refused() -> bool:
            with pytest.raises(ForkedClientError):
                consumer.poll()
            consumer.close()
            return True

        assert in_child(is_refused)
        values = produce(kafka_cluster, 60)
        found = poll_all(consumer, until=lambda: kafka_cluster.group("g").state == "Stable")
        found += read(consumer, 60 - len(found))
        assert sorted(found) == sorted(values)
        assert len(kafka_cluster.group("g").members) == 1


@pytest.mark.gate
@pytest.mark.parametrize(
    ("protocol", "membership"), [("classic", Membership), ("consumer", ConsumerMembership)], ids=PROTOCOLS
)
@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_failed_io_thread_is_raised_by_poll(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, protocol: str, membership: type
) -> None:
    values = produce(kafka_cluster, 60)
    consumer = member(kafka_cluster, protocol)
    assert sorted(read(consumer, 60)) == sorted(values)

    def fail(self: Any, now: float) -> Any:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(membership, "_poll_heartbeat", fail)
    with pytest.raises(ClientFailed, match="planted"):
        poll_all(consumer, until=lambda: False)
    assert consumer.health()["state"] == "failed"
    assert "planted" in consumer.explain()
    consumer.close(timeout=1)


@pytest.mark.gate
@pytest.mark.parametrize("protocol", rest_in_gate(PROTOCOLS))
@pytest.mark.kafka(topics=ORDERS)
def test_group_continues_when_its_coordinator_crashes(kafka_cluster: KafkaCluster, protocol: str) -> None:
    values = produce(kafka_cluster, 300)
    with member(kafka_cluster, protocol) as first, member(kafka_cluster, protocol) as second:
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


ENDS_WITHOUT_CLOSE = """
import sys, warnings
from pykafka2 import KafkaConsumer
warnings.simplefilter("ignore", ResourceWarning)
consumer = KafkaConsumer("orders", bootstrap_servers=sys.argv[1], group_id="g")
while not consumer.assignment():
    consumer.poll(timeout_ms=100)
print("joined", flush=True)
"""


@pytest.mark.gate
@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_a_program_that_ends_without_close_is_not_waited_for(kafka_cluster: KafkaCluster) -> None:
    child = subprocess.run(
        [sys.executable, "-c", ENDS_WITHOUT_CLOSE, kafka_cluster.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (child.returncode, child.stdout) == (0, "joined\n"), child.stderr
    assert kafka_cluster.group("g").members == {}
    assert kafka_cluster.group("g").offsets == {}, "what it was handed may not be done"
