"""kafka-python's classes for ACLs, as arguments of `create_acls`, `delete_acls` and `describe_acls`."""

from __future__ import annotations

import attrs

from pykafka2.admin.values import AclBinding
from pykafka2.protocol.acl_terms import Operation, PatternType, Permission, ResourceType


@attrs.define(frozen=True)
class ResourcePatternFilter:
    """The resources that an `ACLFilter` matches; None as the name matches all."""

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: PatternType


@attrs.define(frozen=True)
class ResourcePattern(ResourcePatternFilter):
    """The resource of an `ACL`."""

    pattern_type: PatternType = PatternType.LITERAL


@attrs.define(frozen=True)
class ACLFilter:
    """A filter for `describe_acls`; None matches all."""

    principal: str | None
    host: str | None
    operation: Operation
    permission_type: Permission
    resource_pattern: ResourcePatternFilter


class ACL(AclBinding):
    """Creates an `AclBinding` from kafka-python's arguments."""

    __slots__ = ()

    def __new__(  # type: ignore[misc]
        cls,
        principal: str,
        host: str,
        operation: Operation,
        permission_type: Permission,
        resource_pattern: ResourcePattern,
    ) -> AclBinding:
        return AclBinding(
            _name(ResourceType, resource_pattern.resource_type),
            resource_pattern.resource_name or "",
            _name(PatternType, resource_pattern.pattern_type),
            principal,
            host,
            _name(Operation, operation),
            _name(Permission, permission_type),
        )


def _name(terms: type[Operation | PatternType | Permission | ResourceType], term: object) -> str:
    """Return Kafka's name of a term, also of kafka-python's own enums, by its number."""
    return terms(term).name if isinstance(term, int) else str(term)
