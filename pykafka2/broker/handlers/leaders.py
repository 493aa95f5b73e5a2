"""What answers add when the asker went to the wrong broker: who leads, and where that is (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka2.errors import BrokerError, FencedLeaderEpoch, NotLeaderOrFollower

if TYPE_CHECKING:
    from pykafka2.broker.base.image import BrokerImage, PartitionImage
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.replication.key import Key


def hint(services: Services, key: Key, error: BrokerError | None) -> PartitionImage | None:
    """The partition as we know it, if the error is one of leadership."""
    if isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
        return services.image.partition(*key)
    return None


def endpoints(services: Services, leaders: Iterable[int]) -> list[BrokerImage]:
    """Where these leaders are, each once; those that do not run are left out."""
    return [
        services.image.brokers[leader] for leader in sorted(set(leaders)) if services.image.is_alive(leader)
    ]
