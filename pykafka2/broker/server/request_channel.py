"""The bounded queue of requests between a broker's processors and its handlers.

queued.max.requests and queued.max.request.bytes bound it: processors stop reading while it is full, so that
TCP holds the clients back.

Requests that have just come stand in a line of their own, from which every other one is taken: who asks one
thing at a time does not wait behind all those whose next request was read long ago, and these have at least
every other turn.
"""

from __future__ import annotations

from collections import deque

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
        self._blocked: dict[Part, None] = {}  # in order, so that the same seed wakes them in it
        self._next = 0

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
        if context is None:
            return None
        if self._blocked and not self.is_full:
            for part in tuple(self._blocked):  # a processor may say meanwhile that it waits
                self._blocked.pop(part, None)
                part.signal()
        return context

    def wait_for_room(self, processor: Part) -> None:
        """Signal `processor` once there is room again."""
        self._blocked[processor] = None
        if not self.is_full:  # a handler may have been faster
            processor.signal()

    def clear(self) -> None:
        self._requests.clear()
        self._fresh.clear()
