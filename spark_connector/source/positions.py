"""Start and end offsets of a query by its options: offsets, timestamps, earliest, latest.

Driver side.  Precedence: one timestamp for all partitions, timestamps by partition, offsets.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykafka2 import TopicPartition
from pykafka2.errors import ConfigurationError
from spark_connector.offsets import Offsets, shown
from spark_connector.options.source_options import (
    EARLIEST,
    EARLIEST_OFFSET,
    LATEST,
    LATEST_OFFSET,
    SourceOptions,
    Times,
    Where,
)
from spark_connector.source.topics import Topics


def starting_offsets(
    options: SourceOptions, topics: Topics, partitions: set[TopicPartition], default: str
) -> Offsets:
    """Return where a query begins.  Raise `ConfigurationError` if the options do not fit the partitions."""
    if options.starting_timestamp is not None:
        times = dict.fromkeys(partitions, options.starting_timestamp)
        return _starting_at(options, topics, times, "startingTimestamp")
    if options.starting_offsets_by_timestamp is not None:
        named = options.starting_offsets_by_timestamp
        _check_all_named("startingOffsetsByTimestamp", named, partitions, "")
        return _starting_at(options, topics, named, "startingOffsetsByTimestamp")
    where = default if options.starting_offsets is None else options.starting_offsets
    return _at(topics, partitions, where, "startingOffsets")


def ending_offsets(options: SourceOptions, topics: Topics, partitions: set[TopicPartition]) -> Offsets:
    times: Times | None = options.ending_offsets_by_timestamp
    if options.ending_timestamp is not None:
        times = dict.fromkeys(partitions, options.ending_timestamp)
    elif times is not None:
        _check_all_named("endingOffsetsByTimestamp", times, partitions, "")
    if times is None:
        return _at(topics, partitions, options.ending_offsets, "endingOffsets")
    found = topics.at_times(times)
    ends = topics.ends([partition for partition, offset in found.items() if offset is None])
    return {partition: ends[partition] if at is None else at for partition, at in found.items()}


def is_reproducible(options: SourceOptions) -> bool:
    """Return whether the start of the query can be found again, except for records deleted by retention."""
    if options.starting_timestamp is not None or options.starting_offsets_by_timestamp is not None:
        return options.starting_offsets_by_timestamp_strategy == "error"
    where = options.starting_offsets
    if isinstance(where, dict):
        return LATEST_OFFSET not in where.values()
    return where == EARLIEST


def _starting_at(
    options: SourceOptions, topics: Topics, times: Mapping[TopicPartition, int], name: str
) -> Offsets:
    found = topics.at_times(times)
    none = {partition for partition, offset in found.items() if offset is None}
    if none and options.starting_offsets_by_timestamp_strategy == "error":
        raise ConfigurationError(
            f"{name}: {shown(none)} has no record of that time or later. Set "
            "startingOffsetsByTimestampStrategy=latest to begin at the end of these partitions."
        )
    ends = topics.ends(none)
    return {partition: ends[partition] if at is None else at for partition, at in found.items()}


def _at(topics: Topics, partitions: set[TopicPartition], where: Where, name: str) -> Offsets:
    if where == EARLIEST:
        return topics.beginnings(partitions)
    if where == LATEST or isinstance(where, str):
        return topics.ends(partitions)
    _check_all_named(name, where, partitions, "; -2 is earliest and -1 latest")
    first = topics.beginnings([partition for partition, offset in where.items() if offset == EARLIEST_OFFSET])
    last = topics.ends([partition for partition, offset in where.items() if offset == LATEST_OFFSET])
    return {**where, **first, **last}


def _check_all_named(
    name: str, named: Mapping[TopicPartition, int], partitions: set[TopicPartition], hint: str
) -> None:
    if set(named) == partitions:
        return
    missing, extra = partitions - set(named), set(named) - partitions
    what = [f"it does not name {shown(missing)}"] if missing else []
    what += [f"it names {shown(extra)}, which the query does not read"] if extra else []
    raise ConfigurationError(
        f"{name} must name exactly the partitions that the query reads: {', '.join(what)}{hint}."
    )
