"""Sends a coordinator's markers to partition leaders, and reports the results.

The shards decide, and track unwritten markers. A marker whose leader is unknown or rejects it is reported to
its shard, which schedules it again after a pause. One for each broker that coordinates transactions, under
the cluster's lock; based on Kafka's TransactionMarkerChannelManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykafka2.broker.coordinators.inter_broker import InterBrokerSender
from pykafka2.broker.coordinators.replay import WriteMarkers
from pykafka2.broker.node import Node
from pykafka2.errors import KafkaError, LeaderNotAvailable, NetworkException
from pykafka2.protocol.messages.transaction import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.coordinators.transactions.service import TransactionCoordinator

WRITE_TXN_MARKERS_VERSION: Final = 2
GRACE: Final = 5.0
"""Seconds in addition to request.timeout.ms, after which the leader itself stops waiting for its replicas."""

Order = tuple[WriteMarkers, "list[Key]"]
"""Markers to write, and the partitions among them that one broker leads."""


class MarkerSender:
    """Sends the coordinator's markers whenever there are any."""

    def __init__(
        self, node: Node, inter_broker: InterBrokerSender, coordinator: TransactionCoordinator
    ) -> None:
        self._node = node
        self._inter_broker = inter_broker
        self._coordinator = coordinator
        self._timeout = node.config.seconds("request.timeout.ms") + GRACE

    def send(self, now: float) -> None:
        """Send the pending markers, one request for each leader."""
        by_leader: dict[int, list[Order]] = {}
        for markers in self._coordinator.take_markers():
            places: dict[int, list[Key]] = {}
            for key in sorted(markers.partitions):
                image = self._node.image.partition(*key)
                if image is None or not self._node.image.is_alive(image.leader):
                    self._coordinator.marker_written(markers, key, LeaderNotAvailable.code or 0, now)
                else:
                    places.setdefault(image.leader, []).append(key)
            for leader, keys in places.items():
                by_leader.setdefault(leader, []).append((markers, keys))
        for leader, orders in by_leader.items():
            self._send(leader, orders, now)

    def _send(self, leader: int, orders: list[Order], now: float) -> None:
        def on_response(response: WriteTxnMarkersResponse, at: float) -> None:
            for (markers, _), result in zip(orders, response.markers, strict=True):
                for topic in result.topics:
                    for partition in topic.partitions:
                        key = (topic.name, partition.partition_index)
                        self._coordinator.marker_written(markers, key, partition.error_code, at)

        def on_failure(error: KafkaError, at: float) -> None:
            for markers, keys in orders:
                for key in keys:
                    self._coordinator.marker_written(markers, key, NetworkException.code or 0, at)

        self._inter_broker.send(
            leader,
            WriteTxnMarkersRequest(markers=[_marker(markers, keys) for markers, keys in orders]),
            WRITE_TXN_MARKERS_VERSION,
            on_response,
            on_failure,
            self._timeout,
            now,
        )


def _marker(markers: WriteMarkers, keys: list[Key]) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in keys:
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.committed,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=ids) for name, ids in topics.items()],
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.transaction_version,
    )
