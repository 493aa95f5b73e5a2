"""Transactions under faults: producers that write by hand, read_committed readers, and what must hold.

A transaction is all or nothing: what a producer committed is read whole, what it did not ask to commit is
never read, and what it cannot know is one of the two; with it stand or fall the offsets that it committed.
`play` plays one seed.  Requests are made by hand through the cluster client, so that only the broker is
on trial; the reader is our consumer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from pykafka2.driver.pollable import GROUP, TRANSACTION, ToCoordinator, ToLeader
from pykafka2.errors import BrokerError, KafkaError, error_of
from pykafka2.protocol.messages import committed_offsets, produce
from pykafka2.protocol.messages import transaction as messages
from pykafka2.protocol.struct import Request, Response
from pykafka2.records.encoder import BatchBuilder
from pykafka2.testing.coordinators.routing import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_for
from pykafka2.testing.simulation.facade import Simulation
from pykafka2.testing.simulation.fault_kinds import MoveLeader
from pykafka2.testing.simulation.fault_table import KINDS
from pykafka2.testing.simulation.faults import FaultPlan, Injector, Kind, Tallies
from pykafka2.testing.simulation.problems import InvariantViolated
from pykafka2.testing.simulation.world import World
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.testing.simulation.sync import SimEvent

R = TypeVar("R", bound=Response)

TOPICS: Final = {"orders": 3}
OPEN, COMMITTED, ABORTED, UNKNOWN = "open", "committed", "aborted", "unknown"
TIMEOUT_MS: Final = 10_000
"""Of a transaction: less than some faults last."""
PATIENCE: Final = 15.0
"""Seconds that a producer tries one request."""
RECOVERY_TIME: Final = 90.0

# The newest versions that clients of transaction.version 1 speak.
OLD_VERSIONS: Final[dict[type[Request[Any]], int]] = {
    produce.ProduceRequest: 11,
    messages.AddPartitionsToTxnRequest: 3,
    messages.EndTxnRequest: 4,
    messages.TxnOffsetCommitRequest: 4,
}


@attrs.define
class Written:
    """One transaction as its producer knows it; `values` by partition, in the order of sending."""

    name: str
    number: int
    outcome: str = OPEN
    values: dict[TopicPartition, list[bytes]] = attrs.field(factory=dict)
    offset: int | None = None
    """The offset of the producer's group that it commits."""

    @property
    def key(self) -> bytes:
        return f"{self.name}/{self.number}/".encode()


class TransactionalProducing:
    """One producer, as an actor: begins, writes, commits or aborts or walks away, until told to stop.

    With `is_new` it speaks transaction.version 2 (KIP-890), else 1.  Two of them may share a transactional id
    and fence each other.
    """

    def __init__(self, world: World, stop: SimEvent, name: str, transactional_id: str, is_new: bool) -> None:
        from pykafka2.admin.options import ADMIN_OPTIONS
        from pykafka2.cluster.client import ClusterClient

        self.name = name
        self.group = f"group-of-{name}"
        self.transactional_id = transactional_id
        self.transactions: list[Written] = []
        self.fenced = 0
        self._world = world
        self._stop = stop
        self._is_new = is_new
        self._random = Random(f"{world.simulation.seed}/{name}")
        self._id, self._epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = {}
        options = ADMIN_OPTIONS.parse(
            None,
            {
                "bootstrap_servers": world.cluster.bootstrap_servers,
                "client_id": name,
                "request_timeout_ms": self._random.choice([1000, 3000]),
            },
        )
        self._client: ClusterClient = ClusterClient(
            options, name=name, runtime=world.simulation.runtime.at(name)
        )
        world.clients.append(name)

    def close(self) -> None:
        self._client.close(0)

    def run(self) -> None:
        """The actor's body."""
        while not self._stop.is_set():
            try:
                if self._id < 0:
                    self._begin()
                self._transaction()
            except KafkaError as error:
                self._note_failure(error)
            self._stop.wait(self._random.expovariate(2.0))
        # What was left open is ended by the next producer of this id, or by its timeout.

    def _note_failure(self, error: KafkaError) -> None:
        self._world.simulation.note(f"{self.name}: {error!r}")
        self.fenced += isinstance(error, BrokerError) and error.code in (47, 90)
        if self.transactions and self.transactions[-1].outcome == OPEN:
            self.transactions[-1].outcome = ABORTED  # it never asked for a commit
        self._id = -1

    def _begin(self) -> None:
        request = messages.InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        self._take(self._ask(request, self._coordinator, lambda answer: answer.error_code))

    def _take(self, answer: Any) -> None:
        if (answer.producer_id, answer.producer_epoch) != (self._id, self._epoch):
            self._sequences.clear()
        self._id, self._epoch = answer.producer_id, answer.producer_epoch

    def _transaction(self) -> None:
        random = self._random
        written = Written(self.name, len(self.transactions))
        self.transactions.append(written)
        for _ in range(random.randint(1, 4)):
            self._write(written, TopicPartition(*random.choice(self._world.partitions())))
            if random.random() < 0.1:
                self._world.simulation.sleep(random.choice([0.01, 0.5, 3.0]))
        if random.random() < 0.5:
            self._commit_offset(written)
        how = random.random()
        if how < 0.1:  # a crash of the application: the next one begins anew
            written.outcome = ABORTED
            self._id = -1
            return
        self._end(written, is_commit=how < 0.75)

    def _end(self, written: Written, *, is_commit: bool) -> None:
        written.outcome = UNKNOWN if is_commit else ABORTED
        request = messages.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=is_commit,
        )
        answer = self._ask(request, self._coordinator, lambda answer: answer.error_code)
        if is_commit:
            written.outcome = COMMITTED
        if self._is_new:
            self._take(answer)

    def _write(self, written: Written, place: TopicPartition) -> None:
        if not self._is_new:
            self._add(place)
        values = written.values.setdefault(place, [])
        sequence = self._sequences.get(place, 0)
        builder = BatchBuilder()
        count = self._random.randint(1, 3)
        for _ in range(count):
            value = written.key + f"{place.partition}-{len(values)}".encode()
            values.append(value)
            builder.append(self._world.simulation.clock.wall_ms(), None, value)
        records = builder.build(
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = produce.PartitionProduceData(index=place.partition, records=records)
        topic = produce.TopicProduceData(
            name=place.topic, topic_id=self._topic_id(place.topic), partition_data=[data]
        )
        request = produce.ProduceRequest(
            transactional_id=self.transactional_id, acks=-1, timeout_ms=3000, topic_data=[topic]
        )
        self._sequences[place] = sequence + count
        self._ask(
            request, ToLeader(*place), lambda answer: answer.responses[0].partition_responses[0].error_code
        )

    def _topic_id(self, topic: str) -> bytes:
        known = self._client.wait_for_topic(topic, PATIENCE)
        return known.topic_id

    def _add(self, place: TopicPartition) -> None:
        topics = [messages.AddPartitionsToTxnTopic(name=place.topic, partitions=[place.partition])]
        request = messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=topics,
        )
        self._ask(
            request,
            self._coordinator,
            lambda answer: (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
        )

    def _commit_offset(self, written: Written) -> None:
        if not self._is_new:
            request = messages.AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self._id,
                producer_epoch=self._epoch,
                group_id=self.group,
            )
            self._ask(request, self._coordinator, lambda answer: answer.error_code)
        written.offset = written.number
        one = messages.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=written.number, committed_metadata=""
        )
        self._ask(
            messages.TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=self.group,
                producer_id=self._id,
                producer_epoch=self._epoch,
                topics=[messages.TxnOffsetCommitRequestTopic(name="orders", partitions=[one])],
            ),
            ToCoordinator(GROUP, self.group),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )

    def committed_offset(self) -> int:
        """What its group has committed; -1 for nothing."""
        topic = committed_offsets.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
        asked = committed_offsets.OffsetFetchRequestGroup(group_id=self.group, topics=[topic])
        request = committed_offsets.OffsetFetchRequest(groups=[asked], require_stable=True)

        def code(answer: Any) -> int:
            group = answer.groups[0]
            found: int = group.error_code or group.topics[0].partitions[0].error_code
            return found

        answer: Any = self._client.request(
            request, ToCoordinator(GROUP, self.group), RECOVERY_TIME, _checked(code), 9
        )
        offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
        return offset

    @property
    def _coordinator(self) -> ToCoordinator:
        return ToCoordinator(TRANSACTION, self.transactional_id)

    def _ask(self, request: Request[R], to: Any, code: Callable[[Any], int]) -> R:
        newest = 12 if isinstance(request, produce.ProduceRequest) else None
        version = newest if self._is_new else OLD_VERSIONS.get(type(request))
        return self._client.request(request, to, PATIENCE, _checked(code), version)


def _checked(code: Callable[[Any], int]) -> Callable[[Any], KafkaError | None]:
    def check(answer: Any) -> KafkaError | None:
        found = code(answer)
        return error_of(found) if found else None

    return check


class CommittedReading:
    """A read_committed consumer of all partitions, as an actor; `seen` is what it was shown, in order."""

    def __init__(self, world: World, stop: SimEvent) -> None:
        self._world = world
        self._stop = stop
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
                self.seen[place] += [record.value for record in records]

    def _is_behind(self) -> bool:
        return any(
            self.consumer.position(place) < self._world.high_watermark(*place) for place in self.places
        )


@attrs.define
class Story:
    """What a seed did."""

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

    return (
        *KINDS,
        Kind("move of a coordinator", 0.0, MoveLeader, any_coordinator),
        Kind("pause replication", 3.0, PauseReplication, any_place),
    )


def play(
    seed: int,
    *,
    seconds: float = 40.0,
    transaction_version: int = 2,
    sabotage: Callable[[World], object] | None = None,
) -> Story:
    """Play one seed to its end.

    Three producers, two of which share a transactional id, and a reader, for `seconds` of faults; then
    everything heals, and what is open ends.  Raises `InvariantViolated` where a promise was broken.
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
        producers = [
            TransactionalProducing(world, stop, name, transactional_id, is_new)
            for name, transactional_id in names.items()
        ]
        reader = CommittedReading(world, done)
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
    producers: Sequence[TransactionalProducing], reader: CommittedReading, *, is_end: bool = False
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
    producers: Sequence[TransactionalProducing],
    reader: CommittedReading,
    injector: Injector,
) -> None:
    story.outcomes = dict(Counter(one.outcome for who in producers for one in who.transactions))
    story.fenced = sum(one.fenced for one in producers)
    story.values = sum(len(values) for values in reader.seen.values())
    story.effective_faults = injector.effective
    story.tallies = injector.tallies
