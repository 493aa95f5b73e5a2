"""The pytest fixture `simulation` and its option; registered by testing/pytest_plugin.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pykafka2.testing.simulation.facade import Simulation

DEFAULT_SEED = 1


def add_options(parser: pytest.Parser) -> None:
    """For `pytest_addoption` of the plugin."""
    parser.getgroup("pykafka2").addoption(
        "--simulation-seed",
        type=int,
        default=DEFAULT_SEED,
        help="seed of the `simulation` fixture (default: %(default)s)",
    )


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """A `Simulation` of the seed given by --simulation-seed; what failed in the background fails the test."""
    from pykafka2.testing.simulation.facade import Simulation

    seed: int = request.config.getoption("--simulation-seed", default=DEFAULT_SEED)
    request.node.add_report_section(
        "setup",
        "simulation",
        f"seed {seed}; replay: pytest '{request.node.nodeid}' --simulation-seed={seed}",
    )
    with Simulation(seed) as made:
        yield made
        request.node.add_report_section("call", "simulation timeline (its end)", _tail(made.timeline()))


def _tail(timeline: str, lines: int = 40) -> str:
    return "\n".join(timeline.splitlines()[-lines:])
