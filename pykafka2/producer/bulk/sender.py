"""`send_many`: converts columns of records to batches, without a Python call for each record.

Used on callers' threads. Input is read (columns.py, arrow.py), spread over partitions (partitions.py), cut
into batches of at most bulk_batch_size, encoded (records/column_encoder.py) and passed to the accumulator as
sealed batches. A small remainder of a partition's records is appended to its open batch instead, record by
record; no option makes a remainder larger than `LARGEST_REMAINDER_BYTES`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pykafka2.errors import IncompleteSend, RecordTooLarge
from pykafka2.producer.accumulator.batch_sizes import SMALLEST_RECORD_BYTES
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.append import Appender
from pykafka2.producer.bulk.columns import BulkArguments, BulkPart
from pykafka2.producer.bulk.delivery import BulkDelivery, OnBatch, Report, Share, reporter
from pykafka2.producer.bulk.interception import BulkInterception
from pykafka2.producer.bulk.partitions import (
    NO_PARTITION,
    partitions_of_keys,
    rows_of_partitions,
    rows_without_partition,
    set_partition,
)
from pykafka2.producer.bulk.rows import BulkReader
from pykafka2.producer.delivery.batch_outcome import BatchOutcome
from pykafka2.producer.partitioning.topic_route import Route
from pykafka2.records.batch import HEADER_BYTES
from pykafka2.records.column_encoder import RecordColumns
from pykafka2.records.encoder import NO_HEADERS, Row

CODEC_ROOM = 128
"""A codec can make incompressible batches larger, by less than one part in this number."""

LARGEST_REMAINDER_BYTES = 16_384
"""A partition's records of this size form a batch of their own, however large batch_size is. Encoding them by
column costs a fraction of appending them one by one to the open batch."""

MIN_BLOCK_RECORDS, MAX_BLOCK_RECORDS = 4096, 1 << 20


class BulkSender:
    """Runs one call of `send_many`, and keeps the shares that it has appended."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self._options = options = appender.options
        self._routes = appender.routes
        self._accumulator = appender.accumulator
        self._strategy = appender.strategy
        self._clock = appender.clock
        hooks = appender.hooks
        self._interception = BulkInterception(hooks) if hooks.sees_bulk else None
        self._max_records_bytes = min(options.max_request_size, options.buffer_memory) - HEADER_BYTES
        batch_bytes = min(options.bulk_batch_size, options.max_request_size, options.buffer_memory)
        if options.compression_type != "none":
            batch_bytes -= batch_bytes // CODEC_ROOM
        self._batch_bytes = max(1, batch_bytes - HEADER_BYTES)
        self._remainder_bytes = min(options.batch_size, LARGEST_REMAINDER_BYTES)
        self._shares: list[Share] = []
        self._report: Report | None = None

    def send(self, arguments: BulkArguments, on_delivery: OnBatch | None) -> BulkDelivery:
        """Append all records; raise as `KafkaProducer.send_many` does."""
        reader = BulkReader(self._clock, self._interception, self._appender.serializers)
        parts = reader.read(arguments)
        count = sum(len(part.columns) for part in parts)
        try:
            return self._send_parts(arguments.topic, parts, arguments.partition, count, on_delivery)
        except Exception as error:
            if self._interception is not None:
                self._interception.refuse(error, self._rows_left(count), row_headers(parts))
            raise

    def _send_parts(
        self,
        topic: str,
        parts: Sequence[BulkPart],
        partition: int | None,
        count: int,
        on_delivery: OnBatch | None,
    ) -> BulkDelivery:
        self._check_sizes(topic, parts)
        # Before any record is appended, as it can block and raise.
        route = self._route(topic)
        for part in parts:
            self._check_partitions(route, topic, part, partition)
        self._report = reporter(on_delivery, self._interception, row_headers(parts))
        try:
            first = 0
            for part in parts:
                self._send_part(topic, part, partition, first, route)
                first += len(part.columns)
        except BaseException as error:
            self._raise_incomplete(topic, count, error)
            raise
        return BulkDelivery(self._shares)

    # ------------------------------------------------------------------ checks

    def _check_sizes(self, topic: str, parts: Sequence[BulkPart]) -> None:
        first = 0
        for part in parts:
            row = part.columns.oversized(self._max_records_bytes)
            if row is not None:
                name = "max_request_size"
                if self._options.buffer_memory < self._options.max_request_size:
                    name = "buffer_memory"
                error = RecordTooLarge(
                    f"values[{first + row}] of the records for topic {topic!r} makes a record of more than "
                    f"{name}={getattr(self._options, name)} bytes with key, headers and the batch's header; "
                    f"send less, or raise {name}"
                )
                error.row = first + row
                raise error
            first += len(part.columns)

    def _check_partitions(self, route: Route, topic: str, part: BulkPart, partition: int | None) -> None:
        """Check that the partitions that the caller names exist; waits for new ones as `send` does."""
        named = -1 if partition is None else partition
        if part.partitions is not None:
            named = max([named, *{number for number in part.partitions if number is not None}])
        if named >= len(route.queues) or (partition is not None and partition < 0):
            self._routes.explicit(route, topic, named, self._options.max_block)

    def _route(self, topic: str) -> Route:
        route = self._routes.current(topic)
        return self._routes.route(topic, self._options.max_block) if route is None else route

    # ------------------------------------------------------------------ batches

    def _send_part(
        self, topic: str, part: BulkPart, partition: int | None, first_row: int, checked: Route
    ) -> None:
        """Append a part; `checked` is a route with the partitions that the caller names."""
        for begin, end in self._blocks(topic, part, partition):
            columns = part.columns.rows(begin, end)
            if part.is_now:
                columns.timestamps = self._clock.wall_ms()
            route = self._route(topic)
            while route is not checked:  # the topic can have been recreated with fewer partitions
                self._check_partitions(route, topic, part, partition)
                checked, route = route, self._route(topic)
            for number, rows in self._spread(route, part, columns, begin, end, partition).items():
                own = columns if rows is None else columns.take(rows)
                first = 0
                for stop in own.cuts(self._batch_bytes):
                    if rows is None:
                        numbers: Sequence[int] = range(first_row + begin + first, first_row + begin + stop)
                    else:
                        numbers = _shifted(rows[first:stop], first_row + begin)
                    queue = None if number == NO_PARTITION else route.queues[number]
                    self._append(route, queue, own, first, stop, numbers)
                    first = stop

    def _blocks(self, topic: str, part: BulkPart, partition: int | None) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows with about one batch for each partition."""
        count = len(part.columns)
        if not count:
            return
        step = MAX_BLOCK_RECORDS
        if partition is None:
            all_bytes = len(self._route(topic).queues) * self._batch_bytes
            step = min(max(all_bytes // part.columns.record_bytes(), MIN_BLOCK_RECORDS), MAX_BLOCK_RECORDS)
        for begin in range(0, count, step):
            yield begin, min(count, begin + step)

    def _spread(
        self,
        route: Route,
        part: BulkPart,
        columns: RecordColumns,
        begin: int,
        end: int,
        partition: int | None,
    ) -> dict[int, Sequence[int] | None]:
        """Return the rows of each partition in order, None for all rows.

        NO_PARTITION is the sticky partition, for columns without any key or named partition.
        """
        if partition is not None:
            return {partition: None}
        numbers: Sequence[int] | None = None
        if self._strategy.choose is not None:
            numbers = self._chosen(route, part, columns, begin, end)
        elif not self._strategy.ignores_keys and has_keys(columns):
            numbers = partitions_of_keys(columns, self._strategy.hashes, len(route.queues))
        if part.partitions is not None:
            named = part.partitions[begin:end]
            by_partitioner = numbers if numbers is not None else [NO_PARTITION] * len(named)
            numbers = [
                int(by_partitioner[row]) if number is None else number for row, number in enumerate(named)
            ]
        if numbers is None:
            return {NO_PARTITION: None}
        keyless = rows_without_partition(numbers)
        if len(keyless) == len(numbers):
            return {NO_PARTITION: None}
        if len(keyless):
            self._stick(route, numbers, keyless, columns.record_bytes())
        found = rows_of_partitions(numbers, len(route.queues))
        return {number: None if len(found) == 1 else rows for number, rows in found.items()}

    def _stick(self, route: Route, numbers: Any, keyless: Sequence[int], record_bytes: int) -> None:
        """Set the partitions that the rows without one stick to.

        Other rows can have the same partition, where all must keep the order of the call.
        """
        step = max(self._batch_bytes, self._options.batch_size) // record_bytes + 1
        firsts = range(0, len(keyless), step)
        for first, queue in zip(firsts, self._routes.sticky.turns(route, len(firsts)), strict=True):
            set_partition(numbers, keyless[first : first + step], queue.partition)

    def _chosen(
        self, route: Route, part: BulkPart, columns: RecordColumns, begin: int, end: int
    ) -> list[int]:
        """Return the partitions that a per-record partitioner chooses; rows with a partition are left out."""
        choose, numbers = self._strategy.choose, []
        assert choose is not None  # noqa: S101  checked by the caller
        named = None if part.partitions is None else part.partitions[begin:end]
        for row, (value, key, _, _) in enumerate(columns.entries(0, len(columns))):
            queue = None
            if named is None or named[row] is None:
                key_object = key if part.keys is None else part.keys[begin + row]
                value_object = value if part.values is None else part.values[begin + row]
                queue = choose(route, key_object, key, value_object, value)
            numbers.append(NO_PARTITION if queue is None else queue.partition)
        return numbers

    def _append(
        self,
        route: Route,
        queue: PartitionQueue | None,
        columns: RecordColumns,
        first: int,
        stop: int,
        numbers: Sequence[int],
    ) -> None:
        records = columns.encode(first, stop)
        is_cut = stop < len(columns)  # by bulk_batch_size, so this batch is full
        if not is_cut and len(records.body) + HEADER_BYTES < self._remainder_bytes:
            self._append_rows(route, queue, columns, first, stop, numbers)
            return
        self._appender.guard.check()
        target = self._routes.sticky.next(route) if queue is None else queue
        self._appender.metadata.want_topic(target.topic, self._clock.monotonic())
        self._accumulator.append_columns(
            target, records, self._options.max_block, lambda outcome: self._take(Share(outcome, 0, numbers))
        )

    def _append_rows(
        self,
        route: Route,
        queue: PartitionQueue | None,
        columns: RecordColumns,
        first: int,
        stop: int,
        numbers: Sequence[int],
    ) -> None:
        """Append few records to the open batch, which other callers share."""
        # Runs of consecutive records in a batch: its outcome, the first index and row.
        runs: list[tuple[BatchOutcome, int, int]] = []
        appended = 0
        try:
            for row, (value, key, timestamp, headers) in enumerate(columns.entries(first, stop)):
                size_bytes = SMALLEST_RECORD_BYTES - len(NO_HEADERS) + len(value or b"") + len(key or b"")
                entry: Row = (value, key, timestamp, headers, None)
                target = route.sticky if queue is None else queue
                delivery = self._appender.append_row(
                    None if queue is not None else route, target, entry, size_bytes + len(headers)
                )
                outcome, index = delivery.place
                if not runs or outcome is not runs[-1][0] or index - runs[-1][1] != row - runs[-1][2]:
                    runs.append((outcome, index, row))
                appended = row + 1
        finally:
            ends = [begin for _, _, begin in runs[1:]] + [appended]
            for (outcome, index, begin), end in zip(runs, ends, strict=False):
                self._take(Share(outcome, index, numbers[begin:end]))

    def _take(self, share: Share) -> None:
        """Keep a share of appended records, and report its outcome later."""
        self._shares.append(share)
        if self._report is not None:
            share.outcome.add_listener(partial(self._report, share))

    def _raise_incomplete(self, topic: str, count: int, error: BaseException) -> None:
        """Raise IncompleteSend for an Exception after the first share; other errors get a note."""
        delivery = BulkDelivery(self._shares)
        if not self._shares:
            return
        text = f"{len(delivery)} of {count} records for topic {topic!r} were appended before this error"
        if not isinstance(error, Exception):
            error.add_note(f"send_many: {text}")
            return
        raise IncompleteSend(f"{text}: {error}", len(delivery), self._rows_left(count), delivery) from error

    def _rows_left(self, count: int) -> list[int]:
        """Return the rows that were not appended."""
        taken = bytearray(count)
        for share in self._shares:
            for row in share.rows:
                taken[row] = 1
        return [row for row, is_taken in enumerate(taken) if not is_taken]


def row_headers(parts: Sequence[BulkPart]) -> Callable[[int], bytes]:
    """Return a function of a row's number that returns its encoded headers; for a call with interceptors."""
    columns: Any = parts[0].columns if parts else None

    def headers_of(row: int) -> bytes:
        encoded: bytes = columns.headers if isinstance(columns.headers, bytes) else columns.headers[row]
        return encoded

    return headers_of


def has_keys(columns: RecordColumns) -> bool:
    return getattr(columns, "keys", None) is not None


def _shifted(rows: Any, shift: int) -> Sequence[int]:
    """Convert the row numbers of a block to those of the call, eight bytes each."""
    if hasattr(rows, "tobytes"):
        numbers = array("q")
        numbers.frombytes((rows + shift).astype("int64").tobytes())
        return numbers
    return array("q", [row + shift for row in rows] if shift else rows)
