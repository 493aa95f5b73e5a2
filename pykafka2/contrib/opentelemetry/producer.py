"""Spans and metrics of a producer: `send TOPIC` from the call to the acknowledgement."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import attrs
from opentelemetry.trace import Span, SpanContext, SpanKind, set_span_in_context

from pykafka2 import BatchMetadata, BulkRecords, ProducerInterceptor, ProducerRecord, RecordMetadata
from pykafka2.contrib.opentelemetry.telemetry import (
    BODY_SIZE,
    COUNT,
    KEY,
    OFFSET,
    PARTITION,
    TOMBSTONE,
    Attributes,
    Tracing,
    injected,
    run_hook,
    span_context,
    text_of,
    wall_ns,
)
from pykafka2.errors import KafkaError

SEND: Final = "send"


@attrs.define
class _PartOfBulk:
    """The rows of a `send_many` with the same result: one partition, or one error."""

    partition: int | None
    error: KafkaError | None
    first_offset: int
    count: int = 0
    ended_ns: int = 0


class _Bulk:
    """The span of a `send_many` until all its rows have a result."""

    def __init__(self, span: Span, began: float, count: int) -> None:
        self.span = span
        self.began = began
        self.began_ns = wall_ns()
        self.parts: dict[tuple[int | None, str | None], _PartOfBulk] = {}
        self._missing = count
        self._lock = threading.Lock()  # rows that were not appended are reported by the sending thread

    def add(self, metadata: BatchMetadata | None, error: KafkaError | None, count: int) -> bool:
        """Add the result of some rows; return whether they were the last."""
        partition = None if metadata is None else metadata.partition
        key = partition, None if error is None else type(error).__name__
        with self._lock:
            part = self.parts.get(key)
            if part is None:
                first_offset = -1 if metadata is None else metadata.base_offset
                part = self.parts[key] = _PartOfBulk(partition, error, first_offset)
            part.count += count
            part.ended_ns = wall_ns()
            self._missing -= count
            return self._missing <= 0


class ProducerTracing(Tracing, ProducerInterceptor):
    """Traces one producer: give a new one to its option `interceptors`.

    A record gets the context of its span as headers, as the global propagator writes them (W3C traceparent
    and baggage by default). A record that has such a header keeps it, and the span is linked to it.

    Args:
        telemetry: tracer, instruments and hooks; by default, the global providers and no hooks.
    """

    def _start(self, topic: str, attributes: Attributes, existing: SpanContext | None) -> Span:
        """Start a span; with the context of another in the headers, it is linked to that."""
        kind, links = (SpanKind.PRODUCER, ()) if existing is None else (SpanKind.CLIENT, (existing,))
        return self.operations.start(SEND, topic, kind, attributes, links=links)

    # ------------------------------------------------------------------ send

    def on_send(self, record: ProducerRecord) -> None:
        telemetry = self.telemetry
        if not telemetry.is_active:
            return
        headers = record.headers or ()
        try:
            present = frozenset(name for name, _ in headers)
        except (TypeError, ValueError):
            return  # not headers: the producer rejects the record
        existing = span_context(headers)
        attributes: Attributes = {}
        if record.partition is not None:
            attributes[PARTITION] = str(record.partition)
        if record.value is None:
            attributes[TOMBSTONE] = True
        key = text_of(record.key)
        if key is not None:
            attributes[KEY] = key
        span = self._start(record.topic, attributes, existing)
        record.context = span, self.operations.client.monotonic()
        if existing is None:
            added = injected(span, present)
            if added:
                record.headers = [*headers, *added]
        run_hook(telemetry.send_hook, span, record)

    def on_acknowledgement(
        self,
        metadata: RecordMetadata | None,
        error: KafkaError | None,
        record: ProducerRecord | None = None,
    ) -> None:
        if record is None or record.context is None:
            return
        span, began = record.context
        operations, telemetry = self.operations, self.telemetry
        partition = record.partition if metadata is None else metadata.partition
        if span.is_recording():
            if partition is not None:
                span.set_attribute(PARTITION, str(partition))
            if metadata is not None:
                if metadata.offset >= 0:  # not with acks=0
                    span.set_attribute(OFFSET, metadata.offset)
                if metadata.serialized_value_size >= 0:
                    span.set_attribute(BODY_SIZE, metadata.serialized_value_size)
        operations.end(span, error)
        attributes = operations.metric_attributes(SEND, record.topic, partition, error)
        telemetry.sent.add(1, attributes)
        telemetry.operation_duration.record(operations.client.monotonic() - began, attributes)

    # ------------------------------------------------------------------ send_many

    def on_send_many(self, records: BulkRecords) -> None:
        if not self.telemetry.is_active or not records.count:
            return
        existing = span_context(records.shared_headers)
        span = self._start(records.topic, {COUNT: records.count}, existing)
        records.context = _Bulk(span, self.operations.client.monotonic(), records.count)
        if existing is None:
            records.headers += injected(span, frozenset(name for name, _ in records.shared_headers))
        run_hook(self.telemetry.send_hook, span, records)

    def on_acknowledgement_many(
        self,
        metadata: BatchMetadata | None,
        error: KafkaError | None,
        records: BulkRecords,
        rows: Sequence[int],
    ) -> None:
        bulk = records.context
        if bulk is None:
            return
        partition = None if metadata is None else metadata.partition
        attributes = self.operations.metric_attributes(SEND, records.topic, partition, error)
        self.telemetry.sent.add(len(rows), attributes)
        if bulk.add(metadata, error, len(rows)):
            self._end(records.topic, bulk)

    def _end(self, topic: str, bulk: _Bulk) -> None:
        """End the span of a call. A call with several results gets a child span for each."""
        operations, span, parts = self.operations, bulk.span, list(bulk.parts.values())
        failed = next((part.error for part in parts if part.error is not None), None)
        if span.is_recording():
            if len(parts) == 1:
                span.set_attributes(_attributes(parts[0]))
            else:
                self._add_children(topic, bulk)
        operations.end(span, failed)
        partition = parts[0].partition if len(parts) == 1 else None
        self.telemetry.operation_duration.record(
            operations.client.monotonic() - bulk.began,
            operations.metric_attributes(SEND, topic, partition, failed),
        )

    def _add_children(self, topic: str, bulk: _Bulk) -> None:
        parent = set_span_in_context(bulk.span)
        for part in bulk.parts.values():
            child = self.operations.start(
                SEND,
                topic,
                SpanKind.CLIENT,
                _attributes(part),
                parent=parent,
                seconds_ago=(wall_ns() - bulk.began_ns) / 1e9,
            )
            self.operations.end(child, part.error, part.ended_ns)


def _attributes(part: _PartOfBulk) -> Attributes:
    attributes: Attributes = {COUNT: part.count}
    if part.partition is not None:
        attributes[PARTITION] = str(part.partition)
    if part.first_offset >= 0:
        attributes[OFFSET] = part.first_offset
    return attributes
