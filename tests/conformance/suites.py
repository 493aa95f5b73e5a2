"""Common parts of runs of other clients' own test suites: fetching one, serving it, sorting its failures.

A suite comes as a source distribution through pip, pinned by its SHA-256, or as a package of npm or
crates.io; nothing of it is kept here.  It runs against one bundled cluster, or with `--real` against Apache
Kafka, so that a failure can be laid at the broker's door or at the test's.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from .maven import cache_folder, kafka_jars
from .real_kafka import RealKafka

DOWNLOAD_TIMEOUT = 180.0

AUTHORIZER: Mapping[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
}
"""All users may do everything until a test makes rules."""

SUMMARY = re.compile(r"^(?:FAILED|ERROR) \S*?(\w+\.py::[^\s\[]+(?:\[[^\]]*\])?)", re.MULTILINE)


@attrs.frozen
class Distribution:
    """A source distribution on PyPI."""

    name: str
    version: str
    sha256: str

    def unpacked(self, folder: Path) -> Path:
        """Fetch it unless it is in the cache, unpack it into `folder`; the folder it comes in.

        Raises SystemExit where it is not the one that is pinned.
        """
        archive = self._cached()
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != self.sha256:
            raise SystemExit(f"{archive.name} has SHA-256 {found}, pinned is {self.sha256}")
        with tarfile.open(archive) as tar:
            top = tar.getnames()[0].split("/")[0]
            tar.extractall(folder, filter="data")
        return folder / top

    def _cached(self) -> Path:
        cache = cache_folder()
        # Releases before 2023 have the name's hyphens in their file's name, later ones underscores.
        names = [f"{name}-{self.version}.tar.gz" for name in (self.name, self.name.replace("-", "_"))]
        for _ in range(2):
            for name in names:
                if (cache / name).exists():
                    return cache / name
            # Only this one from source: what building it needs comes as wheels.
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-binary",
                self.name,
            ]
            command += ["--dest", str(cache), f"{self.name}=={self.version}"]
            subprocess.run(command, check=True, timeout=DOWNLOAD_TIMEOUT)
        raise SystemExit(f"pip left none of {names} in {cache}")


@attrs.frozen
class Serving:
    """How a suite wants its brokers."""

    config: Mapping[str, object] = attrs.field(factory=dict)
    brokers: int = 1
    port: int | None = None
    """Port of the first bundled broker, if the tests fix it; the others follow."""

    @contextmanager
    def started(self, real: bool) -> Iterator[str]:
        """Addresses of a bundled cluster, or of Apache Kafka, with this configuration."""
        config = {**AUTHORIZER, **self.config}
        if real:
            extra = "".join(f"{name}={_text(value)}\n" for name, value in config.items())
            with RealKafka(kafka_jars(), brokers=self.brokers, extra=extra) as kafka:
                yield kafka.bootstrap_servers
            return
        from pykafka2.testing import KafkaCluster

        ports = [self.port + n for n in range(self.brokers)] if self.port else None
        with KafkaCluster(brokers=self.brokers, config=config, ports=ports) as cluster:
            yield cluster.bootstrap_servers


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def run(command: list[str], folder: Path, environment: Mapping[str, str], timeout: float) -> str:
    """The command's output; if it exceeded its time limit, the last line says so."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(errors="replace") + f"\nSTALLED: no end after {timeout:.0f} s"
    return done.stdout.decode(errors="replace")


def pytest_command(*arguments: str) -> list[str]:
    """pytest as foreign tests want it: none of our options and plugins."""
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", "--color=no", "--durations=8"]
    command += ["-o", "addopts=", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:pykafka2"]
    return [*command, *arguments]


def failed_tests(output: str) -> set[str]:
    """Names of what failed, from pytest's summary."""
    return set(SUMMARY.findall(output))


def verdict(failed: set[str], expected: Mapping[str, str]) -> bool:
    """Print which failures are expected and why; whether all of them are, and none of those has passed."""
    for name in sorted(failed):
        print(f"{'as expected' if name in expected else 'UNEXPECTED':12} {name}  {expected.get(name, '')}")
    for name in sorted(expected.keys() - failed):
        print(f"{'MENDED':12} {name}")
    return failed == expected.keys()
