"""One partition of __transaction_state as a shard: the transactional ids that hash to it.

Handles requests with drafts (init_producer_id.py, partitions.py, end_txn.py), keeps the state of their
records, aborts timed-out transactions, and expires unused ids. A transaction ends in two steps. The
decision is a record; once it is committed, the markers are returned as actions (partitions.py). The broker
reports each with `marker_written`, and the last one leads to the record that completes the transaction.
Runs under the broker's lock, driven by runtime.py; service.py routes requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import floor
from typing import Any, Final, cast

from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC, partition_for
from pykafka2.broker.coordinators.replay import (
    TRANSACTION_RECORDS,
    Caller,
    Deferred,
    Producer,
    Result,
    WriteMarkers,
    decode_record,
)
from pykafka2.broker.coordinators.settings import Topics, TransactionSettings
from pykafka2.broker.coordinators.timers import Timers
from pykafka2.broker.coordinators.transactions.describing import describe, list_transactions
from pykafka2.broker.coordinators.transactions.end_txn import EndOfTransaction, end_transaction
from pykafka2.broker.coordinators.transactions.init_producer_id import (
    check_request,
    fence,
    init_producer,
    new_transaction,
)
from pykafka2.broker.coordinators.transactions.partitions import (
    FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS,
    PendingMarkers,
    missing,
    owned_by,
    partitions_of,
    pending_markers_of,
    results_of,
    verified,
    with_added,
)
from pykafka2.broker.coordinators.transactions.state import (
    EPOCH_BUMP,
    Partition,
    Transaction,
    TransactionState,
)
from pykafka2.errors import (
    BrokerError,
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    ProducerFenced,
)
from pykafka2.protocol.messages.transaction import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from pykafka2.protocol.messages.transaction_admin import DescribeTransactionsRequest, ListTransactionsRequest
from pykafka2.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue

# From these versions on the error is PRODUCER_FENCED, before it is INVALID_PRODUCER_EPOCH (rule
# fencing-has-two-names).
_FIRST_WITH_FENCED: Final[dict[type[Any], int]] = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}
FIRST_END_WITH_EPOCH_BUMP: Final = 5

MARKER_RETRY: Final = 0.1
"""Seconds until a failed marker is sent again."""

NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout with two-phase commit: never."""

_MAY_EXPIRE: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)


class TransactionShard:
    """The transactions of one partition; see replay.Shard.

    `coordinator_epoch` is the partition's leader epoch, `wall_ms` converts a time to milliseconds since 1970,
    `new_producer_id` returns an unused id (it can raise a BrokerError while the controller has not
    responded), `offsets_partitions` is the size of __consumer_offsets. The broker updates `topics`; while it
    is None no partition counts as missing.
    """

    # like TransactionStateManager.loadTransactionMetadata, which logs and continues
    LOADS_WHAT_CAN_BE_READ = True

    def __init__(
        self,
        settings: TransactionSettings,
        coordinator_epoch: int,
        wall_ms: Callable[[float], int],
        new_producer_id: Callable[[], int],
        offsets_partitions: int = 50,
    ) -> None:
        self.settings = settings
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, Transaction] = {}
        self.pending_markers: dict[str, PendingMarkers] = {}
        self.timers = Timers()
        self.topics: Topics | None = None
        self._wall_ms = wall_ms
        self._new_producer_id = new_producer_id
        self._offsets_partitions = offsets_partitions
        self._loaded_at = 0.0

    # -- requests -----------------------------------------------------------------------------------

    def operation(self, caller: Caller, deferred: Deferred[Any], now: float) -> Result:
        try:
            return self._decide(caller, deferred, now)
        except ProducerFenced as error:
            if caller.version < _FIRST_WITH_FENCED[type(deferred.request)]:
                raise InvalidProducerEpoch(str(error)) from error
            raise

    def _decide(self, caller: Caller, deferred: Deferred[Any], now: float) -> Result:
        request, out = deferred.request, Result()
        if isinstance(request, InitProducerIdRequest):
            self._init(request, deferred, out, now)
        elif isinstance(request, AddPartitionsToTxnRequest):
            self._add_partitions(request, caller.version, deferred, out, now)
        elif isinstance(request, AddOffsetsToTxnRequest):
            self._add_offsets(request, deferred, out, now)
        elif isinstance(request, EndTxnRequest):
            self._end(request, caller.version, deferred, out, now)
        elif isinstance(request, DescribeTransactionsRequest):
            out.respond(deferred, describe(request, self.transactions))
        elif isinstance(request, ListTransactionsRequest):
            known = self.transactions.values()
            out.respond(deferred, list_transactions(request, known, self._wall_ms(now)))
        else:
            raise TypeError(f"{type(request).__name__} is not a request for a transaction coordinator")
        return out

    def _init(self, request: InitProducerIdRequest, deferred: Deferred[Any], out: Result, now: float) -> None:
        if request.transactional_id is None:
            producer_id = self._new_producer_id()
            out.respond(deferred, InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))
            return
        expected = check_request(request, self.settings.max_timeout)
        timeout_ms, now_ms = request.transaction_timeout_ms, self._wall_ms(now)
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None:
            name = request.transactional_id
            transaction = new_transaction(name, timeout_ms, self._new_producer_id, now_ms)
        version = self.settings.transaction_version
        draft = init_producer(transaction, timeout_ms, expected, self._new_producer_id, now_ms, version)
        self._propose([draft], out, now)
        if draft.state is TransactionState.EMPTY:
            out.respond(
                deferred,
                InitProducerIdResponse(producer_id=draft.producer_id, producer_epoch=draft.epoch),
            )
        else:
            out.refuse(deferred, ConcurrentTransactions.code)

    def _add_partitions(
        self,
        request: AddPartitionsToTxnRequest,
        version: int,
        deferred: Deferred[Any],
        out: Result,
        now: float,
    ) -> None:
        drafts: dict[str, Transaction] = {}
        if version >= FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS:
            results = [
                AddPartitionsToTxnResult(
                    transactional_id=entry.transactional_id,
                    topic_results=self._add_to(entry, EPOCH_BUMP, version, drafts, now),
                )
                for entry in request.transactions
            ]
            response = AddPartitionsToTxnResponse(results_by_transaction=results)
        else:
            only = AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
            response = AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=self._add_to(only, 0, version, drafts, now)
            )
        self._propose(drafts.values(), out, now)
        out.respond(deferred, response)

    def _add_to(
        self,
        entry: AddPartitionsToTxnTransaction,
        client_version: int,
        version: int,
        drafts: dict[str, Transaction],
        now: float,
    ) -> list[AddPartitionsToTxnTopicResult]:
        """Return the result for one transaction; add its draft, if there is one, to `drafts`."""
        partitions = partitions_of(entry.topics)
        codes = missing(partitions, self.topics)
        if codes:
            return results_of(entry.topics, codes)
        try:
            if not entry.transactional_id:
                raise InvalidRequest("the transactional id must not be empty")
            known = drafts.get(entry.transactional_id) or self.transactions.get(entry.transactional_id)
            transaction = owned_by(known, entry.producer_id, entry.producer_epoch)
            if entry.verify_only:
                return results_of(entry.topics, verified(transaction, partitions))
            draft = with_added(transaction, partitions, client_version, self._wall_ms(now))
        except BrokerError as error:
            is_old = version < _FIRST_WITH_FENCED[AddPartitionsToTxnRequest]
            code = InvalidProducerEpoch.code if is_old and isinstance(error, ProducerFenced) else error.code
            return results_of(entry.topics, dict.fromkeys(partitions, code or 0))
        if draft is not None:
            drafts[entry.transactional_id] = draft
        return results_of(entry.topics, dict.fromkeys(partitions, 0))

    def _add_offsets(
        self, request: AddOffsetsToTxnRequest, deferred: Deferred[Any], out: Result, now: float
    ) -> None:
        if not request.transactional_id:
            raise InvalidRequest("the transactional id must not be empty")
        known = self.transactions.get(request.transactional_id)
        transaction = owned_by(known, request.producer_id, request.producer_epoch)
        partition = (OFFSETS_TOPIC, partition_for(request.group_id, self._offsets_partitions))
        draft = with_added(transaction, frozenset({partition}), 0, self._wall_ms(now))
        if draft is not None:
            self._propose([draft], out, now)
        out.respond(deferred, AddOffsetsToTxnResponse())

    def _end(
        self, request: EndTxnRequest, version: int, deferred: Deferred[Any], out: Result, now: float
    ) -> None:
        if not request.transactional_id:
            raise InvalidRequest("the transactional id must not be empty")
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping(f"transactional id {request.transactional_id!r} is unknown")
        # From version 5 on the client supports transaction.version 2, as returned by ApiVersions.
        client_version = EPOCH_BUMP if version >= FIRST_END_WITH_EPOCH_BUMP else 0
        end = EndOfTransaction(request.producer_id, request.producer_epoch, request.committed, client_version)
        draft = end_transaction(transaction, end, self._new_producer_id, self._wall_ms(now))
        if draft is not None:
            self._propose([draft], out, now)
        if client_version < EPOCH_BUMP:
            out.respond(deferred, EndTxnResponse())
            return
        # The producer continues with the id and epoch that it has once the markers are written.
        after = transaction if draft is None else draft.completed(0)
        out.respond(deferred, EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.epoch))

    # -- records ------------------------------------------------------------------------------------

    def _propose(self, drafts: Iterable[Transaction], out: Result, now: float) -> None:
        """Append the drafts as one batch; they become the state if that succeeds."""
        proposed: list[Transaction] = []
        for draft in drafts:
            proposed.append(draft)
            if draft.state.is_ending and not draft.partitions:
                # No markers are needed, so the decision and the completion are one batch.
                proposed.append(draft.completed(self._wall_ms(now)))
        version = 1 if self.settings.transaction_version >= 1 else 0
        for draft in proposed:
            key = TransactionLogKey(transactional_id=draft.id)
            is_dead = draft.state is TransactionState.DEAD
            out.write(key, None if is_dead else draft.to_value(version), version)
        if proposed:
            out.on_appended = lambda result: self._appended(proposed, result, now)

    def _appended(self, drafts: list[Transaction], result: Result, now: float) -> None:
        """Apply drafts after their replay: a draft holds more than its record."""
        for draft in drafts:
            if draft.state is not TransactionState.DEAD:
                self.transactions[draft.id] = draft
                self._schedule(draft, now)
            if draft.state.is_ending and draft.partitions:
                self._order(draft, result, now)
            else:
                self.pending_markers.pop(draft.id, None)

    def replay(
        self, key: bytes, value: bytes | None, producer: Producer | None, now: float, offset: int
    ) -> None:
        record = decode_record(TRANSACTION_RECORDS, key, value)
        if record is None:
            return
        log_key = cast("TransactionLogKey", record[0])
        log_value = cast("TransactionLogValue | None", record[1])
        if log_value is None:
            self.transactions.pop(log_key.transactional_id, None)
            return
        name = log_key.transactional_id
        self.transactions[name] = Transaction.from_value(name, log_value)

    def replay_marker(self, producer: Producer, committed: bool, now: float) -> None:
        """Do nothing: no record of __transaction_state belongs to a transaction."""

    def on_loaded(self, now: float) -> Result:
        """Execute every decision of the previous coordinator again, however much of it was done."""
        self._loaded_at = now
        out = Result()
        for transaction in self.transactions.values():
            self._schedule(transaction, now)
            if transaction.state.is_ending:
                self._order(transaction, out, now)
        return out

    def on_unloaded(self) -> Result:
        self.pending_markers.clear()
        self.timers.clear()
        return Result()

    # -- markers ------------------------------------------------------------------------------------

    def _order(self, transaction: Transaction, result: Result, now: float) -> None:
        pending = self.pending_markers[transaction.id] = pending_markers_of(
            transaction, self.coordinator_epoch
        )
        if transaction.partitions:
            result.actions.append(pending.order_all())
        else:  # loaded from a log that ends between the two records of an end without partitions
            self.timers.set(("markers", transaction.id), now, lambda at: self._retry(pending, at))

    def marker_written(self, order: WriteMarkers, partition: Partition, code: int, now: float) -> Result:
        """Record a leader's result for a marker. Return a result for the runtime to execute.

        0 completes this partition, and the last one completes the transaction. After a retriable error the
        marker is sent again after a pause; a fenced epoch stops this coordinator's work on it.
        """
        pending = self.pending_markers.get(order.transactional_id)
        if pending is None or not pending.is_of(order):
            return Result()  # of an earlier transaction, or of a previous coordinator
        pending.note(partition, code)
        if pending.is_done:
            return self._complete(pending, now)
        if pending.failed:
            self._retry_later(pending, now)
        return Result()

    def _complete(self, pending: PendingMarkers, now: float) -> Result:
        out = Result()
        transaction = self.transactions[pending.decision.transactional_id]
        self._propose([transaction.completed(self._wall_ms(now))], out, now)
        out.on_append_error = lambda error, repair: self._retry_later(pending, now)
        return out

    def _retry_later(self, pending: PendingMarkers, now: float) -> None:
        """Send failed markers again, or append the last record, after a pause."""
        name = ("markers", pending.decision.transactional_id)
        if self.timers.deadline(name) is None:
            self.timers.set(name, now + MARKER_RETRY, lambda at: self._retry(pending, at))

    def _retry(self, pending: PendingMarkers, now: float) -> Result | None:
        if self.pending_markers.get(pending.decision.transactional_id) is not pending:
            return None
        pending.drop_deleted(self.topics)
        if pending.is_done:
            return self._complete(pending, now)
        order = pending.order_failed()
        return None if order is None or pending.is_abandoned else Result(actions=[order])

    # -- timers -------------------------------------------------------------------------------------

    def poll(self, now: float) -> Result | None:
        return self.timers.run_due(now)

    @property
    def next_deadline(self) -> float:
        return self.timers.next_deadline

    def _schedule(self, transaction: Transaction, now: float) -> None:
        """Start the two periodic checks while there is something to check."""
        settings = self.settings
        if transaction.state is TransactionState.ONGOING:
            self._arm_check("timeouts", settings.abort_check_interval, self._abort_timed_out, now)
        self._arm_check("expiry", settings.expiration_check_interval, self._remove_expired, now)

    def _arm_check(
        self, name: str, interval: float, action: Callable[[float], Result | None], now: float
    ) -> None:
        if self.timers.deadline(name) is not None:
            return
        rounds = floor((now - self._loaded_at) / interval) + 1
        deadline = self._loaded_at + rounds * interval
        # A check that starts exactly at an interval could be rounded down to now, and would repeat forever.
        self.timers.set(name, deadline if deadline > now else deadline + interval, action)

    def _abort_timed_out(self, now: float) -> Result | None:
        """Abort timed-out transactions; as in Kafka every abort_check_interval, so up to that much late."""
        now_ms, version = self._wall_ms(now), self.settings.transaction_version
        ongoing = [known for known in self.transactions.values() if known.state is TransactionState.ONGOING]
        drafts = []
        for transaction in ongoing:
            self._schedule(transaction, now)
            is_late = transaction.started_ms + transaction.timeout_ms < now_ms
            if is_late and transaction.timeout_ms != NO_TIMEOUT_MS:
                try:
                    drafts.append(fence(transaction, self._new_producer_id, now_ms, version))
                except BrokerError:
                    continue  # no producer id yet; the next check retries
        if not drafts:
            return None
        out = Result()
        self._propose(drafts, out, now)
        return out

    def _remove_expired(self, now: float) -> Result | None:
        """Remove transactional ids that were unused for transactional.id.expiration.ms."""
        oldest = self._wall_ms(now) - round(self.settings.expiration * 1000)
        drafts = [
            transaction.moved_to(TransactionState.DEAD)
            for transaction in self.transactions.values()
            if transaction.state in _MAY_EXPIRE and transaction.updated_ms <= oldest
        ]
        for transaction in self.transactions.values():
            self._schedule(transaction, now)
        if not drafts:
            return None
        out = Result()
        self._propose(drafts, out, now)
        return out
