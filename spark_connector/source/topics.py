"""Which partitions a source reads, and where they begin and end: the source's questions to the brokers.

Driver side, one thread.  A question that fails for a passing reason is asked again (fetchOffset.numRetries).
Neighbours: connections.py has the clients; positions.py and micro_batches.py ask.
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
    """Check the clients' options, and that a broker responds to them.

    Raises:
        UnknownOption, ConfigurationError: the clients refuse an option.
        NoBrokersAvailable: no broker responds within kafka.default.api.timeout.ms.
    """
    connections.new_consumer(options.kafka).close()  # it takes more options than an admin client
    with connections.new_admin(options.kafka) as admin:
        admin.describe_cluster()


@attrs.define
class Topics:
    """What the options select, as the cluster has it now.  Holds no client of its own, and closes none."""

    _options: SourceOptions
    _consumer: KafkaConsumer
    _admin: KafkaAdminClient
    _sleep: Callable[[float], object] = sleep

    def partitions(self) -> set[TopicPartition]:
        """All that is selected.

        Raises:
            UnknownTopicOrPartition: a topic, or an assigned partition, that the options name is not there.
        """
        found, missing = self.partitions_there()
        if missing:
            raise UnknownTopicOrPartition("; ".join(missing))
        return found

    def partitions_there(self) -> tuple[set[TopicPartition], list[str]]:
        """What of the selection is there, and for what is not, a sentence each."""
        return self._asked(self._find)

    def beginnings(self, partitions: Collection[TopicPartition]) -> Offsets:
        if not partitions:
            return {}
        return self._asked(lambda: self._consumer.beginning_offsets(list(partitions)))

    def ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        """With read_committed, where the first open transaction begins."""
        if not partitions:
            return {}
        return self._asked(lambda: self._consumer.end_offsets(list(partitions)))

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of each partition's first record of its time or later."""
        found = self._asked(lambda: self._consumer.offsets_for_times(dict(times)))
        return {partition: None if one is None else one.offset for partition, one in found.items()}

    def pauses(self) -> Iterator[None]:
        """As many as questions may be asked again, one after the other."""
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
            # One that is deleted in between is not missed.
            return self._partitions_of(filter(matches, self._admin.list_topics()), "")[0], []
        wanted = set(options.assign or ())
        there, missing = self._partitions_of(sorted({one.topic for one in wanted}), "assign")
        for one in sorted(wanted - there):
            if any(other.topic == one.topic for other in there):
                missing.append(f"assign: topic {one.topic!r} has no partition {one.partition}")
        return wanted & there, missing

    def _partitions_of(self, names: Iterable[str], option: str) -> tuple[set[TopicPartition], list[str]]:
        described = self._admin.describe_topics(names, raise_errors=False)
        missing: list[str] = []
        for name, error in described.errors.items():
            if not isinstance(error, UnknownTopicOrPartition):
                raise error
            missing.append(f"{option}: there is no topic {name!r}")
        found = {
            TopicPartition(name, one.partition)
            for name in described
            if name not in described.errors
            for one in described[name].partitions
        }
        return found, missing

    def _asked(self, ask: Callable[[], T]) -> T:
        left = self._options.fetch_offset_retries
        while True:
            try:
                return ask()
            except (KafkaTimeoutError, NoBrokersAvailable):
                raise  # after the client has tried for all the time that it had
            except KafkaError as error:
                if not left or not getattr(error, "retriable", False):
                    raise
                left -= 1
                logger.warning("a question for offsets failed and is asked again: %s", error)
                self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
