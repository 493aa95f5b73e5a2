"""Which partitions a source reads, and where they begin and end: the source's questions to the brokers.

Driver side, one thread.  A question that fails for a passing reason is asked again (fetchOffset.numRetries).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import attrs

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.errors import KafkaError, KafkaTimeoutError, NoBrokersAvailable, UnknownTopicOrPartition
from spark_connector.clock import sleep
from spark_connector.offsets import Offsets
from spark_connector.options.source_options import SourceOptions

logger = logging.getLogger(__name__)

T = TypeVar("T")


@attrs.define
class Topics:
    """What the options select, as the cluster has it now."""

    _options: SourceOptions
    _consumer: KafkaConsumer
    _sleep: Callable[[float], object] = sleep

    def partitions(self) -> set[TopicPartition]:
        """All that is selected and there.

        Raises:
            UnknownTopicOrPartition: a topic, or an assigned partition, that the options name is not there.
        """
        return self._asked(self._find_partitions)

    def beginnings(self, partitions: Collection[TopicPartition]) -> Offsets:
        return self._asked(lambda: self._consumer.beginning_offsets(list(partitions)))

    def ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        """With read_committed, where the first open transaction begins."""
        return self._asked(lambda: self._consumer.end_offsets(list(partitions)))

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of each partition's first record of its time or later."""
        found = self._asked(lambda: self._consumer.offsets_for_times(dict(times)))
        return {partition: None if one is None else one.offset for partition, one in found.items()}

    # ------------------------------------------------------------------ inside

    def _find_partitions(self) -> set[TopicPartition]:
        options = self._options
        if options.assign is not None:
            return self._assigned(options.assign)
        if options.subscribe is not None:
            return {one for topic in options.subscribe for one in self._partitions_of(topic, "subscribe")}
        matches = re.compile(options.subscribe_pattern or "").fullmatch
        found: set[TopicPartition] = set()
        for topic in sorted(filter(matches, self._consumer.topics())):
            try:
                found |= self._partitions_of(topic, "subscribePattern")
            except UnknownTopicOrPartition:
                continue  # deleted in between
        return found

    def _assigned(self, wanted: Collection[TopicPartition]) -> set[TopicPartition]:
        there = {
            one for topic in {one.topic for one in wanted} for one in self._partitions_of(topic, "assign")
        }
        for missing in sorted(set(wanted) - there):
            count = sum(one.topic == missing.topic for one in there)
            raise UnknownTopicOrPartition(
                f"assign: topic {missing.topic!r} has {count} partitions and no partition {missing.partition}"
            )
        return set(wanted)

    def _partitions_of(self, topic: str, option: str) -> set[TopicPartition]:
        numbers = self._consumer.partitions_for_topic(topic)
        if numbers is None:
            raise UnknownTopicOrPartition(f"{option}: there is no topic {topic!r}")
        return {TopicPartition(topic, number) for number in numbers}

    def _asked(self, ask: Callable[[], T]) -> T:
        for left in range(self._options.fetch_offset_retries, -1, -1):
            try:
                return ask()
            except (KafkaTimeoutError, NoBrokersAvailable):
                raise  # after the client has tried all the time that it had
            except KafkaError as error:
                if not left or not getattr(error, "retriable", False):
                    raise
                if isinstance(error, UnknownTopicOrPartition):
                    raise
                logger.warning("offsets could not be had and are asked for again: %s", error)
                self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
        raise AssertionError("unreachable")
