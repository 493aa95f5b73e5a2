"""The errors and the log line of failed batches, which can have been written nevertheless.

Used on the IO thread by results.py, which decides that a batch has failed.
"""

from __future__ import annotations

from pykafka2.errors import (
    BrokerError,
    CorruptData,
    DeliveryTimeout,
    KafkaError,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    TransactionAborted,
    UnknownServerError,
)
from pykafka2.logs import ClientLogger
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.text import undelivered
from pykafka2.types import TopicPartition

# A leader that lost its place can have appended and replicated the batch before it responded.
MAY_FOLLOW_AN_APPEND = (
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownServerError,
)


def leaves_open(error: KafkaError) -> bool:
    """Return whether a batch can be in the log although its attempt ended with this error."""
    if isinstance(error, BrokerError):
        return isinstance(error, MAY_FOLLOW_AN_APPEND)
    return error.retriable or isinstance(error, CorruptData)


class Failures:
    """The failed attempts of batches until they are written or failed."""

    def __init__(self, client_id: str | None) -> None:
        self._log = ClientLogger(__name__, client_id)
        self._may_be_written: set[ProducerBatch] = set()
        self._parts_of_unclear_batches: set[ProducerBatch] = set()
        self._failing: set[TopicPartition] = set()
        """Partitions without a written batch since a failure was logged."""

    def attempt_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        if leaves_open(error):
            self.mark_may_be_written(batch)

    def mark_may_be_written(self, batch: ProducerBatch) -> None:
        """Note that an attempt can have written the batch."""
        self._may_be_written.add(batch)

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Mark the parts of a split batch like the batch itself."""
        if batch in self._may_be_written:
            self._may_be_written.discard(batch)
            self._may_be_written.update(parts)
            self._parts_of_unclear_batches.discard(batch)
            self._parts_of_unclear_batches.update(parts)

    def is_part_of_unclear_batch(self, batch: ProducerBatch) -> bool:
        """Return whether it is a part of a batch that an attempt can have written as a whole."""
        return batch in self._parts_of_unclear_batches

    def may_be_written(self, batch: ProducerBatch) -> bool:
        """Return whether an attempt ended without a clear result; its request can still be on the wire."""
        return batch in self._may_be_written

    def final_error(self, batch: ProducerBatch, error: KafkaError) -> KafkaError:
        """Return the error for its records, which says if the batch can be in the log."""
        if batch not in self._may_be_written or isinstance(error, DeliveryTimeout):
            return error
        text = f"{error} (attempt {batch.attempts}); it may or may not be in the log"
        try:
            final = type(error)(text)
        except TypeError:  # an error class with arguments of its own
            return error
        final.__cause__ = error
        return final

    def on_written(self, batch: ProducerBatch) -> None:
        if self._may_be_written:
            self._settled(batch)
        if self._failing:
            self._failing.discard(TopicPartition(batch.topic, batch.partition))

    def on_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Log the failure of a batch, whose callbacks have been called.

        Records without a reported error are logged, as the program can end without `flush`. Once per
        partition until a batch is written again. Records of an aborted transaction are not logged.
        """
        self._settled(batch)
        key = TopicPartition(batch.topic, batch.partition)
        if not batch.unreported or key in self._failing:
            return
        if isinstance(error, TransactionAborted):  # which the application has done
            return
        self._failing.add(key)
        self._log.error(
            "%s-%d: %s: %s: %s",
            *key,
            undelivered(batch.unreported),
            type(error).__name__,
            error,
        )

    def _settled(self, batch: ProducerBatch) -> None:
        self._may_be_written.discard(batch)
        self._parts_of_unclear_batches.discard(batch)
