"""The checkpoint files of data directories, an offset of each log, and when they are written.

Recovery points and high watermarks may lag, so they are not flushed while the broker runs, where a flush
would hold up requests: without them recovery reads more, and followers start lower.

Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import attrs

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.log.disk.log_directory import files_of
from pykafka2.broker.log.disk.text_files import decode_offsets, encode_offsets
from pykafka2.broker.log.disk.volume import Volume
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.errors import CorruptData, KafkaStorageError

logger = logging.getLogger(__name__)

RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
LOG_START: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
CLEANER: Final = "cleaner-offset-checkpoint"

Key = tuple[str, int]


@attrs.frozen
class Checkpoints:
    """The offsets of one log in the checkpoints of its data directory."""

    log_start_offset: int = 0
    high_watermark: int = 0
    recovery_point: int = 0
    clean_offset: int = 0
    has_clean_offset: bool = True
    """False if the file of clean offsets is damaged, so that any log can be compacted."""


class CheckpointFiles:
    """The checkpoints of one data directory. A file is written only if its content has changed."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._written: dict[str, dict[Key, int]] = {}
        self._unflushed: set[str] = set()
        self._unreadable: set[str] = set()

    def read(self) -> Mapping[Key, Checkpoints]:
        """Return the checkpoints of each log. A file that cannot be read counts as empty, with a warning."""
        start, mark = self._read(LOG_START), self._read(HIGH_WATERMARK)
        recovery, clean = self._read(RECOVERY_POINT), self._read(CLEANER)
        has_clean_offsets = CLEANER not in self._unreadable
        return defaultdict(
            lambda: Checkpoints(has_clean_offset=has_clean_offsets),
            {
                key: Checkpoints(
                    start.get(key, 0),
                    mark.get(key, 0),
                    recovery.get(key, 0),
                    clean.get(key, 0),
                    has_clean_offsets,
                )
                for key in {*start, *mark, *recovery, *clean}
            },
        )

    def _read(self, name: str) -> dict[Key, int]:
        path = self._volume.directory.path_of(name)
        if not self._volume.files.exists(path):
            return {}
        try:
            found = decode_offsets(self._volume.files.read(path).decode("utf-8", "replace"), path)
        except CorruptData as error:
            logger.warning("Ignoring a checkpoint that cannot be read: %s", error)
            self._unreadable.add(name)
            return {}
        self._written[name] = dict(found)
        return found

    def write_recovery_points(self, logs: Iterable[PartitionLog], *, flushes: bool) -> None:
        self._write(RECOVERY_POINT, {_key(log): log.recovery_point for log in logs}, flushes=flushes)

    def lower_recovery_point(self, log: PartitionLog) -> None:
        """Write the recovery point of a truncated log if the file has a higher one.

        Otherwise a crash of the machine could lose records that are appended now, and recovery would not read
        their segments. Raise `KafkaStorageError`.
        """
        offsets = self._written.get(RECOVERY_POINT, {})
        if offsets.get(_key(log), 0) > log.recovery_point:
            self._write(RECOVERY_POINT, {**offsets, _key(log): log.recovery_point})

    def write_log_starts(self, logs: Iterable[PartitionLog]) -> None:
        # As in Kafka, a log that starts with a segment is left out.
        starts = {
            _key(log): log.log_start_offset for log in logs if log.log_start_offset > log.segments.base_offset
        }
        self._write(LOG_START, starts)

    def write_high_watermarks(self, logs: Iterable[PartitionLog], *, flushes: bool) -> None:
        self._write(HIGH_WATERMARK, {_key(log): log.high_watermark for log in logs}, flushes=flushes)

    def write_clean_offsets(self, logs: Iterable[PartitionLog]) -> None:
        self._write(CLEANER, {_key(log): log.clean_offset for log in logs if log.clean_offset})

    def forget(self, topic: str, partition: int) -> None:
        """Remove the offsets of an earlier log of this name, before another one is created.

        After a crash they would apply to the new log, whose records can be before that log's start. Raise
        `KafkaStorageError`.
        """
        key = (topic, partition)
        for name in (RECOVERY_POINT, LOG_START, HIGH_WATERMARK, CLEANER):
            offsets = self._written.get(name, {})
            if offsets.get(key):
                self._write(name, {one: offset for one, offset in offsets.items() if one != key})

    def _write(self, name: str, offsets: dict[Key, int], *, flushes: bool = True) -> None:
        """Raise `KafkaStorageError`."""
        is_written = self._written.get(name) == offsets and not (flushes and name in self._unflushed)
        if is_written or self._volume.failure is not None:
            return
        path = self._volume.directory.path_of(name)
        try:
            self._volume.files.replace(path, encode_offsets(offsets).encode(), flushes=flushes)
        except OSError as error:
            raise self._volume.fail(error, f"writing {path}") from error
        self._written[name] = offsets
        if flushes:
            self._unflushed.discard(name)
        else:
            self._unflushed.add(name)


def _key(log: PartitionLog) -> Key:
    return log.topic, log.partition


@attrs.define
class Intervals:
    """Seconds between two writes of a checkpoint."""

    recovery_point: float = 60.0
    log_start: float = 60.0
    high_watermark: float = 5.0


def intervals_of(config: BrokerConfig) -> Intervals:
    """Return the intervals in the broker's options."""
    return Intervals(
        config.seconds("log.flush.offset.checkpoint.interval.ms"),
        config.seconds("log.flush.start.offset.checkpoint.interval.ms"),
        config.seconds("replica.high.watermark.checkpoint.interval.ms"),
    )


class CheckpointWriter:
    """The checkpoints of a broker's data directories. `all_logs` returns its logs, with unfinished copies."""

    def __init__(self, intervals: Intervals, all_logs: Callable[[], Iterable[PartitionLog]]) -> None:
        self.intervals = intervals
        self._all_logs = all_logs
        self._volumes: Sequence[Volume] = ()
        self._files: dict[str, CheckpointFiles] = {}
        self._due: dict[str, float] = {}

    def start(self, volumes: Sequence[Volume]) -> None:
        """Start with these data directories, whose checkpoints are not read yet."""
        self._volumes = volumes
        self._files = {volume.path: CheckpointFiles(volume) for volume in volumes}
        self._due.clear()

    def stop(self) -> None:
        """Write nothing any more."""
        self._volumes = ()
        self._files.clear()

    def read(self, volume: Volume) -> Mapping[tuple[str, int], Checkpoints]:
        """Return the checkpoints of each log in a data directory. Raise `OSError`."""
        return self._files[volume.path].read()

    # ------------------------------------------------------------------ periodic writes

    def run(self, now: float) -> float:
        """Write the checkpoints that are due. Return the time of the next ones, in seconds."""
        for name, interval in (
            (RECOVERY_POINT, self.intervals.recovery_point),
            (LOG_START, self.intervals.log_start),
            (HIGH_WATERMARK, self.intervals.high_watermark),
        ):
            if now < self._due.setdefault(name, now + interval):
                continue
            self._due[name] = now + interval
            for volume in self._volumes:
                self._write(volume, name, self._logs_in(volume))
        return min(self._due.values())

    def write_all(self) -> None:
        """Write and flush all checkpoints."""
        for volume in self._volumes:
            logs = self._logs_in(volume)
            for name in (RECOVERY_POINT, LOG_START, HIGH_WATERMARK):
                self._write(volume, name, logs, flushes=True)

    def write_after_move(self, volume: Volume) -> None:
        """Write what recovery needs after a log has left or reached a data directory."""
        logs = self._logs_in(volume)
        for name in (RECOVERY_POINT, LOG_START):
            self._write(volume, name, logs)

    def _write(
        self, volume: Volume, name: str, logs: Sequence[PartitionLog], *, flushes: bool = False
    ) -> None:
        files = self._files[volume.path]
        with suppress(KafkaStorageError):  # the volume has logged it, and is offline
            if name == RECOVERY_POINT:
                files.write_recovery_points(logs, flushes=flushes)
                files.write_clean_offsets(logs)
            elif name == LOG_START:
                files.write_log_starts(logs)
            else:
                files.write_high_watermarks(logs, flushes=flushes)

    def _logs_in(self, volume: Volume) -> list[PartitionLog]:
        return [log for log in self._all_logs() if files_of(log).volume is volume]

    # ------------------------------------------------------------------ single writes, which raise

    def write_clean_offsets(self, volume: Volume) -> None:
        """Write the offsets up to which logs are compacted. Raise `KafkaStorageError`."""
        self._files[volume.path].write_clean_offsets(self._logs_in(volume))

    def lower_recovery_point(self, log: PartitionLog) -> None:
        """Write the recovery point of a truncated log. Raise `KafkaStorageError`."""
        self._files[files_of(log).volume.path].lower_recovery_point(log)

    def forget(self, volume: Volume, topic: str, partition: int) -> None:
        """Remove the offsets of an earlier log of this name. Raise `KafkaStorageError`."""
        self._files[volume.path].forget(topic, partition)
