"""The input of the clients of `benchmarks.producer`: the same bytes for all of them, made beforehand."""

from __future__ import annotations

import random
from itertools import cycle, islice

import attrs

from benchmarks.producer.runs import Cell

POOL = 2000
"""So many different values, in turns; unique keys are UNIQUE_KEYS in turns, far more than any cache holds."""
UNIQUE_KEYS = 50_000
CHUNK = 20_000
"""Rows of one call with columns."""

WORDS = (
    b"order ship pay refund cancel invoice customer basket item price euro dollar paris tokyo lagos lima"
).split()


@attrs.frozen
class Inputs:
    """Values, and as many keys or none."""

    values: list[bytes]
    keys: list[bytes] | None

    def chunk(self) -> tuple[list[bytes], list[bytes] | None]:
        """CHUNK rows, for a call with columns."""
        values = list(islice(cycle(self.values), CHUNK))
        return values, None if self.keys is None else list(islice(cycle(self.keys), CHUNK))


def inputs_of(cell: Cell) -> Inputs:
    """Return words and numbers, so that codecs find about what they find in real data."""
    chance = random.Random(1)
    sizes = [cell.size] * POOL
    if cell.lengths == "varying":
        sizes = [chance.randrange(cell.size // 2, cell.size * 3 // 2 + 1) for _ in range(POOL)]
    values = [_text(chance, size) for size in sizes]
    keys = None
    if cell.keys == "1000":
        keys = [b"customer-%05d" % number for number in range(1000)]
    elif cell.keys == "unique":
        keys = [chance.randbytes(18).hex().encode() for _ in range(UNIQUE_KEYS)]
    return Inputs(values, keys)


def _text(chance: random.Random, size: int) -> bytes:
    parts, length = [], 0
    while length < size:
        part = b"%s=%d " % (chance.choice(WORDS), chance.randrange(100_000))
        parts.append(part)
        length += len(part)
    return b"".join(parts)[:size]
