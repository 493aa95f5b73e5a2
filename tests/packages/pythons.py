"""Run the quick suite on other Pythons: `python -m tests.packages.pythons 3.12` (stage `tests` of `.ci/run`).

Each Python gets a fresh environment with the wheel and the tests' requirements. It runs a fixed list of tests
outside the clone, so that they import the wheel.  Interpreters are searched on PATH, then in pyenv; 3.14 is
unpacked from Debian's packages if neither has it.  A missing interpreter is reported; with CI=true it fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.packages.debian_python import DebianPythonMissing, unpack_python

ROOT = Path(__file__).parents[2]

QUICK_SUITE = (
    "tests/test_errors.py",
    "tests/test_options.py",
    "tests/test_lifecycle.py",
    "tests/test_serializers.py",
    "tests/test_interrupts.py",
    "tests/admin",
    "tests/cli",
    "tests/cluster",
    "tests/compression",
    "tests/consumer/test_consumer_on_sockets.py",
    "tests/driver",
    "tests/network",
    "tests/producer/accumulator",
    "tests/producer/delivery",
    "tests/records/test_encoder.py",
    "tests/records/test_decoders_agree.py",
    "tests/testing/test_pytest_plugin.py",
)
"""Tests of code that depends on the Python (bytecode, sockets, threads, codecs), and of each client."""

NEEDED = ("hypothesis>=6.100", "pytest>=8.2", "pytest-xdist>=3.6", "trustme>=1.1")
"""Requirements of the quick suite besides the wheel."""


IGNORED = "ignore:It looks like `register_random`"
"""A false warning of Hypothesis on 3.14: it counts references, and 3.14 borrows some of them."""


def interpreter(version: str) -> Path | None:
    """Find an interpreter of this version, such as 3.12; None if there is none."""
    for candidate in _candidates(version):
        if _version_of(candidate) == version:
            return candidate
    return None


def _candidates(version: str) -> Iterator[Path]:
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{version}"
    yield from sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)


def _version_of(python: Path) -> str | None:
    """Return the version; None if it does not run, such as pyenv's shim of an inactive version."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this clone into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    [wheel] = folder.glob("*.whl")
    return wheel


def make_environment(python: Path, folder: Path, *requirements: str) -> Path:
    """Create an environment, install the requirements with this process's pip, and return its Python."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    inside = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(inside)]
    subprocess.run([*pip, "install", "--quiet", *requirements], check=True)
    return inside


def run_quick_suite(python: Path, wheel: Path, work: Path, options: Sequence[str]) -> int:
    """Install the wheel for an interpreter and run the quick suite; return the exit code of pytest."""
    inside = make_environment(python, work / "venv", str(wheel), *NEEDED)
    clone = work / "clone"
    for name in ("tests", "docs"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__", "golden"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, clone)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONPYCACHEPREFIX"] = str(work / "pycache")
    command = [str(inside), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "-W", IGNORED]
    command += [*options, *QUICK_SUITE]
    return subprocess.run(command, cwd=clone, env=environment).returncode


def main(words: Sequence[str] | None = None) -> int:
    """Run the quick suite on each of the versions; the exit code is 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.packages.pythons", description=__doc__)
    parser.add_argument("versions", nargs="+", help="such as 3.12")
    parser.add_argument("--option", action="append", default=[], help="an option for pytest; can be repeated")
    chosen = parser.parse_args(words)
    failed: list[str] = []
    # Started by a shell in the background, it and its children ignore SIGINT, which tests of Ctrl-C need.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        for version in chosen.versions:
            started, work = time.monotonic(), Path(folder) / version
            python, reason = interpreter(version), "not on PATH and not in pyenv"
            if python is None and version == "3.14":
                try:
                    python = unpack_python(version, work / "debian")
                except DebianPythonMissing as error:
                    reason += f"; {error}"
            if python is None:
                print(f"=== Python {version} DID NOT RUN: {reason}", flush=True)
                if os.environ.get("CI") == "true":
                    failed.append(version)
                continue
            code = run_quick_suite(python, wheel, work, chosen.option)
            outcome = "FAILED" if code else "passed"
            print(
                f"=== Python {version} {outcome} in {time.monotonic() - started:.0f} s: {python}", flush=True
            )
            if code:
                failed.append(version)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
