"""The numbers of one topic, and of one assigned partition, for the metrics.

The driver's thread adds sizes of fetches, the caller's thread the rest. Any thread reads.
"""

from __future__ import annotations

from pykafka2.metrics import Meter, Metrics
from pykafka2.types import TopicPartition

NEVER = float("-inf")


class TopicMeasures:
    """Counts what is fetched and returned of one topic."""

    __slots__ = ("bytes_read", "records", "sizes")

    def __init__(self, meter: Meter) -> None:
        self.records = 0
        """Records that poll() has returned."""
        self.bytes_read = 0
        """Bytes of fetched batches that were read to their end."""
        self.sizes = meter.series("fetch-size-of-topic")


class MeasuresByTopic(dict[str, TopicMeasures]):
    """The numbers by topic; looking up a topic creates them, on any thread."""

    __slots__ = ("_metrics",)

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def __missing__(self, topic: str) -> TopicMeasures:
        meter = self._metrics.meter(topic=topic)
        measures = self.setdefault(topic, TopicMeasures(meter))  # another thread can be first
        meter.counters["records-consumed-total"] = lambda: measures.records
        meter.counters["bytes-consumed-total"] = lambda: measures.bytes_read
        return measures


class PartitionMeasures:
    """Lag and lead of one partition since its assignment."""

    __slots__ = ("due_at", "lags", "meter", "topic")

    def __init__(self, metrics: Metrics, partition: TopicPartition, topic: TopicMeasures) -> None:
        self.topic = topic
        self.meter: Meter = metrics.new_meter(
            {"topic": partition.topic, "partition": str(partition.partition)}
        )
        self.lags = self.meter.series("records-lag", "records-lead")
        self.due_at = NEVER
        """When to measure them again."""
