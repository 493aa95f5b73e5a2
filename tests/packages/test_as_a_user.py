"""The check of wheel and source distribution, without its environments; `nox -s packages` runs it whole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages import as_a_user
from tests.packages.as_a_user import Installation, distributions, readme_blocks


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in ("pykafka2-1.tar.gz", "pykafka2-1-py3-none-any.whl"):
        (folder / name).touch()
    return folder


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    made = Installation(tmp_path / "pykafka2-1.tar.gz", tmp_path)
    made.cwd.mkdir()
    return made


def test_both_distributions_are_checked_and_one_that_fails_fails_the_command(
    dist: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing: set[str] = set()

    def check(self: Installation, has_uv: bool) -> Iterator[str]:
        yield "pip install"
        if self.distribution.suffix in failing:
            raise AssertionError("the demo ended with 1")

    monkeypatch.setattr(Installation, "check", check)
    monkeypatch.setattr(as_a_user, "_has_uv", lambda: False)
    for suffix, code in (("", 0), (".whl", 1), (".gz", 1)):
        failing = {suffix}
        assert as_a_user.main(["--dist", str(dist)]) == code
        output = capsys.readouterr().out
        assert output.count("=== pykafka2-1") == 2
        assert ("FAILED: AssertionError" in output) == bool(code)
        assert output.count("ok: pip install") == 2


def test_distributions_are_the_wheel_and_the_source(dist: Path) -> None:
    assert [path.suffix for path in distributions(dist)] == [".whl", ".gz"]
    (dist / "pykafka2-2-py3-none-any.whl").touch()
    with pytest.raises(ValueError, match="unpack"):
        distributions(dist)


@pytest.mark.parametrize(("code", "expected"), [(1, 0), (0, 1), (2, 1)])
def test_command_with_another_exit_code_fails_the_check(
    installation: Installation, code: int, expected: int
) -> None:
    words = (sys.executable, "-c", f"print('said'); raise SystemExit({code})")
    assert installation.run(*words, expected=code) == "said\n"
    with pytest.raises(AssertionError, match=rf"ended with {code}:\nsaid"):
        installation.run(*words, expected=expected)


def test_commands_run_without_the_clone_on_their_path(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS"):
        monkeypatch.setenv(name, "/nowhere")
    program = "import os; print(os.getcwd(), '/nowhere' in os.environ.values())"
    assert installation.run(sys.executable, "-c", program) == f"{installation.cwd.resolve()} False\n"


def test_every_promise_is_checked(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which commands run, with what they print replaced."""
    commands: list[str] = []
    brokers: list[tuple[str, ...]] = []

    def run(self: Installation, *words: str, expected: int = 0) -> str:
        commands.append(f"{expected} {' '.join(words)}")
        if "mypy" in words and expected:
            return 'type "int", variable has type "str"'
        return "usage: pykafka2" if "--help" in words else "" if "mypy" in words else '1 passed {"total": 42}'

    class Running:
        def __init__(self, command: tuple[str, ...], cwd: Path) -> None:
            brokers.append(tuple(command))

        def __enter__(self) -> tuple[str, str, str]:
            return "localhost:1", "admin", "token"

        def __exit__(self, *_: object) -> None: ...

    installation.cwd.rmdir()
    monkeypatch.setattr(Installation, "run", run)
    monkeypatch.setattr(as_a_user, "running_broker", Running)
    monkeypatch.setattr(as_a_user, "values", lambda *_: ['{"total": 42}'])
    assert [*installation.check(has_uv=True)][-1] == "uvx pykafka2 broker"
    ran = "\n".join(commands)
    command = installation.command
    assert f"pip install --quiet {installation.distribution}" in ran
    assert "pip check" in ran
    assert f"0 {command} demo --no-progress\n" in ran
    assert f"1 {command} demo --no-progress --records 20000 --sabotage lose\n" in ran
    assert "__version__ == m.version('pykafka2')" in ran
    assert ran.count("program.py") == 3
    assert "pytest -q test_readme.py" in ran
    assert "0 " + f"{installation.python} -m mypy --strict typed.py" in ran
    assert "1 " + f"{installation.python} -m mypy --strict wrong.py" in ran
    assert [one[-2:] for one in brokers][:2] == [(command,), ("-m", "pykafka2")]
    assert brokers[2][-1] == "pykafka2"
    assert "uv" in brokers[2]
    assert readme_blocks()[1] in (installation.cwd / "test_readme.py").read_text(encoding="utf-8")
