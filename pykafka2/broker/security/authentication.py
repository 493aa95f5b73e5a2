"""The SASL side of one connection on the broker: what it takes when, who it turns out to be, until when.

Kafka's SaslServerAuthenticator as a state table.  Until a client has authenticated it may ask for the
versions, choose a mechanism and send its tokens; everything else is refused before it is read.  A session may
have an end (KIP-368): the client authenticates again on the same connection, as the same principal and by the
same mechanism, or the next request after the end costs it the connection.

Sans-IO.  `admit` is asked by the processor, everything else by handlers, never both at a time: while a
request is under way nothing more is read from the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import attrs

from pykafka2.broker.security.caller import USER, Caller, Principal
from pykafka2.broker.security.mechanism import Accepted, Exchange, SaslInvalid, SaslRefused
from pykafka2.broker.security.mechanisms import SaslListener
from pykafka2.errors import (
    IllegalSaslState,
    IllegalTransition,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
)
from pykafka2.protocol.registry import ApiKey, name_of

# A client that would authenticate more often is told that it need not (Kafka's KafkaChannel).
MIN_REAUTH_INTERVAL = 1.0
# Of what a client is told, which may quote names of its own: more than Kafka's longest string cannot leave.
MAX_WORDS = 8_000


class SaslState(Enum):
    """Of one connection; the values are for messages."""

    START = "a client may ask for the versions or choose a mechanism"
    VERSIONS_TOLD = "a client has to choose a mechanism"
    AUTHENTICATING = "tokens go to and fro"
    COMPLETE = "a client has authenticated"
    OTHER_MECHANISM = "a client wanted to authenticate again by another mechanism"
    FAILED = "a client is told why it was refused, and then cut off"


_S = SaslState
LEGAL_MOVES: dict[SaslState, frozenset[SaslState]] = {
    _S.START: frozenset({_S.VERSIONS_TOLD, _S.AUTHENTICATING, _S.FAILED}),
    _S.VERSIONS_TOLD: frozenset({_S.AUTHENTICATING, _S.FAILED}),
    _S.AUTHENTICATING: frozenset({_S.COMPLETE, _S.FAILED}),
    _S.COMPLETE: frozenset({_S.AUTHENTICATING, _S.OTHER_MECHANISM, _S.FAILED}),
    _S.OTHER_MECHANISM: frozenset(),
    _S.FAILED: frozenset(),
}

TAKEN: dict[SaslState, frozenset[int]] = {
    _S.START: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    _S.VERSIONS_TOLD: frozenset({ApiKey.SASL_HANDSHAKE}),
    _S.AUTHENTICATING: frozenset({ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_HANDSHAKE}),
    _S.OTHER_MECHANISM: frozenset(),
    _S.FAILED: frozenset(),
}
"""What may be asked in each state; everything once a client has authenticated."""


class NotAdmitted(KafkaError):
    """A request that this connection may not send now: it is closed, and nothing of the request read."""


@attrs.define(frozen=True)
class HandshakeAnswer:
    """What a client hears of the mechanism it chose; with an error the connection ends."""

    error_code: int
    mechanisms: tuple[str, ...]
    is_told: bool = True
    """Whether the client hears of it; else its connection just ends."""


@attrs.define(frozen=True)
class TokenAnswer:
    """What a client hears of its token; with an error the connection ends."""

    error_code: int = 0
    message: str | None = ""
    token: bytes = attrs.field(default=b"", repr=False)
    session_lifetime_ms: int = 0


class Authentication:
    """Of one connection.  `caller` is nobody known until it is complete."""

    def __init__(self, listener: SaslListener, caller: Caller, wall_ms: Callable[[], int]) -> None:
        self.state = SaslState.START
        self.caller = caller
        self.mechanism = ""
        self.session_ends_at: float | None = None
        """By the monotonic clock; None: never."""
        self._listener = listener
        self._wall_ms = wall_ms
        self._exchange: Exchange | None = None
        self._takes_raw_tokens = False
        self._is_renewing = False
        self._handshake_is_ours = True
        self._last_renewal_at: float | None = None

    def __repr__(self) -> str:
        return f"<{self.mechanism or 'no mechanism yet'}, {self.caller.principal}: {self.state.value}>"

    # ------------------------------------------------------------------ the processor asks

    @property
    def is_complete(self) -> bool:
        """Whether the client may ask anything."""
        return self.state is SaslState.COMPLETE

    @property
    def has_failed(self) -> bool:
        """Whether the client was refused: its connection ends with the next answer."""
        return self.state is SaslState.FAILED

    @property
    def max_frame_bytes(self) -> int | None:
        """The longest frame that is taken now; None: as long as the broker takes any."""
        return None if self.is_complete else self._listener.max_frame_bytes

    @property
    def takes_raw_token(self) -> bool:
        """Whether the next frame is a token and no request: after SaslHandshake version 0."""
        return self._takes_raw_tokens and self.state is SaslState.AUTHENTICATING

    def admit(self, api_key: int, now: float) -> None:
        """Let a request in.  Raises `NotAdmitted`; nothing of it has been read then but its header."""
        if self.state is not SaslState.COMPLETE:
            if api_key not in TAKEN[self.state]:
                raise NotAdmitted(f"{name_of(api_key)} before authentication: {self.state.value}")
            return
        ends_at = self.session_ends_at
        # Without an end there is nothing to renew: the handler says that a handshake is out of place.
        self._handshake_is_ours = False
        if ends_at is None:
            return
        if api_key == ApiKey.SASL_HANDSHAKE and self._may_renew(now):
            self._handshake_is_ours = True
            self._last_renewal_at = now
        elif now > ends_at:
            raise NotAdmitted(f"the session of {self.caller.principal} is over")

    def _may_renew(self, now: float) -> bool:
        last = self._last_renewal_at
        return last is None or now - last >= MIN_REAUTH_INTERVAL

    # ------------------------------------------------------------------ handlers tell

    def versions_told(self) -> None:
        """The client's ApiVersions was answered; of one that has authenticated it changes nothing."""
        if self.state is SaslState.START:
            self._move_to(SaslState.VERSIONS_TOLD)

    def handshake(self, mechanism: str, version: int) -> HandshakeAnswer:
        """The client has chosen a mechanism."""
        offered = self._listener.mechanisms
        if not self._handshake_is_ours:
            return HandshakeAnswer(IllegalSaslState.code or 0, ())
        if self.state is SaslState.AUTHENTICATING:
            self._move_to(SaslState.FAILED)
            return HandshakeAnswer(IllegalSaslState.code or 0, ())
        self._is_renewing = self.state is SaslState.COMPLETE
        if mechanism not in offered:
            self._move_to(SaslState.FAILED)
            # Kafka has no answer for who wants to renew a session by such a one.
            return HandshakeAnswer(UnsupportedSaslMechanism.code or 0, offered, is_told=not self._is_renewing)
        if self._is_renewing and mechanism != self.mechanism:
            self._move_to(SaslState.OTHER_MECHANISM)
            return HandshakeAnswer(0, offered)
        self.mechanism = mechanism
        self._takes_raw_tokens = version == 0
        self._exchange = self._listener.exchange(mechanism)
        next(self._exchange)
        self._move_to(SaslState.AUTHENTICATING)
        return HandshakeAnswer(0, offered)

    def authenticate(self, token: bytes, now: float) -> TokenAnswer:
        """The client's next token."""
        exchange = self._exchange
        if self.state is not SaslState.AUTHENTICATING or exchange is None:
            code = IllegalSaslState.code or 0
            return TokenAnswer(code, "SaslAuthenticate request received after successful authentication")
        try:
            return TokenAnswer(token=exchange.send(token))
        except StopIteration as end:
            return self._accept(end.value, now)
        except SaslRefused as error:
            return self._fail(str(error))
        except SaslInvalid:
            return self._fail(
                f"Authentication failed during {self._what} due to invalid credentials with SASL mechanism "
                f"{self.mechanism}"
            )

    def refuse(self) -> None:
        """The client is refused, whatever it has sent: as a test may want it."""
        self._exchange = None
        if _S.FAILED in LEGAL_MOVES[self.state]:
            self._move_to(SaslState.FAILED)

    def expire(self, now: float) -> None:
        """End the session now, as a test may want it: the client's next request but SaslHandshake ends the
        connection.
        """
        self.session_ends_at = now

    # ------------------------------------------------------------------ inner parts

    @property
    def _what(self) -> str:
        return "re-authentication" if self._is_renewing else "authentication"

    def _accept(self, accepted: Accepted, now: float) -> TokenAnswer:
        principal = Principal(USER, accepted.name, accepted.is_from_token)
        before = self.caller.principal
        if self._is_renewing and principal != before:
            return self._fail(
                f"Cannot change principals during re-authentication from {before.kind}.{before.name}: "
                f"{principal.kind}.{principal.name}"
            )
        lifetime_ms = self._lifetime_ms(accepted)
        self.session_ends_at = None if lifetime_ms is None else now + lifetime_ms / 1000
        self._exchange = None
        self.caller = attrs.evolve(self.caller, principal=principal)
        self._move_to(SaslState.COMPLETE)
        return TokenAnswer(token=accepted.last_token, session_lifetime_ms=lifetime_ms or 0)

    def _lifetime_ms(self, accepted: Accepted) -> int | None:
        """The shorter of what the credential and connections.max.reauth.ms allow."""
        ends = [self._listener.max_reauth_ms] if self._listener.max_reauth_ms > 0 else []
        if accepted.expires_at_ms is not None:
            ends.append(accepted.expires_at_ms - self._wall_ms())
        return max(min(ends), 0) if ends else None

    def _fail(self, words: str) -> TokenAnswer:
        self._exchange = None
        self._move_to(SaslState.FAILED)
        told = words if len(words) <= MAX_WORDS else f"{words[:MAX_WORDS]}..."
        return TokenAnswer(SaslAuthenticationFailed.code or 0, told)

    def _move_to(self, state: SaslState) -> None:
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(self.state, state)
        self.state = state
