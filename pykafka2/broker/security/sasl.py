"""The broker's side of SASL mechanisms: an exchange of tokens and its result; PLAIN (RFC 4616).

An exchange is a generator, started by its first `next`. Each `send` passes one token of the client and
returns the broker's token. It returns `Accepted`, or raises one of the two exceptions below. Pure: users and
time are passed in.

The checks and messages are those of Kafka's PlainSaslServer. An unknown user takes as long as a wrong
password and gets the same response.
"""

from __future__ import annotations

import hmac
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


_FOR_UNKNOWN_USERS = "compared with the password of an unknown user"


class Passwords:
    """Users of PLAIN with their passwords, which `repr` does not show. Access requires the cluster's lock."""

    def __init__(self) -> None:
        self._passwords: dict[str, str] = {}

    def set(self, user: str, password: str) -> None:
        """Add a user, or replace its password."""
        self._passwords[user] = password

    def remove(self, user: str) -> bool:
        """Remove a user. Return whether it existed."""
        return self._passwords.pop(user, None) is not None

    def __contains__(self, user: str) -> bool:
        return user in self._passwords

    def accept(self, user: str, password: str) -> bool:
        """Return whether this is the user's password."""
        known = self._passwords.get(user)
        expected = _FOR_UNKNOWN_USERS if known is None else known
        is_equal = hmac.compare_digest(expected.encode(), password.encode())
        return is_equal and known is not None


def plain(passwords: Passwords) -> Exchange:
    """Run one exchange: authorization id, user and password, separated by NUL."""
    token = yield b""
    try:
        parts = bytes(token).decode().split("\0", 3)
    except UnicodeDecodeError:
        raise SaslInvalid("the PLAIN message is not UTF-8") from None
    if len(parts) != 3:
        raise SaslRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    on_behalf_of, user, password = parts
    if not user:
        raise SaslRefused("Authentication failed: username not specified")
    if not password:
        raise SaslRefused("Authentication failed: password not specified")
    if not passwords.accept(user, password):
        raise SaslRefused("Authentication failed: Invalid username or password")
    if on_behalf_of not in ("", user):
        raise SaslRefused(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    return Accepted(user)
