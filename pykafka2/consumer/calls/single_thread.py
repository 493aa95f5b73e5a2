"""Guards the calls of a consumer: one thread at a time, and none after `close`.

Callers' threads.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, NoReturn, ParamSpec, TypeVar

from pykafka2.consumer.poll.poller import Poller
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.errors import ConcurrentUse, IllegalState, KafkaError
from pykafka2.other_clients import explain_arguments

P = ParamSpec("P")
T = TypeVar("T")
OwnedT = TypeVar("OwnedT", bound="Owned")


class Owned:
    """The attributes of a consumer that the guard uses: its lock, and why it can no longer be used."""

    _lock: threading.RLock
    _refusal: KafkaError | None
    _poller: Poller
    _iteration_queue: IterationQueue

    def _refuse(self) -> NoReturn:
        """Raise why this consumer cannot be used any more (a new error, as each gets a traceback)."""
        refusal = self._refusal
        raise type(refusal)(str(refusal)) if refusal is not None else IllegalState("not refused")

    def _take_back(self) -> None:
        """A call has ended by an exception: the records that it was about to return are to come again."""


def owned(
    method: Callable[Concatenate[OwnedT, P], T],
) -> Callable[Concatenate[OwnedT, P], T]:
    """One thread at a time, and none after close(); calls from within a call of the same thread are fine."""

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
            explain_arguments(error, method.__name__, kwargs)
            raise
        finally:
            lock.release()

    return guarded


def handing_over(
    method: Callable[Concatenate[OwnedT, P], T],
) -> Callable[Concatenate[OwnedT, P], T]:
    """Guard a call that returns records like `owned`; a Ctrl-C after the positions have moved moves them
    back.

    An exception comes after a call, not between the return from here and the caller's next step, so records
    that positions are past have reached the application.
    """

    @functools.wraps(method)
    def guarded(self: OwnedT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        lock = self._lock
        if not lock.acquire(blocking=False):
            raise _second_thread(method.__name__)
        is_begun = was_in_pass = False
        try:
            try:
                if self._refusal is not None:
                    self._refuse()
                self._poller.collector.moved = self._iteration_queue.taken = None
                was_in_pass = self._poller.is_in_pass
                is_begun = True
                records = method(self, *args, **kwargs)
            except TypeError as error:
                explain_arguments(error, method.__name__, kwargs)
                raise
            finally:
                lock.release()
            return records
        except BaseException:
            if is_begun:
                self._poller.is_in_pass = was_in_pass  # what interrupted it may have hit its reset, too
                self._take_back()
            raise

    return guarded


def _second_thread(what: str) -> ConcurrentUse:
    return ConcurrentUse(
        f"another thread is inside a call of this KafkaConsumer, so {what}() is refused; "
        "give each thread a consumer of its own (wakeup(), read_range(), health(), explain() and metrics() "
        "may be called from any thread)"
    )
