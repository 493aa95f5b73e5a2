"""Requests for the active controller, handled as events of its queue, on the broker that hosts it (KIP-590).

The request's own timeout, if Kafka uses it, limits the wait in the queue; after it the client gets
REQUEST_TIMED_OUT. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka2.broker.handlers.registry import Api, respond
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.clock import FOREVER
from pykafka2.errors import RequestTimedOut

# Requests whose timeout_ms Kafka's controller uses: CreateTopics, DeleteTopics, CreatePartitions,
# ElectLeaders, AlterPartitionReassignments. It ignores that of ListPartitionReassignments and UpdateFeatures.
BOUNDED_BY_THEMSELVES = frozenset((19, 20, 37, 43, 45))

# Kafka's request.timeout.ms for all others.
DEFAULT_TIMEOUT = 30.0


def timeout_of(request: Any) -> float:
    """Return how long the client waits, in seconds."""
    if request.API_KEY not in BOUNDED_BY_THEMSELVES:
        return DEFAULT_TIMEOUT
    timeout_ms: int = request.timeout_ms
    return max(timeout_ms, 0) / 1000.0


def deadline_of(context: RequestContext) -> float:
    """Return until when the client waits."""
    return context.received.received_at + timeout_of(context.request)


def submit_to_controller(
    services: Services, api: Api, context: RequestContext, now: float, refused: Callable[[float], None]
) -> None:
    """Handle a request as an event of the controller's queue.

    `refused` is called if this broker is no longer the controller by then.
    """
    services.controller_node.change(
        api.name,
        lambda: respond(services, api, context, services.clock.monotonic()),
        now,
        deadline=FOREVER if api.between_brokers else deadline_of(context),
        refused=lambda error, at: refused(at),
        expire=lambda at: services.responses.refuse(context, RequestTimedOut.code or 0),
    )
