"""The bounded queue of requests between processors and handlers, which never wait.

queued.max.requests and queued.max.request.bytes bound it: processors stop reading while it is full, so that
TCP slows the clients down.

Requests that have just arrived have their own queue, from which every other request is taken. So a client
with one request at a time does not wait behind pipelined requests that were read earlier, and those get at
least every other turn.

Processors without room wait in line for it. When a processor is first and there is room, it enqueues one
request of each of its connections waiting by then: one round. Later connections, and those that had their
turn, wait for its next round. So connections share the room fairly, whichever processor runs first.

A request without a response yet goes to the purgatory, so the handler is free at once. A bug closes the
request's connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from threading import Lock

from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.threads import Part
from pykafka2.clock import FOREVER


class RequestChannel:
    """The queue between the processors and the handlers of one broker. Any thread."""

    def __init__(self, max_requests: int, max_bytes: int = -1) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._requests: deque[RequestContext] = deque()
        self.fresh: deque[RequestContext] = deque()
        """Requests that have just arrived."""
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
            and sum(context.received.size_bytes for context in [*self.fresh, *self._requests])
            >= self._max_bytes
        ):
            return True
        return len(self._requests) + len(self.fresh) >= self._max_requests

    def __len__(self) -> int:
        return len(self._requests) + len(self.fresh)

    def put(self, context: RequestContext, *, is_fresh: bool = False) -> None:
        """Queue a request and wake a handler. The caller checks `is_full` first.

        `is_fresh`: it has just arrived, and no earlier request of its connection was waiting.
        """
        (self.fresh if is_fresh else self._requests).append(context)
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
        lines = (self._requests, self.fresh) if self._took_fresh else (self.fresh, self._requests)
        for line in lines:
            try:  # another handler can be faster
                context = line.popleft()
            except IndexError:
                continue
            self._took_fresh = line is self.fresh
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
        self.fresh.clear()


# After this many requests the other parts run, and the sockets if it is time.
MAX_REQUESTS_PER_TURN = 64


class Handler(Part):
    """One of num.io.threads. `handle(context, now)` takes the cluster's lock; `after(now)` ends a turn."""

    def __init__(
        self,
        name: str,
        requests: RequestChannel,
        handle: Callable[[RequestContext, float], None],
        after: Callable[[float], None],
    ) -> None:
        super().__init__(name)
        self._requests = requests
        self._handle = handle
        self._after = after

    def run(self, now: float) -> float:
        requests, loop = self._requests, self.loop
        is_shared = loop.is_shared
        if is_shared and requests.stopped_in_pass == loop.passes:
            self.signal()  # another handler stopped so that responses are sent first
            return FOREVER
        had_fresh = bool(requests.fresh)
        for _ in range(MAX_REQUESTS_PER_TURN):
            context = None if self.is_suspended else requests.take()
            if context is None:
                break
            context.progress.handled_by = self.name
            try:
                self._handle(context, now)
            except Exception as error:
                # Exceptions of the API itself get a response; this is a bug around it, which would leave no
                # response.
                self.loop.problems.note(f"{self.name}: {type(context.request).__name__}", error)
                context.close()
            # Responses to requests that have just arrived are sent before anything else. A handler on its own
            # thread delays no other part.
            if is_shared and ((had_fresh and not requests.fresh) or loop.is_turn_over):
                requests.stopped_in_pass = loop.passes
                if requests:
                    self.signal()
                break
        else:
            self.signal()
        self._after(now)
        return FOREVER


class BlockedConnections:
    """Waiting connections, in order. They are marked by `wants_room`, and not read meanwhile."""

    def __init__(self, processor: Part, requests: RequestChannel) -> None:
        self._processor = processor
        self._requests = requests
        self._next_round: dict[Connection, None] = {}
        self._round: dict[Connection, None] = {}  # connections served before another processor's turn
        self.is_in_line = False

    def must_wait(self, *, has_turn: bool) -> bool:
        """Return whether a connection must wait with its request; `has_turn`: `turns` returned it."""
        if self.is_in_line and not has_turn:
            return True
        return not self._requests.has_room_for(self._processor)

    def add(self, connection: Connection) -> None:
        """Add a connection, which keeps its place if it is waiting already."""
        connection.wants_room = True
        if connection not in self._round:
            self._next_round[connection] = None
        if not self.is_in_line:
            self.is_in_line = True
            self._requests.join_line(self._processor)

    def drop(self, connection: Connection) -> None:
        """Remove a connection. The processor stays in line until its turn, for connections added by then."""
        self._round.pop(connection, None)
        self._next_round.pop(connection, None)

    def turns(self) -> Iterator[Connection]:
        """Iterate over the connections that can enqueue a request now; none during another processor's turn.

        Each is no longer waiting. Without room the round continues with the next call.
        """
        requests, processor = self._requests, self._processor
        if not requests.has_room_for(processor):
            return
        if not self._round:
            self._round, self._next_round = self._next_round, {}
        while self._round and requests.has_room_for(processor):
            connection = next(iter(self._round))
            del self._round[connection]
            connection.wants_room = False
            yield connection
        if not self._round:
            requests.leave_line(processor)
            self.is_in_line = bool(self._next_round)
            if self.is_in_line:
                requests.join_line(processor)

    def clear(self) -> None:
        """Remove all connections."""
        self._round.clear()
        self._next_round.clear()
        if self.is_in_line:
            self.is_in_line = False
            self._requests.leave_line(self._processor)
