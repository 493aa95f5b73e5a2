"""Client telemetry (KIP-714): pushes the client's metrics to brokers that ask for them.

A broker names the metrics, the interval and the compressions in a subscription; the client pushes to the same
broker until the subscription changes. Clients of brokers without these APIs send nothing. Owned by the
driver's thread; `client_instance_id`, `is_active` and `is_over` can be read on any thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, auto
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from pykafka2 import lifecycle
from pykafka2.driver.pollable import NOTHING, AnyNode, PollResult, Send, ToNode
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import (
    BrokerError,
    CodecUnavailable,
    CorruptResponse,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
    UnsupportedVersion,
    error_of,
)
from pykafka2.logs import ClientLogger
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.slotted import slotted
from pykafka2.types import Metric, MetricKind

if TYPE_CHECKING:
    from pykafka2.otlp import MetricPoint
    from pykafka2.protocol.messages.telemetry import (
        GetTelemetrySubscriptionsResponse,
        PushTelemetryResponse,
    )

DEFAULT_INTERVAL = 300.0
"""Seconds between two requests without a valid interval from a broker."""

SHORTEST_INTERVAL = 0.1
"""Seconds between two requests at least, as in Kafka; a shorter interval from a broker is a bug of it."""

FIRST_PUSH = (0.5, 1.5)
"""The first push waits for a random share of the interval, so that clients do not push together."""

ALL_METRICS = "*"
KAFKA, OWN = "org.apache.kafka", "pykafka2"
"""Prefixes of the names: of metrics that Apache Kafka has, and of others."""

AT_ONCE = (UnknownSubscriptionId, UnsupportedCompressionType)
LATER = (TelemetryTooLarge, ThrottlingQuotaExceeded)
"""Errors of a push after which the client subscribes again, and when; any other ends telemetry."""


class State(Enum):
    """The next step, or the response that is awaited; the names are those of KIP-714."""

    SUBSCRIPTION_NEEDED = auto()
    SUBSCRIPTION_IN_PROGRESS = auto()
    PUSH_NEEDED = auto()
    PUSH_IN_PROGRESS = auto()
    TERMINATING_PUSH_NEEDED = auto()
    TERMINATING_PUSH_IN_PROGRESS = auto()
    TERMINATED = auto()


NEEDED = (State.SUBSCRIPTION_NEEDED, State.PUSH_NEEDED, State.TERMINATING_PUSH_NEEDED)
ACTIVE = (State.PUSH_NEEDED, State.PUSH_IN_PROGRESS)


Rows = Callable[[], Iterable[Metric]]
"""A function that returns metrics with their current values."""


@slotted(frozen=True)
class MetricSource:
    """The metrics of one client, and its attributes, such as `group_id`; called before each push."""

    rows: Rows
    labels: Callable[[], Mapping[str, str]]


@slotted(frozen=True)
class Subscription:
    """A broker's request for metrics."""

    id: int
    interval: float
    codecs: tuple[int, ...]
    is_delta: bool
    prefixes: tuple[str, ...]
    max_bytes: int

    @property
    def has_all(self) -> bool:
        return self.prefixes == (ALL_METRICS,)


class Telemetry:
    """Subscribes and pushes (a `Pollable`).

    Args:
        source: the client's metrics.
        supported: returns whether a connected broker has these APIs; None without a connection.
        random: chooses the time of the first push.
        wall_ns: the time in nanoseconds since the epoch, for the values.
        logger: the client's logger.
        on_end: called on the driver's thread when there is nothing to do any more.

    Attributes:
        waiters: those who wait for the client instance id or the last push.
        added: the application's functions that return metrics (KIP-1076). Any thread adds and removes them.
    """

    def __init__(
        self,
        source: MetricSource,
        supported: Callable[[], bool | None],
        random: random.Random,
        wall_ns: Callable[[], int],
        logger: ClientLogger,
        on_end: Callable[[Telemetry], None],
    ) -> None:
        self.waiters = WaitQueue()
        self.added: dict[Rows, None] = {}
        self.client_instance_id = ZERO_UUID
        self.failure: KafkaError | None = None
        """Why telemetry has ended before the client."""
        self.last_error: KafkaError | None = None
        """Why the last request had no response; None after a response."""
        self._source = source
        self._supported = supported
        self._random = random
        self._logger = logger
        self._on_end = on_end
        self._ledger = Ledger(wall_ns)
        self._state = State.SUBSCRIPTION_NEEDED
        self._subscription: Subscription | None = None
        self._due = 0.0
        self._is_wanted = False
        self._has_warned_of_size = False
        self._failing: set[Rows] = set()
        """Functions of the application whose failure was logged."""
        self._node: int | None = None
        self._unusable_codecs: set[int] = set()

    @property
    def is_active(self) -> bool:
        """Whether a broker asks for metrics, so that `terminate` has something to push."""
        return self._state in ACTIVE

    @property
    def is_over(self) -> bool:
        return self._state is State.TERMINATED

    def want_id(self, now: float) -> None:
        """Subscribe now, even if that opens the first connection."""
        self._is_wanted = True
        if self._subscription is None:  # after a failure, the next attempt can be minutes away
            self._due = now

    def terminate(self, now: float) -> None:
        """Push for the last time, if a broker asks for metrics; then `is_over`."""
        if self._state is State.PUSH_IN_PROGRESS:
            self._ledger.commit()  # its response is not awaited, and it has probably arrived
        if self.is_active:
            self._state = State.TERMINATING_PUSH_NEEDED
        else:
            self._end()

    def poll(self, now: float) -> PollResult:
        state = self._state
        if state not in NEEDED:
            return NOTHING
        if state is State.TERMINATING_PUSH_NEEDED:
            return self._push(now)
        if now < self._due:
            return PollResult.idle_until(self._due)
        if state is State.PUSH_NEEDED:
            return self._push(now)
        if not self._is_wanted:
            supported = self._supported()
            if supported is None:
                return NOTHING  # polled again with any event of a connection
            if not supported:
                self._end(UnsupportedVersion("the brokers do not receive metrics of clients"))
                return NOTHING
        return self._subscribe()

    # ------------------------------------------------------------------ requests

    def _subscribe(self) -> PollResult:
        with lifecycle.loading:
            from pykafka2.protocol.messages.telemetry import GetTelemetrySubscriptionsRequest

        self._state = State.SUBSCRIPTION_IN_PROGRESS
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self.client_instance_id)
        send = Send(request, self._destination(), lambda response, now: None, self._on_failure)
        send.on_response = lambda response, now: self._on_subscription(response, send.sent_to, now)
        return PollResult([send])

    def _on_subscription(
        self, response: GetTelemetrySubscriptionsResponse, node: int | None, now: float
    ) -> None:
        if self._state is not State.SUBSCRIPTION_IN_PROGRESS:
            return
        self.last_error = None
        if response.error_code:
            self._on_error(response.error_code, now, at_once=())
            return
        instance_id = bytes(response.client_instance_id)
        if instance_id == ZERO_UUID:
            self._end(CorruptResponse("GetTelemetrySubscriptions: the broker gave no client instance id"))
            return
        self._node = node
        self.client_instance_id = instance_id
        interval = response.push_interval_ms / 1000 if response.push_interval_ms > 0 else DEFAULT_INTERVAL
        interval = max(interval, SHORTEST_INTERVAL)
        before = self._subscription
        new = self._subscription = Subscription(
            response.subscription_id,
            interval,
            tuple(response.accepted_compression_types),
            response.delta_temporality,
            tuple(response.requested_metrics),
            response.telemetry_max_bytes,
        )
        if before is not None and before.is_delta != new.is_delta:
            self._ledger.reset()
        if new.prefixes:
            self._state = State.PUSH_NEEDED
            self._due = now + interval * self._random.uniform(*FIRST_PUSH)
        else:
            self._state = State.SUBSCRIPTION_NEEDED
            self._due = now + interval
        self._logger.debug("client telemetry: a broker asks for %s every %g s", new.prefixes, interval)
        self.waiters.wake()

    def _push(self, now: float) -> PollResult:
        with lifecycle.loading:
            from pykafka2.protocol.messages.telemetry import PushTelemetryRequest

        subscription = self._subscription
        is_last = self._state is State.TERMINATING_PUSH_NEEDED
        if subscription is None:
            self._end()
            return NOTHING
        self._state = State.TERMINATING_PUSH_IN_PROGRESS if is_last else State.PUSH_IN_PROGRESS
        codec_id, metrics = self._payload(subscription)
        request = PushTelemetryRequest(
            client_instance_id=self.client_instance_id,
            subscription_id=subscription.id,
            terminating=is_last,
            compression_type=codec_id,
            metrics=metrics,
        )
        on_failure = self._on_last_failure if is_last else self._on_failure
        return PollResult([Send(request, self._destination(), partial(self._on_pushed, is_last), on_failure)])

    def _on_pushed(self, is_last: bool, response: PushTelemetryResponse, now: float) -> None:
        if is_last:
            self._end()
        elif self._state is not State.PUSH_IN_PROGRESS:
            return  # the client closes meanwhile
        elif response.error_code:
            self._on_error(response.error_code, now)
        else:
            self._ledger.commit()
            self._state = State.PUSH_NEEDED
            self._due = now + self._interval()

    def _on_error(self, code: int, now: float, at_once: tuple[type[KafkaError], ...] = AT_ONCE) -> None:
        """Subscribe again after a broker's error, or never, if trying again cannot help."""
        error = error_of(code)
        if isinstance(error, at_once):
            self._subscribe_at(now)
        elif isinstance(error, (*AT_ONCE, *LATER)):
            self._subscribe_at(now + self._interval())
        else:
            self._end(error)

    def _on_last_failure(self, error: KafkaError, now: float) -> None:
        self._end()

    def _on_failure(self, error: KafkaError, now: float) -> None:
        """Handle a request without a response; what was pushed can have arrived, so it is not repeated."""
        self._node = None
        self.last_error = error
        if self._state not in (State.SUBSCRIPTION_IN_PROGRESS, State.PUSH_IN_PROGRESS):
            return  # the client closes meanwhile
        if error.retriable:
            self._ledger.commit()
            self._subscribe_at(now + self._interval())
        else:
            self._end(error)

    # ------------------------------------------------------------------ inside

    def _subscribe_at(self, when: float) -> None:
        self._state = State.SUBSCRIPTION_NEEDED
        self._due = when

    def _end(self, failure: KafkaError | None = None) -> None:
        if self._state is State.TERMINATED:
            return
        self._state = State.TERMINATED
        self.failure = failure
        if isinstance(failure, BrokerError | CorruptResponse) and not isinstance(failure, UnsupportedVersion):
            self._logger.warning("Client telemetry stopped because of a broker's response: %s", failure)
        self._on_end(self)
        self.waiters.wake()

    def _interval(self) -> float:
        return DEFAULT_INTERVAL if self._subscription is None else self._subscription.interval

    def _destination(self) -> AnyNode | ToNode:
        """Return the broker of the subscription, or any after a failure."""
        return AnyNode() if self._node is None else ToNode(self._node)

    def _payload(self, subscription: Subscription) -> tuple[int, bytes]:
        """Return the codec and the metrics, reduced to those with fewer tags if they are too large."""
        with lifecycle.loading:
            from pykafka2.otlp import encode_metrics

        points = self._points(subscription)
        labels = self._source.labels()
        data = encode_metrics(points, labels)
        tags = max([len(point.attributes) for point in points], default=0)
        while len(data) > subscription.max_bytes > 0 and points:
            points = [point for point in points if len(point.attributes) < tags]
            tags -= 1
            data = encode_metrics(points, labels)
            if not self._has_warned_of_size:
                self._has_warned_of_size = True
                self._logger.warning(
                    "Client telemetry: the metrics exceed telemetry.max.bytes=%d; those of single "
                    "partitions, topics or brokers are left out",
                    subscription.max_bytes,
                )
        self._ledger.stage(points)
        return self._compressed(data, subscription.codecs)

    def _points(self, subscription: Subscription) -> list[MetricPoint]:
        with lifecycle.loading:
            from pykafka2.metric_table import OWN_NAMES

        rows = [
            (telemetry_name(row, OWN if (row.group, row.name) in OWN_NAMES else KAFKA), row)
            for row in self._source.rows()
        ]
        own_names = {name for name, _ in rows}
        rows += [(name, row) for name, row in self._added_rows() if name not in own_names]
        if not subscription.has_all:
            rows = [(name, row) for name, row in rows if name.startswith(subscription.prefixes)]
        rows.sort(key=itemgetter(0))  # an OTLP message has each name once
        return self._ledger.points(rows, is_delta=subscription.is_delta)

    def _added_rows(self) -> Iterator[tuple[str, Metric]]:
        """Return the application's metrics. A function that fails is logged once, and pushes nothing."""
        for function in [*self.added]:
            try:
                rows = [_checked(row) for row in function()]
            except Exception:
                if function not in self._failing:
                    self._failing.add(function)
                    self._logger.exception("Client telemetry: metrics of %r are not pushed", function)
                continue
            yield from ((telemetry_name(row, KAFKA), row) for row in rows)

    def _compressed(self, data: bytes, codecs: Iterable[int]) -> tuple[int, bytes]:
        """Compress by the first codec that is accepted and installed."""
        with lifecycle.loading:
            from pykafka2.compression.codec import codec

        for codec_id in codecs:
            if codec_id not in self._unusable_codecs:
                try:
                    return codec_id, codec(codec_id).compress(data)
                except (CodecUnavailable, UnsupportedCompressionType) as error:
                    self._unusable_codecs.add(codec_id)
                    self._logger.debug("client telemetry: codec %d is not used: %s", codec_id, error)
        return 0, data


class Ledger:
    """The totals of the last push, from which the next one's deltas count."""

    def __init__(self, wall_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self._created_ns = wall_ns()
        self._last: dict[object, tuple[float, int]] = {}
        """Total and time by name and tags."""
        self._staged: dict[object, tuple[float, int]] = {}
        self._totals: dict[object, float] = {}

    def points(self, rows: Iterable[tuple[str, Metric]], *, is_delta: bool) -> list[MetricPoint]:
        """Return a value for each row; totals are sums, all others gauges without those not measured yet."""
        with lifecycle.loading:
            from pykafka2.otlp import MetricPoint

        now_ns = self._wall_ns()
        points = []
        self._totals = {}
        for name, row in rows:
            value, kind, started_ns = row.value, "gauge", 0
            if value != value:
                continue
            tags = {tag.replace("-", "_"): text for tag, text in row.tags.items() if tag != "client-id"}
            if row.kind is MetricKind.COUNTER:
                key = (name, *tags.items())
                self._totals[key] = value
                kind, started_ns = "sum", self._created_ns
                if is_delta:
                    before, started_ns = self._last.get(key, (0, started_ns))
                    # A total that fell has started again from 0.
                    value -= before if before <= value else 0
            is_sum = kind == "sum"
            points.append(
                MetricPoint(name, value, tags, kind, is_sum and is_delta, started_ns, now_ns, row.unit)
            )
        return points

    def stage(self, points: Iterable[MetricPoint]) -> None:
        """Remember the totals of what is pushed now, until the broker has accepted it."""
        self._staged = {}
        for point in points:
            key = (point.name, *point.attributes.items())
            if key in self._totals:
                self._staged[key] = (self._totals[key], point.time_ns)

    def commit(self) -> None:
        """Count from what was staged."""
        self._last.update(self._staged)
        self._staged = {}

    def reset(self) -> None:
        """Count from the start of the client again."""
        self._last = {}
        self._staged = {}


def telemetry_name(row: Metric, prefix: str) -> str:
    """Return a metric's name in telemetry, such as `org.apache.kafka.producer.record.send.total`."""
    group = row.group.lower().replace("-", ".").replace(".metrics", "")
    return f"{prefix}.{group}.{row.name.lower().replace('-', '.')}"


def _checked(row: Metric) -> Metric:
    """Return a metric of the application, whose parts can be encoded. Raise what their conversion raises."""
    tags = {str(name): str(text) for name, text in row.tags.items()}
    value, kind = float(row.value), MetricKind(row.kind)
    return Metric(str(row.name), str(row.group), value, kind, str(row.unit), tags, "")
