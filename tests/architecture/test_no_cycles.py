"""The module graph has no cycle, counting every import that runs at import time."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import pytest

from tests.architecture.modules import import_graph


def test_the_module_graph_has_no_cycle() -> None:
    graph = import_graph()
    assert len(graph) > 30
    TopologicalSorter(graph).prepare()


def test_the_check_sees_a_planted_cycle() -> None:
    graph = import_graph()
    graph["pykafka2.errors"] = {"pykafka2.driver.driver"}
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()
