"""Spark's own Kafka connector, to compare with: its jars, and the version of pyspark that they fit.

Maven and pip fetch them once; they are kept in the conformance stage's cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.conformance.maven import KafkaUnavailable, made_once, resolved

PYSPARK = "4.2.0"
POM = Path(__file__).with_name("pom.xml")
PIP_TIMEOUT = 600.0


def jars() -> list[Path]:
    """The connector's jars.  Raises KafkaUnavailable where Maven is missing, or cannot resolve them."""
    return sorted(made_once("spark-kafka", [POM], lambda folder: resolved(POM, folder)).glob("*.jar"))


def python_path() -> str:
    """The beginning of PYTHONPATH for that pyspark: empty if it is the one that is installed.

    Raises KafkaUnavailable where pip cannot fetch it.
    """
    try:
        if version("pyspark") == PYSPARK:
            return ""
    except PackageNotFoundError:
        pass
    return str(made_once(f"pyspark-{PYSPARK}", [], _install))


def environment() -> dict[str, str]:
    """The environment of a process with that pyspark, whose driver and workers know the connector, too."""
    folders = (python_path(), str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", ""))
    return {
        **{name: value for name, value in os.environ.items() if name != "SPARK_HOME"},
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        "PYSPARK_PYTHON": sys.executable,
    }


def _install(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
    done = subprocess.run(
        [*command, f"pyspark=={PYSPARK}"], capture_output=True, text=True, timeout=PIP_TIMEOUT
    )
    if done.returncode:
        raise KafkaUnavailable(f"pip could not fetch pyspark {PYSPARK}: {done.stderr[-1000:]}")
