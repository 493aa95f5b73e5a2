"""The layers hold (contracts in pyproject.toml, enforced by import-linter)."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.modules import import_graph

ROOT = Path(__file__).parents[2]

# In a process of its own: import-linter's logging settings silence every logger made before it.
LINT = "import sys; from importlinter import cli; sys.exit(cli.lint_imports(no_cache=True))"


@pytest.mark.gate
@pytest.mark.slow
def test_no_module_imports_past_its_layer() -> None:
    done = subprocess.run([sys.executable, "-c", LINT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert f"{len(contracts)} kept, 0 broken" in done.stdout


ROW = re.compile(r"^\| `(\w+)` \|[^|]+\| ([^|]+) \|$", re.MULTILINE)


def documented() -> dict[str, set[str]]:
    """Imports that docs/architecture.md allows each folder of the broker."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text[text.index("| folder or module |") :]
    rows = ROW.findall(section[: section.index("\n\n")])
    return {name: set() if may in ("nothing", "everything") else set(may.split(", ")) for name, may in rows}


def touched() -> dict[str, set[str]]:
    """Imports between the folders of the broker, as they are."""
    found: dict[str, set[str]] = {}
    for name, imported in import_graph().items():
        parts = name.split(".")
        if parts[:2] != ["pykafka2", "broker"] or len(parts) < 3:
            continue
        others = {other.split(".")[2] for other in imported if other.startswith("pykafka2.broker.")}
        found.setdefault(parts[2], set()).update(others - {parts[2]})
    return found


@pytest.mark.gate
def test_documented_table_names_the_folders_each_broker_folder_imports() -> None:
    really, said = touched(), documented()
    assert said.keys() == really.keys()
    del really["broker"]  # everything
    assert {name: really[name] - said[name] for name in really if really[name] - said[name]} == {}
    assert {name: said[name] - really[name] for name in really if said[name] - really[name]} == {}


MOST_THAT_KNOW_THE_BROKER = 10


@pytest.mark.gate
def test_few_modules_know_the_whole_broker() -> None:
    """A function that takes a `Broker` can use everything in it; the others get only the part they need."""
    knowing = sorted(
        name for name, imported in import_graph().items() if "pykafka2.broker.broker" in imported
    )
    assert "pykafka2.testing.running" in knowing
    assert len(knowing) <= MOST_THAT_KNOW_THE_BROKER, knowing


SHARED_BY_HANDLERS = {
    "api",
    "authorization",
    "metadata",
    "produce_variants",
    "services",
    "share_requests",
    "throttling",
}
"""Modules of handlers/ that files of APIs import. The layers list the others too, but no file that is new."""


def test_files_of_apis_do_not_import_each_other() -> None:
    imported = re.compile(r"^ *from pykafka2\.broker\.handlers\.(\w+) import ", re.MULTILINE)
    files = (ROOT / "pykafka2/broker/handlers").glob("*.py")
    found = {name for file in files for name in imported.findall(file.read_text(encoding="utf-8"))}
    assert found == SHARED_BY_HANDLERS
