"""Delayed requests that cannot be answered yet, such as an acks=all produce or a fetch with min_bytes.

An operation is tried, watched under its keys, and tried again, because its condition may have been met in
between. A caller that has just tried it, under the same lock, can skip both. The operation is then tried
whenever one of its keys changes, until it completes or its deadline passes. It completes exactly once
(Kafka's DelayedOperation). A failing operation does not affect the others. Everything here runs under the
cluster's lock.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from pykafka2.broker.base.timing_wheel import Timer, TimingWheel

K = TypeVar("K", bound=Hashable)

# Completed operations stay under keys that never change; beyond this many they are purged.
PURGE_INTERVAL = 1000


class DelayedOperation:
    """An operation that completes once: when it can, when its deadline passes, or when it is forced to."""

    __slots__ = ("deadline", "is_completed", "timer")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.is_completed = False
        self.timer: Timer | None = None

    def try_complete(self, key: Hashable | None, now: float) -> bool:
        """Call `force_complete` if the operation can complete now; return whether it did.

        `key` is the key that changed, or None if any may have changed.
        """
        raise NotImplementedError

    def on_complete(self, now: float) -> None:
        """Perform the completion; called exactly once."""
        raise NotImplementedError

    def on_expiration(self, now: float) -> None:
        """Called when the deadline has passed, just before `on_complete`."""

    def force_complete(self, now: float) -> bool:
        """Complete the operation. Return False if it has completed before."""
        if self.is_completed:
            return False
        self.is_completed = True
        self.on_complete(now)
        return True


class Purgatory(Generic[K]):
    """Delayed operations, watched by key. Timers come from the broker's timing wheel."""

    def __init__(self, name: str, wheel: TimingWheel) -> None:
        self.name = name
        self._wheel = wheel
        self._watchers: dict[K, list[DelayedOperation]] = {}
        self._completed_since_purge = 0

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[K], now: float, *, was_tried: bool = False
    ) -> bool:
        """Return True if the operation completed or expired at once; otherwise watch it until it does.

        `was_tried`: the caller has just found that it cannot complete yet, and has changed nothing it waits
        for.
        """
        if not was_tried and operation.try_complete(None, now):
            return True
        for key in keys:
            self._watchers.setdefault(key, []).append(operation)
        # The condition may have been met between the attempt above and the watch.
        if not was_tried and operation.try_complete(None, now):
            self._note_completed()
            return True
        if operation.deadline <= now:
            self._expire(operation, now)
            return True
        operation.timer = self._wheel.add(operation.deadline, lambda at: self._expire(operation, at))
        return False

    def check(self, key: K, now: float) -> int:
        """Try every operation that watches `key`, which has changed. Return the number that completed."""
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
        # Completing an operation may have added watchers of the same key; these stay behind the older ones.
        waiting.extend(self._watchers.get(key, ()))
        if waiting:
            self._watchers[key] = waiting
        else:
            self._watchers.pop(key, None)
        return completed

    def is_watched(self, key: K) -> bool:
        """Return whether an operation may be watching this key."""
        return key in self._watchers

    def discard(self, operation: DelayedOperation) -> None:
        """Drop an operation without completing it, because its result is no longer needed."""
        if not operation.is_completed:
            operation.is_completed = True
            self._retire(operation)

    def discard_all(self) -> None:
        """Drop all operations without completing them, because the broker has crashed."""
        for watched in self._watchers.values():
            for operation in watched:
                operation.is_completed = True
                if operation.timer is not None:
                    self._wheel.cancel(operation.timer)
        self._watchers.clear()

    def waiting(self) -> int:
        """Return the number of waiting operations."""
        return len({id(op) for ops in self._watchers.values() for op in ops if not op.is_completed})

    def watched(self) -> int:
        """Return the number of entries in the watch lists, including completed ones not purged yet."""
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
        """Report an operation that raised, and mark it as completed.

        It gets no response; the others continue.
        """
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
