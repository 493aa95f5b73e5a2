"""A bearer token, and where the current one comes from.

A `TokenCache` asks its source again when most of a token's life is over.  `current` may block (the source is
a user's callable or an authority across the network), so it is called off the IO thread; several connections
that need a token at once ask once.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pykafka2.errors import SaslAuthenticationFailed, TokenExpired
from pykafka2.logs import ClientLogger
from pykafka2.option_fields import hidden

REFRESH_AT = 0.8
"""Share of a token's life after which another is asked for, as in Java (sasl.login.refresh.window.factor)."""


@attrs.define(frozen=True)
class Token:
    """An access token.  `expires_at` is in seconds since 1970, None if nobody knows; then it is used once."""

    value: str = attrs.field(repr=hidden)
    expires_at: float | None = None
    principal: str = ""
    extensions: Mapping[str, str] = attrs.field(factory=dict)


class TokenCache:
    """The newest token of a source.  Thread-safe.

    `wall_seconds` tells the time of day.  A source that fails while the last token is good is logged, and
    asked again with the next connection; what it raises otherwise is raised as `SaslAuthenticationFailed`.
    """

    def __init__(
        self, source: Callable[[], Token], wall_seconds: Callable[[], float], client_id: str
    ) -> None:
        self._source = source
        self._wall_seconds = wall_seconds
        self._log = ClientLogger(__name__, client_id)
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._refresh_at = 0.0

    def current(self) -> Token:
        """A token that is good now.  Blocks.  Raises `SaslAuthenticationFailed`, `TokenExpired`."""
        with self._lock:
            now = self._wall_seconds()
            token = self._token
            if token is not None and now < self._refresh_at:
                return token
            try:
                fresh = self._fresh(now)
            except SaslAuthenticationFailed as error:
                if token is None or token.expires_at is None or now >= token.expires_at:
                    raise
                self._log.warning("no new token, the last one is used while it is good: %s", error)
                return token
            if fresh.expires_at is not None:
                self._refresh_at = now + (fresh.expires_at - now) * REFRESH_AT
                self._token = fresh
            return fresh

    def _fresh(self, now: float) -> Token:
        try:
            token = self._source()
        except SaslAuthenticationFailed:
            raise
        except Exception as error:
            # What a stranger's code says may quote the secret: its type has to do, the cause has the rest.
            raise SaslAuthenticationFailed(
                f"no OAUTHBEARER token: the token provider raised {type(error).__name__}"
            ) from error
        if token.expires_at is not None and token.expires_at <= now:
            raise TokenExpired(
                f"the OAUTHBEARER token expired {now - token.expires_at:.0f} s ago; check the provider, "
                "and this machine's clock"
            )
        return token


def token_of(given: Any, extensions: Mapping[str, str]) -> Token:
    """What a user's callable returned, as a token: text, a `Token`, or confluent-kafka's tuple
    `(token, expires_at[, principal[, extensions]])`; what it names itself wins over `extensions`.

    Raises `SaslAuthenticationFailed`."""
    if isinstance(given, Token):
        return attrs.evolve(given, extensions={**extensions, **given.extensions})
    if isinstance(given, str):
        return Token(given, expiry_of(given), "", extensions)
    if isinstance(given, tuple) and 2 <= len(given) <= 4 and isinstance(given[0], str):
        principal = given[2] if len(given) > 2 else ""
        own = given[3] if len(given) > 3 else {}
        return Token(given[0], float(given[1]), principal, {**extensions, **own})
    raise SaslAuthenticationFailed(
        f"the token provider returned a {type(given).__name__}; it has to return text, a Token, or "
        "(token, expiry in seconds since 1970)"
    )


def expiry_of(value: str) -> float | None:
    """When a JSON web token says that it expires (its claim `exp`); None for any other token."""
    parts = value.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return None
