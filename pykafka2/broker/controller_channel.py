"""A broker's requests to the active controller, retried until it responds; blocks of producer ids.

The controller can move, be cut off, or be missing: a request is then sent to the next one until its deadline
(Kafka's NodeToControllerChannelManager). A client that needs a producer id while there is no block gets
COORDINATOR_LOAD_IN_PROGRESS and retries (RPCProducerIdManager). Recreated with each start of the broker.
Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pykafka2.broker.base.timing_wheel import Timer
from pykafka2.broker.controller.controllers import Controllers
from pykafka2.broker.controller.metadata.log import NO_CONTROLLER
from pykafka2.broker.node import Node
from pykafka2.broker.server.links import Links
from pykafka2.clock import FOREVER
from pykafka2.errors import CoordinatorLoadInProgress, NotController
from pykafka2.protocol.messages.broker_lifecycle import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from pykafka2.protocol.struct import Request

FIRST_BACKOFF = 0.05
LONGEST_BACKOFF = 1.0

OnResponse = Callable[[Any, float], None]
OnTimeout = Callable[[float], None]


@attrs.define(eq=False)
class Pending:
    """A request without a response yet. `attempt` identifies late responses to earlier attempts."""

    request: Request[Any]
    version: int
    on_response: OnResponse
    on_timeout: OnTimeout
    attempt: int = 0
    backoff: float = FIRST_BACKOFF
    timeout: Timer | None = None
    retry: Timer | None = None


class ControllerChannel:
    """Requests of one broker to the controller."""

    def __init__(
        self, node: Node, links: Links, controllers: Controllers, on_timer: Callable[[], object]
    ) -> None:
        self._node = node
        self._on_timer = on_timer  # called when a timer was set, so that the wheel is checked
        self._links = links
        self._controllers = controllers
        self._pending: dict[Pending, None] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def send(
        self,
        request: Request[Any],
        version: int,
        on_response: OnResponse,
        now: float,
        *,
        deadline: float = FOREVER,
        on_timeout: OnTimeout = lambda now: None,
    ) -> None:
        """Send a request to the controller.

        One of the two callbacks is called, unless the broker stops before.
        """
        pending = Pending(request, version, on_response, on_timeout)
        self._pending[pending] = None
        if deadline < FOREVER:
            pending.timeout = self._node.wheel.add(deadline, lambda at: self._time_out(pending, at))
        self._try(pending, now)
        self._on_timer()

    def controller_changed(self, now: float) -> None:
        """Send pending requests to the new controller; the old one may never respond."""
        for pending in list(self._pending):
            pending.backoff = FIRST_BACKOFF
            self._try(pending, now)

    def close(self) -> None:
        """Stop with the broker: no callback is called any more."""
        for pending in self._pending:
            pending.attempt += 1
        self._pending.clear()

    # ------------------------------------------------------------------ one request

    def _try(self, pending: Pending, now: float) -> None:
        if pending not in self._pending:
            return
        if pending.retry is not None:
            self._node.wheel.cancel(pending.retry)
            pending.retry = None
        pending.attempt += 1
        attempt = pending.attempt
        target = self._controllers.id
        if target == NO_CONTROLLER:
            self._try_later(pending, now)
            return
        self._links.call(
            self._node.id,
            target,
            pending.request,
            pending.version,
            lambda response, at: self._on_response(pending, attempt, target, response, at),
            lambda error, at: self._on_failure(pending, attempt, at),
            now,
        )

    def _try_later(self, pending: Pending, now: float) -> None:
        pending.retry = self._node.wheel.add(now + pending.backoff, lambda at: self._try(pending, at))
        pending.backoff = min(pending.backoff * 2, LONGEST_BACKOFF)
        self._on_timer()

    def _on_response(self, pending: Pending, attempt: int, target: int, response: Any, now: float) -> None:
        if pending not in self._pending or attempt != pending.attempt:
            return
        if response.error_code == NotController.code:
            self._try_later(pending, now)
            return
        self._controllers.election.touch(self._node.id, target, now)
        self._forget(pending)
        pending.on_response(response, now)

    def _on_failure(self, pending: Pending, attempt: int, now: float) -> None:
        if pending in self._pending and attempt == pending.attempt:
            self._try_later(pending, now)

    def _time_out(self, pending: Pending, now: float) -> None:
        if pending in self._pending:
            self._forget(pending)
            pending.on_timeout(now)

    def _forget(self, pending: Pending) -> None:
        del self._pending[pending]
        for timer in (pending.timeout, pending.retry):
            if timer is not None:
                self._node.wheel.cancel(timer)


# Kafka requests the next block when 90 % of the current one are used.
PREFETCH_BELOW = 100


class ProducerIds:
    """The producer ids that one broker can assign."""

    def __init__(self, node: Node, channel: ControllerChannel) -> None:
        self._node = node
        self._channel = channel
        self._block = range(0)
        self._next_block = range(0)
        self._is_in_flight = False

    def next(self, now: float) -> int:
        """Return an unused producer id. Raise `CoordinatorLoadInProgress` without a block."""
        if not self._block:
            self._block, self._next_block = self._next_block, range(0)
        if not self._block:
            self.prefetch(now)
            raise CoordinatorLoadInProgress("a block of producer ids is on its way from the controller")
        producer_id, self._block = self._block[0], self._block[1:]
        if len(self._block) < PREFETCH_BELOW:
            self.prefetch(now)
        return producer_id

    def prefetch(self, now: float) -> None:
        """Request the next block, if there is none."""
        if self._is_in_flight or self._next_block:
            return
        self._is_in_flight = True
        request = AllocateProducerIdsRequest(broker_id=self._node.id, broker_epoch=self._node.epoch)
        self._channel.send(request, 0, self._on_response, now)

    def _on_response(self, response: AllocateProducerIdsResponse, now: float) -> None:
        self._is_in_flight = False
        if not response.error_code:
            start = response.producer_id_start
            self._next_block = range(start, start + response.producer_id_len)
