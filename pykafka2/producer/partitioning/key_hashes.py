"""Hashes of keys beside Java's murmur2 (murmur2.py), and a cache for those that are slow in Python.

Used on any thread; the caches are the only state. Clients that must send a key to the same partition use the
same hash.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, repeat
from zlib import crc32 as crc32

from pykafka2.native import compiled
from pykafka2.producer.delivery.callbacks import HAS_GIL
from pykafka2.producer.partitioning.murmur2 import POSITIVE_BY_LENGTH
from pykafka2.producer.partitioning.murmur2 import positive_murmur2 as positive_murmur2

# A hash costs 1 to 6 us, a look-up 0.06. A program has few keys, or a cache does not help.
CACHED_KEYS = 10_000
CACHED_KEY_BYTES = 1 << 20
LONGEST_CACHED_KEY_BYTES = 1 << 12
ALL_CACHED_BELOW = 1000
ONE_OF = 8
"""Beyond ALL_CACHED_BELOW keys one unknown key in ONE_OF is cached. Frequent keys soon are, and keys that
never come again cost little more than their hash."""

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_MASK = 0xFFFFFFFF


def fnv1a(key: bytes) -> int:
    """Return the 32-bit FNV-1a hash of librdkafka and sarama: the absolute value of the signed number."""
    h = _FNV_OFFSET
    for byte in key:
        h = ((h ^ byte) * _FNV_PRIME) & _MASK
    return h if h < 1 << 31 else (1 << 32) - h


class _OfAnyLength(dict[int, Callable[[bytes], int]]):
    """One function for keys of all lengths."""

    def __init__(self, function: Callable[[bytes], int]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, length: int) -> Callable[[bytes], int]:
        return self._function


class KeyHashes(dict[bytes, int]):
    """A cache of the hashes of keys: `hashes[key]` computes unknown ones. Any thread.

    Bounded by the number and the bytes of the keys. A long key is not cached, as it would evict all others.
    """

    __slots__ = ("_by_length", "_is_skipped", "_key_bytes", "function")

    def __init__(self, function: Callable[[bytes], int] = positive_murmur2) -> None:
        super().__init__()
        self.function = function
        self._by_length = POSITIVE_BY_LENGTH if function is positive_murmur2 else _OfAnyLength(function)
        self._key_bytes = 0
        # An iterator in C, so that keys that never come again cost little more than their hash.
        self._is_skipped: Callable[[], bool] = repeat(False).__next__
        if function is positive_murmur2 and compiled is not None:
            self._by_length = _OfAnyLength(compiled.murmur2)
            self._is_skipped = repeat(True).__next__  # a look-up costs as much as the hash

    def __missing__(self, key: bytes) -> int:
        number = self._by_length[len(key)](key)
        if self._is_skipped():
            return number
        if len(key) > LONGEST_CACHED_KEY_BYTES:
            return number
        if len(self) >= CACHED_KEYS or self._key_bytes + len(key) > CACHED_KEY_BYTES:
            self.clear()
            self._key_bytes = 0
            self._is_skipped = repeat(False).__next__
        self[key] = number
        # Without the global lock two threads in one `cycle` can read beyond its end (CPython 3.13).
        if len(self) == ALL_CACHED_BELOW and HAS_GIL:
            self._is_skipped = cycle((True,) * (ONE_OF - 1) + (False,)).__next__
        # Concurrent threads can miss the bytes of a key, which the number of keys bounds.
        self._key_bytes += len(key)
        return number
