"""The marker of tests that a plain `python -m pytest` leaves out: `.ci/run` and `nox -s tests` run them.

A test is the gate's when it takes long and others cover the same code: many seeds, long walks and fuzzing,
processes.  One quick case of each stays in the plain run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

MARKER = "gate"
PLAIN_RUN = f"not {MARKER} and not spark"
"""The `-m` of pyproject.toml."""

HOW_TO_RUN = "`-m gate` runs these alone, `-m ''` everything, such as python -m pytest -m '' FILE::TEST"


def rest_in_gate(values: Iterable[object]) -> list[object]:
    """Values for `pytest.mark.parametrize`: the first in every run, the others in the gate."""
    first, *others = values
    rest = [one if isinstance(one, tuple) else (one,) for one in others]
    return [first, *(pytest.param(*one, marks=pytest.mark.gate) for one in rest)]


def examples(most: int) -> int:
    """For `max_examples` of Hypothesis: a quarter of them in a plain run, whose profile says so."""
    return max(2, most * settings().max_examples // 100)


class GateReport:
    """A pytest plugin (see tests/conftest.py): whoever names a test of the gate is told how to run it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left_out = 0

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._left_out += sum(item.get_closest_marker(MARKER) is not None for item in items)

    def pytest_sessionfinish(self) -> None:
        told: dict[str, object] | None = getattr(self._config, "workeroutput", None)
        if told is not None:
            told["left_out"] = self._left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker of pytest-xdist has ended.  All of them leave out the same tests."""
        self._left_out = max(self._left_out, getattr(node, "workeroutput", {}).get("left_out", 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._left_out:
            line = f"{self._left_out} tests marked `{MARKER}` were left out; {HOW_TO_RUN}"
            terminalreporter.write_line(line)
