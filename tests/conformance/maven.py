"""Apache Kafka's jars and our Java programs, resolved and compiled once and kept in a cache folder.

Maven resolves `java/pom.xml`, javac compiles `java/src`.  Each result lies in a folder named by a hash of
what it was made from, and appears there whole by one rename, so runs side by side cannot see half of it.

Where Maven or Java is missing the stage is skipped with a loud line; with PYKAFKA2_REQUIRE_KAFKA=1 in the
environment, as in `.ci/run`, that is a failure.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NoReturn

import attrs

JAVA_FOLDER = Path(__file__).parent / "java"
POM = JAVA_FOLDER / "pom.xml"
OLDER_SERVER_POM = JAVA_FOLDER / "pom-older-server.xml"
LOG_SETTINGS = JAVA_FOLDER / "log4j2.xml"
SOURCES = sorted((JAVA_FOLDER / "src").rglob("*.java"))

CURRENT = "4.4.0"
PREVIOUS = "4.3.1"
OLDEST = "3.9.1"
"""Releases whose servers can be started. The stage compares with the messages of the first and the last."""

REQUIRE = "PYKAFKA2_REQUIRE_KAFKA"
MAVEN_TIMEOUT = 300.0
JAVAC_TIMEOUT = 120.0
MISSING_TOOLS = (
    "Apache Kafka is not available here: no {} on PATH (Java 17 with javac, and Maven, are needed)"
)


QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""Tests start Java for seconds: optimised compilation and verified classes cost more than they gain."""


class KafkaUnavailable(Exception):
    """The jars could not be had; the message says which tool is missing, or shows what it printed."""


@attrs.frozen
class KafkaJars:
    """The folder of the jars and our compiled classes."""

    current: Path
    oldest: Path
    classes: Path
    server: str = CURRENT
    """The version of the server, and of the clients beside it in the folder `current`."""

    def class_path(self, generation: str = CURRENT) -> str:
        """Our classes and the jars of one generation, as java's -cp wants them."""
        # The clients need only jackson, slf4j and the codecs, and live well with those of another release.
        rest = (
            jar for jar in sorted(self.current.glob("*.jar")) if not jar.name.startswith("kafka-clients-")
        )
        first = [self.classes, self.clients_jar(generation)]
        return os.pathsep.join(str(path) for path in [*first, *rest])

    def clients_jar(self, generation: str = CURRENT) -> Path:
        if generation == CURRENT:
            return self.current / f"kafka-clients-{self.server}.jar"
        return self.oldest / f"kafka-clients-{generation}.jar"

    def message_jars(self, generation: str) -> list[Path]:
        """The jars that carry schemas; of the oldest only those of requests and responses."""
        coordinators = ["group-coordinator", "transaction-coordinator", "share-coordinator"]
        names = [] if generation == OLDEST else [*coordinators, "metadata"]
        others = [self.current / f"kafka-{name}-{CURRENT}.jar" for name in names]
        return [self.clients_jar(generation), *others]

    def java(
        self, main: str, *arguments: str, generation: str = CURRENT, flags: tuple[str, ...] = QUICK_JAVA
    ) -> list[str]:
        """The command line that runs one of our programs, or a class of Kafka's by its full name."""
        settings = f"-Dlog4j2.configurationFile={LOG_SETTINGS}"
        return [
            "java",
            *flags,
            settings,
            "-cp",
            self.class_path(generation),
            main if main.startswith("org.apache.") else f"pykafka2.conformance.{main}",
            *arguments,
        ]


def cache_folder() -> Path:
    """The folder of the downloads; it exists when this returns."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pykafka2-conformance"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def kafka_jars() -> KafkaJars:
    """The jars and classes, from the cache or made now (about 15 seconds).  Raises KafkaUnavailable."""
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if missing:
        raise KafkaUnavailable(MISSING_TOOLS.format(", ".join(missing)))
    jars = made_once("jars", [POM], lambda folder: resolved(POM, folder))
    classes = made_once(
        "classes", [POM, *SOURCES], lambda folder: compiled(SOURCES, folder, f"{jars / 'current'}/*")
    )
    return KafkaJars(current=jars / "current", oldest=jars / "oldest", classes=classes)


@cache
def server_jars(version: str) -> KafkaJars:
    """Return the jars of this server: CURRENT, PREVIOUS or OLDEST.  Raise KafkaUnavailable."""
    jars = kafka_jars()
    if version == CURRENT:
        return jars
    name = f"server-{version}"
    folder = made_once(
        name, [OLDER_SERVER_POM], lambda made: resolved(OLDER_SERVER_POM, made, f"-Dkafka.current={version}")
    )
    return attrs.evolve(jars, current=folder / "current", server=version)


def jars_or_skip() -> KafkaJars:
    """Like kafka_jars(), but if a jar is missing, the test is skipped, or fails where Kafka is required."""
    try:
        return kafka_jars()
    except KafkaUnavailable as problem:
        skip_or_fail(str(problem))


def skip_or_fail(reason: str) -> NoReturn:
    """Skip loudly; fail instead where PYKAFKA2_REQUIRE_KAFKA=1 (in `.ci/run` nothing is passed over)."""
    import pytest  # benchmarks use this module without it

    if os.environ.get(REQUIRE) == "1":
        pytest.fail(f"{reason} ({REQUIRE}=1, so this is a failure)", pytrace=False)
    pytest.skip(f"!!! NOT CHECKED AGAINST APACHE KAFKA: {reason}")


def made_once(name: str, sources: list[Path], make: Callable[[Path], None]) -> Path:
    """The folder of this name for these files as they are now, from the cache or made now.

    Runs side by side cannot see half of it: one makes, the others wait, and it appears whole.
    """
    cache = cache_folder()
    folder = cache / f"{name}-{_digest(sources)}"
    with _locked(cache / "lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as scratch:
                unfinished = Path(scratch) / "result"
                unfinished.mkdir()
                make(unfinished)
                unfinished.rename(folder)
    return folder


def resolved(pom: Path, folder: Path, *properties: str) -> None:
    """Copy into the folder the jars that a pom.xml names."""
    library = f"-Dconformance.lib={folder}"
    command = ["mvn", "-B", "-q", "-f", str(pom), "generate-resources", library, *properties]
    _run(command, MAVEN_TIMEOUT, "Maven could not resolve Apache Kafka's jars")


def compiled(sources: list[Path], folder: Path, class_path: str) -> None:
    """Compile our Java into the folder, warnings being errors."""
    command = [
        "javac",
        "-Xlint:all,-path,-processing,-classfile",
        "-Werror",
        "-encoding",
        "UTF-8",
        "--release",
        "17",
    ]
    command += ["-d", str(folder), "-cp", class_path, *map(str, sources)]
    try:
        _run(command, JAVAC_TIMEOUT, "javac refused our Java below tests/conformance/java")
    except KafkaUnavailable as refused:
        # Our own mistake, not a machine without Kafka: never passed over.
        raise SyntaxError(str(refused)) from None


def _run(command: list[str], timeout: float, what_failed: str) -> None:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise KafkaUnavailable(f"{what_failed}: no end after {timeout:.0f} s") from late
    if done.returncode:
        raise KafkaUnavailable(
            f"{what_failed} (exit {done.returncode}):\n{done.stdout.decode(errors='replace')}"
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by one process at a time; the others wait, then find the work done."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
