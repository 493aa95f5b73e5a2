"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554): SCRAM users."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pykafka2.broker.controller.control.scram_users import Upsertion, alter_scram_users
from pykafka2.broker.handlers.api import CONTROLLER, api
from pykafka2.broker.handlers.authorization import on_cluster
from pykafka2.broker.server.responses import REFUSAL
from pykafka2.errors import BrokerError, DuplicateResource, ResourceNotFound
from pykafka2.protocol.acl_terms import Operation
from pykafka2.protocol.messages.users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


@api(DescribeUserScramCredentialsRequest, 0, 0, access=on_cluster(Operation.DESCRIBE))
def handle_describe(
    services: Services, context: RequestContext, request: DescribeUserScramCredentialsRequest, now: float
) -> DescribeUserScramCredentialsResponse:
    """Describe these users or, if none is named, all."""
    counts = Counter(user.name for user in request.users or []) or Counter(services.image.scram_users)
    if not request.users:
        counts = Counter(dict.fromkeys(counts, 1))
    return DescribeUserScramCredentialsResponse(
        results=[_described(services, user, count) for user, count in counts.items()]
    )


def _described(services: Services, user: str, count: int) -> DescribeUserScramCredentialsResult:
    known = services.image.scram_users.get(user, {})
    error: BrokerError | None = None
    if count > 1:
        error = DuplicateResource(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    elif not known:
        error = ResourceNotFound(f"Attempt to describe a user credential that does not exist: {user}")
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=0 if error is None else error.code or 0,
        error_message="" if error is None else str(error),
        credential_infos=[]
        if error is not None
        else [
            CredentialInfo(mechanism=int(kind), iterations=kept.iterations)
            for kind, kept in sorted(known.items())
        ],
    )


def refuse_alter(
    request: AlterUserScramCredentialsRequest, version: int, code: int
) -> AlterUserScramCredentialsResponse:
    """Return the error once for each user, as in Kafka."""
    changes: list[Any] = [*request.deletions, *request.upsertions]
    users = dict.fromkeys(change.name for change in changes)
    results = [REFUSAL.entry(AlterUserScramCredentialsResult, user, version, code) for user in users]
    return AlterUserScramCredentialsResponse(results=results)


@api(
    AlterUserScramCredentialsRequest,
    0,
    0,
    at=CONTROLLER,
    access=on_cluster(Operation.ALTER),
    refusal=refuse_alter,
)
def handle_alter(
    services: Services, context: RequestContext, request: AlterUserScramCredentialsRequest, now: float
) -> AlterUserScramCredentialsResponse:
    outcome = alter_scram_users(
        services.controller,
        [(deletion.name, deletion.mechanism) for deletion in request.deletions],
        [
            Upsertion(
                upsertion.name,
                upsertion.mechanism,
                upsertion.iterations,
                bytes(upsertion.salt),
                bytes(upsertion.salted_password),
            )
            for upsertion in request.upsertions
        ],
    )
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=0 if error is None else error.code or 0,
                error_message=None if error is None else str(error),
            )
            for user, error in outcome.items()
        ]
    )
