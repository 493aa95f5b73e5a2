"""The consumers' story: three brokers, two or three applications in one group, faults; then peace and proof.

A seed is made to be cheap (half a second of processor time), so that many can be played: twenty virtual
seconds, few partitions, one producer that writes a little.  What producers do is another story's
(producer_story.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import attrs

from pykafka2.testing.arguments import Topic
from pykafka2.testing.simulation.checkers import Checker, ReplicasAgree
from pykafka2.testing.simulation.facade import Simulation
from pykafka2.testing.simulation.faults import FaultPlan, Injector, Kind
from pykafka2.testing.simulation.history import Sent
from pykafka2.testing.simulation.problems import InvariantViolated
from pykafka2.testing.simulation.world import GROUP_ID, World
from pykafka2.types import TopicPartition
from tests.campaign.consumer_faults import LATE_TOPIC, LATEST, consumer_kinds
from tests.campaign.consumer_lives import MOST_LIVES, WAYS_TO_COMMIT, Life, drawn_group, drawn_options
from tests.campaign.consumer_promises import delivered_since, promises_of
from tests.campaign.consumer_work import Application, Habits
from tests.campaign.producer_faults import paused_seconds
from tests.campaign.seed import Report, Sabotage, play_seed

TOPICS = {"orders": 3, "refunds": 1}
PATTERN = "orders.*|refunds"
SECONDS = 10.0

# Virtual seconds in which a group must come to rest when all faults are over: a session and a rebalance that
# are under way may have to end first.
TIME_TO_REST = 30.0

# A seed counts as a test of groups only from here.
LEAST_READS = 20
LEAST_FAULTS = 3


@attrs.define
class ConsumerShape:
    """How large the story is; `options` are the consumers', over those that the seed draws."""

    seconds: float = SECONDS
    consumers: int = 0
    """0: two or three, as the seed says."""
    options: dict[str, Any] = attrs.field(factory=dict)
    habits: dict[str, Any] = attrs.field(factory=dict)
    """Over those that the seed draws, by the names of `Habits`."""
    config: dict[str, object] = attrs.field(factory=dict)
    kinds: Sequence[Kind] = attrs.field(factory=consumer_kinds)


def run_seed(
    seed: int,
    shape: ConsumerShape | None = None,
    *,
    sabotage: Sabotage | None = None,
    keep_timeline: bool = False,
) -> Report:
    """Play one seed; a broken promise or any other failure comes back as the report's `error`."""
    report = Report(seed, "consumers")
    play_seed(
        report,
        lambda simulation: ConsumerStory(simulation, shape or ConsumerShape(), report).play(sabotage),
        keep_timeline=keep_timeline,
    )
    report.counts = report.reads >= LEAST_READS and report.effective_faults >= LEAST_FAULTS
    return report


def _drawn_config(draw: Random) -> dict[str, object]:
    return {
        "replica.lag.time.max.ms": draw.choice([1500, 5000, 30_000]),
        "min.insync.replicas": 1,
        "broker.session.timeout.ms": draw.choice([3000, 9000]),
        "broker.heartbeat.interval.ms": 1000,
        "offsets.topic.num.partitions": 1,
        "group.min.session.timeout.ms": 500,
        "group.initial.rebalance.delay.ms": draw.choice([0, 200]),
        "replica.fetch.wait.max.ms": 1000,
        "replica.fetch.backoff.ms": 200,
        # Clocks jump, and what is written keeps the time of its producer.
        "log.message.timestamp.after.max.ms": 2**62,
    }


class ConsumerStory:
    """One play of the story; belongs to the simulation's main actor."""

    def __init__(self, simulation: Simulation, shape: ConsumerShape, report: Report) -> None:
        self._simulation = simulation
        self._shape = shape
        self._report = report
        self._draw = Random(f"{simulation.seed}/shape")
        config = {**_drawn_config(self._draw), **shape.config}
        topics = {name: Topic(number, replication_factor=2) for name, number in TOPICS.items()}
        cluster = simulation.cluster(brokers=3, topics=topics, config=config)
        self.world = World(simulation, cluster, dict(TOPICS))
        self._lives: list[Life] = []
        self._checkers: list[Checker] = [*promises_of(self._lives), ReplicasAgree()]
        self._stop = simulation.event()
        self._done = simulation.event()
        self._applications: list[Application] = []
        self._in_order_since: tuple[int, float] | None = None
        """In which generation, and since when, the group has been in order."""
        self._producer = simulation.producer(cluster, linger_ms=5, delivery_timeout_ms=60_000)
        self._writer = simulation.last_client

    def play(self, sabotage: Sabotage | None) -> None:
        """From the first record to the last check; raises what went wrong."""
        simulation, shape = self._simulation, self._shape
        self._make_applications()
        if sabotage is not None:
            sabotage(self.world)
        plan = FaultPlan.draw(simulation.seed, shape.seconds, shape.kinds, self.world, start=0.5, window=2.0)
        for one in self._applications:
            one.pauses = {
                place: paused_seconds(plan.faults, place)
                for place in [f"consumer-{number}" for number in range(1, 30)]
            }
        injector = Injector(self.world, plan, shape.kinds)
        actors = [simulation.spawn(one.run, one.habits.name) for one in self._applications]
        writer = simulation.spawn(self._write, "writer")
        faults = simulation.spawn(injector.run, "faults")
        try:
            simulation.sleep(max(0.0, shape.seconds - self.world.now))
            faults.result()
            simulation.note("peace")
            self.world.cluster.controls.clear()
            self.world.heal()
            self._wait_for("the cluster has its leaders", self._has_leaders, 60.0)
            if self._is_static():
                simulation.sleep(LATEST)  # a JoinGroup that comes late takes the place of the one that lives
            self._stop.set()
            writer.result()
            self._check_applications()
            self._wait_for("the group comes to rest", self._is_at_rest, TIME_TO_REST)
            self._hand_over_cleanly()
        finally:
            self._fill_report(injector)
        self._check()
        self._done.set()
        for actor in actors:
            actor.result()
        self._check_applications()
        self._check_the_end()

    def _make_applications(self) -> None:
        seed, draw = self._simulation.seed, self._draw
        self._simulation.network.slicing = draw.choice([0.0, 0.1, 0.3])
        self._simulation.network.buffer_bytes = draw.choice([4096, 65536, 1 << 20])
        group = {**drawn_group(draw), **self._shape.options}
        pattern = PATTERN if draw.random() < 0.3 else None
        is_static = draw.random() < 0.25
        self._seeks = draw.random() < 0.2
        for number in range(self._shape.consumers or draw.choice([2, 2, 3])):
            random = Random(f"{seed}/options/{number}")
            # The first application reads all partitions, so each partition has a reader.
            topics = tuple(TOPICS) if number == 0 or random.random() < 0.8 else ("orders",)
            way = random.choice(WAYS_TO_COMMIT)
            way = self._shape.habits.get("way", way)
            own = {"group_instance_id": f"till-{number}"} if is_static else {}
            settings = {**group, **own, **self._shape.options}
            options = [{**drawn_options(random, way), **settings} for _ in range(MOST_LIVES)]
            habits = Habits(
                f"application-{number}",
                (*TOPICS, LATE_TOPIC) if pattern else topics,
                pattern,
                way,
                options,
                iterates=random.random() < 0.25,
                seeks=self._seeks,
                is_restless=random.random() < 0.5,
            )
            habits = attrs.evolve(habits, **self._shape.habits)
            self._applications.append(
                Application(self.world, self._stop, self._done, f"{seed}/application/{number}", habits)
            )

    # ------------------------------------------------------------------ what is read

    def _write(self) -> None:
        """A few records to every topic that there is, until the faults are over."""
        random = Random(f"{self._simulation.seed}/writer")
        while not self._stop.is_set():
            self._send(random, random.randint(1, 4))
            self._stop.wait(random.expovariate(3.0))
        self._producer.flush(timeout=60.0)

    def _send(self, random: Random, count: int) -> None:
        world = self.world
        for _ in range(count):
            topic, partition = random.choice(world.partitions())
            number = world.history.next_number(self._writer, topic, partition)
            value = f"{topic}-{partition}/{number}".encode()
            world.history.sent.append(Sent(self._writer, topic, partition, number, value, world.now))
            self._producer.send(topic, value, partition=partition)

    # ------------------------------------------------------------------ peace

    def _wait_for(self, what: str, holds: Callable[[], bool], timeout: float) -> None:
        deadline = self.world.now + timeout
        while not holds():
            if self.world.now < deadline:
                self._simulation.sleep(0.25)
                continue
            self._check_applications()
            words = "\n".join(
                f"{one.habits.name}: {sorted(map(str, one.life.held))}\n{one.life.consumer.explain()}"
                for one in self._applications
            )
            raise InvariantViolated(f"GroupsComeToRest: not in {timeout:g} s: {what}:\n{words}")

    def _has_leaders(self) -> bool:
        states = [self.world.partition(*one) for one in self.world.partitions()]
        return all(state.leader >= 0 and len(state.isr) == len(state.replicas) for state in states)

    def _is_at_rest(self) -> bool:
        """True when the group has been in order for a second: an assignment that has come may still take
        partitions away.
        """
        if not self._is_in_order():
            self._in_order_since = None
            return False
        generation = self._applications[0].life.consumer.health()["group"]["generation"]
        if self._in_order_since is None or self._in_order_since[0] != generation:
            self._in_order_since = (generation, self.world.now)
        return self.world.now >= self._in_order_since[1] + 1.0

    def _is_in_order(self) -> bool:
        """All are at peace and members of one generation, every partition has one owner, all is read."""
        if any(one.life.is_over or one.wants_restart or not one.is_at_peace for one in self._applications):
            return False
        lives = [one.life for one in self._applications]
        healths = [life.consumer.health()["group"] for life in lives]
        if (
            len({(one["state"], one["generation"]) for one in healths}) != 1
            or healths[0]["state"] != "stable"
        ):
            return False
        held = sorted(place for life in lives for place in life.held)
        return held == self._wanted() and all(self._is_done(place) for place in held)

    def _wanted(self) -> list[TopicPartition]:
        topics = {topic for one in self._applications for topic in one.habits.topics}
        return [TopicPartition(*place) for place in self.world.partitions() if place[0] in topics]

    def _is_done(self, place: TopicPartition) -> bool:
        end = self.world.high_watermark(*place)
        read = max(
            (
                one.handed[-1].offset + 1
                for life in self._all_lives()
                for one in life.holdings()
                if one.place == place and one.handed
            ),
            default=0,
        )
        return read >= end

    def _hand_over_cleanly(self) -> None:
        """One member goes and comes back, and meanwhile the group reads on: nothing is read twice."""
        random = Random(f"{self._simulation.seed}/peace")
        # What is committed automatically may be some seconds behind what is read.
        began = self.world.now
        going = random.choice(self._applications)
        going.wants_restart = True
        self._send(random, 10)
        self._producer.flush(timeout=10.0)
        self._wait_for("a member has restarted", lambda: not going.wants_restart, TIME_TO_REST)
        self._send(random, 10)
        self._producer.flush(timeout=10.0)
        self._wait_for("the group comes to rest after a clean hand-over", self._is_at_rest, TIME_TO_REST)
        delivered = delivered_since(self._all_lives(), began)
        uncommitted = self._uncommitted()
        twice = sorted(
            str(record) for record, count in delivered.items() if count > 1 and record[0] not in uncommitted
        )
        computing = random.choice(self._applications)
        computing.computes = computing.life.options["session_timeout_ms"] / 1000 + 0.5
        self._wait_for("an application has computed", lambda: not computing.computes, TIME_TO_REST)
        if twice:
            raise InvariantViolated(f"CleanStopsRepeatNothing: read twice since {began:.3f}: {twice}")

    # ------------------------------------------------------------------ the proof

    def _all_lives(self) -> list[Life]:
        return [life for one in self._applications for life in one.lives]

    def _is_static(self) -> bool:
        return "group_instance_id" in self._applications[0].life.options

    def _uncommitted(self) -> set[TopicPartition]:
        """Records whose application got an error for its last commit."""
        return {place for one in self._applications for place in one.uncommitted}

    def _check_applications(self) -> None:
        for one in self._applications:
            for promise, words in one.problems:
                raise InvariantViolated(f"{promise}: {words}")

    def _check(self) -> None:
        self._check_applications()
        self._lives += self._all_lives()
        for checker in self._checkers:
            checker.finish(self.world)

    def _check_the_end(self) -> None:
        """All have left, and the group stands where they stopped."""
        uncommitted = self._uncommitted()
        for place in self._wanted():
            end, stands = self.world.high_watermark(*place), self.world.committed(GROUP_ID, *place)
            if end and stands != end and place not in uncommitted:
                raise InvariantViolated(f"TheGroupStandsAtTheEnd: {place} at {stands}, it ends at {end}")
        members = self.world.cluster.group(GROUP_ID).members
        if members and not self._is_static():
            raise InvariantViolated(f"WhoClosesLeaves: {members}")

    def _fill_report(self, injector: Injector) -> None:
        history = self.world.history
        self._report.reads = sum(len(one.handed) for life in self._all_lives() for one in life.holdings())
        self._report.operations = history.operations
        self._report.records = len(history.sent)
        self._report.outcomes = {"lives": len(self._all_lives())}
        self._report.effective_faults = injector.effective
        self._report.tallies = injector.tallies
