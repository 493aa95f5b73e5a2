"""Probes a port that closes connections silently to find out what it speaks.

A listener closes connections of another security protocol, and a restarting broker closes all. `probe_after`
chooses the probe that tells these apart. The caller opens a new connection with it (cluster/link.py for a
client, admin/address_probe.py for `check_cluster`): its script (script.py) replaces the handshake, sends no
secrets and always raises.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from pykafka2.errors import (
    Disconnected,
    IllegalSaslState,
    KafkaError,
    RequestTimeout,
    TlsCertificateRejected,
    TlsHostNameMismatch,
    TlsInterrupted,
    TlsNotSpoken,
    UnsupportedSaslMechanism,
)
from pykafka2.network.handshake import MOST_OFFERED, SOFTWARE_NAME, SOFTWARE_VERSION, Agreement, negotiate
from pykafka2.network.script import Script, call
from pykafka2.protocol.messages.sasl import SaslHandshakeRequest
from pykafka2.slotted import slotted
from pykafka2.text import shown

VERDICTS = (TlsNotSpoken, IllegalSaslState)
"""The errors of a probe that confirms that the client's security protocol is wrong."""


class TlsSpoken(KafkaError):
    """Ends a probe with TLS: the peer has completed the handshake, or sent its certificate."""


class Phase(Enum):
    """The phases of a connection in which the wrong security protocol ends it."""

    TLS_HANDSHAKE = "the TLS handshake"
    PLAINTEXT_HANDSHAKE = "the first response, without TLS"
    UNAUTHENTICATED_REQUESTS = "the first requests, without SASL"


class ProbeTransport(Enum):
    """The transport of a probe's connection."""

    SAME = "the client's own"
    PLAINTEXT = "TCP without TLS"
    UNVERIFIED_TLS = "TLS without verification of the peer"


@slotted(frozen=True)
class PortProbe:
    """A connection that is opened only to find out why another was closed."""

    transport: ProbeTransport
    script: Callable[[str], Script[Agreement]]
    """Replaces the handshake; takes the broker's name."""


def probe_after(error: KafkaError, phase: Phase) -> PortProbe | None:
    """Return the probe that can explain why a client's connection was closed in this phase, if any."""
    if phase is Phase.TLS_HANDSHAKE and isinstance(error, TlsInterrupted | RequestTimeout):
        return _WITHOUT_TLS
    if phase is Phase.TLS_HANDSHAKE and isinstance(error, TlsCertificateRejected | TlsHostNameMismatch):
        return _WITH_TLS
    if phase is Phase.PLAINTEXT_HANDSHAKE and isinstance(error, Disconnected):
        return _WITH_TLS
    if phase is Phase.UNAUTHENTICATED_REQUESTS and isinstance(error, Disconnected):
        return _FOR_SASL
    return None


def _connect_without_tls(broker: str) -> Script[Agreement]:
    """Raise TlsNotSpoken if a broker responds."""
    yield from negotiate(broker, SOFTWARE_NAME, SOFTWARE_VERSION)
    raise TlsNotSpoken(
        f"{broker} speaks Kafka's protocol without TLS on this port. Use the broker's TLS port, or set "
        "security_protocol=PLAINTEXT (SASL_PLAINTEXT with sasl_mechanism)"
    )


def _connect_with_tls(broker: str) -> Script[Agreement]:
    """Raise TlsSpoken; the script starts only after the TLS handshake."""
    yield from ()
    raise TlsSpoken(f"{broker} speaks TLS on this port")


def _request_without_sasl(broker: str) -> Script[Agreement]:
    """Raise IllegalSaslState if the port requires SASL, else Disconnected."""
    versions = yield from negotiate(broker, SOFTWARE_NAME, SOFTWARE_VERSION)
    version = versions.choose(SaslHandshakeRequest, min_version=1)
    offer = yield from call(SaslHandshakeRequest(mechanism=""), version)
    if offer.error_code == UnsupportedSaslMechanism.code:
        offered = shown(", ".join(offer.mechanisms), MOST_OFFERED)
        raise IllegalSaslState(
            f"{broker} requires SASL authentication ({offered}) on this port. Set "
            "security_protocol=SASL_PLAINTEXT (SASL_SSL with TLS) and sasl_mechanism, or use another port"
        )
    raise Disconnected(f"{broker} closed the connection")


_WITHOUT_TLS = PortProbe(ProbeTransport.PLAINTEXT, _connect_without_tls)
_WITH_TLS = PortProbe(ProbeTransport.UNVERIFIED_TLS, _connect_with_tls)
_FOR_SASL = PortProbe(ProbeTransport.SAME, _request_without_sasl)
