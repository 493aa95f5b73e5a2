"""Transactions under faults: producers that write by hand, read_committed readers, and what must hold.

A transaction is all or nothing: what a producer committed is read whole, what it did not ask to commit is
never read, and what it cannot know is one of the two; with it stand or fall the offsets that it committed.
`play` plays one seed.  Requests are made by hand through the cluster client, so that only the broker is
on trial, or by `KafkaProducer`; the reader is our consumer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

import attrs

from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_for
from pykafka2.errors import KafkaError
from pykafka2.testing.simulation.facade import Simulation
from pykafka2.testing.simulation.fault_kinds import MoveLeader
from pykafka2.testing.simulation.fault_table import KINDS
from pykafka2.testing.simulation.faults import FaultPlan, Injector, Kind, Tallies
from pykafka2.testing.simulation.problems import InvariantViolated
from pykafka2.testing.simulation.world import World
from pykafka2.types import TopicPartition
from tests.campaign.transaction_clients import ClientProducing
from tests.campaign.transaction_producing import (
    ABORTED,
    COMMITTED,
    OPEN,
    RECOVERY_TIME,
    TOPIC,
    TransactionalProducing,
    Written,
)

if TYPE_CHECKING:
    from pykafka2.testing.simulation.sync import SimEvent

TOPICS: Final = {TOPIC: 3}


class CommittedReading:
    """A read_committed consumer of all partitions, as an actor; `seen` is what it was shown, in order.

    Ends with `InvariantViolated` if it reads a record that no producer had requested to commit by then.
    """

    def __init__(
        self, world: World, stop: SimEvent, producers: Sequence[TransactionalProducing | ClientProducing]
    ) -> None:
        self._world = world
        self._stop = stop
        self._producers = {producer.name: producer for producer in producers}
        self.consumer = world.simulation.consumer(
            world.cluster, isolation_level="read_committed", fetch_max_wait_ms=200
        )
        self.name = world.simulation.last_client
        world.clients.append(self.name)
        self.places = [TopicPartition(*one) for one in world.partitions()]
        self.seen: dict[TopicPartition, list[bytes]] = {place: [] for place in self.places}

    def run(self) -> None:
        """The actor's body."""
        self.consumer.assign(self.places)
        for place in self.places:
            self.consumer.seek(place, 0)
        while not self._stop.is_set() or self._is_behind():
            try:
                polled = self.consumer.poll(timeout_ms=200)
            except KafkaError as error:
                self._world.simulation.note(f"{self.name}: {error!r}")
                self._world.simulation.sleep(0.1)
                continue
            for place, records in polled.items():
                for record in records:
                    value = record.value or b""
                    self._check_expected(place, value)
                    self.seen[place].append(value)

    def _check_expected(self, place: TopicPartition, value: bytes) -> None:
        name, number, _ = value.decode().split("/")
        written = self._producers[name].transactions[int(number)]
        if written.outcome in (OPEN, ABORTED):
            raise InvariantViolated(f"{value!r} of {place} is read, and its transaction is {written.outcome}")

    def _is_behind(self) -> bool:
        return any(
            self.consumer.position(place) < self._world.high_watermark(*place) for place in self.places
        )


@attrs.define
class Story:
    """Results of a seed."""

    seed: int
    outcomes: dict[str, int] = attrs.field(factory=dict)
    fenced: int = 0
    values: int = 0
    effective_faults: int = 0
    tallies: Tallies = attrs.field(factory=dict)
    trace_hash: str = ""


class PauseReplication:
    """Followers of a partition stop fetching, so that markers wait; then coordinators move amid that."""

    def __init__(self, topic: str, partition: int, to: int) -> None:
        self._place = (topic, partition)
        self._to = to
        self._became = ""

    def start(self, world: World) -> None:
        world.cluster.controls.pause_followers(self._place)

    def stop(self, world: World) -> None:
        for view in world.cluster.transactions():
            if view.state.startswith("Prepare"):
                self._became = "made ends wait"
                place = (TRANSACTIONS_TOPIC, partition_for(view.transactional_id, 50))
                if view.coordinator != self._to and self._to in world.live_brokers:
                    self._move(world, place)
        world.cluster.controls.resume_followers()

    def _move(self, world: World, place: tuple[str, int]) -> None:
        if self._to in world.partition(*place).isr:
            world.move_leader(*place, self._to)
            self._became = "moved amid an end"

    def outcome(self, world: World) -> str:
        return self._became


def kinds_for(transactional_ids: Sequence[str], groups: Sequence[str]) -> tuple[Kind, ...]:
    """All faults of the whole-system scenario, and those that keep ends of transactions waiting."""
    places = [(TRANSACTIONS_TOPIC, partition_for(name, 50)) for name in transactional_ids]
    places += [(OFFSETS_TOPIC, partition_for(name, 50)) for name in groups]

    def any_coordinator(random: Random, world: World) -> dict[str, object]:
        topic, partition = random.choice(places)
        return {"topic": topic, "partition": partition, "to": random.choice(world.broker_ids)}

    def any_place(random: Random, world: World) -> dict[str, object]:
        topic, partition = random.choice(world.partitions())
        return {"topic": topic, "partition": partition, "to": random.choice(world.broker_ids)}

    # What these change the reader here does not follow.
    kinds = [kind for kind in KINDS if kind.name not in ("add partition", "delete records")]
    return (
        *kinds,
        Kind("move of a coordinator", 0.0, MoveLeader, any_coordinator),
        Kind("pause replication", 3.0, PauseReplication, any_place),
    )


def play(
    seed: int,
    *,
    seconds: float = 40.0,
    transaction_version: int = 2,
    by_clients: bool = False,
    sabotage: Callable[[World], object] | None = None,
) -> Story:
    """Play one seed to its end.

    Three producers, two of which share a transactional id, and a reader, for `seconds` of faults; then
    everything heals, and what is open ends.  The producers are raw requests, or with `by_clients` the
    library's.  Raises `InvariantViolated` where a promise was broken.
    """
    story = Story(seed)
    with Simulation(seed) as simulation:
        cluster = simulation.cluster(
            brokers=3,
            topics=TOPICS,
            config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000},
            features={"transaction.version": transaction_version},
        )
        world = World(simulation, cluster, dict(TOPICS))
        stop, done = simulation.event(), simulation.event()
        names = {"alone": "own", "first": "shared", "second": "shared"}
        is_new = transaction_version >= 2
        producers: list[TransactionalProducing | ClientProducing] = [
            ClientProducing(world, stop, name, transactional_id)
            if by_clients
            else TransactionalProducing(world, stop, name, transactional_id, is_new)
            for name, transactional_id in names.items()
        ]
        reader = CommittedReading(world, done, producers)
        if sabotage is not None:
            sabotage(world)
        kinds = kinds_for(list(names.values()), [one.group for one in producers])
        injector = Injector(world, FaultPlan.draw(seed, seconds, kinds, world), kinds)
        actors = [simulation.spawn(one.run, one.name) for one in producers]
        faults = simulation.spawn(injector.run, "faults")
        reading = simulation.spawn(reader.run, reader.name)
        try:
            simulation.sleep(seconds)
            faults.result()
            simulation.note("peace")
            world.heal()
            stop.set()
            for actor in actors:
                actor.result()
            _wait_for_ends(world)
            done.set()
            _check(producers, reader)
            reading.result()
            _check(producers, reader, is_end=True)
        finally:
            for one in producers:
                one.close()
            _fill(story, producers, reader, injector)
    story.trace_hash = simulation.trace_hash
    return story


def _wait_for_ends(world: World) -> None:
    """Everything that is open is committed or aborted in time, and in every partition."""

    def is_over() -> bool:
        if any(view.is_open for view in world.cluster.transactions()):
            return False
        return all(_is_stable(world, *place) for place in world.partitions())

    if not world.simulation.wait_until(is_over, RECOVERY_TIME):
        views = [str(view) for view in world.cluster.transactions() if view.is_open]
        unstable = [place for place in world.partitions() if not _is_stable(world, *place)]
        raise InvariantViolated(f"liveness: transactions do not end: {views}, unstable: {unstable}")


def _is_stable(world: World, topic: str, partition: int) -> bool:
    leader = world.partition(topic, partition).leader
    if leader < 0:
        return False
    log = world.cluster.broker(leader).replicas.log_of((topic, partition))
    return log.last_stable_offset == log.log_end_offset


def _check(
    producers: Sequence[TransactionalProducing | ClientProducing],
    reader: CommittedReading,
    *,
    is_end: bool = False,
) -> None:
    """Nothing that was not committed is ever read; at the end each transaction is there whole or not at all,
    in order and once, and its offset with it.
    """
    seen = {place: Counter(values) for place, values in reader.seen.items()}
    for producer in producers:
        committed_offset = -1
        for written in producer.transactions:
            found = sum(seen[place][value] for place, value in _all(written))
            wanted = sum(1 for _ in _all(written))
            if written.outcome == ABORTED and found:
                raise InvariantViolated(f"aborted, but read: {written}")
            if not is_end:
                continue
            if found not in (0, wanted) or (written.outcome == COMMITTED and found != wanted):
                raise InvariantViolated(f"{found} of {wanted} values read: {written}")
            for place, values in written.values.items():
                shown = [value for value in reader.seen[place] if value.startswith(written.key)]
                if found and shown != values:
                    raise InvariantViolated(f"not in order and once in {place}: {shown}, sent {values}")
            if found and written.offset is not None:
                committed_offset = written.offset
        if is_end and producer.committed_offset() != committed_offset:
            raise InvariantViolated(
                f"{producer.group} has offset {producer.committed_offset()}, "
                f"the last transaction of {producer.name} with an offset committed {committed_offset}"
            )


def _all(written: Written) -> list[tuple[TopicPartition, bytes]]:
    return [(place, value) for place, values in written.values.items() for value in values]


def _fill(
    story: Story,
    producers: Sequence[TransactionalProducing | ClientProducing],
    reader: CommittedReading,
    injector: Injector,
) -> None:
    story.outcomes = dict(Counter(one.outcome for who in producers for one in who.transactions))
    story.fenced = sum(one.fenced for one in producers)
    story.values = sum(len(values) for values in reader.seen.values())
    story.effective_faults = injector.effective
    story.tallies = injector.tallies
