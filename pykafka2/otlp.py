"""Metrics as OpenTelemetry's protobuf messages (OTLP 1.x), as clients push them to brokers (KIP-714).

Only what Kafka's clients push: sums and gauges whose points have one number, and attributes of strings or
integers.
Other metrics are skipped. Pure functions; no library of protobuf is needed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping

import attrs

from pykafka2.errors import CorruptData

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Protobuf's wire types."""

DELTA, CUMULATIVE = 1, 2
"""Values of AggregationTemporality."""

# Field numbers. MetricsData and ResourceMetrics nest in fields 1 and 2.
RESOURCE_METRICS = RESOURCE = ATTRIBUTES = DATA_POINTS = KEY = NAME = STRING = 1
SCOPE_METRICS = METRICS = VALUE = TEMPORALITY = START = 2
UNIT = TIME = MONOTONIC = INT_VALUE = 3
DOUBLE, GAUGE, INTEGER, SUM, POINT_ATTRIBUTES = 4, 5, 6, 7, 7

_FIXED64 = struct.Struct("<Q")
_SIGNED64 = struct.Struct("<q")
_DOUBLE = struct.Struct("<d")
_LONGEST_VARINT = 10

Field = tuple[int, int, "int | memoryview"]


@attrs.define(frozen=True)
class MetricPoint:
    """One value of a metric that a client pushed.

    Attributes:
        name: the name, such as `org.apache.kafka.producer.record.send.total`.
        value: the number; None if the client had measured nothing yet.
        attributes: the tags, such as `topic`.
        kind: `sum` or `gauge`.
        is_delta: whether a sum counts from the previous push, and not from the client's start.
        started_ns, time_ns: the interval of a sum, and the time of the value, in nanoseconds since the epoch.
        unit: the unit, or "".
        resource: attributes of the client, such as `group_id`.
    """

    name: str
    value: float | None
    attributes: Mapping[str, str]
    kind: str = "gauge"
    is_delta: bool = False
    started_ns: int = 0
    time_ns: int = 0
    unit: str = ""
    resource: Mapping[str, str] = attrs.field(factory=dict)


# ---------------------------------------------------------------------------------------------------
# Encoding
# ---------------------------------------------------------------------------------------------------


def encode_metrics(points: Iterable[MetricPoint], resource: Mapping[str, str]) -> bytes:
    """Return a MetricsData message; points of one name that follow each other are one metric.

    The points' own `resource` is ignored: all belong to the same client.
    """
    metrics: list[bytes] = []
    first: MetricPoint | None = None
    encoded: list[bytes] = []
    for point in points:
        if first is None or first.name != point.name:
            if first is not None:
                metrics.append(_metric(first, encoded))
            first, encoded = point, []
        encoded.append(_part(DATA_POINTS, _point(point)))
    if first is not None:
        metrics.append(_metric(first, encoded))
    if not metrics:
        return b""
    scope = b"".join(_part(METRICS, one) for one in metrics)
    client = b"".join(_attribute(ATTRIBUTES, name, value) for name, value in resource.items())
    return _part(RESOURCE_METRICS, _part(RESOURCE, client) + _part(SCOPE_METRICS, scope))


def _metric(point: MetricPoint, points: list[bytes]) -> bytes:
    data = b"".join(points)
    if point.kind == "sum":
        temporality = DELTA if point.is_delta else CUMULATIVE
        data += bytes((TEMPORALITY << 3, temporality, MONOTONIC << 3, 1))
    named = _part(NAME, _utf8(point.name)) + (_part(UNIT, _utf8(point.unit)) if point.unit else b"")
    return named + _part(SUM if point.kind == "sum" else GAUGE, data)


def _point(point: MetricPoint) -> bytes:
    parts = []
    if point.started_ns:
        parts.append(bytes((START << 3 | FIXED64,)) + _FIXED64.pack(point.started_ns))
    parts.append(bytes((TIME << 3 | FIXED64,)) + _FIXED64.pack(point.time_ns))
    value = math.nan if point.value is None else point.value
    parts.append(bytes((DOUBLE << 3 | FIXED64,)) + _DOUBLE.pack(value))
    parts += [_attribute(POINT_ATTRIBUTES, name, text) for name, text in point.attributes.items()]
    return b"".join(parts)


def _attribute(field: int, name: str, text: str) -> bytes:
    return _part(field, _part(KEY, _utf8(name)) + _part(VALUE, _part(STRING, _utf8(text))))


def _utf8(text: str) -> bytes:
    """Encode a text; a lone surrogate, which has no UTF-8, becomes a question mark."""
    return text.encode("utf-8", "replace")


def _part(field: int, data: bytes) -> bytes:
    """Return a field of bytes, a string or a message."""
    return bytes((field << 3 | BYTES,)) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# ---------------------------------------------------------------------------------------------------
# Decoding
# ---------------------------------------------------------------------------------------------------


def decode_metrics(data: bytes | memoryview) -> list[MetricPoint]:
    """Return the sums and gauges of a MetricsData message. Raise `CorruptData` if it is malformed."""
    points: list[MetricPoint] = []
    try:
        for group in _messages(memoryview(data), RESOURCE_METRICS):
            resource: dict[str, str] = {}
            for one in _messages(group, RESOURCE):
                resource.update(_attributes(one, ATTRIBUTES))
            for scope in _messages(group, SCOPE_METRICS):
                for metric in _messages(scope, METRICS):
                    points += _points(metric, resource)
    except UnicodeDecodeError as error:
        raise CorruptData(f"a name in pushed metrics is no UTF-8: {error}") from None
    return points


def _points(metric: memoryview, resource: dict[str, str]) -> Iterator[MetricPoint]:
    texts = {NAME: "", UNIT: ""}
    data: list[tuple[int, memoryview]] = []
    for number, _, value in _fields(metric):
        if isinstance(value, memoryview):
            if number in texts:
                texts[number] = str(value, "utf-8")
            elif number in (GAUGE, SUM):
                data.append((number, value))
    for kind, message in data:
        temporality = 0
        for number, _, value in _fields(message):
            if number == TEMPORALITY and isinstance(value, int):
                temporality = value
        for point in _messages(message, DATA_POINTS):
            number_of_point, started_ns, time_ns = _numbers(point)
            yield MetricPoint(
                texts[NAME],
                number_of_point,
                _attributes(point, POINT_ATTRIBUTES),
                "sum" if kind == SUM else "gauge",
                temporality == DELTA,
                started_ns,
                time_ns,
                texts[UNIT],
                resource,
            )


def _numbers(point: memoryview) -> tuple[float | None, int, int]:
    """Return the value, the start and the time of a NumberDataPoint."""
    number: float | None = None
    times = {START: 0, TIME: 0}
    for field, wire_type, value in _fields(point):
        if wire_type != FIXED64 or not isinstance(value, memoryview):
            continue
        if field == DOUBLE:
            (read,) = _DOUBLE.unpack(value)
            number = None if math.isnan(read) else read
        elif field == INTEGER:
            (number,) = _SIGNED64.unpack(value)
        elif field in times:
            (times[field],) = _FIXED64.unpack(value)
    return number, times[START], times[TIME]


def _attributes(message: memoryview, field: int) -> dict[str, str]:
    """Return the attributes that are strings or numbers, as text."""
    found = {}
    for pair in _messages(message, field):
        key, text = "", None
        for number, _, value in _fields(pair):
            if number == KEY and isinstance(value, memoryview):
                key = str(value, "utf-8")
            elif number == VALUE and isinstance(value, memoryview):
                text = _any_value(value)
        if text is not None:
            found[key] = text
    return found


def _any_value(message: memoryview) -> str | None:
    for number, _, value in _fields(message):
        if number == STRING and isinstance(value, memoryview):
            return str(value, "utf-8")
        if number == INT_VALUE and isinstance(value, int):
            return str(value if value < 1 << 63 else value - (1 << 64))
    return None


def _messages(data: memoryview, field: int) -> Iterator[memoryview]:
    """Return the values of one field that are bytes: strings and messages."""
    for number, wire_type, value in _fields(data):
        if number == field and wire_type == BYTES and isinstance(value, memoryview):
            yield value


def _fields(data: memoryview) -> Iterator[Field]:
    """Return number, wire type and value of each field of a message."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _read_varint(data, position)
        wire_type = tag & 7
        if wire_type == VARINT:
            number, position = _read_varint(data, position)
            yield tag >> 3, wire_type, number
            continue
        if wire_type == BYTES:
            length, position = _read_varint(data, position)
        elif wire_type in (FIXED64, FIXED32):
            length = 8 if wire_type == FIXED64 else 4
        else:
            raise CorruptData(f"pushed metrics have a field of the unknown wire type {wire_type}")
        if length > end - position:
            raise CorruptData("pushed metrics end in the middle of a field")
        yield tag >> 3, wire_type, data[position : position + length]
        position += length


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    number = 0
    for index, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, position + index + 1
    raise CorruptData("pushed metrics have a malformed number")
