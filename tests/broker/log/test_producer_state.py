"""Sequences of idempotent producers, in one partition's log and on its leader over the wire."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.errors import BrokerError, InvalidProducerEpoch, OutOfOrderSequenceNumber
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch, view
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient

OUT_OF_ORDER, OLD_EPOCH = (OutOfOrderSequenceNumber.code, -1), (InvalidProducerEpoch.code, -1)
LAST_SEQUENCE = 2**31 - 1

Append = Callable[..., tuple[int | None, int]]


def records(sequence: int, count: int = 1, *, epoch: int = 0) -> bytes:
    return batch([b"x"] * count, producer_id=7, producer_epoch=epoch, base_sequence=sequence)


def append_to(log: PartitionLog, *sequence: int, **options: int) -> tuple[int | None, int]:
    """Append a batch of producer 7. Return the error code and the first offset."""
    try:
        return 0, log.append_as_leader(view(records(*sequence, **options)), 0).base_offset
    except BrokerError as error:
        return error.code, -1


@pytest.fixture
def log() -> PartitionLog:
    return PartitionLog("t", 0, bytes(16))


@pytest.fixture(params=["log", "leader"])
def append(request: pytest.FixtureRequest) -> Append:
    """Return a function that appends a batch, and returns the error code and the first offset."""
    if request.param == "log":
        log = PartitionLog("t", 0, bytes(16))
        return lambda *sequence, **options: append_to(log, *sequence, **options)
    simulation: Simulation = request.getfixturevalue("simulation")
    wire = RawClient(simulation.cluster(1, {"t": 1}).brokers[0].address, simulation=simulation)

    def produced(*sequence: int, **options: int) -> tuple[int | None, int]:
        response = produce(wire, "t", 0, records(*sequence, **options))
        return response.error_code, response.base_offset

    return produced


def test_retry_of_one_of_the_last_five_batches_gets_its_first_offset(append: Append) -> None:
    assert [append(2 * n, 2) for n in range(6)] == [(0, 2 * n) for n in range(6)]
    assert [append(2 * n, 2) for n in range(1, 6)] == [(0, 2 * n) for n in range(1, 6)]
    assert append(0, 2) == OUT_OF_ORDER
    assert append(10, 1) == OUT_OF_ORDER, "first and last sequence must both match"
    assert append(12) == (0, 12)


def test_sequence_gap_is_rejected(append: Append) -> None:
    assert append(0, 3) == (0, 0)
    assert append(4) == OUT_OF_ORDER
    assert append(3) == (0, 3)


def test_sequence_0_follows_the_largest_sequence(append: Append) -> None:
    assert append(LAST_SEQUENCE - 1, 2) == (0, 0)
    assert append(1) == OUT_OF_ORDER
    assert append(0) == (0, 2)


def test_sequences_of_one_batch_wrap_to_0(append: Append) -> None:
    assert append(LAST_SEQUENCE, 3) == (0, 0)
    assert append(LAST_SEQUENCE, 3) == (0, 0)
    assert append(2) == (0, 3)


def test_unknown_producer_can_start_at_any_sequence(append: Append) -> None:
    """UNKNOWN_PRODUCER_ID belongs to brokers from 0.11 to 2.4."""
    assert append(4711) == (0, 0)


def test_a_new_epoch_starts_at_0_and_ends_the_old_one(append: Append) -> None:
    assert append(0, epoch=3) == (0, 0)
    assert append(1, epoch=4) == OUT_OF_ORDER
    assert append(0, epoch=4) == (0, 1)
    assert append(1, epoch=3) == OLD_EPOCH
    assert append(0, epoch=3) == OLD_EPOCH, "also a duplicate of the old epoch"


def test_duplicates_are_not_appended(log: PartitionLog) -> None:
    append_to(log, 0, 2)
    again = log.append_as_leader(view(records(0, 2)), 0)
    assert (again.base_offset, again.last_offset, again.is_duplicate) == (0, 1, True)
    assert log.log_end_offset == 2


def test_follower_append_does_not_check_sequences(log: PartitionLog) -> None:
    append_to(log, 5)
    follower = PartitionLog("t", 0, bytes(16))
    follower.append_as_leader(view(batch([b"y"], producer_id=7, producer_epoch=3, base_sequence=0)), 0)
    other = PartitionLog("t", 0, bytes(16))
    other.append_as_leader(view(batch([b"z"])), 0)
    append_to(other, 99)
    data = other.read(1, 2, 1 << 20, min_one=True).joined()
    assert follower.append_as_follower(data) == 1


def test_producer_state_is_rebuilt_from_the_log_after_truncation(log: PartitionLog) -> None:
    for sequence in range(4):
        append_to(log, sequence)
    log.truncate_to(2)
    append_to(log, 2)
    assert append_to(log, 1) == (0, 1)
    assert log.log_end_offset == 3


def test_idle_producers_expire(log: PartitionLog) -> None:
    append_to(log, 0)
    state = log.producers.get(7)
    assert state is not None
    assert log.producers.expire(state.last_timestamp - 1) == 0
    assert log.producers.expire(state.last_timestamp) == 1
    append_to(log, 77)
