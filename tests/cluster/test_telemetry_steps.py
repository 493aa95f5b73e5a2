"""The steps of client telemetry (KIP-714), with nonsense from brokers, and a close at any step."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest

from pykafka2.cluster.telemetry import Ledger, MetricSource, Telemetry
from pykafka2.compression.codec import codec
from pykafka2.driver.pollable import AnyNode, Send, ToNode
from pykafka2.errors import (
    ClientClosed,
    CorruptResponse,
    Disconnected,
    InvalidRequest,
    KafkaError,
    RequestTimeout,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from pykafka2.logs import ClientLogger
from pykafka2.otlp import MetricPoint, decode_metrics
from pykafka2.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from pykafka2.types import Metric, MetricKind

ID = bytes(range(1, 17))
SENT, QUEUED = "org.apache.kafka.app.sent.total", "org.apache.kafka.app.queued"


class Bench:
    """Telemetry without a driver: the test polls it, and responds as the broker."""

    def __init__(self, supported: bool | None = True) -> None:
        self.supported = supported
        self.sent = 0.0
        self.labels: dict[str, str] = {}
        self.now = 0.0
        self.topics: tuple[str, ...] = ()
        self.ended: list[Telemetry] = []
        self.telemetry = Telemetry(
            MetricSource(self._rows, lambda: self.labels),
            lambda: self.supported,
            random.Random(1),
            lambda: int((1_000 + self.now) * 1e9),
            ClientLogger("pykafka2.cluster.client", "app"),
            self.ended.append,
        )

    def _rows(self) -> list[Metric]:
        of_topics = [
            metric("sent-total", self.sent, {"client-id": "app", "topic": name}) for name in self.topics
        ]
        return [metric("sent-total", self.sent), *of_topics, metric("queued", 5.0, kind=MetricKind.GAUGE)]

    def poll(self) -> Send[Any] | None:
        result = self.telemetry.poll(self.now)
        assert len(result.sends) <= 1
        return result.sends[0] if result.sends else None

    def sends(self, kind: type[Any]) -> Send[Any]:
        """Return the next request, which must be of this kind."""
        send = self.poll()
        assert send is not None
        assert isinstance(send.request, kind)
        send.sent_to = 7
        return send

    def subscribe(self, **fields: Any) -> None:
        """Let the telemetry subscribe; respond with these fields."""
        values: dict[str, Any] = {
            "client_instance_id": ID,
            "subscription_id": 3,
            "accepted_compression_types": [],
            "push_interval_ms": 10_000,
            "telemetry_max_bytes": 1 << 20,
            "delta_temporality": True,
            "requested_metrics": ["*"],
        }
        response = GetTelemetrySubscriptionsResponse(**(values | fields))
        self.sends(GetTelemetrySubscriptionsRequest).on_response(response, self.now)

    def push(self) -> Send[Any]:
        """Return the next push, which is due within 1.5 intervals."""
        self.now += 15.0
        return self.sends(PushTelemetryRequest)

    def accept(self, send: Send[Any], error: type[KafkaError] | None = None) -> None:
        code = 0 if error is None else int(getattr(error, "code"))  # noqa: B009
        send.on_response(PushTelemetryResponse(error_code=code), self.now)


def metric(
    name: str, value: float, tags: dict[str, str] | None = None, kind: MetricKind = MetricKind.COUNTER
) -> Metric:
    return Metric(name, "app-metrics", value, kind, "records", tags or {"client-id": "app"}, "")


def values(send: Send[Any]) -> dict[str, float | None]:
    """Return the values of a push by name, of metrics without tags."""
    data = codec(send.request.compression_type).decompress(send.request.metrics)
    return {point.name: point.value for point in decode_metrics(data) if not point.attributes}


def points(send: Send[Any]) -> list[MetricPoint]:
    return decode_metrics(codec(send.request.compression_type).decompress(send.request.metrics))


# ---------------------------------------------------------------------- a broker that responds with nonsense


@pytest.mark.parametrize("is_first", [True, False])
def test_subscription_without_an_instance_id_ends_telemetry(
    caplog: pytest.LogCaptureFixture, is_first: bool
) -> None:
    bench = Bench()
    if not is_first:
        bench.subscribe()
        bench.accept(bench.push(), UnknownSubscriptionId)
    bench.subscribe(client_instance_id=bytes(16))
    bench.now += 1_000
    assert bench.poll() is None
    assert bench.telemetry.is_over
    assert isinstance(bench.telemetry.failure, CorruptResponse)
    assert caplog.text.count("Client telemetry stopped") == 1
    assert bench.telemetry.client_instance_id == (bytes(16) if is_first else ID)


@pytest.mark.parametrize(
    ("interval_ms", "seconds"), [(-1, 300.0), (0, 300.0), (1, 0.1), (2_000, 2.0), (2**31 - 1, 2147483.647)]
)
def test_push_interval_of_a_broker_is_kept_above_a_tenth_of_a_second(
    interval_ms: int, seconds: float
) -> None:
    bench = Bench()
    bench.subscribe(push_interval_ms=interval_ms)
    bench.now = 1.5 * seconds
    bench.accept(bench.sends(PushTelemetryRequest))
    bench.now += seconds * 0.99
    assert bench.poll() is None
    bench.now += seconds * 0.02
    assert bench.poll() is not None


@pytest.mark.parametrize(
    "error", [UnknownSubscriptionId, UnsupportedCompressionType, ThrottlingQuotaExceeded]
)
def test_rejected_subscription_is_requested_again_after_an_interval(error: type[KafkaError]) -> None:
    bench = Bench()
    for _ in range(2):
        bench.subscribe(error_code=int(getattr(error, "code")))  # noqa: B009
        bench.now += 299.0
        assert bench.poll() is None
        bench.now += 2.0


def test_fatal_error_of_a_subscription_ends_telemetry(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.subscribe(error_code=InvalidRequest.code)
    assert isinstance(bench.telemetry.failure, InvalidRequest)
    assert "Client telemetry stopped" in caplog.text


@pytest.mark.parametrize(
    ("accepted", "used"), [([], 0), ([99, -1], 0), ([99, 1, 4], 1), ([0, 4], 0), ([1, 1], 1)]
)
def test_unknown_compressions_of_a_broker_are_skipped(accepted: list[int], used: int) -> None:
    bench = Bench()
    bench.subscribe(accepted_compression_types=accepted)
    send = bench.push()
    assert send.request.compression_type == used
    assert values(send)[QUEUED] == 5.0


@pytest.mark.parametrize(
    ("requested", "names"),
    [
        (["*"], {SENT, QUEUED}),
        ([""], {SENT, QUEUED}),
        (["org.apache.kafka.app.q", "x"], {QUEUED}),
        (["org.apache.kafka.app.sent.total"], {SENT}),
        (["ORG"], set()),
    ],
)
def test_prefixes_select_metrics(requested: list[str], names: set[str]) -> None:
    bench = Bench()
    bench.subscribe(requested_metrics=requested)
    assert values(bench.push()).keys() == names


@pytest.mark.parametrize("max_bytes", [1, 0, -1])
def test_tiny_limit_pushes_nothing_and_warns_once(caplog: pytest.LogCaptureFixture, max_bytes: int) -> None:
    bench = Bench()
    bench.topics = ("a", "b")
    bench.subscribe(telemetry_max_bytes=max_bytes)
    for _ in range(3):
        send = bench.push()
        assert bool(points(send)) == (max_bytes < 1)  # no limit that makes sense is none
        bench.accept(send)
    assert caplog.text.count("telemetry.max.bytes=1") == (max_bytes == 1)


def test_metrics_that_were_left_out_count_from_the_last_push_that_had_them() -> None:
    bench = Bench()
    bench.topics = ("a", "b")
    bench.sent = 2
    bench.subscribe()
    bench.accept(bench.push(), UnknownSubscriptionId)
    bench.subscribe(telemetry_max_bytes=150)
    send = bench.push()
    assert [point.value for point in points(send) if point.name == SENT] == [2.0]
    bench.accept(send, UnknownSubscriptionId)
    bench.subscribe()
    bench.sent = 3
    send = bench.push()
    assert [point.value for point in points(send) if point.name == SENT] == [3.0, 3.0, 3.0]
    bench.accept(send)
    bench.sent = 7
    assert [point.value for point in points(bench.push()) if point.name == SENT] == [4.0, 4.0, 4.0]


def test_response_after_the_end_changes_nothing() -> None:
    bench = Bench()
    send = bench.sends(GetTelemetrySubscriptionsRequest)
    bench.telemetry.terminate(bench.now)
    assert bench.telemetry.is_over
    send.on_response(
        GetTelemetrySubscriptionsResponse(
            client_instance_id=ID,
            subscription_id=1,
            accepted_compression_types=[],
            push_interval_ms=1,
            telemetry_max_bytes=1,
            delta_temporality=True,
            requested_metrics=["*"],
        ),
        bench.now,
    )
    bench.now += 400
    assert bench.poll() is None
    assert bench.telemetry.failure is None


def test_codec_that_is_not_installed_is_tried_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bench = Bench()
    bench.subscribe(accepted_compression_types=[99, 1])
    for _ in range(3):
        bench.accept(bench.push())
    assert caplog.text.count("codec 99 is not used") == 1


# ---------------------------------------------------------------------- totals


def test_totals_count_from_the_last_accepted_push() -> None:
    bench = Bench()
    bench.subscribe()
    bench.sent = 2
    bench.accept(bench.push(), ThrottlingQuotaExceeded)  # rejected, so pushed again
    bench.now += 10
    bench.subscribe()
    bench.sent = 5
    send = bench.push()
    assert values(send)[SENT] == 5.0
    bench.accept(send)
    bench.sent = 6
    assert values(bench.push())[SENT] == 1.0


@pytest.mark.parametrize(("is_delta", "expected"), [(True, [2.0, 3.0]), (False, [2.0, 5.0])])
def test_temporality_of_totals_is_that_of_the_subscription(is_delta: bool, expected: list[float]) -> None:
    bench = Bench()
    bench.subscribe(delta_temporality=is_delta)
    found = []
    for total in (2, 5):
        bench.sent = total
        send = bench.push()
        (point,) = [point for point in points(send) if point.name == SENT]
        assert point.is_delta == is_delta
        assert point.started_ns == (1_000_000_000_000 if total == 2 or not is_delta else 1_015_000_000_000)
        assert point.time_ns == int((1_000 + bench.now) * 1e9)
        found.append(point.value)
        bench.accept(send)
    assert found == expected


def test_totals_start_again_if_the_temporality_changes() -> None:
    bench = Bench()
    bench.subscribe()
    bench.sent = 2
    bench.accept(bench.push())
    bench.accept(bench.push(), UnknownSubscriptionId)
    bench.subscribe(delta_temporality=False)
    bench.accept(bench.push(), UnknownSubscriptionId)
    bench.subscribe()
    assert values(bench.push())[SENT] == 2.0


def test_total_that_fell_counts_from_zero() -> None:
    ledger = Ledger(lambda: 1)
    pushed = []
    for total in (5, 7, 3, 4):
        made = ledger.points([("a", metric("a-total", total))], is_delta=True)
        pushed += [point.value for point in made]
        ledger.stage(made)
        ledger.commit()
    assert pushed == [5, 2, 3, 1]


def test_text_without_utf8_is_pushed_with_question_marks() -> None:
    bench = Bench()
    bench.labels = {"group_id": "g\udc80"}
    bench.topics = ("t\ud800",)
    bench.subscribe()
    found = points(bench.push())
    assert {point.resource["group_id"] for point in found} == {"g?"}
    assert {point.attributes.get("topic") for point in found} == {None, "t?"}


# ---------------------------------------------------------------------- failures and the close


def test_lost_push_is_not_repeated_and_another_broker_is_used() -> None:
    bench = Bench()
    bench.subscribe()
    bench.sent = 2
    send = bench.push()
    assert send.to == ToNode(7)
    send.on_failure(Disconnected("gone"), bench.now)
    bench.now += 9.9
    assert bench.poll() is None
    bench.now += 0.2
    subscribing = bench.sends(GetTelemetrySubscriptionsRequest)
    assert subscribing.to == AnyNode()
    assert subscribing.request.client_instance_id == ID
    subscribing.on_failure(RequestTimeout("late"), bench.now)
    bench.now += 10
    bench.subscribe()
    bench.sent = 3
    assert values(bench.push())[SENT] == 1.0


@pytest.mark.parametrize("is_pushing", [False, True])
def test_closed_client_ends_telemetry_without_a_warning(
    caplog: pytest.LogCaptureFixture, is_pushing: bool
) -> None:
    caplog.set_level(logging.WARNING)
    bench = Bench()
    if is_pushing:
        bench.subscribe()
        send = bench.push()
    else:
        send = bench.sends(GetTelemetrySubscriptionsRequest)
    send.on_failure(ClientClosed("closed"), bench.now)
    assert bench.telemetry.is_over
    assert caplog.text == ""


def test_last_push_during_another_one_counts_from_that() -> None:
    bench = Bench()
    bench.subscribe()
    bench.sent = 4
    first = bench.push()
    assert values(first)[SENT] == 4.0
    bench.sent = 6
    bench.telemetry.terminate(bench.now)
    last = bench.sends(PushTelemetryRequest)
    assert (last.request.terminating, values(last)[SENT]) == (True, 2.0)
    bench.accept(first)
    assert not bench.telemetry.is_over  # the last one has no response yet
    bench.accept(last)
    assert bench.telemetry.is_over


@pytest.mark.parametrize("fails", [False, True])
def test_any_response_or_failure_of_the_last_push_ends_telemetry(fails: bool) -> None:
    bench = Bench()
    bench.subscribe()
    bench.telemetry.terminate(bench.now)
    last = bench.sends(PushTelemetryRequest)
    if fails:
        last.on_failure(Disconnected("gone"), bench.now)
    else:
        bench.accept(last, UnknownSubscriptionId)
    assert bench.telemetry.is_over
    assert bench.telemetry.failure is None
    assert bench.poll() is None


def test_late_failure_of_a_push_leaves_the_last_one_alone() -> None:
    bench = Bench()
    bench.subscribe()
    first = bench.push()
    bench.telemetry.terminate(bench.now)
    last = bench.sends(PushTelemetryRequest)
    first.on_failure(Disconnected("gone"), bench.now)
    assert not bench.telemetry.is_over
    bench.accept(last)
    assert bench.telemetry.is_over


def test_instance_id_is_requested_at_once_after_a_failure() -> None:
    bench = Bench()
    bench.telemetry.want_id(bench.now)
    bench.sends(GetTelemetrySubscriptionsRequest).on_failure(RequestTimeout("late"), bench.now)
    bench.now += 1
    assert bench.poll() is None  # for five minutes
    bench.telemetry.want_id(bench.now)
    bench.subscribe()
    assert bench.telemetry.client_instance_id == ID
    bench.telemetry.want_id(bench.now)
    assert bench.poll() is None  # it has one, so that nothing changes


@pytest.mark.parametrize("supported", [None, False])
def test_nothing_is_sent_before_a_connection_or_to_brokers_without_telemetry(
    supported: bool | None, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(supported)
    assert bench.poll() is None
    assert bench.telemetry.is_over == (supported is False)
    assert bench.ended == [bench.telemetry] * (supported is False)
    bench.supported = True
    assert (bench.poll() is None) == (supported is False)
    assert caplog.text == ""
