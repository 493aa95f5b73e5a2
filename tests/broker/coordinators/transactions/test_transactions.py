"""The transaction coordinator, without brokers."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from pykafka2 import errors
from pykafka2.broker.coordinators.internal_topics import partition_for
from pykafka2.broker.coordinators.replay import Producer
from pykafka2.broker.coordinators.settings import TopicTable
from pykafka2.broker.coordinators.transactions.state import MAX_EPOCH
from pykafka2.errors import NotEnoughReplicas
from pykafka2.protocol.messages.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    InitProducerIdRequest,
)
from pykafka2.protocol.messages.transaction_admin import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.broker.support.transactions import A, B, ShardTransactions, TransactionBench

CONCURRENT = errors.ConcurrentTransactions.code
FENCED = errors.ProducerFenced.code
OLD_EPOCH = errors.InvalidProducerEpoch.code
INVALID_STATE = errors.InvalidTxnState.code
WRONG_ID = errors.InvalidProducerIdMapping.code

MakeBench = Callable[[int], TransactionBench]

OLD_VERSIONS = pytest.mark.parametrize("version", [0, 1])


@pytest.fixture
def shard_bench() -> ShardTransactions:
    return ShardTransactions()


def bumped(producer: Producer, by: int = 1) -> Producer:
    return Producer(producer.id, producer.epoch + by)


def exhaust(bench: TransactionBench, epoch: int = MAX_EPOCH - 1) -> Producer:
    """Set the epoch of the transactional id, as after many starts."""
    bench.begin()
    transaction = attrs.evolve(bench.transaction, epoch=epoch)
    bench.shard.transactions[bench.name] = transaction
    return Producer(transaction.producer_id, epoch)


# -------------------------------------------------------------------- ids and timeouts


def test_every_transactional_id_has_a_producer_id_of_its_own(shard_bench: ShardTransactions) -> None:
    ids = {shard_bench.begin(name=name).id for name in "abc"}
    ids.add(
        shard_bench.call(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 5
        ).producer_id
    )
    assert ids == {1001, 1002, 1003, 1004}
    assert shard_bench.begin(name="a") == Producer(1001, 1)


def test_an_empty_transactional_id_is_refused(bench: TransactionBench) -> None:
    assert bench.init(name="").error_code == errors.InvalidRequest.code
    assert bench.add(Producer(1, 0), name="") == {errors.InvalidRequest.code}
    assert bench.end(Producer(1, 0), name="").error_code == errors.InvalidRequest.code


@pytest.mark.parametrize(
    ("timeout_ms", "is_valid"), [(-1, False), (0, False), (1, True), (900_000, True), (900_001, False)]
)
def test_transaction_timeout_outside_its_bounds_is_rejected(
    bench: TransactionBench, timeout_ms: int, is_valid: bool
) -> None:
    code = bench.init(timeout_ms=timeout_ms).error_code
    assert code == (0 if is_valid else errors.InvalidTransactionTimeout.code)


def test_producer_id_without_an_epoch_is_rejected(shard_bench: ShardTransactions) -> None:
    assert shard_bench.init(Producer(5, -1)).error_code == errors.InvalidRequest.code
    assert shard_bench.init(Producer(-1, 5)).error_code == errors.InvalidRequest.code


def test_two_phase_commit_is_switched_off(shard_bench: ShardTransactions) -> None:
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1, enable2_pc=True)
    assert shard_bench.call(request, 6).error_code == errors.TransactionalIdAuthorizationFailed.code


# -------------------------------------------------------------------- a second producer


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_new_producer_aborts_and_fences_the_one_before(make_bench: MakeBench, version: int) -> None:
    bench = make_bench(version)
    old = bench.begin()
    bench.add(old)
    bench.write(old, A)
    bench.hold_markers()
    assert bench.init().error_code == CONCURRENT
    assert bench.state == "PrepareAbort"
    assert bench.transaction.epoch == old.epoch + 1
    assert bench.init().error_code == CONCURRENT
    bench.finish()
    assert bench.state == "CompleteAbort"
    new = bench.begin()
    assert new == bumped(old, 2)
    assert bench.end(old).error_code == FENCED
    assert bench.try_write(old, A) == OLD_EPOCH
    assert bench.committed_values(A) == []
    bench.add(new)
    bench.write(new, A, b"kept")
    assert bench.end(new, version=5 if version == 2 else 4).error_code == 0
    bench.finish()
    assert bench.committed_values(A) == [b"kept"]


@pytest.mark.parametrize("version", [1, 2])
def test_requests_during_pending_markers_get_concurrent_transactions(
    make_bench: MakeBench, version: int
) -> None:
    bench = make_bench(version)
    producer = bench.begin()
    bench.add(producer)
    bench.hold_markers()
    bench.end(producer)
    assert bench.init().error_code == CONCURRENT
    assert bench.init(producer).error_code == CONCURRENT
    assert bench.state == "PrepareCommit"
    bench.finish()
    assert bench.init().error_code == 0


def test_a_failed_fence_changes_nothing(shard_bench: ShardTransactions) -> None:
    producer = shard_bench.begin()
    shard_bench.add(producer)
    shard_bench.log.fails_with = NotEnoughReplicas()
    assert shard_bench.init().error_code == errors.CoordinatorNotAvailable.code
    shard_bench.log.fails_with = None
    assert (shard_bench.state, shard_bench.transaction.epoch) == ("Ongoing", producer.epoch)
    assert shard_bench.end(producer).error_code == 0


# -------------------------------------------------------------------- fencing, KIP-360


@pytest.mark.parametrize("version", range(3, 6))
def test_init_producer_id_returns_producer_fenced_from_version_4_on(
    bench: TransactionBench, version: int
) -> None:
    bench.begin()
    producer = bench.begin()
    stale = Producer(producer.id, producer.epoch - 1)
    assert bench.init(stale, version=version).error_code == (FENCED if version >= 4 else OLD_EPOCH)


@pytest.mark.parametrize("version", range(6))
def test_other_requests_return_producer_fenced_from_version_2_on(
    bench: TransactionBench, version: int
) -> None:
    stale = Producer(bench.begin().id, 7)
    expected = FENCED if version >= 2 else OLD_EPOCH
    assert bench.add(stale, version=version) == {expected}
    assert bench.end(stale, version=version).error_code == expected
    assert bench.add_offsets(stale, version=min(version, 4)) == expected


def test_kip_360_producer_continues_with_an_epoch_bump_and_may_repeat_the_request(
    shard_bench: ShardTransactions,
) -> None:
    producer = shard_bench.begin()
    assert shard_bench.init(producer).producer_epoch == 1
    assert shard_bench.init(producer).producer_epoch == 1
    assert shard_bench.init(bumped(producer)).producer_epoch == 2
    assert shard_bench.init(producer).error_code == FENCED


def test_kip_360_other_producer_id_is_fenced_and_a_forgotten_one_starts_over(
    shard_bench: ShardTransactions,
) -> None:
    producer = shard_bench.begin()
    assert shard_bench.init(Producer(producer.id + 500, 0)).error_code == FENCED
    response = shard_bench.init(Producer(77, 3), name="forgotten")
    assert (response.error_code, response.producer_epoch) == (0, 0)
    assert response.producer_id != 77


def test_kip_360_retry_of_a_bump_is_fenced_by_the_next_coordinator(shard_bench: ShardTransactions) -> None:
    producer = shard_bench.begin()
    shard_bench.init(producer)
    shard_bench.reload()
    assert shard_bench.init(producer).error_code == FENCED


# -------------------------------------------------------------------- used-up epochs


def test_producer_with_exhausted_epochs_gets_a_new_id(bench: TransactionBench) -> None:
    last = exhaust(bench, MAX_EPOCH - 2)
    assert bench.init().producer_epoch == MAX_EPOCH - 1
    response = bench.init()
    assert (response.producer_id > last.id, response.producer_epoch) == (True, 0)


def test_previous_producer_id_is_kept_for_a_retry(shard_bench: ShardTransactions) -> None:
    last = exhaust(shard_bench)
    first = shard_bench.init(last)
    again = shard_bench.init(last)
    assert (first.producer_id, first.producer_epoch) == (last.id + 1, 0)
    assert (again.producer_id, again.producer_epoch) == (last.id + 1, 0)
    assert shard_bench.transaction.previous_producer_id == last.id + 1
    assert shard_bench.init(last).error_code == FENCED


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_last_epoch_is_kept_for_fencing(version: int) -> None:
    bench = ShardTransactions(transaction_version=version)
    last = exhaust(bench)
    bench.add(last, version=3)
    assert bench.init().error_code == CONCURRENT
    assert (bench.transaction.producer_id, bench.transaction.epoch) == (last.id, MAX_EPOCH)
    bench.finish()
    response = bench.init()
    assert response.error_code == 0
    assert response.producer_id == last.id + 1
    # With version 2 the fence has already taken the new id, and this is its first bump.
    assert response.producer_epoch == (1 if version == 2 else 0)


def test_end_txn_with_exhausted_epochs_returns_a_new_id_in_version_2(shard_bench: ShardTransactions) -> None:
    last = exhaust(shard_bench)
    shard_bench.add(last)
    response = shard_bench.end(last)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, last.id + 1, 0)
    (order,) = shard_bench.orders()
    assert (order.producer_id, order.producer_epoch) == (last.id, MAX_EPOCH)
    shard_bench.report(order, A, shard_bench.mark(order, A))
    again = shard_bench.end(last)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, last.id + 1, 0)
    assert shard_bench.add(Producer(last.id + 1, 0)) == {0}


# -------------------------------------------------------------------- EndTxn


@OLD_VERSIONS
def test_repeated_commit_succeeds_and_abort_after_commit_is_rejected(
    make_bench: MakeBench, version: int
) -> None:
    bench = make_bench(version)
    producer = bench.begin()
    assert bench.end(producer, version=4).error_code == INVALID_STATE
    bench.add(producer, version=3)
    bench.write(producer, A)
    bench.hold_markers()
    assert bench.end(producer, version=4).error_code == 0
    assert bench.end(producer, version=4).error_code == CONCURRENT
    bench.finish()
    assert bench.end(producer, version=4).error_code == 0
    assert bench.end(producer, committed=False, version=4).error_code == INVALID_STATE
    assert bench.transaction.epoch == producer.epoch
    assert bench.committed_values(A) == [b"x"]


def test_every_end_txn_returns_a_new_epoch_in_version_2(bench: TransactionBench) -> None:
    producer = bench.begin()
    bench.add(producer)
    bench.write(producer, A, b"one")
    bench.hold_markers()
    response = bench.end(producer)
    assert (response.producer_id, response.producer_epoch) == (producer.id, producer.epoch + 1)
    assert bench.end(producer).error_code == CONCURRENT
    bench.finish()
    assert bench.end(producer).producer_epoch == producer.epoch + 1  # the retry after a lost response
    assert bench.end(producer, committed=False).error_code == INVALID_STATE
    following = bumped(producer)
    bench.add(following)
    bench.write(following, A, b"two")
    assert bench.end(producer).error_code == FENCED
    bench.end(following, committed=False)
    bench.finish()
    assert bench.committed_values(A) == [b"one"]
    # An abort of nothing has an epoch, too.
    response = bench.end(bumped(producer, 2), committed=False)
    assert (response.error_code, response.producer_epoch) == (0, producer.epoch + 3)


def test_abort_of_an_empty_transaction_completes_at_once_with_a_new_epoch(
    shard_bench: ShardTransactions,
) -> None:
    producer = shard_bench.begin()
    response = shard_bench.end(producer, committed=False)
    assert (response.error_code, response.producer_epoch) == (0, producer.epoch + 1)
    assert (shard_bench.state, shard_bench.transaction.epoch) == ("CompleteAbort", producer.epoch + 1)
    assert shard_bench.orders() == []
    assert shard_bench.end(bumped(producer), committed=True).error_code == INVALID_STATE


def test_adding_partitions_through_the_broker_is_remembered_as_version_2(
    shard_bench: ShardTransactions,
) -> None:
    producer = shard_bench.begin()
    shard_bench.add(producer, version=5)
    assert shard_bench.transaction.client_version == 2
    shard_bench.add(producer, (B,), version=3)
    assert shard_bench.transaction.client_version == 0
    assert shard_bench.transaction.partitions == {A, B}


def test_end_txn_version_4_returns_no_epoch(shard_bench: ShardTransactions) -> None:
    producer = shard_bench.begin()
    shard_bench.add(producer, version=3)
    response = shard_bench.end(producer, version=4)
    assert (response.producer_id, response.producer_epoch) == (-1, -1)
    (order,) = shard_bench.orders()
    assert (order.producer_epoch, order.transaction_version) == (producer.epoch, 0)


# -------------------------------------------------------------------- verification, the coordinator's part


def test_verify_only_request_changes_no_transaction(shard_bench: ShardTransactions) -> None:
    producer = shard_bench.begin()
    shard_bench.add(producer, (A,))
    written = len(shard_bench.log.entries)
    assert shard_bench.add(producer, (A,), verify_only=True) == {0}
    assert shard_bench.add(producer, (B,), verify_only=True) == {errors.TransactionAbortable.code}
    assert shard_bench.add(bumped(producer), (A,), verify_only=True) == {FENCED}
    assert shard_bench.add(Producer(9, 0), (A,), verify_only=True) == {WRONG_ID}
    assert len(shard_bench.log.entries) == written
    shard_bench.end(producer)
    assert shard_bench.add(producer, (A,), verify_only=True) == {FENCED}
    assert shard_bench.add(bumped(producer), (A,), verify_only=True) == {CONCURRENT}


def test_each_transaction_of_a_request_has_its_own_error_codes(shard_bench: ShardTransactions) -> None:
    one, other = shard_bench.begin(name="one"), shard_bench.begin(name="other")
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0, 1])]
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=name, producer_id=who.id, producer_epoch=who.epoch, topics=topics
            )
            for name, who in (("one", one), ("other", bumped(other)), ("nobody", one))
        ]
    )
    results = shard_bench.call(request, 4).results_by_transaction
    codes = [
        {one.partition_error_code for topic in result.topic_results for one in topic.results_by_partition}
        for result in results
    ]
    assert codes == [{0}, {FENCED}, {WRONG_ID}]
    assert shard_bench.shard.transactions["one"].partitions == {A, B}
    assert shard_bench.shard.transactions["other"].state.value == "Empty"


def test_partitions_added_before_are_not_written_again(shard_bench: ShardTransactions) -> None:
    producer = shard_bench.begin()
    shard_bench.add(producer, (A, B))
    batches = shard_bench.log.batches
    assert shard_bench.add(producer, (B,)) == {0}
    assert shard_bench.log.batches == batches


def test_a_missing_partition_keeps_the_others_out_of_the_transaction(shard_bench: ShardTransactions) -> None:
    producer = shard_bench.begin()
    shard_bench.shard.topics = TopicTable({"t": (b"i" * 16, 1)})
    codes = {errors.UnknownTopicOrPartition.code, errors.OperationNotAttempted.code}
    assert shard_bench.add(producer, (A, B)) == codes
    assert shard_bench.state == "Empty"


def test_add_offsets_adds_the_offsets_partition_of_the_group(shard_bench: ShardTransactions) -> None:
    producer = shard_bench.begin()
    assert shard_bench.add_offsets(producer, "my-group") == 0
    assert shard_bench.transaction.partitions == {("__consumer_offsets", 12)}
    assert partition_for("my-group", 50) == 12


# -------------------------------------------------------------------- timeouts


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    make_bench: MakeBench, version: int
) -> None:
    bench = make_bench(version)
    producer = bench.begin(timeout_ms=15_000)
    bench.add(producer, version=3)
    bench.write(producer, A)
    bench.hold_markers()
    bench.advance(14.0)
    assert bench.state == "Ongoing"
    assert bench.end_of_stable(A) == 0
    bench.advance(11.0)  # the check runs every ten seconds
    assert bench.state == "PrepareAbort"
    bench.finish()
    assert (bench.state, bench.transaction.epoch) == ("CompleteAbort", producer.epoch + 1)
    assert bench.end_of_stable(A) == 2
    assert bench.try_write(producer, A) == OLD_EPOCH
    assert bench.end(producer, version=4).error_code == FENCED
    assert bench.add(producer, version=3) == {FENCED}
    assert bench.begin() == bumped(producer, 2)


def test_transaction_timeout_starts_with_the_first_partition_and_survives_a_reload(
    shard_bench: ShardTransactions,
) -> None:
    producer = shard_bench.begin(timeout_ms=15_000)
    shard_bench.advance(100.0)
    shard_bench.add(producer)
    shard_bench.advance(8.0)
    shard_bench.reload()
    shard_bench.add(producer, (B,))
    shard_bench.advance(20.0)
    assert shard_bench.state == "PrepareAbort"


def test_abort_after_a_timeout_is_retried_if_its_append_fails(shard_bench: ShardTransactions) -> None:
    shard_bench.add(shard_bench.begin(timeout_ms=1000))
    shard_bench.log.fails_with = NotEnoughReplicas()
    shard_bench.advance(15.0)
    assert shard_bench.state == "Ongoing"
    shard_bench.log.fails_with = None
    shard_bench.advance(10.0)
    assert shard_bench.state == "PrepareAbort"


@pytest.mark.parametrize("loaded_at", [0.1 * n for n in range(1, 60, 7)])
def test_idle_transaction_checks_are_always_due_later(loaded_at: float) -> None:
    bench = ShardTransactions(abort_check_interval=0.3)
    bench.now = loaded_at
    bench.reload()
    bench.add(bench.begin())
    for _ in range(50):
        due = bench.runtime.poll(bench.now)
        assert due > bench.now
        bench.now = due


def test_an_idle_coordinator_has_nothing_to_do(shard_bench: ShardTransactions) -> None:
    assert shard_bench.runtime.poll(0.0) == float("inf")
    producer = shard_bench.begin()
    assert shard_bench.runtime.poll(0.0) == shard_bench.settings.expiration_check_interval
    shard_bench.add(producer)
    assert shard_bench.runtime.poll(0.0) == shard_bench.settings.abort_check_interval


def test_transactional_ids_expire_except_inside_a_transaction(shard_bench: ShardTransactions) -> None:
    week = shard_bench.settings.expiration
    shard_bench.begin(name="idle")
    busy = shard_bench.begin(name="busy")
    shard_bench.advance(week - 10)
    shard_bench.add(busy, name="busy")
    shard_bench.shard.settings = attrs.evolve(shard_bench.settings, abort_check_interval=10 * week)
    shard_bench.advance(3600.0)
    assert set(shard_bench.shard.transactions) == {"busy"}
    shard_bench.advance(week + 3600.0)
    assert set(shard_bench.shard.transactions) == {"busy"}
    shard_bench.reload()
    assert set(shard_bench.shard.transactions) == {"busy"}


# -------------------------------------------------------------------- markers and the end


def test_marker_requests_carry_the_coordinators_epoch_and_the_decision(
    shard_bench: ShardTransactions,
) -> None:
    producer, order = shard_bench.ended(A, B)
    assert (order.coordinator_epoch, order.committed, set(order.partitions)) == (1, True, {A, B})
    assert (order.producer_id, order.producer_epoch) == (producer.id, producer.epoch + 1)
    shard_bench.reload()
    (again,) = shard_bench.orders()
    assert again == attrs.evolve(order, coordinator_epoch=2)


def test_markers_are_sent_after_the_decision_is_committed(shard_bench: ShardTransactions) -> None:
    producer = shard_bench.begin()
    shard_bench.add(producer)
    shard_bench.log.commits_at_once = False
    response = shard_bench.send(shard_bench.end_request(producer), 5)
    assert shard_bench.state == "PrepareCommit"
    assert not response.is_done
    assert shard_bench.orders() == []
    shard_bench.reload(keep_uncommitted=False)
    assert shard_bench.state == "Ongoing"
    assert shard_bench.orders() == []
    assert response.response is not None
    assert response.response.error_code == errors.NotCoordinator.code


def test_new_coordinator_sends_markers_only_after_its_loaded_state_is_committed(
    shard_bench: ShardTransactions,
) -> None:
    producer = shard_bench.begin()
    shard_bench.add(producer)
    shard_bench.log.commits_at_once = False
    shard_bench.send(shard_bench.end_request(producer), 5)
    shard_bench.reload()
    assert shard_bench.state == "PrepareCommit"
    assert shard_bench.orders() == []
    shard_bench.commit_all()
    assert len(shard_bench.orders()) == 1


def test_the_last_marker_completes_the_transaction(shard_bench: ShardTransactions) -> None:
    _, order = shard_bench.ended(A, B)
    shard_bench.report(order, A, 0)
    assert shard_bench.state == "PrepareCommit"
    shard_bench.report(order, A, 0)
    assert shard_bench.state == "PrepareCommit"
    shard_bench.report(order, B, 0)
    assert shard_bench.state == "CompleteCommit"
    assert shard_bench.transaction.partitions == frozenset()
    shard_bench.report(order, B, 0)
    assert shard_bench.state == "CompleteCommit"


def test_failed_marker_is_retried_after_the_backoff(shard_bench: ShardTransactions) -> None:
    _, order = shard_bench.ended(A, B)
    shard_bench.report(order, A, errors.NotLeaderOrFollower.code)
    shard_bench.report(order, B, 0)
    assert shard_bench.orders() == []
    shard_bench.advance(0.1)
    (again,) = shard_bench.orders()
    assert again == attrs.evolve(order, partitions=frozenset({A}))
    shard_bench.report(again, A, 0)
    assert shard_bench.state == "CompleteCommit"


def test_a_deleted_partition_needs_no_marker(shard_bench: ShardTransactions) -> None:
    _, order = shard_bench.ended(A, B)
    shard_bench.report(order, A, 0)
    shard_bench.shard.topics = TopicTable({"t": (b"i" * 16, 1)})
    shard_bench.report(order, B, errors.UnknownTopicOrPartition.code)
    shard_bench.advance(0.1)
    assert shard_bench.orders() == []
    assert shard_bench.state == "CompleteCommit"


def test_fenced_coordinator_stops_and_the_next_one_completes_the_transaction(
    shard_bench: ShardTransactions,
) -> None:
    _, order = shard_bench.ended(A, B)
    shard_bench.report(order, A, errors.TransactionCoordinatorFenced.code)
    shard_bench.report(order, B, 0)
    shard_bench.advance(60.0)
    assert (shard_bench.state, shard_bench.orders()) == ("PrepareCommit", [])
    shard_bench.reload()
    shard_bench.finish()
    assert shard_bench.state == "CompleteCommit"


def test_marker_result_of_an_earlier_coordinator_or_transaction_is_ignored(
    shard_bench: ShardTransactions,
) -> None:
    producer, order = shard_bench.ended(A)
    shard_bench.reload()
    shard_bench.report(order, A, 0)
    assert shard_bench.state == "PrepareCommit"
    shard_bench.finish()
    following = bumped(producer)
    shard_bench.add(following)
    shard_bench.end(following)
    shard_bench.report(attrs.evolve(order, coordinator_epoch=2), A, 0)
    assert shard_bench.state == "PrepareCommit"


def test_completion_record_is_retried_if_its_append_fails(shard_bench: ShardTransactions) -> None:
    producer = shard_bench.begin()
    shard_bench.add(producer)
    shard_bench.end(producer)
    shard_bench.log.fails_with = NotEnoughReplicas()
    shard_bench.finish()
    assert shard_bench.state == "PrepareCommit"
    shard_bench.advance(1.0)
    shard_bench.log.fails_with = None
    shard_bench.advance(0.1)
    assert shard_bench.state == "CompleteCommit"


def test_a_log_that_ends_between_the_two_records_of_an_empty_abort_is_completed(
    shard_bench: ShardTransactions,
) -> None:
    producer = shard_bench.begin()
    shard_bench.end(producer, committed=False)
    del shard_bench.log.entries[-1]
    shard_bench.log.high_watermark = len(shard_bench.log.entries)
    shard_bench.reload()
    assert shard_bench.state == "PrepareAbort"
    shard_bench.advance(0.0)
    assert shard_bench.state == "CompleteAbort"


# -------------------------------------------------------------------- versions of the log, queries


@OLD_VERSIONS
def test_transaction_record_version_follows_the_finalized_feature(version: int) -> None:
    bench = ShardTransactions(transaction_version=version)
    producer = bench.begin()
    bench.init(producer)
    (first, second) = [entry for entry in bench.log.entries if hasattr(entry, "value")]
    assert first.value is not None
    assert second.value is not None
    assert first.value[:2] == second.value[:2] == version.to_bytes(2, "big")
    bench.reload()
    assert bench.transaction.previous_producer_id == (producer.id if version else -1)


def test_transactions_are_described(shard_bench: ShardTransactions) -> None:
    producer = shard_bench.begin(timeout_ms=30_000)
    shard_bench.add(producer, (B, A))
    known, unknown, nameless = shard_bench.call(
        DescribeTransactionsRequest(transactional_ids=[shard_bench.name, "unknown", ""]), 0
    ).transaction_states
    assert (known.error_code, known.transaction_state, known.producer_id) == (0, "Ongoing", producer.id)
    assert (known.transaction_timeout_ms, known.transaction_start_time_ms) == (30_000, shard_bench.wall_ms(0))
    assert [(one.topic, one.partitions) for one in known.topics] == [("t", [0, 1])]
    assert unknown.error_code == errors.TransactionalIdNotFound.code
    assert nameless.error_code == errors.InvalidRequest.code


def listed(
    bench: ShardTransactions,
    *,
    states: tuple[str, ...] = (),
    producers: tuple[int, ...] = (),
    duration_ms: int = -1,
) -> ListTransactionsResponse:
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producers),
        duration_filter=duration_ms,
    )
    return bench.call(request, 2)


def names(response: ListTransactionsResponse) -> set[str]:
    return {one.transactional_id for one in response.transaction_states}


def test_transactions_are_listed_by_every_filter(shard_bench: ShardTransactions) -> None:
    first, second = shard_bench.begin(name="order-1"), shard_bench.begin(name="order-2")
    shard_bench.add(first, name="order-1")
    shard_bench.now = 5.0
    shard_bench.add(second, name="order-2")
    shard_bench.begin(name="other")
    shard_bench.now = 8.0
    assert names(listed(shard_bench)) == {"order-1", "order-2", "other"}
    assert names(listed(shard_bench, states=("Ongoing",))) == {"order-1", "order-2"}
    assert names(listed(shard_bench, producers=(first.id,))) == {"order-1"}
    assert names(listed(shard_bench, states=("Ongoing",), duration_ms=3000)) == {"order-1"}
    response = listed(shard_bench, states=("Ongoing", "Nonsense"))
    assert (names(response), response.unknown_state_filters) == ({"order-1", "order-2"}, ["Nonsense"])
    assert names(listed(shard_bench, states=("Nonsense",))) == set()
