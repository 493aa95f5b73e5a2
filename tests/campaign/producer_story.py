"""The producers' story: three brokers, one or two producers of all sorts, faults; then peace and the proof.

A seed is cheap (a quarter of a second of processor time), so that many can be played: a dozen virtual
seconds, few partitions, no consumers. The other story (system_story.py) covers what brokers do among
themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import attrs

from pykafka2.testing.arguments import Topic
from pykafka2.testing.simulation.actors import Actor
from pykafka2.testing.simulation.checkers import Checker, EverySendEnds, ReplicasAgree, watch
from pykafka2.testing.simulation.facade import Simulation
from pykafka2.testing.simulation.faults import FaultPlan, Injector, Kind
from pykafka2.testing.simulation.problems import InvariantViolated
from pykafka2.testing.simulation.world import World
from tests.campaign.producer_faults import paused_seconds, producer_kinds
from tests.campaign.producer_lives import ALL, MOST_LIVES, Life, drawn_options
from tests.campaign.producer_promises import promises_of
from tests.campaign.producer_work import Worker
from tests.campaign.recovery import wait_until_recovered
from tests.campaign.seed import Report, Sabotage, play_seed

TOPICS = {"orders": 2}
SECONDS = 12.0

# A seed counts as a test of the producer only from here.
LEAST_RECORDS = 20
LEAST_FAULTS = 3


@attrs.define
class ProducerShape:
    """How large the story is; `options` are the producers', over those that the seed draws."""

    seconds: float = SECONDS
    producers: int = 0
    """0: one or two, as the seed says."""
    options: dict[str, Any] = attrs.field(factory=dict)
    config: dict[str, object] = attrs.field(factory=dict)
    kinds: Sequence[Kind] = attrs.field(factory=producer_kinds)


def run_seed(
    seed: int,
    shape: ProducerShape | None = None,
    *,
    sabotage: Sabotage | None = None,
    keep_timeline: bool = False,
) -> Report:
    """Play one seed; a broken promise or any other failure comes back as the report's `error`."""
    report = Report(seed, "producers")
    play_seed(
        report,
        lambda simulation: ProducerStory(simulation, shape or ProducerShape(), report).play(sabotage),
        keep_timeline=keep_timeline,
    )
    report.counts = report.records >= LEAST_RECORDS and report.effective_faults >= LEAST_FAULTS
    return report


def _drawn_config(draw: Random) -> dict[str, object]:
    return {
        "replica.lag.time.max.ms": draw.choice([1500, 5000, 30_000]),
        "min.insync.replicas": draw.choice([1, 1, 2]),
        "broker.session.timeout.ms": draw.choice([3000, 9000]),
        "broker.heartbeat.interval.ms": 1000,
        # Followers that wait longer ask less; what they wait for ends the wait at once.  Those that cannot
        # reach their leader try again five times a second, not twenty.
        "replica.fetch.wait.max.ms": 1000,
        "replica.fetch.backoff.ms": 200,
    }


class ProducerStory:
    """One play of the story; belongs to the simulation's main actor."""

    def __init__(self, simulation: Simulation, shape: ProducerShape, report: Report) -> None:
        self._simulation = simulation
        self._shape = shape
        self._report = report
        self._draw = Random(f"{simulation.seed}/shape")
        config = {**_drawn_config(self._draw), **shape.config}
        # A second follower costs a third of all turns, and with one a leader is soon alone.
        replicas = self._draw.choice([2, 2, 3])
        topics = {name: Topic(number, replication_factor=replicas) for name, number in TOPICS.items()}
        cluster = simulation.cluster(brokers=3, topics=topics, config=config)
        self.world = World(simulation, cluster, dict(TOPICS))
        self._lives: dict[str, Life] = {}
        self._checkers: list[Checker] = [EverySendEnds(), *promises_of(self._lives), ReplicasAgree()]
        self._stop = simulation.event()
        self._workers: list[Worker] = []

    def play(self, sabotage: Sabotage | None) -> None:
        """From the first send to the last check; raises what went wrong."""
        simulation, shape = self._simulation, self._shape
        self._make_workers()
        if sabotage is not None:
            sabotage(self.world)
        if any(life["acks"] != ALL for worker in self._workers for life in worker.options):
            watch(self.world, self._checkers)  # acks=all outcomes need no check after each turn
        plan = FaultPlan.draw(simulation.seed, shape.seconds, shape.kinds, self.world, start=0.0, window=2.0)
        for worker in self._workers:
            worker.allowance = paused_seconds(plan.faults, worker.life.name)
        injector = Injector(self.world, plan, shape.kinds)
        actors = [simulation.spawn(worker.run, worker.life.name) for worker in self._workers]
        faults = simulation.spawn(injector.run, "faults")
        try:
            simulation.sleep(max(0.0, shape.seconds - self.world.now))
            faults.result()
            simulation.note("peace")
            self.world.cluster.controls.clear()
            self.world.heal()
            wait_until_recovered(self.world, all_brokers_know=True)
            self._stop.set()
            self._wait_for(actors)
        finally:
            self._fill_report(injector)
        for worker in self._workers:
            self._lives.update((life.name, life) for life in worker.lives)
            for problem in worker.problems:
                raise InvariantViolated(f"CallsKeepTheirWord: {problem}")
        for checker in self._checkers:
            checker.finish(self.world)

    def _make_workers(self) -> None:
        seed, draw = self._simulation.seed, self._draw
        self._simulation.network.slicing = draw.choice([0.0, 0.1, 0.3])
        self._simulation.network.buffer_bytes = draw.choice([4096, 65536, 1 << 20])
        for number in range(self._shape.producers or draw.choice([1, 1, 2])):
            random = Random(f"{seed}/options/{number}")
            options = [{**drawn_options(random), **self._shape.options} for _ in range(MOST_LIVES)]
            self._workers.append(Worker(self.world, self._stop, f"{seed}/worker/{number}", options))

    def _wait_for(self, actors: Sequence[Actor]) -> None:
        """Until these actors have ended; raises what ended them."""
        for actor in actors:
            actor.result()

    def _fill_report(self, injector: Injector) -> None:
        history = self.world.history
        self._report.operations = history.operations
        self._report.records = len(history.sent)
        self._report.outcomes = dict(Counter(sent.outcome for sent in history.sent))
        self._report.effective_faults = injector.effective
        self._report.tallies = injector.tallies
