"""zstd by the standard library where it has it (CPython 3.14), else by zstandard, else by cramjam.

Any thread: contexts are made for each call, because they may not be shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.compression.codec import CHUNK_BYTES, MAX_OUTPUT_BYTES, Buffer, Codec, decompress_frames

if TYPE_CHECKING:
    import zstandard

DEFAULT_LEVEL = 3

# A block tells up to 128 KiB in as little as 4 bytes, so one byte of input makes at most this much output.
MOST_OUTPUT_PER_BYTE = (128 << 10) // 4


class Zstd(Codec):
    id = 4
    name = "zstd"
    lowest_level = -131072
    highest_level = 22

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        self.check_level(level)
        # Level 0 is the library's word for its default; Kafka hands it through.
        level = DEFAULT_LEVEL if level is None else level
        try:
            from compression import zstd
        except ImportError:
            pass
        else:
            compressed: bytes = zstd.compress(data, level=level)
            return compressed
        try:
            import zstandard
        except ImportError as missing:
            from pykafka2.compression import fallback

            return fallback.compress(self, "zstd", data, level, missing)
        return zstandard.ZstdCompressor(level=level).compress(data)

    def decompress(self, data: Buffer, max_output_bytes: int = MAX_OUTPUT_BYTES) -> bytes:
        try:
            from compression import zstd
        except ImportError:
            pass
        else:
            try:
                return decompress_frames(self, zstd.ZstdDecompressor, data, max_output_bytes)
            except zstd.ZstdError as error:
                raise self.damaged(error) from error
        try:
            import zstandard
        except ImportError as missing:
            from pykafka2.compression import fallback

            return fallback.decompress(self, "zstd", data, max_output_bytes, missing)
        try:
            return self._by_zstandard(zstandard.ZstdDecompressor(), data, max_output_bytes)
        except zstandard.ZstdError as error:
            raise self.damaged(error) from error

    def _by_zstandard(
        self, context: zstandard.ZstdDecompressor, data: Buffer, max_output_bytes: int
    ) -> bytes:
        """Its streams take no cap on output, so input is rationed by what it could become."""
        view = memoryview(data)
        parts: list[bytes] = []
        room, position = max_output_bytes, 0
        frame = context.decompressobj()
        while True:
            if frame.eof:
                position -= len(frame.unused_data)
                if position >= len(view):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
                frame = context.decompressobj()
            ration = min(max(room // MOST_OUTPUT_PER_BYTE, 8), CHUNK_BYTES)
            chunk = view[position : position + ration]
            if not chunk:
                raise self.damaged("it ends in the middle of a frame")
            position += len(chunk)
            part = frame.decompress(chunk)
            room -= len(part)
            if room < 0:
                raise self.too_large(max_output_bytes)
            if part:
                parts.append(part)


CODEC = Zstd()
