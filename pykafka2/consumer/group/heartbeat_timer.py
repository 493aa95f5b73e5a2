"""When a member of a group says that it is alive, and what its silence means.

Pure timing, owned by classic/membership.py on the driver's thread: so heartbeats go out however long the
application computes.  Durations are seconds, times those of the driver's monotonic clock.
"""

from __future__ import annotations

import attrs

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER

NEVER = -FOREVER


@attrs.define(eq=False)
class Heartbeat:
    """The heartbeats of one member, one at a time."""

    interval: float
    session_timeout: float
    backoff: Backoff
    sent_at: float = NEVER
    answered_at: float = NEVER
    """When the coordinator last took this member for alive."""
    is_in_flight: bool = False
    is_warned: bool = False
    _next_at: float = FOREVER
    _is_hurried: bool = False

    @property
    def timeout(self) -> float:
        """Seconds to wait for an answer: one that is lost must leave half of the session for another try."""
        return self.session_timeout / 2

    def begin(self, now: float) -> None:
        """The coordinator has just taken the member in."""
        self.answered_at = now
        self.is_in_flight = self.is_warned = False
        self.backoff.reset()
        self._next_at = now + self.interval

    def end(self) -> None:
        """No more of them until `begin`."""
        self._next_at = FOREVER
        self.is_in_flight = self._is_hurried = False

    def hurry(self) -> None:
        """There is something to say: the next one waits only for the last one's answer, or a back-off."""
        self._is_hurried = True
        if not self.is_in_flight and not self.backoff.attempts:
            self._next_at = NEVER

    def delay(self, until: float) -> None:
        """The next one does not come before."""
        self._is_hurried = False
        self._next_at = until

    def is_due(self, now: float) -> bool:
        return not self.is_in_flight and now >= self._next_at

    def wake_at(self) -> float:
        return FOREVER if self.is_in_flight else self._next_at

    def on_sent(self, now: float) -> None:
        self.is_in_flight = True
        self._is_hurried = False
        self.sent_at = now

    def on_answer(self, now: float) -> None:
        """The coordinator knows the member, whatever else it said."""
        self.is_in_flight = self.is_warned = False
        self.answered_at = now
        self.backoff.reset()
        self._next_at = NEVER if self._is_hurried else self.sent_at + self.interval

    def on_failure(self, now: float) -> None:
        """No answer, or one of somebody who is not the coordinator (any more): again soon."""
        self.is_in_flight = False
        self._next_at = now + self.backoff.next()

    def is_session_over(self, now: float) -> bool:
        """True if the coordinator, unless it is new, must have given this member up by now."""
        return now > self.answered_at + self.session_timeout
