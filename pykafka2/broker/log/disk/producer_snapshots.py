"""Snapshots of producer states: NNN.snapshot has the states before offset NNN. Kafka's ProducerStateManager.

A snapshot has each producer's last batch only, so a restored producer recognizes one retried batch instead of
five, as in Kafka.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from pykafka2.broker.log.disk.index_files import (
    ProducerEntry,
    decode_producer_snapshot,
    encode_producer_snapshot,
)
from pykafka2.broker.log.file_system import FileSystem
from pykafka2.broker.log.producer_state import AppendedBatch, ProducerState, ProducerStates
from pykafka2.errors import CorruptData
from pykafka2.records.batch import NO_SEQUENCE

logger = logging.getLogger(__name__)

SNAPSHOT: Final = ".snapshot"
UNKNOWN: Final = -1


def entries_of(states: ProducerStates) -> list[ProducerEntry]:
    """Return the entries of a snapshot."""
    entries = []
    for state in states:
        first = states.transactions.first_offset_of(state.producer_id)
        last = state.batches[-1] if state.batches else None
        entries.append(
            ProducerEntry(
                state.producer_id,
                state.epoch,
                NO_SEQUENCE if last is None else last.last_sequence,
                UNKNOWN if last is None else last.last_offset,
                0 if last is None else last.last_offset - last.base_offset,
                state.last_timestamp,
                state.coordinator_epoch,
                UNKNOWN if first is None else first,
            )
        )
    return entries


def states_of(entries: Iterable[ProducerEntry]) -> ProducerStates:
    """Return the states in a snapshot."""
    states = ProducerStates()
    open_since = []
    for entry in entries:
        state = ProducerState(
            entry.producer_id, entry.producer_epoch, entry.timestamp, entry.coordinator_epoch
        )
        if entry.last_offset >= 0:
            first_sequence = NO_SEQUENCE
            if entry.last_sequence != NO_SEQUENCE:
                first_sequence = (entry.last_sequence - entry.offset_delta) & 0x7FFFFFFF
            state.batches.append(
                AppendedBatch(
                    first_sequence,
                    entry.last_sequence,
                    entry.last_offset - entry.offset_delta,
                    entry.last_offset,
                    entry.timestamp,
                )
            )
        states.add(state)
        if entry.first_transaction_offset >= 0:
            open_since.append((entry.first_transaction_offset, entry.producer_id))
    for offset, producer_id in sorted(open_since):
        states.transactions.begin(producer_id, offset)
    return states


class ProducerSnapshots:
    """The snapshots in one log's directory, by offset."""

    def __init__(self, files: FileSystem, directory: str, offsets: Iterable[int] = ()) -> None:
        self._files = files
        self.directory = directory
        self.offsets = sorted(offsets)

    def path_of(self, offset: int) -> str:
        return f"{self.directory}/{offset:020d}{SNAPSHOT}"

    def take(self, states: ProducerStates, offset: int) -> bool:
        """Write the states before `offset`, unless a snapshot has them. Raise `OSError`.

        Return whether it did; the file is not flushed.
        """
        if offset <= (self.offsets[-1] if self.offsets else 0):
            return False
        data = encode_producer_snapshot(entries_of(states))
        self._files.replace(self.path_of(offset), data, flushes=False)
        self.offsets.append(offset)
        return True

    def latest(self, offset: int) -> tuple[ProducerStates, int]:
        """Return the states of the latest snapshot up to `offset`, and its offset; 0 without one.

        A corrupt snapshot is removed, as in Kafka, and the one before it is read.
        """
        while (count := bisect_right(self.offsets, offset)) > 0:
            found = self.offsets[count - 1]
            path = self.path_of(found)
            try:
                return states_of(decode_producer_snapshot(self._files.read(path), path)), found
            except (CorruptData, FileNotFoundError) as error:
                logger.warning("Removed a producer snapshot that cannot be read: %s", error)
                self.remove([found])
        return ProducerStates(), 0

    def truncate_to(self, offset: int) -> None:
        """Remove the snapshots after `offset`."""
        self.remove(self.offsets[bisect_right(self.offsets, offset) :])

    def remove(self, offsets: Iterable[int]) -> None:
        for offset in list(offsets):
            if offset in self.offsets:
                self.offsets.remove(offset)
                with suppress(FileNotFoundError):
                    self._files.remove(self.path_of(offset))
