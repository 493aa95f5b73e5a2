"""flush, purge and close of a producer, and the release of a producer that was never closed.

Used on callers' threads, except `drop`, which runs on the thread that collects garbage. It holds the
producer's parts, and never the producer itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pykafka2 import lifecycle
from pykafka2.cluster.client import ClusterClient
from pykafka2.driver.completion import Completion
from pykafka2.driver.pollable import NOTHING, PollResult
from pykafka2.errors import ClientClosed, IllegalState, KafkaError, KafkaTimeoutError
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.producer.inspection import Inspection
from pykafka2.producer.interceptors import Interceptors
from pykafka2.producer.sending.sender import Sender
from pykafka2.producer.transactions.state import again
from pykafka2.producer.transactions.transactions import TransactionRunner
from pykafka2.text import records_remain, undelivered

logger = logging.getLogger(__name__)

END_TIMEOUT = 5.0
"""Seconds in which the IO thread fails remaining records and ends, if close has no timeout."""

GRACE = 0.5
"""The same if the timeout of close is over: enough unless a callback blocks the IO thread."""

DROP_TIMEOUT = 1.0
"""Seconds to send and then to end a dropped producer, while the garbage collector waits."""


class Shutdown:
    """Implements flush, purge and close, and the end of a producer that was dropped."""

    def __init__(
        self,
        client: ClusterClient,
        accumulator: Accumulator,
        sender: Sender,
        inspection: Inspection,
        interceptors: Interceptors,
        close_partitioner: Callable[[], object],
        transactions: TransactionRunner | None = None,
    ) -> None:
        self._transactions = transactions
        self._client = client
        self._accumulator = accumulator
        self._sender = sender
        self._inspection = inspection
        self._interceptors = interceptors
        self._close_partitioner = close_partitioner
        self._lock = threading.Lock()
        self._leader: int | None = None
        """The thread that closes the producer; other callers of close wait for it."""
        self._failure: KafkaError | None = None
        """The error of close, for the callers that waited for it."""
        self.is_closed = False

    def flush(self, timeout: float | None) -> None:
        """See `KafkaProducer.flush`; also used by a producer that accepts no more records."""
        self._flush(timeout, timeout)

    def _flush(self, timeout: float | None, whole_timeout: float | None, *, is_close: bool = False) -> None:
        """Flush, for `close` with `is_close`; `whole_timeout` is that of the whole call, for its error."""
        driver = self._client.driver
        deadline = driver.clock.monotonic() + (float("inf") if timeout is None else timeout)
        who = object()
        try:
            batches = self._accumulator.begin_flush(who)
            # The newest first: when it is done, most others are, so the thread wakes rarely.
            while batches:
                left = max(0.0, deadline - driver.clock.monotonic())
                if not driver.wait_until(partial(_is_finished, batches[-1]), left, batches[-1].waiters):
                    break
                while batches and batches[-1].is_finished:
                    batches.pop()
            driver.raise_interruption()  # of a callback that called sys.exit() after the last wait
        finally:
            self._accumulator.end_flush(who)
        if batches:
            left_over = sum(batch.size for batch in batches if not batch.is_finished)
            what = records_remain(left_over, whole_timeout or 0.0)
            what = f"close: {what} and will be dropped" if is_close else what
            raise KafkaTimeoutError(f"{what}. {self._inspection.explain_waits()}")
        failed = self._accumulator.take_failed()
        if failed:
            raise _failure(failed)

    def purge(self) -> int:
        """See `KafkaProducer.purge`."""
        driver = self._client.driver
        if driver.is_own_thread():
            raise IllegalState(
                "purge() inside a callback of the IO thread would wait for itself; "
                "call it from your own thread"
            )
        self._accumulator.check_not_interrupted()
        purged: Completion[int] = Completion(driver, "purge")
        driver.call_soon(lambda now: purged.succeed(self._sender.purge()))
        return purged.result()

    def close(self, timeout: float | None) -> None:
        """See `KafkaProducer.close`; the accumulator is closed already.

        One thread closes; all others wait for it and raise its error. After a Ctrl-C in that thread no record
        is dropped, and the next call continues.
        """
        monotonic = self._client.driver.clock.monotonic
        deadline = monotonic() + (float("inf") if timeout is None else timeout)
        while not self._takes_lead():
            left = max(0.0, deadline + GRACE - monotonic())
            if not self._client.runtime.wait_until(lambda: self.is_closed or self._leader is None, left):
                what = records_remain(self._accumulator.unsent_records(), timeout or 0.0)
                raise KafkaTimeoutError(f"close: {what}; another thread is still closing")
            if self.is_closed:
                if self._failure is not None:
                    raise self._failure.anew()
                return
        try:
            self._lead(timeout, deadline)
        finally:
            self._leader = None
            self._client.runtime.notify()

    def _takes_lead(self) -> bool:
        me = threading.get_ident()
        with self._lock:
            # This thread leads already if a Ctrl-C interrupted its earlier call.
            if self._leader in (None, me):
                self._leader = me
            return self._leader == me

    def _lead(self, timeout: float | None, deadline: float) -> None:
        if self.is_closed:
            return
        monotonic = self._client.driver.clock.monotonic
        whole_timeout = timeout
        is_known_to_be_lost = self._transactions is not None and self._transactions.has_raised_fatal_error
        try:
            if self._transactions is not None:
                # Its steps end only if a coordinator responds, so they need a timeout.
                bound = self._transactions.max_block if timeout is None else timeout
                self._transactions.end_for_close(bound)
                timeout = None if timeout is None else max(0.0, deadline - monotonic())
            self._flush(timeout, whole_timeout, is_close=True)
        except KafkaTimeoutError as error:
            self._failure = error
        except KafkaError as error:
            if not is_known_to_be_lost:
                self._failure = error
        now = monotonic()
        end_by = now + END_TIMEOUT if timeout is None else max(deadline, now + GRACE)
        self._abort(end_by - now)
        self._client.close(end_by - monotonic())
        self._interceptors.close()
        try:
            self._close_partitioner()
        except Exception:
            logger.exception("close of the partitioner failed")
        self.is_closed = True
        if self._failure is not None:
            raise self._failure

    def _abort(self, timeout: float) -> None:
        """Fail the remaining records, so that no thread waits for them forever."""
        if not self._accumulator.unsent_records():
            return
        error = ClientClosed(
            "the producer was closed before the record was acknowledged; it may be in the log"
        )
        driver = self._client.driver
        if driver.failure is not None:
            self._sender.abort(error)  # the IO thread has ended, so this thread can use its state
        elif not driver.is_closed:
            driver.call_soon(lambda now: self._sender.abort(error))
            self._client.runtime.wait_until(
                lambda: not self._accumulator.incomplete or driver.failure is not None, timeout
            )

    def at_exit(self, timeout: float) -> int:
        """Send what is left at interpreter exit, within `timeout` seconds. Return the records not sent."""
        clock = self._client.driver.clock
        deadline = clock.monotonic() + timeout
        is_over = False
        while not is_over:
            try:
                self._accumulator.close()
                if self._transactions is not None:
                    self._transactions.end_for_close(max(0.0, deadline - clock.monotonic()))
                self.flush(max(0.0, deadline - clock.monotonic()))
                is_over = True
            except SystemExit:
                pass  # a callback called sys.exit(), which is happening anyway; send the rest
            except Exception as error:
                logger.debug("the flush at exit: %s", error)
                is_over = True
        remaining = self._accumulator.unsent_records()
        self._client.close(1.0)
        return remaining

    def drop(self) -> None:
        """End a producer that was dropped without close: send its records briefly, fail the rest.

        The garbage collector runs on any thread, also on one that holds a lock, and on the loop of a broker
        in this process. In a loop nothing blocks.
        """
        driver = self._client.driver
        is_alive = driver.failure is None and not driver.is_closed
        if is_alive and self._client.runtime.is_in_a_loop():
            lifecycle.await_at_exit(self)  # first: the IO thread can end the producer at once
            try:
                driver.call_soon(self._begin_end)
            except KafkaError:  # it was closed meanwhile
                lifecycle.stop_awaiting(self)
            return
        try:
            if is_alive:
                self._send_dropped()
        finally:  # also after an exception of a callback, as nothing else ends the thread
            self._abort_dropped()
            self._client.close(DROP_TIMEOUT)

    def _send_dropped(self) -> None:
        monotonic = self._client.driver.clock.monotonic
        deadline = monotonic() + DROP_TIMEOUT
        is_over = False
        while not is_over:
            is_over = True
            try:
                with suppress(KafkaError):  # failed records are logged
                    self._flush(max(0.0, deadline - monotonic()), DROP_TIMEOUT)
            except SystemExit:  # of a callback, which is logged; send the rest
                is_over = False

    def _begin_end(self, now: float) -> None:
        self._accumulator.begin_flush(self)
        end = partial(self._client.driver.call_soon, self._end_dropped)  # in a turn of its own
        self._client.add(_DroppedProducer(now + DROP_TIMEOUT, self._accumulator, end))

    def _end_dropped(self, now: float) -> None:
        try:
            self._abort_dropped()
            self._client.close(DROP_TIMEOUT)
        finally:
            lifecycle.stop_awaiting(self)
            self.is_closed = True
            self._client.runtime.notify()

    def await_end(self) -> None:
        """Wait for a producer that was dropped in a loop, at interpreter exit."""
        driver = self._client.driver
        self._client.runtime.wait_until(
            lambda: self.is_closed or driver.failure is not None, DROP_TIMEOUT + END_TIMEOUT
        )

    def _abort_dropped(self) -> None:
        driver = self._client.driver
        lost = self._accumulator.unsent_records()
        if lost:
            logger.error("%s was dropped without close(): %s", self._client.name, undelivered(lost))
        error = ClientClosed(
            "the producer was dropped without close(); the record may or may not be in the log"
        )
        if driver.failure is not None or driver.is_own_thread():
            self._sender.abort(error)
        elif not driver.is_closed:
            driver.call_soon(lambda now: self._sender.abort(error))


class _DroppedProducer:
    """Ends a dropped producer on its own thread, when all batches are finished or after a timeout."""

    def __init__(self, until: float, accumulator: Accumulator, end: Callable[[], None]) -> None:
        self._until = until
        self._accumulator = accumulator
        self._end = end
        self._is_over = False

    def poll(self, now: float) -> PollResult:
        if self._is_over:
            return NOTHING
        if self._accumulator.incomplete and now < self._until:
            return PollResult.idle_until(self._until)
        self._is_over = True
        self._end()
        return NOTHING


def _is_finished(batch: ProducerBatch) -> bool:
    return batch.is_finished


def _failure(failed: list[ProducerBatch]) -> KafkaError:
    first = failed[0].error or KafkaError("unknown")
    records = sum(batch.unreported for batch in failed)
    return again(first, f"{undelivered(records)}; the first: {first}")
