"""Entities of quotas, and the quotas that each type of entity can have.

An entity names a user, a client id, both, or an IP address; the name None is the default of its type.
Error messages are those of Kafka's ClientQuotaControlManager, including its spelling.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

from pykafka2.errors import InvalidRequest

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
LOCALHOST: Final = "localhost"
TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

QuotaEntity = tuple[tuple[str, "str | None"], ...]
"""Types and names, sorted by type."""

Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""Values by entity and key."""

LIMITS: Final[Mapping[str, tuple[str, float] | None]] = {
    PRODUCER_BYTE_RATE: ("a LONG", 2**63 - 1),
    CONSUMER_BYTE_RATE: ("a LONG", 2**63 - 1),
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
    CONNECTION_CREATION_RATE: ("an INT", 2**31 - 1),
}
"""Type and maximum of keys whose values must be whole numbers; None for keys that accept fractions."""

OF_CLIENTS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)
OF_ADDRESSES: Final = (CONNECTION_CREATION_RATE,)

SMALLEST_FRACTION: Final = 1e-6


def entity_of(names: Mapping[str, str | None]) -> QuotaEntity:
    """Return the entity with these names by type."""
    return tuple(sorted(names.items()))


def check_entity(entity: QuotaEntity) -> None:
    """Raise `InvalidRequest` for an entity that cannot have quotas."""
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in TYPES:
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    names = dict(entity)
    if IP in names:
        if len(names) > 1:
            raise InvalidRequest(
                "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
            )
        if not _is_address(names[IP]):
            raise InvalidRequest(f"{names[IP]} is not a valid IP or resolvable host.")


def keys_of(entity: QuotaEntity) -> tuple[str, ...]:
    """Return the keys of the quotas that an entity can have."""
    return OF_ADDRESSES if entity[0][0] == IP else OF_CLIENTS


def check_value(entity: QuotaEntity, key: str, value: float) -> None:
    """Raise `InvalidRequest` if the entity cannot have this quota or value."""
    if key not in keys_of(entity):
        raise InvalidRequest(f"Invalid configuration key {key}")
    if value <= 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    limit = LIMITS[key]
    if limit is None:
        return
    kind, most = limit
    if value > most:
        raise InvalidRequest(f"Proposed value for {key} is too large for {kind}.")
    if abs(value % 1.0) > SMALLEST_FRACTION:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


def address_named(name: str | None) -> str | None:
    """Return the address of an IP entity as connections have it; None for the default entity."""
    if name is None:
        return None
    if name == LOCALHOST:
        return "127.0.0.1"
    address = ipaddress.ip_address(name)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _is_address(name: str | None) -> bool:
    """Return whether the name is an IP address or localhost; Kafka also resolves other host names."""
    if name is None or name == LOCALHOST:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
