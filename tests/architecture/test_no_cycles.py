"""The module graph has no cycle, counting every import: also those for types, and those inside functions."""

from __future__ import annotations

import pytest

from tests.architecture.modules import circles, import_graph, imports_in, source_files

P = "pykafka2."

ALLOWED: list[frozenset[str]] = []
"""Circles that are known, each with the reason why it is still there."""


def is_allowed(circle: frozenset[str]) -> bool:
    """Whether it is a known circle, or what is left of one."""
    return any(circle <= known for known in ALLOWED)


def test_the_module_graph_has_no_cycle() -> None:
    graph = import_graph()
    assert len(graph) > 30
    assert [sorted(circle) for circle in circles(graph) if not is_allowed(circle)] == []


def test_no_allowed_circle_is_over() -> None:
    """Remove a cycle from the list when you end it, and a module when you take it out of its cycle."""
    in_circles = frozenset().union(*circles(import_graph())) if ALLOWED else frozenset()
    assert [sorted(one - in_circles) for one in ALLOWED if one - in_circles] == []


@pytest.mark.gate
@pytest.mark.parametrize(
    "planted",
    [
        "from pykafka2.driver.driver import Driver",
        "import pykafka2.driver.driver",
        "from pykafka2.driver import driver",
        "from .driver import driver",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pykafka2.driver.driver import Driver",
        "import typing\nif typing.TYPE_CHECKING:\n    from pykafka2.driver.driver import Driver",
        "def late():\n    from pykafka2.driver.driver import Driver",
        "async def late():\n    from pykafka2.driver import driver",
        "class Late:\n    def method(self):\n        import pykafka2.driver.driver",
        "try:\n    pass\nexcept ImportError:\n    from pykafka2.driver.driver import Driver",
    ],
)
def test_the_check_sees_a_planted_cycle(planted: str) -> None:
    graph = dict(import_graph())
    graph["pykafka2.errors"] = imports_in(planted, "pykafka2.errors", set(source_files()))
    (circle,) = [one for one in circles(graph) if "pykafka2.errors" in one]
    assert "pykafka2.driver.driver" in circle
    assert not is_allowed(circle)


@pytest.mark.gate
def test_circles_are_found_apart_and_whole() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a", "f"}}
    assert sorted(map(sorted, circles(graph))) == [["a", "b", "c"], ["d", "e"]]
    assert circles({str(n): {str(n + 1)} for n in range(5000)}) == []
