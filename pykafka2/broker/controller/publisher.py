"""How brokers learn of the metadata: the active controller's image goes to every broker that it reaches.

Kafka's brokers fetch the metadata log; here each is handed the newest image, at once where nothing is in the
way, later where a link is slow or a control says so, and not at all while its broker is paused or cut off
(it catches up with its next heartbeat).  A broker that gets an image applies what differs from its own, so
nothing is lost with an image that never arrived.  Under the cluster's lock.
"""

from __future__ import annotations

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.controller.member import Member, Members
from pykafka2.broker.controller.state import Changes
from pykafka2.broker.replication.links import Links


class MetadataPublisher:
    """The way of the images; one for the cluster, so that what a test says outlives a controller."""

    def __init__(self, image: ClusterImage, links: Links, members: Members) -> None:
        self.latest = image
        """What the newest controller has published."""
        self._before = image
        self._changed: Changes = {}
        self._links = links
        self._members = members
        self._source = -1
        self._delays: dict[int, float] = {}
        self._held: set[int] = set()
        self._under_way: dict[int, int] = {}  # the newest version on its way to a broker
        self._stops: dict[int, int] = {}  # how often a broker has stopped

    def publish(self, source: int, image: ClusterImage, changed: Changes, now: float) -> None:
        """The controller on broker `source` has a new image; these topics changed since the one before."""
        self._before, self._changed = self.latest, changed
        self.latest = image
        self._source = source
        for member in self._members().values():
            if member.is_running:
                self._send(member, now)

    def catch_up(self, broker_id: int, now: float) -> None:
        """Send a broker what it lacks, unless it is on its way."""
        member = self._members()[broker_id]
        if max(member.image.version, self._under_way.get(broker_id, 0)) < self.latest.version:
            self._send(member, now)

    def forget(self, broker_id: int) -> None:
        """A broker has stopped: nothing is on its way to it any more."""
        self._under_way.pop(broker_id, None)
        self._stops[broker_id] = self._stops.get(broker_id, 0) + 1

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
        for member in self._members().values():
            if broker_id is None or member.id == broker_id:
                self._held.discard(member.id)
                if self._delays.pop(member.id, 0.0):
                    self._under_way.pop(member.id, None)
                if member.is_running:
                    self.catch_up(member.id, now)

    # ------------------------------------------------------------------ carrying

    def _send(self, member: Member, now: float) -> None:
        target = member.id
        if target in self._held or self._source < 0:
            return
        image, before, changed = self.latest, self._before, self._changed
        stops = self._stops.get(target, 0)

        def arrive(at: float) -> None:
            self._arrived(target, image)
            has_stopped = not member.is_running or self._stops.get(target, 0) != stops
            if has_stopped or target in self._held:
                return
            if image.version > member.image.version:
                # Comparing all topics is for those that missed something.
                knows = member.image is before
                member.apply(image, changed if knows else image.changed_since(member.image))

        self._under_way[target] = image.version
        self._links.post(
            self._source,
            target,
            arrive,
            lambda at: self._arrived(target, image),
            now,
            self._delays.get(target, 0.0),
        )

    def _arrived(self, broker_id: int, image: ClusterImage) -> None:
        """An image has arrived, or is lost."""
        if self._under_way.get(broker_id) == image.version:
            del self._under_way[broker_id]
