"""The directory of one log: what a `PartitionLog` keeps beside its segments, in Kafka's files.

`orders-0` has the segments, `leader-epoch-checkpoint`, `partition.metadata` and producer snapshots. A roll
flushes the old segment in the background. Access requires the cluster's lock, except for the flushes that
`Background` runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol, cast

import attrs

from pykafka2.broker.log.disk.producer_snapshots import ProducerSnapshots
from pykafka2.broker.log.disk.recovery import SWAP
from pykafka2.broker.log.disk.segment_file import CLEANED, DiskSegment
from pykafka2.broker.log.disk.text_files import encode_epochs
from pykafka2.broker.log.disk.volume import Volume
from pykafka2.broker.log.leader_epochs import EpochEntry
from pykafka2.broker.log.log_files import Disk, DiskSettings, LogState, OpenLog
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.producer_state import ProducerStates
from pykafka2.broker.log.segment import Segment

PARTITION_METADATA: Final = "partition.metadata"
EPOCHS: Final = "leader-epoch-checkpoint"


def on_disk(segments: Iterable[Segment]) -> list[DiskSegment]:
    """Return the segments of a log that this module has created."""
    return cast("list[DiskSegment]", [*segments])


def files_of(log: PartitionLog) -> DiskLogFiles:
    """Return the files of a log on disk."""
    if not isinstance(log.files, DiskLogFiles):
        raise TypeError(f"{log!r} is not on disk")
    return log.files


class Background(Protocol):
    """Runs blocking work on another thread, then `then(error)` under the cluster's lock."""

    def __call__(self, work: Callable[[], None], then: Callable[[OSError | None], None]) -> None: ...


class DiskLogFiles:
    """The storage of a log in a directory. `state` is what recovery has found there."""

    is_in_memory = False

    def __init__(
        self,
        volume: Volume,
        directory: str,
        disk: Disk,
        state: LogState,
        snapshots: ProducerSnapshots,
        background: Background,
        before_swap: Callable[[Volume], None],
        after_truncation: Callable[[], None],
    ) -> None:
        """`before_swap` writes the checkpoint of compacted offsets.

        `after_truncation` lowers the recovery point in its checkpoint.
        """
        self.volume = volume
        self.directory = directory
        self.disk = disk
        self.snapshots = snapshots
        self.settings = attrs.evolve(volume.settings)
        for segment in on_disk(state.segments):
            segment.settings = self.settings
        self._state = state
        self._background = background
        self._before_swap = before_swap
        self._after_truncation = after_truncation
        self._unflushed_names: set[str] = set()
        """Small files that were written without a flush since the last `flush`."""

    @property
    def is_offline(self) -> bool:
        return self.volume.failure is not None

    def load(self) -> LogState:
        return self._state

    def configure(self, settings: DiskSettings) -> None:
        self.settings.update(settings)

    def new_segment(self, base_offset: int) -> Segment:
        return self._create(base_offset, "")

    def new_cleaned_segment(self, base_offset: int) -> Segment:
        return self._create(base_offset, CLEANED)

    def _create(self, base_offset: int, suffix: str) -> DiskSegment:
        self.volume.check()
        segment = DiskSegment.create(self.volume, self.directory, base_offset, suffix)
        segment.settings = self.settings
        return segment

    def rolled(self, log: OpenLog) -> None:
        active = log.segments.active.base_offset
        try:
            is_new = self.snapshots.take(log.producers, active)
            taken = [self.snapshots.path_of(active)] if is_new else []
            flushes: list[Callable[[], None]] = [self._flush_of_names(taken)]
            flushed: list[tuple[DiskSegment, int]] = []
            rolled = on_disk(log.segments)[-2]
            rolled.finish()
            rolled.flushed_bytes = min(rolled.flushed_bytes, rolled.size_bytes - 1)  # the index has changed
            for segment in self._unflushed(log):
                if segment.base_offset < active:
                    flushes += segment.later_flushes()
                    flushed.append((segment, segment.size_bytes))
        except OSError as error:
            raise self.volume.fail(error, f"rolling {self.directory}") from error
        self._flush_later(log, active, flushes, flushed)

    def flush_new(self) -> None:
        """Flush the topic id and the name of a new directory in the background."""
        volume = self.volume
        self._unflushed_names.add(PARTITION_METADATA)

        def then(error: OSError | None) -> None:
            if error is not None:
                volume.fail(error, f"creating {self.directory}")
            else:
                self._unflushed_names.discard(PARTITION_METADATA)

        self._background(self._flush_of_names(), then)

    def _flush_of_names(self, others: Sequence[str] = ()) -> Callable[[], None]:
        """Return a function that flushes the small files, others and the directory, from any thread.

        Without the leader epochs a follower would not find where the logs diverge, and a log without its
        topic id is set aside.
        """
        files, directory = self.volume.files, self.directory
        paths = [*(f"{directory}/{name}" for name in sorted(self._unflushed_names)), *others, directory]
        if PARTITION_METADATA in self._unflushed_names:
            paths.append(self.volume.path)

        def flush() -> None:
            for path in paths:
                with suppress(FileNotFoundError):  # the topic was deleted meanwhile
                    files.flush_directory(path)

        return flush

    def flush_later(
        self, log: OpenLog, others: Sequence[str] = (), done: Callable[[], object] = lambda: None
    ) -> None:
        """Flush the log up to its end, and others, in the background; then its recovery point advances.

        `done` is called at the end, also after a failure.
        """
        flushes: list[Callable[[], None]] = [self._flush_of_names(others)]
        flushed: list[tuple[DiskSegment, int]] = []
        try:
            for segment in self._unflushed(log):
                flushes += segment.later_flushes()
                flushed.append((segment, segment.size_bytes))
        except OSError as error:
            raise self.volume.fail(error, f"flushing {self.directory}") from error
        names = frozenset(self._unflushed_names)

        def end() -> None:
            if self.volume.failure is None:
                self._unflushed_names -= names
            done()

        self._flush_later(log, log.log_end_offset, flushes, flushed, end)

    def _flush_later(
        self,
        log: OpenLog,
        end_offset: int,
        flushes: Sequence[Callable[[], None]],
        flushed: Sequence[tuple[DiskSegment, int]],
        done: Callable[[], None] = lambda: None,
    ) -> None:
        volume, changes = self.volume, log.changes

        def work() -> None:
            errors = []
            for flush in flushes:
                try:
                    flush()
                except OSError as error:
                    errors.append(error)  # the others close their descriptors
            if errors:
                raise errors[0]

        def then(error: OSError | None) -> None:
            if error is not None:
                volume.fail(error, f"flushing {self.directory}")
            elif log.changes == changes:
                for segment, size in flushed:
                    segment.flushed_bytes = max(segment.flushed_bytes, size)
                log.recovery_point = max(log.recovery_point, end_offset)
            done()

        self._background(work, then)

    def _unflushed(self, log: OpenLog) -> list[DiskSegment]:
        """Return the segments with unflushed bytes, the oldest first."""
        found: list[DiskSegment] = []
        for segment in reversed(on_disk(log.segments)):
            if segment.flushed_bytes == segment.size_bytes and segment.size_bytes:
                break
            found.append(segment)
        return found[::-1]

    def epochs_changed(self, epochs: Sequence[EpochEntry]) -> None:
        # Flushed with the next segment: recovery finds the epochs of unflushed batches.
        # An offline directory is reported by the next append: a change of the leader must not fail here.
        if self.volume.failure is not None:
            return
        path = f"{self.directory}/{EPOCHS}"
        try:
            self.volume.files.replace(path, encode_epochs(epochs).encode(), flushes=False)
            self._unflushed_names.add(EPOCHS)
        except OSError as error:
            self.volume.fail(error, f"writing {path}")

    def flush(self, log: OpenLog) -> None:
        self.volume.check()
        unflushed = [segment for segment in self._unflushed(log) if segment.size_bytes]
        for segment in unflushed:
            segment.flush()
        try:
            if unflushed or self._unflushed_names:
                self._flush_of_names()()
                self._unflushed_names.clear()
        except OSError as error:
            raise self.volume.fail(error, f"flushing {self.directory}") from error
        log.recovery_point = log.log_end_offset

    def producers_at(self, log: OpenLog, offset: int) -> tuple[ProducerStates, int]:
        return self.snapshots.latest(offset)

    def drop(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            segment.delete()
        self._remove_snapshots([segment.base_offset for segment in segments])

    def replace(self, replaced: Sequence[Segment], cleaned: Sequence[Segment]) -> None:
        try:
            for segment in reversed(on_disk(cleaned)):
                segment.finish()
                segment.flush()
            _keep_file_times(replaced, on_disk(cleaned))
            # Recovery must know that offsets can be missing before it finds that some are.
            self._before_swap(self.volume)
            for segment in reversed(on_disk(cleaned)):
                segment.rename(SWAP)
            for old in replaced:
                old.delete()
            for segment in on_disk(cleaned):
                segment.rename("")
            self.volume.files.flush_directory(self.directory)
        except OSError as error:
            raise self.volume.fail(error, f"replacing segments of {self.directory}") from error
        kept = {segment.base_offset for segment in cleaned}
        self._remove_snapshots([one.base_offset for one in replaced if one.base_offset not in kept])

    def truncated(self, end_offset: int, dropped: int) -> None:
        try:
            self.snapshots.truncate_to(end_offset)
            if dropped:
                self.volume.files.flush_directory(self.directory)
        except OSError as error:
            raise self.volume.fail(error, f"truncating {self.directory}") from error
        self._after_truncation()

    def cleared(self) -> None:
        self._remove_snapshots(self.snapshots.offsets)
        self._after_truncation()

    def _remove_snapshots(self, offsets: Sequence[int]) -> None:
        try:
            self.snapshots.remove(offsets)
        except OSError as error:
            raise self.volume.fail(error, f"removing snapshots of {self.directory}") from error

    # ------------------------------------------------------------------ closing and moving

    def begin_close(self, log: OpenLog, done: Callable[[], object]) -> bool:
        """Do in the background what `close` does, which then has nothing to flush.

        `done` is called at the end. Return False if there is nothing to flush. Raise `KafkaStorageError`.
        """
        on_disk(log.segments)[-1].finish()
        try:
            is_new = self.snapshots.take(log.producers, log.log_end_offset)
        except OSError as error:
            raise self.volume.fail(error, f"closing {self.directory}") from error
        has_records = any(segment.size_bytes for segment in self._unflushed(log))
        if not (is_new or has_records or self._unflushed_names):
            return False
        self.flush_later(log, [self.snapshots.path_of(log.log_end_offset)] if is_new else [], done)
        return True

    def close(self, log: OpenLog) -> None:
        """Leave the log as a clean shutdown does: flushed, with a producer snapshot at its end."""
        on_disk(log.segments)[-1].finish()
        files = self.volume.files
        try:
            if self.snapshots.take(log.producers, log.log_end_offset):
                files.open(self.snapshots.path_of(log.log_end_offset)).later_flush()()
        except OSError as error:
            raise self.volume.fail(error, f"closing {self.directory}") from error
        self.flush(log)

    def lose_unflushed(self, log: OpenLog) -> None:
        """Cut every file at its last flush, as a crash of the machine does. The log must not be used."""
        for segment in on_disk(log.segments):
            if segment.base_offset > log.recovery_point:
                for path in segment.close():
                    self.volume.files.remove(path)
            elif segment.flushed_bytes < segment.size_bytes:
                segment.log.truncate(segment.position_of(log.recovery_point))

    def rename(self, log: OpenLog, directory: str) -> None:
        """Rename the directory. Raise `KafkaStorageError`."""
        try:
            for segment in on_disk(log.segments):
                segment.close()
            self.volume.files.rename(self.directory, directory)
        except OSError as error:
            raise self.volume.fail(error, f"renaming {self.directory}") from error
        self.moved(log, self.volume, directory)

    def flush_parent(self) -> None:
        """Force the name of the directory to the disk. Raise `KafkaStorageError`."""
        try:
            self.volume.files.flush_directory(self.volume.path)
        except OSError as error:
            raise self.volume.fail(error, f"renaming {self.directory}") from error

    def moved(self, log: OpenLog, volume: Volume, directory: str) -> None:
        """Follow a log whose directory has another path."""
        log.changes += 1  # the unfinished segments of a compaction stay behind
        self.volume = volume
        self.directory = self.snapshots.directory = directory
        for segment in on_disk(log.segments):
            segment.move_to(volume, directory)


def _keep_file_times(replaced: Sequence[Segment], cleaned: Sequence[DiskSegment]) -> None:
    """Give cleaned segments the file times of the last ones that they replace. Raise `OSError`.

    Records without timestamps would otherwise expire later after each compaction. Kafka's Cleaner does so.
    """
    bases = [segment.base_offset for segment in cleaned]
    last = {bisect_right(bases, old.base_offset) - 1: old for old in on_disk(replaced)}
    for index, old in last.items():
        cleaned[index].set_modified_ms(old.modified_ms)
