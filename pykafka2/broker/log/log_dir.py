"""The logs that a broker keeps over its restarts: its disk, which is held in memory.

All brokers of a cluster are in one process, so what one replica holds others need not hold again: a batch
that a follower copies is the leader's own (`LogDirs`).  Batches never change, and truncating a log lets go of
them in that log only.  Under the cluster's lock.
"""

from __future__ import annotations

from pykafka2.broker.log.free_memory import give_back_free_memory
from pykafka2.broker.log.partition_log import Disk, PartitionLog
from pykafka2.records.batch import RecordBatch

MIN_GIVEN_BACK_BYTES = 16 << 20
"""So much has to be removed before the system is given memory back."""


class LogDir:
    """One broker's logs by topic id and partition.  Outlives the broker; made by `LogDirs`.

    `path` is what admin tools call it (log.dirs); nothing is there.
    """

    def __init__(self, path: str, all_dirs: LogDirs) -> None:
        self.path = path
        self.disk = Disk()
        self._all_dirs = all_dirs
        self._logs: dict[tuple[bytes, int], PartitionLog] = {}
        self._removed_bytes = 0

    def open(self, topic: str, topic_id: bytes, partition: int) -> PartitionLog:
        """The log, made if there is none."""
        log = self._logs.get((topic_id, partition))
        if log is None:
            log = self._logs[topic_id, partition] = PartitionLog(
                topic, partition, topic_id, disk=self.disk, known_elsewhere=self._all_dirs.kept_by_another
            )
        return log

    def find(self, topic_id: bytes, partition: int) -> PartitionLog | None:
        """The log, if there is one."""
        return self._logs.get((topic_id, partition))

    def remove(self, log: PartitionLog) -> None:
        self._remove(log.topic_id, log.partition)

    def _remove(self, topic_id: bytes, partition: int) -> None:
        log = self._logs.pop((topic_id, partition), None)
        if log is not None:
            self._removed_bytes += log.size_bytes

    def give_back(self) -> None:
        """Give the system back what removed logs have held, if that was much and nobody refers to it."""
        if self._removed_bytes >= MIN_GIVEN_BACK_BYTES:
            self._removed_bytes = 0
            give_back_free_memory()

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
                self._remove(topic_id, partition)


class LogDirs:
    """The disks of all brokers of a cluster."""

    def __init__(self) -> None:
        self._all: list[LogDir] = []

    def new(self, path: str = "/tmp/kafka-logs") -> LogDir:  # noqa: S108 - Kafka's default, a mere name
        """A further broker's."""
        made = LogDir(path, self)
        self._all.append(made)
        return made

    def kept_by_another(self, log: PartitionLog, batch: RecordBatch) -> RecordBatch:
        """The same batch, byte for byte, as another replica keeps it; `batch` itself if none does."""
        data: bytes | None = None
        for directory in self._all:
            other = directory.find(log.topic_id, log.partition)
            known = None if other is None or other is log else other.batch_at(batch.base_offset)
            if known is None or known.crc != batch.crc:
                continue
            # As bytes: views are compared byte by byte, a hundred times slower.
            data = bytes(batch.buffer) if data is None else data
            if data == bytes(known.buffer):
                return known
        return batch
