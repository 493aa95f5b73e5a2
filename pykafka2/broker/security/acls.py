"""ACLs as stored in the metadata, and filters over them. Immutable values, without decisions.

Numbers are kept as received: an unknown number is stored as such, and controller/control/acls.py rejects it
when ACLs are created.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka2.protocol.acl_terms import WILDCARD, PatternType


@attrs.define(frozen=True)
class Acl:
    """One ACL: allows or denies an operation on matching resources to a principal from a host."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    """Type and name, "User:alice"."""
    host: str
    """An address, or "*"."""
    operation: int
    permission: int


Acls = Mapping[Acl, bytes]
"""All ACLs with their ids, oldest first. Never changed in place: the same object holds the same ACLs."""

NO_ACLS: Acls = {}

_ANY = 1


@attrs.define(frozen=True)
class AclFilter:
    """Selects ACLs. None, or 1 for an enum (Kafka's ANY), matches every value."""

    resource_type: int = _ANY
    resource_name: str | None = None
    pattern_type: int = _ANY
    principal: str | None = None
    host: str | None = None
    operation: int = _ANY
    permission: int = _ANY

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter selects an ACL."""
        return (
            self.resource_type in (_ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (_ANY, acl.operation)
            and self.permission in (_ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        kind, name = self.pattern_type, self.resource_name
        if kind not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None or name == acl.resource_name:
            return True
        if kind != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.LITERAL:
            return acl.resource_name == WILDCARD
        return name.startswith(acl.resource_name)
