"""SaslHandshake and SaslAuthenticate: authentication on a listener with SASL.

KIP-43, KIP-152, KIP-368; security/authentication.py has the logic. A failed authentication gets its
response only after connection.failed.authentication.delay.ms, and the connection closes after it, so that
guessing passwords takes time. On a listener without SASL, and after an authentication without expiry, the
response is ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.authorization import OPEN
from pykafka2.broker.server.request_context import ClosingResponse
from pykafka2.broker.server.responses import Refusal
from pykafka2.errors import BrokerError, IllegalSaslState, error_of
from pykafka2.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.security.authentication import Authentication
    from pykafka2.broker.server.request_context import RequestContext
    from pykafka2.protocol.struct import Response

NOT_NOW = "SaslAuthenticate request received after successful authentication"


@api(SaslHandshakeRequest, 0, 1, access=OPEN)
def handshake(
    services: Services, context: RequestContext, request: SaslHandshakeRequest, now: float
) -> SaslHandshakeResponse | None:
    authentication = context.authentication
    if authentication is None:
        return SaslHandshakeResponse(error_code=IllegalSaslState.code or 0, mechanisms=[])
    result = authentication.handshake(request.mechanism, context.version)
    response = SaslHandshakeResponse(error_code=result.error_code, mechanisms=list(result.mechanisms))
    if not result.is_sent:
        context.close()
        return None
    if authentication.has_failed:
        reason = f"SaslHandshake for {request.mechanism!r}: {error_of(result.error_code)}"
        _refuse_later(services, context, authentication, response, reason, now)
        return None
    return response


@api(SaslAuthenticateRequest, 0, 2, access=OPEN, refusal=Refusal(silent=BrokerError))
def authenticate(
    services: Services, context: RequestContext, request: SaslAuthenticateRequest, now: float
) -> SaslAuthenticateResponse | None:
    authentication = context.authentication
    if authentication is None:
        return SaslAuthenticateResponse(
            error_code=IllegalSaslState.code or 0, error_message=NOT_NOW, auth_bytes=b""
        )
    result = authentication.authenticate(bytes(request.auth_bytes), now)
    response = SaslAuthenticateResponse(
        error_code=result.error_code,
        error_message=result.message,
        auth_bytes=result.token,
        session_lifetime_ms=result.session_lifetime_ms,
    )
    if authentication.has_failed:
        _refuse_later(services, context, authentication, response, result.message or "", now)
        return None
    return response


def _refuse_later(
    services: Services,
    context: RequestContext,
    authentication: Authentication,
    response: Response,
    reason: str,
    now: float,
) -> None:
    """Send the response after a delay, and then close the connection."""
    node = services.node
    client, details = (
        context.client_id or "a client without a client_id",
        f"{authentication.mechanism}: {reason}",
    )
    node.events.client_refused(now, node.id, client, details, context.client_host)
    context.delivery.closing = ClosingResponse(resets=False)

    def respond(at: float) -> None:
        if not context.is_complete:
            context.respond(response)

    delay = services.config.seconds("connection.failed.authentication.delay.ms")
    timer = node.wheel.add(now + delay, respond)
    context.abandon = lambda at: node.wheel.cancel(timer)
