"""The transaction coordinator: one partition of __transaction_state as a shard.

A transaction ends in two steps: the decision is a record, and once that is committed markers go out as
actions (`WriteMarkers`); the broker writes them to the partitions' leaders, tells `marker_written` of each,
and the last one completes the transaction with another record.  A coordinator that takes over finds decided
transactions in its log and sends their markers again.  Rules 37 to 46 and KIP-890 (transaction.version 2), as
in Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from pykafka2.errors import (
    BrokerError,
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    OperationNotAttempted,
    ProducerFenced,
    TransactionAbortable,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
    error_of,
)
from pykafka2.protocol.messages import transaction as wire
from pykafka2.protocol.messages import transaction_admin
from pykafka2.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from pykafka2.testing.coordinators.refusals import (
    FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS,
    partition_results,
    refusal,
)
from pykafka2.testing.coordinators.replay import (
    TRANSACTION_RECORDS,
    Caller,
    Deferred,
    Producer,
    Result,
    WriteMarkers,
    decode_record,
    partition_for,
)
from pykafka2.testing.coordinators.settings import NO_TOPICS, Topics, TransactionSettings
from pykafka2.testing.coordinators.timers import Timers
from pykafka2.testing.coordinators.transaction_ends import end_decision
from pykafka2.testing.coordinators.transaction_listing import describe_transactions, list_transactions
from pykafka2.testing.coordinators.transaction_state import (
    MAX_EPOCH,
    NO_EPOCH,
    NO_ID,
    Place,
    Transaction,
    TransactionState,
)

OFFSETS_TOPIC: Final = "__consumer_offsets"
FIRST_VERSION_THAT_KNOWS_FENCED: Final[dict[type[Any], int]] = {
    wire.InitProducerIdRequest: 4,
    wire.AddPartitionsToTxnRequest: 2,
    wire.AddOffsetsToTxnRequest: 2,
    wire.EndTxnRequest: 2,
}
"""Rule 39: older clients are told INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED."""
FIRST_KIP_890: Final = 5
"""The version of AddPartitionsToTxn and EndTxn that speaks transaction.version 2."""
MARKER_RETRY: Final = 0.1
"""Seconds until a marker that could not be written is tried again."""
MARKER_IS_VOID: Final = frozenset({InvalidProducerEpoch.code, TransactionCoordinatorFenced.code})
"""A newer producer or coordinator was there before: this coordinator stops sending."""


class TransactionShard:
    """The transactions of one partition.

    `coordinator_epoch` is the partition's leader epoch; `new_producer_id` takes one from the controller's
    blocks, `wall_ms` turns a moment into the wall clock's milliseconds, `offsets_partitions` is the size of
    __consumer_offsets.
    """

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
        self.timers = Timers()
        self.topics: Topics = NO_TOPICS
        self._wall_ms = wall_ms
        self._new_producer_id = new_producer_id
        self._offsets_partitions = offsets_partitions
        # Soft, as in Apache: which epoch a producer held before, and which markers are still out.
        self._last_epochs: dict[str, int] = {}
        self._unmarked: dict[str, set[Place]] = {}

    # -- what a Shard is ----------------------------------------------------------------------------

    def operation(self, caller: Caller, deferred: Deferred[Any], now: float) -> Result:
        out = Result()
        request = deferred.request
        try:
            if isinstance(request, wire.InitProducerIdRequest):
                self._init(deferred, request, out, now)
            elif isinstance(request, wire.AddPartitionsToTxnRequest):
                self._add_partitions(caller, deferred, request, out, now)
            elif isinstance(request, wire.AddOffsetsToTxnRequest):
                self._add_offsets(deferred, request, out, now)
            elif isinstance(request, wire.EndTxnRequest):
                self._end(caller, deferred, request, out, now)
            elif isinstance(request, transaction_admin.DescribeTransactionsRequest):
                out.reply(deferred, describe_transactions(self.transactions, request))
            elif isinstance(request, transaction_admin.ListTransactionsRequest):
                listed = list_transactions(self.transactions, request, self._wall_ms(now))
                out.reply(deferred, listed)
            else:
                raise TypeError(f"{type(request).__name__} is not for a transaction coordinator")
        except BrokerError as error:
            raise error_of(told_code(request, caller.version, error.code or 0)) from error
        return out

    def poll(self, now: float) -> Result | None:
        while (action := self.timers.pop_due(now)) is not None:
            result = action(now)
            if result is not None:
                return result
        return None

    @property
    def next_deadline(self) -> float:
        return self.timers.next_deadline

    def replay(self, key: bytes, value: bytes | None, producer: Producer | None, now: float) -> None:
        decoded = decode_record(TRANSACTION_RECORDS, key, value)
        if decoded is None:
            return
        transactional_id = cast("TransactionLogKey", decoded[0]).transactional_id
        if decoded[1] is None:
            self.transactions.pop(transactional_id, None)
            self._last_epochs.pop(transactional_id, None)
            return
        record = cast("TransactionLogValue", decoded[1])
        self.transactions[transactional_id] = Transaction.from_record(transactional_id, record)

    def replay_marker(self, producer: Producer, committed: bool, now: float) -> None:
        """No transaction writes to this topic."""

    def loaded(self, now: float) -> Result:
        """Send the markers of what was decided, and watch the rest."""
        out = Result()
        for transaction in self.transactions.values():
            if transaction.is_ending:
                self._send_markers(transaction, out)
        self._arm_aborts(now)
        self._arm_expiration(now)
        return out

    def unloaded(self) -> Result:
        self.timers.clear()
        return Result()

    # -- InitProducerId -----------------------------------------------------------------------------

    def _init(
        self, deferred: Deferred[Any], request: wire.InitProducerIdRequest, out: Result, now: float
    ) -> None:
        if (request.producer_id == NO_ID) != (request.producer_epoch == NO_EPOCH):
            raise InvalidRequest("a producer id comes with its epoch")
        transactional_id = request.transactional_id
        if transactional_id is None:
            response = wire.InitProducerIdResponse(producer_id=self._new_producer_id(), producer_epoch=0)
            out.reply(deferred, response)
            return
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        if not 0 < request.transaction_timeout_ms <= self.settings.max_timeout * 1000:
            raise InvalidTransactionTimeout
        at_ms = self._wall_ms(now)
        transaction = self.transactions.get(transactional_id)
        expected = request.producer_epoch if request.producer_id != NO_ID else None
        if transaction is None:
            transaction = Transaction(
                transactional_id, self._new_producer_id(), NO_EPOCH, request.transaction_timeout_ms, at_ms
            )
        elif expected is not None and not self._may_be(transaction, request.producer_id, expected):
            raise ProducerFenced
        if transaction.is_ending:
            raise ConcurrentTransactions
        if transaction.state is TransactionState.ONGOING:
            # Rule 38: the older producer is fenced and its transaction aborted; come again for an epoch.
            self._abort(transaction, out, at_ms)
            code = told_code(request, deferred.version, ConcurrentTransactions.code)
            out.reply(deferred, refusal(request, deferred.version, code))
            return
        last = self._last_epochs.get(transactional_id, NO_EPOCH)
        following, last = self._next_identity(transaction, expected, last, request, at_ms)
        following.write(out, self.settings.transaction_version)
        out.on_appended = lambda out: self._last_epochs.update({transactional_id: last})
        out.reply(
            deferred,
            wire.InitProducerIdResponse(producer_id=following.producer_id, producer_epoch=following.epoch),
        )

    @staticmethod
    def _may_be(transaction: Transaction, producer_id: int, epoch: int) -> bool:
        """Whether a producer that names its id is the one we know, or was before its epochs ran out."""
        return producer_id == transaction.producer_id or (
            producer_id == transaction.previous_producer_id and epoch >= MAX_EPOCH - 1
        )

    def _next_identity(
        self,
        transaction: Transaction,
        expected: int | None,
        last: int,
        request: wire.InitProducerIdRequest,
        at_ms: int,
    ) -> tuple[Transaction, int]:
        """The next producer id and epoch, and the epoch to remember for a retry."""
        timeout_ms = request.transaction_timeout_ms
        if transaction.is_exhausted and expected in (None, transaction.epoch):
            last = NO_EPOCH if expected is None else transaction.epoch
            return transaction.initialized(timeout_ms, at_ms, 0, self._new_producer_id()), last
        if expected is None:
            return transaction.initialized(timeout_ms, at_ms, transaction.epoch + 1), NO_EPOCH
        if transaction.epoch in (NO_EPOCH, expected):
            return transaction.initialized(timeout_ms, at_ms, transaction.epoch + 1), transaction.epoch
        if expected == last:  # a retry whose answer was lost
            return transaction.initialized(timeout_ms, at_ms, transaction.epoch), last
        raise ProducerFenced

    # -- adding partitions --------------------------------------------------------------------------

    def _add_partitions(
        self,
        caller: Caller,
        deferred: Deferred[Any],
        request: wire.AddPartitionsToTxnRequest,
        out: Result,
        now: float,
    ) -> None:
        if caller.version < FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS:
            results = self._add_to_one(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                request.v3_and_below_topics,
                caller.version,
                out,
                now,
            )
            response = wire.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
            out.reply(deferred, response)
            return
        answers = []
        for one in request.transactions:
            if one.verify_only:
                results = self._verify(one, caller.version)
            else:
                results = self._add_to_one(
                    one.transactional_id,
                    one.producer_id,
                    one.producer_epoch,
                    one.topics,
                    caller.version,
                    out,
                    now,
                )
            answers.append(
                wire.AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=results)
            )
        out.reply(deferred, wire.AddPartitionsToTxnResponse(results_by_transaction=answers))

    def _add_to_one(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        topics: list[wire.AddPartitionsToTxnTopic],
        version: int,
        out: Result,
        now: float,
    ) -> list[wire.AddPartitionsToTxnTopicResult]:
        unknown = {topic.name for topic in topics if not self._is_known(topic.name)}
        if unknown:
            # All or nothing: the others are told that nothing was tried.
            results = []
            for topic in topics:
                code = UnknownTopicOrPartition.code if topic.name in unknown else OperationNotAttempted.code
                results += partition_results([topic], code)
            return results
        places = frozenset((topic.name, index) for topic in topics for index in topic.partitions)
        client_version = self._client_version(version)
        try:
            self._add(transactional_id, producer_id, epoch, places, client_version, out, now)
        except BrokerError as error:
            code = told_code_of(wire.AddPartitionsToTxnRequest, version, error.code or 0)
            return partition_results(topics, code)
        return partition_results(topics, 0)

    def _client_version(self, request_version: int) -> int:
        """The transaction version that a request of this version speaks here."""
        return 2 if request_version >= FIRST_KIP_890 and self.settings.transaction_version >= 2 else 0

    def _is_known(self, topic: str) -> bool:
        return topic == OFFSETS_TOPIC or self.topics.id_of(topic) is not None

    def _add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        places: frozenset[Place],
        client_version: int,
        out: Result,
        now: float,
    ) -> None:
        transaction = self._get(transactional_id, producer_id, epoch)
        if transaction.is_ending:
            raise ConcurrentTransactions
        if transaction.state is TransactionState.ONGOING and places <= transaction.partitions:
            return
        following = transaction.with_partitions(places, self._wall_ms(now), client_version)
        following.write(out, self.settings.transaction_version)

    def _get(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.producer_id != producer_id:
            raise InvalidProducerIdMapping
        if transaction.epoch != epoch:
            raise ProducerFenced
        return transaction

    def _verify(
        self, one: wire.AddPartitionsToTxnTransaction, version: int
    ) -> list[wire.AddPartitionsToTxnTopicResult]:
        """Rule 43: whether a produce may go to these partitions; changes nothing."""
        try:
            transaction = self._get(one.transactional_id, one.producer_id, one.producer_epoch)
            if transaction.is_ending:
                raise ConcurrentTransactions
        except BrokerError as error:
            return partition_results(one.topics, error.code or 0)
        absent = TransactionAbortable.code if version >= FIRST_KIP_890 else InvalidTxnState.code
        return [
            wire.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    wire.AddPartitionsToTxnPartitionResult(
                        partition_index=index,
                        partition_error_code=0 if (topic.name, index) in transaction.partitions else absent,
                    )
                    for index in topic.partitions
                ],
            )
            for topic in one.topics
        ]

    def _add_offsets(
        self, deferred: Deferred[Any], request: wire.AddOffsetsToTxnRequest, out: Result, now: float
    ) -> None:
        place = (OFFSETS_TOPIC, partition_for(request.group_id, self._offsets_partitions))
        self._add(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({place}),
            0,
            out,
            now,
        )
        out.reply(deferred, wire.AddOffsetsToTxnResponse())

    # -- EndTxn -------------------------------------------------------------------------------------

    def _end(
        self,
        caller: Caller,
        deferred: Deferred[Any],
        request: wire.EndTxnRequest,
        out: Result,
        now: float,
    ) -> None:
        if not request.transactional_id:
            raise InvalidRequest("the transactional id is empty")
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping
        version = self._client_version(caller.version)
        bumps = version >= 2
        goes_on = end_decision(
            transaction, request.producer_id, request.producer_epoch, request.committed, bumps
        )
        told = transaction
        if goes_on:
            at_ms = self._wall_ms(now)
            next_id = self._new_producer_id() if bumps and transaction.is_exhausted else NO_ID
            epoch = min(transaction.epoch + bumps, MAX_EPOCH)
            ending = transaction.ending(request.committed, at_ms, version, epoch, next_id)
            told = self._decide(transaction, ending, out, at_ms)
        response = wire.EndTxnResponse()
        if bumps:
            response.producer_id, response.producer_epoch = told.producer_id, told.epoch
        out.reply(deferred, response)

    def _abort(self, transaction: Transaction, out: Result, at_ms: int) -> None:
        """The coordinator's own abort: the epoch is bumped, so the producer is fenced (rule 45)."""
        epoch = min(transaction.epoch + 1, MAX_EPOCH)
        version = self.settings.transaction_version if self.settings.transaction_version >= 2 else 0
        self._decide(transaction, transaction.ending(False, at_ms, version, epoch), out, at_ms)

    def _decide(self, transaction: Transaction, ending: Transaction, out: Result, at_ms: int) -> Transaction:
        """Write the decision; what the client goes on with when it is carried out."""
        completed = ending.completed(at_ms)
        ending.write(out, self.settings.transaction_version)
        if ending.partitions:
            self._send_markers(ending, out)
        else:
            completed.write(out, self.settings.transaction_version)
        bumped = ending.version >= 2
        before = out.on_appended

        def appended(out: Result) -> None:
            if before is not None:
                before(out)
            self._last_epochs[ending.id] = transaction.epoch if bumped else NO_EPOCH

        out.on_appended = appended
        return completed

    # -- markers ------------------------------------------------------------------------------------

    def _send_markers(self, transaction: Transaction, out: Result) -> None:
        if not transaction.partitions:
            # Decided without partitions, and the log ends there: nothing is left to do but to say so.
            transaction.completed(transaction.updated_ms).write(out, self.settings.transaction_version)
            return
        self._unmarked[transaction.id] = set(transaction.partitions)
        out.actions.append(self._markers(transaction, transaction.partitions))

    def _markers(self, transaction: Transaction, places: frozenset[Place]) -> WriteMarkers:
        return WriteMarkers(
            transaction.id,
            transaction.producer_id,
            transaction.epoch,
            self.coordinator_epoch,
            transaction.state is TransactionState.PREPARE_COMMIT,
            places,
            transaction.version,
        )

    def marker_written(self, markers: WriteMarkers, place: Place, code: int, now: float) -> Result:
        """What a partition's leader said to a marker; the broker has the runtime carry the result out.

        0 ends the matter for this partition, a fenced epoch ends it for all, anything else is tried again.
        """
        out = Result()
        transaction = self.transactions.get(markers.transactional_id)
        unmarked = self._unmarked.get(markers.transactional_id)
        if transaction is None or unmarked is None or place not in unmarked:
            return out
        if self._markers(transaction, markers.partitions) != markers:
            return out  # of an earlier transaction
        if code in MARKER_IS_VOID:
            del self._unmarked[transaction.id]
        elif code:
            self._retry_marker(markers, place, now)
        else:
            unmarked.remove(place)
            if not unmarked:
                del self._unmarked[transaction.id]
                transaction.completed(self._wall_ms(now)).write(out, self.settings.transaction_version)
                out.on_append_error = lambda error, repair: self._retry_completion(markers, place, now)
        return out

    def _retry_marker(self, markers: WriteMarkers, place: Place, now: float) -> None:
        def again(now: float) -> Result | None:
            transaction = self.transactions.get(markers.transactional_id)
            if transaction is None or place not in self._unmarked.get(markers.transactional_id, ()):
                return None
            return Result(actions=[self._markers(transaction, frozenset({place}))])

        self.timers.set(("marker", markers.transactional_id, place), now + MARKER_RETRY, again)

    def _retry_completion(self, markers: WriteMarkers, place: Place, now: float) -> None:
        """The markers are out but the log would not take it; a marker twice does no harm."""
        self._unmarked[markers.transactional_id] = {place}
        self._retry_marker(markers, place, now)

    # -- timeouts -----------------------------------------------------------------------------------

    def _arm_aborts(self, now: float) -> None:
        self.timers.set("aborts", now + self.settings.abort_check_interval, self._abort_timed_out)

    def _abort_timed_out(self, now: float) -> Result:
        """Rule 45."""
        out = Result()
        at_ms = self._wall_ms(now)
        for transaction in list(self.transactions.values()):
            is_open = transaction.state is TransactionState.ONGOING
            if is_open and transaction.started_ms + transaction.timeout_ms < at_ms:
                self._abort(transaction, out, at_ms)
        self._arm_aborts(now)
        return out

    def _arm_expiration(self, now: float) -> None:
        self.timers.set("expiration", now + self.settings.expiration_check_interval, self._expire)

    def _expire(self, now: float) -> Result:
        """Transactional ids that nobody uses are forgotten."""
        out = Result()
        due_ms = self._wall_ms(now) - self.settings.expiration * 1000
        for transaction in self.transactions.values():
            is_idle = transaction.state is not TransactionState.ONGOING and not transaction.is_ending
            if is_idle and transaction.updated_ms <= due_ms:
                out.write(TransactionLogKey(transactional_id=transaction.id), None)
        self._arm_expiration(now)
        return out


def told_code(request: object, version: int, code: int) -> int:
    return told_code_of(type(request), version, code)


def told_code_of(request: type[Any], version: int, code: int) -> int:
    """The code as clients of this version know it (rule 39)."""
    if code == ProducerFenced.code and version < FIRST_VERSION_THAT_KNOWS_FENCED.get(request, 0):
        return InvalidProducerEpoch.code
    return code
