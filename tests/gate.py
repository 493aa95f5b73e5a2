"""The marker of tests that a plain `python -m pytest` leaves out: `.ci/run` and `nox -s tests` run them.

A test is the gate's when it takes long and others cover the same code: many seeds, long walks and fuzzing,
processes.  A quick one stays in the plain run.  A run of all the tests takes one case of each test,
a run with named files or folders takes all their cases.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

MARKER = "gate"
LONGEST = "longest"
PLAIN_RUN = f"not {MARKER} and not spark"
"""The `-m` of pyproject.toml."""
GATE_PROFILE = "gate"
"""The profile of Hypothesis in `.ci/run`."""

HOW_TO_RUN = "`-m gate` runs these alone, `-m ''` everything, such as python -m pytest -m '' FILE::TEST"


def rest_in_gate(values: Iterable[object]) -> list[object]:
    """Values for `pytest.mark.parametrize`: the first in every run, the others in the gate."""
    first, *others = values
    return [first, *(_marked(one, pytest.mark.gate) for one in others)]


def rest_in_long(values: Iterable[object], in_gate: int = 1) -> list[object]:
    """Values for `pytest.mark.parametrize`: the first in every run, so many in the gate, and the others
    marked `long`.
    """
    first, *others = values
    more = (_marked(one, pytest.mark.gate) for one in others[: in_gate - 1])
    return [
        first,
        *more,
        *(_marked(one, pytest.mark.gate, pytest.mark.long) for one in others[in_gate - 1 :]),
    ]


def _marked(case: object, *marks: pytest.MarkDecorator) -> object:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks)


def chosen(test: str, count: int) -> int:
    """Return the case of a test that a plain run takes.

    It depends on the test's name: of many tests with the same cases, such as two group protocols, some take
    each case.
    """
    return zlib.crc32(test.encode()) % count


OF_A_FILE = re.compile(rf"^pytestmark = (?:\[[^\]]*|.*)\bpytest\.mark\.{MARKER}\b", re.MULTILINE)
TEST = re.compile(r"^ *(?:async )?def test_", re.MULTILINE)


def count_of_gate(path: Path) -> int:
    """Return the number of tests of a file whose `pytestmark` makes all of them the gate's; otherwise 0."""
    if not path.name.startswith("test_") or path.suffix != ".py":
        return 0
    source = path.read_text(encoding="utf-8")
    return len(TEST.findall(source)) if OF_A_FILE.search(source) else 0


def examples(most: int) -> int:
    """For `max_examples` of Hypothesis: the profile takes a quarter in a plain run, and half in the gate."""
    return max(2, most * settings().max_examples // 100)


class GateReport:
    """A pytest plugin (see tests/conftest.py): if you select a test of the gate by name, it prints how to run
    it.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left_out = 0

    def add(self, count: int) -> None:
        """Count tests that were left out before they were items."""
        self._left_out += count

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._left_out += sum(item.get_closest_marker(MARKER) is not None for item in items)

    def pytest_sessionfinish(self) -> None:
        output: dict[str, object] | None = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["left_out"] = self._left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker of pytest-xdist has ended.  All of them leave out the same tests."""
        self._left_out = max(self._left_out, getattr(node, "workeroutput", {}).get("left_out", 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._left_out:
            line = f"{self._left_out} tests marked `{MARKER}` were left out; {HOW_TO_RUN}"
            terminalreporter.write_line(line)


class OneCase:
    """A pytest plugin: in a run of all the tests, all cases of a test but one are marked as the gate's."""

    def __init__(self, config: pytest.Config, report: GateReport) -> None:
        options: dict[str, Any] | None = getattr(config, "workerinput", None)
        everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        self._everything: bool = everything if options is None else options["everything"]
        self._is_plain = config.getoption("markexpr") == PLAIN_RUN
        self._report = report

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """A worker of pytest-xdist is given paths, wherever they come from."""
        node.workerinput["everything"] = self._everything

    @property
    def is_plain_run_of_all(self) -> bool:
        """Whether this is a plain `python -m pytest`: no other tests are selected, and none are named."""
        return self._everything and self._is_plain

    def leaves_out(self, path: Path) -> bool:
        """Whether a file is not even imported, because all of its tests are the gate's."""
        return self.is_plain_run_of_all and count_of_gate(path) > 0

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if not self.leaves_out(collection_path):
            return None
        self._report.add(count_of_gate(collection_path))
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> Generator[None]:
        """Leave out here what a plain run deselects later: to make ten thousand items takes two seconds in
        each process.  pytest's list of cases is private; without it the run is the same and takes longer."""
        yield
        cases: list[Any] = getattr(metafunc, "_calls", [])
        if self.is_plain_run_of_all and len(cases) > 1:
            plain = [case for case in cases if not any(mark.name == MARKER for mark in case.marks)]
            taken = plain[chosen(metafunc.definition.nodeid, len(plain))] if plain else cases[0]
            self._report.add(len(cases) - 1)
            cases[:] = [taken]

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        if self._everything:
            cases: dict[str, list[pytest.Item]] = {}
            for item in items:
                if item.get_closest_marker(MARKER) is None:
                    cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
            for test, together in cases.items():
                del together[chosen(test, len(together))]
                for item in together:
                    item.add_marker(MARKER)
        yield


class LongestFirst:
    """A pytest plugin that starts the longest test first, so that no process ends long after the others."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        yield  # pytest-randomly has shuffled them
        items.sort(key=lambda item: item.get_closest_marker(LONGEST) is None)
