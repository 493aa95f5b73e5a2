"""All real time of the connector: pauses between retries, trigger delays, and the age of transactions."""

from __future__ import annotations

import time

from pykafka2.clock import SystemClock

_clock = SystemClock()  # which freezegun does not freeze
sleep = time.sleep


def monotonic() -> float:
    return _clock.monotonic()


def wall() -> float:
    """Returns the seconds since the epoch."""
    return _clock.wall_ns() / 1e9
