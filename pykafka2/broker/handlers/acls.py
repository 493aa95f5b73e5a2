"""DescribeAcls, CreateAcls, DeleteAcls: the cluster's ACLs.

A broker without an authorizer stores none and responds with SECURITY_DISABLED, like Apache Kafka with
an empty `authorizer.class.name`, even for unknown resource types, because the authorizer is checked first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka2.broker.controller.control.acls import create_acls, delete_acls
from pykafka2.broker.handlers.api import CONTROLLER, api
from pykafka2.broker.handlers.authorization import on_cluster
from pykafka2.broker.security.acls import Acl, AclFilter
from pykafka2.broker.server.responses import REFUSAL, Refusal
from pykafka2.errors import BrokerError, SecurityDisabled, UnknownServerError
from pykafka2.protocol.acl_terms import Operation
from pykafka2.protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


NO_AUTHORIZER = SecurityDisabled("No Authorizer is configured.")


@api(DescribeAclsRequest, 1, 3, access=on_cluster(Operation.DESCRIBE), oldest=0)
def handle_describe(
    services: Services, context: RequestContext, request: DescribeAclsRequest, now: float
) -> DescribeAclsResponse:
    if services.gate is None:
        return REFUSAL(
            request, context.version, SecurityDisabled("No Authorizer is configured on the broker")
        )
    acl_filter = _filter_of(request)
    found = [acl for acl in services.image.acls if acl_filter.matches(acl)]
    return DescribeAclsResponse(resources=_by_resource(found))


@api(
    CreateAclsRequest,
    1,
    3,
    access=on_cluster(Operation.ALTER),
    at=CONTROLLER,
    refusal=Refusal(silent=UnknownServerError),
    oldest=0,
)
def handle_create(
    services: Services, context: RequestContext, request: CreateAclsRequest, now: float
) -> CreateAclsResponse:
    if services.gate is None:
        return REFUSAL(request, context.version, NO_AUTHORIZER)
    checks_hosts = services.node.release.is_since("4.4")
    refusals = create_acls(services.controller, map(_acl_of, request.creations), checks_hosts=checks_hosts)
    return CreateAclsResponse(
        results=[
            AclCreationResult(
                error_code=0 if error is None else error.code or 0,
                error_message="" if error is None else str(error),
            )
            for error in refusals
        ]
    )


@api(DeleteAclsRequest, 1, 3, access=on_cluster(Operation.ALTER), at=CONTROLLER, oldest=0)
def handle_delete(
    services: Services, context: RequestContext, request: DeleteAclsRequest, now: float
) -> DeleteAclsResponse:
    if services.gate is None:
        return REFUSAL(request, context.version, NO_AUTHORIZER)
    results = []
    for outcome in delete_acls(services.controller, map(_filter_of, request.filters)):
        if isinstance(outcome, BrokerError):
            results.append(
                DeleteAclsFilterResult(
                    error_code=outcome.code or 0, error_message=str(outcome), matching_acls=[]
                )
            )
        else:
            results.append(DeleteAclsFilterResult(error_message=None, matching_acls=_removed(outcome)))
    return DeleteAclsResponse(filter_results=results)


# ---------------------------------------------------------------------- conversion


def _acl_of(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _filter_of(source: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        source.resource_type_filter,
        source.resource_name_filter,
        source.pattern_type_filter,
        source.principal_filter,
        source.host_filter,
        source.operation,
        source.permission_type,
    )


def _by_resource(acls: Iterable[Acl]) -> list[DescribeAclsResource]:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in acls:
        key = (acl.resource_type, acl.resource_name, acl.pattern_type)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[],
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return list(resources.values())


def _removed(acls: Iterable[Acl]) -> list[DeleteAclsMatchingAcl]:
    return [
        DeleteAclsMatchingAcl(
            error_message=None,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
