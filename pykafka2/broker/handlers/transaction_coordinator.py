"""APIs of transactions: those of transaction coordinators, and transactional ones of leaders and groups.

Requests for the coordinator are submitted to the shard of the transactional id's partition, which responds
once its records are committed (coordinators/transactions/). Any broker handles InitProducerId without a
transactional id. The versions are those of Apache Kafka 4.3.1. Registered without importing messages: they
are imported with the first transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykafka2.broker.handlers.registry import APIS, Api
from pykafka2.errors import InvalidRequest
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Request, Response

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

VERSIONS: Final = {
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
}


def handle(services: Services, context: RequestContext, request: Request[Any], now: float) -> None:
    """Submit the request; the coordinator responds, possibly before this returns."""
    services.coordinators.submit(services.coordinators.transactions, context, request, now)


def handle_init_producer_id(
    services: Services, context: RequestContext, request: Any, now: float
) -> Response | None:
    from pykafka2.protocol.messages.transaction import InitProducerIdResponse

    if request.transactional_id == "":
        raise InvalidRequest("the transactional id must not be empty")
    if request.transactional_id is not None:
        handle(services, context, request, now)
        return None
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise InvalidRequest("the request must have both producer id and epoch, or neither")
    return InitProducerIdResponse(producer_id=services.next_producer_id(), producer_epoch=0)


def handle_txn_offset_commit(services: Services, context: RequestContext, request: Any, now: float) -> None:
    from pykafka2.broker.handlers.txn_offset_commit import commit

    commit(services, context, request, now)


def handle_write_txn_markers(
    services: Services, context: RequestContext, request: Any, now: float
) -> Response | None:
    from pykafka2.broker.handlers.write_txn_markers import write_markers

    return write_markers(services, context, request, now)


def handle_describe_producers(
    services: Services, context: RequestContext, request: Any, now: float
) -> Response:
    from pykafka2.broker.handlers.describe_producers import describe_producers

    return describe_producers(services, request)


def refuse(request: Request[Any], version: int, code: int) -> Response:
    from pykafka2.broker.coordinators.refusals import refusal

    return refusal(request, version, code)


def refuse_write_txn_markers(request: Any, code: int) -> Response:
    from pykafka2.broker.handlers.write_txn_markers import refused

    return refused(request, code)


def refuse_describe_producers(request: Any, code: int) -> Response:
    from pykafka2.broker.handlers.describe_producers import refused

    return refused(request, code)


for _key, (_first, _last) in VERSIONS.items():
    APIS[_key] = Api(_key, _first, _last, handle, refuse_in_version=refuse)

for _api in (
    Api(ApiKey.INIT_PRODUCER_ID, 0, 5, handle_init_producer_id, refuse_in_version=refuse),
    Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, handle_txn_offset_commit, refuse_in_version=refuse),
    Api(ApiKey.WRITE_TXN_MARKERS, 1, 2, handle_write_txn_markers, refuse_write_txn_markers, oldest_version=0),
    Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, handle_describe_producers, refuse_describe_producers),
):
    APIS[_api.api_key] = _api
