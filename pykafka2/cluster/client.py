"""The parts that producers, consumers and admin clients share: driver, metadata, connections, router.

Created on the caller's thread; after that the parts belong to the driver's thread. The blocking calls here
(`request`, `wait_for_topic`) communicate with it only through its command queue and wait queues. The
constructor opens no connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka2 import lifecycle
from pykafka2.backoff import Backoff
from pykafka2.cluster.arguments import checked_timeout, checked_topic
from pykafka2.cluster.coordinators import Coordinators
from pykafka2.cluster.link import NodeLink, Purpose
from pykafka2.cluster.metadata import NEVER, Metadata
from pykafka2.cluster.nodes import Nodes
from pykafka2.cluster.retrying_calls import RetryingCall, RetryingCalls
from pykafka2.cluster.router import Router
from pykafka2.cluster.snapshot import TopicSnapshot
from pykafka2.cluster.telemetry import MetricSource, Rows, Telemetry
from pykafka2.driver.completion import Completion
from pykafka2.driver.driver import Driver
from pykafka2.driver.pollable import AnyNode, Destination, Pollable, Send
from pykafka2.errors import (
    BrokerError,
    ClientClosed,
    ClientFailed,
    IllegalArgument,
    IllegalState,
    KafkaError,
    KafkaTimeoutError,
    MisroutedConnection,
    RequestTimeout,
)
from pykafka2.hooks import ClientInfo, Hooks
from pykafka2.interrupts import CancelOnError, run_all
from pykafka2.logs import ClientLogger, install_last_resort
from pykafka2.native import implementation
from pykafka2.network.handshake import FIRST_VERSION_WITH_EXPECTATION, LAST_VERSION_WITHOUT_EXPECTATION
from pykafka2.option_fields import NOT_AWAITED, is_async
from pykafka2.options import ClientOptions
from pykafka2.protocol.framing import decode_response, encode_request, encode_response, in_memory
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.telemetry import GetTelemetrySubscriptionsRequest
from pykafka2.protocol.primitives import ZERO_UUID, uuid_to_text
from pykafka2.protocol.struct import Request, Response
from pykafka2.types import ClientHealth, Metric, Node

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime
    from pykafka2.network.sasl.mechanism import SaslMechanism
    from pykafka2.network.tls import ReloadingTlsContext

R = TypeVar("R", bound=Response)


GRACE = 1.0
"""Seconds beyond its timeout that a caller waits for the driver to report it; only a stuck one needs them."""


CLOSE_TIMEOUT = 5.0

LAST_PUSH_TIMEOUT = 0.5
"""Seconds that `close` waits for the last push of metrics."""

NO_HOOKS = Hooks(())

PATIENCE = 2.0
"""Seconds that a call waits for a topic or partition before it logs a warning."""


class ClusterClient:
    """The connections of one client to one cluster. Thread-safe except `send` (driver's thread only).

    Args:
        options: the client's options; `default_api_timeout` bounds blocking calls without a timeout.
        name: names the client's thread, and the client in error messages.
        runtime: clock, network and threads; if None, the client creates a `ThreadRuntime` and closes it.
        owns_runtime: whether the client also closes a runtime that it has not created.

    Raises:
        ConfigurationError: a file named by a TLS option cannot be read.
    """

    def __init__(
        self,
        options: ClientOptions,
        *,
        name: str,
        runtime: Runtime | None = None,
        owns_runtime: bool = False,
    ) -> None:
        self.options = options
        self.name = name
        self.hooks = NO_HOOKS
        self.is_closed = False
        """Further calls raise ClientClosed."""
        self._has_ended = False
        self._telemetry: Telemetry | None = None
        self._log = ClientLogger(__name__, options.client_id)
        install_last_resort()
        lifecycle.load_for_io_thread(_load_protocol)
        self._tls = lifecycle.load_for_io_thread(lambda: _tls_context(options))
        if runtime is None:
            runtime, owns_runtime = lifecycle.load_for_io_thread(_thread_runtime), True
        self._own_runtime: Runtime | None = runtime if owns_runtime else None
        self.runtime = runtime
        of_client: Runtime = runtime
        self._sasl = lifecycle.load_for_io_thread(lambda: _sasl_mechanism(options, of_client))
        self.driver = driver = Driver(runtime, name)
        self.event_sink = driver.event_sink
        self.metrics = driver.metrics
        random = driver.entropy.random
        self.metadata = Metadata(options, random, self.event_sink, wake=driver.wake)
        self.nodes = Nodes(options, self.metadata, random, self._make_link)
        self.coordinators = Coordinators(
            options,
            random,
            self.event_sink,
            wake=driver.wake,
            on_found=self.nodes.hint,
            on_refused=lambda to, error, now: self.router.fail_waiting_for(to, error, now),
        )
        self.router = Router(options, self.metadata, self.nodes, self.coordinators)
        self.metrics.gauge("connection-count", lambda: self.nodes.connection_count)
        self.metrics.gauge("metadata-version", lambda: self.metadata.version)
        self.metadata.on_rebootstrap = lambda now: self.nodes.rebootstrap()
        driver.router = self.router
        self.calls = RetryingCalls(
            self.metadata,
            self.coordinators,
            timed_out=self._timed_out,
            wake=driver.wake,
        )
        # Any thread writes it, by single dict operations.
        self._single_attempts: dict[Completion[Any], None] = {}
        driver.on_failed(self._close_requests)
        self.add(self.metadata, self.coordinators)

    @property
    def tls(self) -> ReloadingTlsContext | None:
        """The TLS context of new connections; None without TLS. The driver's thread only."""
        return self._tls

    @property
    def sasl(self) -> SaslMechanism | None:
        """The SASL mechanism of new connections; None without SASL."""
        return self._sasl

    def start_hooks(self, hooks: Hooks, kind: str, metric_rows: Callable[[], list[Metric]]) -> None:
        """Call the hooks of this client's interceptors from now on.

        `kind` and `metric_rows` are those of `ClientInfo`.
        """
        options, metadata, monotonic = self.options, self.metadata, self.driver.clock.monotonic
        info = ClientInfo(
            kind,
            options.client_id,
            tuple(options.bootstrap_servers),
            getattr(options, "group_id", None),
            getattr(options, "transactional_id", None),
            lambda: metadata.snapshot.cluster_id,
            monotonic,
            metric_rows,
        )
        self.hooks = hooks
        hooks.start(info, monotonic, self.driver.interrupt, self.event_sink)

    def start_telemetry(
        self, rows: Callable[[], list[Metric]], labels: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        """Push these metrics to brokers that ask for them, unless enable_metrics_push is False."""
        if not self.options.enable_metrics_push:
            return
        driver, nodes = self.driver, self.nodes
        self._telemetry = Telemetry(
            MetricSource(rows, labels),
            lambda: nodes.supports(GetTelemetrySubscriptionsRequest),
            driver.entropy.random,
            driver.clock.wall_ns,
            self._log,
            driver.remove,
        )
        self.add(self._telemetry)

    # ------------------------------------------------------------------ managers

    def add(self, *managers: Pollable) -> None:
        """Poll these managers before the calls and the router (see `Driver.add`). Any thread."""

        def install(now: float) -> None:
            # Calls are polled after the managers: a commit queued before committed() is sent before it.
            # The router is polled last, so that timeouts of requests sent in a turn count in that turn.
            for last in (self.calls, self.router):
                self.driver.remove(last)
            for manager in (*managers, self.calls, self.router):
                self.driver.add(manager)

        self.driver.call_soon(install)

    def remove(self, *managers: Pollable) -> None:
        """Stop polling these managers. Any thread."""

        def take_out(now: float) -> None:
            for manager in managers:
                self.driver.remove(manager)

        self.driver.call_soon(take_out)

    def send(self, send: Send[Any]) -> None:
        """Route the request now. The driver's thread only."""
        self.router.route(send, self.driver.clock.monotonic())

    # ------------------------------------------------------------------ blocking calls, any thread

    def seconds_of(self, timeout: float | None) -> float:
        """Return the timeout in seconds, by default `default_api_timeout`; raise IllegalArgument."""
        seconds = checked_timeout(timeout, "default_api_timeout_ms")
        return self.options.default_api_timeout if seconds is None else seconds

    def request(
        self,
        request: Request[R],
        to: Destination | None = None,
        timeout: float | None = None,
        check: Callable[[R], KafkaError | None] | None = None,
        max_version: int | None = None,
        renewed: Callable[[], Request[R]] | None = None,
    ) -> R:
        """Send a request and return its response; retriable errors are retried with back-off.

        Args:
            request: the message; its version is negotiated with the node, up to `max_version` if set.
            to: the destination; any node by default.
            timeout: seconds for all attempts together; `default_api_timeout` by default.
            check: returns the error that a response reports, or None.
            renewed: creates the request of each attempt if they differ; called on the driver's thread.

        Raises:
            KafkaError: `check` returned this error, or the connection failed with it; not retriable.
            NoBrokersAvailable: no broker could be reached within the timeout; lists addresses and reasons.
            KafkaTimeoutError: no successful response within the timeout; names the last error.
            ClientClosed: the client was closed before or during the call.
        """
        timeout = self.seconds_of(timeout)
        completion = self.start(request, to, timeout, check, max_version, renewed)
        with CancelOnError(completion):
            self.driver.wait_until(
                lambda: completion.is_done or self.is_closed, timeout + GRACE, completion.waiters
            )
            if not completion.is_done:
                self._raise_if_closed()
                raise self._timed_out(type(request).__name__, timeout, None)
        return completion.result(0)

    def start(
        self,
        request: Request[R],
        to: Destination | None = None,
        timeout: float | None = None,
        check: Callable[[R], KafkaError | None] | None = None,
        max_version: int | None = None,
        renewed: Callable[[], Request[R]] | None = None,
    ) -> Completion[R]:
        """Start a `request` without waiting; the driver sends and retries it. Any thread.

        `check` is called on the driver's thread; the call fails with any exception it raises.

        Raises:
            ClientClosed, ClientFailed: the client was closed or has failed.
        """
        self._raise_if_closed()
        self.driver.raise_failure()
        timeout = self.seconds_of(timeout)
        completion: Completion[R] = Completion(self.driver, type(request).__name__)
        self.calls.start(
            RetryingCall(
                request,
                AnyNode() if to is None else to,
                check,
                max_version,
                timeout,
                self.driver.clock.monotonic() + timeout,
                self._new_backoff(),
                completion,
                renewed,
            )
        )
        return completion

    def start_once(
        self,
        request: Request[R],
        to: Destination,
        timeout: float,
        *,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> Completion[R]:
        """Start one attempt of a request, without retries: it fails with the first error. Any thread.

        It ends after `timeout`, or request_timeout_ms after it was sent. For calls that choose the
        destination again before they retry.
        """
        self._raise_if_closed()
        self.driver.raise_failure()
        completion: Completion[R] = Completion(self.driver, type(request).__name__)
        self._single_attempts[completion] = None
        completion.add_done_callback(lambda done: self._single_attempts.pop(completion, None))
        send = Send(
            request,
            to,
            lambda response, now: completion.succeed(response),
            lambda error, now: completion.fail(error),
            min_version=min_version,
            max_version=max_version,
        )

        def begin(now: float) -> None:
            send.deadline = now + timeout
            self.router.route(send, now)

        self.driver.call_soon(begin)
        return completion

    def client_instance_id(self, timeout: float | None = None) -> str:
        """Return the id that a broker gave this client for its metrics (KIP-714), in Kafka's text form.

        Raises:
            IllegalState: enable_metrics_push is False.
            UnsupportedVersion: the brokers do not receive metrics of clients.
            NoBrokersAvailable, KafkaTimeoutError: no broker responded within the timeout.
            ClientClosed: the client was closed before or during the call.
        """
        self._raise_if_closed()
        telemetry = self._telemetry
        if telemetry is None:
            raise IllegalState("client telemetry is off; set enable_metrics_push=True")
        timeout = self.seconds_of(timeout)
        self.driver.call_soon(telemetry.want_id)
        self.driver.wait_until(
            lambda: telemetry.client_instance_id != ZERO_UUID or telemetry.is_over or self.is_closed,
            timeout,
            telemetry.waiters,
        )
        if telemetry.client_instance_id != ZERO_UUID:
            return uuid_to_text(telemetry.client_instance_id)
        self._raise_if_closed()
        if telemetry.failure is not None:
            raise telemetry.failure.anew()
        raise self._timed_out("GetTelemetrySubscriptions", timeout, telemetry.last_error)

    def register_metrics(self, rows: Rows) -> None:
        """Push these metrics of the application with those of the client (KIP-1076). Any thread.

        Raises:
            IllegalArgument: `rows` is no plain function.
            ClientClosed: the client is closed.
        """
        self._raise_if_closed()
        if not callable(rows) or is_async(rows):
            why = NOT_AWAITED if is_async(rows) else "pass a function that returns metrics"
            raise IllegalArgument(f"rows={rows!r}: {why}")
        if self._telemetry is not None:
            self._telemetry.added[rows] = None

    def unregister_metrics(self, rows: Rows) -> None:
        """Push these metrics no more; does nothing if they are not registered. Any thread."""
        if self._telemetry is not None:
            self._telemetry.added.pop(rows, None)

    def health(self, *, is_closed: bool) -> ClientHealth:
        """Return the part of `health()` that all clients share; send nothing. Any thread."""
        metadata, nodes, now = self.metadata, self.nodes, self.driver.clock.monotonic()
        failure, error = self.driver.failure, metadata.last_error
        state = "closed" if is_closed else "open"
        return {
            "implementation": implementation,
            "state": state if failure is None else "failed",
            "failure": None if failure is None else repr(failure),
            "connected": nodes.has_connection,
            "unreachable": nodes.failing(now),
            "throttled": nodes.throttled(now),
            "metadata_version": metadata.version,
            "metadata_age": now - metadata.last_successful_refresh if metadata.version else None,
            "metadata_request_age": now - metadata.last_refresh if metadata.last_refresh > NEVER else None,
            "metadata_error": None if error is None else str(error),
        }

    def names_of_calls(self) -> list[str]:
        """Return the names of the requests that callers wait for. Any thread."""
        return [*self.calls.names(), *(completion.what for completion in tuple(self._single_attempts))]

    def pause(self, seconds: float) -> None:
        """Block the caller for so long. Raise ClientClosed if the client is closed meanwhile."""
        self.driver.wait_until(lambda: self.is_closed, seconds)
        self._raise_if_closed()

    def know_node(self, node: Node) -> None:
        """Keep the address of a broker that the metadata may not list yet. Any thread."""
        self.driver.call_soon(lambda now: self.nodes.hint(node))

    def wait_for_topic(self, topic: str, timeout: float | None = None) -> TopicSnapshot:
        """Return the topic's metadata; request it if it is unknown.

        Raises:
            UnknownTopicOrPartition: the topic was not created within the timeout.
            TopicAuthorizationFailed, InvalidTopicException, TlsError: raised at once, without waiting.
            NoBrokersAvailable: no broker could be reached; lists addresses and reasons.
            KafkaTimeoutError: no response within the timeout.
            ClientClosed: the client was closed before or during the call.
            TypeError: the topic is not a str.
        """
        self._raise_if_closed()
        checked_topic(topic)
        timeout = self.seconds_of(timeout)
        metadata = self.metadata
        metadata.want_topic(topic, self.driver.clock.monotonic())
        known = metadata.topic(topic)
        if known is not None and known.is_usable:
            return known
        version, failure = metadata.version, metadata.last_error
        if known is not None:
            metadata.request_update()

        def is_settled() -> bool:
            if self.is_closed or _is_final(metadata.last_error, unless=failure):
                return True
            latest = metadata.topic(topic)
            if latest is None or metadata.version == version:
                return False
            return latest.is_usable or _is_final(latest.error)

        patience = min(timeout, PATIENCE)
        if not self.driver.wait_until(is_settled, patience, metadata.waiters) and timeout > patience:
            self.warn_waiting(metadata.topic_error(topic), timeout - patience)
            self.driver.wait_until(is_settled, timeout - patience, metadata.waiters)
        self._raise_if_closed()
        latest = metadata.topic(topic)
        if latest is not None and latest.is_usable:
            return latest
        raise self.topic_failure(topic, timeout, failure)

    def warn_waiting(self, reason: KafkaError | None, left: float) -> None:
        """Log why a call still waits if the reason is known, for example a misspelt topic."""
        if reason is not None:
            self._log.warning("%s; waiting for at most %.0f s more", reason, left)

    def wait_for_metadata(self, newer_than: int, timeout: float | None = None) -> bool:
        """Request an update and wait for one newer than that version; return False on timeout."""
        self._raise_if_closed()
        timeout = self.seconds_of(timeout)
        self.metadata.request_update()
        metadata = self.metadata
        return self.driver.wait_until(
            lambda: metadata.version > newer_than or self.is_closed, timeout, metadata.waiters
        )

    def bootstrap(self, timeout: float) -> None:
        """Request metadata and wait for it.

        Raises:
            NoBrokersAvailable, TlsError: no broker could be reached; lists addresses and reasons.
            KafkaTimeoutError: no response within the timeout.
        """
        metadata = self.metadata
        version, failure = metadata.version, metadata.last_error

        def is_settled() -> bool:
            return metadata.version > version or _is_final(metadata.last_error, unless=failure)

        self._raise_if_closed()
        metadata.request_update()
        self.driver.wait_until(is_settled, timeout, metadata.waiters)
        if metadata.version == version:
            raise self._no_metadata(f"no metadata within {timeout:g} s", timeout, failure)

    def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Fail the requests in flight, stop the loop, close the connections; return False on timeout.

        Can be called again, also after Ctrl-C interrupted it. Calls that wait in other threads raise
        ClientClosed. With a timeout of 0 it does not wait, and the loop stops soon after (a finaliser must
        not block).
        """
        if self._has_ended:
            return True
        self.is_closed = True
        error = ClientClosed(f"{self.name} was closed")
        if timeout <= 0 and self.driver.failure is None and not self.driver.is_own_thread():
            self._has_ended = True
            if not self.driver.is_closed:
                self.driver.call_soon(lambda now: self._close_on_driver(error, now))
            return False
        deadline = self.driver.clock.monotonic() + timeout
        self._push_for_the_last_time(timeout)
        if self.driver.is_own_thread():
            self._close_requests(error, self.driver.clock.monotonic())
        elif self.driver.failure is None and not self.driver.is_closed:
            closed: Completion[None] = Completion(self.driver, "close")

            def close_requests(now: float) -> None:
                self._close_requests(error, now)
                closed.succeed(None)

            with suppress(ClientFailed, ClientClosed):  # it failed meanwhile, and so did the requests
                self.driver.call_soon(close_requests)
            self.runtime.wait_until(
                lambda: closed.is_done or self.driver.failure is not None, timeout, closed.waiters
            )
        stopped = self.driver.close(max(0.0, deadline - self.driver.clock.monotonic()))
        if self._own_runtime is not None:
            self._own_runtime.close()
        self._has_ended = True
        return stopped

    def discard(self) -> None:
        """Close a client whose owner could not be created. On an event loop, does not wait for the end."""
        self.close(0.0 if self.runtime.is_in_a_loop() else CLOSE_TIMEOUT)

    # ------------------------------------------------------------------ inside

    def _close_on_driver(self, error: ClientClosed, now: float) -> None:
        """Close the client on the driver's own thread."""
        self._close_requests(error, now)
        self.driver.close()
        if self._own_runtime is not None:
            self._own_runtime.close()

    def _push_for_the_last_time(self, timeout: float) -> None:
        """Push the metrics before the end, if a broker asks for them; wait briefly for its response."""
        telemetry, driver = self._telemetry, self.driver
        if telemetry is None or not telemetry.is_active or driver.is_own_thread():
            return
        with suppress(ClientFailed, ClientClosed):
            driver.call_soon(telemetry.terminate)
            self.runtime.wait_until(
                lambda: telemetry.is_over or driver.failure is not None,
                min(timeout, LAST_PUSH_TIMEOUT),
                telemetry.waiters,
            )

    def _close_requests(self, error: ClientClosed | ClientFailed, now: float) -> None:
        """Fail all requests that are waiting or in flight."""
        run_all([partial(self.router.close, error, now), partial(self.calls.close, error, now)])

    def _make_link(self, node: Node, purpose: Purpose) -> NodeLink:
        return NodeLink(
            node,
            purpose,
            self.options,
            self.driver,
            self._tls,
            self._sasl,
            cluster_id=lambda: self.metadata.snapshot.cluster_id,
            on_lost=self._on_lost,
        )

    def _on_lost(self, link: NodeLink, error: KafkaError) -> None:
        """Refresh metadata and coordinators after a lost connection; both can be out of date."""
        is_misrouted = isinstance(error, MisroutedConnection)
        if link.purpose is Purpose.COORDINATOR or is_misrouted:
            self.coordinators.forget_node(link.node.id)
        if is_misrouted:
            self.nodes.forget_address(link.node)
            self.nodes.rebootstrap()
            self.metadata.request_update(error)
        elif self.metadata.snapshot.nodes:
            self.metadata.request_update(error)

    def _new_backoff(self) -> Backoff:
        options = self.options
        return Backoff(options.retry_backoff, options.retry_backoff_max, self.driver.entropy.random)

    def _raise_if_closed(self) -> None:
        if self.is_closed:
            raise ClientClosed(f"{self.name} is closed; create a new client")

    def _is_reached(self, last_error: KafkaError | None) -> bool:
        """Return whether a call that timed out has reached a broker.

        A broker that did not respond counts: its connection closes when the request times out, which can be
        just before the call does.
        """
        return self.nodes.has_connection or isinstance(last_error, RequestTimeout | BrokerError)

    def _timed_out(self, what: str, timeout: float, last_error: KafkaError | None) -> KafkaError:
        if not self._is_reached(last_error):
            return self.nodes.unreachable(f"within {timeout:g} s ")
        reason = f"; the last attempt failed: {last_error}" if last_error is not None else ""
        error = KafkaTimeoutError(f"{what} got no successful response within {timeout:g} s{reason}")
        error.__cause__ = last_error
        return error

    def topic_failure(self, topic: str, timeout: float, known_before: KafkaError | None = None) -> KafkaError:
        """Return the error for a topic without usable metadata after `timeout` seconds. Any thread."""
        error = self.metadata.topic_error(topic)
        if error is not None:
            return type(error)(f"{error} (after {timeout:.3g} s)") if error.retriable else error
        return self._no_metadata(
            f"no metadata for topic {topic!r} within {timeout:g} s", timeout, known_before
        )

    def _no_metadata(self, what: str, timeout: float, known_before: KafkaError | None) -> KafkaError:
        last_error = self.metadata.last_error
        if last_error is not None and _is_final(last_error, unless=known_before):
            return last_error.anew()
        if not self._is_reached(last_error):
            return self.nodes.unreachable(f"within {timeout:g} s ")
        reason = f": {last_error}" if isinstance(last_error, KafkaError) else ""
        where = ",".join(f"{host}:{port}" for host, port in self.options.bootstrap_servers)
        error = KafkaTimeoutError(
            f"{what} from {where}{reason}; check whether the brokers are overloaded or the timeout too short"
        )
        error.__cause__ = last_error
        return error


def _is_final(error: KafkaError | None, unless: KafkaError | None = None) -> bool:
    """Return True for a new error that waiting cannot cure."""
    return error is not None and error is not unless and not error.retriable


def _thread_runtime() -> Runtime:
    from pykafka2.driver.thread_driver import ThreadRuntime

    return ThreadRuntime()


def _load_protocol() -> None:
    """Import the codecs, which otherwise load with the first message."""
    request = ApiVersionsRequest(client_software_name="", client_software_version="")
    for version in (LAST_VERSION_WITHOUT_EXPECTATION, FIRST_VERSION_WITH_EXPECTATION):
        encode_request(request, version, 0, None)
    answer = b"".join(in_memory(encode_response(ApiVersionsResponse(api_keys=[]), 0, 0)))
    decode_response(answer[4:], ApiVersionsRequest, 0)


def _tls_context(options: ClientOptions) -> ReloadingTlsContext | None:
    if not options.uses_tls:
        return None
    from pykafka2.network.tls import ReloadingTlsContext

    return ReloadingTlsContext(options)


def _sasl_mechanism(options: ClientOptions, runtime: Runtime) -> SaslMechanism | None:
    if not options.uses_sasl:
        return None
    from pykafka2.network.sasl.chosen import sasl_mechanism

    return sasl_mechanism(options, options.client_id, runtime.clock, runtime.entropy, runtime.wait_until)
