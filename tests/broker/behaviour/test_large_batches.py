"""Batches of a million records: how long they hold up others, and what a refusal of them costs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from pykafka2.broker.log.record_walk import MAX_RECORD_ERRORS, RecordWalk
from pykafka2.compression import codec
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka2.records.batch import HEADER, HEADER_BYTES, LENGTH_END, crc32c
from pykafka2.records.encoder import encode_record
from pykafka2.testing.cluster import KafkaCluster
from tests.broker.produce_cases import Case, ask, create_topics
from tests.testing.wire import NOW_MS, Wire, data_of, fetch_request

ZSTD = 4
COUNT = 200_000
SMALLEST_RECORD = encode_record(0, 0, None, None, [])
COMPACTED = {"cleanup.policy": "compact"}
TOPICS = {"plain": {}, "other": {}, "compacted": COMPACTED, "another": COMPACTED}


def large_batch(body: bytes, count: int) -> bytes:
    compressed = codec(ZSTD).compress(body)
    length = HEADER_BYTES - LENGTH_END + len(compressed)

    def header(crc: int) -> bytes:
        return HEADER.pack(0, length, -1, 2, crc, ZSTD, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count)

    return header(crc32c(compressed, crc32c(header(0)[21:]))) + compressed


@pytest.fixture(scope="module")
def valid() -> bytes:
    body = b"".join(encode_record(0, delta, b"k", None, []) for delta in range(COUNT))
    return large_batch(body, COUNT)


@pytest.fixture(params=["headers", "strict"])
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    config = {"log.validate": request.param, "auto.create.topics.enable": False}
    with KafkaCluster(brokers=1, config=config) as cluster, Wire(cluster.bootstrap_servers) as wire:
        create_topics(wire, topics=TOPICS)
        yield cluster


def test_refused_batch_names_a_bounded_number_of_records(cluster: KafkaCluster) -> None:
    count = 100_000
    forged = large_batch(SMALLEST_RECORD * count, count)
    assert len(forged) < 1_000
    with Wire(cluster.bootstrap_servers) as wire:
        wire.socket.settimeout(60)
        answer = ask(wire, Case("forged", "compacted", forged))
    assert answer.error_code == 87
    assert [one.batch_index for one in answer.record_errors] == list(range(MAX_RECORD_ERRORS))
    assert f"{count} of {count} records" in (answer.error_message or "")


def test_requests_of_other_connections_are_handled_between_slices(
    cluster: KafkaCluster, valid: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch's last slice waits in the queue until another connection had its answers."""
    advance, begun, answered = RecordWalk.advance, threading.Event(), threading.Event()
    slices: list[int] = []
    holds = itertools.count()

    def advance_and_note(self: RecordWalk, limit: int) -> bool:
        begun.set()
        slices.append(limit)
        is_last = len(slices) * limit >= COUNT
        if is_last and not answered.is_set() and next(holds) < 1_000_000:
            slices.pop()
            return False  # comes again behind what the queue holds
        return advance(self, limit)

    monkeypatch.setattr(RecordWalk, "advance", advance_and_note)
    with Wire(cluster.bootstrap_servers, "large") as producing, Wire(cluster.bootstrap_servers) as other:
        answers = []
        producing.socket.settimeout(60)
        sent = threading.Thread(target=lambda: answers.append(ask(producing, Case("x", "compacted", valid))))
        sent.start()
        assert begun.wait(60)
        for _ in range(3):
            other.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        answered.set()
        sent.join()
    assert [one.error_code for one in answers] == [0]
    assert len(slices) >= COUNT // 10_000


def test_two_large_batches_of_one_request_are_appended_in_full(cluster: KafkaCluster, valid: bytes) -> None:
    topics = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=valid)])
        for topic in ("compacted", "other")
    ]
    with Wire(cluster.bootstrap_servers) as wire:
        wire.socket.settimeout(60)
        answer = wire.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 12)
        ends = [
            data_of(wire.call(fetch_request(topic, 0, 0, max_bytes=1), 12)).high_watermark
            for topic in ("compacted", "other")
        ]
    codes = [one.partition_responses[0].error_code for one in answer.responses]
    assert (codes, ends) == ([0, 0], [COUNT, COUNT])


def test_each_large_batch_behind_a_small_one_is_checked_before_any_is_appended(
    cluster: KafkaCluster, valid: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, left = RecordWalk.finish, []

    def finish_and_note(self: RecordWalk) -> int:
        checked = self._next
        largest = finish(self)
        left.append(self._next - checked)
        return largest

    monkeypatch.setattr(RecordWalk, "finish", finish_and_note)
    small = large_batch(encode_record(0, 0, b"k", b"v", []), 1)
    topics = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        for topic, records in (("other", small), ("compacted", valid), ("another", valid))
    ]
    with Wire(cluster.bootstrap_servers) as wire:
        wire.socket.settimeout(60)
        answer = wire.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 12)
    assert [one.partition_responses[0].error_code for one in answer.responses] == [0, 0, 0]
    assert left == [0, 0, 0]


def test_requests_behind_a_large_batch_keep_their_order(cluster: KafkaCluster, valid: bytes) -> None:
    small = large_batch(encode_record(0, 0, b"k", b"v", []), 1)
    with Wire(cluster.bootstrap_servers) as wire:
        wire.socket.settimeout(60)
        for records in (valid, small):
            data = [PartitionProduceData(index=0, records=records)]
            topics = [TopicProduceData(name="compacted", partition_data=data)]
            wire.send(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 12)
        offsets = [
            wire.receive(ProduceRequest, 12)[1].responses[0].partition_responses[0].base_offset
            for _ in range(2)
        ]
    assert offsets == [0, COUNT]
