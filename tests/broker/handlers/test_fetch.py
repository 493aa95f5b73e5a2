"""Fetch and ListOffsets over real sockets: limits, long polling, epochs, topic ids and timestamps."""

from __future__ import annotations

import pytest

from pykafka2 import errors
from pykafka2.errors import FencedLeaderEpoch, NotLeaderOrFollower, for_code
from pykafka2.protocol.messages.fetch import FetchRequest, PartitionData
from pykafka2.records.batch import batches
from tests.broker.support.batches import NOW_MS, batch, in_transaction
from tests.broker.support.data_requests import (
    data_of,
    epoch_end,
    error_name,
    fetch,
    fetch_request,
    list_offsets,
    list_offsets_request,
    produce,
    write,
)
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

one_broker = pytest.mark.kafka(brokers=1, topics={"t": 1})
BATCH_BYTES = len(batch([b"0"]))


def fill(wire: RawClient, count: int) -> None:
    for number in range(count):
        assert produce(wire, "t", 0, batch([b"%d" % number], timestamp=NOW_MS + number)).error_code == 0


def offsets(data: PartitionData) -> list[int]:
    return [one.base_offset for one in batches(data.records or b"")]


def error_of(data: PartitionData) -> str:
    return error_name(data.error_code)


def follower_end(live: LiveCluster) -> int:
    return live.cluster.partition("t", 0).replicas[1 - live.leader_id()].log_end_offset


@one_broker
def test_first_batch_is_returned_whole_despite_smaller_limits(wire: RawClient) -> None:
    fill(wire, 5)
    assert offsets(fetch(wire, "t", 0, 0, max_bytes=1)) == [0]
    assert offsets(fetch(wire, "t", 0, 0, partition_max_bytes=1)) == [0]
    assert offsets(fetch(wire, "t", 0, 1, max_bytes=2 * BATCH_BYTES)) == [1, 2]
    assert offsets(fetch(wire, "t", 0, 1, partition_max_bytes=3 * BATCH_BYTES - 1)) == [1, 2]


@pytest.mark.kafka(brokers=1, topics={"t": 2})
def test_only_the_first_batch_of_a_response_may_break_the_limits(wire: RawClient) -> None:
    for partition in (0, 1):
        produce(wire, "t", partition, batch([b"x" * 100]))
    request = fetch_request(max_bytes=50, partition_max_bytes=10)
    request.topics[0].partitions += fetch_request(partition=1, partition_max_bytes=10).topics[0].partitions
    got = wire.call(request, 12).responses[0].partitions
    assert [offsets(data) for data in got] == [[0], []]
    size = len(batch([b"x" * 100]))
    for max_bytes, expected in ((2 * size - 1, [[0], []]), (2 * size, [[0], [0]])):
        request = fetch_request(max_bytes=max_bytes)
        request.topics[0].partitions += fetch_request(partition=1).topics[0].partitions
        got = wire.call(request, 12).responses[0].partitions
        assert [offsets(data) for data in got] == expected, "all partitions share max_bytes"


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_fetch_above_the_high_watermark_is_empty_and_above_the_log_end_out_of_range(
    live: LiveCluster,
    wire: RawClient,
) -> None:
    fill(wire, 1)
    live.controls.pause_followers()
    for value in (b"a", b"b", b"c"):
        produce(wire, "t", 0, batch([value]), acks=1)
    for offset in (3, 4):
        data = fetch(wire, "t", 0, offset)
        assert (error_of(data), offsets(data)) == ("none", [])
    assert error_of(fetch(wire, "t", 0, 5)) == "OffsetOutOfRange"
    assert error_of(fetch(wire, "t", 0, -1)) == "OffsetOutOfRange"


@one_broker
def test_fetch_from_an_older_segment_does_not_wait(live: LiveCluster) -> None:
    """An older segment does not grow: the log is rolled before the fetch arrives, or while it waits."""
    reader, writer = live.leader(), live.leader()
    fill(writer, 1)
    live.controls.roll_segments(("t", 0))
    fill(writer, 1)
    patient = {"max_wait_ms": 60_000, "min_bytes": 1_000_000}
    assert offsets(fetch(reader, "t", 0, 0, partition_max_bytes=1, **patient)) == [0]
    reader.send(fetch_request("t", 0, 1, **patient), 12)
    fill(writer, 1)
    assert live.history.entries("Fetch")[-1].answered_at is None
    live.controls.roll_segments(("t", 0))
    fill(writer, 1)
    assert offsets(data_of(reader.receive(FetchRequest, 12)[1]))[:2] == [1, 2]


@one_broker
def test_a_fetch_with_an_error_does_not_wait(wire: RawClient) -> None:
    assert error_of(fetch(wire, "t", 0, 99, max_wait_ms=60_000)) == "OffsetOutOfRange"
    assert error_of(fetch(wire, "nosuch", 0, 0, max_wait_ms=60_000)) == "UnknownTopicOrPartition"


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_leader_change_ends_a_waiting_fetch(live: LiveCluster) -> None:
    leading = live.leader_id()
    wire = live.leader()
    wire.send(fetch_request("t", 0, 0, max_wait_ms=60_000, epoch=0), 12)
    live.wait_for(lambda: len(live.history.entries("Fetch")) == 1)
    live.controls.move_leader(("t", 0), 1 - leading)
    data = data_of(wire.receive(FetchRequest, 12)[1])
    assert error_of(data) == "FencedLeaderEpoch"
    assert data.current_leader.leader_id == -1  # present from version 16 on (KIP-951)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_the_leader_epoch_must_be_the_current_one(live: LiveCluster) -> None:
    live.controls.move_leader(("t", 0), 1 - live.leader_id())
    wire = live.leader()
    assert error_of(fetch(wire, "t", 0, 0, epoch=0)) == "FencedLeaderEpoch"
    assert error_of(fetch(wire, "t", 0, 0, epoch=1)) == "none"
    assert error_of(fetch(wire, "t", 0, 0, epoch=2)) == "UnknownLeaderEpoch"
    assert error_of(fetch(wire, "t", 0, 0, epoch=-1)) == "none"


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_fetch_with_a_diverging_last_epoch_gets_its_end_offset(live: LiveCluster) -> None:
    fill(live.leader(), 2)
    live.controls.move_leader(("t", 0), 1 - live.leader_id())
    wire = live.leader()
    produce(wire, "t", 0, batch([b"in epoch 1"]))
    data = fetch(wire, "t", 0, 3, last_fetched_epoch=0)
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 2)
    assert offsets(data) == []
    assert offsets(fetch(wire, "t", 0, 2, last_fetched_epoch=0)) == [2]


@pytest.mark.kafka(brokers=2, topics={"t": 1})
@pytest.mark.parametrize("version", range(4, 13))
def test_every_fetch_version_by_name_returns_data_and_errors(live: LiveCluster, version: int) -> None:
    leading = live.leader_id()
    wire = live.connect(leading)
    fill(wire, 1)
    assert offsets(data_of(wire.call(fetch_request("t", 0, 0), version))) == [0]
    live.controls.move_leader(("t", 0), 1 - leading)
    epoch = 0 if version >= 9 else -1
    response = data_of(wire.call(fetch_request("t", 0, 0, epoch=epoch), version))
    assert error_of(response) in ("NotLeaderOrFollower", "FencedLeaderEpoch")
    assert response.current_leader.leader_id == -1  # present from version 16 on (KIP-951)


@one_broker
@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [
        (-1, 4, -1),
        (-2, 0, -1),
        (-3, 3, NOW_MS + 3),
        (-4, 0, -1),
        (0, 0, NOW_MS),
        (NOW_MS + 2, 2, NOW_MS + 2),
        (NOW_MS + 4, -1, -1),
    ],
    ids=["latest", "earliest", "max timestamp", "earliest local", "long ago", "a record's", "too late"],
)
def test_list_offsets_finds_offsets_by_timestamp(
    wire: RawClient, timestamp: int, offset: int, found: int
) -> None:
    fill(wire, 4)
    response = list_offsets(wire, timestamp=timestamp)
    assert (response.error_code, response.offset, response.timestamp) == (0, offset, found)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_new_leader_responds_offset_not_available_until_its_high_watermark_advances(
    live: LiveCluster,
    wire: RawClient,
) -> None:
    """A leader that was just elected still has the high watermark of a follower (KIP-207)."""
    live.controls.pause_followers()
    fill_one = produce(wire, "t", 0, batch([b"x"]), acks=1)
    assert fill_one.error_code == 0
    leading = live.leader_id()
    if not follower_end(live):
        live.controls.resume_followers()
        live.wait_for(lambda: follower_end(live) > 0)
        live.controls.pause_followers()
    live.controls.move_leader(("t", 0), 1 - leading)
    assert live.cluster.partition("t", 0).high_watermark == 0
    wire = live.leader()
    # Neither the end nor a record of that timestamp may be returned yet.
    for timestamp in (-1, -3, 0, NOW_MS + 1_000_000_000_000):
        code = list_offsets(wire, timestamp=timestamp).error_code
        assert for_code(code).__name__ == "OffsetNotAvailable", timestamp
    assert list_offsets(wire, timestamp=-2).error_code == 0
    assert list_offsets(wire, timestamp=NOW_MS + 1_000_000_000_000, replica=-2).offset == -1


@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"transaction.partition.verification.enable": False})
def test_list_offsets_of_a_new_leader_does_not_wait_for_an_open_transaction(live: LiveCluster) -> None:
    """The start of the epoch is compared with the high watermark, not with the last stable offset, which
    stays where the transaction began: a read_committed consumer got OFFSET_NOT_AVAILABLE until its end.
    """
    wire = live.leader()
    fill(wire, 2)
    assert write(wire, "tid", in_transaction([b"x"], 7)).error_code == 0
    live.controls.move_leader(("t", 0), 1 - live.leader_id())
    wire = live.leader()
    # Until the follower has fetched from it, a new leader responds OFFSET_NOT_AVAILABLE.
    live.cluster.wait_until(lambda: list_offsets(wire, timestamp=-1).offset == 3)
    response = list_offsets(wire, timestamp=-1, committed=True)
    assert (response.error_code, response.offset, response.leader_epoch) == (0, 2, 1)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_replica_id_minus_2_gets_the_log_end_of_any_replica(live: LiveCluster, wire: RawClient) -> None:
    fill(wire, 2)
    follower = live.connect(1 - live.leader_id())
    live.controls.pause_followers()
    assert produce(wire, "t", 0, batch([b"x"]), acks=1).error_code == 0
    assert list_offsets(wire, timestamp=-1).offset == 2
    assert list_offsets(wire, timestamp=-1, replica=-2).offset == 3
    assert list_offsets(wire, timestamp=-1, replica=-2, epoch=-2).error_code == FencedLeaderEpoch.code
    assert list_offsets(follower, timestamp=-1).error_code == NotLeaderOrFollower.code
    assert list_offsets(follower, timestamp=-1, replica=-3).error_code == NotLeaderOrFollower.code
    response = list_offsets(follower, timestamp=-1, replica=-2)
    assert response.error_code == 0
    assert response.offset in (
        2,
        3,
    )  # a fetch under way when followers were paused may still have added the record


@one_broker
def test_list_offsets_checks_the_epoch(live: LiveCluster) -> None:
    assert (
        for_code(list_offsets(live.leader(), timestamp=-1, epoch=5).error_code).__name__
        == "UnknownLeaderEpoch"
    )


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_end_offset_of_an_epoch_is_the_start_of_the_next(live: LiveCluster) -> None:
    fill(live.leader(), 2)
    live.controls.move_leader(("t", 0), 1 - live.leader_id())
    wire = live.leader()
    fill(wire, 1)

    ends = [epoch_end(wire, epoch) for epoch in (0, 1, 2)]
    assert [(end.leader_epoch, end.end_offset) for end in ends] == [(0, 2), (1, 3), (-1, -1)]


ODD_FETCHES: list[tuple[dict[str, int], int, list[int], bool]] = [
    # options, error code, base offsets, whether it waits for its time
    ({"max_bytes": 0}, 0, [0], False),
    ({"max_bytes": -1}, errors.UnknownServerError.code, [], False),
    ({"partition_max_bytes": 0}, 0, [0], False),
    ({"partition_max_bytes": -1}, errors.UnknownServerError.code, [], False),
    ({"min_bytes": 5000, "max_bytes": 100, "max_wait_ms": 60_000}, 0, [0], False),
    ({"min_bytes": 2**31 - 1, "max_wait_ms": 60}, 0, [0, 1, 2, 3, 4], True),
    ({"min_bytes": 0, "offset": 5, "max_wait_ms": 60_000}, 0, [], False),
    ({"min_bytes": -1, "offset": 5, "max_wait_ms": 60_000}, 0, [], False),
    ({"max_wait_ms": -1, "offset": 5}, 0, [], False),
]


@one_broker
@pytest.mark.parametrize(
    ("options", "code", "base_offsets", "waits"), ODD_FETCHES, ids=lambda one: str(one)[:60]
)
def test_fetch_with_unusual_limits_responds_like_kafka(
    live: LiveCluster, options: dict[str, int], code: int, base_offsets: list[int], waits: bool
) -> None:
    """Apache Kafka 4.3.1 responds the same in tests/conformance/test_reading.py; no fetch is left waiting."""
    wire = live.leader()
    fill(wire, 5)
    data = fetch(wire, "t", 0, **({"offset": 0} | options))
    assert (data.error_code, offsets(data)) == (code, base_offsets)
    (entry,) = live.history.entries("Fetch")
    assert ((entry.latency or 0) >= 0.06) is waits
    assert live.cluster.broker(0).replicas.fetches.waiting() == 0


@one_broker
@pytest.mark.parametrize(
    ("timestamp", "first_version"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, None)], ids=str
)
def test_special_timestamps_are_supported_from_their_versions_on(
    wire: RawClient, timestamp: int, first_version: int | None
) -> None:
    request = list_offsets_request(("t", 0), timestamp=timestamp)
    codes = {
        version: wire.call(request, version).topics[0].partitions[0].error_code for version in range(1, 12)
    }
    unsupported = {version: 0 if first_version and version >= first_version else 35 for version in codes}
    assert codes == unsupported


@one_broker
def test_duplicate_partition_in_list_offsets_is_an_invalid_request(live: LiveCluster) -> None:
    request = list_offsets_request(("t", 0))
    request.topics[0].partitions *= 2
    responses = live.leader().call(request, 8).topics[0].partitions
    assert [(one.error_code, one.offset) for one in responses] == [(errors.InvalidRequest.code, -1)]
