"""Spans and metrics of a consumer: `poll TOPIC`, `process TOPIC` for each record, `commit TOPIC`.

Share consumers have the same ones; their commits are those of acknowledgements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, Final

import attrs
from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind

from pykafka2 import Columns, ConsumerInterceptor, ConsumerRecord, OffsetAndMetadata, TopicPartition
from pykafka2.contrib.opentelemetry.telemetry import (
    BODY_SIZE,
    COUNT,
    KEY,
    MAX_LINKS,
    OFFSET,
    PARTITION,
    TOMBSTONE,
    Attributes,
    Telemetry,
    Tracing,
    extracted,
    run_hook,
    span_context,
    text_of,
)
from pykafka2.types import Headers

POLL: Final = "poll"
PROCESS: Final = "process"
COMMIT: Final = "commit"

_PROCESSING: Final = context.create_key("pykafka2-processing")


@attrs.define(eq=False)
class _Processing:
    """A record that is being processed; its span is the current one of the task or thread that does it."""

    span: Span
    began: float
    previous: Context
    attached: Context
    is_done: bool = False


class ConsumerTracing(Tracing, ConsumerInterceptor):
    """Traces one consumer or share consumer: give a new one to its option `interceptors`.

    Args:
        telemetry: tracer, instruments and hooks; by default, the global providers and no hooks.
    """

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        super().__init__(telemetry)
        self._poll_began: float | None = None

    # ------------------------------------------------------------------ poll

    def on_poll_start(self) -> None:
        _leave_ended()
        self._poll_began = self.operations.client.monotonic()

    def on_consume(self, records: dict[TopicPartition, list[ConsumerRecord[Any, Any]]]) -> None:
        seconds = self._seconds_of_poll()
        if not self.telemetry.is_active:
            return
        topics = {partition.topic for partition in records}
        attributes: Attributes = {COUNT: sum(map(len, records.values()))}
        if len(records) == 1:
            [(partition, of_partition)] = records.items()
            attributes[PARTITION] = str(partition.partition)
            attributes[OFFSET] = of_partition[0].offset
        headers = (record.headers for listed in records.values() for record in listed)
        span = self.operations.start(
            POLL,
            topics.pop() if len(topics) == 1 else None,
            SpanKind.CLIENT,
            attributes,
            seconds_ago=seconds,
        )
        if span.is_recording():
            _add_links(span, headers)
        run_hook(self.telemetry.receive_hook, span, records)
        self.operations.end(span, None)
        self._count_polled({partition: len(listed) for partition, listed in records.items()}, seconds)

    def on_columns(self, partition: TopicPartition, columns: Columns) -> None:
        seconds = self._seconds_of_poll()
        if not self.telemetry.is_active or not columns:
            return
        first = columns.first_offset
        attributes: Attributes = {
            COUNT: len(columns),
            PARTITION: str(partition.partition),
            OFFSET: first,
        }
        span = self.operations.start(
            POLL,
            partition.topic,
            SpanKind.CLIENT,
            attributes,
            seconds_ago=seconds,
        )
        if span.is_recording():
            _add_links(span, columns.before(first + MAX_LINKS).headers)
        run_hook(self.telemetry.receive_hook, span, columns)
        self.operations.end(span, None)
        self._count_polled({partition: len(columns)}, seconds)

    def _seconds_of_poll(self) -> float | None:
        """Return the duration of the poll; None for the second piece of a `read_range`."""
        began, self._poll_began = self._poll_began, None
        return None if began is None else self.operations.client.monotonic() - began

    def _count_polled(self, counts: Mapping[TopicPartition, int], seconds: float | None) -> None:
        operations, telemetry = self.operations, self.telemetry
        for (topic, partition), count in counts.items():
            attributes = operations.metric_attributes(POLL, topic, partition, None)
            telemetry.consumed.add(count, attributes)
        if seconds is not None:
            topics = {partition.topic for partition in counts}
            of_all = operations.metric_attributes(
                POLL, topics.pop() if len(topics) == 1 else None, None, None
            )
            telemetry.operation_duration.record(seconds, of_all)

    # ------------------------------------------------------------------ process

    def on_record(self, record: ConsumerRecord[Any, Any]) -> _Processing | None:
        _leave_ended()
        telemetry = self.telemetry
        if not telemetry.is_active:
            return None
        previous = context.get_current()
        parent = extracted(record.headers, previous)
        around = trace.get_current_span(previous).get_span_context()
        is_other_trace = around.is_valid and trace.get_current_span(parent).get_span_context() != around
        attributes: Attributes = {PARTITION: str(record.partition), OFFSET: record.offset}
        if record.value is None:
            attributes[TOMBSTONE] = True
        if record.serialized_value_size >= 0:
            attributes[BODY_SIZE] = record.serialized_value_size
        key = text_of(record.key)
        if key is not None:
            attributes[KEY] = key
        span = self.operations.start(
            PROCESS,
            record.topic,
            SpanKind.CONSUMER,
            attributes,
            parent=parent,
            links=(around,) if is_other_trace else (),
        )
        processing = _Processing(span, self.operations.client.monotonic(), previous, previous)
        inside = context.set_value(_PROCESSING, processing, trace.set_span_in_context(span, parent))
        processing.attached = inside
        context.attach(inside)
        run_hook(telemetry.process_hook, span, record)
        return processing

    def on_record_done(
        self,
        record: ConsumerRecord[Any, Any],
        error: BaseException | None,
        processing: _Processing | None,
    ) -> None:
        if processing is None:
            return
        processing.is_done = True
        _leave_ended()
        operations = self.operations
        operations.end(processing.span, error)
        self.telemetry.process_duration.record(
            operations.client.monotonic() - processing.began,
            operations.metric_attributes(PROCESS, record.topic, record.partition, error),
        )

    # ------------------------------------------------------------------ commit

    def on_commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        error: BaseException | None = None,
        seconds: float = 0.0,
    ) -> None:
        if not self.telemetry.is_active or not offsets:
            return
        offset = next(iter(offsets.values())).offset
        self._note_commit(offsets.keys(), {OFFSET: offset} if len(offsets) == 1 else {}, error, seconds)

    def on_acknowledgement_commit(
        self, offsets: Mapping[TopicPartition, Set[int]], error: BaseException | None, seconds: float
    ) -> None:
        if self.telemetry.is_active and offsets:
            count = sum(map(len, offsets.values()))
            attributes: Attributes = {COUNT: count}
            if count == 1:
                attributes[OFFSET] = next(iter(next(iter(offsets.values()))))
            self._note_commit(offsets.keys(), attributes, error, seconds)

    def _note_commit(
        self,
        partitions: Collection[TopicPartition],
        attributes: Attributes,
        error: BaseException | None,
        seconds: float,
    ) -> None:
        topics = {partition.topic for partition in partitions}
        topic = topics.pop() if len(topics) == 1 else None
        partition: int | None = None
        if len(partitions) == 1:
            [(_, partition)] = partitions
            attributes[PARTITION] = str(partition)
        span = self.operations.start(COMMIT, topic, SpanKind.CLIENT, attributes, seconds_ago=seconds)
        self.operations.end(span, error)
        self.telemetry.operation_duration.record(
            seconds, self.operations.metric_attributes(COMMIT, topic, partition, error)
        )


def _add_links(span: Span, headers: Iterable[Headers]) -> None:
    """Link the different spans that headers of records name, at most `MAX_LINKS`."""
    found: set[tuple[int, int]] = set()
    previous: Headers = []
    for one in headers:
        if one and one != previous:  # records of a send_many have the same
            previous = one
            sent = span_context(one)
            if sent is not None and (sent.trace_id, sent.span_id) not in found:
                found.add((sent.trace_id, sent.span_id))
                span.add_link(sent)
                if len(found) == MAX_LINKS:
                    break


def _leave_ended() -> None:
    """Make the context current again that was current before records which have ended.

    Tokens are not used: the step of an iteration that ends a record can run in another task or thread than
    the one before, or after the loop was left, where a token is invalid. A context that something else was
    put on is left alone; the code that put it there restores it.
    """
    current = context.get_current()
    processing = current.get(_PROCESSING)
    while isinstance(processing, _Processing) and processing.is_done and processing.attached is current:
        current = processing.previous
        context.attach(current)
        processing = current.get(_PROCESSING)
