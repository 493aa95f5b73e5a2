"""Start offsets of leader epochs (KIP-101); replicas compare them to find where their logs diverge."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1


class EpochEntry(NamedTuple):
    """The start offset of a leader epoch."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The end of a leader epoch: the offset after its last record. Both are -1 if it is unknown."""

    epoch: int
    end_offset: int


NO_EPOCH_END = EpochEnd(UNKNOWN_EPOCH, UNKNOWN_OFFSET)


def ignore(entries: Sequence[EpochEntry]) -> None:
    """Do nothing."""


class LeaderEpochs:
    """The leader epochs of one log, in ascending order of epochs and offsets.

    `on_changed` is called with the entries after each change.
    """

    __slots__ = ("_on_changed", "entries")

    def __init__(
        self,
        entries: Iterable[EpochEntry] = (),
        on_changed: Callable[[Sequence[EpochEntry]], None] = ignore,
    ) -> None:
        self.entries = [*entries]
        self._on_changed = on_changed

    @property
    def latest(self) -> int:
        return self.entries[-1].epoch if self.entries else UNKNOWN_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add an epoch that starts at `start_offset`; ignore an epoch that is known already."""
        if self.entries and self.entries[-1].epoch >= epoch:
            return
        # An epoch without records is dropped once a later one starts at the same offset.
        while self.entries and self.entries[-1].start_offset >= start_offset:
            self.entries.pop()
        self.entries.append(EpochEntry(epoch, start_offset))
        self._on_changed(self.entries)

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Return the largest epoch up to `epoch` and its end offset (OffsetForLeaderEpoch)."""
        if epoch == UNKNOWN_EPOCH or not self.entries:
            return NO_EPOCH_END
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        index = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        if index == len(self.entries):
            # Newer than every epoch of this log: the requester knows more.
            return NO_EPOCH_END
        if index == 0:
            # Older than every epoch: its records end where the first known epoch starts.
            return EpochEnd(epoch, self.entries[0].start_offset)
        return EpochEnd(self.entries[index - 1].epoch, self.entries[index].start_offset)

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of `offset`, -1 if it is unknown."""
        index = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[index - 1].epoch if index else UNKNOWN_EPOCH

    def truncate_to(self, end_offset: int) -> None:
        """Drop epochs that start at or after `end_offset`."""
        before = len(self.entries)
        while self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries.pop()
        if len(self.entries) != before:
            self._on_changed(self.entries)

    def clear(self) -> None:
        if self.entries:
            self.entries = []
            self._on_changed(self.entries)

    def drop_before(self, start_offset: int) -> None:
        """Drop epochs before the log's new start; the epoch of `start_offset` now starts there."""
        index = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset)
        if index:
            kept = self.entries[index - 1 :]
            kept[0] = EpochEntry(kept[0].epoch, max(start_offset, kept[0].start_offset))
            if kept != self.entries:
                self.entries = kept
                self._on_changed(kept)
