"""The guides name everything that a test author can use, and the picture is as its script draws it."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import testing
from pykafka2.broker.faults.rule import RULE_KEYS, Action
from pykafka2.broker.observed.history import Criteria, History
from pykafka2.testing.api import ClusterApi
from pykafka2.testing.controls.controls import Controls
from pykafka2.testing.fixtures.leaks import KINDS
from pykafka2.testing.simulation import Simulation, kinds

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
# The broker's side of it.
FED = {"received", "ended"}


def functions_of_guide(name: str) -> dict[str, Any]:
    """Return the functions that the blocks of a guide define, by name."""
    namespace: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", (GUIDES / name).read_text(), re.MULTILINE | re.DOTALL):
        functions = [part for part in ast.parse(block).body if isinstance(part, ast.FunctionDef)]
        exec(compile(ast.Module(functions, []), name, "exec"), namespace)
    return namespace


def public(owner: type) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


def everything() -> dict[str, set[str]]:
    controls = {name for name in dir(Controls) if not name.startswith("_")}
    return {
        "names of pykafka2.testing": set(testing.__all__),
        "controls": controls,
        "actions of rules": {action.value for action in Action},
        "keys of rules": set(RULE_KEYS),
        "views": public(ClusterApi),
        "the history": public(History) - FED - {"is_on"},
        "criteria of the history": set(Criteria.__annotations__),
        "the simulation": public(Simulation),
        "fixtures": {"kafka_cluster", "fresh_kafka_cluster", "kafka_tls_cluster", "simulation"},
        "kinds of leaks": {*KINDS, "transactions"},
        "the command": {"--admin-host", "--admin-port", "--admin-token", "--quick", "--port"},
    }


@pytest.mark.parametrize("what", everything())
def test_the_guide_names(what: str) -> None:
    text = (GUIDES / "testing.md").read_text()
    missing = {name for name in everything()[what] if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)}
    assert missing == set()


def test_the_guide_of_the_simulation_names_every_kind_of_fault() -> None:
    text = (GUIDES / "simulation.md").read_text()
    assert [kind.name for kind in kinds() if f"`{kind.name}`" not in text] == []


def test_the_picture_is_as_its_script_draws_it() -> None:
    script = runpy.run_path(str(GUIDES / "where_faults_act.py"))
    assert (GUIDES / "where-faults-act.svg").read_text() == script["drawing"]()


def test_the_picture_shows_controls_and_actions_that_there_are() -> None:
    script = runpy.run_path(str(GUIDES / "where_faults_act.py"))
    words = {
        word for _, _, lines in script["NOTES"] for line in lines for word in re.findall(r"\w+_\w+", line)
    }
    assert words <= set(dir(Controls)) | {action.value for action in Action}
