"""One direction of a connection: bytes in flight, unread bytes, and its end.

First in, first out, whatever the link does.  Its size is bounded, so a reader that stops blocks its writer.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Protocol

import attrs

from pykafka2.testing.simulation.links import Link
from pykafka2.testing.simulation.scheduler import Scheduler
from pykafka2.testing.simulation.tasks import Timer
from pykafka2.testing.simulation.trace import Trace

# A sender whose bytes are held up for this time closes the connection (TCP's retransmission timeout).
GIVE_UP_AFTER = 30.0
TIMED_OUT = "the other side did not respond for too long (connection timed out)"


@attrs.define
class Segment:
    """Bytes in flight, or without bytes an end of the stream (a reset has a reason)."""

    arrives_at: float
    data: bytes
    ends: bool = False
    reset: str | None = None


class PipeNetwork(Protocol):
    """The network's interface for pipes (network.py)."""

    scheduler: Scheduler
    trace: Trace
    random: Random
    buffer_bytes: int

    @property
    def now(self) -> float: ...


class PipeEnd(Protocol):
    """The interface for pipes of the transports at both ends (transports.py)."""

    is_closed: bool

    def readiness_changed(self) -> None: ...

    def peer_ended(self, reset: str | None) -> None: ...

    def refuse_late_bytes(self) -> None: ...

    def fail(self, words: str) -> None: ...


class Pipe:
    """From `source` to `target` over `link`."""

    def __init__(self, network: PipeNetwork, label: str, link: Link) -> None:
        self.label = label
        self.link = link
        self.source: PipeEnd
        self.target: PipeEnd
        self.under_way: deque[Segment] = deque()
        self.unread: deque[memoryview] = deque()
        self.size_bytes = 0
        """Bytes in flight and unread bytes together."""
        self.has_ended = False
        self.lose_next = False
        self._network = network
        self._last_arrival = 0.0
        self._timer: Timer | None = None
        self._stalled_since: float | None = None
        self._is_timed_out = False

    @property
    def room_bytes(self) -> int:
        return self._network.buffer_bytes - self.size_bytes

    def put(self, data: bytes) -> None:
        """Send bytes; the caller has checked the room."""
        self._network.trace.carried(self._network.now, self.label, data)
        self.size_bytes += len(data)
        self._travel(Segment(0.0, data))

    def end(self, reset: str | None = None) -> None:
        """Send the end of the stream after all bytes in flight."""
        if not self.has_ended:
            self.has_ended = True
            self._travel(Segment(0.0, b"", ends=True, reset=reset))

    def drop_under_way(self) -> None:
        """Drop everything that has not arrived."""
        self.size_bytes -= sum(len(segment.data) for segment in self.under_way)
        self.under_way.clear()

    def delay_under_way(self, seconds: float) -> None:
        """Delay everything that has not arrived."""
        for segment in self.under_way:
            segment.arrives_at += seconds
        self._last_arrival += seconds
        self._schedule()

    def take(self, buffer: memoryview, most: int) -> int:
        """Move up to `most` unread bytes into `buffer`."""
        count = 0
        while self.unread and count < most:
            head = self.unread[0]
            part = min(len(head), most - count)
            buffer[count : count + part] = head[:part]
            count += part
            if part == len(head):
                self.unread.popleft()
            else:
                self.unread[0] = head[part:]
        self.size_bytes -= count
        self.source.readiness_changed()
        return count

    def retry(self) -> None:
        """Continue after the link can carry again."""
        if self._stalled_since is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._arrive()

    def _travel(self, segment: Segment) -> None:
        delay = self.link.delay(len(segment.data), self._network.random)
        segment.arrives_at = self._last_arrival = max(self._last_arrival, self._network.now + delay)
        self.under_way.append(segment)
        if self._timer is None and self._stalled_since is None:
            self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.under_way:
            self._timer = self._network.scheduler.call_at(self.under_way[0].arrives_at, self._arrive)

    def _arrive(self) -> None:
        """Deliver everything that is due to the target, if the link permits it."""
        now = self._network.now
        self._timer = None
        opens_at = self.link.opens_at(now)
        if opens_at is None or opens_at > now:
            self._stall(opens_at)
            return
        self._stalled_since = None
        arrived = False
        while self.under_way and self.under_way[0].arrives_at <= now:
            self._deliver(self.under_way.popleft())
            arrived = True
        if arrived:
            self.target.readiness_changed()
        if self._timer is None:
            self._schedule()

    def _deliver(self, segment: Segment) -> None:
        if segment.ends:
            self.target.peer_ended(segment.reset)
        elif self.target.is_closed:
            self.size_bytes -= len(segment.data)
            self.target.refuse_late_bytes()
        else:
            self.unread.append(memoryview(segment.data))

    def _stall(self, opens_at: float | None) -> None:
        """Wait for the link; after a timeout the sender closes, and only the end is sent."""
        now = self._network.now
        self.link.blocked += 1
        if self._stalled_since is None:
            self._stalled_since = now
        give_up_at = self._stalled_since + GIVE_UP_AFTER
        if now >= give_up_at and not self._is_timed_out:
            self._is_timed_out = self.has_ended = True
            self.drop_under_way()
            self.under_way.append(Segment(now, b"", ends=True, reset=TIMED_OUT))
            self.source.fail(TIMED_OUT)
        moments = [] if opens_at is None else [opens_at]
        if not self._is_timed_out:
            moments.append(give_up_at)
        if moments:
            self._timer = self._network.scheduler.call_at(min(moments), self._arrive)
