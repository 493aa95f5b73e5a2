"""A broker's periodic work: a part of it (server/threads.py) that takes the cluster's lock."""

from __future__ import annotations

from pykafka2.broker.coordinators.coordinators import Coordinators
from pykafka2.broker.lifecycle import BrokerLifecycle
from pykafka2.broker.log.storage import LogStorage
from pykafka2.broker.node import Node
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.server.threads import Part
from pykafka2.clock import FOREVER


class BrokerTimers(Part):
    """A broker's timers: request timeouts, lagging followers, log cleaning, groups and transactions."""

    def __init__(
        self,
        node: Node,
        logs: LogStorage,
        lifecycle: BrokerLifecycle,
        replicas: ReplicaManager,
        coordinators: Coordinators,
    ) -> None:
        super().__init__(f"timers-{node.id}")
        self._node = node
        self._logs = logs
        self._lifecycle = lifecycle
        self._replicas = replicas
        self._coordinators = coordinators
        config = node.config
        self._isr_check_every = config.seconds("replica.lag.time.max.ms") / 2
        self._isr_check_at = 0.0
        self._expiry_every = config.seconds("producer.id.expiration.check.interval.ms")
        self._expiry_at = 0.0
        self._retention_check_every = config.seconds("log.retention.check.interval.ms")
        self._retention_check_at = node.clock.monotonic() + self._retention_check_every
        self._cleaning_at = node.clock.monotonic() + config.seconds("log.cleaner.backoff.ms")
        self._storage_at = 0.0
        self._moves_at = 0.0
        self.due = 0.0  # the next run; unlike `wake_at` it changes under the lock only

    def reschedule(self) -> None:
        """Handle a new timer or a changed deadline: run earlier if necessary."""
        if min(self._node.wheel.next_deadline(), self._lifecycle.due, self._coordinators.due) < self.due:
            self.signal()

    def storage_changed(self) -> None:
        """Handle a failed data directory, or a log that begins to move."""
        self._moves_at = 0.0
        self.signal()

    def run(self, now: float) -> float:
        node, replicas = self._node, self._replicas
        with node.lock:
            if not node.is_running:
                self.due = FOREVER
                return FOREVER
            node.wheel.advance(now)
            if self._lifecycle.check_directories(now):
                replicas.directories_failed()
            self._lifecycle.run(now)
            if now >= self._isr_check_at:
                self._isr_check_at = now + self._isr_check_every
                replicas.isrs.shrink(list(replicas.replicas.values()), now)
                replicas.isrs.expand(replicas.replicas.values(), now)
            if now >= self._expiry_at:
                self._expiry_at = now + self._expiry_every
                self.expire_producers()
            if now >= self._retention_check_at:
                self._retention_check_at = now + self._retention_check_every
                replicas.log_manager.apply_retention(node.clock.wall_ms(), None)
            if now >= replicas.log_manager.flush_at:
                replicas.log_manager.flush_due(now)
            if now >= self._cleaning_at:
                self._cleaning_at = replicas.cleaner.run(now, node.clock.wall_ms())
            self._coordinators.run(now)
            replicas.complete_delayed(now)
            if self._coordinators.markers is not None:
                self._coordinators.markers.send(now)
            self._logs.release_memory()
            if now >= self._moves_at:
                self._moves_at = replicas.moves.run(now)
            if now >= self._storage_at:
                self._storage_at = self._logs.run(now)
            self.due = min(
                node.wheel.next_deadline(),
                self._isr_check_at,
                self._expiry_at,
                self._retention_check_at,
                self._cleaning_at,
                self._storage_at,
                self._moves_at,
                replicas.log_manager.flush_at,
                self._coordinators.due,
                self._lifecycle.due,
            )
            return self.due

    def expire_producers(self) -> None:
        """Drop producers that were inactive for producer.id.expiration.ms."""
        kept_ms = self._node.config.int("producer.id.expiration.ms")
        self._replicas.expire_producers(self._node.clock.wall_ms() - kept_ms)
