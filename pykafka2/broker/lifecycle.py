"""A broker's registration with the controller: registration, heartbeats, controlled shutdown.

Like Kafka's BrokerLifecycleManager: a broker registers with a new incarnation id, stays fenced until it has
the metadata, sends a heartbeat every broker.heartbeat.interval.ms, and requests a controlled shutdown before
it stops. If the controller does not respond for a session timeout, the broker becomes a candidate itself. Run
by the broker's timers; access requires the cluster's lock.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from pykafka2.broker.controller.controllers import Controllers
from pykafka2.broker.controller_channel import ControllerChannel
from pykafka2.broker.log.storage import LogStorage
from pykafka2.broker.node import Node
from pykafka2.clock import FOREVER
from pykafka2.errors import IllegalTransition
from pykafka2.protocol.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

REGISTRATION_VERSION = 4
HEARTBEAT_VERSION = 1

# Retry interval of heartbeats and elections without a controller.
RETRY_INTERVAL = 0.5


class BrokerState(Enum):
    """Kafka's states of a broker."""

    STARTING = "registering"
    RECOVERY = "registered, fenced until it has the metadata"
    RUNNING = "serving"
    PENDING_CONTROLLED_SHUTDOWN = "its leaderships are moving"
    SHUTTING_DOWN = "leads nothing, can stop"


LEGAL_MOVES: dict[BrokerState, frozenset[BrokerState]] = {
    BrokerState.STARTING: frozenset({BrokerState.RECOVERY}),
    BrokerState.RECOVERY: frozenset({BrokerState.RUNNING, BrokerState.PENDING_CONTROLLED_SHUTDOWN}),
    BrokerState.RUNNING: frozenset({BrokerState.RECOVERY, BrokerState.PENDING_CONTROLLED_SHUTDOWN}),
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: frozenset({BrokerState.SHUTTING_DOWN}),
    BrokerState.SHUTTING_DOWN: frozenset(),
}


class LifecycleListener(Protocol):
    """Receives the state changes of a broker."""

    def registered(self, epoch: int) -> None:
        """Called when the controller has assigned a broker epoch."""
        ...

    def unfenced(self, now: float) -> None:
        """Called when the controller has unfenced the broker."""
        ...

    def leaderships_moved(self) -> None:
        """Called when all leaderships have moved."""
        ...

    def wake(self) -> None:
        """Called when something is due now: run the timers."""
        ...

    def wake_for_timers(self) -> None:
        """Called when a deadline may have moved: check the next run of the timers."""
        ...


class BrokerLifecycle:
    """The lifecycle of a broker from one start to its stop."""

    def __init__(
        self,
        node: Node,
        controllers: Controllers,
        channel: ControllerChannel,
        listener: LifecycleListener,
        incarnation_id: bytes,
        logs: LogStorage,
    ) -> None:
        self.state = BrokerState.STARTING
        self.incarnation_id = incarnation_id
        self.due = FOREVER
        self._node = node
        self._channel = channel
        self._listener = listener
        self._controllers = controllers
        self._interval = node.config.seconds("broker.heartbeat.interval.ms")
        self._session = node.config.seconds("broker.session.timeout.ms")
        self._heartbeat_at = FOREVER
        self._is_in_flight = False
        self._sent_shutdown = False
        self._wants_fence = False
        self._logs = logs
        self._failed: list[bytes] = []

    def _move_to(self, state: BrokerState) -> None:
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(self.state, state)
        self.state = state

    # ------------------------------------------------------------------ called by the broker

    def begin(self, now: float) -> None:
        """Register; heartbeats follow automatically."""
        node = self._node
        request = BrokerRegistrationRequest(
            broker_id=node.id,
            cluster_id=self._controllers.image.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                Listener(
                    name=endpoint.listener,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=endpoint.protocol,
                )
                for endpoint in (address.endpoint for address in node.listeners)
            ],
            features=[
                Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
                for name, levels in node.release.supported.items()
            ],
            rack=node.rack,
            log_dirs=sorted(self._logs.online_directories),
            previous_broker_epoch=self._logs.clean_epoch,
        )
        self.due = now + RETRY_INTERVAL  # an election may be needed first
        self._channel.send(request, REGISTRATION_VERSION, self._on_registered, now)

    def begin_shutdown(self, now: float) -> None:
        """Request a controlled shutdown; `state` becomes SHUTTING_DOWN once the leaderships have moved."""
        if self.state in (BrokerState.RUNNING, BrokerState.RECOVERY):
            self._move_to(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            self.heartbeat_now(now)

    def fence(self, now: float) -> None:
        """Have the controller fence this broker until it is restarted, and move its leaderships.

        Kafka halts a broker whose data directories have all failed; the controller then does the same.
        """
        if not self._wants_fence:
            self._wants_fence = True
            self.heartbeat_now(now)

    def check_directories(self, now: float) -> bool:
        """Report data directories that have failed to the controller, with this and all later heartbeats.

        It moves the leaderships of the replicas there (KIP-858). Return whether any has failed since the
        last call.
        """
        failed = [*self._logs.failed_directories]
        if failed == self._failed:
            return False
        self._failed = failed
        if self._logs.is_offline:
            self.fence(now)
        else:
            self.heartbeat_now(now)
        return True

    def heartbeat_now(self, now: float) -> None:
        """Send the next heartbeat now, because conditions may have improved."""
        if self.state is not BrokerState.STARTING:
            self._heartbeat_at = now
        self.due = now
        self._listener.wake()

    def run(self, now: float) -> None:
        """Do what is due; `due` is the time of the next call."""
        if now < self.due:
            return
        if self._controllers.election.misses(self._node.id, now):
            self._controllers.stand_for_election(self._node.id, now)
        if now >= self._heartbeat_at and not self._is_in_flight:
            self._send_heartbeat(now)
        self._plan(now)

    def _plan(self, now: float) -> None:
        misses_at = self._controllers.election.misses_at(self._node.id)
        if self._controllers.election.misses(self._node.id, now):
            misses_at = now + RETRY_INTERVAL
        self.due = min(misses_at, FOREVER if self._is_in_flight else self._heartbeat_at)

    # ------------------------------------------------------------------ responses

    def _on_registered(self, response: BrokerRegistrationResponse, now: float) -> None:
        if response.error_code:
            self._node.wheel.add(now + RETRY_INTERVAL, self.begin)
            return
        self._move_to(BrokerState.RECOVERY)
        self._listener.registered(response.broker_epoch)
        self._send_heartbeat(now)
        self._plan(now)

    def _send_heartbeat(self, now: float) -> None:
        self._is_in_flight = True
        self._heartbeat_at = now + self._interval
        self._sent_shutdown = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        request = BrokerHeartbeatRequest(
            broker_id=self._node.id,
            broker_epoch=self._node.epoch,
            current_metadata_offset=self._node.image.version,
            want_fence=self._wants_fence,
            want_shut_down=self._sent_shutdown,
            offline_log_dirs=[] if self._wants_fence else self._failed,
        )
        self._channel.send(
            request,
            HEARTBEAT_VERSION,
            self._on_heartbeat,
            now,
            deadline=now + self._session / 2,
            on_timeout=self._on_silence,
        )

    def _on_silence(self, now: float) -> None:
        self._is_in_flight = False
        self._heartbeat_at = now
        self.due = now
        self._listener.wake()

    def _on_heartbeat(self, response: BrokerHeartbeatResponse, now: float) -> None:
        self._is_in_flight = False
        if response.error_code:
            self._heartbeat_at = now + RETRY_INTERVAL
        elif self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            if response.should_shut_down:
                self._move_to(BrokerState.SHUTTING_DOWN)
                self._heartbeat_at = FOREVER
                self._listener.leaderships_moved()
            else:
                self._heartbeat_at = now + RETRY_INTERVAL if self._sent_shutdown else now
        elif self.state is BrokerState.RECOVERY and not response.is_fenced:
            self._move_to(BrokerState.RUNNING)
            self._listener.unfenced(now)
        elif response.is_fenced:
            if self.state is BrokerState.RUNNING:
                self._move_to(BrokerState.RECOVERY)
            self._heartbeat_at = now + RETRY_INTERVAL
        self._plan(now)
        self._listener.wake_for_timers()
