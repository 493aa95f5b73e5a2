"""The logs of one broker on disk, in its data directories. Kafka's LogManager.

`start` loads every log; `stop` flushes and closes them. Before a clean stop the logs are flushed several at a
time while the broker still serves requests, so that it has little left to flush. The directory of a deleted
log is renamed at once and removed later. A log whose topic was deleted while the broker was down is renamed
to `-stray` and kept, as in Kafka. Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any
from uuid import UUID

import attrs

from pykafka2.broker.base.image import UNASSIGNED
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.log.disk.checkpoints import Checkpoints, CheckpointWriter, Intervals, intervals_of
from pykafka2.broker.log.disk.data_directory import NO_EPOCH, DataDirectory, refused
from pykafka2.broker.log.disk.directory_names import (
    LogDirectoryName,
    LogName,
    LogRenamer,
    is_deleted,
    parse_directory_name,
)
from pykafka2.broker.log.disk.future_logs import FutureLog, FutureLogs
from pykafka2.broker.log.disk.log_directory import Background, files_of
from pykafka2.broker.log.disk.log_loading import LogOpener, check_files, read_topic_id
from pykafka2.broker.log.disk.volume import Volume
from pykafka2.broker.log.log_files import Disk, DiskSettings
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.storage import Ident, LogMove, LogPlaces
from pykafka2.clock import FOREVER
from pykafka2.driver.runtime import Outcome, Runtime
from pykafka2.errors import CorruptData, KafkaStorageError
from pykafka2.network.script import Lane


class ShutdownFlush:
    """One flush of all logs; `on_progress` is called after each log."""

    def __init__(self, logs: Iterable[PartitionLog], on_progress: Callable[[], object]) -> None:
        self._waiting = deque(logs)
        self._on_progress = on_progress
        self._running = 0
        self._is_cancelled = False

    @property
    def remaining(self) -> int:
        """The number of logs that are being flushed or wait for it."""
        return len(self._waiting) + self._running

    def start(self, threads: int) -> None:
        """Flush the logs in the background, at most `threads` of them at a time."""
        for _ in range(min(threads, len(self._waiting))):
            self._flush_next()

    def cancel(self) -> None:
        """Flush no further log, and do not call `on_progress`: the storage is closed."""
        self._is_cancelled = True
        self._waiting.clear()
        self._running = 0

    def _flush_next(self) -> None:
        while self._waiting:
            log = self._waiting.popleft()
            self._running += 1
            with suppress(KafkaStorageError):  # its directory is offline now
                if not log.is_offline and files_of(log).begin_close(log, self._end_one):
                    return
            self._running -= 1

    def _end_one(self) -> None:
        """Each log that ends starts another one."""
        if not self._is_cancelled:
            self._running -= 1
            self._flush_next()
            self._on_progress()


logger = logging.getLogger(__name__)


@attrs.frozen
class _Found:
    """A log that was found in a data directory."""

    path: str
    name: LogDirectoryName
    topic_id: bytes | None
    checkpoints: Checkpoints


class DiskStorage:
    """A broker's logs in its open data directories; they stay locked while the broker is stopped.

    `new_id` is for the names of renamed directories; `background` flushes rolled segments.
    """

    def __init__(
        self,
        directories: Sequence[DataDirectory],
        new_id: Callable[[], UUID],
        background: Background,
        settings: DiskSettings,
        intervals: Intervals,
    ) -> None:
        self.places = LogPlaces(directory.path for directory in directories)
        self.disk = Disk()
        self.volumes: list[Volume] = []
        self._directories = directories
        self._files = directories[0].files
        self._settings = settings
        self._logs: dict[Ident, PartitionLog] = {}
        self._paths: dict[Ident, str] = {}
        """Paths at which the logs were found at the start."""
        self._checkpoints = CheckpointWriter(intervals, self._all_logs)
        self._renamer = LogRenamer(new_id)
        self._opener = LogOpener(self.disk, background, self._checkpoints, self._renamer, self.find)
        self._futures = FutureLogs(self._opener, self._renamer, self._checkpoints, self.places)
        self._flush: ShutdownFlush | None = None
        self._flush_threads = 2
        self._on_change: Callable[[], object] = lambda: None

    @property
    def is_offline(self) -> bool:
        return bool(self.volumes) and all(volume.failure is not None for volume in self.volumes)

    def check_online(self) -> None:
        if self.is_offline:
            paths = ", ".join(volume.path for volume in self.volumes)
            reasons = "; ".join(volume.reason for volume in self.volumes)
            raise refused(paths, reasons, "Repair the disk or the file, or choose another directory")

    @property
    def online_directories(self) -> Sequence[bytes]:
        return [volume.id for volume in self.volumes if volume.failure is None]

    @property
    def failed_directories(self) -> Sequence[bytes]:
        return [volume.id for volume in self.volumes if volume.failure is not None]

    def is_online(self, path: str) -> bool:
        return any(volume.path == path and volume.failure is None for volume in self.volumes)

    @property
    def clean_epoch(self) -> int:
        epochs = {volume.directory.clean_epoch for volume in self.volumes if volume.failure is None}
        return epochs.pop() if len(epochs) == 1 else NO_EPOCH

    def directory_of(self, log: PartitionLog) -> bytes:
        return files_of(log).volume.id

    def watch(self, on_change: Callable[[], object]) -> None:
        self._on_change = on_change

    def _changed(self) -> None:
        self._on_change()

    def configure(self, config: BrokerConfig) -> None:
        self._settings.update(settings_of(config))
        self._flush_threads = config.int("num.recovery.threads.per.data.dir")

    # ------------------------------------------------------------------ start

    def start(self) -> None:
        """Load all logs. Raise `ConfigurationError` for a directory that cannot be used.

        Everything is checked before anything is written, so that a refused directory stays as it is.
        """
        self.volumes = [Volume(directory, self._settings, self._changed) for directory in self._directories]
        self._checkpoints.start(self.volumes)
        try:
            found = [(volume, self._find_all(volume)) for volume in self.volumes]
            self.check_online()
            for volume, logs in found:
                self._load_all(volume, logs)
            self.check_online()
            for volume in self.volumes:
                self._begin(volume)
            self.check_online()
            self._futures.resume(self._logs)
        except BaseException:
            self._abandon()
            raise

    def _find_all(self, volume: Volume) -> list[_Found]:
        """Return the logs in a data directory, without a change. Raise `ConfigurationError`."""
        found: list[_Found] = []
        path = volume.path
        try:
            checkpoints = self._checkpoints.read(volume)
            for directory_name in self._files.names(volume.path):
                path = volume.directory.path_of(directory_name)
                name = parse_directory_name(directory_name)
                if is_deleted(directory_name) or name is None or not self._files.is_directory(path):
                    continue
                topic_id = self._topic_id(volume, path, name)
                if topic_id is not None:
                    check_files(volume, path)
                found.append(_Found(path, name, topic_id, checkpoints[name.log]))
        except OSError as error:
            volume.fail(error, f"reading {path}")
        return found

    def _topic_id(self, volume: Volume, path: str, name: LogDirectoryName) -> bytes | None:
        """Return the topic id of a log, or None if it has none. Raise `ConfigurationError`, `OSError`."""
        try:
            topic_id = read_topic_id(volume, path)
        except (FileNotFoundError, CorruptData) as error:
            if not name.is_copy:
                logger.warning("Skipping a directory without a topic id: %s: %s", path, error)
            return None
        if not name.is_copy:
            other = self._paths.setdefault((topic_id, name.log.partition), path)
            if other != path:
                raise refused(
                    volume.path,
                    f"its log {path} is also in {other}",
                    "Delete one of both directories: the one on the disk that has failed, if one has",
                )
        return topic_id

    def _load_all(self, volume: Volume, found: Sequence[_Found]) -> None:
        was_clean = volume.directory.was_clean
        for one in found:
            if volume.failure is not None:
                return
            if one.topic_id is None:
                if one.name.is_copy:
                    logger.warning("Removing the copy of a log without a topic id: %s", one.path)
                    self._remove_deleted(one.path)
                continue
            try:
                log = self._opener.load(
                    volume, one.path, one.name.log, one.topic_id, one.checkpoints, was_clean=was_clean
                )
            except OSError as error:
                volume.fail(error, f"loading {one.path}")
                return
            except KafkaStorageError:
                return  # the volume is offline
            if one.name.is_copy:
                self._futures.add(log)
                continue
            self._logs[one.topic_id, log.partition] = log
            self.places.move(one.topic_id, log.partition, volume.path)

    def _begin(self, volume: Volume) -> None:
        """Start to write: a crash from now on is unclean."""
        if volume.failure is not None:
            return
        try:
            volume.directory.begin()
            names = self._files.names(volume.path)
        except OSError as error:
            volume.fail(error, f"opening {volume.path}")
            return
        for name in filter(is_deleted, names):
            self._remove_deleted(volume.directory.path_of(name))

    def _remove_deleted(self, path: str) -> None:
        try:
            self._files.remove_tree(path)
        except OSError as error:  # a file or a symbolic link of this name
            logger.warning("Deleted log cannot be removed: %s: %s", path, error)

    # ------------------------------------------------------------------ stop

    def begin_flush(self, on_progress: Callable[[], object]) -> None:
        if self._files.blocks:
            self._cancel_flush()
            self._flush = ShutdownFlush(self._all_logs(), on_progress)
            self._flush.start(self._flush_threads * len(self.volumes))

    @property
    def logs_to_flush(self) -> int:
        return 0 if self._flush is None else self._flush.remaining

    def _cancel_flush(self) -> None:
        flush, self._flush = self._flush, None
        if flush is not None:
            flush.cancel()

    def stop(self, *, is_clean: bool, broker_epoch: int) -> None:
        self._cancel_flush()
        if not self.volumes:
            self._files.close()
            return
        if is_clean:
            for log in self._all_logs():
                files = files_of(log)
                if files.volume.failure is None:
                    try:
                        files.close(log)
                    except KafkaStorageError:
                        continue  # its directory is offline now, and is not marked as clean
            self._checkpoints.write_all()
            for volume in self.volumes:
                volume.remove_all()
            for volume in self.volumes:
                self._mark_clean(volume, broker_epoch)
        self._abandon()

    def _mark_clean(self, volume: Volume, broker_epoch: int) -> None:
        if volume.failure is None:
            try:
                volume.directory.mark_clean(broker_epoch)
            except OSError as error:
                volume.fail(error, f"closing {volume.path}")

    def _abandon(self) -> None:
        """Forget everything without a write."""
        self.volumes = []
        self._logs.clear()
        self._paths.clear()
        self._futures.reset()
        self._checkpoints.stop()
        self.places.clear()
        self._files.close()

    # ------------------------------------------------------------------ logs

    def run(self, now: float) -> float:
        next_checkpoint = self._checkpoints.run(now)
        removals = [volume.remove_due(now) for volume in self.volumes]
        return min([FOREVER, next_checkpoint, *(due for due in removals if due is not None)])

    def _all_logs(self) -> Iterator[PartitionLog]:
        """Iterate over all logs, and the copies of those that move."""
        yield from self._logs.values()
        yield from self._futures.copies()

    def find(self, topic_id: bytes, partition: int) -> PartitionLog | None:
        return self._logs.get((topic_id, partition))

    def open(
        self, topic: str, topic_id: bytes, partition: int, directory: bytes = UNASSIGNED
    ) -> PartitionLog:
        log = self._logs.get((topic_id, partition))
        if log is not None:
            return log
        log = self._futures.promote(topic_id, partition, directory)
        if log is not None:
            self._logs[topic_id, partition] = log
            self.places.move(topic_id, partition, files_of(log).volume.path)
            return log
        log = self._create(LogName(topic, partition), topic_id, directory)
        self._futures.resume(self._logs)
        return log

    def _create(self, name: LogName, topic_id: bytes, directory: bytes) -> PartitionLog:
        self.places.add(name.topic, topic_id, name.partition, self._choices(name, directory))
        path = self.places.of(topic_id, name.partition)
        volume = next(volume for volume in self.volumes if volume.path == path)
        log = self._opener.create(volume, volume.directory.path_of(str(name)), name, topic_id)
        self._logs[topic_id, name.partition] = log
        files_of(log).flush_new()
        return log

    def _choices(self, name: LogName, directory: bytes) -> list[str]:
        """Return the directories that a new log can be in: the one in the metadata, if that works.

        If it does not, the log can be there already, so that a new one would be a second one without records.
        """
        healthy = [volume for volume in self.volumes if volume.failure is None]
        if not healthy:
            raise KafkaStorageError(f"{name}: all data directories are offline")
        assigned = [volume.path for volume in healthy if volume.id == directory]
        if directory != UNASSIGNED and not assigned and len(healthy) < len(self.volumes):
            raise KafkaStorageError(f"{name}: its data directory is offline")
        return assigned or [volume.path for volume in healthy]

    def remove(self, log: PartitionLog) -> None:
        self._futures.cancel(log)
        if self._logs.pop((log.topic_id, log.partition), None) is not None:
            self.places.remove(log.topic_id, log.partition)
            self._renamer.delete(log)

    def remove_unknown(self, topic_ids: set[bytes]) -> None:
        for log in list(self._logs.values()):
            if log.topic_id not in topic_ids:
                del self._logs[log.topic_id, log.partition]
                self.places.remove(log.topic_id, log.partition)
                self._renamer.set_aside(log)
        self._futures.set_unknown_aside(topic_ids)

    # ------------------------------------------------------------------ moves between directories

    @property
    def moves(self) -> Sequence[FutureLog]:
        return self._futures.moves

    def move(self, log: PartitionLog, path: str) -> None:
        if self._futures.move(log, path, self.volumes):
            self._changed()

    def abandon(self, move: LogMove) -> None:
        self._futures.abandon(move.log)

    # ------------------------------------------------------------------ crashes

    def release_memory(self) -> None:
        """Memory holds no records."""

    def lose_unreplicated(self) -> int:
        lost = 0
        for log in self._logs.values():
            before = log.log_end_offset
            log.truncate_to(log.high_watermark)
            lost += before - log.log_end_offset
        return lost

    def lose_unflushed(self) -> int:
        lost = 0
        for log in self._logs.values():
            lost += log.log_end_offset - max(log.recovery_point, log.log_start_offset)
        for log in self._all_logs():
            files_of(log).lose_unflushed(log)
        return lost


def settings_of(config: BrokerConfig) -> DiskSettings:
    """Return the broker's options that files depend on, the defaults of topics."""
    return DiskSettings(
        config.int("log.index.interval.bytes"),
        config.int("log.index.size.max.bytes"),
        config.seconds("log.segment.delete.delay.ms"),
    )


class DiskStorages:
    """Creates the storage of each broker in its data directories, which the cluster has opened."""

    def __init__(
        self,
        directories: Mapping[int, Sequence[DataDirectory]],
        runtime: Runtime,
        lock: AbstractContextManager[Any],
    ) -> None:
        self._directories = directories
        self._runtime = runtime
        self._lock = lock

    def new(self, broker_id: int, config: BrokerConfig) -> DiskStorage:
        """Return the storage of a broker, and set its log.dirs."""
        directories = self._directories[broker_id]
        config.set_made({"log.dirs": ",".join(directory.path for directory in directories)})
        storage = DiskStorage(
            directories,
            lambda: UUID(bytes=self._runtime.entropy.token_bytes(16), version=4),
            self._run,
            settings_of(config),
            intervals_of(config),
        )
        storage.configure(config)
        return storage

    def _run(self, work: Callable[[], None], then: Callable[[OSError | None], None]) -> None:
        """Run blocking work on a helper thread, and its end under the cluster's lock."""

        def end(outcome: Outcome[None]) -> None:
            error = outcome.error
            if error is not None and not isinstance(error, OSError):
                raise error
            with self._lock:
                then(error)

        self._runtime.offload(work, end, Lane.DISK)
