"""zstd with zstandard if installed, else the standard library (CPython 3.14) or its backport, else cramjam.

Thread-safe.  Threads must not share contexts, so each thread keeps its last compression context; creating one
takes a third of the time that a batch of 16 KiB takes.
"""

from __future__ import annotations

import threading
from typing import Any

from pykafka2.compression.codec import MAX_OUTPUT_BYTES, Buffer, Codec, frames_in_steps
from pykafka2.compression.libraries import library
from pykafka2.compression.steps import FRAME_COST_BYTES, STEP_BYTES, Steps

DEFAULT_LEVEL = 3

# Contexts of higher levels take tens of megabytes, too many to keep for each thread.
HIGHEST_LEVEL_KEPT = 9

_kept = threading.local()

# A block of 4 bytes can contain 128 KiB, so one byte of input makes at most this many bytes of output.
MOST_OUTPUT_PER_BYTE = (128 << 10) // 4

# Input is given in pieces that make at most STEP_BYTES of output each, and in larger ones (of up to 32 MiB)
# while the pieces before them were compressed at a usual ratio.
SMALL_PIECE = STEP_BYTES // MOST_OUTPUT_PER_BYTE
LARGE_PIECE = 8 * SMALL_PIECE
USUAL_RATIO = 64

FIRST_BUFFER_BYTES = 64 << 10


class Zstd(Codec):
    id = 4
    name = "zstd"
    lowest_level = -131072
    highest_level = 22

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        self.check_level(level)
        # Level 0 means the library's default; Kafka passes it on.
        level = DEFAULT_LEVEL if level is None else level
        package, module = library("zstd")
        if package == "cramjam":
            return bytes(module.zstd.compress(data, level=level))
        compressor = _compressor(package, module, level)
        if package == "zstandard":
            compressed: bytes = compressor.compress(data)
        else:
            compressed = compressor.compress(data, compressor.FLUSH_FRAME)
        return compressed

    def decompress_in_steps(self, data: Buffer, max_output_bytes: int = MAX_OUTPUT_BYTES) -> Steps[bytes]:
        package, module = library("zstd")
        if package == "cramjam":
            return (yield from self._by_cramjam(module, data, max_output_bytes))
        try:
            if package == "zstandard":
                return (yield from self._by_zstandard(module.ZstdDecompressor(), data, max_output_bytes))
            return (yield from frames_in_steps(self, module.ZstdDecompressor, data, max_output_bytes))
        except module.ZstdError as error:
            raise self.damaged(error) from error

    def _by_cramjam(self, cramjam: Any, data: Buffer, max_output_bytes: int) -> Steps[bytes]:
        """Decompress into buffers of growing size, at most one byte larger than the limit.

        cramjam has no stream, so each buffer is one step, however large. It is used only if none of the
        other libraries can be imported.
        """
        if not data:
            raise self.damaged("it ends in the middle of a frame")
        largest = min(MOST_OUTPUT_PER_BYTE * len(data), max_output_bytes + 1)
        size = max(FIRST_BUFFER_BYTES, 4 * len(data))
        while True:
            size = min(size, largest)
            output = bytearray(size)
            try:
                written: int = cramjam.zstd.decompress_into(data, output)
            except cramjam.DecompressionError as error:
                # The same error means a full buffer or damage; a larger buffer tells which.
                if size < largest:
                    size *= 4
                    yield 0
                    continue
                why = f"{error}"
                if size > max_output_bytes:
                    why += f", or it decompresses to more than {max_output_bytes} bytes"
                raise self.damaged(why) from error
            if written > max_output_bytes:
                raise self.too_large(max_output_bytes)
            return bytes(memoryview(output)[:written])

    def _by_zstandard(self, context: Any, data: Buffer, max_output_bytes: int) -> Steps[bytes]:
        """Limit the input by its largest possible output: zstandard's streams cannot limit output."""
        view = memoryview(data)
        parts: list[bytes] = []
        room, position = max_output_bytes, 0
        step_ends_at = room - STEP_BYTES
        frame = context.decompressobj()
        piece = SMALL_PIECE
        while True:
            if frame.eof:
                position -= len(frame.unused_data)
                if position >= len(view):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
                frame = context.decompressobj()
                step_ends_at += FRAME_COST_BYTES
            ration = min(max(room // MOST_OUTPUT_PER_BYTE, 8), piece)
            chunk = view[position : position + ration]
            if not chunk:
                raise self.damaged("it ends in the middle of a frame")
            position += len(chunk)
            part = frame.decompress(chunk)
            room -= len(part)
            is_usual = len(part) <= len(chunk) * USUAL_RATIO
            piece = min(2 * piece, LARGE_PIECE) if is_usual else SMALL_PIECE
            if room < 0:
                raise self.too_large(max_output_bytes)
            if part:
                parts.append(part)
            if room <= step_ends_at:
                step_ends_at = room - STEP_BYTES
                yield max_output_bytes - room


def _compressor(package: str, module: Any, level: int) -> Any:
    """Return this thread's compression context for the level."""
    if level > HIGHEST_LEVEL_KEPT:
        return module.ZstdCompressor(level=level)
    if getattr(_kept, "key", None) != (package, level):
        _kept.compressor = module.ZstdCompressor(level=level)
        _kept.key = (package, level)
    return _kept.compressor


CODEC = Zstd()
