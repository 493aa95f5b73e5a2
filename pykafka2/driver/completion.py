"""The outcome of a call on the driver, for a waiting thread, event loop or callback.

Created on any thread, completed once on the driver's thread; can be polled and awaited from any thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

from pykafka2.driver.loop_wait import wait_in_loop
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import KafkaTimeoutError

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Waiting(Protocol):
    """The function of driver.py with which a completion blocks its caller."""

    def wait_until(self, predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool: ...


class Completion(Generic[T]):
    """A value or an error that is set later.  Thread-safe; has the method names of the standard futures.

    `what` is named in the error of a wait that times out.
    """

    __slots__ = ("_callbacks", "_driver", "_error", "_value", "is_cancelled", "is_done", "waiters", "what")

    def __init__(self, driver: Waiting, what: str) -> None:
        self.what = what
        self.is_done = False
        self.is_cancelled = False
        """Whether the caller no longer waits, so no further attempt is made."""
        self._driver = driver
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: deque[Callable[[], object]] = deque()
        self.waiters = WaitQueue()
        """The threads and tasks that wait for it."""

    def done(self) -> bool:
        """Return whether it has a value or an error."""
        return self.is_done

    def succeed(self, value: T) -> None:
        """Set the value, unless it is done.  Driver's thread only."""
        if not self.is_done:
            self._value = value
            self._finish()

    def fail(self, error: BaseException) -> None:
        """Set the error, unless it is done.  Driver's thread only."""
        if not self.is_done:
            self._error = error
            self._finish()

    def cancel(self) -> None:
        """Stop further attempts; a request on the wire can still be executed.  Any thread."""
        self.is_cancelled = True

    def result(self, timeout: float = float("inf")) -> T:
        """Return the value; waits at most `timeout` seconds.

        Raise the error if there is one, and `KafkaTimeoutError` on a timeout, after which the call
        continues.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._value  # type: ignore[return-value]

    def exception(self, timeout: float = float("inf")) -> BaseException | None:
        """Return the error, or None; waits as `result` does."""
        if not self.is_done and not self._driver.wait_until(self.done, timeout, self.waiters):
            raise KafkaTimeoutError(f"{self.what} is not done after {timeout:g} s; it continues")
        return self._error

    def add_done_callback(self, callback: Callable[[Completion[T]], object]) -> None:
        """Call `callback(self)` on the driver's thread when it is done; on this thread if it is done by then.

        It must not block; its exceptions are logged.
        """
        self._callbacks.append(lambda: callback(self))
        if self.is_done:
            self._tell()

    def __await__(self) -> Generator[Any, None, T]:
        yield from wait_in_loop(self.done, self.waiters)
        return self.result(0)

    def _finish(self) -> None:
        # Other threads can read the outcome from here on, so all of it is in place.
        self.is_done = True
        self.waiters.wake()
        self._tell()

    def _tell(self) -> None:
        # If two threads are here, the one that pops a callback calls it.
        while self._callbacks:
            try:
                callback = self._callbacks.popleft()
            except IndexError:
                return
            try:
                callback()
            except Exception:
                logger.exception("a callback of %s failed", self.what)
