"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken (KIP-48).

Accepted only from clients that authenticated without a token, and not over a plaintext listener. The
receiving broker checks that and has the controller make the change instead of forwarding the request, because
the controller does not get the client's listener.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka2.broker.controller.control.delegation_tokens import (
    TokenRequest,
    create_token,
    expire_token,
    renew_token,
    secret_key,
)
from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.authorization import OPEN
from pykafka2.broker.security.delegation_tokens import DelegationToken, matches_owners, may_ask
from pykafka2.broker.security.principal import USER, Principal
from pykafka2.broker.server.responses import Refusal
from pykafka2.errors import (
    BrokerError,
    DelegationTokenAuthorizationFailed,
    DelegationTokenRequestNotAllowed,
    InvalidPrincipalType,
)
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.config.configs import BrokerConfig
    from pykafka2.broker.controller.controller import Controller
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext
    from pykafka2.protocol.primitives import Buffer

    Change = Callable[[Controller, BrokerConfig, bytes, Principal, int, int], int]
    """Callback: (controller, config, HMAC, requester, period, time) -> the new expiry time."""

FIRST_VERSION_WITH_REQUESTER = 3
NO_TIME, CONTROLLERS_NO_TIME = -1, 0
"""Times in a response without one: from the receiving broker, from Kafka's controller."""


@api(
    CreateDelegationTokenRequest,
    1,
    3,
    access=OPEN,
    refusal=Refusal(blank={"issue_timestamp_ms": -1, "expiry_timestamp_ms": -1, "max_timestamp_ms": -1}),
    oldest=0,
)
def handle_create(
    services: Services, context: RequestContext, request: CreateDelegationTokenRequest, now: float
) -> CreateDelegationTokenResponse:
    requester = owner = context.principal
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    renewers = [Principal(renewer.principal_type, renewer.principal_name) for renewer in request.renewers]
    at_ms = NO_TIME
    try:
        _check_caller(context)
        if owner != requester and not _may(services, context, Operation.CREATE_TOKENS, owner):
            raise DelegationTokenAuthorizationFailed
        if any(renewer.kind != USER for renewer in renewers):
            raise InvalidPrincipalType
        at_ms = CONTROLLERS_NO_TIME
        wanted = TokenRequest(owner, requester, renewers, request.max_lifetime_ms)
        token = services.change_now(
            f"create a delegation token of {owner}",
            lambda active: create_token(
                active, services.config, services.entropy, wanted, services.clock.wall_ms()
            ),
        )
    except BrokerError as error:
        response = _not_created(error.code or 0, owner, at_ms)
    else:
        response = CreateDelegationTokenResponse(
            principal_type=owner.kind,
            principal_name=owner.name,
            issue_timestamp_ms=token.issued_at_ms,
            expiry_timestamp_ms=token.expires_at_ms,
            max_timestamp_ms=token.max_at_ms,
            token_id=token.id,
            hmac=token.hmac,
        )
    if context.version >= FIRST_VERSION_WITH_REQUESTER:
        response.token_requester_principal_type = requester.kind
        response.token_requester_principal_name = requester.name
    return response


def _not_created(code: int, owner: Principal, at_ms: int) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.kind,
        principal_name=owner.name,
        issue_timestamp_ms=at_ms,
        expiry_timestamp_ms=at_ms,
        max_timestamp_ms=at_ms,
        token_id="",
        hmac=b"",
    )


@api(
    RenewDelegationTokenRequest,
    1,
    2,
    access=OPEN,
    refusal=Refusal(blank={"expiry_timestamp_ms": NO_TIME}),
    oldest=0,
)
def handle_renew(
    services: Services, context: RequestContext, request: RenewDelegationTokenRequest, now: float
) -> RenewDelegationTokenResponse:
    code, at_ms = _changed(
        services, context, "renew a delegation token", renew_token, request.hmac, request.renew_period_ms
    )
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=at_ms)


@api(
    ExpireDelegationTokenRequest,
    1,
    2,
    access=OPEN,
    refusal=Refusal(blank={"expiry_timestamp_ms": NO_TIME}),
    oldest=0,
)
def handle_expire(
    services: Services, context: RequestContext, request: ExpireDelegationTokenRequest, now: float
) -> ExpireDelegationTokenResponse:
    period_ms = request.expiry_time_period_ms
    code, at_ms = _changed(
        services, context, "expire a delegation token", expire_token, request.hmac, period_ms
    )
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=at_ms)


@api(DescribeDelegationTokenRequest, 1, 3, access=OPEN, oldest=0)
def handle_describe(
    services: Services, context: RequestContext, request: DescribeDelegationTokenRequest, now: float
) -> DescribeDelegationTokenResponse:
    _check_caller(context)
    secret_key(services.config)
    owners = request.owners
    principals = (
        None
        if owners is None
        else [Principal(owner.principal_type, owner.principal_name) for owner in owners]
    )
    tokens = [
        token
        for token in services.image.tokens.values()
        if matches_owners(token, principals) and _may_see(services, context, token)
    ]
    return DescribeDelegationTokenResponse(tokens=[_described(token, context.version) for token in tokens])


def _described(token: DelegationToken, version: int) -> DescribedDelegationToken:
    described = DescribedDelegationToken(
        principal_type=token.owner.kind,
        principal_name=token.owner.name,
        issue_timestamp=token.issued_at_ms,
        expiry_timestamp=token.expires_at_ms,
        max_timestamp=token.max_at_ms,
        token_id=token.id,
        hmac=token.hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=renewer.kind, principal_name=renewer.name)
            for renewer in token.renewers
        ],
    )
    if version >= FIRST_VERSION_WITH_REQUESTER:
        described.token_requester_principal_type = token.requester.kind
        described.token_requester_principal_name = token.requester.name
    return described


def _changed(
    services: Services,
    context: RequestContext,
    name: str,
    change: Change,
    token_hmac: Buffer,
    period_ms: int,
) -> tuple[int, int]:
    """Have the controller change a token. Return the error code and the new expiry time."""
    requester = context.principal
    at_ms = NO_TIME
    try:
        _check_caller(context)
        at_ms = CONTROLLERS_NO_TIME
        return 0, services.change_now(
            name,
            lambda active: change(
                active, services.config, bytes(token_hmac), requester, period_ms, services.clock.wall_ms()
            ),
        )
    except BrokerError as error:
        return error.code or 0, at_ms


def _check_caller(context: RequestContext) -> None:
    if not may_ask(context.caller):
        raise DelegationTokenRequestNotAllowed


def _may_see(services: Services, context: RequestContext, token: DelegationToken) -> bool:
    if token.is_shown_to(context.principal):
        return True
    access = services.access_of(context)
    if access is None:
        return True  # as without an authorizer
    return access.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id, notes=False) or access.may(
        Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner), notes=False
    )


def _may(services: Services, context: RequestContext, operation: int, owner: Principal) -> bool:
    access = services.access_of(context)
    return access is None or access.may(operation, ResourceType.USER, str(owner))
