"""A running cluster: its brokers and the state that they share.

Created at each start (starting.py); views, controls and the facade (cluster.py) use only this object.
Thread-safe; `lock` guards the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.broker.broker import Broker
from pykafka2.broker.shared import Shared
from pykafka2.driver.runtime import Runtime
from pykafka2.errors import ConfigurationError, IllegalState
from pykafka2.testing.storage import ClusterStorage

NOT_RUNNING = "The cluster is not running. Use it in a with block, or call start()."


class Running:
    """The brokers of one cluster with everything that they share, from the start on."""

    def __init__(
        self,
        shared: Shared,
        brokers: Sequence[Broker],
        *,
        owns_runtime: bool,
        storage: ClusterStorage | None = None,
    ) -> None:
        self.shared = shared
        self.lock = shared.lock
        self.loops = shared.loops
        self.links = shared.links
        self.controllers = shared.controllers
        self.faults = shared.faults
        self.throttles = shared.throttles
        self.history = shared.history
        self.events = shared.events
        self.started_at = shared.history_started_at
        """Time of the start, by the monotonic clock."""
        self._brokers = tuple(brokers)
        self._by_id = {broker.id: broker for broker in brokers}
        self._owns_runtime = owns_runtime
        self.storage = storage
        """The data directories, None if everything is in memory."""
        self.is_over = False
        """Whether the cluster has ended; its state can still be read."""

    @property
    def brokers(self) -> list[Broker]:
        """All brokers by id, including stopped ones."""
        return list(self._brokers)

    def broker(self, broker_id: int) -> Broker:
        """Return the broker with this id, running or not.  Raise `ConfigurationError` for an unknown id."""
        if not isinstance(broker_id, int) or isinstance(broker_id, bool) or broker_id not in self._by_id:
            ids = list(self._by_id)
            raise ConfigurationError(f"Unknown broker {broker_id!r}. Ids are {ids[0]} to {ids[-1]}.")
        return self._by_id[broker_id]

    @property
    def runtime(self) -> Runtime:
        """The threads, sockets and clock.  Raises `IllegalState` after the cluster has ended."""
        if self.is_over:
            raise IllegalState(NOT_RUNNING)
        return self.shared.runtime

    def now(self) -> float:
        """Return the time of the brokers' monotonic clock."""
        return self.runtime.clock.monotonic()

    def check(self) -> None:
        """Raise if the cluster has ended, or a bug has ended one of its loops."""
        _ = self.runtime
        self.loops.raise_failure()

    def forget(self) -> None:
        """Clear history, events, metrics and telemetry; restart the timeline."""
        with self.lock:
            self.shared.history_started_at = self.now()
            self.history.clear()
            self.events.clear()
            self.shared.pushes.clear()
            self.faults.rules.forget_numbers()
            self.throttles.rules.forget_numbers()
            for broker in self._brokers:
                broker.metrics.clear()

    def end(self) -> None:
        """Stop brokers and loops, and the runtime unless it was passed in; all of them, even after a Ctrl-C
        in between.
        """
        self.is_over = True
        try:
            self._shut_brokers()
        except BaseException:
            self._shut_brokers()  # those that were not stopped before the interrupt
            raise
        finally:
            self.loops.stop()
            if self.storage is not None:
                self.storage.close(is_clean=True)
            if self._owns_runtime:
                self.shared.runtime.close()

    def _shut_brokers(self) -> None:
        for broker in self._brokers:
            broker.shut_down()
