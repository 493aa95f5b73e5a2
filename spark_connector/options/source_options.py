"""The options of the source, with the names, meanings and defaults of Spark's own Kafka connector.

Pure data and its checks; read on the driver.  docs/guides/spark.md lists the differences.
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
"""The default of Spark's spark.network.timeout, which Spark's own connector uses."""

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

Where = str | dict[TopicPartition, int]
"""A position: `earliest`, `latest`, or an offset for each partition."""
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


def _group(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


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
        if not isinstance(numbers, list) or not all(_is_number(index) and index >= 0 for index in numbers):
            raise ValueError
        found += (TopicPartition(topic, number) for number in numbers)
    if not found:
        raise ValueError
    return tuple(sorted(set(found)))


def by_partition(text: str, minimum: int) -> dict[TopicPartition, int]:
    """Parse `{"topic": {"0": 23}}`."""
    found: dict[TopicPartition, int] = {}
    for topic, entries in json_object(text).items():
        if not isinstance(entries, dict):
            raise Because(f"the value of {topic!r} is not an object")
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


_STARTS = """JSON such as {"orders": {"0": 23, "1": -2}}, where -2 is earliest and -1 latest"""
_ENDS = """JSON such as {"orders": {"0": 42, "1": -1}}, where -1 is latest"""
_TIMES = """JSON such as {"orders": {"0": 1700000000000}} with milliseconds since the epoch"""
_COUNT = "a whole number of at least 1"


@attrs.define(kw_only=True, frozen=True)
class SourceOptions:
    """Options of a source, parsed by `source_options`."""

    subscribe: tuple[str, ...] | None = option(
        "subscribe", None, _names, "topics separated by commas", "The topics to read, with all partitions."
    )
    subscribe_pattern: str | None = option(
        "subscribePattern",
        None,
        _pattern,
        "a regular expression of Python's re",
        "Topics to read: all whose full name matches, except internal topics.",
    )
    assign: tuple[TopicPartition, ...] | None = option(
        "assign", None, _assignment, 'JSON such as {"orders": [0, 1]}', "The partitions to read."
    )
    starting_offsets: Where | None = option(
        "startingOffsets",
        None,
        _starting,
        f"'earliest', 'latest' (streams only) or {_STARTS}",
        "Where a new query begins; JSON names every partition. A restarted query resumes where it stopped.",
        shown="latest for streams, earliest for batches",
    )
    ending_offsets: Where = option(
        "endingOffsets",
        LATEST,
        _ending,
        f"'latest' or {_ENDS}",
        "The first offset of each partition that a batch does not read; JSON names every partition.",
        stream=False,
    )
    starting_timestamp: int | None = option(
        "startingTimestamp",
        None,
        whole_number(0),
        "milliseconds since the epoch",
        "A new query begins at the first record of this time or later; overrides startingOffsetsByTimestamp "
        "and startingOffsets.",
    )
    starting_offsets_by_timestamp: Times | None = option(
        "startingOffsetsByTimestamp",
        None,
        _times,
        _TIMES,
        "startingTimestamp for each partition; overrides startingOffsets.",
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
        "endingTimestamp for each partition; overrides endingOffsets.",
        stream=False,
    )
    starting_offsets_by_timestamp_strategy: str = option(
        "startingOffsetsByTimestampStrategy",
        "error",
        one_of("error", "latest"),
        "'error' or 'latest'",
        "What happens if a partition has no record of the starting time or later.",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        True,
        flag,
        "'true' or 'false'",
        "Whether a query fails if records were deleted before it read them; otherwise it logs a warning.",
    )
    include_headers: bool = option(
        "includeHeaders", False, flag, "'true' or 'false'", "Whether rows have the column headers."
    )
    columns: tuple[str, ...] | None = option(
        "columns",
        None,
        _columns,
        f"some of {', '.join(COLUMNS)}, separated by commas",
        "The columns of a row, in this order. Leave out columns that the query does not use: each "
        "costs time.",
        shown="all",
    )
    isolation: str | None = option(
        "isolation",
        None,
        one_of("read_uncommitted", "read_committed"),
        "'read_uncommitted' or 'read_committed'",
        "Whether records of open and aborted transactions are read; same as kafka.isolation.level.",
        shown="read_uncommitted",
    )
    min_partitions: int | None = option(
        "minPartitions",
        None,
        whole_number(1),
        _COUNT,
        "The approximate minimum number of tasks: large ranges of offsets are split.",
        shown="one task per Kafka partition",
    )
    max_records_per_partition: int | None = option(
        "maxRecordsPerPartition",
        None,
        whole_number(1),
        _COUNT,
        "The maximum number of offsets per task: larger ranges are split, before minPartitions applies.",
    )
    max_offsets_per_trigger: int | None = option(
        "maxOffsetsPerTrigger",
        None,
        whole_number(1),
        _COUNT,
        "The maximum number of offsets per micro-batch, shared in proportion to each partition's backlog.",
        batch=False,
    )
    min_offsets_per_trigger: int | None = option(
        "minOffsetsPerTrigger",
        None,
        whole_number(1),
        _COUNT,
        "The number of offsets that a micro-batch waits for, at most for maxTriggerDelay.",
        batch=False,
    )
    max_trigger_delay_ms: float = option(
        "maxTriggerDelay",
        15 * 60_000.0,
        milliseconds,
        "a time such as '15m' or '30s'",
        "How long minOffsetsPerTrigger can delay a micro-batch.",
        shown="15m",
        batch=False,
    )
    max_bytes_per_trigger: int | None = option(
        "maxBytesPerTrigger",
        None,
        number_of_bytes,
        "bytes, or a size such as '64m'",
        "The approximate maximum size of a micro-batch in the log, estimated from samples.",
        batch=False,
    )
    pushdown: bool = option(
        "pushDownFilters",
        False,
        flag,
        "'true' or 'false'",
        "Whether conditions on topic, partition, offset and timestamp limit what is read; requires "
        "spark.sql.python.filterPushdown.enabled=true.",
        stream=False,
    )
    poll_timeout_ms: float | None = option(
        "kafkaConsumer.pollTimeoutMs",
        None,
        milliseconds,
        "milliseconds",
        "How long a task waits for records; overrides kafka.default.api.timeout.ms.",
        shown="kafka.default.api.timeout.ms if set, otherwise 120000",
    )
    fetch_offset_retries: int = option(
        "fetchOffset.numRetries",
        3,
        whole_number(0),
        "a whole number of at least 0",
        "How often a failed offset lookup is retried.",
    )
    fetch_offset_retry_interval_ms: float = option(
        "fetchOffset.retryIntervalMs",
        1_000.0,
        milliseconds,
        "milliseconds",
        "The pause between two retries of an offset lookup.",
    )
    group_id_prefix: str | None = option(
        "groupIdPrefix",
        None,
        str,
        "anything",
        "Accepted without effect, like kafka.group.id: the source uses no consumer group.",
    )
    commit_to_group: str | None = option(
        "commitToGroup",
        None,
        _group,
        "a group's name",
        "A group to which the end of each micro-batch is committed, so that tools show its lag; the query "
        "itself never reads it. Failures are logged.",
        batch=False,
    )
    kafka: Mapping[str, str] = attrs.field(factory=dict, repr=kafka_options.redacted)  # type: ignore[arg-type]
    """Options of the consumers."""

    @property
    def isolation_level(self) -> str:
        return self.isolation or self.kafka.get("isolation.level", "read_uncommitted")

    @property
    def task_timeout_ms(self) -> str:
        """How long a task waits for records, as a consumer option."""
        if self.poll_timeout_ms is not None:
            return str(int(self.poll_timeout_ms))
        return self.kafka.get("default.api.timeout.ms", TASK_TIMEOUT_MS)

    @property
    def column_names(self) -> tuple[str, ...]:
        if self.columns is not None:
            return self.columns
        return COLUMNS if self.include_headers else COLUMNS[:-1]


def source_options(raw: Mapping[str, str], *, streaming: bool | None = None) -> SourceOptions:
    """Parse and check the options of the source.

    Args:
        streaming: whether the query is a stream; None if unknown, when Spark requests only the schema.

    Raises:
        ConfigurationError, UnknownOption: as `read_options`, or options contradict each other.
    """
    values, kafka, named = read_options(
        SourceOptions, raw, elsewhere=SinkOptions, here="source", refused=_REFUSED
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
        chosen_text = f"{' and '.join(chosen)} are set" if chosen else "none is set"
        raise ConfigurationError(f"Set exactly one of subscribe, subscribePattern and assign; {chosen_text}.")


def _check_contradictions(options: SourceOptions) -> None:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise ConfigurationError(
            f"minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}. Lower it."
        )
    level = options.kafka.get("isolation.level")
    if options.isolation is not None and level is not None and level != options.isolation:
        raise ConfigurationError(
            f"isolation={options.isolation} and kafka.isolation.level={level} contradict each other. "
            "Set only one."
        )
    if options.columns is not None and "headers" not in options.columns and options.include_headers:
        raise ConfigurationError("includeHeaders=true, but columns does not name headers. Add it to columns.")


def _check_kind(options: SourceOptions, named: frozenset[str], streaming: bool) -> None:
    """Raise ConfigurationError for an option that only the other kind of query has."""
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
            raise ConfigurationError(
                "startingOffsets is latest (-1 in JSON), where a batch query cannot begin. Set it to "
                "earliest."
            )
