"""The controls of the controller: move it, slow it down, leave the cluster without, let brokers learn late.

Part of `Controls` (controls.py).  Any thread but the cluster's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.base.arguments import check_number
from pykafka2.errors import ConfigurationError

if TYPE_CHECKING:
    from pykafka2.testing.cluster import KafkaCluster


class ControllerControls:
    """`controls.move_controller(2)`, `controls.hold_metadata(1)`."""

    _cluster: KafkaCluster

    def move_controller(self, to: int) -> None:
        """Make another broker the controller, in a new controller epoch."""
        self._cluster.check()
        broker = self._cluster.broker(to)
        with self._cluster.lock:
            if not broker.is_running or broker.is_paused:
                raise ConfigurationError(f"broker {to} does not run, so it cannot be the controller")
            self._cluster.controller.elect(to, self._now())

    def hold_elections(self) -> None:
        """Let no broker become the controller until `release_elections`: with the present one gone, the
        cluster is without.
        """
        with self._cluster.lock:
            self._cluster.controller.election.is_held = True

    def release_elections(self) -> None:
        """End `hold_elections`; if the controller is known to be gone, another is elected at once."""
        with self._cluster.lock:
            self._cluster.controller.election.is_held = False
            self._cluster.controller.elect_at_once(self._now())

    def slow_controller(self, seconds: float, times: int = 1) -> None:
        """Let each of the controller's next changes take that long; those behind it wait."""
        self._cluster.check()
        check_number("seconds", seconds, least=0)
        check_number("times", times, least=1)
        with self._cluster.lock:
            node = self._cluster.controller.active_node
            if node is None:
                raise ConfigurationError("there is no controller to slow down")
            node.events.slow_down(seconds, times)

    def delay_metadata(self, broker_id: int, seconds: float) -> None:
        """Let a broker learn of changes that much later; 0 ends it.  What is under way keeps its time."""
        self._cluster.broker(broker_id)
        check_number("seconds", seconds, least=0)
        with self._cluster.lock:
            self._cluster.controller.publisher.delay(broker_id, seconds)

    def hold_metadata(self, broker_id: int) -> None:
        """Let a broker learn of no change until `release_metadata`."""
        self._cluster.broker(broker_id)
        with self._cluster.lock:
            self._cluster.controller.publisher.hold(broker_id)

    def release_metadata(self, broker_id: int | None = None) -> None:
        """End holding and delays of metadata, to one broker or all; what they lack they learn now."""
        if broker_id is not None:
            self._cluster.broker(broker_id)
        with self._cluster.lock:
            self._cluster.controller.publisher.release(broker_id, self._now())

    def _now(self) -> float:
        return self._cluster.runtime.clock.monotonic()
