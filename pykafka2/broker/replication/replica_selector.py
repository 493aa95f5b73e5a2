"""Selects the replica that a consumer should read from: `replica.selector.class` (KIP-392).

Pure functions, called by the leader for each partition fetched by a consumer with a rack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.replication.replica import Replica
from pykafka2.errors import ConfigurationError

Select = Callable[[Replica, int, str, ClusterImage], int]
"""Arguments: the leader's replica, the requested offset, the consumer's rack, the image. Returns a broker
id, -1 for the leader.
"""

PACKAGE: Final = "org.apache.kafka.common.replica."
LEADER: Final = -1


def rack_aware(replica: Replica, offset: int, rack: str, image: ClusterImage) -> int:
    """Return the most advanced in-sync replica in the consumer's rack that has the offset."""
    if not rack:
        return LEADER

    def is_near(broker_id: int) -> bool:
        broker = image.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced and broker.rack == rack

    if is_near(replica.broker_id):
        return LEADER
    near = [
        follower
        for follower in replica.followers.values()
        if follower.broker_id in replica.image.isr
        and follower.log_start_offset <= offset <= follower.log_end_offset
        and is_near(follower.broker_id)
    ]
    if not near:
        return LEADER
    return max(
        near, key=lambda follower: (follower.log_end_offset, follower.caught_up_at, -follower.broker_id)
    ).broker_id


SELECTORS: Final[dict[str, Select | None]] = {
    "": None,
    f"{PACKAGE}LeaderSelector": None,
    f"{PACKAGE}RackAwareReplicaSelector": rack_aware,
}


def selector(class_name: str) -> Select | None:
    """Return the selector for a class name; None if consumers always read from the leader."""
    try:
        return SELECTORS[class_name]
    except KeyError:
        known = ", ".join(name for name in SELECTORS if name)
        raise ConfigurationError(
            f"replica.selector.class={class_name!r} cannot be loaded; known are {known}"
        ) from None
