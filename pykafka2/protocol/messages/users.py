"""SCRAM credentials of users: describe, alter (KIP-554).

Salts and salted passwords are secrets.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bytes, Int8, Int16, Int32, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class UserName(Struct):
    name: String


class DescribeUserScramCredentialsRequest(
    Request["DescribeUserScramCredentialsResponse"], api_key=50, versions="0", flexible="0+"
):
    """Describe the credentials of users; null means all."""

    users: list[UserName] | None = field(nullable="0+")


class CredentialInfo(Struct):
    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    credential_infos: list[CredentialInfo]


class DescribeUserScramCredentialsResponse(Response, api_key=50, versions="0", flexible="0+"):
    """Users with mechanisms and iterations."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    results: list[DescribeUserScramCredentialsResult]


class ScramCredentialDeletion(Struct):
    name: String
    mechanism: Int8


class ScramCredentialUpsertion(Struct):
    name: String
    mechanism: Int8  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512
    iterations: Int32
    salt: Bytes = field(secret=True)
    salted_password: Bytes = field(secret=True)


class AlterUserScramCredentialsRequest(
    Request["AlterUserScramCredentialsResponse"], api_key=51, versions="0", flexible="0+"
):
    """Set or delete credentials of users."""

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")


class AlterUserScramCredentialsResponse(Response, api_key=51, versions="0", flexible="0+"):
    """Per user: the error, if any."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[AlterUserScramCredentialsResult]
