"""Delegation tokens (KIP-48): ownership, lifetime and authentication.

A token authenticates its owner: its id and HMAC are the user name and password for SCRAM. Immutable, except
that hashes are computed on first use; stored in the metadata.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Collection, Mapping

import attrs

from pykafka2.broker.security.principal import ANONYMOUS, Caller, Principal
from pykafka2.broker.security.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism, ScramUser


class TokenCredentials:
    """SCRAM credentials of a token, by mechanism; the password is the HMAC in base64.

    Hashed on first use: every authenticated client can create any number of tokens, and most are used with
    one mechanism. Access requires the cluster's lock.
    """

    __slots__ = ("_hmac", "_known", "_salts")

    def __init__(self, token_hmac: bytes, salts: Mapping[ScramMechanism, bytes]) -> None:
        self._hmac = token_hmac
        self._salts = salts
        self._known: dict[ScramMechanism, ScramCredential] = {}

    def of(self, kind: ScramMechanism) -> ScramCredential:
        """Return the credential for one mechanism."""
        known = self._known.get(kind)
        if known is None:
            password = base64.b64encode(self._hmac).decode()
            salt = self._salts[kind]
            known = ScramCredential.of_password(kind.sasl_name, password, salt, MIN_ITERATIONS)
            self._known[kind] = known
        return known


@attrs.define(frozen=True)
class DelegationToken:
    """One delegation token. Times are milliseconds since 1970."""

    id: str
    owner: Principal
    requester: Principal
    """The principal that requested the token."""
    renewers: tuple[Principal, ...]
    issued_at_ms: int
    max_at_ms: int
    """The latest time to which it can be renewed."""
    expires_at_ms: int
    hmac: bytes = attrs.field(repr=False)
    credentials: TokenCredentials = attrs.field(repr=False)

    def belongs_to(self, principal: Principal) -> bool:
        """Return whether the principal is the owner or one of the renewers."""
        return principal == self.owner or principal in self.renewers

    def is_shown_to(self, principal: Principal) -> bool:
        """Return whether the principal can describe the token without an ACL.

        The owner, the renewers and the requester can (KIP-373).
        """
        return principal == self.requester or self.belongs_to(principal)

    def is_over(self, now_ms: int) -> bool:
        """Return whether it has expired."""
        return now_ms > min(self.expires_at_ms, self.max_at_ms)

    def scram_user(self, kind: ScramMechanism, now_ms: int) -> ScramUser | None:
        """Return the user for a SCRAM message with this token's id, or None if the token has expired."""
        if self.is_over(now_ms):
            return None
        owner = self.owner.name
        return ScramUser(
            owner, self.credentials.of(kind), is_from_token=True, expires_at_ms=self.expires_at_ms
        )


def hmac_of(secret_key: str, token_id: str) -> bytes:
    """Return the HMAC-SHA-512 of a token's id, which proves that the cluster created the token."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def may_ask(caller: Caller) -> bool:
    """Return whether the caller can send token requests: it is authenticated, but not by a token."""
    if caller.protocol == "PLAINTEXT" or caller.principal.is_from_token:
        return False
    return caller.protocol != "SSL" or caller.principal != ANONYMOUS


def matches_owners(token: DelegationToken, owners: Collection[Principal] | None) -> bool:
    """Return whether one of `owners` is the token's owner, renewer or requester; None matches every token."""
    return owners is None or any(token.is_shown_to(owner) for owner in owners)
