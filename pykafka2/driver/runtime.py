"""The interfaces of a runtime: clock, randomness, network, and the loops that it runs.

Two implementations: `thread_driver.ThreadRuntime` (the machine's threads, clocks and sockets) and
`testing/simulation/driver.py` (virtual time, one seeded scheduler, an in-memory network).  Clients and
brokers are written against this protocol only, so both run on both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from pykafka2.clock import Clock, Entropy
from pykafka2.driver.wait_queue import Waiter, WaitQueue, Watched
from pykafka2.network.script import Lane
from pykafka2.network.transport import Network, Ready, Selector
from pykafka2.slotted import slotted

T = TypeVar("T")


@slotted
class Outcome(Generic[T]):
    """The result of offloaded work: a value or an error."""

    value: T | None = None
    error: BaseException | None = None

    def get(self) -> T:
        """Return the value; raise the error if there is one."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


def ignore_error(error: BaseException) -> None:
    """Ignore the error, for loops whose owner reads `Task.error`."""


class Step(Protocol):
    """The body of a loop: one turn of a broker's thread or of a client's IO thread."""

    def run_once(self, now: float, events: Sequence[Ready]) -> float:
        """Do the work that needs no waiting; return the latest time of the next call.

        `events` are those of the task's selector (empty for a task without one). A time at or before `now`
        means at once; `FOREVER` means at the next event or wake-up.
        """
        ...


class Task(Protocol):
    """A running loop."""

    name: str
    error: BaseException | None
    """Why the loop ended, if it ended by itself: a step that raises ends its task."""
    turns: int
    """The number of its turns."""
    worked: float
    """Seconds spent in its turns; 0 in virtual time."""

    def wake(self) -> None:
        """Call `run_once` soon.  Any thread or signal handler; takes no lock."""
        ...

    def stop(self, timeout: float = 5.0) -> bool:
        """End the loop after its current turn and wait for it; False if it did not end in time.

        The task closes its selector.  Safe to repeat, also from the loop's own step (then it does not wait).
        """
        ...


class Runtime(Protocol):
    """Time, randomness, network, loops and the one blocking primitive."""

    clock: Clock
    entropy: Entropy
    network: Network

    def spawn(
        self,
        name: str,
        step: Step,
        selector: Selector | None = None,
        on_failed: Callable[[BaseException], None] = ignore_error,
    ) -> Task:
        """Start to turn a loop; its first turn is immediate.

        `on_failed(error)` is called on the loop's thread when the step or the selector raises, before
        `Task.error` is visible.
        """
        ...

    def wait_until(self, predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
        """Block the calling thread until `predicate()` is true, at most `timeout` seconds.

        Return the last value of the predicate.  With queues, the thread that makes it true wakes one of them,
        and it is evaluated only on the calling thread: first, after each wake or `notify`, and at the
        timeout. Without queues, `check_waiters` evaluates it, too: one thread at a time, and not again after
        it was true.  It must then be cheap and take no lock that the waiter holds.
        """
        ...

    def notify(self) -> None:
        """Wake every waiter, including those of queues.  From any thread; cheap without waiters."""
        ...

    def check_waiters(self) -> None:
        """Wake waiters without a queue whose predicate is now true.

        The predicates are evaluated on this thread, which must hold no lock; a wake-up costs ten times as
        much, and most turns of a loop change nothing for any waiter.
        """
        ...

    def join(self, waiter: Waiter, watched: Watched | None) -> None:
        """Add a waiter that parks no thread, such as a task of an event loop, until `leave`.

        `notify` wakes it, and `check_waiters` checks its predicate `watched`, if it has one.
        """
        ...

    def leave(self, waiter: Waiter, watched: Watched | None) -> None: ...

    def offload(
        self,
        work: Callable[[], T],
        then: Callable[[Outcome[T]], None],
        lane: Lane = Lane.COMPUTING,
    ) -> None:
        """Run `work` on a thread that can block, then `then(outcome)` on that same thread of the lane."""
        ...

    def is_current(self, task: Task) -> bool:
        """Return True if the caller runs inside this task's loop."""
        ...

    def is_in_a_loop(self) -> bool:
        """Return whether the caller runs inside any loop of any runtime, which others can wait for."""
        ...

    def close(self) -> None:
        """Release the runtime's own resources (its pool); owners stop their tasks."""
        ...


AnyOutcome = Outcome[Any]
