"""Delegation tokens: create, renew, expire, describe (KIP-48).

The hmac is a secret.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bytes, Int16, Int32, Int64, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class CreatableRenewers(Struct):
    principal_type: String
    principal_name: String


class CreateDelegationTokenRequest(
    Request["CreateDelegationTokenResponse"], api_key=38, versions="0-3", flexible="2+"
):
    """Create a token for the own principal or, from version 3 on, for another."""

    owner_principal_type: String | None = field("3+", default="", nullable="0+")
    owner_principal_name: String | None = field("3+", default="", nullable="0+")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64


class CreateDelegationTokenResponse(Response, api_key=38, versions="0-3", flexible="2+"):
    """The new token."""

    error_code: Int16 = field(default=0)
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field("3+", default="")
    token_requester_principal_name: String = field("3+", default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes = field(secret=True)
    throttle_time_ms: Int32 = field(default=0)


class RenewDelegationTokenRequest(
    Request["RenewDelegationTokenResponse"], api_key=39, versions="0-2", flexible="2+"
):
    """Renew a token."""

    hmac: Bytes = field(secret=True)
    renew_period_ms: Int64


class RenewDelegationTokenResponse(Response, api_key=39, versions="0-2", flexible="2+"):
    """The new expiry time."""

    error_code: Int16 = field(default=0)
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)


class ExpireDelegationTokenRequest(
    Request["ExpireDelegationTokenResponse"], api_key=40, versions="0-2", flexible="2+"
):
    """Expire a token; with a negative period at once."""

    hmac: Bytes = field(secret=True)
    expiry_time_period_ms: Int64


class ExpireDelegationTokenResponse(Response, api_key=40, versions="0-2", flexible="2+"):
    """The new expiry time."""

    error_code: Int16 = field(default=0)
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)


class DescribeDelegationTokenOwner(Struct):
    principal_type: String
    principal_name: String


class DescribeDelegationTokenRequest(
    Request["DescribeDelegationTokenResponse"], api_key=41, versions="0-3", flexible="2+"
):
    """Describe tokens by owner; null means all visible ones."""

    owners: list[DescribeDelegationTokenOwner] | None = field(nullable="0+")


class DescribedDelegationTokenRenewer(Struct):
    principal_type: String
    principal_name: String


class DescribedDelegationToken(Struct):
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field("3+", default="")
    token_requester_principal_name: String = field("3+", default="")
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes = field(secret=True)
    renewers: list[DescribedDelegationTokenRenewer]


class DescribeDelegationTokenResponse(Response, api_key=41, versions="0-3", flexible="2+"):
    """Tokens with their details."""

    error_code: Int16 = field(default=0)
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32 = field(default=0)
