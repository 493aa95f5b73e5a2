"""Which columns the sink takes, checked on the driver before any task starts."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_connector.errors import WrongSchema

_IGNORED = ("offset", "timestamptype")
"""What a source has besides: rows may go from topic to topic as they were read."""


def check_schema(schema: StructType, topic: str | None) -> None:
    """See that the sink can write such rows.

    Args:
        topic: the option, if it is given.

    Raises:
        WrongSchema: a column is missing, of another type, or unknown.
    """
    seen: dict[str, DataType] = {}
    for field in schema.fields:
        name = field.name.lower()
        if name in _IGNORED:
            continue
        if name not in _TAKEN:
            raise WrongSchema(
                f"the sink has no use for a column {field.name!r}; columns are {', '.join(_TAKEN)}: select "
                "or rename them, or make one value of several by to_json(struct('*')).alias('value')"
            )
        if name in seen:
            raise WrongSchema(f"the column {field.name!r} is there twice")
        is_taken, legal = _TAKEN[name]
        if not is_taken(field.dataType):
            is_nested = name in ("key", "value") and isinstance(
                field.dataType, ArrayType | MapType | StructType
            )
            meant = f"to_json({field.name}) makes text of it" if is_nested else "cast it"
            raise WrongSchema(
                f"the column {field.name!r} is {field.dataType.simpleString()}; it may be {legal}: {meant}"
            )
        seen[name] = field.dataType
    if "value" not in seen:
        raise WrongSchema(f"there is no column 'value', but {', '.join(schema.names) or 'no column at all'}")
    if topic is None and "topic" not in seen:
        raise WrongSchema(
            "there is no column 'topic', and the option topic is not given: one of them is needed"
        )


def _is_text_or_bytes(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType | NullType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [field.name.lower() for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )


_TAKEN: dict[str, tuple[Callable[[DataType], bool], str]] = {
    "key": (_is_text_or_bytes, "string or binary"),
    "value": (_is_text_or_bytes, "string or binary"),
    "headers": (_is_headers, "array<struct<key:string,value:binary>>"),
    "topic": (lambda kind: isinstance(kind, StringType), "string"),
    "partition": (lambda kind: isinstance(kind, IntegerType), "int"),
    "timestamp": (
        lambda kind: isinstance(kind, TimestampType | TimestampNTZType | LongType),
        "timestamp, or bigint of milliseconds since the epoch",
    ),
}
