"""murmur2 of many keys at once, with numpy.

Used on any thread; pure. It loads numpy, so it is imported only to hash a long column. murmur2.py is the same
without numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pykafka2.producer.partitioning.murmur2 import _MIX, NO_KEY, SEED

Numbers = Any
"""A numpy array of integers."""

MAX_LANES = 8192
"""Rows that are hashed at a time; more would not fit into the processor's caches."""

_MIX_32 = np.uint32(_MIX)
_SHIFT_13, _SHIFT_15, _SHIFT_24 = np.uint32(13), np.uint32(15), np.uint32(24)


def murmur2_array(keys: Sequence[bytes | None]) -> Numbers:
    """Return the hash of each key as int64, NO_KEY for a null."""
    try:
        lengths = np.fromiter(map(len, keys), np.int64, len(keys))  # type: ignore[arg-type]
        blob = b"".join(keys)  # type: ignore[arg-type]
    except TypeError:  # a null
        lengths = np.fromiter((-1 if key is None else len(key) for key in keys), np.int64, len(keys))
        blob = b"".join([key for key in keys if key])
    ends = np.cumsum(np.maximum(lengths, 0))
    return murmur2_buffer(np.frombuffer(blob, np.uint8), ends - np.maximum(lengths, 0), lengths)


def murmur2_buffer(data: Numbers, starts: Numbers, lengths: Numbers) -> Numbers:
    """Return the hash of each key in data (uint8) as int64; NO_KEY for a length of -1."""
    hashes = np.full(len(lengths), NO_KEY, np.int64)
    # Every four bytes as a number at any offset; three bytes behind the end are read but not used.
    padded = np.concatenate((data[int(starts[0]) if len(starts) else 0 :], np.zeros(4, np.uint8)))
    words = np.ndarray((len(padded) - 3,), "<u4", padded, strides=(1,))
    first_byte = int(starts[0]) if len(starts) else 0
    # Sorted by length, the keys that still have a word are always the first ones.
    order = np.argsort(-lengths, kind="stable")[: int((lengths >= 0).sum())]
    for first in range(0, len(order), MAX_LANES):
        rows = order[first : first + MAX_LANES]
        hashes[rows] = _hashed(words, starts[rows] - first_byte, lengths[rows])
    return hashes


def _hashed(words: Numbers, starts: Numbers, lengths: Numbers) -> Numbers:
    """Return the hashes of keys that are sorted by length, the longest first."""
    h = np.uint32(SEED) ^ lengths.astype(np.uint32)
    whole = lengths >> 2
    # For each word, how many keys have it.
    counts = len(whole) - np.searchsorted(whole[::-1], np.arange(1, int(whole[0]) + 1))
    for index, count in enumerate(counts.tolist()):
        k = words[starts[:count] + 4 * index] * _MIX_32
        k ^= k >> _SHIFT_24
        k *= _MIX_32
        h[:count] *= _MIX_32
        h[:count] ^= k
    left = lengths & 3
    rows = np.nonzero(left)[0]
    tail = words[starts[rows] + 4 * whole[rows]] & (
        (np.uint32(1) << (8 * left[rows]).astype(np.uint32)) - np.uint32(1)
    )
    h[rows] = (h[rows] ^ tail) * _MIX_32
    h ^= h >> _SHIFT_13
    h *= _MIX_32
    h ^= h >> _SHIFT_15
    return h
