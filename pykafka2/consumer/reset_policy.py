"""The first position if none is known: `auto_offset_reset`.  Pure; used by options.py and poll/poller.py.

Source: KIP-1106 for by_duration; durations are written as in ISO 8601, read as java.time.Duration reads them.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from pykafka2.option_fields import Because

LATEST_TIMESTAMP = -1


EARLIEST_TIMESTAMP = -2


EARLIEST = "earliest"
LATEST = "latest"
NONE = "none"
BY_DURATION = "by_duration"

_RENAMED = {"beginning": EARLIEST, "smallest": EARLIEST, "end": LATEST, "largest": LATEST, "error": NONE}
"""Names in librdkafka, and in Kafka before 0.9."""

_WHOLE = r"([-+]?[0-9]+)"
_DURATION = re.compile(
    rf"([-+]?)P(?!$)(?:{_WHOLE}D)?(?:T(?!$)(?:{_WHOLE}H)?(?:{_WHOLE}M)?(?:([-+]?[0-9]+(?:[.,][0-9]{{0,9}})?)S)?)?",
    re.IGNORECASE,
)


def read_policy(value: Any) -> str:
    """Return the value of the option, in lower case except for a duration. Raise `ValueError`."""
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise Because("a timedelta is how far back to read, so it must not be negative")
        return f"{BY_DURATION}:PT{value.total_seconds():f}S"
    if not isinstance(value, str):
        raise ValueError
    word, colon, duration = value.partition(":")
    word = word.lower()
    if word in _RENAMED:
        raise Because(f"write {_RENAMED[word]!r}; {word!r} is its name in other clients")
    if word == BY_DURATION:
        if _seconds(duration) is None:
            raise Because(
                "after by_duration: write an ISO 8601 duration, as in 'by_duration:P1DT12H' or ':PT30M'"
            )
        return f"{BY_DURATION}:{duration.upper()}"
    if colon or word not in (EARLIEST, LATEST, NONE):
        raise ValueError
    return word


def reset_timestamp(policy: str, wall_ms: int) -> int:
    """Return the timestamp for ListOffsets: an end of the log, or milliseconds since the epoch."""
    if policy == EARLIEST:
        return EARLIEST_TIMESTAMP
    seconds = _seconds(policy.partition(":")[2])
    return LATEST_TIMESTAMP if seconds is None else max(wall_ms - int(seconds * 1000), 0)


def _seconds(duration: str) -> float | None:
    """Return the seconds of an ISO 8601 duration that is not negative, or None."""
    found = _DURATION.fullmatch(duration)
    if found is None:
        return None
    sign, days, hours, minutes, seconds = found.groups("0")
    try:
        span = timedelta(
            days=int(days), hours=int(hours), minutes=int(minutes), seconds=float(seconds.replace(",", "."))
        )
    except OverflowError:
        return None
    total = span.total_seconds() * (-1 if sign == "-" else 1)
    return total if total >= 0 else None
