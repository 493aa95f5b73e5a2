"""Transactions in one partition's log."""

from __future__ import annotations

import pytest

from pykafka2.broker.log.partition_log import Appended, EndMarker, PartitionLog
from pykafka2.broker.log.producer_state import VerificationGuard
from pykafka2.broker.log.transaction_index import AbortedTransaction, TransactionIndex
from pykafka2.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from pykafka2.records.batch import TRANSACTIONAL_FLAG
from pykafka2.records.control import read_marker
from tests.broker.support.batches import NOW_MS, batch, view


@pytest.fixture
def log() -> PartitionLog:
    return PartitionLog("t", 0, bytes(16))


def write(
    log: PartitionLog,
    producer: int,
    sequence: int,
    *,
    epoch: int = 0,
    count: int = 1,
    transactional: bool = True,
    from_client: bool = True,
    guard: VerificationGuard | None = None,
) -> Appended:
    data = batch(
        [b"x"] * count,
        attributes=TRANSACTIONAL_FLAG if transactional else 0,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return log.append_as_leader(view(data), 0, from_client=from_client, guard=guard)


def end(
    log: PartitionLog,
    producer: int,
    *,
    committed: bool = True,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
) -> int:
    marker = EndMarker(producer, epoch, committed, coordinator_epoch, version)
    return log.append_marker(marker, 0, NOW_MS).base_offset


def replicate(log: PartitionLog) -> None:
    log.advance_high_watermark(log.log_end_offset)


# -------------------------------------------------------------------- verification


def test_unverified_transaction_is_rejected(log: PartitionLog) -> None:
    log.verifications.required = True
    with pytest.raises(InvalidTxnState, match="is not verified"):
        write(log, 7, 0)
    assert log.log_end_offset == 0


def test_verification_guard_is_needed_only_by_the_first_batch_of_a_transaction(log: PartitionLog) -> None:
    log.verifications.required = True
    guard = log.verifications.begin(7, 0, 0, False, NOW_MS)
    assert guard is not None
    write(log, 7, 0, guard=guard)
    assert log.verifications.begin(7, 0, 1, False, NOW_MS) is None
    write(log, 7, 1)
    assert log.log_end_offset == 2


def test_marker_invalidates_the_verification_guard(log: PartitionLog) -> None:
    """The coordinator verified the transaction, then aborted it: a late batch would never end."""
    log.verifications.required = True
    guard = log.verifications.begin(7, 0, 0, False, NOW_MS)
    end(log, 7, committed=False)
    with pytest.raises(InvalidTxnState):
        write(log, 7, 0, guard=guard)
    other = log.verifications.begin(7, 0, 0, False, NOW_MS)
    assert other is not guard
    with pytest.raises(InvalidTxnState):
        write(log, 7, 0, guard=guard)
    write(log, 7, 0, guard=other)


def test_open_transaction_of_an_older_epoch_needs_verification(log: PartitionLog) -> None:
    write(log, 7, 0)
    log.verifications.required = True
    assert log.verifications.begin(7, 1, 0, True, NOW_MS) is not None
    with pytest.raises(InvalidTxnState):
        write(log, 7, 0, epoch=1)


def test_batch_cannot_overtake_one_under_verification(log: PartitionLog) -> None:
    log.verifications.required = True
    guard = log.verifications.begin(7, 0, 0, False, NOW_MS)
    assert log.verifications.begin(7, 0, 1, False, NOW_MS) is guard
    with pytest.raises(OutOfOrderSequenceNumber):
        write(log, 7, 1, guard=guard)
    write(log, 7, 0, guard=guard)
    write(log, 7, 1)


def test_with_an_epoch_for_each_transaction_an_unknown_producer_starts_at_zero(log: PartitionLog) -> None:
    log.verifications.required = True
    guard = log.verifications.begin(7, 3, 5, True, NOW_MS)
    with pytest.raises(OutOfOrderSequenceNumber):
        write(log, 7, 5, epoch=3, guard=guard)
    before = log.verifications.begin(8, 3, 5, False, NOW_MS)
    write(log, 8, 5, epoch=3, guard=before)


def test_verifications_expire(log: PartitionLog) -> None:
    log.verifications.required = True
    guard = log.verifications.begin(7, 0, 0, False, NOW_MS)
    assert log.verifications.expire(NOW_MS - 1) == 0
    assert log.verifications.expire(NOW_MS) == 1
    with pytest.raises(InvalidTxnState):
        write(log, 7, 0, guard=guard)


def test_retry_needs_no_verification(log: PartitionLog) -> None:
    write(log, 7, 0)
    end(log, 7)
    log.verifications.required = True
    assert write(log, 7, 0).is_duplicate


# -------------------------------------------------------------------- mixing


def test_plain_batch_inside_a_transaction_is_rejected(log: PartitionLog) -> None:
    write(log, 7, 0, transactional=False)
    write(log, 7, 1)
    with pytest.raises(InvalidTxnState, match="open since offset 1"):
        write(log, 7, 2, transactional=False)
    assert log.log_end_offset == 2
    end(log, 7)
    write(log, 7, 2, transactional=False)


def test_plain_batch_of_a_coordinator_inside_a_transaction_is_rejected(log: PartitionLog) -> None:
    write(log, 7, -1, from_client=False)
    write(log, 7, -1, from_client=False)
    with pytest.raises(InvalidTxnState):
        write(log, 7, -1, transactional=False, from_client=False)


# -------------------------------------------------------------------- markers


def test_a_marker_is_a_control_batch_with_an_offset_and_the_coordinator_epoch(log: PartitionLog) -> None:
    write(log, 7, 0, count=3)
    assert end(log, 7, committed=False, coordinator_epoch=9) == 3
    (stored,) = log.batches(3)
    marker = read_marker(stored)
    assert stored.is_control
    assert stored.is_transactional
    assert stored.count == 1
    assert (stored.producer_id, stored.producer_epoch, stored.base_sequence) == (7, 0, -1)
    assert marker.is_abort
    assert marker.coordinator_epoch == 9
    assert log.log_end_offset == 4


def test_an_older_coordinator_is_fenced(log: PartitionLog) -> None:
    write(log, 7, 0)
    end(log, 7, coordinator_epoch=5)
    write(log, 7, 1)
    with pytest.raises(TransactionCoordinatorFenced, match="epoch 5 has written since"):
        end(log, 7, coordinator_epoch=4)
    assert log.producers.transactions.ongoing == {7: 2}
    end(log, 7, coordinator_epoch=5)


def test_the_coordinator_epoch_is_kept_per_producer(log: PartitionLog) -> None:
    end(log, 7, coordinator_epoch=5)
    end(log, 8, coordinator_epoch=1)


def test_before_version_2_a_marker_needs_the_epoch_of_the_records_or_a_newer_one(log: PartitionLog) -> None:
    write(log, 7, 0, epoch=4)
    with pytest.raises(InvalidProducerEpoch):
        end(log, 7, epoch=3)
    end(log, 7, epoch=4)
    end(log, 7, epoch=4)


def test_in_version_2_a_marker_needs_a_newer_epoch(log: PartitionLog) -> None:
    write(log, 7, 0, epoch=4)
    with pytest.raises(InvalidProducerEpoch, match=r"transaction\.version 2"):
        end(log, 7, epoch=4, version=2)
    end(log, 7, epoch=5, version=2)
    write(log, 7, 0, epoch=5)
    with pytest.raises(InvalidProducerEpoch):
        end(log, 7, epoch=5, version=2)


def test_in_version_2_a_repeated_marker_is_written_again_and_changes_nothing(log: PartitionLog) -> None:
    write(log, 7, 0, epoch=4)
    end(log, 7, epoch=5, version=2, committed=False)
    end(log, 7, epoch=5, version=2, committed=False)
    assert log.log_end_offset == 3
    assert len(log.aborted_transactions(0, 3)) == 1
    with pytest.raises(InvalidProducerEpoch):
        end(log, 7, epoch=4, version=2)


def test_a_markers_newer_epoch_fences_the_old_producer_and_starts_again_at_zero(log: PartitionLog) -> None:
    write(log, 7, 0, epoch=0)
    end(log, 7, epoch=1, committed=False)
    with pytest.raises(InvalidProducerEpoch):
        write(log, 7, 1, epoch=0)
    with pytest.raises(OutOfOrderSequenceNumber):
        write(log, 7, 1, epoch=1)
    write(log, 7, 0, epoch=1)


def test_sequences_continue_after_a_marker_of_the_same_epoch(log: PartitionLog) -> None:
    write(log, 7, 0, count=2)
    end(log, 7)
    with pytest.raises(OutOfOrderSequenceNumber):
        write(log, 7, 3)
    write(log, 7, 2)


# -------------------------------------------------------------------- the last stable offset


def test_the_last_stable_offset_stops_at_the_earliest_open_transaction(log: PartitionLog) -> None:
    write(log, 1, 0, transactional=False)
    write(log, 7, 0)
    write(log, 8, 0)
    replicate(log)
    assert log.last_stable_offset == 1
    end(log, 7)
    replicate(log)
    assert log.last_stable_offset == 2
    end(log, 8, committed=False)
    replicate(log)
    assert log.last_stable_offset == log.high_watermark == 5


def test_last_stable_offset_waits_for_the_marker_of_the_older_of_two_transactions(log: PartitionLog) -> None:
    write(log, 1, 0, transactional=False)
    write(log, 7, 0)
    write(log, 8, 0)
    replicate(log)
    end(log, 7, committed=False)
    assert log.last_stable_offset == 1, "followers do not have the marker yet"
    end(log, 8)
    assert log.last_stable_offset == 1
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 2, "the marker of the newer one is not replicated"
    replicate(log)
    assert log.last_stable_offset == log.high_watermark == 5
    assert [one.last_stable_offset for one in log.aborted_transactions(0, 5)] == [2]


def test_last_stable_offset_stays_at_the_older_transaction_if_the_newer_ends_first(log: PartitionLog) -> None:
    write(log, 1, 0, transactional=False)
    write(log, 7, 0)
    write(log, 8, 0)
    end(log, 8)
    replicate(log)
    assert log.last_stable_offset == 1
    write(log, 9, 0)
    replicate(log)
    end(log, 7)
    replicate(log)
    assert log.last_stable_offset == 4, "the one that began last is open"


def test_the_last_stable_offset_is_bounded_by_the_high_watermark(log: PartitionLog) -> None:
    for sequence in range(4):
        write(log, 1, sequence, transactional=False)
    write(log, 7, 0)
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 2


def test_a_completed_transaction_counts_as_open_until_its_marker_is_replicated(log: PartitionLog) -> None:
    write(log, 7, 0)
    write(log, 7, 1)
    log.advance_high_watermark(2)
    end(log, 7)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3


def test_the_last_stable_offset_is_not_below_the_log_start(log: PartitionLog) -> None:
    write(log, 7, 0)
    write(log, 1, 0, transactional=False)
    replicate(log)
    log.advance_log_start(1)
    assert log.last_stable_offset == 1
    end(log, 7, committed=False)
    replicate(log)
    assert log.last_stable_offset == 3


def test_a_producer_with_an_open_transaction_does_not_expire(log: PartitionLog) -> None:
    write(log, 7, 0)
    assert log.producers.expire(NOW_MS + 1) == 0
    end(log, 7)
    assert log.producers.expire(NOW_MS + 1) == 1


# -------------------------------------------------------------------- the aborted list


def test_aborted_transactions_are_listed_for_the_range_that_is_read(log: PartitionLog) -> None:
    write(log, 7, 0)  # 0
    end(log, 7, committed=False)  # 1
    write(log, 8, 0)  # 2
    write(log, 7, 1)  # 3
    end(log, 8)  # 4
    end(log, 7, committed=False)  # 5
    first, second = AbortedTransaction(7, 0, 1, 2), AbortedTransaction(7, 3, 5, 6)
    assert log.aborted_transactions(0, 6) == [first, second]
    assert log.aborted_transactions(0, 3) == [first]
    assert log.aborted_transactions(2, 6) == [second]
    assert log.aborted_transactions(1, 2) == [first]
    assert log.aborted_transactions(2, 3) == []


def test_a_long_transaction_is_listed_for_a_range_in_its_middle(log: PartitionLog) -> None:
    write(log, 7, 0)  # 0
    write(log, 8, 0)  # 1
    end(log, 8, committed=False)  # 2
    write(log, 1, 0, transactional=False)  # 3
    end(log, 7, committed=False)  # 4
    assert log.aborted_transactions(3, 4) == [AbortedTransaction(7, 0, 4, 5)]
    assert [one.producer_id for one in log.aborted_transactions(0, 2)] == [8, 7]


def test_transaction_index_rejects_entries_out_of_order() -> None:
    index = TransactionIndex()
    index.append(AbortedTransaction(1, 0, 5, 6))
    with pytest.raises(ValueError, match="does not follow"):
        index.append(AbortedTransaction(2, 0, 5, 6))


# -------------------------------------------------------------------- truncation and followers


def test_truncating_a_marker_reopens_its_transaction(log: PartitionLog) -> None:
    write(log, 7, 0)
    end(log, 7, committed=False)
    replicate(log)
    assert log.last_stable_offset == 2
    log.truncate_to(1)
    assert log.last_stable_offset == 0
    assert log.aborted_transactions(0, 10) == []
    assert log.producers.transactions.ongoing == {7: 0}


def test_truncation_keeps_transactions_begun_before_the_log_start(log: PartitionLog) -> None:
    write(log, 7, 0)
    write(log, 1, 0, transactional=False)
    end(log, 7, committed=False)
    replicate(log)
    log.advance_log_start(1)
    log.truncate_to(2)
    assert log.producers.transactions.ongoing == {7: 0}
    assert log.last_stable_offset == 1
    end(log, 7, committed=False)
    assert log.aborted_transactions(1, 3) == [AbortedTransaction(7, 0, 2, 3)]


def test_follower_log_has_the_transactions_of_its_leader(log: PartitionLog) -> None:
    write(log, 7, 0)
    write(log, 8, 0)
    end(log, 7, committed=False, coordinator_epoch=3)
    write(log, 9, 0, transactional=False)
    follower = PartitionLog("t", 0, bytes(16))
    follower.append_as_follower(log.read(0, 4, 1 << 20, min_one=True).joined())
    for one in (log, follower):
        one.advance_high_watermark(4)
    assert follower.last_stable_offset == log.last_stable_offset == 1
    assert follower.aborted_transactions(0, 4) == log.aborted_transactions(0, 4)
    with pytest.raises(TransactionCoordinatorFenced):
        end(follower, 7, coordinator_epoch=2)
    follower.truncate_fully_and_start_at(10)
    assert follower.producers.transactions.ongoing == {}
    assert follower.last_stable_offset == 10
