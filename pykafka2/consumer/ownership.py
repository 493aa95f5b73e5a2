"""Who may be inside a consumer's calls: one thread at a time, and nobody after `close`.

Callers' threads.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, NoReturn, ParamSpec, TypeVar

from pykafka2.errors import ConcurrentUse, IllegalState, KafkaError

P = ParamSpec("P")
T = TypeVar("T")
OwnedT = TypeVar("OwnedT", bound="Owned")


class Owned:
    """What the guard asks of a consumer: its lock, and why it cannot be used any more."""

    _lock: threading.RLock
    _refusal: KafkaError | None

    def _refuse(self) -> NoReturn:
        """Raise why this consumer cannot be used any more (a new error, as each gets a traceback)."""
        refusal = self._refusal
        raise type(refusal)(str(refusal)) if refusal is not None else IllegalState("not refused")


def owned(
    method: Callable[Concatenate[OwnedT, P], T],
) -> Callable[Concatenate[OwnedT, P], T]:
    """One thread at a time, and none after close(); calls from within a call of the same thread are fine."""

    @functools.wraps(method)
    def guarded(self: OwnedT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        lock = self._lock
        if not lock.acquire(blocking=False):
            raise ConcurrentUse(
                f"another thread is inside a call of this KafkaConsumer, so {method.__name__}() is refused; "
                "give each thread a consumer of its own (wakeup() alone may be called from any thread)"
            )
        try:
            if self._refusal is not None:
                self._refuse()
            return method(self, *args, **kwargs)
        finally:
            lock.release()

    return guarded
