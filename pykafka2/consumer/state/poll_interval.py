"""How long the application has not asked for records: what max_poll_interval_ms is compared with.

Written on the caller's thread, read on the driver's, without a lock: each field is one assignment, and a
reader that meets an old value is only late by one look.
"""

from __future__ import annotations

import attrs

from pykafka2.clock import Clock


@attrs.define(eq=False)
class PollClock:
    """When the application last asked for records, or was given some.

    What runs inside poll() of the application's (deserializers, interceptors, callbacks) counts as well, as
    in Java: one that never returns must not keep its partitions.  Waiting for records does not.
    """

    _clock: Clock
    limit: float
    """max_poll_interval_ms, in seconds."""
    last_poll_at: float
    is_waiting: bool = False
    is_inside: bool = False

    def enter(self) -> float:
        """poll() looks for records; the seconds since it last did, or since it has returned."""
        now = self._clock.monotonic()
        gap = self.gap(now)
        self.last_poll_at = now
        self.is_waiting = False
        self.is_inside = True
        return gap

    def wait(self) -> None:
        """poll() has found nothing, and waits."""
        self.is_waiting = True

    def leave(self) -> None:
        """The application is on its own: at the end of a poll, and while one of its listeners runs."""
        self.last_poll_at = self._clock.monotonic()
        self.is_waiting = self.is_inside = False

    def gap(self, now: float) -> float:
        """Seconds that the application has taken so far."""
        return 0.0 if self.is_waiting else now - self.last_poll_at

    def is_overrun(self, now: float) -> bool:
        return self.gap(now) > self.limit

    def wake_at(self, now: float) -> float:
        """When to look again at the latest."""
        return (now if self.is_waiting else self.last_poll_at) + self.limit

    def why_overrun(self, now: float) -> str:
        """Explain why the member leaves the group now."""
        gap = self.gap(now)
        if not self.is_inside:
            return self.complaint(gap)
        return (
            f"poll() was kept for {gap:.1f} s by what it calls (a deserializer, interceptor or callback), "
            f"longer than max_poll_interval_ms={self.limit * 1000:.0f}; raise it, or work after poll()"
        )

    def complaint(self, gap: float) -> str:
        """The same once it is known how long it took until the next poll."""
        return (
            f"poll() was not called for {gap:.1f} s, longer than max_poll_interval_ms={self.limit * 1000:.0f}"
            "; raise it, lower max_poll_records, or do less between two polls"
        )
