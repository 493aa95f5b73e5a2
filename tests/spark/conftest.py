"""Fixtures of the Spark stage: one session for a run, the bundled broker in a process of its own.

Tests that ask for `spark` are marked so; a plain `python -m pytest` leaves them out, `-m spark` runs them.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import pytest

from pykafka2.testing import ClusterApi, KafkaCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def why_no_spark() -> str | None:
    if find_spec("pyspark") is None:
        return "pyspark is not installed: pip install '.[spark-test]'"
    if which("java") is None and not os.environ.get("JAVA_HOME"):
        return "Java 17 is not installed, or JAVA_HOME is not set"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs a session is marked, before `-m` selects."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            # pyspark forgets sockets, and pandas warns of what is to come.
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """`local[2]`, one for the run."""
    reason = why_no_spark()
    if reason is not None:
        if os.environ.get("PYKAFKA2_REQUIRE_SPARK"):
            pytest.fail(reason)
        pytest.skip(reason)
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    session = (
        SparkSession.builder.master("local[2]")
        .appName("pykafka2's tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka() -> Iterator[ClusterApi]:
    """Three brokers outside this process, as py4j blocks it."""
    with KafkaCluster(brokers=1, process=True) as cluster:
        yield cluster


@pytest.fixture
def topic(kafka: ClusterApi) -> str:
    """A new topic of two partitions."""
    name = f"t{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, partitions=2)
    return name


@pytest.fixture
def options(kafka: ClusterApi, topic: str) -> dict[str, Any]:
    """What a source of that topic needs."""
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
