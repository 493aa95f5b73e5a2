"""Run the quick suite on other Pythons: `python -m tests.packages.pythons 3.12` (stage `tests` of `.ci/run`).

Each Python gets a fresh environment with the wheel and the tests' requirements. It runs a fixed list of tests
outside the clone, so that they import the wheel.  The next environment is prepared while a suite runs.
Of several Pythons the last runs the quick suite, the others its core.
Interpreters are searched on PATH, then in pyenv; 3.14 is unpacked from Debian's packages if neither has it.
A missing interpreter is reported; with CI=true it fails.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen

from tests.packages.debian_python import DebianPythonMissing, unpack_python

ROOT = Path(__file__).parents[2]

QUICK_SUITE = (
    "tests/test_errors.py",
    "tests/test_options.py",
    "tests/test_lifecycle.py",
    "tests/test_serializers.py",
    "tests/test_interrupts.py",
    "tests/admin/test_checks.py",
    "tests/admin/test_kafka_python_programs.py",
    "tests/admin/test_topics.py",
    "tests/cli/test_broker_command.py",
    "tests/cli/test_consume.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_main.py",
    "tests/cli/test_parsing.py",
    "tests/cli/test_produce.py",
    "tests/cli/test_records_in_process.py",
    "tests/cluster/test_bootstrap.py",
    "tests/cluster/test_port_diagnosis.py",
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
"""Tests of code that depends on the Python (bytecode, sockets, threads, signals), and of each client."""

CORE = (
    "tests/test_errors.py",
    "tests/test_interrupts.py",
    "tests/test_lifecycle.py",
    "tests/cli/test_main.py",
    "tests/compression/test_codecs.py",
    "tests/consumer/test_consumer_on_sockets.py",
    "tests/driver",
    "tests/network",
    "tests/producer/accumulator",
    "tests/records/test_decoders_agree.py",
    "tests/testing/test_pytest_plugin.py",
)
"""Tests of bytecode, sockets, TLS, threads, signals and exits, which one Python alone can break.

Everything else has passed on the oldest Python, and fails on the newest if a release has changed what it
uses.
"""

NATIVE_SUITE = (
    "tests/native",
    "tests/producer/accumulator",
    "tests/records/test_decoders_agree.py",
    "tests/records/test_encoder.py",
)
"""The tests of the compiled code that need no other package than those below."""

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


def build_native_wheel(folder: Path) -> Path:
    """Build the wheel of native/ into a folder: one for all Pythons."""
    source = folder / "source"
    shutil.copytree(ROOT / "native", source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(source)]
    subprocess.run(pip, check=True)
    [wheel] = folder.glob("*-abi3-*.whl")
    return wheel


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
    # The suite compiles what it imports, into a folder of its own.
    subprocess.run([*pip, "install", "--quiet", "--no-compile", *requirements], check=True)
    return inside


class InterpreterMissing(Exception):
    """No interpreter of this version was found; the message has the reason."""


@frozen
class Prepared:
    """Files for a run of the quick suite: an environment with the wheel, and a copy of the tests."""

    interpreter: Path
    python: Path
    """The Python of the environment."""
    work: Path


def prepare(version: str, wheels: Sequence[Path], work: Path) -> Prepared:
    """Install the wheel and the requirements for a version, and copy the tests."""
    found, reason = interpreter(version), "not on PATH and not in pyenv"
    if found is None and version == "3.14":
        try:
            found = unpack_python(version, work / "debian")
        except DebianPythonMissing as error:
            reason += f"; {error}"
    if found is None:
        raise InterpreterMissing(reason)
    python = make_environment(found, work / "venv", *map(str, wheels), *NEEDED)
    for name in ("tests", "docs", "native"):
        ignored = shutil.ignore_patterns("__pycache__", "golden", "build")
        shutil.copytree(ROOT / name, work / "clone" / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, work / "clone")
    return Prepared(found, python, work)


def run_quick_suite(prepared: Prepared, options: Sequence[str], suite: Sequence[str] = QUICK_SUITE) -> int:
    """Run the suite in a prepared environment; return the exit code of pytest."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONPYCACHEPREFIX"] = str(prepared.work / "pycache")
    command = [str(prepared.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "3", "-W", IGNORED]
    command += [*options, *suite]
    return subprocess.run(command, cwd=prepared.work / "clone", env=environment).returncode


def main(words: Sequence[str] | None = None) -> int:
    """Run the quick suite on each of the versions; the exit code is 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.packages.pythons", description=__doc__)
    parser.add_argument("versions", nargs="+", help="such as 3.12")
    parser.add_argument(
        "--native", action="store_true", help="with the compiled code: the codec and producer tests"
    )
    parser.add_argument("--option", action="append", default=[], help="an option for pytest; can be repeated")
    chosen = parser.parse_args(words)
    failed: list[str] = []
    # Started by a shell in the background, it and its children ignore SIGINT, which tests of Ctrl-C need.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # One thread prepares the next environments, mostly waiting for a disk and an index, while a suite runs.
    with TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        wheels = [build_wheel(Path(folder) / "pure")]
        suites = dict.fromkeys(chosen.versions, CORE) | {chosen.versions[-1]: QUICK_SUITE}
        if chosen.native:
            wheels.append(build_native_wheel(Path(folder) / "native"))
            suites = dict.fromkeys(chosen.versions, NATIVE_SUITE)
            chosen.option = [*chosen.option, "-m", "not pure and not gate"]
            os.environ |= {"PYKAFKA2_IMPLEMENTATION": "c", "PYKAFKA2_REQUIRE_NATIVE": "1"}
        coming = [(name, pool.submit(prepare, name, wheels, Path(folder) / name)) for name in chosen.versions]
        for version, preparation in coming:
            started = time.monotonic()
            try:
                prepared = preparation.result()
            except InterpreterMissing as error:
                print(f"=== Python {version} DID NOT RUN: {error}", flush=True)
                if os.environ.get("CI") == "true":
                    failed.append(version)
                continue
            code = run_quick_suite(prepared, chosen.option, suites[version])
            outcome, seconds = "FAILED" if code else "passed", time.monotonic() - started
            print(f"=== Python {version} {outcome} in {seconds:.0f} s: {prepared.interpreter}", flush=True)
            if code:
                failed.append(version)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
