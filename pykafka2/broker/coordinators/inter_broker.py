"""Requests of one broker to another, or to itself, over the links between brokers.

Each has a timeout on the sender's timing wheel. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from pykafka2.broker.node import Node
from pykafka2.broker.server.links import Links
from pykafka2.errors import KafkaError, KafkaTimeoutError
from pykafka2.protocol.struct import Request, Response

R = TypeVar("R", bound=Response)


class ShareStateClient(Protocol):
    """The client of the share coordinators (share/persister.py), as the layers below it call it."""

    def call(
        self, group_id: str, topic_id: bytes, entry: Any, done: Callable[[Any, float], None], now: float
    ) -> None:
        """Send the entry of a request about a share partition; `done` is called with its result."""
        ...


class InterBrokerSender:
    """Other brokers, as one of them reaches them. `after` is called after each outcome."""

    def __init__(self, node: Node, links: Links, after: Callable[[float], object]) -> None:
        self._node = node
        self._links = links
        self._after = after
        self._is_closed = False

    def close(self) -> None:
        """Stop: no callback of a pending request is called any more, not even after a restart."""
        self._is_closed = True

    def send(
        self,
        target: int,
        request: Request[R],
        version: int,
        on_response: Callable[[R, float], None],
        on_failure: Callable[[KafkaError, float], None],
        timeout: float,
        now: float,
    ) -> None:
        """Send a request to a broker by id. One callback is called once, unless this broker stops."""
        wheel = self._node.wheel
        is_done = False

        def once(then: Callable[[Any, float], None]) -> Callable[[Any, float], None]:
            def end(outcome: Any, at: float) -> None:
                nonlocal is_done
                if not is_done and not self._is_closed:
                    is_done = True
                    wheel.cancel(timer)
                    then(outcome, at)
                    self._after(at)

            return end

        fail = once(on_failure)
        late = KafkaTimeoutError(f"broker {target} did not respond within {timeout:g} seconds")
        timer = wheel.add(now + timeout, lambda at: fail(late, at))
        self._links.call(self._node.id, target, request, version, once(on_response), fail, now)
