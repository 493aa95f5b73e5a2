"""How brokers learn of the metadata: the active controller's image goes to every broker that it reaches.

Kafka's brokers fetch the metadata log; here each is handed the newest image, at once where nothing is in the
way, later where a link is slow or a control says so, and not at all while its broker is paused or cut off
(it catches up with its next heartbeat).  A broker that gets an image applies what differs from its own, so
nothing is lost with an image that never arrived.  Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.controller.state import Changes

if TYPE_CHECKING:
    from pykafka2.broker.broker import Broker
    from pykafka2.broker.replication.links import Links


class MetadataPublisher:
    """The way of the images; one for the cluster, so that what a test says outlives a controller."""

    def __init__(self, image: ClusterImage, links: Links, brokers: Callable[[], list[Broker]]) -> None:
        self.latest = image
        """What the newest controller has published."""
        self._before = image
        self._changed: Changes = {}
        self._links = links
        self._brokers = brokers
        self._source = -1
        self._delays: dict[int, float] = {}
        self._held: set[int] = set()
        self._under_way: dict[int, int] = {}  # the newest version on its way to a broker

    def publish(self, source: int, image: ClusterImage, changed: Changes, now: float) -> None:
        """The controller on broker `source` has a new image; these topics changed since the one before."""
        self._before, self._changed = self.latest, changed
        self.latest = image
        self._source = source
        for broker in self._brokers():
            if broker.is_running:
                self._send(broker, now)

    def catch_up(self, broker: Broker, now: float) -> None:
        """Send a broker what it lacks, unless it is on its way."""
        if max(broker.image.version, self._under_way.get(broker.id, 0)) < self.latest.version:
            self._send(broker, now)

    def forget(self, broker_id: int) -> None:
        """A broker has stopped: nothing is on its way to it any more."""
        self._under_way.pop(broker_id, None)

    # ------------------------------------------------------------------ steering

    def delay(self, broker_id: int, seconds: float) -> None:
        """Let images reach this broker that much later; 0 ends it."""
        self._delays[broker_id] = seconds

    def hold(self, broker_id: int) -> None:
        """Let no image reach this broker until `release`."""
        self._held.add(broker_id)

    def is_held(self, broker_id: int) -> bool:
        return broker_id in self._held

    def release(self, broker_id: int | None, now: float) -> None:
        """End holding and delays, of one broker or all; who lags catches up now, whatever is under way."""
        for broker in self._brokers():
            if broker_id is None or broker.id == broker_id:
                self._held.discard(broker.id)
                if self._delays.pop(broker.id, 0.0):
                    self._under_way.pop(broker.id, None)
                if broker.is_running:
                    self.catch_up(broker, now)

    # ------------------------------------------------------------------ carrying

    def _send(self, broker: Broker, now: float) -> None:
        if broker.id in self._held or self._source < 0:
            return
        image, before, changed = self.latest, self._before, self._changed
        replicas = broker.replicas  # made anew with each start

        def arrive(at: float) -> None:
            self._arrived(broker.id, image)
            if not broker.is_running or broker.replicas is not replicas or broker.id in self._held:
                return
            if image.version > broker.image.version:
                # Comparing all topics is for those that missed something.
                knows = broker.image is before
                broker.apply(image, changed if knows else image.changed_since(broker.image))

        self._under_way[broker.id] = image.version
        self._links.post(
            self._source,
            broker.id,
            arrive,
            lambda at: self._arrived(broker.id, image),
            now,
            self._delays.get(broker.id, 0.0),
        )

    def _arrived(self, broker_id: int, image: ClusterImage) -> None:
        """An image has arrived, or is lost."""
        if self._under_way.get(broker_id) == image.version:
            del self._under_way[broker_id]
