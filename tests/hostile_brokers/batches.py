"""Record batches that no producer makes; their checksums fit, unless that is the point."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pykafka2.records.batch import crc32c
from pykafka2.records.encoder import BatchBuilder
from pykafka2.records.varint import varint
from tests.hostile_brokers.liar import Tell
from tests.hostile_brokers.lies import changing

NOW = 1_700_000_000_000
GOOD = bytes.fromhex("0e000000010261 00".replace(" ", ""))
"""One record, value "a"."""


def batch(
    body: bytes = GOOD,
    count: int = 1,
    *,
    base: int = 0,
    last: int | None = None,
    attributes: int = 0,
    magic: int = 2,
    length: int | None = None,
    crc: int | None = None,
    timestamp: int = NOW,
    producer_id: int = -1,
) -> bytes:
    """A batch around these bytes."""
    last = count - 1 if last is None else last
    covered = (
        struct.pack(">hiqqqhii", attributes, last, timestamp, timestamp, producer_id, 0, 0, count) + body
    )
    length = 9 + len(covered) if length is None else length
    crc = crc32c(covered) if crc is None else crc
    return struct.pack(">qiibI", base, length, 0, magic, crc) + covered


def record(
    key: int = -1,
    value: int = 1,
    headers: int = 0,
    *,
    timestamp_delta: int = 0,
    offset_delta: int = 0,
    rest: bytes = b"a",
    length: int | None = None,
) -> bytes:
    """A record with these lengths, true or not."""
    inner = b"\0" + varint(timestamp_delta) + varint(offset_delta) + varint(key)
    inner += varint(value) + rest + varint(headers)
    return varint(len(inner) if length is None else length) + inner


def bomb(codec: str, size: int = 8 << 20) -> bytes:
    builder = BatchBuilder(codec, max_bytes=1 << 30)
    builder.append(NOW, None, bytes(size))
    return builder.build(base_offset=0)


def records(change: Callable[[bytes], bytes | None]) -> Tell:
    """Answers of Fetch with other records for partition 0, wherever it has some."""

    def edit(answer: Any) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                if partition.partition_index == 0 and partition.records:
                    partition.records = change(bytes(partition.records))

    return changing(edit)
