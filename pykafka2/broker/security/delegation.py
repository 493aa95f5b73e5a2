"""Delegation tokens (KIP-48): what one is, who may see and renew it, and how its owner logs in with it.

A token stands for its owner: its id and the HMAC of it are name and password for SCRAM.  Immutable, but for
what is hashed only when it is needed; kept in the metadata.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Collection, Mapping

import attrs

from pykafka2.broker.security.caller import ANONYMOUS, Caller, Principal
from pykafka2.broker.security.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism, ScramUser


class TokenCredentials:
    """What a token's owner logs in with, by mechanism: the password is the HMAC in base64.

    Hashed when it is first asked for: anybody who has logged in may have any number of tokens made, and most
    serve by one mechanism.  Under the cluster's lock.
    """

    __slots__ = ("_hmac", "_known", "_salts")

    def __init__(self, token_hmac: bytes, salts: Mapping[ScramMechanism, bytes]) -> None:
        self._hmac = token_hmac
        self._salts = salts
        self._known: dict[ScramMechanism, ScramCredential] = {}

    def of(self, kind: ScramMechanism) -> ScramCredential:
        """Those for one mechanism."""
        known = self._known.get(kind)
        if known is None:
            password = base64.b64encode(self._hmac).decode()
            salt = self._salts[kind]
            known = ScramCredential.of_password(kind.sasl_name, password, salt, MIN_ITERATIONS)
            self._known[kind] = known
        return known


@attrs.define(frozen=True)
class DelegationToken:
    """One token.  Times are milliseconds since 1970."""

    id: str
    owner: Principal
    requester: Principal
    """Who asked for it."""
    renewers: tuple[Principal, ...]
    issued_at_ms: int
    max_at_ms: int
    """Until when it may be renewed."""
    expires_at_ms: int
    hmac: bytes = attrs.field(repr=False)
    credentials: TokenCredentials = attrs.field(repr=False)

    def belongs_to(self, principal: Principal) -> bool:
        """Whether this is its owner or one of its renewers."""
        return principal == self.owner or principal in self.renewers

    def is_shown_to(self, principal: Principal) -> bool:
        """Whether this one sees it without a right: owner, renewers, and who has asked for it (KIP-373)."""
        return principal == self.requester or self.belongs_to(principal)

    def is_over(self, now_ms: int) -> bool:
        """Whether it has expired."""
        return now_ms > min(self.expires_at_ms, self.max_at_ms)

    def scram_user(self, kind: ScramMechanism, now_ms: int) -> ScramUser | None:
        """Whom a SCRAM message with its id stands for; None once it is over."""
        if self.is_over(now_ms):
            return None
        owner = self.owner.name
        return ScramUser(
            owner, self.credentials.of(kind), is_from_token=True, expires_at_ms=self.expires_at_ms
        )


def hmac_of(secret_key: str, token_id: str) -> bytes:
    """What proves that the cluster has made a token: HMAC-SHA-512 of its id."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def may_ask(caller: Caller) -> bool:
    """Whether requests about tokens are taken from who asks so: known by other means than a token."""
    if caller.protocol == "PLAINTEXT" or caller.principal.is_from_token:
        return False
    return caller.protocol != "SSL" or caller.principal != ANONYMOUS


def is_asked_for(token: DelegationToken, owners: Collection[Principal] | None) -> bool:
    """Whether a token is of one of these owners, renewers or requesters; None asks for all."""
    return owners is None or any(token.is_shown_to(one) for one in owners)
