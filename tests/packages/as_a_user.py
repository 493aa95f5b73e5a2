"""Check the wheel and the source distribution as a user would: `python -m tests.packages.as_a_user`.

pip installs each into a fresh environment outside the clone, with the Python that runs this module.  The
README's program runs there against `pykafka2 broker` and `python -m pykafka2 broker`.  The demo, the README's
pytest test, mypy on typed programs, and `uvx` follow. `nox -s packages` does so on each Python.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE_ADDRESS = "localhost:9092"
BROKER = ("broker", "--brokers", "1", "--port", "0", "--admin-port", "0", "--quick")

TYPED = """\
from pykafka2 import KafkaProducer
with KafkaProducer(bootstrap_servers="localhost:9092") as producer:
    offset: int = producer.send("orders", b"v").result(timeout=60).offset
"""
WRONGLY_TYPED = TYPED.replace("offset: int", "offset: str")


def readme_blocks() -> tuple[str, str]:
    """Return the README's program and its test."""
    program, test = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[:2]
    return program, test


def build(folder: Path) -> list[Path]:
    """Build the wheel and the source distribution into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return distributions(folder)


def distributions(folder: Path) -> list[Path]:
    """Return the wheel and the source distribution of a folder that has one of each."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return [wheel, sdist]


def _environment() -> dict[str, str]:
    """Return the environment variables without those that make Python find the clone or this environment."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS"}
    return {name: value for name, value in os.environ.items() if name not in hidden}


@contextmanager
def running_broker(command: Sequence[str], cwd: Path) -> Iterator[tuple[str, str, str]]:
    """Run `pykafka2 broker`; yields its bootstrap servers, and the address and token of its admin port."""
    process = subprocess.Popen(
        [*command, *BROKER], cwd=cwd, env=_environment(), text=True, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        servers = process.stdout.readline().strip().removeprefix("bootstrap.servers=")
        admin = re.fullmatch(r"admin=(\S+) token=(\S+)\n", process.stdout.readline())
        if not servers or admin is None:
            raise AssertionError(f"{command} did not print bootstrap.servers and admin")
        yield servers, admin[1], admin[2]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def values(admin: str, token: str, topic: str) -> list[str]:
    """Return the values of a topic's partition 0, read through the admin port."""
    body = json.dumps({"topic": topic, "partition": 0}).encode()
    request = urllib.request.Request(f"{admin}/values", body, {"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        found: list[str] = json.load(response)["result"]
    return found


@attrs.frozen
class Installation:
    """A fresh environment with one distribution, and an empty folder in which its programs run."""

    distribution: Path
    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "venv" / "bin" / "python")

    @property
    def command(self) -> str:
        return str(self.folder / "venv" / "bin" / "pykafka2")

    @property
    def cwd(self) -> Path:
        return self.folder / "work"

    def run(self, *words: str, expected: int = 0) -> str:
        """Run a command; returns its output. Raises AssertionError if it ends with another exit code."""
        done = subprocess.run(
            words,
            cwd=self.cwd,
            env=_environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
        )
        if done.returncode != expected:
            raise AssertionError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def check(self, has_uv: bool) -> Iterator[str]:
        """Run all checks; yields the name of each that passed."""
        self.cwd.mkdir(parents=True)
        self.run(sys.executable, "-m", "venv", str(self.folder / "venv"))
        self.run(self.python, "-m", "pip", "install", "--quiet", str(self.distribution))
        self.run(self.python, "-m", "pip", "check")
        yield "pip install"
        version = (
            "import pykafka2, importlib.metadata as m; assert pykafka2.__version__ == m.version('pykafka2')"
        )
        self.run(self.python, "-c", f"{version}; assert '{ROOT}' not in pykafka2.__file__")
        yield "version"
        for command in ([self.command], [self.python, "-m", "pykafka2"]):
            assert "usage: pykafka2" in self.run(*command, "--help")
            with running_broker(command, self.cwd) as (servers, admin, token):
                self._program(servers)
                assert values(admin, token, "orders") == ['{"total": 42}']
        yield "README's program on pykafka2 broker, python -m pykafka2 broker"
        self.run(self.command, "demo", "--no-progress")
        self.run(
            self.command, "demo", "--no-progress", "--records", "20000", "--sabotage", "lose", expected=1
        )
        yield "pykafka2 demo"
        self.run(self.python, "-m", "pip", "install", "--quiet", "pytest", "mypy")
        (self.cwd / "test_readme.py").write_text(readme_blocks()[1], encoding="utf-8")
        assert "1 passed" in self.run(self.python, "-m", "pytest", "-q", "test_readme.py")
        yield "README's test with the pytest plugin"
        for name, code, expected in (("typed", TYPED, 0), ("wrong", WRONGLY_TYPED, 1)):
            (self.cwd / f"{name}.py").write_text(code, encoding="utf-8")
            said = self.run(self.python, "-m", "mypy", "--strict", f"{name}.py", expected=expected)
            assert ('type "int", variable has type "str"' in said) == bool(expected), said
        yield "mypy --strict"
        if has_uv:
            uvx = [sys.executable, "-m", "uv", "tool", "run", "--from", str(self.distribution)]
            uvx += ["--python", sys.executable, "pykafka2"]
            with running_broker(uvx, self.cwd) as (servers, admin, token):
                self._program(servers)
                assert values(admin, token, "orders") == ['{"total": 42}']
            yield "uvx pykafka2 broker"

    def _program(self, servers: str) -> None:
        """Run the README's first program against a broker."""
        program = readme_blocks()[0]
        assert EXAMPLE_ADDRESS in program
        (self.cwd / "program.py").write_text(program.replace(EXAMPLE_ADDRESS, servers), encoding="utf-8")
        assert '{"total": 42}' in self.run(self.python, "program.py")


def _has_uv() -> bool:
    return not subprocess.run([sys.executable, "-m", "uv", "--version"], capture_output=True).returncode


def main(words: Sequence[str] | None = None) -> int:
    """Check both distributions; the exit code is 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.packages.as_a_user", description=__doc__)
    parser.add_argument(
        "--dist", type=Path, metavar="FOLDER", help="folder with a built wheel and sdist; default: build both"
    )
    chosen = parser.parse_args(words)
    failed = False
    with TemporaryDirectory() as name:
        folder = Path(name)
        has_uv = _has_uv()
        built = distributions(chosen.dist.resolve()) if chosen.dist else build(folder / "dist")
        for number, distribution in enumerate(built):
            print(f"=== {distribution.name} on Python {sys.version.split()[0]}", flush=True)
            try:
                for checked in Installation(distribution, folder / str(number)).check(has_uv):
                    print(f"ok: {checked}", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                print(f"FAILED: {error!r}\n{error}", flush=True)
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
