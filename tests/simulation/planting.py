"""The checkers' self-test: a planted bug must be found within a few seeds, by the promise that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from pykafka2.testing.simulation.problems import InvariantViolated
from pykafka2.testing.simulation.world import World
from tests.campaign.seed import Report, Sabotage

SEEDS = 50


def assert_caught(
    mutant: Callable[[World, pytest.MonkeyPatch], object],
    caught_by: Collection[str],
    play: Callable[[int, Sabotage], Report],
    monkeypatch: pytest.MonkeyPatch,
    first: int = 0,
) -> None:
    """Play seeds from `first` on until one fails, by one of `caught_by`: a checker, or an error's type."""
    for seed in range(first, first + SEEDS):
        with monkeypatch.context() as patch:
            report = play(seed, lambda world, patch=patch: mutant(world, patch))  # type: ignore[misc]
        if report.error is not None:
            error = report.error
            named = str(error).split(":")[0] if isinstance(error, InvariantViolated) else type(error).__name__
            assert named in caught_by, f"{error!r}\n{report.timeline[-4000:]}"
            return
    pytest.fail(f"{getattr(mutant, '__name__', mutant)} was not caught within {SEEDS} seeds")
