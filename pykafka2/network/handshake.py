"""The handshake of a connection: ApiVersions, then SASL where a mechanism is set.

A script (script.py): connection.py runs it on each new connection before anything else is sent; a test drives
it by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pykafka2.errors import (
    IllegalSaslState,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
    error_of,
)
from pykafka2.network.api_versions import ApiVersions
from pykafka2.network.sasl.mechanism import SaslMechanism
from pykafka2.network.script import Offload, Script, call
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from pykafka2.text import shown

SOFTWARE_NAME = "pykafka2"
SOFTWARE_VERSION = "0.1.0"
MOST_OFFERED = 200
"""Characters of the names of mechanisms that an error shows."""
NO_SASL_HERE = (
    " This port asks nobody to authenticate: use the broker's port with SASL, or set "
    "security_protocol=PLAINTEXT (SSL with TLS)."
)


@attrs.define(frozen=True)
class Agreement:
    """The result of a handshake."""

    versions: ApiVersions
    session_lifetime_ms: int = 0
    """The client has to authenticate again before this is over; 0 if it never has to (KIP-368)."""


def handshake(
    broker: str,
    sasl: SaslMechanism | None = None,
    *,
    software_name: str = SOFTWARE_NAME,
    software_version: str = SOFTWARE_VERSION,
) -> Script[Agreement]:
    """Agree on versions, then authenticate.

    Raises `UnsupportedVersion`, `UnsupportedSaslMechanism`, `SaslAuthenticationFailed`, or what the broker
    answered.
    """
    versions = yield from negotiate(broker, software_name, software_version)
    lifetime_ms = 0 if sasl is None else (yield from authenticate(broker, versions, sasl))
    return Agreement(versions, lifetime_ms)


def negotiate(broker: str, software_name: str, software_version: str) -> Script[ApiVersions]:
    """Ask with our newest ApiVersions; a broker that does not know it says which it knows (KIP-35, KIP-511).

    Brokers before 2.4 say only that they do not, so version 0 is what is left.
    """
    request = ApiVersionsRequest(client_software_name=software_name, client_software_version=software_version)
    version = ApiVersionsRequest.MAX_VERSION
    response = yield from call(request, version)
    if response.error_code == UnsupportedVersion.code:
        version = _version_after_refusal(response, version)
        response = yield from call(request, version)
    if response.error_code:
        raise error_of(response.error_code, f"{broker} refused ApiVersions version {version}")
    return ApiVersions.of(broker, response)


def _version_after_refusal(response: ApiVersionsResponse, refused: int) -> int:
    for one in response.api_keys:
        if one.api_key == ApiVersionsRequest.API_KEY:
            return max(min(one.max_version, refused - 1), 0)
    return 0


def authenticate(broker: str, versions: ApiVersions, sasl: SaslMechanism) -> Script[int]:
    """SaslHandshake and as many SaslAuthenticate as the mechanism takes (KIP-43, KIP-152).

    The result is the session's lifetime in milliseconds, 0 if it has no end (KIP-368).
    """
    # Version 0 of SaslHandshake is followed by bare tokens without frames of Kafka's; 1 is Kafka 1.0.
    version = versions.choose(SaslHandshakeRequest, min_version=1)
    offer = yield from call(SaslHandshakeRequest(mechanism=sasl.name), version)
    if offer.error_code not in (0, UnsupportedSaslMechanism.code):
        error = error_of(offer.error_code)
        advice = NO_SASL_HERE if isinstance(error, IllegalSaslState) else ""
        words = f"{broker} refused to begin sasl_mechanism={sasl.name}: {error}{advice}"
        raise error_of(offer.error_code, words)
    if offer.error_code:
        offered = shown(", ".join(offer.mechanisms), MOST_OFFERED) or "none"
        raise UnsupportedSaslMechanism(
            f"{broker} does not offer sasl_mechanism={sasl.name}; it offers {offered}"
        )
    version = versions.choose(SaslAuthenticateRequest)
    lifetime_ms = 0
    exchange = sasl.exchange()
    try:
        step = next(exchange, None)
        while step is not None:
            if isinstance(step, Offload):
                try:
                    answer = yield step
                except KafkaError as error:
                    step = _next(exchange.throw, error)
                    continue
            else:
                response = yield from call(SaslAuthenticateRequest(auth_bytes=step), version)
                if response.error_code:
                    reason = response.error_message or "no reason given"
                    why = f"the broker refused the credentials: {reason}; {sasl.to_check}"
                    step = _next(exchange.throw, error_of(response.error_code, why))
                    continue
                lifetime_ms = response.session_lifetime_ms
                answer = bytes(response.auth_bytes)
            step = _next(exchange.send, answer)
    except SaslAuthenticationFailed as error:
        raise type(error)(f"{broker}: sasl_mechanism={sasl.name}: {error}") from error
    return lifetime_ms


def reauthenticate(broker: str, versions: ApiVersions, sasl: SaslMechanism) -> Script[Agreement]:
    """Authenticate once more on a connection whose versions are known (KIP-368)."""
    return Agreement(versions, (yield from authenticate(broker, versions, sasl)))


def _next(go_on: Callable[[Any], bytes | Offload], answer: Any) -> bytes | Offload | None:
    """Return what an exchange sends next after a response or an error, or None at its end."""
    try:
        return go_on(answer)
    except StopIteration:
        return None
