"""The result of a read from a partition's log: batches, or where they are in a file."""

from __future__ import annotations

from typing import Final

import attrs

from pykafka2.broker.log.disk.file_system import FileRegion
from pykafka2.broker.log.disk.held_files import part_of
from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.gathered_part import GatheredPart
from pykafka2.records.batch import Buffer, RecordBatch

MIN_GATHERED_BYTES: Final = 8192
"""The mean size from which batches are sent as they are; copying smaller ones into one buffer is cheaper."""


@attrs.define
class ReadResult:
    """Whole batches as stored, starting with the one that contains the requested offset.

    `region`: where the batches are in a file, if they were only located.
    """

    batches: list[RecordBatch]
    region: FileRegion | None = None

    @property
    def size_bytes(self) -> int:
        if self.region is not None:
            return self.region.length
        return sum(len(batch.buffer) for batch in self.batches)

    def end_offset(self, otherwise: int) -> int:
        """Return the offset after the last batch, or `otherwise` if there is none."""
        if self.region is not None:
            return self.region.next_offset
        return self.batches[-1].next_offset if self.batches else otherwise

    def records(self) -> Buffer | FilePart | GatheredPart:
        """Return the batches for a response; those in a file as a part of it, for the kernel to send."""
        if self.region is not None:
            return part_of(self.region)
        if len(self.batches) < 2:
            return self.joined()
        part = GatheredPart([batch.buffer for batch in self.batches])
        return part if len(part) >= MIN_GATHERED_BYTES * len(self.batches) else part.read()

    def joined(self) -> Buffer:
        """Return the bytes in one buffer, without a copy if there is at most one batch."""
        if len(self.batches) == 1:
            return self.batches[0].buffer
        return b"".join(batch.buffer for batch in self.batches)
