"""The same on executors with JVMs of their own, and through Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pykafka2.testing import ClusterApi
from spark_connector.testing import why_no_spark
from tests.spark.committed import committed

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
ROWS = 1000


def run(cluster: ClusterApi, folder: Path, master: str) -> dict[str, Any]:
    """The program's findings, after it compared the topics with what it wrote."""
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    topic = f"elsewhere-{uuid.uuid4().hex[:8]}"
    for name in (topic, f"{topic}-copy"):
        cluster.create_topic(name, partitions=3)
    command = [sys.executable, "-m", "tests.spark.elsewhere_program", cluster.bootstrap_servers, topic]
    done = subprocess.run(
        [*command, str(folder / "checkpoint"), master],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for name in (topic, f"{topic}-copy"):
        found = committed(cluster.bootstrap_servers, name)
        assert found == {str(number): 1 for number in range(ROWS)}
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert report["rows"] == list(range(ROWS))
    return report


def test_executors_in_jvms_of_their_own(spark_kafka: ClusterApi, tmp_path: Path) -> None:
    assert not run(spark_kafka, tmp_path, "local-cluster[2,1,1024]")["is connect"]


def test_spark_connect(spark_kafka: ClusterApi, tmp_path: Path) -> None:
    if find_spec("grpc") is None or find_spec("pandas") is None:
        pytest.skip("Spark Connect takes pip install 'pykafka2[connect]'")
    assert run(spark_kafka, tmp_path, "connect:local[2]")["is connect"]
