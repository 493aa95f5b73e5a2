"""lz4 in its frame format, in independent blocks of 64 KiB and without content size, as Java writes it.

Uses the lz4 package, or cramjam if that has no wheel. Any thread.
"""

from __future__ import annotations

from pykafka2.compression.codec import MAX_OUTPUT_BYTES, Buffer, Codec, frames_in_steps
from pykafka2.compression.steps import Steps

# Kafka's default, 9, means the fast compressor; every other level is a high-compression one (KIP-390).
FAST_LEVEL = 9

SHORTEST_HEADER = 7  # magic, two bytes of flags, checksum
CONTENT_SIZE_FLAG = 0x08


class Lz4(Codec):
    id = 3
    name = "lz4"
    lowest_level = 1
    highest_level = 17

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        self.check_level(level)
        try:
            import lz4.frame
        except ImportError as missing:
            from pykafka2.compression import fallback

            return fallback.compress(self, "lz4", data, None, missing)
        compressed: bytes = lz4.frame.compress(
            data,
            compression_level=0 if level is None or level == FAST_LEVEL else max(3, min(level, 12)),
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return compressed

    def decompress_in_steps(self, data: Buffer, max_output_bytes: int = MAX_OUTPUT_BYTES) -> Steps[bytes]:
        try:
            import lz4.frame
        except ImportError as missing:
            from pykafka2.compression import fallback

            return fallback.decompress(self, "lz4", data, max_output_bytes, missing)
        try:
            return (yield from frames_in_steps(self, lz4.frame.LZ4FrameDecompressor, data, max_output_bytes))
        except (RuntimeError, EOFError) as error:
            raise self.damaged(error) from error

    def mend_header(self, data: bytes) -> bytes:
        """Replace the header checksum of a frame by the one that the library expects.

        For message format 0, whose writers computed the checksum over the wrong bytes (KAFKA-3160). It is one
        byte, so all values can be tried without a hash function.
        """
        try:
            import lz4.frame
        except ImportError:
            return data
        if len(data) < SHORTEST_HEADER:
            return data
        checksum_at = SHORTEST_HEADER - 1 + (8 if data[4] & CONTENT_SIZE_FLAG else 0)
        for checksum in (*data[checksum_at : checksum_at + 1], *range(256)):
            mended = data[:checksum_at] + bytes((checksum,)) + data[checksum_at + 1 :]
            try:
                lz4.frame.get_frame_info(mended[: checksum_at + 1])
            except RuntimeError:
                continue
            return mended
        return data


CODEC = Lz4()
