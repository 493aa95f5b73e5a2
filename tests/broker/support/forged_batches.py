"""Forged record batches: each field of a header, and each part of a record, with invalid values.

forged_batches.json has Apache Kafka 4.4.0's error code and invalid records of each;
`DIFFERENT` has those that the bundled broker judges differently, with the reason.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from struct import pack_into
from typing import Any, Final

from pykafka2.compression import codec as codec_of
from pykafka2.records.batch import HEADER, HEADER_BYTES, LENGTH_END, crc32c
from tests.broker.support.produce_cases import Case, ask, create_topics
from tests.broker.support.raw_client import RawClient

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
RECORD: Final = b"\x10\x00\x00\x00\x01\x04ab\x00"
"""One record: length 8, attributes, timestamp delta 0, offset delta 0, null key, value "ab", no headers."""
READER: Final = "taken by Kafka; pykafka2's decoder refuses the record (other consumers were not tried)"
FAILS_INSIDE: Final = (
    "UNKNOWN_SERVER_ERROR in Kafka, whose cause was not looked up; its likes get INVALID_RECORD"
)
TRAILING: Final = "bytes behind the compressed records: the codecs' libraries refuse them"
DIFFERENT: Final[dict[str, tuple[int, str]]] = {
    "length 2147483647": (87, FAILS_INSIDE),
    "record length endless": (87, FAILS_INSIDE),
    "random": (87, FAILS_INSIDE),
    "compressed, offset delta -1": (87, FAILS_INSIDE),
    "snappy damaged": (87, FAILS_INSIDE),  # into a negative offset delta, as in the next
    "zstd damaged": (87, FAILS_INSIDE),
    "offset delta 1": (87, READER),
    "offset delta -1": (87, READER),
    "plain of two records whose offsets are both 0": (87, READER),
    **{f"compressed, record length {what}": (87, READER) for what in ("too small", "too large", "zero")},
    **{
        f"{kind}{what} length -2": (87, READER)
        for kind in ("", "compressed, ")
        for what in ("key", "header value")
    },
    **{f"{codec} with bytes behind it": (-1, TRAILING) for codec in ("gzip", "snappy", "lz4")},
}
"""The bundled broker's code, in both modes, and why it differs."""
Answer = tuple[int, tuple[int, ...]]
"""An error code, and the indices of the records that are reported as invalid."""
APACHE: Final[dict[str, Answer]] = {
    name: (code, tuple(wrong))
    for name, (code, wrong) in json.loads(Path(__file__).with_suffix(".json").read_text()).items()
}
MAX_INT, MAX_LONG = (1 << 31) - 1, (1 << 63) - 1


def forged(
    now: int, body: bytes = RECORD, codec: int = NONE, compressed: bytes = b"", **fields: Any
) -> bytes:
    """Return a batch of these encoded records whose checksum fits; any header field can be given."""
    payload = compressed or (codec_of(codec).compress(body) if codec else body)
    length = fields.get("length", HEADER_BYTES - LENGTH_END + len(payload))

    def header(crc: int) -> bytes:
        return HEADER.pack(
            fields.get("base_offset", 0),
            length,
            fields.get("leader_epoch", -1),
            fields.get("magic", 2),
            crc,
            fields.get("attributes", codec),
            fields.get("last_offset_delta", 0),
            fields.get("base_timestamp", now),
            fields.get("max_timestamp", now),
            fields.get("producer_id", -1),
            fields.get("producer_epoch", -1),
            fields.get("base_sequence", -1),
            fields.get("count", 1),
        )

    return header(crc32c(header(0)[21:], payload) ^ fields.get("crc", 0)) + payload


def answers(wire: RawClient, prefix: str) -> dict[str, Answer]:
    """Send each batch to a topic of its own; return the answers by name."""
    now = int(time.time() * 1000)
    sent = dict(batches(now))
    topics = {name: f"{prefix}{number}" for number, name in enumerate(sent)}
    create_topics(wire, topics={topic: {} for topic in topics.values()})
    found: dict[str, Answer] = {}
    for name, records in sent.items():
        response = ask(wire, Case(name, topics[name], records))
        found[name] = response.error_code, tuple(one.batch_index for one in response.record_errors)
    return found


def record(content: bytes, length: int | None = None) -> bytes:
    """Return a record with this content behind its length; both lie below 64 bytes."""
    size = len(content) if length is None else length
    return bytes([(size << 1) ^ (size >> 31) & 0xFF if size >= 0 else 1]) + content


def batches(now: int) -> Iterator[tuple[str, bytes]]:
    """Yield each forged batch with its name."""
    yield from _headers(now)
    yield from _producers(now)
    yield from _bodies(now)
    yield from _codecs(now)


def _headers(now: int) -> Iterator[tuple[str, bytes]]:
    for name, values in (
        ("base_offset", (-1, 1, MAX_LONG)),
        ("length", (0, 13, 48, 57, 59, 1000, -1, MAX_INT)),
        ("leader_epoch", (0, 5, -7, MAX_INT)),
        ("magic", (0, 1, 3, -1)),
        ("crc", (1,)),
        (
            "attributes",
            (5, 6, 7, LOG_APPEND_TIME, CONTROL, CONTROL | TRANSACTIONAL, DELETE_HORIZON, 0x80, 0x4000),
        ),
        ("last_offset_delta", (-1, 1, 5, MAX_INT, -MAX_INT - 1)),
        ("count", (0, -1, 2, 5, MAX_INT, -MAX_INT - 1)),
        ("base_timestamp", (-1, -2, 0, MAX_LONG, -MAX_LONG - 1, now + 10**9, now - 10**9)),
        ("max_timestamp", (-1, -2, 0, MAX_LONG, -MAX_LONG - 1, now + 10**9, now - 10**9)),
    ):
        for value in values:
            shown = "the time" if "timestamp" in name and abs(value - now) <= 10**9 else value
            if shown == "the time":
                shown = "in the future" if value > now else "in the past"
            yield f"{name} {shown}", forged(now, **{name: value})
    for count in (2, 1000, MAX_INT):
        yield f"count and delta for {count}", forged(now, count=count, last_offset_delta=count - 1)


def _producers(now: int) -> Iterator[tuple[str, bytes]]:
    for pid, epoch, sequence in (
        (9, -7, 0), (9, -1, 0), (9, 0, -1), (9, 0, -7), (9, 0, 5), (9, 0, MAX_INT), (9, 32767, 0),
        (-7, 0, 0), (-7, -7, -7), (-2, -1, -1), (-1, 0, 0), (-1, -7, 0), (-1, -1, 0), (-1, 0, -1),
        (-1, -1, -7),
        (MAX_LONG, 0, 0), (0, 0, 0), (-MAX_LONG - 1, 0, 0),
    ):  # fmt: skip
        yield (
            f"producer {pid}, epoch {epoch}, sequence {sequence}",
            forged(now, producer_id=pid, producer_epoch=epoch, base_sequence=sequence),
        )


def _bodies(now: int) -> Iterator[tuple[str, bytes]]:
    for name, body in (
        ("no bytes", b""),
        ("one byte", b"\x10"),
        ("cut", RECORD[:-1]),
        ("a byte more", RECORD + b"\x00"),
        ("two records for one", RECORD * 2),
        ("record length too small", record(RECORD[1:], 7)),
        ("record length too large", record(RECORD[1:], 9)),
        ("record length negative", b"\x01" + RECORD[1:]),
        ("record length zero", b"\x00" + RECORD[1:]),
        ("record length endless", b"\xff" * 12),
        ("record attributes 1", record(b"\x01" + RECORD[2:])),
        ("offset delta 1", record(b"\x00\x00\x02\x01\x04ab\x00")),
        ("offset delta -1", record(b"\x00\x00\x01\x01\x04ab\x00")),
        ("offset delta endless", record(b"\x00\x00" + b"\xff" * 6)),
        ("timestamp delta endless", record(b"\x00" + b"\xff" * 12)),
        ("timestamp delta of years", record(b"\x00\x80\x80\x80\x80\x80\x80\x01\x00\x01\x04ab\x00")),
        ("timestamp delta -1", record(b"\x00\x01\x00\x01\x04ab\x00")),
        ("key length -2", record(b"\x00\x00\x00\x03\x04ab\x00")),
        ("key longer than the record", record(b"\x00\x00\x00\x40\x04ab\x00")),
        ("value length -2", record(b"\x00\x00\x00\x01\x03ab\x00")),
        ("value longer than the record", record(b"\x00\x00\x00\x01\x40ab\x00")),
        ("value shorter than the record", record(b"\x00\x00\x00\x01\x02ab\x00")),
        ("header count -1", record(b"\x00\x00\x00\x01\x04ab\x01")),
        ("header count 5", record(b"\x00\x00\x00\x01\x04ab\x0a")),
        ("header key null", record(b"\x00\x00\x00\x01\x04ab\x02\x01\x00")),
        ("header value length -2", record(b"\x00\x00\x00\x01\x04ab\x02\x02k\x03")),
        ("header key no UTF-8", record(b"\x00\x00\x00\x01\x04ab\x02\x02\xff\x01")),
        ("all zero", bytes(9)),
        ("random", bytes(range(200, 209))),
    ):
        for codec in (NONE, GZIP):
            kind = "compressed, " if codec else ""
            yield kind + name, forged(now, body, codec)


def _codecs(now: int) -> Iterator[tuple[str, bytes]]:
    names = {NONE: "plain", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
    for codec, name in names.items():
        if codec == NONE:
            continue
        packed = codec_of(codec).compress(RECORD)
        yield f"{name} in order", forged(now, codec=codec)
        yield f"{name} marked plain", forged(now, compressed=packed)
        yield f"plain marked {name}", forged(now, compressed=RECORD, codec=codec)
        yield f"{name} cut", forged(now, compressed=packed[:-4], codec=codec)
        yield f"{name} with bytes behind it", forged(now, compressed=packed + b"xyz", codec=codec)
        damaged = bytearray(packed)
        damaged[-6] ^= 0x55
        yield f"{name} damaged", forged(now, compressed=bytes(damaged), codec=codec)
        yield f"{name} of nothing", forged(now, compressed=codec_of(codec).compress(b""), codec=codec)
        two = bytearray(RECORD * 2)
        pack_into(">B", two, len(RECORD) + 3, 2)
        yield (
            f"{name} of two records whose offsets are both 0",
            forged(now, RECORD * 2, codec, count=2, last_offset_delta=1),
        )
        yield f"{name} of two records", forged(now, bytes(two), codec, count=2, last_offset_delta=1)
    yield (
        "plain of two records whose offsets are both 0",
        forged(now, RECORD * 2, count=2, last_offset_delta=1),
    )
