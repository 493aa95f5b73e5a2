"""Waiting until something has come true that nobody notifies a test of."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TypeVar

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

# Nobody tells waiting tests of every change, so they poll.
POLL_EVERY = 0.002

NOT_YET = (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
"""What views raise of things that may come to be."""

BLOCKS = "wait_until blocks the event loop it is called in: await cluster.wait_until_async(...) instead"


def waited(
    runtime: Runtime, check: Callable[[], None], predicate: Callable[[], T], timeout: float, what: str
) -> T:
    """The predicate's first true value; looks at least twice.  `check` raises what ended the cluster."""
    deadline = runtime.clock.monotonic() + timeout
    has_waited = False
    while True:
        is_late = runtime.clock.monotonic() >= deadline
        value = _looked(check, predicate, timeout, what, is_late=is_late)
        if value:
            return value
        if not has_waited and _is_in_event_loop():
            warnings.warn(BLOCKS, RuntimeWarning, stacklevel=3)
        has_waited = True
        runtime.wait_until(lambda: False, POLL_EVERY)


async def waited_async(
    runtime: Runtime, check: Callable[[], None], predicate: Callable[[], T], timeout: float, what: str
) -> T:
    """The same as a coroutine; the runtime's time must be that of the event loop."""
    import asyncio  # whoever awaits this has it, and others need not load it

    deadline = runtime.clock.monotonic() + timeout
    while True:
        is_late = runtime.clock.monotonic() >= deadline
        value = _looked(check, predicate, timeout, what, is_late=is_late)
        if value:
            return value
        await asyncio.sleep(POLL_EVERY)


def _looked(
    check: Callable[[], None], predicate: Callable[[], T], timeout: float, what: str, *, is_late: bool
) -> T | None:
    """The predicate's value if it is true.  Raises `KafkaTimeoutError` if it is not, and it is late."""
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
    """Whether this thread runs an event loop of asyncio, which need not be loaded."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio.events._get_running_loop() is not None
