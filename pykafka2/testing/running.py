"""A cluster that runs: what its brokers share, and the brokers.

Made at each start (starting.py); views, controls and the facade (cluster.py) are given it and know nothing
else of a cluster.  Any thread; what it hands out is guarded by `lock`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.broker.broker import Broker
from pykafka2.broker.shared import Shared
from pykafka2.driver.runtime import Runtime
from pykafka2.errors import ConfigurationError, IllegalState

NOT_RUNNING = "the cluster is not running; use it in a with block, or call start()"


class Running:
    """The brokers of one cluster with their surroundings, from its start on."""

    def __init__(self, shared: Shared, brokers: Sequence[Broker], *, owns_runtime: bool) -> None:
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
        """When it started, by the monotonic clock."""
        self._brokers = tuple(brokers)
        self._by_id = {broker.id: broker for broker in brokers}
        self._owns_runtime = owns_runtime
        self.is_over = False
        """Whether it has ended; what it held can still be looked at."""

    @property
    def brokers(self) -> list[Broker]:
        """All brokers, by id, those that are down included."""
        return list(self._brokers)

    def broker(self, broker_id: int) -> Broker:
        """The broker with this id, up or down.  Raises `ConfigurationError` if there is none."""
        if not isinstance(broker_id, int) or broker_id not in self._by_id:
            ids = list(self._by_id)
            raise ConfigurationError(f"no broker {broker_id!r}; there are {ids[0]} to {ids[-1]}")
        return self._by_id[broker_id]

    @property
    def runtime(self) -> Runtime:
        """The threads, sockets and clock.  Raises `IllegalState` once the cluster has ended."""
        if self.is_over:
            raise IllegalState(NOT_RUNNING)
        return self.shared.runtime

    def now(self) -> float:
        """By the monotonic clock of the brokers."""
        return self.runtime.clock.monotonic()

    def check(self) -> None:
        """Raise if the cluster has ended, or one of its loops has by a bug."""
        _ = self.runtime
        self.loops.raise_failure()

    def forget(self) -> None:
        """Empty history, events and metrics; the timeline begins now."""
        with self.lock:
            self.shared.history_started_at = self.now()
            self.history.clear()
            self.events.clear()
            self.faults.rules.forget_numbers()
            self.throttles.rules.forget_numbers()
            for broker in self._brokers:
                broker.metrics.clear()

    def end(self) -> None:
        """Stop brokers and loops, and the runtime unless it was given; all of them even if Ctrl-C comes
        between.
        """
        self.is_over = True
        try:
            self._shut_brokers()
        except BaseException:
            self._shut_brokers()  # those that it has kept from it; the others have stopped
            raise
        finally:
            self.loops.stop()
            if self._owns_runtime:
                self.shared.runtime.close()

    def _shut_brokers(self) -> None:
        for broker in self._brokers:
            broker.shut_down()
