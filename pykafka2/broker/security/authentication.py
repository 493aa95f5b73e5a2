"""SASL authentication of one connection: allowed requests, resulting principal, session expiry; mechanisms.

Kafka's SaslServerAuthenticator as a state table. Before authentication a client can only request ApiVersions,
choose a mechanism and send tokens; any other request is rejected before it is decoded. A session can expire
(KIP-368). The client must then re-authenticate on the same connection, as the same principal and with the
same mechanism; otherwise its next request after the expiry closes the connection.

Sans-IO. The processor calls `admit`, handlers call everything else, never at the same time: while a request
is in progress nothing more is read from the connection.

One `Credentials` serves all brokers of a cluster with passwords and token rules, which a test sets. SCRAM
credentials and delegation tokens come from each broker's metadata. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import attrs

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.security.oauthbearer import TokenRules, WebKeys, oauthbearer
from pykafka2.broker.security.principal import USER, Caller, Principal
from pykafka2.broker.security.sasl import Accepted, Exchange, Passwords, SaslInvalid, SaslRefused, plain
from pykafka2.broker.security.scram import KINDS, ScramMechanism, ScramUser, scram
from pykafka2.errors import (
    IllegalSaslState,
    IllegalTransition,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
)
from pykafka2.protocol.registry import ApiKey, name_of

MECHANISMS = ("PLAIN", *KINDS, "OAUTHBEARER")
"""All implemented mechanisms."""


def token_rules(config: BrokerConfig, key: str | WebKeys | None) -> TokenRules:
    """Return the OAUTHBEARER rules from the broker options; a key accepts only tokens signed with it."""
    return TokenRules(
        key,
        tuple(config.get("sasl.oauthbearer.expected.audience")),
        config.get("sasl.oauthbearer.expected.issuer"),
        config.get("sasl.oauthbearer.sub.claim.name"),
        # As in Kafka: its validator for tests allows no clock skew, the one for signed tokens 30 seconds.
        0.0 if key is None else float(config.int("sasl.oauthbearer.clock.skew.seconds")),
    )


@attrs.define(eq=False)
class Credentials:
    """Credentials outside the metadata, and the mechanisms that a test disabled."""

    passwords: Passwords = attrs.field(factory=Passwords)
    tokens: TokenRules = attrs.field(factory=TokenRules)
    refused_mechanisms: set[str] = attrs.field(factory=set)
    """Mechanisms that no listener offers now, although they are enabled."""
    is_touched: bool = False
    """Whether a test has changed the initial credentials."""


@attrs.define(eq=False)
class SaslListener:
    """SASL settings of one listener of a broker."""

    credentials: Credentials
    enabled: tuple[str, ...]
    scram_user: Callable[[ScramMechanism, str, bool], ScramUser | None]
    new_nonce: Callable[[], str]
    wall_ms: Callable[[], int]
    max_reauth_ms: int = 0
    """connections.max.reauth.ms; 0: a session expires only with its credential."""
    max_frame_bytes: int = 524_288
    """sasl.server.max.receive.size: the limit of a frame before authentication."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that are offered now."""
        refused = self.credentials.refused_mechanisms
        return tuple(name for name in self.enabled if name not in refused)

    def exchange(self, mechanism: str) -> Exchange:
        """Start the broker's side of one authentication by an offered mechanism."""
        if mechanism == "PLAIN":
            return plain(self.credentials.passwords)
        if mechanism == "OAUTHBEARER":
            return oauthbearer(self.credentials.tokens, lambda: self.wall_ms() / 1000)
        kind = KINDS[mechanism]
        return scram(mechanism, lambda name, is_token: self.scram_user(kind, name, is_token), self.new_nonce)


# Minimum interval between re-authentications; a client that is faster is rejected (Kafka's KafkaChannel).
MIN_REAUTH_INTERVAL = 1.0
# Limit of an error message, which may quote names of the client: a response cannot hold more than Kafka's
# longest string.
MAX_MESSAGE_LENGTH = 8_000


class SaslState(Enum):
    """States of one connection; the values are used in messages."""

    START = "the client can request ApiVersions or choose a mechanism"
    VERSIONS_SENT = "the client must choose a mechanism"
    AUTHENTICATING = "tokens are exchanged"
    COMPLETE = "the client has authenticated"
    OTHER_MECHANISM = "the client tried to re-authenticate with another mechanism"
    FAILED = "authentication failed; the connection closes after the response"


_S = SaslState
LEGAL_MOVES: dict[SaslState, frozenset[SaslState]] = {
    _S.START: frozenset({_S.VERSIONS_SENT, _S.AUTHENTICATING, _S.FAILED}),
    _S.VERSIONS_SENT: frozenset({_S.AUTHENTICATING, _S.FAILED}),
    _S.AUTHENTICATING: frozenset({_S.COMPLETE, _S.FAILED}),
    _S.COMPLETE: frozenset({_S.AUTHENTICATING, _S.OTHER_MECHANISM, _S.FAILED}),
    _S.OTHER_MECHANISM: frozenset(),
    _S.FAILED: frozenset(),
}

TAKEN: dict[SaslState, frozenset[int]] = {
    _S.START: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    _S.VERSIONS_SENT: frozenset({ApiKey.SASL_HANDSHAKE}),
    _S.AUTHENTICATING: frozenset({ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_HANDSHAKE}),
    _S.OTHER_MECHANISM: frozenset(),
    _S.FAILED: frozenset(),
}
"""Requests allowed in each state; all are allowed once the client has authenticated."""


class NotAdmitted(KafkaError):
    """A request that is not allowed in this state; the connection is closed without decoding the request."""


@attrs.define(frozen=True)
class HandshakeResult:
    """The response to SaslHandshake; with an error the connection closes."""

    error_code: int
    mechanisms: tuple[str, ...]
    is_sent: bool = True
    """Whether the response is sent; if not, the connection closes without one."""


@attrs.define(frozen=True)
class TokenResult:
    """The response to a token; with an error the connection closes."""

    error_code: int = 0
    message: str | None = ""
    token: bytes = attrs.field(default=b"", repr=False)
    session_lifetime_ms: int = 0


class Authentication:
    """Authentication state of one connection. `caller` is anonymous until authentication is complete."""

    def __init__(self, listener: SaslListener, caller: Caller, wall_ms: Callable[[], int]) -> None:
        self.state = SaslState.START
        self.caller = caller
        self.mechanism = ""
        self.session_ends_at: float | None = None
        """Monotonic time when the session expires; None: never."""
        self._listener = listener
        self._wall_ms = wall_ms
        self._exchange: Exchange | None = None
        self._takes_raw_tokens = False
        self._is_renewing = False
        self._handshake_is_ours = True
        self._last_renewal_at: float | None = None

    def __repr__(self) -> str:
        return f"<{self.mechanism or 'no mechanism yet'}, {self.caller.principal}: {self.state.value}>"

    # ------------------------------------------------------------------ called by the processor

    @property
    def is_complete(self) -> bool:
        """Whether the client can send any request."""
        return self.state is SaslState.COMPLETE

    @property
    def has_failed(self) -> bool:
        """Whether authentication failed: the connection closes after the next response."""
        return self.state is SaslState.FAILED

    @property
    def max_frame_bytes(self) -> int | None:
        """The maximum size of the next frame; None: the broker's usual limit."""
        return None if self.is_complete else self._listener.max_frame_bytes

    @property
    def takes_raw_token(self) -> bool:
        """Whether the next frame is a bare token instead of a request: after SaslHandshake version 0."""
        return self._takes_raw_tokens and self.state is SaslState.AUTHENTICATING

    def admit(self, api_key: int, now: float) -> None:
        """Check whether a request is allowed.

        Raise `NotAdmitted`; only the request's header has been read then.
        """
        if self.state is not SaslState.COMPLETE:
            if api_key not in TAKEN[self.state]:
                raise NotAdmitted(f"{name_of(api_key)} before authentication: {self.state.value}")
            return
        ends_at = self.session_ends_at
        # Without an expiry there is nothing to renew: the handler rejects the handshake.
        self._handshake_is_ours = False
        if ends_at is None:
            return
        if api_key == ApiKey.SASL_HANDSHAKE and self._may_renew(now):
            self._handshake_is_ours = True
            self._last_renewal_at = now
        elif now > ends_at:
            raise NotAdmitted(f"the session of {self.caller.principal} has expired")

    def _may_renew(self, now: float) -> bool:
        last = self._last_renewal_at
        return last is None or now - last >= MIN_REAUTH_INTERVAL

    # ------------------------------------------------------------------ called by handlers

    def versions_sent(self) -> None:
        """Record a response to ApiVersions; without effect after authentication."""
        if self.state is SaslState.START:
            self._move_to(SaslState.VERSIONS_SENT)

    def handshake(self, mechanism: str, version: int) -> HandshakeResult:
        """Handle the client's choice of a mechanism."""
        offered = self._listener.mechanisms
        if not self._handshake_is_ours:
            return HandshakeResult(IllegalSaslState.code or 0, ())
        if self.state is SaslState.AUTHENTICATING:
            self._move_to(SaslState.FAILED)
            return HandshakeResult(IllegalSaslState.code or 0, ())
        self._is_renewing = self.state is SaslState.COMPLETE
        if mechanism not in offered:
            self._move_to(SaslState.FAILED)
            # Kafka sends no response to a re-authentication with a mechanism that is not enabled.
            return HandshakeResult(UnsupportedSaslMechanism.code or 0, offered, is_sent=not self._is_renewing)
        if self._is_renewing and mechanism != self.mechanism:
            self._move_to(SaslState.OTHER_MECHANISM)
            return HandshakeResult(0, offered)
        self.mechanism = mechanism
        self._takes_raw_tokens = version == 0
        self._exchange = self._listener.exchange(mechanism)
        next(self._exchange)
        self._move_to(SaslState.AUTHENTICATING)
        return HandshakeResult(0, offered)

    def authenticate(self, token: bytes, now: float) -> TokenResult:
        """Handle the client's next token."""
        exchange = self._exchange
        if self.state is not SaslState.AUTHENTICATING or exchange is None:
            code = IllegalSaslState.code or 0
            return TokenResult(code, "SaslAuthenticate request received after successful authentication")
        try:
            return TokenResult(token=exchange.send(token))
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
        """Fail the authentication regardless of the credentials, for a test."""
        self._exchange = None
        if _S.FAILED in LEGAL_MOVES[self.state]:
            self._move_to(SaslState.FAILED)

    def expire(self, now: float) -> None:
        """End the session now, for a test.

        The client's next request, unless SaslHandshake, closes the connection.
        """
        self.session_ends_at = now

    # ------------------------------------------------------------------ internals

    @property
    def _what(self) -> str:
        return "re-authentication" if self._is_renewing else "authentication"

    def _accept(self, accepted: Accepted, now: float) -> TokenResult:
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
        return TokenResult(token=accepted.last_token, session_lifetime_ms=lifetime_ms or 0)

    def _lifetime_ms(self, accepted: Accepted) -> int | None:
        """Return the shorter of the credential's lifetime and connections.max.reauth.ms."""
        ends = [self._listener.max_reauth_ms] if self._listener.max_reauth_ms > 0 else []
        if accepted.expires_at_ms is not None:
            ends.append(accepted.expires_at_ms - self._wall_ms())
        return max(min(ends), 0) if ends else None

    def _fail(self, message: str) -> TokenResult:
        self._exchange = None
        self._move_to(SaslState.FAILED)
        shortened = message if len(message) <= MAX_MESSAGE_LENGTH else f"{message[:MAX_MESSAGE_LENGTH]}..."
        return TokenResult(SaslAuthenticationFailed.code or 0, shortened)

    def _move_to(self, state: SaslState) -> None:
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(self.state, state)
        self.state = state
