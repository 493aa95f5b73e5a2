"""The controller's queue: changes are made one by one, in the order of arrival.

An event runs at once if the queue is empty, so an idle controller adds no delay. A slow event (only a control
creates one) delays those behind it and nothing else: brokers continue to serve data. Access requires the
cluster's lock; never waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from pykafka2.broker.observed.event_log import EventLog
from pykafka2.clock import FOREVER

Work = Callable[[float], "Exception | None"]
"""Callback: (now) -> why it was rejected, or None if it was done."""


@attrs.define(eq=False)
class _Event:
    name: str
    epoch: int
    work: Work
    deadline: float
    expire: Work
    queued_at: float
    started_at: float | None = None


class EventQueue:
    """The events of one broker's controller. `wake` schedules a call of `run`."""

    def __init__(self, broker_id: int, log: EventLog, wake: Callable[[], None]) -> None:
        self._broker_id = broker_id
        self._log = log
        self._wake = wake
        self._waiting: deque[_Event] = deque()
        self._is_running = False
        self._busy_until = 0.0
        self._slowness = 0.0
        self._slow_times = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def slow_down(self, seconds: float, times: int) -> None:
        """Make each of the next events take this long."""
        self._slowness, self._slow_times = seconds, times

    def end_slowness(self) -> None:
        """End `slow_down`, also for the event that runs."""
        self._slowness, self._slow_times, self._busy_until = 0.0, 0, 0.0
        self._wake()

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
        """Run `work(now)` after all earlier events.

        Run `expire(now)` instead if `deadline` has passed by then.
        """
        self._waiting.append(_Event(name, epoch, work, deadline, expire or work, now))
        if not self._is_running and self.run(now) < FOREVER:
            self._wake()

    def run(self, now: float) -> float:
        """Run the events that can run. Return when it must be called again."""
        if self._is_running:
            return FOREVER
        self._is_running = True
        try:
            while self._waiting:
                first = self._waiting[0]
                if first.started_at is None:
                    if now >= first.deadline:
                        self._expire(first, now)
                        continue
                    self._begin(first, now)
                if now < self._busy_until:
                    return min(self._busy_until, self._expire_others(now))
                self._waiting.popleft()
                self._do(first, now)
        finally:
            self._is_running = False
        return FOREVER

    def drop(self) -> None:
        """Drop all events because the broker has stopped."""
        self._waiting.clear()
        self._busy_until = 0.0

    def _begin(self, event: _Event, now: float) -> None:
        event.started_at = now
        if self._slow_times:
            self._slow_times -= 1
            self._busy_until = now + self._slowness

    def _do(self, event: _Event, now: float) -> None:
        try:
            refusal = event.work(now)
        except Exception as error:
            self._note(event, type(error).__name__, now)
            raise
        self._note(event, "done" if refusal is None else type(refusal).__name__, now)

    def _expire(self, event: _Event, now: float) -> None:
        self._waiting.remove(event)
        self._note(event, "too late", now)
        event.expire(now)

    def _expire_others(self, now: float) -> float:
        """Expire events behind a slow one. Return the next deadline."""
        behind = list(self._waiting)[1:]
        for event in behind:
            if now >= event.deadline:
                self._expire(event, now)
        return min((event.deadline for event in behind if event.deadline > now), default=FOREVER)

    def _note(self, event: _Event, outcome: str, now: float) -> None:
        text = f"controller {self._broker_id} in epoch {event.epoch}: {event.name}, {outcome}"
        self._log.note(
            now,
            "controller",
            text,
            broker=self._broker_id,
            epoch=event.epoch,
            event=event.name,
            outcome=outcome,
            waited=now - event.queued_at,
        )
