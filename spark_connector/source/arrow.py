"""Arrow types of the source's columns, which must match the Spark types in schema.py."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

ARROW_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
}


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, ARROW_TYPES[name]) for name in columns])
