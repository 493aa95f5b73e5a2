"""Fetches from segments in files over real sockets: sent by sendfile, and equal to the file."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pykafka2 import KafkaProducer
from pykafka2.broker.log import file_system as held_files
from pykafka2.broker.log.file_system import held
from pykafka2.broker.server import threads
from pykafka2.broker.server.channel import MAX_FILE_BYTES, MAX_SHARED_FILE_BYTES
from pykafka2.broker.server.connection import Connection
from pykafka2.network.tcp import SendfileTransport, TcpTransport
from pykafka2.network.transport import Buffer
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.messages.fetch import FetchRequest, FetchTopic
from pykafka2.testing import KafkaCluster, Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import data_of, fetch, fetch_request, produce
from tests.broker.support.raw_client import RawClient

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems read the file")

RECORD_BYTES = 100_000
BATCHES = 60
LARGE = 1 << 30


class Sent:
    """Counts what is sent through Python and what by sendfile."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.by_sendfile = 0
        self.by_write = 0
        self.most_at_once = 0
        self.is_counting = True
        sendfile, write = os.sendfile, TcpTransport.write

        def counted_sendfile(out: int, file: int, offset: int, count: int) -> int:
            taken = sendfile(out, file, offset, count)
            self.by_sendfile += taken
            self.most_at_once = max(self.most_at_once, taken)
            return taken

        def counted_write(transport: TcpTransport, buffers: Sequence[Buffer]) -> int:
            taken = write(transport, buffers)
            self.by_write += taken
            return taken

        patch.setattr(os, "sendfile", counted_sendfile)
        before_file = SendfileTransport.write_before_file

        def counted_before_file(transport: SendfileTransport, buffers: Sequence[Buffer]) -> int:
            taken = before_file(transport, buffers)
            self.by_write += taken
            return taken

        patch.setattr(TcpTransport, "write", counted_write)
        patch.setattr(SendfileTransport, "write_before_file", counted_before_file)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=1, topics={"t": 2}, data_dir=tmp_path) as cluster:
        yield cluster
    assert len(held) == 0


@pytest.fixture
def wire(cluster: KafkaCluster) -> Iterator[RawClient]:
    with RawClient(cluster.bootstrap_servers) as wire:
        yield wire


def fill(wire: RawClient, partition: int = 0, batches: int = BATCHES) -> None:
    for number in range(batches):
        value = bytes([number % 251 + partition]) * RECORD_BYTES
        assert produce(wire, "t", partition, batch([value])).error_code == 0


def file_of(folder: Path, partition: int = 0, broker: int = 0) -> Path:
    """The file of a partition's only segment."""
    return folder / f"broker-{broker}" / f"t-{partition}" / "00000000000000000000.log"


def stored(folder: Path, partition: int = 0, broker: int = 0) -> bytes:
    return file_of(folder, partition, broker).read_bytes()


def everything(partition: int = 0, **options: int) -> FetchRequest:
    return fetch_request("t", partition, 0, max_bytes=LARGE, partition_max_bytes=LARGE, **options)


@pytest.mark.gate
def test_fetch_from_the_middle_returns_that_range_of_the_file(tmp_path: Path, wire: RawClient) -> None:
    fill(wire)
    data = stored(tmp_path)
    size = len(data) // BATCHES
    found = fetch(wire, "t", 0, 7, max_bytes=LARGE, partition_max_bytes=3 * size + 5)
    assert bytes(found.records or b"") == data[7 * size : 10 * size]


def test_first_batch_is_returned_if_it_is_larger_than_max_bytes(tmp_path: Path, wire: RawClient) -> None:
    fill(wire, batches=3)
    data = stored(tmp_path)
    assert (
        bytes(fetch(wire, "t", 0, 1, max_bytes=1).records or b"") == data[len(data) // 3 : 2 * len(data) // 3]
    )


def test_small_records_are_read_instead(wire: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert produce(wire, "t", 0, batch([b"small"])).error_code == 0
    sent = Sent(monkeypatch)
    assert len(fetch(wire, "t", 0, 0).records or b"") > 60
    assert sent.by_sendfile == 0


@pytest.mark.gate
def test_two_partitions_of_one_fetch_are_two_parts(
    tmp_path: Path, wire: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(wire, 0)
    fill(wire, 1)
    request = everything()
    request.topics = [
        FetchTopic(topic="t", partitions=[*request.topics[0].partitions, *everything(1).topics[0].partitions])
    ]
    sent = Sent(monkeypatch)
    partitions = wire.call(request, 12).responses[0].partitions
    assert [bytes(data.records or b"") for data in partitions] == [stored(tmp_path, 0), stored(tmp_path, 1)]
    assert sent.by_sendfile == len(stored(tmp_path, 0)) + len(stored(tmp_path, 1))


def narrow(cluster: KafkaCluster) -> RawClient:
    wire = RawClient(cluster.bootstrap_servers)
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    return wire


@pytest.mark.gate
def test_connections_that_read_slowly_get_everything_at_the_same_time(
    tmp_path: Path, cluster: KafkaCluster, wire: RawClient
) -> None:
    fill(wire)
    found: list[bytes] = []

    def read() -> None:
        with narrow(cluster) as slow:
            found.append(bytes(data_of(slow.call(everything(), 12)).records or b""))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [stored(tmp_path)] * 3


def waiting_fetch(cluster: KafkaCluster, slow: RawClient) -> Connection:
    """Send a fetch whose response does not fit into the socket's buffers."""
    slow.socket.sendall(b"".join(encode_request(everything(), 12, 1, "slow")))
    processor = cluster.brokers[0].processors[0]
    port = slow.socket.getsockname()[1]

    def connection() -> Connection | None:
        known = [one for one in processor.connections if one.peer.endswith(f":{port}")]
        return known[0] if known and known[0].pending_bytes else None

    assert cluster.runtime.wait_until(lambda: connection() is not None, 10)
    cluster.runtime.wait_until(lambda: False, 0.1)  # until its buffers are full
    found = connection()
    assert found is not None
    return found


@pytest.mark.parametrize("then", ["half_frame", "close_after"])
def test_fault_rule_sends_half_of_a_response_or_all_of_it_and_closes(
    then: str, tmp_path: Path, cluster: KafkaCluster, wire: RawClient
) -> None:
    fill(wire, batches=20)
    cluster.controls.rule(then=then, api="Fetch", nth=1)
    wire.send(everything(), 12)
    received = b""
    while data := wire.socket.recv(1 << 20):
        received += data
    size = int.from_bytes(received[:4], "big") + 4
    assert len(received) == (size if then == "close_after" else size // 2)
    assert stored(tmp_path)[: RECORD_BYTES * 5] in received


@pytest.mark.gate
def test_brokers_with_a_thread_for_each_part_send_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"threads": "separate", "num.network.threads": 2}
    cluster = KafkaCluster(brokers=1, topics={"t": 2}, data_dir=tmp_path, config=config)
    with cluster, RawClient(cluster.bootstrap_servers) as wire:
        fill(wire, batches=20)
        sent = Sent(monkeypatch)
        for _ in range(5):
            assert bytes(data_of(wire.call(everything(), 12)).records or b"") == stored(tmp_path)
    assert sent.by_sendfile == 5 * len(stored(tmp_path))
    assert not held


@pytest.mark.gate
def test_deleted_segment_is_still_sent(tmp_path: Path, cluster: KafkaCluster, wire: RawClient) -> None:
    fill(wire)
    data = stored(tmp_path)
    with narrow(cluster) as slow:
        assert waiting_fetch(cluster, slow).pending_bytes > 0
        assert len(held) == 1
        cluster.delete_topic("t")
        assert cluster.runtime.wait_until(lambda: not file_of(tmp_path).exists(), 10)
        for deleted in tmp_path.glob("broker-0/t-*-delete"):
            shutil.rmtree(deleted)
        _, response = slow.receive(FetchRequest, 12)
    assert bytes(data_of(response).records or b"") == data


@pytest.mark.gate
def test_truncated_file_closes_the_connection(
    tmp_path: Path, cluster: KafkaCluster, wire: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    fill(wire)
    with narrow(cluster) as slow:
        waiting_fetch(cluster, slow)
        os.truncate(file_of(tmp_path), 0)
        received = 0
        while data := slow.socket.recv(1 << 20):
            received += len(data)
    assert 0 < received < BATCHES * RECORD_BYTES
    assert "the file has become shorter" in caplog.text
    assert wire.call(fetch_request("t", 1, 0), 12).responses[0].partitions[0].error_code == 0


def test_file_is_released_when_the_client_disconnects(
    tmp_path: Path, cluster: KafkaCluster, wire: RawClient
) -> None:
    fill(wire)
    with narrow(cluster) as slow:
        connection = waiting_fetch(cluster, slow)
        assert len(held) == 1
    # The processor releases the file after it has closed the connection.
    assert cluster.runtime.wait_until(lambda: connection.is_closed and not held, 10)
    assert connection.pending_bytes == 0


@pytest.mark.gate
def test_file_is_sent_in_pieces_of_a_limited_size(
    cluster: KafkaCluster, wire: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(wire)
    sent = Sent(monkeypatch)
    wire.call(everything(), 12)
    assert 0 < sent.most_at_once <= MAX_FILE_BYTES


@pytest.mark.gate
def test_pieces_of_a_file_are_smaller_while_another_client_sends_requests(
    cluster: KafkaCluster, wire: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(wire)
    monkeypatch.setattr(threads, "ACTIVE_FOR", 600.0)
    with RawClient(cluster.bootstrap_servers) as other:
        other.call(fetch_request("t", 1, 0), 12)
        sent = Sent(monkeypatch)
        wire.call(everything(), 12)
    assert 0 < sent.most_at_once <= MAX_SHARED_FILE_BYTES


@pytest.mark.gate
def test_bytes_of_the_metrics_are_those_of_the_response(cluster: KafkaCluster, wire: RawClient) -> None:
    fill(wire)
    metrics = cluster.brokers[0].metrics
    wire.send(everything(), 12)
    size = len(wire.receive_frame()) + 4
    assert cluster.runtime.wait_until(lambda: metrics.api("Fetch").count == 1, 10)
    assert metrics.api("Fetch").bytes_out == size
    (entry,) = cluster.history.entries("Fetch")
    assert entry.size_bytes == metrics.api("Fetch").bytes_in
    assert entry.response is None


@pytest.mark.gate
def test_throttled_response_has_no_records_and_holds_no_file(cluster: KafkaCluster, wire: RawClient) -> None:
    fill(wire)
    cluster.controls.set_quota(client_id="wire", consumer_byte_rate=1_000_000)
    wire.call(everything(), 12)
    response = wire.call(everything(), 12)
    assert response.throttle_time_ms > 0
    assert response.responses == []
    assert len(held) == 0
    cluster.controls.clear_quotas()


@pytest.mark.gate
def test_fetch_above_the_largest_size_of_a_quota_is_cut(
    tmp_path: Path, cluster: KafkaCluster, wire: RawClient
) -> None:
    """A quota limits max_bytes to what it allows at once, so a file part ends there, at a batch."""
    fill(wire)
    cluster.controls.set_quota(client_id="wire", consumer_byte_rate=100_000)
    records = bytes(data_of(wire.call(everything(), 12)).records or b"")
    data = stored(tmp_path)
    assert 0 < len(records) <= 1_000_000
    assert records == data[: len(records)]
    cluster.controls.clear_quotas()


def test_follower_gets_the_bytes_of_the_leaders_file(tmp_path: Path) -> None:
    with KafkaCluster(brokers=2, topics={"t": Topic(1, 2)}, data_dir=tmp_path) as cluster:
        leader = cluster.partition("t", 0).leader
        with RawClient(cluster.brokers[leader].address) as wire:
            fill(wire, batches=5)
    assert len(stored(tmp_path, broker=0)) > 5 * RECORD_BYTES
    assert stored(tmp_path, broker=0) == stored(tmp_path, broker=1)


def test_read_committed_fetch_lists_the_aborted_transactions_of_the_part(
    tmp_path: Path, cluster: KafkaCluster, wire: RawClient
) -> None:
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="x", max_request_size=LARGE
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", bytes(RECORD_BYTES), partition=0).result(10)
        producer.abort_transaction()
    request = everything()
    request.isolation_level = 1
    data = data_of(wire.call(request, 12))
    assert bytes(data.records or b"") == stored(tmp_path)
    assert [aborted.first_offset for aborted in data.aborted_transactions or []] == [0]


@pytest.mark.gate
def test_beyond_the_limit_of_held_files_the_file_is_read(
    tmp_path: Path, wire: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(wire)
    monkeypatch.setattr(held_files, "MAX_HELD_FILES", 0)
    sent = Sent(monkeypatch)
    assert bytes(data_of(wire.call(everything(), 12)).records or b"") == stored(tmp_path)
    assert sent.by_sendfile == 0


@pytest.mark.gate
def test_without_sendfile_the_file_is_read(
    tmp_path: Path, cluster: KafkaCluster, wire: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other systems have another class of accepted connections."""
    fill(wire)
    monkeypatch.setattr("pykafka2.network.tcp.ACCEPTED", TcpTransport)
    sent = Sent(monkeypatch)
    with RawClient(cluster.bootstrap_servers) as other:
        assert bytes(data_of(other.call(everything(), 12)).records or b"") == stored(tmp_path)
    assert sent.by_sendfile == 0


@pytest.mark.gate
def test_file_system_without_sendfile_is_read_in_pieces(
    tmp_path: Path, wire: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(wire)

    def unsupported(out: int, file: int, offset: int, count: int) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "sendfile", unsupported)
    assert bytes(data_of(wire.call(everything(), 12)).records or b"") == stored(tmp_path)


@pytest.mark.gate
def test_file_that_cannot_be_read_closes_the_connection(
    wire: RawClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(wire)

    def broken(out: int, file: int, offset: int, count: int) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "sendfile", broken)
    wire.send(everything(), 12)
    # The bytes before the records, then the end.
    assert len(wire.socket.recv(1 << 20, socket.MSG_WAITALL)) < 100
    assert "cannot be read: [Errno 5] Input/output error" in caplog.text


def test_tls_connection_is_closed_if_the_file_has_become_shorter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The handler's thread reads the bytes, and continues for other connections."""
    with KafkaCluster(brokers=1, topics={"t": 2}, tls=True, data_dir=tmp_path) as cluster:
        tls = ssl.create_default_context(cafile=cluster.ca_file)
        with (
            RawClient(cluster.bootstrap_servers, tls=tls) as wire,
            RawClient(cluster.bootstrap_servers, tls=tls) as other,
        ):
            fill(wire, batches=3)
            os.truncate(file_of(tmp_path), RECORD_BYTES)
            wire.send(everything(), 12)
            assert wire.is_closed_by_broker()
            assert other.call(fetch_request("t", 1, 0), 12).responses[0].partitions[0].error_code == 0
    assert "of them are left" in caplog.text
