"""Positions from lookups: `auto_offset_reset="by_duration:…"` (KIP-1106), and seeks to the end."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.consumer.reset_policy import reset_timestamp
from pykafka2.errors import (
    ConfigurationError,
    InvalidRequest,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownServerError,
)
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.offsets import ListOffsetsPartitionResponse, ListOffsetsRequest
from pykafka2.types import TopicPartition
from tests.cluster.scripted import Hold
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)
HOUR = 3_600_000


def aged_log() -> LogCluster:
    """A record an hour, the last one half an hour old."""
    cluster = LogCluster({"orders": [0]}, brokers=1)
    now = cluster.runtime.clock.wall_ms()
    for age in range(5, -1, -1):
        cluster.append("orders", 0, b"%d" % age, timestamp=int(now - (age + 0.5) * HOUR))
    return cluster


@pytest.mark.parametrize(
    ("duration", "values"),
    [("PT2H", [b"1", b"0"]), ("P1D", [b"5", b"4", b"3", b"2", b"1", b"0"]), ("PT1S", [])],
)
def test_reading_begins_so_far_back_or_at_the_end(duration: str, values: list[bytes]) -> None:
    cluster = aged_log()
    with cluster.consumer("orders", auto_offset_reset=f"by_duration:{duration}") as consumer:
        records = consumer.poll(2000).get(ORDERS_0, [])
        assert [record.value for record in records] == values
        assert consumer.position(ORDERS_0) == 6
        cluster.append("orders", 0, b"new")
        assert [record.value for record in consumer.poll(2000)[ORDERS_0]] == [b"new"]


def test_record_appended_during_the_end_lookup_is_not_skipped() -> None:
    cluster = aged_log()
    requests = []
    answer = cluster._list_partition

    def late(name: str, number: int, timestamp: int, broker: object) -> object:
        found = answer(name, number, timestamp, broker)  # type: ignore[arg-type]
        requests.append(timestamp)
        if len(requests) == 1:
            cluster.append("orders", 0, b"just now", timestamp=cluster.runtime.clock.wall_ms())
        return found

    cluster._list_partition = late  # type: ignore[method-assign, assignment]
    with cluster.consumer("orders", auto_offset_reset="by_duration:PT1S") as consumer:
        assert [record.value for record in consumer.poll(2000)[ORDERS_0]] == [b"just now"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("P1D", 86400),
        ("PT0S", 0),
        ("pt1h30m", 5400),
        ("P1DT-1H", 82800),
        ("PT1.5S", 1.5),
        ("PT1,5S", 1.5),
        ("PT-0H1M", 60),
        ("-PT-1H", 3600),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, seconds: float) -> None:
    policy = CONSUMER_OPTIONS.parse(None, {"auto_offset_reset": f"By_Duration:{text}"}).auto_offset_reset
    assert reset_timestamp(policy, 100_000_000_000) == 100_000_000_000 - seconds * 1000


def test_duration_before_the_epoch_resets_to_timestamp_zero() -> None:
    policy = CONSUMER_OPTIONS.parse(None, {"auto_offset_reset": "by_duration:P99999D"}).auto_offset_reset
    assert reset_timestamp(policy, 1000) == 0


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "1H", "PT1H ", "-PT1H", "PT-1H", "P1W", "PT.5S", "P99999999999999D"]
)
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="by_duration:P1DT12H"):
        CONSUMER_OPTIONS.parse(None, {"auto_offset_reset": f"by_duration:{text}"})


@pytest.mark.parametrize("how", ["assigned no more", "placed by seek"])
def test_lookup_of_an_unwanted_partition_is_stopped(how: str) -> None:
    """A request for a deleted topic may even create it again, if brokers create topics that clients name."""
    cluster = LogCluster({"orders": [0]}, brokers=1)
    gone = TopicPartition("gone", 0)
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0, gone])
        consumer.poll(1000)
        if how == "placed by seek":
            consumer.seek(gone, 0)
        consumer.assign([ORDERS_0])
        consumer.poll(5000)
        before = len(cluster.requests(MetadataRequest))
        consumer.poll(60_000)
        assert len(cluster.requests(MetadataRequest)) == before


def test_late_lookup_response_of_an_unwanted_partition_is_ignored() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    for number in range(5):
        cluster.append("orders", 0, b"%d" % number)
    hold = Hold()
    cluster.on(ListOffsetsRequest, lambda request, broker: hold)
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        consumer.poll(1000)
        consumer.seek(ORDERS_0, 3)
        consumer.poll(1000)
        hold.release(cluster.list_offsets(cluster.requests(ListOffsetsRequest)[0], cluster.brokers[0]))
        assert [record.offset for record in consumer.poll(1000)[ORDERS_0]] == [3, 4]
        assert consumer.poll(1000) == {}


def refuse(cluster: LogCluster, error: type[KafkaError], times: int) -> None:
    """Questions about offsets are answered by this error, so many times."""
    list_partition, left = cluster._list_partition, [times]

    def refusing(name: str, number: int, *more: Any) -> ListOffsetsPartitionResponse:
        left[0] -= 1
        if left[0] < 0:
            return list_partition(name, number, *more)
        return ListOffsetsPartitionResponse(partition_index=number, error_code=error.code or 0)

    cluster._list_partition = refusing  # type: ignore[method-assign]


@pytest.mark.parametrize("error", [TopicAuthorizationFailed, InvalidRequest])
@pytest.mark.parametrize("policy", ["latest", "none"])
def test_refused_seek_to_beginning_or_end_is_completed_later(error: type[KafkaError], policy: str) -> None:
    """Not to where the reset policy says, or to what the group has committed: records would be skipped."""
    cluster = aged_log()
    refuse(cluster, error, 2)
    with cluster.consumer(auto_offset_reset=policy) as consumer:
        consumer.assign([ORDERS_0])
        consumer.seek_to_beginning(ORDERS_0)
        for _ in range(2):
            with pytest.raises(error):
                consumer.poll(1000)
        assert [record.offset for record in consumer.poll(1000)[ORDERS_0]] == [0, 1, 2, 3, 4, 5]


def test_unknown_server_error_in_an_offset_lookup_is_retried() -> None:
    cluster = aged_log()
    with cluster.consumer(auto_offset_reset="earliest") as consumer:
        refuse(cluster, UnknownServerError, 2)
        assert consumer.end_offsets([ORDERS_0]) == {ORDERS_0: 6}
        refuse(cluster, UnknownServerError, 2)
        consumer.assign([ORDERS_0])
        assert len(consumer.poll(5000)[ORDERS_0]) == 6
