"""Mistakes of applications that are new to the asyncio clients: each error names its remedy."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import TopicPartition
from pykafka2.aio import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.errors import ConfigurationError, ConsumerStopped, IllegalArgument, IllegalState, LoopBlocked
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

pytestmark = pytest.mark.kafka(brokers=1, topics={"orders": 1})

WRONG_OPTIONS: dict[str, Callable[[], object]] = {
    "partition_assignment_strategy": lambda: KafkaConsumer(
        group_id="billing",
        partition_assignment_strategy=[object],  # type: ignore[list-item]
    ),
    "there is no assignor 'rnge'": lambda: KafkaConsumer(
        group_id="billing",
        partition_assignment_strategy="rnge",  # type: ignore[typeddict-item]
    ),
    "value_deserializer is str": lambda: KafkaConsumer(value_deserializer=str),
    "partitioner=5": lambda: KafkaProducer(partitioner=5),  # type: ignore[typeddict-item]
}


@pytest.mark.parametrize("words", WRONG_OPTIONS)
def test_wrong_option_on_the_event_loop_raises_as_elsewhere_and_leaves_no_thread(words: str) -> None:
    async def program() -> None:
        with pytest.raises(ConfigurationError, match=words):
            WRONG_OPTIONS[words]()

    before = set(threading.enumerate())
    run(program())
    for thread in set(threading.enumerate()) - before:
        thread.join(10.0)
        assert not thread.is_alive()


def test_positional_arguments_of_aiokafka_are_refused_with_the_names_to_write() -> None:
    wrong: Any = (0, None, [("name", b"value")])

    async def program() -> None:
        async with KafkaProducer() as producer:
            with pytest.raises(IllegalArgument, match=r"headers=0 .*; for a partition write partition=0"):
                await producer.send("orders", b"v", b"k", *wrong)
            with pytest.raises(
                IllegalArgument, match=r"timestamp_ms=\[.*; for headers write headers=\[\.\.\.\]"
            ):
                await producer.send("orders", b"v", b"k", None, *wrong[1:])

    run(program())


@pytest.mark.parametrize("name", ["topic", "partition", "offset", "timestamp"])
def test_field_of_a_delivery_that_was_not_awaited_is_refused(kafka_cluster: KafkaCluster, name: str) -> None:
    async def program() -> None:
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            delivery = await producer.send("orders", b"v")
            with pytest.raises(
                AttributeError, match=rf"await the delivery first: \(await delivery\)\.{name}"
            ):
                getattr(delivery, name)
            assert not hasattr(delivery, name)
            assert getattr(await delivery, name) is not None

    run(program())


def test_blocked_loop_error_names_the_call(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            await producer.partitions_for("orders")
            delivery = await producer.send("orders", b"v")
            with pytest.raises(
                LoopBlocked, match=r"^Delivery\.get\(\) would block the event loop; await the Delivery,"
            ):
                delivery.get(5)

    run(program())


def test_transaction_block_without_async_is_refused_with_the_statement_to_write() -> None:
    async def program() -> None:
        async with KafkaProducer(transactional_id="t") as producer:
            block: Any = producer.transaction()
            with pytest.raises(IllegalState, match=r"write `async with producer\.transaction\(\)`"), block:
                pass

    run(program())


IMPORTS = {
    "AIOKafkaProducer": "Use KafkaProducer, imported from pykafka2.aio",
    "TopicPartition": "Write from pykafka2 import TopicPartition",
}


@pytest.mark.parametrize("name", IMPORTS)
def test_import_of_a_name_that_is_elsewhere_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(ImportError, match=f"pykafka2.aio has no '{name}'. {IMPORTS[name]}"):
        exec(f"from pykafka2.aio import {name}")


CALLS_OF_A_CONSUMER: dict[str, Callable[[KafkaConsumer[Any, Any]], Any]] = {
    "getone": lambda consumer: consumer.getone(),
    "commit": lambda consumer: consumer.commit(),
    "commit_async": lambda consumer: consumer.commit_async(),
    "store_offsets": lambda consumer: consumer.store_offsets(offsets={TopicPartition("orders", 0): 1}),
    "position": lambda consumer: consumer.position(TopicPartition("orders", 0)),
    "committed": lambda consumer: consumer.committed(TopicPartition("orders", 0)),
    "partitions_for_topic": lambda consumer: consumer.partitions_for_topic("orders"),
    "seek_to_committed": lambda consumer: consumer.seek_to_committed(),
    "seek": lambda consumer: consumer.seek(TopicPartition("orders", 0), 0),
    "subscribe": lambda consumer: consumer.subscribe(["orders"]),
    "assignment": lambda consumer: consumer.assignment(),
}


@pytest.mark.parametrize("call", CALLS_OF_A_CONSUMER)
def test_each_call_of_a_stopped_consumer_raises_consumer_stopped(call: str) -> None:
    async def program() -> None:
        consumer: KafkaConsumer[Any, Any] = KafkaConsumer("orders", group_id="billing")
        await consumer.stop()
        with pytest.raises(ConsumerStopped, match="the consumer is closed; create a new one"):
            await CALLS_OF_A_CONSUMER[call](consumer)

    run(program())


CLIENTS = {
    "KafkaProducer": KafkaProducer,
    "KafkaConsumer": KafkaConsumer,
    "KafkaAdminClient": KafkaAdminClient,
}


@pytest.mark.parametrize(
    ("client", "call"),
    [
        ("KafkaConsumer", "getmany"),
        ("KafkaConsumer", "commit"),
        ("KafkaConsumer", "stop"),
        ("KafkaProducer", "init_transactions"),
        ("KafkaProducer", "stop"),
        ("KafkaAdminClient", "list_topics"),
        ("KafkaAdminClient", "stop"),
    ],
)
def test_coroutine_that_is_not_awaited_has_the_name_of_its_client(client: str, call: str) -> None:
    method = getattr(CLIENTS[client], call)
    assert method.__qualname__ == f"{client}.{call}"


def test_unexpected_argument_is_refused_with_the_name_of_the_client() -> None:
    async def call_with_a_wrong_name() -> None:
        async with KafkaConsumer(bootstrap_servers="127.0.0.1:1") as consumer:
            getmany: Any = consumer.getmany
            await getmany(nonsense=1)

    with pytest.raises(TypeError, match=r"^KafkaConsumer\.getmany\(\) got an unexpected keyword argument"):
        run(call_with_a_wrong_name())


def test_subclass_of_a_client_leaves_the_names_of_its_methods() -> None:
    class Mine(KafkaConsumer[bytes, bytes]):
        pass

    assert Mine.getmany.__qualname__ == "KafkaConsumer.getmany"


def test_callback_that_raises_is_reported_to_the_loop_with_its_name(kafka_cluster: KafkaCluster) -> None:
    reported: list[dict[str, Any]] = []

    def failing(metadata: object, error: object) -> None:
        raise ZeroDivisionError

    async def program() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            await (await producer.send("orders", b"v", on_delivery=failing))
            await kafka_cluster.wait_until_async(lambda: bool(reported))

    run(program())
    assert isinstance(reported[0]["exception"], ZeroDivisionError)
    assert re.fullmatch(r"the callback .*failing of a pykafka2 client failed", reported[0]["message"])
