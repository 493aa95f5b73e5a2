"""Makes a scan's record batches of the columns of single partitions: one schema, dictionaries shared by all.

Any thread; pure. Imports pyarrow and numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pykafka2.errors import IllegalArgument, SerializationError
from pykafka2.records.arrow_columns import DECODED, SCHEMA
from pykafka2.serializers import deserialize_function
from pykafka2.tables.json_values import JsonValues

if TYPE_CHECKING:
    from pykafka2.records.columns import Columns
    from pykafka2.types import TopicPartition

BATCH_BYTES = 2 << 20
"""Smaller batches are joined up to this size."""
MAX_ROWS = 1 << 20

Decode = Callable[["TopicPartition", Any, Any], pa.Array]
"""Returns the decoded column of a partition's keys or values and their offsets."""


@attrs.frozen
class Decoding:
    """How keys or values are decoded: None (bytes), 'text', 'json', or a deserializer with a schema."""

    column: str
    how: Any = None
    schema: Any = None
    is_found: bool = False
    """Whether the schema of JSON was found in the first records, so that other fields are errors."""

    @property
    def finds_fields(self) -> bool:
        """Whether the fields of JSON are found while reading."""
        return self.how == "json" and self.schema is None

    def start(self) -> Decoder | None:
        """Return the decoder of one read; None leaves bytes."""
        if self.schema is not None and self.how in (None, "text"):
            raise IllegalArgument(f"{self.column}_schema has no use with {self.column}={self.how!r}")
        if self.how is None:
            return None
        if self.how == "text":
            return Decoder(self._text, lambda: pa.string())
        if self.how == "json":
            fields = self.schema
            if fields is not None and not isinstance(fields, pa.Schema | pa.StructType):
                raise IllegalArgument(
                    f"{self.column}_schema={fields!r} must be a pyarrow.Schema with the fields of the objects"
                )
            parser = JsonValues(
                self.column, None if fields is None else pa.schema(list(fields)), is_complete=self.is_found
            )
            return Decoder(
                lambda _, values, offsets: parser.parse(values, offsets),
                lambda: pa.struct(list(parser.schema)),
            )
        if isinstance(self.how, str):
            raise IllegalArgument(
                f"{self.column}={self.how!r} is not a format; use 'text', 'json', or a deserializer and "
                f"{self.column}_schema"
            )
        if self.schema is None:
            raise IllegalArgument(
                f"{self.column} is a deserializer, so {self.column}_schema must be the Arrow type "
                "of its results"
            )
        kind = pa.struct(list(self.schema)) if isinstance(self.schema, pa.Schema) else self.schema
        return Decoder(self._with(deserialize_function(self.how, self.column), kind), lambda: kind)

    def _text(self, partition: TopicPartition, values: Any, offsets: Any) -> pa.Array:
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise SerializationError(
                f"{self.column} of a record of {partition} between offsets {offsets[0]} and {offsets[-1]} "
                f"is not UTF-8: {error}"
            ) from error

    def _with(self, function: Any, kind: pa.DataType) -> Decode:
        def decode(partition: TopicPartition, values: Any, offsets: Any) -> pa.Array:
            found = []
            for value, offset in zip(values.to_pylist(), offsets.to_pylist(), strict=True):
                try:
                    found.append(None if value is None else function(partition.topic, [], value))
                except Exception as error:
                    raise SerializationError(
                        f"{self.column} of {partition} at offset {offset}: the deserializer raised {error!r}"
                    ) from error
            try:
                return pa.array(found, kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise SerializationError(
                    f"{self.column} of {partition} between offsets {offsets[0]} and {offsets[-1]} does not "
                    f"fit into {kind}: {error}"
                ) from error

        return decode


@attrs.frozen
class Decoder:
    """The decoder of one read, and the type it has found so far."""

    decode: Decode
    kind: Callable[[], pa.DataType]


class BatchMaker:
    """Converts pieces of partitions to record batches with the columns `names`."""

    def __init__(
        self, partitions: Sequence[TopicPartition], names: Sequence[str], decodings: Iterable[Decoding]
    ) -> None:
        self._names = list(names)
        self._decoded = [name for name in (*DECODED, "timestampType") if name in names]
        self._decoders = {
            one.column: decoder for one in decodings if one.column in names and (decoder := one.start())
        }
        if self._decoders and "offset" not in self._decoded:
            self._decoded.append("offset")  # for messages about values
        topics = sorted({one.topic for one in partitions})
        numbers = sorted({one.partition for one in partitions})
        self._dictionaries = {
            "topic": pa.array(topics, pa.string()),
            "partition": pa.array(numbers, pa.int32()),
        }
        self._codes: dict[str, dict[Any, int]] = {
            "topic": {topic: code for code, topic in enumerate(topics)},
            "partition": {number: code for code, number in enumerate(numbers)},
        }

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches so far; decoded JSON can still get more fields."""
        return pa.schema(
            [
                pa.field(name, self._decoders[name].kind()) if name in self._decoders else SCHEMA.field(name)
                for name in self._names
            ]
        )

    def batches(self, piece: Columns) -> list[pa.RecordBatch]:
        """Return the records of a piece, mostly in a single batch."""
        partition = piece.topic_partition
        assert partition is not None  # noqa: S101
        if not self._decoded:
            return [self._batch(partition, len(piece), {})]
        return [
            self._batch(partition, part.num_rows, dict(zip(part.schema.names, part.columns, strict=True)))
            for part in piece.to_arrow(self._decoded).to_batches()
        ]

    def _batch(self, partition: TopicPartition, count: int, arrays: dict[str, Any]) -> pa.RecordBatch:
        for name, decoder in self._decoders.items():
            arrays[name] = decoder.decode(partition, arrays[name], arrays["offset"])
        for name in self._codes:
            if name in self._names:
                code = self._codes[name][getattr(partition, name)]
                arrays[name] = pa.DictionaryArray.from_arrays(
                    np.full(count, code, np.int32), self._dictionaries[name], safe=False
                )
        return pa.RecordBatch.from_arrays([arrays[name] for name in self._names], schema=self.schema)


def joined(batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Join batches of one schema that are small; others are passed on without a copy."""
    pending: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        if pending and not batch.schema.equals(pending[0].schema):
            yield _one(pending)
            pending, size, rows = [], 0, 0
        pending.append(batch)
        size, rows = size + batch.nbytes, rows + batch.num_rows
        if size >= BATCH_BYTES or rows >= MAX_ROWS:
            yield _one(pending)
            pending, size, rows = [], 0, 0
    if pending:
        yield _one(pending)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks(pa.system_memory_pool())
    return table.to_batches()[0]


def widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the fields of a schema that was found later."""
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays(
        [_widened(batch.column(one.name), one.type) for one in schema], schema=schema
    )


def _widened(array: Any, kind: pa.DataType) -> pa.Array:
    if array.type.equals(kind):
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        have = {one.name: at for at, one in enumerate(array.type)}
        fields = [
            _widened(pc.struct_field(array, have[one.name]), one.type)
            if one.name in have
            else pa.nulls(len(array), one.type)
            for one in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(
            array.offsets,
            _widened(array.values, kind.value_type),
            mask=array.is_null() if array.null_count else None,
        ).cast(kind)
    return array.cast(kind)
