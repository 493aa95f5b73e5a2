"""`read_range`: bounded columns, without group, assignment or position."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import (
    ClientClosed,
    CorruptMessage,
    KafkaTimeoutError,
    OffsetOutOfRange,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, PartitionData
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.records.columns import Columns
from pykafka2.types import TopicPartition
from tests.cluster.scripted import Answer, ScriptedBroker
from tests.consumer.logs import LogCluster
from tests.consumer.poll.test_corrupt_data import damage

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> LogCluster:
    """A hundred records, in batches of five."""
    cluster = LogCluster({"orders": [0]}, brokers=2)
    for number in range(0, 100, 5):
        cluster.append("orders", 0, *[b"%d" % (number + index) for index in range(5)])
    return cluster


def read(cluster: LogCluster, start: int, end: int, max_bytes: int = 400, **more: Any) -> list[Columns]:
    with cluster.consumer() as consumer:
        return list(consumer.read_range(ORDERS_0, start, end, max_bytes=max_bytes, **more))


def offsets(pieces: list[Columns]) -> list[int]:
    return [offset for piece in pieces for offset in piece.offsets]


@pytest.mark.parametrize(
    ("start", "end"), [(0, 100), (0, 0), (7, 7), (7, 8), (4, 6), (2, 9), (13, 58), (95, 100), (50, 20)]
)
def test_a_range_is_read_to_the_offset(cluster: LogCluster, start: int, end: int) -> None:
    pieces = read(cluster, start, end)
    assert offsets(pieces) == list(range(start, end))
    assert [value for piece in pieces for value in piece.values] == [b"%d" % one for one in range(start, end)]
    assert all(piece.size_bytes >= 61 for piece in pieces)


def test_read_range_pieces_respect_max_bytes_and_report_their_size(cluster: LogCluster) -> None:
    log = cluster.log("orders")
    assert len(read(cluster, 0, 100, max_bytes=1)) == 20
    pieces = read(cluster, 0, 100, max_bytes=400)
    assert sum(piece.size_bytes for piece in pieces) == sum(map(len, log.batches))
    assert max(piece.size_bytes for piece in pieces) <= 400


def test_the_next_piece_is_fetched_meanwhile_and_none_behind_the_end(cluster: LogCluster) -> None:
    with cluster.consumer() as consumer:
        pieces = consumer.read_range(ORDERS_0, 0, 10, max_bytes=1)
        assert next(pieces).offsets == [0, 1, 2, 3, 4]
        cluster.runtime.run_for(0.1)
        assert [one.topics[0].partitions[0].fetch_offset for one in cluster.requests(FetchRequest)] == [0, 5]
        assert next(pieces).offsets == [5, 6, 7, 8, 9]
        cluster.runtime.run_for(0.1)
        assert list(pieces) == []
        assert len(cluster.requests(FetchRequest)) == 2


def test_read_range_does_not_disturb_poll(cluster: LogCluster) -> None:
    with cluster.consumer("orders") as consumer:
        pieces = consumer.read_range(ORDERS_0, 50, 60)
        assert len(consumer.poll(1000)[ORDERS_0]) == 100
        assert offsets(list(pieces)) == list(range(50, 60))
        assert consumer.position(ORDERS_0) == 100


def test_gaps_and_aborted_records_are_skipped(cluster: LogCluster) -> None:
    log = cluster.log("orders")
    del log.batches[1]
    first = log.append(b"lost", b"too", producer_id=7, is_transactional=True)
    log.end_transaction(7, first, committed=False)
    log.append(b"last")
    assert offsets(read(cluster, 0, 104, isolation="read_committed")) == [*range(5), *range(10, 100), 103]
    assert offsets(read(cluster, 98, 104, isolation="read_uncommitted")) == [98, 99, 100, 101, 103]


def test_a_leader_that_moves_is_followed(cluster: LogCluster) -> None:
    with cluster.consumer() as consumer:
        pieces = consumer.read_range(ORDERS_0, 0, 100, max_bytes=1)
        next(pieces)
        cluster.move_leader("orders", 0, 1)
        assert offsets(list(pieces)) == list(range(5, 100))


def test_unknown_server_error_in_read_range_is_retried(cluster: LogCluster) -> None:
    log = cluster.log("orders")
    log.error_code = UnknownServerError.code
    with cluster.consumer(default_api_timeout_ms=5000) as consumer:
        cluster.runtime.call_later(2, lambda: setattr(log, "error_code", 0))
        assert offsets(list(consumer.read_range(ORDERS_0, 0, 10))) == list(range(10))
        log.error_code = UnknownServerError.code
        with pytest.raises(KafkaTimeoutError, match="within 5 s"):
            list(consumer.read_range(ORDERS_0, 0, 10))


def test_read_range_raises_damage_after_the_readable_records(cluster: LogCluster) -> None:
    log = cluster.log("orders")
    log.batches[3] = damage(log.batches[3], "value")
    with cluster.consumer() as consumer:
        assert offsets(list(consumer.read_range(ORDERS_0, 0, 15))) == list(range(15))
        pieces = consumer.read_range(ORDERS_0, 0, 100)
        assert next(pieces).offsets == list(range(15))
        with pytest.raises(CorruptMessage, match="orders-0 at offset 15"):
            next(pieces)


def test_read_range_raises_for_deleted_records_and_missing_partitions(cluster: LogCluster) -> None:
    cluster.log("orders").truncate_before(20)
    with cluster.consumer(default_api_timeout_ms=2000) as consumer:
        with pytest.raises(OffsetOutOfRange, match=r"orders-0 at offset 10: .* beginning_offsets\(\)"):
            list(consumer.read_range(ORDERS_0, 10, 30))
        with pytest.raises(UnknownTopicOrPartition, match="no partition 7"):
            list(consumer.read_range(TopicPartition("orders", 7), 10, 30))
        with pytest.raises(UnknownTopicOrPartition, match="bills"):
            list(consumer.read_range(TopicPartition("bills", 0), 10, 30))


def test_read_range_waits_for_records_not_yet_appended(cluster: LogCluster) -> None:
    with cluster.consumer(default_api_timeout_ms=5000) as consumer:
        pieces = consumer.read_range(ORDERS_0, 95, 101)
        assert next(pieces).offsets == list(range(95, 100))
        cluster.append("orders", 0, b"late")
        assert next(pieces).offsets == [100]
        with pytest.raises(KafkaTimeoutError, match=r"orders-0: no records from offset 101 on.*up to 101"):
            list(consumer.read_range(ORDERS_0, 100, 102))


def test_a_closed_consumer_ends_the_range(cluster: LogCluster) -> None:
    with cluster.consumer() as consumer:
        pieces = consumer.read_range(ORDERS_0, 0, 100, max_bytes=1)
        next(pieces)
    with pytest.raises(ClientClosed):
        list(pieces)
    with pytest.raises(ClientClosed):
        consumer.read_range(ORDERS_0, 0, 100)


def test_read_range_raises_client_closed_if_closed_by_another_thread(cluster: LogCluster) -> None:
    """Another thread has begun to close it, and the IO thread has not ended the request yet."""
    consumer = cluster.consumer()
    pieces, client = consumer.read_range(ORDERS_0, 95, 101), consumer._core.cluster
    next(pieces)
    cluster.runtime.call_later(0.2, lambda: setattr(client, "is_closed", True))
    cluster.runtime.call_later(0.25, lambda: None)  # so that time stands there for a moment
    cluster.runtime.call_later(0.3, lambda: bool(client.close(0)) or None)
    with pytest.raises(ClientClosed, match="closed"):
        next(pieces)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"start": -1}, "start=-1"),
        ({"end": "7"}, "end='7'"),
        ({"isolation": "serializable"}, "read_committed"),
        ({"max_bytes": 0}, "max_bytes=0"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(cluster: LogCluster, arguments: Any, words: str) -> None:
    with cluster.consumer() as consumer, pytest.raises(ValueError, match=words):
        consumer.read_range(ORDERS_0, **{"start": 0, "end": 1, **arguments})


@pytest.mark.parametrize("how", ["nothing", "records before it", "another partition", "another topic"])
def test_empty_fetch_responses_are_retried_at_most_ten_times_a_second(cluster: LogCluster, how: str) -> None:
    """A broker that does not hold the fetch until there is something."""
    fetch_now, fetches = cluster.fetch_now, 0

    def at_once(request: FetchRequest, broker: ScriptedBroker) -> Answer:
        nonlocal fetches
        fetches += 1
        response = fetch_now(request, broker)
        answer = response.responses[0].partitions[0]
        if how == "another partition":
            answer.partition_index = 7
        elif how == "another topic":
            response.responses[0].topic, response.responses[0].topic_id = "others", b"o" * 16
        else:
            answer.records = None if how == "nothing" else memoryview(cluster.log("orders").batches[0])
        return response

    cluster.on(FetchRequest, at_once)
    with cluster.consumer(default_api_timeout_ms=5000) as consumer:
        pieces = consumer.read_range(ORDERS_0, 50, 60)
        with pytest.raises(KafkaTimeoutError, match="no records from offset 50 on"):
            next(pieces)
    assert fetches <= 5 * 10 + 2


def test_each_piece_is_waited_for_as_long_as_a_call_may_take(cluster: LogCluster) -> None:
    with cluster.consumer(default_api_timeout_ms=2000) as consumer:
        pieces = consumer.read_range(ORDERS_0, 95, 101)
        assert next(pieces).offsets == [95, 96, 97, 98, 99]
        cluster.runtime.run_for(3)  # the application takes its time
        cluster.runtime.call_later(1, lambda: cluster.append("orders", 0, b"late") and None)
        assert next(pieces).offsets == [100]


def test_read_range_timeout_names_the_last_stable_offset(cluster: LogCluster) -> None:
    """Behind that a transaction is open."""

    def nothing_yet(request: FetchRequest, broker: ScriptedBroker) -> Answer:
        response = cluster.fetch_now(request, broker)
        (answer,) = response.responses[0].partitions
        answer.records, answer.high_watermark, answer.last_stable_offset = None, 102, 101
        return response

    cluster.on(FetchRequest, nothing_yet)
    with cluster.consumer(default_api_timeout_ms=1000) as consumer:
        for isolation, end in (("read_committed", 101), ("read_uncommitted", 102)):
            with pytest.raises(KafkaTimeoutError, match=f"records can be read up to {end}"):
                list(consumer.read_range(ORDERS_0, 100, 102, isolation=isolation))


def test_records_of_another_topic_are_ignored_without_topic_ids(cluster: LogCluster) -> None:
    """Clusters of before topic ids: all that they do not tell is the same sixteen zeros."""
    for topic in cluster.topics.values():
        topic.topic_id = ZERO_UUID

    def others_first(request: FetchRequest, broker: ScriptedBroker) -> Answer:
        response = cluster.fetch_now(request, broker)
        answer = PartitionData(partition_index=0, high_watermark=7, records=cluster.log("others").batches[0])
        response.responses.insert(0, FetchableTopicResponse(topic="others", partitions=[answer]))
        return response

    cluster.append("others", 0, b"another's")
    cluster.on(FetchRequest, others_first)
    (piece, *_) = read(cluster, 0, 5)
    assert piece.values == [b"%d" % number for number in range(5)]
