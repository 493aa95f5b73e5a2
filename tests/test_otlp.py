"""Metrics in OpenTelemetry's protobuf, compared with OpenTelemetry's own classes."""

from __future__ import annotations

import math

import pytest
from opentelemetry.proto.metrics.v1 import metrics_pb2

from pykafka2.errors import CorruptData
from pykafka2.otlp import MetricPoint, decode_metrics, encode_metrics

RESOURCE = {"group_id": "billing", "client_rack": "süd"}
POINTS = [
    MetricPoint("a.total", 3.0, {"topic": "orders"}, "sum", True, 5, 7, "records", RESOURCE),
    MetricPoint("a.total", 2.0**40, {"topic": "x" * 300}, "sum", True, 5, 7, "records", RESOURCE),
    MetricPoint("b.total", 4.0, {}, "sum", False, 1, 7, "", RESOURCE),
    MetricPoint("c.avg", None, {"topic": "orders", "partition": "0"}, time_ns=7, resource=RESOURCE),
    MetricPoint("d.rate", -0.5, {}, time_ns=2**63, resource=RESOURCE),
]


def test_encoded_metrics_are_read_by_opentelemetry() -> None:
    read = metrics_pb2.MetricsData.FromString(encode_metrics(POINTS, RESOURCE))
    (group,) = read.resource_metrics
    assert {one.key: one.value.string_value for one in group.resource.attributes} == RESOURCE
    (scope,) = group.scope_metrics
    assert [one.name for one in scope.metrics] == ["a.total", "b.total", "c.avg", "d.rate"]
    delta, cumulative, average, rate = scope.metrics
    assert delta.unit == "records"
    assert delta.sum.is_monotonic
    assert delta.sum.aggregation_temporality == metrics_pb2.AGGREGATION_TEMPORALITY_DELTA
    assert [one.as_double for one in delta.sum.data_points] == [3.0, 2.0**40]
    assert [one.start_time_unix_nano for one in delta.sum.data_points] == [5, 5]
    assert delta.sum.data_points[1].attributes[0].value.string_value == "x" * 300
    assert cumulative.sum.aggregation_temporality == metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert math.isnan(average.gauge.data_points[0].as_double)
    assert rate.gauge.data_points[0].time_unix_nano == 2**63


def test_encoded_metrics_decode_to_equal_metrics() -> None:
    assert decode_metrics(encode_metrics(POINTS, RESOURCE)) == POINTS


def test_metrics_of_opentelemetry_are_decoded_and_unknown_fields_skipped() -> None:
    data = metrics_pb2.MetricsData()
    for client in ("one", "two"):
        group = data.resource_metrics.add(schema_url="unknown")
        group.resource.attributes.add(key="client_rack").value.string_value = client
        group.resource.attributes.add(key="number").value.int_value = -1
        group.resource.attributes.add(key="ratio").value.double_value = 0.5
        scope = group.scope_metrics.add()
        scope.scope.name = "librdkafka"
        scope.metrics.add(name="h", description="text").histogram.data_points.add(count=1)
        point = scope.metrics.add(name="g", unit="ms").gauge.data_points.add(as_int=-5, flags=1)
        point.attributes.add(key="node_id").value.string_value = "1"
    assert decode_metrics(data.SerializeToString()) == [
        MetricPoint("g", -5, {"node_id": "1"}, unit="ms", resource={"client_rack": client, "number": "-1"})
        for client in ("one", "two")
    ]


@pytest.mark.parametrize(
    "data",
    [b"\x0a\x05abc", b"\x0a", b"\x0b\x00", b"\xff" * 11, b"\x0a\x09\x12\x07\x12\x05\x0a\x01\xff\x2a\x00"],
    ids=["cut off", "no length", "unknown wire type", "endless number", "no text"],
)
def test_malformed_metrics_raise_corrupt_data(data: bytes) -> None:
    with pytest.raises(CorruptData, match="pushed metrics"):
        decode_metrics(data)


def test_damaged_metrics_raise_nothing_but_corrupt_data() -> None:
    data = encode_metrics(POINTS, RESOURCE)
    for index in range(len(data)):
        damaged = data[:index] + bytes((data[index] ^ 0x55,)) + data[index + 1 :]
        for variant in (damaged, data[:index]):
            try:
                decode_metrics(variant)
            except CorruptData:
                continue
