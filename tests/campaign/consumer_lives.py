"""A consumer of the consumers' scenario: its options, drawn from the seed, and what became of what it read.

Written by the applications (consumer_work.py), read by the promises (consumer_promises.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.consumer.consumer import KafkaConsumer

MOST_LIVES = 5

AUTOMATIC = "automatic"
MARKED = "marked"
"""Automatic, of what the application has marked with `store_offsets`."""
BLOCKING = "blocking"
ASYNCHRONOUS = "asynchronous"
WAYS_TO_COMMIT = (AUTOMATIC, AUTOMATIC, MARKED, BLOCKING, ASYNCHRONOUS)

REVOKED, LOST, RETURNED, CRASHED = "revoked", "lost", "given back", "crashed"


def drawn_group(draw: Random) -> dict[str, Any]:
    """Options that all members of the group share: the assignors and the timeouts."""
    strategy = draw.choice(
        [
            ("range", "cooperative-sticky"),
            "range",
            "roundrobin",
            "sticky",
            "cooperative-sticky",
            "cooperative-sticky",
        ]
    )
    return {
        "partition_assignment_strategy": strategy,
        "session_timeout_ms": draw.choice([1500, 3000]),
        "heartbeat_interval_ms": 300,
        "max_poll_interval_ms": draw.choice([4000, 6000]),
        "auto_offset_reset": "earliest",
    }


def drawn_options(draw: Random, way: str) -> dict[str, Any]:
    """Options of a single member."""
    options: dict[str, Any] = {
        "enable_auto_commit": way in (AUTOMATIC, MARKED),
        "auto_commit_interval_ms": draw.choice([100, 1000, 5000]),
        "max_poll_records": draw.choice([1, 5, 500]),
        "fetch_max_wait_ms": draw.choice([500, 1000]),
        "request_timeout_ms": draw.choice([1000, 3000, 10_000]),
        "default_api_timeout_ms": draw.choice([5000, 60_000]),
        "retry_backoff_ms": draw.choice([20, 100, 100]),
        "metadata_max_age_ms": draw.choice([1000, 3000]),
        "consumer_timeout_ms": 200,
    }
    if way == MARKED:
        options["enable_auto_offset_store"] = False
    return options


@attrs.define(eq=False)
class Handed:
    """A record that the application was given, and when it was done with it: it came back, or marked it."""

    offset: int
    value: bytes
    at: float
    done_at: float | None = None


@attrs.define(eq=False)
class Holding:
    """A partition that a consumer holds, from one call of its listener to the next."""

    place: TopicPartition
    life: str
    member_id: str
    generation: int
    """Generation in which it was assigned; -1 if the membership had ended before the listener was called."""
    since: float
    until: float | None = None
    ended: str = ""
    handed: list[Handed] = attrs.field(factory=list)
    sought: list[tuple[int, int]] = attrs.field(factory=list)
    """Seeks of the application: how many records it had read by then, and the offset."""

    def __str__(self) -> str:
        return f"{self.place} of {self.life} since {self.since:.3f}"

    @property
    def next_offset(self) -> int | None:
        """Behind the record handed over last; None where there is none, or another place was sought since."""
        if not self.handed or (self.sought and self.sought[-1][0] == len(self.handed)):
            return None
        return self.handed[-1].offset + 1


@attrs.define(eq=False)
class ExpectedCommit:
    """A commit by the application and its outcome; `offsets` are what it must write."""

    offsets: dict[TopicPartition, int]
    at: float
    told_at: float | None = None
    error: str = ""


@attrs.define(eq=False)
class Life:
    """One consumer from its making to its end."""

    name: str
    options: dict[str, Any]
    consumer: KafkaConsumer
    way: str
    """How it commits."""
    topics: tuple[str, ...]
    held: dict[TopicPartition, Holding] = attrs.field(factory=dict)
    past: list[Holding] = attrs.field(factory=list)
    commits: list[ExpectedCommit] = attrs.field(factory=list)
    is_over: bool = False

    @property
    def has_sought(self) -> set[TopicPartition]:
        return {one.place for one in self.holdings() if one.sought}

    def holdings(self) -> Iterator[Holding]:
        """All that there ever were."""
        yield from self.past
        yield from self.held.values()

    def end(self, places: list[TopicPartition], how: str, now: float) -> None:
        """These are this consumer's no more."""
        for place in places:
            holding = self.held.pop(place)
            holding.until, holding.ended = now, how
            self.past.append(holding)
