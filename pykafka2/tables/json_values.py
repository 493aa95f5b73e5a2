"""Decodes JSON objects to an Arrow struct, whose fields are found in the records themselves.

Any thread; pure. pyarrow's parser reads a batch at a time. The fields found so far are its schema for the
next batch, so a second pass is needed only for a batch with new fields or wider numbers.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from pykafka2.errors import SerializationError


class JsonValues:
    """Parses one column of a scan.

    Args:
        column: the name of the column, for messages.
        schema: the fields, if the caller knows them: others are left out. None finds them.
        is_complete: whether fields that are not in the schema are errors.
    """

    def __init__(self, column: str, schema: pa.Schema | None = None, is_complete: bool = False) -> None:
        self._column = column
        self._is_fixed = schema is not None
        self._is_complete = is_complete
        self.schema: pa.Schema = pa.schema([]) if schema is None else schema
        """The fields found so far."""

    def parse(self, values: Any, offsets: Any) -> pa.Array:
        """Return an array of structs, null for null values. `offsets` are for messages.

        Raises:
            SerializationError: a value is not a JSON object, or fields of two records contradict each other.
        """
        is_null = values.is_null()
        present = values.drop_null() if values.null_count else values
        if not len(present):
            return pa.nulls(len(values), pa.struct(list(self.schema)))
        data = _lines(present)
        table = self._read(data, values, offsets)
        if table.num_rows != len(present):
            raise self._bad_value(values, offsets, None)
        structs = table.to_struct_array()
        structs = structs.combine_chunks() if isinstance(structs, pa.ChunkedArray) else structs
        if isinstance(structs, pa.ChunkedArray):
            structs = pa.concat_arrays(structs.chunks)
        if not values.null_count:
            return structs
        rows = pc.subtract(pc.cumulative_sum(pc.cast(pc.invert(is_null), pa.int64())), 1)
        return structs.take(pc.if_else(is_null, pa.scalar(None, pa.int64()), rows))

    def _read(self, data: pa.Buffer, values: Any, offsets: Any) -> pa.Table:
        try:
            if self._is_fixed:
                return _parsed(data, self.schema, "error" if self._is_complete else "ignore")
            try:
                table = _parsed(data, self.schema, "infer")
            except pa.ArrowInvalid:  # a wider type than that of the batches before
                table = _parsed(data, None, "infer")
            if table.schema.equals(self.schema):
                return table
            found = pa.schema([pa.field(one.name, _plain(one.type)) for one in table.schema])
            self.schema = pa.unify_schemas([self.schema, found], promote_options="permissive")
            return _parsed(data, self.schema, "error") if not table.schema.equals(self.schema) else table
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise self._bad_value(values, offsets, error) from error

    def _bad_value(self, values: Any, offsets: Any, cause: Exception | None) -> SerializationError:
        """Return the error for the first value that is not a JSON object, or for the batch."""
        for value, offset in zip(values.to_pylist(), offsets.to_pylist(), strict=True):
            if value is None:
                continue
            try:
                parsed = json.loads(value)
            except ValueError as error:
                return SerializationError(
                    f"{self._column} of the record at offset {offset} is not JSON: {error}. "
                    "Scan without value='json' to read it as bytes"
                )
            if not isinstance(parsed, dict):
                return SerializationError(
                    f"{self._column} of the record at offset {offset} is JSON, but not an object: "
                    f"{value[:60]!r}"
                )
        if self._is_complete:
            return SerializationError(
                f"{self._column} of the records from offset {offsets[0]} to {offsets[-1]} has fields or "
                f"types that the first records of the scan did not have: {cause}. Pass "
                f"{self._column}_schema, or use to_arrow() or to_polars()"
            )
        return SerializationError(
            f"{self._column} of the records from offset {offsets[0]} to {offsets[-1]} does not fit into one "
            f"struct: {cause}. Pass a schema"
        )


def _lines(values: Any) -> pa.Buffer:
    """Return the values, one after another with a line break between them."""
    text = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values.cast(pa.binary())), b"\n")
    return pa.py_buffer(text[0].as_buffer())


def _parsed(data: pa.Buffer, schema: pa.Schema | None, unexpected: str) -> pa.Table:
    return pa.json.read_json(
        pa.BufferReader(data),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=max(data.size + 1, 1 << 10)),
        parse_options=pa.json.ParseOptions(
            explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior=unexpected
        ),
    )


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type without timestamps: text that looks like one in one batch is other text in the next."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _plain(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind
