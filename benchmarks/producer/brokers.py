"""The brokers of `benchmarks.producer`, each in a process of its own: Apache Kafka, and the bundled one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from pykafka2 import KafkaAdminClient, NewTopic

BROKERS = ("apache", "bundled")

# Records without a reader are deleted, so that a long run does not fill the disk or the memory.
RETENTION = {"retention.bytes": str(256 << 20), "segment.bytes": str(64 << 20)}
KAFKA_PROPERTIES = "log.segment.delete.delay.ms=1000\nlog.retention.check.interval.ms=2000\n"
KAFKA_FLAGS = ("-Xmx1g", "-Xms1g")


class Broker:
    """A running broker: makes and deletes topics."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
        self._numbers = count()

    @contextmanager
    def topic(self, partitions: int) -> Iterator[str]:
        """Yield a topic of its own for one run, gone afterwards."""
        name = f"producer-benchmark-{next(self._numbers)}"
        self._admin.create_topics([NewTopic(name, partitions, replication_factor=1, configs=RETENTION)])
        self._admin.wait_for_topics([name])
        try:
            yield name
        finally:
            self._admin.delete_topics([name])

    def close(self) -> None:
        self._admin.close()


@contextmanager
def running(name: str) -> Iterator[Broker]:
    """Yield one of BROKERS, with one node.  Raise KafkaUnavailable if Apache's lacks Java or Maven."""
    with _apache() if name == "apache" else _bundled() as servers:
        broker = Broker(servers)
        try:
            yield broker
        finally:
            broker.close()


@contextmanager
def _apache() -> Iterator[str]:
    from tests.conformance.maven import kafka_jars
    from tests.conformance.real_kafka import RealKafka

    with RealKafka(kafka_jars(), flags=KAFKA_FLAGS, extra=KAFKA_PROPERTIES) as kafka:
        yield kafka.bootstrap_servers


@contextmanager
def _bundled() -> Iterator[str]:
    command = [sys.executable, "-m", "pykafka2.cli", "broker", "--brokers", "1", "--port", "0"]
    # A session of its own: it is needed a moment longer than a Ctrl-C lets the benchmark go on.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline().strip()
            if not line.startswith("bootstrap.servers="):
                raise RuntimeError(f"the bundled broker did not start: {line!r}")
            yield line.partition("=")[2]
        finally:
            process.terminate()
