"""The terms of ACLs and their numbers in requests (KIP-140, KIP-290), for clients and brokers.

The numbers are those of Kafka's `ResourceType`, `PatternType`, `AclOperation` and `AclPermissionType`.
"""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """The kind of resource of an ACL."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL's resource name matches.

    ANY and MATCH are for filters: all patterns with exactly that name, and all that apply to that resource.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """The operation that an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD = "*"
"""Matches all, as a literal resource name or a host."""

EVERYBODY = "User:*"
"""Matches all users, as a principal."""

CLUSTER_NAME = "kafka-cluster"
"""The name of the resource CLUSTER."""
