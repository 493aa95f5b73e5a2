"""Sends, reads and commits of the clients, with their outcomes: the input of the checkers.

A send has three outcomes: *ok* (with an offset), *failed* (certainly not written) and *unknown* (possibly
written: the producer's timeout expired).  Written by actors and callbacks, under the baton.
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
    """A record passed to a producer; times are virtual seconds of the simulation."""

    producer: str
    topic: str
    partition: int
    number: int
    """Number of this producer's records to this partition before this one."""
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
    """A record that a consumer received."""

    consumer: str
    topic: str
    partition: int
    offset: int
    value: bytes
    read_at: float
    timestamp: int = -1


class History:
    """All sends and reads, in order."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.reads: list[Read] = []
        self.polls = 0
        self.reads_by_partition: dict[tuple[str, TopicPartition], list[Read]] = {}
        self._numbers: dict[tuple[str, TopicPartition], int] = {}

    @property
    def operations(self) -> int:
        """Number of sends and polls that returned."""
        return len(self.sent) + self.polls

    def next_number(self, producer: str, topic: str, partition: int) -> int:
        """Return the number of the next record of this producer to this partition, and increment it."""
        key = (producer, TopicPartition(topic, partition))
        number = self._numbers.get(key, 0)
        self._numbers[key] = number + 1
        return number

    def read(self, consumer: str, record: ConsumerRecord, now: float) -> None:
        """Record a read by a consumer."""
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
    """Partitions assigned to a member in a generation."""

    member: str
    generation: int
    partitions: tuple[int, ...]
    asked_at: float
    told_at: float


@attrs.define
class Commit:
    """An offset that a member committed; `told_at` is None before the coordinator's response."""

    member: str
    generation: int
    topic: str
    partition: int
    offset: int
    asked_at: float
    told_at: float | None = None


@attrs.define
class Fetched:
    """A committed offset that a member fetched."""

    partition: int
    offset: int
    asked_at: float


class GroupHistory:
    """Assignments, commits and fetched offsets of one group's members, in order."""

    def __init__(self) -> None:
        self.owned: list[Owned] = []
        self.commits: list[Commit] = []
        self.fetched: list[Fetched] = []

    @property
    def operations(self) -> int:
        return len(self.owned) + len(self.commits) + len(self.fetched)
