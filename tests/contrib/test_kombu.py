"""The kombu transport on share groups, against the bundled broker."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("kombu")

import kombu
import kombu.common
from kombu.asynchronous import Hub
from kombu.exceptions import ChannelError

import pykafka2.contrib.kombu  # noqa: F401 - registers pykafka2://
from pykafka2 import KafkaProducer
from pykafka2.contrib.kombu.cluster import topic_name
from pykafka2.errors import IllegalState, SerializationError
from pykafka2.testing import KafkaCluster
from tests.share.world import QUICK

pytestmark = pytest.mark.gate

numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=1, config=QUICK) as running:
        yield running


@pytest.fixture
def connect(cluster: KafkaCluster) -> Iterator[Callable[..., kombu.Connection]]:
    """Return a function that opens a connection, which is closed after the test."""
    opened: list[kombu.Connection] = []

    def open_connection(**options: Any) -> kombu.Connection:
        url = f"pykafka2://{cluster.bootstrap_servers}//"
        connection = kombu.Connection(url, transport_options=options)
        opened.append(connection)
        return connection

    yield open_connection
    for connection in opened:
        connection.release()


@pytest.fixture
def hub() -> Iterator[Hub]:
    """Return an event loop that is closed after the test, with the pair of sockets of its first turn.

    If a failed test left it open, the garbage collector would find the sockets in a later test.
    """
    with closing(Hub()) as hub:
        yield hub


@pytest.fixture
def queue() -> kombu.Queue:
    name = f"queue@{next(numbers)}"
    return kombu.Queue(name, kombu.Exchange(f"exchange {name}"), routing_key=name)


class Consumer:
    """A consumer of a connection, and the messages that it has received."""

    def __init__(self, connection: kombu.Connection, *queues: kombu.Queue, **options: Any) -> None:
        self.connection = connection
        self.messages: list[Any] = []
        self.consumer = kombu.Consumer(
            connection.channel(), queues, on_message=self.messages.append, **options
        )
        self.consumer.consume()

    def take(self, count: int = 1, timeout: float = 20) -> list[Any]:
        while len(self.messages) < count:
            self.connection.drain_events(timeout=timeout)
        taken, self.messages[:] = [*self.messages], []
        return taken

    def payloads(self, count: int = 1) -> list[Any]:
        return sorted(message.payload for message in self.take(count))

    def is_idle(self, timeout: float = 0.3) -> bool:
        try:
            self.take(1, timeout)
        except TimeoutError:
            return True
        return False


def publish(connection: kombu.Connection, queue: kombu.Queue, *bodies: object, **options: Any) -> None:
    producer = connection.Producer()
    for body in bodies:
        producer.publish(
            body, exchange=queue.exchange, routing_key=queue.routing_key, declare=[queue], **options
        )


def got(queue: kombu.Queue, **options: Any) -> Any:
    """Return the next message of a bound queue, whose `get` soon gives up."""
    deadline = time.monotonic() + 60
    while (message := queue.get(**options)) is None:
        assert time.monotonic() < deadline
    return message


@pytest.mark.slow
def test_no_broker_is_a_connection_error() -> None:
    connection = kombu.Connection("pykafka2://127.0.0.1:1//", connect_timeout=0.2)
    with pytest.raises(connection.connection_errors):
        connection.connect()
    connection.release()


# ---------------------------------------------------------------------- queues


@pytest.mark.slow
def test_acknowledged_message_is_done(connect: Callable[..., Any], queue: kombu.Queue) -> None:
    connection = connect()
    publish(connection, queue, {"number": 1}, headers={"h": "v"})
    (message,) = Consumer(connection, queue).take()
    assert message.payload == {"number": 1}
    assert message.headers == {"h": "v"}
    assert message.delivery_info["redelivered"] is False
    message.ack()
    with pytest.raises(message.MessageStateError):
        message.ack()
    connection.release()
    other = connect()
    assert Consumer(other, queue).is_idle()


def test_requeued_message_is_delivered_again_and_rejected_one_is_not(
    connect: Callable[..., Any], queue: kombu.Queue
) -> None:
    connection = connect()
    publish(connection, queue, "one", "two")
    consumer = Consumer(connection, queue)
    for message in consumer.take(2):
        if message.payload == "one":
            message.requeue()
        else:
            message.reject()
    (again,) = consumer.take()
    assert again.payload == "one"
    assert again.delivery_info["redelivered"] is True
    assert again.delivery_info["delivery_count"] == 2
    again.ack()
    assert consumer.is_idle()


@pytest.mark.slow
def test_requeue_beyond_the_limit_of_deliveries_keeps_the_message(
    connect: Callable[..., Any], queue: kombu.Queue
) -> None:
    connection = connect(group_config={"share.delivery.count.limit": "2"})
    publish(connection, queue, "one")
    consumer = Consumer(connection, queue)
    counts = []
    for _ in range(5):
        (message,) = consumer.take()
        counts.append(message.delivery_info["delivery_count"])
        message.requeue()
    assert counts == [1, 2, 1, 2, 1]


def test_closed_connection_releases_its_messages_at_once(
    connect: Callable[..., Any], queue: kombu.Queue
) -> None:
    one, two = connect(), connect()
    publish(one, queue, *range(4))
    taken = Consumer(one, queue).take(4)
    taken[0].ack()
    waiting = Consumer(two, queue)
    one.release()
    again = waiting.take(3)
    assert {message.payload for message in again} == {0, 1, 2, 3} - {taken[0].payload}
    with pytest.raises(IllegalState, match="released when its channel was closed"):
        taken[1].ack()


@pytest.mark.slow
def test_prefetch_count_limits_the_locks_of_each_worker(
    connect: Callable[..., Any], queue: kombu.Queue
) -> None:
    publish(connect(), queue, *range(6))
    workers = [Consumer(connect(), queue, prefetch_count=2) for _ in range(2)]
    taken = [worker.take(2) for worker in workers]
    assert all(worker.is_idle() for worker in workers)
    numbers = [message.payload for messages in taken for message in messages]
    taken[0][0].ack()
    (more,) = workers[0].take()
    assert len({*numbers, more.payload}) == 5
    workers[1].consumer.qos(prefetch_count=3)
    (last,) = workers[1].take()
    assert {*numbers, more.payload, last.payload} == set(range(6))


@pytest.mark.slow
def test_lock_is_renewed_until_the_visibility_timeout(
    connect: Callable[..., Any], queue: kombu.Queue
) -> None:
    other = kombu.Queue(f"{queue.name}-short", routing_key=f"{queue.name}-short")
    short = {"share.record.lock.duration.ms": "4000"}
    keeper, loser = connect(group_config=short), connect(group_config=short, visibility_timeout=0)
    publish(keeper, queue, "kept")
    publish(keeper, other, "lost")
    (kept,) = Consumer(keeper, queue).take()
    (lost,) = Consumer(loser, other, prefetch_count=1).take()  # it has no room to get the message again
    third = Consumer(connect(), queue, other)
    (again,) = third.take()  # a whole lock later
    assert (again.payload, again.delivery_info["redelivered"]) == ("lost", True)
    assert third.is_idle(1.5)
    kept.ack()
    again.ack()
    lost.ack()
    assert third.is_idle()


@pytest.mark.slow
def test_cancelled_consumer_keeps_its_delivered_messages(
    connect: Callable[..., Any], queue: kombu.Queue
) -> None:
    one, two = connect(), connect()
    publish(one, queue, "one")
    first = Consumer(one, queue, prefetch_count=1)
    (message,) = first.take()
    first.consumer.cancel()
    publish(one, queue, "two")
    second = Consumer(two, queue)
    assert second.payloads() == ["two"]
    assert second.is_idle()
    message.ack()
    assert second.is_idle()


@pytest.mark.slow
def test_get_purge_delete_and_passive_declare(connect: Callable[..., Any], queue: kombu.Queue) -> None:
    connection = connect()
    channel = connection.channel()
    bound = queue(channel)
    with pytest.raises(ChannelError, match="NOT_FOUND"):
        bound.queue_declare(passive=True)
    publish(connection, queue, *range(4))
    assert bound.queue_declare(passive=True).message_count == 4
    got(bound).ack()
    got(bound, no_ack=True)
    kept = got(bound)
    while bound.queue_declare(passive=True).message_count != 2:
        time.sleep(0.01)  # until both acknowledgements have arrived
    assert bound.purge() == 2
    assert bound.queue_declare(passive=True).message_count == 0
    assert bound.get() is None
    kept.ack()
    bound.delete()
    with pytest.raises(ChannelError, match="NOT_FOUND"):
        bound.queue_declare(passive=True)
    bound.declare()
    publish(connection, queue, "new")
    assert got(bound).payload == "new"


def test_topic_with_other_records_does_not_stop_the_queue(
    cluster: KafkaCluster, connect: Callable[..., Any], queue: kombu.Queue
) -> None:
    connection = connect()
    bound = queue(connection.channel())
    bound.declare()
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for data in (b"no message", b"{}", None):
            producer.send(topic_name(f"kombu.queue.{queue.name}"), data)
    publish(connection, queue, "one")
    assert Consumer(connection, queue).payloads() == ["one"]


# ---------------------------------------------------------------------- exchanges


def transient(exchange: kombu.Exchange, routing_key: str = "") -> kombu.Queue:
    name = f"transient-{next(numbers)}"
    return kombu.Queue(name, exchange, routing_key=routing_key, durable=False, auto_delete=True)


def test_fanout_reaches_all_connections_and_durable_queues(connect: Callable[..., Any]) -> None:
    exchange = kombu.Exchange(f"fanout-{next(numbers)}", type="fanout")
    durable = kombu.Queue(f"{exchange.name}-durable", exchange)
    sender = connect()
    publish(sender, durable, "before")
    receivers = [Consumer(connect(), transient(exchange), no_ack=True) for _ in range(2)]
    receivers.append(Consumer(connect(), kombu.Queue("", exchange, exclusive=True), no_ack=True))
    receivers.append(Consumer(connect(), kombu.common.Broadcast(exchange=exchange), no_ack=True))
    publish(sender, durable, "after")
    assert [receiver.payloads() for receiver in receivers] == [["after"]] * 4
    assert Consumer(sender, durable).payloads(2) == ["after", "before"]
    assert all(receiver.is_idle(0) for receiver in receivers)


def test_routing_keys_select_transient_queues(connect: Callable[..., Any]) -> None:
    events = kombu.Exchange(f"events-{next(numbers)}", type="topic")
    replies = kombu.Exchange(f"replies-{next(numbers)}", type="direct")
    connection = connect()
    everything = Consumer(connection, transient(events, "#"))
    workers = Consumer(connect(), transient(events, "worker.*"), transient(replies, "me"))
    producer = connect().Producer()
    for exchange, key in (
        (events, "task.sent"),
        (events, "worker.online"),
        (replies, "you"),
        (replies, "me"),
    ):
        producer.publish(f"{exchange.type} {key}", exchange=exchange, routing_key=key, declare=[exchange])
    assert everything.payloads(2) == ["topic task.sent", "topic worker.online"]
    first, second = sorted(workers.take(2), key=lambda message: message.payload)
    assert (first.payload, second.payload) == ("direct me", "topic worker.online")
    second.requeue()
    assert workers.payloads() == ["topic worker.online"]
    assert workers.is_idle(0)


def test_reply_to_a_queue_without_an_exchange(connect: Callable[..., Any]) -> None:
    client, server = connect(), connect()
    reply = kombu.Queue(f"reply-{next(numbers)}", durable=False, auto_delete=True)
    consumer = Consumer(client, reply, no_ack=True)
    server.Producer().publish("done", routing_key=reply.name)
    assert consumer.payloads() == ["done"]
    assert not server.channel()._has_queue(reply.name)


def test_result_that_comes_before_its_consumer_is_not_lost(connect: Callable[..., Any]) -> None:
    client, server = connect(), connect()
    results = kombu.Queue(f"results-{next(numbers)}", durable=True, auto_delete=True, expires=60)
    results(client.channel()).declare()
    for number in range(3):
        server.Producer().publish(number, routing_key=results.name)
        with connect() as later:
            assert Consumer(later, results, no_ack=True).payloads() == [number]
    assert not server.channel()._has_queue(results.name)


def test_second_reply_queue_gets_replies_from_before_its_consumer(connect: Callable[..., Any]) -> None:
    client, server = connect(), connect()
    one, two = (kombu.Queue(f"reply-{next(numbers)}", exclusive=True) for _ in range(2))
    two(client.channel()).declare()
    first = Consumer(client, one, no_ack=True)
    for reply in (two, one):
        server.Producer().publish(f"to {reply.name}", routing_key=reply.name)
    assert first.payloads() == [f"to {one.name}"]
    second = Consumer(client, two, no_ack=True)
    assert second.payloads() == [f"to {two.name}"]
    assert second.is_idle(0.1)
    assert not first.messages


def test_simple_buffer_and_simple_queue(connect: Callable[..., Any]) -> None:
    connection = connect()
    for make in (connection.SimpleBuffer, connection.SimpleQueue):
        with make(f"simple-{next(numbers)}") as simple:
            simple.put({"n": 1})
            message = simple.get(timeout=20)
            assert message.payload == {"n": 1}
            if make is connection.SimpleQueue:
                message.ack()
            with pytest.raises(simple.Empty):
                simple.get(timeout=0.1)


# ---------------------------------------------------------------------- event loops and processes


def test_event_loop_delivers_when_acknowledgements_make_room(
    connect: Callable[..., Any], queue: kombu.Queue, hub: Hub
) -> None:
    connection = connect()
    connection.connect()
    connection.register_with_event_loop(hub)
    publish(connection, queue, *range(20))
    consumer = Consumer(connection, queue, prefetch_count=3)
    seen: list[int] = []
    hub.call_repeatedly(0.05, lambda: None)
    while len(seen) < 20:
        hub.run_once()
        assert len(consumer.messages) <= 3
        for message in [*consumer.messages]:
            seen.append(message.payload)
            message.ack()
        consumer.messages.clear()
    assert sorted(seen) == list(range(20))
    connection.release()
    assert not hub.readers


FORKED = """
import os, sys, kombu, pykafka2.contrib.kombu
connection = kombu.Connection(sys.argv[1])
queue = kombu.Queue("forked", kombu.Exchange("forked"), routing_key="forked")
def publish(body):
    connection.Producer().publish(body, exchange=queue.exchange, routing_key="forked", declare=[queue])
publish("of the parent")
messages = []
consumer = kombu.Consumer(connection.channel(), [queue], on_message=messages.append)
consumer.consume()
while not messages:
    connection.drain_events(timeout=20)
child = os.fork()
if not child:
    publish("of the child")
    connection.collect()
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
while len(messages) < 2:
    connection.drain_events(timeout=20)
for message in messages:
    message.ack()
print(sorted(message.payload for message in messages))
connection.release()
"""


@pytest.mark.slow
def test_child_of_a_fork_publishes_and_leaves_the_messages_of_its_parent(cluster: KafkaCluster) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, f"pykafka2://{cluster.bootstrap_servers}//"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("['of the child', 'of the parent']\n", "")


def test_error_of_a_reader_is_raised_by_the_connection(
    connect: Callable[..., Any], queue: kombu.Queue
) -> None:
    connection = connect(consumer_options={"value_deserializer": int})
    publish(connection, queue, "one")
    with pytest.raises(SerializationError):
        Consumer(connection, queue).take()
