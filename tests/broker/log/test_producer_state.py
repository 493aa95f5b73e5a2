"""Idempotent producers in one partition's log."""

from __future__ import annotations

import pytest

from pykafka2.broker.log.partition_log import Appended, PartitionLog
from pykafka2.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from tests.broker.support.batches import batch, view


@pytest.fixture
def log() -> PartitionLog:
    return PartitionLog("t", 0, bytes(16))


def append(
    log: PartitionLog, sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 7
) -> Appended:
    data = batch([b"x"] * count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return log.append_as_leader(view(data), 0)


def test_retry_returns_the_offset_of_the_first_attempt(log: PartitionLog) -> None:
    for sequence in range(0, 10, 2):
        append(log, sequence, 2)
    for sequence in range(0, 10, 2):
        again = append(log, sequence, 2)
        assert (again.base_offset, again.last_offset, again.is_duplicate) == (sequence, sequence + 1, True)
    assert log.log_end_offset == 10


def test_only_the_last_five_batches_are_duplicates(log: PartitionLog) -> None:
    for sequence in range(6):
        append(log, sequence)
    assert append(log, 1).is_duplicate
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, 0)


def test_batch_with_another_sequence_range_is_rejected(log: PartitionLog) -> None:
    append(log, 0, 3)
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, 0, 2)


def test_sequence_gap_is_rejected(log: PartitionLog) -> None:
    append(log, 0, 3)
    with pytest.raises(OutOfOrderSequenceNumber, match="expected 3"):
        append(log, 4)
    assert log.log_end_offset == 3


def test_sequences_wrap_to_zero(log: PartitionLog) -> None:
    append(log, 2**31 - 2, 2)
    append(log, 0)
    append(log, 1)
    assert log.log_end_offset == 4


def test_sequence_number_can_wrap_to_zero_inside_a_batch(log: PartitionLog) -> None:
    append(log, 2**31 - 1, 3)
    append(log, 2)
    assert append(log, 2**31 - 1, 3).is_duplicate


def test_unknown_producer_can_start_at_any_sequence(log: PartitionLog) -> None:
    assert append(log, 1234).base_offset == 0


def test_new_producer_epoch_starts_at_sequence_zero(log: PartitionLog) -> None:
    append(log, 0, 5)
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, 5, epoch=1)
    append(log, 0, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        append(log, 5, epoch=0)


def test_duplicate_of_an_older_producer_epoch_is_rejected(log: PartitionLog) -> None:
    append(log, 0, epoch=0)
    append(log, 0, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        append(log, 0, epoch=0)


def test_follower_append_does_not_check_sequences(log: PartitionLog) -> None:
    append(log, 5)
    follower = PartitionLog("t", 0, bytes(16))
    follower.append_as_leader(view(batch([b"y"], producer_id=7, producer_epoch=3, base_sequence=0)), 0)
    other = PartitionLog("t", 0, bytes(16))
    other.append_as_leader(view(batch([b"z"])), 0)
    append(other, 99)
    data = other.read(1, 2, 1 << 20, min_one=True).joined()
    assert follower.append_as_follower(data) == 1


def test_producer_state_is_rebuilt_from_the_log_after_truncation(log: PartitionLog) -> None:
    for sequence in range(4):
        append(log, sequence)
    log.truncate_to(2)
    append(log, 2)
    assert append(log, 1).is_duplicate
    assert log.log_end_offset == 3


def test_idle_producers_expire(log: PartitionLog) -> None:
    append(log, 0)
    state = log.producers.get(7)
    assert state is not None
    assert log.producers.expire(state.last_timestamp - 1) == 0
    assert log.producers.expire(state.last_timestamp) == 1
    append(log, 77)
