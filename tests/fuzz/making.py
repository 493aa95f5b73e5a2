"""Hostile input for tests of clients and brokers: random, extreme and damaged messages, and record batches.

Messages come from the schema: with random or plausible values (`any_instance`), with a long list (`wide`), or
with one field at a limit (`extreme`). `damaged` changes bytes. The same `Random` gives the same bytes;
Hypothesis would draw them better and a hundred times slower.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.fields import STRUCT_CODES, Field
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.struct import Request, Struct
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


SMALL = (-(2**15), -2, -1, 0, 1, 2, 3, 4, 8, 16, 32, 99, 2**15 - 1)
WORDS = (
    "t u a.b a_b x 0 1 7 5 -1 root INFO compact retention.ms cleanup.policy log.retention.ms num.partitions "
    "consumer.session.timeout.ms interval.ms transaction.version __cluster_metadata"
)
PLAUSIBLE: dict[str, Sequence[Any]] = {
    "bool": (False, True),
    "int8": (-1, 0, 1, 2, 3, 4, 8, 16, 32, 99),
    "int16": SMALL,
    "int32": (*SMALL, -(2**31), 2**31 - 1),
    "uint16": (0, 9092, 2**16 - 1),
    "int64": (*SMALL, -(2**63), 2**31, 2**63 - 1),
    "float64": (-1.0, 0.0, 1e300),
    "bytes": (b"", b"\0", b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff", b"\xff" * 9),
    "uuid": (bytes(16), b"\1" * 16),
    "string": (*WORDS.split(), "", "a b", "\0", "9" * 30),
}
"""Values by kind of field, valid ones among odd ones, so that a request passes the broker's first checks."""


def any_scalar(random: Random, kind: str) -> Any:
    """Return any value of a kind of field."""
    bits = INTEGERS.get(kind)
    if bits is not None:
        return random.choice((0, 1, -1, 7, 2**bits - 1, -(2**bits), random.getrandbits(bits)))
    if kind == "bool":
        return random.random() < 0.5
    if kind == "uint16":
        return random.getrandbits(16)
    if kind == "float64":
        return random.choice((0.0, 1.5, float("inf")))
    if kind == "string":
        return random.choice(TEXTS)
    if kind == "uuid":
        return random.randbytes(16)
    assert kind not in STRUCT_CODES
    return random.randbytes(random.choice((0, 1, 30, 127, 128)))


def plausible_scalar(random: Random, kind: str) -> Any:
    """Return a value that a broker could know."""
    return random.choice(PLAUSIBLE["bytes" if kind == "records" else kind])


Scalar = Callable[[Random, str], Any]


def any_instance(random: Random, cls: type[Struct], version: int, scalar: Scalar = any_scalar) -> Any:
    """Return an instance with anything that the version can carry."""
    return cls(**{one.name: _any_value(random, one, version, scalar) for one in fields_of(cls, version)})


def fields_of(cls: type[Struct], version: int) -> list[Field]:
    return [one for one in resolved_fields(cls) if version in one.versions or one.required]


def _any_value(random: Random, one: Field, version: int, scalar: Scalar) -> Any:
    if version in one.nullable and random.random() < 0.2:
        return None
    if not one.required and version in one.tagged and random.random() < 0.5:
        return one.absent_value()
    if one.array:
        return [_any_element(random, one, version, scalar) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    return _any_element(random, one, version, scalar)


def _any_element(random: Random, one: Field, version: int, scalar: Scalar) -> Any:
    if one.struct is not None:
        return any_instance(random, one.struct, version, scalar)
    return scalar(random, one.kind)


# -- requests by field ------------------------------------------------------------------------------------

TOPIC, GROUP, TRANSACTION = "t", "g", "x"
USUAL = {
    "group": GROUP, "transactional": TRANSACTION, "topic": TOPIC, "name": TOPIC, "time": 1_000,
    "bytes": 1 << 20, "acks": -1, "epoch": -1, "version": 1, "pattern_type": 3, "operation": 2,
    "permission": 3,
}  # fmt: skip
"""Values by part of a field's name."""


def usual(
    cls: type[Struct], version: int, path: Sequence[str] = (), value: Any = None, number: int = 0
) -> Any:
    """Return an instance with usual values, but for the value at this path.

    Lists are empty but for one element in each list on the path. `number` tells apart elements of a list. A
    callable value gets the field and the number, and returns what the instance has.
    """
    found: dict[str, Any] = {}
    for one in fields_of(cls, version):
        if not path or one.name != path[0]:
            found[one.name] = _usual_value(one, version, number)
        elif len(path) == 1:
            found[one.name] = value(one, number) if callable(value) else value
        else:
            assert one.struct is not None
            inner = usual(one.struct, version, path[1:], value, number)
            found[one.name] = [inner] if one.array else inner
    return cls(**found)


def _usual_value(one: Field, version: int, number: int) -> Any:
    if not one.required and version in one.tagged:
        return one.absent_value()
    if one.array:
        return []
    if one.struct is not None:
        return None if version in one.nullable else usual(one.struct, version, number=number)
    return _usual_scalar(one, number)


def _usual_scalar(one: Field, number: int) -> Any:
    """Return the name of something that exists; from the second element of a list on another one."""
    known = next((value for part, value in USUAL.items() if part in one.name), None)
    if one.kind in INTEGERS or one.kind == "uint16":
        return known if isinstance(known, int) else number % 127
    if one.kind == "string":
        return str(known or "a") if not number else f"{known or 'a'}{number}"
    if one.kind == "records":
        builder = BatchBuilder("none", max_bytes=1 << 20)
        builder.append(NOW, None, b"value", [])
        return bytes(builder.build())
    return {"bool": False, "float64": 1.0, "uuid": number.to_bytes(16, "big")}.get(one.kind, b"a")


def wide(cls: type[Request[Any]], version: int, most_bytes: int) -> Iterator[tuple[str, Any]]:
    """For each list of a request, also inside others, return a request with as many elements as fit."""
    for path, _ in _leaves(cls, version, lists=True):

        def filled(count: int, path: tuple[str, ...] = path) -> Any:
            def elements(one: Field, _: int) -> list[Any]:
                if one.struct is None:
                    return [_usual_scalar(one, number) for number in range(count)]
                return [usual(one.struct, version, number=number) for number in range(count)]

            return usual(cls, version, path, elements)

        low, high = 1, most_bytes
        while low < high:
            middle = (low + high + 1) // 2
            if len(b"".join(encode_request(filled(middle), version, 1, "small"))) <= most_bytes:
                low = middle
            else:
                high = middle - 1
        yield f"{low} of {'.'.join(path)}", filled(low)


def extreme(cls: type[Struct], version: int) -> Iterator[tuple[str, Any]]:
    """For each field of a request and each of its limits, return a request with one element in each list."""
    for path, one in _leaves(cls, version):
        for name, value in _limits(one, version):
            yield f"{'.'.join(path)} {name}", usual(cls, version, path, value)


def _leaves(
    cls: type[Struct], version: int, before: tuple[str, ...] = (), *, lists: bool = False
) -> Iterator[tuple[tuple[str, ...], Field]]:
    for one in fields_of(cls, version):
        path = (*before, one.name)
        if one.array or not lists:
            yield path, one
        if one.struct is not None and len(path) < 4:
            yield from _leaves(one.struct, version, path, lists=lists)


def _limits(one: Field, version: int) -> Iterator[tuple[str, Any]]:
    if version in one.nullable:
        yield "null", None
    if one.array:
        yield "empty", []
    elif one.kind in INTEGERS:
        high = 2 ** INTEGERS[one.kind] - 1
        yield from (("highest", high), ("lowest", -high - 1), ("-1", -1), ("1000", min(1000, high)))
    elif one.kind == "string":
        yield from (("long", "x" * 800), ("odd", "\u2028[(\0" * 20), ("any", "*"))
    elif one.kind in ("bytes", "records"):
        yield from (("zeros", bytes(800)), ("ones", b"\xff" * 800))
    elif one.kind == "bool":
        yield "true", True


# -- bytes ------------------------------------------------------------------------------------------------


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
