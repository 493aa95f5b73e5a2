"""Routes requests from their destination (any node, a leader, a coordinator ...) to a connection.

Owned by the driver's thread; polled last in every turn, so that it handles what the managers have sent. A
request waits here while its node is being connected, or until metadata or a coordinator lookup names the
node. It fails at its timeout, or as soon as a connection attempt or lookup fails for good.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pykafka2.cluster.coordinators import Coordinators
from pykafka2.cluster.link import NodeLink, Purpose
from pykafka2.cluster.metadata import Metadata
from pykafka2.cluster.nodes import Nodes
from pykafka2.driver.pollable import (
    AnyNode,
    PollResult,
    Send,
    ToController,
    ToCoordinator,
    ToIdleConnection,
    ToLeader,
    ToNode,
)
from pykafka2.errors import ClientClosed, ClientFailed, KafkaError, KafkaTimeoutError
from pykafka2.interrupts import run_all
from pykafka2.options import ClientOptions
from pykafka2.slotted import slotted


@slotted(eq=False)
class _Waiting:
    """A request that cannot be sent yet, and the link it waits for, if known.

    `failures_seen` counts the link's failures when the wait began; all links' for a request to any node.
    `is_over` is set before the request is sent or fails.
    """

    send: Send[Any]
    deadline: float
    link: NodeLink | None = None
    failures_seen: int = 0
    is_over: bool = False


class Router:
    """Sends requests to nodes (a `RequestRouter` and a `Pollable`)."""

    def __init__(
        self, options: ClientOptions, metadata: Metadata, nodes: Nodes, coordinators: Coordinators
    ) -> None:
        self._options = options
        self._metadata = metadata
        self._nodes = nodes
        self._coordinators = coordinators
        self._waiting: list[_Waiting] = []
        self._polled: list[_Waiting] = []
        """The waiting requests that are tried in this turn."""
        self._closed_because: KafkaError | None = None
        self._result = PollResult.idle()
        """Reused as the result of every poll."""

    # ------------------------------------------------------------------ for managers

    def is_ready(self, node_id: int, now: float) -> bool:
        """Return True if a request to this node would be sent at once; otherwise start to connect.

        The driver polls again when the connection is ready or its back-off ends.
        """
        link = self._nodes.link(node_id, now)
        if link is None:
            return False
        if link.is_ready(now):
            return True
        link.want(now)
        return False

    def connection(self, node_id: int) -> object | None:
        """Return the node's main connection, another object after each reconnect; None without one."""
        link = self._nodes.known_link(node_id)
        return link.connection if link is not None else None

    def in_flight(self, node_id: int) -> int:
        """Return the number of requests in flight on the node's main connection."""
        link = self._nodes.known_link(node_id)
        return link.in_flight if link is not None else 0

    def connection_failed_recently(self, node_id: int) -> bool:
        """Return True after a lost connection or failed attempt until the next attempt succeeds."""
        link = self._nodes.known_link(node_id)
        return link is not None and (link.has_failed or link.is_backing_off)

    def throttled_for(self, node_id: int, now: float) -> float:
        """Return the seconds for which the node still throttles this client."""
        link = self._nodes.known_link(node_id)
        return 0.0 if link is None else link.throttled_for(now)

    def connection_to(self, node_id: int, now: float) -> str:
        """Return what a request to this node waits for, with the last connection error, as text."""
        link = self._nodes.known_link(node_id)
        if link is not None and link.throttled_for(now):
            return f"{link.name}, which throttles this client because of a quota"
        why = f" ({link.last_error})" if link is not None and link.last_error is not None else ""
        return f"a connection to node {node_id}{why}"

    def route(self, send: Send[Any], now: float) -> None:
        """Send it now or once its node is connected, which must be within its timeout."""
        if self._closed_because is not None:
            send.on_failure(self._closed_because, now)
            return
        if type(send.to) is ToNode:
            link = self._nodes.link(send.to.id, now)
            if link is not None and link.is_ready(now) and now < send.deadline:
                link.send(send, now)
                return
        timeout = self._options.request_timeout if send.timeout is None else send.timeout
        waiting = _Waiting(send, min(now + timeout, send.deadline))
        if isinstance(send.to, AnyNode):
            waiting.failures_seen = self._nodes.failures
        if not self._try(waiting, now):
            self._waiting.append(waiting)

    # ------------------------------------------------------------------ the driver's turn

    def poll(self, now: float) -> PollResult:
        """Try the waiting requests, fail those that timed out, poll the connections."""
        again = False
        if self._waiting:
            polled, self._polled, self._waiting = self._waiting, self._waiting, []
            for request in polled:
                if not request.is_over:
                    self._try(request, now)
            still_waiting = [request for request in polled if not request.is_over]
            # Failure callbacks can have appended new requests meanwhile.
            again = len(still_waiting) < len(polled) or bool(self._waiting)
            self._polled, self._waiting = [], still_waiting + self._waiting
        wake_at = self._nodes.poll(now)
        for request in self._waiting:
            wake_at = min(wake_at, request.deadline)
        # A failure callback can have given work to managers that were already polled in this turn.
        self._result.wake_at = now if again else wake_at
        return self._result

    def fail_waiting_for(self, to: ToCoordinator, error: KafkaError, now: float) -> None:
        """Fail the requests that wait for this coordinator: its lookup failed for good."""
        self._fail_where(lambda waiting: waiting.send.to == to, error, now)

    def close(self, error: ClientClosed | ClientFailed, now: float) -> None:
        """Fail all requests, waiting or in flight, and send no more."""
        self._closed_because = error
        run_all(
            [
                partial(self._fail_where, lambda waiting: True, error, now),
                partial(self._nodes.close, error, now),
            ]
        )

    # ------------------------------------------------------------------ inside

    def _fail_where(self, matches: Callable[[_Waiting], bool], error: KafkaError, now: float) -> None:
        """Fail waiting requests, also from a callback of one that is tried in this turn."""
        waiting = (*self._polled, *self._waiting)
        failing = [request for request in waiting if not request.is_over and matches(request)]
        for request in failing:
            request.is_over = True
        self._waiting = [request for request in self._waiting if not request.is_over]
        run_all([partial(request.send.on_failure, error, now) for request in failing])

    def _try(self, waiting: _Waiting, now: float) -> bool:
        """Send the request or fail it if possible; return False if it must wait."""
        link = self._link_for(waiting.send, now)
        # Sent after its deadline it would time out at once, which closes the connection for all others.
        if link is not None and link.is_ready(now) and now < waiting.send.deadline:
            waiting.is_over = True
            link.send(waiting.send, now)
            return True
        error = self._final_error(waiting, link, now)
        if error is not None:
            waiting.is_over = True
            waiting.send.on_failure(error, now)
            return True
        if link is not None:
            if waiting.link is not link and not isinstance(waiting.send.to, AnyNode):
                waiting.link, waiting.failures_seen = link, link.failures
            link.want(now)
        return False

    def _link_for(self, send: Send[Any], now: float) -> NodeLink | None:
        """Return its link, connected or not; None while its node is unknown."""
        to = send.to
        if isinstance(to, ToNode | ToIdleConnection):
            purpose = Purpose.MAIN if isinstance(to, ToNode) else Purpose.LAST_REQUESTS
            link = self._nodes.link(to.id, now, purpose)
            if link is None:
                self._metadata.request_update()
            return link
        if isinstance(to, AnyNode):
            return self._nodes.least_busy(now, to.but)
        if isinstance(to, ToLeader):
            return self._leader_link(to, now)
        if isinstance(to, ToController):
            controller = self._metadata.controller
            if controller is not None:
                return self._nodes.link(controller.id, now)
            return self._nodes.least_busy(now)
        return self._coordinator_link(to, now)

    def _leader_link(self, to: ToLeader, now: float) -> NodeLink | None:
        info = self._metadata.leader_of(to.topic, to.partition)
        if info is not None:
            return self._nodes.link(info.leader, now)
        self._metadata.want_topic(to.topic, now)
        if self._metadata.topic(to.topic) is not None:
            self._metadata.request_update()
        return None

    def _coordinator_link(self, to: ToCoordinator, now: float) -> NodeLink | None:
        node_id = self._coordinators.node_of(to)
        if node_id is None:
            self._coordinators.want(to)
            return None
        return self._nodes.link(node_id, now, Purpose.COORDINATOR)

    def _final_error(self, waiting: _Waiting, link: NodeLink | None, now: float) -> KafkaError | None:
        """Return the error that ends the wait, or None."""
        is_for_any = isinstance(waiting.send.to, AnyNode)
        if is_for_any and self._nodes.failures > waiting.failures_seen:
            # Only attempts made since this request began to wait count, so a later request connects again.
            refusal = self._nodes.refusal(now)
            if refusal is not None:
                return refusal
        if not is_for_any and waiting.link is not None and waiting.link.failures > waiting.failures_seen:
            if isinstance(waiting.send.to, ToCoordinator):
                self._coordinators.forget(waiting.send.to, waiting.link.node.id)
            return waiting.link.last_error
        if now < waiting.deadline:
            return None
        what = type(waiting.send.request).__name__.removesuffix("Request")
        if is_for_any and (link is None or not link.is_ready(now)):
            return self._nodes.unreachable(f"{what} could not be sent: ")
        return KafkaTimeoutError(f"{what} could not be sent: {self._why_not(waiting.send.to, link, now)}")

    def _why_not(self, to: object, link: NodeLink | None, now: float) -> str:
        if link is not None and link.throttled_for(now):
            return link.why_throttled(now)
        if link is not None and link.is_ready(now):
            return f"its timeout had passed when {link.name} was ready"
        if link is not None:
            return f"no connection to {link.node} ({link.last_error or 'it is still being opened'})"
        if isinstance(to, ToLeader):
            error = self._metadata.topic_error(to.topic)
            return f"no leader of {to.topic}-{to.partition} is known ({error or 'none is elected yet'})"
        if isinstance(to, ToNode | ToIdleConnection):
            return f"node {to.id} is not in the cluster's metadata"
        if isinstance(to, ToCoordinator):
            return f"no coordinator of {to.key!r} was found"
        return self._nodes.why_unreachable()
