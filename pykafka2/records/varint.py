"""Zigzag varints of record format 2, written from a table and read with a maximum length.

Any thread; no state. The hot loops of encoder.py and decoder.py use VARINTS, or read numbers of one and two
bytes in line; longer ones are read here.
"""

from __future__ import annotations

from pykafka2.errors import CorruptData

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10

# Every varint of one or two bytes that is not negative: lengths, counts and deltas from 0 to 8191.
VARINTS = [bytes((2 * n,)) for n in range(64)]
VARINTS += [bytes((2 * n & 0x7F | 0x80, n >> 6)) for n in range(64, 8192)]

NULL = b"\1"
"""The length -1, which means a null key or value."""


def varint(value: int) -> bytes:
    """Return the zigzag varint of a signed 64-bit number; raise ValueError for a larger one."""
    if 0 <= value < len(VARINTS):
        return VARINTS[value]
    if not -1 << 63 <= value < 1 << 63:
        raise ValueError(f"{value} does not fit into 64 bits")
    raw = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


def varint_size(value: int) -> int:
    """Return how many bytes the varint of value takes."""
    raw = (value << 1) ^ (value >> 63)
    return max(1, (raw.bit_length() + 6) // 7)


def read_raw(buffer: bytes, position: int, max_bytes: int = MAX_VARINT_BYTES) -> tuple[int, int]:
    """Return the unsigned number at position, without zigzag decoding, and the position after it.

    Raises:
        CorruptData: it is longer than max_bytes.
        IndexError: the buffer ends within it.
    """
    raw = 0
    for index in range(max_bytes):
        byte = buffer[position + index]
        raw |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return raw, position + index + 1
    raise CorruptData(f"varint at byte {position} is longer than {max_bytes} bytes")


def read_varint(buffer: bytes, position: int, max_bytes: int = MAX_VARINT_BYTES) -> tuple[int, int]:
    """Return the signed number at position and the position after it; raise like `read_raw`."""
    raw, position = read_raw(buffer, position, max_bytes)
    return (raw >> 1) ^ -(raw & 1), position
