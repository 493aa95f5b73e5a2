"""The clients call the compiled shortcut for the usual record of an open producer, and for no other.

The extension itself is not needed: a stand-in notes the calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka2 import KafkaProducer, aio
from pykafka2.errors import ClientClosed, ForkedClientError, WrongEventLoop
from pykafka2.producer import core
from pykafka2.producer.partitioning import key_hashes
from pykafka2.producer.partitioning.key_hashes import KeyHashes
from pykafka2.testing import KafkaCluster, Simulation
from tests.aio.running import run
from tests.forks import in_child

pytestmark = pytest.mark.gate

NOWHERE = {"bootstrap_servers": "127.0.0.1:1"}


class StandIn:
    """An extension whose shortcut returns the same object for each record."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []
        self.calls: list[tuple[Any, ...]] = []
        self.delivery: Any = object()

    def shortcut(self, *arguments: Any) -> Any:
        self.made.append(arguments)
        return self._send

    def _send(self, *arguments: Any) -> Any:
        self.calls.append(arguments)
        return self.delivery


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = StandIn()
    monkeypatch.setattr(core, "compiled", made)
    return made


@pytest.fixture
def simulated() -> Iterator[tuple[Simulation, KafkaCluster]]:
    with Simulation(seed=7) as simulation:
        yield simulation, simulation.cluster(brokers=1, topics={"orders": 2})


def test_send_passes_the_usual_record_to_the_shortcut_and_no_other(
    simulated: tuple[Simulation, KafkaCluster], extension: StandIn
) -> None:
    simulation, cluster = simulated
    producer = simulation.producer(cluster)
    for record in (
        {"headers": [("h", b"x")]},
        {"headers": []},
        {"partition": 1},
        {"partition": 0},
        {"timestamp_ms": 1_700_000_000_000},
        {"timestamp_ms": 0},
    ):
        assert producer.send("orders", b"v", b"k", **record).result(10).topic == "orders"
    with pytest.raises(TypeError, match="on_delivery"):
        producer.send("orders", b"v", callback=print)  # type: ignore[arg-type]
    assert extension.calls == []
    assert producer.send("orders", b"v") is extension.delivery
    assert producer.send("orders", b"v", b"k", None, None, None, print) is extension.delivery
    assert extension.calls == [("orders", b"v", None, None), ("orders", b"v", b"k", print)]
    extension.delivery = None  # the shortcut refuses
    assert producer.send("orders", b"v", b"k").result(10).topic == "orders"
    assert len(extension.calls) == 3


def test_the_shortcut_hashes_keys_for_the_partitioner_of_java_alone(
    simulated: tuple[Simulation, KafkaCluster], extension: StandIn
) -> None:
    simulation, cluster = simulated
    for options, keys_decide in (
        ({}, True),
        ({"partitioner": "murmur2_random"}, True),
        ({"partitioner": "fnv1a_random"}, False),
        ({"partitioner_ignore_keys": True}, False),
    ):
        extension.made.clear()
        simulation.producer(cluster, **options)
        assert [arguments[4] for arguments in extension.made] == [keys_decide], options


def test_a_producer_that_calls_code_of_the_application_has_no_shortcut(
    simulated: tuple[Simulation, KafkaCluster], extension: StandIn
) -> None:
    simulation, cluster = simulated

    class Spy:
        def on_send(self, record: Any) -> Any:
            return record

    for options in (
        {"value_serializer": bytes},
        {"key_serializer": bytes},
        {"interceptors": [Spy()]},
        {"partitioner": lambda *_: 0},
    ):
        producer = simulation.producer(cluster, **options)
        assert producer.send("orders", b"v", b"k").result(10).topic == "orders"
    assert extension.made == extension.calls == []


def test_send_after_the_close_raises_without_the_shortcut(extension: StandIn) -> None:
    producer = KafkaProducer(**NOWHERE)
    producer.close()
    for _ in range(2):
        with pytest.raises(ClientClosed):
            producer.send("orders", b"v")
    assert extension.calls == []


def test_send_in_the_child_of_a_fork_raises_without_the_shortcut(extension: StandIn) -> None:
    with KafkaProducer(**NOWHERE) as producer:

        def is_refused() -> bool:
            with pytest.raises(ForkedClientError):
                producer.send("orders", b"v", b"k")
            return not extension.calls

        assert in_child(is_refused)
        assert producer.send("orders", b"v", b"k") is extension.delivery


@pytest.mark.kafka(brokers=1, topics={"orders": 2})
def test_the_asyncio_producer_passes_plain_bytes_to_the_shortcut_and_nothing_else(
    kafka_cluster: KafkaCluster, extension: StandIn
) -> None:
    async def program() -> None:
        producer = aio.KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
        async with producer:
            producer._producer._shortcut = None  # which the asyncio producer tries next
            for record in (
                {"key": b"k"},
                {"headers": [("h", b"x")]},
                {"partition": 1},
                {"timestamp_ms": 0},
                {"on_delivery": lambda metadata, error: None},
                {"value": None},
                {"value": memoryview(b"v")},
                {"value": bytearray(b"v")},
            ):
                delivery = await producer.send("orders", **{"value": b"v", **record})
                assert (await delivery).topic == "orders"
                assert extension.calls == []
            assert await producer.send("orders", b"v") is extension.delivery
            assert extension.calls == [("orders", b"v", None, None)]

            def is_refused() -> bool:
                with pytest.raises((ForkedClientError, WrongEventLoop)):
                    producer.send("orders", b"v").send(None)
                return len(extension.calls) == 1

            assert in_child(is_refused)
        for _ in range(2):
            with pytest.raises(ClientClosed):
                await producer.send("orders", b"v")
        assert len(extension.calls) == 1

    run(program())


@pytest.mark.kafka(brokers=1, topics={"orders": 2})
def test_a_record_does_not_overtake_tasks_that_wait_for_memory(
    kafka_cluster: KafkaCluster, extension: StandIn
) -> None:
    async def program() -> None:
        async with aio.KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            before = producer._memory_queue.join()
            later = asyncio.create_task(producer.send("orders", b"v"))
            for _ in range(5):
                await asyncio.sleep(0)
            assert (later.done(), extension.calls) == (False, [])
            before.leave()
            assert (await (await later)).topic == "orders"
            assert extension.calls == []
            assert await producer.send("orders", b"v") is extension.delivery

    run(program())


def test_only_the_hash_of_java_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_hashes, "compiled", SimpleNamespace(murmur2=lambda key: 7))
    compiled, other = KeyHashes(), KeyHashes(len)
    assert [compiled[b"abc"], compiled[b"abcd"]] == [7, 7]
    assert [other[b"abc"], other[b"abcd"]] == [3, 4]
    assert (len(compiled), len(other)) == (0, 2)
