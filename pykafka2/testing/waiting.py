"""Waits for conditions by polling, because no notification exists."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TypeVar

from pykafka2.clock import Clock
from pykafka2.driver.runtime import Runtime
from pykafka2.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    KafkaTimeoutError,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)

T = TypeVar("T")

# Tests poll, because not every change notifies them.
POLL_EVERY = 0.002

NOT_YET = (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
"""Errors of views of objects that may be created later."""

BLOCKS = "wait_until blocks the running event loop. Await cluster.wait_until_async(...) instead."


def waited(
    runtime: Runtime, check: Callable[[], None], predicate: Callable[[], T], timeout: float, what: str
) -> T:
    """Return the predicate's first true value; check at least twice.  `check` raises the cluster's
    error.
    """
    deadline = runtime.clock.monotonic() + timeout
    has_waited = False
    while True:
        is_late = runtime.clock.monotonic() >= deadline
        value = _check_predicate(check, predicate, timeout, what, is_late=is_late)
        if value:
            return value
        if not has_waited and _is_in_event_loop():
            warnings.warn(BLOCKS, RuntimeWarning, stacklevel=3)
        has_waited = True
        runtime.wait_until(lambda: False, POLL_EVERY)


async def waited_async(
    runtime: Runtime, check: Callable[[], None], predicate: Callable[[], T], timeout: float, what: str
) -> T:
    """Wait like `wait_until`, as a coroutine; the runtime's time must be that of the event loop."""
    import asyncio  # already loaded here; callers without asyncio need not load it

    deadline = runtime.clock.monotonic() + timeout
    while True:
        is_late = runtime.clock.monotonic() >= deadline
        value = _check_predicate(check, predicate, timeout, what, is_late=is_late)
        if value:
            return value
        await asyncio.sleep(POLL_EVERY)


def follows(clock: Clock) -> bool:
    """Return whether the running event loop has this clock's time, as the simulation's loops have."""
    import asyncio

    return asyncio.get_running_loop().time() == clock.monotonic()


def _check_predicate(
    check: Callable[[], None], predicate: Callable[[], T], timeout: float, what: str, *, is_late: bool
) -> T | None:
    """Return the predicate's value if true.  Raise `KafkaTimeoutError` if it is false after the
    deadline.
    """
    value: T | None = None
    missing: Exception | None = None
    try:
        value = predicate()
    except NOT_YET as error:
        missing = error
    if value:
        return value
    check()
    if is_late:
        last = value if missing is None else missing
        raise KafkaTimeoutError(
            f"{what} did not come true within {timeout:g} seconds; last: {last!r}"
        ) from missing
    return None


def _is_in_event_loop() -> bool:
    """Return whether this thread runs an asyncio event loop; do not import asyncio."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio.events._get_running_loop() is not None
