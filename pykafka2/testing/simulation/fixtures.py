"""The implementation of the pytest fixture `simulation`, which testing/pytest_plugin.py registers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.testing.simulation.facade import Simulation

TIMELINE_LINES = 40


def simulated(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """Yield a `Simulation` with the seed of --simulation-seed; background failures fail the test.

    The report of a failed test shows the seed, how to replay it, and the end of the timeline.
    """
    seed: int = request.config.getoption("--simulation-seed")
    again = f"seed {seed}; replay: pytest '{request.node.nodeid}' --simulation-seed={seed}"
    request.node.add_report_section("call", "simulation", again)
    with Simulation(seed) as simulation:
        yield simulation
        recent = simulation.timeline().splitlines()[-TIMELINE_LINES:]
        request.node.add_report_section("teardown", "simulation timeline, its end", "\n".join(recent))
