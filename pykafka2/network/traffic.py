"""Counts what the connections to one node do: requests, responses, connections, authentications.

Owned by the link to the node (cluster/link.py), written on the driver's thread by its connections.
"""

from __future__ import annotations

from pykafka2.errors import IllegalSaslState, KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanism
from pykafka2.metrics import Metrics
from pykafka2.network.in_flight import InFlight
from pykafka2.protocol.struct import Response

AUTHENTICATION_ERRORS = (IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism)


class Traffic:
    """The numbers of one node, and the client's totals of connections.

    Args:
        metrics: the metrics of the client.
        node: the value of the tag `node-id`.

    Attributes:
        requests: the bytes of each request.
        reauthentications: the milliseconds of each re-authentication.
    """

    __slots__ = (
        "_api",
        "_latencies",
        "_latencies_of_successes",
        "_responses",
        "_totals",
        "reauthentications",
        "requests",
    )

    def __init__(self, metrics: Metrics, node: str) -> None:
        meter = metrics.meter(node_id=node)
        self._api = metrics.timed_api
        self._latencies = metrics.latencies
        self._latencies_of_successes = metrics.latencies_of_successes
        self.requests = meter.series("request-size")
        self._responses = meter.series("response-size", "request-latency", "throttle-time")
        self._totals = metrics.main.totals
        self.reauthentications = metrics.series("reauthentication-latency")

    def received(
        self, request: InFlight, response: Response, size_bytes: int, throttle_time_ms: int, now: float
    ) -> None:
        api, milliseconds = request.request.API_KEY, (now - request.sent_at) * 1000
        if self._api is None or self._api == api:
            self._responses.add((size_bytes, milliseconds, throttle_time_ms))
            return
        self._responses.add((size_bytes, None, None))
        latencies = self._latencies.get(api)
        if latencies is None and not getattr(response, "error_code", 0):
            latencies = self._latencies_of_successes.get(api)
        if latencies is not None:
            latencies.add((milliseconds,))

    def count(self, event: str) -> None:
        """Count an event; its total has the name and `-total`."""
        self._totals[f"{event}-total"] += 1

    def authenticated(self, seconds: float | None) -> None:
        """Count a successful authentication; `seconds` is None for the first one of a connection."""
        if seconds is None:
            self.count("successful-authentication")
        else:
            self.count("successful-reauthentication")
            self.reauthentications.add((seconds * 1000,))

    def failed(self, error: KafkaError, *, again: bool) -> None:
        """Count a failed authentication, if the error is one."""
        if isinstance(error, AUTHENTICATION_ERRORS):
            self.count("failed-reauthentication" if again else "failed-authentication")
