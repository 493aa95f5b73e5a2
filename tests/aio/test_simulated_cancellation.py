"""The cancellations of test_cancellation.py in the simulation: other orders from each seed, and faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from random import Random

import pytest

from pykafka2.driver.runtime import Runtime
from pykafka2.testing import KafkaCluster, Simulation, Topic
from tests.aio import test_cancellation as sockets
from tests.aio.cancelling import Conditions, conditions
from tests.aio.test_cancellation import LEAST, Scenario, new_runtime
from tests.gate import rest_in_long

STALL = 300.0
"""Virtual seconds; a broker that is down is noticed after nine."""


@contextmanager
def world(seed: int) -> Iterator[tuple[Simulation, KafkaCluster]]:
    with Simulation(seed, watchdog=60.0) as simulation:
        cluster = simulation.cluster(
            2,
            {"orders": Topic(1, 2), "input": Topic(1, 2)},
            config={"group.initial.rebalance.delay.ms": 0, "default.replication.factor": 2},
        )
        yield simulation, cluster


def play(seed: int, scenario: Scenario, has_faults: bool) -> tuple[int, str]:
    """Play a scenario; returns the number of its cases, and the hash of the trace."""
    random = Random(f"{seed}/cancellations")
    with world(seed) as (simulation, cluster):
        numbers = count()

        def runtime() -> Runtime:
            return simulation.runtime.at(f"client-{next(numbers)}")

        async def program() -> int:
            new_runtime.set(runtime)
            delays = [0.0, 0.001, 0.002, 0.01, 0.1]
            conditions.set(Conditions(STALL, lambda: random.choice(delays), has_faults))
            return await scenario(cluster)

        if has_faults:
            break_connections(simulation, random)
        cases = simulation.run(program)
        return cases, simulation.trace_hash


def break_connections(simulation: Simulation, random: Random) -> None:
    """Break a connection now and then, and deliver bytes in pieces."""
    network = simulation.network
    network.slicing = 0.2

    def work() -> None:
        while True:
            simulation.sleep(random.expovariate(2.0))
            connections = network.live_connections(busy=random.random() < 0.5)
            if connections:
                network.break_connection(random.choice(connections), "a fault")

    simulation.spawn(work, "faults")


@pytest.mark.parametrize("has_faults", rest_in_long([True, False]), ids=["faults", "calm"])
@pytest.mark.parametrize("scenario", LEAST, ids=lambda scenario: scenario.__name__)
def test_cancelled_calls_lose_and_repeat_nothing_in_virtual_time(
    scenario: Scenario, has_faults: bool
) -> None:
    cases, _ = play(1, scenario, has_faults)
    assert cases >= LEAST[scenario]


@pytest.mark.gate
@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("scenario", LEAST, ids=lambda scenario: scenario.__name__)
def test_cancelled_calls_lose_and_repeat_nothing_with_other_seeds(scenario: Scenario, seed: int) -> None:
    play(seed, scenario, has_faults=True)


@pytest.mark.gate
def test_same_seed_plays_the_same_cancellations() -> None:
    scenario = sockets.transactions
    first, second = (play(3, scenario, has_faults=True) for _ in range(2))
    assert first == second
