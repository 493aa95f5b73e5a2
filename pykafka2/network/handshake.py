"""The handshake of a connection: ApiVersions, then SASL where a mechanism is set.

A script (script.py): connection.py runs it on each new connection before anything else is sent; a test drives
it by hand.
"""

from __future__ import annotations

from typing import Protocol

from pykafka2.errors import SaslAuthenticationFailed, UnsupportedSaslMechanism, UnsupportedVersion, error_of
from pykafka2.network.api_versions import ApiVersions
from pykafka2.network.script import Script, call
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

SOFTWARE_NAME = "pykafka2"
SOFTWARE_VERSION = "0.1.0"


class SaslMechanism(Protocol):
    """One authentication exchange, client side.  A new object for each connection."""

    name: str

    def first_token(self) -> bytes:
        """What to send first.  May raise `SaslAuthenticationFailed`."""
        ...

    def next_token(self, challenge: bytes) -> bytes | None:
        """The answer to the broker's token; None when the exchange is complete.

        Raises `SaslAuthenticationFailed` if the broker does not prove who it is.
        """
        ...


def handshake(
    broker: str,
    sasl: SaslMechanism | None = None,
    *,
    software_name: str = SOFTWARE_NAME,
    software_version: str = SOFTWARE_VERSION,
) -> Script[ApiVersions]:
    """Agree on versions, then authenticate; the result is what the broker speaks.

    Raises `UnsupportedVersion`, `UnsupportedSaslMechanism`, `SaslAuthenticationFailed`, or what the broker
    answered.
    """
    versions = yield from negotiate(broker, software_name, software_version)
    if sasl is not None:
        yield from authenticate(broker, versions, sasl)
    return versions


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
    if offer.error_code:
        offered = ", ".join(offer.mechanisms) or "none"
        raise UnsupportedSaslMechanism(
            f"{broker} does not offer sasl_mechanism={sasl.name}; it offers {offered}"
        )
    version = versions.choose(SaslAuthenticateRequest)
    lifetime_ms = 0
    token: bytes | None = sasl.first_token()
    while token is not None:
        response = yield from call(SaslAuthenticateRequest(auth_bytes=token), version)
        if response.error_code:
            error = error_of(response.error_code, response.error_message)
            if isinstance(error, SaslAuthenticationFailed):
                raise SaslAuthenticationFailed(f"{broker} refused the credentials: {error}")
            raise error
        lifetime_ms = response.session_lifetime_ms
        token = sasl.next_token(bytes(response.auth_bytes))
    return lifetime_ms
