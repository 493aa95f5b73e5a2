"""Who may do what: the decisions of Kafka's StandardAuthorizer over one set of access rules (KIP-290).

| of the rules on the resource (literal, "*", prefixes) that fit principal, host and operation | answer |
|---|---|
| the principal is one of super.users, whatever the rules say | allowed |
| one denies | denied |
| none denies, one allows | allowed |
| none fits, and there is a rule on the resource, for whomever | denied |
| there is no rule on the resource at all | allow.everyone.if.no.acl.found (false) |

A rule fits an operation that it names, or by ALL.  One that allows READ, WRITE, DELETE or ALTER allows
DESCRIBE along with it, ALTER_CONFIGS allows DESCRIBE_CONFIGS; what denies implies nothing.  No clocks, no
sockets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from weakref import WeakSet

import attrs

from pykafka2.broker.security.acls import Acl, Acls
from pykafka2.broker.security.caller import Caller, notations_of, principal_of
from pykafka2.protocol.acl_terms import EVERYBODY, WILDCARD, Operation, PatternType, Permission, ResourceType

IMPLIED_BY: Final[Mapping[int, Collection[int]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""Which allowed operations allow another one."""

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
"""The operations that there are on a resource, as answers name them (KIP-430)."""

# A name that no rule is likely to have: Kafka asks for it first when any resource of a type will do.
ANY_NAME: Final = "hardcode"

MAX_CALLERS: Final = 1_000
MAX_DECISIONS: Final = 50_000
"""What is remembered for one set of rules: callers, and decisions for all of them together (some 10 MB);
beyond that it begins anew."""
MAX_REMEMBERED_NAME: Final = 255
"""No decision about a longer name is remembered: requests may have 32 KiB of one, a topic has 249 bytes."""


@attrs.define(frozen=True)
class Settings:
    """What a broker's options say beside the rules."""

    super_users: frozenset[str] = frozenset()
    allows_if_none_found: bool = False

    @classmethod
    def of(cls, super_users: str, *, allows_if_none_found: bool) -> Settings:
        """`super_users` as the option has them, "User:ann;User:bob".  Raises `ConfigurationError`."""
        named = [one.strip() for one in super_users.split(";") if one.strip()]
        return cls(frozenset(str(principal_of(one)) for one in named), allows_if_none_found)


class Authorizer:
    """Decides over one set of rules.  Not thread-safe: under a lock."""

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
        """What this caller may do."""
        rights = self._rights.get(caller)
        if rights is None:
            if len(self._rights) >= MAX_CALLERS:
                self._rights.clear()
            rights = self._rights[caller] = Rights(self, str(caller.principal), caller.host)
        return rights

    def count_decision(self, rights: Rights) -> None:
        """One more will be remembered there: make room for it if there are too many of all callers."""
        if self._decisions >= MAX_DECISIONS:
            for one in self._with_decisions:
                one.decided.clear()
            self._with_decisions.clear()
            self._decisions = 0
        if not rights.decided:
            self._with_decisions.add(rights)
        self._decisions += 1

    def rules_on(self, resource_type: int, name: str) -> Iterable[list[Acl]]:
        """The rules on a resource, pattern by pattern."""
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
    """What one principal may do from one host, by one set of rules.  Decisions are remembered."""

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self.principal = principal
        self.host = host
        self._authorizer = authorizer
        self._hosts = {*notations_of(host), WILDCARD}
        self._is_super = principal in authorizer.settings.super_users
        self.decided: dict[tuple[int, int, str], bool] = {}
        """Decisions made so far, by operation, resource type and name."""

    def may(self, operation: int, resource_type: int, name: str) -> bool:
        """Whether this may be done to that resource."""
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
        """Whether there can be a resource of this type to which this may be done (KIP-679).

        Nothing is implied here: WRITE is found by rules for WRITE and ALL alone, as in Kafka.
        """
        if self.may(operation, resource_type, ANY_NAME):
            return True
        fitting = [
            acl
            for acl in self._authorizer.acls
            if acl.resource_type == resource_type
            and self._is_meant_by(acl)
            and acl.operation in (operation, Operation.ALL)
        ]
        denied = {
            (one.pattern_type, one.resource_name) for one in fitting if one.permission == Permission.DENY
        }
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        allowing = [one for one in fitting if one.permission == Permission.ALLOW]
        lengths = {len(name) for kind, name in denied if kind == PatternType.PREFIXED}
        return any(_is_wildcard(one) or not _is_dominated(one, denied, lengths) for one in allowing)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """What may be done to a resource, a bit for each operation (KIP-430)."""
        operations = OPERATIONS_ON[resource_type]
        return sum(1 << one for one in operations if self.may(one, resource_type, name))

    def _decide(self, operation: int, resource_type: int, name: str) -> bool:
        allowing = IMPLIED_BY.get(operation, (operation,))
        has_rules = is_allowed = False
        for rules in self._authorizer.rules_on(resource_type, name):
            has_rules = True
            for acl in filter(self._is_meant_by, rules):
                if acl.permission == Permission.DENY:
                    if acl.operation in (operation, Operation.ALL):
                        return False
                elif acl.operation == Operation.ALL or acl.operation in allowing:
                    is_allowed = True
        return is_allowed or (not has_rules and self._authorizer.settings.allows_if_none_found)

    def _is_meant_by(self, acl: Acl) -> bool:
        return acl.principal in (self.principal, EVERYBODY) and acl.host in self._hosts


def _is_wildcard(acl: Acl) -> bool:
    return acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD


def _is_dominated(acl: Acl, denied: set[tuple[int, str]], lengths: Iterable[int]) -> bool:
    """Whether what a rule allows is all denied: by the same literal, or by a prefix of it, which has one of
    these lengths.
    """
    name = acl.resource_name
    if acl.pattern_type == PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in lengths if end <= len(name))
