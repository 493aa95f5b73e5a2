"""A broker's storage on disk without a broker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from uuid import UUID

from pykafka2.broker.log.disk.checkpoints import Intervals
from pykafka2.broker.log.disk.data_directory import Identity, open_directories
from pykafka2.broker.log.disk.disk_storage import DiskStorage
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.broker.log.file_system import FileSystem
from pykafka2.broker.log.log_files import DiskSettings
from pykafka2.broker.log.partition_log import EndMarker, PartitionLog
from pykafka2.records.batch import TRANSACTIONAL_FLAG
from pykafka2.testing.simulation.files import SimFiles
from tests.broker.support.batches import batch, view

TOPIC_ID = bytes(range(16))


def append(
    log: PartitionLog, *values: bytes, key: bytes | None = None, epoch: int = 0, at: int = 1_000
) -> None:
    """Append a batch for each value."""
    for value in values:
        data = batch([value], keys=None if key is None else [key], timestamp=at)
        log.append_as_leader(view(data), epoch)


def append_in_transaction(log: PartitionLog, producer_id: int = 1) -> None:
    data = batch([b"x"], attributes=TRANSACTIONAL_FLAG, producer_id=producer_id, producer_epoch=0)
    log.append_as_leader(view(data), 0, from_client=False)


def abort(log: PartitionLog, producer_id: int = 1) -> None:
    """End the transaction of a producer."""
    log.append_marker(EndMarker(producer_id, 0, False, 1), 0, 1_000)


def held(log: PartitionLog) -> list[bytes]:
    """Return the bytes of each batch from the log start."""
    return [bytes(one.buffer) for one in log.batches(log.log_start_offset)]


def bases(log: PartitionLog) -> list[int]:
    """Return the first offset of each segment."""
    return [segment.base_offset for segment in log.segments]


class StorageOnDisk:
    """A `DiskStorage` whose background work waits for `run_background`. The end of a test stops it."""

    started: ClassVar[list[StorageOnDisk]] = []

    def __init__(
        self,
        path: Path | str,
        *,
        files: FileSystem | None = None,
        index_interval: int = 4096,
        directories: int = 1,
    ) -> None:
        self.path = Path(path)
        self.files = RealFiles() if files is None else files
        self.waiting: list[tuple[Callable[[], None], Callable[[OSError | None], None]]] = []
        self.runs_at_once = True
        random, ids = Random(1), count(1)
        paths = [f"{path}/{number}" for number in range(directories)] if directories > 1 else [str(path)]
        self.storage = DiskStorage(
            open_directories(paths, self.files, Identity("c", 0), lambda: UUID(int=next(ids))),
            lambda: UUID(int=random.getrandbits(128)),
            self.background,
            DiskSettings(index_interval_bytes=index_interval, delete_delay=60.0),
            Intervals(),
        )
        self.start()

    def start(self) -> None:
        self.storage.start()
        self.started.append(self)

    def stop(self, *, is_clean: bool = True) -> None:
        if self in self.started:
            self.started.remove(self)
        self.storage.stop(is_clean=is_clean, broker_epoch=1)

    def background(self, work: Callable[[], None], then: Callable[[OSError | None], None]) -> None:
        self.waiting.append((work, then))
        if self.runs_at_once:
            self.run_background()

    def run_background(self) -> None:
        waiting, self.waiting = self.waiting, []
        for work, then in waiting:
            try:
                work()
            except OSError as error:
                then(error)
            else:
                then(None)

    def run_for_a_minute(self) -> None:
        """Write the checkpoints and remove the files that are due."""
        for now in (0.0, 61.0):
            self.storage.run(now)

    def log(self, topic: str = "t", partition: int = 0, topic_id: bytes = TOPIC_ID) -> PartitionLog:
        return self.storage.open(topic, topic_id, partition)

    @classmethod
    def with_log(cls, path: Path | str, **options: Any) -> tuple[StorageOnDisk, PartitionLog]:
        """Return a new storage and its log."""
        disk = cls(path, **options)
        return disk, disk.log()

    @classmethod
    def simulated(cls, **options: Any) -> tuple[SimFiles, StorageOnDisk, PartitionLog]:
        """Return a storage on files of the simulation, below /data, and its log."""
        files = SimFiles(1)
        return files, *cls.with_log("/data", files=files, **options)

    def restart(self, *, is_clean: bool = True) -> PartitionLog:
        """Stop and start the storage, and return the log again."""
        self.stop(is_clean=is_clean)
        self.start()
        return self.log()

    def move(self, log: PartitionLog, path: str, step: int = 1000) -> None:
        """Move a log to another directory."""
        self.storage.move(log, path)
        [move] = self.storage.moves
        while not move.step(step):
            pass
        move.is_flushed()
        self.run_background()
        assert move.is_flushed()
        move.finish()

    def names(self, topic: str = "t-0") -> list[str]:
        return sorted(one.name for one in (self.path / topic).iterdir())
