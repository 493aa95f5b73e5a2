"""Traces that cross from pykafka2 to the instrumented clients of confluent-kafka and aiokafka, and back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.instrumentation.aiokafka")
pytest.importorskip("opentelemetry.instrumentation.confluent_kafka")

import aiokafka
import confluent_kafka
from opentelemetry.instrumentation.aiokafka import AIOKafkaInstrumentor
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor

from pykafka2 import aio
from pykafka2.contrib.opentelemetry import PyKafka2Instrumentor
from pykafka2.testing import KafkaCluster
from tests.aio.running import run
from tests.contrib.recorded import Recorded, attribute, ids, linked, parent_of, reader, send

pytestmark = pytest.mark.gate

TIMEOUT = 60


@pytest.fixture
def instrumented() -> Iterator[Recorded]:
    recorded = Recorded()
    instrumentors = (PyKafka2Instrumentor(), AIOKafkaInstrumentor())
    for instrumentor in instrumentors:
        instrumentor.instrument(**recorded.providers)
    yield recorded
    for instrumentor in instrumentors:
        instrumentor.uninstrument()
    recorded.meter_provider.shutdown()


@pytest.fixture
def servers() -> Iterator[str]:
    config = {"group.initial.rebalance.delay.ms": 0}
    with KafkaCluster(brokers=1, topics={"orders": 1}, config=config) as cluster:
        yield cluster.bootstrap_servers


def trace_of_two_sends(instrumented: Recorded, servers: str) -> list[tuple[int, int]]:
    """Send two records in one trace; return the ids of their spans."""
    with instrumented.tracer.start_as_current_span("checkout"):
        send(servers, "orders", b"a", b"b")
    found = [ids(span) for span in instrumented.spans("send")]
    assert len(found) == 2
    assert {parent_of(span) for span in instrumented.spans("send")} == {ids(instrumented.one("checkout"))}
    return found


def test_aiokafkas_consumer_continues_the_trace_of_our_producer(instrumented: Recorded, servers: str) -> None:
    sent = trace_of_two_sends(instrumented, servers)

    async def program() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            "orders", bootstrap_servers=servers, auto_offset_reset="earliest"
        )
        async with consumer:
            for _ in sent:
                await consumer.getone()

    run(program())
    assert [parent_of(span) for span in instrumented.spans("orders receive")] == sent


def test_our_asyncio_consumer_continues_the_trace_of_aiokafkas_producer(
    instrumented: Recorded, servers: str
) -> None:
    async def program() -> None:
        with instrumented.tracer.start_as_current_span("checkout"):
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
                for value in (b"a", b"b"):
                    await producer.send_and_wait("orders", value)
        async with aio.KafkaConsumer(
            "orders", bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer:
            async for record in consumer:
                if record.offset == 1:
                    break

    run(program())
    sent = instrumented.spans("orders send")
    assert [parent_of(span) for span in sent] == [ids(instrumented.one("checkout"))] * 2
    assert [parent_of(span) for span in instrumented.spans("process")] == [ids(span) for span in sent]
    assert [one for span in instrumented.spans("poll") for one in linked(span)] == [
        ids(span) for span in sent
    ]


def test_confluents_consumer_links_the_trace_of_our_producer(instrumented: Recorded, servers: str) -> None:
    sent = trace_of_two_sends(instrumented, servers)
    plain = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer: Any = ConfluentKafkaInstrumentor.instrument_consumer(plain, instrumented.tracer_provider)
    consumer.subscribe(["orders"])
    for _ in sent:
        message = consumer.poll(TIMEOUT)
        assert message is not None
        assert message.error() is None
    consumer.close()
    # It names the producer by links, not by the parent.
    assert [linked(span) for span in instrumented.spans("orders process")] == [[one] for one in sent]


def test_our_consumer_continues_the_trace_of_confluents_producer(
    instrumented: Recorded, servers: str
) -> None:
    plain = confluent_kafka.Producer({"bootstrap.servers": servers})
    producer: Any = ConfluentKafkaInstrumentor.instrument_producer(plain, instrumented.tracer_provider)
    with instrumented.tracer.start_as_current_span("checkout"):
        for value in (b"a", b"b"):
            producer.produce("orders", value)
    assert producer.flush(TIMEOUT) == 0
    with reader(servers, "orders") as consumer:
        for record in consumer:
            if record.offset == 1:
                break
    sent = instrumented.spans("orders send")
    processed = instrumented.spans("process")
    assert [parent_of(span) for span in processed] == [ids(span) for span in sent]
    assert {span.context.trace_id for span in processed} == {ids(instrumented.one("checkout"))[0]}
    assert [attribute(span, "kafka.offset") for span in processed] == [0, 1]


PROGRAM = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from pykafka2 import KafkaConsumer, KafkaProducer

trace.set_tracer_provider(TracerProvider())
with KafkaProducer(bootstrap_servers=sys.argv[1]) as producer:
    producer.send("orders", b"v")
with KafkaConsumer("orders", bootstrap_servers=sys.argv[1], auto_offset_reset="earliest") as consumer:
    print(dict(next(consumer).headers)["traceparent"].decode())
"""


def test_command_of_opentelemetry_instruments_programs(servers: str) -> None:
    command = Path(sys.executable).with_name("opentelemetry-instrument")
    exporters = [f"--{signal}_exporter=none" for signal in ("traces", "metrics", "logs")]
    found = subprocess.run(
        [command, *exporters, sys.executable, "-c", PROGRAM, servers],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert found.stdout.startswith("00-"), found.stderr
