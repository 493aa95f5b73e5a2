"""murmur2 of many keys at once, in plain Python: one number with thousands of digits holds a lane a key.

Any thread; pure.  A lane has 64 bits of which a hash takes the lower 32, so that a product with murmur2's
constant stays within it, and one multiplication of long numbers serves all keys of one length: 0.1 us a word
of four bytes and key less than one by one.  murmur2_numpy.py does it with numpy, where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pykafka2.producer.murmur2 import _MIX, SEED, murmur2

NO_KEY = -1
"""The hash of a null, which has none."""

LANE_BYTES = 8
MIN_LANES = 8
"""Fewer keys of a length are faster one by one."""
MAX_LANES = 4096
"""More would not fit into the processor's caches."""


def murmur2_column(keys: Sequence[bytes | None]) -> list[int]:
    """The unsigned 32-bit hash of each key, as `murmur2.murmur2` computes it; NO_KEY for a null."""
    by_length: dict[int, list[int]] = {}
    hashes = [NO_KEY] * len(keys)
    for row, key in enumerate(keys):
        if key is not None:
            by_length.setdefault(len(key), []).append(row)
    for length, rows in by_length.items():
        for first in range(0, len(rows), MAX_LANES):
            some = rows[first : first + MAX_LANES]
            if len(some) < MIN_LANES:
                results = [murmur2(keys[row]) for row in some]  # type: ignore[arg-type]
            else:
                blob = b"".join([keys[row] for row in some])  # type: ignore[misc]
                results = _of_one_length(blob, length, len(some))
            for row, result in zip(some, results, strict=True):
                hashes[row] = result
    return hashes


def _of_one_length(blob: bytes, length: int, count: int) -> list[int]:
    """The hashes of `count` keys that lie one behind the other in blob."""
    low_32, low_19, low_17, low_8 = (_in_each_lane((1 << bits) - 1, count) for bits in (32, 19, 17, 8))
    h = _in_each_lane(SEED ^ length, count)
    whole = length & ~3
    for place in range(0, whole, 4):
        k = _word(blob, place, 4, length, count) * _MIX & low_32
        # What a shift brings in from the lane above is masked away.
        k ^= k >> 24 & low_8
        h = (h * _MIX & low_32) ^ (k * _MIX & low_32)
    if length > whole:
        h = (h ^ _word(blob, whole, length - whole, length, count)) * _MIX & low_32
    h ^= h >> 13 & low_19
    h = h * _MIX & low_32
    h ^= h >> 15 & low_17
    return memoryview(h.to_bytes(LANE_BYTES * count, "little")).cast("Q").tolist()


def _word(blob: bytes, place: int, size: int, length: int, count: int) -> int:
    """The bytes of each key from place on, as a number in its lane."""
    lanes = bytearray(LANE_BYTES * count)
    for index in range(size):
        lanes[index::LANE_BYTES] = blob[place + index :: length]
    return int.from_bytes(lanes, "little")


@lru_cache(maxsize=16)
def _in_each_lane(number: int, count: int) -> int:
    return int.from_bytes(number.to_bytes(LANE_BYTES, "little") * count, "little")
