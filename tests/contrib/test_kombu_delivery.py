"""Deliveries of the kombu transport in unusual situations: many queues and channels, bad messages, forks."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("kombu")

import kombu
from kombu.asynchronous import Hub
from kombu.exceptions import ChannelError

from pykafka2 import KafkaProducer, TopicPartition
from pykafka2.admin.config_values import ConfigResource, ConfigResourceType
from pykafka2.contrib.kombu import channel as channel_module
from pykafka2.contrib.kombu import readers as readers_module
from pykafka2.contrib.kombu.cluster import topic_name
from pykafka2.errors import KafkaTimeoutError, MessageTooLarge
from pykafka2.share.node_session import NodeSession
from pykafka2.share.sessions import ShareSessions
from pykafka2.testing import KafkaCluster
from tests.contrib import test_kombu
from tests.contrib.test_kombu import Consumer, got, publish, transient
from tests.share.world import QUICK

pytestmark = pytest.mark.gate

cluster, connect, hub, queue = test_kombu.cluster, test_kombu.connect, test_kombu.hub, test_kombu.queue

Connect = Callable[..., kombu.Connection]

LESS_THAN_A_LOCK = 12.0
"""Seconds within which no message comes only because its lock has expired, which takes 15."""

BAD_MESSAGES = [
    b"[" * 100_000,
    b'{"__type__": "decimal", "__value__": "x"}',
    b'{"__type__": [], "__value__": 1}',
    b'{"properties": {"delivery_info": "x"}}',
    b'{"properties": {"delivery_info": [1]}}',
    b'{"properties": {"delivery_info": {}, "body_encoding": "rot13"}, "body": "eA=="}',
    b'{"properties": {"delivery_info": {}, "body_encoding": 3}, "body": "eA=="}',
    b'{"properties": {"delivery_info": {}, "body_encoding": "base64"}, "body": "x"}',
    b'{"properties": {"delivery_info": {}}, "body": "x", "headers": [1]}',
    b"\xff",
]


@pytest.mark.slow
def test_bad_messages_are_rejected(cluster: KafkaCluster, connect: Connect, queue: kombu.Queue) -> None:
    connection = connect()
    bound = queue(connection.channel())
    bound.declare()
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for bad in BAD_MESSAGES:
            producer.send(topic_name(f"kombu.queue.{queue.name}"), bad)
    publish(connection, queue, "one")
    consumer = Consumer(connection, queue, prefetch_count=1)
    (message,) = consumer.take()
    assert message.payload == "one"
    message.ack()
    while bound.queue_declare(passive=True).message_count:
        time.sleep(0.01)  # until the acknowledgements have arrived


def test_bad_broadcasts_are_ignored(cluster: KafkaCluster, connect: Connect) -> None:
    exchange = kombu.Exchange("bad broadcasts", type="fanout")
    connection = connect()
    consumer = Consumer(connection, transient(exchange), no_ack=True)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for bad in BAD_MESSAGES:
            for info in ({}, {"exchange": exchange.name}, {"exchange": exchange.name, "routing_key": 5}):
                value = bad.replace(b'"delivery_info": {}', b'"delivery_info": ' + json.dumps(info).encode())
                producer.send(topic_name(f"kombu.exchange.{exchange.name}"), value)
    connection.Producer().publish("good", exchange=exchange)
    assert consumer.payloads() == ["good"]


# ---------------------------------------------------------------------- prefetch


@pytest.mark.slow
def test_two_queues_share_the_prefetch_count(connect: Connect, queue: kombu.Queue) -> None:
    other = kombu.Queue(f"{queue.name}-other", kombu.Exchange(f"other {queue.name}"), routing_key="other")
    one, two = connect(consumer_options={"fetch_max_wait_ms": 1000}), connect()
    other(one.channel()).declare()
    busy = Consumer(one, queue, other, prefetch_count=2)
    publish(one, queue, "long")
    (long,) = busy.take()
    publish(one, other, "longer")
    (longer,) = busy.take()
    publish(one, other, "short")  # while the requests of both queues are in flight
    publish(one, queue, "shorter")
    idle = Consumer(two, queue, other)
    assert sorted(message.payload for message in idle.take(2, LESS_THAN_A_LOCK)) == ["short", "shorter"]
    long.ack()
    longer.ack()


@pytest.mark.slow
def test_messages_that_a_late_request_brings_are_released(
    connect: Connect, queue: kombu.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The IO thread of a busy machine can send a request after its poll has ended, and the prefetch count
    is reached."""
    fetch, want_records = NodeSession._fetch, ShareSessions.want_records

    def fetch_late(session: NodeSession, *arguments: Any) -> Any:
        if session.epoch:
            time.sleep(0.03)
        return fetch(session, *arguments)

    def want_late(sessions: ShareSessions, limit: int) -> bool:
        time.sleep(0.05)
        return want_records(sessions, limit)

    monkeypatch.setattr(NodeSession, "_fetch", fetch_late)
    monkeypatch.setattr(ShareSessions, "want_records", want_late)
    test_two_queues_share_the_prefetch_count(connect, queue)


@pytest.mark.slow
def test_lowered_prefetch_count_leaves_messages_to_others(connect: Connect, queue: kombu.Queue) -> None:
    one, two = connect(), connect()
    publish(one, queue, 0)
    first = Consumer(one, queue)
    first.take()[0].ack()  # now it polls without a limit
    first.consumer.qos(prefetch_count=1)
    publish(two, queue, *range(4))
    first.take()
    assert len(Consumer(two, queue).take(3, LESS_THAN_A_LOCK)) == 3


@pytest.mark.slow
def test_without_prefetch_count_more_messages_than_a_poll_returns_are_in_work(
    connect: Connect, queue: kombu.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (channel_module, readers_module):
        monkeypatch.setattr(module, "MOST_RECORDS", 5)
    connection = connect()
    consumer = Consumer(connection, queue)
    publish(connection, queue, *range(12))
    assert sorted(message.payload for message in consumer.take(12, LESS_THAN_A_LOCK)) == [*range(12)]


def test_message_after_a_cancelled_consumer_is_got_at_once(connect: Connect, queue: kombu.Queue) -> None:
    connection = connect()
    publish(connection, queue, "one", "two")
    consumer = Consumer(connection, queue, prefetch_count=1)
    consumer.take()
    consumer.consumer.cancel()
    assert consumer.messages == []
    message = queue(consumer.consumer.channel).get()
    assert message is not None
    assert message.payload == "two"


# ---------------------------------------------------------------------- channels and consumers


@pytest.mark.slow
def test_two_channels_of_a_connection_consume_one_queue(connect: Connect, queue: kombu.Queue) -> None:
    connection = connect()
    first = Consumer(connection, queue, prefetch_count=1)
    second = Consumer(connection, queue, prefetch_count=1)
    publish(connection, queue, "one", "two")
    while len(first.messages) + len(second.messages) < 2:
        connection.drain_events(timeout=LESS_THAN_A_LOCK)
    assert len(first.messages) == len(second.messages) == 1
    for message in (*first.messages, *second.messages):
        message.ack()
    second.messages.clear()
    first.consumer.cancel()
    publish(connection, queue, "three")
    assert [message.payload for message in second.take(1, LESS_THAN_A_LOCK)] == ["three"]


def test_other_consumer_of_a_channel_consumes_after_a_cancel(connect: Connect, queue: kombu.Queue) -> None:
    connection = connect()
    channel = connection.channel()
    messages: list[Any] = []
    queue(channel).declare()
    for tag in ("a", "b"):
        channel.basic_consume(queue.name, False, messages.append, tag)
    channel.basic_cancel("b")
    publish(connection, queue, "one")
    while not messages:
        connection.drain_events(timeout=LESS_THAN_A_LOCK)
    messages[0].ack()


@pytest.mark.slow
def test_multiple_acknowledges_the_messages_before_it_and_other_channels_none(
    connect: Connect, queue: kombu.Queue
) -> None:
    connection = connect()
    publish(connection, queue, *range(4))
    consumer = Consumer(connection, queue)
    messages = consumer.take(4)
    other = connection.channel()
    other.basic_ack(messages[3].delivery_tag)
    other.basic_ack(messages[3].delivery_tag, multiple=True)
    messages[2].ack(multiple=True)
    connection.release()
    (last,) = Consumer(connect(), queue).take()
    assert last.payload == messages[3].payload


@pytest.mark.slow
def test_rejected_and_acknowledged_records_have_these_states(
    cluster: KafkaCluster, connect: Connect, queue: kombu.Queue
) -> None:
    connection = connect()
    publish(connection, queue, *range(3))
    messages = sorted(Consumer(connection, queue).take(3), key=lambda message: message.payload)
    messages[1].reject()
    messages[2].ack()
    topic = topic_name(f"kombu.queue.{queue.name}")

    def states() -> tuple[list[int], list[int]]:
        view = cluster.share_partition(topic, TopicPartition(topic, 0))
        return view.offsets("ARCHIVED"), view.offsets("ACKNOWLEDGED")

    cluster.wait_until(lambda: states() == ([1], [2]))


@pytest.mark.slow
def test_cancelled_consumer_leaves_its_group_and_the_messages_that_were_not_delivered(
    cluster: KafkaCluster, connect: Connect, queue: kombu.Queue
) -> None:
    one, two = connect(), connect()
    publish(one, queue, *range(3))
    first = Consumer(one, queue)
    reader = first.consumer.channel._readers[queue.name]
    cluster.wait_until(lambda: len(reader.waiting) == 3)
    first.consumer.cancel()
    assert not reader.held
    cluster.wait_until(lambda: not two.transport.cluster.is_used(queue.name))
    assert len(Consumer(two, queue).take(3, LESS_THAN_A_LOCK)) == 3


@pytest.mark.slow
def test_close_at_the_limit_of_deliveries_keeps_the_message(connect: Connect, queue: kombu.Queue) -> None:
    connection = connect(group_config={"share.delivery.count.limit": "2"})
    publish(connection, queue, "one")
    consumer = Consumer(connection, queue)
    consumer.take()[0].requeue()
    consumer.take()
    connection.release()
    assert Consumer(connect(), queue).payloads() == ["one"]


@pytest.mark.slow
def test_requeue_that_fails_can_be_repeated(
    connect: Connect, queue: kombu.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect(group_config={"share.delivery.count.limit": "2"})
    publish(connection, queue, "one")
    consumer = Consumer(connection, queue)
    consumer.take()[0].requeue()
    (message,) = consumer.take()
    with monkeypatch.context() as patch:
        patch.setattr(connection.transport.cluster, "put", fail)
        with pytest.raises(KafkaTimeoutError):
            message.requeue()
    message.requeue()
    assert consumer.payloads() == ["one"]


def fail(*arguments: object) -> None:
    raise KafkaTimeoutError("no broker")


@pytest.mark.slow
def test_lock_of_a_long_task_is_renewed_after_its_consumer_is_cancelled(
    cluster: KafkaCluster, connect: Connect, queue: kombu.Queue
) -> None:
    one, two = connect(group_config={"share.record.lock.duration.ms": "4000"}), connect()
    publish(one, queue, "long")
    first = Consumer(one, queue, prefetch_count=1)
    (message,) = first.take()
    first.consumer.cancel()
    second = Consumer(two, queue)
    cluster.forget()
    cluster.wait_until(lambda: renewals(cluster, queue) >= 2, timeout=60, what="renewals")  # a whole lock
    assert second.is_idle()
    message.ack()


def renewals(cluster: KafkaCluster, queue: kombu.Queue) -> int:
    group = topic_name(f"kombu.queue.{queue.name}")
    requests = [entry.request for entry in cluster.history.entries("ShareAcknowledge")]
    return sum(request.group_id == group and request.is_renew_ack for request in requests)


@pytest.mark.slow
def test_messages_with_locks_lost_before_their_delivery_run_once(queue: kombu.Queue) -> None:
    with (
        KafkaCluster(brokers=1, config=QUICK) as cluster,
        kombu.Connection(f"pykafka2://{cluster.bootstrap_servers}//") as connection,
    ):
        consumer = Consumer(connection, queue)
        publish(connection, queue, *range(3))
        reader = consumer.consumer.channel._readers[queue.name]
        cluster.wait_until(lambda: len(reader.waiting) == 3)
        cluster.controls.restart_broker(0)
        cluster.wait_until(lambda: len(reader.waiting) == 6)
        assert consumer.payloads(3) == [0, 1, 2]
        assert consumer.is_idle(0)
        assert len(reader.held) == 3


# ---------------------------------------------------------------------- queues and exchanges


def test_queue_that_another_process_has_deleted_is_declared_again(
    connect: Connect, queue: kombu.Queue
) -> None:
    one, two = connect(), connect(producer_options={"linger_ms": 1})  # with clients of its own
    bound = queue(one.channel())
    bound.declare()
    queue(two.channel()).delete()
    with pytest.raises(ChannelError):
        bound.queue_declare(passive=True)
    bound.declare()
    publish(one, queue, "new")
    assert got(bound).payload == "new"


def test_deleted_queue_leaves_no_group(connect: Connect, queue: kombu.Queue) -> None:
    connection = connect()
    publish(connection, queue, "one")
    bound = queue(connection.channel())
    got(bound).ack()
    group = topic_name(f"kombu.queue.{queue.name}")
    admin = connection.transport.cluster._admin
    assert not admin.describe_share_groups([group], raise_errors=False).errors
    bound.delete()
    assert admin.describe_share_groups([group], raise_errors=False).errors


def test_publish_raises_the_error_of_the_broker(connect: Connect, queue: kombu.Queue) -> None:
    connection = connect(topic_config={"max.message.bytes": "1000"})
    with pytest.raises(MessageTooLarge):
        publish(connection, queue, "x" * 2000)


def test_deleted_exchange_keeps_queues_that_are_used(connect: Connect, queue: kombu.Queue) -> None:
    one, two = connect(), connect()
    assert not two.transport.cluster.is_used(queue.name)  # it has no group yet
    Consumer(one, queue)
    bound = queue(two.channel())
    bound.declare()
    while not two.transport.cluster.is_used(queue.name):
        time.sleep(0.01)
    queue.exchange(two.channel()).delete()
    queue(one.channel()).queue_declare(passive=True)


def test_message_for_a_queue_without_an_exchange_waits_for_its_consumer(connect: Connect) -> None:
    connection = connect()
    Consumer(connect(), kombu.Queue("some reply", exclusive=True))  # so that the default exchange has a topic
    queue = kombu.Queue("deleted with its last consumer", auto_delete=True)
    queue(connection.channel()).declare()
    connection.Producer().publish("one", routing_key=queue.name)
    assert Consumer(connection, queue).payloads() == ["one"]


def test_collected_connection_binds_its_transient_queues_again(connect: Connect) -> None:
    exchange = kombu.Exchange("bound again", type="fanout")
    connection = connect()
    queue = transient(exchange)
    Consumer(connection, queue)
    connection.collect()
    consumer = Consumer(connection, queue, no_ack=True)
    connect().Producer().publish("good", exchange=exchange, declare=[exchange])
    assert consumer.payloads() == ["good"]


def test_queue_that_is_bound_after_its_exchange_lost_its_topic(
    cluster: KafkaCluster, connect: Connect
) -> None:
    exchange = kombu.Exchange("deleted", type="fanout")
    connection = connect()
    transient(exchange)(connection.channel()).declare()
    cluster.delete_topic("kombu.exchange.deleted")
    consumer = Consumer(connect(), transient(exchange), no_ack=True)
    connection.Producer().publish("good", exchange=exchange)
    assert consumer.payloads() == ["good"]


def test_queue_gets_no_broadcast_from_before_its_binding(connect: Connect) -> None:
    exchange = kombu.Exchange("early and late", type="fanout")
    connection = connect()
    first = Consumer(connection, transient(exchange), no_ack=True)
    connection.Producer().publish("early", exchange=exchange)
    assert first.payloads() == ["early"]
    second = Consumer(connect(), transient(exchange), no_ack=True)
    connection.Producer().publish("late", exchange=exchange)
    assert [second.payloads(), first.payloads()] == [["late"], ["late"]]
    first.consumer.cancel()
    assert not connection.transport.transients.by_name


def test_purged_transient_queue_and_retention_of_exchanges(connect: Connect) -> None:
    exchange = kombu.Exchange("purged", type="fanout")
    connection = connect()
    consumer = Consumer(connection, transient(exchange), kombu.Queue("purged reply", exclusive=True))
    consumer.consumer.qos(prefetch_count=1)
    for body in range(3):
        connection.Producer().publish(body, exchange=exchange)
    (message,) = consumer.take()
    waiting = connection.transport.transients.by_name[consumer.consumer.queues[0].name].waiting
    while len(waiting) < 2:
        with contextlib.suppress(TimeoutError):
            connection.drain_events(timeout=0.01)
    assert consumer.consumer.purge() == 2
    message.ack()
    assert consumer.is_idle(0)
    admin = connection.transport.cluster._admin
    resources = [ConfigResource(ConfigResourceType.TOPIC, f"kombu.exchange{end}") for end in (".purged", "")]
    configs = admin.describe_configs(resources)
    retentions = [configs[resource]["retention.ms"].value for resource in resources]
    assert retentions == ["600000", "86400000"]  # Celery keeps results for a day


def test_unbound_queue_gets_the_messages_of_its_other_bindings(connect: Connect) -> None:
    exchange = kombu.Exchange("unbound", type="topic")
    connection = connect()
    queue = transient(exchange, "first")
    consumer = Consumer(connection, queue, no_ack=True)
    bound = consumer.consumer.queues[0]
    for key in ("second", "third"):
        bound.bind_to(exchange, routing_key=key)
    bound.unbind_from(exchange, routing_key="second")
    for key in ("second", "third", "first"):
        connection.Producer().publish(key, exchange=exchange, routing_key=key)
    assert consumer.payloads(2) == ["first", "third"]


def test_queue_has_the_partitions_and_options_of_its_connection(
    cluster: KafkaCluster, connect: Connect, queue: kombu.Queue
) -> None:
    connection = connect(num_partitions=2, topic_config={"retention.ms": "86400001"})
    queue(connection.channel()).declare()
    admin = connection.transport.cluster._admin
    topic = topic_name(f"kombu.queue.{queue.name}")
    assert len(admin.describe_topics([topic])[topic].partitions) == 2
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    assert admin.describe_configs([resource])[resource]["retention.ms"].value == "86400001"


@pytest.mark.slow
def test_broadcasts_that_are_not_drained_are_limited(
    cluster: KafkaCluster, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers_module, "MOST_BROADCASTS", 10)
    exchange = kombu.Exchange("flood", type="fanout")
    connection = connect()
    consumer = Consumer(connection, transient(exchange), no_ack=True)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(2000):
            producer.send("kombu.exchange.flood", b"{}")
    connection.Producer().publish("good", exchange=exchange)
    inbox = connection.transport.inbox
    while not inbox._broadcasts:
        time.sleep(0.01)
    assert inbox._broadcasts < 2000
    Consumer(connection, transient(kombu.Exchange("bound later", type="fanout")))
    assert consumer.payloads() == ["good"]
    connection.release()
    assert not any(thread.name == "kombu exchanges" for thread in threading.enumerate())


# ---------------------------------------------------------------------- event loops, processes, threads


@pytest.mark.slow
def test_event_loop_sleeps_while_the_prefetch_count_is_reached(
    connect: Connect, queue: kombu.Queue, hub: Hub
) -> None:
    connection = connect()
    connection.connect()
    connection.register_with_event_loop(hub)
    publish(connection, queue, *range(3))
    bound = transient(kombu.Exchange("quiet", type="fanout"))
    consumer = Consumer(connection, queue, bound, prefetch_count=1)
    hub.call_repeatedly(0.1, lambda: None)
    while not consumer.messages:
        hub.run_once()
    turns, end = 0, time.monotonic() + 1
    while time.monotonic() < end:
        hub.run_once()
        turns += 1
    assert turns < 40
    assert len(consumer.messages) == 1
    connection.release()


@pytest.mark.slow
def test_event_loop_gets_its_turn_between_many_messages(
    cluster: KafkaCluster, connect: Connect, queue: kombu.Queue, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "MOST_AT_ONCE", 5)
    connection = connect()
    consumer = Consumer(connection, queue)
    connection.register_with_event_loop(hub)
    publish(connection, queue, *range(12))
    received = connection.transport.inbox._items
    cluster.wait_until(lambda: len(received) == 12)
    for count in (5, 10, 12):
        hub.run_once()
        assert len(consumer.messages) == count
    connection.release()


FORKED = """
import os, select, sys, time, kombu, pykafka2.contrib.kombu
from kombu.asynchronous import Hub
from pykafka2.errors import ForkedClientError
connection = kombu.Connection(sys.argv[1])
hub = Hub()
connection.connect()
connection.register_with_event_loop(hub)
queue = kombu.Queue("forked twice", kombu.Exchange("forked twice"), routing_key="forked")
messages = []
consumer = kombu.Consumer(connection.channel(), [queue], on_message=messages.append)
consumer.consume()
def publish(body):
    connection.Producer().publish(body, exchange=queue.exchange, routing_key="forked")
publish("one")
while not messages:
    hub.run_once()
hub.run_once()
inbox = connection.transport.inbox
child = os.fork()
if not child:
    messages[0].requeue()
    publish("two")
    assert connection.transport.inbox is not inbox
    try:
        kombu.Consumer(consumer.channel, [queue]).consume()
    except ForkedClientError:
        pass
    else:
        raise AssertionError("a child must not read for the channel of its parent")
    connection.release()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
while len(messages) < 2:
    hub.run_once()
hub.run_once()
readable = select.select([inbox.fileno()], [], [], 0)[0]
for message in messages:
    message.ack()
print(sorted(message.payload for message in messages), readable)
connection.release()
"""


@pytest.mark.slow
def test_child_of_a_fork_leaves_the_event_loop_of_its_parent(cluster: KafkaCluster) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, f"pykafka2://{cluster.bootstrap_servers}//"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("['one', 'two'] []\n", "")


@pytest.mark.slow
def test_failed_connection_leaves_no_client_behind() -> None:
    before = {*threading.enumerate()}
    connection = kombu.Connection("pykafka2://127.0.0.1:1//", connect_timeout=0.2)
    with connection, pytest.raises(connection.connection_errors):
        connection.connect()
    assert {*threading.enumerate()} <= before
