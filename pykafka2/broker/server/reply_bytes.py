"""Encoding of responses, including bare SASL tokens.

Called by processors, on the thread that sends the response.
"""

from __future__ import annotations

from pykafka2.broker.server.request_context import RequestContext
from pykafka2.errors import SerializationError
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.framing import encode_response, in_memory
from pykafka2.protocol.messages.sasl import SaslAuthenticateResponse
from pykafka2.protocol.primitives import FramePart
from pykafka2.protocol.struct import Response, Struct

LENGTH_BYTES = 4
WORDED = ("error_message", "batch_index_error_message")
# A character has at most four bytes, and Kafka's longest string 32,767.
MAX_MESSAGE_LENGTH = 8_000


def encoded(context: RequestContext, response: Response, *, sends_files: bool = False) -> list[FramePart]:
    """Encode a response in parts; only its first half if the connection is to close that way.

    File parts remain if the connection `sends_files`; otherwise they are read here, since no file is read on
    a network thread.
    """
    received, delivery = context.received, context.delivery
    if received.is_raw_token and isinstance(response, SaslAuthenticateResponse):
        payload = _raw_answer(response)
    else:
        version = 0 if received.is_unsupported else received.version
        body = None if delivery.throttle else delivery.known_body
        payload = answer_bytes(response, version, received.correlation_id, body)
    if not sends_files:
        payload = [*in_memory(payload)]
    if delivery.closing is not None and delivery.closing.sends_half:
        whole = b"".join(in_memory(payload))
        payload = [whole[: len(whole) // 2]]
    delivery.reply_bytes = sum(map(len, payload))
    return payload


def answer_bytes(
    response: Response, version: int, correlation_id: int, body: bytes | None = None
) -> list[FramePart]:
    """Encode a response with its length; use `body` if it is already encoded.

    Error messages that do not fit are cut: they quote names from clients, which can have 32 KiB.
    """
    try:
        return encode_response(response, version, correlation_id, body)
    except SerializationError:
        if not _cut_words(response):
            raise
        return encode_response(response, version, correlation_id, body)


def _cut_words(struct: Struct) -> bool:
    """Shorten long error messages of a response. Return whether there were any."""
    has_cut = False
    for field in resolved_fields(type(struct)):
        value = getattr(struct, field.name)
        if field.name in WORDED and value is not None and len(value) > MAX_MESSAGE_LENGTH:
            setattr(struct, field.name, f"{value[:MAX_MESSAGE_LENGTH]}...")
            has_cut = True
        elif field.struct is not None and value is not None:
            for inner in value if field.array else (value,):
                has_cut |= _cut_words(inner)
    return has_cut


def _raw_answer(response: SaslAuthenticateResponse) -> list[FramePart]:
    """Return the broker's token with its length; an error only closes the connection."""
    if response.error_code:
        return []
    token = bytes(response.auth_bytes)
    return [len(token).to_bytes(LENGTH_BYTES, "big") + token]
