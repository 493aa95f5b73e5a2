"""zstd from the standard library if available (CPython 3.14), else from zstandard, else from cramjam.

Thread-safe.  Threads must not share contexts, so each thread keeps its last compression context; creating one
costs a third of compressing a batch of 16 KiB.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from pykafka2.compression.codec import MAX_OUTPUT_BYTES, Buffer, Codec, frames_in_steps
from pykafka2.compression.steps import FRAME_COST_BYTES, STEP_BYTES, Steps

if TYPE_CHECKING:
    import zstandard

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


class Zstd(Codec):
    id = 4
    name = "zstd"
    lowest_level = -131072
    highest_level = 22

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        self.check_level(level)
        # Level 0 is the library's word for its default; Kafka hands it through.
        level = DEFAULT_LEVEL if level is None else level
        standard = _standard_library()
        if standard is not None:
            compressed: bytes = standard.compress(data, level=level)
            return compressed
        try:
            import zstandard
        except ImportError as missing:
            from pykafka2.compression import fallback

            return fallback.compress(self, "zstd", data, level, missing)
        if level > HIGHEST_LEVEL_KEPT:
            return zstandard.ZstdCompressor(level=level).compress(data)
        if getattr(_kept, "level", None) != level:
            _kept.compressor = zstandard.ZstdCompressor(level=level)
            _kept.level = level
        kept: zstandard.ZstdCompressor = _kept.compressor
        return kept.compress(data)

    def decompress_in_steps(self, data: Buffer, max_output_bytes: int = MAX_OUTPUT_BYTES) -> Steps[bytes]:
        standard = _standard_library()
        if standard is not None:
            try:
                return (yield from frames_in_steps(self, standard.ZstdDecompressor, data, max_output_bytes))
            except standard.ZstdError as error:
                raise self.damaged(error) from error
        try:
            import zstandard
        except ImportError as missing:
            from pykafka2.compression import fallback

            return fallback.decompress(self, "zstd", data, max_output_bytes, missing)
        try:
            return (yield from self._by_zstandard(zstandard.ZstdDecompressor(), data, max_output_bytes))
        except zstandard.ZstdError as error:
            raise self.damaged(error) from error

    def _by_zstandard(
        self, context: zstandard.ZstdDecompressor, data: Buffer, max_output_bytes: int
    ) -> Steps[bytes]:
        """Its streams take no cap on output, so input is rationed by what it could become."""
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


def _standard_library() -> Any:
    """Returns compression.zstd or None.  Checks the version first: a failing import costs as much as a
    batch.
    """
    if sys.hexversion < 0x030E0000:
        return None
    try:
        from compression import zstd
    except ImportError:
        return None
    return zstd


CODEC = Zstd()
