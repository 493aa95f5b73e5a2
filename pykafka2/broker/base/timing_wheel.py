"""Thousands of timers: a hierarchical timing wheel, driven by the time passed to `advance`.

Adding and cancelling take constant time however many timers wait. A purgatory needs this because nearly all
of its timers are cancelled. A tick is one millisecond and a wheel has 20 slots; overflow wheels, each 20
times coarser, are made on demand (Kafka's SystemTimer and TimingWheel). Access requires the cluster's lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

from pykafka2.broker.base.problems import OnProblem, log_problem
from pykafka2.clock import FOREVER

Action = Callable[[float], None]

NOT_QUEUED = -1


class Timer:
    """One timer; created by `TimingWheel.add`, cancelled by `cancel`."""

    __slots__ = ("action", "bucket", "deadline", "tick")

    def __init__(self, deadline: float, tick: int, action: Action) -> None:
        self.deadline = deadline
        self.tick = tick
        self.action: Action | None = action
        self.bucket: Bucket | None = None


class Bucket:
    """The timers of one slot. A dict removes one timer in constant time and keeps the order."""

    __slots__ = ("due", "timers")

    def __init__(self) -> None:
        self.timers: dict[Timer, None] = {}
        self.due = NOT_QUEUED  # the tick at which the slot is emptied, while it is queued


class Level:
    """One wheel: `slots` buckets of `width` ticks each."""

    __slots__ = ("buckets", "span", "width")

    def __init__(self, width: int, slots: int) -> None:
        self.width = width
        self.span = width * slots
        self.buckets = [Bucket() for _ in range(slots)]


class TimingWheel:
    """Runs actions when `advance` reaches their deadlines.

    `tick` is in seconds. An action never runs before its deadline, and at most one tick after the first
    `advance` that reaches it; actions of one tick run in the order they were added. An action that raises is
    reported to `on_problem`, and the others run.
    """

    def __init__(
        self, now: float, tick: float = 0.001, slots: int = 20, on_problem: OnProblem = log_problem
    ) -> None:
        self.on_problem = on_problem
        self._origin = now
        self._tick = tick
        self._slots = slots
        self._current = 0
        self._levels = [Level(1, slots)]
        self._queue: list[tuple[int, int, int]] = []  # (due tick, level, slot) of the buckets in use
        self._ready: list[Timer] = []
        self._count = 0

    def __len__(self) -> int:
        """Return the number of waiting timers."""
        return self._count

    def add(self, deadline: float, action: Action) -> Timer:
        """Schedule `action(now)` for `deadline`; one in the past runs at the next `advance`."""
        timer = Timer(deadline, math.ceil((deadline - self._origin) / self._tick - 1e-6), action)
        self._count += 1
        self._place(timer)
        return timer

    def cancel(self, timer: Timer) -> bool:
        """Cancel the timer. Return False if it has run or was cancelled before."""
        if timer.action is None:
            return False
        timer.action = None
        self._count -= 1
        if timer.bucket is not None:
            del timer.bucket.timers[timer]
            timer.bucket = None
        return True

    def next_deadline(self) -> float:
        """Return the earliest time at which `advance` has work; never later than the next timer's tick."""
        if self._ready and any(timer.action is not None for timer in self._ready):
            return self._origin + self._current * self._tick
        while self._queue:
            due, level, slot = self._queue[0]
            bucket = self._levels[level].buckets[slot]
            if bucket.timers:
                return self._origin + due * self._tick
            heappop(self._queue)
            bucket.due = NOT_QUEUED
        return FOREVER

    def advance(self, now: float) -> int:
        """Run what is due at `now`. Return the number of actions that ran."""
        now_tick = math.floor((now - self._origin) / self._tick + 1e-6)
        queue = self._queue
        while queue and queue[0][0] <= now_tick:
            due, level, slot = heappop(queue)
            bucket = self._levels[level].buckets[slot]
            self._current = max(self._current, due)
            timers = bucket.timers
            bucket.timers = {}
            bucket.due = NOT_QUEUED
            for timer in timers:
                timer.bucket = None
                self._place(timer)
        self._current = max(self._current, now_tick)
        return self._run_ready(now)

    def _run_ready(self, now: float) -> int:
        ready, self._ready = self._ready, []
        ran = 0
        for timer in ready:
            action = timer.action
            if action is not None:
                timer.action = None
                self._count -= 1
                ran += 1
                try:
                    action(now)
                except Exception as error:
                    self.on_problem("a timer", error)
        return ran

    def _place(self, timer: Timer) -> None:
        """Add a timer to the slot of its tick on the finest wheel that covers it.

        A due timer goes to `_ready`.
        """
        if timer.tick <= self._current:
            self._ready.append(timer)
            return
        index = 0
        level = self._levels[0]
        while timer.tick >= self._current - self._current % level.width + level.span:
            index += 1
            if index == len(self._levels):
                self._levels.append(Level(level.span, self._slots))
            level = self._levels[index]
        number = timer.tick // level.width
        slot = number % self._slots
        bucket = level.buckets[slot]
        bucket.timers[timer] = None
        timer.bucket = bucket
        if bucket.due == NOT_QUEUED:
            bucket.due = number * level.width
            heappush(self._queue, (bucket.due, index, slot))
