"""Test fixtures for Spark jobs: a cluster that driver and workers can reach, and a local session.

    pytest_plugins = ["spark_connector.testing"]

    def test_my_job(spark_kafka):
        spark_kafka.create_topic("orders", partitions=4)
        ...  # .option("kafka.bootstrap.servers", spark_kafka.bootstrap_servers)

The brokers run in a process of their own, because py4j blocks threads of this one; they end with this
process.
Without pytest, only `local_session` is available.
Neighbor: `pykafka2.testing`, whose controls, views and history are all available.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from pykafka2.testing import ClusterApi, KafkaCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    import pytest
except ImportError:  # pytest is optional
    HAS_PYTEST = False
else:
    HAS_PYTEST = True


class SparkUnavailable(RuntimeError):
    """pyspark or Java is missing."""


def why_no_spark() -> str | None:
    """Return what is missing for a session in this process, None if nothing is."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed. Run: pip install 'pykafka2[spark-local]'"
    home = os.environ.get("JAVA_HOME")
    if home and which("java", path=str(Path(home) / "bin")) is None:
        return f"JAVA_HOME is {home}, which has no bin/java. Set it to a JRE 17 or later, or unset it."
    if not home and which("java") is None:
        return "Java was not found. Install a JRE 17 or later, or set JAVA_HOME."
    return None


def local_session(master: str = "local[2]", **conf: str) -> SparkSession:
    """Create a session for tests and examples: no web UI, few partitions, UTC, this Python for the workers.

    `conf` has further settings with underscores for dots, such as spark_sql_shuffle_partitions="4".

    Raises:
        SparkUnavailable: pyspark or Java is missing.
    """
    reason = why_no_spark()
    if reason is not None:
        raise SparkUnavailable(reason)
    from pyspark.sql import SparkSession

    # The JVM starts the workers, without this virtual environment and sys.path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    here = str(Path(__file__).parents[1])
    path_entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here not in path_entries:
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, path_entries)])
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        **{name.replace("_", "."): value for name, value in conf.items()},
    }
    builder = SparkSession.builder.master(master).appName("pykafka2")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if HAS_PYTEST:

    @pytest.fixture(scope="session")
    def spark_kafka() -> Iterator[ClusterApi]:
        """A cluster of one broker in a process of its own, for all tests; use a new topic name in each
        test.
        """
        with KafkaCluster(brokers=1, process=True) as cluster:
            yield cluster
