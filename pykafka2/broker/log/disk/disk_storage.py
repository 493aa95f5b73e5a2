"""The logs of one broker on disk, in its data directories. Kafka's LogManager.

`start` loads every log; `stop` flushes and closes them. The directory of a deleted log is renamed at once
and removed later. A log whose topic was deleted while the broker was down is renamed to `-stray` and kept, as
in Kafka. Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Final
from uuid import UUID

import attrs

from pykafka2.broker.base.directories import UNASSIGNED
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.log.disk.checkpoints import CheckpointFiles
from pykafka2.broker.log.disk.data_directory import DataDirectory, refused
from pykafka2.broker.log.disk.future_log import FutureLog, files_of
from pykafka2.broker.log.disk.log_directory import PARTITION_METADATA, Background, DiskLogFiles
from pykafka2.broker.log.disk.log_loading import Checkpoints, LogLoader
from pykafka2.broker.log.disk.text_files import decode_topic_id, encode_topic_id
from pykafka2.broker.log.disk.volume import DiskSettings, Volume
from pykafka2.broker.log.log_files import Disk
from pykafka2.broker.log.log_places import LogPlaces
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.storage import LogMove
from pykafka2.clock import FOREVER
from pykafka2.driver.runtime import Outcome, Runtime
from pykafka2.errors import CorruptData, InvalidTopicException, KafkaStorageError
from pykafka2.network.script import Lane

logger = logging.getLogger(__name__)

METADATA_LOG: Final = "__cluster_metadata-0"
DELETE: Final = "-delete"
STRAY: Final = "-stray"
FUTURE: Final = "-future"
MAX_NAME: Final = 255
LOG_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]+)")
DELETED_NAME: Final = re.compile(r".+-[0-9]+\.[0-9a-f]{32}-delete")
FUTURE_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]+)\.[0-9a-f]{32}-future")
UNIQUE_BYTES: Final = 33
"""The length of ".UUID" in the name of a renamed directory."""

Ident = tuple[bytes, int]
"""Topic id and partition of a log."""


@attrs.define
class Intervals:
    """Seconds between two writes of a checkpoint."""

    recovery_point: float = 60.0
    log_start: float = 60.0
    high_watermark: float = 5.0


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
        self._new_id = new_id
        self._background = background
        self._settings = settings
        self._intervals = intervals
        self._checkpoints: dict[str, CheckpointFiles] = {}
        self._logs: dict[Ident, PartitionLog] = {}
        self._moves: dict[Ident, FutureLog] = {}
        self._unmatched: dict[Ident, PartitionLog] = {}  # copies of moving logs that were not found
        self._due: dict[str, float] = {}
        self._to_flush: deque[PartitionLog] = deque()
        self._flushing = 0  # the number of logs that are flushed now
        self._flush_threads = 2
        self._on_change: Callable[[], object] = lambda: None

    @property
    def is_offline(self) -> bool:
        return bool(self.volumes) and all(volume.failure is not None for volume in self.volumes)

    @property
    def online_directories(self) -> Sequence[bytes]:
        return [_id_of(volume) for volume in self.volumes if volume.failure is None]

    @property
    def failed_directories(self) -> Sequence[bytes]:
        return [_id_of(volume) for volume in self.volumes if volume.failure is not None]

    def is_online(self, path: str) -> bool:
        return any(volume.path == path and volume.failure is None for volume in self.volumes)

    def directory_of(self, log: PartitionLog) -> bytes:
        return _id_of(files_of(log).volume)

    def watch(self, on_change: Callable[[], object]) -> None:
        self._on_change = on_change

    def _changed(self) -> None:
        self._on_change()

    def configure(self, config: BrokerConfig) -> None:
        self._settings.update(settings_of(config))
        self._flush_threads = config.int("num.recovery.threads.per.data.dir")

    # ------------------------------------------------------------------ start and stop

    def start(self) -> None:
        self.volumes = [Volume(directory, self._settings, self._changed) for directory in self._directories]
        self._due.clear()
        try:
            for volume in self.volumes:
                self._load_all(volume)
            self._match_futures()
        except BaseException:
            self._abandon()
            raise

    def _load_all(self, volume: Volume) -> None:
        checkpoints = self._checkpoints[volume.path] = CheckpointFiles(volume)
        try:
            was_clean = volume.directory.begin()
            known = checkpoints.read()
            names = self._files.names(volume.path)
        except OSError as error:
            volume.fail(error, f"opening {volume.path}")
            return
        for name in names:
            path = volume.directory.path_of(name)
            if DELETED_NAME.fullmatch(name):
                self._remove_deleted(path)
                continue
            future = FUTURE_NAME.fullmatch(name)
            match = future or LOG_NAME.fullmatch(name)
            if match is None or name == METADATA_LOG or not self._files.is_directory(path):
                continue
            topic, partition = match[1], int(match[2])
            try:
                checkpoint = known[topic, partition]
                self._load(
                    volume, path, topic, partition, checkpoint, was_clean, is_future=future is not None
                )
            except OSError as error:
                volume.fail(error, f"loading {path}")
                return
            except KafkaStorageError:
                return  # the volume is offline

    def _remove_deleted(self, path: str) -> None:
        try:
            self._files.remove_tree(path)
        except OSError as error:  # a file or a symbolic link of this name
            logger.warning("Deleted log cannot be removed: %s: %s", path, error)

    def _load(
        self,
        volume: Volume,
        path: str,
        topic: str,
        partition: int,
        checkpoints: Checkpoints,
        was_clean: bool,
        *,
        is_future: bool = False,
    ) -> PartitionLog | None:
        where = f"{path}/{PARTITION_METADATA}"
        try:
            topic_id = decode_topic_id(self._files.read(where).decode("utf-8", "replace"), where).bytes
        except (FileNotFoundError, CorruptData) as error:
            if is_future:
                logger.warning("Removing the copy of a log without a topic id: %s: %s", path, error)
                self._remove_deleted(path)
            else:
                logger.warning("Skipping a directory without a topic id: %s: %s", path, error)
            return None
        loader = LogLoader(volume, path, checkpoints, was_clean)
        state = loader.load()
        files = DiskLogFiles(
            volume,
            path,
            self.disk,
            state,
            loader.snapshots,
            self._background,
            self._write_clean_offsets,
            partial(self._lower_recovery_point, topic_id, partition),
        )
        log = PartitionLog(topic, partition, topic_id, files)
        if not was_clean:
            files.epochs_changed(log.epochs.entries)
        if is_future:
            self._add_future(log)
            return log
        before = self._logs.get((topic_id, partition))
        if before is not None:
            raise refused(
                volume.path,
                f"its log {path} is also in {files_of(before).directory}",
                "Delete one of both directories: the one on the disk that has failed, if one has",
            )
        self._logs[topic_id, partition] = log
        self.places.move(topic_id, partition, volume.path)
        return log

    def begin_flush(self, on_done: Callable[[], object]) -> None:
        if not self._files.blocks:
            return
        to_flush = self._to_flush = deque(self._all_logs())
        self._flushing = count = min(self._flush_threads * len(self.volumes), len(to_flush))
        for _ in range(count):
            self._flush_next(to_flush, on_done)

    @property
    def is_flushing(self) -> bool:
        return self._flushing > 0

    def _flush_next(self, to_flush: deque[PartitionLog], on_done: Callable[[], object]) -> None:
        """Flushes the next log; each one that ends starts another one."""
        if to_flush is not self._to_flush:
            return  # the storage was closed meanwhile
        while to_flush:
            log = to_flush.popleft()
            with suppress(KafkaStorageError):  # its directory is offline now
                if not log.is_offline and files_of(log).begin_close(
                    log, lambda: self._flush_next(to_flush, on_done)
                ):
                    return
        self._flushing -= 1
        if not self._flushing:
            on_done()

    def stop(self, *, is_clean: bool, broker_epoch: int) -> None:
        self._to_flush = deque()
        self._flushing = 0
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
            self._write_checkpoints()
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
        """Forgets everything without a write."""
        self.volumes = []
        self._logs.clear()
        self._moves.clear()
        self._unmatched.clear()
        self._checkpoints.clear()
        self.places = LogPlaces(directory.path for directory in self._directories)
        self._files.close()

    # ------------------------------------------------------------------ periodic work

    def run(self, now: float) -> float:
        intervals = self._intervals
        for name, every in (
            ("recovery_point", intervals.recovery_point),
            ("log_start", intervals.log_start),
            ("high_watermark", intervals.high_watermark),
        ):
            if now < self._due.setdefault(name, now + every):
                continue
            self._due[name] = now + every
            for volume in self.volumes:
                self._checkpoint(volume, name, self._logs_in(volume))
        removals = [volume.remove_due(now) for volume in self.volumes]
        return min([FOREVER, *self._due.values(), *(due for due in removals if due is not None)])

    def _checkpoint(
        self, volume: Volume, name: str, logs: list[PartitionLog], *, flushes: bool = False
    ) -> None:
        checkpoints = self._checkpoints[volume.path]
        try:
            if name == "recovery_point":
                checkpoints.write_recovery_points(logs, flushes=flushes)
                checkpoints.write_clean_offsets(logs)
            elif name == "log_start":
                checkpoints.write_log_starts(logs)
            else:
                checkpoints.write_high_watermarks(logs, flushes=flushes)
        except KafkaStorageError:
            pass  # the volume has logged it, and is offline

    def _write_clean_offsets(self, volume: Volume) -> None:
        self._checkpoints[volume.path].write_clean_offsets(self._logs_in(volume))

    def _all_logs(self) -> Iterator[PartitionLog]:
        """Iterates over all logs, and the copies of those that move."""
        yield from self._logs.values()
        yield from (move.copy for move in self._moves.values())
        yield from self._unmatched.values()

    def _logs_in(self, volume: Volume) -> list[PartitionLog]:
        return [log for log in self._all_logs() if files_of(log).volume is volume]

    def _lower_recovery_point(self, topic_id: bytes, partition: int) -> None:
        log = self._logs.get((topic_id, partition))
        if log is not None:
            self._checkpoints[files_of(log).volume.path].lower_recovery_point(log)

    def _write_checkpoints(self) -> None:
        for volume in self.volumes:
            logs = self._logs_in(volume)
            for name in ("recovery_point", "log_start", "high_watermark"):
                self._checkpoint(volume, name, logs, flushes=True)

    # ------------------------------------------------------------------ logs

    def open(
        self, topic: str, topic_id: bytes, partition: int, directory: bytes = UNASSIGNED
    ) -> PartitionLog:
        log = self._logs.get((topic_id, partition)) or self._promote(topic_id, partition, directory)
        if log is not None:
            return log
        self.places.add(topic, topic_id, partition, self._choices(topic, partition, directory))
        path = self.places.of(topic_id, partition)
        volume = next(one for one in self.volumes if one.path == path)
        created = self._create(volume, topic, topic_id, partition)
        self._match_futures()
        return created

    def _choices(self, topic: str, partition: int, directory: bytes) -> list[str]:
        """Returns the directories that a new log can be in: the one in the metadata, if that works.

        If it does not, the log can be there already, so that a new one would be a second one without records.
        """
        healthy = [volume for volume in self.volumes if volume.failure is None]
        if not healthy:
            raise KafkaStorageError(f"{topic}-{partition}: all data directories are offline")
        assigned = [volume.path for volume in healthy if _id_of(volume) == directory]
        if directory != UNASSIGNED and not assigned and len(healthy) < len(self.volumes):
            raise KafkaStorageError(f"{topic}-{partition}: its data directory is offline")
        return assigned or [volume.path for volume in healthy]

    def _create(self, volume: Volume, topic: str, topic_id: bytes, partition: int) -> PartitionLog:
        directory = volume.directory.path_of(f"{topic}-{partition}")
        try:
            if self._files.exists(directory):
                self._move_aside(volume, directory, STRAY)
            self._checkpoints[volume.path].forget(topic, partition)
            self._write_topic_id(directory, topic_id)
            created = self._load(volume, directory, topic, partition, Checkpoints(), True)
            if created is not None:
                files_of(created).flush_new()
        except OSError as error:
            raise volume.fail(error, f"creating {directory}") from error
        if created is None:
            raise KafkaStorageError(f"{directory} has lost its topic id")
        return created

    def _write_topic_id(self, directory: str, topic_id: bytes) -> None:
        """Makes the directory of a log. Raises `OSError`."""
        self._files.make_directory(directory)
        text = encode_topic_id(UUID(bytes=topic_id))
        # Flushed in the background: a topic of many partitions would wait for a flush of each.
        self._files.replace(f"{directory}/{PARTITION_METADATA}", text.encode(), flushes=False)

    def find(self, topic_id: bytes, partition: int) -> PartitionLog | None:
        return self._logs.get((topic_id, partition))

    def remove(self, log: PartitionLog) -> None:
        ident = log.topic_id, log.partition
        if ident in self._moves:
            self._moves[ident].cancel()
        if self._logs.pop(ident, None) is not None:
            self._rename(log, DELETE)

    def remove_unknown(self, topic_ids: set[bytes]) -> None:
        for log in list(self._logs.values()):
            if log.topic_id not in topic_ids:
                del self._logs[log.topic_id, log.partition]
                self._rename(log, STRAY)
        for ident, move in [*self._moves.items()]:
            if ident[0] not in topic_ids:
                del self._moves[ident]
                self._rename_copy(move.copy, STRAY)
        for ident, copy in [*self._unmatched.items()]:
            if ident[0] not in topic_ids:
                del self._unmatched[ident]
                self._rename_copy(copy, STRAY)

    def _rename(self, log: PartitionLog, ending: str) -> None:
        """Renames a log's directory; a deleted one is removed later."""
        self.places.remove(log.topic_id, log.partition)
        self._rename_copy(log, ending)

    def _rename_copy(self, log: PartitionLog, ending: str) -> None:
        files = files_of(log)
        directory = files.volume.directory.path_of(self._new_name(f"{log.topic}-{log.partition}", ending))
        try:
            files.rename(log, directory)
        except KafkaStorageError:
            return  # the volume has logged it, and is offline
        if ending == DELETE:
            files.volume.remove_later(directory)
        else:
            logger.warning("Renamed the log of a topic that does not exist any more to %s", directory)

    def _move_aside(self, volume: Volume, directory: str, ending: str) -> None:
        name = self._new_name(directory.rpartition("/")[2], ending)
        self._files.rename(directory, volume.directory.path_of(name))
        logger.warning("Renamed %s, which belongs to another topic, to %s", directory, name)

    def _new_name(self, name: str, ending: str) -> str:
        """Returns Kafka's name of a renamed directory, orders-0.UUID-delete, of at most 255 bytes.

        A long topic name is cut.
        """
        topic, _, partition = name.rpartition("-")
        ending = f"-{partition}.{self._new_id().hex}{ending}"
        return topic[: MAX_NAME - len(ending)] + ending

    # ------------------------------------------------------------------ moves between directories

    @property
    def moves(self) -> Sequence[FutureLog]:
        return [*self._moves.values()]

    def move(self, log: PartitionLog, path: str) -> None:
        move = self._moves.get((log.topic_id, log.partition))
        if move is not None:
            if move.path == path:
                return
            move.cancel()
        if files_of(log).volume.path == path:
            return
        for volume in self.volumes:
            volume.check()  # as in Kafka: a copy could exist in the failed one
        target = next(one for one in self.volumes if one.path == path)
        name = f"{log.topic}-{log.partition}"
        if len(name) + UNIQUE_BYTES + len(FUTURE) > MAX_NAME:
            raise InvalidTopicException("The topic name is too long.")
        directory = target.directory.path_of(self._new_name(name, FUTURE))
        try:
            self._checkpoints[target.path].forget(log.topic, log.partition)
            self._write_topic_id(directory, log.topic_id)
            self._load(target, directory, log.topic, log.partition, Checkpoints(), True, is_future=True)
        except OSError as error:
            raise target.fail(error, f"creating {directory}") from error
        copy = self._unmatched[log.topic_id, log.partition]
        self._match_futures()
        self._moves[log.topic_id, log.partition].clean_offset = log.clean_offset
        files_of(copy).flush_new()
        self._changed()

    def _add_future(self, copy: PartitionLog) -> None:
        """Keeps a copy until the log is found that moves. Only one can exist, so another one is deleted."""
        other = self._unmatched.get((copy.topic_id, copy.partition))
        self._unmatched[copy.topic_id, copy.partition] = copy
        if other is not None:
            self._rename_copy(other, DELETE)

    def _match_futures(self) -> None:
        """Starts or continues the moves of all logs with a copy."""
        for ident, copy in [*self._unmatched.items()]:
            log = self._logs.get(ident)
            if log is not None:
                del self._unmatched[ident]
                self._moves[ident] = FutureLog(log, copy, self._finish, self._cancel)

    def _promote(self, topic_id: bytes, partition: int, directory: bytes) -> PartitionLog | None:
        """Returns the copy of a log whose move was interrupted at its end, or None.

        The metadata names the directory of the copy only if that is complete.
        """
        copy = self._unmatched.get((topic_id, partition))
        if copy is None or directory not in (_id_of(files_of(copy).volume), UNASSIGNED):
            return None
        del self._unmatched[topic_id, partition]
        logger.warning("Completing the move of a log to %s", files_of(copy).volume.path)
        self._make_current(copy)
        self._logs[topic_id, partition] = copy
        self.places.move(topic_id, partition, files_of(copy).volume.path)
        return copy

    def _make_current(self, copy: PartitionLog) -> None:
        """Gives the directory of a copy the name of the log. Raises `KafkaStorageError`."""
        files = files_of(copy)
        volume = files.volume
        directory = volume.directory.path_of(f"{copy.topic}-{copy.partition}")
        try:
            if self._files.exists(directory):
                self._move_aside(volume, directory, STRAY)
            files.rename(copy, directory)
            self._files.flush_directory(volume.path)
        except OSError as error:
            raise volume.fail(error, f"renaming {files.directory}") from error

    def _finish(self, move: FutureLog) -> None:
        log, copy = move.log, move.copy
        old, target = files_of(log), files_of(copy).volume
        if copy.log_end_offset < log.log_end_offset:
            copy.roll_at(log.log_end_offset)
        log.clean_offset = copy.clean_offset = min(log.clean_offset, move.clean_offset)
        copy.high_watermark = log.high_watermark
        files_of(copy).epochs_changed(log.epochs.entries)
        copy.flush()
        for checkpoint in ("recovery_point", "log_start"):
            self._checkpoint(target, checkpoint, self._logs_in(target))
        before = old.directory
        deleted = old.volume.directory.path_of(self._new_name(f"{log.topic}-{log.partition}", DELETE))
        # In this order: after a crash in between, the next start finds the copy alone and completes the move.
        with suppress(KafkaStorageError):  # the old directory fails now, but the copy is complete
            old.rename(log, deleted)
            old.volume.remove_later(deleted)
            old.flush_parent()
        try:
            self._make_current(copy)
        except KafkaStorageError:
            old.rename(log, before)
            raise
        del self._moves[log.topic_id, log.partition]
        log.adopt(copy)
        self.places.move(log.topic_id, log.partition, target.path)
        for checkpoint in ("recovery_point", "log_start"):
            self._checkpoint(old.volume, checkpoint, self._logs_in(old.volume))

    def _cancel(self, move: FutureLog) -> None:
        self._moves.pop((move.log.topic_id, move.log.partition), None)
        if not move.copy.is_offline:
            self._rename_copy(move.copy, DELETE)

    def abandon(self, move: LogMove) -> None:
        self._moves.pop((move.log.topic_id, move.log.partition), None)

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
    """Returns the broker's options that files depend on, the defaults of topics."""
    return DiskSettings(
        config.int("log.index.interval.bytes"),
        config.int("log.index.size.max.bytes"),
        config.seconds("log.segment.delete.delay.ms"),
    )


def _id_of(volume: Volume) -> bytes:
    return volume.directory.directory_id.bytes


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
        """Returns the storage of a broker, and sets its log.dirs."""
        directories = self._directories[broker_id]
        config.set_made({"log.dirs": ",".join(directory.path for directory in directories)})
        storage = DiskStorage(
            directories,
            lambda: UUID(bytes=self._runtime.entropy.token_bytes(16), version=4),
            self._run,
            settings_of(config),
            Intervals(
                config.seconds("log.flush.offset.checkpoint.interval.ms"),
                config.seconds("log.flush.start.offset.checkpoint.interval.ms"),
                config.seconds("replica.high.watermark.checkpoint.interval.ms"),
            ),
        )
        storage.configure(config)
        return storage

    def _run(self, work: Callable[[], None], then: Callable[[OSError | None], None]) -> None:
        """Runs blocking work on a helper thread, and its end under the cluster's lock."""

        def end(outcome: Outcome[None]) -> None:
            error = outcome.error
            if error is not None and not isinstance(error, OSError):
                raise error
            with self._lock:
                then(error)

        self._runtime.offload(work, end, Lane.DISK)
