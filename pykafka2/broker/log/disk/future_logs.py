"""The moves of logs between data directories (AlterReplicaLogDirs), and their copies. Kafka's future logs.

`move` begins one; `replication/directory_assignments.py` copies in steps and ends it. The copy gets the log's
batches in steps, like a follower, while the log is in use. Once it has all of them it takes the place of the
log's files. A copy whose move was interrupted waits until its log is open, or takes the log's place. Access
requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from pykafka2.broker.base.image import UNASSIGNED
from pykafka2.broker.log.disk.checkpoints import CheckpointWriter
from pykafka2.broker.log.disk.directory_names import LogName, LogRenamer, is_too_long_for_a_copy
from pykafka2.broker.log.disk.log_directory import DiskLogFiles, files_of
from pykafka2.broker.log.disk.log_loading import LogOpener
from pykafka2.broker.log.disk.volume import Volume
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.storage import Ident, LogPlaces
from pykafka2.errors import InvalidTopicException, KafkaStorageError
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


logger = logging.getLogger(__name__)


class FutureLogs:
    """The logs of one broker that move, and copies whose log is not open."""

    def __init__(
        self, opener: LogOpener, renamer: LogRenamer, checkpoints: CheckpointWriter, places: LogPlaces
    ) -> None:
        self._opener = opener
        self._renamer = renamer
        self._checkpoints = checkpoints
        self._places = places
        self._moves: dict[Ident, FutureLog] = {}
        self._unmatched: dict[Ident, PartitionLog] = {}

    @property
    def moves(self) -> Sequence[FutureLog]:
        return [*self._moves.values()]

    def copies(self) -> Iterator[PartitionLog]:
        """Iterate over all copies."""
        yield from (move.copy for move in self._moves.values())
        yield from self._unmatched.values()

    def reset(self) -> None:
        """Forget all copies, which stay in their directories."""
        self._moves.clear()
        self._unmatched.clear()

    # ------------------------------------------------------------------ a new move

    def move(self, log: PartitionLog, path: str, volumes: Sequence[Volume]) -> bool:
        """Begin to move a log to the data directory `path`, which ends its move to any other one.

        Return False if it is there, or moves there already. Raise `KafkaStorageError` or
        `InvalidTopicException`.
        """
        ident = log.topic_id, log.partition
        earlier = self._moves.get(ident)
        if earlier is not None:
            if earlier.path == path:
                return False
            earlier.cancel()
        if files_of(log).volume.path == path:
            return False
        for volume in volumes:
            volume.check()  # as in Kafka: a copy could exist in the failed one
        name = LogName(log.topic, log.partition)
        if is_too_long_for_a_copy(name):
            raise InvalidTopicException("The topic name is too long.")
        target = next(volume for volume in volumes if volume.path == path)
        copy = self._opener.create(target, self._renamer.path_of_copy(target, name), name, log.topic_id)
        move = self._moves[ident] = FutureLog(log, copy, self._finish, self._cancel)
        move.clean_offset = log.clean_offset
        files_of(copy).flush_new()
        return True

    # ------------------------------------------------------------------ interrupted moves

    def add(self, copy: PartitionLog) -> None:
        """Keep a copy until its log is open. Only one can exist, so an earlier one is deleted."""
        other = self._unmatched.get((copy.topic_id, copy.partition))
        self._unmatched[copy.topic_id, copy.partition] = copy
        if other is not None:
            self._renamer.delete(other)

    def resume(self, logs: Mapping[Ident, PartitionLog]) -> None:
        """Continue the moves of open logs with a copy."""
        for ident, copy in [*self._unmatched.items()]:
            log = logs.get(ident)
            if log is not None:
                del self._unmatched[ident]
                self._moves[ident] = FutureLog(log, copy, self._finish, self._cancel)

    def promote(self, topic_id: bytes, partition: int, directory: bytes) -> PartitionLog | None:
        """Return the copy of a log whose move was interrupted at its end, as the log, or None.

        The metadata names the directory of the copy only if that is complete. Raise `KafkaStorageError`.
        """
        copy = self._unmatched.get((topic_id, partition))
        if copy is None or directory not in (files_of(copy).volume.id, UNASSIGNED):
            return None
        del self._unmatched[topic_id, partition]
        logger.warning("Completing the move of a log to %s", files_of(copy).volume.path)
        self._renamer.make_current(copy)
        return copy

    # ------------------------------------------------------------------ the end of a move

    def _finish(self, move: FutureLog) -> None:
        log, copy = move.log, move.copy
        old, target = files_of(log), files_of(copy).volume
        if copy.log_end_offset < log.log_end_offset:
            copy.roll_at(log.log_end_offset)
        log.clean_offset = copy.clean_offset = min(log.clean_offset, move.clean_offset)
        copy.high_watermark = log.high_watermark
        files_of(copy).epochs_changed(log.epochs.entries)
        copy.flush()
        self._checkpoints.write_after_move(target)
        before = old.directory
        # In this order: after a crash in between, the next start finds the copy alone and completes the move.
        with suppress(KafkaStorageError):  # the old directory fails now, but the copy is complete
            self._renamer.mark_deleted(log)
            old.flush_parent()
        try:
            self._renamer.make_current(copy)
        except KafkaStorageError:
            old.rename(log, before)
            raise
        del self._moves[log.topic_id, log.partition]
        log.adopt(copy)
        self._places.move(log.topic_id, log.partition, target.path)
        self._checkpoints.write_after_move(old.volume)

    def _cancel(self, move: FutureLog) -> None:
        self._moves.pop((move.log.topic_id, move.log.partition), None)
        if not move.copy.is_offline:
            self._renamer.delete(move.copy)

    def cancel(self, log: PartitionLog) -> None:
        """End the move of a log, if there is one, and delete the copy."""
        move = self._moves.get((log.topic_id, log.partition))
        if move is not None:
            move.cancel()

    def abandon(self, log: PartitionLog) -> None:
        """Forget the copy of a log until the next start, which continues the move."""
        self._moves.pop((log.topic_id, log.partition), None)

    def set_unknown_aside(self, topic_ids: set[bytes]) -> None:
        """Set the copies of all other topics aside; these were deleted while the broker was down."""
        for ident, move in [*self._moves.items()]:
            if ident[0] not in topic_ids:
                del self._moves[ident]
                self._renamer.set_aside(move.copy)
        for ident, copy in [*self._unmatched.items()]:
            if ident[0] not in topic_ids:
                del self._unmatched[ident]
                self._renamer.set_aside(copy)
