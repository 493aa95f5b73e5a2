"""Spark types of the source's columns.  Neighbor: arrow.py has their Arrow types."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_connector.errors import WrongSchema
from spark_connector.options.source_options import COLUMNS

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

SPARK_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}


def spark_schema(columns: Sequence[str]) -> StructType:
    return StructType([StructField(name, SPARK_TYPES[name]) for name in columns])


def chosen_columns(schema: StructType, offered: Sequence[str]) -> tuple[str, ...]:
    """Return the columns for a schema of Spark's, which a user may have written.

    Raises:
        WrongSchema: the schema has a column or type that the source does not have, or no column.
    """
    if not schema.fields:
        raise WrongSchema(f"The schema has no column. Choose from {', '.join(COLUMNS)}.")
    for field in schema.fields:
        if field.name not in SPARK_TYPES:
            raise WrongSchema(
                f"The schema has an unknown column {field.name!r}. Choose from {', '.join(COLUMNS)}."
            )
        if field.dataType != SPARK_TYPES[field.name]:
            legal = SPARK_TYPES[field.name].simpleString()
            raise WrongSchema(
                f"The column {field.name} must be {legal}, but the schema has "
                f"{field.dataType.simpleString()}."
            )
        if not field.nullable:  # Spark relies on it, and since 4.3 each task rejects it
            raise WrongSchema(f"The column {field.name} is NOT NULL in the schema, but it must be nullable.")
    return tuple(field.name for field in schema.fields)
