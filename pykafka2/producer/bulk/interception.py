"""One `send_many` as the producer's interceptors see it.

Interceptors with a hook for `send_many` are called once for all its records, and once for each batch of
results. The others are called with an object for each record, as by `send`. Used on the caller's thread;
`acknowledged` on the IO thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pykafka2.errors import IllegalArgument, KafkaError
from pykafka2.producer.arguments import checked_headers
from pykafka2.producer.bulk.columns import BulkArguments, as_list, is_arrow, is_shared, read_headers
from pykafka2.producer.interceptors import BulkRecords, Interceptors, ProducerRecord, refusal
from pykafka2.types import BatchMetadata, Headers, RecordMetadata

HeadersOf = Callable[[int], bytes]
"""Returns the encoded headers of a row."""


class BulkInterception:
    """The calls of interceptors for one `send_many`."""

    def __init__(self, hooks: Interceptors) -> None:
        self._hooks = hooks
        self._calls: list[tuple[Any, BulkRecords]] = []
        self._count = 0
        self._records: list[ProducerRecord] = []
        """The records as `on_send` returned them; after `read` only if an interceptor wants them."""

    @property
    def needs_objects(self) -> bool:
        """Whether interceptors are called for each record."""
        return self._hooks.sees_records_of_bulk

    def begin(self, topic: str, count: int, headers: Any) -> Headers:
        """Call `on_send_many`; return the headers to add to all records, which have these already."""
        self._count = count
        has_shared = headers is not None and not is_arrow(headers) and is_shared(headers)
        shared = checked_headers(topic, headers) if has_shared else ()
        self._calls = self._hooks.on_send_many(topic, count, shared)
        return [pair for _, records in self._calls for pair in checked_headers(topic, records.headers)]

    def warn_of_arrow(self) -> None:
        """Log that Arrow data is converted to objects."""
        self._hooks.warn_of_arrow()

    def on_send(self, arguments: BulkArguments) -> BulkArguments:
        """Call `on_send` for each record; return the arguments that the records make."""
        topic = arguments.topic
        values = as_list("values", topic, arguments.values)
        count = len(values)
        keys = [None] * count if arguments.keys is None else as_list("keys", topic, arguments.keys, count)
        headers, _ = read_headers(topic, arguments.headers, count)
        numbers: list[Any] = [arguments.partition] * count
        if arguments.partitions is not None:
            numbers = as_list("partitions", topic, arguments.partitions, count)
        times: list[Any] = [None] * count
        if arguments.timestamps_ms is not None:
            times = as_list("timestamps_ms", topic, arguments.timestamps_ms, count)
        records = self._records
        for row, value in enumerate(values):
            own = [*headers[row]] or None
            record = self._hooks.on_send(
                ProducerRecord(topic, value, keys[row], own, numbers[row], times[row]), of_bulk=True
            )
            records.append(record)
            if record.topic != topic:
                raise IllegalArgument(
                    f"topic={record.topic!r} of a record for topic {topic!r}: an interceptor changed it in "
                    f"record {row}. Use `send`"
                )
        return BulkArguments(
            topic,
            [record.value for record in records],
            [record.key for record in records],
            [record.headers for record in records],
            None,
            [record.partition for record in records],
            [record.timestamp_ms for record in records],
        )

    def read(self) -> None:
        """Drop the records that no interceptor wants at the acknowledgement."""
        if not self._hooks.wants_record:
            self._records = []

    def refuse_all(self, error: Exception) -> None:
        """Report that no record was appended, because of an invalid argument."""
        refused = [(record.headers, record) for record in self._records]
        self._hooks.on_refused(error, refused, of_bulk=True)
        self._hooks.on_acknowledgement_many(self._calls, None, refusal(error), range(self._count))

    def refuse(self, error: Exception, rows: Sequence[int], headers_of: HeadersOf) -> None:
        """Report that these rows were not appended."""
        self._report(None, refusal(error), rows, headers_of)

    def acknowledged(
        self,
        metadata: BatchMetadata | None,
        error: KafkaError | None,
        rows: Sequence[int],
        headers_of: HeadersOf,
    ) -> None:
        """Report the result of these rows. Raise a BaseException of an interceptor."""
        self._report(metadata, error, rows, headers_of)

    def _report(
        self,
        metadata: BatchMetadata | None,
        error: KafkaError | None,
        rows: Sequence[int],
        headers_of: HeadersOf,
    ) -> None:
        if self._hooks.sees_records_of_bulk:
            records = self._records
            for number, row in enumerate(rows):
                of_record = None if metadata is None else _of_record(metadata, number)
                record = records[row] if records else None
                self._hooks.on_acknowledgement(of_record, error, headers_of(row), record, of_bulk=True)
        if rows:
            self._hooks.on_acknowledgement_many(self._calls, metadata, error, rows)


def with_headers(topic: str, headers: Any, added: Headers, count: int) -> Any:
    """Return the argument `headers` of `send_many` with headers that all records get in addition."""
    if not added:
        return headers
    if headers is None or is_shared(headers):
        return [*(() if headers is None else checked_headers(topic, headers)), *added]
    return [[*own, *added] for own in read_headers(topic, headers, count)[0]]


def _of_record(batch: BatchMetadata, number: int) -> RecordMetadata:
    offset = batch.base_offset + number if batch.base_offset >= 0 else batch.base_offset
    return RecordMetadata(batch.topic, batch.partition, offset, batch.timestamp)
