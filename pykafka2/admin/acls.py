"""Access control lists (DescribeAcls, CreateAcls, DeleteAcls)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.values import AclBinding
from pykafka2.driver.pollable import AnyNode
from pykafka2.errors import CorruptResponse, IllegalArgument, KafkaError, error_of
from pykafka2.protocol.acl_terms import Operation, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from pykafka2.admin.acl_names import ACLFilter
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.acls import DeleteAclsMatchingAcl, DescribeAclsResource

T = TypeVar("T", bound=IntEnum)

FILTER_VALUES = ("UNKNOWN", "ANY", "MATCH")
"""Values of filters and responses that no ACL can have."""


class AclsAdmin:
    """The ACL calls of `KafkaAdminClient`. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def describe_acls(
        self,
        acl_filter: ACLFilter | None = None,
        *,
        resource_type: str = "ANY",
        resource_name: str | None = None,
        pattern_type: str = "ANY",
        principal: str | None = None,
        host: str | None = None,
        operation: str = "ANY",
        permission: str = "ANY",
        timeout: float | None = None,
    ) -> list[AclBinding]:
        """Return the matching ACLs, sorted; None and ANY match all.

        A name matches ACLs with exactly that name. With `pattern_type="MATCH"` it matches all ACLs that apply
        to a resource of that name: literal ones, "*", and prefixes. kafka-python's `ACLFilter` has all of
        them in one argument.

        Raises:
            SecurityDisabled: the brokers have no authorizer.
            ClusterAuthorizationFailed: the principal lacks DESCRIBE on the cluster.
            IllegalArgument: an argument is not one of Kafka's values; no request was sent.
        """
        from pykafka2.protocol.messages.acls import DescribeAclsRequest

        if acl_filter is not None:
            pattern = acl_filter.resource_pattern
            resource_type, pattern_type = pattern.resource_type.name, pattern.pattern_type.name
            resource_name, principal, host = pattern.resource_name, acl_filter.principal, acl_filter.host
            operation, permission = acl_filter.operation.name, acl_filter.permission_type.name
        request = DescribeAclsRequest(
            resource_type_filter=_value(ResourceType, "resource_type", resource_type),
            resource_name_filter=resource_name,
            pattern_type_filter=_value(PatternType, "pattern_type", pattern_type),
            principal_filter=principal,
            host_filter=host,
            operation=_value(Operation, "operation", operation),
            permission_type=_value(Permission, "permission", permission),
        )
        response = self._cluster.request(request, AnyNode(), timeout)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        return sorted(
            (_binding(resource, acl) for resource in response.resources for acl in resource.acls),
            key=lambda acl: (acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, str(acl)),
        )

    def create_acls(
        self, bindings: Iterable[AclBinding], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[AclBinding, None]:
        """Create ACLs; existing ones stay unchanged. Return an outcome for each ACL.

        Raises:
            ItemsFailed: a broker rejected some (unless `raise_errors` is False), each with its error.
            IllegalArgument: a binding is not an `AclBinding`, or has a value that no ACL can have; no request
                was sent.
        """
        from pykafka2.protocol.messages.acls import AclCreation, CreateAclsRequest

        acls = _checked(bindings)
        creations = [
            AclCreation(
                resource_type=terms.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=terms.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=terms.operation,
                permission_type=terms.permission,
            )
            for acl, terms in zip(acls, map(_Terms.of, acls), strict=True)
        ]
        if not creations:
            return Outcomes({})
        response = self._cluster.request(CreateAclsRequest(creations=creations), AnyNode(), timeout)
        return _outcomes(acls, response.results).checked("create_acls", raise_errors)

    def delete_acls(
        self, bindings: Iterable[AclBinding], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[AclBinding, None]:
        """Delete exactly these ACLs; a missing one is no error.

        Raise the errors of `create_acls`.
        """
        from pykafka2.protocol.messages.acls import DeleteAclsFilter, DeleteAclsRequest

        acls = _checked(bindings)
        filters = [
            DeleteAclsFilter(
                resource_type_filter=terms.resource_type,
                resource_name_filter=acl.resource_name,
                pattern_type_filter=terms.pattern_type,
                principal_filter=acl.principal,
                host_filter=acl.host,
                operation=terms.operation,
                permission_type=terms.permission,
            )
            for acl, terms in zip(acls, map(_Terms.of, acls), strict=True)
        ]
        if not filters:
            return Outcomes({})
        response = self._cluster.request(DeleteAclsRequest(filters=filters), AnyNode(), timeout)
        outcomes = _outcomes(acls, response.filter_results)
        for binding, result in zip(acls, response.filter_results, strict=True):
            errors = [_error_of(match) for match in result.matching_acls if match.error_code]
            if errors and binding not in outcomes.errors:
                outcomes.errors[binding] = errors[0]
        return outcomes.checked("delete_acls", raise_errors)


def _checked(bindings: Iterable[AclBinding]) -> list[AclBinding]:
    """Return each ACL once.

    Raise IllegalArgument; a field that is None would match, and let delete_acls delete, all ACLs.
    """
    if isinstance(bindings, AclBinding):
        raise IllegalArgument("bindings must be a list; pass [binding] for a single ACL")
    acls = list(bindings)
    for acl in acls:
        if not isinstance(acl, AclBinding):
            raise IllegalArgument(f"bindings must contain AclBinding values, not {type(acl).__name__}")
        for name in ("resource_name", "principal", "host"):
            value = getattr(acl, name)
            if not isinstance(value, str):
                raise IllegalArgument(f"{name}={value!r} of an ACL must be a str")
    return list(dict.fromkeys(acls))


@attrs.define(frozen=True)
class _Terms:
    """The numbers of an ACL in requests."""

    resource_type: int
    pattern_type: int
    operation: int
    permission: int

    @classmethod
    def of(cls, acl: AclBinding) -> _Terms:
        """Return the numbers of an ACL. Raise IllegalArgument for a value that no ACL can have."""
        return cls(
            _value(ResourceType, "resource_type", acl.resource_type, of_acl=True),
            _value(PatternType, "pattern_type", acl.pattern_type, of_acl=True),
            _value(Operation, "operation", acl.operation, of_acl=True),
            _value(Permission, "permission", acl.permission, of_acl=True),
        )


def _outcomes(acls: list[AclBinding], results: list[Any]) -> Outcomes[AclBinding, None]:
    """Return the outcome for each ACL; responses have the order of the request."""
    if len(results) != len(acls):
        raise CorruptResponse(f"the response has {len(results)} results for {len(acls)} ACLs")
    done: dict[AclBinding, None] = {}
    errors: dict[AclBinding, KafkaError] = {}
    for binding, result in zip(acls, results, strict=True):
        if result.error_code:
            errors[binding] = error_of(result.error_code, result.error_message)
        else:
            done[binding] = None
    return Outcomes(done, errors)


def _error_of(match: DeleteAclsMatchingAcl) -> KafkaError:
    return error_of(match.error_code, match.error_message)


def _binding(resource: DescribeAclsResource, acl: Any) -> AclBinding:
    return AclBinding(
        _name(ResourceType, resource.resource_type),
        resource.resource_name,
        _name(PatternType, resource.pattern_type),
        acl.principal,
        acl.host,
        _name(Operation, acl.operation),
        _name(Permission, acl.permission_type),
    )


def _name(term: type[T], number: int) -> str:
    """Return Kafka's name of a number; newer brokers can send unknown numbers."""
    return term(number).name if number in tuple(term) else f"UNKNOWN({number})"


def _value(term: type[T], name: str, word: str, *, of_acl: bool = False) -> int:
    known = [
        member
        for member in term.__members__
        if member != "UNKNOWN" and not (of_acl and member in FILTER_VALUES)
    ]
    if word not in known:
        raise IllegalArgument(f"{name}={word!r} is not valid; use one of {', '.join(known)}")
    return term[word].value
