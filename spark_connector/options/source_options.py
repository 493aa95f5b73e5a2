"""The options of the source, with the names, meanings and defaults of Spark's own Kafka connector.

Pure data and its rules; read on the driver.  What differs stands in docs/guides/spark.md.
"""

# ruff: noqa: RUF009 (the calls in the class bodies declare attrs fields)
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from pykafka2 import TopicPartition
from pykafka2.errors import ConfigurationError
from spark_connector.options import kafka_options
from spark_connector.options.fields import (
    INT64_MAX,
    OPTION,
    Because,
    flag,
    json_object,
    milliseconds,
    number_of_bytes,
    one_of,
    option,
    whole_number,
)
from spark_connector.options.reading import read_options
from spark_connector.options.sink_options import SinkOptions

EARLIEST = "earliest"
LATEST = "latest"
EARLIEST_OFFSET = -2
LATEST_OFFSET = -1

TASK_TIMEOUT_MS = "120000"
"""As Spark's spark.network.timeout, which its own connector takes."""

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

Where = str | dict[TopicPartition, int]
"""Where to begin or to end: `earliest`, `latest`, or an offset for each partition."""
Times = dict[TopicPartition, int]

_REFUSED = {
    "kafka": "write options of Kafka's clients with their names, such as kafka.bootstrap.servers",
    "includetimestamp": "the column timestamp is always there",
}


def _names(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not found:
        raise ValueError
    return found


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise Because(f"Python's re: {error}") from None
    if not text.strip():
        raise ValueError
    return text


def _assignment(text: str) -> tuple[TopicPartition, ...]:
    found: list[TopicPartition] = []
    for topic, numbers in json_object(text).items():
        if not isinstance(numbers, list) or not all(_is_number(one) and one >= 0 for one in numbers):
            raise ValueError
        found += (TopicPartition(topic, number) for number in numbers)
    if not found:
        raise ValueError
    return tuple(sorted(set(found)))


def by_partition(text: str, minimum: int) -> dict[TopicPartition, int]:
    """What `{"topic": {"0": 23}}` says."""
    found: dict[TopicPartition, int] = {}
    for topic, entries in json_object(text).items():
        if not isinstance(entries, dict):
            raise Because(f"of {topic!r} it has no object")
        for number, value in entries.items():
            if not number.isdecimal() or not _is_number(value) or not minimum <= value <= INT64_MAX:
                raise Because(f"{topic!r} has {number!r}: {value!r}")
            found[TopicPartition(topic, int(number))] = value
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _starting(text: str) -> Where:
    if text.strip().lower() in (EARLIEST, LATEST):
        return text.strip().lower()
    return by_partition(text, EARLIEST_OFFSET)


def _ending(text: str) -> Where:
    if text.strip().lower() == LATEST:
        return LATEST
    if text.strip().lower() == EARLIEST:
        raise Because("a query cannot end before it begins")
    found = by_partition(text, EARLIEST_OFFSET)
    if EARLIEST_OFFSET in found.values():
        raise Because("-2 is earliest, where a query cannot end")
    return found


def _times(text: str) -> Times:
    return by_partition(text, 0)


def _columns(text: str) -> tuple[str, ...]:
    by_lower = {name.lower(): name for name in COLUMNS}
    chosen: list[str] = []
    for name in _names(text):
        if name.lower() not in by_lower:
            raise Because(f"there is no column {name!r}")
        chosen.append(by_lower[name.lower()])
    return tuple(dict.fromkeys(chosen))


_OFFSETS = """JSON such as {"orders": {"0": 23, "1": -2}}, where -2 is earliest and -1 latest"""
_TIMES = """JSON such as {"orders": {"0": 1700000000000}} with milliseconds since the epoch"""
_COUNT = "a whole number of at least 1"


@attrs.define(kw_only=True, frozen=True)
class SourceOptions:
    """What a source was told; read by `source_options`."""

    subscribe: tuple[str, ...] | None = option(
        "subscribe", None, _names, "topics with commas between", "The topics to read, all their partitions."
    )
    subscribe_pattern: str | None = option(
        "subscribePattern",
        None,
        _pattern,
        "a regular expression of Python's re",
        "Topics whose whole name matches; Kafka's internal ones never do.",
    )
    assign: tuple[TopicPartition, ...] | None = option(
        "assign", None, _assignment, 'JSON such as {"orders": [0, 1]}', "The partitions to read."
    )
    starting_offsets: Where | None = option(
        "startingOffsets",
        None,
        _starting,
        f"'earliest', 'latest' (streams only) or {_OFFSETS}",
        "Where a new query begins; JSON names every partition. A restarted one goes on where it was.",
        shown="latest for streams, earliest for batches",
    )
    ending_offsets: Where = option(
        "endingOffsets",
        LATEST,
        _ending,
        f"'latest' or {_OFFSETS}, but not -2",
        "Where a batch ends, not inclusive.",
        stream=False,
    )
    starting_timestamp: int | None = option(
        "startingTimestamp",
        None,
        whole_number(0),
        "milliseconds since the epoch",
        "A new query begins at each partition's first record of this time or later; wins over the two below.",
    )
    starting_offsets_by_timestamp: Times | None = option(
        "startingOffsetsByTimestamp",
        None,
        _times,
        _TIMES,
        "The same for each partition; wins over startingOffsets.",
    )
    ending_timestamp: int | None = option(
        "endingTimestamp",
        None,
        whole_number(0),
        "milliseconds since the epoch",
        "A batch ends before each partition's first record of this time or later, or at the end.",
        stream=False,
    )
    ending_offsets_by_timestamp: Times | None = option(
        "endingOffsetsByTimestamp",
        None,
        _times,
        _TIMES,
        "The same for each partition; wins over endingOffsets.",
        stream=False,
    )
    starting_offsets_by_timestamp_strategy: str = option(
        "startingOffsetsByTimestampStrategy",
        "error",
        one_of("error", "latest"),
        "'error' or 'latest'",
        "What to do where a partition has no record of the starting time or later.",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        True,
        flag,
        "'true' or 'false'",
        "Whether a query fails when records that it was to read are gone, or warns and goes on.",
    )
    include_headers: bool = option(
        "includeHeaders", False, flag, "'true' or 'false'", "Whether there is a column headers."
    )
    columns: tuple[str, ...] | None = option(
        "columns",
        None,
        _columns,
        f"some of {', '.join(COLUMNS)}, with commas between",
        "The columns to give, in this order: Spark does not tell which a query needs, and each costs time.",
        shown="all",
    )
    isolation: str | None = option(
        "isolation",
        None,
        one_of("read_uncommitted", "read_committed"),
        "'read_uncommitted' or 'read_committed'",
        "Whether records of open and aborted transactions are read; kafka.isolation.level means the same.",
        shown="read_uncommitted",
    )
    min_partitions: int | None = option(
        "minPartitions",
        None,
        whole_number(1),
        _COUNT,
        "About how many tasks to make at least: large ranges of offsets are split.",
        shown="one task for each of Kafka's partitions",
    )
    max_records_per_partition: int | None = option(
        "maxRecordsPerPartition",
        None,
        whole_number(1),
        _COUNT,
        "The most offsets of one task: larger ranges are split, before minPartitions looks.",
    )
    max_offsets_per_trigger: int | None = option(
        "maxOffsetsPerTrigger",
        None,
        whole_number(1),
        _COUNT,
        "The most offsets of one micro-batch, shared out by how much waits in each partition.",
        batch=False,
    )
    min_offsets_per_trigger: int | None = option(
        "minOffsetsPerTrigger",
        None,
        whole_number(1),
        _COUNT,
        "A micro-batch waits for so many offsets, for maxTriggerDelay at most.",
        batch=False,
    )
    max_trigger_delay_ms: float = option(
        "maxTriggerDelay",
        15 * 60_000.0,
        milliseconds,
        "a time such as '15m' or '30s'",
        "How long minOffsetsPerTrigger may hold back what there is.",
        shown="15m",
        batch=False,
    )
    max_bytes_per_trigger: int | None = option(
        "maxBytesPerTrigger",
        None,
        number_of_bytes,
        "bytes, or such as '64m'",
        "About the most bytes of one micro-batch, as they lie in the log, reckoned from samples.",
        batch=False,
    )
    pushdown: bool = option(
        "pushDownFilters",
        False,
        flag,
        "'true' or 'false'",
        "Whether conditions on topic, partition, offset and timestamp limit what is read; takes "
        "spark.sql.python.filterPushdown.enabled=true.",
        stream=False,
    )
    poll_timeout_ms: float | None = option(
        "kafkaConsumer.pollTimeoutMs",
        None,
        milliseconds,
        "milliseconds",
        "How long a task waits for records; wins over kafka.default.api.timeout.ms.",
        shown="kafka.default.api.timeout.ms if given, otherwise 120000",
    )
    fetch_offset_retries: int = option(
        "fetchOffset.numRetries",
        3,
        whole_number(0),
        "a whole number of at least 0",
        "How often a question for offsets is asked again.",
    )
    fetch_offset_retry_interval_ms: float = option(
        "fetchOffset.retryIntervalMs",
        1_000.0,
        milliseconds,
        "milliseconds",
        "The time between those questions.",
    )
    group_id_prefix: str | None = option(
        "groupIdPrefix",
        None,
        str,
        "anything",
        "Accepted and of no effect, as is kafka.group.id: no group is used.",
    )
    kafka: Mapping[str, str] = attrs.field(factory=dict, repr=kafka_options.redacted)  # type: ignore[arg-type]
    """The consumers' options."""

    @property
    def isolation_level(self) -> str:
        return self.isolation or self.kafka.get("isolation.level", "read_uncommitted")

    @property
    def task_timeout_ms(self) -> str:
        """How long a task waits for records, as an option of its consumer."""
        if self.poll_timeout_ms is not None:
            return str(int(self.poll_timeout_ms))
        return self.kafka.get("default.api.timeout.ms", TASK_TIMEOUT_MS)

    @property
    def column_names(self) -> tuple[str, ...]:
        if self.columns is not None:
            return self.columns
        return COLUMNS if self.include_headers else COLUMNS[:-1]


def source_options(given: Mapping[str, str], *, streaming: bool | None = None) -> SourceOptions:
    """What these options say.

    Args:
        streaming: what they are for; None while that is not known, when only the schema is asked for.

    Raises:
        ConfigurationError, UnknownOption: as `read_options`, or options that contradict each other.
    """
    values, kafka, named = read_options(
        SourceOptions, given, elsewhere=SinkOptions, here="source", refused=_REFUSED
    )
    options = SourceOptions(**values, kafka=kafka_options.for_source(kafka))
    _check_selection(options)
    _check_contradictions(options)
    if streaming is not None:
        _check_kind(options, named, streaming)
    if options.isolation is None:
        return options
    return attrs.evolve(options, kafka={**options.kafka, "isolation.level": options.isolation})


def _check_selection(options: SourceOptions) -> None:
    ways = {
        "subscribe": options.subscribe,
        "subscribePattern": options.subscribe_pattern,
        "assign": options.assign,
    }
    chosen = [name for name, value in ways.items() if value is not None]
    if len(chosen) != 1:
        said = f"{' and '.join(chosen)} are given" if chosen else "none is given"
        raise ConfigurationError(f"one of subscribe, subscribePattern and assign says what to read; {said}")


def _check_contradictions(options: SourceOptions) -> None:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise ConfigurationError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    told = options.kafka.get("isolation.level")
    if options.isolation is not None and told is not None and told != options.isolation:
        raise ConfigurationError(
            f"isolation={options.isolation} and kafka.isolation.level={told}: give one of them"
        )
    if options.columns is not None and "headers" not in options.columns and options.include_headers:
        raise ConfigurationError("includeHeaders=true, and columns does not name headers")


def _check_kind(options: SourceOptions, named: frozenset[str], streaming: bool) -> None:
    """Refuse what only the other kind of query has."""
    kind, other = ("stream", "batch") if streaming else ("batch", "stream")
    for attribute in attrs.fields(SourceOptions):
        declared = attribute.metadata.get(OPTION)
        if declared is None or attribute.name not in named:
            continue
        if not (declared.stream if streaming else declared.batch):
            raise ConfigurationError(
                f"{declared.name} is an option of {other} queries and has no meaning for a {kind} query. "
                "Leave it out."
            )
    if not streaming and options.starting_timestamp is None and options.starting_offsets_by_timestamp is None:
        where = options.starting_offsets
        if where == LATEST or (isinstance(where, dict) and LATEST_OFFSET in where.values()):
            raise ConfigurationError("startingOffsets: a batch query cannot begin at latest (-1 in JSON)")
