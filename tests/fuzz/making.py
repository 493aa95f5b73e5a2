"""Inputs of the fuzzer: any message of a version, and record batches; then bytes with damage in them.

Seeded: the same `Random` gives the same bytes.  Hypothesis would draw them better and a hundred times slower.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.fields import STRUCT_CODES, Field
from pykafka2.protocol.struct import Struct
from pykafka2.records.encoder import BatchBuilder

INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
TEXTS = ("", "t", "orders", "häßlich", "x" * 126, "y" * 127, "z" * 200, "\0", "a,b=c")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW = 1_700_000_000_000

# Replacements for lengths, counts and varints, to find decoders that trust them.
EXTREMES = (
    *(struct.pack(">i", number) for number in (-1, -2, 0, 1, 127, 2**15, 2**24, 2**31 - 1, -(2**31))),
    *(struct.pack(">h", number) for number in (-1, -2, 0, 2**15 - 1, -(2**15))),
    struct.pack(">q", -1),
    struct.pack(">q", 2**63 - 1),
    b"\0",
    b"\1",
    b"\2",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x00",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff" * 11,
    b"\xc3\x28",
)


def any_instance(random: Random, cls: type[Struct], version: int) -> Any:
    """An instance with anything that the version can carry."""
    return cls(
        **{
            one.name: _any_value(random, one, version)
            for one in resolved_fields(cls)
            if version in one.versions or one.required
        }
    )


def _any_value(random: Random, one: Field, version: int) -> Any:
    if version in one.nullable and random.random() < 0.2:
        return None
    if not one.required and version in one.tagged and random.random() < 0.5:
        return one.absent_value()
    if one.array:
        return [_any_element(random, one, version) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    return _any_element(random, one, version)


def _any_element(random: Random, one: Field, version: int) -> Any:
    if one.struct is not None:
        return any_instance(random, one.struct, version)
    bits = INTEGERS.get(one.kind)
    if bits is not None:
        return random.choice((0, 1, -1, 7, 2**bits - 1, -(2**bits), random.getrandbits(bits)))
    if one.kind == "bool":
        return random.random() < 0.5
    if one.kind == "uint16":
        return random.getrandbits(16)
    if one.kind == "float64":
        return random.choice((0.0, 1.5, float("inf")))
    if one.kind == "string":
        return random.choice(TEXTS)
    if one.kind == "uuid":
        return random.randbytes(16)
    assert one.kind not in STRUCT_CODES
    return random.randbytes(random.choice((0, 1, 30, 127, 128)))


def any_batches(random: Random) -> bytes:
    """One to three whole batches."""
    found = b""
    for number in range(random.randint(1, 3)):
        builder = BatchBuilder(random.choice(CODECS), max_bytes=1 << 20)
        for _ in range(random.randint(1, 8)):
            key = random.choice((None, b"", b"key"))
            headers = [("name", random.choice((None, b"", b"value")))] * random.choice((0, 0, 1, 3))
            builder.append(
                NOW + random.randint(-9, 9), key, random.randbytes(random.choice((0, 5, 90))), headers
            )
        producer = random.choice((-1, 7))
        found += builder.build(
            base_offset=number * 10,
            producer_id=producer,
            producer_epoch=min(producer, 0),
            base_sequence=min(producer, 0),
            is_transactional=producer >= 0 and random.random() < 0.5,
        )
    return found


def damaged(random: Random, data: bytes, *, begin: int = 0) -> bytes:
    """The bytes with one to four changes from `begin` on."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randint(begin, max(len(changed), begin))
        what = random.randrange(7)
        if what == 0 and at < len(changed):
            changed[at] ^= 1 << random.randrange(8)
        elif what == 1:
            extreme = random.choice(EXTREMES)
            changed[at : at + len(extreme)] = extreme
        elif what == 2:
            changed[at:at] = random.choice(EXTREMES)
        elif what == 3:
            del changed[at : at + random.choice((1, 1, 2, 4, 8, 40))]
        elif what == 4:
            del changed[at:]
        elif what == 5:
            piece = changed[at : at + random.choice((1, 4, 12, 60))]
            changed[at:at] = piece * random.choice((1, 1, 2, 50))
        else:
            changed[at:at] = random.randbytes(random.choice((1, 2, 8, 64)))
    return bytes(changed)
