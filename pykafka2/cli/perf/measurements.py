"""Samples with percentiles, and the printed result of `pykafka2 perf`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common.output import Output
from pykafka2.errors import KafkaError

if TYPE_CHECKING:
    from pykafka2 import KafkaProducer

DEFAULT_RECORDS = 100_000
MAX_SAMPLES = 20_000
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9}
MIB = 1 << 20
CLOSE_TIMEOUT = 1.0


class Samples:
    """Durations in seconds, at equal distances: at the limit every second one is dropped.

    The caller measures every `stride`-th event. `add` can run on another thread than the reader.
    """

    def __init__(self, limit: int = MAX_SAMPLES) -> None:
        self.stride = 1
        self._limit = limit
        self._values: list[float] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(self, seconds: float) -> None:
        """Add a duration."""
        self._values.append(seconds)
        if len(self._values) >= self._limit:
            self._values = self._values[::2]
            self.stride *= 2

    def in_ms(self) -> dict[str, float] | None:
        """Return average, percentiles and maximum in milliseconds; None without samples."""
        values = sorted(self._values)
        if not values:
            return None
        found = {"avg": sum(values) / len(values)}
        found.update((name, percentile(values, share)) for name, share in PERCENTILES.items())
        found["max"] = values[-1]
        return {name: round(seconds * 1000, 3) for name, seconds in found.items()}


def percentile(ordered: list[float], share: float) -> float:
    """Return the smallest value that is not exceeded by this percentage of the values."""
    place = -(-len(ordered) * share // 100)  # rounded up
    return ordered[max(int(place), 1) - 1]


def rates(records: int, size_bytes: int, seconds: float) -> dict[str, Any]:
    """Return counts and rates as fields of a result."""
    per_second = 1 / seconds if seconds > 0 else 0.0
    return {
        "records": records,
        "bytes": size_bytes,
        "seconds": round(seconds, 3),
        "records_per_second": round(records * per_second, 1),
        "mib_per_second": round(size_bytes / MIB * per_second, 3),
    }


def close_now(producer: KafkaProducer[Any, Any]) -> None:
    """Close after a failure or Ctrl-C, without waiting until delivery.timeout.ms for lost brokers."""
    with suppress(KafkaError):
        producer.purge()
    with suppress(KafkaError):
        producer.close(CLOSE_TIMEOUT)


def print_result(output: Output, result: Mapping[str, Any]) -> None:
    """Print a result: one JSON object, or lines for people with latencies in a line each."""
    if output.is_json:
        output.json(result)
        return
    lines: dict[str, Any] = {}
    for name, value in result.items():
        if isinstance(value, Mapping):
            lines[name] = "  ".join(f"{key.replace('_', '.')} {number:,.2f}" for key, number in value.items())
        elif isinstance(value, bool) or value is None or isinstance(value, str):
            lines[name] = value
        else:
            lines[name] = f"{value:,}"
    output.item(lines)
