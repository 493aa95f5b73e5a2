"""Access rules as the metadata holds them, and filters over them.  Immutable values; no decisions.

Numbers stay as they came over the wire: a number that nobody knows is kept as such, and refused by who
makes rules (controller/acls.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka2.protocol.acl_terms import WILDCARD, PatternType


@attrs.define(frozen=True)
class Acl:
    """One access rule: on these resources this principal, from this host, may or may not do that."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    """A kind and a name, "User:alice"."""
    host: str
    """An address, or "*"."""
    operation: int
    permission: int


Acls = Mapping[Acl, bytes]
"""All rules with their ids, oldest first.  Never changed in place: the same object has the same rules."""

NO_ACLS: Acls = {}

_ANY = 1


@attrs.define(frozen=True)
class AclFilter:
    """Which rules are meant; None, and 1 where Kafka's number for ANY is 1, leave that part open."""

    resource_type: int = _ANY
    resource_name: str | None = None
    pattern_type: int = _ANY
    principal: str | None = None
    host: str | None = None
    operation: int = _ANY
    permission: int = _ANY

    def matches(self, acl: Acl) -> bool:
        """Whether a rule is meant."""
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
