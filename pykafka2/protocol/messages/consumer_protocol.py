"""Messages between members of a classic consumer group, through the coordinator.

Bytes inside JoinGroup and SyncGroup, each after its version as an int16.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bytes, Int32, String, field
from pykafka2.protocol.struct import Data, Struct


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    topic: String
    partitions: list[Int32]


class ConsumerProtocolSubscription(Data, versions="0-3"):
    """A member's topics, owned partitions and rack."""

    topics: list[String]
    user_data: Bytes | None = field(default=None, nullable="0+")
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = field(
        "1+", factory=list, ignorable=True
    )
    generation_id: Int32 = field("2+", default=-1, ignorable=True)
    rack_id: String | None = field("3+", default=None, nullable="0+", ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: String
    partitions: list[Int32]


class ConsumerProtocolAssignment(Data, versions="0-3"):
    """A member's assigned partitions."""

    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition]
    user_data: Bytes | None = field(default=None, nullable="0+")
