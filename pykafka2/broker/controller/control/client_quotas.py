"""Client quotas: the controller's part of AlterClientQuotas (KIP-546).

Called as one event of the controller's queue: writes all valid changes of a request at once. Kafka's
ClientQuotaControlManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.metadata.records import quota_record
from pykafka2.broker.quotas.entities import QuotaEntity, check_entity, check_value
from pykafka2.errors import BrokerError, InvalidRequest
from pykafka2.protocol.struct import MetadataRecord


@attrs.define(frozen=True)
class QuotaAlteration:
    """The changes of one entity: keys and values; the value None removes a quota."""

    entity: QuotaEntity
    operations: Sequence[tuple[str, float | None]]


def alter_client_quotas(
    controller: Controller, alterations: Iterable[QuotaAlteration], *, validate_only: bool = False
) -> dict[QuotaEntity, BrokerError | None]:
    """Set and remove quotas. Return the error of each entity, or None if it succeeded."""
    outcome: dict[QuotaEntity, BrokerError | None] = {}
    records: list[MetadataRecord] = []
    for alteration in alterations:
        entity = alteration.entity
        if entity in outcome or len(dict(alteration.operations)) < len(alteration.operations):
            outcome[entity] = InvalidRequest(f"Ignoring duplicate entity {_java_text(entity)}")
            continue
        try:
            changed = _changed(controller, alteration)
        except BrokerError as error:
            outcome[entity] = error
        else:
            outcome[entity] = None
            records += changed
    if records and not validate_only:
        controller.write(records)
    return outcome


def _changed(controller: Controller, alteration: QuotaAlteration) -> list[MetadataRecord]:
    """Return the records of one entity's changes, without unchanged values."""
    entity = alteration.entity
    check_entity(entity)
    known = controller.state.quotas.get(entity, {})
    records: list[MetadataRecord] = []
    for key, value in alteration.operations:
        if value is not None:
            check_value(entity, key, value)
        if known.get(key) != value:
            records.append(quota_record(entity, key, value))
    return records


def _java_text(entity: QuotaEntity) -> str:
    """Return the text of an entity in Java's format."""
    names = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{names}}})"
