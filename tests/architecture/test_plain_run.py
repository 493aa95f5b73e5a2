"""A plain `python -m pytest` leaves out the tests marked `gate`, and still covers every package."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.modules import PACKAGE
from tests.gate import MARKER

TESTS = Path(__file__).parents[1]
GATE = f"pytest.mark.{MARKER}"
# Who pulls in all of these is no proof that they are tested.
ELSEWHERE = ("conformance", "architecture")


def packages() -> list[str]:
    return sorted(
        ".".join(path.parent.relative_to(PACKAGE.parent).parts) for path in PACKAGE.rglob("__init__.py")
    )


def plainly_tested(tree: ast.Module) -> set[str]:
    """What a file of tests imports, if one of its tests at least is in a plain run."""
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


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("workers", [("-n", "0"), ("-n", "1")])
def test_who_names_a_test_of_the_gate_is_told_how_to_run_it(workers: tuple[str, ...]) -> None:
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
