"""Kinds of faults of the controller and of the metadata that brokers receive from it.

Like those of fault_kinds.py: small objects with start, stop, and an outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka2.testing.simulation.world import World


class ControllerFault:
    """Effective if another controller took over, or if brokers missed metadata."""

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self._epoch = -1
        self._has_begun = False
        self._became = ""

    def start(self, world: World) -> None:
        if self._broker not in world.live_brokers:
            return
        self._has_begun = True
        self._epoch = world.cluster.controller.epoch
        self.harm(world)

    def stop(self, world: World) -> None:
        if not self._has_begun:
            return
        if world.cluster.controller.epoch > self._epoch:
            self._became = "another controller"
        elif self.is_missed(world):
            self._became = "was missed"
        self.mend(world)

    def outcome(self, world: World) -> str:
        return self._became

    def harm(self, world: World) -> None:
        raise NotImplementedError

    def mend(self, world: World) -> None:
        pass

    def is_missed(self, world: World) -> bool:
        """Return whether the broker lacks the newest metadata, or is fenced."""
        newest = world.cluster.controller.image
        known = newest.brokers.get(self._broker)
        behind = world.cluster.broker(self._broker).image.version < newest.version
        return behind or known is None or known.is_fenced


class MoveController(ControllerFault):
    """Another broker becomes the controller, in a new epoch, while the old one lives."""

    def harm(self, world: World) -> None:
        world.cluster.controls.move_controller(self._broker)


class Isolate(ControllerFault):
    """A broker is cut off from all other brokers; clients reach all of them."""

    def harm(self, world: World) -> None:
        for other in world.broker_ids:
            if other != self._broker:
                world.cut_link(self._broker, other)
                world.cut_link(other, self._broker)

    def mend(self, world: World) -> None:
        for other in world.broker_ids:
            if other != self._broker:
                world.join_link(self._broker, other)
                world.join_link(other, self._broker)


class StandStill(ControllerFault):
    """A broker is paused, as by SIGSTOP, possibly beyond its session timeout."""

    def harm(self, world: World) -> None:
        world.cluster.controls.pause_broker(self._broker)

    def mend(self, world: World) -> None:
        if self._broker in world.live_brokers:
            world.cluster.controls.resume_broker(self._broker)


class LateMetadata(ControllerFault):
    """A broker receives metadata late: it serves clients with old metadata."""

    def __init__(self, broker: int, seconds: float) -> None:
        super().__init__(broker)
        self._seconds = seconds
        self._version = 0

    def harm(self, world: World) -> None:
        self._version = world.cluster.controller.image.version
        world.cluster.controls.delay_metadata(self._broker, self._seconds)

    def is_missed(self, world: World) -> bool:
        return world.cluster.controller.image.version > self._version

    def mend(self, world: World) -> None:
        # Held updates arrive now, so that the fault ends at its end.
        world.cluster.controls.release_metadata(self._broker)
