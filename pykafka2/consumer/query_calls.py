"""The calls of `KafkaConsumer` that only ask: about offsets, about topics, about the consumer itself.

Callers' threads; what is asked of brokers goes through offset_queries.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pykafka2.cluster.arguments import checked_partition, checked_partitions, checked_topic
from pykafka2.consumer.call_arguments import checked_time, checked_timeout, time_in_doubt
from pykafka2.consumer.ownership import Owned, owned
from pykafka2.consumer.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.types import OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.consumer.fetcher import Fetcher
    from pykafka2.consumer.inspection import Inspection
    from pykafka2.consumer.offset_queries import OffsetQueries
    from pykafka2.consumer.options import ConsumerOptions


logger = logging.getLogger(__name__)


class QueryCalls(Owned):
    """Mixed into the consumer."""

    _options: ConsumerOptions
    _cluster: ClusterClient
    _fetcher: Fetcher
    _queries: OffsetQueries
    _inspection: Inspection

    # ------------------------------------------------------------------ offsets

    @owned
    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition, assigned or not.

        Raises:
            KafkaTimeoutError, NoBrokersAvailable: not all were answered within `timeout_ms`
                (default_api_timeout_ms by default, not request_timeout_ms).  If a topic or partition
                does not exist, the KafkaTimeoutError is an UnknownTopicOrPartition, too.
        """
        return self._queries.ends(
            checked_partitions(partitions), EARLIEST_TIMESTAMP, self._seconds(timeout_ms)
        )

    @owned
    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record that may be read: the high watermark, or with read_committed the
        last stable offset.  Raises as `beginning_offsets`."""
        return self._queries.ends(checked_partitions(partitions), LATEST_TIMESTAMP, self._seconds(timeout_ms))

    @owned
    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after a time (milliseconds since the epoch), or None.

        Of a time that must be seconds or microseconds a warning is logged.  Raises as `beginning_offsets`.
        """
        if not isinstance(timestamps, Mapping):
            raise TypeError(f"times are given as {{TopicPartition: milliseconds}}, not {timestamps!r}")
        given = {checked_partition(partition): time_ms for partition, time_ms in timestamps.items()}
        wanted = {partition: checked_time(partition, time_ms) for partition, time_ms in given.items()}
        odd = time_in_doubt(wanted.values())
        if odd is not None:
            logger.warning(
                "offsets_for_times() takes milliseconds since the epoch, and %d of them are the year %d",
                odd,
                1970 + odd // 31_556_952_000,
            )
        return self._queries.at_times(wanted, self._seconds(timeout_ms))

    def highwater(self, partition: TopicPartition) -> int | None:
        """The end of the partition as of its last fetch, without asking the broker; None before the first."""
        return self._fetcher.table.high_watermarks.get(partition)

    # ------------------------------------------------------------------ the cluster

    @owned
    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The topic's partition numbers; None if there is no such topic.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError: no answer within default_api_timeout_ms.
            TopicAuthorizationFailed, InvalidTopicException: the brokers refuse.
        """
        return self._queries.partition_numbers(checked_topic(topic), self._options.default_api_timeout)

    @owned
    def topics(self) -> set[str]:
        """The names of all topics that may be seen; Kafka's own ones only with exclude_internal_topics=False.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError: no answer within default_api_timeout_ms.
        """
        answer = self._cluster.request(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        is_hidden = self._options.exclude_internal_topics
        return {
            topic.name
            for topic in answer.topics
            if topic.name is not None and not topic.error_code and not (topic.is_internal and is_hidden)
        }

    @owned
    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Connect to the cluster now, not with the first call that needs them; again only with `refresh`.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError, TlsError: not within `timeout_ms` (default_api_timeout_ms).
        """
        if not refresh and self._cluster.metadata.version:
            return
        self._cluster.bootstrap(self._seconds(timeout_ms))

    def bootstrap_connected(self) -> bool:
        """True while any broker is connected."""
        return self._cluster.nodes.has_connection

    def metrics(self, raw: bool = False) -> dict[str, float]:
        """Totals since the start and current values, as plain numbers; any thread.  `raw` changes nothing."""
        return self._inspection.metrics()

    def health(self) -> dict[str, Any]:
        """What the consumer is doing, as data for a monitor; any thread.

        `state` (open, failed, closed), `connected`, `group` (None without one), `partitions` by name with
        position, end, trouble and for how long each stands still, ages in seconds of the metadata.
        """
        return self._inspection.health()

    def explain(self) -> str:
        """What the consumer is waiting for, in words; any thread."""
        return self._inspection.explain()

    def _seconds(self, timeout_ms: float | None) -> float:
        return self._options.default_api_timeout if timeout_ms is None else checked_timeout(timeout_ms)
