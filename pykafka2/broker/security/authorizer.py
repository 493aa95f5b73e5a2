"""Authorization by one set of ACLs, with the decisions of Kafka's StandardAuthorizer (KIP-290).

| matching ACLs on the resource (literal, "*", prefixed) by principal, host and operation | decision |
|---|---|
| the principal is in super.users, whatever the ACLs | allowed |
| one denies | denied |
| none denies, one allows | allowed |
| none matches, but the resource has an ACL for any principal | denied |
| the resource has no ACL at all | allow.everyone.if.no.acl.found (false) |

An ACL matches its own operation, and ALL matches every operation. Allowing READ, WRITE, DELETE or ALTER
implies DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS; denying implies nothing. No clocks, no sockets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Protocol
from weakref import WeakSet

import attrs

from pykafka2.broker.security.acls import Acl, Acls, is_in_network
from pykafka2.broker.security.principal import Caller, notations_of, principal_of
from pykafka2.protocol.acl_terms import (
    CLUSTER_NAME,
    EVERYBODY,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

IMPLIED_BY: Final[Mapping[int, Collection[int]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""Allowed operations that imply another one."""

OPERATIONS_ON: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""Operations of each resource type, as reported in responses (KIP-430)."""

# A name that no ACL is likely to have: Kafka checks it first when any resource of a type will do.
ANY_NAME: Final = "hardcode"

MAX_CALLERS: Final = 1_000
MAX_DECISIONS: Final = 50_000
"""Limits of the cache for one set of ACLs: callers, and decisions of all callers together (about 10 MB). When
a limit is reached, the cache is cleared.
"""
MAX_REMEMBERED_NAME: Final = 255
"""Decisions about longer names are not cached: a request can hold a name of 32 KiB, but a topic has at most
249 bytes.
"""


@attrs.define(frozen=True)
class Settings:
    """Broker options of the authorizer."""

    super_users: frozenset[str] = frozenset()
    allows_if_none_found: bool = False
    matches_networks: bool = True
    """Whether the host of an ACL can be a network, as since Kafka 4.4."""

    @classmethod
    def of(cls, super_users: str, *, allows_if_none_found: bool, matches_networks: bool = True) -> Settings:
        """Return settings for `super_users` in the option's notation, "User:ann;User:bob".

        Raise `ConfigurationError`.
        """
        named = [name.strip() for name in super_users.split(";") if name.strip()]
        users = frozenset(str(principal_of(name)) for name in named)
        return cls(users, allows_if_none_found, matches_networks)


class Authorizer:
    """Authorizes by one set of ACLs. Not thread-safe; callers hold a lock."""

    def __init__(self, acls: Acls, settings: Settings) -> None:
        self.acls = acls
        self.settings = settings
        self._literal: dict[tuple[int, str], list[Acl]] = {}
        self._prefixed: dict[int, dict[int, dict[str, list[Acl]]]] = {}  # by type, by the prefix's length
        self._rights: dict[Caller, Rights] = {}
        self._with_decisions: WeakSet[Rights] = WeakSet()
        self._decisions = 0
        for acl in acls:
            if acl.pattern_type == PatternType.PREFIXED:
                by_prefix = self._prefixed.setdefault(acl.resource_type, {})
                same_length = by_prefix.setdefault(len(acl.resource_name), {})
                same_length.setdefault(acl.resource_name, []).append(acl)
            else:
                self._literal.setdefault((acl.resource_type, acl.resource_name), []).append(acl)

    def rights_of(self, caller: Caller) -> Rights:
        """Return the rights of a caller."""
        rights = self._rights.get(caller)
        if rights is None:
            if len(self._rights) >= MAX_CALLERS:
                self._rights.clear()
            rights = self._rights[caller] = Rights(self, str(caller.principal), caller.host)
        return rights

    def count_decision(self, rights: Rights) -> None:
        """Count one more decision to be cached, and clear the cache if it is full."""
        if self._decisions >= MAX_DECISIONS:
            for cached in self._with_decisions:
                cached.decided.clear()
            self._with_decisions.clear()
            self._decisions = 0
        if not rights.decided:
            self._with_decisions.add(rights)
        self._decisions += 1

    def rules_on(self, resource_type: int, name: str) -> Iterable[list[Acl]]:
        """Return the ACLs on a resource, pattern by pattern."""
        for literal in {name, WILDCARD}:
            found = self._literal.get((resource_type, literal))
            if found is not None:
                yield found
        for length, by_prefix in self._prefixed.get(resource_type, {}).items():
            if length <= len(name):
                found = by_prefix.get(name[:length])
                if found is not None:
                    yield found


class Rights:
    """The rights of one principal from one host under one set of ACLs. Decisions are cached."""

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self.principal = principal
        self.host = host
        self._authorizer = authorizer
        self._hosts = {*notations_of(host), WILDCARD}
        self._is_super = principal in authorizer.settings.super_users
        self.decided: dict[tuple[int, int, str], bool] = {}
        """Cached decisions, by operation, resource type and name."""

    def may(self, operation: int, resource_type: int, name: str) -> bool:
        """Return whether the operation is allowed on the resource."""
        key = (operation, resource_type, name)
        decided = self.decided.get(key)
        if decided is None:
            decided = self._is_super or self._decide(operation, resource_type, name)
            if len(name) > MAX_REMEMBERED_NAME:
                return decided
            self._authorizer.count_decision(self)
            self.decided[key] = decided
        return decided

    def may_any(self, operation: int, resource_type: int) -> bool:
        """Return whether the operation is allowed on at least one possible resource of this type (KIP-679).

        Nothing is implied here: as in Kafka, only ACLs for WRITE and ALL allow WRITE.
        """
        if self.may(operation, resource_type, ANY_NAME):
            return True
        fitting = [
            acl
            for acl in self._authorizer.acls
            if acl.resource_type == resource_type
            and self._matches(acl)
            and acl.operation in (operation, Operation.ALL)
        ]
        denied = {
            (acl.pattern_type, acl.resource_name) for acl in fitting if acl.permission == Permission.DENY
        }
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        allowing = [acl for acl in fitting if acl.permission == Permission.ALLOW]
        lengths = {len(name) for kind, name in denied if kind == PatternType.PREFIXED}
        return any(_is_wildcard(acl) or not _is_dominated(acl, denied, lengths) for acl in allowing)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Return the allowed operations on a resource as a bit field (KIP-430)."""
        operations = OPERATIONS_ON[resource_type]
        return sum(1 << operation for operation in operations if self.may(operation, resource_type, name))

    def _decide(self, operation: int, resource_type: int, name: str) -> bool:
        allowing = IMPLIED_BY.get(operation, (operation,))
        has_rules = is_allowed = False
        for rules in self._authorizer.rules_on(resource_type, name):
            has_rules = True
            for acl in filter(self._matches, rules):
                if acl.permission == Permission.DENY:
                    if acl.operation in (operation, Operation.ALL):
                        return False
                elif acl.operation == Operation.ALL or acl.operation in allowing:
                    is_allowed = True
        return is_allowed or (not has_rules and self._authorizer.settings.allows_if_none_found)

    def _matches(self, acl: Acl) -> bool:
        return acl.principal in (self.principal, EVERYBODY) and (
            acl.host in self._hosts or self._is_in(acl.host)
        )

    def _is_in(self, network: str) -> bool:
        settings = self._authorizer.settings
        return "/" in network and settings.matches_networks and is_in_network(self.host, network)


def _is_wildcard(acl: Acl) -> bool:
    return acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD


def _is_dominated(acl: Acl, denied: set[tuple[int, str]], lengths: Iterable[int]) -> bool:
    """Return whether a DENY covers everything that an ACL allows.

    The DENY is for the same literal, or for a prefix of one of these lengths.
    """
    name = acl.resource_name
    if acl.pattern_type == PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in lengths if end <= len(name))


class DenialLog(Protocol):
    """Receives what Kafka writes to its authorizer log."""

    def denied(self, context: Any, rights: Rights, operation: int, resource_type: int, name: str) -> None:
        """Record that the sender of a request is denied an operation on a resource."""
        ...


class Access:
    """The rights of the sender of a request, checked while the request is handled."""

    __slots__ = ("_context", "_log", "rights")

    def __init__(self, rights: Rights, log: DenialLog, context: Any) -> None:
        self.rights = rights
        self._log = log
        self._context = context

    def may(self, operation: int, resource_type: int, name: str, *, notes: bool = True) -> bool:
        """Return whether the operation is allowed on the resource.

        With `notes` a denial goes to the event log. Pass False if a denial only omits part of the response,
        or if another right may allow the same.
        """
        if self.rights.may(operation, resource_type, name):
            return True
        if notes:
            self._log.denied(self._context, self.rights, operation, resource_type, name)
        return False

    def may_on_cluster(self, operation: int, *, notes: bool = True) -> bool:
        """Return whether the operation is allowed on the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, notes=notes)
