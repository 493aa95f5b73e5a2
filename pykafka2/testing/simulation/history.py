"""What clients asked for and were told: the material of the checkers.

A send's outcome has three values: *ok* (with an offset), *failed* (certainly not written) and *unknown* (it
may have been written: the producer gave up waiting).  Written by actors and callbacks, under the baton.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from pykafka2.types import ConsumerRecord, TopicPartition

OK = "ok"
FAILED = "failed"
UNKNOWN = "unknown"
OPEN = "open"


@attrs.define
class Sent:
    """One record handed to a producer; times are virtual seconds of the simulation."""

    producer: str
    topic: str
    partition: int
    number: int
    """Counts this producer's records to this partition, from 0."""
    value: bytes
    sent_at: float
    outcome: str = OPEN
    offset: int = -1
    error: str = ""
    done_at: float = 0.0
    timestamp: int = -1
    """Milliseconds, by the client's wall clock."""

    def __str__(self) -> str:
        return f"{self.value!r} of {self.producer} to {self.topic}-{self.partition}"


@attrs.define
class Read:
    """One record that a consumer was handed."""

    consumer: str
    topic: str
    partition: int
    offset: int
    value: bytes
    read_at: float
    timestamp: int = -1


class History:
    """Everything sent and read, in order."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.reads: list[Read] = []
        self.polls = 0
        self.reads_by_partition: dict[tuple[str, TopicPartition], list[Read]] = {}
        self._numbers: dict[tuple[str, TopicPartition], int] = {}

    @property
    def operations(self) -> int:
        """Sends and polls that returned."""
        return len(self.sent) + self.polls

    def next_number(self, producer: str, topic: str, partition: int) -> int:
        """The number of the next record of this producer to this partition; counts it."""
        key = (producer, TopicPartition(topic, partition))
        number = self._numbers.get(key, 0)
        self._numbers[key] = number + 1
        return number

    def read(self, consumer: str, record: ConsumerRecord, now: float) -> None:
        """A consumer was handed this record."""
        read = Read(
            consumer,
            record.topic,
            record.partition,
            record.offset,
            record.value or b"",
            now,
            record.timestamp,
        )
        self.reads.append(read)
        key = (consumer, TopicPartition(record.topic, record.partition))
        self.reads_by_partition.setdefault(key, []).append(read)

    def with_outcome(self, outcome: str) -> Iterator[Sent]:
        return (sent for sent in self.sent if sent.outcome == outcome)

    def by_value(self) -> dict[bytes, Sent]:
        return {sent.value: sent for sent in self.sent}


@attrs.define
class Owned:
    """A member was given partitions in a generation."""

    member: str
    generation: int
    partitions: tuple[int, ...]
    asked_at: float
    told_at: float


@attrs.define
class Commit:
    """An offset that a member committed; `told_at` is None until the coordinator has taken it."""

    member: str
    generation: int
    topic: str
    partition: int
    offset: int
    asked_at: float
    told_at: float | None = None


@attrs.define
class Fetched:
    """A committed offset that a member was told."""

    partition: int
    offset: int
    asked_at: float


class GroupHistory:
    """What the members of one group did and were told, in order."""

    def __init__(self) -> None:
        self.owned: list[Owned] = []
        self.commits: list[Commit] = []
        self.fetched: list[Fetched] = []

    @property
    def operations(self) -> int:
        return len(self.owned) + len(self.commits) + len(self.fetched)
