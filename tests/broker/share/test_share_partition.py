"""A share partition: acquiring, acknowledging, locks, delivery limits, and what the coordinator stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.broker.share.in_flight import InFlightBatch, Unit
from pykafka2.broker.share.share_partition import Status
from pykafka2.errors import (
    CoordinatorNotAvailable,
    FencedStateEpoch,
    InvalidRecordState,
    InvalidRequest,
    NotLeaderOrFollower,
    UnknownServerError,
)
from pykafka2.records.control import build_end_marker
from tests.broker.share.bench import Bench, MemoryCoordinator, StoredBatches, log_of, ranges
from tests.broker.support.batches import in_transaction, view

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
OK = [None]


def test_acquires_whole_batches_beyond_max_records() -> None:
    bench = Bench(*log_of(3, 3, 3))
    assert ranges(bench.acquire(max_records=4)) == [(0, 5, 1)]
    assert ranges(bench.acquire(max_records=4)) == [(6, 8, 1)]
    assert bench.acquire() == []


def test_record_limit_mode_acquires_no_more_than_max_records() -> None:
    bench = Bench(*log_of(3, 3))
    assert ranges(bench.acquire(max_records=2, strict=True)) == [(0, 1, 1)]
    assert ranges(bench.acquire("n", max_records=2, strict=True)) == [(2, 2, 1), (3, 3, 1)]
    assert ranges(bench.acquire("n", max_records=9, strict=True)) == [(4, 5, 1)]


def test_new_records_are_returned_in_ranges_of_batch_size() -> None:
    bench = Bench(*log_of(3, 3, 3, 3))
    assert ranges(bench.acquire(batch_size=5)) == [(0, 5, 1), (6, 11, 1)]


@pytest.mark.parametrize("batch_size", [0, -1])
def test_batch_size_below_one_returns_each_batch_of_the_log(batch_size: int) -> None:
    bench = Bench(*log_of(3, 2))
    assert ranges(bench.acquire(batch_size=batch_size)) == [(0, 2, 1), (3, 4, 1)]
    assert bench.acquire("n", batch_size=batch_size) == []
    assert bench.acknowledge(0, 4, ACCEPT) == OK
    assert bench.window == (5, 5)


def test_accepted_records_move_the_start_offset_and_are_stored_first() -> None:
    bench = Bench(*log_of(4))
    bench.acquire()
    assert bench.acknowledge(0, 1, ACCEPT) == OK
    assert bench.window == (2, 3)
    assert bench.stored == [(0, "ACKNOWLEDGED", 1), (1, "ACKNOWLEDGED", 1)]
    assert bench.acknowledge(2, 3, ACCEPT) == OK
    assert bench.window == (4, 4)
    assert bench.states == []


def test_batch_is_divided_by_different_types_and_not_by_equal_ones() -> None:
    bench = Bench(*log_of(3, 3))
    bench.acquire(max_records=3)
    bench.acquire(max_records=3)
    bench.coordinator.is_held = True
    bench.acknowledge(0, 2, ACCEPT, ACCEPT, ACCEPT)
    bench.acknowledge(3, 5, ACCEPT, RELEASE, ACCEPT)
    assert [unit.last_offset for unit in bench.partition.records.units()] == [2, 3, 4, 5]
    bench.coordinator.resume()
    assert bench.states[0] == (4, "AVAILABLE", 1)


def test_acknowledgement_is_answered_after_the_state_is_stored() -> None:
    bench = Bench(*log_of(2))
    bench.acquire()
    bench.coordinator.is_held = True
    results = bench.acknowledge(0, 1, ACCEPT)
    assert results == []
    assert isinstance(bench.acknowledge(0, 1, ACCEPT)[0], InvalidRecordState)
    assert bench.acquire() == []
    bench.coordinator.resume()
    assert results == OK


def test_write_that_is_stored_before_an_earlier_one_ends_its_own_records_only() -> None:
    bench = Bench(*log_of(4))
    bench.acquire()
    bench.coordinator.is_held = True
    first, second = bench.acknowledge(0, 1, ACCEPT), bench.acknowledge(2, 3, ACCEPT)
    bench.coordinator.resume(1)
    assert (first, second, bench.window) == ([], OK, (0, 3))
    bench.coordinator.error_code = CoordinatorNotAvailable.code or 0
    bench.coordinator.resume()
    assert isinstance(first[0], CoordinatorNotAvailable)
    assert [state for _, state, _ in bench.states] == ["ACQUIRED"] * 2 + ["ACKNOWLEDGED"] * 2
    bench.coordinator.error_code, bench.coordinator.is_held = 0, False
    assert bench.acknowledge(0, 1, ACCEPT) == OK
    assert bench.window == (4, 4)


def test_failed_write_undoes_the_acknowledgement() -> None:
    bench = Bench(*log_of(2))
    bench.acquire()
    bench.coordinator.error_code = CoordinatorNotAvailable.code or 0
    assert isinstance(bench.acknowledge(0, 0, ACCEPT)[0], CoordinatorNotAvailable)
    assert bench.states == [(0, "ACQUIRED", 1), (1, "ACQUIRED", 1)]
    bench.coordinator.error_code = 0
    assert bench.acknowledge(0, 1, ACCEPT) == OK
    assert bench.window == (2, 2)


def test_lock_that_expires_during_a_failed_write_releases_the_record() -> None:
    bench = Bench(*log_of(1))
    bench.acquire()
    bench.coordinator.is_held = True
    results = bench.acknowledge(0, 0, ACCEPT)
    bench.wait(31)
    assert bench.states == [(0, "ACKNOWLEDGED", 1)]
    bench.coordinator.error_code = FencedStateEpoch.code or 0
    bench.coordinator.resume()
    assert isinstance(results[0], NotLeaderOrFollower)
    assert bench.states == [(0, "AVAILABLE", 1)]


def test_lock_that_expires_during_a_failed_write_after_the_last_delivery_archives_the_record() -> None:
    bench = Bench(*log_of(1), delivery_limit=1)
    bench.acquire()
    bench.coordinator.is_held = True
    bench.acknowledge(0, 0, RELEASE)
    bench.wait(31)
    bench.coordinator.error_code = CoordinatorNotAvailable.code or 0
    bench.coordinator.resume()
    assert bench.acquire("n") == []
    assert bench.window == (1, 1)


def test_record_that_a_failed_write_archives_counts_as_completed() -> None:
    bench = Bench(*log_of(3), delivery_limit=1, dead_letter_topic="dlq.t")
    bench.hold_letters = []
    bench.acquire()
    bench.coordinator.is_held = True
    bench.acknowledge(1, 1, RELEASE)
    bench.wait(31)
    assert bench.partition.records.completed_count == 0
    bench.coordinator.error_code = CoordinatorNotAvailable.code or 0
    bench.coordinator.resume()
    assert [state for _, state, _ in bench.states] == ["ARCHIVING", "ARCHIVED", "ARCHIVING"]
    assert bench.partition.records.completed_count == 1


def test_failed_write_takes_back_the_count_of_completed_records() -> None:
    bench = Bench(*log_of(2))
    bench.acquire()
    bench.coordinator.is_held = True
    bench.acknowledge(1, 1, ACCEPT)
    assert bench.partition.records.completed_count == 1
    bench.coordinator.error_code = CoordinatorNotAvailable.code or 0
    bench.coordinator.resume()
    assert bench.partition.records.completed_count == 0


def test_released_record_is_delivered_again_with_a_higher_count() -> None:
    bench = Bench(*log_of(3))
    bench.acquire()
    assert bench.acknowledge(0, 2, ACCEPT, RELEASE, ACCEPT) == OK
    assert bench.stored[1:] == [(1, "AVAILABLE", 1), (2, "ACKNOWLEDGED", 1)]
    assert ranges(bench.acquire("n")) == [(1, 1, 2)]
    assert bench.acknowledge(1, 1, ACCEPT, member_id="n") == OK
    assert bench.window == (3, 3)


def test_rejected_records_and_gaps_are_archived() -> None:
    bench = Bench(*log_of(3))
    bench.acquire()
    assert bench.acknowledge(1, 2, REJECT, GAP) == OK
    assert bench.states == [(0, "ACQUIRED", 1), (1, "ARCHIVED", 1), (2, "ARCHIVED", 1)]
    assert bench.coordinator.completed_count == 2
    bench.acknowledge(0, 0, ACCEPT)
    assert bench.window == (3, 3)


def test_acknowledgements_of_one_request_apply_together_or_not_at_all() -> None:
    bench = Bench(*log_of(3))
    bench.acquire()
    bench.acknowledge(2, 2, ACCEPT)
    assert isinstance(bench.acknowledge(0, 2, ACCEPT)[0], InvalidRecordState)
    assert bench.states[:2] == [(0, "ACQUIRED", 1), (1, "ACQUIRED", 1)]


def test_other_members_and_unknown_offsets_are_rejected() -> None:
    bench = Bench(*log_of(3))
    assert isinstance(bench.acknowledge(0, 0, ACCEPT)[0], InvalidRecordState)
    bench.acquire()
    assert isinstance(bench.acknowledge(0, 2, ACCEPT, member_id="n")[0], InvalidRecordState)
    assert isinstance(bench.acknowledge(0, 0, ACCEPT, member_id="n")[0], InvalidRecordState)
    assert isinstance(bench.acknowledge(3, 4, ACCEPT)[0], InvalidRequest)
    assert isinstance(bench.acknowledge(1, 3, ACCEPT)[0], InvalidRequest)
    assert isinstance(bench.acknowledge(1, 1, 9)[0], InvalidRequest)
    assert bench.acknowledge(0, 2, ACCEPT) == OK
    assert bench.acknowledge(0, 2, ACCEPT) == OK, "all of it is before the start offset"


def test_expired_lock_releases_the_records_of_that_acquisition_only() -> None:
    bench = Bench(*log_of(2, 2))
    bench.acquire(max_records=2)
    bench.wait(20)
    bench.acquire("n", max_records=2)
    bench.wait(11)
    assert [state for _, state, _ in bench.states] == ["AVAILABLE"] * 2 + ["ACQUIRED"] * 2
    assert bench.notified
    assert bench.stored == [(0, "AVAILABLE", 1), (1, "AVAILABLE", 1)]
    bench.wait(20)
    assert {state for _, state, _ in bench.states} == {"AVAILABLE"}
    assert bench.wheel.next_deadline() == float("inf")


def test_renewed_lock_expires_later_and_others_of_the_batch_do_not() -> None:
    bench = Bench(*log_of(3))
    bench.acquire()
    bench.wait(20)
    assert bench.acknowledge(1, 1, RENEW) == OK
    bench.wait(11)
    assert [state for _, state, _ in bench.states] == ["AVAILABLE", "ACQUIRED", "AVAILABLE"]
    assert bench.coordinator.writes == 1, "a renewal is not stored"
    bench.wait(20)
    assert [state for _, state, _ in bench.states] == ["AVAILABLE"] * 3


def test_renewal_of_a_whole_batch_and_a_group_that_disables_it() -> None:
    bench = Bench(*log_of(2, 2))
    bench.acquire(max_records=2)
    bench.acquire(max_records=2)
    bench.wait(20)
    assert bench.acknowledge(0, 1, RENEW) == OK
    assert [lock.deadline for lock in bench.locks] == [30.0, 50.0], "the first one ended with the renewal"
    bench.wait(11)
    assert [state for _, state, _ in bench.states] == ["ACQUIRED"] * 2 + ["AVAILABLE"] * 2
    disabled = Bench(*log_of(1), can_renew=False)
    disabled.acquire()
    assert isinstance(disabled.acknowledge(0, 0, RENEW)[0], InvalidRecordState)


def test_record_is_archived_after_exactly_the_delivery_limit() -> None:
    bench = Bench(*log_of(1), delivery_limit=3)
    for count in (1, 2, 3):
        assert ranges(bench.acquire()) == [(0, 0, count)]
        bench.acknowledge(0, 0, RELEASE)
    assert bench.acquire() == []
    assert bench.window == (1, 1)


def test_lock_that_expires_after_the_last_delivery_archives_the_record() -> None:
    bench = Bench(*log_of(1), delivery_limit=2)
    for count in (1, 2):
        assert ranges(bench.acquire()) == [(0, 0, count)]
        bench.wait(31)
    assert bench.window == (1, 1)


def test_records_that_failed_repeatedly_are_delivered_in_smaller_numbers() -> None:
    bench = Bench(*log_of(8), delivery_limit=5)
    for count in (1, 2, 3):
        assert ranges(bench.acquire()) == [(0, 7, count)]
        bench.leave()
    assert ranges(bench.acquire()) == [(0, 3, 4)], "half of the batch"
    bench.leave()
    assert ranges(bench.acquire()) == [(0, 0, 5)], "alone at the last attempt"


def test_leaving_member_releases_its_records_of_all_batches() -> None:
    bench = Bench(*log_of(2, 2, 2))
    bench.acquire(max_records=2)
    bench.acquire("n", max_records=2)
    bench.acquire(max_records=2)
    bench.acknowledge(4, 4, ACCEPT)
    bench.leave()
    assert [state for _, state, _ in bench.states] == (
        ["AVAILABLE"] * 2 + ["ACQUIRED"] * 2 + ["ACKNOWLEDGED", "AVAILABLE"]
    )
    assert ranges(bench.acquire("o")) == [(0, 1, 2), (5, 5, 2)]


def test_max_record_locks_limit_the_window_but_not_redeliveries() -> None:
    bench = Bench(*log_of(2, 2, 2), max_record_locks=4)
    assert ranges(bench.acquire(max_records=4)) == [(0, 3, 1)]
    assert bench.acquire() == []
    assert not bench.partition.can_acquire(), "a fetch waits"
    bench.acknowledge(2, 2, RELEASE)
    assert ranges(bench.acquire("n")) == [(2, 2, 2)]
    bench.acknowledge(0, 1, ACCEPT)
    assert ranges(bench.acquire("n")) == [(4, 5, 1)]


def test_new_leader_continues_where_the_old_one_was() -> None:
    bench = Bench(*log_of(3, 3, 3))
    bench.acquire(max_records=6)
    bench.acknowledge(0, 1, ACCEPT)
    bench.acknowledge(4, 4, ACCEPT)
    bench.acknowledge(5, 5, RELEASE)
    bench.restart()
    assert bench.load_errors == OK
    assert bench.window == (2, 5)
    assert ranges(bench.acquire("n")) == [(2, 3, 1), (5, 5, 2), (6, 8, 1)]


def test_new_leader_finds_gaps_one_batch_at_a_time() -> None:
    bench = Bench(*log_of(2, 2, 2, 2))
    bench.acquire(max_records=2)
    bench.acquire(max_records=2)
    bench.acquire(max_records=2)
    bench.acknowledge(2, 3, ACCEPT)
    bench.restart()
    assert bench.window == (0, 3)
    assert ranges(bench.acquire("n", max_records=1)) == [(0, 1, 1)]
    bench.acknowledge(0, 1, ACCEPT, member_id="n")
    assert bench.window == (2, 3)
    assert ranges(bench.acquire("n")) == [(4, 7, 1)]
    bench.acknowledge(4, 4, ACCEPT, member_id="n")
    assert bench.window == (5, 7)


def test_state_that_cannot_be_read_fails_the_partition() -> None:
    bench = Bench(*log_of(1))
    bench.coordinator.error_code = CoordinatorNotAvailable.code or 0
    bench.restart()
    assert isinstance(bench.load_errors[0], CoordinatorNotAvailable)
    assert bench.partition.status is Status.FAILED
    inconsistent = MemoryCoordinator(start_offset=5)
    inconsistent.states = {3: (0, 1)}
    other = Bench(*log_of(1), coordinator=inconsistent)
    assert isinstance(other.load_errors[0], UnknownServerError)


def test_log_start_beyond_the_window_drops_undelivered_records() -> None:
    bench = Bench(*log_of(3, 3))
    bench.acquire(max_records=3)
    bench.acknowledge(1, 1, RELEASE)
    bench.acknowledge(0, 0, ACCEPT)
    bench.partition.records.move_log_start(3)
    assert bench.window == (3, 3)
    assert bench.states == []
    bench.log = log_of(3, start=3)
    assert ranges(bench.acquire("n")) == [(3, 5, 1)]
    bench.wait(31)
    assert bench.window == (3, 5)
    assert [state for _, state, _ in bench.states] == ["AVAILABLE"] * 3


@pytest.mark.parametrize("leaves", [False, True])
def test_log_start_within_a_held_batch_ends_the_records_before_it(leaves: bool) -> None:
    bench = Bench(*log_of(4))
    bench.acquire()
    bench.partition.records.move_log_start(2)
    if leaves:
        bench.leave()
    bench.wait(31)
    assert bench.window == (2, 3)
    assert ranges(bench.acquire("n")) == [(2, 3, 2)]


def test_compacted_records_are_not_waited_for() -> None:
    bench = Bench(*log_of(2, 2, 2))
    bench.acquire()
    bench.leave()
    bench.log = [bench.log[2]]
    assert ranges(bench.acquire("n")) == [(4, 5, 2)]
    bench.acknowledge(4, 5, ACCEPT, member_id="n")
    assert bench.window == (6, 6)


def test_read_committed_members_do_not_get_aborted_records() -> None:
    aborted = view(view(in_transaction([b"a", b"b"], 7)).with_offsets(0))
    marker = view(view(build_end_marker(False, 0, 7, 0, 0)).with_offsets(2))
    bench = Bench(aborted, marker, *log_of(2, start=3))
    acquired = bench.acquire(aborted=[AbortedTransaction(7, 0, 2, 3)])
    assert ranges(acquired) == [(2, 4, 1)]
    bench.acknowledge(2, 4, GAP, ACCEPT, ACCEPT)
    assert bench.window == (5, 5)


def test_rejected_record_is_archiving_until_its_dead_letter_is_written() -> None:
    bench = Bench(*log_of(3), dead_letter_topic="dlq.t")
    bench.hold_letters = []
    bench.acquire()
    assert bench.acknowledge(0, 2, ACCEPT, REJECT, REJECT) == OK
    assert bench.states == [(1, "ARCHIVING", 1), (2, "ARCHIVING", 1)]
    assert [(one.first_offset, one.last_offset, one.cause) for one in bench.letters] == [
        (1, 2, "Offset rejected by client.")
    ]
    bench.hold_letters[0](bench.now)
    assert bench.window == (3, 3)


def test_written_dead_letter_is_not_sent_again_by_a_new_leader() -> None:
    bench = Bench(*log_of(2), dead_letter_topic="dlq.t")
    bench.hold_letters = []
    bench.acquire()
    bench.acknowledge(1, 1, REJECT)
    assert bench.stored == [(1, "ARCHIVING", 1)]
    bench.hold_letters[0](bench.now)
    assert bench.stored == [(1, "ARCHIVED", 1)]
    bench.restart()
    assert len(bench.letters) == 1
    assert ranges(bench.acquire("n")) == [(0, 0, 1)]


def test_dead_letter_of_an_expired_lock_is_sent_though_the_state_is_not_stored() -> None:
    bench = Bench(*log_of(1), dead_letter_topic="dlq.t", delivery_limit=1)
    bench.acquire()
    bench.coordinator.error_code = CoordinatorNotAvailable.code or 0
    bench.wait(31)
    assert [(one.first_offset, one.last_offset) for one in bench.letters] == [(0, 0)]
    assert bench.window == (1, 1)


def test_new_leader_sends_the_dead_letters_that_were_not_written() -> None:
    bench = Bench(*log_of(2), dead_letter_topic="dlq.t", delivery_limit=2)
    bench.hold_letters = []
    for _ in range(2):
        bench.acquire()
        bench.leave()
    assert [one.cause for one in bench.letters] == ["Offset delivery count exceeded the threshold."]
    bench.hold_letters = None
    bench.restart()
    assert [(one.first_offset, one.cause) for one in bench.letters[1:]] == [
        (0, "Offset delivery count exceeded the threshold."),
        (1, "Offset delivery count exceeded the threshold."),
    ]
    assert bench.window == (2, 2)
    assert bench.acquire() == []


def test_new_leader_sends_dead_letters_of_rejected_records_as_such() -> None:
    bench = Bench(*log_of(1), dead_letter_topic="dlq.t", delivery_limit=2)
    bench.hold_letters = []
    bench.acquire()
    bench.acknowledge(0, 0, REJECT)
    bench.restart()
    assert [one.cause for one in bench.letters] == ["Offset rejected by client."] * 2


@pytest.mark.parametrize("divided", [False, True])
def test_fenced_partition_neither_delivers_nor_releases(divided: bool) -> None:
    bench = Bench(*log_of(4))
    bench.acquire()
    if divided:
        bench.acknowledge(1, 1, RELEASE)
    bench.partition.fence()
    writes = bench.coordinator.writes
    bench.wait(60)
    assert bench.coordinator.writes == writes
    assert bench.acquire() == []


def test_locks_can_be_expired_at_once() -> None:
    bench = Bench(*log_of(2, 2))
    bench.acquire(max_records=2)
    bench.acquire("n", max_records=2)
    assert bench.partition.expire_locks(bench.now, "n") == 2
    assert [state for _, state, _ in bench.states] == ["ACQUIRED"] * 2 + ["AVAILABLE"] * 2
    assert bench.partition.expire_locks(bench.now) == 2


def test_aborted_records_beyond_the_lock_limit_do_not_stop_the_group() -> None:
    aborted = [view(view(in_transaction([b"a"] * 3, 7)).with_offsets(offset)) for offset in (0, 3, 6)]
    marker = view(view(build_end_marker(False, 0, 7, 0, 0)).with_offsets(9))
    bench = Bench(*aborted, marker, *log_of(2, start=10), max_record_locks=3)
    acquired = [bench.acquire(aborted=[AbortedTransaction(7, 0, 9, 10)]) for _ in range(4)]
    assert list(map(ranges, acquired)) == [[], [], [], [(9, 11, 1)]]
    bench.acknowledge(9, 11, GAP, ACCEPT, ACCEPT)
    assert bench.window == (12, 12)
    assert bench.coordinator.completed_count == 3


def test_moved_log_start_frees_the_locks_of_ended_records_behind_it() -> None:
    bench = Bench(*log_of(1, 2, 2), max_record_locks=2)
    bench.acquire(max_records=3)
    bench.acknowledge(1, 2, ACCEPT, ACCEPT)
    bench.acknowledge(0, 0, RELEASE)
    assert bench.window == (0, 2)
    bench.partition.records.move_log_start(1)
    assert ranges(bench.acquire()) == [(3, 4, 1)]


def test_compacted_records_free_their_locks() -> None:
    bench = Bench(*log_of(3, 2), max_record_locks=3)
    bench.acquire(max_records=3)
    bench.leave()
    del bench.log[0]
    assert bench.acquire() == []
    assert ranges(bench.acquire()) == [(3, 4, 1)]


@pytest.mark.parametrize(
    "batch",
    [(0, 2, 1), (0, 2, 5), (0, 2, -1), (2, 0, 2), (0, 1 << 40, 0), (-1, 0, 2)],
    ids=["acquired", "unknown", "negative", "reversed", "huge", "before-start"],
)
def test_inconsistent_stored_state_fails_the_load(batch: tuple[int, int, int]) -> None:
    bench = Bench(*log_of(3), coordinator=StoredBatches(batch))
    assert [type(error) for error in bench.load_errors] == [UnknownServerError]
    assert bench.partition.status is Status.FAILED


def test_overlapping_stored_batches_fail_the_load() -> None:
    bench = Bench(*log_of(3), coordinator=StoredBatches((0, 1, 2), (1, 2, 0)))
    assert bench.partition.status is Status.FAILED


def test_renewing_each_record_apart_keeps_one_lock_for_each() -> None:
    bench = Bench(*log_of(300))
    bench.acquire()
    for _ in range(3):
        for offset in range(300):
            assert bench.acknowledge(offset, offset, RENEW) == OK
    assert bench.partition.expire_locks(bench.now) == 300
    assert bench.partition.expire_locks(bench.now) == 0


def test_expired_lock_visits_only_its_own_records(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(*log_of(3, 3))
    bench.acquire(max_records=6)
    for offset in (1, 2, 4):
        assert bench.acknowledge(offset, offset, RENEW) == OK
    visit = InFlightBatch.units

    def units(batch: InFlightBatch) -> Iterator[Unit]:
        assert batch.whole is not None, "a divided batch can have a lock for each record"
        return visit(batch)

    with monkeypatch.context() as patch:
        patch.setattr(InFlightBatch, "units", units)
        bench.wait(31)
    assert bench.states == [(offset, "AVAILABLE", 1) for offset in range(6)]
