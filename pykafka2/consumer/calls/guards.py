"""Guards of a consumer's calls: one thread at a time, none after `close`, and no record lost to an interrupt.

Used on the callers' threads. `Handover` is the one place that knows how records reach the application, so it
can take back those that an interrupted call did not return (see pykafka2/interrupts.py).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Concatenate, NoReturn, ParamSpec, TypeVar

from pykafka2.errors import ConcurrentUse, IllegalState, KafkaError
from pykafka2.other_clients import explain_arguments

if TYPE_CHECKING:
    from pykafka2.consumer.poll.poller import Poller
    from pykafka2.consumer.state.iteration_queue import IterationQueue
    from pykafka2.consumer.state.subscription import Subscription
    from pykafka2.types import TopicPartition

P = ParamSpec("P")
T = TypeVar("T")
OwnedT = TypeVar("OwnedT", bound="Owned")


class Handover:
    """The last step of records to the application, which is repeated if an exception interrupts it."""

    def __init__(
        self,
        subscription: Subscription,
        poller: Poller,
        iteration_queue: IterationQueue,
    ) -> None:
        self._subscription = subscription
        self._poller = poller
        self._iteration_queue = iteration_queue
        self._position_control = poller.position_control
        self._checked_as_of = 0
        """`Subscription.changes` when the queued records were last compared with the assignment."""
        self._to_rewind: frozenset[TopicPartition] = frozenset()
        """Partitions whose queued records are being read again instead."""
        self._puts_back = False
        """Whether to read them from the fetch buffer, as far as it has them."""

    def begin(self) -> bool:
        """Start a call that returns records; return the state that `undo_interrupted_call` needs.

        Finish what an interrupt left of an earlier call first.
        """
        self._poller.collector.moved = self._iteration_queue.taken = None
        changes = self._subscription.changes
        if self._to_rewind or self._checked_as_of != changes:
            self._finish_rewinding()
            self._iteration_queue.keep_only(self._subscription.assigned)
            self._checked_as_of = changes
        return self._poller.is_in_pass

    def undo_interrupted_call(self, was_in_pass: bool) -> None:
        """Take the records of an interrupted call back, so that the next call returns them."""
        self._poller.is_in_pass = was_in_pass
        self._finish_rewinding()
        self._iteration_queue.restore_taken()
        if not self._iteration_queue:  # otherwise the polled records are in the queue
            self._poller.collector.undo_last_pass()

    def rewind(self, partitions: Iterable[TopicPartition]) -> None:
        """Read the queued records of these partitions again, because they were not returned."""
        self._rewind(partitions, puts_back=False)

    def put_back(self, partitions: Iterable[TopicPartition]) -> None:
        """Rewind like `rewind`, to the data in the fetch buffer, which can be read again at once."""
        self._rewind(partitions, puts_back=True)

    def _rewind(self, partitions: Iterable[TopicPartition], *, puts_back: bool) -> None:
        if self._iteration_queue:
            self._puts_back = puts_back
            self._to_rewind = self._to_rewind.union(partitions)
            self._finish_rewinding()

    def _finish_rewinding(self) -> None:
        if not self._to_rewind:
            return
        for partition, offset in self._iteration_queue.first_offsets(self._to_rewind).items():
            if partition not in self._subscription.assigned:
                continue
            if not (self._puts_back and self._poller.collector.put_back(partition, offset)):
                self._position_control.rewind(partition, offset)
        self._iteration_queue.forget(self._to_rewind)
        self._to_rewind = frozenset()


class Owned:
    """The attributes of a consumer that the guards use."""

    _lock: threading.RLock
    _refusal: KafkaError | None
    """Why the consumer can no longer be used."""
    _handover: Handover

    def _refuse(self) -> NoReturn:
        """Raise a new copy of the refusal, because each raised error gets its own traceback."""
        refusal = self._refusal
        raise type(refusal)(str(refusal)) if refusal is not None else IllegalState("not refused")


def owned(
    method: Callable[Concatenate[OwnedT, P], T],
) -> Callable[Concatenate[OwnedT, P], T]:
    """Guard a call: one thread at a time, and none after close(). Calls within a call are allowed."""

    @functools.wraps(method)
    def guarded(self: OwnedT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        lock = self._lock
        if not lock.acquire(blocking=False):
            raise _second_thread(method.__name__)
        try:
            if self._refusal is not None:
                self._refuse()
            return method(self, *args, **kwargs)
        except TypeError as error:
            explain_arguments(error, self, method.__name__, kwargs)
            raise
        finally:
            lock.release()

    return guarded


def handing_over(
    method: Callable[Concatenate[OwnedT, P], T],
) -> Callable[Concatenate[OwnedT, P], T]:
    """Guard a call that returns records like `owned`; if an exception interrupts it, take its records back.

    A signal handler runs during a call, not between the return from here and the caller's next step, so
    every returned record reaches the application.
    """

    @functools.wraps(method)
    def guarded(self: OwnedT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        lock = self._lock
        if not lock.acquire(blocking=False):
            raise _second_thread(method.__name__)
        was_in_pass: bool | None = None
        try:
            try:
                if self._refusal is not None:
                    self._refuse()
                was_in_pass = self._handover.begin()
                records = method(self, *args, **kwargs)
            except TypeError as error:
                explain_arguments(error, self, method.__name__, kwargs)
                raise
            finally:
                lock.release()
            return records
        except BaseException:
            if was_in_pass is not None:
                self._handover.undo_interrupted_call(was_in_pass)
            raise

    return guarded


def _second_thread(call: str) -> ConcurrentUse:
    return ConcurrentUse(
        f"another thread is inside a call of this KafkaConsumer, so {call}() cannot run; create a consumer "
        "for each thread (any thread can call wakeup(), read_range(), health(), explain() and metrics())"
    )
