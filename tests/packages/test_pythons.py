"""Tests of the search for interpreters, and of the report of missing ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from tests.packages import debian_python, pythons
from tests.packages.debian_python import DebianPythonMissing
from tests.packages.pythons import CORE, QUICK_SUITE, ROOT, Prepared, interpreter

THIS = ".".join(map(str, sys.version_info[:2]))


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
    path.chmod(0o755)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Set PATH and the home folder to an empty folder, as on a machine without interpreters."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_every_file_of_the_quick_suite_exists() -> None:
    assert [path for path in QUICK_SUITE if not (ROOT / path).exists()] == []
    assert set(CORE) - set(QUICK_SUITE) == {"tests/compression/test_codecs.py"}


def test_the_last_python_runs_the_quick_suite_and_others_its_core(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: dict[str, Sequence[str]] = {}

    def run(prepared: Prepared, options: Sequence[str], suite: Sequence[str]) -> int:
        ran[prepared.work.name] = suite
        return 0

    monkeypatch.setattr(pythons, "build_wheel", lambda folder: folder / "none.whl")
    monkeypatch.setattr(pythons, "prepare", prepared_at_once)
    monkeypatch.setattr(pythons, "run_quick_suite", run)
    assert pythons.main(["3.12", "3.13", "3.14"]) == 0
    assert ran == {"3.12": CORE, "3.13": CORE, "3.14": QUICK_SUITE}


def test_an_interpreter_is_found_on_path(nowhere: Path) -> None:
    script(nowhere / "bin" / f"python{THIS}", f'exec "{sys.executable}" "$@"')
    assert interpreter(THIS) == nowhere / "bin" / f"python{THIS}"


def test_a_shim_that_does_not_run_is_passed_over_for_pyenv(nowhere: Path) -> None:
    script(nowhere / "bin" / f"python{THIS}", "exit 127")
    in_pyenv = nowhere / ".pyenv" / "versions" / f"{THIS}.1" / "bin" / "python"
    script(in_pyenv, f'exec "{sys.executable}" "$@"')
    assert interpreter(THIS) == in_pyenv


def test_an_interpreter_of_another_version_is_not_taken(nowhere: Path) -> None:
    script(nowhere / "bin" / "python3.99", f'exec "{sys.executable}" "$@"')
    assert interpreter("3.99") is None


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_a_missing_interpreter_is_reported_and_fails_in_ci(
    ci: str, code: int, nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(pythons, "build_wheel", lambda folder: folder / "none.whl")
    assert pythons.main(["3.14"]) == code
    assert (
        "=== Python 3.14 DID NOT RUN: not on PATH and not in pyenv; apt-get is missing"
        in capsys.readouterr().out
    )


def prepared_at_once(version: str, wheels: Sequence[Path], work: Path) -> Prepared:
    return Prepared(Path(sys.executable), Path(sys.executable), work)


def test_a_failed_quick_suite_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pythons, "build_wheel", lambda folder: folder / "none.whl")
    monkeypatch.setattr(pythons, "prepare", prepared_at_once)
    monkeypatch.setattr(pythons, "run_quick_suite", lambda prepared, *_: int(prepared.work.name == "3.12"))
    assert pythons.main(["3.13"]) == 0
    assert pythons.main(["3.12", "3.13"]) == 1


def test_the_next_environment_is_prepared_while_a_suite_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared_3_13 = Event()

    def prepare(version: str, wheels: Sequence[Path], work: Path) -> Prepared:
        if version == "3.13":
            prepared_3_13.set()
        return prepared_at_once(version, wheels, work)

    monkeypatch.setattr(pythons, "build_wheel", lambda folder: folder / "none.whl")
    monkeypatch.setattr(pythons, "prepare", prepare)
    monkeypatch.setattr(pythons, "run_quick_suite", lambda *_: int(not prepared_3_13.wait(60)))
    assert pythons.main(["3.12", "3.13"]) == 0


def test_a_command_of_debian_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "bin" / "apt-get", "echo 'no network' >&2; exit 100")
    script(tmp_path / "bin" / "dpkg-deb", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(debian_python, "KEYRING", __file__)
    with pytest.raises(DebianPythonMissing, match="no network"):
        debian_python.unpack_python("3.14", tmp_path / "debian")


def test_the_debian_mirror_comes_from_the_configuration_of_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = (
        "'http://mirror.invalid/debian-security/dists/stable-security/InRelease' a 0",
        "'http://mirror.invalid/apt/debian/dists/stable/InRelease' b 0",
        "'http://other.invalid/debian/dists/stable/InRelease' c 0",
    )
    script(tmp_path / "bin" / "apt-get", "\n".join(f'echo "{address}"' for address in addresses))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert debian_python.configured_mirror() == "http://mirror.invalid/apt/debian"


def test_a_machine_without_a_debian_mirror_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "bin" / "apt-get", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(DebianPythonMissing, match="not configured for a Debian mirror"):
        debian_python.configured_mirror()
