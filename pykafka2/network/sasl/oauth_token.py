"""Bearer tokens and their cache.

A `TokenCache` calls its source again when most of a token's lifetime is over. `current` can block (the source
is a user's callable or an authority across the network), so it is called off the IO thread; connections that
need a token at the same time share one call. `TokenCache` describes how a source that hangs is handled.
"""

from __future__ import annotations

import base64
import json
import math
import os
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any

import attrs

from pykafka2.errors import SaslAuthenticationFailed, TokenExpired, TokenProviderTimedOut
from pykafka2.logs import ClientLogger
from pykafka2.option_fields import hidden
from pykafka2.text import type_of

REFRESH_AT = 0.8
"""Share of a token's lifetime after which it is refreshed, as in Java (sasl.login.refresh.window.factor)."""

BETWEEN_REJECTIONS = 10.0
"""Seconds after a rejected token was dropped, for which the next one is kept even if brokers reject it: a
third one would probably be rejected, too, and the authority must not get a request for each connection."""
MOST_SHARED = 32
"""Caches of tokens that a process keeps; the least recently used one is dropped first."""

Wait = Callable[[Callable[[], bool], float], bool]
"""`Runtime.wait_until` without queues: blocks until the predicate is true, at most for the timeout."""

MAX_HANGING_CALLS = 3
"""Most hanging calls of a source: fewer than its lane has threads, so the next connection fails at once."""


@attrs.define(frozen=True)
class Token:
    """An access token. `expires_at` is in seconds since 1970; if None (unknown), the token is used once."""

    value: str = attrs.field(repr=hidden)
    expires_at: float | None = None
    principal: str = ""
    extensions: Mapping[str, str] = attrs.field(factory=dict)


@attrs.define
class TokenRequest:
    """A connection's request for a token; over when the connection no longer waits for it."""

    is_over: bool = False


class TokenCache:
    """The newest token of a source, for one client or several (`shared_cache`). Thread-safe.

    `wall_seconds` returns the time of day; `seconds` limits a call of the source, `source_name` is its name
    in errors; `wait` blocks in a runtime's time (None: in real time). If the source fails or hangs while the
    last token is valid, that is logged and the next connection calls it again. Otherwise
    SaslAuthenticationFailed or TokenProviderTimedOut is raised.

    One call of the source runs at a time. A call that hangs is abandoned, and the next connection starts
    another on another thread, up to `MAX_HANGING_CALLS` hanging calls.
    """

    def __init__(
        self,
        source: Callable[[], Token],
        wall_seconds: Callable[[], float],
        client_id: str,
        seconds: float = 10.0,
        source_name: str = "the token provider",
        wait: Wait | None = None,
        overdue_error: type[TokenProviderTimedOut] = TokenProviderTimedOut,
    ) -> None:
        self.seconds = seconds
        self._overdue_error = overdue_error
        self._source = source
        self._source_name = source_name
        self._wait = wait
        self._wall_seconds = wall_seconds
        self._log = ClientLogger(__name__, client_id)
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        """Held during a call of the source; replaced when that call is abandoned."""
        self._hanging: set[threading.Lock] = set()
        self._calls = 0
        self._token: Token | None = None
        self._token_of_call = 0
        self._refresh_at = 0.0
        self._dropped_at = -BETWEEN_REJECTIONS

    def current(self, request: TokenRequest | None = None) -> Token:
        """Return a valid token. Block. Raise SaslAuthenticationFailed, TokenExpired.

        The source is not called for a request that is over.
        """
        request = TokenRequest() if request is None else request
        with self._lock:
            turn = self._turn
            known = self._known(self._wall_seconds())
            is_stuck = len(self._hanging) >= MAX_HANGING_CALLS
        if known is not None:
            return known
        if is_stuck or not self._acquire(turn):
            if request.is_over:
                raise self.overdue()
            return self.give_up(turn)
        if turn is not self._turn:
            # The call was abandoned while this waited for its lock; the next call can be under way by now.
            turn.release()
            return self.current(request)
        try:
            now = self._wall_seconds()
            with self._lock:
                known = self._known(now)
            return known or self._request(now, request)
        except SaslAuthenticationFailed as error:
            if request.is_over:
                raise
            return self._last(error)
        finally:
            turn.release()
            with self._lock:
                self._hanging.discard(turn)

    def _acquire(self, turn: threading.Lock) -> bool:
        """Wait for the end of the call that holds the lock; False if it takes longer than the limit."""
        wait = self._wait
        if wait is None:
            return turn.acquire(timeout=min(self.seconds, threading.TIMEOUT_MAX))
        is_acquired = False

        def acquire() -> bool:  # evaluated again after it was true
            nonlocal is_acquired
            is_acquired = is_acquired or turn.acquire(blocking=False)
            return is_acquired

        return wait(acquire, self.seconds)

    def overdue(self) -> TokenProviderTimedOut:
        """Return the error for a source that exceeds its limit."""
        stuck = len(self._hanging)
        more = f"; {stuck} calls of it still hang" if stuck > 1 else ""
        return self._overdue_error(
            f"{self._source_name} returned no OAUTHBEARER token within {self.seconds:g} s{more}"
        )

    def give_up(self, turn: threading.Lock | None = None) -> Token:
        """Abandon the current call of the source, so that the next connection starts another.

        Return the last token while it is valid, otherwise raise TokenProviderTimedOut.
        """
        with self._lock:
            if turn in (None, self._turn) and self._turn.locked() and len(self._hanging) < MAX_HANGING_CALLS:
                self._hanging.add(self._turn)
                self._turn = threading.Lock()
        return self._last(self.overdue())

    def reject(self, token: Token) -> None:
        """Drop a token that a broker rejected (it may be revoked), unless one was dropped just now."""
        now = self._wall_seconds()
        with self._lock:
            if token is self._token and not 0 <= now - self._dropped_at < BETWEEN_REJECTIONS:
                self._token, self._refresh_at, self._dropped_at = None, 0.0, now

    def _known(self, now: float) -> Token | None:
        return self._token if now < self._refresh_at else None

    def _last(self, error: SaslAuthenticationFailed) -> Token:
        token = self._token
        if token is None or token.expires_at is None or self._wall_seconds() >= token.expires_at:
            raise error
        self._log.warning("no new OAUTHBEARER token; the last one is used while it is valid: %s", error)
        return token

    def _request(self, now: float, request: TokenRequest) -> Token:
        """Call the source; keeps its token if the lifetime is known."""
        if request.is_over:
            raise self.overdue()
        with self._lock:
            self._calls = number = self._calls + 1
        fresh = self._fresh(now)
        if fresh.expires_at is not None:
            with self._lock:
                # A call that was abandoned can return after a later one.
                if number > self._token_of_call:
                    self._refresh_at = now + (fresh.expires_at - now) * REFRESH_AT
                    self._token, self._token_of_call = fresh, number
        return fresh

    def _fresh(self, now: float) -> Token:
        try:
            token = self._source()
        except SaslAuthenticationFailed:
            raise
        except BaseException as error:
            # The message of a user's code can contain the secret, so only its type is shown; the cause has
            # the rest.
            raise SaslAuthenticationFailed(
                f"no OAUTHBEARER token: {self._source_name} raised {type(error).__name__}"
            ) from error
        if token.expires_at is not None and token.expires_at <= now:
            raise TokenExpired(
                f"the OAUTHBEARER token expired {now - token.expires_at:.0f} s ago; check the provider, "
                "and this machine's clock"
            )
        return token


_shared: dict[Hashable, TokenCache] = {}
"""Caches by the settings of their source, the last used one at the end."""
_shared_lock = threading.Lock()


def shared_cache(settings: Hashable, make: Callable[[], TokenCache]) -> TokenCache:
    """Return the cache that all clients of this process with these settings share. Thread-safe.

    It outlives them: a program that creates many short-lived clients needs one token.
    """
    with _shared_lock:
        cache = _shared.pop(settings, None) or make()
        _shared[settings] = cache
        if len(_shared) > MOST_SHARED:
            del _shared[next(iter(_shared))]
        return cache


def _forget_shared() -> None:
    """In the child of a fork: threads of the parent can hold the locks, and would never release them."""
    global _shared_lock
    _shared_lock = threading.Lock()
    _shared.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forget_shared)


def token_of(result: Any, extensions: Mapping[str, str]) -> Token:
    """Convert the result of a user's callable into a token.

    Accepts a str, a `Token`, or confluent-kafka's tuple `(token, expires_at[, principal[, extensions]])`,
    whose extensions win over `extensions`. Raise SaslAuthenticationFailed.
    """
    if isinstance(result, Token):
        expires_at = None if result.expires_at is None else _seconds(result.expires_at)
        return _checked(
            attrs.evolve(result, expires_at=expires_at, extensions={**extensions, **result.extensions})
        )
    if isinstance(result, str):
        return Token(result, expiry_of(result), "", extensions)
    if isinstance(result, tuple) and 2 <= len(result) <= 4 and isinstance(result[0], str):
        principal = result[2] if len(result) > 2 else ""
        own = result[3] if len(result) > 3 else {}
        return _checked(Token(result[0], _seconds(result[1]), principal, {**extensions, **own}))
    raise SaslAuthenticationFailed(
        f"the token provider returned {type_of(result)}; it must return a str, a Token, or "
        "(token, expiry in seconds since 1970)"
    )


def _checked(token: Token) -> Token:
    """Return a token of a user's callable if its parts are text.  Raise SaslAuthenticationFailed."""
    parts = [("a value", token.value)]
    parts += [("an extension", text) for pair in token.extensions.items() for text in pair]
    for name, text in parts:
        if not isinstance(text, str):
            raise SaslAuthenticationFailed(
                f"the token provider returned {name} that is {type_of(text)}; it must be a str"
            )
    return token


def _seconds(expires_at: Any) -> float:
    """Return a token's expiry as a float.  Raise SaslAuthenticationFailed without the value, a secret if a
    provider returns another tuple.
    """
    kind = f"that is {type_of(expires_at)}"
    if isinstance(expires_at, int | float):
        with suppress(OverflowError):
            if not math.isnan(expires_at):
                return float(expires_at)
        kind = "that is nan or too large"
    raise SaslAuthenticationFailed(
        f"the token provider returned an expiry {kind}; it must be the number of seconds since 1970"
    )


def expiry_of(value: str) -> float | None:
    """Return the expiry of a JSON web token (its claim `exp`), or None for any other token."""
    parts = value.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        expires_at = float(claims["exp"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return None if math.isnan(expires_at) else expires_at
