"""Time spans and sizes of a broker's requests: histograms by API.

The five spans are Kafka's (RequestChannel.Metrics): the request queue, local work in the handler, remote
waiting in the purgatory, the response queue (including the wait for earlier responses in pipelined mode), and
the total, which ends when the last byte was passed to the socket. The total starts when the request was read.
As in Kafka, the time that bytes wait in the socket's buffer is not counted, so a serial connection can look
fast on the broker and slow on its client.

Updated under the cluster's lock, once for each sent response; can be read from any thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from pykafka2.broker.config.keys import nearest
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.registry import API_KEYS

SPANS: Final = ("request_queue", "local", "remote", "response_queue", "total")

# A bucket is an eighth of a power of two wide, so a percentile is at most 12.5 % too high.
PARTS: Final = 8
FIRST_EXPONENT: Final = -20  # 2**-20 s: shorter durations count as one microsecond
LAST_EXPONENT: Final = 13  # 2**13 s: more than two hours
BUCKETS: Final = (LAST_EXPONENT - FIRST_EXPONENT) * PARTS

FOLLOWERS_FETCH: Final = "FetchFollower"
TOTALS: Final = ("bytes_in", "bytes_out", "replication_bytes_in", "replication_bytes_out")


class Histogram:
    """Durations in seconds in logarithmic buckets: adding takes constant time."""

    __slots__ = ("_counts", "count", "max", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self.max = 0.0
        self._counts = [0] * BUCKETS

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.count += 1
        self.sum += seconds
        if seconds > self.max:
            self.max = seconds
        self._counts[bisect_right(_UPPER_BOUNDS, seconds)] += 1

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        self.count += other.count
        self.sum += other.sum
        self.max = max(self.max, other.max)
        self._counts = [
            count + other_count for count, other_count in zip(self._counts, other._counts, strict=True)
        ]

    @property
    def mean(self) -> float:
        """The exact mean in seconds; 0 if empty."""
        return self.sum / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the duration that `percent` % did not exceed, at most 12.5 % too high; 0 if empty."""
        if not 0 <= percent <= 100:
            raise ConfigurationError(f"percentile({percent}): use a number from 0 to 100")
        wanted = self.count * percent / 100
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(_upper_bound(index), self.max)
        return self.max

    @property
    def p50(self) -> float:
        """The median in seconds, as exact as `percentile`."""
        return self.percentile(50)

    @property
    def p99(self) -> float:
        """The duration that 99 % did not exceed, in seconds, as exact as `percentile`."""
        return self.percentile(99)

    @property
    def p999(self) -> float:
        """The duration that 99.9 % did not exceed, in seconds, as exact as `percentile`."""
        return self.percentile(99.9)

    def state(self) -> dict[str, Any]:
        """Return the whole state as plain data; `from_state` restores it."""
        used = {str(index): count for index, count in enumerate(self._counts) if count}
        return {"count": self.count, "sum": self.sum, "max": self.max, "counts": used}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Histogram:
        """Return the histogram for a `state`."""
        made = cls()
        made.count, made.sum, made.max = state["count"], state["sum"], state["max"]
        for index, count in state["counts"].items():
            made._counts[int(index)] = count
        return made

    def buckets(self) -> list[tuple[float, int]]:
        """Return upper bound in seconds and count of every non-empty bucket, the shortest first."""
        return [(_upper_bound(index), count) for index, count in enumerate(self._counts) if count]

    def as_dict(self) -> dict[str, float]:
        """Return count, and mean, p50, p99, p99.9 and max in seconds."""
        return {
            "count": self.count,
            "mean": self.mean,
            "p50": self.p50,
            "p99": self.p99,
            "p999": self.p999,
            "max": self.max,
        }


def _upper_bound(index: int) -> float:
    exponent, part = divmod(index, PARTS)
    bound: float = 2.0 ** (exponent + FIRST_EXPONENT) * (1 + (part + 1) / PARTS)
    return bound


_UPPER_BOUNDS: Final = tuple(map(_upper_bound, range(BUCKETS - 1)))
"""The upper bounds of all buckets except the last one."""


class ApiMetrics:
    """The requests of one API on one broker: five histograms, and bytes of whole frames in and out."""

    __slots__ = ("bytes_in", "bytes_out", "local", "remote", "request_queue", "response_queue", "total")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.request_queue = Histogram()
        self.local = Histogram()
        self.remote = Histogram()
        self.response_queue = Histogram()
        self.total = Histogram()

    def add(self, other: ApiMetrics) -> None:
        """Add another broker's requests."""
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        for span in SPANS:
            getattr(self, span).merge(getattr(other, span))

    @property
    def count(self) -> int:
        """The number of requests whose response was sent (with acks=0: whose turn has passed)."""
        return self.total.count

    def as_dict(self) -> dict[str, object]:
        """Return count, bytes, and each span's histogram by name; for JSON."""
        return {
            "count": self.count,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            **{span: getattr(self, span).as_dict() for span in SPANS},
        }


class RequestMetrics:
    """One broker's requests by API. Other brokers' fetches are counted as "FetchFollower", as in Kafka.

    `replication_bytes_in` counts the records this broker copied as a follower, `..._out` the responses it
    sent to followers.
    """

    def __init__(self) -> None:
        self.bytes_in = 0  # all clients' requests
        self.bytes_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self._apis: dict[str, ApiMetrics] = {}

    def api(self, name: str) -> ApiMetrics:
        """Return the metrics of an API by Kafka's name, such as "Produce".

        Empty if there was no request yet; raise for an unknown name.
        """
        found = self._apis.get(name)
        if found is None:
            names = [*(info.name for info in API_KEYS.values()), FOLLOWERS_FETCH]
            if name not in names:
                raise ConfigurationError(f"unknown request {name!r}{nearest(name, names)}")
            found = ApiMetrics()
        return found

    @property
    def names(self) -> list[str]:
        """The APIs with at least one response."""
        return sorted(self._apis)

    def copy(self) -> RequestMetrics:
        """Return a copy that does not change any more."""
        return deepcopy(self)

    def state(self) -> dict[str, Any]:
        """Return the whole state as plain data; `from_state` restores it."""
        apis = {
            name: {
                "bytes_in": api.bytes_in,
                "bytes_out": api.bytes_out,
                **{span: getattr(api, span).state() for span in SPANS},
            }
            for name, api in self._apis.items()
        }
        return {**{name: getattr(self, name) for name in TOTALS}, "apis": apis}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RequestMetrics:
        """Return the metrics for a `state`."""
        made = cls()
        for name in TOTALS:
            setattr(made, name, state[name])
        for name, known in state["apis"].items():
            api = made._apis[name] = ApiMetrics()
            api.bytes_in, api.bytes_out = known["bytes_in"], known["bytes_out"]
            for span in SPANS:
                setattr(api, span, Histogram.from_state(known[span]))
        return made

    def clear(self) -> None:
        """Reset all metrics."""
        self._apis.clear()
        self.bytes_in = self.bytes_out = 0
        self.replication_bytes_in = self.replication_bytes_out = 0

    def as_dict(self) -> dict[str, object]:
        """Return everything as a dict, for JSON and the admin port."""
        return {
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "replication_bytes_in": self.replication_bytes_in,
            "replication_bytes_out": self.replication_bytes_out,
            "apis": {name: self._apis[name].as_dict() for name in self.names},
        }

    def record(self, context: RequestContext, left_at: float) -> None:
        """Record a request whose response was sent.

        Takes about 3 us; the broker's cheapest request takes 60.
        """
        name = API_KEYS[context.api_key].name
        size_bytes, response_bytes = context.received.size_bytes, context.delivery.response_bytes
        if not context.is_from_broker:
            self.bytes_in += size_bytes
            self.bytes_out += response_bytes
        elif name == "Fetch":
            name = FOLLOWERS_FETCH
            self.replication_bytes_out += response_bytes
        api = self._apis.get(name)
        if api is None:
            api = self._apis[name] = ApiMetrics()
        progress, received = context.progress, context.received.received_at
        handled = progress.handled_at
        # A fault can have held the request before its handler ran, or responded instead of the handler.
        taken = max(progress.taken_at, received)
        responded = max(progress.responded_at, taken)
        # 0: the handler has not returned yet, so it sent the response itself.
        handled = min(max(handled, taken), responded) if handled else responded
        api.bytes_in += size_bytes
        api.bytes_out += response_bytes
        api.request_queue.add(taken - received)
        api.local.add(handled - taken)
        api.remote.add(responded - handled)
        api.response_queue.add(left_at - responded)
        api.total.add(left_at - received)
