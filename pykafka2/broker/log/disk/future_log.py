"""The copy of a log that moves to another data directory, in a `-future` directory. Kafka's future replica.

The copy gets the log's batches in steps, like a follower, while the log is in use. Once it has all of them it
takes the place of the log's files. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pykafka2.broker.log.disk.log_directory import DiskLogFiles, files_of
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.records.batch import RecordBatch

NOTHING: Final = -1
MAX_BATCHES: Final = 250
"""The batches of a step: each takes as long as some kilobytes."""
READ_BYTES: Final = 1 << 16


class FutureLog:
    """The copy of a moving log. `finish` and `cancel` are those of `FutureLogs`."""

    def __init__(
        self,
        log: PartitionLog,
        copy: PartitionLog,
        finish: Callable[[FutureLog], None],
        cancel: Callable[[FutureLog], None],
    ) -> None:
        self.log = log
        self.copy = copy
        self.clean_offset = copy.clean_offset
        """The first offset that no compaction had cleaned when the move began."""
        self._finish = finish
        self._cancel = cancel
        self._changes = NOTHING
        self._flushes_to = NOTHING

    def __repr__(self) -> str:
        return f"<future log of {self.log!r} in {self.path}, {self.lag} offsets behind>"

    @property
    def files(self) -> DiskLogFiles:
        """The files of the copy."""
        return files_of(self.copy)

    @property
    def path(self) -> str:
        """The data directory that the log moves to."""
        return self.files.volume.path

    @property
    def directory(self) -> bytes:
        """The id of the data directory that the log moves to."""
        return self.files.volume.id

    @property
    def size_bytes(self) -> int:
        """The size of the copy."""
        return self.copy.size_bytes

    @property
    def lag(self) -> int:
        """The number of offsets that are missing in the copy."""
        return max(self.log.log_end_offset - self.copy.log_end_offset, 0)

    @property
    def is_offline(self) -> bool:
        """Whether one of both directories has failed, so that the move cannot continue."""
        return self.log.is_offline or self.copy.is_offline

    # ------------------------------------------------------------------ copying

    def step(self, max_bytes: int) -> bool:
        """Copy up to `max_bytes` and MAX_BATCHES, at least one batch. Return whether the copy is complete.

        Raise `KafkaStorageError`.
        """
        log, copy = self.log, self.copy
        copy.limit_segments(log.segments.limits)
        self.files.settings.update(files_of(log).settings)
        if self._changes != log.changes:
            self._drop_diverged()
            self._changes = log.changes
        if copy.log_end_offset < log.log_start_offset:
            copy.truncate_fully_and_start_at(log.log_start_offset)
        else:
            copy.advance_log_start(log.log_start_offset)
        batches_left = MAX_BATCHES
        while True:
            if log.segments.base_of(copy.log_end_offset) == copy.log_end_offset:
                copy.roll()  # so retention and compaction find the same segments
            if copy.log_end_offset >= log.log_end_offset:
                return True
            if max_bytes <= 0 or not batches_left:
                return False
            size = min(max_bytes, READ_BYTES)
            found = log.segments.read(copy.log_end_offset, log.log_end_offset, size, True)[:batches_left]
            if not found:
                return True  # compaction has removed the records at the log's end
            batches_left -= len(found)
            copy.append_as_follower(b"".join(batch.buffer for batch in found))
            max_bytes -= sum(len(batch.buffer) for batch in found)

    def _drop_diverged(self) -> None:
        """Truncate the copy to the batches that the log still has."""
        log, copy = self.log, self.copy
        copy.truncate_to(log.log_end_offset)
        while copy.segments.size_bytes:
            last = self._batch_before(copy, copy.log_end_offset)
            kept = None if last is None else self._batch_before(log, last.next_offset)
            if last is None or (kept is not None and bytes(kept.buffer) == bytes(last.buffer)):
                return
            if last.base_offset <= copy.log_start_offset:
                copy.truncate_fully_and_start_at(log.log_start_offset)
                return
            copy.truncate_to(last.base_offset)

    @staticmethod
    def _batch_before(log: PartitionLog, offset: int) -> RecordBatch | None:
        """Return the batch that ends at an offset."""
        found = log.segments.read(offset - 1, offset, 0, True)
        return found[0] if found and found[0].next_offset == offset else None

    def is_flushed(self) -> bool:
        """Return whether what was copied so far is flushed; flush it in the background if that has not begun.

        So the end of the move has only the latest records to flush.
        """
        if self._flushes_to == NOTHING:
            self._flushes_to = self.copy.log_end_offset
            self.files.flush_later(self.copy)
        return self.copy.recovery_point >= min(self._flushes_to, self.copy.log_end_offset)

    # ------------------------------------------------------------------ the end

    def finish(self) -> None:
        """Put the complete copy in the place of the log. Raise `KafkaStorageError`."""
        self._finish(self)

    def cancel(self) -> None:
        """End the move, and delete the copy."""
        self._cancel(self)
