"""Leader hints in responses to clients that used the wrong broker: the leader and its address (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka2.errors import BrokerError, FencedLeaderEpoch, NotLeaderOrFollower

if TYPE_CHECKING:
    from pykafka2.broker.base.image import BrokerImage, Key, PartitionImage
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


def hint(services: Services, key: Key, error: BrokerError | None) -> PartitionImage | None:
    """Return this broker's image of the partition if the error is about leadership."""
    if isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
        return services.image.partition(*key)
    return None


def endpoints(
    services: Services, context: RequestContext, leaders: Iterable[int]
) -> list[tuple[BrokerImage, str, int]]:
    """Return these leaders, each once, with host and port for the client; stopped ones are left out."""
    listener = context.caller.listener
    return [
        (services.image.brokers[leader], *services.image.brokers[leader].address_by(listener))
        for leader in sorted(set(leaders))
        if services.image.is_alive(leader)
    ]
