"""Waiting until something has come true that nobody notifies a test of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pykafka2.driver.runtime import Runtime
from pykafka2.errors import KafkaTimeoutError

T = TypeVar("T")

# Nobody tells waiting tests of every change, so they poll.
POLL_EVERY = 0.002


def waited(
    runtime: Runtime, check: Callable[[], None], predicate: Callable[[], T], timeout: float, what: str
) -> T:
    """The predicate's first true value; looks at least twice.  `check` raises what ended the cluster."""
    deadline = runtime.clock.monotonic() + timeout
    while True:
        is_late = runtime.clock.monotonic() >= deadline
        value = predicate()
        if value:
            return value
        check()
        if is_late:
            raise KafkaTimeoutError(f"{what} did not come true within {timeout:g} seconds; last: {value!r}")
        runtime.wait_until(lambda: False, POLL_EVERY)
