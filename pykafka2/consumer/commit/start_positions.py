"""Sets the first positions of partitions to the group's committed offsets.

Used on the caller's thread, inside poll(). Neighbors: offset_fetch.py (the requests), state/subscription.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pykafka2.clock import FOREVER
from pykafka2.consumer.commit.offset_fetch import CommittedOffsets
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.driver.completion import Completion
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages.committed_offsets import OffsetFetchResponse
from pykafka2.text import named
from pykafka2.types import OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)

# Seconds between two requests that the coordinator rejects for good, however often the application polls.
REJECTION_BACKOFF = 0.1


class StartPositions:
    """Sets the position of partitions without one to the offset that their group has committed."""

    def __init__(self, committed: CommittedOffsets, subscription: Subscription) -> None:
        self._committed = committed
        self._subscription = subscription
        self._clock = committed.clock
        self._retry_at = -FOREVER
        self._requested: dict[TopicPartition, int] = {}
        """Partitions of the OffsetFetch in progress, with their generations when it started."""
        self.response: Completion[OffsetFetchResponse] | None = None
        """The response to the OffsetFetch in progress; None if there is none."""
        self._uncommitted: dict[TopicPartition, int] = {}
        """Partitions without a committed offset, with their generations when that was known."""
        self.last_error: KafkaError | None = None
        """The error of the last OffsetFetch; None after a success."""
        self._request_format = committed.request_format
        """The format of the OffsetFetch in progress."""

    def has_news(self) -> bool:
        return self.response is not None and self.response.is_done

    def due_in(self) -> float:
        """Return the seconds until the retry after a rejection, or FOREVER if none is pending."""
        left = self._retry_at - self._clock.monotonic()
        return left if left > 0 else FOREVER

    @property
    def waits_for(self) -> list[TopicPartition]:
        """Partitions whose committed offset is being fetched."""
        return list(self._requested)

    def why_unknown(self, partition: TopicPartition) -> str:
        """Explain why the committed offset is unknown; empty if it is not being fetched."""
        if partition not in self._requested:
            return ""
        reason = f"; the last attempt failed: {self.last_error}" if self.last_error is not None else ""
        return f"the committed offset is not known yet{reason}"

    def without_commit(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions without a committed offset; set the positions of the others, or fetch them.

        Raise an error that is not retriable; the next call fetches again.
        """
        self._take_response()
        subscription = self._subscription
        left = [partition for partition in partitions if partition not in subscription.positions]
        without = (
            [partition for partition in left if self._is_uncommitted(partition)] if self._uncommitted else []
        )
        known = frozenset(without)
        unknown = {partition: self._generation(partition) for partition in left if partition not in known}
        if unknown and self.response is not None and unknown != self._requested:
            # An open transaction can delay the response for one partition; the others must not wait for it.
            self.response.cancel()
            self.response, self._requested = None, {}
        if unknown and self.response is None and self._clock.monotonic() >= self._retry_at:
            self._requested, self._request_format = unknown, self._committed.request_format
            self.response = self._committed.start(list(unknown))
        return without

    def _take_response(self) -> None:
        response, requested = self.response, self._requested
        if response is None or not response.is_done:
            return
        self.response, self._requested = None, {}
        error = response.exception(0)
        if error is None:
            self.last_error = None
            for partition, committed in self._committed.read(response.result(0), requested).items():
                self._apply(partition, requested[partition], committed)
        elif isinstance(error, KafkaError) and self._committed.falls_back(error, self._request_format):
            logger.debug(
                "fetching the committed offsets of %s as an older broker: %s", named(requested), error
            )
        elif isinstance(error, KafkaError) and error.retriable:
            self.last_error = error  # the caller retries
            logger.warning(
                "fetching the committed offsets of %s failed, retrying: %s", named(requested), error
            )
        else:
            self._retry_at = self._clock.monotonic() + REJECTION_BACKOFF
            raise error

    def _apply(self, partition: TopicPartition, generation: int, committed: OffsetAndMetadata | None) -> None:
        assigned = self._subscription.assigned.get(partition)
        if assigned is None or assigned.generation != generation or assigned.is_resetting:
            return  # revoked, or moved by the application (seek)
        if committed is None:
            self._uncommitted[partition] = generation
        elif partition not in self._subscription.positions:
            self._subscription.rewind(partition, committed.offset, committed.leader_epoch)

    def _generation(self, partition: TopicPartition) -> int:
        assigned = self._subscription.assigned.get(partition)
        return -1 if assigned is None else assigned.generation

    def _is_uncommitted(self, partition: TopicPartition) -> bool:
        generation = self._uncommitted.get(partition)
        if generation is not None and generation != self._generation(partition):
            del self._uncommitted[partition]
        return generation is not None and generation == self._generation(partition)
