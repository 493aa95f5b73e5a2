"""lz4 in its frame format, in independent blocks of 64 KiB and without content size, as Java writes it.

Uses the package lz4, or cramjam if lz4 cannot be imported. Any thread.
"""

from __future__ import annotations

from pykafka2.compression import lz4_frames
from pykafka2.compression.codec import MAX_OUTPUT_BYTES, Buffer, Codec, frames_in_steps
from pykafka2.compression.libraries import library
from pykafka2.compression.steps import Steps

# Kafka's default, 9, means the fast compressor; every other level is a high-compression one (KIP-390).
FAST_LEVEL = 9

SHORTEST_HEADER = 7  # magic, two bytes of flags, checksum


class Lz4(Codec):
    id = 3
    name = "lz4"
    lowest_level = 1
    highest_level = 17

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        self.check_level(level)
        package, module = library("lz4")
        library_level = 0 if level is None or level == FAST_LEVEL else max(3, min(level, 12))
        if package == "cramjam":
            return lz4_frames.compress(module, data, library_level)
        compressed: bytes = module.compress(
            data,
            compression_level=library_level,
            block_size=module.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return compressed

    def decompress_in_steps(self, data: Buffer, max_output_bytes: int = MAX_OUTPUT_BYTES) -> Steps[bytes]:
        package, module = library("lz4")
        if package == "cramjam":
            return (yield from lz4_frames.decompress_in_steps(self, module, data, max_output_bytes))
        try:
            return (yield from frames_in_steps(self, module.LZ4FrameDecompressor, data, max_output_bytes))
        except (RuntimeError, EOFError) as error:
            raise self.damaged(error) from error

    def mend_header(self, data: bytes) -> bytes:
        """Replace the checksum of the first frame's header with the correct one.

        For message format 0, whose writers computed the checksum over the wrong bytes (KAFKA-3160).
        """
        start = lz4_frames.MAGIC_BYTES
        checksum_at = SHORTEST_HEADER - 1 + (8 if data[start : start + 1] and data[start] & 0x08 else 0)
        if len(data) <= checksum_at:
            return data
        checksum = lz4_frames.header_checksum(data[start:checksum_at])
        return data[:checksum_at] + bytes((checksum,)) + data[checksum_at + 1 :]


CODEC = Lz4()
