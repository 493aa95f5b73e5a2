"""The bounded queue of requests between a broker's processors and its handlers.

queued.max.requests and queued.max.request.bytes bound it: processors stop reading while it is full, so that
TCP holds the clients back.
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
            and sum(one.received.size_bytes for one in list(self._requests)) >= self._max_bytes
        ):
            return True
        return len(self._requests) >= self._max_requests

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, context: RequestContext) -> None:
        """Queue a request and wake a handler.  A producer looks at `is_full` first."""
        self._requests.append(context)
        handlers = self._handlers
        if handlers:
            self._next = (self._next + 1) % len(handlers)
            handlers[self._next].signal()

    def put_back(self, context: RequestContext) -> None:
        """Make a request that was taken the next one again."""
        self._requests.appendleft(context)

    def take(self) -> RequestContext | None:
        """The oldest request, or None."""
        try:
            context = self._requests.popleft()
        except IndexError:
            return None
        if self._blocked and not self.is_full:
            blocked, self._blocked = self._blocked, {}
            for part in blocked:
                part.signal()
        return context

    def wait_for_room(self, processor: Part) -> None:
        """Signal `processor` once there is room again."""
        self._blocked[processor] = None
        if not self.is_full:  # a handler may have been faster
            processor.signal()

    def clear(self) -> None:
        self._requests.clear()
