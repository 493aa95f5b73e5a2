"""SASL OAUTHBEARER (RFC 7628, KIP-255): a bearer token in place of a password."""

from __future__ import annotations

import json
import re
from functools import partial

import attrs

from pykafka2.errors import SaslAuthenticationFailed, TokenProviderTimedOut
from pykafka2.network.sasl.mechanism import Exchange
from pykafka2.network.sasl.oauth_token import Token, TokenCache, TokenRequest
from pykafka2.network.script import Lane, Offload

GIVE_UP = b"\x01"
"""The client's response to an error, after which the broker ends the exchange (RFC 7628)."""

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_LONGEST_SHOWN = 200


@attrs.define(frozen=True)
class OAuthBearer:
    """The mechanism OAUTHBEARER with a cache of tokens."""

    tokens: TokenCache = attrs.field(repr=False)
    name: str = attrs.field(default="OAUTHBEARER", init=False)

    @property
    def to_check(self) -> str:
        return "check the token provider, and the token's lifetime, audience, scope and signature"

    def exchange(self) -> Exchange:
        """Send one token; a broker that rejects it sends the reason and expects an acknowledgement."""
        tokens, request = self.tokens, TokenRequest()
        token: Token
        try:
            work = partial(tokens.current, request)
            token = yield Offload(work, Lane.TOKENS, tokens.seconds, tokens.overdue)
        except TokenProviderTimedOut:
            token = tokens.give_up()
        finally:
            request.is_over = True
        try:
            error = bytes((yield first_message(token)))
        except SaslAuthenticationFailed:
            tokens.reject(token)
            raise
        if error:
            tokens.reject(token)
            reason = _reason(error)
            yield GIVE_UP
            raise SaslAuthenticationFailed(
                f"the broker rejected the OAUTHBEARER token: {reason}; {self.to_check}"
            )


def first_message(token: Token) -> bytes:
    """Return the client's message. Raise SaslAuthenticationFailed for an illegal token or extension."""
    if not _TOKEN.fullmatch(token.value):
        raise SaslAuthenticationFailed(
            "the OAUTHBEARER token has characters that no bearer token can have; check the token provider"
        )
    pairs = [f"auth=Bearer {token.value}"]
    for name, value in token.extensions.items():
        is_legal = _EXTENSION_NAME.fullmatch(name) and _EXTENSION_VALUE.fullmatch(value) and name != "auth"
        if not is_legal:
            raise SaslAuthenticationFailed(
                f"the SASL extension {name!r} cannot be sent: its name must be letters and not 'auth', "
                "its value printable ASCII"
            )
        pairs.append(f"{name}={value}")
    return ("n,,\x01" + "\x01".join(pairs) + "\x01\x01").encode()


def _reason(error: bytes) -> str:
    """Return the status in a broker's JSON, if it can be read."""
    try:
        return repr(str(json.loads(error)["status"])[:_LONGEST_SHOWN])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "no reason given"
