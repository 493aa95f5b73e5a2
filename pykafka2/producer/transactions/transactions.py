"""The transactional calls of `KafkaProducer`, on callers' threads.

Each call becomes a ticket for the IO thread (manager.py) and waits for it until the timeout; what it began
continues, and the same call waits for it again. Arguments are checked here, because a value that no request
can carry would fail the transaction on the IO thread. Thread-safe.

Only `transactional_parts` loads the modules of the manager, so a producer without a transactional_id does not
import them. It also loads the handle, because a fork during a later import would block the child.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from pykafka2.cluster.arguments import checked_timeout
from pykafka2.cluster.offset_arguments import OffsetsToCommit, checked_offsets
from pykafka2.driver.completion import Completion
from pykafka2.errors import (
    IllegalArgument,
    IllegalState,
    KafkaError,
    KafkaTimeoutError,
    TransactionFailed,
)
from pykafka2.option_fields import INT32_MAX, Because, sendable_text
from pykafka2.producer.transactions.state import Call, TransactionState, TransactionStatus
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import ConsumerGroupMetadata

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.metrics import Metrics
    from pykafka2.producer.accumulator.accumulator import Accumulator
    from pykafka2.producer.options import ProducerOptions
    from pykafka2.producer.transactions.handle import TransactionHandle
    from pykafka2.producer.transactions.manager import Detached, TransactionManager
    from pykafka2.producer.transactions.steps import Offsets

logger = logging.getLogger(__name__)

BEGIN_TIMEOUT = 60.0
"""Seconds that the IO thread has to begin a transaction.  It sends no request, so max_block_ms (which can be
0) does not apply."""

METRICS: Final = {
    Call.INIT: "txn-init-time-ns-total",
    Call.BEGIN: "txn-begin-time-ns-total",
    Call.SEND_OFFSETS: "txn-send-offsets-time-ns-total",
    Call.COMMIT: "txn-commit-time-ns-total",
    Call.ABORT: "txn-abort-time-ns-total",
}


class TransactionCalls:
    """The transactional calls of `KafkaProducer`, its base class.

    `timeout` is always in seconds (default: max_block_ms). A call that does not end in time raises
    KafkaTimeoutError and continues in the background; make the same call again to wait for it. All of them
    also raise

        IllegalState: the producer has no transactional_id; another call must come first, which the message
            names; or this is a callback on the IO thread, which cannot wait for itself.
        TransactionFailed: the transaction can only be aborted; the cause is the reason.
        ProducerFenced: a newer producer uses the transactional id. After this and every other `fatal` error,
            the producer can only be closed.
        ClientClosed, ForkedClientError, ClientFailed: as for `send`.
    """

    def init_transactions(self, timeout: float | None = None) -> None:
        """Register the transactional_id, fence older producers with it, and abort their open transaction.

        Call it once, before the first transaction.

        Raises:
            TransactionalIdAuthorizationFailed, InvalidTransactionTimeout, KafkaError: the coordinator rejects
                the request; the call can be repeated.
            KafkaTimeoutError: no coordinator responded in time.
        """
        self._runner("init_transactions").run(Call.INIT, timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction; every record sent from now on belongs to it, whatever thread sends it.

        The call sends no request.
        """
        self._runner("begin_transaction").run(Call.BEGIN, BEGIN_TIMEOUT)

    def send_offsets_to_transaction(
        self,
        offsets: OffsetsToCommit,
        group_metadata: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Add a consumer's offsets to the transaction; they are committed only if it commits (KIP-447).

        Args:
            offsets: the offset of the next record to read (an int or OffsetAndMetadata), by partition.
            group_metadata: `consumer.group_metadata()` of the consumer that read the records; or the
                group_id, if that consumer uses `assign`.
            timeout: seconds.

        Raises:
            TransactionFailed: the coordinator rejected the offsets, for example because the consumer is no
                longer a member of its group.
            IllegalArgument: an argument has the wrong type or value.
        """
        runner = self._runner("send_offsets_to_transaction")
        from pykafka2.producer.transactions.steps import Offsets

        checked = Offsets(checked_offsets(offsets), checked_group(group_metadata))
        if checked.offsets:
            runner.run(Call.SEND_OFFSETS, timeout, checked)
        else:
            runner.status.check(Call.SEND_OFFSETS)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Send the remaining records and commit the transaction, which makes all of it visible at once.

        When it returns, the commit is final.

        Raises:
            TransactionFailed: a record of the transaction failed, so nothing was committed.
        """
        self._runner("commit_transaction").run(Call.COMMIT, timeout)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: read_committed consumers skip its records.

        Records that were not sent yet fail with TransactionAborted.
        """
        self._runner("abort_transaction").abort(timeout)

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context manager that begins a transaction and commits it at the end of the block.

        If the block raises or a record failed, it aborts the transaction instead. The exception continues,
        with a note that the transaction was aborted. If a record failed and the abort has a fatal error, such
        as ProducerFenced, the block raises that error.
        """
        return _transaction_block(self._runner("transaction"))

    def detach_transaction(self, timeout: float | None = None) -> TransactionHandle:
        """Send the remaining records and leave the transaction open for `pykafka2.end_transaction`.

        The handle can be pickled and contains no secret, so another process can end the transaction within
        transaction_timeout_ms. This producer can then only be closed; the transaction stays open.

        Raises:
            TransactionFailed: a record of the transaction failed.
        """
        runner = self._runner("detach_transaction")
        from pykafka2.producer.transactions.handle import TransactionHandle

        detached: Detached = runner.run(Call.DETACH, timeout)
        return TransactionHandle(
            transactional_id=runner.status.transactional_id,
            producer_id=detached.producer_id,
            producer_epoch=detached.producer_epoch,
            transaction_version=detached.transaction_version,
            is_empty=detached.is_empty,
        )

    def _runner(self, call: str) -> TransactionRunner:
        """Return the runner of an open producer with a transactional_id, or raise."""
        raise NotImplementedError


@contextmanager
def _transaction_block(runner: TransactionRunner) -> Iterator[None]:
    try:
        runner.run(Call.BEGIN, BEGIN_TIMEOUT)
    except KafkaError:
        raise
    except BaseException:
        # After a Ctrl-C the transaction can have begun; the IO thread handles the abort after that.
        with suppress(KafkaError):
            runner.abort(None)
        raise
    try:
        yield
    except BaseException as error:
        _abort_after(runner, error)
        raise
    if runner.status.state in (TransactionState.READY, TransactionState.DETACHED):
        return  # the block has ended or detached it
    try:
        runner.run(Call.COMMIT, None)
    except TransactionFailed as error:
        fatal = _abort_after(runner, error)
        if fatal is not None:
            raise fatal from error
        raise


def _abort_after(runner: TransactionRunner, error: BaseException) -> KafkaError | None:
    """Abort because of this error, which the caller raises; a note on it reports the abort.

    Return the error of the abort if it is fatal, such as that of a fenced producer.
    """
    if runner.status.state not in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR):
        return None  # it has ended, is ending, or is lost
    try:
        runner.abort(None)
    except KafkaError as failure:
        error.add_note(f"the transaction could not be aborted: {type(failure).__name__}: {failure}")
        return failure if failure.fatal else None
    error.add_note("the transaction was aborted")
    return None


class TransactionRunner:
    """Runs transactional calls on the IO thread and waits for their end. It never refers to the producer."""

    def __init__(
        self,
        client: ClusterClient,
        manager: TransactionManager,
        status: TransactionStatus,
        accumulator: Accumulator,
        metrics: Metrics,
        *,
        max_block: float,
    ) -> None:
        self.status = status
        self._client = client
        self._driver = client.driver
        self._manager = manager
        self._accumulator = accumulator
        self._metrics = metrics
        self.max_block = max_block
        self.has_raised_fatal_error = False
        """Whether a caller has learned that the producer, and with it the open transaction, has ended."""

    def run(self, call: Call, timeout: float | None, offsets: Offsets | None = None) -> Any:
        """Return the value of the call, which the manager starts or, if it is running already, joins.

        Raise KafkaTimeoutError if it does not end within `timeout` seconds (None: max_block_ms).
        """
        driver, clock = self._driver, self._driver.clock
        if driver.is_own_thread():
            raise IllegalState(
                f"{call.value}() inside a callback of the IO thread would wait for itself; "
                "call it from your own thread"
            )
        self._accumulator.check_not_interrupted()
        timeout = checked_timeout(timeout)
        timeout = self.max_block if timeout is None else timeout
        from pykafka2.producer.transactions.manager import Ticket

        ticket = Ticket(call, Completion(driver, call.value), offsets)
        began = clock.monotonic()
        driver.call_soon(lambda now: self._manager.start(ticket, now))
        if not driver.wait_until(ticket.completion.done, timeout, ticket.completion.waiters):
            raise self._timed_out(call, timeout)
        ticket.is_received = True
        if call in METRICS:
            self._metrics.count_ns(METRICS[call], clock.monotonic() - began)
        try:
            return ticket.completion.result(0)
        except KafkaError as error:
            self.has_raised_fatal_error |= error.fatal
            raise

    def take_back(self) -> None:
        """Let the last call be repeated: it succeeded, but its task was cancelled and never learns it."""
        with suppress(KafkaError):  # a closed producer has no further calls
            self._driver.call_soon(self._manager.take_back)

    def abort(self, timeout: float | None) -> None:
        """Abort the transaction. Its failed records need no flush to raise them any more."""
        self.run(Call.ABORT, timeout)
        self._accumulator.take_failed()

    def end_for_close(self, timeout: float) -> None:
        """End the transaction before the producer closes: abort an open one, and wait for one that is ending.

        Never raises a KafkaError. The log names a transaction that did not end; its coordinator aborts it
        after transaction_timeout_ms.
        """
        deadline = self._driver.clock.monotonic() + timeout
        self._end_for_close(timeout)
        if self.status.state is TransactionState.ABORTABLE_ERROR:
            self._end_for_close(max(0.0, deadline - self._driver.clock.monotonic()))

    def _end_for_close(self, timeout: float) -> None:
        state = self.status.state
        call = _AT_CLOSE.get(state)
        if call is None:
            return
        name = self.status.transactional_id
        if call is Call.ABORT and state is not TransactionState.ABORTING:
            logger.warning("aborting the open transaction of %r, because its producer is being closed", name)
        try:
            if call is Call.ABORT:
                self.abort(timeout)
            else:
                self.run(call, timeout)
        except KafkaError as error:
            logger.warning("the transaction of %r did not end before its producer closed: %s", name, error)

    def _timed_out(self, call: Call, timeout: float) -> KafkaTimeoutError:
        goes_on = (
            "it continues, and commit_transaction() waits for it"
            if call is Call.SEND_OFFSETS
            else f"it continues; call {call.value}() again to wait for it"
        )
        last_error = self._manager.last_error
        if not self._client.nodes.has_connection:
            because = self._client.nodes.why_unreachable()
        elif last_error is not None:
            because = f"the last response was {type(last_error).__name__}: {last_error}"
        elif records := self._accumulator.unsent_records():
            because = f"records not yet acknowledged: {records}"
        else:
            because = "no broker responded"
        error = KafkaTimeoutError(f"{call.value} did not end within {timeout:g} s: {because}; {goes_on}")
        error.__cause__ = last_error
        return error


_AT_CLOSE: Final = {
    TransactionState.IN_TRANSACTION: Call.ABORT,
    TransactionState.ABORTABLE_ERROR: Call.ABORT,
    TransactionState.ABORTING: Call.ABORT,
    TransactionState.COMMITTING: Call.COMMIT,
    TransactionState.DETACHING: Call.DETACH,
}


def checked_group(group: Any) -> ConsumerGroupMetadata:
    """Return the group metadata; a group id alone stands for a consumer that assigns its partitions itself.

    Raise IllegalArgument that names the field.
    """
    fields = ("group_id", "generation_id", "member_id", "group_instance_id")
    if isinstance(group, str):
        group = ConsumerGroupMetadata(group)
    if not all(hasattr(group, name) for name in fields) or not isinstance(group.group_id, str):
        raise IllegalArgument(
            f"group_metadata={group!r}: send_offsets_to_transaction() takes consumer.group_metadata(), or "
            "the group_id of a consumer that uses assign()"
        )
    if not _is_whole(group.generation_id, -1, INT32_MAX):
        raise IllegalArgument(f"group_metadata={group!r}: generation_id must be an int, or -1 for none")
    if not isinstance(group.member_id, str) or not isinstance(group.group_instance_id, str | None):
        raise IllegalArgument(f"group_metadata={group!r}: member_id and group_instance_id must be strings")
    for name in ("group_id", "member_id", "group_instance_id"):
        _sendable(f"group_metadata.{name}", getattr(group, name) or "")
    topic_ids = getattr(group, "topic_ids", {})  # metadata of other clients has none
    if not isinstance(topic_ids, Mapping) or not all(
        type(topic_id) is bytes and len(topic_id) == len(ZERO_UUID) for topic_id in topic_ids.values()
    ):
        raise IllegalArgument(
            f"group_metadata.topic_ids={topic_ids!r}: topic_ids must map partitions to ids of 16 bytes"
        )
    return ConsumerGroupMetadata(*(getattr(group, name) for name in fields), topic_ids=topic_ids)


def _is_whole(number: Any, lowest: int, highest: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and lowest <= number <= highest


def _sendable(name: str, text: str) -> str:
    try:
        return sendable_text(text)
    except Because as error:
        raise IllegalArgument(f"{name}: {error}") from None


def transactional_parts(
    client: ClusterClient,
    options: ProducerOptions,
    status: TransactionStatus,
    accumulator: Accumulator,
    metrics: Metrics,
) -> tuple[TransactionManager, TransactionRunner]:
    """Return the manager, which the caller adds to the client after the sender, and the runner."""
    from pykafka2.producer.idempotence import ProducerIdentity, policy_of
    from pykafka2.producer.transactions import handle  # noqa: F401 - for detach_transaction
    from pykafka2.producer.transactions.manager import TransactionManager
    from pykafka2.producer.transactions.steps import TransactionSteps

    random = client.driver.entropy.random
    identity = ProducerIdentity(options, random, policy_of(options))
    manager = TransactionManager(
        options,
        status,
        accumulator,
        identity,
        TransactionSteps(options, status, identity, client.nodes, client.metadata.topic_id, random),
        forget=client.coordinators.forget_answerer,
    )
    runner = TransactionRunner(client, manager, status, accumulator, metrics, max_block=options.max_block)
    return manager, runner
