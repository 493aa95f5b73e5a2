"""Validation of manual partition assignments, with Kafka's messages.

Pure functions over the registered brokers.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from pykafka2.broker.base.image import NO_LEADER, PartitionImage
from pykafka2.broker.controller.placement import Host, place
from pykafka2.broker.controller.state import State
from pykafka2.errors import InvalidReplicaAssignment, InvalidReplicationFactor


def check_assignment(replicas: Sequence[int], brokers: Container[int], factor: int | None = None) -> None:
    """Raise `InvalidReplicaAssignment` unless a partition can have these replicas.

    `factor` is the number of replicas of the topic's other partitions.
    """
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    for replica in sorted(replicas):
        if replica not in brokers:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {replica}, "
                "but no such broker is registered."
            )
    duplicate = next((replica for replica in sorted(replicas) if replicas.count(replica) > 1), None)
    if duplicate is not None:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes the broker {duplicate} more than once."
        )
    if factor is not None and len(replicas) != factor:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this "
            f"is not consistent with previous partitions, which have {factor} replica(s)."
        )


def new_partition(state: State, replicas: tuple[int, ...]) -> PartitionImage:
    """Return a partition with these replicas, led by the first eligible one. Raise if none is eligible."""
    isr = tuple(replica for replica in replicas if state.image.is_eligible(replica))
    if not isr:
        raise InvalidReplicaAssignment(
            "All brokers specified in the manual partition assignment "
            f"for {list(replicas)} are fenced or in controlled shutdown."
        )
    return PartitionImage(replicas, isr, isr[0] if isr else NO_LEADER)


def placed(state: State, partitions: int, factor: int) -> list[tuple[int, ...]]:
    """Place new partitions on brokers; live brokers lead, continuing the round-robin of earlier topics."""
    hosts = [
        Host(broker.id, broker.rack, state.image.is_eligible(broker.id)) for broker in state.brokers.values()
    ]
    if not any(host.is_live for host in hosts):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or have "
            "all their log directories cordoned."
        )
    if factor > len(hosts):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} "
            f"cannot be reached because only {len(hosts)} broker(s) are registered or some brokers have all "
            "their log directories cordoned."
        )
    return place(hosts, partitions, factor, state.next_host)
