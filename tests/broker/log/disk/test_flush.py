"""When logs on disk are flushed, and what a crash of a machine loses."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka2 import KafkaProducer
from pykafka2.testing import KafkaCluster, Topic

KEY = ("orders", 0)
ALONE: dict[str, object] = {"log.retention.check.interval.ms": 3_600_000}


def produced(cluster: KafkaCluster, count: int) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number).result(timeout=30)


def recovery_point(cluster: KafkaCluster) -> int:
    return cluster.broker(0).replicas.log_of(KEY).recovery_point


def killed(cluster: KafkaCluster, *, keep_unflushed: bool = False) -> list[bytes]:
    """Kill and restarts the broker. Return the values that its log has afterwards."""
    cluster.controls.kill_broker(0, keep_unflushed=keep_unflushed)
    cluster.controls.restart_broker(0)
    cluster.wait_until(lambda: cluster.partition(*KEY).leader == 0)
    return [record.value or b"" for record in cluster.log(*KEY).records()]


def test_kill_loses_exactly_the_records_after_the_recovery_point(tmp_path: Path) -> None:
    with KafkaCluster(1, {"orders": 1}, data_dir=tmp_path) as cluster:
        produced(cluster, 3)
        assert recovery_point(cluster) == 0
        assert killed(cluster, keep_unflushed=True) == [b"0", b"1", b"2"]
        cluster.controls.flush_logs(KEY)
        assert recovery_point(cluster) == 3
        produced(cluster, 2)
        assert killed(cluster) == [b"0", b"1", b"2"]


def test_rolled_segment_is_flushed_in_the_background(tmp_path: Path) -> None:
    with KafkaCluster(1, {"orders": 1}, data_dir=tmp_path) as cluster:
        produced(cluster, 2)
        cluster.controls.roll_segments(KEY)
        cluster.wait_until(lambda: recovery_point(cluster) == 2)
        produced(cluster, 1)
        assert killed(cluster) == [b"0", b"1"]


@pytest.mark.parametrize(
    ("broker", "topic"), [({"log.flush.interval.messages": 2}, {}), ({}, {"flush.messages": 2})]
)
def test_flush_messages_of_broker_or_topic_flushes_after_so_many_records(
    tmp_path: Path, broker: dict[str, object], topic: dict[str, object]
) -> None:
    topics = {"orders": Topic(1, configs=topic)}
    with KafkaCluster(1, topics, data_dir=tmp_path, config=broker) as cluster:
        produced(cluster, 5)
        assert recovery_point(cluster) == 4
        assert killed(cluster) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(("broker", "topic"), [({"log.flush.interval.ms": 50}, {}), ({}, {"flush.ms": 50})])
def test_flush_ms_of_broker_or_topic_flushes_after_that_time(
    tmp_path: Path, broker: dict[str, object], topic: dict[str, object]
) -> None:
    topics = {"orders": Topic(1, configs=topic)}
    with KafkaCluster(1, topics, data_dir=tmp_path, config=broker) as cluster:
        produced(cluster, 2)
        cluster.wait_until(lambda: recovery_point(cluster) == 2)
        assert killed(cluster) == [b"0", b"1"]


def test_clean_stop_flushes_and_a_restart_needs_no_recovery(tmp_path: Path) -> None:
    with KafkaCluster(1, {"orders": 1}, data_dir=tmp_path) as cluster:
        produced(cluster, 2)
    assert (tmp_path / "broker-0/.kafka_cleanshutdown").exists()
    with KafkaCluster(1, {"orders": 1}, data_dir=tmp_path) as cluster:
        assert recovery_point(cluster) == 2
        assert [one.value for one in cluster.log(*KEY).records()] == [b"0", b"1"]


def test_flushed_record_in_memory_survives_a_kill_although_it_is_not_replicated() -> None:
    with KafkaCluster(2, {"orders": Topic(1, 2)}) as cluster:
        cluster.controls.pause_followers(KEY)
        leader = cluster.partition(*KEY).leader
        with KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, acks=1, enable_idempotence=False
        ) as producer:
            producer.send("orders", b"flushed").result(timeout=30)
            cluster.controls.flush_logs(KEY)
            producer.send("orders", b"not flushed").result(timeout=30)
        log = cluster.broker(leader).replicas.log_of(KEY)
        cluster.controls.kill_broker(leader)
        assert (log.high_watermark, log.log_end_offset) == (0, 1)
