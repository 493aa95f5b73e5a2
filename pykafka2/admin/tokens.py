"""Delegation tokens (KIP-48): made, renewed, ended, described."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pykafka2.admin.arguments import texts
from pykafka2.admin.values import DelegationToken
from pykafka2.driver.pollable import AnyNode
from pykafka2.errors import IllegalArgument, KafkaError, error_of

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient

LONGEST_SECONDS = 2**63 // 1000
"""What a request can carry, in its milliseconds."""


class TokensAdmin:
    """The part of `KafkaAdminClient` that is about delegation tokens.  Times in seconds; thread-safe.

    Brokers take these calls from those alone who have authenticated, and not with a token.  All raise:
        DelegationTokenAuthDisabled: the brokers have no delegation.token.secret.key.
        DelegationTokenRequestNotAllowed: you came by a listener without authentication, or by a token.
        IllegalArgument: an argument is not what is said here; nothing was sent.
    """

    _cluster: ClusterClient

    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime: float | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        """A new token.  Whoever has it can log in as its owner.

        Each attempt makes one: after a `KafkaTimeoutError` there may be a token that nobody knows, until it
        expires.

        Args:
            owner: whom it stands for, such as "User:ann"; default: yourself.
            renewers: principals who may renew and end it besides the owner.
            max_lifetime: how long it can be renewed; default, and at most: the brokers' own setting.

        Raises:
            DelegationTokenAuthorizationFailed: you may make no tokens for that owner (CREATE_TOKENS).
            InvalidPrincipalType: renewers that are no "User:...".
            UnsupportedVersion: brokers before Kafka 3.3 make tokens for nobody but who asks.
        """
        from pykafka2.protocol.messages.tokens import CreatableRenewers, CreateDelegationTokenRequest

        kind, name = ("", "") if owner is None else _principal("owner", owner)
        named = [_principal("renewers", one) for one in texts("renewers", renewers)]
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[CreatableRenewers(principal_type=one, principal_name=who) for one, who in named],
            max_lifetime_ms=_milliseconds("max_lifetime", max_lifetime),
        )
        told = self._cluster.request(request, AnyNode(), timeout, _error_of)
        return DelegationToken(
            token_id=told.token_id,
            owner=f"{told.principal_type}:{told.principal_name}",
            requester=_requester(told),
            renewers=tuple(f"{one}:{who}" for one, who in named),
            issue_time_ms=told.issue_timestamp_ms,
            expiry_time_ms=told.expiry_timestamp_ms,
            max_time_ms=told.max_timestamp_ms,
            hmac=bytes(told.hmac),
        )

    def renew_delegation_token(
        self, hmac: bytes, *, period: float | None = None, timeout: float | None = None
    ) -> int:
        """Let a token live for `period` from now, at most to its own end; when it expires then.

        `hmac` is that of a `DelegationToken`; None for `period` takes the brokers' own setting.  The answer
        is in milliseconds since 1970.

        Raises:
            DelegationTokenNotFound: there is no such token.
            DelegationTokenExpired: it is over.
            DelegationTokenOwnerMismatch: you are neither its owner nor one of its renewers.
        """
        from pykafka2.protocol.messages.tokens import RenewDelegationTokenRequest

        period_ms = _milliseconds("period", period)
        request = RenewDelegationTokenRequest(hmac=_hmac(hmac), renew_period_ms=period_ms)
        return self._cluster.request(request, AnyNode(), timeout, _error_of).expiry_timestamp_ms

    def expire_delegation_token(
        self, hmac: bytes, *, after: float | None = None, timeout: float | None = None
    ) -> int | None:
        """Let a token expire after so long; None ends it at once.

        When it expires, in milliseconds since 1970; None if it is gone.  Raises as `renew_delegation_token`.
        """
        from pykafka2.protocol.messages.tokens import ExpireDelegationTokenRequest

        request = ExpireDelegationTokenRequest(
            hmac=_hmac(hmac), expiry_time_period_ms=_milliseconds("after", after)
        )
        told = self._cluster.request(request, AnyNode(), timeout, _error_of).expiry_timestamp_ms
        return None if after is None else told

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        """The tokens that you may see, the oldest first; of these owners or renewers, or who asked for them
        for others (None: of all).
        """
        from pykafka2.protocol.messages.tokens import (
            DescribeDelegationTokenOwner,
            DescribeDelegationTokenRequest,
        )

        asked = None if owners is None else [_principal("owners", one) for one in texts("owners", owners)]
        if asked == []:
            return []
        named = None
        if asked is not None:
            named = [
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in asked
            ]
        response = self._cluster.request(
            DescribeDelegationTokenRequest(owners=named), AnyNode(), timeout, _error_of
        )
        found = [
            DelegationToken(
                token_id=one.token_id,
                owner=f"{one.principal_type}:{one.principal_name}",
                requester=_requester(one),
                renewers=tuple(f"{who.principal_type}:{who.principal_name}" for who in one.renewers),
                issue_time_ms=one.issue_timestamp,
                expiry_time_ms=one.expiry_timestamp,
                max_time_ms=one.max_timestamp,
                hmac=bytes(one.hmac),
            )
            for one in response.tokens
        ]
        return sorted(found, key=lambda one: (one.issue_time_ms, one.token_id))


def _error_of(answer: Any) -> KafkaError | None:
    return error_of(answer.error_code) if answer.error_code else None


def _requester(told: Any) -> str:
    """Before version 3 of the messages it is the owner."""
    if not told.token_requester_principal_name:
        return f"{told.principal_type}:{told.principal_name}"
    return f"{told.token_requester_principal_type}:{told.token_requester_principal_name}"


def _principal(argument: str, given: str) -> tuple[str, str]:
    kind, colon, name = given.partition(":") if isinstance(given, str) else ("", "", "")
    if not (kind and colon and name):
        raise IllegalArgument(f"{argument}: {given!r} is no principal; say it as 'User:name'")
    return kind, name


def _milliseconds(argument: str, seconds: float | None) -> int:
    """-1 for None, which stands for the brokers' own setting, or for now."""
    if seconds is None:
        return -1
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < LONGEST_SECONDS:
        raise IllegalArgument(f"{argument}={seconds!r}: takes a positive number of seconds, or None")
    return max(1, round(seconds * 1000))


def _hmac(given: bytes) -> bytes:
    if not isinstance(given, bytes | bytearray) or not given:
        raise IllegalArgument(
            f"hmac takes the bytes of a DelegationToken's hmac, not a {type(given).__name__}"
        )
    return bytes(given)
