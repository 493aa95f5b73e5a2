"""The subscription and the positions: what a consumer reads, and how far.

State of the caller's thread; poll/poller.py sends changes to the driver's thread. A partition gets a new
generation whenever it is read from elsewhere, which marks data fetched before as stale. A change is marked
as unsent before it is made, so a Ctrl-C only delays sending it. Patterns match from the start of a topic
name, as in kafka-python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum

import attrs

from pykafka2.cluster.snapshot import ClusterSnapshot
from pykafka2.errors import IllegalArgument, IllegalState
from pykafka2.types import OffsetAndMetadata, TopicPartition


class Mode(Enum):
    """How partitions are chosen: not yet, by subscription, or by the application."""

    NONE = "none"
    TOPICS = "topics"
    PARTITIONS = "partitions"


class Hold(Enum):
    """How a partition belongs to this consumer; without a group all are owned."""

    OWNED = "owned"
    PENDING = "pending"
    """Given by the group; the application is just being told."""
    REVOKING = "revoking"
    """Asked back by the group: nothing more of it is handed over, what was is being committed."""


@attrs.define(eq=False)
class Assigned:
    """One partition that is being read."""

    generation: int
    origin: int
    """The generation in which its place was chosen: reading from there again is still of the same topic, also
    if that was made anew meanwhile."""
    is_paused: bool = False
    hold: Hold = Hold.OWNED
    resetting_to: int | None = None
    """While its position is being found: the time asked for, or -2 and -1 for the ends of the log."""

    @property
    def is_resetting(self) -> bool:
        return self.resetting_to is not None

    @property
    def is_readable(self) -> bool:
        """Whether its records may be handed over."""
        return not self.is_paused and self.hold is Hold.OWNED


@attrs.define
class Change:
    """The partitions that an assignment removed and added."""

    removed: list[TopicPartition] = attrs.Factory(list)
    added: list[TopicPartition] = attrs.Factory(list)


class Subscription:
    """Topics, partitions and positions."""

    def __init__(self, *, by_group: bool = False) -> None:
        self._by_group = by_group
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: TopicPattern | None = None
        """Where topics are subscribed to by a pattern: `topics` are those that it named last."""
        self.remote_pattern: str | None = None
        """A pattern that the brokers resolve: `topics` are then those of the partitions assigned."""
        self.assigned: dict[TopicPartition, Assigned] = {}
        self.positions: dict[TopicPartition, int] = {}
        """The next offset of each partition whose place is known; written by one `update` a poll."""
        self.leader_epochs: dict[TopicPartition, int] = {}
        """The leader epoch of the last record before each position, where it is known; committed with it."""
        self.stored: dict[TopicPartition, OffsetAndMetadata] = {}
        """What the application has marked as done, where only that is committed."""
        self.wanted_topics: frozenset[str] = frozenset()
        """The topics whose metadata is needed; kept here because every poll() looks at it."""
        self.unsent: set[TopicPartition] = set()
        """Partitions that the driver's thread must be told about: where to read, or no more."""
        self.unsent_pauses: set[TopicPartition] = set()
        self._holds = self._all_owned_as_of = 0
        """The first grows whenever a partition is not simply owned, the other is its value when all were."""
        self.changes = 0
        """Grows whenever a partition is to be read from elsewhere: the newest generation."""

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read all partitions of these topics, or a group's share.  Raises `IllegalState` after `assign`."""
        self._read_topics()
        self.pattern = self.remote_pattern = None
        self.topics = self.wanted_topics = frozenset(topics)

    def subscribe_to_pattern(self, pattern: TopicPattern) -> None:
        """Subscribe to the topics that match the pattern; `match` updates them."""
        self._read_topics()
        self.pattern, self.remote_pattern = pattern, None

    def subscribe_to_remote_pattern(self, pattern: str) -> None:
        """Subscribe to the topics that the group's coordinator finds for this regular expression."""
        self._read_topics()
        self.pattern, self.remote_pattern = None, pattern
        self.topics = self.wanted_topics = _topics_of(self.assigned)

    def match(self, snapshot: ClusterSnapshot) -> None:
        """Take over which topics the pattern names, if there is one."""
        if self.pattern is not None:
            self.topics = self.wanted_topics = self.pattern.topics(snapshot)

    def _read_topics(self) -> None:
        if self.mode is Mode.PARTITIONS:
            raise IllegalState("partitions are assigned by assign(); call unsubscribe() before subscribe()")
        self.mode = Mode.TOPICS

    def assign(self, partitions: Iterable[TopicPartition]) -> Change:
        """Read exactly these.  Raises `IllegalState` after `subscribe`."""
        if self.mode is Mode.TOPICS:
            raise IllegalState("topics are subscribed; call unsubscribe() before assign()")
        self.mode = Mode.PARTITIONS
        return self.replace(partitions)

    def unsubscribe(self) -> Change:
        self.mode = Mode.NONE
        self.topics = frozenset()
        self.pattern = self.remote_pattern = None
        return self.replace(())

    def replace(self, partitions: Iterable[TopicPartition], *, hold: Hold = Hold.OWNED) -> Change:
        """Make this the assignment; partitions that stay keep their positions, new ones are held so."""
        wanted = dict.fromkeys(partitions)
        change = Change(
            removed=[partition for partition in self.assigned if partition not in wanted],
            added=[partition for partition in wanted if partition not in self.assigned],
        )
        if self.mode is not Mode.TOPICS:
            self.wanted_topics = _topics_of(wanted)
        elif self.remote_pattern is not None:
            self.topics = self.wanted_topics = _topics_of(wanted)
        self.unsent.update(change.removed)
        if change.removed:
            self._next_generation()  # what was being read of them does not count any more
        for partition in change.removed:
            self._forget_place(partition)  # first: what is not assigned has no place that could be committed
            del self.assigned[partition]
        for partition in change.added:
            generation = self._next_generation()
            assigned = Assigned(generation, generation, hold=hold)
            # Without a call in between, so that a signal finds both or none.
            self._holds += hold is not Hold.OWNED
            self.assigned[partition] = assigned
        return change

    @property
    def reads_all_partitions(self) -> bool:
        """True while a subscription means every partition of its topics, as no group shares them."""
        return self.mode is Mode.TOPICS and not self._by_group

    # ------------------------------------------------------------------ what a group gives and takes

    def held(self, hold: Hold) -> list[TopicPartition]:
        """The partitions that are held in this way.  Any thread."""
        return [partition for partition, assigned in list(self.assigned.items()) if assigned.hold is hold]

    def comes_or_goes(self) -> bool:
        """Whether some partitions are neither owned nor gone yet."""
        holds = self._holds
        if holds == self._all_owned_as_of:
            return False  # every poll() asks, and there may be ten thousand
        if any(assigned.hold is not Hold.OWNED for assigned in self.assigned.values()):
            return True
        self._all_owned_as_of = holds
        return False

    def hold_back(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Hand over nothing more of these, as they are to be given back; those that are assigned."""
        going = [partition for partition in partitions if partition in self.assigned]
        for partition in going:
            self._holds += 1
            self.assigned[partition].hold = Hold.REVOKING
        return going

    def give_back(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not this consumer's any more."""
        gone = set(partitions)
        self.replace([partition for partition in self.assigned if partition not in gone])

    def take_on(self, partitions: Iterable[TopicPartition]) -> None:
        """These are new; nothing of them is handed over before `confirm`."""
        self.replace([*self.assigned, *partitions], hold=Hold.PENDING)

    def confirm(self, partitions: Iterable[TopicPartition]) -> None:
        """The application has been told of these."""
        for partition in partitions:
            assigned = self.assigned.get(partition)
            if assigned is not None and assigned.hold is Hold.PENDING:
                assigned.hold = Hold.OWNED

    # ------------------------------------------------------------------ positions

    def find(self, partition: TopicPartition) -> Assigned:
        """The state of an assigned partition.  Raises `IllegalState` for any other."""
        assigned = self.assigned.get(partition)
        if assigned is None:
            raise IllegalState(f"{partition} is not assigned to this consumer; {self._instead()}")
        return assigned

    def some_assigned(self, call: str) -> list[TopicPartition]:
        """All assigned partitions.  Raises `IllegalState` where there are none for `call`."""
        if not self.assigned:
            raise IllegalState(f"{call}: no partition is assigned; {self._instead()}")
        return list(self.assigned)

    def _instead(self) -> str:
        """Return what to do about a partition that is not assigned."""
        if self.assigned:
            return "see assignment()"
        if self.mode is Mode.TOPICS:
            return (
                "after subscribe() partitions come with poll(), and a group's listener is told first "
                "(on_partitions_assigned); or name them with assign()"
            )
        return "call assign() first, or subscribe() and poll()"

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        self.rewind(partition, offset, leader_epoch)
        assigned = self.find(partition)
        assigned.origin = assigned.generation
        self.stored.pop(partition, None)

    def rewind(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Seek without a request of the application: its stored offsets stay."""
        assigned = self.find(partition)
        self.unsent.add(partition)
        assigned.generation = self._next_generation()
        assigned.resetting_to = None
        self.positions[partition] = offset
        if leader_epoch >= 0:
            self.leader_epochs[partition] = leader_epoch
        else:
            self.leader_epochs.pop(partition, None)

    def pass_over(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading behind what cannot be read; what was handed over before it still counts."""
        assigned = self.find(partition)
        self.unsent.add(partition)
        assigned.generation = self._next_generation()
        self.leader_epochs.pop(partition, None)
        self.positions[partition] = offset

    def begin_reset(self, partition: TopicPartition, timestamp: int) -> None:
        """Its position is unknown until the reset is over."""
        assigned = self.find(partition)
        self.unsent.add(partition)
        assigned.generation = assigned.origin = self._next_generation()
        assigned.resetting_to = timestamp
        self._forget_place(partition)

    def end_resets(self, found: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Take over the positions found, where nothing else was decided meanwhile.  Safe to repeat."""
        for partition, (generation, offset) in found.items():
            assigned = self.assigned.get(partition)
            if assigned is not None and assigned.generation == generation and assigned.is_resetting:
                self.positions[partition] = offset
                assigned.resetting_to = None

    def pause(self, partition: TopicPartition, is_paused: bool) -> None:
        assigned = self.find(partition)
        self.unsent_pauses.add(partition)
        assigned.is_paused = is_paused

    def without_position(self) -> list[TopicPartition]:
        """Partitions whose place nobody knows or is finding out."""
        if len(self.positions) == len(self.assigned):
            return []
        return [
            partition
            for partition, assigned in self.assigned.items()
            if partition not in self.positions and not assigned.is_resetting
        ]

    def paused(self) -> set[TopicPartition]:
        return {partition for partition, assigned in self.assigned.items() if assigned.is_paused}

    def _forget_place(self, partition: TopicPartition) -> None:
        self.positions.pop(partition, None)
        self.leader_epochs.pop(partition, None)
        self.stored.pop(partition, None)

    def _next_generation(self) -> int:
        self.changes += 1
        return self.changes


def _topics_of(partitions: Iterable[TopicPartition]) -> frozenset[str]:
    return frozenset(partition.topic for partition in partitions)


@attrs.define(frozen=True)
class TopicPattern:
    """A pattern, and whether it may name Kafka's own topics (exclude_internal_topics)."""

    regex: re.Pattern[str]
    hides_internal: bool

    def topics(self, snapshot: ClusterSnapshot) -> frozenset[str]:
        """Those that exist and match."""
        match = self.regex.match
        return frozenset(
            name
            for name, topic in snapshot.topics.items()
            if topic.is_usable and not (topic.is_internal and self.hides_internal) and match(name)
        )


def topic_pattern(pattern: object, *, hides_internal: bool) -> TopicPattern:
    """Compile a pattern from a string or an expression.  Raises `IllegalArgument` for other values."""
    try:
        regex = re.compile(pattern)  # type: ignore[call-overload]
    except (TypeError, re.error) as error:
        raise IllegalArgument(
            f"subscribe(): pattern={pattern!r} is not a valid regular expression of Python's re: {error}"
        ) from None
    if not isinstance(regex.pattern, str):
        raise IllegalArgument(f"subscribe(): pattern={pattern!r} is of bytes; topics are matched as text")
    return TopicPattern(regex, hides_internal)
