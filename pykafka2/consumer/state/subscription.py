"""The subscription and the positions: what a consumer reads, and how far.

State of the caller's thread; poll/poller.py sends changes to the driver's thread. A partition gets a new
generation whenever it is read from elsewhere, which marks data fetched before as stale. A change is marked
as unsent before it is made, so a Ctrl-C only delays sending it. Patterns match from the start of a topic
name, as in kafka-python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from enum import Enum

from pykafka2.cluster.snapshot import ClusterSnapshot
from pykafka2.consumer.state.measures import PartitionMeasures
from pykafka2.errors import IllegalArgument, IllegalState
from pykafka2.slotted import slot, slotted
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
    """Newly assigned by the group; its records are returned after the listener was called."""
    REVOKING = "revoking"
    """Being revoked: no more records are returned, and its position is being committed."""


@slotted(eq=False)
class Assigned:
    """The state of one assigned partition."""

    generation: int
    origin: int
    """The generation in which its position was chosen.  A later rewind of that position still refers to the
    same topic, even if a new topic of that name was created since."""
    is_paused: bool = False
    hold: Hold = Hold.OWNED
    resetting_to: int | None = None
    """The timestamp to reset to while the position is unknown, or -2 and -1 for the ends of the log."""
    measures: PartitionMeasures | None = None
    """Its numbers for the metrics; created at first use."""

    @property
    def is_resetting(self) -> bool:
        return self.resetting_to is not None

    @property
    def is_readable(self) -> bool:
        """Whether its records can be returned."""
        return not self.is_paused and self.hold is Hold.OWNED


@slotted
class Change:
    """The partitions that an assignment removed and added."""

    removed: list[TopicPartition] = slot(factory=list)
    added: list[TopicPartition] = slot(factory=list)


class Subscription:
    """Topics, partitions and positions."""

    def __init__(self, *, by_group: bool = False) -> None:
        self._by_group = by_group
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: TopicPattern | None = None
        """The subscribed pattern, if any; `topics` are the topics that matched it last."""
        self.remote_pattern: str | None = None
        """A pattern that the brokers resolve; `topics` are then those of the assigned partitions."""
        self.assigned: dict[TopicPartition, Assigned] = {}
        self.positions: dict[TopicPartition, int] = {}
        """The next offset of each partition with a known position; written by one `update` per poll."""
        self.leader_epochs: dict[TopicPartition, int] = {}
        """The leader epoch of the last record before each position, if known; committed with it."""
        self.stored: dict[TopicPartition, OffsetAndMetadata] = {}
        """The offsets that the application has stored, if only those are committed."""
        self.wanted_topics: frozenset[str] = frozenset()
        """The topics whose metadata is needed; cached because every poll() reads it."""
        self.unsent: set[TopicPartition] = set()
        """Partitions with a new position or a removal to send to the driver's thread."""
        self.unsent_pauses: set[TopicPartition] = set()
        self._holds = self._all_owned_as_of = 0
        """The first grows with each pending or revoking partition; the second is its value when all were
        owned."""
        self.before_loss: Callable[[TopicPartition], None] = _ignore
        """Called before a position is removed or reset."""
        self.changes = 0
        """Grows whenever a partition is read from another position: the newest generation."""

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read all partitions of these topics, or a group's share.  Raise `IllegalState` after `assign`."""
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
        """Update the topics that match the pattern, if there is one."""
        if self.pattern is not None:
            self.topics = self.wanted_topics = self.pattern.topics(snapshot)

    def _read_topics(self) -> None:
        if self.mode is Mode.PARTITIONS:
            raise IllegalState("partitions were set by assign(); call unsubscribe() before subscribe()")
        self.mode = Mode.TOPICS

    def assign(self, partitions: Iterable[TopicPartition]) -> Change:
        """Read exactly these partitions.  Raise `IllegalState` after `subscribe`."""
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
        """Replace the assignment; partitions that stay keep their positions, new ones start with `hold`."""
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
            self._next_generation()  # data fetched for the removed partitions is now stale
        for partition in change.removed:
            self._clear_position(partition)  # first: a partition that is not assigned must have no position
            del self.assigned[partition]
        for partition in change.added:
            generation = self._next_generation()
            assigned = Assigned(generation, generation, hold=hold)
            # Without a call in between, so that a signal handler sees both or none.
            self._holds += hold is not Hold.OWNED
            self.assigned[partition] = assigned
        return change

    @property
    def reads_all_partitions(self) -> bool:
        """Whether a subscription means every partition of its topics, because there is no group."""
        return self.mode is Mode.TOPICS and not self._by_group

    # ------------------------------------------------------------------ assignment by a group

    def held(self, hold: Hold) -> list[TopicPartition]:
        """Return the partitions with this hold.  Any thread."""
        return [partition for partition, assigned in list(self.assigned.items()) if assigned.hold is hold]

    def is_reconciling(self) -> bool:
        """Return whether a partition is pending or being revoked."""
        holds = self._holds
        if holds == self._all_owned_as_of:
            return False  # shortcut: every poll() calls this, and there can be ten thousand partitions
        if any(assigned.hold is not Hold.OWNED for assigned in self.assigned.values()):
            return True
        self._all_owned_as_of = holds
        return False

    def mark_revoking(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Stop returning records of these partitions before they are revoked; return the assigned ones."""
        going = [partition for partition in partitions if partition in self.assigned]
        for partition in going:
            self._holds += 1
            self.assigned[partition].hold = Hold.REVOKING
        return going

    def remove_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove these partitions from the assignment."""
        gone = set(partitions)
        self.replace([partition for partition in self.assigned if partition not in gone])

    def add_pending(self, partitions: Iterable[TopicPartition]) -> None:
        """Add these partitions; their records are not returned before `confirm`."""
        self.replace([*self.assigned, *partitions], hold=Hold.PENDING)

    def confirm(self, partitions: Iterable[TopicPartition]) -> None:
        """Mark these partitions as owned, after the listener was called."""
        for partition in partitions:
            assigned = self.assigned.get(partition)
            if assigned is not None and assigned.hold is Hold.PENDING:
                assigned.hold = Hold.OWNED

    # ------------------------------------------------------------------ positions

    def find(self, partition: TopicPartition) -> Assigned:
        """Return the state of an assigned partition.  Raise `IllegalState` for any other."""
        assigned = self.assigned.get(partition)
        if assigned is None:
            raise IllegalState(f"{partition} is not assigned to this consumer; {self._instead()}")
        return assigned

    def some_assigned(self, call: str) -> list[TopicPartition]:
        """Return all assigned partitions.  Raise `IllegalState` in the name of `call` if there are none."""
        if not self.assigned:
            raise IllegalState(f"{call}: no partition is assigned; {self._instead()}")
        return list(self.assigned)

    def _instead(self) -> str:
        """Return what to do about a partition that is not assigned."""
        if self.assigned:
            return "see assignment()"
        if self.mode is Mode.TOPICS:
            return (
                "after subscribe(), reads such as poll() assign partitions. Read first; in a group, make "
                "this call in on_assigned; or use assign()"
            )
        return "call assign() first, or subscribe() and poll()"

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        self.before_loss(partition)
        self.rewind(partition, offset, leader_epoch)
        assigned = self.find(partition)
        assigned.origin = assigned.generation
        self.stored.pop(partition, None)

    def rewind(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Seek on behalf of the client: the application's stored offsets stay."""
        assigned = self.find(partition)
        self.unsent.add(partition)
        assigned.generation = self._next_generation()
        assigned.resetting_to = None
        self.positions[partition] = offset
        if leader_epoch >= 0:
            self.leader_epochs[partition] = leader_epoch
        else:
            self.leader_epochs.pop(partition, None)

    def skip_to(self, partition: TopicPartition, offset: int) -> None:
        """Continue after unreadable records; records returned before them can still be committed."""
        assigned = self.find(partition)
        self.unsent.add(partition)
        assigned.generation = self._next_generation()
        self.leader_epochs.pop(partition, None)
        self.positions[partition] = offset

    def begin_reset(self, partition: TopicPartition, timestamp: int) -> None:
        """Start a reset to this timestamp; the position is unknown until it has ended."""
        assigned = self.find(partition)
        self._clear_position(partition)  # first: its topic is found by the old origin
        self.unsent.add(partition)
        assigned.generation = assigned.origin = self._next_generation()
        assigned.resetting_to = timestamp

    def end_resets(self, found: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Set the positions that resets found, unless the partition has changed since.  Idempotent."""
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
        """Return the partitions without a position that are not being reset."""
        if len(self.positions) == len(self.assigned):
            return []
        return [
            partition
            for partition, assigned in self.assigned.items()
            if partition not in self.positions and not assigned.is_resetting
        ]

    def next_offsets(
        self,
        queued: Mapping[TopicPartition, tuple[int, int]],
        partitions: Container[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after the returned records, with leader epochs, of these partitions or of all.

        `queued` has, by partition, the first record that was polled and not returned: its offset, and the
        epoch of the record before it.
        """
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, position in self.positions.items():
            if partitions is None or partition in partitions:
                offset, epoch = queued.get(partition) or (position, self.leader_epochs.get(partition, -1))
                found[partition] = OffsetAndMetadata(offset, "", epoch)
        return found

    def paused(self) -> set[TopicPartition]:
        return {partition for partition, assigned in self.assigned.items() if assigned.is_paused}

    def _clear_position(self, partition: TopicPartition) -> None:
        self.before_loss(partition)
        self.positions.pop(partition, None)
        self.leader_epochs.pop(partition, None)
        self.stored.pop(partition, None)

    def _next_generation(self) -> int:
        self.changes += 1
        return self.changes


def _ignore(partition: TopicPartition) -> None:
    """Do nothing; the listener until one is set."""


def _topics_of(partitions: Iterable[TopicPartition]) -> frozenset[str]:
    return frozenset(partition.topic for partition in partitions)


@slotted(frozen=True)
class TopicPattern:
    """A pattern, and whether it excludes Kafka's internal topics (exclude_internal_topics)."""

    regex: re.Pattern[str]
    hides_internal: bool

    def topics(self, snapshot: ClusterSnapshot) -> frozenset[str]:
        """Return the existing topics that match."""
        match = self.regex.match
        return frozenset(
            name
            for name, topic in snapshot.topics.items()
            if topic.is_usable and not (topic.is_internal and self.hides_internal) and match(name)
        )


def topic_pattern(pattern: object, *, hides_internal: bool) -> TopicPattern:
    """Compile a pattern from a string or an expression.  Raise `IllegalArgument` for other values."""
    try:
        regex = re.compile(pattern)  # type: ignore[call-overload]
    except (TypeError, re.error) as error:
        raise IllegalArgument(
            f"subscribe(): pattern={pattern!r} is not a valid regular expression of Python's re: {error}"
        ) from None
    if not isinstance(regex.pattern, str):
        raise IllegalArgument(f"subscribe(): pattern={pattern!r} is a bytes pattern; give a str pattern")
    return TopicPattern(regex, hides_internal)
