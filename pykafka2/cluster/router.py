"""The way of a request: from its destination (any node, a leader, a coordinator ...) to a connection.

Owned by the driver's thread; polled last in every turn, after all managers, so that it sees what they sent.
A request whose node is not connected waits here while the connection is opened; one whose node is not known
waits for the metadata or the coordinator lookup; each at most its own timeout, and no longer than there is
hope.  Neighbours: nodes.py (connections), metadata.py, coordinators.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

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
    ToLeader,
    ToNode,
)
from pykafka2.errors import ClientClosed, ClientFailed, KafkaError, KafkaTimeoutError
from pykafka2.options import ClientOptions
from pykafka2.run_all import tell_each


@attrs.define(eq=False)
class _Waiting:
    """A request that cannot leave yet, and the link it waits for, if one is known.

    `failures_seen` are that link's at the beginning; those of all links for a request to any node.
    """

    send: Send[Any]
    deadline: float
    link: NodeLink | None = None
    failures_seen: int = 0


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
        self._closed_because: KafkaError | None = None
        self._result = PollResult.idle()
        """The answer of every poll."""

    # ------------------------------------------------------------------ for managers

    def is_ready(self, node_id: int, now: float) -> bool:
        """True if a request to this node would leave at once; if not, a connection is opened.

        The driver is turned again when the connection is up, or when its back-off is over.
        """
        link = self._nodes.link(node_id, now)
        if link is None:
            return False
        if link.is_ready(now):
            return True
        link.want(now)
        return False

    def in_flight(self, node_id: int) -> int:
        """Requests sent to this node and not answered yet, over its main connection."""
        link = self._nodes.known_link(node_id)
        return link.in_flight if link is not None else 0

    def connection_failed_recently(self, node_id: int) -> bool:
        """True from a lost connection or a failed attempt until the next one succeeds."""
        link = self._nodes.known_link(node_id)
        return link is not None and (link.has_failed or link.is_backing_off)

    def connection_to(self, node_id: int) -> str:
        """Explain what a request to this node waits for, with the error of the last attempt to connect."""
        link = self._nodes.known_link(node_id)
        why = f" ({link.last_error})" if link is not None and link.last_error is not None else ""
        return f"a connection to node {node_id}{why}"

    def route(self, send: Send[Any], now: float) -> None:
        """Send it now or as soon as its node can be reached; its timeout counts from here."""
        if self._closed_because is not None:
            send.on_failure(self._closed_because, now)
            return
        if type(send.to) is ToNode:
            link = self._nodes.link(send.to.id, now)
            if link is not None and link.is_ready(now):
                link.send(send, now)
                return
        timeout = self._options.request_timeout if send.timeout is None else send.timeout
        waiting = _Waiting(send, now + timeout)
        if isinstance(send.to, AnyNode):
            waiting.failures_seen = self._nodes.failures
        if not self._try(waiting, now):
            self._waiting.append(waiting)

    # ------------------------------------------------------------------ the driver's turn

    def poll(self, now: float) -> PollResult:
        """Try what waits, end what waited too long, look after the connections."""
        again = False
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            still = [one for one in waiting if not self._try(one, now)]
            # What a failed request's owner sends at once was appended meanwhile.
            again = len(still) < len(waiting) or bool(self._waiting)
            self._waiting = still + self._waiting
        wake_at = self._nodes.poll(now)
        for one in self._waiting:
            wake_at = min(wake_at, one.deadline)
        # A failure told to its owner may have given the managers, polled before, something to say.
        self._result.wake_at = now if again else wake_at
        return self._result

    def fail_waiting_for(self, to: ToCoordinator, error: KafkaError, now: float) -> None:
        """A lookup was refused: everybody who waits for it hears it, once."""
        self._fail_where(lambda one: one.send.to == to, error, now)

    def close(self, error: ClientClosed | ClientFailed, now: float) -> None:
        """Fail what waits and what is in flight, and send nothing more."""
        self._closed_because = error
        tell_each(
            [
                partial(self._fail_where, lambda one: True, error, now),
                partial(self._nodes.close, error, now),
            ]
        )

    # ------------------------------------------------------------------ inside

    def _fail_where(self, matches: Callable[[_Waiting], bool], error: KafkaError, now: float) -> None:
        failing = [one for one in self._waiting if matches(one)]
        self._waiting = [one for one in self._waiting if not matches(one)]
        tell_each([partial(one.send.on_failure, error, now) for one in failing])

    def _try(self, one: _Waiting, now: float) -> bool:
        """True if the request is on its way, or has been failed."""
        link = self._link_for(one.send, now)
        if link is not None and link.is_ready(now):
            link.send(one.send, now)
            return True
        error = self._hopeless(one, link, now)
        if error is not None:
            one.send.on_failure(error, now)
            return True
        if link is not None:
            if one.link is not link and not isinstance(one.send.to, AnyNode):
                one.link, one.failures_seen = link, link.failures
            link.want(now)
        return False

    def _link_for(self, send: Send[Any], now: float) -> NodeLink | None:
        """The connection it should take, connected or not; None while its node is not known."""
        to = send.to
        if isinstance(to, ToNode):
            link = self._nodes.link(to.id, now)
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

    def _hopeless(self, one: _Waiting, link: NodeLink | None, now: float) -> KafkaError | None:
        """Why it should not wait any longer, or None."""
        is_for_any = isinstance(one.send.to, AnyNode)
        if is_for_any and self._nodes.failures > one.failures_seen:
            # Told of attempts made since it was asked for, so that the next request finds out anew.
            refusal = self._nodes.refusal(now)
            if refusal is not None:
                return refusal
        if not is_for_any and one.link is not None and one.link.failures > one.failures_seen:
            if isinstance(one.send.to, ToCoordinator):
                self._coordinators.forget(one.send.to, one.link.node.id)
            return one.link.last_error
        if now < one.deadline:
            return None
        what = type(one.send.request).__name__.removesuffix("Request")
        if is_for_any:
            return self._nodes.unreachable(f"{what} could not be sent: ")
        return KafkaTimeoutError(f"{what} could not be sent: {self._why_not(one.send.to, link)}")

    def _why_not(self, to: object, link: NodeLink | None) -> str:
        if link is not None:
            return f"no connection to {link.node} ({link.last_error or 'it is still being opened'})"
        if isinstance(to, ToLeader):
            error = self._metadata.topic_error(to.topic)
            return f"no leader of {to.topic}-{to.partition} is known ({error or 'none was elected yet'})"
        if isinstance(to, ToNode):
            return f"node {to.id} is not in the cluster's metadata"
        if isinstance(to, ToCoordinator):
            return f"no coordinator of {to.key!r} was found"
        return self._nodes.why_unreachable()
