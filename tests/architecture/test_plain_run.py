"""A plain `python -m pytest` leaves out the tests marked `gate`, takes one case of those with several, and
still covers every package."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.modules import PACKAGE, statements
from tests.gate import MARKER, chosen, count_of_gate

TESTS = Path(__file__).parents[1]
GATE = f"pytest.mark.{MARKER}"
# Who pulls in all of these is no proof that they are tested.
ELSEWHERE = ("conformance", "architecture")


def packages() -> list[str]:
    return sorted(
        ".".join(path.parent.relative_to(PACKAGE.parent).parts) for path in PACKAGE.rglob("__init__.py")
    )


def plainly_tested(source: str) -> set[str]:
    """Imports of a test file that has at least one test in a plain run."""
    has_plain_test = is_gates = False
    imported = set(re.findall(r'\bimport_module\("([\w.]+)"', source))
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            if node.name.startswith("test_") and not has_plain_test:
                has_plain_test = not any(ast.unparse(one).startswith(GATE) for one in node.decorator_list)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            is_gates |= any(
                isinstance(one, ast.Attribute) and ast.unparse(one) == GATE for one in ast.walk(node.value)
            )
    return imported if has_plain_test and not is_gates else set()


@pytest.mark.gate
def test_a_plain_run_tests_every_package() -> None:
    tested: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        if path.relative_to(TESTS).parts[0] not in ELSEWHERE:
            tested |= plainly_tested(path.read_text(encoding="utf-8"))
    missing = [
        package
        for package in packages()
        if not any(one == package or one.startswith(package + ".") for one in tested)
    ]
    assert missing == []


def test_a_file_of_the_gate_alone_counts_for_nothing() -> None:
    source = "from pykafka2.admin import x\n{}def test_it() -> None: ...\n"
    assert plainly_tested(source.format("")) == {"pykafka2.admin", "pykafka2.admin.x"}
    assert plainly_tested(source.format("@pytest.mark.gate\n")) == set()
    assert plainly_tested(source.format("pytestmark = pytest.mark.gate\n")) == set()
    several = "pytestmark = [pytest.mark.slow, pytest.mark.gate]\n"
    assert plainly_tested(source.format(several)) == set()


def test_each_case_is_chosen_by_some_tests() -> None:
    assert {chosen(f"tests/test_it.py::test_{number}", 2) for number in range(20)} == {0, 1}
    assert {chosen(f"tests/test_it.py::test_{number}", 5) for number in range(50)} == {0, 1, 2, 3, 4}


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command, cwd=TESTS.parent, capture_output=True, text=True, env={**os.environ, **environment}
    )


CASES = "tests/test_errors.py::test_an_error_survives_pickling"
EVERYTHING = ("-o", "testpaths=tests/test_errors.py")
TESTS_OF_ERRORS = (TESTS / "test_errors.py").read_text(encoding="utf-8").count("\ndef test_")


def count_passed(done: subprocess.CompletedProcess[str]) -> int:
    found = re.search(r"(\d+) passed", done.stdout)
    assert found, done.stdout
    return int(found[1])


@pytest.mark.gate
@pytest.mark.slow
def test_a_run_of_everything_takes_one_case_of_each_test() -> None:
    """Here all the tests are those of one file; a run of that file has all cases."""
    one = run(*EVERYTHING, "-n", "0")
    rest = run(*EVERYTHING, "-n", "0", "-m", "gate")
    assert count_passed(one) == TESTS_OF_ERRORS
    named, by_id = run("tests/test_errors.py", "-n", "0"), run(f"{CASES}[KafkaError]", "-n", "0")
    assert "left out" not in named.stdout + by_id.stdout
    assert count_passed(by_id) == 1
    assert count_passed(one) + count_passed(rest) == count_passed(named)


@pytest.mark.gate
@pytest.mark.slow
def test_workers_take_one_case_of_each_test_unless_files_are_named() -> None:
    assert count_passed(run(*EVERYTHING, "-n", "1")) == TESTS_OF_ERRORS
    named = run("tests/test_errors.py", "-n", "1")
    assert "left out" not in named.stdout
    assert count_passed(named) > TESTS_OF_ERRORS


@pytest.mark.parametrize(
    ("marks", "count"),
    [
        ("pytestmark = pytest.mark.gate", 2),
        ("pytestmark = [pytest.mark.slow, pytest.mark.gate]", 2),
        ("pytestmark = [\n    pytest.mark.kafka(topics=['t']),\n    pytest.mark.gate,\n]", 0),
        ("pytestmark = [\n    pytest.mark.slow,\n    pytest.mark.gate,\n]", 2),
        ("pytestmark = pytest.mark.slow\n\n\n@pytest.mark.gate", 0),
        ("pytestmark = pytest.mark.gateway", 0),
        ("", 0),
    ],
)
def test_tests_of_a_file_that_is_the_gates_are_counted(tmp_path: Path, marks: str, count: int) -> None:
    """Brackets within a list of marks are not followed, so such a file is imported for nothing."""
    path = tmp_path / "test_it.py"
    path.write_text(
        f"{marks}\ndef test_it() -> None: ...\n\nclass TestIt:\n    async def test_it(self): ...\n"
    )
    assert count_of_gate(path) == count
    assert count_of_gate(path.rename(tmp_path / "helper.py")) == 0


@pytest.mark.gate
@pytest.mark.slow
def test_files_of_the_gate_are_imported_only_if_they_are_selected() -> None:
    native = ("-o", "testpaths=tests/native", "--collect-only")
    plain, rest = run(*native, "-n", "0"), run(*native, "-n", "0", "-m", "gate")
    assert "test_locks" not in plain.stdout
    assert "tests marked `gate` were left out" in plain.stdout
    assert "test_locks" in rest.stdout


USE_OF_HYPOTHESIS = """
import ours
from hypothesis import given, strategies
@given(strategies.integers())
def check(number): pass
check()
"""


@pytest.mark.gate
@pytest.mark.slow
def test_a_plain_run_does_not_have_hypothesis_read_all_modules(tmp_path: Path) -> None:
    """A setting that it does not have: a function of its is replaced, which has to be there."""
    (tmp_path / "ours.py").write_text("NUMBER = 12345\n", encoding="utf-8")
    (tmp_path / "use.py").write_text(USE_OF_HYPOTHESIS, encoding="utf-8")
    usual, plain = tmp_path / "usual", tmp_path / "plain"
    environment = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(usual)}
    subprocess.run([sys.executable, "use.py"], cwd=tmp_path, check=True, env=environment)
    assert (usual / "constants").exists()
    if (tables := TESTS.parent / ".hypothesis" / "unicode_data").exists():
        shutil.copytree(tables, plain / "unicode_data")  # takes seconds to make
    plain_run = ("-n", "0", "-m", "not gate and not spark")
    done = run("tests/test_addresses.py", *plain_run, HYPOTHESIS_STORAGE_DIRECTORY=str(plain))
    assert done.returncode == 0, done.stdout
    assert not (plain / "constants").exists()


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("workers", [("-n", "0"), ("-n", "1")])
def test_naming_a_gate_test_prints_how_to_run_it(workers: tuple[str, ...]) -> None:
    done = run("tests/typing/test_typing.py", *workers)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "1 tests marked `gate` were left out; `-m gate` runs these" in done.stdout


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("workers", [("-n", "0"), ("-n", "1")])
def test_a_process_that_takes_too_much_memory_fails_the_run(workers: tuple[str, ...]) -> None:
    done = run("tests/test_metrics.py", "--max-memory-mb", "1", *workers)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "too much memory: more than 1 MB in " in done.stdout
    assert ("gw0" if "1" in workers else "pytest") in done.stdout.splitlines()[-2]
