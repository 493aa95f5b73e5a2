"""The interface between a log and the storage of everything beside its segments.

`MemoryLogFiles` keeps nothing but the producer states before the log's start; `DiskLogFiles`
(disk/log_directory.py) writes Kafka's files. A log calls it after each change. Access requires the cluster's
lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from pykafka2.broker.log.leader_epochs import EpochEntry
from pykafka2.broker.log.producer_state import ProducerStates
from pykafka2.broker.log.segment import MemorySegment, Segment
from pykafka2.broker.log.segments import Segments
from pykafka2.broker.log.transaction_index import AbortedTransaction


@attrs.define
class DiskSettings:
    """The options that files depend on: those of the broker, or of a topic."""

    index_interval_bytes: int = 4096
    max_index_bytes: int = 10 << 20
    delete_delay: float = 60.0
    """Seconds between the deletion of a file and its removal (file.delete.delay.ms)."""

    def update(self, other: DiskSettings) -> None:
        """Take the values of other settings."""
        self.index_interval_bytes = other.index_interval_bytes
        self.max_index_bytes = other.max_index_bytes
        self.delete_delay = other.delete_delay


@attrs.define
class Disk:
    """The disk of one broker's logs; while `is_full` every append fails."""

    is_full: bool = False
    refused: int = 0
    """The number of failed appends."""


@attrs.define
class LogState:
    """The state that a log starts with: empty, or as the storage has found it."""

    segments: list[Segment]
    log_start_offset: int = 0
    log_end_offset: int = 0
    high_watermark: int = 0
    recovery_point: int = 0
    clean_offset: int = 0
    epochs: list[EpochEntry] = attrs.field(factory=list)
    producers: ProducerStates = attrs.field(factory=ProducerStates)
    aborted: list[AbortedTransaction] = attrs.field(factory=list)


class OpenLog(Protocol):
    """A `PartitionLog`, as its storage sees it."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    producers: ProducerStates
    segments: Segments
    changes: int


class LogFiles(Protocol):
    """The storage of one log. `disk` fails every append while it is full."""

    disk: Disk

    @property
    def is_in_memory(self) -> bool:
        """Whether no batch is in a file."""
        ...

    @property
    def is_offline(self) -> bool:
        """Whether its data directory has failed."""
        ...

    def load(self) -> LogState:
        """Return the state of the log, once."""
        ...

    def configure(self, settings: DiskSettings) -> None:
        """Set the topic's options for the following appends and deletions."""
        ...

    def new_segment(self, base_offset: int) -> Segment:
        """Create the segment that a roll makes active."""
        ...

    def new_cleaned_segment(self, base_offset: int) -> Segment:
        """Create a segment for a compaction, which is not yet part of the log."""
        ...

    def rolled(self, log: OpenLog) -> None:
        """Handle a new active segment, before a record is appended to it."""
        ...

    def epochs_changed(self, epochs: Sequence[EpochEntry]) -> None:
        """Handle another list of leader epochs."""
        ...

    def flush(self, log: OpenLog) -> None:
        """Force everything up to the log's end to the disk, and advance its recovery point."""
        ...

    def producers_at(self, log: OpenLog, offset: int) -> tuple[ProducerStates, int]:
        """Return the latest known producer states up to `offset`, and the first offset that is missing."""
        ...

    def drop(self, segments: Sequence[Segment]) -> None:
        """Delete the oldest segments, which are no longer part of the log."""
        ...

    def replace(self, replaced: Sequence[Segment], cleaned: Sequence[Segment]) -> None:
        """Put cleaned segments in the place of replaced ones, which are deleted."""
        ...

    def truncated(self, end_offset: int, dropped: int) -> None:
        """Handle that a log ends earlier, and has lost `dropped` segments."""
        ...

    def cleared(self) -> None:
        """Handle that a log has lost all records and starts at another offset."""
        ...


class MemoryLogFiles:
    """The storage of a log in memory."""

    __slots__ = ("_before_start", "disk")

    is_in_memory = True
    is_offline = False

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = Disk() if disk is None else disk
        self._before_start = ProducerStates()

    def load(self) -> LogState:
        return LogState([MemorySegment(0)])

    def configure(self, settings: DiskSettings) -> None: ...

    def new_segment(self, base_offset: int) -> Segment:
        return MemorySegment(base_offset)

    def new_cleaned_segment(self, base_offset: int) -> Segment:
        return MemorySegment(base_offset)

    def rolled(self, log: OpenLog) -> None: ...

    def epochs_changed(self, epochs: Sequence[EpochEntry]) -> None: ...

    def flush(self, log: OpenLog) -> None:
        log.recovery_point = log.log_end_offset

    def producers_at(self, log: OpenLog, offset: int) -> tuple[ProducerStates, int]:
        return self._before_start, 0

    def drop(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            for batch in segment.iterate():
                self._before_start.record(batch)
            segment.delete()

    def replace(self, replaced: Sequence[Segment], cleaned: Sequence[Segment]) -> None:
        for segment in replaced:
            segment.delete()

    def truncated(self, end_offset: int, dropped: int) -> None: ...

    def cleared(self) -> None:
        self._before_start = ProducerStates()
