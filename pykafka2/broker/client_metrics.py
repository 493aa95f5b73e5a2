"""A broker's part of client telemetry (KIP-714): which metrics clients push, how often, and what they pushed.

A subscription is a ConfigResource of the type CLIENT_METRICS with `metrics`, `interval.ms` and `match`. The
broker combines those that match a client. Only with the option client.telemetry, as Apache Kafka only with a
metrics reporter that implements ClientTelemetry. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from pykafka2.broker.base.image import METRICS_RESOURCE, ClusterImage, ConfigResource
from pykafka2.broker.base.patterns import Pattern, compile_pattern
from pykafka2.broker.config.keys import METRICS_KEYS
from pykafka2.broker.node import Node
from pykafka2.broker.observed.telemetry import Pushes, TelemetryPush
from pykafka2.broker.server.request_context import Origin, RequestContext
from pykafka2.clock import Entropy
from pykafka2.compression.codec import NAMES, codec
from pykafka2.errors import (
    BrokerError,
    InvalidRecord,
    InvalidRegularExpression,
    InvalidRequest,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from pykafka2.otlp import decode_metrics
from pykafka2.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from pykafka2.protocol.primitives import ZERO_UUID, uuid_to_text
from pykafka2.records.batch import crc32c

ACCEPTED_CODECS: Final = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy, in Kafka's order. No compression is always accepted."""

ALL_METRICS: Final = "*"
ONE_UUID: Final = bytes(15) + b"\x01"
"""The other id that no client can have; in Kafka it is the topic of the metadata log."""

MAX_INSTANCES: Final = 16_384
SHORTEST_EXPIRY: Final = 60.0
"""Seconds without a request after which an instance is forgotten, or three push intervals if longer."""

NEVER: Final = float("-inf")


@attrs.define(frozen=True)
class Subscription:
    """One subscription: prefixes of metrics, seconds between pushes, and a pattern for client attributes."""

    metrics: frozenset[str]
    interval_ms: int
    patterns: Mapping[str, Pattern | None]
    """By attribute; None if the pattern is not one of RE2, which matches no client."""

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> Subscription:
        """Return the subscription that a resource's options describe; the controller has checked them."""
        values = {name: key.parse(configs.get(name, key.default or "")) for name, key in METRICS_KEYS.items()}
        patterns = {}
        for pair in values["match"]:
            attribute, _, text = pair.partition("=")
            patterns[attribute.strip()] = _pattern(text.strip())
        return cls(frozenset(values["metrics"]), values["interval.ms"], patterns)

    def matches(self, client: Mapping[str, str | None]) -> bool:
        """Return whether all patterns match the client's attributes."""
        return all(_matches(pattern, client.get(name)) for name, pattern in self.patterns.items())


def _pattern(text: str) -> Pattern | None:
    try:
        return compile_pattern(text)
    except InvalidRegularExpression:
        return None


def _matches(pattern: Pattern | None, text: str | None) -> bool:
    try:
        return pattern is not None and text is not None and pattern.fullmatch(text)
    except InvalidRegularExpression:  # too many steps
        return False


@attrs.define(eq=False)
class Instance:
    """A client as this broker knows it since its last change of subscriptions."""

    id: bytes
    attributes: Mapping[str, str | None]
    origin: Origin
    version: int
    metrics: list[str]
    interval_ms: int
    subscription_id: int
    last_get: float = NEVER
    last_push: float = NEVER
    last_seen: float = NEVER
    last_error: int = 0
    is_terminating: bool = False

    @property
    def interval(self) -> float:
        return self.interval_ms / 1000

    def admits_get(self, now: float) -> bool:
        """Return whether the push interval has passed, or an error lets the client subscribe again."""
        if now - max(self.last_get, self.last_push) >= self.interval:
            self.last_get = now
            return True
        return self.last_error in (UnknownSubscriptionId.code, UnsupportedCompressionType.code)

    def admits_push(self, now: float) -> bool:
        """Return whether the client subscribed after its last push, or the push interval has passed."""
        if self.last_get > self.last_push or now - self.last_push >= self.interval:
            self.last_push = now
            return True
        return False


class ClientMetricsManager:
    """The telemetry of one broker's clients. Recreated with each start of the broker.

    Args:
        node: the broker; its image has the subscriptions.
        entropy: the source of client instance ids.
        pushes: the cluster's list, to which each push is added.
    """

    def __init__(self, node: Node, entropy: Entropy, pushes: Pushes) -> None:
        self._node = node
        self._entropy = entropy
        self._pushes = pushes
        self._max_bytes = node.config.int("telemetry.max.bytes")
        self._image: ClusterImage | None = None
        self._configs: Mapping[ConfigResource, Mapping[str, str]] = {}
        self._subscriptions: list[Subscription] = []
        self._version = 0
        """Grows with each change of subscriptions."""
        self._instances: OrderedDict[bytes, Instance] = OrderedDict()
        """By id, the least recently used first."""

    def subscribe(
        self, context: RequestContext, request: GetTelemetrySubscriptionsRequest, now: float
    ) -> GetTelemetrySubscriptionsResponse:
        """Return what the client must push. Raise `ThrottlingQuotaExceeded` if it subscribes too often."""
        instance = self._instance(bytes(request.client_instance_id), context, now)
        if not instance.admits_get(now):
            raise ThrottlingQuotaExceeded("the push interval of the client has not passed")
        instance.last_error = 0
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance.id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=list(ACCEPTED_CODECS),
            push_interval_ms=instance.interval_ms,
            telemetry_max_bytes=self._max_bytes,
            delta_temporality=True,
            requested_metrics=instance.metrics,
        )

    def push(
        self, context: RequestContext, request: PushTelemetryRequest, now: float
    ) -> PushTelemetryResponse:
        """Add a push to the cluster's list. Raise `BrokerError` with Kafka's code if it is rejected."""
        if bytes(request.client_instance_id) in (ZERO_UUID, ONE_UUID):
            raise InvalidRequest("no client has this client instance id")
        instance = self._instance(bytes(request.client_instance_id), context, now)
        try:
            self._check(instance, request, now)
            if len(request.metrics):
                self._pushes.append(self._received(context, request, instance))
        except BrokerError as error:
            instance.last_error = error.code or 0
            raise
        finally:
            instance.is_terminating = request.terminating
        instance.last_error = 0
        return PushTelemetryResponse()

    # ------------------------------------------------------------------ inside

    def _check(self, instance: Instance, request: PushTelemetryRequest, now: float) -> None:
        """Raise if the push is rejected; the order of the checks is Kafka's."""
        if instance.is_terminating:
            raise InvalidRequest("the client pushed for the last time before")
        if not instance.admits_push(now) and not request.terminating:
            raise ThrottlingQuotaExceeded("the client pushed before its push interval had passed")
        if request.subscription_id != instance.subscription_id:
            raise UnknownSubscriptionId(f"the subscription is {instance.subscription_id} now")
        if not 0 <= request.compression_type < len(NAMES):
            raise UnsupportedCompressionType(f"compression {request.compression_type} is unknown")
        if len(request.metrics) > self._max_bytes:
            raise TelemetryTooLarge(f"{len(request.metrics)} bytes; the limit is {self._max_bytes}")

    def _received(
        self, context: RequestContext, request: PushTelemetryRequest, instance: Instance
    ) -> TelemetryPush:
        """Decompress and decode a push. Raise `InvalidRecord` if that fails, as Kafka if a plugin fails."""
        try:
            data = codec(request.compression_type).decompress(request.metrics, self._max_bytes)
            points = decode_metrics(data)
        except KafkaError as error:
            raise InvalidRecord(f"the pushed metrics cannot be read: {error}") from error
        return TelemetryPush(
            broker=self._node.id,
            client_id=context.client_id,
            client_instance_id=uuid_to_text(instance.id),
            software=context.origin.software,
            time_ms=self._node.clock.wall_ms(),
            is_terminating=request.terminating,
            compression=NAMES[request.compression_type],
            size_bytes=len(request.metrics),
            metrics=tuple(points),
        )

    def _instance(self, instance_id: bytes, context: RequestContext, now: float) -> Instance:
        """Return the client, as a new one after its subscriptions changed or its connection closed."""
        self._read_subscriptions()
        self._expire(now)
        known = self._instances.get(instance_id)
        if known is None or (known.origin is not context.origin and known.origin.is_closed):
            if instance_id == ZERO_UUID:
                instance_id = self._new_id()
            known = self._new_instance(instance_id, _attributes_of(instance_id, context), context.origin)
        elif known.version < self._version:
            known = self._new_instance(instance_id, known.attributes, context.origin)
        known.last_seen = now
        self._instances.move_to_end(instance_id)
        if len(self._instances) > MAX_INSTANCES:
            self._instances.popitem(last=False)
        return known

    def _new_instance(
        self, instance_id: bytes, attributes: Mapping[str, str | None], origin: Origin
    ) -> Instance:
        matching = [one for one in self._subscriptions if one.matches(attributes)]
        names: set[str] = set().union(*(one.metrics for one in matching))
        metrics = [ALL_METRICS] if ALL_METRICS in names else sorted(names)
        default = int(METRICS_KEYS["interval.ms"].default or 0)
        interval_ms = min([default, *(one.interval_ms for one in matching)])
        number = subscription_id(metrics, interval_ms, instance_id)
        instance = Instance(instance_id, attributes, origin, self._version, metrics, interval_ms, number)
        self._instances[instance_id] = instance
        return instance

    def _read_subscriptions(self) -> None:
        image = self._node.image
        if image is self._image:
            return
        self._image = image
        configs = {key: one for key, one in image.configs.items() if key[0] == METRICS_RESOURCE and one}
        if configs != self._configs:
            self._configs = configs
            self._subscriptions = [Subscription.of(one) for _, one in sorted(configs.items())]
            self._version += 1

    def _expire(self, now: float) -> None:
        """Forget clients that have sent nothing for long, beginning with the least recently used."""
        while self._instances:
            oldest = next(iter(self._instances.values()))
            if now - oldest.last_seen < max(SHORTEST_EXPIRY, 3 * oldest.interval):
                return
            del self._instances[oldest.id]

    def _new_id(self) -> bytes:
        """Return a random UUID of version 4 that no client has."""
        while True:
            raw = bytearray(self._entropy.token_bytes(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            if bytes(raw) not in self._instances:
                return bytes(raw)


def subscription_id(metrics: Iterable[str], interval_ms: int, instance_id: bytes) -> int:
    """Return Kafka's checksum of a client's subscription, a signed number of 32 bits.

    Kafka's order of several metrics is that of a Java HashSet; here it is that of `metrics`.
    """
    checksum = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    words = [int.from_bytes(instance_id[at : at + 4], "big") for at in range(0, 16, 4)]
    for word in words:  # the hash of a Java UUID
        checksum ^= word
    return checksum - (1 << 32) if checksum >= 1 << 31 else checksum


def _attributes_of(instance_id: bytes, context: RequestContext) -> dict[str, str | None]:
    """Return the attributes that the patterns of subscriptions can name."""
    name, _, version = context.origin.software.partition(" ")
    return {
        "client_instance_id": uuid_to_text(instance_id),
        "client_id": context.client_id,
        "client_software_name": name or None,
        "client_software_version": version or None,
        "client_source_address": context.client_host,
        "client_source_port": context.peer.rpartition(":")[2],
    }
