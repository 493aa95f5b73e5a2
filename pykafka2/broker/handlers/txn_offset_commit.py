"""TxnOffsetCommit: offsets that are committed with a transaction.

Before the group coordinator accepts them, the partition of __consumer_offsets is verified with the
transaction coordinator, as a leader does for a Produce; since version 5 the request adds it (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC, partition_for
from pykafka2.broker.coordinators.refusals import refusal
from pykafka2.broker.coordinators.transactions.verifier import (
    Codes,
    Guards,
    TransactionSupport,
    VerificationRequest,
    for_offsets,
)
from pykafka2.errors import NotCoordinator
from pykafka2.protocol.messages.transaction import TxnOffsetCommitRequest
from pykafka2.records.batch import NO_SEQUENCE

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.log.producer_state import VerificationGuard
    from pykafka2.broker.server.request_context import RequestContext

FIRST_THAT_ADDS: Final = 5
FIRST_WITH_ABORTABLE: Final = 4


def support_of(version: int) -> TransactionSupport:
    """Return the transaction features of the producer, by the version of its request."""
    if version >= FIRST_THAT_ADDS:
        return TransactionSupport.ADDS_PARTITIONS
    return TransactionSupport.ABORTABLE if version >= FIRST_WITH_ABORTABLE else TransactionSupport.OLD_ERRORS


def commit(services: Services, context: RequestContext, request: TxnOffsetCommitRequest, now: float) -> None:
    """Verify, then submit to the group coordinator, which responds."""
    coordinators = services.coordinators
    key = (OFFSETS_TOPIC, partition_for(request.group_id, coordinators.groups.partitions))

    def refuse(code: int) -> None:
        if not context.is_complete:
            context.respond(refusal(request, context.version, code))

    def proceed(guard: VerificationGuard | None, at: float) -> None:
        if not coordinators.coordinates(key):
            refuse(NotCoordinator.code or 0)
            return
        with coordinators.log_of(key).guarded_by(guard):
            coordinators.submit(coordinators.groups, context, request, at)

    if not coordinators.coordinates(key):
        refuse(NotCoordinator.code or 0)
        return
    verification = VerificationRequest(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        {key: NO_SEQUENCE},
        support_of(context.version),
    )
    guards, errors = services.verifier.begin(verification)
    if errors:
        refuse(for_offsets(errors[key].code or 0))
        return

    def on_codes(found: Guards, codes: Codes, at: float) -> None:
        code = codes[key]
        if code:
            refuse(for_offsets(code))
        else:
            services.respond_with(context, lambda: proceed(found[key], at))

    if guards:
        services.verifier.verify(verification, guards, on_codes, now)
    else:
        proceed(None, now)
