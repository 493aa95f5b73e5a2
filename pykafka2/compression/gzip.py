"""gzip by the standard library's zlib.

Members one after the other are read as one stream, as Java's GZIPInputStream does.  Any thread.
"""

from __future__ import annotations

from pykafka2.compression.codec import CHUNK_BYTES, MAX_OUTPUT_BYTES, Buffer, Codec

GZIP_FORMAT = 31  # zlib's window bits 15, plus 16 for the gzip header and trailer


class Gzip(Codec):
    id = 1
    name = "gzip"
    lowest_level = 1
    highest_level = 9

    def allows_level(self, level: int) -> bool:
        return level == -1 or super().allows_level(level)

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        import zlib

        self.check_level(level)
        stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, GZIP_FORMAT)
        return stream.compress(data) + stream.flush()

    def decompress(self, data: Buffer, max_output_bytes: int = MAX_OUTPUT_BYTES) -> bytes:
        import zlib

        view = memoryview(data)
        parts: list[bytes] = []
        size, position = 0, 0
        member = zlib.decompressobj(GZIP_FORMAT)
        chunk = b""
        try:
            while True:
                if member.eof:
                    position -= len(member.unused_data)
                    if position >= len(view):
                        return b"".join(parts)
                    member = zlib.decompressobj(GZIP_FORMAT)
                    chunk = b""
                if not chunk:
                    chunk = view[position : position + CHUNK_BYTES].tobytes()
                    position += len(chunk)
                    if not chunk:
                        raise self.damaged("it ends in the middle of a member")
                part = member.decompress(chunk, max_output_bytes - size + 1)
                chunk = member.unconsumed_tail
                size += len(part)
                if size > max_output_bytes:
                    raise self.too_large(max_output_bytes)
                parts.append(part)
        except zlib.error as error:
            raise self.damaged(error) from error


CODEC = Gzip()
