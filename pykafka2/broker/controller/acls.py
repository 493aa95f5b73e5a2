"""Which access rules the controller takes, and which it removes (CreateAcls, DeleteAcls).

What a rule must be is checked here as Kafka's AclControlManager does, in its order and words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka2.broker.controller.records import AclCreated, AclRemoved, Record
from pykafka2.broker.security.acls import Acl, AclFilter
from pykafka2.errors import BrokerError, InvalidRequest, UnknownServerError
from pykafka2.protocol.acl_terms import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from pykafka2.broker.controller.controller import Controller


def create_acls(controller: Controller, wanted: Iterable[Acl]) -> list[BrokerError | None]:
    """Add rules, in one write; for each why it was refused, or None.  One that is there already stays.

    For a rule that is written as a filter ("any topic") all are refused: `UnknownServerError`, as Kafka fails
    over it.
    """
    wanted = list(wanted)
    if any(map(_is_filter, wanted)):
        raise UnknownServerError
    refusals: list[BrokerError | None] = []
    records: list[Record] = []
    known = set(controller.image.acls)
    for acl in wanted:
        try:
            check(acl)
        except BrokerError as error:
            refusals.append(error)
            continue
        refusals.append(None)
        if acl not in known:
            known.add(acl)
            records.append(AclCreated(controller.new_id(), acl))
    controller.write(records)
    return refusals


def delete_acls(controller: Controller, filters: Iterable[AclFilter]) -> list[list[Acl] | BrokerError]:
    """Remove rules, in one write; for each filter what it removed, or why it was refused.

    A rule that several filters mean goes once, and each of them names it.
    """
    removed: dict[Acl, None] = {}
    answers: list[list[Acl] | BrokerError] = []
    for one in filters:
        try:
            check_filter(one)
        except BrokerError as error:
            answers.append(error)
            continue
        found = [acl for acl in controller.image.acls if one.matches(acl)]
        removed.update(dict.fromkeys(found))
        answers.append(found)
    controller.write([AclRemoved(acl) for acl in removed])
    return answers


def _is_filter(acl: Acl) -> bool:
    """Whether a rule has words of filters."""
    return (
        acl.resource_type == ResourceType.ANY
        or acl.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or acl.operation == Operation.ANY
        or acl.permission == Permission.ANY
    )


def check(acl: Acl) -> None:
    """Raise `InvalidRequest` for a rule that cannot be."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise InvalidRequest("Invalid empty resource name")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequest(f"Invalid patternType {_word(PatternType, acl.pattern_type)}")
    _check_known(ResourceType, acl.resource_type, "resourceType")
    _check_known(Operation, acl.operation, "operation")
    _check_known(Permission, acl.permission, "permissionType")
    if ":" not in acl.principal:
        raise InvalidRequest(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal "
            "type from the principal name)"
        )


def check_filter(one: AclFilter) -> None:
    """Raise `InvalidRequest` for a filter in numbers that nobody knows."""
    if _is_unknown(ResourceType, one.resource_type) or _is_unknown(PatternType, one.pattern_type):
        raise InvalidRequest("Unknown patternFilter.")
    if _is_unknown(Operation, one.operation) or _is_unknown(Permission, one.permission):
        raise InvalidRequest("Unknown entryFilter.")


Term = type[ResourceType] | type[PatternType] | type[Operation] | type[Permission]


def _check_known(term: Term, number: int, name: str) -> None:
    word = _word(term, number)
    if word == "UNKNOWN":
        raise InvalidRequest(f"Invalid {name} {word}")


def _word(term: Term, number: int) -> str:
    return "UNKNOWN" if _is_unknown(term, number) else term(number).name


def _is_unknown(term: Term, number: int) -> bool:
    return number == 0 or number not in tuple(term)
