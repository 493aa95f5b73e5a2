"""Addition of an API and of an option: the examples of CONTRIBUTING.md, in a copy of the repository.

The checks that fail after a step name the files that are still to be changed.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker import conftest

ROOT = Path(__file__).parents[2]
COPIED = ("pykafka2", "tests", "docs")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FIDELITY_ROW = "| ListGroupNotes | 1000 | an example |\n"
CHECKS_OF_APIS = (
    "tests/docs/test_fidelity.py",
    "tests/broker/security/test_api_access.py",
    "tests/broker/server/test_refusals.py",
    "tests/broker/handlers/test_releases.py::test_each_declaration_has_the_versions_of_kafka",
    "tests/architecture/test_layers.py",
)
CHECKS_OF_OPTIONS = (
    "tests/docs/test_option_pages.py",
    "tests/consumer/test_options.py",
    "tests/consumer/test_consumer_option_effects.py::test_every_option_is_shown_by_a_test_that_there_is",
)


def section(title: str) -> str:
    return GUIDE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def files_of(title: str) -> list[str]:
    """Return the first column of the first table of a section: a path, or a name in a folder."""
    table = section(title).partition("|---|---|\n")[2].partition("\n\n")[0]
    cells = [row.split("|")[1].strip().replace("`", "") for row in table.splitlines()]
    return ["".join(reversed(cell.split(" in "))) for cell in cells]


def block(title: str, start: str) -> str:
    """Return the code of a section that starts with this text."""
    for code in re.findall(r"^ *```\n(.*?)^ *```$", section(title), re.MULTILINE | re.DOTALL):
        indent = len(code) - len(code.lstrip(" ")) if title == "Add an API" else 0
        lines = "".join(line[indent:] if line.strip() else line for line in code.splitlines(keepends=True))
        if lines.startswith(start):
            return lines
    raise LookupError(f"{title}: no block starts with {start}")


def test_example_of_an_api_uses_names_and_fixtures_that_exist() -> None:
    """A change of the broker's test support shows here at once, not only in the gate."""
    handler, test, *_ = files_of("Add an API")
    for path in (handler, test):
        tree = ast.parse(block("Add an API", f"# {path}"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        for node in imports:
            if node.module and "group_notes" not in node.module:
                module = importlib.import_module(node.module)
                assert [name.name for name in node.names if not hasattr(module, name.name)] == [], node.module
    used = {
        argument.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for argument in node.args
    }
    assert used <= set(conftest.__all__)


OTHER_CASES = "not (test_refusals or test_each_api_needs_the_right_of_kafka) or ListGroupNotes"
"""Without the cases of other APIs, which the new one does not change."""


def bytecode_of(folder: Path) -> Path:
    """Return the folder of its bytecode if that is not beside the sources (PYTHONPYCACHEPREFIX)."""
    return Path(f"{sys.pycache_prefix}{folder}")


class Copy:
    """A copy of the repository with its bytecode."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        unfinished = shutil.ignore_patterns("*.pyc.*")  # which other processes write
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=unfinished)
            if sys.pycache_prefix and bytecode_of(ROOT / name).exists():
                shutil.copytree(bytecode_of(ROOT / name), bytecode_of(folder / name), ignore=unfinished)
        for file in ROOT.glob("*.*"):
            if file.is_file():
                shutil.copy(file, folder)
        self.changed: set[str] = set()

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")
        self.changed.add(name)

    def insert(self, name: str, before: str, text: str) -> None:
        found = (self.folder / name).read_text(encoding="utf-8")
        assert before in found, (name, before)
        self.write(name, found.replace(before, text + before, 1))

    def run(self, *arguments: str) -> str:
        """Return the output of Python in the copy."""
        storage = str(ROOT / ".hypothesis")  # with tables that take seconds to make
        environment = {"HYPOTHESIS_STORAGE_DIRECTORY": storage, **os.environ, "PYTHONPATH": str(self.folder)}
        for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST"):
            environment.pop(name, None)
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True
        )
        return done.stdout + done.stderr

    def failed(self, *checks: str) -> set[str]:
        """Return the names of the checks that fail in the copy."""
        output = self.run(
            *("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly"),
            *("-k", OTHER_CASES, *checks),
        )
        assert re.search(r"\d+ passed", output), output[-3000:]
        assert "ERROR" not in output, output[-3000:]
        return {name.partition("[")[0] for name in re.findall(r"^FAILED \S+::(\S+)", output, re.MULTILINE)}


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    yield Copy(tmp_path)
    if sys.pycache_prefix:
        shutil.rmtree(bytecode_of(tmp_path), ignore_errors=True)


def declare_the_message(copy: Copy) -> None:
    """Let the copy be one of a Kafka that has ListGroupNotes, which is not served."""
    message = "pykafka2/protocol/messages/group_notes.py"
    copy.write(message, block("Add an API", f"# {message}"))
    copy.insert(
        "pykafka2/protocol/registry.py",
        '    )\n}\n"""All supported APIs',
        '        ApiInfo(1000, "ListGroupNotes", "group_notes", 0, 0, 0),\n',
    )
    copy.insert(
        "pykafka2/broker/base/features.py",
        '"""\n\n# The lowest and highest metadata.version',
        "1000 ListGroupNotes 4.3 0-0\n",
    )
    copy.insert(
        "tests/broker/security/test_api_access.py",
        '    "Produce": ("WRITE", TOPIC),\n',
        '    "ListGroupNotes": ("DESCRIBE", GROUP),\n',
    )
    copy.insert(
        "tests/conformance/behaviour/golden/api_versions_advertised.json",
        '"API 0"',
        '"API 1000": "0-0",\n',
    )
    copy.insert("docs/fidelity.md", "| Streams groups (KIP-1071) | 88", FIDELITY_ROW)
    copy.changed.clear()


@pytest.mark.gate
@pytest.mark.slow
def test_an_api_takes_five_files(copy: Copy) -> None:
    handler, test, fidelity, recorded, changelog = files_of("Add an API")
    declare_the_message(copy)
    copy.write(handler, block("Add an API", f"# {handler}"))
    assert copy.failed(*CHECKS_OF_APIS) == {"test_the_apis_that_are_not_served_are_those_of_the_table"}
    text = (copy.folder / fidelity).read_text(encoding="utf-8")
    copy.write(fidelity, text.replace(FIDELITY_ROW, ""))
    copy.write(test, block("Add an API", f"# {test}"))
    assert copy.failed(*CHECKS_OF_APIS, test) == set()

    scenario = block("Add an API", "from tests.conformance.behaviour.side import")
    copy.write(test, block("Add an API", f"# {test}") + "\n\n" + scenario)
    listed = copy.run("-c", "from tests.conformance.behaviour.scenarios import *; print(*SCENARIOS)")
    assert "notes_of_a_group" in listed.split(), listed
    assert recorded.endswith("/notes_of_a_group.json")
    assert {*copy.changed, recorded, changelog} == {*files_of("Add an API")}
    assert len(files_of("Add an API")) == 5


PLANTS: dict[str, tuple[str, Callable[[str], str]]] = {
    "no access": (
        "tests/broker/security/test_api_access.py",
        lambda code: re.sub(r"    access=.*\n", "", code),
    ),
    "the wrong access": (
        "tests/broker/security/test_api_access.py",
        lambda code: code.replace("Operation.DESCRIBE", "Operation.READ"),
    ),
    "no version of Kafka": (
        "tests/broker/server/test_refusals.py",
        lambda code: code.replace("    0,\n    0,\n", "    0,\n    1,\n"),
    ),
}
"""Wrong declarations, and the check that finds each."""


@pytest.mark.gate
@pytest.mark.slow
def test_wrong_declarations_of_an_api_are_seen(copy: Copy) -> None:
    handler, *_ = files_of("Add an API")
    declare_the_message(copy)
    right = block("Add an API", f"# {handler}")
    for plant, (check, change) in PLANTS.items():
        wrong = change(right)
        assert wrong != right, plant
        copy.write(handler, wrong)
        output = copy.run("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", OTHER_CASES, check)
        assert re.search(r"\d+ (failed|error)", output), (plant, output[-3000:])
        assert re.search("ListGroupNotes|1000", output), (plant, output[-3000:])


@pytest.mark.gate
@pytest.mark.slow
def test_a_consumer_option_takes_four_files(copy: Copy) -> None:
    title = "Add an option of the consumer"
    options, effect, test, page = files_of(title)
    copy.insert(options, "    exclude_internal_topics: bool = flag(", block(title, "    max_poll_bytes"))
    copy.insert(options, "    exclude_internal_topics: bool\n", "    max_poll_bytes: int\n")
    assert copy.failed(*CHECKS_OF_OPTIONS) == {
        "test_reference_page_equals_the_tables",
        "test_every_option_is_shown_by_a_test_that_there_is",
    }
    copy.run("-m", "tests.docs.option_pages")
    assert "`max_poll_bytes`" in (copy.folder / page).read_text(encoding="utf-8")
    text = (copy.folder / test).read_text(encoding="utf-8")
    line = '    "max_poll_bytes": (HERE, "test_client_id"),\n'
    copy.write(test, text.replace('    "max_poll_interval_ms": ', line + '    "max_poll_interval_ms": ', 1))
    assert copy.failed(*CHECKS_OF_OPTIONS) == set()
    assert copy.changed | {page, effect} == {*files_of(title)}
    assert len(files_of(title)) == 4
