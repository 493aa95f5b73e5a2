"""Functions for compiled codecs: varints, tagged fields to skip, uuids, and errors of malformed bytes.

Pure functions, called on the thread that encodes or decodes. The functions compiled by encoding.py and
decoding.py inline the common case (a varint of one byte, a run of fixed-width fields) and call these for the
rest.  Varints are those of Kafka's flexible versions: unsigned, least significant group
first (KIP-482).
"""

from __future__ import annotations

import struct
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import Final, TypeAlias

from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.gathered_part import GatheredPart

Buffer: TypeAlias = bytes | bytearray | memoryview
"""The types accepted as bytes."""

FramePart: TypeAlias = Buffer | FilePart | GatheredPart
"""A piece of an encoded frame: bytes, several buffers, or a part of a file for the kernel to send."""

UNREAD_PARTS: Final = (FilePart, GatheredPart)
"""The parts that are not one buffer, but can be read into one."""

MIN_UNCOPIED_BYTES: Final = 8192
"""Pieces of at least this size are not copied; smaller ones are cheaper to join."""

ZERO_UUID: Final = bytes(16)
"""The uuid that means "none" in Kafka."""

MAX_STRING_BYTES: Final = 32767
"""Kafka rejects longer strings in every encoding."""

MAX_TAGGED_FIELDS: Final = 10_000
"""Most tagged fields in one section, as in Kafka 4.4. Skipping them takes some milliseconds."""

MAX_ARRAY_LENGTH: Final = 1_000_000
"""Most elements of an array, as in Kafka 4.4."""

ONE_BYTE: Final[tuple[bytes, ...]] = tuple(bytes((value,)) for value in range(128))
"""The varints of one byte, by value."""


class Malformed(Exception):
    """Internal: the bytes are malformed. Message.decode turns it into CorruptData with the field."""


class NotInVersion(Exception):
    """Internal: a field is set that the version lacks.  Message.encode turns it into UnsupportedVersion."""


MAX_DECODED_BYTES: Final = 256 << 20
"""A message whose elements would take more memory is rejected."""


class Budget:
    """The memory left for the elements of one long message."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_DECODED_BYTES

    def spend(self, amount: int) -> None:
        """Reserve memory for an array. Raise Malformed if it exceeds the rest."""
        self.left -= amount
        if self.left < 0:
            raise Malformed(f"its elements would take more than {MAX_DECODED_BYTES >> 20} MiB of memory")


DECODE_ERRORS: Final = (Malformed, IndexError, struct.error, UnicodeDecodeError)
"""Errors of a compiled decoder for malformed bytes; any other error is a bug in pykafka2."""

ENCODE_ERRORS: Final = (NotInVersion, struct.error, TypeError, AttributeError, ValueError, OverflowError)
"""Errors of a compiled encoder for values that do not fit their fields."""


def uvarint(value: int) -> bytes:
    """Return the unsigned varint of `value`, from 0 to 32 bits."""
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError(f"{value} does not fit an unsigned varint of 32 bits")
    if value < 128:
        return bytes((value,))
    if value < 128 * 128:
        return bytes((value & 127 | 128, value >> 7))
    if value < 128 * 128 * 128:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Return the unsigned varint at `position` and the position after it; at most 5 bytes and 32 bits."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise Malformed("a varint is longer than 5 bytes")
    if value > 0xFFFFFFFF:
        raise Malformed("a varint does not fit 32 bits")
    return value, position


def read_string_length(data: Buffer, position: int) -> tuple[int, int]:
    """Read a compact string length plus one; rejects the lengths that Kafka rejects."""
    value, position = read_uvarint(data, position)
    if value > MAX_STRING_BYTES + 1:
        raise Malformed(f"a string of {value - 1} bytes is longer than Kafka's {MAX_STRING_BYTES}")
    return value, position


def string_length(length_plus_one: int) -> bytes:
    """Return the varint before a compact string of 127 bytes or more."""
    if length_plus_one > MAX_STRING_BYTES + 1:
        raise ValueError(f"a string of {length_plus_one - 1} bytes is longer than Kafka's {MAX_STRING_BYTES}")
    return uvarint(length_plus_one)


def skip_tagged_field(data: Buffer, position: int, end: int) -> int:
    """Return the position after an unknown tagged field whose tag has been read."""
    size, position = read_uvarint(data, position)
    if size > end - position:
        overrun(size, end - position)
    return position + size


def skip_tagged_fields(data: Buffer, position: int, end: int) -> int:
    """Return the position after a section of unknown tagged fields."""
    count, position = read_uvarint(data, position)
    if count * 2 > end - position:
        too_many(count, end - position)
    too_many_tagged(count)
    for _ in range(count):
        _, position = read_uvarint(data, position)
        position = skip_tagged_field(data, position, end)
    return position


def overrun(wanted: int, remaining: int) -> None:
    """Reject a length that exceeds the frame."""
    if wanted < 0:
        raise Malformed(f"the length {wanted} is negative")
    raise Malformed(f"{wanted} bytes are announced, {remaining} are left")


def too_many(count: int, remaining: int) -> None:
    """Reject a count of elements that exceeds the frame, before memory is allocated for them."""
    if count < 0:
        raise Malformed(f"the count {count} is negative")
    if MAX_ARRAY_LENGTH < count <= remaining:
        raise Malformed(f"{count} elements are announced, more than {MAX_ARRAY_LENGTH}")
    raise Malformed(f"{count} elements are announced, {remaining} bytes are left")


def null_refused() -> None:
    """Reject a null in a version where the field is not nullable."""
    raise Malformed("null, which this version does not allow here")


def too_many_tagged(count: int) -> None:
    """Reject an implausible number of tagged fields."""
    if count > MAX_TAGGED_FIELDS:
        raise Malformed(f"{count} tagged fields are announced, more than {MAX_TAGGED_FIELDS}")


def no_length(value: int) -> None:
    """Reject a negative length or count of a field that is not nullable."""
    if value == -1:
        null_refused()
    raise Malformed(f"the length {value} is negative")


def wrong_size(announced: int, used: int) -> None:
    """Reject a tagged field whose content does not have its declared size."""
    raise Malformed(f"a tagged field of {announced} bytes holds a value of {used}")


def wrong_presence(mark: int) -> None:
    """Reject an invalid presence byte of a nullable struct."""
    raise Malformed(f"the presence byte {mark} of a struct is invalid")


def wrong_uuid(value: object) -> None:
    """Reject a uuid that is not 16 bytes, which the struct module would pad."""
    raise ValueError(f"{value!r} is not a uuid of 16 bytes")


def absent_but_set() -> None:
    """Reject a value of a field that the version lacks."""
    raise NotInVersion


def total_size(parts: list[FramePart]) -> int:
    """Return the total size of `parts` in bytes."""
    return sum(map(len, parts))


def flat(value: Buffer) -> Buffer:
    """Return `value` so that len() counts bytes, for any item format of a memoryview."""
    if isinstance(value, memoryview):
        return value if value.format == "B" and value.ndim == 1 and value.contiguous else value.tobytes()
    if isinstance(value, bytes | bytearray):
        return value
    raise TypeError(f"{type(value).__name__} is not bytes")


def uncopied(value: FramePart) -> FramePart:
    """Return bytes or another part as a piece of an encoding.

    A small file part is read: sending it by itself would take as many system calls. Small buffers are joined.
    """
    if not isinstance(value, UNREAD_PARTS):
        return flat(value)
    return value if len(value) >= MIN_UNCOPIED_BYTES else value.read()


def uuid_to_text(uuid: Buffer) -> str:
    """Return Kafka's text of a uuid: 22 characters of URL-safe base64 without padding."""
    if len(uuid) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(uuid)}")
    return b2a_base64(uuid, newline=False)[:22].translate(_TO_URL_SAFE).decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """Return the 16 bytes of Kafka's text of a uuid. Raise ValueError."""
    try:
        uuid = a2b_base64(text.encode("ascii").translate(_FROM_URL_SAFE) + b"==", strict_mode=True)
    except (Base64Error, UnicodeEncodeError) as error:
        raise ValueError(f"{text!r} is not Kafka's text of a uuid") from error
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not Kafka's text of a uuid")
    return uuid


_TO_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
# Plus and slash belong to the other base64 alphabet; they are mapped to an invalid character.
_FROM_URL_SAFE: Final = bytes.maketrans(b"-_+/", b"+/!!")


_STRUCTS: Final[dict[str, struct.Struct]] = {}


def struct_of(codes: str) -> struct.Struct:
    """Return the big-endian struct.Struct of these codes, created once."""
    made = _STRUCTS.get(codes)
    if made is None:
        made = _STRUCTS[codes] = struct.Struct(">" + codes)
    return made
