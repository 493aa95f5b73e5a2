"""The time since the application's last poll(), which max_poll_interval_ms limits.

Written on the caller's thread and read on the driver's thread without a lock: each field is one assignment,
and a stale value only delays the check until the next one.
"""

from __future__ import annotations

from pykafka2.clock import Clock
from pykafka2.slotted import slotted


@slotted(eq=False)
class PollClock:
    """The time of the application's last poll().

    Application code inside poll() (deserializers, interceptors, callbacks) counts towards the interval, as in
    Java: a member whose code never returns must lose its partitions. Waiting for records does not count.
    """

    _clock: Clock
    limit: float
    """max_poll_interval_ms, in seconds."""
    last_poll_at: float
    is_waiting: bool = False
    is_inside: bool = False

    def enter(self) -> float:
        """Start a poll(); return the seconds since the last one started or returned."""
        now = self._clock.monotonic()
        gap = self.gap(now)
        self.last_poll_at = now
        self.is_waiting = False
        self.is_inside = True
        return gap

    def wait(self) -> None:
        """Stop the interval: poll() has no records and waits."""
        self.is_waiting = True

    def leave(self) -> None:
        """Restart the interval at the end of a poll and before a listener runs."""
        self.last_poll_at = self._clock.monotonic()
        self.is_waiting = self.is_inside = False

    def gap(self, now: float) -> float:
        """Return the seconds that the application has taken so far."""
        return 0.0 if self.is_waiting else now - self.last_poll_at

    def is_overrun(self, now: float) -> bool:
        return self.gap(now) > self.limit

    def wake_at(self, now: float) -> float:
        """Return the latest time of the next check."""
        return (now if self.is_waiting else self.last_poll_at) + self.limit

    def why_overrun(self, now: float) -> str:
        """Explain why the member leaves the group now."""
        gap = self.gap(now)
        if not self.is_inside:
            return self.complaint(gap)
        return (
            f"poll() was blocked for {gap:.1f} s by application code (a deserializer, interceptor or "
            f"callback), longer than max_poll_interval_ms={self.limit * 1000:.0f}; raise it, or do the work "
            "after poll()"
        )

    def complaint(self, gap: float) -> str:
        """Return the message for a gap between two polls that is longer than the limit."""
        return (
            f"poll() was not called for {gap:.1f} s, longer than max_poll_interval_ms={self.limit * 1000:.0f}"
            "; raise it, lower max_poll_records, or do less between two polls"
        )
