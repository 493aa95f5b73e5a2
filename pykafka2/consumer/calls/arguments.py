"""Arguments of the consumer's calls, checked at the call.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from numbers import Real
from typing import Any

from pykafka2.cluster.arguments import checked_topic, describe_argument
from pykafka2.errors import IllegalArgument
from pykafka2.option_fields import INT64_MAX
from pykafka2.types import READ_COMMITTED, READ_UNCOMMITTED, TopicPartition

NUMBERS = (int, float, Real)
"""`Real` alone would do, but isinstance() looks for its registered classes, which takes longer."""
MOST_SECONDS = 10
"""A float up to here with at most one decimal looks like confluent-kafka's seconds."""


def checked_limit(max_records: int | None, default: int) -> int:
    """Return the maximum number of records of one call."""
    if max_records is None:
        return default
    if not isinstance(max_records, int) or max_records < 1:
        raise ValueError(f"max_records={max_records!r}: it must be an integer of at least 1")
    return max_records


def checked_range(start: int, end: int, max_bytes: int, topic_id: bytes | None) -> None:
    """Check the arguments of `read_range`."""
    if topic_id is not None and (not isinstance(topic_id, bytes) or len(topic_id) != 16):
        raise ValueError(f"topic_id={topic_id!r}: it must be the 16 bytes of the topic's id")
    for name, offset in (("start", start), ("end", end)):
        if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= INT64_MAX:
            raise ValueError(f"{name}={offset!r}: it must be an integer from 0 to {INT64_MAX}")
    if not isinstance(max_bytes, int) or not 0 < max_bytes < 1 << 31:
        raise ValueError(f"max_bytes={max_bytes!r}: it must be an integer from 1 to {(1 << 31) - 1}")


def checked_isolation(isolation: str) -> int:
    """Return the protocol's number of an isolation level."""
    levels = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
    if isolation not in levels:
        raise ValueError(f"isolation={isolation!r}: it must be 'read_uncommitted' or 'read_committed'")
    return levels[isolation]


def checked_timeout(timeout_ms: float) -> float:
    """Return the timeout in seconds. The comparison also rejects nan."""
    argument: object = timeout_ms
    if not isinstance(argument, NUMBERS):
        raise TypeError(f"timeout_ms={timeout_ms!r}: it must be a number of milliseconds, or inf")
    if not timeout_ms >= 0:
        raise ValueError(f"timeout_ms={timeout_ms!r}: it must not be negative")
    if type(timeout_ms) is float and 0 < timeout_ms <= MOST_SECONDS and round(timeout_ms, 1) == timeout_ms:
        from pykafka2.options import warn_caller  # loaded by the constructor

        warn_caller(
            f"poll({timeout_ms!r}) waits {timeout_ms:g} ms. If you mean seconds, write "
            f"timeout_ms={timeout_ms * 1000:g}; if you mean milliseconds, write an int.",
            UserWarning,
        )
    return timeout_ms / 1000


def checked_close(timeout: float | None, timeout_ms: float | None) -> float:
    """Return the timeout of `close` in seconds, 5 by default."""
    arguments: dict[str, tuple[str, object]] = {
        "timeout": ("seconds", timeout),
        "timeout_ms": ("milliseconds", timeout_ms),
    }
    for name, (unit, argument) in arguments.items():
        if argument is not None and not isinstance(argument, Real):
            raise TypeError(f"close(): {name}={argument!r}: it must be a number of {unit}")
    if timeout is not None:
        return timeout
    return 5.0 if timeout_ms is None else timeout_ms / 1000


def checked_offset(offset: object) -> int:
    """Check the offset of `seek`."""
    if isinstance(offset, int) and not isinstance(offset, bool) and 0 <= offset <= INT64_MAX:
        return offset
    meant = ""
    if offset is None:  # as returned by offsets_for_times() and committed()
        meant = "; for a partition without an offset call seek_to_beginning() or seek_to_end()"
    elif offset in (-1, -2):  # Kafka's and librdkafka's numbers for the ends
        meant = f"; write {'seek_to_end' if offset == -1 else 'seek_to_beginning'}(partition)"
    elif hasattr(offset, "offset"):
        meant = f"; pass the .offset of the {type(offset).__name__}"
    raise ValueError(
        f"offset={describe_argument(offset)}: it must be an integer from 0 to {INT64_MAX}{meant}"
    )


def checked_time(partition: TopicPartition, time_ms: object) -> int:
    """Check a timestamp of `offsets_for_times`."""
    if not isinstance(time_ms, int) or isinstance(time_ms, bool):
        meant = "; write int(when.timestamp() * 1000)" if isinstance(time_ms, datetime) else ""
        meant = "; write int(...)" if isinstance(time_ms, float) else meant
        raise TypeError(f"{partition}: a time must be an int in milliseconds, not {time_ms!r}{meant}")
    if time_ms < 0 or time_ms > INT64_MAX:
        reason = "negative; for the ends of the log call beginning_offsets() or end_offsets()"
        reason = reason if time_ms < 0 else f"beyond {INT64_MAX}"
        raise ValueError(f"{partition}: the time {time_ms} is {reason}")
    return time_ms


def implausible_time(times_ms: Iterable[int]) -> int | None:
    """Return a time that is probably in seconds (it is in 1970) or microseconds (far future), or None."""
    implausible = (time_ms for time_ms in times_ms if 10**9 <= time_ms < 10**10 or time_ms > 10**14)
    return next(implausible, None)


def split_topics(topics: tuple[Any, ...]) -> tuple[Mapping[str, object] | None, list[str]]:
    """Split the arguments into a mapping of options, which can come first, and topics."""
    config = None
    if topics and isinstance(topics[0], Mapping):
        config, topics = topics[0], topics[1:]
    for topic in topics:
        if isinstance(topic, list | tuple | set | frozenset):
            raise IllegalArgument("topics must be separate arguments: KafkaConsumer(*topics)")
        if isinstance(topic, Mapping):
            raise IllegalArgument(
                "a mapping of options must be the first argument: KafkaConsumer(options, 'orders')"
            )
        if isinstance(topic, str) and ":" in topic:  # never legal in a name
            raise IllegalArgument(
                f"{topic!r} is not a valid topic name; for an address write bootstrap_servers={topic!r}"
            )
    return config, [checked_topic(topic) for topic in topics]
