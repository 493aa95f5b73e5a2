"""The bounded queue of requests between a broker's processors and its handlers.

queued.max.requests and queued.max.request.bytes bound it: processors stop reading while it is full, so that
TCP slows the clients down.

Requests that have just arrived have their own queue, from which every other request is taken. So a client
with one request at a time does not wait behind pipelined requests that were read earlier, and those get at
least every other turn.

Processors without room wait in line for it. The first one enqueues one request of each of its waiting
connections (waiting_for_room.py), then it is the next one's turn. So connections share the room fairly,
whichever processor runs first.
"""

from __future__ import annotations

from collections import deque
from threading import Lock

from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.threads import Part


class RequestChannel:
    """The queue between the processors and the handlers of one broker. Any thread."""

    def __init__(self, max_requests: int, max_bytes: int = -1) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._requests: deque[RequestContext] = deque()
        self._fresh: deque[RequestContext] = deque()
        self._took_fresh = False  # on the last take
        self._handlers: tuple[Part, ...] = ()
        self._line: deque[Part] = deque()  # processors waiting for room; the first one has the turn
        self._line_guard = Lock()
        self._next = 0
        self.stopped_in_pass = -1
        """The loop pass in which a handler stopped for responses; no other handler runs in it."""

    def connect(self, handlers: tuple[Part, ...]) -> None:
        """Set the handlers that take requests."""
        self._handlers = handlers

    @property
    def is_full(self) -> bool:
        if (
            self._max_bytes > 0
            and sum(context.received.size_bytes for context in [*self._fresh, *self._requests])
            >= self._max_bytes
        ):
            return True
        return len(self._requests) + len(self._fresh) >= self._max_requests

    @property
    def has_fresh(self) -> bool:
        """Whether a request is waiting that has just arrived."""
        return bool(self._fresh)

    def __len__(self) -> int:
        return len(self._requests) + len(self._fresh)

    def put(self, context: RequestContext, *, is_fresh: bool = False) -> None:
        """Queue a request and wake a handler. The caller checks `is_full` first.

        `is_fresh`: it has just arrived, and no earlier request of its connection was waiting.
        """
        (self._fresh if is_fresh else self._requests).append(context)
        handlers = self._handlers
        if handlers:
            self._next = (self._next + 1) % len(handlers)
            handlers[self._next].signal()

    def put_back(self, context: RequestContext) -> None:
        """Return a request to the front of the queue."""
        self._requests.appendleft(context)

    def take(self) -> RequestContext | None:
        """Return the oldest request of the queue whose turn it is, or of the other one.

        None if both are empty.
        """
        context = None
        lines = (self._requests, self._fresh) if self._took_fresh else (self._fresh, self._requests)
        for line in lines:
            try:  # another handler can be faster
                context = line.popleft()
            except IndexError:
                continue
            self._took_fresh = line is self._fresh
            break
        if self._line and context is not None:
            self._signal_first()
        return context

    # ------------------------------------------------------------------ the line of processors

    def has_room_for(self, processor: Part) -> bool:
        """Return whether the processor can enqueue a request now.

        There must be room, and no other processor before it.
        """
        line = self._line
        if line:
            with self._line_guard:
                if line and line[0] is not processor:
                    return False
        return not self.is_full

    def join_line(self, processor: Part) -> None:
        """Add a processor to the line; it is signalled once there is room and it is its turn."""
        with self._line_guard:
            self._line.append(processor)
        self._signal_first()  # a handler can have been faster

    def leave_line(self, processor: Part) -> None:
        """Remove a processor from the line after its turn."""
        with self._line_guard:
            self._line.remove(processor)
        self._signal_first()

    def _signal_first(self) -> None:
        if not self._line or self.is_full:
            return
        with self._line_guard:
            first = self._line[0] if self._line else None
        if first is not None:
            first.signal()

    def clear(self) -> None:
        self._requests.clear()
        self._fresh.clear()
