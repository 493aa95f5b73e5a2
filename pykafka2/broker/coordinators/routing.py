"""Maps groups and transactional ids to partitions of internal topics. Pure, and light to import."""

from __future__ import annotations

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, over UTF-16 units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partitions: int) -> int:
    """Return the partition of the internal topic for a group or transactional id (Kafka's Utils.abs)."""
    value = java_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions
