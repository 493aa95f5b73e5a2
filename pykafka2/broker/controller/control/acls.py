"""Creation and deletion of ACLs by the controller (CreateAcls, DeleteAcls).

ACLs are validated like in Kafka's AclControlManager, in the same order and with the same messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pykafka2.broker.base.features import METADATA_VERSION
from pykafka2.broker.controller.metadata.records import acl_record
from pykafka2.broker.security.acls import Acl, AclFilter, network_of
from pykafka2.errors import BrokerError, InvalidRequest, UnknownServerError, UnsupportedVersion
from pykafka2.protocol.acl_terms import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from pykafka2.protocol.messages.metadata_records import RemoveAccessControlEntryRecord
from pykafka2.protocol.struct import MetadataRecord

if TYPE_CHECKING:
    from pykafka2.broker.controller.controller import Controller

FIRST_WITH_NETWORKS: Final = 32
"""The metadata.version from which on the host of an ACL can be a network in CIDR notation."""


def create_acls(
    controller: Controller, wanted: Iterable[Acl], *, checks_hosts: bool = True
) -> list[BrokerError | None]:
    """Add ACLs in one write. Return for each why it was rejected, or None; existing ones stay.

    An ACL that is a filter ("any topic") fails the whole request with `UnknownServerError`, as in Kafka.
    Before Kafka 4.4 the host could be any text: `checks_hosts` is False then.
    """
    wanted = list(wanted)
    if any(map(_is_filter, wanted)):
        raise UnknownServerError
    refusals: list[BrokerError | None] = []
    records: list[MetadataRecord] = []
    known = set(controller.image.acls)
    for acl in wanted:
        try:
            check(acl)
            if checks_hosts:
                _check_host(acl.host, controller.state.features.get(METADATA_VERSION, 0))
        except BrokerError as error:
            refusals.append(error)
            continue
        refusals.append(None)
        if acl not in known:
            known.add(acl)
            records.append(acl_record(controller.new_id(), acl))
    controller.write(records)
    return refusals


def delete_acls(controller: Controller, filters: Iterable[AclFilter]) -> list[list[Acl] | BrokerError]:
    """Remove ACLs in one write. Return for each filter the removed ACLs, or why it was rejected.

    An ACL matched by several filters is removed once and reported for each of them.
    """
    removed: dict[Acl, None] = {}
    results: list[list[Acl] | BrokerError] = []
    for acl_filter in filters:
        try:
            check_filter(acl_filter)
        except BrokerError as error:
            results.append(error)
            continue
        found = [acl for acl in controller.image.acls if acl_filter.matches(acl)]
        removed.update(dict.fromkeys(found))
        results.append(found)
    ids = controller.image.acls
    controller.write([RemoveAccessControlEntryRecord(id=ids[acl]) for acl in removed])
    return results


def _is_filter(acl: Acl) -> bool:
    """Return whether an ACL has values that only filters can have."""
    return (
        acl.resource_type == ResourceType.ANY
        or acl.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or acl.operation == Operation.ANY
        or acl.permission == Permission.ANY
    )


def check(acl: Acl) -> None:
    """Raise `InvalidRequest` for an invalid ACL."""
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


def _check_host(host: str, metadata_version: int) -> None:
    if not host:
        raise InvalidRequest("Host pattern cannot be null or empty")
    if "/" not in host:
        return
    if metadata_version < FIRST_WITH_NETWORKS:
        raise UnsupportedVersion("CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.")
    try:
        network_of(host)
    except ValueError as error:
        raise InvalidRequest(f"Invalid CIDR notation '{host}': {error}") from error


def check_filter(acl_filter: AclFilter) -> None:
    """Raise `InvalidRequest` for a filter with unknown numbers."""
    if _is_unknown(ResourceType, acl_filter.resource_type) or _is_unknown(
        PatternType, acl_filter.pattern_type
    ):
        raise InvalidRequest("Unknown patternFilter.")
    if _is_unknown(Operation, acl_filter.operation) or _is_unknown(Permission, acl_filter.permission):
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
