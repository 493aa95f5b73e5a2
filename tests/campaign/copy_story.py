"""Copying exactly once: a group reads, transforms and writes in transactions while faults happen (KIP-447).

Two or three applications, each with a consumer of the group and a transactional producer of its own. Output
records and the offsets of the records read are committed together or not at all. The applications crash,
stall in a transaction beyond max_poll_interval_ms, and start again under the same transactional id. Whatever
happened, at the end the output has every input record once, in the order of its partition, and the group is
at the end of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.errors import KafkaError
from pykafka2.testing.arguments import Topic
from pykafka2.testing.simulation.actors import Actor
from pykafka2.testing.simulation.facade import Simulation
from pykafka2.testing.simulation.faults import FaultPlan, Injector, Kind
from pykafka2.testing.simulation.problems import InvariantViolated
from pykafka2.testing.simulation.world import GROUP_ID, World
from pykafka2.types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from tests.campaign.consumer_faults import consumer_kinds
from tests.campaign.consumer_lives import drawn_group
from tests.campaign.seed import Report, Sabotage, play_seed

if TYPE_CHECKING:
    from pykafka2.consumer.consumer import KafkaConsumer
    from pykafka2.producer.producer import KafkaProducer
    from pykafka2.testing.simulation.sync import SimEvent

INPUT, OUTPUT = "orders", "copies"
TOPICS = {INPUT: 3, OUTPUT: 2}
SECONDS = 10.0
RECOVERY_TIME = 60.0
PATIENCE = 5.0
"""Seconds for one call of a producer."""
TRANSACTION_TIMEOUT_MS = 6000

LEAST_COPIES = 10
LEAST_FAULTS = 3
# What these add is not read here.
NOT_HERE = ("add partition", "new topic")


@attrs.define
class CopyShape:
    """How large the story is."""

    seconds: float = SECONDS
    consumers: int = 0
    """0: two or three, as the seed says."""
    options: dict[str, Any] = attrs.field(factory=dict)
    stalls: float = 0.03
    """How many transactions in one an application stalls amid."""
    kinds: Sequence[Kind] = attrs.field(factory=lambda: copy_kinds())


def copy_kinds() -> tuple[Kind, ...]:
    """Faults for groups, except new partitions."""
    return tuple(kind for kind in consumer_kinds() if kind.name not in NOT_HERE)


def run_seed(
    seed: int,
    shape: CopyShape | None = None,
    *,
    sabotage: Sabotage | None = None,
    keep_timeline: bool = False,
) -> Report:
    """Play one seed; a broken promise or any other failure comes back as the report's `error`."""
    report = Report(seed, "copies")
    play_seed(
        report,
        lambda simulation: CopyStory(simulation, shape or CopyShape(), report).play(sabotage),
        keep_timeline=keep_timeline,
    )
    report.counts = report.reads >= LEAST_COPIES and report.effective_faults >= LEAST_FAULTS
    return report


class Copier:
    """One application: reads its share, and copies it in transactions; an actor."""

    def __init__(
        self, world: World, stop: SimEvent, done: SimEvent, name: str, options: dict[str, Any], stalls: float
    ) -> None:
        self.name = name
        self.lives = 0
        self.commits = 0
        self.failures = 0
        self._world = world
        self._stop = stop
        self._done = done
        self._options = options
        self._stalls = stalls
        self._random = Random(f"{world.simulation.seed}/{name}")
        self.consumer: KafkaConsumer | None = None
        self._producer: KafkaProducer | None = None
        self._is_begun = False

    def run(self) -> None:
        """The actor's body."""
        while not self._done.is_set():
            try:
                if self.consumer is None or self._producer is None:
                    self.consumer, self._producer = self._begin()
                self._turn(self.consumer, self._producer)
            except KafkaError as error:
                self._world.simulation.note(f"{self.name}: {error!r}")
                self.failures += 1
                self._go_on_after_failure()
        self._end(timeout=PATIENCE)

    def _begin(self) -> tuple[KafkaConsumer, KafkaProducer]:
        world, simulation = self._world, self._world.simulation
        self.lives += 1
        producer = simulation.producer(
            world.cluster,
            transactional_id=f"id-of-{self.name}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_block_ms=PATIENCE * 1000,
            request_timeout_ms=1000,
            delivery_timeout_ms=self._random.choice([3000, 6000]),
        )
        world.clients.append(simulation.last_client)
        try:
            producer.init_transactions()
        except KafkaError:
            producer.close(0)
            raise
        consumer = simulation.consumer(world.cluster, group_id=GROUP_ID, **self._options)
        world.clients.append(simulation.last_client)
        world.consumers.append(consumer)
        simulation.note(f"{self.name} begins as {simulation.last_client}")
        consumer.subscribe([INPUT])
        return consumer, producer

    def _turn(self, consumer: KafkaConsumer, producer: KafkaProducer) -> None:
        polled = consumer.poll(timeout_ms=200)
        chance = 1.0 if self._stop.is_set() else self._random.random()
        if chance < 0.02:
            self._crash()
        if not polled or self.consumer is None:
            return
        producer.begin_transaction()
        self._is_begun = True
        for place, records in polled.items():
            for record in records:
                producer.send(OUTPUT, copy_of(place, record), partition=place.partition % TOPICS[OUTPUT])
        if chance < 0.02 + self._stalls:
            self._rest(self._options["max_poll_interval_ms"] / 1000 * self._random.choice([0.5, 1.5]))
        elif chance < 0.05 + self._stalls:
            self._crash()
            return
        producer.send_offsets_to_transaction(_behind(polled), consumer.group_metadata(), PATIENCE)
        if 0.05 + self._stalls < chance < 0.08 + self._stalls:
            self._crash()
            return
        producer.commit_transaction(PATIENCE)
        self._is_begun = False
        self.commits += 1

    def _go_on_after_failure(self) -> None:
        """Abort, and read again from where the group stands; or leave it all to another life."""
        if self._is_begun and self._random.random() < 0.5:
            try:
                self._abort_and_rewind()
            except KafkaError as error:
                self._world.simulation.note(f"{self.name}, aborting: {error!r}")
            else:
                return
        self._end(timeout=self._random.choice([0.0, 1.0]))
        self._rest(self._random.choice([0.1, 1.0]))

    def _abort_and_rewind(self) -> None:
        consumer, producer = self.consumer, self._producer
        assert consumer is not None
        assert producer is not None
        producer.abort_transaction(PATIENCE)
        self._is_begun = False
        owned = sorted(consumer.assignment())
        committed = consumer.committed(owned, timeout_ms=PATIENCE * 1000) if owned else {}
        for place, stands in committed.items():
            consumer.seek(place, 0 if stands is None else stands.offset)

    def _crash(self) -> None:
        """End like a process that is killed: it neither leaves the group nor aborts."""
        self._world.simulation.note(f"{self.name} crashes")
        if self.consumer is not None:
            self.consumer._core.cluster.close(0)
        if self._producer is not None:
            self._producer._core.client.close(0)
        self._forget()

    def _end(self, timeout: float) -> None:
        for client in (self.consumer, self._producer):
            if client is not None:
                with suppress(KafkaError):
                    client.close(timeout=timeout)
        self._forget()

    def _forget(self) -> None:
        if self.consumer is not None:
            self._world.consumers.remove(self.consumer)
        self.consumer = self._producer = None
        self._is_begun = False

    def _rest(self, seconds: float) -> None:
        if not self._stop.is_set():
            self._stop.wait(seconds)


def copy_of(place: TopicPartition, record: ConsumerRecord) -> bytes:
    """The output record for a record that was read."""
    return b"%d/%d/%b" % (place.partition, record.offset, record.value or b"")


def _behind(polled: Mapping[TopicPartition, list[ConsumerRecord]]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        place: OffsetAndMetadata(records[-1].offset + 1, "", records[-1].leader_epoch)
        for place, records in polled.items()
    }


class CopyStory:
    """One play of the story; belongs to the simulation's main actor."""

    config: Mapping[str, object] = {}
    """Configuration of the cluster, in addition to this story's own."""

    def __init__(self, simulation: Simulation, shape: CopyShape, report: Report) -> None:
        self._simulation = simulation
        self._shape = shape
        self._report = report
        draw = Random(f"{simulation.seed}/shape")
        cluster = simulation.cluster(
            brokers=3,
            topics={name: Topic(number, replication_factor=2) for name, number in TOPICS.items()},
            config={
                "broker.session.timeout.ms": draw.choice([3000, 9000]),
                "broker.heartbeat.interval.ms": 1000,
                "offsets.topic.num.partitions": 1,
                "transaction.state.log.num.partitions": 2,
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
                "group.min.session.timeout.ms": 500,
                "group.initial.rebalance.delay.ms": 0,
                "replica.fetch.wait.max.ms": 1000,
                "replica.fetch.backoff.ms": 200,
                "log.message.timestamp.after.max.ms": 2**62,
                **self.config,
            },
            features={"transaction.version": draw.choice([1, 2])},
        )
        self.world = World(simulation, cluster, dict(TOPICS))
        self._stop = simulation.event()
        self._done = simulation.event()
        self._producer = simulation.producer(cluster, linger_ms=5, delivery_timeout_ms=60_000)
        options = {
            **drawn_group(draw),
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
            "max_poll_records": draw.choice([5, 500]),
            "fetch_max_wait_ms": 500,
            "request_timeout_ms": 3000,
            "default_api_timeout_ms": 5000,
            **shape.options,
        }
        self._make_copiers(draw, options)

    def _make_copiers(self, draw: Random, options: dict[str, Any]) -> None:
        self._copiers: list[Any] = [
            Copier(self.world, self._stop, self._done, f"copier-{number}", options, self._shape.stalls)
            for number in range(self._shape.consumers or draw.choice([2, 2, 3]))
        ]

    def _places_of_clients(self) -> list[str]:
        """Partitions that faults can affect."""
        return [f"consumer-{number + 1}" for number in range(len(self._copiers))]

    def _start(self) -> list[Actor]:
        return [self._simulation.spawn(one.run, one.name) for one in self._copiers]

    def play(self, sabotage: Sabotage | None) -> None:
        """From the first record to the last check; raises what went wrong."""
        simulation, shape, world = self._simulation, self._shape, self.world
        world.clients += self._places_of_clients()
        if sabotage is not None:
            sabotage(world)
        plan = FaultPlan.draw(simulation.seed, shape.seconds, shape.kinds, world, start=0.5, window=2.0)
        injector = Injector(world, plan, shape.kinds)
        actors = self._start()
        writer = simulation.spawn(self._write, "writer")
        faults = simulation.spawn(injector.run, "faults")
        try:
            simulation.sleep(max(0.0, shape.seconds - world.now))
            faults.result()
            simulation.note("peace")
            world.cluster.controls.clear()
            world.heal()
            self._stop.set()
            writer.result()
            self._wait_for_the_end()
            self._wait_for("transactions end", self._is_settled)
        finally:
            self._fill_report(injector)
        self._done.set()
        for actor in actors:
            actor.result()
        self._check()

    def _write(self) -> None:
        random = Random(f"{self._simulation.seed}/writer")
        number = 0
        while not self._stop.is_set():
            for _ in range(random.randint(1, 4)):
                self._producer.send(INPUT, b"%d" % number, partition=random.randrange(TOPICS[INPUT]))
                number += 1
            self._stop.wait(random.expovariate(3.0))
        self._producer.flush(timeout=RECOVERY_TIME)

    # ------------------------------------------------------------------ the proof

    def _wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = self.world.now + RECOVERY_TIME
        while not holds():
            if self.world.now >= deadline:
                raise InvariantViolated(f"CopyingComesToItsEnd: not in {RECOVERY_TIME:g} s: {what}")
            self._simulation.sleep(0.25)

    def _wait_for_the_end(self) -> None:
        self._wait_for("the group stands at the end of the input", self._is_copied)

    def _is_copied(self) -> bool:
        return all(
            (self.world.committed(GROUP_ID, *place) or 0) == self.world.high_watermark(*place)
            for place in self._places(INPUT)
        )

    def _is_settled(self) -> bool:
        return not any(view.is_open for view in self.world.cluster.transactions())

    def _places(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in range(TOPICS[topic])]

    def _check(self) -> None:
        """The output, as a read_committed consumer sees it, is the input: each record once, in order."""
        copies = self._read_output()
        for place in self._places(INPUT):
            sent = [b"%d/%d/%b" % (place.partition, *one) for one in self.world.records(*place)]
            prefix = b"%d/" % place.partition
            found = [value for value in copies if value.startswith(prefix)]
            if found != sent:
                lost, doubled = set(sent) - set(found), {one for one in found if found.count(one) > 1}
                words = (
                    f"lost {sorted(lost)}, doubled {sorted(doubled)}" if lost or doubled else "out of order"
                )
                raise InvariantViolated(f"EverythingIsCopiedOnce: of {place}: {words}")

    def _read_output(self) -> list[bytes]:
        reader = self._simulation.consumer(self.world.cluster, isolation_level="read_committed")
        places = self._places(OUTPUT)
        reader.assign(places)
        reader.seek_to_beginning()
        ends = reader.end_offsets(places)
        copies: list[bytes] = []
        deadline = self.world.now + RECOVERY_TIME
        while any(reader.position(place) < ends[place] for place in places):
            for records in reader.poll(timeout_ms=500).values():
                copies += [record.value or b"" for record in records]
            if self.world.now >= deadline:
                raise InvariantViolated("CopyingComesToItsEnd: the output cannot be read to its end")
        return copies

    def _fill_report(self, injector: Injector) -> None:
        self._report.reads = sum(one.commits for one in self._copiers)
        self._report.records = sum(len(self.world.records(*place)) for place in self._places(INPUT))
        self._report.operations = self._report.reads
        self._report.outcomes = {
            "lives": sum(one.lives for one in self._copiers),
            "failures": sum(one.failures for one in self._copiers),
        }
        self._report.effective_faults = injector.effective
        self._report.tallies = injector.tallies
