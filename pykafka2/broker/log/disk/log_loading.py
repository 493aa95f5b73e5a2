"""Opens a log: loads its segments, offsets, epochs and states, or creates the directory of a new one.

Kafka's LogLoader. After an unclean shutdown the segments from the recovery point on are recovered; the
segments after a cut are removed.

Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import UUID

from pykafka2.broker.log.disk.batch_file import check_format
from pykafka2.broker.log.disk.checkpoints import Checkpoints, CheckpointWriter
from pykafka2.broker.log.disk.directory_names import LogName, LogRenamer
from pykafka2.broker.log.disk.log_directory import EPOCHS, PARTITION_METADATA, Background, DiskLogFiles
from pykafka2.broker.log.disk.producer_snapshots import SNAPSHOT, ProducerSnapshots
from pykafka2.broker.log.disk.recovery import (
    LOST,
    bases_in,
    clear_interrupted,
    open_segment,
    recover,
    remove_segment,
    set_segment_aside,
)
from pykafka2.broker.log.disk.segment_file import (
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TRANSACTION_INDEX,
    DiskSegment,
)
from pykafka2.broker.log.disk.text_files import decode_epochs, decode_topic_id, encode_topic_id
from pykafka2.broker.log.disk.volume import Volume
from pykafka2.broker.log.leader_epochs import EpochEntry, LeaderEpochs
from pykafka2.broker.log.log_files import Disk, LogState
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.producer_state import ProducerStates
from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.errors import CorruptData
from pykafka2.records.batch import RecordBatch

logger = logging.getLogger(__name__)

KNOWN: Final = (LOG, SNAPSHOT, OFFSET_INDEX, TIME_INDEX, EPOCHS, ".metadata")
"""Endings of files that need no clearing."""


def check_files(volume: Volume, directory: str) -> None:
    """Raise `OSError` if files cannot be read, `ConfigurationError` for messages of an old format."""
    names = volume.files.names(directory)
    if EPOCHS in names:
        volume.files.read(f"{directory}/{EPOCHS}")
    for name in names:
        if name.endswith((LOG, SNAPSHOT, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)):
            file = volume.files.open(f"{directory}/{name}")
            file.read(0, 1)
            if name.endswith(LOG):
                check_format(volume, file, 0)
            file.close()


class LogLoader:
    """Loads one log. `was_clean` is whether the data directory was closed cleanly."""

    def __init__(self, volume: Volume, directory: str, checkpoints: Checkpoints, was_clean: bool) -> None:
        self._volume = volume
        self._directory = directory
        self._checkpoints = checkpoints
        self._was_clean = was_clean
        self._producers = ProducerStates()
        self._epochs = LeaderEpochs()
        self._has_epochs = False  # read from the checkpoint
        self._aborted: list[AbortedTransaction] = []  # of the segment that is being recovered
        self.snapshots = ProducerSnapshots(volume.files, directory)

    def load(self) -> LogState:
        """Return the state of the log. Raise `OSError`."""
        files, directory = self._volume.files, self._directory
        names = files.names(directory)
        if any(not name.endswith(KNOWN) for name in names):
            names = clear_interrupted(self._volume, directory, names)
        bases = bases_in(names, LOG)
        self.snapshots = ProducerSnapshots(files, directory, bases_in(names, SNAPSHOT))
        self._has_epochs = self._read_epochs(names)
        segments = self._open_segments(bases)
        checkpoints = self._checkpoints
        start = max(checkpoints.log_start_offset, segments[0].base_offset)
        end = segments[-1].end_offset
        if end < start:
            # The records below the log's start are all that is left: the log continues at its start.
            logger.warning("Removed the segments of %s, which end at %d, before its start", directory, end)
            for segment in segments:
                segment.delete()
            segments, end = [DiskSegment.create(self._volume, directory, start)], start
            self.snapshots.remove(self.snapshots.offsets)
            self._producers = ProducerStates()
        self._epochs.truncate_to(end)
        self._epochs.drop_before(start)
        if self._was_clean:
            self._restore_producers(segments, end)
        self.snapshots.truncate_to(end)
        self._remove_stray_snapshots(segments)
        recovery_point = end if self._was_clean else min(checkpoints.recovery_point, end)
        for segment in segments:
            segment.flushed_bytes = segment.position_of(recovery_point)
        return LogState(
            [*segments],
            start,
            end,
            min(max(checkpoints.high_watermark, start), end),
            recovery_point,
            min(checkpoints.clean_offset, end),
            self._epochs.entries,
            self._producers,
            [aborted for segment in segments for aborted in segment.transactions.read()],
        )

    def _remove_stray_snapshots(self, segments: list[DiskSegment]) -> None:
        """Keep the snapshots at the starts of segments, and the latest one."""
        kept = {segment.base_offset for segment in segments}
        self.snapshots.remove([offset for offset in self.snapshots.offsets[:-1] if offset not in kept])

    def _read_epochs(self, names: list[str]) -> bool:
        """Read the epochs. Return False if they must be found in the batches."""
        path = f"{self._directory}/{EPOCHS}"
        if EPOCHS not in names:
            return False
        try:
            data = self._volume.files.read(path)
            if not data:
                return False  # a crash of the machine has lost what was not flushed
            entries = decode_epochs(data.decode("ascii", "replace"), path)
        except CorruptData as error:
            logger.warning("Reading the leader epochs from the batches: %s", error)
            return False
        self._epochs = LeaderEpochs([EpochEntry(*entry) for entry in entries])
        return True

    def _open_segments(self, bases: list[int]) -> list[DiskSegment]:
        volume, directory = self._volume, self._directory
        if not bases:
            start = self._checkpoints.log_start_offset
            return [DiskSegment.create(volume, directory, start)]
        segments: list[DiskSegment] = []
        recovers = False
        for number, base_offset in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else None
            is_flushed = self._was_clean or (
                following is not None and following <= self._checkpoints.recovery_point
            )
            if is_flushed:
                segments.append(self._open_flushed(segments, base_offset))
                continue
            if not recovers:
                recovers = True
                self._restore_producers(segments, base_offset)
            segment = DiskSegment(volume, directory, base_offset)
            segments.append(segment)
            lost = self._recover(segment)
            if following is None:
                continue
            if lost:
                for base in bases[number + 1 :]:
                    logger.warning("Removed segment %d of %s, behind a cut", base, directory)
                    remove_segment(volume, directory, base)
                break
            if self._lacks_records(segment, following):
                self._set_aside(segment, bases[number + 1 :])
                break
        return segments

    def _set_aside(self, segment: DiskSegment, later: list[int]) -> None:
        """Rename the segments after lost offsets."""
        logger.error(
            "Offsets %d to %d of %s are lost, so the segments after them are not used and renamed to "
            "NNN.log%s: %s",
            segment.end_offset,
            later[0] - 1,
            self._directory,
            LOST,
            ", ".join(str(base) for base in later),
        )
        for base in later:
            set_segment_aside(self._volume, self._directory, base)

    def _lacks_records(self, segment: DiskSegment, following: int) -> bool:
        """Return whether the end of a recovered segment was lost together with its size.

        Offsets may be missing before the next segment only if the log was compacted, here or on its leader.
        """
        checkpoints = self._checkpoints
        was_compacted = segment.base_offset < checkpoints.clean_offset or segment.has_gaps
        return segment.end_offset < following and checkpoints.has_clean_offset and not was_compacted

    def _open_flushed(self, before: list[DiskSegment], base_offset: int) -> DiskSegment:
        segment = open_segment(self._volume, self._directory, base_offset)
        try:
            segment.transactions.read()
        except CorruptData as error:
            logger.warning("Rebuilding a transaction index: %s", error)
            self._restore_producers(before, base_offset)
            self._recover(segment)
        if not self._has_epochs:
            for batch in segment.iterate():
                self._epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        return segment

    def _recover(self, segment: DiskSegment) -> int:
        segment.transactions.open()
        self._aborted = []
        lost = recover(segment, self._recovered)
        segment.transactions.replace(self._aborted)
        return lost

    def _recovered(self, batch: RecordBatch) -> None:
        self._epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        completed = self._producers.record(batch)
        if completed is not None and not completed.committed:
            self._aborted.append(
                AbortedTransaction(
                    completed.producer_id,
                    completed.first_offset,
                    completed.marker_offset,
                    completed.last_stable_offset,
                )
            )

    def _restore_producers(self, segments: list[DiskSegment], end: int) -> None:
        """Restore the producer states before offset `end` from a snapshot and the batches after it."""
        self._producers, first_missing = self.snapshots.latest(end)
        if first_missing >= end:
            return
        for segment in segments:
            if segment.end_offset > first_missing:
                for batch in segment.iterate(first_missing):
                    self._producers.record(batch)


class LogOpener:
    """Opens the logs of one broker. `background` flushes rolled segments; `find` returns an open log."""

    def __init__(
        self,
        disk: Disk,
        background: Background,
        checkpoints: CheckpointWriter,
        renamer: LogRenamer,
        find: Callable[[bytes, int], PartitionLog | None],
    ) -> None:
        self._disk = disk
        self._background = background
        self._checkpoints = checkpoints
        self._renamer = renamer
        self._find = find

    def create(self, volume: Volume, path: str, name: LogName, topic_id: bytes) -> PartitionLog:
        """Create an empty log in a new directory. Raise `KafkaStorageError`."""
        try:
            self._renamer.make_way(volume, path)
            self._checkpoints.forget(volume, *name)
            volume.files.make_directory(path)
            text = encode_topic_id(UUID(bytes=topic_id))
            # Flushed in the background: a topic of many partitions would wait for a flush of each.
            volume.files.replace(f"{path}/{PARTITION_METADATA}", text.encode(), flushes=False)
            return self.load(volume, path, name, topic_id, Checkpoints(), was_clean=True)
        except OSError as error:
            raise volume.fail(error, f"creating {path}") from error

    def load(
        self,
        volume: Volume,
        path: str,
        name: LogName,
        topic_id: bytes,
        checkpoints: Checkpoints,
        *,
        was_clean: bool,
    ) -> PartitionLog:
        """Load the log in a directory; it is recovered unless the data directory was closed cleanly.

        Raise `OSError` or `KafkaStorageError`.
        """
        loader = LogLoader(volume, path, checkpoints, was_clean)
        state = loader.load()
        files = DiskLogFiles(
            volume,
            path,
            self._disk,
            state,
            loader.snapshots,
            self._background,
            self._checkpoints.write_clean_offsets,
            partial(self._lower_recovery_point, topic_id, name.partition),
        )
        log = PartitionLog(name.topic, name.partition, topic_id, files)
        if not was_clean:
            files.epochs_changed(log.epochs.entries)
        return log

    def _lower_recovery_point(self, topic_id: bytes, partition: int) -> None:
        log = self._find(topic_id, partition)
        if log is not None:
            self._checkpoints.lower_recovery_point(log)


def read_topic_id(volume: Volume, directory: str) -> bytes:
    """Return the topic id in the directory of a log. Raise `CorruptData` or `OSError`."""
    path = f"{directory}/{PARTITION_METADATA}"
    return decode_topic_id(volume.files.read(path).decode("utf-8", "replace"), path).bytes
