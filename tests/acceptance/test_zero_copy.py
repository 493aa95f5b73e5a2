"""Zero copy: records on disk go from the page cache to the socket by `sendfile`; Python never has them.

The requests of any client are answered this way, from rolled segments and the active one; TLS gets bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.broker.log.file_system import held
from pykafka2.testing import KafkaCluster, Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import data_of, fetch_request, produce
from tests.broker.support.raw_client import RawClient

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems read the file")

BATCHES = 60
RECORDS = 50
VALUE_BYTES = 1000
PARTITIONS = 2
LARGE = 1 << 30
SEGMENT_BYTES = 1 << 20  # Kafka's minimum: three segments, of which one is active
CONFIGS = {"segment.bytes": SEGMENT_BYTES}
TOPICS = {"t": Topic(PARTITIONS, 1, CONFIGS)}


def value(partition: int, number: int) -> bytes:
    return b"%d-%d-" % (partition, number) + bytes(VALUE_BYTES)


def fill(wire: RawClient) -> None:
    for partition in range(PARTITIONS):
        for number in range(BATCHES):
            values = [value(partition, number * RECORDS + record) for record in range(RECORDS)]
            assert produce(wire, "t", partition, batch(values)).error_code == 0


def stored(folder: Path, partition: int = 0) -> bytes:
    """The records of all segments on disk."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob(f"broker-0/t-{partition}/*.log")))


def read_all(wire: RawClient, partition: int = 0) -> bytes:
    """Fetch a partition to its end: a fetch ends with its segment."""
    read, offset = b"", 0
    while offset < BATCHES * RECORDS:
        request = fetch_request("t", partition, offset, max_bytes=LARGE, partition_max_bytes=LARGE)
        records = bytes(data_of(wire.call(request, 12)).records or b"")
        read += records
        offset += RECORDS * (len(records) // len(batch([value(0, 0)] * RECORDS)))
    return read


class Sendfile:
    """Counts the bytes of `os.sendfile` and of what the brokers' connections write besides."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        from pykafka2.network.tcp import SendfileTransport

        self.sent = self.written = 0
        sendfile, write, before_file = (
            os.sendfile,
            SendfileTransport.write,
            SendfileTransport.write_before_file,
        )

        def count_sent(*arguments: int) -> int:
            taken = sendfile(*arguments)
            self.sent += taken
            return taken

        def count_written(transport: SendfileTransport, buffers: Any) -> int:
            taken = write(transport, buffers)
            self.written += taken
            return taken

        def count_before_file(transport: SendfileTransport, buffers: Any) -> int:
            taken = before_file(transport, buffers)
            self.written += taken
            return taken

        patch.setattr(os, "sendfile", count_sent)
        patch.setattr(SendfileTransport, "write_before_file", count_before_file)
        patch.setattr(SendfileTransport, "write", count_written)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(1, TOPICS, data_dir=tmp_path) as cluster:
        with RawClient(cluster.bootstrap_servers) as wire:
            fill(wire)
        yield cluster
    assert len(held) == 0


def test_bytes_of_a_fetch_are_those_of_the_files(
    cluster: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len([*tmp_path.glob("broker-0/t-0/*.log")]) == 3
    counted = Sendfile(monkeypatch)
    with RawClient(cluster.bootstrap_servers) as wire:
        for partition in range(PARTITIONS):
            assert read_all(wire, partition) == stored(tmp_path, partition)
    assert counted.sent == len(stored(tmp_path, 0)) + len(stored(tmp_path, 1))
    assert 0 < counted.written < counted.sent / 1000


def by_pykafka2(servers: str) -> set[bytes]:
    partitions = [TopicPartition("t", number) for number in range(PARTITIONS)]
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        return _until_complete(
            lambda: [one.value for records in consumer.poll(timeout_ms=1000).values() for one in records]
        )


def by_kafka_python(servers: str) -> set[bytes]:
    kafka = pytest.importorskip("kafka")
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", check_crcs=True)
    consumer.assign([kafka.TopicPartition("t", number) for number in range(PARTITIONS)])
    try:
        return _until_complete(
            lambda: [one.value for records in consumer.poll(timeout_ms=1000).values() for one in records]
        )
    finally:
        consumer.close()


def by_confluent_kafka(servers: str) -> set[bytes]:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "check.crcs": True, "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition("t", number, 0) for number in range(PARTITIONS)])
    try:
        return _until_complete(lambda: [one.value() for one in consumer.consume(1000, 1.0)])
    finally:
        consumer.close()


def _until_complete(poll: Callable[[], list[bytes]]) -> set[bytes]:
    read: set[bytes] = set()
    until = time.monotonic() + 30
    while len(read) < PARTITIONS * BATCHES * RECORDS and time.monotonic() < until:
        read.update(poll())
    return read


@pytest.mark.gate
@pytest.mark.parametrize("read", [by_pykafka2, by_kafka_python, by_confluent_kafka])
def test_any_client_reads_records_that_are_sent_from_the_files(
    read: Callable[[str], set[bytes]], cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Sendfile(monkeypatch)
    assert read(cluster.bootstrap_servers) == {
        value(partition, number) for partition in range(PARTITIONS) for number in range(BATCHES * RECORDS)
    }
    assert counted.sent > PARTITIONS * BATCHES * RECORDS * VALUE_BYTES


@pytest.mark.gate
def test_tls_gets_the_same_bytes_without_sendfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ssl

    with KafkaCluster(1, TOPICS, data_dir=tmp_path, tls=True) as cluster:
        tls = ssl.create_default_context(cafile=cluster.ca_file)
        with RawClient(cluster.bootstrap_servers, tls=tls) as wire:
            fill(wire)
            counted = Sendfile(monkeypatch)
            assert read_all(wire) == stored(tmp_path)
    assert counted.sent == 0


BROKER = """
import sys
from pykafka2.testing import KafkaCluster
with KafkaCluster(1, data_dir=sys.argv[1]) as cluster:
    print(cluster.bootstrap_servers, flush=True)
    sys.stdin.read()
"""
CALL = re.compile(r"(\w+)\((\d+)<([^>]*)>(?:, (\d+)<([^>]*)>)?.* = (\d+)(?: .*)?$")


@pytest.mark.gate
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_system_calls_of_a_broker_copy_no_record(tmp_path: Path) -> None:
    """The broker's process runs under strace, with records that another one has written."""
    folder, trace = tmp_path / "data", tmp_path / "trace"
    with KafkaCluster(1, TOPICS, data_dir=folder) as cluster, RawClient(cluster.bootstrap_servers) as wire:
        fill(wire)
    calls = "trace=sendfile,read,pread64,readv,preadv,mmap,write,sendto,sendmsg,writev,splice"
    command = ["strace", "-f", "-y", "-e", calls, "-o", str(trace), sys.executable, "-c", BROKER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        address = broker.stdout.readline().strip()
        if not address:
            pytest.skip("strace cannot trace processes here")
        with RawClient(address) as wire:
            read = [read_all(wire, partition) for partition in range(PARTITIONS)]
        broker.communicate(timeout=30)
    assert read == [stored(folder, partition) for partition in range(PARTITIONS)]
    from_segments: Counter[str] = Counter()
    to_sockets: Counter[str] = Counter()
    for line in trace.read_text(errors="replace").splitlines():
        found = CALL.search(line)
        if found is None:
            continue
        call, _, first, _, second, count = found.groups()
        if call == "sendfile":
            assert second.endswith(".log")
        if first.endswith(".log"):
            from_segments[call] += int(count)
        elif "socket" in first or "TCP" in first:
            to_sockets[call] += int(count)
    total = sum(map(len, read))
    assert to_sockets["sendfile"] == total
    assert to_sockets.total() - total < total / 100  # headers, and the answers to ApiVersions and Metadata
    assert from_segments.total() < total / 10  # headers of batches
