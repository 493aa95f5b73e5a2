"""Controls of access rules: allow, deny and remove.

A mixin of `Controls` (controls/controls.py); `cluster.acls` (access_rules.py) calls it.  Rules go through the
controller like those of clients, and take effect on every running broker before a call returns, unless its
metadata is held.  Any thread except the cluster's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypedDict, Unpack

from pykafka2.broker.config.keys import nearest
from pykafka2.broker.controller.control.acls import create_acls, delete_acls
from pykafka2.broker.security.acls import Acl, AclFilter
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.acl_terms import (
    CLUSTER_NAME,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from pykafka2.testing.running import Running

NO_AUTHORIZER: Final = (
    "The cluster has no authorizer, so everything is allowed. Start it with KafkaCluster(config={"
    '"authorizer.class.name": STANDARD_AUTHORIZER}); see docs/guides/security.md'
)
OPERATIONS: Final = [one.name for one in Operation if one not in (Operation.UNKNOWN, Operation.ANY)]


class Resource(TypedDict, total=False):
    """The resource of a rule, exactly one; "*" matches all of its kind, `prefix=True` all whose names have
    this prefix.  `host` is the client's address, "*" matches any.
    """

    topic: str
    group: str
    transactional_id: str
    cluster: bool
    prefix: bool
    host: str


KINDS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}


class AccessControls:
    """`controls.allow_access("User:ann", "READ", topic="orders")`."""

    _running: Running

    def allow_access(self, principal: str, *operations: str, **resource: Unpack[Resource]) -> None:
        """Allow operations on a resource: `allow_access("User:ann", "READ", topic="orders")`."""
        self._add(Permission.ALLOW, principal, operations, resource)

    def deny_access(self, principal: str, *operations: str, **resource: Unpack[Resource]) -> None:
        """Deny operations on a resource, even if another rule allows them."""
        self._add(Permission.DENY, principal, operations, resource)

    def revoke_access(
        self, principal: str | None = None, *operations: str, **resource: Unpack[Resource]
    ) -> int:
        """Remove rules: of this principal (None: all), for these operations (none: all), on this resource
        (none: all).  Return the number of removed rules.
        """
        self._check_authorizer()
        named: list[str | None] = [*operations]
        filters = [_filter(principal, one, resource) for one in named or [None]]
        gone = self._running.controllers.run("access rules", lambda active: delete_acls(active, filters))
        return len({acl for some in gone if isinstance(some, list) for acl in some})

    def access_rules(self) -> list[dict[str, str]]:
        """Return every rule: permission, principal, host, operation, resource_type, resource, pattern."""
        self._running.check()
        return [_as_dict(acl) for acl in self._running.controllers.image.acls]

    def _add(
        self, permission: Permission, principal: str, operations: Iterable[str], resource: Resource
    ) -> None:
        acls = [_acl(permission, principal, one, resource) for one in operations]
        if not acls:
            raise ConfigurationError(
                f"No operation is named for {principal}. Choose one or more of {', '.join(OPERATIONS)}."
            )
        self._check_authorizer()
        refusals = self._running.controllers.run("access rules", lambda active: create_acls(active, acls))
        for error in refusals:
            if error is not None:
                raise ConfigurationError(str(error))

    def _check_authorizer(self) -> None:
        self._running.check()
        if not self._running.shared.config.text("authorizer.class.name"):
            raise ConfigurationError(NO_AUTHORIZER)


# ---------------------------------------------------------------------- words and rules


def _acl(permission: Permission, principal: str, operation: str, resource: Resource) -> Acl:
    found = _resource(resource)
    if found is None:
        raise ConfigurationError(
            "No resource is named. Set topic=, group=, transactional_id= or cluster=True."
        )
    if not isinstance(principal, str) or ":" not in principal:
        raise ConfigurationError(
            f"principal={principal!r} is illegal. Set a type and a name, such as 'User:ann'."
        )
    kind, name, pattern = found
    return Acl(
        kind, name, pattern, principal, resource.get("host", WILDCARD), _operation(operation), permission
    )


def _filter(principal: str | None, operation: str | None, resource: Resource) -> AclFilter:
    kind, name, pattern = _resource(resource) or (ResourceType.ANY, None, PatternType.ANY)
    wanted = Operation.ANY if operation is None else _operation(operation)
    return AclFilter(kind, name, pattern, principal, resource.get("host"), wanted)


def _resource(resource: Resource) -> tuple[ResourceType, str, PatternType] | None:
    values: dict[str, Any] = {**resource}
    known = [*KINDS, "cluster", "prefix", "host"]
    for name in values:
        if name not in known:
            raise ConfigurationError(f"access rules have no {name!r}{nearest(name, known)}")
    named = [name for name in KINDS if name in values]
    if len(named) + bool(values.get("cluster")) > 1:
        raise ConfigurationError(
            f"A rule has one kind of resource, not {' and '.join(named)}. Name only one."
        )
    if values.get("cluster"):
        return ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL
    if not named:
        return None
    name = values[named[0]]
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{named[0]}={name!r} is illegal. Set a name, or '*' for all.")
    return KINDS[named[0]], name, PatternType.PREFIXED if values.get("prefix") else PatternType.LITERAL


def _operation(word: str) -> Operation:
    if word not in OPERATIONS:
        raise ConfigurationError(f"Unknown operation {word!r}{nearest(str(word).upper(), OPERATIONS)}")
    return Operation[word]


def _as_dict(acl: Acl) -> dict[str, str]:
    return {
        "permission": Permission(acl.permission).name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": Operation(acl.operation).name,
        "resource_type": ResourceType(acl.resource_type).name,
        "resource": acl.resource_name,
        "pattern": PatternType(acl.pattern_type).name,
    }
