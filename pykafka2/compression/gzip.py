"""gzip with the standard library's zlib.

Consecutive members are read as one stream, as Java's GZIPInputStream does. Any thread.
"""

from __future__ import annotations

from pykafka2.compression.codec import CHUNK_BYTES, MAX_OUTPUT_BYTES, Buffer, Codec
from pykafka2.compression.libraries import library
from pykafka2.compression.steps import FRAME_COST_BYTES, STEP_BYTES, Steps

GZIP_FORMAT = 31  # zlib's window bits 15, plus 16 for the gzip header and trailer


class Gzip(Codec):
    id = 1
    name = "gzip"
    lowest_level = 1
    highest_level = 9

    def allows_level(self, level: int) -> bool:
        return level == -1 or super().allows_level(level)

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        self.check_level(level)
        zlib = library("gzip").module
        stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, GZIP_FORMAT)
        compressed: bytes = stream.compress(data) + stream.flush()
        return compressed

    def decompress_in_steps(self, data: Buffer, max_output_bytes: int = MAX_OUTPUT_BYTES) -> Steps[bytes]:
        zlib = library("gzip").module
        view = memoryview(data)
        parts: list[bytes] = []
        size, position, step_ends_at = 0, 0, STEP_BYTES
        is_full = False  # the last call reached its output limit, so more output can be pending
        member = zlib.decompressobj(GZIP_FORMAT)
        chunk = b""
        try:
            while True:
                if member.eof:
                    position -= len(member.unused_data)
                    if position >= len(view):
                        return b"".join(parts)
                    member = zlib.decompressobj(GZIP_FORMAT)
                    step_ends_at -= FRAME_COST_BYTES
                    chunk, is_full = b"", False
                if not chunk and not is_full:
                    chunk = view[position : position + CHUNK_BYTES].tobytes()
                    position += len(chunk)
                    if not chunk:
                        raise self.damaged("it ends in the middle of a member")
                allowed = min(max_output_bytes - size + 1, STEP_BYTES)
                part = member.decompress(chunk, allowed)
                is_full = len(part) == allowed
                chunk = member.unconsumed_tail
                size += len(part)
                if size > max_output_bytes:
                    raise self.too_large(max_output_bytes)
                parts.append(part)
                if size >= step_ends_at:
                    step_ends_at = size + STEP_BYTES
                    yield size
        except zlib.error as error:
            raise self.damaged(error) from error


CODEC = Gzip()
