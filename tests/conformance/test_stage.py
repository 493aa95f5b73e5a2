"""The stage's own machinery: runs without Java, taken ports, and no Kafka that outlives its starter."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.ports import free_ports

from . import real_kafka
from .maven import REQUIRE, KafkaJars, KafkaUnavailable, kafka_jars, skip_or_fail
from .real_kafka import RealKafka

ROOT = Path(__file__).parents[2]


def test_machine_without_java_or_maven_gets_a_list_of_missing_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(KafkaUnavailable, match="no java, javac, mvn on PATH"):
        kafka_jars.__wrapped__()


def test_missing_kafka_skips_loudly_or_fails_if_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REQUIRE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="!!! NOT CHECKED AGAINST APACHE KAFKA: no Java"):
        skip_or_fail("no Java")
    monkeypatch.setenv(REQUIRE, "1")
    with pytest.raises(pytest.fail.Exception, match="no Java"):
        skip_or_fail("no Java")


class StuckJava:
    """Stands for the jars: the first of its servers neither gets ready nor ends, the second one is ready."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._scripts = iter([("echo stuck >&2; cat", 1.0), ("echo READY; cat", 60.0)])

    def java(self, main: str, *arguments: str, flags: tuple[str, ...]) -> list[str]:
        script, patience = next(self._scripts)
        self._monkeypatch.setattr(real_kafka, "START_TIMEOUT", patience)
        return ["sh", "-c", script]


def test_a_server_that_does_not_get_ready_is_replaced_by_one_with_other_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with RealKafka(cast(KafkaJars, StuckJava(monkeypatch)), brokers=2).start() as kafka:
        refused = kafka.addresses
        started = kafka.bootstrap_servers.split(",")
        assert started == kafka.addresses
        assert not set(started) & set(refused)


@pytest.mark.long
def test_kafka_starts_again_on_other_ports_if_one_of_two_nodes_cannot_listen(
    jars: KafkaJars, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = listening.getsockname()[1]
        first = free_ports(5)
        first[1] = taken  # the second node's: the first one has started and keeps the JVM running
        choices = iter([first])
        monkeypatch.setattr(real_kafka, "free_ports", lambda count: next(choices, None) or free_ports(count))
        with RealKafka(jars, brokers=2) as kafka:
            started = kafka.bootstrap_servers
            assert f"127.0.0.1:{taken}: Address already in use" in kafka.log()
            assert str(taken) not in started


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGKILL, -9)], ids=str)
def test_the_script_serves_and_leaves_nothing_behind(
    jars: KafkaJars, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    with script(tmp_path, "--topic", "bench:3", "--heap", "256m") as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.startswith("bootstrap.servers=127.0.0.1:")
        port = int(line.rpartition(":")[2])
        assert is_open(port)
        process.send_signal(number)
        assert process.wait(timeout=20) == status
        deadline = time.monotonic() + 10
        while is_open(port) or any(tmp_path.iterdir()):
            assert time.monotonic() < deadline, "Kafka, or its data, outlives its parent"
            time.sleep(0.05)


@contextmanager
def script(temporary: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.conformance.real_kafka", *arguments]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
