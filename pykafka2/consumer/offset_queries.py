"""Blocking questions about partitions: where they begin and end, offsets by time, how many there are.

Caller's thread; asks through positions.py on the driver's thread and waits for all the answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.positions import OffsetLookups, Question
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartition
from pykafka2.types import OffsetAndTimestamp, TopicPartition

# The driver ends questions itself at their deadline, with better words than a waiter has.
GRACE = 1.0


class _Answers:
    """Collected by the driver's thread, awaited by the caller's."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        self.error: KafkaError | None = None
        self.waiters = WaitQueue()

    def on_found(self, partition: TopicPartition, found: OffsetAndTimestamp | None, now: float) -> None:
        self.found[partition] = found
        if self.is_over():
            self.waiters.wake()

    def on_failed(self, error: KafkaError, now: float) -> None:
        self.error = self.error or error
        self.waiters.wake()

    def is_over(self) -> bool:
        return self.error is not None or len(self.found) == self.wanted


class OffsetQueries:
    """What a consumer may ask besides reading."""

    def __init__(self, cluster: ClusterClient, lookups: OffsetLookups) -> None:
        self._cluster = cluster
        self._lookups = lookups

    def ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout: float
    ) -> dict[TopicPartition, int]:
        """The offsets at one end of each partition; see `KafkaConsumer.beginning_offsets`."""
        found = self.at_times({TopicPartition(*one): timestamp for one in partitions}, timeout)
        return {partition: one.offset if one is not None else 0 for partition, one in found.items()}

    def at_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """See `KafkaConsumer.offsets_for_times`."""
        if not timestamps:
            return {}
        driver = self._cluster.driver
        answers = _Answers(len(timestamps))
        deadline = driver.clock.monotonic() + timeout
        questions = [
            Question(
                partition,
                timestamp,
                on_found=partial(answers.on_found, partition),
                on_failed=answers.on_failed,
                deadline=deadline,
            )
            for partition, timestamp in timestamps.items()
        ]

        def ask(now: float) -> None:
            for question in questions:
                self._lookups.ask(question)

        driver.call_soon(ask)
        driver.wait_until(answers.is_over, timeout + GRACE, answers.waiters)
        if answers.error is not None:
            raise answers.error
        if not answers.is_over():
            raise KafkaTimeoutError(f"not all offsets were answered within {timeout:g} s")
        return {partition: answers.found[partition] for partition in timestamps}

    def partition_numbers(self, topic: str, timeout: float) -> set[int] | None:
        """See `KafkaConsumer.partitions_for_topic`."""
        cluster, metadata = self._cluster, self._cluster.metadata
        metadata.want_topic(topic, cluster.driver.clock.monotonic())
        version = metadata.version

        def is_heard() -> bool:
            known = metadata.topic(topic)
            if known is not None and (known.is_usable or metadata.version > version):
                return True
            return metadata.last_error is not None and not metadata.last_error.retriable

        if metadata.topic(topic) is not None:
            metadata.request_update()
        cluster.driver.wait_until(is_heard, timeout, metadata.waiters)
        known = metadata.topic(topic)
        if known is not None and known.is_usable:
            return set(known.partitions)
        error = cluster.topic_failure(topic, timeout)
        if isinstance(error, UnknownTopicOrPartition):
            return None
        raise error
