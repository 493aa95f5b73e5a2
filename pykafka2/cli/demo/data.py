"""The demo's records: order events from a seed, or the lines of a file.

Both are lists of `DemoRecord`, numbered from 0 in the order in which they are sent; the number travels in the
record's headers, so that the proof can name a record that went astray.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

NUMBER_HEADER = "demo-number"
CURRENCIES = ("EUR", "USD", "JPY", "GBP")
STATES = ("placed", "paid", "packed", "shipped", "returned")
START_MS = 1_767_225_600_000  # 2026-01-01; fixed, so that one seed is one data set


class DemoRecord(NamedTuple):
    """One record as it is sent."""

    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int

    @property
    def checksum(self) -> int:
        return checksum_of(self.key, self.value, self.headers)


def checksum_of(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> int:
    """CRC-32 over everything that a record carries."""
    checksum = crc32(b"-" if key is None else b"k" + key)
    checksum = crc32(b"-" if value is None else b"v" + value, checksum)
    for name, content in headers:
        checksum = crc32(name.encode() + b"=" + (content or b""), checksum)
    return checksum


def order_events(count: int, seed: int) -> Iterator[DemoRecord]:
    """Orders of some thousand customers: JSON values of about 100 bytes, keyed by customer."""
    choose = random.Random(seed)
    customers = max(1, min(5000, count // 20))
    timestamp_ms = START_MS
    for number in range(count):
        timestamp_ms += choose.randrange(0, 20)
        customer = choose.randrange(customers)
        order = {
            "order": number,
            "customer": customer,
            "state": choose.choice(STATES),
            "amount": choose.randrange(100, 1_000_000) / 100,
            "currency": choose.choice(CURRENCIES),
        }
        yield DemoRecord(
            key=b"customer-%d" % customer,
            value=json.dumps(order, separators=(",", ":")).encode(),
            headers=[(NUMBER_HEADER, b"%d" % number), ("source", b"pykafka2 demo")],
            timestamp_ms=timestamp_ms,
        )


def lines_of(path: Path) -> Iterator[DemoRecord]:
    """One record a line, without its line end; the key is the line's first word, so that keys recur."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines):
            value = line.rstrip(b"\r\n")
            words = value.split(maxsplit=1)
            yield DemoRecord(
                key=words[0] if words else None,
                value=value,
                headers=[(NUMBER_HEADER, b"%d" % number)],
                timestamp_ms=START_MS + number,
            )
