"""Spans and metrics of one test, and the clients that make them."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pykafka2 import KafkaConsumer, KafkaProducer


class Recorded:
    """The providers of one test, and what was exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self._reader])
        self.tracer = self.tracer_provider.get_tracer("test")

    @property
    def providers(self) -> dict[str, Any]:
        return {"tracer_provider": self.tracer_provider, "meter_provider": self.meter_provider}

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """Return the spans that ended, in the order of their start; those with this first word."""
        found = [span for span in self._exporter.get_finished_spans() if span.name.startswith(name)]
        return sorted(found, key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        [span] = self.spans(name)
        return span

    def metrics(self, of_histograms: str = "count") -> dict[str, list[tuple[Any, dict[str, Any]]]]:
        """Return the values, or the counts (or sums) of histograms, and the attributes of each metric."""
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: [
                (
                    getattr(point, "value", None) or getattr(point, of_histograms, 0),
                    dict(point.attributes or {}),
                )
                for point in metric.data.data_points
            ]
            for of_resource in data.resource_metrics
            for of_scope in of_resource.scope_metrics
            for metric in of_scope.metrics
        }


def send(servers: str, topic: str, *values: bytes, **options: Any) -> None:
    """Send to partition 0."""
    with KafkaProducer(bootstrap_servers=servers, **options) as producer:
        for value in values:
            producer.send(topic, value, partition=0)


def reader(servers: str, *topics: str, **options: Any) -> Any:
    options = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000, **options}
    return KafkaConsumer(*topics, bootstrap_servers=servers, **options)


def context_of(header: bytes | None) -> tuple[int, int]:
    """Return the ids of the trace and of the span in a traceparent."""
    assert header is not None
    _, trace_id, span_id, _ = header.decode().split("-")
    return int(trace_id, 16), int(span_id, 16)


def ids(span: ReadableSpan) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def parent_of(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def attribute(span: ReadableSpan, name: str) -> Any:
    return (span.attributes or {}).get(f"messaging.{name}")
