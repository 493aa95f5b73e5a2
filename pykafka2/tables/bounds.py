"""Start and end of a scan in each partition, fixed once, before anything is read.

Runs on the caller's thread, through a consumer that the caller closes. The current time is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import attrs

from pykafka2.errors import IllegalArgument, OffsetOutOfRange, UnknownTopicOrPartition
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.consumer.consumer import KafkaConsumer

Bound = int | str | datetime | Mapping[TopicPartition, int]
"""An offset, a name or time as text, a moment, or an offset for each partition."""

EDGES = {"earliest": "first", "beginning": "first", "latest": "end", "end": "end", "now": "end"}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
LEGAL = (
    "an offset, 'earliest', 'latest' ('now'), a time before now such as '-10m' (s, m, h, d), a time as ISO "
    "8601, a datetime, or a dict of TopicPartition and offset"
)
# Offsets read backwards at first for the last records of a partition: their number and some more.
LEAST_BACKWARDS = 64


@attrs.frozen
class OffsetRange:
    """The offsets of one partition from `start` up to, but not including, `end`."""

    topic_partition: TopicPartition
    start: int
    end: int
    topic_id: bytes | None = None
    """The id of the topic whose offsets these are."""

    def __len__(self) -> int:
        return max(self.end - self.start, 0)


@attrs.frozen
class Position:
    """A bound, understood: `number` is an offset or milliseconds since the epoch."""

    kind: Literal["first", "end", "offset", "time", "each"]
    number: int = 0
    offsets: Mapping[TopicPartition, int] = attrs.field(factory=dict)


def position_of(name: str, bound: Any, now_ms: int) -> Position:
    """Return the position of the argument `name`. Raise IllegalArgument if it is none."""
    if isinstance(bound, bool) or bound is None:
        raise _illegal(name, bound)
    if isinstance(bound, int):
        if bound < 0:
            raise IllegalArgument(
                f"{name}={bound}: an offset is not negative; for the last records use last={-bound}"
            )
        return Position("offset", bound)
    if isinstance(bound, datetime):
        return Position("time", round(bound.timestamp() * 1000))
    if isinstance(bound, Mapping):
        return Position("each", offsets=_offset_of_each(name, bound))
    if not isinstance(bound, str):
        raise _illegal(name, bound)
    if bound in EDGES:
        return Position("first") if EDGES[bound] == "first" else Position("end")
    found = re.fullmatch(r"-(\d{1,9})([smhd])", bound)
    if found is not None:
        return Position("time", now_ms - int(found[1]) * SECONDS[found[2]] * 1000)
    try:
        return Position("time", round(datetime.fromisoformat(bound).timestamp() * 1000))
    except ValueError:
        raise _illegal(name, bound) from None


def _offset_of_each(name: str, bound: Mapping[Any, Any]) -> dict[TopicPartition, int]:
    for one, at in bound.items():
        is_offset = isinstance(at, int) and not isinstance(at, bool) and at >= 0
        if not is_offset or not isinstance(one, tuple) or len(one) != 2:
            raise IllegalArgument(f"{name}: {one!r}: {at!r} is not a TopicPartition and its offset")
    return {TopicPartition(*one): at for one, at in bound.items()}


def _illegal(name: str, bound: object) -> IllegalArgument:
    return IllegalArgument(f"{name}={bound!r} is not a bound of a scan; use {LEGAL}")


@attrs.frozen
class Last:
    """The newest records: `count` of each partition, or over all of them."""

    count: int
    is_per_partition: bool


def partitions_of(
    consumer: KafkaConsumer, topics: Iterable[str], numbers: Iterable[int] | None
) -> list[TopicPartition]:
    """Return the partitions of the topics. Raise UnknownTopicOrPartition for one that does not exist."""
    found: list[TopicPartition] = []
    wanted = None if numbers is None else sorted(set(numbers))
    for topic in topics:
        existing = consumer.partitions_for_topic(topic)
        if existing is None:
            raise UnknownTopicOrPartition(f"topic {topic!r} does not exist")
        missing = sorted(set(wanted or ()) - existing)
        if missing:
            raise UnknownTopicOrPartition(
                f"topic {topic!r} has the partitions 0 to {max(existing)} and no partition {missing[0]}"
            )
        found += [
            TopicPartition(topic, number) for number in (sorted(existing) if wanted is None else wanted)
        ]
    return found


def resolve(
    consumer: KafkaConsumer,
    partitions: list[TopicPartition],
    start: Position,
    end: Position,
    last: Last | None,
) -> list[OffsetRange]:
    """Return the range of each partition, limited to its log.

    A partition without a leader is an error of the lookup, so a scan never leaves it out silently. With
    `last`, records are read backwards from the end until there are enough.
    """
    topic_ids = {topic: consumer.topic_id(topic) for topic in {one.topic for one in partitions}}
    ends = consumer.end_offsets(partitions)
    firsts = consumer.beginning_offsets(partitions)
    starts = _offsets(consumer, start, firsts, ends)
    stops = _offsets(consumer, end, firsts, ends)
    ranges = []
    for one in partitions:
        low = max(starts[one], firsts[one])
        ranges.append(OffsetRange(one, low, max(min(stops[one], ends[one]), low), topic_ids[one.topic]))
    return ranges if last is None else _last(consumer, ranges, last)


def _offsets(
    consumer: KafkaConsumer,
    position: Position,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    match position.kind:
        case "first":
            return dict(firsts)
        case "end":
            return dict(ends)
        case "offset":
            return dict.fromkeys(ends, position.number)
        case "each":
            missing = [str(one) for one in ends if one not in position.offsets]
            if missing:
                raise IllegalArgument(f"the dict of offsets has none for {', '.join(missing[:5])}")
            return {one: position.offsets[one] for one in ends}
    if position.number < 0:  # no record is older than 1970
        return dict(firsts)
    found = consumer.offsets_for_times(dict.fromkeys(ends, position.number))
    return {one: ends[one] if (at := found[one]) is None else at.offset for one in ends}


# ---------------------------------------------------------------------------------------- last


def _last(consumer: KafkaConsumer, ranges: list[OffsetRange], last: Last) -> list[OffsetRange]:
    tails = {one.topic_partition: _tail(consumer, one, last.count) for one in ranges}
    if not last.is_per_partition:
        _keep_newest(tails, last.count)
    return [
        attrs.evolve(one, start=tail[0][0] if (tail := tails[one.topic_partition]) else one.end)
        for one in ranges
    ]


def _tail(consumer: KafkaConsumer, whole: OffsetRange, count: int) -> list[tuple[int, int]]:
    """Return offset and timestamp of the last `count` records.

    Compaction, aborted transactions and markers leave offsets without a record, so more offsets are read
    until there are enough records. A timestamp is at least that of the record before, so that the newest
    records over all partitions are the last ones of each.
    """
    span = max(count, LEAST_BACKWARDS)
    while True:
        start = max(whole.end - span, whole.start)
        rows: list[tuple[int, int]] = []
        try:
            for piece in consumer.read_range(
                whole.topic_partition, start, whole.end, topic_id=whole.topic_id
            ):
                rows += zip(piece.offsets, piece.timestamps, strict=True)
        except OffsetOutOfRange:
            first = consumer.beginning_offsets([whole.topic_partition])[whole.topic_partition]
            if first <= start:
                raise
            whole = attrs.evolve(whole, start=min(first, whole.end))  # retention deleted the rest meanwhile
            continue
        if len(rows) >= count or start == whole.start:
            return _ascending(rows[-count:])
        span *= 4


def _ascending(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    newest, found = -(1 << 63), []
    for offset, timestamp in rows:
        newest = max(newest, timestamp)
        found.append((offset, newest))
    return found


def _keep_newest(tails: dict[TopicPartition, list[tuple[int, int]]], count: int) -> None:
    """Keep the newest records over all partitions."""
    newest = sorted(
        ((timestamp, one, offset) for one, tail in tails.items() for offset, timestamp in tail), reverse=True
    )[:count]
    kept = {(one, offset) for _, one, offset in newest}
    for one, tail in tails.items():
        tails[one] = [row for row in tail if (one, row[0]) in kept]
