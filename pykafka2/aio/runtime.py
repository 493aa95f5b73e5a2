"""The runtime of the asyncio clients: no call blocks a thread on which an event loop runs.

It wraps any other runtime: the machine's threads, or the simulation's. The sync clients block in one
function, `wait_until`. On a loop's thread it raises `LoopBlocked` here, so a call that would wait has no
effect and is repeated elsewhere. On a helper thread it lets the loop use the client meanwhile
(`CallCondition`), and a cancelled call ends there as by a Ctrl-C.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from pykafka2.driver.loop_wait import WakingStep, wake_loops
from pykafka2.driver.runtime import ignore_error
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import LoopBlocked

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime, Step, Task
    from pykafka2.network.transport import Selector


def runs_a_loop() -> bool:
    """Return whether an event loop runs on this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _called() -> str:
    """Return the name of the function of pykafka2 that the application called."""
    name = ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "pykafka2":
        name, frame = frame.f_code.co_qualname, frame.f_back
    return name


class CallCancelled(BaseException):
    """Ends a call on a helper thread whose task was cancelled, as a KeyboardInterrupt ends one elsewhere."""


class CallCondition:
    """The lock of a consumer's calls, which a thread releases while it waits, as by `threading.Condition`.

    It replaces the lock of the sync consumer, whose second thread gets `ConcurrentUse` at once.
    """

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()

    def acquire(self, blocking: bool = True) -> bool:
        """Acquire the lock. Always waits: a thread that holds it computes, and never blocks meanwhile."""
        return bool(self._lock.acquire())

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def run_released(self, wait: Callable[[], bool]) -> bool:
        """Release the lock, run `wait`, and acquire the lock again."""
        if not self._lock._is_owned():
            return wait()
        depth = self._lock._release_save()
        try:
            return wait()
        finally:
            self._lock._acquire_restore(depth)


class HelperCall:
    """A blocking call on a helper thread; `is_cancelled` prevents it, or ends its next wait, once."""

    __slots__ = ("_right_to_begin", "is_cancelled")

    def __init__(self) -> None:
        self.is_cancelled = False
        self._right_to_begin = [True]

    def claim(self) -> bool:
        """Return True to the first caller only: the helper thread that begins the call, or the loop that
        gives it up."""
        try:
            return self._right_to_begin.pop()  # one step in C
        except IndexError:
            return False


class LoopRuntime:
    """The runtime of one asyncio client: `threads`, except that no wait blocks an event loop."""

    def __init__(self, threads: Runtime) -> None:
        self.clock = threads.clock
        self.entropy = threads.entropy
        self.network = threads.network
        self.condition = CallCondition()
        self._current = threading.local()
        self._wait = threads.wait_until
        self._is_in_a_loop = threads.is_in_a_loop
        self._spawn = threads.spawn
        self._check_waiters = threads.check_waiters
        # The rest is that of the threads. Some of it is called in every IO turn.
        self.notify = threads.notify
        self.join = threads.join
        self.leave = threads.leave
        self.offload = threads.offload
        self.is_current = threads.is_current
        self.close = threads.close

    def spawn(
        self,
        name: str,
        step: Step,
        selector: Selector | None = None,
        on_failed: Callable[[BaseException], None] = ignore_error,
    ) -> Task:
        """Start a loop whose turns wake the event loop once."""
        return self._spawn(name, WakingStep(step), selector, on_failed)

    def check_waiters(self) -> None:
        """Wake the waiters whose predicate is true, and the event loops of this turn."""
        self._check_waiters()
        wake_loops()

    def wait_until(self, predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
        """Block a helper thread; see `Runtime.wait_until`.

        Raises:
            LoopBlocked: an event loop runs on this thread, and the predicate is false.
        """
        if predicate():
            return True
        if runs_a_loop():
            if timeout <= 0:
                return False
            called = _called()
            raise LoopBlocked(
                f"{called}() would block the event loop; await the {called.partition('.')[0]}, or the method "
                "of the pykafka2.aio client, instead"
            )
        call: HelperCall | None = getattr(self._current, "call", None)
        if call is None:
            return self._wait(predicate, timeout, *queues)

        def is_over() -> bool:
            return call.is_cancelled or predicate()

        is_true = self.condition.run_released(lambda: self._wait(is_over, timeout, *queues))
        if call.is_cancelled:
            call.is_cancelled = False
            raise CallCancelled
        return is_true

    def is_in_a_loop(self) -> bool:
        """Return whether blocking here would stop a loop of a runtime, or an event loop."""
        return self._is_in_a_loop() or runs_a_loop()

    def run_call(self, call: HelperCall, work: Callable[[], Any]) -> Any:
        """Run a call on this helper thread, unless it was cancelled or given up before it began."""
        if not call.claim() or call.is_cancelled:
            raise CallCancelled
        self._current.call = call
        try:
            return work()
        finally:
            self._current.call = None
