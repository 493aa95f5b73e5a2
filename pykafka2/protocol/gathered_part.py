"""Parts of encoded frames that consist of several buffers, which are sent without joining them first.

The records of a fetch are whole batches, each with its own bytes in the log. Copying a megabyte of them into
one buffer takes about as long as sending it.
"""

from __future__ import annotations

from collections.abc import Sequence


class GatheredPart:
    """Consecutive buffers of one value. Immutable."""

    __slots__ = ("_length", "buffers")

    def __init__(self, buffers: Sequence[memoryview]) -> None:
        self.buffers = buffers
        self._length = sum(map(len, buffers))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"{self._length} bytes in {len(self.buffers)} buffers"

    def read(self) -> bytes:
        """Return the bytes in one buffer."""
        return b"".join(self.buffers)
