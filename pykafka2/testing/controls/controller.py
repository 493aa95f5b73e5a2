"""Controls of the controller: move it, delay it, prevent its election, delay the brokers' metadata.

A mixin of `Controls` (controls/controls.py).  Any thread except the cluster's own.
"""

from __future__ import annotations

from pykafka2.broker.base.arguments import check_count, check_number
from pykafka2.errors import ConfigurationError
from pykafka2.testing.running import Running


class ControllerControls:
    """`controls.move_controller(2)`, `controls.hold_metadata(1)`."""

    _running: Running

    def move_controller(self, to: int) -> None:
        """Make another broker the controller, in a new controller epoch."""
        self._running.check()
        broker = self._running.broker(to)
        with self._running.lock:
            if not broker.is_running or broker.is_paused:
                raise ConfigurationError(
                    f"Broker {to} does not run, so it cannot be the controller. Start it first."
                )
            self._running.controllers.elect(to, self._running.now())

    def hold_elections(self) -> None:
        """Prevent the election of a controller until `release_elections`: if the present controller fails,
        the cluster has none.
        """
        with self._running.lock:
            self._running.controllers.election.is_held = True

    def release_elections(self) -> None:
        """End `hold_elections`; if the controller is known to have failed, another is elected at once."""
        with self._running.lock:
            self._running.controllers.election.is_held = False
            self._running.controllers.elect_at_once(self._running.now())

    def _reset_controller(self) -> None:
        """End `slow_controller` and `hold_elections`."""
        with self._running.lock:
            self._running.controllers.end_slowness()
        self.release_elections()

    def slow_controller(self, seconds: float, times: int = 1) -> None:
        """Delay each of the controller's next changes by this time; later changes wait."""
        self._running.check()
        check_number("seconds", seconds, least=0)
        check_count("times", times)
        with self._running.lock:
            node = self._running.controllers.active_node
            if node is None:
                raise ConfigurationError("The cluster has no controller to slow down.")
            node.events.slow_down(seconds, times)

    def delay_metadata(self, broker_id: int, seconds: float) -> None:
        """Delay a broker's metadata updates; 0 ends it.  Updates in flight keep their delay."""
        self._running.broker(broker_id)
        check_number("seconds", seconds, least=0)
        with self._running.lock:
            self._running.controllers.publisher.delay(broker_id, seconds)

    def hold_metadata(self, broker_id: int) -> None:
        """Hold all metadata updates of a broker until `release_metadata`."""
        self._running.broker(broker_id)
        with self._running.lock:
            self._running.controllers.publisher.hold(broker_id)

    def release_metadata(self, broker_id: int | None = None) -> None:
        """End holding and delays of metadata, of one broker or all; held updates are applied at once."""
        if broker_id is not None:
            self._running.broker(broker_id)
        with self._running.lock:
            self._running.controllers.publisher.release(broker_id, self._running.now())
