"""DescribeAcls, CreateAcls, DeleteAcls: a broker without an authorizer keeps no access rules, and says so.

As Apache Kafka 4.3.1 does where `authorizer.class.name` is empty, also for resource types that it does not
know, as it asks for the authorizer first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.errors import BrokerError, SecurityDisabled, error_of
from pykafka2.protocol.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


NO_AUTHORIZER = SecurityDisabled("No Authorizer is configured.")


def handle_describe(
    services: Services, context: RequestContext, request: DescribeAclsRequest, now: float
) -> DescribeAclsResponse:
    return _describe_refused(SecurityDisabled("No Authorizer is configured on the broker"))


def handle_create(
    services: Services, context: RequestContext, request: CreateAclsRequest, now: float
) -> CreateAclsResponse:
    return _create_refused(request, NO_AUTHORIZER)


def handle_delete(
    services: Services, context: RequestContext, request: DeleteAclsRequest, now: float
) -> DeleteAclsResponse:
    return _delete_refused(request, NO_AUTHORIZER)


def refuse_describe(request: DescribeAclsRequest, code: int) -> DescribeAclsResponse:
    return _describe_refused(error_of(code))


def refuse_create(request: CreateAclsRequest, code: int) -> CreateAclsResponse:
    return _create_refused(request, error_of(code))


def refuse_delete(request: DeleteAclsRequest, code: int) -> DeleteAclsResponse:
    return _delete_refused(request, error_of(code))


def _describe_refused(error: BrokerError) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code or 0, error_message=str(error), resources=[])


def _create_refused(request: CreateAclsRequest, error: BrokerError) -> CreateAclsResponse:
    code, words = error.code or 0, str(error)
    results = [AclCreationResult(error_code=code, error_message=words) for _ in request.creations]
    return CreateAclsResponse(results=results)


def _delete_refused(request: DeleteAclsRequest, error: BrokerError) -> DeleteAclsResponse:
    code, words = error.code or 0, str(error)
    results = [
        DeleteAclsFilterResult(error_code=code, error_message=words, matching_acls=[])
        for _ in request.filters
    ]
    return DeleteAclsResponse(filter_results=results)
