"""Functions for compiled codecs: varints, tagged fields to skip, uuids, and errors of malformed bytes.

Pure functions without state, called on whatever thread encodes or decodes.  The functions compiled by
encoding.py and decoding.py do the common case in line (a varint of one byte, a run of fixed-width fields) and
come here for the rest.  Varints are those of Kafka's flexible versions: unsigned, least significant group
first (KIP-482).
"""

from __future__ import annotations

import struct
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import Final, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""What the wire accepts as bytes."""

ZERO_UUID: Final = bytes(16)
"""The uuid that stands for "none" in Kafka."""

MAX_STRING_BYTES: Final = 32767
"""Kafka refuses longer strings in every encoding."""

MAX_TAGGED_FIELDS: Final = 1_000
"""In one place.  To skip half a megabyte of them would take a quarter of a second."""

ONE_BYTE: Final[tuple[bytes, ...]] = tuple(bytes((value,)) for value in range(128))
"""The varints of one byte, by value."""


class Malformed(Exception):
    """Internal: the bytes at hand are wrong.  Message.decode turns it into CorruptData naming the field."""


class NotInVersion(Exception):
    """Internal: a field is set that the version lacks.  Message.encode turns it into UnsupportedVersion."""


MAX_DECODED_BYTES: Final = 256 << 20
"""A message whose elements would take more memory is refused."""


class Budget:
    """How much memory the elements of one long message may still take."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_DECODED_BYTES

    def spend(self, amount: int) -> None:
        """An array is about to take this many bytes."""
        self.left -= amount
        if self.left < 0:
            raise Malformed(f"its elements would take more than {MAX_DECODED_BYTES >> 20} MiB of memory")


DECODE_ERRORS: Final = (Malformed, IndexError, struct.error, UnicodeDecodeError)
"""What a compiled decode function raises on wrong bytes; any other error is a bug of ours."""

ENCODE_ERRORS: Final = (NotInVersion, struct.error, TypeError, AttributeError, ValueError, OverflowError)
"""What a compiled encode function raises on values that do not fit their fields."""


def uvarint(value: int) -> bytes:
    """The unsigned varint of `value`, which is 0 or more and fits 32 bits."""
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
    """The unsigned varint at `position` and the position after it; at most 5 bytes and 32 bits."""
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
    """The varint before a compact string of 127 bytes or more."""
    if length_plus_one > MAX_STRING_BYTES + 1:
        raise ValueError(f"a string of {length_plus_one - 1} bytes is longer than Kafka's {MAX_STRING_BYTES}")
    return uvarint(length_plus_one)


def skip_tagged_field(data: Buffer, position: int, end: int) -> int:
    """The position after one tagged field, whose tag has been read, of a kind this version does not know."""
    size, position = read_uvarint(data, position)
    if size > end - position:
        overrun(size, end - position)
    return position + size


def skip_tagged_fields(data: Buffer, position: int, end: int) -> int:
    """The position after a whole section of tagged fields, none of which is known here."""
    count, position = read_uvarint(data, position)
    if count * 2 > end - position:
        too_many(count, end - position)
    too_many_tagged(count)
    for _ in range(count):
        _, position = read_uvarint(data, position)
        position = skip_tagged_field(data, position, end)
    return position


def overrun(wanted: int, remaining: int) -> None:
    """Refuse a length that the frame cannot hold."""
    if wanted < 0:
        raise Malformed(f"the length {wanted} is negative")
    raise Malformed(f"{wanted} bytes are announced, {remaining} are left")


def too_many(count: int, remaining: int) -> None:
    """Refuse a count of elements that the frame cannot hold, before anything is allocated for them."""
    if count < 0:
        raise Malformed(f"the count {count} is negative")
    raise Malformed(f"{count} elements are announced, {remaining} bytes are left")


def null_refused() -> None:
    """Refuse a null where this version has none."""
    raise Malformed("null, which this version does not allow here")


def too_many_tagged(count: int) -> None:
    """Refuse more tagged fields in one place than anybody has a use for."""
    if count > MAX_TAGGED_FIELDS:
        raise Malformed(f"{count} tagged fields are announced, more than {MAX_TAGGED_FIELDS}")


def no_length(value: int) -> None:
    """Refuse the length or count of a null or less, where it may not be null."""
    if value == -1:
        null_refused()
    raise Malformed(f"the length {value} is negative")


def wrong_size(announced: int, used: int) -> None:
    """Refuse a tagged field whose content is longer or shorter than its size."""
    raise Malformed(f"a tagged field of {announced} bytes holds a value of {used}")


def wrong_presence(mark: int) -> None:
    """Refuse a nullable struct that is said to be neither there nor null."""
    raise Malformed(f"{mark} says neither that a struct is there nor that it is null")


def wrong_uuid(value: object) -> None:
    """Refuse a uuid that is not 16 bytes, which the struct module would pad."""
    raise ValueError(f"{value!r} is not a uuid of 16 bytes")


def absent_but_set() -> None:
    """Refuse to drop the value of a field that the version lacks."""
    raise NotInVersion


def total_size(parts: list[Buffer]) -> int:
    """How many bytes `parts` are together."""
    return sum(map(len, parts))


def flat(value: Buffer) -> Buffer:
    """`value` such that len() counts bytes, whatever the item format of a memoryview."""
    if isinstance(value, memoryview):
        return value if value.format == "B" and value.ndim == 1 and value.contiguous else value.tobytes()
    if isinstance(value, bytes | bytearray):
        return value
    raise TypeError(f"{type(value).__name__} is not bytes")


def uuid_to_text(uuid: Buffer) -> str:
    """Kafka's text of a uuid: 22 characters of URL-safe base64 without padding."""
    if len(uuid) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(uuid)}")
    return b2a_base64(uuid, newline=False)[:22].translate(_TO_URL_SAFE).decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes of Kafka's text of a uuid; ValueError where it is none."""
    try:
        uuid = a2b_base64(text.encode("ascii").translate(_FROM_URL_SAFE) + b"==", strict_mode=True)
    except (Base64Error, UnicodeEncodeError) as error:
        raise ValueError(f"{text!r} is not Kafka's text of a uuid") from error
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not Kafka's text of a uuid")
    return uuid


_TO_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
# Plus and slash are the other alphabet's, and are sent to where nothing is accepted.
_FROM_URL_SAFE: Final = bytes.maketrans(b"-_+/", b"+/!!")


_STRUCTS: Final[dict[str, struct.Struct]] = {}


def struct_of(codes: str) -> struct.Struct:
    """The big-endian struct.Struct of these codes, made once."""
    made = _STRUCTS.get(codes)
    if made is None:
        made = _STRUCTS[codes] = struct.Struct(">" + codes)
    return made
