"""Tracing with damaged headers, clients with equal names, and propagators that raise."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.instrumentation")

from opentelemetry import baggage, context, metrics, propagate, trace
from opentelemetry.propagators.textmap import TextMapPropagator

from pykafka2 import (
    BatchMetadata,
    BulkRecords,
    ClientInfo,
    ConsumerRecord,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    Metric,
    TopicPartition,
)
from pykafka2.contrib.opentelemetry import ConsumerTracing, ProducerTracing, PyKafka2Instrumentor, Telemetry
from pykafka2.contrib.opentelemetry.instrumentor import ClientMetrics
from pykafka2.contrib.opentelemetry.telemetry import Tracing
from pykafka2.errors import TopicAuthorizationFailed
from pykafka2.testing import Simulation
from tests.contrib.recorded import Recorded, attribute, context_of, ids, linked, parent_of

pytestmark = pytest.mark.gate

T = TypeVar("T", bound=Tracing)
NOWHERE = "127.0.0.1:1"
VALID = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def instrumented() -> Iterator[Recorded]:
    recorded = Recorded()
    instrumentor = PyKafka2Instrumentor()
    instrumentor.instrument(**recorded.providers)
    yield recorded
    instrumentor.uninstrument()
    assert trace.get_current_span() is trace.INVALID_SPAN
    recorded.meter_provider.shutdown()


def round_trip(simulation: Simulation, headers: list[Any]) -> list[Any]:
    """Send a record with these headers, and process it; return the headers that it arrived with."""
    cluster = simulation.cluster(1, {"orders": 1})
    with simulation.producer(cluster) as producer:
        producer.send("orders", b"v", headers=headers).result(10)
    with simulation.consumer(cluster, "orders", auto_offset_reset="earliest") as consumer:
        return next(consumer).headers


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"garbage",
        b"\xff" * 60,
        VALID[:-3],
        b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01",
        VALID * 2,
    ],
    ids=["null", "empty", "garbage", "no text", "cut off", "zeros", "twice"],
)
def test_damaged_context_is_kept_and_is_no_parent(
    instrumented: Recorded, simulation: Simulation, caplog: pytest.LogCaptureFixture, value: bytes | None
) -> None:
    found = round_trip(simulation, [("traceparent", value), ("own", None)])
    assert found == [("traceparent", value), ("own", None)]
    sent, processed = instrumented.one("send"), instrumented.one("process")
    assert (linked(sent), parent_of(processed)) == ([], None)
    assert linked(instrumented.one("poll")) == []
    assert caplog.text == ""


def test_first_of_two_contexts_counts(instrumented: Recorded, simulation: Simulation) -> None:
    other = VALID.replace(b"0af7", b"1111")
    round_trip(simulation, [("traceparent", VALID), ("traceparent", other), ("tracestate", b"a=1,,=,b")])
    assert linked(instrumented.one("send")) == [context_of(VALID)]
    assert parent_of(instrumented.one("process")) == context_of(VALID)


def test_record_with_baggage_alone_gets_a_context(instrumented: Recorded, simulation: Simulation) -> None:
    found = round_trip(simulation, [("baggage", b"tenant=blue,%zz,=;")])
    assert [name for name, _ in found] == ["baggage", "traceparent"]
    assert parent_of(instrumented.one("process")) == ids(instrumented.one("send"))


class Raising(TextMapPropagator):
    """A propagator that raises, as Jaeger's does if a header has no hexadecimal number."""

    def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> Any:
        raise ValueError("invalid literal for int() with base 16")

    def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:
        setter.set(carrier, "uber-trace-id", "x:y:z:w")

    @property
    def fields(self) -> set[str]:
        return {"uber-trace-id"}


def test_propagator_that_raises_breaks_no_span(
    instrumented: Recorded,
    simulation: Simulation,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(propagate, "_HTTP_TEXT_FORMAT", Raising())
    assert round_trip(simulation, [("own", b"1")]) == [("own", b"1"), ("uber-trace-id", b"x:y:z:w")]
    assert {span.name for span in instrumented.spans()} == {"send orders", "poll orders", "process orders"}
    assert caplog.text == ""


def test_interceptor_that_drops_all_records_of_a_partition_leaves_the_rest(
    instrumented: Recorded, simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    class Dropping:
        def on_consume(self, records: dict[TopicPartition, list[Any]]) -> dict[TopicPartition, list[Any]]:
            return {place: [] if place.partition == 0 else found for place, found in records.items()}

    cluster = simulation.cluster(1, {"orders": 2})
    with simulation.producer(cluster) as producer:
        for partition in (0, 1):
            producer.send("orders", b"v", partition=partition).result(10)
    with simulation.consumer(
        cluster, "orders", auto_offset_reset="earliest", interceptors=[Dropping()]
    ) as consumer:
        assert next(consumer).partition == 1
    assert [attribute(span, "batch.message_count") for span in instrumented.spans("poll")] == [1]
    assert caplog.text == ""


def test_existing_context_gets_no_baggage_of_another_trace(
    instrumented: Recorded, simulation: Simulation
) -> None:
    cluster = simulation.cluster(1, {"orders": 1})
    token = context.attach(baggage.set_baggage("tenant", "blue"))
    try:
        with simulation.producer(cluster) as producer:
            producer.send("orders", b"v", headers=[("traceparent", VALID)])
            producer.send_many("orders", [b"v"], headers=[("traceparent", VALID)])
            producer.send("orders", b"v")
    finally:
        context.detach(token)
    with simulation.consumer(cluster, "orders", auto_offset_reset="earliest") as consumer:
        found = [[name for name, _ in next(consumer).headers] for _ in range(3)]
    assert found == [["traceparent"], ["traceparent"], ["traceparent", "baggage"]]


# ---------------------------------------------------------------------- hooks one by one


def started(tracing: T, recorded: Recorded) -> T:
    """Return a tracing that belongs to a client of the test."""
    tracing.telemetry = Telemetry(**recorded.providers)
    tracing.on_start(info(list))
    return tracing


@pytest.mark.parametrize("failed_first", [False, True])
def test_span_of_a_partly_failed_send_many_has_the_error(failed_first: bool) -> None:
    recorded = Recorded()
    tracing = started(ProducerTracing(), recorded)
    records = BulkRecords("orders", 5)
    tracing.on_send_many(records)
    results: list[tuple[Any, Any, range]] = [
        (BatchMetadata("orders", 0, 7, range(3)), None, range(3)),
        (None, TopicAuthorizationFailed("no"), range(3, 5)),
    ]
    for metadata, error, rows in reversed(results) if failed_first else results:
        assert recorded.spans() == []
        tracing.on_acknowledgement_many(metadata, error, records, rows)
    whole = next(span for span in recorded.spans() if span.parent is None)
    written, failed = sorted(
        (span for span in recorded.spans() if span.parent is not None),
        key=lambda span: attribute(span, "batch.message_count"),
        reverse=True,
    )
    assert dict(whole.attributes or {})["error.type"] == "TopicAuthorizationFailed"
    assert dict(failed.attributes or {})["error.type"] == "TopicAuthorizationFailed"
    assert (attribute(written, "kafka.offset"), attribute(written, "destination.partition.id")) == (7, "0")
    for part in (written, failed):
        assert whole.start_time is not None
        assert whole.end_time is not None
        assert part.start_time is not None
        assert part.end_time is not None
        assert abs(part.start_time - whole.start_time) < 60 * 1_000_000_000
        assert part.start_time <= part.end_time <= whole.end_time
    sent = {
        (value, found.get("error.type"))
        for value, found in recorded.metrics()["messaging.client.sent.messages"]
    }
    assert sent == {(3, None), (2, "TopicAuthorizationFailed")}


def test_duration_of_a_poll_counts_once_for_all_its_pieces() -> None:
    recorded = Recorded()
    tracing = started(ConsumerTracing(), recorded)
    record = ConsumerRecord("orders", 0, 5, 0, 0, None, b"v", [])
    tracing.on_poll_start()
    for partition in (0, 1):
        tracing.on_consume({TopicPartition("orders", partition): [record]})
    [(count, _)] = recorded.metrics()["messaging.client.operation.duration"]
    assert count == 1
    assert len(recorded.spans("poll")) == 2


def test_record_without_a_context_is_processed_in_the_current_span() -> None:
    recorded = Recorded()
    tracing = started(ConsumerTracing(), recorded)
    record = ConsumerRecord("orders", 0, 5, 0, 0, None, b"v", [])
    with recorded.tracer.start_as_current_span("around"):
        tracing.on_record_done(record, None, tracing.on_record(record))
    processed = recorded.one("process")
    assert parent_of(processed) == ids(recorded.one("around"))
    assert linked(processed) == []


def test_context_of_the_program_on_top_of_a_span_is_left_alone() -> None:
    recorded = Recorded()
    tracing = started(ConsumerTracing(), recorded)
    record = ConsumerRecord("orders", 0, 5, 0, 0, None, b"v", [])
    processing = tracing.on_record(record)
    token = context.attach(baggage.set_baggage("tenant", "blue"))
    tracing.on_record_done(record, None, processing)
    assert baggage.get_baggage("tenant") == "blue"
    tracing.on_poll_start()
    assert baggage.get_baggage("tenant") == "blue"
    context.detach(token)
    tracing.on_poll_start()
    assert trace.get_current_span() is trace.INVALID_SPAN


# ---------------------------------------------------------------------- metrics of clients


def observed(recorded: Recorded, name: str) -> list[tuple[Any, str]]:
    return sorted((value, found["client-id"]) for value, found in recorded.metrics().get(name, []))


def test_two_clients_with_one_client_id_are_reported_apart() -> None:
    recorded = Recorded()
    instrumentor = PyKafka2Instrumentor()
    instrumentor.instrument(**recorded.providers, client_metrics=True)
    options: Any = {"bootstrap_servers": NOWHERE, "client_id": "shop"}
    try:
        one, two = (
            KafkaProducer(**options, buffer_memory=100_000),
            KafkaProducer(**options, buffer_memory=200_000),
        )
        others = KafkaConsumer(**options), KafkaAdminClient(**options)
        memory = "kafka.producer.buffer_total_bytes"
        assert observed(recorded, memory) == [(100_000, "shop"), (200_000, "shop#2")]
        assert [client_id for _, client_id in observed(recorded, "kafka.admin.calls_in_progress")] == ["shop"]
        one.close()
        assert observed(recorded, memory) == [(200_000, "shop#2")]  # keeps its name
        with KafkaProducer(**options, buffer_memory=300_000):
            assert observed(recorded, memory) == [(200_000, "shop#2"), (300_000, "shop")]
        two.close()
        for client in others:
            client.close()
        assert recorded.metrics() == {}
    finally:
        instrumentor.uninstrument()
        recorded.meter_provider.shutdown()


def test_metrics_of_clients_are_reported_again_after_uninstrument() -> None:
    recorded = Recorded()
    instrumentor = PyKafka2Instrumentor()
    for _ in range(2):
        instrumentor.instrument(**recorded.providers, client_metrics=True)
        with KafkaProducer(bootstrap_servers=NOWHERE, client_id="shop"):
            assert [name for _, name in observed(recorded, "kafka.producer.buffer_total_bytes")] == ["shop"]
            instrumentor.uninstrument()
            assert recorded.metrics() == {}
    recorded.meter_provider.shutdown()


def info(rows: Any) -> ClientInfo:
    return ClientInfo("producer", "shop", (), None, None, lambda: None, lambda: 0.0, rows)


def test_clients_can_be_created_and_closed_while_metrics_are_read() -> None:
    reported = ClientMetrics(metrics.NoOpMeter("test"))
    created: list[Any] = []

    def rows() -> list[Metric]:
        if len(created) < 3:
            created.append(reported.watch("producer", ()))
            created[-1].on_start(info(rows))
        created[0].close()
        created[0].close()
        return []

    created.append(reported.watch("producer", ()))
    created[0].on_start(info(rows))
    for _ in range(3):
        list(reported._observe("kafka.producer.record_send_total", None))  # type: ignore[arg-type]
    assert len(created) == 3


def test_forgotten_clients_are_reported_no_more() -> None:
    reported = ClientMetrics(metrics.NoOpMeter("test"))
    calls: list[str] = []

    def rows() -> list[Metric]:
        calls.append("read")
        return []

    kept, forgotten = reported.watch("producer", ()), reported.watch("producer", ())
    for watched in (kept, forgotten):
        watched.on_start(info(rows))
    del forgotten, watched
    reported._observe("kafka.producer.record_send_total", None)  # type: ignore[arg-type]
    assert calls == ["read"]
    late = reported.watch("producer", ())
    late.on_start(info(rows))
    assert late._key == ("producer", "shop#2")  # the name of the one that was forgotten
    kept.close()
