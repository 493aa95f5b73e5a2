"""The broker's side of a SASL mechanism: an exchange of tokens and its result.

An exchange is a generator, started by its first `next`. Each `send` passes one token of the client and
returns the broker's token. It returns `Accepted`, or raises one of the two exceptions below. Pure: users and
time are passed in.
"""

from __future__ import annotations

from collections.abc import Generator

import attrs

from pykafka2.errors import KafkaError


@attrs.define(frozen=True)
class Accepted:
    """The result of a successful authentication."""

    name: str
    """The user's name."""
    last_token: bytes = b""
    """The broker's last token, sent with the success response."""
    expires_at_ms: int | None = None
    """When the credential expires, in milliseconds since 1970; None if it does not."""
    is_from_token: bool = False
    """Whether a delegation token authenticated the user."""


Exchange = Generator[bytes, bytes, Accepted]


class SaslRefused(KafkaError):
    """Authentication failed, and the client receives this message, which reveals no secrets."""


class SaslInvalid(KafkaError):
    """Authentication failed, and the client receives only a generic message.

    This message is for the broker's log.
    """
