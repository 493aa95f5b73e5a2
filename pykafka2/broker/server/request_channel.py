"""The bounded queue of requests between a broker's processors and its handlers.

queued.max.requests and queued.max.request.bytes bound it: processors stop reading while it is full, so that
TCP holds the clients back.

Requests that have just come stand in a line of their own, from which every other one is taken: who asks one
thing at a time does not wait behind all those whose next request was read long ago, and these have at least
every other turn.

Processors that find no room stand in line for it.  The first lets in a request of each connection that waits
with it (waiting_for_room.py), then it is the next one's turn; so room is shared between connections,
whichever processor is turned first.
"""

from __future__ import annotations

from collections import deque
from threading import Lock

from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.threads import Part


class RequestChannel:
    """The queue between the processors and the handlers of one broker.  Any thread."""

    def __init__(self, max_requests: int, max_bytes: int = -1) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._requests: deque[RequestContext] = deque()
        self._fresh: deque[RequestContext] = deque()
        self._took_fresh = False  # the last time
        self._handlers: tuple[Part, ...] = ()
        self._line: deque[Part] = deque()  # processors that wait for room; whose turn it is first
        self._line_guard = Lock()
        self._next = 0
        self.stopped_in_pass = -1
        """In which pass of their loop a handler has stopped for replies; no other goes on in it."""

    def connect(self, handlers: tuple[Part, ...]) -> None:
        """Name those who take requests out."""
        self._handlers = handlers

    @property
    def is_full(self) -> bool:
        if (
            self._max_bytes > 0
            and sum(one.received.size_bytes for one in [*self._fresh, *self._requests]) >= self._max_bytes
        ):
            return True
        return len(self) >= self._max_requests

    @property
    def has_fresh(self) -> bool:
        """Whether a request waits that had just come."""
        return bool(self._fresh)

    def __len__(self) -> int:
        return len(self._requests) + len(self._fresh)

    def put(self, context: RequestContext, *, is_fresh: bool = False) -> None:
        """Queue a request and wake a handler.  A producer looks at `is_full` first.

        `is_fresh`: it has just come, and nothing of its connection waited before it.
        """
        (self._fresh if is_fresh else self._requests).append(context)
        handlers = self._handlers
        if handlers:
            self._next = (self._next + 1) % len(handlers)
            handlers[self._next].signal()

    def put_back(self, context: RequestContext) -> None:
        """Make a request that was taken the next one again."""
        self._requests.appendleft(context)

    def take(self) -> RequestContext | None:
        """The oldest request of the line whose turn it is, or of the other; None if there is none."""
        context = None
        lines = (self._requests, self._fresh) if self._took_fresh else (self._fresh, self._requests)
        for line in lines:
            try:  # another handler may be faster
                context = line.popleft()
            except IndexError:
                continue
            self._took_fresh = line is self._fresh
            break
        if self._line and context is not None:
            self._tell_first()
        return context

    # ------------------------------------------------------------------ the line of processors

    def has_room_for(self, processor: Part) -> bool:
        """Whether it may put a request now: there is room, and nobody else stands before it."""
        line = self._line
        if line:
            with self._line_guard:
                if line and line[0] is not processor:
                    return False
        return not self.is_full

    def stand_in_line(self, processor: Part) -> None:
        """Signal `processor`, which stands in no line yet, once there is room and it is its turn."""
        with self._line_guard:
            self._line.append(processor)
        self._tell_first()  # a handler may have been faster

    def leave_line(self, processor: Part) -> None:
        """Its turn is over."""
        with self._line_guard:
            self._line.remove(processor)
        self._tell_first()

    def _tell_first(self) -> None:
        if not self._line or self.is_full:
            return
        with self._line_guard:
            first = self._line[0] if self._line else None
        if first is not None:
            first.signal()

    def clear(self) -> None:
        self._requests.clear()
        self._fresh.clear()
