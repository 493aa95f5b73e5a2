"""Logs of brokers in memory; they outlive broker restarts.

All brokers of a cluster run in one process, so replicas share their batches: a follower stores the leader's
own batch object (`MemoryLogStorages`). Batches are immutable; truncating a log drops them from that log only.
Access requires the cluster's lock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from operator import attrgetter

from pykafka2.broker.base.image import UNASSIGNED
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.log.log_files import Disk, MemoryLogFiles
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.storage import LogMove, LogPlaces, log_dirs_of
from pykafka2.clock import FOREVER
from pykafka2.records.batch import RecordBatch


def release_free_memory() -> None:
    """Call glibc's malloc_trim; do nothing elsewhere. Takes milliseconds."""
    if sys.platform != "linux":
        return
    import ctypes  # five milliseconds, which most processes never need

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


MIN_RELEASED_BYTES = 16 << 20
"""The size of removed logs from which memory is returned to the system."""


class MemoryLogStorage:
    """One broker's logs by topic id and partition. Outlives the broker; created by `MemoryLogStorages`.

    `places` has the directory of each log in admin responses (log.dirs); no directory exists.
    """

    def __init__(self, log_dirs: Sequence[str], all_dirs: MemoryLogStorages) -> None:
        self.places = LogPlaces(log_dirs)
        self.disk = Disk()
        self._all_dirs = all_dirs
        self._logs: dict[tuple[bytes, int], PartitionLog] = {}
        self._removed_bytes = 0
        self._is_open = False
        self._clean_epoch = -1

    @property
    def is_offline(self) -> bool:
        return False

    def check_online(self) -> None:
        """Memory does not fail."""

    @property
    def online_directories(self) -> Sequence[bytes]:
        return ()

    @property
    def failed_directories(self) -> Sequence[bytes]:
        return ()

    def is_online(self, path: str) -> bool:
        return True

    def directory_of(self, log: PartitionLog) -> bytes:
        return UNASSIGNED

    def watch(self, on_change: Callable[[], object]) -> None:
        """Memory does not fail."""

    def configure(self, config: BrokerConfig) -> None:
        """No option of the broker applies to logs in memory."""

    @property
    def clean_epoch(self) -> int:
        return self._clean_epoch

    def start(self) -> None:
        """Logs in memory outlive the broker."""
        self._is_open = True

    def begin_flush(self, on_progress: Callable[[], object]) -> None:
        """Memory needs no flush."""

    @property
    def logs_to_flush(self) -> int:
        return 0

    def stop(self, *, is_clean: bool, broker_epoch: int) -> None:
        """Logs in memory outlive the broker; but a crash counts as one until the next start, as on disk."""
        if self._is_open:
            self._is_open = False
            self._clean_epoch = broker_epoch if is_clean else -1

    def run(self, now: float) -> float:
        return FOREVER

    def open(
        self, topic: str, topic_id: bytes, partition: int, directory: bytes = UNASSIGNED
    ) -> PartitionLog:
        """Return the log, and create it if it does not exist."""
        log = self._logs.get((topic_id, partition))
        if log is None:
            log = self._logs[topic_id, partition] = PartitionLog(
                topic, partition, topic_id, MemoryLogFiles(self.disk), self._all_dirs.kept_by_another
            )
            self.places.add(topic, topic_id, partition)
        return log

    def find(self, topic_id: bytes, partition: int) -> PartitionLog | None:
        """Return the log, or None."""
        return self._logs.get((topic_id, partition))

    def move(self, log: PartitionLog, path: str) -> None:
        self.places.move(log.topic_id, log.partition, path)

    @property
    def moves(self) -> Sequence[LogMove]:
        return ()

    def abandon(self, move: LogMove) -> None:
        """No log in memory moves in steps."""

    def remove(self, log: PartitionLog) -> None:
        self._remove(log.topic_id, log.partition)

    def _remove(self, topic_id: bytes, partition: int) -> None:
        log = self._logs.pop((topic_id, partition), None)
        self.places.remove(topic_id, partition)
        if log is not None:
            self._removed_bytes += log.size_bytes

    def release_memory(self) -> None:
        """Return the memory of removed logs to the system if enough of them were removed."""
        if self._removed_bytes >= MIN_RELEASED_BYTES:
            self._removed_bytes = 0
            release_free_memory()

    def lose_unreplicated(self) -> int:
        """Truncate every log to its high watermark, as a crash loses unflushed data.

        Return the number of lost records.
        """
        return self._truncate_all(attrgetter("high_watermark"))

    def _truncate_all(self, offset_of: Callable[[PartitionLog], int]) -> int:
        lost = 0
        for log in self._logs.values():
            before = log.log_end_offset
            log.truncate_to(offset_of(log))
            lost += before - log.log_end_offset
        return lost

    def lose_unflushed(self) -> int:
        """Truncate every log; in memory, replicated records count as flushed."""
        return self._truncate_all(lambda log: max(log.high_watermark, log.recovery_point))

    def remove_unknown(self, topic_ids: set[bytes]) -> None:
        """Remove the logs of topics that were deleted while the broker was down."""
        for topic_id, partition in list(self._logs):
            if topic_id not in topic_ids:
                self._remove(topic_id, partition)


class MemoryLogStorages:
    """The log directories of all brokers of a cluster."""

    def __init__(self) -> None:
        self._all: list[MemoryLogStorage] = []

    def new(self, broker_id: int = 0, config: BrokerConfig | None = None) -> MemoryLogStorage:
        """Return the logs of another broker; its log.dirs are mere names."""
        config = BrokerConfig() if config is None else config
        made = MemoryLogStorage(log_dirs_of(config), self)
        self._all.append(made)
        return made

    def kept_by_another(self, log: PartitionLog, batch: RecordBatch) -> RecordBatch:
        """Return the identical batch that another replica stores, or `batch` if there is none."""
        data: bytes | None = None
        for directory in self._all:
            other = directory.find(log.topic_id, log.partition)
            known = None if other is None or other is log else other.batch_at(batch.base_offset)
            if known is None or known.crc != batch.crc:
                continue
            # Compare bytes, not views: views are compared element by element, a hundred times slower.
            data = bytes(batch.buffer) if data is None else data
            if data == _bytes_of(known):
                return known
        return batch


def _bytes_of(batch: RecordBatch) -> bytes:
    """Return the bytes of a batch, uncopied if it has bytes of its own, as those that a leader appends."""
    own = batch.buffer.obj
    return own if isinstance(own, bytes) and len(own) == len(batch.buffer) else bytes(batch.buffer)
