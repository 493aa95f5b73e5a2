"""Which leader epoch wrote from which offset on (KIP-101); replicas compare it to find where they parted."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1


class EpochEntry(NamedTuple):
    """`epoch` wrote its first record at `start_offset`."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Where `epoch` ends: the offset after its last record; both -1 where that is not known."""

    epoch: int
    end_offset: int


NO_EPOCH_END = EpochEnd(UNKNOWN_EPOCH, UNKNOWN_OFFSET)


class LeaderEpochs:
    """The epochs of one log, in order.  Both epochs and offsets only grow."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[EpochEntry] = []

    @property
    def latest(self) -> int:
        return self.entries[-1].epoch if self.entries else UNKNOWN_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` writes from `start_offset` on; nothing happens where that is known already."""
        if self.entries and self.entries[-1].epoch >= epoch:
            return
        # An epoch that wrote nothing leaves no trace once a later one starts at the same offset.
        while self.entries and self.entries[-1].start_offset >= start_offset:
            self.entries.pop()
        self.entries.append(EpochEntry(epoch, start_offset))

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch that is not above `epoch`, and where it ends (OffsetForLeaderEpoch)."""
        if epoch == UNKNOWN_EPOCH or not self.entries:
            return NO_EPOCH_END
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        index = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        if index == len(self.entries):
            # Newer than all that this log has seen: the asker knows more than we do.
            return NO_EPOCH_END
        if index == 0:
            # Older than all: whatever it wrote ends where the first known epoch begins.
            return EpochEnd(epoch, self.entries[0].start_offset)
        return EpochEnd(self.entries[index - 1].epoch, self.entries[index].start_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`, -1 if not known."""
        index = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[index - 1].epoch if index else UNKNOWN_EPOCH

    def truncate_to(self, end_offset: int) -> None:
        """Forget epochs that start at or after `end_offset`."""
        while self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries.pop()

    def drop_before(self, start_offset: int) -> None:
        """The log starts at `start_offset` now: the epoch that holds it starts there, older ones are gone."""
        index = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset)
        if index:
            kept = self.entries[index - 1 :]
            kept[0] = EpochEntry(kept[0].epoch, max(start_offset, kept[0].start_offset))
            self.entries = kept
