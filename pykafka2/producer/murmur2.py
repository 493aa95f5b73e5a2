"""murmur2 as Kafka's Java client computes it for keys: 32 bits, little-endian, its own seed.

Any thread; no state.  Every client that should agree on partitions agrees on this.
"""

from __future__ import annotations

from struct import Struct

SEED = 0x9747B28C
_MIX = 0x5BD1E995
_MASK = 0xFFFFFFFF

_SHORT = [Struct(f"<{words}I") for words in range(33)]
"""Reads so many words of four bytes."""


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit hash.  1 to 3 us for keys of 10 to 36 bytes; key_hashes.py keeps results."""
    length = len(data)
    words = length >> 2
    h = SEED ^ length
    for k in (_SHORT[words] if words < len(_SHORT) else Struct(f"<{words}I")).unpack_from(data):
        k = k * _MIX & _MASK
        h = (h * _MIX ^ (k ^ k >> 24) * _MIX) & _MASK
    if length & 3:
        h = ((h ^ int.from_bytes(data[words << 2 :], "little")) * _MIX) & _MASK
    h ^= h >> 13
    h = (h * _MIX) & _MASK
    return h ^ (h >> 15)


def positive_murmur2(data: bytes) -> int:
    """What Java takes modulo the number of partitions."""
    return murmur2(data) & 0x7FFFFFFF


def positive(number: int) -> int:
    """Java's `toPositive`: the sign bit cleared."""
    return number & 0x7FFFFFFF
