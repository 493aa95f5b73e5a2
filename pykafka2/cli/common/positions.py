"""Start and end of `consume`: --offset and --until, and their offsets in each partition."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import attrs

from pykafka2.cli.common.parsing import MAX_INT64, UsageError, nearest, time_ms

if TYPE_CHECKING:
    from pykafka2 import KafkaConsumer, TopicPartition

Kind = Literal["earliest", "latest", "offset", "after_start", "before_end", "time"]
NAMES: dict[str, Kind] = {
    "earliest": "earliest",
    "beginning": "earliest",
    "start": "earliest",
    "latest": "latest",
    "end": "latest",
}
LEGAL_OFFSET = "earliest, latest, N, +N (after the start), -N (before the end) or @TIME"
LEGAL_UNTIL = "end, N, +N (after the start), -N (before the end) or @TIME"


@attrs.frozen
class Position:
    """A position in every partition; `number` is an offset, a count of offsets, or milliseconds."""

    kind: Kind
    number: int = 0
    text: str = ""


def offset(text: str) -> Position:
    """Return the position of --offset."""
    return _position(text, LEGAL_OFFSET)


def until(text: str) -> Position:
    """Return the position of --until, before which reading ends."""
    position = _position(text, LEGAL_UNTIL)
    if position.kind == "earliest":
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; use {LEGAL_UNTIL}")
    return position


def _position(text: str, legal: str) -> Position:
    if text in NAMES:
        return Position(NAMES[text], text=text)
    if text.startswith("@"):
        return Position("time", time_ms(text[1:]), text)
    found = re.fullmatch(r"([+-]?)(\d{1,19})", text, re.ASCII)
    if found is None or int(found[2]) > MAX_INT64:
        close = nearest([text], NAMES)
        more = f"; did you mean {close[0]}?" if close else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; use {legal}{more}")
    kinds: dict[str, Kind] = {"": "offset", "+": "after_start", "-": "before_end"}
    return Position(kinds[found[1]], int(found[2]), text)


@attrs.define
class Bounds:
    """Resolves positions to offsets; looks up the ends of the partitions once."""

    consumer: KafkaConsumer[bytes, bytes]
    partitions: list[TopicPartition]
    first: dict[TopicPartition, int] = attrs.Factory(dict)
    end: dict[TopicPartition, int] = attrs.Factory(dict)

    def look_up(self) -> None:
        """Look up the first offset and the end of each partition."""
        self.end = self.consumer.end_offsets(self.partitions)
        self.first = self.consumer.beginning_offsets(self.partitions)

    def resolve(self, position: Position) -> dict[TopicPartition, int]:
        """Return the offset of a position in each partition, not yet limited to the log."""
        if position.kind == "time":
            found = self.consumer.offsets_for_times(dict.fromkeys(self.partitions, position.number))
            return {
                one: self.end[one] if (at := found[one]) is None else at.offset for one in self.partitions
            }
        return {one: self._offset(position, one) for one in self.partitions}

    def clamp(self, offsets: dict[TopicPartition, int]) -> Iterable[tuple[TopicPartition, int, int]]:
        """Limit offsets to the log, in place; yield partition, former and new offset of each change."""
        for one, at in offsets.items():
            limited = max(min(at, self.end[one]), self.first[one])
            offsets[one] = limited
            if limited != at:
                yield one, at, limited

    def _offset(self, position: Position, partition: TopicPartition) -> int:
        if position.kind == "earliest":
            return self.first[partition]
        if position.kind == "latest":
            return self.end[partition]
        if position.kind == "after_start":
            return self.first[partition] + position.number
        if position.kind == "before_end":
            return self.end[partition] - position.number
        return position.number


def partitions_of(
    client: KafkaConsumer[bytes, bytes], topics: list[str], numbers: list[int] | None
) -> list[TopicPartition]:
    """Return the partitions of the topics. Raise `UsageError` for a topic or partition that is missing."""
    from pykafka2 import TopicPartition
    from pykafka2.errors import UnknownTopicOrPartition

    found: list[TopicPartition] = []
    for topic in dict.fromkeys(topics):
        existing = client.partitions_for_topic(topic)
        if existing is None:
            close = nearest([topic], client.topics())
            more = f"; did you mean {close[0]!r}?" if close else ""
            raise UnknownTopicOrPartition(f"topic {topic!r} does not exist{more}")
        missing = sorted(set(numbers or ()) - existing)
        if missing:
            raise UsageError(
                f"--partition {missing[0]}: topic {topic!r} has the partitions 0 to {max(existing)}"
            )
        found += [
            TopicPartition(topic, number) for number in sorted(existing if numbers is None else set(numbers))
        ]
    return found
