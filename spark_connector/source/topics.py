"""Looks up the partitions that a source reads, and their offsets.

Driver side, one thread.  Lookups are retried after retriable errors (fetchOffset.numRetries).
Neighbors: connections.py has the clients; positions.py and micro_batches.py call this module.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

import attrs

from pykafka2 import KafkaAdminClient, KafkaConsumer, TopicPartition
from pykafka2.errors import KafkaError, KafkaTimeoutError, NoBrokersAvailable, UnknownTopicOrPartition
from spark_connector import connections
from spark_connector.clock import sleep
from spark_connector.offsets import Offsets
from spark_connector.options.source_options import SourceOptions

logger = logging.getLogger(__name__)

T = TypeVar("T")


def check_brokers(options: SourceOptions) -> None:
    """Check the clients' options, and that a broker responds.

    Raises:
        UnknownOption, ConfigurationError: the clients refuse an option.
        NoBrokersAvailable: no broker responds within kafka.default.api.timeout.ms.
    """
    connections.new_consumer(options.kafka).close()  # it takes more options than an admin client
    with connections.new_admin(options.kafka) as admin:
        admin.describe_cluster()


@attrs.define
class Topics:
    """The topics and partitions that the options select.  Uses shared clients, and closes none."""

    _options: SourceOptions
    _consumer: KafkaConsumer
    _admin: KafkaAdminClient
    _sleep: Callable[[float], object] = sleep
    ids: dict[str, bytes] = attrs.field(factory=dict, init=False)
    """Topic ids of the last lookup; without those that brokers before Kafka 2.8 do not have."""

    def partitions(self) -> set[TopicPartition]:
        """Return all selected partitions.

        Raises:
            UnknownTopicOrPartition: a topic or an assigned partition of the options does not exist.
        """
        found, missing = self.partitions_there()
        if missing:
            raise UnknownTopicOrPartition(
                f"{'; '.join(missing)}. Correct the option, or create what is missing."
            )
        return found

    def partitions_there(self) -> tuple[set[TopicPartition], list[str]]:
        """Return the selected partitions that exist, and a message for each topic or partition that does
        not.
        """
        return self._retried(self._find)

    def beginnings(self, partitions: Collection[TopicPartition]) -> Offsets:
        if not partitions:
            return {}
        return self._retried(lambda: self._consumer.beginning_offsets(list(partitions)))

    def ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return end offsets; with read_committed, the last stable offsets."""
        if not partitions:
            return {}
        return self._retried(lambda: self._consumer.end_offsets(list(partitions)))

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of each partition's first record at its timestamp or later."""
        found = self._retried(lambda: self._consumer.offsets_for_times(dict(times)))
        return {
            partition: None if found_offset is None else found_offset.offset
            for partition, found_offset in found.items()
        }

    def pauses(self) -> Iterator[None]:
        """Pause before each retry that the options allow."""
        for _ in range(self._options.fetch_offset_retries):
            self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
            yield

    # ------------------------------------------------------------------ inside

    def _find(self) -> tuple[set[TopicPartition], list[str]]:
        options = self._options
        if options.subscribe is not None:
            return self._partitions_of(options.subscribe, "subscribe")
        if options.subscribe_pattern is not None:
            matches = re.compile(options.subscribe_pattern).fullmatch
            # A topic that is deleted in between is skipped.
            return self._partitions_of(filter(matches, self._admin.list_topics()), "")[0], []
        wanted = set(options.assign or ())
        there, missing = self._partitions_of(sorted({partition.topic for partition in wanted}), "assign")
        for partition in sorted(wanted - there):
            if any(other.topic == partition.topic for other in there):
                missing.append(f"assign: topic {partition.topic!r} has no partition {partition.partition}")
        return wanted & there, missing

    def _partitions_of(self, names: Iterable[str], option: str) -> tuple[set[TopicPartition], list[str]]:
        described = self._admin.describe_topics(names, raise_errors=False)
        others = {
            name: error
            for name, error in described.errors.items()
            if not isinstance(error, UnknownTopicOrPartition)
        }
        for error in others.values():
            same = ", ".join(repr(name) for name, other in others.items() if type(other) is type(error))
            raise type(error)(f"{option or 'subscribePattern'}: topic {same}: {error}") from error
        missing = [f"{option}: topic {name!r} does not exist" for name in described.errors]
        there = {name: described[name] for name in described if name not in described.errors}
        self.ids = {name: topic.topic_id for name, topic in there.items() if any(topic.topic_id)}
        found = {
            TopicPartition(name, partition.partition)
            for name, topic in there.items()
            for partition in topic.partitions
        }
        return found, missing

    def _retried(self, look_up: Callable[[], T]) -> T:
        left = self._options.fetch_offset_retries
        while True:
            try:
                return look_up()
            except (KafkaTimeoutError, NoBrokersAvailable):
                raise  # the client has already retried until its timeout
            except KafkaError as error:
                if not left or not getattr(error, "retriable", False):
                    raise
                left -= 1
                logger.warning("Offset lookup failed, retrying: %s", error)
                self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
