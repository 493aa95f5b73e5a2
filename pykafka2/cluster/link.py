"""A link to one broker: resolves its name, connects, reconnects after failures, closes idle connections.

Owned by the driver's thread. network/connection.py handles the bytes, the driver the socket; a link decides
when to connect, to which of the name's addresses, and how long to back off after a failure. It connects only
on demand (`want`). nodes.py holds the links.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Any

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.port_diagnosis import PortDiagnosis
from pykafka2.driver.driver import Driver
from pykafka2.driver.pollable import Send
from pykafka2.driver.runtime import Outcome
from pykafka2.errors import (
    CorruptResponse,
    Disconnected,
    IllegalState,
    IllegalTransition,
    KafkaError,
    MisroutedConnection,
    NoBrokersAvailable,
    UnsupportedVersion,
)
from pykafka2.logs import ClientLogger
from pykafka2.network.connection import Connection, ConnectionOptions, ConnectionState
from pykafka2.network.connection_setup import OnWorkDone
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.handshake import ExpectedBroker, handshake
from pykafka2.network.port_probe import VERDICTS, ProbeTransport
from pykafka2.network.sasl.mechanism import SaslMechanism
from pykafka2.network.script import Lane, Offload
from pykafka2.network.traffic import Traffic
from pykafka2.network.transport import SocketOptions, TlsWrapper
from pykafka2.options import ClientOptions
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.types import Node

FAILURE_REPORT_SECONDS = 60.0
"""Seconds after its last attempt for which a failed link is still reported as failing."""

CANONICAL = "resolve_canonical_bootstrap_servers_only"


class Purpose(Enum):
    """The purpose of a link. Brokers respond in order, so commits do not wait behind a fetch or JoinGroup."""

    MAIN = "main"
    COORDINATOR = "coordinator"
    LAST_REQUESTS = "last requests"
    """The last commit and LeaveGroup of a member whose JoinGroup waits for the other members."""

    __hash__ = object.__hash__  # members are singletons, and Enum's own hash is a Python call


class LinkState(Enum):
    IDLE = "idle"
    RESOLVING = "resolving"
    OPENING = "opening"
    READY = "ready"
    BACKING_OFF = "backing off"
    CLOSED = "closed"

    __hash__ = object.__hash__  # members are singletons, and Enum's own hash is a Python call


_S = LinkState
LEGAL_MOVES: dict[LinkState, frozenset[LinkState]] = {
    _S.IDLE: frozenset({_S.RESOLVING, _S.CLOSED}),
    _S.RESOLVING: frozenset({_S.OPENING, _S.BACKING_OFF, _S.IDLE, _S.CLOSED}),
    # OPENING follows OPENING for the next of the name's addresses.
    _S.OPENING: frozenset({_S.OPENING, _S.READY, _S.BACKING_OFF, _S.IDLE, _S.CLOSED}),
    _S.READY: frozenset({_S.BACKING_OFF, _S.IDLE, _S.CLOSED}),
    _S.BACKING_OFF: frozenset({_S.RESOLVING, _S.IDLE, _S.CLOSED}),
    _S.CLOSED: frozenset(),
}


class NodeLink:
    """A connection slot to one node for one purpose.

    `failures` counts all lost connections and failed attempts; `has_failed` is True from a failed attempt
    until one succeeds. `on_lost(link, error)` is called after each failure.
    """

    def __init__(
        self,
        node: Node,
        purpose: Purpose,
        options: ClientOptions,
        driver: Driver,
        tls: TlsWrapper | None,
        sasl: SaslMechanism | None = None,
        *,
        cluster_id: Callable[[], str | None] = lambda: None,
        on_lost: Callable[[NodeLink, KafkaError], None],
    ) -> None:
        self.node = node
        self.purpose = purpose
        self.state = LinkState.IDLE
        self.connection: Connection | None = None
        self.failures = 0
        self.has_failed = False
        self.last_error: KafkaError | None = None
        self.has_resolved = False
        """True once DNS has resolved the node's name."""
        self.is_misrouted = False
        """True if another broker is at the address (KIP-1242), until the metadata lists the node again."""
        self.retry_at = -FOREVER
        """No attempt to connect before this moment."""
        self.quiet_until = -FOREVER
        """Next time this link must be polled, unless reset."""
        self._log = ClientLogger(__name__, options.client_id)
        self._options = options
        self._driver = driver
        self._tls = tls
        self._sasl = sasl
        self._cluster_id = cluster_id
        self._on_lost = on_lost
        self._traffic: Traffic | None = None
        self._endpoints: list[Endpoint] = []
        self._attempt = 0
        self._resolve_deadline = FOREVER
        self._setup_deadline = FOREVER
        self._is_wanted = False
        # Only bootstrap addresses, which a user wrote, can have the wrong port; brokers name their own.
        self._diagnosis = PortDiagnosis(has_sasl=sasl is not None) if node.id < 0 else None
        random = driver.entropy.random
        self._backoff = Backoff(options.reconnect_backoff, options.reconnect_backoff_max, random)
        self._setup_timeout = Backoff(
            options.socket_connection_setup_timeout, options.socket_connection_setup_timeout_max, random
        )

    # ------------------------------------------------------------------ state

    @property
    def address(self) -> str:
        host = f"[{self.node.host}]" if ":" in self.node.host else self.node.host
        return f"{host}:{self.node.port}"

    @property
    def name(self) -> str:
        """The broker's name in error messages."""
        return str(self.node) if self.node.id >= 0 else f"bootstrap broker {self.address}"

    @property
    def is_connected(self) -> bool:
        return self.state is LinkState.READY

    @property
    def is_coming_up(self) -> bool:
        return self.state in (LinkState.RESOLVING, LinkState.OPENING)

    @property
    def is_backing_off(self) -> bool:
        return self.state is LinkState.BACKING_OFF

    def is_at_rest(self, now: float) -> bool:
        """Return whether it is idle, or has made no attempt for `FAILURE_REPORT_SECONDS`."""
        if self.state is LinkState.BACKING_OFF:
            return now >= self.retry_at + FAILURE_REPORT_SECONDS
        return self.state is LinkState.IDLE

    @property
    def why_not(self) -> str:
        """The reason why it is not connected, as text."""
        if self.last_error is not None:
            return str(self.last_error)
        return "no response yet" if self.is_coming_up else "not tried yet"

    @property
    def in_flight(self) -> int:
        return self.connection.in_flight if self.connection is not None else 0

    def throttled_for(self, now: float) -> float:
        """Return the seconds for which the broker still throttles this client (throttle_time_ms)."""
        connection = self.connection
        return max(connection.throttled_until - now, 0.0) if connection is not None else 0.0

    def why_throttled(self, now: float) -> str:
        """Return that this node throttles the client, and for how many seconds, as text."""
        seconds = self.throttled_for(now)
        return f"{self.name} throttles this client: no request is sent to it for another {seconds:.1f} s"

    def is_ready(self, now: float) -> bool:
        """Return True if a request would be sent at once: connected, versions negotiated, not throttled."""
        connection = self.connection
        return (
            self.state is LinkState.READY
            and connection is not None
            and connection.state is ConnectionState.READY
            and connection.throttled_until <= now
        )

    # ------------------------------------------------------------------ actions

    def want(self, now: float) -> None:
        """Connect, unless an attempt is under way; in back-off, `poll` returns the time of the next one."""
        if self.is_misrouted:
            return
        self._is_wanted = True
        self.quiet_until = -FOREVER
        if self.state is LinkState.IDLE or (self.state is LinkState.BACKING_OFF and now >= self.retry_at):
            self._resolve(now)

    def send(self, send: Send[Any], now: float) -> None:
        """Send a request; call only if `is_ready`."""
        if self.connection is None:
            raise IllegalState(f"{self.name} is not connected")
        send.sent_to, send.sent_at = self.node.id, now
        timeout = self._options.request_timeout if send.timeout is None else send.timeout
        if now + timeout > send.deadline:
            timeout = max(send.deadline - now, 0.0)
        if now + timeout < self.quiet_until:
            self.quiet_until = now + timeout
        self.connection.send(
            send.request,
            now,
            on_response=send.on_response,
            on_failure=send.on_failure,
            timeout=timeout,
            expects_response=send.expects_response,
            on_sent=send.on_sent,
            min_version=send.min_version,
            max_version=send.max_version,
        )

    def update_node(self, node: Node, now: float) -> None:
        """Set the node that the metadata lists; if its address has changed, the connection is closed."""
        has_moved = (node.host, node.port) != (self.node.host, self.node.port)
        self.node = node
        self.is_misrouted = False
        if has_moved and self.state not in (LinkState.CLOSED, LinkState.IDLE):
            self._drop(Disconnected(f"{self.name} has moved to another address"), now)
            self._move_to(LinkState.IDLE)

    def poll(self, now: float) -> float:
        """Fail what has timed out, close what is idle; return the latest time of the next poll."""
        if self.connection is not None:
            self.connection.poll(now)  # this can close it
        if self.state is LinkState.READY and self.connection is not None:
            return self._poll_ready(self.connection, now)
        if self.state is LinkState.OPENING and self.connection is not None:
            return self.connection.next_deadline()
        if self.state is LinkState.RESOLVING:
            if now < self._resolve_deadline:
                return self._resolve_deadline
            self._fail(NoBrokersAvailable(f"DNS did not resolve {self.node.host!r} in time"), now)
        if self.state is LinkState.BACKING_OFF and self._is_wanted:
            # A request that still waits has called want() in this turn; past retry_at that reconnects.
            self._is_wanted = now < self.retry_at
            return self.retry_at if self._is_wanted else FOREVER
        if self.state is LinkState.IDLE:
            self.quiet_until = FOREVER
        return FOREVER

    def close_idle(self, now: float) -> None:
        """Close an unused connection; the next request opens another."""
        self._drop(Disconnected(f"{self.name}: the connection was closed because it was idle"), now)
        self._move_to(LinkState.IDLE)

    def close(self, error: KafkaError, now: float) -> None:
        """Close for good; requests in flight fail with `error`."""
        if self.state is not LinkState.CLOSED:
            self._move_to(LinkState.CLOSED)
            self._drop(error, now)

    # ------------------------------------------------------------------ inside

    def _move_to(self, state: LinkState) -> None:
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(self.state, state)
        self.state = state
        self.quiet_until = -FOREVER

    def _poll_ready(self, connection: Connection, now: float) -> float:
        wake_at = connection.next_deadline()
        if self._is_wanted and connection.throttled_until > now:
            wake_at = min(wake_at, connection.throttled_until)
        # A response does not reset quiet_until: it can only move the idle deadline to a later time.
        used_at = now if connection.in_flight else connection.last_used
        idle_at = used_at + self._options.connections_max_idle
        if now >= idle_at:
            self.close_idle(now)
            return FOREVER
        wake_at = min(wake_at, idle_at)
        # Not for bootstrap links, which close after use, nor while SASL re-authenticates (earlier deadlines).
        if self.node.id >= 0 and connection.is_ready:
            self.quiet_until = wake_at
        return wake_at

    def _resolve(self, now: float) -> None:
        self._move_to(LinkState.RESOLVING)
        self._attempt += 1
        attempt, host, port = self._attempt, self.node.host, self.node.port
        network = self._driver.runtime.network
        self._resolve_deadline = now + self._options.socket_connection_setup_timeout
        # Canonical names apply to bootstrap addresses only; brokers advertise the names they want used.
        canonical = self.node.id < 0 and self._options.client_dns_lookup == CANONICAL
        self._driver.offload(
            lambda: network.resolve(host, port, canonical=canonical),
            lambda outcome, then: self._on_resolved(attempt, outcome, then),
            Lane.NAMES,
        )

    def _on_resolved(self, attempt: int, outcome: Outcome[list[Endpoint]], now: float) -> None:
        if attempt != self._attempt or self.state is not LinkState.RESOLVING:
            return  # it timed out, or the link was closed meanwhile
        if outcome.error is not None or not outcome.value:
            error = outcome.error
            if not isinstance(error, KafkaError):
                error = NoBrokersAvailable(f"DNS cannot resolve {self.node.host!r}: {error!r}")
            self._fail(error, now)
            return
        self._endpoints = list(outcome.value)
        self.has_resolved = True
        if self._diagnosis is not None:
            self._diagnosis.resolved()
        self._open(now)

    def _open(self, now: float) -> None:
        """Connect to the next of the name's addresses."""
        self._move_to(LinkState.OPENING)
        endpoint = self._endpoints.pop(0)
        options = self._options
        setup_timeout = self._setup_timeout.delay(self._setup_timeout.attempts)
        # Responses of the handshake are limited by request_timeout as well.
        self._setup_deadline = now + min(setup_timeout, options.request_timeout)
        probe = None if self._diagnosis is None else self._diagnosis.begin(endpoint)
        if self._traffic is None:
            self._traffic = Traffic(self._driver.metrics, self._tag())
        connection = self.connection = Connection(
            self.name,
            now,
            ConnectionOptions(
                client_id=options.client_id,
                request_timeout=options.request_timeout,
                setup_timeout=setup_timeout,
                max_frame_bytes=options.max_frame_bytes,
                sasl=self._sasl,
                offload=self._offload,
            ),
            on_ready=self._on_ready,
            on_closed=self._on_closed,
            shake_hands=(
                handshake(self.name, self._sasl, expected=self._expected())
                if probe is None
                else probe.script(self.name)
            ),
            event_sink=self._driver.event_sink,
            traffic=self._traffic,
            node_id=self.node.id,
        )
        try:
            connection.pipe = self._driver.open(
                endpoint,
                connection,
                options=SocketOptions(options.send_buffer_bytes, options.receive_buffer_bytes),
                tls=None if probe and probe.transport is ProbeTransport.PLAINTEXT else self._tls,
                server_name=endpoint.name or self.node.host,
            )
        except KafkaError as error:
            connection.close(now, error)
            self._on_closed(error, now)

    def _tag(self) -> str:
        """Return the value of the tag `node-id`: Kafka marks the connection to a coordinator with a plus."""
        return f"node-{'' if self.purpose is Purpose.MAIN else '+'}{self.node.id}"

    def _expected(self) -> ExpectedBroker | None:
        """Return the broker that must be at the address, if brokers should check it (KIP-1242)."""
        options = self._options
        if not options.metadata_cluster_check_enable or options.metadata_recovery_strategy == "none":
            return None
        cluster_id = self._cluster_id() if self.node.id >= 0 else None
        return None if cluster_id is None else ExpectedBroker(cluster_id, self.node.id)

    def _offload(self, step: Offload, on_done: OnWorkDone) -> None:
        self._driver.offload(
            step.work, lambda outcome, now: on_done(outcome.value, outcome.error, now), step.lane
        )

    def _on_ready(self, now: float) -> None:
        connection = self.connection
        if connection is not None:
            try:
                connection.version_for(MetadataRequest)
            except UnsupportedVersion as error:
                # For example a KRaft controller, which serves no clients; another address can be a broker.
                connection.fail(error, now)
                return
        self._move_to(LinkState.READY)
        self.has_failed = False
        self.last_error = None
        self._backoff.reset()
        self._setup_timeout.reset()
        self._endpoints = []

    def _on_closed(self, error: KafkaError, now: float) -> None:
        """Retry or back off after a lost connection, whose requests have failed already."""
        connection, self.connection = self.connection, None
        if self.state is LinkState.CLOSED:
            return
        if self._diagnosis is not None:
            was_unanswered = None
            if self.state is LinkState.READY and connection is not None:
                was_unanswered = connection.has_ended_unanswered
            error = self._diagnosis.closed(error, was_unanswered=was_unanswered)
        may_differ_elsewhere = error.retriable or isinstance(error, VERDICTS)
        if isinstance(error, MisroutedConnection):
            may_differ_elsewhere = False
        if self.state is LinkState.OPENING and self._endpoints and may_differ_elsewhere:
            self.last_error = error
            self._open(now)
        else:
            self._fail(error, now)

    def _fail(self, error: KafkaError, now: float) -> None:
        if self.state is LinkState.READY:
            if isinstance(error, CorruptResponse):
                self._log.warning("%s: %s; the connection was closed", self.name, error)
        else:
            # Warn once for each outage: the failures that follow are the same, several times a second.
            is_verdict = self._diagnosis is not None and self._diagnosis.is_news(error)
            is_news = is_verdict or not self.has_failed
            reason = str(error).removeprefix(f"{self.name}: ").removeprefix(f"{self.address}: ")
            self._log.log(logging.WARNING if is_news else logging.DEBUG, "%s: %s", self.name, reason)
            self.has_failed = True
            if self.state is LinkState.OPENING and now >= self._setup_deadline:
                # Raise the limit only after a timeout. Two seconds of refused connections would raise it to
                # half a minute, and the next attempt that gets no response would wait that long.
                self._setup_timeout.attempts += 1
        self._move_to(LinkState.BACKING_OFF)
        self._endpoints = []
        self.failures += 1
        self.last_error = error
        self.retry_at = now + self._backoff.next()
        self._on_lost(self, error)

    def _drop(self, error: KafkaError, now: float) -> None:
        """Close the connection, if any, without counting a failure."""
        self._attempt += 1
        self._endpoints = []
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close(now, error)
