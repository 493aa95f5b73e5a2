"""The transactional calls on callers' threads: each becomes a ticket for the IO thread, and waits for it.

Thread-safe.  A call never waits longer than its timeout; what it began goes on, and the same call again
waits for that (transaction_manager.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.offset_arguments import GivenOffsets, checked_offsets
from pykafka2.driver.completion import Completion
from pykafka2.errors import (
    IllegalState,
    KafkaError,
    KafkaTimeoutError,
    TransactionFailed,
)
from pykafka2.metrics import Metrics
from pykafka2.producer.accumulator import Accumulator
from pykafka2.producer.arguments import checked_timeout
from pykafka2.producer.transaction_arguments import checked_group
from pykafka2.producer.transaction_handle import TransactionHandle
from pykafka2.producer.transaction_manager import Detached, TransactionManager
from pykafka2.producer.transaction_state import Call, TransactionState, TransactionStatus
from pykafka2.producer.transaction_steps import Offsets
from pykafka2.producer.transaction_tickets import Ticket
from pykafka2.types import ConsumerGroupMetadata

logger = logging.getLogger(__name__)

BEGIN_TIMEOUT = 60.0
"""Seconds in which the IO thread is to take note that a transaction begins.  No broker is asked, so
max_block_ms, which may be 0, has no say in it."""

METRICS: Final = {
    Call.INIT: "txn-init-time-ns-total",
    Call.BEGIN: "txn-begin-time-ns-total",
    Call.SEND_OFFSETS: "txn-send-offsets-time-ns-total",
    Call.COMMIT: "txn-commit-time-ns-total",
    Call.ABORT: "txn-abort-time-ns-total",
}


class TransactionCalls:
    """What `KafkaProducer` offers of transactions; see its methods for what is promised."""

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

    def init(self, timeout: float | None) -> None:
        self._call(Call.INIT, timeout)

    def begin(self) -> None:
        self._call(Call.BEGIN, BEGIN_TIMEOUT)

    def send_offsets(
        self, offsets: GivenOffsets, group: ConsumerGroupMetadata | str, timeout: float | None
    ) -> None:
        checked = Offsets(checked_offsets(offsets), checked_group(group))
        if checked.offsets:
            self._call(Call.SEND_OFFSETS, timeout, checked)
        else:
            self.status.check(Call.SEND_OFFSETS)

    def commit(self, timeout: float | None) -> None:
        self._call(Call.COMMIT, timeout)

    def abort(self, timeout: float | None) -> None:
        self._call(Call.ABORT, timeout)
        # With the transaction its failed records are done with: no flush needs to raise them.
        self._accumulator.take_failed()

    def detach(self, timeout: float | None) -> TransactionHandle:
        told: Detached = self._call(Call.DETACH, timeout)
        return TransactionHandle(
            transactional_id=self.status.transactional_id,
            producer_id=told.producer_id,
            producer_epoch=told.producer_epoch,
            transaction_version=told.transaction_version,
            is_empty=told.is_empty,
        )

    @contextmanager
    def block(self) -> Iterator[None]:
        """`with producer.transaction():`."""
        try:
            self.begin()
        except KafkaError:
            raise
        except BaseException:
            # A Ctrl-C: it may have begun all the same, or be about to, which the abort comes after.
            with suppress(KafkaError):
                self.abort(None)
            raise
        try:
            yield
        except BaseException as error:
            self._abort_after(error)
            raise
        if self.status.state in (TransactionState.READY, TransactionState.DETACHED):
            return  # the block has ended it, or handed it over, itself
        try:
            self.commit(None)
        except TransactionFailed as error:
            self._abort_after(error)
            raise

    def end_for_close(self, timeout: float) -> None:
        """Before the producer closes: abort what is open, wait for the end of what is ending, and abort that
        if it fails.  Never raises a KafkaError: what could not be ended is said in the log, and its
        coordinator ends it in time.
        """
        deadline = self._driver.clock.monotonic() + timeout
        self._end_for_close(timeout)
        if self.status.state is TransactionState.ABORTABLE_ERROR:
            self._end_for_close(max(0.0, deadline - self._driver.clock.monotonic()))

    # ------------------------------------------------------------------ inside

    def _end_for_close(self, timeout: float) -> None:
        state = self.status.state
        call = _AT_CLOSE.get(state)
        if call is None:
            return
        name = self.status.transactional_id
        if call is Call.ABORT and state is not TransactionState.ABORTING:
            logger.warning("the open transaction of %r is aborted, as its producer is closed", name)
        try:
            if call is Call.ABORT:
                self.abort(timeout)
            else:
                self._call(call, timeout)
        except KafkaError as error:
            logger.warning("the transaction of %r did not end before its producer closed: %s", name, error)

    def _call(self, call: Call, timeout: float | None, offsets: Offsets | None = None) -> Any:
        driver, clock = self._driver, self._driver.clock
        if driver.is_own_thread():
            raise IllegalState(
                f"{call.value}() inside a callback of the IO thread would wait for itself; "
                "call it from your own thread"
            )
        self._accumulator.check_not_interrupted()
        timeout = checked_timeout(timeout)
        timeout = self.max_block if timeout is None else timeout
        ticket = Ticket(call, Completion(driver, call.value), offsets)
        began = clock.monotonic()
        driver.call_soon(lambda now: self._manager.start(ticket, now))
        if not driver.wait_until(ticket.completion.done, timeout, ticket.completion.waiters):
            raise self._timed_out(call, timeout)
        ticket.is_heard = True
        if call in METRICS:
            self._metrics.count_ns(METRICS[call], clock.monotonic() - began)
        return ticket.completion.result(0)

    def _timed_out(self, call: Call, timeout: float) -> KafkaTimeoutError:
        goes_on = (
            "it goes on, and commit_transaction() waits for it"
            if call is Call.SEND_OFFSETS
            else f"it goes on; call {call.value}() again to wait for it"
        )
        last_error = self._manager.last_error
        if not self._client.nodes.has_connection:
            because = self._client.nodes.why_unreachable()
        elif last_error is not None:
            because = f"the last answer was {type(last_error).__name__}: {last_error}"
        elif records := self._accumulator.unsent_records():
            because = f"{records} records are not acknowledged yet"
        else:
            because = "no answer came"
        error = KafkaTimeoutError(f"{call.value} did not end within {timeout:g} s: {because}; {goes_on}")
        error.__cause__ = last_error
        return error

    def _abort_after(self, error: BaseException) -> None:
        """Abort because of this error, which goes on; what hinders it is said in a note."""
        if self.status.state not in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR):
            return  # ended already, being ended, or lost
        try:
            self.abort(None)
        except KafkaError as failure:
            error.add_note(f"the transaction could not be aborted: {type(failure).__name__}: {failure}")
        else:
            error.add_note("the transaction was aborted")


_AT_CLOSE: Final = {
    TransactionState.IN_TRANSACTION: Call.ABORT,
    TransactionState.ABORTABLE_ERROR: Call.ABORT,
    TransactionState.ABORTING: Call.ABORT,
    TransactionState.COMMITTING: Call.COMMIT,
    TransactionState.DETACHING: Call.DETACH,
}
