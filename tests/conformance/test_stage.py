"""The stage's own machinery: runs without Java, and no Kafka that outlives its starter."""

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

import pytest

from .maven import REQUIRE, KafkaJars, KafkaUnavailable, kafka_jars, skip_or_fail

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
