"""The controller's one queue: changes are made one after another, in the order in which they came.

An event runs at once where nothing is before it; so an idle controller adds no delay.  A slow event (only a
control makes one) holds up those behind it and nothing else: brokers go on serving data.  Under the
cluster's lock; never waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from pykafka2.clock import FOREVER

Work = Callable[[float], None]

KEPT_EVENTS = 1000


@attrs.define(eq=False)
class ControllerEvent:
    """One change: what it is called, when it came, ran and ended (seconds of the monotonic clock)."""

    name: str
    queued_at: float
    epoch: int
    started_at: float | None = None
    ended_at: float | None = None
    outcome: str = ""
    """Why it was not done: refused by the log, or too late; empty if it was."""


@attrs.define(eq=False)
class _Waiting:
    event: ControllerEvent
    work: Work
    deadline: float
    expire: Work


class Timeline:
    """The latest events of all controllers of a cluster, oldest first."""

    def __init__(self) -> None:
        self._events: deque[ControllerEvent] = deque(maxlen=KEPT_EVENTS)

    def add(self, event: ControllerEvent) -> None:
        self._events.append(event)

    def events(self) -> list[ControllerEvent]:
        return list(self._events)


class EventQueue:
    """The events of one broker's controller.  `wake` asks for `run` to be called soon."""

    def __init__(self, timeline: Timeline, wake: Callable[[], None]) -> None:
        self._timeline = timeline
        self._wake = wake
        self._waiting: deque[_Waiting] = deque()
        self._is_running = False
        self._busy_until = 0.0
        self._slowness = 0.0
        self._slow_times = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def slow_down(self, seconds: float, times: int) -> None:
        """Let each of the next events take that long."""
        self._slowness, self._slow_times = seconds, times

    def submit(
        self,
        name: str,
        epoch: int,
        work: Work,
        now: float,
        *,
        deadline: float = FOREVER,
        expire: Work | None = None,
    ) -> None:
        """Have `work(now)` run after all that came before; `expire(now)` instead if that is after
        `deadline`.
        """
        event = ControllerEvent(name, now, epoch)
        self._timeline.add(event)
        self._waiting.append(_Waiting(event, work, deadline, expire or work))
        if not self._is_running and self.run(now) < FOREVER:
            self._wake()

    def run(self, now: float) -> float:
        """Run what can run; when to be called again."""
        if self._is_running:
            return FOREVER
        self._is_running = True
        try:
            while self._waiting:
                first = self._waiting[0]
                if first.event.started_at is None:
                    if now >= first.deadline:
                        self._end(first, now, first.expire, "too late")
                        continue
                    self._begin(first.event, now)
                if now < self._busy_until:
                    return min(self._busy_until, self._expire_waiting(now))
                self._end(first, now, first.work, "")
        finally:
            self._is_running = False
        return FOREVER

    def drop(self) -> list[ControllerEvent]:
        """Forget what waits: its broker is gone."""
        dropped = [waiting.event for waiting in self._waiting]
        self._waiting.clear()
        self._busy_until = 0.0
        return dropped

    def _begin(self, event: ControllerEvent, now: float) -> None:
        event.started_at = now
        if self._slow_times:
            self._slow_times -= 1
            self._busy_until = now + self._slowness

    def _end(self, first: _Waiting, now: float, work: Work, outcome: str) -> None:
        self._waiting.popleft()
        first.event.outcome = outcome
        first.event.ended_at = now
        work(now)

    def _expire_waiting(self, now: float) -> float:
        """Those behind a slow event may run out of time meanwhile; when the next one does."""
        behind = list(self._waiting)[1:]
        for waiting in behind:
            if now >= waiting.deadline:
                self._waiting.remove(waiting)
                waiting.event.outcome = "too late"
                waiting.event.ended_at = now
                waiting.expire(now)
        return min((waiting.deadline for waiting in behind if waiting.deadline > now), default=FOREVER)
