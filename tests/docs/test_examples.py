"""The programs of examples/ run and print what they promise; its tests are collected with ours."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "fastapi_service.py": ["ready", "ada has ordered for 42", "stopped: 0 members, 3 orders committed"],
    "manage_topics.py": ["orders-1: leader 1", "orders: TopicAlreadyExists", "topics: orders, returns"],
    "produce_and_consume.py": ["sent 1000 orders", "read 1000 orders, 1000 different ones"],
}
"""What each program must print, among other things."""

NEEDED = {"fastapi_service.py": ["fastapi", "httpx2"]}
"""Packages of the extra `test` that a program imports."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_the_program_runs(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = capsys.readouterr().out
    assert [words for words in PRINTED[name] if words not in printed] == []


def test_every_program_is_run() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_")}
    assert programs == set(PRINTED)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example_docstring_has_its_subject_and_command(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert "Shows: " in docstring
    assert f"examples/{path.name}" in docstring


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("test_*.py")), ids=lambda path: path.name)
def test_the_tests_run_without_the_plugins_of_our_suite(path: Path) -> None:
    without = [word for name in ("xdist", "randomly", "xdist.looponfail") for word in ("-p", f"no:{name}")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *without,
        f"examples/{path.name}",
    ]
    done = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
