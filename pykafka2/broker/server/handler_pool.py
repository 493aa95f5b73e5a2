"""Handlers take requests from the request channel one at a time and never wait.

A request that cannot be answered yet goes to the purgatory, so the handler is free at once. A bug closes the
request's connection.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.broker.server.request_channel import RequestChannel
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.threads import Part
from pykafka2.clock import FOREVER

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
        had_fresh = requests.has_fresh
        for _ in range(MAX_REQUESTS_PER_TURN):
            context = None if self.is_suspended else requests.take()
            if context is None:
                break
            context.progress.handled_by = self.name
            try:
                self._handle(context, now)
            except Exception as error:
                # Exceptions of the API itself are answered; this is a bug around it, which would leave no
                # response.
                self.loop.problems.note(f"{self.name}: {type(context.request).__name__}", error)
                context.close()
            # Responses to requests that have just arrived are sent before anything else. A handler on its own
            # thread delays no other part.
            if is_shared and ((had_fresh and not requests.has_fresh) or loop.is_turn_over):
                requests.stopped_in_pass = loop.passes
                if requests:
                    self.signal()
                break
        else:
            self.signal()
        self._after(now)
        return FOREVER
