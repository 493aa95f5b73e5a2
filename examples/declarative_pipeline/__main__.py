"""Run the pipeline twice: the second run replays a micro-batch of the first, and adds what is new."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.testing import KafkaCluster
from spark_connector.testing import why_no_spark

DEFINITIONS = Path(__file__).with_name("large_orders.py")
COMMAND = Path(sys.executable).with_name("spark-pipelines")
SPEC = """\
name: large_orders
storage: {storage}
libraries:
  - glob:
      include: large_orders.py
configuration:
  spark.orders.kafka.servers: {servers}
"""
ORDERS = 1000
"""Sent before each run; half of them are large."""


def why_not() -> str | None:
    """Return the missing requirements of spark-pipelines, or None."""
    missing = [name for name in ("grpc", "pandas", "yaml") if find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} not found. Run: pip install 'pyspark[pipelines]>=4.2'"
    return why_no_spark()


def main() -> int:
    reason = why_not()
    if reason is not None:
        print(f"this example needs spark-pipelines: {reason}", file=sys.stderr)
        return 2
    with (
        KafkaCluster(brokers=1, topics={"orders": 4, "large-orders": 2}, process=True) as cluster,
        tempfile.TemporaryDirectory() as name,
    ):
        folder, servers = Path(name), cluster.bootstrap_servers
        write_project(folder, servers)
        send_orders(servers, 0)
        run(folder)
        print(f"after the first run: {count(servers)}")
        forget_last_commit(folder / "storage")
        send_orders(servers, ORDERS)
        run(folder)
        print(f"after a replay and new orders: {count(servers)}")
    return 0


def write_project(folder: Path, servers: str) -> None:
    """Write the project of `spark-pipelines run`: definitions, and a specification that names them."""
    shutil.copy(DEFINITIONS, folder)
    specification = SPEC.format(storage=(folder / "storage").as_uri(), servers=servers)
    (folder / "spark-pipeline.yml").write_text(specification)


def run(folder: Path) -> None:
    """Run the pipeline until all current orders are processed."""
    environment = {"PYSPARK_PYTHON": sys.executable, **os.environ}
    command = [str(COMMAND), "run", "--spec", str(folder / "spark-pipeline.yml")]
    subprocess.run(command, env=environment, cwd=folder, check=True)  # noqa: S603 (pyspark's own)


def send_orders(servers: str, first: int) -> None:
    values = [b'{"id": %d, "cents": %d}' % (first + n, 100 * n) for n in range(ORDERS)]
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send_many("orders", values).result(60)


def forget_last_commit(storage: Path) -> None:
    """Leave the checkpoint as if Spark had been killed before it recorded the last micro-batch as done."""
    (commits,) = storage.glob("_checkpoints/**/commits")
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)


def count(servers: str) -> str:
    """Return how many records a reader of committed records sees."""
    with KafkaConsumer(
        "large-orders",
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=2_000,
    ) as consumer:
        values = [record.value for record in consumer]
    return f"{len(values)} large orders, {len(set(values))} different ones"


if __name__ == "__main__":
    sys.exit(main())
