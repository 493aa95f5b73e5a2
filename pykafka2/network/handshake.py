"""The handshake of a connection: ApiVersions, then SASL if a mechanism is set.

A script (script.py): connection.py runs it on each new connection before any other request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pykafka2.errors import (
    IllegalSaslState,
    KafkaError,
    MisroutedConnection,
    RebootstrapRequired,
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
from pykafka2.slotted import slotted
from pykafka2.text import shown
from pykafka2.version import __version__

SOFTWARE_NAME = "pykafka2"
SOFTWARE_VERSION = __version__
FIRST_VERSION_WITH_EXPECTATION = 5
LAST_VERSION_WITHOUT_EXPECTATION = 4
"""Used if there is nothing to check, as older brokers reject a newer version first."""
MOST_OFFERED = 200
"""Characters of mechanism names that an error shows."""
NO_SASL_HERE = (
    " This port does not use SASL. Use the broker's SASL port, or set security_protocol=PLAINTEXT "
    "(SSL with TLS)."
)


@slotted(frozen=True)
class ExpectedBroker:
    """The broker that should be at an address, which it checks itself (KIP-1242)."""

    cluster_id: str
    node_id: int


@slotted(frozen=True)
class Agreement:
    """The result of a handshake."""

    versions: ApiVersions
    session_lifetime_ms: int = 0
    """The client must re-authenticate within this time; 0 if it never must (KIP-368)."""


def handshake(
    broker: str,
    sasl: SaslMechanism | None = None,
    *,
    expected: ExpectedBroker | None = None,
    software_name: str = SOFTWARE_NAME,
    software_version: str = SOFTWARE_VERSION,
) -> Script[Agreement]:
    """Negotiate API versions, then authenticate.

    Raise UnsupportedVersion, UnsupportedSaslMechanism, SaslAuthenticationFailed, MisroutedConnection if it is
    not the expected broker, or the broker's error.
    """
    if sasl is None:
        return Agreement((yield from negotiate(broker, software_name, software_version, expected)))
    versions = yield from negotiate(broker, software_name, software_version)
    lifetime_ms = yield from authenticate(broker, versions, sasl)
    checked = versions.ranges.get(ApiVersionsRequest.API_KEY, (0, 0))[1] >= FIRST_VERSION_WITH_EXPECTATION
    if expected is not None and checked:
        # Again, because a broker does not check it before authentication.
        versions = yield from negotiate(broker, software_name, software_version, expected)
    return Agreement(versions, lifetime_ms)


def negotiate(
    broker: str, software_name: str, software_version: str, expected: ExpectedBroker | None = None
) -> Script[ApiVersions]:
    """Send ApiVersions; a broker that does not support its version responds with its range (KIP-511).

    Brokers before 2.4 respond without a range, so version 0 is used for them.
    """
    request = ApiVersionsRequest(client_software_name=software_name, client_software_version=software_version)
    version = LAST_VERSION_WITHOUT_EXPECTATION
    if expected is not None:
        request.cluster_id, request.node_id = expected.cluster_id, expected.node_id
        version = FIRST_VERSION_WITH_EXPECTATION
    response = yield from call(request, version)
    if response.error_code == UnsupportedVersion.code:
        version = _version_after_rejection(response, version)
        response = yield from call(request, version)
    if response.error_code == RebootstrapRequired.code and expected is not None:
        raise MisroutedConnection(
            f"{broker}: its address belongs to another broker or cluster now, not to node {expected.node_id} "
            f"of cluster {shown(expected.cluster_id)}; the client restarts from bootstrap_servers"
        )
    if response.error_code:
        raise error_of(response.error_code, f"{broker} rejected ApiVersions version {version}")
    return ApiVersions.of(broker, response)


def _version_after_rejection(response: ApiVersionsResponse, rejected: int) -> int:
    for api in response.api_keys:
        if api.api_key == ApiVersionsRequest.API_KEY:
            return max(min(api.max_version, rejected - 1), 0)
    return 0


def _why_unsupported(mechanism: str, offered: Sequence[str]) -> str:
    listed = next((name for name in offered if name.strip().upper() == mechanism.upper()), None)
    if listed is None:
        names = shown(", ".join(offered), MOST_OFFERED) or "none"
        return f"does not offer sasl_mechanism={mechanism}; it offers {names}"
    if listed != mechanism:
        return (
            f"offers {listed!r}, which is not {mechanism} for a broker; correct its sasl.enabled.mechanisms, "
            "whose names are in capital letters without spaces"
        )
    return (
        f"rejected sasl_mechanism={mechanism} although it offers it, so the listener, or a proxy in front of "
        f"it, cannot use it; check listener.name.LISTENER.{mechanism.lower()}.sasl.jaas.config and the "
        "broker's log"
    )


def authenticate(broker: str, versions: ApiVersions, sasl: SaslMechanism) -> Script[int]:
    """Send SaslHandshake, then as many SaslAuthenticate as the mechanism needs (KIP-43, KIP-152).

    Return the session's lifetime in milliseconds, 0 if it is unlimited (KIP-368).
    """
    # Version 0 of SaslHandshake is followed by raw tokens outside Kafka's framing; 1 needs Kafka 1.0.
    version = versions.choose(SaslHandshakeRequest, min_version=1)
    offer = yield from call(SaslHandshakeRequest(mechanism=sasl.name), version)
    if offer.error_code not in (0, UnsupportedSaslMechanism.code):
        error = error_of(offer.error_code)
        advice = NO_SASL_HERE if isinstance(error, IllegalSaslState) else ""
        message = f"{broker} rejected sasl_mechanism={sasl.name}: {error}{advice}"
        raise error_of(offer.error_code, message)
    if offer.error_code:
        raise UnsupportedSaslMechanism(f"{broker} {_why_unsupported(sasl.name, offer.mechanisms)}")
    version = versions.choose(SaslAuthenticateRequest)
    lifetime_ms = 0
    exchange = sasl.exchange()
    try:
        step = next(exchange, None)
        while step is not None:
            if isinstance(step, Offload):
                try:
                    result = yield step
                except KafkaError as error:
                    step = _next(exchange.throw, error)
                    continue
            else:
                response = yield from call(SaslAuthenticateRequest(auth_bytes=step), version)
                if response.error_code:
                    reason = response.error_message or "no reason given"
                    message = f"the broker rejected the credentials: {reason}; {sasl.to_check}"
                    step = _next(exchange.throw, error_of(response.error_code, message))
                    continue
                lifetime_ms = response.session_lifetime_ms
                result = bytes(response.auth_bytes)
            step = _next(exchange.send, result)
    except SaslAuthenticationFailed as error:
        raise type(error)(f"{broker}: sasl_mechanism={sasl.name}: {error}") from error
    return lifetime_ms


def reauthenticate(broker: str, versions: ApiVersions, sasl: SaslMechanism) -> Script[Agreement]:
    """Re-authenticate on a connection whose API versions are known (KIP-368)."""
    return Agreement(versions, (yield from authenticate(broker, versions, sasl)))


def _next(resume: Callable[[Any], bytes | Offload], result: Any) -> bytes | Offload | None:
    """Return the next step of an exchange after a result or an error, or None at its end."""
    try:
        return resume(result)
    except StopIteration:
        return None
