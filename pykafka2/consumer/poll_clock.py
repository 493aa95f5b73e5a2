"""How long the application has not asked for records: what max_poll_interval_ms is compared with.

Written on the caller's thread, read on the driver's, without a lock: each field is one assignment, and a
reader that meets an old value is only late by one look.
"""

from __future__ import annotations

import attrs

from pykafka2.clock import Clock


@attrs.define(eq=False)
class PollClock:
    """When the application last was inside `poll`."""

    _clock: Clock
    limit: float
    """max_poll_interval_ms, in seconds."""
    last_poll_at: float
    is_polling: bool = False

    def enter(self) -> float:
        """The application polls; the seconds since it last did."""
        now = self._clock.monotonic()
        gap = 0.0 if self.is_polling else now - self.last_poll_at
        self.last_poll_at = now
        self.is_polling = True
        return gap

    def leave(self) -> None:
        """The application is on its own: at the end of a poll, and while one of its listeners runs."""
        self.last_poll_at = self._clock.monotonic()
        self.is_polling = False

    def gap(self, now: float) -> float:
        """Seconds without a poll so far."""
        return 0.0 if self.is_polling else now - self.last_poll_at

    def is_overrun(self, now: float) -> bool:
        return self.gap(now) > self.limit

    def wake_at(self, now: float) -> float:
        """When to look again at the latest."""
        return (now if self.is_polling else self.last_poll_at) + self.limit

    def complaint(self, gap: float) -> str:
        """What to tell whoever is out of the group for it."""
        return (
            f"poll() was not called for {gap:.1f} s, longer than max_poll_interval_ms={self.limit * 1000:.0f}"
            "; raise it, lower max_poll_records, or do less between two polls"
        )
