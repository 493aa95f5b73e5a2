"""One seed of a scenario: what it leaves in the process that plays thousands."""

from __future__ import annotations

import gc
from collections.abc import Generator

from pykafka2.testing import Simulation
from tests.campaign.seed import Report, play_seed


class World:
    """Everything of a seed, in cycles."""

    script: Generator[None, None, None]
    error: BaseException


def test_objects_that_a_generator_revives_when_it_is_closed_are_freed_after_the_seed() -> None:
    """The garbage collector closes a suspended generator, whose exception then refers to all of it."""

    def play(simulation: Simulation) -> None:
        world = World()

        def script() -> Generator[None, None, None]:
            try:
                yield
            except GeneratorExit as error:
                world.error = error
                raise

        world.script = script()
        next(world.script)

    for seed in range(2):
        report = play_seed(Report(seed), play)
        assert report.error is None
        assert not any(
            isinstance(one, World) for one in gc.get_objects()
        )  # a weak reference is cleared before
