"""Probes a port that closes connections silently to find out what it speaks.

A plaintext listener closes a TLS handshake, and a SASL listener closes an unauthenticated connection; both
look like a restarting broker. link.py runs these scripts (script.py) on a new connection in place of the
handshake. They send no secrets and always raise.
"""

from __future__ import annotations

from pykafka2.errors import Disconnected, IllegalSaslState, TlsNotSpoken, UnsupportedSaslMechanism
from pykafka2.network.handshake import MOST_OFFERED, SOFTWARE_NAME, SOFTWARE_VERSION, Agreement, negotiate
from pykafka2.network.script import Script, call
from pykafka2.protocol.messages.sasl import SaslHandshakeRequest
from pykafka2.text import shown

VERDICTS = (TlsNotSpoken, IllegalSaslState)
"""The errors of a probe that confirms the mismatch."""


def probe_without_tls(broker: str) -> Script[Agreement]:
    """Probe a connection without TLS. Raise TlsNotSpoken if a broker responds."""
    yield from negotiate(broker, SOFTWARE_NAME, SOFTWARE_VERSION)
    raise TlsNotSpoken(
        f"{broker} speaks Kafka's protocol without TLS on this port. Use the broker's TLS port, or set "
        "security_protocol=PLAINTEXT (SASL_PLAINTEXT with sasl_mechanism)"
    )


def probe_sasl(broker: str) -> Script[Agreement]:
    """Probe without authenticating. Raise IllegalSaslState if the port requires SASL, else Disconnected."""
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
