"""How a producer closes: flush, what is given up at close, and what is left of one that was dropped.

Callers' threads, but for `drop`, which runs on whatever thread collects garbage.  Holds the producer's parts
and never the producer itself.
"""

from __future__ import annotations

import logging

from pykafka2.cluster.client import ClusterClient
from pykafka2.errors import ClientClosed, KafkaError, KafkaTimeoutError
from pykafka2.producer.accumulator import Accumulator
from pykafka2.producer.batch import ProducerBatch
from pykafka2.producer.inspection import Inspection
from pykafka2.producer.sender import Sender

logger = logging.getLogger(__name__)

ABORT_TIMEOUT = 5.0
"""Seconds that the IO thread gets to fail what could not be delivered."""

DROP_TIMEOUT = 1.0
"""The same for a producer that was garbage: whoever collects it waits no longer than this."""


class Closing:
    """The ways in which a producer's records come to an end."""

    def __init__(
        self, client: ClusterClient, accumulator: Accumulator, sender: Sender, inspection: Inspection
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._sender = sender
        self._inspection = inspection

    def flush(self, timeout: float | None) -> None:
        """See `KafkaProducer.flush`; also for a producer that takes no more records."""
        who = object()
        try:
            batches = self._accumulator.begin_flush(who)
            is_done = self._client.driver.wait_until(
                lambda: _all_told(batches), float("inf") if timeout is None else timeout
            )
        finally:
            self._accumulator.end_flush(who)
        if not is_done:
            left = sum(batch.size for batch in batches if not batch.is_told)
            raise KafkaTimeoutError(
                f"{left} records remain after {timeout:g} s. {self._inspection.explain()}"
            )
        failed = self._accumulator.take_failed()
        if failed:
            raise _failure(failed)

    def abort(self) -> None:
        """Fail what remains, so that nobody waits for it for ever."""
        if not self._accumulator.unsent_records():
            return
        error = ClientClosed(
            "the producer was closed before the record was acknowledged; it may be in the log"
        )
        if self._client.driver.failure is not None:
            self._sender.abort(error)  # its thread is gone, so nobody else touches these
            return
        self._client.driver.call_soon(lambda now: self._sender.abort(error))
        self._client.runtime.wait_until(
            lambda: not self._accumulator.incomplete or self._client.driver.failure is not None, ABORT_TIMEOUT
        )

    def drop(self) -> None:
        """The producer was garbage: fail what it held, which somebody may wait for, and end its thread."""
        lost = self._accumulator.unsent_records()
        if lost:
            logger.warning("a KafkaProducer was dropped with %d records not yet delivered", lost)
        error = ClientClosed(
            "the producer was dropped without close(); the record may or may not be in the log"
        )
        driver = self._client.driver
        if driver.is_own_thread() or driver.failure is not None:
            self._sender.abort(error)
        elif not driver.is_closed:
            driver.call_soon(lambda now: self._sender.abort(error))
        self._client.close(DROP_TIMEOUT)


def _all_told(batches: list[ProducerBatch]) -> bool:
    """Whether all are done; forgets the done ones, so that asking often stays cheap."""
    while batches and batches[-1].is_told:
        batches.pop()
    return not batches


def _failure(failed: list[ProducerBatch]) -> KafkaError:
    first = failed[0].error
    records = sum(batch.unreported for batch in failed)
    text = f"{records} records were not delivered; the first: {first}"
    try:
        error: KafkaError = type(first)(text) if first is not None else KafkaError(text)
    except TypeError:  # an error class with arguments of its own
        error = KafkaError(text)
    error.__cause__ = first
    return error
