"""DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.controller.control.client_quotas import QuotaAlteration, alter_client_quotas
from pykafka2.broker.handlers.api import CONTROLLER, api
from pykafka2.broker.handlers.authorization import on_cluster
from pykafka2.broker.quotas.entities import IP, TYPES, QuotaEntity, entity_of
from pykafka2.broker.server.responses import Refusal
from pykafka2.errors import BrokerError, InvalidRequest, UnsupportedVersion, error_of
from pykafka2.protocol.acl_terms import Operation
from pykafka2.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntityData,
    DescribeClientQuotasResponseEntryData,
    ValueData,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

EXACT, DEFAULT, ANY = range(3)
"""Match types of a filter: a name, the default entity, or any name, including the default."""


@api(
    DescribeClientQuotasRequest,
    0,
    1,
    access=on_cluster(Operation.DESCRIBE_CONFIGS),
    refusal=Refusal(silent=BrokerError, blank={"entries": None}),
)
def handle_describe(
    services: Services, context: RequestContext, request: DescribeClientQuotasRequest, now: float
) -> DescribeClientQuotasResponse:
    """Describe the entities that match all components of the filter; if strict, without other types."""
    try:
        exact, kinds = _filter(request)
    except BrokerError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code or 0, error_message=str(error), entries=None
        )
    entries = [
        DescribeClientQuotasResponseEntryData(
            entity=[
                DescribeClientQuotasResponseEntityData(entity_type=kind, entity_name=name)
                for kind, name in entity
            ],
            values=[ValueData(key=key, value=value) for key, value in values.items()],
        )
        for entity, values in services.image.quotas.items()
        if _matches(entity, exact, kinds, is_strict=request.strict)
    ]
    return DescribeClientQuotasResponse(entries=entries)


def _filter(request: DescribeClientQuotasRequest) -> tuple[dict[str, str | None], set[str]]:
    """Return the names that must match, and the types that can have any name. Raise if it is invalid."""
    exact: dict[str, str | None] = {}
    kinds: set[str] = set()
    for component in request.components:
        kind, match_type = component.entity_type, component.match_type
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in exact or kind in kinds:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in TYPES:
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        if match_type == EXACT:
            if component.match is None:
                raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            exact[kind] = component.match
        elif match_type in (DEFAULT, ANY):
            if component.match is not None:
                word = "DEFAULT" if match_type == DEFAULT else "SPECIFIED"
                raise InvalidRequest(
                    f"Request specified MATCH_TYPE_{word}, but also specified a match string."
                )
            if match_type == DEFAULT:
                exact[kind] = None
            else:
                kinds.add(kind)
        else:
            raise InvalidRequest(f"Unknown match type {match_type}")
    named = {*exact, *kinds}
    if IP in named and len(named) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user "
            "or clientId filter component."
        )
    return exact, kinds


def _matches(entity: QuotaEntity, exact: dict[str, str | None], kinds: set[str], *, is_strict: bool) -> bool:
    if is_strict and len(entity) != len(exact) + len(kinds):
        return False
    names = dict(entity)
    return all(kind in names and names[kind] == name for kind, name in exact.items()) and all(
        kind in names for kind in kinds
    )


def refuse_alter(request: AlterClientQuotasRequest, version: int, code: int) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[_entry(_entity(entry), error_of(code)) for entry in request.entries]
    )


@api(
    AlterClientQuotasRequest,
    0,
    1,
    at=CONTROLLER,
    access=on_cluster(Operation.ALTER_CONFIGS),
    refusal=refuse_alter,
)
def handle_alter(
    services: Services, context: RequestContext, request: AlterClientQuotasRequest, now: float
) -> AlterClientQuotasResponse:
    outcome = alter_client_quotas(
        services.controller,
        [
            QuotaAlteration(
                _entity(entry),
                [(change.key, None if change.remove else change.value) for change in entry.ops],
            )
            for entry in request.entries
        ],
        validate_only=request.validate_only,
    )
    return AlterClientQuotasResponse(entries=[_entry(entity, error) for entity, error in outcome.items()])


def _entity(entry: AlterClientQuotasRequestEntryData) -> QuotaEntity:
    return entity_of({part.entity_type: part.entity_name for part in entry.entity})


def _entry(entity: QuotaEntity, error: BrokerError | None) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=0 if error is None else error.code or 0,
        error_message=None if error is None else str(error),
        entity=[
            AlterClientQuotasResponseEntityData(entity_type=kind, entity_name=name) for kind, name in entity
        ],
    )
