"""LZ4 frames with cramjam: writes independent blocks of 64 KiB, and reads every kind of frame.

By default, cramjam's frames have linked blocks, which Java rejects, and cramjam cannot limit the output of a
frame. This module therefore reads frames in Python and adapts those that cramjam writes. Any thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pykafka2.compression.codec import Buffer, Codec
from pykafka2.compression.steps import FRAME_COST_BYTES, STEP_BYTES, Steps

MAGIC = 0x184D2204
# Frames of user data have one of 16 magic numbers and a length; readers skip them.
SKIPPABLE_MAGIC = 0x184D2A50
MAGIC_BYTES = 4

VERSION_MASK, VERSION = 0xC0, 0x40
INDEPENDENT_BLOCKS = 0x20
BLOCK_CHECKSUM = 0x10
CONTENT_SIZE = 0x08
CONTENT_CHECKSUM = 0x04
RESERVED_OR_DICTIONARY = 0x03
CHECKSUM_BYTES = 4

# The header that Java writes: version 1, independent blocks of at most 64 KiB, and the checksum of these two.
HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
END_MARK = bytes(4)

UNCOMPRESSED = 0x80000000
HISTORY_BYTES = 64 << 10

# The longest matches take one byte for 255 bytes of output. A larger buffer would be cleared in vain, which
# for a block of 2 bytes in a frame of 4 MiB blocks takes longer than anything else.
BEST_RATIO = 255

MASK = 0xFFFFFFFF
PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


def xxh32(data: bytes) -> int:
    """Return the xxHash32 of fewer than 16 bytes, enough for headers; longer data needs another loop."""
    first, second, third, fourth, fifth = PRIMES
    value = (fifth + len(data)) & MASK
    words = len(data) & ~3
    for start in range(0, words, 4):
        value = (value + int.from_bytes(data[start : start + 4], "little") * third) & MASK
        value = ((value << 17 | value >> 15) & MASK) * fourth & MASK
    for byte in data[words:]:
        value = (value + byte * fifth) & MASK
        value = ((value << 11 | value >> 21) & MASK) * first & MASK
    value = (value ^ value >> 15) * second & MASK
    value = (value ^ value >> 13) * third & MASK
    return value ^ value >> 16


def header_checksum(descriptor: bytes) -> int:
    return xxh32(descriptor) >> 8 & 0xFF


class Header(NamedTuple):
    """A frame's header.

    Attributes:
        ends_at: the position of the first block.
        skipped: whether this is a frame of user data, which has no blocks and ends at ends_at.
    """

    ends_at: int
    skipped: bool = False
    linked: bool = False
    block_bytes: int = 0
    block_checksum_bytes: int = 0
    content_checksum_bytes: int = 0
    content_size: int | None = None


def read_header(codec: Codec, view: memoryview, position: int) -> Header:
    """Read the header at this position.

    Raises:
        CorruptData: it is incomplete, damaged, or has a feature that no Kafka client writes.
    """
    magic = _number(codec, view, position, MAGIC_BYTES)
    if magic & ~0xF == SKIPPABLE_MAGIC:
        size = _number(codec, view, position + MAGIC_BYTES, 4)
        ends_at = position + MAGIC_BYTES + 4 + size
        if ends_at > len(view):
            raise _unfinished(codec)
        return Header(ends_at, skipped=True)
    if magic != MAGIC:
        raise codec.damaged(f"a frame starts with {magic:#010x}")
    start = position + MAGIC_BYTES
    flags, block_flags = _number(codec, view, start, 1), _number(codec, view, start + 1, 1)
    if flags & VERSION_MASK != VERSION or flags & RESERVED_OR_DICTIONARY:
        raise codec.damaged(f"a frame has the flags {flags:#04x}")
    block_code = block_flags >> 4
    if block_flags & 0xF or not 4 <= block_code <= 7:
        raise codec.damaged(f"a frame has the block size {block_flags:#04x}")
    has_size = bool(flags & CONTENT_SIZE)
    checksum_at = start + (10 if has_size else 2)
    if _number(codec, view, checksum_at, 1) != header_checksum(bytes(view[start:checksum_at])):
        raise codec.damaged("the checksum of a frame's header is wrong")
    return Header(
        checksum_at + 1,
        linked=not flags & INDEPENDENT_BLOCKS,
        block_bytes=1 << 8 + 2 * block_code,
        block_checksum_bytes=CHECKSUM_BYTES if flags & BLOCK_CHECKSUM else 0,
        content_checksum_bytes=CHECKSUM_BYTES if flags & CONTENT_CHECKSUM else 0,
        content_size=_number(codec, view, start + 2, 8) if has_size else None,
    )


def compress(cramjam: Any, data: Buffer, level: int) -> bytes:
    """Compress to one frame as Java writes it; level 0 is the fast compressor, 3 to 12 the strong one."""
    frame = cramjam.lz4.Compressor(level, content_checksum=False, block_linked=False)
    frame.compress(bytes(data))  # it accepts only bytes; bytes(data) copies nothing if data is bytes
    made = bytes(frame.finish())
    # Its frames have a checksum after each block, which Java's frames do not have.
    flags = made[MAGIC_BYTES]
    trailer_bytes = CHECKSUM_BYTES if flags & BLOCK_CHECKSUM else 0
    parts = [HEADER]
    position = len(HEADER) + (8 if flags & CONTENT_SIZE else 0)
    while True:
        end = position + 4
        size = int.from_bytes(made[position:end], "little")
        if not size:
            break
        end += size & ~UNCOMPRESSED
        parts.append(made[position:end])
        position = end + trailer_bytes
    parts.append(END_MARK)
    return b"".join(parts)


def decompress_in_steps(codec: Codec, cramjam: Any, data: Buffer, max_output_bytes: int) -> Steps[bytes]:
    """Decompress frame after frame, block after block.

    Checksums of blocks and contents are not compared, because the checksum of the record batch covers the
    same bytes. Java skips the checksum of contents, too.
    """
    view = memoryview(data)
    if not view:
        raise _unfinished(codec)
    parts: list[bytes] = []
    size, position, step_ends_at = 0, 0, STEP_BYTES
    while position < len(view):
        header = read_header(codec, view, position)
        position = header.ends_at
        frame_starts_at, history = size, b""
        while not header.skipped:
            block_size = _number(codec, view, position, 4)
            position += 4
            if not block_size:
                break
            block = view[position : position + (block_size & ~UNCOMPRESSED)]
            position += len(block) + header.block_checksum_bytes
            if len(block) < block_size & ~UNCOMPRESSED or position > len(view):
                raise _unfinished(codec)
            if len(block) > header.block_bytes:
                raise codec.damaged(f"a block of {len(block)} bytes is larger than the header allows")
            if block_size & UNCOMPRESSED:
                part = block.tobytes()
            else:
                room = min(header.block_bytes, len(block) * BEST_RATIO)
                part = _decompress_block(codec, cramjam, block, history, room, size, max_output_bytes)
            size += len(part)
            if size > max_output_bytes:
                raise codec.too_large(max_output_bytes)
            parts.append(part)
            if header.linked:
                history = (history + part)[-HISTORY_BYTES:]
            step_ends_at -= FRAME_COST_BYTES + len(history)  # the history is decompressed again
            if size >= step_ends_at:
                step_ends_at = size + STEP_BYTES
                yield size
        position += header.content_checksum_bytes
        if position > len(view):
            raise _unfinished(codec)
        if header.content_size not in (None, size - frame_starts_at):
            raise codec.damaged(f"a frame of {header.content_size} bytes contains {size - frame_starts_at}")
        step_ends_at -= FRAME_COST_BYTES
        if size >= step_ends_at:
            step_ends_at = size + STEP_BYTES
            yield size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_block(
    codec: Codec,
    cramjam: Any,
    block: memoryview,
    history: bytes,
    room: int,
    size: int,
    max_output_bytes: int,
) -> bytes:
    """Decompress one block to at most room bytes; history is the data before a linked block.

    The output ends one byte over the cap, of which the blocks before have size bytes.
    """
    allowed = min(room, max_output_bytes - size + 1)
    output = bytearray(len(history) + allowed)
    data = with_history(codec, block, history) if history else block
    try:
        written: int = cramjam.lz4.decompress_block_into(data, output, output_len=len(output))
    except cramjam.DecompressionError as error:
        # The library raises the same error for damage and for a full buffer.
        if allowed < room:
            raise codec.damaged(
                f"it is damaged, or it decompresses to more than {max_output_bytes} bytes; "
                "to accept it, increase the consumer's max_decompressed_bytes"
            ) from error
        raise codec.damaged(error) from error
    return bytes(memoryview(output)[len(history) : written])


def with_history(codec: Codec, block: memoryview, history: bytes) -> bytes:
    """Return a block that decompresses to history and then to what the linked block contains.

    A block starts with a count of literals, bytes that are copied to the output. History is put in front of
    them, so matches find it where they expect it.
    """
    token, position = _number(codec, block, 0, 1), 1
    literals = token >> 4
    if literals == 15:
        byte = 255
        while byte == 255:
            byte = _number(codec, block, position, 1)
            literals += byte
            position += 1
            if literals > len(block):
                raise codec.damaged(f"a block of {len(block)} bytes declares more literals than that")
    literals += len(history)
    if literals < 15:
        start = bytes((literals << 4 | token & 0xF,))
    else:
        full, rest = divmod(literals - 15, 255)
        start = bytes((0xF0 | token & 0xF,)) + b"\xff" * full + bytes((rest,))
    return b"".join((start, history, block[position:]))


def _number(codec: Codec, view: memoryview, position: int, size: int) -> int:
    part = view[position : position + size]
    if len(part) < size:
        raise _unfinished(codec)
    return int.from_bytes(part, "little")


def _unfinished(codec: Codec) -> Exception:
    return codec.damaged("it ends in the middle of a frame")
