"""The source's columns: their types for Spark.  Neighbour: arrow.py has them for Arrow."""

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
    """The columns to give where Spark says this schema, which a user may have written.

    Raises:
        WrongSchema: it has something that the source does not, or nothing.
    """
    if not schema.fields:
        raise WrongSchema(f"schema: it has no column; there are {', '.join(COLUMNS)}")
    for field in schema.fields:
        if field.name not in SPARK_TYPES:
            raise WrongSchema(f"schema: there is no column {field.name!r}; there are {', '.join(COLUMNS)}")
        if field.dataType != SPARK_TYPES[field.name]:
            legal = SPARK_TYPES[field.name].simpleString()
            raise WrongSchema(f"schema: column {field.name} is {legal}, not {field.dataType.simpleString()}")
        if not field.nullable:  # Spark believes it of keys and values, and since 4.3 refuses it in each task
            raise WrongSchema(f"schema: column {field.name} is NOT NULL, which the source does not promise")
    return tuple(field.name for field in schema.fields)
