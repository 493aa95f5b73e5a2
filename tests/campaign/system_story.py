"""The whole-system story: three brokers, producers, consumers, faults; then peace, and the proof.

Safety while faults happen (checkers watch), then everything heals and liveness is demanded: every send ends,
every consumer reaches the end, every promise holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import attrs

from pykafka2.testing.simulation.actors import Actor
from pykafka2.testing.simulation.checkers import Checker, all_checkers, watch
from pykafka2.testing.simulation.facade import Simulation
from pykafka2.testing.simulation.fault_table import KINDS
from pykafka2.testing.simulation.faults import FaultPlan, Injector, Kind
from pykafka2.testing.simulation.inner_checkers import AnswersAreTrue, InSyncHasAll, LogsKnowThemselves
from pykafka2.testing.simulation.problems import InvariantViolated
from pykafka2.testing.simulation.world import World
from tests.campaign.groups import CommitsAreKept, Member, OneOwnerPerGeneration
from tests.campaign.recovery import wait_until_recovered
from tests.campaign.seed import Report, Sabotage, play_seed
from tests.campaign.workloads import Consuming, Producing

# A seed counts as a test of the system only from here.
LEAST_SECONDS = 60.0
LEAST_OPERATIONS = 300
LEAST_FAULTS = 5


@attrs.define
class Shape:
    """How large a play of it is; options are those of the clients."""

    seconds: float = 60.0
    brokers: int = 3
    topics: dict[str, int] = attrs.field(factory=lambda: {"orders": 3})
    producers: int = 1
    consumers: int = 1
    members: int = 0
    """Parameters of one group that increments committed offsets, see groups.py."""
    producer_options: dict[str, Any] = attrs.field(factory=dict)
    consumer_options: dict[str, Any] = attrs.field(factory=dict)
    config: dict[str, object] = attrs.field(factory=dict)
    kinds: Sequence[Kind] = KINDS


def run_seed(
    seed: int,
    shape: Shape | None = None,
    *,
    sabotage: Sabotage | None = None,
    checkers: Sequence[Checker] | None = None,
    keep_timeline: bool = False,
) -> Report:
    """Play one seed; a violation or any other failure comes back as the report's `error`."""
    report = Report(seed)
    watching = checkers or every_checker()
    play_seed(
        report,
        lambda simulation: SystemStory(simulation, shape or Shape(), report, watching).play(sabotage),
        keep_timeline=keep_timeline,
    )
    report.counts = (
        report.seconds >= LEAST_SECONDS
        and report.operations >= LEAST_OPERATIONS
        and report.effective_faults >= LEAST_FAULTS
    )
    return report


def every_checker() -> list[Checker]:
    """One of each, fresh: what clients see, what is true inside, groups."""
    return [
        *all_checkers(),
        InSyncHasAll(),
        LogsKnowThemselves(),
        AnswersAreTrue(),
        OneOwnerPerGeneration(),
        CommitsAreKept(),
    ]


def _drawn_config(seed: int) -> dict[str, object]:
    """Leaders' patience: no fault lasts for Kafka's 30 s, so with the default no replica would leave an ISR.

    There is one group, so most seeds have few partitions for groups; with 50 each move of a leader and each
    new session of a follower costs many times as much and shows nothing more.
    """
    draw = Random(f"{seed}/cluster")
    return {
        "replica.lag.time.max.ms": draw.choice([1500, 5000, 30_000]),
        "min.insync.replicas": draw.choice([1, 1, 2]),
        "broker.session.timeout.ms": draw.choice([3000, 9000]),
        "broker.heartbeat.interval.ms": 1000,
        "offsets.topic.num.partitions": draw.choice([3, 3, 3, 50]),
        "replica.fetch.wait.max.ms": draw.choice([500, 1000, 1000]),
    }


class SystemStory:
    """One play of the story; belongs to the simulation's main actor."""

    def __init__(
        self, simulation: Simulation, shape: Shape, report: Report, checkers: Sequence[Checker]
    ) -> None:
        self._simulation = simulation
        self._shape = shape
        self._report = report
        self._checkers = checkers
        self._stop = simulation.event()
        config = {**_drawn_config(simulation.seed), **shape.config}
        cluster = simulation.cluster(brokers=shape.brokers, topics=shape.topics, config=config)
        self.world = World(simulation, cluster, dict(shape.topics))
        watch(self.world, checkers)
        self._producing: list[Producing] = []
        self._consuming: list[Consuming] = []
        self._members: list[Member] = []

    def play(self, sabotage: Sabotage | None) -> None:
        """From the first send to the last check; raises what went wrong."""
        self._make_clients()
        if sabotage is not None:
            sabotage(self.world)
        plan = FaultPlan.draw(self._simulation.seed, self._shape.seconds, self._shape.kinds, self.world)
        injector = Injector(self.world, plan, self._shape.kinds)
        actors = [self._simulation.spawn(client.run, client.name) for client in self._clients()]
        faults = self._simulation.spawn(injector.run, "faults")
        try:
            self._simulation.sleep(max(0.0, self._shape.seconds - self.world.now))
            self._wait_for([faults])
            self._simulation.note("peace")
            self.world.heal()
            wait_until_recovered(self.world)
            self._stop.set()
            self._wait_for(actors)
        finally:
            self._fill_report(injector)
        for client in self._clients():
            for problem in client.problems:
                raise InvariantViolated(f"liveness: {problem}")
        for checker in self._checkers:
            checker.finish(self.world)

    def _make_clients(self) -> None:
        shape, seed = self._shape, self._simulation.seed
        draw = Random(f"{seed}/shape")
        self._simulation.network.slicing = draw.choice([0.0, 0.1, 0.3])
        self._simulation.network.buffer_bytes = draw.choice([4096, 65536, 1 << 20])
        self.world.is_idempotent = draw.random() < 0.85
        for number in range(shape.producers):
            options = {**self._drawn_producer_options(draw), **shape.producer_options}
            name = f"{seed}/producer/{number}"
            self._producing.append(Producing(self.world, self._stop, name, options))
        for number in range(shape.consumers):
            options = {
                "fetch_max_wait_ms": draw.choice([100, 500, 2000]),
                "auto_offset_reset": "earliest",
                **shape.consumer_options,
            }
            name = f"{seed}/consumer/{number}"
            self._consuming.append(Consuming(self.world, self._stop, name, options))

        for number in range(shape.members):
            topic = min(self.world.topics)
            self._members.append(Member(self.world, self._stop, f"{seed}/member/{number}", topic))

    def _drawn_producer_options(self, draw: Random) -> dict[str, Any]:
        """Among them delivery timeouts that faults outlast, so that batches are given up half-way."""
        request_timeout_ms = draw.choice([1000, 5000, 30000])
        return {
            "linger_ms": draw.choice([0, 5, 50]),
            "batch_size": draw.choice([200, 2000, 16384]),
            "request_timeout_ms": request_timeout_ms,
            "delivery_timeout_ms": request_timeout_ms + draw.choice([1000, 10_000, 60_000]),
            "compression_type": draw.choice(["none", "none", "gzip", "lz4"]),
            "enable_idempotence": self.world.is_idempotent,
            "max_in_flight_requests_per_connection": draw.choice([1, 2, 5]),
        }

    def _clients(self) -> list[Producing | Consuming | Member]:
        return [*self._producing, *self._consuming, *self._members]

    def _wait_for(self, actors: Sequence[Actor]) -> None:
        """Until these actors have ended; raises what ended them."""
        for actor in actors:
            actor.result()

    def _fill_report(self, injector: Injector) -> None:
        history = self.world.history
        self._report.operations = history.operations + self.world.groups.operations
        self._report.records = len(history.sent)
        self._report.reads = len(history.reads)
        self._report.outcomes = dict(Counter(sent.outcome for sent in history.sent))
        self._report.effective_faults = injector.effective
        self._report.tallies = injector.tallies
