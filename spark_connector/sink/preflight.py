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


def sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Parse the options of the sink.

    Raises:
        ConfigurationError, UnknownOption: as `read_options`, or options that contradict each other.
    """
    values, kafka, _ = read_options(SinkOptions, given, elsewhere=SourceOptions, here="sink")
    options = checked(SinkOptions(**values, kafka=for_sink(kafka)))
    epoch = (options.epoch_sink, options.epoch_batch, options.epoch_run)
    present = [one is not None for one in epoch]
    if streaming and any(present):
        raise ConfigurationError(
            "epoch.* is set by exactly_once_batches() alone; a stream has epochs of its own"
        )
    if any(present) and not (all(present) and options.is_transactional):
        raise ConfigurationError(
            f"{', '.join(NEEDED_TOGETHER)} come together and with delivery=exactly_once; "
            "exactly_once_batches() sets them"
        )
    if options.delivery == PER_TASK and not streaming and not any(present):
        raise ConfigurationError(
            f"delivery={PER_TASK} is for streams, whose batches have numbers; a batch write is all or "
            "nothing with delivery=exactly_once"
        )
    return options


PATIENCE = 10.0
"""Seconds for a topic to be found, or to be made where the brokers make topics by themselves.  A shorter
kafka.default.api.timeout.ms wins."""

_found_good: set[tuple[object, ...]] = set()
"""Options of clients and topics, of this process."""


def check_before_tasks(options: SinkOptions, schema: StructType) -> None:
    """See that rows of this schema can be written.

    Raises:
        WrongSchema: the sink cannot write such rows.
        UnknownOption, ConfigurationError: the clients do not know or refuse an option.
        UnknownTopicOrPartition: the topic that `topic` names does not exist.
        NoBrokersAvailable, KafkaError: nobody was reached, or they refuse.
    """
    check_schema(schema, options.topic)
    known = (options.topic, tuple(sorted(options.kafka.items())))
    if known in _found_good:
        return
    new_producer(options.kafka, "checked" if options.is_transactional else None).close()
    if options.topic is not None:
        _check_topic(options, options.topic)
    _found_good.add(known)


def _check_topic(options: SinkOptions, topic: str) -> None:
    shared = shared_options(options.kafka)
    try:
        admin = KafkaAdminClient({"allow.auto.create.topics": "true", **shared})
    except UnknownOption as error:
        raise UnknownOption(f"among the options kafka.*: {error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"among the options kafka.*: {error}") from None
    given_ms = shared.get("default.api.timeout.ms")
    timeout = PATIENCE if given_ms is None else min(PATIENCE, float(given_ms) / 1000)
    with admin:
        try:
            admin.wait_for_topics([topic], timeout=timeout)
        except UnknownTopicOrPartition as error:
            raise UnknownTopicOrPartition(f"topic={topic}: there is no such topic ({error})") from None


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
