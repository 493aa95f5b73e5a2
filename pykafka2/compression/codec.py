"""The interface of codecs, the lookup by id or name, and the loop that limits decompressed size.

Thread-safe.  The wrappers (gzip.py, snappy.py, lz4.py, zstd.py) are imported on first use of their codec, and
import their libraries (libraries.py) on their first call.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from pykafka2 import lifecycle
from pykafka2.compression.steps import FRAME_COST_BYTES, STEP_BYTES, Steps, finish
from pykafka2.errors import ConfigurationError, CorruptData, UnsupportedCompressionType

MAX_OUTPUT_BYTES = 128 << 20
"""The default limit of the decompressed size of a batch, in bytes."""

Buffer = bytes | bytearray | memoryview

# The compressed bytes that a streaming decompressor gets at once.  It copies the unused ones, so each frame
# of a stream of many tiny frames costs a copy of this size at most.
CHUNK_BYTES = 64 << 10


class Codec:
    """One compression format.  Also the codec "none": bytes pass through.

    Attributes:
        id: the number in a batch's attributes (KIP-110 for zstd).
        name: the value of compression_type.
        lowest_level, highest_level: Kafka's range of levels (KIP-390); None if the codec has no levels.
    """

    id: int = 0
    name: str = "none"
    lowest_level: int | None = None
    highest_level: int | None = None

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        """Compress all of data; level None is Kafka's default for this codec.

        Raises:
            ConfigurationError: the level is outside Kafka's range for this codec.
            CodecUnavailable: none of the codec's packages can be imported; the message names them.
        """
        self.check_level(level)
        return bytes(data)

    def decompress(self, data: Buffer, max_output_bytes: int = MAX_OUTPUT_BYTES) -> bytes:
        """Decompress data into at most max_output_bytes.

        Raises:
            CorruptData: data is damaged, incomplete, or larger than max_output_bytes when decompressed.
            CodecUnavailable: none of the codec's packages can be imported; the message names them.
        """
        return finish(self.decompress_in_steps(data, max_output_bytes))

    def decompress_in_steps(self, data: Buffer, max_output_bytes: int = MAX_OUTPUT_BYTES) -> Steps[bytes]:
        """Decompress in steps; each step but the last produces about STEP_BYTES."""
        if len(data) > max_output_bytes:
            raise self.too_large(max_output_bytes)
        yield from ()  # one step
        return bytes(data)

    def mend_header(self, data: bytes) -> bytes:
        """Correct the header of data in message format 0 for `decompress`; only lz4 needs it."""
        return data

    def check_level(self, level: int | None) -> None:
        """Raise ConfigurationError unless level is None or one that Kafka allows for this codec."""
        if level is None or self.allows_level(level):
            return
        if self.lowest_level is None:
            raise ConfigurationError(
                f"compression {self.name} has no levels, so level {level} is not valid; use None"
            )
        raise ConfigurationError(
            f"level {level} is not valid for compression {self.name}; "
            f"use {self.lowest_level} to {self.highest_level}"
        )

    def allows_level(self, level: int) -> bool:
        if self.lowest_level is None or self.highest_level is None:
            return False
        return self.lowest_level <= level <= self.highest_level

    def too_large(self, max_output_bytes: int) -> CorruptData:
        return CorruptData(
            f"{self.name} data decompresses to more than {max_output_bytes} bytes; "
            "to accept it, increase the consumer's max_decompressed_bytes"
        )

    def damaged(self, why: object) -> CorruptData:
        return CorruptData(f"{self.name} data cannot be decompressed: {why}")

    def __repr__(self) -> str:
        return f"<codec {self.id} {self.name}>"


NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

_codecs: dict[int | str, Codec] = {0: Codec(), "none": Codec()}


def codec(id_or_name: int | str) -> Codec:
    """Return the codec with this id (0 to 4) or name (none, gzip, snappy, lz4, zstd).

    Raises:
        UnsupportedCompressionType: there is no such codec.
    """
    found = _codecs.get(id_or_name)
    return found if found is not None else _load(id_or_name)


def _load(id_or_name: int | str) -> Codec:
    if isinstance(id_or_name, int) and 0 <= id_or_name < len(NAMES):
        name = NAMES[id_or_name]
    elif isinstance(id_or_name, str) and id_or_name in NAMES:
        name = id_or_name
    else:
        raise UnsupportedCompressionType(
            f"compression {id_or_name!r} is unknown; use {', '.join(NAMES)}, or an id from 0 to 4"
        )
    with lifecycle.loading:
        loaded: Codec = importlib.import_module(f"pykafka2.compression.{name}").CODEC
    _codecs[loaded.id] = _codecs[loaded.name] = loaded
    return loaded


class Decompressor(Protocol):
    """The interface of streaming decompressors in the standard library (compression.zstd) and lz4.frame."""

    eof: bool
    needs_input: bool
    unused_data: bytes | None

    def decompress(self, data: Any, max_length: int = -1) -> bytes: ...


def frames_in_steps(
    codec: Codec, new: type[Decompressor], data: Buffer, max_output_bytes: int
) -> Steps[bytes]:
    """Decompress frame after frame, and request at most one byte more than the limit.

    Raise the library's error for damaged data; CorruptData for too much data or an unfinished frame.
    """
    view = memoryview(data)
    parts: list[bytes] = []
    size, position, step_ends_at = 0, 0, STEP_BYTES
    frame = new()
    while True:
        if frame.eof:
            position -= len(frame.unused_data or b"")
            if position >= len(view):
                return parts[0] if len(parts) == 1 else b"".join(parts)
            frame = new()
            step_ends_at -= FRAME_COST_BYTES
        chunk = b""
        if frame.needs_input:
            chunk = view[position : position + CHUNK_BYTES].tobytes()
            if not chunk:
                raise codec.damaged("it ends in the middle of a frame")
            position += len(chunk)
        part = frame.decompress(chunk, min(max_output_bytes - size + 1, STEP_BYTES))
        size += len(part)
        if size > max_output_bytes:
            raise codec.too_large(max_output_bytes)
        if part:
            parts.append(part)
        if size >= step_ends_at:
            step_ends_at = size + STEP_BYTES
            yield size
