"""A bearer token, and where the current one comes from.

A `TokenCache` asks its source again when most of a token's life is over.  `current` may block (the source is
a user's callable or an authority across the network), so it is called off the IO thread; several connections
that need a token at once ask once.  What happens to a source that never answers is said at `TokenCache`.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pykafka2.errors import SaslAuthenticationFailed, TokenExpired, TokenProviderTimedOut
from pykafka2.logs import ClientLogger
from pykafka2.option_fields import hidden

REFRESH_AT = 0.8
"""Share of a token's life after which another is asked for, as in Java (sasl.login.refresh.window.factor)."""

REFUSED_FOR = 10.0
"""Seconds for which a token is used even if brokers refuse it: another right after it would be refused, too,
and no authority is to be asked with each attempt to connect."""

MAX_GIVEN_UP = 3
"""Calls of a source that do not come back: fewer than its lane has threads, so the next is told at once."""


@attrs.define(frozen=True)
class Token:
    """An access token.  `expires_at` is in seconds since 1970, None if nobody knows; then it is used once."""

    value: str = attrs.field(repr=hidden)
    expires_at: float | None = None
    principal: str = ""
    extensions: Mapping[str, str] = attrs.field(factory=dict)


@attrs.define
class Wish:
    """That of one connection for a token; over when nobody waits for it any more."""

    is_over: bool = False


class TokenCache:
    """The newest token of a source.  Thread-safe.

    `wall_seconds` tells the time of day; `seconds` is how long the source, which `called` names for errors,
    may take.  A source that fails or hangs while the last token is good is logged, and asked again with the
    next connection; what it raises otherwise is raised as `SaslAuthenticationFailed`, or as
    `TokenProviderTimedOut`.

    One call of the source is under way at a time.  One that hangs is given up: the next asks anew, on
    another thread, until `MAX_GIVEN_UP` have not come back.
    """

    def __init__(
        self,
        source: Callable[[], Token],
        wall_seconds: Callable[[], float],
        client_id: str,
        seconds: float = 10.0,
        called: str = "the token provider",
    ) -> None:
        self.seconds = seconds
        self._source = source
        self._called = called
        self._wall_seconds = wall_seconds
        self._log = ClientLogger(__name__, client_id)
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        """Held by who calls the source; another takes its place when that call is given up."""
        self._given_up: set[threading.Lock] = set()
        self._calls = 0
        self._token: Token | None = None
        self._token_of_call = 0
        self._refresh_at = 0.0
        self._kept_at = 0.0

    def current(self, wish: Wish | None = None) -> Token:
        """A token that is good now.  Blocks.  Raises `SaslAuthenticationFailed`, `TokenExpired`.

        For a wish that is over the source is not asked.
        """
        wish = Wish() if wish is None else wish
        with self._lock:
            turn = self._turn
            known = self._known(self._wall_seconds())
            is_stuck = len(self._given_up) >= MAX_GIVEN_UP
        if known is not None:
            return known
        if is_stuck or not turn.acquire(timeout=min(self.seconds, threading.TIMEOUT_MAX)):
            if wish.is_over:
                raise self.overdue()
            return self.give_up(turn)
        if turn is not self._turn:
            # It was given up while this waited for it: the next call may be under way by now.
            turn.release()
            return self.current()
        try:
            now = self._wall_seconds()
            return self._known(now) or self._asked(now, wish)
        except SaslAuthenticationFailed as error:
            if wish.is_over:
                raise
            return self._last(error)
        finally:
            turn.release()
            with self._lock:
                self._given_up.discard(turn)

    def overdue(self) -> TokenProviderTimedOut:
        """The error for a source that takes too long."""
        stuck = len(self._given_up)
        more = f"; {stuck} calls of it have not come back" if stuck > 1 else ""
        return TokenProviderTimedOut(
            f"{self._called} gave no OAUTHBEARER token within {self.seconds:g} s{more}"
        )

    def give_up(self, turn: threading.Lock | None = None) -> Token:
        """The call of the source that is under way takes too long: the next asks anew.  The last token while
        it is good; else raises `TokenProviderTimedOut`."""
        with self._lock:
            if turn in (None, self._turn) and self._turn.locked() and len(self._given_up) < MAX_GIVEN_UP:
                self._given_up.add(self._turn)
                self._turn = threading.Lock()
        return self._last(self.overdue())

    def refused(self, token: Token) -> None:
        """A broker has refused it, as it was revoked perhaps: the next call asks anew, unless this is new."""
        with self._lock:
            if token is self._token and self._wall_seconds() >= self._kept_at + REFUSED_FOR:
                self._token, self._refresh_at = None, 0.0

    def _known(self, now: float) -> Token | None:
        return self._token if now < self._refresh_at else None

    def _last(self, error: SaslAuthenticationFailed) -> Token:
        token = self._token
        if token is None or token.expires_at is None or self._wall_seconds() >= token.expires_at:
            raise error
        self._log.warning("no new token, the last one is used while it is good: %s", error)
        return token

    def _asked(self, now: float, wish: Wish) -> Token:
        """Return the source's token, and keep it if its lifetime is known."""
        if wish.is_over:
            raise self.overdue()
        with self._lock:
            self._calls = number = self._calls + 1
        fresh = self._fresh(now)
        if fresh.expires_at is not None:
            with self._lock:
                # A call that was given up may come back after a later one.
                if number > self._token_of_call:
                    self._refresh_at = now + (fresh.expires_at - now) * REFRESH_AT
                    self._token, self._token_of_call, self._kept_at = fresh, number, now
        return fresh

    def _fresh(self, now: float) -> Token:
        try:
            token = self._source()
        except SaslAuthenticationFailed:
            raise
        except BaseException as error:
            # What a stranger's code says may quote the secret: its type has to do, the cause has the rest.
            raise SaslAuthenticationFailed(
                f"no OAUTHBEARER token: {self._called} raised {type(error).__name__}"
            ) from error
        if token.expires_at is not None and token.expires_at <= now:
            raise TokenExpired(
                f"the OAUTHBEARER token expired {now - token.expires_at:.0f} s ago; check the provider, "
                "and this machine's clock"
            )
        return token


def token_of(given: Any, extensions: Mapping[str, str]) -> Token:
    """Convert the result of a user's callable into a token: text, a `Token`, or confluent-kafka's tuple
    `(token, expires_at[, principal[, extensions]])`, whose extensions win over `extensions`.

    Raises `SaslAuthenticationFailed`.
    """
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
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
