"""The parts that the interceptors of all clients share: tracer, instruments, hooks, context in headers.

Names of spans, attributes and metrics are those of OpenTelemetry's semantic conventions for messaging and
Kafka, version 1.44. They are written out here, since its Python constants are not public.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs
from opentelemetry import context, metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.metrics import MeterProvider
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from pykafka2 import ClientInfo
from pykafka2.clock import SystemClock
from pykafka2.errors import IllegalState
from pykafka2.types import GivenHeaders, Headers
from pykafka2.version import __version__

logger = logging.getLogger(__name__)

SCOPE: Final = "pykafka2.contrib.opentelemetry"
"""The name of the instrumentation."""
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
TOPIC: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
GROUP: Final = "messaging.consumer.group.name"
CLIENT_ID: Final = "messaging.client.id"
CLUSTER_ID: Final = "messaging.kafka.cluster.id"
KEY: Final = "messaging.kafka.message.key"
OFFSET: Final = "messaging.kafka.offset"
TOMBSTONE: Final = "messaging.kafka.message.tombstone"
BODY_SIZE: Final = "messaging.message.body.size"
COUNT: Final = "messaging.batch.message_count"
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

TYPES: Final = {"send": "send", "poll": "receive", "process": "process", "commit": "settle"}
"""The operations: their names, which are those of the client's methods, and their types."""

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The conventions' bounds of durations, in seconds."""

MAX_LINKS: Final = 128
"""Links of one span; also the SDK's default limit."""

SpanHook = Callable[[Span, Any], object]
"""Called with a span that was started, and what it is for."""

Attributes = dict[str, str | int | bool]

wall_ns: Final = SystemClock.wall_ns
"""The clock of spans; also in the simulation, as other spans of the process have it."""


class Telemetry:
    """Tracer, instruments and hooks of the application, for any number of clients. Thread-safe.

    Hooks are called on the thread, or the event loop, of the call, before the span ends. Their exceptions
    are logged.

    Args:
        tracer_provider: for the spans; None is the global one.
        meter_provider: for the metrics; None is the global one.
        send_hook: called as send_hook(span, record) with the `ProducerRecord` of a `send`, or with the
            `BulkRecords` of a `send_many`.
        receive_hook: called as receive_hook(span, records) with the records of a poll by partition, or with
            the `Columns` of a partition.
        process_hook: called as process_hook(span, record) with a `ConsumerRecord` before it is processed.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        send_hook: SpanHook | None = None,
        receive_hook: SpanHook | None = None,
        process_hook: SpanHook | None = None,
    ) -> None:
        self.tracer = trace.get_tracer(SCOPE, __version__, tracer_provider, SCHEMA_URL)
        self.meter = meter = metrics.get_meter(SCOPE, __version__, meter_provider, SCHEMA_URL)
        self.send_hook, self.receive_hook, self.process_hook = send_hook, receive_hook, process_hook
        self.is_on = True
        """False after `uninstrument`: clients that exist keep their interceptors, which then do nothing."""
        self.sent = meter.create_counter(
            "messaging.client.sent.messages",
            "{message}",
            "Number of messages producer attempted to send to the broker.",
        )
        self.consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            "{message}",
            "Number of messages that were delivered to the application.",
        )
        self.operation_duration = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self.process_duration = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of processing operation.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )

    @property
    def is_active(self) -> bool:
        """Whether to record the current operation: not inside `suppress_instrumentation()`."""
        return self.is_on and is_instrumentation_enabled()


class Operations:
    """Starts and ends the spans of one client, and fills its metrics."""

    def __init__(self, telemetry: Telemetry, client: ClientInfo) -> None:
        self.telemetry = telemetry
        self.client = client
        shared: Attributes = {SYSTEM: "kafka"}
        if client.bootstrap_servers:
            shared[SERVER_ADDRESS], shared[SERVER_PORT] = client.bootstrap_servers[0]
        if client.group_id is not None:
            shared[GROUP] = client.group_id
        self._of_metrics = {
            name: {**shared, OPERATION_NAME: name, OPERATION_TYPE: kind} for name, kind in TYPES.items()
        }
        if client.client_id is not None:
            shared[CLIENT_ID] = client.client_id
        self._of_spans: dict[str, Attributes] = {
            name: {**shared, OPERATION_NAME: name, OPERATION_TYPE: kind} for name, kind in TYPES.items()
        }

    def start(
        self,
        operation: str,
        topic: str | None,
        kind: SpanKind,
        attributes: Attributes,
        *,
        parent: Context | None = None,
        links: Iterable[trace.SpanContext] = (),
        seconds_ago: float | None = None,
    ) -> Span:
        """Start a span; it is not made the current one."""
        attributes = {**self._of_spans[operation], **attributes}
        if topic is not None:
            attributes[TOPIC] = topic
        cluster_id = self.client.cluster_id
        if cluster_id is not None:
            attributes[CLUSTER_ID] = cluster_id
        return self.telemetry.tracer.start_span(
            operation if topic is None else f"{operation} {topic}",
            parent,
            kind,
            attributes,
            [Link(one) for one in links],
            None if seconds_ago is None else wall_ns() - int(seconds_ago * 1e9),
        )

    def end(self, span: Span, error: BaseException | None, at_ns: int | None = None) -> None:
        """End a span, as failed if there is an error."""
        if error is not None and span.is_recording():
            span.set_attribute(ERROR_TYPE, error_type(error))
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end(at_ns)

    def metric_attributes(
        self, operation: str, topic: str | None, partition: int | None, error: BaseException | None
    ) -> Attributes:
        """Return the attributes of a measurement."""
        attributes: Attributes = {**self._of_metrics[operation]}
        if topic is not None:
            attributes[TOPIC] = topic
        if partition is not None:
            attributes[PARTITION] = str(partition)
        if error is not None:
            attributes[ERROR_TYPE] = error_type(error)
        return attributes


class Tracing:
    """The base of the interceptors; each belongs to one client."""

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self.telemetry = Telemetry() if telemetry is None else telemetry
        self._operations: Operations | None = None

    @property
    def operations(self) -> Operations:
        """Those of its client, which calls `on_start` before the other hooks."""
        if self._operations is None:
            raise IllegalState(f"this {type(self).__name__} was not given to a client")
        return self._operations

    @property
    def client(self) -> ClientInfo | None:
        """The client it belongs to; None before it was given to one."""
        return None if self._operations is None else self._operations.client

    def on_start(self, client: ClientInfo) -> None:
        if self._operations is not None:
            raise IllegalState(
                f"this {type(self).__name__} belongs to client {self._operations.client.client_id!r}, whose "
                "name the spans of the other client will have. Create one for each client."
            )
        self._operations = Operations(self.telemetry, client)


def run_hook(hook: SpanHook | None, span: Span, subject: object) -> None:
    """Call a hook of the application; log its exception."""
    if hook is not None:
        try:
            hook(span, subject)
        except Exception:
            logger.exception("hook %r for OpenTelemetry spans failed", hook)


def error_type(error: BaseException) -> str:
    """Return the value of `error.type`."""
    return type(error).__name__


def text_of(key: object) -> str | None:
    """Return a record's key as an attribute; None if it has no unambiguous text."""
    if isinstance(key, bytes | bytearray | memoryview):
        try:
            return bytes(key).decode()
        except UnicodeDecodeError:
            return None
    return str(key) if isinstance(key, str | int) else None


# ---------------------------------------------------------------------- context in headers


@attrs.frozen
class HeaderGetter(Getter[GivenHeaders]):
    """Reads the fields of a propagator from headers."""

    def get(self, carrier: GivenHeaders, key: str) -> list[str] | None:
        values = [bytes(value) for name, value in carrier if name == key and value is not None]
        return [value.decode("utf-8", "replace") for value in values] or None

    def keys(self, carrier: GivenHeaders) -> list[str]:
        return [name for name, _ in carrier]


@attrs.frozen
class HeaderSetter(Setter[Headers]):
    """Appends the fields of a propagator to headers, unless they are there."""

    present: frozenset[str]

    def set(self, carrier: Headers, key: str, value: str) -> None:
        if key not in self.present:
            carrier.append((key, value.encode()))


_GETTER = HeaderGetter()


def extracted(headers: GivenHeaders, into: Context) -> Context:
    """Return `into` with the trace, baggage and other fields of the global propagator that headers have."""
    if not headers:
        return into
    try:
        return propagate.extract(headers, into, _GETTER)
    except Exception as error:  # some propagators raise if another program wrote nonsense into a header
        logger.debug("the propagator cannot read the headers of a record: %r", error)
        return into


def span_context(headers: GivenHeaders) -> trace.SpanContext | None:
    """Return the context of the span that headers name; None if there is none."""
    if not headers:
        return None
    found = trace.get_current_span(extracted(headers, Context())).get_span_context()
    return found if found.is_valid else None


def injected(span: Span, present: frozenset[str]) -> Headers:
    """Return the headers to add to those with these names, so that a consumer continues the span's trace."""
    added: Headers = []
    propagate.inject(added, trace.set_span_in_context(span, context.get_current()), HeaderSetter(present))
    return added
