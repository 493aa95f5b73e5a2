"""Checks of options, schema and topic on the driver, before any task starts.

Spark creates a writer for each micro-batch, so successful checks are remembered for the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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

from pykafka2 import KafkaAdminClient
from pykafka2.errors import ConfigurationError, UnknownOption, UnknownTopicOrPartition
from spark_connector.errors import WrongSchema
from spark_connector.options.kafka_options import for_sink
from spark_connector.options.reading import read_options
from spark_connector.options.sink_options import PER_TASK, SinkOptions, checked
from spark_connector.options.source_options import SourceOptions
from spark_connector.sink.clients import new_producer, shared_options

NEEDED_TOGETHER = ("epoch.sink", "epoch.batch", "epoch.run")


def sink_options(user_options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Parse the options of the sink.

    Raises:
        ConfigurationError, UnknownOption: as `read_options`, or options contradict each other.
    """
    values, kafka, _ = read_options(SinkOptions, user_options, elsewhere=SourceOptions, here="sink")
    options = checked(SinkOptions(**values, kafka=for_sink(kafka)))
    epoch = (options.epoch_sink, options.epoch_batch, options.epoch_run)
    present = [value is not None for value in epoch]
    if streaming and any(present):
        raise ConfigurationError(
            "The options epoch.* cannot be set for a stream: only exactly_once_batches() sets them."
        )
    if any(present) and not (all(present) and options.is_transactional):
        raise ConfigurationError(
            f"The options {', '.join(NEEDED_TOGETHER)} must be set together and with delivery=exactly_once. "
            "Use exactly_once_batches(), which sets them."
        )
    if options.delivery == PER_TASK and not streaming and not any(present):
        raise ConfigurationError(
            f"delivery={PER_TASK} is for streams, whose batches have numbers. For a batch write, set "
            "delivery=exactly_once: it is written completely or not at all."
        )
    return options


PATIENCE = 10.0
"""Seconds to wait for a topic, which brokers may create automatically.  A shorter
kafka.default.api.timeout.ms overrides it."""

_checked: set[tuple[object, ...]] = set()
"""Topics and client options that this process has checked."""


def check_before_tasks(options: SinkOptions, schema: StructType) -> None:
    """Check that rows of this schema can be written.

    Raises:
        WrongSchema: the sink cannot write such rows.
        UnknownOption, ConfigurationError: an option of the clients is unknown or illegal.
        UnknownTopicOrPartition: the topic that `topic` names does not exist.
        NoBrokersAvailable, KafkaError: no broker responded, or a broker refused.
    """
    check_schema(schema, options.topic)
    known = (options.topic, tuple(sorted(options.kafka.items())))
    if known in _checked:
        return
    new_producer(options.kafka, "checked" if options.is_transactional else None).close()
    if options.topic is not None:
        _check_topic(options, options.topic)
    _checked.add(known)


def _check_topic(options: SinkOptions, topic: str) -> None:
    shared = shared_options(options.kafka)
    try:
        admin = KafkaAdminClient({"allow.auto.create.topics": "true", **shared})
    except UnknownOption as error:
        raise UnknownOption(f"kafka.*: {error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"kafka.*: {error}") from None
    timeout_ms = shared.get("default.api.timeout.ms")
    timeout = PATIENCE if timeout_ms is None else min(PATIENCE, float(timeout_ms) / 1000)
    with admin:
        try:
            admin.wait_for_topics([topic], timeout=timeout)
        except UnknownTopicOrPartition as error:
            raise UnknownTopicOrPartition(f"topic={topic} does not exist ({error})") from None


_IGNORED = ("offset", "timestamptype")
"""Other columns of a source, so that rows can be copied from topic to topic."""


def check_schema(schema: StructType, topic: str | None) -> None:
    """Check that the sink can write such rows.

    Args:
        topic: the option, if set.

    Raises:
        WrongSchema: a column is missing, of another type, or unknown.
    """
    seen: dict[str, DataType] = {}
    for field in schema.fields:
        name = field.name.lower()
        if name in _IGNORED:
            continue
        if name not in _WRITABLE:
            raise WrongSchema(
                f"The sink cannot write the column {field.name!r}; its columns are "
                f"{', '.join(_WRITABLE)}. Select "
                "or rename columns, or combine several with to_json(struct('*')).alias('value')."
            )
        if name in seen:
            raise WrongSchema(f"The column {field.name!r} appears twice. Rename or drop one.")
        is_writable, legal = _WRITABLE[name]
        if not is_writable(field.dataType):
            is_nested = name in ("key", "value") and isinstance(
                field.dataType, ArrayType | MapType | StructType
            )
            meant = f"Convert it with to_json({field.name})" if is_nested else "Cast it"
            raise WrongSchema(
                f"The column {field.name!r} is {field.dataType.simpleString()}, but must be {legal}. {meant}."
            )
        seen[name] = field.dataType
    if "value" not in seen:
        raise WrongSchema(
            f"The column 'value' is missing; columns are: {', '.join(schema.names) or 'none'}. Rename "
            "one to 'value'."
        )
    if topic is None and "topic" not in seen:
        raise WrongSchema("The topic is missing. Set the option topic, or add a column 'topic'.")


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


_WRITABLE: dict[str, tuple[Callable[[DataType], bool], str]] = {
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
