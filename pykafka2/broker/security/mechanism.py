"""What a SASL mechanism is on the broker's side: an exchange of tokens, and how it ends.

An exchange is a generator that is started with its first `next`; each `send` hands it one token of the
client's and gives the broker's answer.  It returns `Accepted`, or raises one of the two refusals below.
Pure: what it has to know of users and time it is given.
"""

from __future__ import annotations

from collections.abc import Generator

import attrs

from pykafka2.errors import KafkaError


@attrs.define(frozen=True)
class Accepted:
    """The client is who it says it is."""

    name: str
    """Of the user."""
    last_token: bytes = b""
    """What the client gets with the news."""
    expires_at_ms: int | None = None
    """When the credential ends, by the time of day; None where it does not."""
    is_from_token: bool = False
    """Whether a delegation token stood for the user."""


Exchange = Generator[bytes, bytes, Accepted]


class SaslRefused(KafkaError):
    """The client is told why, in these words: they give nothing away."""


class SaslInvalid(KafkaError):
    """The client is told no more than that its credentials are not good; the words are for logs here."""
