"""A broker's producer ids: a block from the controller; the next one is requested in advance (KIP-730).

Like Kafka's RPCProducerIdManager: without a block the client gets COORDINATOR_LOAD_IN_PROGRESS and retries.
Access requires the cluster's lock.
"""

from __future__ import annotations

from pykafka2.broker.controller_channel import ControllerChannel
from pykafka2.broker.node import Node
from pykafka2.errors import CoordinatorLoadInProgress
from pykafka2.protocol.messages.broker_lifecycle import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

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
        self._channel.send(request, 0, self._on_answer, now)

    def _on_answer(self, answer: AllocateProducerIdsResponse, now: float) -> None:
        self._is_in_flight = False
        if not answer.error_code:
            start = answer.producer_id_start
            self._next_block = range(start, start + answer.producer_id_len)
