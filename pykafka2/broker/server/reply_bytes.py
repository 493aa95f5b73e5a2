"""Replies as bytes; the tokens of SASL among them that travel without a response around them.

Called by processors, on the thread that answers.
"""

from __future__ import annotations

from pykafka2.broker.server.request_context import RequestContext
from pykafka2.network.transport import Buffer
from pykafka2.protocol.framing import encode_response
from pykafka2.protocol.messages.sasl import SaslAuthenticateResponse
from pykafka2.protocol.struct import Response

LENGTH_BYTES = 4


def encoded(context: RequestContext, response: Response) -> list[Buffer]:
    """The bytes of a reply; only the first half of them, if its connection is to end so."""
    received, delivery = context.received, context.delivery
    if received.is_raw_token and isinstance(response, SaslAuthenticateResponse):
        payload = _raw_answer(response)
    else:
        version = 0 if received.is_unsupported else received.version
        body = None if delivery.throttle else delivery.known_body
        payload = encode_response(response, version, received.correlation_id, body)
    if delivery.closing is not None and delivery.closing.sends_half:
        whole = b"".join(payload)
        payload = [whole[: len(whole) // 2]]
    delivery.reply_bytes = sum(map(len, payload))
    return payload


def _raw_answer(response: SaslAuthenticateResponse) -> list[Buffer]:
    """The broker's token with its length; an error is told by the end of the connection alone."""
    if response.error_code:
        return []
    token = bytes(response.auth_bytes)
    return [len(token).to_bytes(LENGTH_BYTES, "big") + token]
