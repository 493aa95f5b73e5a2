"""Which replica a consumer should read from: `replica.selector.class` (KIP-392).

Pure functions, asked by the leader for each partition that a consumer with a rack fetches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.replication.replica import Replica
from pykafka2.errors import ConfigurationError

Select = Callable[[Replica, int, str, ClusterImage], int]
"""(the leader's replica, offset asked for, the consumer's rack, brokers) -> broker id, -1: the leader."""

PACKAGE: Final = "org.apache.kafka.common.replica."
LEADER: Final = -1


def rack_aware(replica: Replica, offset: int, rack: str, image: ClusterImage) -> int:
    """A replica in sync in the consumer's rack that has the offset: the one that is furthest."""
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
    return max(near, key=lambda one: (one.log_end_offset, one.caught_up_at, -one.broker_id)).broker_id


SELECTORS: Final[dict[str, Select | None]] = {
    "": None,
    f"{PACKAGE}LeaderSelector": None,
    f"{PACKAGE}RackAwareReplicaSelector": rack_aware,
}


def selector(class_name: str) -> Select | None:
    """The selector of that name, None where consumers always read from the leader."""
    try:
        return SELECTORS[class_name]
    except KeyError:
        known = ", ".join(name for name in SELECTORS if name)
        raise ConfigurationError(
            f"replica.selector.class={class_name!r} cannot be loaded; known are {known}"
        ) from None
