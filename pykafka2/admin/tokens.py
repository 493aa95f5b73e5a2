"""Delegation tokens (KIP-48): create, renew, expire, describe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pykafka2.admin.arguments import texts
from pykafka2.admin.values import DelegationToken
from pykafka2.driver.pollable import AnyNode
from pykafka2.errors import IllegalArgument, KafkaError, error_or_none
from pykafka2.text import type_of

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient

LONGEST_SECONDS = 2**63 // 1000
"""Longest duration of a request: 64-bit milliseconds."""


class TokensAdmin:
    """The delegation-token calls of `KafkaAdminClient`. Durations are seconds; thread-safe.

    The client must be authenticated, and not by a delegation token. All calls raise:
        DelegationTokenAuthDisabled: the brokers have no delegation.token.secret.key.
        DelegationTokenRequestNotAllowed: the client is not authenticated, or used a token.
        IllegalArgument: an argument is not valid; no request was sent.
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
        """Create a token. Any client that has it can log in as its owner.

        Each attempt creates one: after a `KafkaTimeoutError` an unknown token can exist until it expires.

        Args:
            owner: the principal that the token authenticates, such as "User:ann"; default: the client's own.
            renewers: principals that may renew and expire the token besides the owner.
            max_lifetime: how long it can be renewed; the brokers' setting is the default and the maximum.

        Raises:
            DelegationTokenAuthorizationFailed: the principal lacks CREATE_TOKENS for that owner.
            InvalidPrincipalType: a renewer is not "User:...".
            UnsupportedVersion: brokers before Kafka 3.3 do not support `owner`.
        """
        from pykafka2.protocol.messages.tokens import CreatableRenewers, CreateDelegationTokenRequest

        kind, name = ("", "") if owner is None else _principal("owner", owner)
        principals = [_principal("renewers", renewer) for renewer in texts("renewers", renewers)]
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[
                CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in principals
            ],
            max_lifetime_ms=_milliseconds("max_lifetime", max_lifetime),
        )
        response = self._cluster.request(request, AnyNode(), timeout, _error_of)
        return DelegationToken(
            token_id=response.token_id,
            owner=f"{response.principal_type}:{response.principal_name}",
            requester=_requester(response),
            renewers=tuple(f"{kind}:{name}" for kind, name in principals),
            issue_time_ms=response.issue_timestamp_ms,
            expiry_time_ms=response.expiry_timestamp_ms,
            max_time_ms=response.max_timestamp_ms,
            hmac=bytes(response.hmac),
        )

    def renew_delegation_token(
        self, hmac: bytes, *, period: float | None = None, timeout: float | None = None
    ) -> int:
        """Renew a token for `period` from now, limited by its max_time_ms; return the new expiry time.

        `hmac` is that of a `DelegationToken`; None for `period` uses the brokers' setting. The result is in
        milliseconds since 1970.

        Raises:
            DelegationTokenNotFound: the token does not exist.
            DelegationTokenExpired: the token has expired.
            DelegationTokenOwnerMismatch: the principal is neither its owner nor one of its renewers.
        """
        from pykafka2.protocol.messages.tokens import RenewDelegationTokenRequest

        period_ms = _milliseconds("period", period)
        request = RenewDelegationTokenRequest(hmac=_hmac(hmac), renew_period_ms=period_ms)
        return self._cluster.request(request, AnyNode(), timeout, _error_of).expiry_timestamp_ms

    def expire_delegation_token(
        self, hmac: bytes, *, after: float | None = None, timeout: float | None = None
    ) -> int | None:
        """Expire a token `after` seconds; None expires it now.

        Return the expiry time in milliseconds since 1970, or None if it expired now. Raise the errors of
        `renew_delegation_token`.
        """
        from pykafka2.protocol.messages.tokens import ExpireDelegationTokenRequest

        request = ExpireDelegationTokenRequest(
            hmac=_hmac(hmac), expiry_time_period_ms=_milliseconds("after", after)
        )
        response = self._cluster.request(request, AnyNode(), timeout, _error_of)
        return None if after is None else response.expiry_timestamp_ms

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        """Return the tokens that the principal may describe, the oldest first.

        `owners` selects the tokens of these owners, renewers or requesters (None: all).
        """
        from pykafka2.protocol.messages.tokens import (
            DescribeDelegationTokenOwner,
            DescribeDelegationTokenRequest,
        )

        filters = None
        if owners is not None:
            filters = [
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in (_principal("owners", owner) for owner in texts("owners", owners))
            ]
        if filters == []:
            return []
        response = self._cluster.request(
            DescribeDelegationTokenRequest(owners=filters), AnyNode(), timeout, _error_of
        )
        tokens = [
            DelegationToken(
                token_id=token.token_id,
                owner=f"{token.principal_type}:{token.principal_name}",
                requester=_requester(token),
                renewers=tuple(
                    f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers
                ),
                issue_time_ms=token.issue_timestamp,
                expiry_time_ms=token.expiry_timestamp,
                max_time_ms=token.max_timestamp,
                hmac=bytes(token.hmac),
            )
            for token in response.tokens
        ]
        return sorted(tokens, key=lambda token: (token.issue_time_ms, token.token_id))


def _error_of(response: Any) -> KafkaError | None:
    return error_or_none(response.error_code)


def _requester(token: Any) -> str:
    """Return the principal that created the token; before version 3 of the messages, its owner."""
    if not token.token_requester_principal_name:
        return f"{token.principal_type}:{token.principal_name}"
    return f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"


def _principal(argument: str, principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":") if isinstance(principal, str) else ("", "", "")
    if not (kind and colon and name):
        raise IllegalArgument(f"{argument}: {principal!r} is not a principal; write it as 'User:name'")
    return kind, name


def _milliseconds(argument: str, seconds: float | None) -> int:
    """Return -1 for None: the brokers' setting, or now."""
    if seconds is None:
        return -1
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < LONGEST_SECONDS:
        raise IllegalArgument(f"{argument}={seconds!r} must be a positive number of seconds, or None")
    return max(1, round(seconds * 1000))


def _hmac(hmac: bytes) -> bytes:
    if not isinstance(hmac, bytes | bytearray) or not hmac:
        raise IllegalArgument(f"hmac must be the bytes of DelegationToken.hmac, not {type_of(hmac)}")
    return bytes(hmac)
