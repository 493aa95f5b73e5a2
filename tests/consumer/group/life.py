"""A group of real consumers on the bundled broker, in virtual time, turned by hand from one test.

Every member's listener is watched: a partition has one owner at a time, and it is revoked or lost before it
is assigned again. A member that is not turned is stalled; `crash` ends one without a LeaveGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka2.testing import QUICK, KafkaCluster, Simulation
from pykafka2.types import TopicPartition
from tests.internal_topics import FEW_PARTITIONS

POLL_MS = 50


@attrs.define
class ListenerCall:
    """A call of a member's listener, and its time."""

    at: float
    what: str
    partitions: list[TopicPartition]


@attrs.define(eq=False)
class Member:
    """One consumer, and what became of it."""

    group: Group
    name: str
    consumer: KafkaConsumer
    calls: list[ListenerCall] = attrs.Factory(list)
    read: list[bytes] = attrs.Factory(list)
    places: list[tuple[TopicPartition, int]] = attrs.Factory(list)
    """Position at which each record was read; -1 at the start of an ownership."""
    owned: set[TopicPartition] = attrs.Factory(set)
    errors: list[KafkaError] = attrs.Factory(list)
    is_stalled: bool = False
    runs_on_until: float = 0.0
    """It was cut off or stalled, so it may be out of the group without knowing: until its listener is called,
    or this time.
    """
    in_listener: Callable[[str, list[TopicPartition]], object] = lambda what, partitions: None
    waits: int = 0

    def __attrs_post_init__(self) -> None:
        driver = self.consumer._core.cluster.driver
        wait_until = driver.wait_until

        def counted(predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
            self.waits += 1
            return wait_until(predicate, timeout, *queues)

        driver.wait_until = counted  # type: ignore[method-assign]

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("assigned", partitions)
        for partition in partitions:
            assert partition not in self.owned, f"{self.name} was given {partition} twice"
            for other in self.group.members:
                if self.group.is_exclusive(partition) and partition in other.owned and not other.may_run_on:
                    self.group.problems.append(
                        f"{partition} belongs to {other.name} and to {self.name} at {self.group.now:.3f}"
                    )
        self.owned |= set(partitions)
        self.places += [(partition, -1) for partition in partitions]
        self.in_listener("assigned", list(partitions))

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._give_back("revoked", partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._give_back("lost", partitions)

    def _give_back(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        self._note(what, partitions)
        assert set(partitions) <= self.owned, f"{what}: {partitions}, but owned are {self.owned}"
        assert partitions
        try:
            self.in_listener(what, list(partitions))
        finally:
            self.owned -= set(partitions)
            self.runs_on_until = 0.0

    def _note(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        assert list(partitions) == sorted(partitions)
        self.calls.append(ListenerCall(self.group.now, what, list(partitions)))

    @property
    def may_run_on(self) -> bool:
        return self.is_stalled or self.group.now < self.runs_on_until

    def resume(self) -> None:
        """It is turned again; with the next poll or heartbeat it learns what has happened meanwhile."""
        if self.is_stalled:
            self.is_stalled = False
            self.runs_on_until = max(self.runs_on_until, self.group.now + 2.0)

    def what(self, *kinds: str) -> list[list[int]]:
        """The partition numbers in the listener's calls of these kinds."""
        return [[one.partition for one in call.partitions] for call in self.calls if call.what in kinds]

    def poll(self, timeout_ms: float = POLL_MS) -> int:
        """One poll; errors are kept in `errors`.  How many records came."""
        self.waits = 0
        try:
            polled = self.consumer.poll(timeout_ms)
        except KafkaError as error:
            self.errors.append(error)
            self.group.simulation.sleep(timeout_ms / 1000)
            return 0
        assert self.waits < 50, f"{self.name} looked {self.waits} times in one poll: it runs hot"
        for partition, records in polled.items():
            assert partition in self.owned, f"{self.name} reads {partition}, which it does not own"
            self.read += [record.value for record in records]
            self.places += [(partition, record.offset) for record in records]
        return sum(map(len, polled.values()))

    def health(self) -> dict[str, Any]:
        health: dict[str, Any] = self.consumer.health()["group"]
        return health

    def crash(self) -> None:
        """End without leaving the group, like a killed process."""
        self.is_stalled = True
        self.group.members.remove(self)
        self.consumer._core.cluster.close(0)


class Group:
    """The members of group `g`, and their cluster."""

    def __init__(
        self,
        simulation: Simulation,
        topics: dict[str, int] | None = None,
        brokers: int = 2,
        config: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.simulation = simulation
        self.cluster: KafkaCluster = simulation.cluster(
            brokers=brokers,
            topics=topics or {"orders": 6},
            config={**QUICK, **FEW_PARTITIONS, **(config or {})},
        )
        self.counts = dict(topics or {"orders": 6})
        """Partitions by topic; kept in line by the test that adds some."""
        self.recreated: frozenset[str] = frozenset()
        """Topics that were deleted and created again: one member can own a partition of the old topic, and
        another the partition of the new one with the same name (KIP-848)."""
        self.members: list[Member] = []
        self.problems: list[str] = []
        self.options = {
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 500,
            "session_timeout_ms": 6000,
            **options,
        }

    @property
    def now(self) -> float:
        return self.simulation.now

    def member(
        self, name: str = "", topics: Iterable[str] = ("orders",), *, subscribes: bool = True, **options: Any
    ) -> Member:
        """A new member; it joins when it is turned."""
        name = name or f"m{len(self.members)}"
        consumer = self.simulation.consumer(self.cluster, **{"client_id": name, **self.options, **options})
        member = Member(self, name, consumer)
        self.members.append(member)
        if subscribes:
            consumer.subscribe(list(topics), listener=member)
        return member

    def turn(self, seconds: float, *only: Member) -> None:
        """Have the members that are not stalled (or only these) poll by turns."""
        until = self.now + seconds
        while self.now < until:
            members = [one for one in (only or self.members) if not one.is_stalled]
            if not members:
                self.simulation.sleep(POLL_MS / 1000)
            for member in members:
                member.poll()
        self.check()

    def turn_until(self, holds: Callable[[], bool], timeout: float = 60.0, *only: Member) -> float:
        """Turn until it holds; the seconds it took."""
        began = self.now
        while not holds():
            assert self.now - began < timeout, self.describe()
            self.turn(POLL_MS / 1000, *only)
        return self.now - began

    def settle(self, timeout: float = 60.0) -> float:
        """Turn until every partition of the members' topics has one owner, and all members are stable."""
        return self.turn_until(self.is_settled, timeout)

    def is_settled(self) -> bool:
        live = [member for member in self.members if not member.is_stalled]
        topics = {topic for member in live for topic in member.consumer.subscription()}
        wanted = {
            TopicPartition(topic, number) for topic in topics for number in range(self.counts.get(topic, 0))
        }
        owned = [partition for member in live for partition in member.owned]
        stable = all(member.health()["state"] == "stable" for member in live)
        generations = {member.health()["generation"] for member in live}
        return sorted(owned) == sorted(wanted) and stable and len(generations) == 1

    def add_partitions(self, topic: str, count: int) -> None:
        """Let a topic have so many partitions."""
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        client = self.simulation.client(self.cluster)
        client.request(CreatePartitionsRequest(topics=[wanted], timeout_ms=5000, validate_only=False))
        self.counts[topic] = count

    def is_exclusive(self, partition: TopicPartition) -> bool:
        """Whether one name of a partition means one partition."""
        return partition.topic not in self.recreated

    def check(self) -> None:
        """No partition has two owners: called at the end of each round of polls."""
        owners: dict[TopicPartition, str] = {}
        for member in self.members:
            for partition in () if member.may_run_on else sorted(member.owned):
                if partition in owners and self.is_exclusive(partition):
                    self.problems.append(f"{partition} belongs to {owners[partition]} and to {member.name}")
                owners[partition] = member.name
        assert self.problems == []

    def describe(self) -> str:
        return "\n".join(
            f"{one.name}: {one.owned} {one.errors}\n{one.consumer.explain()}" for one in self.members
        )

    def produce(self, count: int, topic: str = "orders", start: int = 0) -> list[bytes]:
        values = [b"%d" % number for number in range(start, start + count)]
        partitions = self.counts[topic]
        producer = self.simulation.producer(self.cluster)
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % partitions)
        producer.close()
        return values
