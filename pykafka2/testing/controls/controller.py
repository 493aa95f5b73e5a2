"""Controls of the controller: move it, delay it, prevent its election, delay the brokers' metadata.

Part of `Controls` (controls/controls.py), which documents them.  Any thread except the cluster's own.
"""

from __future__ import annotations

from pykafka2.broker.base.arguments import check_number
from pykafka2.errors import ConfigurationError
from pykafka2.testing.running import Running


class ControllerControls:
    """`controls.move_controller(2)`, `controls.hold_metadata(1)`."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def move_controller(self, to: int) -> None:
        self._running.check()
        broker = self._running.broker(to)
        with self._running.lock:
            if not broker.is_running or broker.is_paused:
                raise ConfigurationError(
                    f"Broker {to} does not run, so it cannot be the controller. Start it first."
                )
            self._running.controllers.elect(to, self._running.now())

    def hold_elections(self) -> None:
        with self._running.lock:
            self._running.controllers.election.is_held = True

    def release_elections(self) -> None:
        with self._running.lock:
            self._running.controllers.election.is_held = False
            self._running.controllers.elect_at_once(self._running.now())

    def reset(self) -> None:
        """End `slow_controller` and `hold_elections`."""
        with self._running.lock:
            self._running.controllers.end_slowness()
        self.release_elections()

    def slow_controller(self, seconds: float, times: int = 1) -> None:
        self._running.check()
        check_number("seconds", seconds, least=0)
        check_number("times", times, least=1)
        with self._running.lock:
            node = self._running.controllers.active_node
            if node is None:
                raise ConfigurationError("The cluster has no controller to slow down.")
            node.events.slow_down(seconds, times)

    def delay_metadata(self, broker_id: int, seconds: float) -> None:
        self._running.broker(broker_id)
        check_number("seconds", seconds, least=0)
        with self._running.lock:
            self._running.controllers.publisher.delay(broker_id, seconds)

    def hold_metadata(self, broker_id: int) -> None:
        self._running.broker(broker_id)
        with self._running.lock:
            self._running.controllers.publisher.hold(broker_id)

    def release_metadata(self, broker_id: int | None = None) -> None:
        if broker_id is not None:
            self._running.broker(broker_id)
        with self._running.lock:
            self._running.controllers.publisher.release(broker_id, self._running.now())
