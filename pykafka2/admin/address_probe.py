"""Checks one address step by step: DNS, port, TLS, API versions, SASL, metadata.

Runs on the driver's thread, over connections of its own. These are those of any client
(network/connection.py), so their errors are a client's errors. After a failure further connections find the
cause: they read a rejected certificate, or detect that the port speaks another protocol. Created on the
caller's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pykafka2.admin.check_advice import (
    explained,
    fix_of_name,
    fix_of_port,
    fix_of_step,
    shown_certificate,
    shown_versions,
)
from pykafka2.admin.check_values import CheckStatus, CheckStep
from pykafka2.admin.tls_observer import Observer
from pykafka2.clock import FOREVER
from pykafka2.driver.completion import Completion
from pykafka2.driver.pollable import PollResult
from pykafka2.errors import (
    Disconnected,
    IllegalSaslState,
    KafkaError,
    NoBrokersAvailable,
    RequestTimeout,
    TlsError,
)
from pykafka2.network.connection import Connection, ConnectionOptions
from pykafka2.network.handshake import (
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    Agreement,
    authenticate,
    negotiate,
)
from pykafka2.network.port_probe import VERDICTS, Phase, PortProbe, ProbeTransport, TlsSpoken, probe_after
from pykafka2.network.script import Lane, Script
from pykafka2.network.transport import SocketOptions
from pykafka2.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.driver.runtime import Outcome
    from pykafka2.network.api_versions import ApiVersions
    from pykafka2.network.certificate import Certificate
    from pykafka2.network.connection_setup import OnWorkDone
    from pykafka2.network.endpoint import Endpoint
    from pykafka2.network.script import Offload
    from pykafka2.network.tls import ReloadingTlsContext, TlsContext
    from pykafka2.protocol.struct import Request

STEPS = ("dns", "port", "tls", "api_versions", "sasl", "metadata")
SETUP_TIMEOUTS = 10
"""The limit of a connection's handshakes together, and of each of their requests, as a multiple of the
timeout. It is never reached, because the probe ends each step after one timeout; an equal limit could be
first.
"""
EXPIRES_SOON = timedelta(days=30)
"""A certificate that expires earlier than this is a warning."""

OnResponse = Callable[[Any, float], None]


class AddressProbe:
    """The check of one address. `done` is completed when all steps have an outcome.

    `timeout` bounds DNS, the connection with its handshakes, and each request. After success the connection
    stays open for `request`, until `close`.
    """

    def __init__(
        self, cluster: ClusterClient, host: str, port: int, broker_id: int | None, timeout: float
    ) -> None:
        self.host, self.port = host, port
        self.broker_id = broker_id
        self.is_bootstrap = False
        self.metadata: Any = None
        self.done: Completion[None] = Completion(cluster.driver, f"the check of {self.address}")
        self.steps: dict[str, CheckStep] = {}
        self._cluster = cluster
        self._timeout = timeout
        self._endpoints: list[Endpoint] = []
        self._unreachable: list[str] = []
        self._connection: Connection | None = None
        self._observer: Observer | None = None
        """The observer of the current connection, if it uses TLS."""
        self._stage = "dns"
        self._began, self._deadline = 0.0, FOREVER

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def name(self) -> str:
        """The broker's name in messages."""
        return self.address if self.broker_id is None else f"broker {self.broker_id} ({self.address})"

    @property
    def versions(self) -> ApiVersions | None:
        """The API versions of the open connection."""
        return None if self._connection is None else self._connection.api_versions

    @property
    def is_ready(self) -> bool:
        """Whether requests can be sent."""
        return self._connection is not None and self._connection.is_ready

    def result(self) -> tuple[CheckStep, ...]:
        """Return all steps in order, those that were not reached as skipped."""
        return tuple(self.steps.get(name) or _skipped(name, "not reached") for name in STEPS) + tuple(
            step for name, step in self.steps.items() if name not in STEPS
        )

    # ------------------------------------------------------------------ the driver's thread

    def start(self, now: float) -> None:
        """Resolve the name, then connect."""
        driver, network = self._cluster.driver, self._cluster.runtime.network
        host, port = self.host, self.port
        self._begin("dns", now)
        driver.add(self)
        driver.offload(lambda: network.resolve(host, port), self._on_resolved, Lane.NAMES)

    def poll(self, now: float) -> PollResult:
        """Fail what has timed out."""
        if self._stage == "dns" and now >= self._deadline:
            error = NoBrokersAvailable(f"DNS did not resolve {self.host!r} within {self._timeout:g} s")
            self._fail("dns", error, now, fix=fix_of_name(self.host, self.broker_id))
        connection = self._connection
        if connection is not None and now >= self._deadline and self._stage != "done":
            stage = "tls" if self._stage == "port" and self._is_tcp_connected else self._stage
            late = f"{self.name} did not {_WAITS[stage]} within {self._timeout:g} s"
            connection.fail(RequestTimeout(late), now)
        connection = self._connection
        if connection is not None:
            connection.poll(now)
        deadline = FOREVER if self._stage == "done" else self._deadline
        return PollResult.idle_until(
            min(deadline, FOREVER if connection is None else connection.next_deadline())
        )

    def request(
        self, request: Request[Any], on_response: OnResponse, on_failure: Callable[[KafkaError, float], None]
    ) -> None:
        """Send a request over the open connection."""
        now = self._cluster.driver.clock.monotonic()
        if self._connection is None:
            on_failure(Disconnected(f"{self.name} is not connected"), now)
            return
        self._connection.send(
            request, now, on_response=on_response, on_failure=on_failure, timeout=self._timeout
        )

    def give_up(self, limit: float, now: float) -> None:
        """Fail the current step, because all steps together exceeded their limit."""
        causes = [*self._unreachable, f"the check of {self.address} did not end within {limit:g} s"]
        fix = fix_of_port(self.address, self.broker_id) if self._stage == "port" else None
        self._fail(self._stage, RequestTimeout("; ".join(causes)), now, fix=fix)

    def close(self, now: float) -> None:
        """Close the connection. Idempotent."""
        self._cluster.driver.remove(self)
        if self._connection is not None:
            self._connection.close(now)
        self.done.succeed(None)

    # ------------------------------------------------------------------ steps

    def _on_resolved(self, outcome: Outcome[list[Endpoint]], now: float) -> None:
        if self._stage != "dns" or self.done.is_done:
            return  # it timed out
        if outcome.error is not None or not outcome.value:
            error = outcome.error
            if not isinstance(error, KafkaError):
                error = NoBrokersAvailable(f"DNS cannot resolve {self.host!r}: {error!r}")
            cause = str(error).removesuffix("; check bootstrap_servers")
            self._fail("dns", NoBrokersAvailable(cause), now, fix=fix_of_name(self.host, self.broker_id))
            return
        self._endpoints = list(outcome.value)
        self._pass("dns", ", ".join(endpoint.host for endpoint in self._endpoints), now)
        self._open(now)

    def _open(self, now: float) -> None:
        """Connect to the next address of the name."""
        self._begin("port", now)
        self._connect(
            self._endpoints[0],
            self._cluster.tls,
            self._shake_hands(),
            self._on_ready,
            self._on_closed,
            now,
            has_sasl=True,
        )

    def _connect(
        self,
        endpoint: Endpoint,
        tls: ReloadingTlsContext | TlsContext | None,
        script: Script[Agreement],
        on_ready: Callable[[float], None],
        on_closed: Callable[[KafkaError, float], None],
        now: float,
        *,
        has_sasl: bool = False,
    ) -> None:
        options, driver = self._cluster.options, self._cluster.driver
        self._observer = None if tls is None else Observer(tls)
        connection = self._connection = Connection(
            self.name,
            now,
            ConnectionOptions(
                client_id=options.client_id,
                request_timeout=SETUP_TIMEOUTS * self._timeout,
                setup_timeout=SETUP_TIMEOUTS * self._timeout,
                max_frame_bytes=options.max_frame_bytes,
                sasl=self._cluster.sasl if has_sasl else None,
                offload=self._offload,
            ),
            on_ready=on_ready,
            on_closed=on_closed,
            shake_hands=script,
        )
        connection.pipe = driver.open(
            endpoint,
            connection,
            options=SocketOptions(options.send_buffer_bytes, options.receive_buffer_bytes),
            tls=self._observer,
            server_name=endpoint.name or self.host,
        )
        driver.wake()

    def _offload(self, step: Offload, on_done: OnWorkDone) -> None:
        self._cluster.driver.offload(
            step.work, lambda outcome, now: on_done(outcome.value, outcome.error, now), step.lane
        )

    def _shake_hands(self) -> Script[Agreement]:
        """The handshake of any client, which notes each step."""
        clock = self._cluster.driver.clock
        self._pass_transport(clock.monotonic())
        self._begin("api_versions", clock.monotonic())
        versions = yield from negotiate(self.name, SOFTWARE_NAME, SOFTWARE_VERSION)
        versions.choose(MetadataRequest)
        self._pass("api_versions", shown_versions(versions), clock.monotonic())
        sasl = self._cluster.sasl
        if sasl is None:
            self._skip("sasl", "not configured")
            return Agreement(versions)
        self._begin("sasl", clock.monotonic())
        lifetime_ms = yield from authenticate(self.name, versions, sasl)
        session = f", for {lifetime_ms / 1000:g} s" if lifetime_ms else ""
        self._pass("sasl", f"{sasl.name} as {self._user()}{session}", clock.monotonic())
        return Agreement(versions, lifetime_ms)

    @property
    def _is_tcp_connected(self) -> bool:
        """Whether the current connection has TCP, but not yet TLS."""
        return self._observer is not None and self._observer.is_connected

    def _certificate(self) -> Certificate | None:
        return None if self._observer is None else self._observer.certificate()

    def _user(self) -> str:
        return repr(self._cluster.options.sasl_username) if self._cluster.options.sasl_username else "token"

    def _pass_transport(self, now: float) -> None:
        """Note that the port accepts connections and, with TLS, the certificate."""
        others = f" ({'; '.join(self._unreachable)})" if self._unreachable else ""
        self._pass("port", f"connected to {self._endpoints[0]}{others}", now)
        if self._cluster.tls is None:
            self._skip("tls", "not configured")
            return
        certificate = self._certificate()
        if certificate is None:
            self._pass("tls", "connected", now)
        elif certificate.not_after - self._today() < EXPIRES_SOON:
            self._note(
                CheckStep(
                    "tls",
                    CheckStatus.WARNING,
                    f"{shown_certificate(certificate)}; it expires soon",
                    "renew the certificate on the broker",
                    now - self._began,
                )
            )
        else:
            self._pass("tls", shown_certificate(certificate), now)

    def _on_ready(self, now: float) -> None:
        self._begin("metadata", now)
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        self.request(request, self._on_metadata, self._on_no_metadata)

    def _on_metadata(self, response: Any, now: float) -> None:
        self.metadata = response
        brokers = ", ".join(f"{one.node_id}={one.host}:{one.port}" for one in response.brokers)
        self._pass("metadata", f"{len(response.topics)} topics; brokers {brokers}", now)
        self._stage = "done"
        self.done.succeed(None)

    def _on_no_metadata(self, error: KafkaError, now: float) -> None:
        if not isinstance(error, Disconnected):  # else `_on_closed` follows
            self._fail("metadata", error, now)

    # ------------------------------------------------------------------ failures

    def _on_closed(self, error: KafkaError, now: float) -> None:
        if self.done.is_done:
            return
        if self._stage == "port" and self._is_tcp_connected:
            self._pass("port", f"connected to {self._endpoints[0]}", now)
            self._begin("tls", now)
        if self._stage == "port":
            self._unreachable.append(str(error))
            if len(self._endpoints) > 1:
                self._endpoints.pop(0)
                self._open(now)
                return
            self._fail(
                "port",
                Disconnected("; ".join(self._unreachable)),
                now,
                fix=fix_of_port(self.address, self.broker_id),
            )
        else:
            phase = self._phase()
            probe = None if phase is None else probe_after(error, phase)
            if probe is None:
                self._fail(self._stage, error, now)
            else:
                self._run(probe, error, now)

    def _phase(self) -> Phase | None:
        """Return the current step as a phase in which the wrong security protocol can end the connection."""
        if self._stage == "tls":
            return Phase.TLS_HANDSHAKE
        if self._stage == "api_versions" and self._cluster.tls is None:
            return Phase.PLAINTEXT_HANDSHAKE
        if self._stage == "metadata" and self._cluster.sasl is None:
            return Phase.UNAUTHENTICATED_REQUESTS
        return None

    def _run(self, probe: PortProbe, cause: KafkaError, now: float) -> None:
        """Find out with another connection why the one before was closed by `cause`."""
        stage = self._stage

        def on_closed(error: KafkaError, then: float) -> None:
            if isinstance(error, TlsSpoken):
                self._fail_with_certificate(stage, error, cause, then)
            elif isinstance(error, VERDICTS):
                self._fail("sasl" if isinstance(error, IllegalSaslState) else "tls", error, then)
            else:
                self._fail(stage, cause, then)

        self._begin(stage, now)
        tls: ReloadingTlsContext | TlsContext | None = None
        if probe.transport is not ProbeTransport.PLAINTEXT:
            is_same = probe.transport is ProbeTransport.SAME
            tls = self._cluster.tls if is_same else self._unverified()
        self._connect(self._endpoints[0], tls, probe.script(self.name), _ignore, on_closed, now)

    def _fail_with_certificate(self, stage: str, verdict: TlsSpoken, cause: KafkaError, now: float) -> None:
        """Explain a rejected certificate, or a port with TLS, with the certificate that was read."""
        certificate = self._certificate()
        if stage != "tls":
            shown = "" if certificate is None else f" ({shown_certificate(certificate)})"
            fix = "set security_protocol=SSL (SASL_SSL with SASL), or use the plaintext port"
            self._fail("tls", TlsError(f"{verdict}{shown}"), now, fix=fix)
        elif certificate is None:
            self._fail("tls", cause, now)
        else:
            trusted = self._cluster.options.ssl_cafile
            detail, fix = explained(certificate, cause, self.host, trusted, self._today())
            self._fail("tls", type(cause)(detail), now, fix=fix)

    def _unverified(self) -> TlsContext:
        from pykafka2.network.tls import TlsContext

        options = self._cluster.options
        return TlsContext(
            cert_file=options.ssl_certfile,
            key_file=options.ssl_keyfile,
            key_password=options.ssl_password,
            verify=False,
        )

    def _today(self) -> datetime:
        return datetime.fromtimestamp(self._cluster.driver.clock.wall_ms() / 1000, UTC)

    # ------------------------------------------------------------------ outcomes

    def _begin(self, stage: str, now: float) -> None:
        self._stage, self._began, self._deadline = stage, now, now + self._timeout

    def _pass(self, name: str, detail: str, now: float) -> None:
        self._note(CheckStep(name, CheckStatus.OK, detail, None, max(now - self._began, 0.0)))

    def _skip(self, name: str, why: str) -> None:
        self._note(_skipped(name, why))

    def _note(self, step: CheckStep) -> None:
        self.steps[step.name] = step

    def _fail(self, name: str, error: KafkaError, now: float, *, fix: str | None = None) -> None:
        """Note the failure, which ends the check of this address."""
        if self.done.is_done:
            return
        seconds = max(now - self._began, 0.0)
        advice = fix_of_step(name, error) if fix is None else fix
        self._note(CheckStep(name, CheckStatus.FAILED, str(error), advice, seconds))
        self._stage = "done"
        self.close(now)


def _skipped(name: str, why: str) -> CheckStep:
    return CheckStep(name, CheckStatus.SKIPPED, why)


_WAITS = {
    "port": "accept the connection",
    "tls": "finish the TLS handshake",
    "api_versions": "respond to ApiVersions",
    "sasl": "finish the authentication",
    "metadata": "respond to Metadata",
}


def _ignore(now: float) -> None:
    """Do nothing: connections for a diagnosis never become ready."""
