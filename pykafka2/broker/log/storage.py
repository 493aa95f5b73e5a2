"""The storage of a broker's logs: one interface, implemented in memory and on disk, chosen once at the start.

`MemoryLogStorage` (memory_storage.py) holds logs in memory, where directories are mere names; `DiskStorage`
(disk/disk_storage.py) in data directories. As in Kafka's LogManager a new log goes to the directory with the
fewest logs, or to the one that AlterReplicaLogDirs has named before the replica existed. Access requires the
cluster's lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from pykafka2.broker.base.image import UNASSIGNED
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.log.log_files import Disk
from pykafka2.broker.log.partition_log import PartitionLog


def log_dirs_of(config: BrokerConfig) -> list[str]:
    """Return the directories in log.dirs, or else in log.dir."""
    text = config.text("log.dirs") or config.text("log.dir") or ""
    return [path.strip() for path in text.split(",")]


Ident = tuple[bytes, int]
"""Topic id and partition of a log."""


class LogPlaces:
    """The log directories of one broker. Access requires the cluster's lock."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = tuple(dict.fromkeys(paths))
        self._places: dict[Ident, str] = {}
        self._preferred: dict[tuple[str, int], str] = {}

    def of(self, topic_id: bytes, partition: int) -> str:
        """Return the directory of a log."""
        return self._places[topic_id, partition]

    def add(self, topic: str, topic_id: bytes, partition: int, paths: Sequence[str] = ()) -> None:
        """Choose a directory for a new log, among `paths` if there are any."""
        preferred = self._preferred.pop((topic, partition), None)
        if preferred is None:
            counts = Counter(self._places.values())
            preferred = min(paths or self.paths, key=lambda path: counts[path])
        self._places[topic_id, partition] = preferred

    def prefer(self, topic: str, partition: int, path: str) -> None:
        """Set the directory of a log that does not exist yet."""
        self._preferred[topic, partition] = path

    def move(self, topic_id: bytes, partition: int, path: str) -> None:
        """Move a log, which takes no time in memory."""
        self._places[topic_id, partition] = path

    def remove(self, topic_id: bytes, partition: int) -> None:
        self._places.pop((topic_id, partition), None)

    def clear(self) -> None:
        """Forget all logs."""
        self._places.clear()
        self._preferred.clear()


class LogMove(Protocol):
    """A log that moves to another directory (disk/future_logs.py)."""

    @property
    def log(self) -> PartitionLog: ...

    @property
    def path(self) -> str:
        """The directory that it moves to."""
        ...

    @property
    def directory(self) -> bytes:
        """The id of the directory that it moves to."""
        ...

    @property
    def size_bytes(self) -> int:
        """The size of the copy."""
        ...

    @property
    def lag(self) -> int:
        """The number of offsets that are missing in the copy."""
        ...

    @property
    def is_offline(self) -> bool:
        """Whether the move cannot continue, because a directory has failed."""
        ...

    def step(self, max_bytes: int) -> bool:
        """Copy up to `max_bytes`, or some batches. Return whether the copy is complete.

        Raise `KafkaStorageError`.
        """
        ...

    def is_flushed(self) -> bool:
        """Return whether what was copied is flushed; flush it in the background if that has not begun."""
        ...

    def finish(self) -> None:
        """Put the complete copy in the place of the log. Raise `KafkaStorageError`."""
        ...

    def cancel(self) -> None:
        """End the move, and delete the copy."""
        ...


class LogStorage(Protocol):
    """One broker's logs by topic id and partition. Outlives the broker's restarts.

    `places` has the directory of each log, as admin responses show it.
    """

    places: LogPlaces
    disk: Disk

    @property
    def is_offline(self) -> bool:
        """Whether all directories have failed, so that the broker has no logs any more."""
        ...

    def check_online(self) -> None:
        """Raise `ConfigurationError` with path and reason if all directories have failed."""
        ...

    @property
    def online_directories(self) -> Sequence[bytes]:
        """The ids of the directories that work; empty in memory."""
        ...

    @property
    def clean_epoch(self) -> int:
        """The broker epoch in which the logs were closed cleanly; -1 after a crash, and at first."""
        ...

    @property
    def failed_directories(self) -> Sequence[bytes]:
        """The ids of the directories that have failed."""
        ...

    def is_online(self, path: str) -> bool:
        """Return whether a directory works."""
        ...

    def directory_of(self, log: PartitionLog) -> bytes:
        """Return the id of a log's directory, UNASSIGNED in memory."""
        ...

    def watch(self, on_change: Callable[[], object]) -> None:
        """Call `on_change` from now on whenever a directory fails, or a log begins to move."""
        ...

    def configure(self, config: BrokerConfig) -> None:
        """Apply dynamic broker options."""
        ...

    def start(self) -> None:
        """Open the storage before the broker starts.

        Raise `ConfigurationError` if a directory cannot be used.
        """
        ...

    def begin_flush(self, on_progress: Callable[[], object]) -> None:
        """Flush all logs with several threads, before a clean `stop`; call `on_progress` after each."""
        ...

    @property
    def logs_to_flush(self) -> int:
        """The number of logs for which that has not ended."""
        ...

    def stop(self, *, is_clean: bool, broker_epoch: int) -> None:
        """Close the storage after the broker has stopped; `is_clean` flushes everything.

        Can be called repeatedly.
        """
        ...

    def run(self, now: float) -> float:
        """Do periodic work. Return the time of the next call, in seconds of the monotonic clock."""
        ...

    def open(
        self, topic: str, topic_id: bytes, partition: int, directory: bytes = UNASSIGNED
    ) -> PartitionLog:
        """Return the log, and create it if it does not exist.

        `directory` is the id of the directory in the metadata. Raise `KafkaStorageError` if the log can be
        a directory that has failed.
        """
        ...

    def find(self, topic_id: bytes, partition: int) -> PartitionLog | None:
        """Return the log, or None."""
        ...

    def move(self, log: PartitionLog, path: str) -> None:
        """Begin to move a log to another directory; in memory it is there at once.

        End a move to another one. Raise `KafkaStorageError`, or `InvalidTopicException` for a name that is
        too long.
        """
        ...

    @property
    def moves(self) -> Sequence[LogMove]:
        """The logs that move."""
        ...

    def abandon(self, move: LogMove) -> None:
        """End a move in a failed directory until the next start, which continues it."""
        ...

    def remove(self, log: PartitionLog) -> None:
        """Remove the log of a deleted topic, or of one that has moved to other brokers."""
        ...

    def remove_unknown(self, topic_ids: set[bytes]) -> None:
        """Remove the logs of topics that were deleted while the broker was down."""
        ...

    def release_memory(self) -> None:
        """Return the memory of removed logs to the system if enough of them were removed."""
        ...

    def lose_unreplicated(self) -> int:
        """Truncate every log to its high watermark. Return the number of lost records."""
        ...

    def lose_unflushed(self) -> int:
        """Lose what a crash of the machine loses. Return the number of lost records."""
        ...


class Storages(Protocol):
    """Creates the storage of each broker of a cluster."""

    def new(self, broker_id: int, config: BrokerConfig) -> LogStorage:
        """Return the storage of another broker."""
        ...
