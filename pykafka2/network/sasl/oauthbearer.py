"""SASL OAUTHBEARER (RFC 7628, KIP-255): a bearer token in place of a password."""

from __future__ import annotations

import json
import re
from functools import partial

import attrs

from pykafka2.errors import SaslAuthenticationFailed, TokenProviderTimedOut
from pykafka2.network.sasl.mechanism import Exchange
from pykafka2.network.sasl.oauth_token import Token, TokenCache, Wish
from pykafka2.network.script import Lane, Offload

GIVE_UP = b"\x01"
"""What the client answers to an error, so that the broker may end the exchange."""

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
        """One token; a broker that refuses it says why, and wants to hear that this was understood."""
        tokens, wish = self.tokens, Wish()
        token: Token
        try:
            work = partial(tokens.current, wish)
            token = yield Offload(work, Lane.TOKENS, tokens.seconds, tokens.overdue)
        except TokenProviderTimedOut:
            token = tokens.give_up()
        finally:
            wish.is_over = True
        try:
            answer = bytes((yield first_message(token)))
        except SaslAuthenticationFailed:
            tokens.refused(token)
            raise
        if answer:
            tokens.refused(token)
            reason = _reason(answer)
            yield GIVE_UP
            raise SaslAuthenticationFailed(
                f"the broker refused the OAUTHBEARER token: {reason}; {self.to_check}"
            )


def first_message(token: Token) -> bytes:
    """The client's one message.  Raises `SaslAuthenticationFailed` for a token that cannot be in one."""
    if not _TOKEN.fullmatch(token.value):
        raise SaslAuthenticationFailed(
            "the OAUTHBEARER token has characters that no bearer token may have; check the token provider"
        )
    pairs = [f"auth=Bearer {token.value}"]
    for name, value in token.extensions.items():
        is_legal = _EXTENSION_NAME.fullmatch(name) and _EXTENSION_VALUE.fullmatch(value) and name != "auth"
        if not is_legal:
            raise SaslAuthenticationFailed(
                f"the SASL extension {name!r} cannot be sent: a name has letters only and is not 'auth', "
                "a value has printable ASCII"
            )
        pairs.append(f"{name}={value}")
    return ("n,,\x01" + "\x01".join(pairs) + "\x01\x01").encode()


def _reason(answer: bytes) -> str:
    """The status in a broker's JSON, as far as it can be read."""
    try:
        return repr(str(json.loads(answer)["status"])[:_LONGEST_SHOWN])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "it does not say why"
