"""Distribution of the metadata: the active controller's image is sent to every broker that it reaches.

Kafka's brokers fetch the metadata log. Here each broker receives the latest image: at once by default, later
if a link is slow or a control delays it, and not at all while the broker is paused or cut off (it catches up
with its next heartbeat). A broker applies the differences from its own image, so a lost image does no harm.
Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pykafka2.broker.base.image import ClusterImage, TopicImage
from pykafka2.broker.controller.metadata.image import Changes
from pykafka2.broker.server.links import Links


class Member(Protocol):
    """A broker, as elections and the metadata publisher see it."""

    @property
    def id(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def is_paused(self) -> bool: ...

    @property
    def image(self) -> ClusterImage:
        """The latest image that it received."""
        ...

    def apply(self, image: ClusterImage, changed: Mapping[str, TopicImage | None]) -> None:
        """Apply a newer image, with the topics that changed."""
        ...

    def controller_changed(self, now: float) -> None:
        """Handle a new controller: requests to the old one without a response are sent again."""
        ...


Members = Callable[[], Mapping[int, Member]]
"""Callback: all brokers of the cluster by id, including stopped ones."""


def can_act(member: Member) -> bool:
    """Return whether a broker's process is running and not paused."""
    return member.is_running and not member.is_paused


class MetadataPublisher:
    """Sends images to brokers; one for the cluster, so that a test's controls outlive a controller."""

    def __init__(self, image: ClusterImage, links: Links, members: Members) -> None:
        self.latest = image
        """The latest published image."""
        self._before = image
        self._changed: Changes = {}
        self._links = links
        self._members = members
        self._source = -1
        self._delays: dict[int, float] = {}
        self._held: set[int] = set()
        self._in_flight: dict[int, int] = {}  # the latest version in flight to a broker
        self._stops: dict[int, int] = {}  # the number of stops of a broker

    def publish(self, source: int, image: ClusterImage, changed: Changes, now: float) -> None:
        """Publish a new image of the controller on broker `source`, with the topics that changed."""
        self._before, self._changed = self.latest, changed
        self.latest = image
        self._source = source
        for member in self._members().values():
            if member.is_running:
                self._send(member, now)

    def catch_up(self, broker_id: int, now: float) -> None:
        """Send the latest image to a broker, unless it is in flight."""
        member = self._members()[broker_id]
        if max(member.image.version, self._in_flight.get(broker_id, 0)) < self.latest.version:
            self._send(member, now)

    def forget(self, broker_id: int) -> None:
        """Forget the images in flight to a stopped broker."""
        self._in_flight.pop(broker_id, None)
        self._stops[broker_id] = self._stops.get(broker_id, 0) + 1

    # ------------------------------------------------------------------ faults

    def delay(self, broker_id: int, seconds: float) -> None:
        """Delay images to this broker; 0 removes the delay."""
        self._delays[broker_id] = seconds

    def hold(self, broker_id: int) -> None:
        """Hold images to this broker back until `release`."""
        self._held.add(broker_id)

    def is_held(self, broker_id: int) -> bool:
        return broker_id in self._held

    def release(self, broker_id: int | None, now: float) -> None:
        """End holding and delays, of one broker or all; brokers that lag catch up now."""
        for member in self._members().values():
            if broker_id is None or member.id == broker_id:
                self._held.discard(member.id)
                if self._delays.pop(member.id, 0.0):
                    self._in_flight.pop(member.id, None)
                if member.is_running:
                    self.catch_up(member.id, now)

    # ------------------------------------------------------------------ sending

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
                # Only brokers that missed an image need a comparison of all topics.
                is_next = member.image is before
                member.apply(image, changed if is_next else image.changed_since(member.image))

        self._in_flight[target] = image.version
        self._links.post(
            self._source,
            target,
            arrive,
            lambda at: self._arrived(target, image),
            now,
            self._delays.get(target, 0.0),
        )

    def _arrived(self, broker_id: int, image: ClusterImage) -> None:
        """Record that an image has arrived or was lost."""
        if self._in_flight.get(broker_id) == image.version:
            del self._in_flight[broker_id]
