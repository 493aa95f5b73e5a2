"""ACLs as stored in the metadata, and filters over them. Immutable values, without decisions.

Numbers are kept as received: an unknown number is stored as such, and controller/control/acls.py rejects it
when ACLs are created.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

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
    """An address, a network such as "10.0.0.0/8" since Kafka 4.4, or "*"."""
    operation: int
    permission: int


_NETWORK: Final = re.compile(
    r"(?:(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})|([^/]*:[^/]*))/(\d{1,3})", re.ASCII
)


@lru_cache(maxsize=1000)
def network_of(host: str) -> IPv4Network | IPv6Network:
    """Return the network in CIDR notation; bits after the prefix are ignored. Raise ValueError."""
    found = _NETWORK.fullmatch(host)
    if found is None:
        raise ValueError(f"{host!r} is not a network")
    *octets, address_6, prefix = found.groups()
    try:
        if address_6 is None:
            return IPv4Network((bytes(map(int, octets)), int(prefix)), strict=False)
        address = IPv6Address(address_6.partition("%")[0])
        if address.ipv4_mapped is None:
            return IPv6Network((address.packed, int(prefix)), strict=False)
    except ValueError as error:
        raise ValueError(f"{host!r} is not a network: {error}") from None
    raise ValueError(f"{host!r} is not an IPv6 network")


def is_in_network(host: str, network: str) -> bool:
    """Return whether an address is in a network; False if one of them is no such thing."""
    try:
        return ip_address(host.partition("%")[0]) in network_of(network)
    except ValueError:
        return False


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
