"""What a port is that ends connections without a word: asked once more, in a way that it must answer.

A plaintext port of Kafka hangs up on a TLS handshake, and a port with SASL on whoever does not authenticate:
both look like a broker that is just being restarted.  These scripts (script.py) are played on a connection of
their own, which link.py opens after such an end, in place of the handshake; they tell the broker nothing that
is secret, and always raise.
"""

from __future__ import annotations

from pykafka2.errors import Disconnected, IllegalSaslState, TlsNotSpoken, UnsupportedSaslMechanism
from pykafka2.network.handshake import MOST_OFFERED, SOFTWARE_NAME, SOFTWARE_VERSION, Agreement, negotiate
from pykafka2.network.script import Script, call
from pykafka2.protocol.messages.sasl import SaslHandshakeRequest
from pykafka2.text import shown

VERDICTS = (TlsNotSpoken, IllegalSaslState)
"""What a probe raises where the port is what it was taken for."""


def ask_without_tls(broker: str) -> Script[Agreement]:
    """On a connection without TLS.  Raises `TlsNotSpoken` if the port answers there as a broker."""
    yield from negotiate(broker, SOFTWARE_NAME, SOFTWARE_VERSION)
    raise TlsNotSpoken(
        f"{broker} speaks Kafka's protocol without TLS on this port: use the broker's TLS port, or set "
        "security_protocol=PLAINTEXT (SASL_PLAINTEXT with sasl_mechanism)"
    )


def ask_for_mechanisms(broker: str) -> Script[Agreement]:
    """Without authenticating.  Raises `IllegalSaslState` if the port wants that, else `Disconnected`."""
    versions = yield from negotiate(broker, SOFTWARE_NAME, SOFTWARE_VERSION)
    version = versions.choose(SaslHandshakeRequest, min_version=1)
    offer = yield from call(SaslHandshakeRequest(mechanism=""), version)
    if offer.error_code == UnsupportedSaslMechanism.code:
        offered = shown(", ".join(offer.mechanisms), MOST_OFFERED)
        raise IllegalSaslState(
            f"{broker} takes no request before a client authenticates, by {offered}: set "
            "security_protocol=SASL_PLAINTEXT (SASL_SSL with TLS) and sasl_mechanism, or use another port"
        )
    raise Disconnected(f"{broker} closed the connection")
