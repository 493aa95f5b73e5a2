"""Client quotas: checked arguments and requests of `describe_client_quotas` and `alter_client_quotas`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykafka2.admin.values import QuotaEntity
from pykafka2.errors import IllegalArgument

if TYPE_CHECKING:
    from pykafka2.protocol.messages.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest

TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}
"""Attributes of `QuotaEntity`, and their types in requests."""
ATTRIBUTES = {kind: attribute for attribute, kind in TYPES.items()}

OF_CLIENTS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
OF_ADDRESSES = ("connection_creation_rate",)

EXACT, IS_DEFAULT, IS_ANY = range(3)
"""Match types of a filter."""


def describe_request(entity: QuotaEntity | None, *, strict: bool) -> DescribeClientQuotasRequest:
    """Return the request for the quotas that match. Raise IllegalArgument."""
    from pykafka2.protocol.messages.quotas import ComponentData, DescribeClientQuotasRequest

    components = []
    for kind, name in _names(entity, accepts_any=True) if entity is not None else ():
        match_type = {QuotaEntity.DEFAULT: IS_DEFAULT, QuotaEntity.ANY: IS_ANY}.get(name, EXACT)
        match = name if match_type == EXACT else None
        components.append(ComponentData(entity_type=kind, match_type=match_type, match=match))
    return DescribeClientQuotasRequest(components=components, strict=strict)


def alter_request(
    changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool
) -> AlterClientQuotasRequest:
    """Return the request for these changes. Raise IllegalArgument."""
    from pykafka2.protocol.messages.quotas import (
        AlterClientQuotasRequest,
        AlterClientQuotasRequestEntityData,
        AlterClientQuotasRequestEntryData,
        OpData,
    )

    if not isinstance(changes, Mapping):
        raise IllegalArgument(f"changes must map QuotaEntity to quotas, not {type(changes).__name__}")
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntryData(
                entity=[
                    AlterClientQuotasRequestEntityData(
                        entity_type=kind, entity_name=None if name == QuotaEntity.DEFAULT else name
                    )
                    for kind, name in _names(entity, accepts_any=False)
                ],
                ops=[
                    OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in _checked(entity, quotas).items()
                ],
            )
            for entity, quotas in changes.items()
        ],
        validate_only=validate_only,
    )


def entity_of(names: Mapping[str, str | None]) -> QuotaEntity:
    """Return the entity with these names by type, as responses have them."""
    return QuotaEntity(
        **{
            ATTRIBUTES[kind]: QuotaEntity.DEFAULT if name is None else name
            for kind, name in names.items()
            if kind in ATTRIBUTES
        }
    )


def _names(entity: QuotaEntity, *, accepts_any: bool) -> list[tuple[str, str]]:
    """Return types and names of an entity."""
    if not isinstance(entity, QuotaEntity):
        raise IllegalArgument(f"{entity!r} must be a QuotaEntity, not {type(entity).__name__}")
    found: list[tuple[str, str]] = []
    for attribute, kind in TYPES.items():
        name = getattr(entity, attribute)
        if name is None:
            continue
        if not isinstance(name, str) or not name or (name == QuotaEntity.ANY and not accepts_any):
            also = " or QuotaEntity.ANY" if accepts_any else ""
            raise IllegalArgument(f"{attribute}={name!r} must be a name or QuotaEntity.DEFAULT{also}")
        found.append((kind, name))
    if not found:
        raise IllegalArgument("QuotaEntity() is empty; set user, client_id, both, or ip")
    if entity.ip is not None and len(found) > 1:
        raise IllegalArgument(f"{entity!r} combines ip with other names; set user, client_id, both, or ip")
    return found


def _checked(entity: QuotaEntity, quotas: Mapping[str, float | None]) -> dict[str, float | None]:
    if not isinstance(quotas, Mapping):
        raise IllegalArgument(f"the quotas of {entity!r} must be a dict, not {type(quotas).__name__}")
    known = OF_CLIENTS if entity.ip is None else OF_ADDRESSES
    checked: dict[str, float | None] = {}
    for key, value in quotas.items():
        if key not in known:
            raise IllegalArgument(f"{entity!r} has no quota {key!r}; use one of {', '.join(known)}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and 0 < value <= sys.float_info.max):
            raise IllegalArgument(f"{key}={value!r} must be a number above 0, or None to remove the quota")
        checked[key] = None if value is None else float(value)
    return checked
