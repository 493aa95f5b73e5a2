"""A broker's supply of producer ids: a block from the controller, the next one asked for in good time
(KIP-730).

As Kafka's RPCProducerIdManager: while there is no block the asker is told COORDINATOR_LOAD_IN_PROGRESS and
comes again.  Under the cluster's lock.
"""

from __future__ import annotations

from pykafka2.broker.controller_channel import ControllerChannel
from pykafka2.broker.node import Node
from pykafka2.errors import CoordinatorLoadInProgress
from pykafka2.protocol.messages.broker_lifecycle import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

# Kafka asks for the next block when 90 % of the one it has are used.
PREFETCH_BELOW = 100


class ProducerIds:
    """The ids that one broker may give out."""

    def __init__(self, node: Node, channel: ControllerChannel) -> None:
        self._node = node
        self._channel = channel
        self._block = range(0)
        self._next_block = range(0)
        self._is_asking = False

    def next(self, now: float) -> int:
        """An id that nobody had before."""
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
        """See that there is a block after this one."""
        if self._is_asking or self._next_block:
            return
        self._is_asking = True
        request = AllocateProducerIdsRequest(broker_id=self._node.id, broker_epoch=self._node.epoch)
        self._channel.send(request, 0, self._on_answer, now)

    def _on_answer(self, answer: AllocateProducerIdsResponse, now: float) -> None:
        self._is_asking = False
        if not answer.error_code:
            start = answer.producer_id_start
            self._next_block = range(start, start + answer.producer_id_len)
