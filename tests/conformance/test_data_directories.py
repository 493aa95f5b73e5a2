"""Data directories with every kind of log: written by Apache Kafka and opened by ours, and the other way."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pykafka2.testing import KafkaCluster

from .brokers import eventually
from .log_contents import contents, is_cleaned, write_everything
from .maven import KafkaJars
from .real_kafka import RealKafka

CLEANS = "log.initial.task.delay.ms=500\nlog.cleaner.backoff.ms=200\n"
CONFIG = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.backoff.ms": 3_600_000,  # what is compared must not change meanwhile
}
DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")

pytestmark = pytest.mark.slow


def log_dirs(folder: Path) -> list[Path]:
    return [folder / f"broker-{number}" for number in (0, 1)]


def compared(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compare topic by topic, so that a failure shows the one that differs."""
    assert set(found) == set(expected)
    for name in expected:
        if not isinstance(expected[name], dict):
            assert found[name] == expected[name], name
            continue
        for aspect, value in expected[name].items():
            assert found[name][aspect] == value, (name, aspect)


def test_logs_of_apache_kafka_have_the_same_contents_in_ours(jars: KafkaJars, tmp_path: Path) -> None:
    with RealKafka(jars, brokers=2, log_dirs=log_dirs(tmp_path), extra=CLEANS) as apache:
        write_everything(apache.bootstrap_servers)
        eventually(lambda: is_cleaned(apache.bootstrap_servers), "Apache Kafka did not compact the topic")
        expected = contents(apache.bootstrap_servers)
    for _ in range(2):
        with KafkaCluster(2, config=CONFIG, data_dir=tmp_path) as cluster:
            compared(contents(cluster.bootstrap_servers), expected)


def test_logs_of_ours_have_the_same_contents_in_apache_kafka(jars: KafkaJars, tmp_path: Path) -> None:
    with KafkaCluster(2, config=CONFIG, data_dir=tmp_path) as cluster:
        write_everything(cluster.bootstrap_servers)
        cluster.controls.compact("compacted")
        assert is_cleaned(cluster.bootstrap_servers)
        expected = contents(cluster.bootstrap_servers)
    dump_all(jars, tmp_path)
    with RealKafka(jars, brokers=2, log_dirs=log_dirs(tmp_path)) as apache:
        compared(contents(apache.bootstrap_servers), expected)
        complaints = [line for line in apache.log().splitlines() if "ERROR" in line or "orrupt" in line]
        # The controller also complains of a slow machine.
        assert [line for line in complaints if "EventPerformanceMonitor" not in line] == []
    with KafkaCluster(2, config=CONFIG, data_dir=tmp_path) as cluster:
        compared(contents(cluster.bootstrap_servers), expected)


def dump_all(jars: KafkaJars, folder: Path) -> None:
    """Have `kafka-dump-log` read all files of all logs; it reports mismatches of indexes and segments."""
    files = [
        path
        for path in sorted(folder.glob("broker-*/*-*/*"))
        if path.suffix in DUMPED and "__cluster_metadata" not in str(path)
    ]
    assert {path.suffix for path in files} == set(DUMPED)
    command = [
        *jars.java("org.apache.kafka.tools.DumpLogSegments"),
        *("--deep-iteration", "--files", ",".join(map(str, files))),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    # It also reports each first offset that is not 0, and those that compaction has removed.
    known = re.compile(r"Non-consecutive offsets in .*|  -1 is followed by \d+|  \d+ is followed by \d+")
    lines = done.stderr.splitlines()
    assert [line for line in lines if not known.fullmatch(line)] == []
    gaps = [line for line in lines if line.startswith("Non-consecutive") and "compacted" not in line]
    assert all(int(Path(line.split()[-1]).stem) for line in gaps)
    assert "isvalid: false" not in done.stdout
