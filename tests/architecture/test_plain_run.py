"""A plain `python -m pytest` leaves out the tests marked `gate`, takes one case of those with several, and
still covers every package."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.modules import PACKAGE
from tests.gate import MARKER, chosen

TESTS = Path(__file__).parents[1]
GATE = f"pytest.mark.{MARKER}"
# Who pulls in all of these is no proof that they are tested.
ELSEWHERE = ("conformance", "architecture")


def packages() -> list[str]:
    return sorted(
        ".".join(path.parent.relative_to(PACKAGE.parent).parts) for path in PACKAGE.rglob("__init__.py")
    )


def plainly_tested(tree: ast.Module) -> set[str]:
    """Imports of a test file that has at least one test in a plain run."""
    has_plain_test = is_gates = False
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            has_plain_test |= not any(ast.unparse(one).startswith(GATE) for one in node.decorator_list)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module":
            imported |= {one.value for one in node.args if isinstance(one, ast.Constant)}
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
            tested |= plainly_tested(ast.parse(path.read_text()))
    missing = [
        package
        for package in packages()
        if not any(one == package or one.startswith(package + ".") for one in tested)
    ]
    assert missing == []


def test_a_file_of_the_gate_alone_counts_for_nothing() -> None:
    source = "from pykafka2.admin import x\n{}def test_it() -> None: ...\n"
    assert plainly_tested(ast.parse(source.format(""))) == {"pykafka2.admin", "pykafka2.admin.x"}
    assert plainly_tested(ast.parse(source.format("@pytest.mark.gate\n"))) == set()
    assert plainly_tested(ast.parse(source.format("pytestmark = pytest.mark.gate\n"))) == set()
    several = "pytestmark = [pytest.mark.slow, pytest.mark.gate]\n"
    assert plainly_tested(ast.parse(source.format(several))) == set()


def test_each_case_is_chosen_by_some_tests() -> None:
    assert {chosen(f"tests/test_it.py::test_{number}", 2) for number in range(20)} == {0, 1}
    assert {chosen(f"tests/test_it.py::test_{number}", 5) for number in range(50)} == {0, 1, 2, 3, 4}


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command, cwd=TESTS.parent, capture_output=True, text=True, env={**os.environ, **environment}
    )


CASES = "tests/test_errors.py::test_an_error_survives_pickling"


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("workers", [("-n", "0"), ("-n", "2")])
def test_a_run_of_everything_takes_one_case_of_each_test(workers: tuple[str, ...]) -> None:
    """Here all the tests are those of one file; a run of that file has all cases."""
    everything = ("-o", "testpaths=tests/test_errors.py", *workers)
    one, rest = run(*everything), run(*everything, "-m", "gate")
    tests = (TESTS / "test_errors.py").read_text(encoding="utf-8").count("\ndef test_")
    assert f"{tests} passed" in one.stdout
    named, by_id = run("tests/test_errors.py", *workers), run(f"{CASES}[KafkaError]", *workers)
    assert "left out" not in named.stdout + by_id.stdout
    assert "1 passed" in by_id.stdout
    counts = [int(re.search(r"(\d+) passed", done.stdout)[1]) for done in (one, rest, named)]
    assert counts[0] + counts[1] == counts[2]


@pytest.mark.gate
@pytest.mark.slow
def test_a_plain_run_does_not_have_hypothesis_read_all_modules(tmp_path: Path) -> None:
    """A setting that it does not have: a function of its is replaced, which has to be there."""
    for expression, reads in (("not gate and not spark", False), ("", True)):
        storage = tmp_path / str(reads)
        done = run(
            "tests/test_addresses.py", "-n", "0", "-m", expression, HYPOTHESIS_STORAGE_DIRECTORY=str(storage)
        )
        assert done.returncode == 0, done.stdout
        assert (storage / "constants").exists() is reads


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("workers", [("-n", "0"), ("-n", "1")])
def test_naming_a_gate_test_prints_how_to_run_it(workers: tuple[str, ...]) -> None:
    done = run("tests/typing/test_typing.py::test_applications_type_check", *workers)
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
