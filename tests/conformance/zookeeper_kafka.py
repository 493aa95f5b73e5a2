"""Apache Kafka 2.8.2 with ZooKeeper on loopback: one ZooKeeper and three brokers, each in a JVM of its own.

All of them end with the Python process that started them: each has a shell that reads its stdin to the end.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pykafka2 import KafkaAdminClient
from pykafka2.errors import KafkaError
from tests.ports import free_ports

from .maven import (
    JAVA_FOLDER,
    OLDEST,
    PREVIOUS,
    KafkaUnavailable,
    kafka_jars,
    made_once,
    resolved,
    server_jars,
)
from .real_kafka import QUICK_GROUPS, RealKafka

POM = JAVA_FOLDER / "pom-zookeeper-server.xml"
BROKERS = 3
START_TIMEOUT = 60.0
FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
GUARDED = 'java "$@" & child=$!; cat >/dev/null; kill -9 $child'

# As PROPERTIES of real_kafka.py, as far as 2.8 knows them.
PROPERTIES = """\
broker.id={node}
listeners=PLAINTEXT://127.0.0.1:{port}
zookeeper.connect=127.0.0.1:{zookeeper_port}
log.dirs={log_dir}
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=2
log.cleaner.dedupe.buffer.size=4194304
group.initial.rebalance.delay.ms={rebalance_delay_ms}
offsets.topic.replication.factor=3
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=1
"""


class ZooKeeperKafka:
    """Three brokers of Apache Kafka 2.8.2, ready when the block begins.  Raises KafkaUnavailable."""

    def __init__(self) -> None:
        kafka_jars()  # reports missing programs
        self._jars = made_once("zookeeper-server", [POM], lambda folder: resolved(POM, folder))
        self._stack = contextlib.ExitStack()
        self.addresses: list[str] = []
        self.sasl_addresses: list[str] = []

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.addresses)

    def __enter__(self) -> Self:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="pykafka2-zookeeper-")))
        zookeeper_port, *ports = free_ports(1 + BROKERS)
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        try:
            main = "org.apache.zookeeper.server.ZooKeeperServerMain"
            self._run(folder, main, [str(zookeeper_port), str(folder / "zookeeper")])
            for node, port in enumerate(ports):
                text = PROPERTIES.format(
                    node=node,
                    port=port,
                    zookeeper_port=zookeeper_port,
                    log_dir=folder / f"data-{node}",
                    rebalance_delay_ms=QUICK_GROUPS["group.initial.rebalance.delay.ms"],
                )
                settings = folder / f"{node}.properties"
                settings.write_text(text)
                self._run(folder, "kafka.Kafka", [str(settings)])
            self._await_brokers(folder)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _run(self, folder: Path, main: str, arguments: Sequence[str]) -> None:
        command = [*FLAGS, "-cp", f"{self._jars / 'current'}/*", main, *arguments]
        log = self._stack.enter_context((folder / "server.log").open("ab"))
        process = subprocess.Popen(
            ["sh", "-c", GUARDED, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is handled here: the end of the pipe reaches it
        )

        def end() -> None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

        self._stack.callback(end)

    def _await_brokers(self, folder: Path) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            with contextlib.suppress(KafkaError):
                timeout = deadline - time.monotonic()
                with KafkaAdminClient(bootstrap_servers=self.bootstrap_servers) as admin:
                    if len(admin.describe_cluster(timeout=timeout).nodes) == BROKERS:
                        return
            time.sleep(0.1)
        log = (folder / "server.log").read_text(errors="replace")
        raise KafkaUnavailable(f"Apache Kafka 2.8.2 did not start:\n{log[-2000:]}")


def older(release: str, *, authorizes: bool = False) -> RealKafka | ZooKeeperKafka:
    """Three brokers of this older release, "2.8", "3.9" or "4.3"; enter it.  Raises KafkaUnavailable."""
    if release == "2.8":
        return ZooKeeperKafka()
    jars = server_jars(PREVIOUS if release == "4.3" else OLDEST)
    return RealKafka(jars, brokers=3, authorizes=authorizes)
