"""Throttles clients above their quotas: measures requests, sets throttle times, mutes connections (KIP-219).

The broker responds at once with throttle_time_ms, and mutes the connection for that time. A fetch is measured
before its response is built; if the client is throttled, the response is empty. The controller measures the
creation and deletion of partitions; the broker that received the request mutes the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka2.broker.quotas.client_quotas import ClientQuotas, MutationQuota
from pykafka2.errors import BrokerError, ThrottlingQuotaExceeded
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Response

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

NOT_MEASURED = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""Fetch and ShareFetch, which their handlers measure, and authentication, whose user is still unknown."""
BY_CONTROLLER = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS})
"""APIs whose response from the controller already has the throttle time."""


def throttle(quotas: ClientQuotas, context: RequestContext, response: Response | None, now: float) -> None:
    """Measure a handled request and throttle its client; `response` is None if there is none (acks=0)."""
    key, authentication = context.api_key, context.authentication
    if key in NOT_MEASURED or (authentication is not None and not authentication.is_complete):
        return
    user, client_id = client_of(context)
    throttle_ms = 0
    if key == ApiKey.PRODUCE:
        throttle_ms = quotas.produced(user, client_id, context.received.size_bytes, now)
    elif key in BY_CONTROLLER:
        throttle_ms = getattr(response, "throttle_time_ms", 0)
    if key != ApiKey.PRODUCE or response is not None:  # the time of acks=0 is not measured
        throttle_ms = max(throttle_ms, quotas.handled(user, client_id, handling_time(context, now), now))
    if throttle_ms:
        mute(context, response, throttle_ms)


def mute(context: RequestContext, response: Response | None, throttle_ms: int) -> None:
    """Set the throttle time of a response, and mute its connection after it."""
    context.delivery.throttle = throttle_ms / 1000.0
    if response is not None and "throttle_time_ms" in type(response).__slots__:
        response.throttle_time_ms = throttle_ms  # type: ignore[attr-defined]


def client_of(context: RequestContext) -> tuple[str, str]:
    """Return the user and the client id of a request."""
    return context.principal.name, context.client_id or ""


def handling_time(context: RequestContext, now: float) -> float:
    """Return the seconds that a handler spent on a request, without the time that it waited."""
    progress = context.progress
    if not progress.taken_at:
        return 0.0
    return max((progress.handled_at or now) - progress.taken_at, 0.0)


def mutation_quota(
    services: Services, context: RequestContext, strict_since: int, now: float
) -> MutationQuota:
    """Return the controller mutation quota of a request; strict since version `strict_since` (KIP-599)."""
    user, client_id = client_of(context)
    return services.quotas.mutation(user, client_id, now, is_strict=context.version >= strict_since)


def charge_on(
    services: Services, context: RequestContext, controller: int, now: float
) -> Callable[[int], object]:
    """Return a function that charges the client on the controller for partitions created by Metadata."""
    user, client_id = client_of(context)
    return services.of(controller).quotas.mutation(user, client_id, now, is_strict=True).record


def message_of(error: BrokerError) -> str | None:
    """Return the message of a failed topic, or None for an exceeded quota, as in Kafka."""
    return None if isinstance(error, ThrottlingQuotaExceeded) else str(error)
