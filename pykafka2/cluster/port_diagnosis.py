"""Detects a security-protocol mismatch (TLS or SASL) on a bootstrap address.

Owned by its link (link.py), on the driver's thread. A connection that is closed without a response can be a
restart, so it is retried; network/port_probe.py finds out what the port speaks, and a mismatch is raised
at once.
"""

from __future__ import annotations

from pykafka2.errors import Disconnected, KafkaError, TlsInterrupted
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.port_probe import VERDICTS, Phase, PortProbe, probe_after

SUSPICIOUS_ENDS = 2
"""Consecutive connections closed before any response that rule out a restart."""

MOST_PROBES = 16
"""The newest addresses of a name with a probe; a resolver can return others each time."""


class PortDiagnosis:
    """The diagnosis of one bootstrap name; each of its addresses is probed by itself."""

    def __init__(self, *, has_sasl: bool) -> None:
        self._has_sasl = has_sasl
        self._probes: dict[Endpoint, tuple[PortProbe, KafkaError]] = {}
        """The next connection's probe for each suspicious address, and the error that it is to explain."""
        self._at: Endpoint | None = None
        """The address of the current or last connection."""
        self._cause: KafkaError | None = None
        """The error that this connection is to explain, if it is a probe."""
        self._verdict: KafkaError | None = None
        """The mismatch found since the name was resolved, until an address completes a handshake."""
        self._unanswered_ends = 0
        self._has_reported = False

    def resolved(self) -> None:
        """Start a new round: the name was resolved, and its addresses are tried in turn."""
        self._verdict = None

    def begin(self, endpoint: Endpoint) -> PortProbe | None:
        """Start a connection to this address; return its probe if the address is suspicious."""
        probe, cause = self._probes.get(endpoint, (None, None))
        self._at, self._cause = endpoint, cause
        return probe

    def closed(self, error: KafkaError, *, was_unanswered: bool | None) -> KafkaError:
        """Record that the connection was closed by `error`; return the error to report.

        `was_unanswered`: whether it was closed after the handshake and before any response; None if before
        the handshake ended.
        """
        cause, self._cause = self._cause, None
        if cause is not None:
            if isinstance(error, VERDICTS):
                self._verdict = error  # the probe stays, so the next connection repeats it
                return error
            self._set_probe(None, cause)
            error = cause  # any other error of a probe is no evidence about the port
        elif isinstance(error, TlsInterrupted):
            self._set_probe(probe_after(error, Phase.TLS_HANDSHAKE), error)
        elif was_unanswered is not None:
            self._verdict = None
            self._unanswered_ends = self._unanswered_ends + 1 if was_unanswered else 0
            is_suspicious = self._unanswered_ends >= SUSPICIOUS_ENDS and type(error) is Disconnected
            if is_suspicious and not self._has_sasl:
                self._set_probe(probe_after(error, Phase.UNAUTHENTICATED_REQUESTS), error)
        # A mismatch found on one address outweighs the errors of the others.
        return error if self._verdict is None else self._verdict

    def _set_probe(self, probe: PortProbe | None, cause: KafkaError) -> None:
        """Set the probe for the next connection to the current address."""
        if self._at is not None:
            self._probes.pop(self._at, None)
            if probe is not None:
                self._probes[self._at] = (probe, cause)
            if len(self._probes) > MOST_PROBES:
                del self._probes[next(iter(self._probes))]

    def is_news(self, error: KafkaError) -> bool:
        """Return True for the first mismatch found, which is logged even during an outage."""
        is_first = isinstance(error, VERDICTS) and not self._has_reported
        self._has_reported = self._has_reported or is_first
        return is_first
