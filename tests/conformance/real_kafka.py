"""A real Apache Kafka on loopback: KRaft nodes in one process, all brokers, the first the controller, too.

For tests through the session fixture of conftest.py, for benchmarks as a script:

    python -m tests.conformance.real_kafka [--topic NAME:PARTITIONS ...] [--heap 1g]

prints one line `bootstrap.servers=127.0.0.1:PORT` when ready and runs until Ctrl-C or SIGTERM.

The server ends with the Python process that started it, however that one ends: it reads its stdin to the end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from tests.ports import free_ports

from .bridge import Bridge
from .maven import QUICK_JAVA, KafkaJars, KafkaUnavailable, kafka_jars

START_TIMEOUT = 90.0
STOP_TIMEOUT = 60.0
START_ATTEMPTS = 3

QUICK_FLAGS = ("-Xmx512m", "-Xms256m", *QUICK_JAVA)

# Topics are created by the tests, so that an unknown topic stays unknown; internal topics have one partition,
# so that each is quickly made.  No log is cleaned while they run, as their records are old by intention.
# What else differs from Kafka's defaults keeps three nodes small in one JVM.
PROPERTIES = """\
process.roles={roles}
node.id={node}
controller.quorum.voters=0@127.0.0.1:{controller_port}
listeners={listeners}
advertised.listeners={advertised}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl_plaintext.connections.max.reauth.ms={max_reauth_ms}
listener.name.sasl_plaintext.plain.sasl.jaas.config={security}.plain.PlainLoginModule required \\
 user_{user}="{password}" user_{restricted_user}="{restricted_password}";
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={security}.scram.ScramLoginModule required;
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config={security}.scram.ScramLoginModule required;
listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config={security}.oauthbearer.OAuthBearerLoginModule \\
 required unsecuredLoginStringClaim_sub="broker";
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={log_dir}
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=2
log.initial.task.delay.ms=3600000
log.cleaner.dedupe.buffer.size=4194304
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=1
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={min_isr}
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={min_isr}
share.coordinator.state.topic.num.partitions=1
"""

# Who does not authenticate may do everything, as if there were no authorizer; so may the first of the users.
AUTHORIZED = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{user}
"""

ENCRYPTED = """\
ssl.keystore.type=PEM
ssl.keystore.location={certificate}
"""

SASL_USER, SASL_PASSWORD = "ann", "ann-secret"
RESTRICTED_USER, RESTRICTED_PASSWORD = "eve", "eve-secret"
"""A user with only those permissions that ACLs grant."""
MAX_REAUTH_MS = 6_000
"""How long a session lasts on the listener with SASL."""

# Tests shall not wait: for the first rebalance, or for a heartbeat that tells of the next one.
QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 300,
}


class RealKafka:
    """Apache Kafka in a temporary folder.  `start()` returns at once, `bootstrap_servers` waits for it.

    A context manager: leaving it kills the server and removes its folder.
    """

    def __init__(
        self,
        jars: KafkaJars,
        flags: tuple[str, ...] = QUICK_FLAGS,
        *,
        brokers: int = 1,
        extra: str = "",
        authorizes: bool = False,
        certificate: Path | None = None,
        log_dirs: Sequence[Path] = (),
    ) -> None:
        self._jars = jars
        # Each node's log.dirs, which are kept; formatted unless they have a cluster.  Temporary by default.
        self._log_dirs = log_dirs
        self._brokers = brokers
        if authorizes:
            extra = AUTHORIZED.format(user=SASL_USER) + extra
        # A PEM file with key (PKCS 8) and chain: then there is a listener with TLS, too.
        self._has_tls = certificate is not None
        if certificate is not None:
            extra = ENCRYPTED.format(certificate=certificate) + extra
        # More lines of properties, with "{node}" for the broker's id and "{controller_port}"; the last one of
        # a name counts.
        self._extra = extra
        self._flags = flags
        self._folder = Path(tempfile.mkdtemp(prefix="pykafka2-real-kafka-"))
        self._log_file = self._folder / "server.log"
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: list[int] = []
        self._sasl_ports: list[int] = []
        self._tls_ports: list[int] = []
        self._ready = False

    def start(self) -> Self:
        """Start the server in the background, unless it runs already."""
        with self._lock:
            if self._process is None:
                self._spawn()
        return self

    @property
    def bootstrap_servers(self) -> str:
        """Start it, wait until it serves, and return its address. Raise KafkaUnavailable with its log."""
        with self._lock:
            for _ in range(START_ATTEMPTS):
                if self._ready:
                    break
                if self._process is None:
                    self._spawn()
                self._ready = self._is_ready_within(START_TIMEOUT)
                if not self._ready:
                    # A port may have been taken after it was found free: the next start has others.
                    self._stop()
            else:
                raise KafkaUnavailable(f"Apache Kafka did not start:\n{self.log()}")
        return ",".join(self.addresses)

    @property
    def addresses(self) -> list[str]:
        """Each broker's address, by id; of one that serves."""
        return [f"127.0.0.1:{port}" for port in self._ports]

    @property
    def sasl_addresses(self) -> list[str]:
        """Address of each broker that requires authentication, with SASL and without TLS."""
        return [f"127.0.0.1:{port}" for port in self._sasl_ports]

    @property
    def tls_addresses(self) -> list[str]:
        """Address of each broker with TLS; none without a certificate."""
        return [f"127.0.0.1:{port}" for port in self._tls_ports]

    def log(self) -> str:
        """The server's complaints so far."""
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    def segment(self, topic: str, partition: int) -> Path:
        """The file with the partition's first records, as Kafka keeps it."""
        return self.log_folder(topic, partition) / f"{0:020}.log"

    def log_folder(self, topic: str, partition: int) -> Path:
        """The folder of one replica of the partition."""
        return next(self._folder.glob(f"nodes-*/data-*/{topic}-{partition}"))

    def close(self) -> None:
        """Kill the server and remove its data; safe to call twice."""
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _kill(process)

    def _spawn(self) -> None:
        count = self._brokers
        *ports, controller_port = free_ports((3 if self._has_tls else 2) * count + 1)
        self._ports, self._sasl_ports, self._tls_ports = (
            ports[:count],
            ports[count : 2 * count],
            ports[2 * count :],
        )
        folder = Path(tempfile.mkdtemp(prefix="nodes-", dir=self._folder))
        settings = [
            _settings_of(
                node,
                self._listeners_of(node),
                controller_port,
                folder.with_suffix(f".{node}.properties"),
                self._log_dirs[node] if self._log_dirs else folder / f"data-{node}",
                count,
                self._extra,
            )
            for node in range(count)
        ]
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._jars.java("RealKafka", *settings, flags=self._flags),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours to handle: the pipe's end reaches it
            )

    def _listeners_of(self, node: int) -> str:
        names = {"PLAINTEXT": self._ports, "SASL_PLAINTEXT": self._sasl_ports, "SSL": self._tls_ports}
        return ",".join(f"{name}://127.0.0.1:{ports[node]}" for name, ports in names.items() if ports)

    def _is_ready_within(self, timeout: float) -> bool:
        assert self._process is not None
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], timeout)
        return bool(readable) and self._process.stdout.readline() == b"READY\n"


def _settings_of(
    node: int,
    listeners: str,
    controller_port: int,
    settings: Path,
    log_dir: Path,
    brokers: int,
    extra: str,
) -> str:
    """Write a node's properties; the file's name.  The first node is the controller, too."""
    controller = f"CONTROLLER://127.0.0.1:{controller_port}"
    quick = "".join(f"{name}={value}\n" for name, value in QUICK_GROUPS.items())
    text = quick + PROPERTIES.format(
        roles="broker" if node else "broker,controller",
        listeners=listeners if node else f"{listeners},{controller}",
        advertised=listeners,
        node=node,
        max_reauth_ms=MAX_REAUTH_MS,
        security="org.apache.kafka.common.security",
        user=SASL_USER,
        password=SASL_PASSWORD,
        restricted_user=RESTRICTED_USER,
        restricted_password=RESTRICTED_PASSWORD,
        controller_port=controller_port,
        log_dir=log_dir,
        replicas=min(3, brokers),
        min_isr=min(2, brokers),
    )
    # In the temporary folder: the JVM removes its settings' folder when its parent is gone.
    more = extra.replace("{node}", str(node)).replace("{controller_port}", str(controller_port))
    settings.write_text(text + more)
    return str(settings)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(timeout=STOP_TIMEOUT)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def main(arguments: list[str]) -> int:
    """Serve until Ctrl-C or SIGTERM; exit status 1 with a reason where Kafka cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.real_kafka", description=__doc__)
    parser.add_argument(
        "--topic", action="append", default=[], metavar="NAME:PARTITIONS", help="create this topic"
    )
    parser.add_argument("--heap", default="1g", help="the server's heap (default %(default)s)")
    options = parser.parse_args(arguments)

    def stop(signal_number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        jars = kafka_jars()
        # Benchmarks measure throughput: the JVM's own collector and compilers, as operators run it.
        with RealKafka(jars, flags=(f"-Xmx{options.heap}", f"-Xms{options.heap}")) as kafka:
            bootstrap_servers = kafka.bootstrap_servers
            _create_topics(jars, bootstrap_servers, options.topic)
            print(f"bootstrap.servers={bootstrap_servers}", flush=True)
            while True:
                time.sleep(3600)
    except KafkaUnavailable as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def _create_topics(jars: KafkaJars, bootstrap_servers: str, topics: list[str]) -> None:
    if not topics:
        return
    with Bridge(jars, Path(os.devnull)) as bridge:
        for topic in topics:
            name, _, partitions = topic.partition(":")
            item = {"bootstrap_servers": bootstrap_servers, "topic": name, "partitions": int(partitions or 1)}
            bridge("create_topic", [item])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
