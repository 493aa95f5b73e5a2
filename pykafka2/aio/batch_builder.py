"""Batches of aiokafka's `create_batch` and `send_batch`: records that are collected before they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pykafka2.cluster.arguments import describe_argument
from pykafka2.errors import IllegalState
from pykafka2.producer.accumulator.batch_sizes import SMALLEST_RECORD_BYTES

HEADER_BYTES = 10
"""The most that a header takes beside its name and value, if both are shorter than 256 MiB."""


class AppendedRecord(NamedTuple):
    """A record of a batch: its index, its size in bytes, and its timestamp if one was given."""

    offset: int
    size: int
    timestamp: int | None


class BatchBuilder:
    """Records for one partition, up to the producer's batch_size; `KafkaProducer.send_batch` sends them."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._is_closed = False
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[Any] = []
        self.timestamps_ms: list[int | None] = []

    def append(
        self,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> AppendedRecord | None:
        """Add a record and return its metadata; None if the batch is full or closed.

        An empty batch accepts a record of any size. Raise TypeError if key or value is not bytes.
        """
        size = SMALLEST_RECORD_BYTES + _length("key", key) + _length("value", value)
        for name, data in headers:
            size += HEADER_BYTES + len(name.encode()) + _length("header", data)
        if self._is_closed or (self.values and self._size_bytes + size > self._max_bytes):
            return None
        self._size_bytes += size
        self.keys.append(key)
        self.values.append(value)
        self.headers.append(headers or None)
        self.timestamps_ms.append(timestamp)
        return AppendedRecord(len(self.values) - 1, size, timestamp)

    def record_count(self) -> int:
        """Return the number of records."""
        return len(self.values)

    def size(self) -> int:
        """Return the size of the records in bytes, before compression."""
        return self._size_bytes

    def close(self) -> None:
        """Accept no more records; `send_batch` closes a batch."""
        self._is_closed = True

    def take(self) -> None:
        """Close the batch, to send it. Raise IllegalState if it was sent before."""
        if self._max_bytes < 0:
            raise IllegalState("the batch was sent before; call create_batch() for another one")
        self._max_bytes = -1
        self.close()


def _length(what: str, data: object) -> int:
    if data is None:
        return 0
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"append(): the {what} must be bytes or None, not {describe_argument(data)}")
    return len(data)
