"""Access rules (DescribeAcls, CreateAcls, DeleteAcls)."""

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
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.acls import DeleteAclsMatchingAcl, DescribeAclsResource

T = TypeVar("T", bound=IntEnum)

NO_RULE = ("UNKNOWN", "ANY", "MATCH")
"""Words of filters and answers, which no rule can have."""


class AclsAdmin:
    """The part of `KafkaAdminClient` that is about access rules.  Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def describe_acls(
        self,
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
        """The rules that match, sorted; None and ANY match all.

        A name matches rules of that very name; with `pattern_type="MATCH"` all rules that a resource of that
        name falls under: its own, "*", and prefixes of it.

        Raises:
            SecurityDisabled: the brokers have no authorizer.
            ClusterAuthorizationFailed: you lack DESCRIBE on the cluster.
            IllegalArgument: a word that is none of Kafka's; nothing was sent.
        """
        from pykafka2.protocol.messages.acls import DescribeAclsRequest

        request = DescribeAclsRequest(
            resource_type_filter=_number(ResourceType, "resource_type", resource_type),
            resource_name_filter=resource_name,
            pattern_type_filter=_number(PatternType, "pattern_type", pattern_type),
            principal_filter=principal,
            host_filter=host,
            operation=_number(Operation, "operation", operation),
            permission_type=_number(Permission, "permission", permission),
        )
        response = self._cluster.request(request, AnyNode(), timeout)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        return sorted(
            (_binding(resource, acl) for resource in response.resources for acl in resource.acls),
            key=lambda one: (one.resource_type, one.resource_name, one.pattern_type, one.principal, str(one)),
        )

    def create_acls(
        self, bindings: Iterable[AclBinding], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[AclBinding, None]:
        """Add rules; one that is there already stays as it is.  One outcome for each rule.

        Raises:
            ItemsFailed: some were refused (unless `raise_errors` is False), each with the broker's error.
            IllegalArgument: a word that is none of Kafka's, or no rule can have, or what is no rule; nothing
                was sent.
        """
        from pykafka2.protocol.messages.acls import AclCreation, CreateAclsRequest

        wanted = _rules(bindings)
        creations = [
            AclCreation(
                resource_type=terms.resource_type,
                resource_name=one.resource_name,
                resource_pattern_type=terms.pattern_type,
                principal=one.principal,
                host=one.host,
                operation=terms.operation,
                permission_type=terms.permission,
            )
            for one, terms in zip(wanted, map(_Terms.of, wanted), strict=True)
        ]
        if not creations:
            return Outcomes({})
        response = self._cluster.request(CreateAclsRequest(creations=creations), AnyNode(), timeout)
        return _outcomes(wanted, response.results).checked("create_acls", raise_errors)

    def delete_acls(
        self, bindings: Iterable[AclBinding], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[AclBinding, None]:
        """Take these rules away, each matched in all its parts; one that is not there is no error.

        Raises as `create_acls`.
        """
        from pykafka2.protocol.messages.acls import DeleteAclsFilter, DeleteAclsRequest

        wanted = _rules(bindings)
        filters = [
            DeleteAclsFilter(
                resource_type_filter=terms.resource_type,
                resource_name_filter=one.resource_name,
                pattern_type_filter=terms.pattern_type,
                principal_filter=one.principal,
                host_filter=one.host,
                operation=terms.operation,
                permission_type=terms.permission,
            )
            for one, terms in zip(wanted, map(_Terms.of, wanted), strict=True)
        ]
        if not filters:
            return Outcomes({})
        response = self._cluster.request(DeleteAclsRequest(filters=filters), AnyNode(), timeout)
        outcomes = _outcomes(wanted, response.filter_results)
        for binding, result in zip(wanted, response.filter_results, strict=True):
            errors = [_error_of(one) for one in result.matching_acls if one.error_code]
            if errors and binding not in outcomes.errors:
                outcomes.errors[binding] = errors[0]
        return outcomes.checked("delete_acls", raise_errors)


def _rules(bindings: Iterable[AclBinding]) -> list[AclBinding]:
    """Each once.  Raises `IllegalArgument`: a part that is None would have delete_acls take all away."""
    if isinstance(bindings, AclBinding):
        raise IllegalArgument("bindings takes several rules, in a list for one")
    wanted = list(bindings)
    for one in wanted:
        if not isinstance(one, AclBinding):
            raise IllegalArgument(f"bindings has a {type(one).__name__}: takes AclBinding")
        for name in ("resource_name", "principal", "host"):
            part = getattr(one, name)
            if not isinstance(part, str):
                raise IllegalArgument(f"{name}={part!r}: a rule has text there")
    return list(dict.fromkeys(wanted))


@attrs.define(frozen=True)
class _Terms:
    """The numbers of an ACL in requests."""

    resource_type: int
    pattern_type: int
    operation: int
    permission: int

    @classmethod
    def of(cls, rule: AclBinding) -> _Terms:
        """Raises `IllegalArgument` for a word that no rule can have."""
        return cls(
            _number(ResourceType, "resource_type", rule.resource_type, of_rule=True),
            _number(PatternType, "pattern_type", rule.pattern_type, of_rule=True),
            _number(Operation, "operation", rule.operation, of_rule=True),
            _number(Permission, "permission", rule.permission, of_rule=True),
        )


def _outcomes(wanted: list[AclBinding], results: list[Any]) -> Outcomes[AclBinding, None]:
    """One for each rule, in the order in which they were sent."""
    if len(results) != len(wanted):
        raise CorruptResponse(f"the answer has {len(results)} results for {len(wanted)} rules")
    made: dict[AclBinding, None] = {}
    errors: dict[AclBinding, KafkaError] = {}
    for binding, result in zip(wanted, results, strict=True):
        if result.error_code:
            errors[binding] = error_of(result.error_code, result.error_message)
        else:
            made[binding] = None
    return Outcomes(made, errors)


def _error_of(answer: DeleteAclsMatchingAcl) -> KafkaError:
    return error_of(answer.error_code, answer.error_message)


def _binding(resource: DescribeAclsResource, acl: Any) -> AclBinding:
    return AclBinding(
        _word(ResourceType, resource.resource_type),
        resource.resource_name,
        _word(PatternType, resource.pattern_type),
        acl.principal,
        acl.host,
        _word(Operation, acl.operation),
        _word(Permission, acl.permission_type),
    )


def _word(term: type[T], number: int) -> str:
    """Kafka's word for a number; brokers newer than this client may have others."""
    return term(number).name if number in tuple(term) else f"UNKNOWN({number})"


def _number(term: type[T], name: str, word: str, *, of_rule: bool = False) -> int:
    known = [one for one in term.__members__ if one != "UNKNOWN" and not (of_rule and one in NO_RULE)]
    if word not in known:
        raise IllegalArgument(f"{name}={word!r}: say one of {', '.join(known)}")
    return term[word].value
