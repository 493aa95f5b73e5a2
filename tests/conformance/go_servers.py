"""The clusters that the Go suites want, as their compose files describe them.

Each is a context manager that yields the environment for the suite's tests.  Those of `kafka-go` and `sarama`
count their brokers from 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

from pykafka2.testing import KafkaCluster, Listener

from .go_clusters import cluster_server
from .maven import kafka_jars
from .real_kafka import RealKafka
from .suites import AUTHORIZER

Server = Callable[[Path, bool], AbstractContextManager[dict[str, str]]]

LARGE_MESSAGES: dict[str, object] = {"message.max.bytes": 200_000_000}

REAL_KAFKA_GO = """\
node.id=1
controller.quorum.voters=1@127.0.0.1:9094
listeners=PLAINTEXT://localhost:9092,CONTROLLER://127.0.0.1:9094
advertised.listeners=PLAINTEXT://localhost:9092
message.max.bytes=200000000
auto.create.topics.enable=true
group.initial.rebalance.delay.ms=3000
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
"""

KAFKA_GO_USERS = {
    "adminplain": "admin-secret",
    "adminscram256": "admin-secret-256",
    "adminscram512": "admin-secret-512",
}
KAFKA_GO_TOPICS = {"test-writer-0": 1}
"""Tests of logins take it to be there."""

SARAMA: dict[str, object] = {
    "auto.create.topics.enable": False,
    "default.replication.factor": 2,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.replication.factor": 2,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "transaction.state.log.replication.factor": 2,
    # From the server.properties of Kafka's distribution, on which its image builds.
    "transaction.state.log.min.isr": 1,
}
SARAMA_BROKERS = range(1, 6)
ADVERTISED = 29090
"""Port of broker n less n: where clients are sent, and where a proxy stands."""
LISTENING = 39090
"""Port of broker n less n: where it listens."""
TOXIPROXY_PORT = 8474
START_TIMEOUT = 10.0

DOCKER = """\
#!{python}
import sys
from pykafka2.testing.remote.http_client import AdminClient

# `compose stop kafka-2`, `compose start kafka-2`; other subcommands (`logs`) do nothing.
control = {{"stop": "controls/stop_broker", "start": "controls/restart_broker"}}.get(sys.argv[2])
if control is not None:
    AdminClient("{address}", "{token}").call(control, broker_id=int(sys.argv[3].removeprefix("kafka-")))
"""


@contextmanager
def franz_go(folder: Path, real: bool) -> Iterator[dict[str, str]]:
    if real:
        with RealKafka(kafka_jars(), brokers=3) as kafka:
            yield {"KGO_SEEDS": kafka.bootstrap_servers}
        return
    with KafkaCluster(brokers=3, config={"auto.create.topics.enable": False}) as cluster:
        yield {"KGO_SEEDS": cluster.bootstrap_servers}


@contextmanager
def kafka_go(folder: Path, real: bool) -> Iterator[dict[str, str]]:
    if real:
        with RealKafka(kafka_jars(), extra=REAL_KAFKA_GO) as kafka:
            assert kafka.bootstrap_servers  # waits until it serves
            yield {}
        return
    mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    cluster = KafkaCluster(
        brokers=1,
        first_broker_id=1,
        host="localhost",
        listeners={
            "PLAINTEXT": Listener(ports=[9092]),
            "SASL_PLAINTEXT": Listener(ports=[9093], mechanisms=mechanisms),
        },
        topics=KAFKA_GO_TOPICS,
        users=KAFKA_GO_USERS,
        config={**LARGE_MESSAGES, **AUTHORIZER},
    )
    with cluster:
        yield {}


@contextmanager
def sarama(folder: Path, real: bool) -> Iterator[dict[str, str]]:
    if real:
        raise SystemExit("sarama's proxies and its docker are made for the bundled broker alone")
    cluster = KafkaCluster(
        brokers=len(SARAMA_BROKERS),
        first_broker_id=SARAMA_BROKERS[0],
        ports=[LISTENING + broker for broker in SARAMA_BROKERS],
        advertised_ports=[ADVERTISED + broker for broker in SARAMA_BROKERS],
        racks=[str(broker) for broker in SARAMA_BROKERS],
        config=SARAMA,
    )
    with cluster, toxiproxy(folder):
        admin = cluster.open_admin_port()
        docker = folder / "docker"
        docker.write_text(DOCKER.format(python=sys.executable, address=admin.address, token=admin.token))
        docker.chmod(0o755)
        yield {
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            # The docker above is Python's, run in the suite's folder.
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path) or str(Path.cwd()),
            "TOXIPROXY_ADDR": f"http://127.0.0.1:{TOXIPROXY_PORT}",
        }


@contextmanager
def toxiproxy(folder: Path) -> Iterator[None]:
    """Its server, with a proxy in front of each broker."""
    proxies = [
        {
            "name": f"kafka{broker}",
            "listen": f"127.0.0.1:{ADVERTISED + broker}",
            "upstream": f"127.0.0.1:{LISTENING + broker}",
            "enabled": True,
        }
        for broker in SARAMA_BROKERS
    ]
    settings = folder / "toxiproxy.json"
    settings.write_text(json.dumps(proxies))
    command: Sequence[str] = (
        str(folder / "toxiproxy"),
        "-port",
        str(TOXIPROXY_PORT),
        "-config",
        str(settings),
    )
    with (folder / "toxiproxy.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while server.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), urlopen(f"http://127.0.0.1:{TOXIPROXY_PORT}/proxies", timeout=1):
                break
            time.sleep(0.1)
        else:
            raise SystemExit(f"toxiproxy did not start:\n{(folder / 'toxiproxy.log').read_text()}")
        yield
    finally:
        server.kill()
        server.wait()


@contextmanager
def kfake(folder: Path, real: bool) -> Iterator[dict[str, str]]:
    with cluster_server(real) as url:
        yield {"CLUSTERS": url}


SERVERS: dict[str, Server] = {
    "franz-go": franz_go,
    "franz-go-share-1": franz_go,
    "franz-go-share-1-chaos": franz_go,
    "franz-go-share-3": franz_go,
    "franz-go-share-3-chaos": franz_go,
    "kfake": kfake,
    "kafka-go": kafka_go,
    "kafka-go-sasl": kafka_go,
    "sarama": sarama,
}
