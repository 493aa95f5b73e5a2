"""The records of batches as columns, without record objects.

Runs on the application's thread, for `poll_columns`, `read_range` and Spark. The decoders add runs, which for
records of one layout are only their place in a buffer. Lists are made of the columns that the application
reads; arrow_columns.py makes Arrow buffers without lists. `Columns` is what applications see, and
`GrowingColumns` what decoders fill.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pykafka2.records.decoder import RecordTuple
from pykafka2.records.runs import Bytes, Rows, Run
from pykafka2.types import CREATE_TIME, Headers, TopicPartition

if TYPE_CHECKING:
    import pyarrow


class Columns:
    """Records of one partition as lists of equal length: row n of each is one record.

    Timestamps are in milliseconds since the epoch; keys and values are bytes or None. `timestamp_types` has 0
    for those set by producers and 1 for those set by brokers. A list is made when it is first read, so unused
    columns cost nothing. `size_bytes` is the size of the batches as fetched, which can be compressed.
    """

    __slots__ = ("_count", "_lists", "_runs", "_types", "size_bytes", "topic_partition")

    def __init__(self, topic_partition: TopicPartition | None = None) -> None:
        self.topic_partition = topic_partition
        """The partition of the records; None for columns that were decoded without one."""
        self._runs: list[Run] = []
        self._count = 0
        self._lists: dict[str, list[Any]] = {}
        self._types: list[tuple[int, int]] = []
        """Ranges of timestamp types: the last offset of each, and its type."""
        self.size_bytes = 0

    def __len__(self) -> int:
        return self._count

    @property
    def offsets(self) -> list[int]:
        """The offset of each record."""
        return self._list("offsets")

    @property
    def timestamps(self) -> list[int]:
        """The timestamp of each record, in milliseconds since the epoch."""
        return self._list("timestamps")

    @property
    def timestamp_types(self) -> list[int]:
        """0 if the producer set the timestamp (CreateTime), 1 if the broker did (LogAppendTime)."""
        found = self._lists.get("timestamp_types")
        if found is None:
            one = self.timestamp_type
            if one is not None:
                found = [one] * self._count
            else:
                ends = [offset for offset, _ in self._types]
                found = [self._types[bisect_left(ends, offset)][1] for offset in self.offsets]
            self._lists["timestamp_types"] = found
        return found

    @property
    def timestamp_type(self) -> int | None:
        """The timestamp type of all records, None if they have both."""
        if not self._types:
            return CREATE_TIME
        return self._types[0][1] if len(self._types) == 1 else None

    @property
    def keys(self) -> Bytes:
        """The key of each record, None for a null."""
        return self._list("keys")

    @property
    def values(self) -> Bytes:
        """The value of each record, None for a null."""
        return self._list("values")

    @property
    def headers(self) -> list[Headers]:
        """The headers of each record: a list of names and values."""
        found = self._lists.get("headers")
        if found is None:
            found = [one for run in self._runs for one in run.headers_list()]
            self._lists["headers"] = found
        return found

    @property
    def first_offset(self) -> int:
        """The offset of the first record; there must be one."""
        return self._runs[0].offsets[0]

    @property
    def last_offset(self) -> int:
        """The offset of the last record; there must be one."""
        return self._runs[-1].offsets[-1]

    def to_arrow(self, columns: Iterable[str] | None = None) -> pyarrow.Table:
        """Return a table with the columns of Spark's Kafka source.

        They are topic, partition, offset, timestamp, timestampType, key, value and headers. topic and
        partition are dictionary-encoded; timestamp is `timestamp[ms, UTC]`; timestampType is 0 or 1 as in
        `timestamp_types`. Headers are null for a record without any; names that are not UTF-8 get replacement
        characters; timestamps beyond 64 bits, which only a broken producer writes, wrap around as in Java.

        Needs pyarrow and numpy.

        Args:
            columns: the names of the columns to convert, in their order; all of them by default.

        Raises:
            ImportError: pyarrow or numpy is not installed.
            IllegalArgument: a name is not that of a column.
        """
        try:
            from pykafka2.records.arrow_columns import to_table  # imports pyarrow
        except ImportError as error:
            raise ImportError(
                f"to_arrow() needs pyarrow and numpy ({error}): pip install 'pykafka2[tables]'"
            ) from error
        return to_table(self._runs, self.topic_partition, self._timestamp_types(), columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table of `to_arrow` to other libraries: `polars.DataFrame(columns)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def head(self, count: int) -> Columns:
        """Return the first `count` records, without a copy of their bytes."""
        found = self._copy()
        found.shorten(count)
        return found

    def before(self, offset: int) -> Columns:
        """Return the records before this offset, without a copy of their bytes."""
        found = self._copy()
        found.end_before(offset)
        return found

    def _copy(self) -> GrowingColumns:
        found = GrowingColumns(self.topic_partition)
        found.size_bytes = self.size_bytes
        found._runs, found._count, found._types = list(self._runs), self._count, list(self._types)
        return found

    def _timestamp_types(self) -> int | list[int]:
        """Return the timestamp type of all records, or that of each."""
        one = self.timestamp_type
        return self.timestamp_types if one is None else one

    def _list(self, name: str) -> list[Any]:
        found = self._lists.get(name)
        if found is None:
            found = []
            for run in self._runs:
                found += getattr(run, name)
            self._lists[name] = found
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Columns):
            return NotImplemented
        return bool(self.__getstate__()[0] == other.__getstate__()[0])

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> tuple[Any, ...]:
        """Return the lists for pickling, without the buffers they were decoded from."""
        lists = (self.offsets, self.timestamps, self.keys, self.values, self.headers)
        return lists, self.size_bytes, self._types, self.topic_partition

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        columns, size_bytes, types, topic_partition = state
        self.__init__(topic_partition)  # type: ignore[misc]
        rows = list(zip(*columns, strict=True))
        if rows:
            self._runs.append(_run_of(rows))
            self._count = len(rows)
        self.size_bytes = size_bytes
        self._types = types

    def __repr__(self) -> str:
        if not self._count:
            return "<Columns of no records>"
        first = self._runs[0].offsets[0]
        return f"<Columns of {self._count} records, offsets {first} to {self.last_offset}>"


class GrowingColumns(Columns):
    """Columns that decoders add records to.

    `one_by_one` is the number of records that were decoded one by one, in total.
    """

    __slots__ = ("one_by_one",)

    def __init__(self, topic_partition: TopicPartition | None = None) -> None:
        super().__init__(topic_partition)
        self.one_by_one = 0

    def add(self, run: Run, first_offset: int = 0) -> None:
        """Add a run, without the records before `first_offset`."""
        offsets = run.offsets
        if type(run) is Rows:
            self.one_by_one += len(run)
        if offsets and offsets[0] < first_offset:
            run = run.cut(bisect_left(offsets, first_offset), len(offsets))
        if run:
            self._runs.append(run)
            self._count += len(run)
            self._lists.clear()

    def count_batch(self, last_offset: int, size_bytes: int, timestamp_type: int) -> None:
        """Count a batch whose records are or will be added; batches must ascend by offset."""
        self.size_bytes += size_bytes
        if self._types and self._types[-1][1] == timestamp_type:
            self._types.pop()
        self._types.append((last_offset, timestamp_type))

    def extend(self, rows: list[RecordTuple]) -> None:
        """Add rows to all columns, or to none if that fails."""
        if rows:
            self.add(_run_of(rows))

    def shorten(self, count: int) -> None:
        """Keep only the first `count` records."""
        while self._count > count:
            run = self._runs.pop()
            self._count -= len(run)
            if self._count < count:
                self.add(run.cut(0, count - self._count))
        self._lists.clear()

    def end_before(self, offset: int) -> None:
        """Drop the records from this offset on."""
        while self._runs and self._runs[-1].offsets[-1] >= offset:
            run = self._runs.pop()
            self._count -= len(run)
            self.add(run.cut(0, bisect_left(run.offsets, offset)))
        self._lists.clear()

    def runs(self) -> Iterator[Run]:
        """Iterate over the runs."""
        return iter(self._runs)


def _run_of(rows: list[RecordTuple]) -> Rows:
    offsets, timestamps, keys, values, headers = (list(column) for column in zip(*rows, strict=True))
    return Rows(offsets, timestamps, keys, values, {at: h for at, h in enumerate(headers) if h})
