"""Arguments of the consumer's calls, checked at the call.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

from pykafka2.cluster.arguments import checked_topic
from pykafka2.option_fields import INT64_MAX
from pykafka2.types import READ_COMMITTED, READ_UNCOMMITTED


def checked_limit(max_records: int) -> int:
    if not isinstance(max_records, int) or max_records < 1:
        raise ValueError(f"max_records={max_records!r}: it must be an integer of at least 1")
    return max_records


def checked_range(start: int, end: int, max_bytes: int) -> None:
    """What `read_range` is given."""
    for name, offset in (("start", start), ("end", end)):
        if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= INT64_MAX:
            raise ValueError(f"{name}={offset!r}: it must be an integer from 0 to {INT64_MAX}")
    if not isinstance(max_bytes, int) or not 0 < max_bytes < 1 << 31:
        raise ValueError(f"max_bytes={max_bytes!r}: it must be an integer from 1 to {(1 << 31) - 1}")


def checked_isolation(isolation: str) -> int:
    """The level's number."""
    levels = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
    if isolation not in levels:
        raise ValueError(f"isolation={isolation!r}: it is 'read_uncommitted' or 'read_committed'")
    return levels[isolation]


def checked_timeout(timeout_ms: float) -> float:
    """In seconds.  Written so that nan is refused too."""
    given: object = timeout_ms
    if not isinstance(given, Real):
        raise TypeError(f"timeout_ms={timeout_ms!r}: it must be a number of milliseconds, or inf")
    if not timeout_ms >= 0:
        raise ValueError(f"timeout_ms={timeout_ms!r}: it must not be negative")
    return timeout_ms / 1000


def split_topics(topics: tuple[Any, ...]) -> tuple[Mapping[str, object] | None, list[str]]:
    """A mapping of options may come first; the rest are topics."""
    config = None
    if topics and isinstance(topics[0], Mapping):
        config, topics = topics[0], topics[1:]
    return config, [checked_topic(topic) for topic in topics]
