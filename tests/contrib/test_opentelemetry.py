"""Spans and metrics of OpenTelemetry, read back through the SDK's exporters in memory."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.instrumentation")

import pyarrow
from opentelemetry import baggage, context, trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.trace import SpanKind, StatusCode

from pykafka2 import KafkaAdminClient, KafkaProducer, TopicPartition, aio
from pykafka2.contrib.opentelemetry import ConsumerTracing, ProducerTracing, PyKafka2Instrumentor, Telemetry
from pykafka2.contrib.opentelemetry.instrumentor import unit_of
from pykafka2.errors import KafkaError, SerializationError, TopicAuthorizationFailed
from pykafka2.metric_table import PRODUCER
from pykafka2.testing import KafkaCluster, Simulation
from tests.aio.running import run
from tests.contrib.recorded import (
    Recorded,
    attribute,
    context_of,
    ids,
    linked,
    parent_of,
    reader,
    send,
)

TIMEOUT = 30
OTHER_TRACE = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
numbers = itertools.count()


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    made = Recorded()
    yield made
    assert trace.get_current_span() is trace.INVALID_SPAN  # no context was left attached
    made.meter_provider.shutdown()


@pytest.fixture
def instrumented(recorded: Recorded) -> Iterator[Recorded]:
    instrumentor = PyKafka2Instrumentor()
    instrumentor.instrument(**recorded.providers)
    yield recorded
    instrumentor.uninstrument()


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=1, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        yield cluster


@pytest.fixture
def servers(shared_cluster: KafkaCluster) -> str:
    return shared_cluster.bootstrap_servers


@pytest.fixture
def topic(shared_cluster: KafkaCluster) -> str:
    name = f"orders-{next(numbers)}"
    shared_cluster.create_topic(name, partitions=2)
    return name


def headers_of(cluster: KafkaCluster, topic: str, partition: int = 0) -> list[dict[str, bytes | None]]:
    consumer = reader(cluster.bootstrap_servers)
    with suppress_instrumentation(), consumer:
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        return [dict(record.headers) for record in itertools.islice(consumer, end)]


# ---------------------------------------------------------------------- producers


def test_send_span_lasts_until_the_acknowledgement(
    instrumented: Recorded, shared_cluster: KafkaCluster, servers: str, topic: str
) -> None:
    with KafkaProducer(bootstrap_servers=servers, client_id="shop") as producer:
        producer.send(topic, b"first", partition=1).result(TIMEOUT)
        with instrumented.tracer.start_as_current_span("checkout") as around:
            shared_cluster.controls.rule(api="Produce", then="delay:0.2", times=1)
            producer.send(topic, None, key=b"k", headers=[("own", b"1")], partition=1)
            producer.flush()
    tombstone = instrumented.spans("send")[1]
    assert tombstone.name == f"send {topic}"
    assert tombstone.kind is SpanKind.PRODUCER
    assert tombstone.status.status_code is StatusCode.UNSET
    assert tombstone.parent is not None
    assert tombstone.parent.span_id == around.get_span_context().span_id
    assert (tombstone.end_time or 0) - (tombstone.start_time or 0) > 150e6
    host, port = servers.split(":")
    assert dict(tombstone.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.client.id": "shop",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "1",
        "messaging.kafka.cluster.id": shared_cluster.cluster_id,
        "messaging.kafka.message.key": "k",
        "messaging.kafka.message.tombstone": True,
        "messaging.kafka.offset": 1,
        "server.address": host,
        "server.port": int(port),
    }
    first, second = headers_of(shared_cluster, topic, 1)
    assert context_of(first["traceparent"]) == ids(instrumented.spans("send")[0])
    assert second["own"] == b"1"
    assert context_of(second["traceparent"]) == ids(tombstone)
    assert attribute(instrumented.spans("send")[0], "message.body.size") == 5


def test_failed_sends_end_with_an_error(
    instrumented: Recorded, shared_cluster: KafkaCluster, servers: str, topic: str
) -> None:
    def reject(value: Any) -> bytes:
        raise ValueError("no such order")

    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"v").result(TIMEOUT)
        shared_cluster.controls.rule(api="Produce", then="error:TOPIC_AUTHORIZATION_FAILED", times=1)
        with pytest.raises(TopicAuthorizationFailed):
            producer.send(topic, b"v").result(TIMEOUT)
    with (
        KafkaProducer(bootstrap_servers=servers, value_serializer=reject) as producer,
        pytest.raises(SerializationError),
    ):
        producer.send(topic, b"v")
    written, *failed = instrumented.spans("send")
    assert [span.status.status_code for span in failed] == [StatusCode.ERROR, StatusCode.ERROR]
    assert [dict(span.attributes or {}).get("error.type") for span in failed] == [
        "TopicAuthorizationFailed",
        "SerializationError",
    ]
    counted = instrumented.metrics()["messaging.client.sent.messages"]
    assert sorted((value, attributes.get("error.type", "")) for value, attributes in counted) == [
        (1, ""),
        (1, "SerializationError"),
        (1, "TopicAuthorizationFailed"),
    ]
    assert written.end_time is not None


def test_record_with_a_context_keeps_it_and_its_span_is_linked(
    instrumented: Recorded, shared_cluster: KafkaCluster, servers: str, topic: str
) -> None:
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"v", headers=[OTHER_TRACE], partition=0)
        producer.send_many(topic, [b"v"], headers=[OTHER_TRACE], partition=0)
    for span in instrumented.spans("send"):
        assert span.kind is SpanKind.CLIENT
        assert linked(span) == [context_of(OTHER_TRACE[1])]
    assert headers_of(shared_cluster, topic) == [dict([OTHER_TRACE])] * 2


def test_invalid_headers_are_rejected_by_the_producer_alone(
    instrumented: Recorded, servers: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with KafkaProducer(bootstrap_servers=servers) as producer, pytest.raises(KafkaError, match="headers"):
        producer.send(topic, b"v", headers=[5])  # type: ignore[list-item]
    assert instrumented.spans() == []
    assert caplog.text == ""


@pytest.mark.parametrize("as_columns", [list, pyarrow.array])
def test_send_many_has_one_span_with_a_child_for_each_partition(
    instrumented: Recorded, shared_cluster: KafkaCluster, servers: str, topic: str, as_columns: Any
) -> None:
    values = [b"%d" % number for number in range(6)]
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send_many(topic, as_columns(values), partition=1).result(TIMEOUT)
        producer.send_many(topic, as_columns(values), partitions=as_columns([0, 1, 1] * 2)).result(TIMEOUT)
    single, *rest = instrumented.spans("send")
    assert (attribute(single, "destination.partition.id"), attribute(single, "kafka.offset")) == ("1", 0)
    [whole] = [span for span in rest if span.kind is SpanKind.PRODUCER]
    parts = [span for span in rest if span is not whole]
    assert attribute(whole, "batch.message_count") == 6
    assert sorted(
        (
            attribute(part, "destination.partition.id"),
            attribute(part, "batch.message_count"),
            attribute(part, "kafka.offset"),
        )
        for part in parts
    ) == [("0", 2, 0), ("1", 4, 6)]
    assert {parent_of(part) for part in parts} == {ids(whole)}
    assert {part.kind for part in parts} == {SpanKind.CLIENT}
    contexts = [context_of(headers["traceparent"]) for headers in headers_of(shared_cluster, topic, 1)]
    assert contexts == [ids(single)] * 6 + [ids(whole)] * 4
    sent = instrumented.metrics()["messaging.client.sent.messages"]
    assert sorted((value, found["messaging.destination.partition.id"]) for value, found in sent) == [
        (2, "0"),
        (10, "1"),
    ]


def test_send_many_that_fails_ends_its_span_with_the_error(
    instrumented: Recorded, shared_cluster: KafkaCluster, servers: str, topic: str
) -> None:
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send_many(topic, [b"v"], partition=0).result(TIMEOUT)
        shared_cluster.controls.rule(api="Produce", then="error:TOPIC_AUTHORIZATION_FAILED", times=1)
        with pytest.raises(TopicAuthorizationFailed):
            producer.send_many(topic, [b"v"] * 4, partition=0).result(TIMEOUT)
        with pytest.raises(KafkaError):
            producer.send_many(topic, [b"v", "text"])  # type: ignore[list-item]
    written, *failed = instrumented.spans("send")
    assert written.status.status_code is StatusCode.UNSET
    assert [attribute(span, "batch.message_count") for span in failed] == [4, 2]
    assert {span.status.status_code for span in failed} == {StatusCode.ERROR}
    assert dict(failed[0].attributes or {})["error.type"] == "TopicAuthorizationFailed"


def test_cancelled_send_ends_its_span(instrumented: Recorded, servers: str) -> None:
    async def program() -> None:
        async with aio.KafkaProducer(bootstrap_servers=servers, max_block_ms=60_000) as producer:
            sending = asyncio.create_task(producer.send("topic-that-is-missing", b"v"))
            while not producer.explain() or not sending.get_stack():
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending

    run(program())
    assert instrumented.one("send").status.status_code is StatusCode.ERROR


# ---------------------------------------------------------------------- consumers


def test_iteration_processes_each_record_in_the_trace_of_its_producer(
    instrumented: Recorded, shared_cluster: KafkaCluster, servers: str, topic: str
) -> None:
    with instrumented.tracer.start_as_current_span("checkout"):
        token = context.attach(baggage.set_baggage("tenant", "blue"))
        send(servers, topic, b"first", b"second")
        context.detach(token)
    seen: list[Any] = []
    with reader(servers, topic, group_id=f"g-{topic}", client_id="billing") as consumer:
        consumer.poll(0)
        for record in consumer:
            current = trace.get_current_span().get_span_context()
            seen.append((current.trace_id, current.span_id))
            assert baggage.get_baggage("tenant") == "blue"
            if record.offset == 1:
                break
        assert trace.get_current_span() is trace.INVALID_SPAN
        assert baggage.get_baggage("tenant") is None
        consumer.commit()
    sends = instrumented.spans("send")
    processed = instrumented.spans("process")
    assert [ids(span) for span in processed] == seen
    assert [parent_of(span) for span in processed] == [ids(span) for span in sends]
    assert {span.kind for span in processed} == {SpanKind.CONSUMER}
    host, port = servers.split(":")
    assert dict(processed[1].attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.client.id": "billing",
        "messaging.consumer.group.name": f"g-{topic}",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.kafka.cluster.id": shared_cluster.cluster_id,
        "messaging.kafka.offset": 1,
        "messaging.message.body.size": 6,
        "server.address": host,
        "server.port": int(port),
    }
    polled = instrumented.spans("poll")
    assert sum(attribute(span, "batch.message_count") for span in polled) == 2
    assert [one for span in polled for one in linked(span)] == [ids(span) for span in sends]
    assert {span.kind for span in polled} == {SpanKind.CLIENT}
    commit = instrumented.spans("commit")[0]
    assert (commit.name, attribute(commit, "operation.type")) == (f"commit {topic}", "settle")
    metrics = instrumented.metrics()
    assert [value for value, _ in metrics["messaging.client.consumed.messages"]] == [2]
    assert [value for value, _ in metrics["messaging.process.duration"]] == [2]
    durations = metrics["messaging.client.operation.duration"]
    assert {found["messaging.operation.name"] for _, found in durations} == {"send", "poll", "commit"}


def test_poll_without_records_has_no_span(instrumented: Recorded, servers: str, topic: str) -> None:
    with reader(servers, topic) as consumer:
        assert consumer.poll(timeout_ms=300) == {}
    assert instrumented.spans() == []


def test_poll_of_two_topics_names_neither(
    instrumented: Recorded, shared_cluster: KafkaCluster, servers: str, topic: str
) -> None:
    other = f"{topic}-other"
    shared_cluster.create_topic(other)
    for name in (topic, other):
        send(servers, name, b"v")
    with reader(servers) as consumer:
        places = [TopicPartition(topic, 0), TopicPartition(other, 0)]
        consumer.assign(places)
        deadline = itertools.count()
        while sum(attribute(span, "batch.message_count") for span in instrumented.spans("poll")) < 2:
            consumer.poll(timeout_ms=1000)
            assert next(deadline) < 30
    for span in instrumented.spans("poll"):
        both = attribute(span, "batch.message_count") == 2
        assert (span.name == "poll") == both
        assert (attribute(span, "destination.name") is None) == both


def test_process_span_reports_the_error_and_links_the_span_around_it(
    instrumented: Recorded, servers: str, topic: str
) -> None:
    send(servers, topic, b"v")
    with reader(servers, topic) as consumer:
        [[record]] = consumer.poll(timeout_ms=20_000).values()
        with instrumented.tracer.start_as_current_span("batch") as around:
            with pytest.raises(ValueError, match="no such order"), consumer.process_span(record):
                raise ValueError("no such order")
            assert trace.get_current_span() is around
    processed = instrumented.one("process")
    assert parent_of(processed) == ids(instrumented.one("send"))
    assert linked(processed) == [ids(instrumented.one("batch"))]
    assert processed.status.status_code is StatusCode.ERROR
    assert processed.status.description == "no such order"
    assert dict(processed.attributes or {})["error.type"] == "ValueError"


def test_columns_have_a_poll_span_with_links(instrumented: Recorded, servers: str, topic: str) -> None:
    send(servers, topic, b"a", b"b")
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send_many(topic, [b"c"] * 300, partition=0).result(TIMEOUT)
    with reader(servers) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        polled = 0
        while polled < 302:
            polled += sum(map(len, consumer.poll_columns(timeout_ms=20_000).values()))
        before = len(instrumented.spans("poll"))
        assert sum(map(len, consumer.read_range(place, 0, 302))) == 302
    spans = instrumented.spans("poll")
    for part in (spans[:before], spans[before:]):
        assert sum(attribute(span, "batch.message_count") for span in part) == 302
        assert attribute(part[0], "kafka.offset") == 0
        found = {one for span in part for one in linked(span)}
        assert found == {ids(span) for span in instrumented.spans("send")}


def test_failed_commit_has_a_span_with_the_error(
    instrumented: Recorded, shared_cluster: KafkaCluster, servers: str, topic: str
) -> None:
    send(servers, topic, b"v")
    with reader(servers, topic, group_id=f"g-{topic}", enable_auto_commit=False) as consumer:
        next(consumer)
        shared_cluster.controls.rule(api="OffsetCommit", then="error:GROUP_AUTHORIZATION_FAILED", times=1)
        with pytest.raises(KafkaError):
            consumer.commit()
    commit = instrumented.one("commit")
    assert commit.status.status_code is StatusCode.ERROR
    assert dict(commit.attributes or {})["error.type"] == "GroupAuthorizationFailed"


# ---------------------------------------------------------------------- asyncio, threads


def current_ids() -> tuple[int, int]:
    current = trace.get_current_span().get_span_context()
    return current.trace_id, current.span_id


def test_interleaved_tasks_have_their_own_current_spans(
    instrumented: Recorded, shared_cluster: KafkaCluster, servers: str, topic: str
) -> None:
    other = f"{topic}-other"
    shared_cluster.create_topic(other)
    for name in (topic, other):
        send(servers, name, *[b"v"] * 20)
    seen: dict[str, list[tuple[int, int]]] = {topic: [], other: []}

    async def read(name: str) -> None:
        async with aio.KafkaConsumer(
            name, bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer:
            async for record in consumer:
                inside = current_ids()
                await asyncio.sleep(0)
                assert current_ids() == inside
                seen[name].append(inside)
                if record.offset == 19:
                    break
            assert trace.get_current_span() is trace.INVALID_SPAN

    async def program() -> None:
        async with asyncio.TaskGroup() as tasks:
            for name in (topic, other):
                tasks.create_task(read(name))

    run(program())
    for name, found in seen.items():
        assert found == [
            ids(span) for span in instrumented.spans(f"process {name}") if span.name.endswith(name)
        ]
        assert len(set(found)) == 20


def test_cancelled_processing_ends_its_span_and_leaves_no_context(
    instrumented: Recorded, servers: str, topic: str
) -> None:
    send(servers, topic, b"a", b"b")

    async def program() -> None:
        async with aio.KafkaConsumer(
            topic, bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer:
            records = [
                one for listed in (await consumer.getmany(timeout_ms=20_000)).values() for one in listed
            ]
            begun = asyncio.Event()

            async def process() -> None:
                try:
                    with consumer.process_span(records[0]):
                        begun.set()
                        await asyncio.Event().wait()
                finally:
                    assert trace.get_current_span() is trace.INVALID_SPAN

            task = asyncio.create_task(process())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(program())
    processed = instrumented.one("process")
    assert processed.status.status_code is StatusCode.ERROR
    assert dict(processed.attributes or {})["error.type"] == "CancelledError"


def test_step_that_another_task_ends_leaves_that_task_alone(
    instrumented: Recorded, servers: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    send(servers, topic, b"a", b"b", b"c")

    async def program() -> None:
        async with aio.KafkaConsumer(
            topic, bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer:
            steps = aiter(consumer)
            with instrumented.tracer.start_as_current_span("around") as around:
                for _ in range(3):  # each step in a task of its own
                    await asyncio.create_task(anext(steps))
                    assert trace.get_current_span() is around
                del steps
                gc.collect()
                assert trace.get_current_span() is around

    run(program())
    assert len(instrumented.spans("process")) == 3
    assert caplog.text == ""


def test_consumer_closed_by_another_thread_leaves_no_context_behind(
    instrumented: Recorded, servers: str, topic: str
) -> None:
    send(servers, topic, b"a", b"b")
    consumer = reader(servers, topic)
    steps = iter(consumer)
    next(steps)
    assert trace.get_current_span() is not trace.INVALID_SPAN
    closing = threading.Thread(target=consumer.close)
    closing.start()
    closing.join(TIMEOUT)
    assert instrumented.one("process").end_time is not None
    with reader(servers, topic) as other:  # the next hook on this thread restores its context
        other.poll(timeout_ms=20_000)
        assert trace.get_current_span() is trace.INVALID_SPAN
    del steps


def test_threads_that_process_records_have_their_own_current_spans(
    instrumented: Recorded, servers: str, topic: str
) -> None:
    send(servers, topic, b"a", b"b")
    with reader(servers, topic) as consumer:
        records = list(itertools.islice(consumer, 2))
        barrier = threading.Barrier(2, timeout=TIMEOUT)
        seen: dict[int, tuple[int, int]] = {}

        def process(record: Any) -> None:
            with consumer.process_span(record):
                barrier.wait()
                seen[record.offset] = current_ids()
                barrier.wait()

        with instrumented.tracer.start_as_current_span("around"):
            threads = [threading.Thread(target=process, args=(record,)) for record in records]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(TIMEOUT)
    ended = {ids(span): attribute(span, "kafka.offset") for span in instrumented.spans("process")}
    assert [ended[seen[offset]] for offset in (0, 1)] == [0, 1]


def test_durations_in_the_simulation_are_virtual(instrumented: Recorded, simulation: Simulation) -> None:
    cluster = simulation.cluster(1, {"orders": 1})
    with simulation.producer(cluster) as producer:
        producer.send("orders", b"v").result(10)
        cluster.controls.rule(api="Produce", then="delay:2", times=1)
        producer.send("orders", b"v").result(10)
    with simulation.consumer(cluster, "orders", auto_offset_reset="earliest") as consumer:
        for record in consumer:
            simulation.run_for(3)
            if record.offset == 1:
                break
    sums = instrumented.metrics("sum")
    [sent] = [
        value
        for value, found in sums["messaging.client.operation.duration"]
        if found["messaging.operation.name"] == "send"
    ]
    assert 2 <= sent < 3
    [(processed, _)] = sums["messaging.process.duration"]
    assert processed == pytest.approx(6, abs=0.5)
    assert [attribute(span, "kafka.offset") for span in instrumented.spans("process")] == [0, 1]


def test_columns_of_an_asyncio_producer_keep_the_headers_of_each_row(
    instrumented: Recorded, shared_cluster: KafkaCluster, servers: str, topic: str
) -> None:
    async def program() -> None:
        with instrumented.tracer.start_as_current_span("checkout"):
            async with aio.KafkaProducer(bootstrap_servers=servers) as producer:
                rows = [[("own", b"1")], None]
                await (await producer.send_many(topic, [b"a", b"b"], headers=rows, partition=0))

    run(program())
    span = instrumented.one("send")
    assert parent_of(span) == ids(instrumented.one("checkout"))
    first, second = headers_of(shared_cluster, topic)
    assert first["own"] == b"1"
    assert "own" not in second
    assert context_of(first["traceparent"]) == context_of(second["traceparent"]) == ids(span)


# ---------------------------------------------------------------------- options


def test_suppressed_operations_are_not_recorded(
    instrumented: Recorded, shared_cluster: KafkaCluster, servers: str, topic: str
) -> None:
    with suppress_instrumentation():
        with KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send(topic, b"v", partition=0)
            producer.send_many(topic, [b"v"], partition=0)
        with reader(servers, topic, group_id=f"g-{topic}") as consumer:
            for record in itertools.islice(consumer, 2):
                assert record.headers == []
            consumer.poll_columns(0)
            consumer.commit()
    assert instrumented.spans() == []
    assert instrumented.metrics() == {}


def test_clients_are_traced_between_instrument_and_uninstrument(
    recorded: Recorded, servers: str, topic: str
) -> None:
    instrumentor = PyKafka2Instrumentor()
    with KafkaProducer(bootstrap_servers=servers) as before:
        instrumentor.instrument(**recorded.providers)
        with KafkaProducer(bootstrap_servers=servers) as during:
            for producer in (before, during):
                producer.send(topic, b"v").result(TIMEOUT)
            during.flush()
            instrumentor.uninstrument()
            during.send(topic, b"v").result(TIMEOUT)
            during.send_many(topic, [b"v"]).result(TIMEOUT)
        with KafkaProducer(bootstrap_servers=servers) as after:
            after.send(topic, b"v").result(TIMEOUT)
    assert len(recorded.spans()) == 1


def test_client_with_its_own_tracing_is_not_traced_twice(
    instrumented: Recorded, servers: str, topic: str
) -> None:
    telemetry = Telemetry(**instrumented.providers)
    send(servers, topic, b"v", interceptors=[ProducerTracing(telemetry)])
    with reader(servers, topic, interceptors=[ConsumerTracing(telemetry)]) as consumer:
        next(consumer)
    assert [span.name.split()[0] for span in instrumented.spans()] == ["send", "poll", "process"]


def test_tracing_of_two_clients_is_logged(
    recorded: Recorded, servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    tracing = ProducerTracing(Telemetry(**recorded.providers))
    assert tracing.client is None
    for name in ("one", "two"):
        KafkaProducer(bootstrap_servers=servers, client_id=name, interceptors=[tracing]).close()
    assert tracing.client is not None
    assert tracing.client.client_id == "one"
    assert "belongs to client 'one'" in caplog.text


def test_hooks_can_add_attributes_and_their_errors_are_logged(
    recorded: Recorded, servers: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def note(span: Any, subject: Any) -> None:
        span.set_attribute("subject", type(subject).__name__)
        raise ValueError("a bug")

    instrumentor = PyKafka2Instrumentor()
    instrumentor.instrument(**recorded.providers, send_hook=note, receive_hook=note, process_hook=note)
    try:
        send(servers, topic, b"v")
        with KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send_many(topic, [b"v"], partition=0)
        with reader(servers, topic) as consumer:
            next(consumer)
        with reader(servers, topic) as consumer:
            consumer.poll_columns(timeout_ms=20_000)
    finally:
        instrumentor.uninstrument()
    found = [(span.name.split()[0], dict(span.attributes or {})["subject"]) for span in recorded.spans()]
    assert found == [
        ("send", "ProducerRecord"),
        ("send", "BulkRecords"),
        ("poll", "dict"),
        ("process", "ConsumerRecord"),
        ("poll", "GrowingColumns"),
    ]
    assert caplog.text.count("for OpenTelemetry spans failed") == 5


@pytest.mark.parametrize(
    ("key", "shown"), [(b"k", "k"), ("k", "k"), (7, "7"), (b"\xff", None), (object(), None), (None, None)]
)
def test_keys_are_attributes_if_they_have_text(
    instrumented: Recorded, servers: str, topic: str, key: Any, shown: str | None
) -> None:
    with KafkaProducer(bootstrap_servers=servers, key_serializer=lambda key: b"k") as producer:
        producer.send(topic, b"v", key=key).result(TIMEOUT)
    assert attribute(instrumented.one("send"), "kafka.message.key") == shown


def test_metric_rows_of_all_clients_are_observed(recorded: Recorded, servers: str, topic: str) -> None:
    instrumentor = PyKafka2Instrumentor()
    instrumentor.instrument(**recorded.providers, client_metrics=True)
    try:
        producers = [KafkaProducer(bootstrap_servers=servers, client_id=name) for name in ("one", "two")]
        for producer in producers:
            producer.send(topic, b"v").result(TIMEOUT)
        admin = KafkaAdminClient(bootstrap_servers=servers, client_id="three")
        admin.list_topics()
        consumer = reader(servers, topic, client_id="four")
        next(consumer)
        for _ in range(2):
            found = recorded.metrics()
            assert sorted(
                (value, attributes["client-id"], attributes["topic"])
                for value, attributes in found["kafka.producer.record_send_total"]
            ) == [(1, "one", topic), (1, "two", topic)]
            assert {"client-id", "node-id"} == {*found["kafka.producer.request_total"][0][1]}
            assert found["kafka.admin.connection_count"][0][1] == {"client-id": "three"}
            consumed = found["kafka.consumer.records_consumed_total"]
            assert [attributes["topic"] for _, attributes in consumed] == [topic]
        for client in (*producers, admin, consumer):
            client.close()
        assert "kafka.producer.record_send_total" not in recorded.metrics()
    finally:
        instrumentor.uninstrument()


def test_units_of_metric_rows_are_those_of_ucum() -> None:
    units = {one.name: unit_of(one) for one in PRODUCER}
    assert units["record-size-avg"] == "By"
    assert units["record-send-total"] == "{records}"
    assert units["record-send-rate"] == "{records}/s"
    assert units["outgoing-byte-rate"] == "By/s"
    assert units["bufferpool-wait-ratio"] == units["compression-rate-avg"] == "1"


def test_entry_point_names_the_instrumentor() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["opentelemetry_instrumentor"]["pykafka2"].partition(":")
    assert (module, name) == ("pykafka2.contrib.opentelemetry", PyKafka2Instrumentor.__name__)
    assert "opentelemetry" in project["optional-dependencies"]
