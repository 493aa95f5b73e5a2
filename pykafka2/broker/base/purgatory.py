"""Where requests wait that cannot be answered yet: an acks=all produce, a fetch for more bytes.

An operation is tried, watched under its keys, tried once more (what it waits for may have happened in
between), and from then on tried whenever somebody reports that one of its keys changed, until it completes
or its time is up.  It completes exactly once, whoever comes first (Kafka's DelayedOperation).  One that fails
costs itself alone.  Everything here happens under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from pykafka2.broker.base.timing_wheel import Timer, TimingWheel

K = TypeVar("K", bound=Hashable)

# Completed operations linger under keys that nobody reports; beyond this many they are swept out.
PURGE_INTERVAL = 1000


class DelayedOperation:
    """Something that completes once: because it can, because its time is up, or because it is forced to."""

    __slots__ = ("deadline", "is_completed", "timer")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.is_completed = False
        self.timer: Timer | None = None

    def try_complete(self, key: Hashable | None, now: float) -> bool:
        """Call `force_complete` if it can complete now.

        `key` is what changed, None if anything may have.
        """
        raise NotImplementedError

    def on_complete(self, now: float) -> None:
        """Do what was waited for; called exactly once."""
        raise NotImplementedError

    def on_expiration(self, now: float) -> None:
        """Time is up; `on_complete` follows at once."""

    def force_complete(self, now: float) -> bool:
        """Complete it; False if it has completed before."""
        if self.is_completed:
            return False
        self.is_completed = True
        self.on_complete(now)
        return True


class Purgatory(Generic[K]):
    """Operations that wait, watched by key.  Timers come from the broker's timing wheel."""

    def __init__(self, name: str, wheel: TimingWheel) -> None:
        self.name = name
        self._wheel = wheel
        self._watchers: dict[K, list[DelayedOperation]] = {}
        self._completed_since_purge = 0

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[K], now: float, *, was_tried: bool = False
    ) -> bool:
        """True if the operation completed at once, or had no time; else it is watched until it does or its
        time is up.

        `was_tried`: the caller has just found that it cannot complete yet.
        """
        if not was_tried and operation.try_complete(None, now):
            return True
        for key in keys:
            self._watchers.setdefault(key, []).append(operation)
        # What it waits for may have happened between the try above and the watching.
        if operation.try_complete(None, now):
            self._note_completed()
            return True
        if operation.deadline <= now:
            self._expire(operation, now)
            return True
        operation.timer = self._wheel.add(operation.deadline, lambda at: self._expire(operation, at))
        return False

    def check(self, key: K, now: float) -> int:
        """Something about `key` changed: try everything that waits for it; how many completed."""
        watched = self._watchers.get(key)
        if not watched:
            return 0
        self._watchers[key] = []
        completed = 0
        waiting: list[DelayedOperation] = []
        for operation in watched:
            if operation.is_completed:
                continue
            try:
                is_done = operation.try_complete(key, now)
            except Exception as error:
                is_done = self._failed(operation, error)
            if is_done:
                completed += 1
                self._retire(operation)
            else:
                waiting.append(operation)
        # Completing one may have had others watch the same key; those stay behind the older ones.
        waiting.extend(self._watchers.get(key, ()))
        if waiting:
            self._watchers[key] = waiting
        else:
            self._watchers.pop(key, None)
        return completed

    def is_watched(self, key: K) -> bool:
        """Whether something may wait for this key."""
        return key in self._watchers

    def discard(self, operation: DelayedOperation) -> None:
        """Forget one operation without completing it: nobody waits for it any more."""
        if not operation.is_completed:
            operation.is_completed = True
            self._retire(operation)

    def discard_all(self) -> None:
        """Forget everything that waits, completing nothing: the broker has crashed."""
        for watched in self._watchers.values():
            for operation in watched:
                operation.is_completed = True
                if operation.timer is not None:
                    self._wheel.cancel(operation.timer)
        self._watchers.clear()

    def waiting(self) -> int:
        """How many operations wait."""
        return len({id(op) for ops in self._watchers.values() for op in ops if not op.is_completed})

    def watched(self) -> int:
        """How many entries the watch lists hold, completed ones that were not swept out yet included."""
        return sum(map(len, self._watchers.values()))

    def _expire(self, operation: DelayedOperation, now: float) -> None:
        if operation.is_completed:
            return
        operation.is_completed = True
        try:
            operation.on_expiration(now)
            operation.on_complete(now)
        except Exception as error:
            self._failed(operation, error)
        self._note_completed()

    def _failed(self, operation: DelayedOperation, error: Exception) -> bool:
        """An operation raised: whoever waits for it waits in vain, all others go on."""
        self._wheel.on_problem(f"{type(operation).__name__} in the purgatory {self.name}", error)
        operation.is_completed = True
        return True

    def _retire(self, operation: DelayedOperation) -> None:
        if operation.timer is not None:
            self._wheel.cancel(operation.timer)
        self._note_completed()

    def _note_completed(self) -> None:
        self._completed_since_purge += 1
        if self._completed_since_purge >= PURGE_INTERVAL:
            self._purge()

    def _purge(self) -> None:
        self._completed_since_purge = 0
        for key in list(self._watchers):
            alive = [operation for operation in self._watchers[key] if not operation.is_completed]
            if alive:
                self._watchers[key] = alive
            else:
                del self._watchers[key]
