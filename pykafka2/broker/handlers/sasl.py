"""SaslHandshake and SaslAuthenticate on a listener without SASL: ILLEGAL_SASL_STATE, as Kafka answers.

The exchange itself comes with the rest of the broker; there is nothing to authenticate against yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.handlers.registry import handles, refuses
from pykafka2.errors import IllegalSaslState
from pykafka2.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


@handles(SaslHandshakeRequest, 0, 1)
def handshake(
    services: Services, context: RequestContext, request: SaslHandshakeRequest, now: float
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=IllegalSaslState.code or 0, mechanisms=[])


@refuses(SaslHandshakeRequest)
def refuse_handshake(request: SaslHandshakeRequest, code: int) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code, mechanisms=[])


@handles(SaslAuthenticateRequest, 0, 2)
def authenticate(
    services: Services, context: RequestContext, request: SaslAuthenticateRequest, now: float
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=IllegalSaslState.code or 0,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )


@refuses(SaslAuthenticateRequest)
def refuse_authenticate(request: SaslAuthenticateRequest, code: int) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=None, auth_bytes=b"")
