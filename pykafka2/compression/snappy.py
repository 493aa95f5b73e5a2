"""snappy: raw blocks in the xerial framing that the Java client writes; raw unframed data is read too.

A stream is a header of 16 bytes and blocks, each after its length.  The snappy library has no limit on
output, so the length that each block declares is checked before it is decompressed.  Any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka2.compression.codec import MAX_OUTPUT_BYTES, Buffer, Codec
from pykafka2.compression.libraries import library
from pykafka2.compression.steps import FRAME_COST_BYTES, STEP_BYTES, Steps

MAGIC = b"\x82SNAPPY\x00"
HEADER = MAGIC + b"\0\0\0\x01" * 2  # version, lowest compatible version
BLOCK_BYTES = 32 << 10

# The format's best ratio is a copy of 64 bytes encoded in 3, so a larger declared length is wrong.
BEST_RATIO = 22

Function = Callable[[bytes], Any]
"""Compresses or decompresses a block; returns a buffer."""


class Snappy(Codec):
    id = 2
    name = "snappy"

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        self.check_level(level)
        compress, _ = _functions()
        view = memoryview(data)
        parts = [HEADER]
        for start in range(0, len(view), BLOCK_BYTES):
            block = bytes(compress(view[start : start + BLOCK_BYTES].tobytes()))
            parts += (len(block).to_bytes(4, "big"), block)
        return b"".join(parts)

    def decompress_in_steps(self, data: Buffer, max_output_bytes: int = MAX_OUTPUT_BYTES) -> Steps[bytes]:
        _, decompress = _functions()
        data = bytes(data)
        if not data.startswith(MAGIC):
            return self._block(decompress, data, max_output_bytes, max_output_bytes)
        parts: list[bytes] = []
        room, position = max_output_bytes, 0
        step_ends_at = room - STEP_BYTES
        while position < len(data):
            step_ends_at += FRAME_COST_BYTES
            if room <= step_ends_at:
                step_ends_at = room - STEP_BYTES
                yield max_output_bytes - room
            if data.startswith(MAGIC, position):  # concatenated streams have a header each
                position += len(HEADER)
                continue
            start = position + 4
            position = start + int.from_bytes(data[position:start], "big", signed=True)
            if not start < position <= len(data):
                raise self.damaged("a block is longer than the data")
            part = self._block(decompress, data[start:position], room, max_output_bytes)
            room -= len(part)
            parts.append(part)
        if position > len(data):
            raise self.damaged("it ends in its header")
        return b"".join(parts)

    def _block(self, decompress: Function, block: bytes, room: int, max_output_bytes: int) -> bytes:
        declared = self._declared_length(block)
        if declared > len(block) * BEST_RATIO:
            raise self.damaged(f"a block of {len(block)} bytes cannot hold {declared} decompressed bytes")
        if declared > room:
            raise self.too_large(max_output_bytes)
        try:
            part = bytes(decompress(block))
        except Exception as error:
            raise self.damaged(error) from error
        return part

    def _declared_length(self, block: bytes) -> int:
        length = 0
        for index, byte in enumerate(block[:5]):
            length |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return length
        raise self.damaged("a block declares no length")


def _functions() -> tuple[Function, Function]:
    package, module = library("snappy")
    if package == "cramjam":
        return module.snappy.compress_raw, module.snappy.decompress_raw
    return module.compress, module.decompress


CODEC = Snappy()
