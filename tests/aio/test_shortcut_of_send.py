"""The shortcut of the asyncio producer's `send`, which plain records take while a batch is open."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pykafka2.aio import KafkaProducer
from pykafka2.errors import IllegalArgument
from pykafka2.producer.accumulator.open_batch import NS_PER_MS
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Simulation
from pykafka2.types import RecordMetadata

Work = Callable[[KafkaProducer], Any]


def played(work: Work, **options: Any) -> tuple[Any, list[list[Any]], list[ProduceRequest]]:
    """Return the result of `work` with a producer whose clock stands still, each log, and the requests."""
    with Simulation(seed=7) as simulation:
        cluster: KafkaCluster = simulation.cluster(brokers=1, topics={"orders": 2})
        runtime = simulation.runtime.at("shop")

        async def run() -> Any:
            async with KafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers, runtime=runtime, **options
            ) as producer:
                await producer.send_and_wait("orders", b"first")
                set_clock(producer, producer._wall_ns() // NS_PER_MS * NS_PER_MS)
                return await work(producer)

        result = simulation.run(run)
        logs = [[*cluster.log("orders", partition).records()] for partition in (0, 1)]
        return result, logs, cluster.history.requests(ProduceRequest)


def test_callback_of_another_client_is_refused_though_a_batch_is_open() -> None:
    async def work(producer: KafkaProducer) -> None:
        await producer.send("orders", b"open")
        with pytest.raises(TypeError, match="use on_delivery="):
            await producer.send("orders", b"refused", callback=print)  # type: ignore[arg-type]

    _, logs, _ = played(work, linger_ms=60_000)
    assert sorted(record.value or b"" for log in logs for record in log) == [b"first", b"open"]


def set_clock(producer: KafkaProducer, now_ns: int) -> None:
    clock = partial(int, now_ns)
    producer._wall_ns = producer._sync._wall_ns = producer._core.appender._wall_ns = clock


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"value": b"v"}, {"value": b"v", "key": None, "headers": []}),
        ({"value": None}, {"value": None}),
        ({"value": bytearray(b"bytes-like")}, {"value": b"bytes-like"}),
        ({"value": b"v", "key": b"key"}, {"key": b"key"}),
        ({"value": b"v", "headers": [("h", b"1")]}, {"headers": [("h", b"1")]}),
        ({"value": b"v", "partition": 0}, {"partition": 0}),
        ({"value": b"v", "partition": 1}, {"partition": 1}),
        ({"value": b"v", "timestamp_ms": 5}, {"timestamp": 5}),
    ],
)
def test_record_behind_others_of_its_millisecond_is_written_with_its_fields(
    arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    async def send(producer: KafkaProducer) -> RecordMetadata:
        for _ in range(2):
            await producer.send("orders", b"plain")
        delivery = await producer.send("orders", **arguments)
        await producer.send("orders", b"plain")
        return await delivery

    metadata, logs, _ = played(send, linger_ms=5)
    record = logs[metadata.partition][metadata.offset]
    assert {name: getattr(record, name) for name in expected} == expected


@pytest.mark.parametrize("arguments", [{"value": "text"}, {"value": b"v", "topic": ["no topic"]}])
def test_invalid_argument_behind_plain_records_raises(arguments: dict[str, Any]) -> None:
    async def send(producer: KafkaProducer) -> RecordMetadata:
        kept = [await producer.send("orders", b"plain") for _ in range(2)]
        with pytest.raises(IllegalArgument):
            await producer.send(**{"topic": "orders", **arguments})
        return await kept[-1]

    metadata, _, _ = played(send, linger_ms=5)
    assert metadata.topic == "orders"


def test_on_delivery_of_a_record_behind_plain_ones_is_called() -> None:
    called: list[Any] = []

    async def send(producer: KafkaProducer) -> RecordMetadata:
        for _ in range(2):
            await producer.send("orders", b"plain")
        delivery = await producer.send("orders", b"v", on_delivery=lambda *result: called.append(result))
        await producer.flush()
        return await delivery

    metadata, _, _ = played(send, linger_ms=5)
    assert called == [(metadata, None)]


def test_records_fill_batches_to_batch_size() -> None:
    async def send(producer: KafkaProducer) -> list[RecordMetadata]:
        return [await delivery for delivery in [await producer.send("orders", b"") for _ in range(300)]]

    metadata, _, requests = played(send, linger_ms=5, batch_size=200)
    assert len({(one.partition, one.offset) for one in metadata}) == 300
    sizes = [
        len(part.records or b"")
        for request in requests
        for topic in request.topic_data
        for part in topic.partition_data
    ]
    assert 130 < max(sizes) <= 200


@pytest.mark.pure  # sets the clock of the Python code
def test_record_has_the_millisecond_in_which_it_was_sent() -> None:
    times = [0, 0, NS_PER_MS - 1, NS_PER_MS, NS_PER_MS, 2 * NS_PER_MS, 2 * NS_PER_MS - 1, 7 * NS_PER_MS]

    async def send(producer: KafkaProducer) -> list[int]:
        now_ns = producer._wall_ns()
        kept = []
        for after_ns in times:
            set_clock(producer, now_ns + after_ns)
            kept.append(await producer.send("orders", b"v"))
        return [(await delivery).timestamp - now_ns // NS_PER_MS for delivery in kept]

    found, _, _ = played(send, linger_ms=5)
    assert found == [after_ns // NS_PER_MS for after_ns in times]
