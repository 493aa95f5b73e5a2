"""Clusters that the tests of kfake start, steer and stop by requests over HTTP (go/kfake/cluster.go).

`prepare_kfake` changes a fetched copy of kfake so that its tests run on them: cluster.go replaces kfake's
code, only the tests of share groups stay, and some get the time that Kafka takes for a new share group.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

from pykafka2 import KafkaAdminClient, NewTopic
from pykafka2.broker.coordinators.internal_topics import share_partition_key
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.testing import KafkaCluster, Topic
from tests.broker.support.raw_client import RawClient

from .go_programs import SOURCES
from .maven import kafka_jars
from .real_kafka import RealKafka

CONFIG: dict[str, object] = {
    "auto.create.topics.enable": False,
    # The tests set intervals and timeouts below Kafka's bounds.
    "group.consumer.min.heartbeat.interval.ms": 1,
    "group.consumer.min.session.timeout.ms": 1,
    "group.share.min.heartbeat.interval.ms": 1,
    "group.share.heartbeat.interval.ms": 200,
    "group.share.min.session.timeout.ms": 1,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.record.lock.duration.ms": 1000,
}
OWN_OPTIONS = frozenset({"share.record.lock.sweep.interval.ms"})
"""Options that Kafka does not have."""
LOCK_DURATION, SHORTEST_LOCK_MS = "group.share.record.lock.duration.ms", 1000
"""Kafka's smallest value; some tests set less."""
REPLICAS = 3

TESTS = ("helpers_test.go", "share_test.go", "share_churn_test.go", "behavior_test.go", "persist_test.go")
CLIENT = "github.com/twmb/franz-go@v1.22.2"
"""The client that the tests use; the one of kfake's go.mod ends the process in one test."""

PERSIST_TEST = "// TestPersistShareGroupSPSO"
"""The tests from here on use no internals of kfake."""
PERSIST_IMPORTS = """\
package kfake

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

"""
PATCHES = [
    # kfake assigns partitions with the first heartbeat, Kafka once their states are initialized.
    ("sfReq.MaxRecords = 500\n", "sfReq.MaxRecords = 500\nsfReq.MaxWaitMillis, sfReq.MinBytes = 5000, 1\n"),
    ("quietDeadline := time.Now().Add(time.Second)", "quietDeadline := time.Now().Add(3*time.Second)"),
    (
        "emptyCtx, emptyCancel := context.WithTimeout(context.Background(), time.Second)",
        "emptyCtx, emptyCancel := context.WithTimeout(context.Background(), 3*time.Second)",
    ),
]
BUILD_TIMEOUT = 120.0
COORDINATOR_TIMEOUT = 30.0
SHARE = 2
"""The key type of share partitions in FindCoordinator."""


def prepare_kfake(source: Path) -> None:
    """Replace kfake's code by ours, and keep only the tests that it can run."""
    texts = {name: (source / name).read_text() for name in TESTS}
    persist = texts["persist_test.go"]
    texts["persist_test.go"] = PERSIST_IMPORTS + persist[persist.index(PERSIST_TEST) :]
    for old, new in PATCHES:
        changed = {name: text.replace(old, new) for name, text in texts.items()}
        if changed == texts:
            raise SystemExit(f"kfake's tests have changed, they lack: {old}")
        texts = changed
    for file in source.glob("*.go"):
        file.unlink()
    for name, text in texts.items():
        (source / name).write_text(text)
    shutil.copy(SOURCES / "kfake" / "cluster.go", source)
    command = ["go", "mod", "edit", f"-require={CLIENT}"]
    subprocess.run(command, cwd=source, check=True, timeout=BUILD_TIMEOUT)


class Clusters:
    """The clusters by id.  Thread-safe: each cluster is used by one test."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._running: dict[str, KafkaCluster] = {}

    def start(
        self,
        brokers: int,
        topics: dict[str, int],
        config: dict[str, str],
        ports: list[int],
        data_dir: str,
    ) -> dict[str, Any]:
        """Start a cluster whose brokers advertise these ports; returns its id and the brokers' addresses."""
        replicas = min(REPLICAS, brokers)
        cluster = KafkaCluster(
            brokers,
            {name: Topic(partitions, replicas) for name, partitions in topics.items()},
            config=broker_config(config),
            advertised_ports=ports,
            data_dir=data_dir or None,
        ).start()
        number = str(next(self._ids))
        self._running[number] = cluster
        return {"id": number, "addresses": cluster.bootstrap_servers.split(",")}

    def close(self, id: str) -> None:
        self._running.pop(id).close()

    def close_all(self) -> None:
        for number in list(self._running):
            self.close(number)

    def move(self, id: str, topic: str, partition: int, node: int) -> None:
        """Move a partition's leader."""
        self._running[id].controls.move_leader((topic, partition), node)

    def compact(self, id: str, **_: Any) -> None:
        """Compact all topics that can be compacted."""
        cluster = self._running[id]
        for topic in cluster.topics():
            cluster.controls.compact(topic)

    def retain(self, id: str, **_: Any) -> None:
        self._running[id].controls.roll_segments()
        self._running[id].controls.apply_retention()

    def partition(self, id: str, topic: str, partition: int) -> dict[str, int]:
        log = self._running[id].log(topic, partition)
        return {"high_watermark": log.high_watermark, "log_start_offset": log.log_start_offset}


class RealClusters:
    """The same with Apache Kafka, which neither advertises the ports of proxies nor restarts: for tests that
    need only addresses.
    """

    def __init__(self) -> None:
        self._ids = count(1)
        self._running: dict[str, RealKafka] = {}

    def start(self, brokers: int, topics: dict[str, int], config: dict[str, str], **_: Any) -> dict[str, Any]:
        lines = [f"{name}={value}" for name, value in broker_config(config).items()]
        kafka = RealKafka(kafka_jars(), brokers=brokers, extra="\n".join(lines).lower() + "\n")
        number = str(next(self._ids))
        self._running[number] = kafka
        replicas = min(REPLICAS, brokers)
        with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, number, replicas) for name, number in topics.items()])
            admin.list_group_offsets("any")  # once the coordinator is available
        _find_share_coordinator(kafka.addresses[0])
        return {"id": number, "addresses": kafka.addresses}

    def close(self, id: str) -> None:
        self._running.pop(id).close()

    def close_all(self) -> None:
        for number in list(self._running):
            self.close(number)


def _find_share_coordinator(address: str) -> None:
    """Return once there is a share coordinator: a test's first ShareFetch does not wait for its topic."""
    find = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[share_partition_key("any", bytes(16), 0)])
    deadline = time.monotonic() + COORDINATOR_TIMEOUT
    with RawClient(address) as wire:
        while wire.call(find, 6).coordinators[0].error_code:
            if time.monotonic() > deadline:
                raise SystemExit("Apache Kafka has no share coordinator")
            time.sleep(0.1)


def broker_config(config: dict[str, str]) -> dict[str, object]:
    """A test's broker options, as far as Kafka has and accepts them, with `CONFIG`."""
    chosen = {name: value for name, value in config.items() if name not in OWN_OPTIONS}
    if LOCK_DURATION in chosen:
        chosen[LOCK_DURATION] = str(max(int(chosen[LOCK_DURATION]), SHORTEST_LOCK_MS))
    return {**CONFIG, **chosen}


@contextmanager
def cluster_server(real: bool = False) -> Iterator[str]:
    """Serve `Clusters` over HTTP; yields the URL.  Closes the clusters that are left at the end."""
    clusters = RealClusters() if real else Clusters()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            method: Callable[..., Any] = getattr(clusters, self.path.strip("/"))
            try:
                status, result = 200, method(**arguments)
            except Exception as error:
                status, result = 500, f"{type(error).__name__}: {error}"
            body = json.dumps(result).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            clusters.close_all()
