"""Writes the checkpoints of all data directories of a broker: at their intervals, and after changes.

Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import attrs

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.log.disk.checkpoints import HIGH_WATERMARK, LOG_START, RECOVERY_POINT, CheckpointFiles
from pykafka2.broker.log.disk.log_directory import files_of
from pykafka2.broker.log.disk.log_loading import Checkpoints
from pykafka2.broker.log.disk.volume import Volume
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.errors import KafkaStorageError


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
