"""For tests of Spark jobs: a cluster that the driver and all workers reach, and a local session that fits it.

    pytest_plugins = ["spark_connector.testing"]

    def test_my_job(spark_kafka):
        spark_kafka.create_topic("orders", partitions=4)
        ...  # .option("kafka.bootstrap.servers", spark_kafka.bootstrap_servers)

The brokers run in a process of their own, as py4j holds up this one; they end with it, however it ends.
Without pytest there is `local_session` alone.
Neighbour: `pykafka2.testing`, whose controls, views and history are all there.
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
except ImportError:  # programs and examples need none
    HAS_PYTEST = False
else:
    HAS_PYTEST = True


class SparkUnavailable(RuntimeError):
    """pyspark or Java is not there."""


def why_no_spark() -> str | None:
    """What is missing for a session in this process, None if nothing is."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'pyspark>=4.1', or pykafka2 with its extra spark-local"
    home = os.environ.get("JAVA_HOME")
    if home and which("java", path=str(Path(home) / "bin")) is None:
        return f"JAVA_HOME is {home}, where there is no bin/java: set it to a JRE 17 or newer, or unset it"
    if not home and which("java") is None:
        return "there is no Java: install a JRE 17 or newer, or set JAVA_HOME"
    return None


def local_session(master: str = "local[2]", **conf: str) -> SparkSession:
    """A session for tests and examples: no web pages, few partitions, UTC, this Python for the workers.

    `conf` has further settings with underscores for dots, such as spark_sql_shuffle_partitions="4".

    Raises:
        SparkUnavailable: pyspark or Java is not there.
    """
    reason = why_no_spark()
    if reason is not None:
        raise SparkUnavailable(reason)
    from pyspark.sql import SparkSession

    # Workers are started by the JVM, which knows neither this virtual environment nor sys.path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    here = str(Path(__file__).parents[1])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, known)])
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
        """A cluster of one broker in a process of its own, for all tests; make topics of new names."""
        with KafkaCluster(brokers=1, process=True) as cluster:
            yield cluster
