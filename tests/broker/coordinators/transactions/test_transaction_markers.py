"""Transactions: markers, the last stable offset, read_committed, and the coordinator's part.

Over real sockets with raw requests; where time passes, in the simulation.
"""

from __future__ import annotations

import pytest

from pykafka2 import errors
from pykafka2.protocol.messages.fetch import FetchRequest
from tests.broker.support.batches import batch, in_transaction, visible
from tests.broker.support.data_requests import (
    data_of,
    end_offset,
    fetch_request,
    mark,
    marker_request,
    produce,
    produce_request,
    producers_of,
    read,
    write,
)
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

unverified = pytest.mark.kafka(
    brokers=1,
    topics={"t": 1},
    # Old records and new markers must be in one segment, so that one fetch returns all.
    config={"transaction.partition.verification.enable": False, "log.roll.ms": 2**62},
)
"""One broker without verification: the tests use its log alone."""

# ---------------------------------------------------------------------- produce


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_a_transactional_batch_without_transactional_id_is_not_authorized(wire: RawClient) -> None:
    response = write(wire, None, in_transaction([b"x"], 7))
    assert response.error_code == errors.TransactionalIdAuthorizationFailed.code
    wire.send(produce_request("t", 0, in_transaction([b"x"], 7), acks=0), 12)
    assert wire.is_closed_by_broker()  # with acks=0 nothing else reports the error


@unverified
def test_request_with_batches_of_two_producers_is_rejected(wire: RawClient) -> None:
    request = produce_request("t", 0, in_transaction([b"x"], 7), transactional_id="tid")
    other = produce_request("t", 1, in_transaction([b"x"], 8), transactional_id="tid")
    request.topic_data[0].partition_data += other.topic_data[0].partition_data
    response = wire.call(request, 12)
    codes = [one.error_code for one in response.responses[0].partition_responses]
    assert codes == [errors.InvalidProducerIdMapping.code] * 2


# ---------------------------------------------------------------------- markers


@unverified
def test_an_older_coordinator_or_producer_epoch_is_refused(wire: RawClient) -> None:
    write(wire, "tid", in_transaction([b"x"], 7, epoch=3))
    assert mark(wire, 7, committed=True, epoch=2) == errors.InvalidProducerEpoch.code
    assert mark(wire, 7, committed=True, epoch=3, coordinator_epoch=4) == 0
    late = mark(wire, 7, committed=False, epoch=3, coordinator_epoch=3)
    assert late == errors.TransactionCoordinatorFenced.code
    assert mark(wire, 7, committed=True, epoch=3, coordinator_epoch=4, version=1) == 0  # a repetition


@unverified
def test_marker_of_transaction_version_2_must_have_a_higher_epoch(wire: RawClient) -> None:
    write(wire, "tid", in_transaction([b"x"], 7, epoch=3))
    assert mark(wire, 7, committed=True, epoch=3, transaction_version=2) == errors.InvalidProducerEpoch.code
    assert mark(wire, 7, committed=True, epoch=4, transaction_version=2) == 0
    assert mark(wire, 7, committed=True, epoch=4, transaction_version=2) == 0


@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"transaction.partition.verification.enable": False})
def test_transaction_marker_must_reach_the_leader(live: LiveCluster) -> None:
    leader = live.leader_id()
    assert mark(live.connect(1 - leader), 7, committed=True) == errors.NotLeaderOrFollower.code
    assert mark(live.connect(leader), 7, committed=True, topic="u") == errors.UnknownTopicOrPartition.code
    assert mark(live.connect(leader), 7, committed=True, partition=4) == errors.UnknownTopicOrPartition.code
    assert mark(live.connect(leader), 7, committed=True) == 0


@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"transaction.partition.verification.enable": False})
def test_marker_response_waits_for_the_replicas(live: LiveCluster) -> None:
    from pykafka2.protocol.messages.transaction import WriteTxnMarkersRequest

    wire, other = live.leader(), live.leader()
    write(wire, "tid", in_transaction([b"x"], 7))
    live.controls.pause_followers()
    wire.send(marker_request(7, committed=True), 2)
    live.wait_for(lambda: live.cluster.log("t", 0).log_end_offset == 2)
    assert end_offset(other) == 0  # the marker is written, not replicated
    live.controls.resume_followers()
    assert wire.receive(WriteTxnMarkersRequest, 2)[1].markers[0].topics[0].partitions[0].error_code == 0
    assert end_offset(other) == 2


# ---------------------------------------------------------------------- read_committed


@unverified
def test_the_aborted_list_covers_the_returned_range(wire: RawClient) -> None:
    write(wire, "a", in_transaction([b"bad"], 7))  # 0
    write(wire, "b", in_transaction([b"good"], 8))  # 1
    assert mark(wire, 7, committed=False) == 0  # 2
    assert mark(wire, 8, committed=True) == 0  # 3
    write(wire, "a", in_transaction([b"worse"], 7, sequence=1))  # 4
    assert mark(wire, 7, committed=False) == 0  # 5
    data = read(wire)
    listed = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
    assert listed == [(7, 0), (7, 4)]
    assert visible(data) == [b"good"]
    later = [(one.producer_id, one.first_offset) for one in read(wire, offset=3).aborted_transactions or ()]
    assert later == [(7, 4)]
    assert read(wire, offset=6).aborted_transactions == []
    assert read(wire, committed=False).aborted_transactions is None


@unverified
def test_end_of_a_transaction_wakes_a_waiting_read_committed_fetch(live: LiveCluster) -> None:
    wire, reader = live.leader(), live.leader()
    write(wire, "a", in_transaction([b"x"], 7))
    reader.send(fetch_request(max_wait_ms=9000, committed=True), 12)
    assert mark(wire, 7, committed=True) == 0
    data = data_of(reader.receive(FetchRequest, 12)[1])
    assert (visible(data), data.last_stable_offset) == ([b"x"], 2)


@pytest.mark.kafka(
    brokers=3,
    topics={"t": 1},
    config={"transaction.partition.verification.enable": False, "log.roll.ms": 2**62},
)
def test_new_leader_has_open_and_aborted_transactions(live: LiveCluster, wire: RawClient) -> None:
    write(wire, "a", in_transaction([b"gone"], 7))
    assert mark(wire, 7, committed=False) == 0
    write(wire, "b", in_transaction([b"open"], 8))
    live.controls.crash_broker(live.leader_id())
    wire = live.leader()
    data = read(wire)
    assert (visible(data), data.last_stable_offset) == ([], 2)
    assert mark(wire, 8, committed=True, coordinator_epoch=1) == 0
    assert visible(read(wire)) == [b"open"]


# ---------------------------------------------------------------------- DescribeProducers


@unverified
def test_describe_producers_returns_epochs_sequences_and_open_transactions(wire: RawClient) -> None:
    produce(wire, "t", 0, batch([b"x"] * 3, producer_id=5, producer_epoch=1, base_sequence=0))
    write(wire, "a", in_transaction([b"x"], 7, epoch=2))
    found = producers_of(wire)
    assert sorted(found) == [5, 7]
    assert (found[5].producer_epoch, found[5].last_sequence, found[5].current_txn_start_offset) == (1, 2, -1)
    assert (found[7].coordinator_epoch, found[7].current_txn_start_offset) == (-1, 3)
    mark(wire, 7, committed=True, epoch=2, coordinator_epoch=4)
    found = producers_of(wire)
    assert (found[7].coordinator_epoch, found[7].current_txn_start_offset) == (4, -1)
