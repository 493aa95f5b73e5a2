"""The logs that a broker keeps over its restarts: its disk, which is held in memory."""

from __future__ import annotations

from pykafka2.broker.log.partition_log import Disk, PartitionLog


class LogDir:
    """One broker's logs by topic id and partition.  Outlives the broker; under the cluster's lock.

    `path` is what admin tools call it (log.dirs); nothing is there.
    """

    def __init__(self, path: str = "/tmp/kafka-logs") -> None:  # noqa: S108 - Kafka's default, a mere name
        self.path = path
        self.disk = Disk()
        self._logs: dict[tuple[bytes, int], PartitionLog] = {}

    def open(self, topic: str, topic_id: bytes, partition: int) -> PartitionLog:
        """The log, made if there is none."""
        log = self._logs.get((topic_id, partition))
        if log is None:
            log = self._logs[topic_id, partition] = PartitionLog(topic, partition, topic_id, disk=self.disk)
        return log

    def remove(self, log: PartitionLog) -> None:
        self._logs.pop((log.topic_id, log.partition), None)

    def lose_unreplicated(self) -> int:
        """What a crash does to what was not flushed: every log ends at its high watermark; records lost."""
        lost = 0
        for log in self._logs.values():
            before = log.log_end_offset
            log.truncate_to(log.high_watermark)
            lost += before - log.log_end_offset
        return lost

    def remove_unknown(self, topic_ids: set[bytes]) -> None:
        """Topics that were deleted while the broker was down."""
        for topic_id, partition in list(self._logs):
            if topic_id not in topic_ids:
                del self._logs[topic_id, partition]
