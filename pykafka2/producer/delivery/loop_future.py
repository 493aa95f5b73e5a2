"""The methods of an asyncio future that `asyncio.gather`, `wait`, `wait_for` and `shield` call.

With them these functions register a callback with a delivery, instead of starting a task for each. A batch's
callbacks are kept with its outcome and run in one call on the loop. All on a loop's thread, except `unpark`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Self

from pykafka2.driver.loop_wait import LoopCalls, calls_of

if TYPE_CHECKING:
    import asyncio

    from pykafka2.producer.delivery.batch_outcome import BatchOutcome

Callback = Callable[[Any], object]


_loop_of_thread: Callable[[], asyncio.AbstractEventLoop | None] | None = None
"""asyncio's function, once asyncio is loaded."""


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs on this thread, or None. Do not load asyncio."""
    global _loop_of_thread
    if _loop_of_thread is None:
        events = sys.modules.get("asyncio.events")
        if events is None:
            return None
        _loop_of_thread = events._get_running_loop
    return _loop_of_thread()


class LoopCallbacks:
    """The callbacks of one event loop that wait for a batch; a `Waiter` of its outcome."""

    __slots__ = ("_calls", "_loop", "_outcome", "by_index", "cancelled", "lasting")

    def __init__(self, outcome: BatchOutcome, loop: asyncio.AbstractEventLoop) -> None:
        self._outcome = outcome
        self._loop = loop
        self._calls: LoopCalls = calls_of(loop)
        self.by_index: dict[int, list[tuple[Any, Callback, Context]]] = {}
        """Delivery, callback and context by the record's index in the batch."""
        self.lasting: list[tuple[Any, Callback, Context]] = []
        """Callbacks that `cancel` does not call: they wait for the record, not for a task."""
        self.cancelled: set[int] = set()
        """Records whose callbacks were called by `cancel`, before the batch was done."""
        outcome.waiters.join(self)

    def unpark(self) -> None:
        """Run the callbacks soon, as the batch is done. Any thread."""
        self._calls.post(self.run)

    def check(self) -> None:
        """Run the callbacks soon if the batch was done before this waiter joined, so nothing wakes it."""
        if self._outcome.is_done:
            self.unpark()

    def run(self) -> None:
        """Call all callbacks, if the batch is done."""
        if self._outcome.is_done:
            self._outcome.waiters.leave(self)
            callbacks, self.lasting = self.lasting, []
            for of_record in self.by_index.values():
                callbacks += of_record
            self.by_index.clear()
            self._call(callbacks)

    def _call(self, callbacks: Iterable[tuple[Any, Callback, Context]]) -> None:
        exit_request: BaseException | None = None
        for delivery, callback, context in callbacks:
            try:
                context.run(callback, delivery)
            except Exception as error:
                self._loop.call_exception_handler(
                    {"message": f"Exception in callback {callback!r}", "exception": error}
                )
            except BaseException as error:  # such as SystemExit; the other callbacks are still called
                exit_request = exit_request or error
        if exit_request is not None:
            raise exit_request

    def cancel(self, index: int) -> bool:
        """Call the callbacks of one record soon; False if it has none."""
        callbacks = self.by_index.pop(index, None)
        if callbacks is None:
            return False
        self.cancelled.add(index)
        for delivery, callback, context in callbacks:
            self._loop.call_soon(self._call_cancelled, index, delivery, callback, context=context)
        return True

    def _call_cancelled(self, index: int, delivery: LoopFuture, callback: Callback) -> None:
        """Call a callback of a cancelled wait, to which the delivery is cancelled.

        To a wait that has begun meanwhile it is not, before and after.
        """
        cancelled, is_waited_for = self.cancelled, index in self.by_index
        cancelled.add(index)
        try:
            callback(delivery)
        finally:
            if is_waited_for:
                cancelled.discard(index)

    def remove(self, index: int, callback: Callback) -> int:
        """Remove a callback of one record; return how often it was there."""
        callbacks = self.by_index.get(index)
        if callbacks is None:
            return 0
        left = [one for one in callbacks if one[1] != callback]
        if left:
            self.by_index[index] = left
        else:
            del self.by_index[index]
        return len(callbacks) - len(left)


class LoopFuture:
    """A delivery as `asyncio.gather` and its relatives use it.

    Cancelling such a wait ends that wait. It does not take the record back, and the delivery can be awaited
    again.
    """

    __slots__ = ()

    batch_outcome: BatchOutcome
    batch_index: int

    _asyncio_future_blocking = False
    """Makes `asyncio.isfuture` return True. Never set: awaiting yields a future of asyncio's own."""
    _cancel_message = None
    """Read by `asyncio.gather` of Python 3.11."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop: any loop can wait for a delivery. Raise RuntimeError without one."""
        loop = running_loop()
        if loop is None:
            raise RuntimeError("no running event loop; wait for a delivery in a coroutine, or call result()")
        return loop

    def add_done_callback(self, callback: Callback, *, context: Context | None = None) -> Self:
        """Call `callback(self)` when the record is done.

        On a thread where an event loop runs, the loop calls it, as that of an asyncio future. Elsewhere the
        IO thread calls it, or this method does so at once if the record is done.
        """
        outcome, loop = self.batch_outcome, running_loop()
        if loop is None:
            outcome.add_listener(lambda: callback(self))
            return self
        if context is None:
            context = copy_context()
        if outcome.is_done:
            loop.call_soon(callback, self, context=context)
            return self
        # Hot: once for each delivery of a `gather`.
        by_loop, index = outcome.loop_callbacks, self.batch_index
        waiting = None if by_loop is None else by_loop.get(loop)
        if waiting is None:
            waiting = _callbacks_of(outcome, loop)
        if waiting.cancelled:
            waiting.cancelled.discard(index)
        of_this = waiting.by_index.get(index)
        if of_this is None:
            waiting.by_index[index] = [(self, callback, context)]
        else:
            of_this.append((self, callback, context))
        if outcome.is_done:
            waiting.unpark()  # type: ignore[unreachable] # as in `check`: the IO thread was faster
        return self

    def call_when_done(self, callback: Callback) -> None:
        """Call `callback(self)` on the running loop when the record is done, also after `cancel`."""
        outcome, loop = self.batch_outcome, self.get_loop()
        waiting = _callbacks_of(outcome, loop)
        waiting.lasting.append((self, callback, copy_context()))
        waiting.check()

    def remove_done_callback(self, callback: Callback) -> int:
        """Remove a callback of the running loop; return how often it was added."""
        waiting = self._of_loop()
        return 0 if waiting is None else waiting.remove(self.batch_index, callback)

    def cancel(self, msg: object = None) -> bool:
        """End the waits of the running loop's `asyncio.gather` and its relatives; False without any.

        The record is sent nevertheless.
        """
        waiting = None if self.batch_outcome.is_done else self._of_loop()
        return waiting is not None and waiting.cancel(self.batch_index)

    def cancelled(self) -> bool:
        """Return whether `cancel` has ended a wait of the running loop, and the record is not done yet."""
        if self.batch_outcome.is_done:
            return False
        waiting = self._of_loop()
        return waiting is not None and self.batch_index in waiting.cancelled

    def _of_loop(self) -> LoopCallbacks | None:
        by_loop = self.batch_outcome.loop_callbacks
        return None if by_loop is None else by_loop.get(running_loop())

    def _make_cancelled_error(self) -> BaseException:
        from asyncio import CancelledError

        return CancelledError()


def _callbacks_of(outcome: BatchOutcome, loop: asyncio.AbstractEventLoop) -> LoopCallbacks:
    by_loop = outcome.loop_callbacks
    if by_loop is None:
        by_loop = outcome.loop_callbacks = {}
    waiting = by_loop.get(loop)
    if waiting is None:
        waiting = by_loop[loop] = LoopCallbacks(outcome, loop)
    return waiting
