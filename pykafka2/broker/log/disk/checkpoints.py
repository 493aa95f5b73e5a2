"""The checkpoint files of a data directory: an offset of each log in it. Kafka's OffsetCheckpointFile.

Recovery points and high watermarks may lag, so they are not flushed while the broker runs, where a flush
would hold up requests: without them recovery reads more, and followers start lower.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from pykafka2.broker.log.disk.log_loading import Checkpoints
from pykafka2.broker.log.disk.text_files import decode_offsets, encode_offsets
from pykafka2.broker.log.disk.volume import Volume
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.errors import CorruptData

logger = logging.getLogger(__name__)

RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
LOG_START: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
CLEANER: Final = "cleaner-offset-checkpoint"

Key = tuple[str, int]


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
