"""The log on disk: segments with indexes, retention, deletion, restarts, and kill -9 under load."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.broker.log.disk.log_directory import on_disk
from pykafka2.broker.log.disk.segment_file import DiskSegment
from pykafka2.errors import ConfigurationError, KafkaStorageError
from pykafka2.structs import TopicPartitionReplica
from pykafka2.testing import KafkaCluster, Topic
from tests.fork_server import Command
from tests.ports import free_ports

KEY = ("orders", 0)
PARTITION = TopicPartition(*KEY)
SMALL = Topic(1, configs={"segment.bytes": 1 << 20, "retention.ms": -1})
QUICK: dict[str, object] = {"group.initial.rebalance.delay.ms": 0, "log.segment.delete.delay.ms": 100}


SOON: dict[str, object] = {"replica.high.watermark.checkpoint.interval.ms": 200}
"""Renamed files are planned for removal with the next checkpoint, every five seconds by default."""


def cluster_on(path: Path, topic: Topic = SMALL, **options: object) -> KafkaCluster:
    return KafkaCluster(1, {"orders": topic}, data_dir=path, config={**QUICK, **options})


def fill(cluster: KafkaCluster, count: int, *, first: int = 0, size: int = 1000) -> None:
    """Send values that start with their numbers, with timestamps of 1000 times those."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, batch_size=16_000) as producer:
        for number in range(first, first + count):
            value = (b"%d " % number).ljust(size, b"x")
            producer.send("orders", value, timestamp_ms=NOW + number * 1000)


NOW = int(time.time() * 1000) - 10_000_000
"""A time some hours ago: brokers forget producers that have sent no record for a day."""


def numbers(cluster: KafkaCluster, isolation_level: str = "read_uncommitted") -> list[int]:
    """Read the whole topic. Return the numbers that its values start with."""
    with KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level=isolation_level
    ) as consumer:
        consumer.assign([PARTITION])
        consumer.seek_to_beginning(PARTITION)
        end = consumer.end_offsets([PARTITION])[PARTITION]
        found: list[int] = []
        while consumer.position(PARTITION) < end:
            for records in consumer.poll(1000).values():
                found += [int((record.value or b"").split(b" ")[0]) for record in records]
        return found


def segments(cluster: KafkaCluster) -> list[DiskSegment]:
    return on_disk(cluster.broker(0).replicas.log_of(KEY).segments)


def log_path(path: Path) -> Path:
    return path / "broker-0/orders-0"


def check_indexes(segment: DiskSegment) -> None:
    """Check that every entry points at a batch of the segment."""
    batches, position = {}, 0
    for batch in segment.iterate():
        batches[position] = batch
        position += batch.size_bytes
    assert position == segment.size_bytes
    for number in range(segment.offsets.count):
        offset, at = segment.offsets.entry(number)
        assert batches[at].last_offset == segment.base_offset + offset
    for number in range(segment.times.count):
        timestamp, offset = segment.times.entry(number)
        holder = next(one for one in batches.values() if one.last_offset == segment.base_offset + offset)
        assert holder.max_timestamp == timestamp


@pytest.mark.gate
def test_segments_have_sparse_indexes_that_find_offsets_and_times(tmp_path: Path) -> None:
    with cluster_on(tmp_path) as cluster:
        fill(cluster, 3000)
        held = segments(cluster)
        assert len(held) == 3
        for segment in held:
            check_indexes(segment)
            assert 10 < segment.offsets.count < segment.size_bytes / 4096
        names = {one.name for one in log_path(tmp_path).iterdir()}
        for segment in held:
            assert {f"{segment.base_offset:020d}{kind}" for kind in (".log", ".index", ".timeindex")} <= names
        with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
            for number in (0, 1, 1234, 2999):
                found = consumer.offsets_for_times({PARTITION: NOW + number * 1000})[PARTITION]
                assert found is not None
                assert (found.offset, found.timestamp) == (number, NOW + number * 1000)
            consumer.assign([PARTITION])
            consumer.seek(PARTITION, 1777)
            [records] = consumer.poll(10_000, max_records=1).values()
            assert (records[0].value or b"").startswith(b"1777 ")


@pytest.mark.gate
def test_retention_moves_the_log_start_and_removes_the_files(tmp_path: Path) -> None:
    topic = Topic(1, configs={**SMALL.configs, "retention.bytes": 1 << 20})
    with cluster_on(tmp_path, topic, **SOON) as cluster:
        fill(cluster, 3000)
        bases = [segment.base_offset for segment in segments(cluster)]
        deleted = cluster.controls.apply_retention(KEY)
        assert 1 <= deleted < len(bases)
        assert cluster.log(*KEY).log_start_offset == bases[deleted]
        cluster.wait_until(lambda: not list(log_path(tmp_path).glob("*.deleted")))
        assert sorted(int(one.stem) for one in log_path(tmp_path).glob("*.log")) == bases[deleted:]
    with cluster_on(tmp_path) as cluster:
        assert cluster.log(*KEY).log_start_offset == bases[deleted]
        assert numbers(cluster) == list(range(bases[deleted], 3000))


def test_deleted_topic_is_renamed_at_once_and_removed_later(tmp_path: Path) -> None:
    with cluster_on(tmp_path, **SOON) as cluster:
        fill(cluster, 10)
        cluster.delete_topic("orders")
        cluster.wait_until(lambda: not log_path(tmp_path).exists())
        cluster.create_topic("orders")
        assert numbers(cluster) == []
        cluster.wait_until(lambda: not list((tmp_path / "broker-0").glob("*-delete")), 20)
    assert not list((tmp_path / "broker-0").glob("*-delete"))


@pytest.mark.gate
def test_restart_keeps_records_offsets_transactions_and_idempotence(tmp_path: Path) -> None:
    with cluster_on(tmp_path) as cluster:
        fill(cluster, 5)
        servers = cluster.bootstrap_servers
        with KafkaProducer(bootstrap_servers=servers, transactional_id="t") as producer:
            producer.init_transactions()
            for number, commits in ((5, True), (6, False), (7, True)):
                producer.begin_transaction()
                producer.send("orders", b"%d " % number)
                producer.flush()
                if commits:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        log = cluster.broker(0).replicas.log_of(KEY)
        # All markers are written, and the coordinator does not write them again after the restart.
        cluster.wait_until(lambda: log.last_stable_offset == log.log_end_offset)
        cluster.wait_until(lambda: not cluster.transaction("t").is_open)
        before = cluster.log(*KEY)
        states = sorted(log.producers, key=lambda one: one.producer_id)
    with cluster_on(tmp_path) as cluster:
        after = cluster.log(*KEY)
        assert [bytes(one.buffer) for one in after.batches()] == [
            bytes(one.buffer) for one in before.batches()
        ]
        assert after._aborted == before._aborted
        assert len(after._aborted) == 1
        again = sorted(cluster.broker(0).replicas.log_of(KEY).producers, key=lambda one: one.producer_id)
        assert [(one.producer_id, one.epoch, one.last_sequence) for one in again] == [
            (one.producer_id, one.epoch, one.last_sequence) for one in states
        ]
        assert numbers(cluster, "read_committed") == [0, 1, 2, 3, 4, 5, 7]


@pytest.mark.gate
@pytest.mark.parametrize(
    "damaged", ["torn tail", "corrupt tail", "no index", "corrupt index", "no time index", "corrupt snapshot"]
)
def test_damage_after_a_crash_is_repaired(tmp_path: Path, damaged: str) -> None:
    with cluster_on(tmp_path) as cluster:
        fill(cluster, 2500)
        sizes = [segment.log.size() for segment in segments(cluster)]
    (tmp_path / "broker-0/.kafka_cleanshutdown").unlink()
    (tmp_path / "broker-0/recovery-point-offset-checkpoint").unlink()
    files = sorted(log_path(tmp_path).glob("*.log"))
    lost = 0
    if damaged == "torn tail":
        with files[-1].open("r+b") as file:
            file.truncate(sizes[-1] - 5)
        lost = 1
    elif damaged == "corrupt tail":
        with files[-1].open("r+b") as file:
            file.seek(-5, 2)
            file.write(b"?????")
        lost = 1
    elif damaged == "no index":
        files[0].with_suffix(".index").unlink()
    elif damaged == "corrupt index":
        files[0].with_suffix(".index").write_bytes(b"\x7f" * 80)
    elif damaged == "no time index":
        files[0].with_suffix(".timeindex").unlink()
    else:
        for snapshot in log_path(tmp_path).glob("*.snapshot"):
            snapshot.write_bytes(b"\0" * 20)
    with cluster_on(tmp_path) as cluster:
        for segment in segments(cluster):
            check_indexes(segment)
        found = numbers(cluster)
        assert found == list(range(len(found)))
        assert (len(found) < 2500) == bool(lost)
        assert len(found) > 2400
        fill(cluster, 3, first=len(found))
        assert numbers(cluster) == list(range(len(found) + 3))


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("meta.properties", "version=1\ncluster.id=another\nnode.id=0\n", "metadata|cluster"),
        ("meta.properties", "version=9\ncluster.id=c\nnode.id=0\n", "version 9 is not 1"),
    ],
)
def test_foreign_or_newer_directory_is_refused_and_left_as_it_is(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    with KafkaCluster(2, {"orders": 1}, data_dir=tmp_path):
        pass
    (tmp_path / "broker-1" / name).write_text(text)
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigurationError, match=reason) as caught, KafkaCluster(2, data_dir=tmp_path):
        pass
    assert str(tmp_path / "broker-1") in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == files


def test_directory_in_use_is_refused(tmp_path: Path) -> None:
    with (
        KafkaCluster(1, data_dir=tmp_path),
        pytest.raises(ConfigurationError, match="another broker has locked its file"),
        KafkaCluster(1, data_dir=tmp_path),
    ):
        pass


# ---------------------------------------------------------------------- kill -9


HOST = "127.{}.{}.{}".format(*os.getpid().to_bytes(3, "big")) if sys.platform == "linux" else "127.0.0.1"
"""An address of this process alone: while the broker is down, no other test's broker gets its records."""


@contextmanager
def broker_process(path: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A broker of one's own in a process, killed at the end."""
    words = ["broker", "--brokers", "1", "--quick", "--host", HOST, "--port", str(port)]
    words += ["--data-dir", str(path), "--topic", "orders:1:1", "-c", "log.segment.bytes=1048576"]
    with Command(*words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"bootstrap.servers=")
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("seed", "kills"),
    [(1, 12), *(pytest.param(seed, 25, marks=pytest.mark.long) for seed in range(2, 11))],
)
def test_kill_9_under_load_loses_and_repeats_no_acknowledged_record(
    tmp_path: Path, seed: int, kills: int
) -> None:
    chosen = random.Random(seed)
    (port,) = free_ports(1, HOST)
    acknowledged: list[int] = []
    is_over = threading.Event()

    def produce() -> None:
        with KafkaProducer(
            bootstrap_servers=f"{HOST}:{port}",
            linger_ms=0,
            delivery_timeout_ms=300_000,
            request_timeout_ms=5000,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=100,
        ) as producer:
            number = 0
            while not is_over.is_set():
                sent = [producer.send("orders", b"%d " % (number + one), partition=0) for one in range(20)]
                for one in sent:
                    one.result(timeout=300)
                number += 20
                acknowledged.append(number)

    writer = threading.Thread(target=produce)
    for kill in range(kills + 1):
        with broker_process(tmp_path, port):
            if not kill:
                writer.start()
            count = len(acknowledged)
            while len(acknowledged) == count:
                assert writer.is_alive()
                is_over.wait(0.01)
            is_over.wait(chosen.random() * 0.3)
            if kill == kills:
                is_over.set()
                writer.join(300)
    with KafkaCluster(1, data_dir=tmp_path, config=QUICK) as cluster:
        found = numbers(cluster)
        assert found == list(range(acknowledged[-1]))
        for segment in segments(cluster):
            check_indexes(segment)


def test_closed_cluster_leaves_no_file_open(tmp_path: Path) -> None:
    with cluster_on(tmp_path / "warm") as cluster:
        fill(cluster, 10)
    before = len(os.listdir("/proc/self/fd"))
    with cluster_on(tmp_path / "data") as cluster:
        fill(cluster, 10)
        cluster.controls.kill_broker(0)
        cluster.controls.restart_broker(0)
        fill(cluster, 10)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.gate
def test_failed_directory_of_a_broker_costs_clients_no_record(tmp_path: Path) -> None:
    options = {**QUICK, "log.dirs": "a,b", "min.insync.replicas": 2}
    with KafkaCluster(3, {"orders": Topic(6, 3)}, data_dir=tmp_path, config=options) as cluster:
        parts = [TopicPartition("orders", number) for number in range(6)]

        def leaders() -> list[int]:
            return [cluster.partition("orders", number).leader for number in range(6)]

        def lost() -> list[int]:
            held = cluster.broker(1).replicas.replicas
            return [
                number
                for number in range(6)
                if held["orders", number].log.files.volume.path.endswith("a")  # type: ignore[attr-defined]
            ]

        with (
            KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer,
            KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer,
            KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        ):
            consumer.assign(parts)
            consumer.seek_to_beginning(*parts)
            for number in range(40):
                producer.send("orders", b"%d" % number, partition=number % 6).result(30)
            assert any(leaders()[number] == 1 for number in lost())
            (tmp_path / "broker-1/a").rename(tmp_path / "unplugged")  # its open files can still be written
            with suppress(KafkaStorageError):
                cluster.controls.roll_segments()
            for number in range(40, 80):
                producer.send("orders", b"%d" % number, partition=number % 6).result(30)
            found: list[int] = []
            while len(found) < 80:
                for records in consumer.poll(1000).values():
                    found += [int(record.value or b"") for record in records]
            assert sorted(found) == list(range(80))
            assert all(leaders()[number] not in (1, -1) for number in lost())
            assert 1 in leaders()
            [failed, healthy] = admin.describe_log_dirs([1])[1].values()
            assert isinstance(failed.error, KafkaStorageError)
            assert not failed.replicas
            assert healthy.replicas
        assert not cluster.controller.image.brokers[1].is_fenced
        cluster.controls.crash_broker(1, lose_unreplicated=False)
        (tmp_path / "unplugged").rename(tmp_path / "broker-1/a")
        cluster.controls.restart_broker(1)
        cluster.wait_until(
            lambda: all(set(cluster.partition("orders", number).isr) == {0, 1, 2} for number in range(6)), 30
        )
        cluster.wait_until(
            lambda: (
                [cluster.log("orders", number, 1).values() for number in range(6)]
                == [cluster.log("orders", number).values() for number in range(6)]
            )
        )


@pytest.mark.gate
def test_replica_moves_between_the_directories_of_its_broker(tmp_path: Path) -> None:
    options = {**QUICK, **SOON, "log.dirs": "a,b"}
    with KafkaCluster(1, {"orders": 2}, data_dir=tmp_path, config=options) as cluster:
        fill(cluster, 20)
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            paths = list(admin.describe_log_dirs()[0])
            assert paths == [f"{tmp_path}/broker-0/{name}" for name in "ab"]
            held = [cluster.log("orders", number).values() for number in range(2)]
            for number in range(2):
                admin.alter_replica_log_dirs({TopicPartitionReplica("orders", number, 0): paths[1]})
            cluster.wait_until(
                lambda: {"orders-0", "orders-1"} <= {one.name for one in Path(paths[1]).iterdir()}
            )
            cluster.wait_until(lambda: not list(Path(paths[0]).glob("orders-*")))
            for path in paths:  # there and back
                admin.alter_replica_log_dirs({TopicPartitionReplica("orders", 0, 0): path})
                cluster.wait_until(lambda at=path: (Path(at) / "orders-0").exists())
    with KafkaCluster(1, data_dir=tmp_path, config=options) as cluster:
        assert [cluster.log("orders", number).values() for number in range(2)] == held
    (tmp_path / "broker-0/a").rename(tmp_path / "unmounted")
    with (
        pytest.raises(ConfigurationError, match=r"/a cannot be used: it does not exist.*Mount the disk"),
        KafkaCluster(1, data_dir=tmp_path, config=options),
    ):
        pass
