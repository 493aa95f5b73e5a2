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
    """A value or an error, sooner or later.  Thread-safe; offers the names of the standard futures.

    `what` is named by the error of a wait that takes too long.
    """

    __slots__ = ("_callbacks", "_driver", "_error", "_value", "is_cancelled", "is_done", "waiters", "what")

    def __init__(self, driver: Waiting, what: str) -> None:
        self.what = what
        self.is_done = False
        self.is_cancelled = False
        """Its caller waits no longer: no further attempt is to be made."""
        self._driver = driver
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: deque[Callable[[], object]] = deque()
        self.waiters = WaitQueue()
        """Of the threads and tasks that wait for it."""

    def done(self) -> bool:
        return self.is_done

    def succeed(self, value: T) -> None:
        """It has come to this.  The driver's thread; what is completed already stays as it is."""
        if not self.is_done:
            self._value = value
            self._finish()

    def fail(self, error: BaseException) -> None:
        """It has failed.  As `succeed`."""
        if not self.is_done:
            self._error = error
            self._finish()

    def cancel(self) -> None:
        """Give it up: what is on the wire may still be carried out, but is not sent again.  Any thread."""
        self.is_cancelled = True

    def result(self, timeout: float = float("inf")) -> T:
        """The value; waits at most `timeout` seconds.

        Raises the error if there is one; `KafkaTimeoutError` if it is not done in time: it goes on.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._value  # type: ignore[return-value]

    def exception(self, timeout: float = float("inf")) -> BaseException | None:
        """The error, or None; waits as `result` does."""
        if not self.is_done and not self._driver.wait_until(self.done, timeout, self.waiters):
            raise KafkaTimeoutError(f"{self.what} is not done after {timeout:g} s; it goes on")
        return self._error

    def add_done_callback(self, callback: Callable[[Completion[T]], object]) -> None:
        """Call `callback(self)` when it is done: on the driver's thread, or here and now if it is by then.

        It must not block; what it raises is logged.
        """
        self._callbacks.append(lambda: callback(self))
        if self.is_done:
            self._tell()

    def __await__(self) -> Generator[Any, None, T]:
        yield from wait_in_loop(self.done, self.waiters)
        return self.result(0)

    def _finish(self) -> None:
        # From here on others may read the outcome; everything it consists of is in place.
        self.is_done = True
        self.waiters.wake()
        self._tell()

    def _tell(self) -> None:
        # Popping decides who calls it, should two threads be here.
        while self._callbacks:
            try:
                callback = self._callbacks.popleft()
            except IndexError:
                return
            try:
                callback()
            except Exception:
                logger.exception("a callback of %s failed", self.what)
