"""Detects a security-protocol mismatch (TLS or SASL) on a bootstrap address.

Owned by its link (link.py), on the driver's thread. A connection that is closed without a response can be a
restart, so it is retried; network/port_probes.py finds out what the port speaks, and a mismatch is raised
at once.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka2.errors import Disconnected, KafkaError, TlsInterrupted
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.handshake import Agreement
from pykafka2.network.port_probes import VERDICTS, ask_for_mechanisms, ask_without_tls
from pykafka2.network.script import Script

SUSPICIOUS_ENDS = 2
"""So many connections in a row that end before anything is answered are no restart."""

MOST_DOUBTS = 16
"""Addresses of a name, the newest; a resolver may tell others each time."""


@attrs.define
class Probe:
    """The probe of a connection that is opened only to find out why the one before was closed."""

    because: KafkaError
    """By what that one ended."""
    script: Callable[[str], Script[Agreement]]
    """In place of the handshake; takes the broker's name."""
    is_without_tls: bool = False


class PortDoubts:
    """The doubts about one name: each address has its own, as behind another there may be what serves."""

    def __init__(self, *, has_sasl: bool) -> None:
        self._has_sasl = has_sasl
        self._probes: dict[Endpoint, Probe] = {}
        """What is asked next of each address that is in doubt."""
        self._at: Endpoint | None = None
        """Where the connection of now, or the last one, goes; and what it asks, if it is a probe:"""
        self._asked: Probe | None = None
        self._verdict: KafkaError | None = None
        """What was found out since the name was resolved, until an address serves."""
        self._unanswered_ends = 0
        self._has_told = False

    def resolved(self) -> None:
        """The name's addresses are about to be tried in turn."""
        self._verdict = None

    def begin(self, endpoint: Endpoint) -> Probe | None:
        """A connection to this address begins: what it is to ask, if that one is in doubt."""
        self._at, self._asked = endpoint, self._probes.get(endpoint)
        return self._asked

    def heard(self, error: KafkaError, *, was_unanswered: bool | None) -> KafkaError:
        """The connection has ended by `error`; the error to go on with.

        `was_unanswered`: after the handshake, whether it ended before any answer; None before that.
        """
        asked, self._asked = self._asked, None
        if asked is not None:
            if isinstance(error, VERDICTS):
                self._verdict = error  # it is asked again, for as long as it is so
                return error
            self._doubt(None)
            error = asked.because  # whatever else a probe met says nothing of the port
        elif isinstance(error, TlsInterrupted):
            self._doubt(Probe(error, ask_without_tls, is_without_tls=True))
        elif was_unanswered is not None:
            self._verdict = None
            self._unanswered_ends = self._unanswered_ends + 1 if was_unanswered else 0
            is_suspicious = self._unanswered_ends >= SUSPICIOUS_ENDS and type(error) is Disconnected
            if is_suspicious and not self._has_sasl:
                self._doubt(Probe(error, ask_for_mechanisms))
        # That another address cannot be reached matters less.
        return error if self._verdict is None else self._verdict

    def _doubt(self, probe: Probe | None) -> None:
        """Set the probe for the next connection to the current address."""
        if self._at is not None:
            self._probes.pop(self._at, None)
            if probe is not None:
                self._probes[self._at] = probe
            if len(self._probes) > MOST_DOUBTS:
                del self._probes[next(iter(self._probes))]

    def is_news(self, error: KafkaError) -> bool:
        """Whether it is the first verdict, which is worth a line in the log whatever was said before."""
        is_first = isinstance(error, VERDICTS) and not self._has_told
        self._has_told = self._has_told or is_first
        return is_first
