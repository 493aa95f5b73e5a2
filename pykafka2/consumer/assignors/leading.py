"""Several assignors offered at once, and what the leader does with the one that the group chose.

Pure functions, used by group_leader.py and by whoever makes a consumer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykafka2.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    ClusterMetadata,
    MemberSubscription,
    RebalanceProtocol,
)
from pykafka2.errors import AssignorFailed, ConfigurationError, KafkaError
from pykafka2.types import TopicPartition


def rebalance_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The best protocol that all of them keep to, as in the Java client: one eager assignor makes all eager.

    Raises `ConfigurationError` where they have none in common.
    """
    common = set(RebalanceProtocol)
    for assignor in assignors:
        common &= set(assignor.protocols)
    if not common:
        each = ", ".join(
            f"{assignor.name!r} ({' or '.join(protocol.name for protocol in assignor.protocols) or 'none'})"
            for assignor in assignors
        )
        raise ConfigurationError(
            f"partition_assignment_strategy: the assignors have no rebalance protocol in common: {each}; "
            "offer assignors that share one"
        )
    return max(common)


def group_assignment(
    assignor: Assignor,
    protocol: RebalanceProtocol,
    cluster: ClusterMetadata,
    members: Mapping[str, MemberSubscription],
) -> dict[str, Assignment]:
    """What each member is to read, everybody named, as the leader sends it.

    Raises `AssignorFailed` if the assignor fails, or answers what the group cannot use: a member that is not
    of the group, something that is no `Assignment`, or, with the cooperative protocol, a partition of one
    member given to another before it was taken away.
    """
    try:
        answer = dict(assignor.assign(cluster, members))
    except KafkaError:
        raise
    except Exception as error:
        raise AssignorFailed(f"assignor {assignor.name!r}: assign() raised {error!r}") from error
    for member_id, assignment in answer.items():
        if member_id not in members:
            raise AssignorFailed(
                f"assignor {assignor.name!r}: assign() gives partitions to {member_id!r}, "
                f"which is not a member; members are {', '.join(map(repr, sorted(members)))}"
            )
        if not isinstance(assignment, Assignment):
            raise AssignorFailed(
                f"assignor {assignor.name!r}: assign() answered {assignment!r} for member {member_id!r}; "
                "it takes a pykafka2.Assignment"
            )
    assigned = {member_id: answer.get(member_id, Assignment()) for member_id in members}
    if protocol is RebalanceProtocol.COOPERATIVE:
        _refuse_sudden_moves(assignor, members, assigned)
    return assigned


def _refuse_sudden_moves(
    assignor: Assignor, members: Mapping[str, MemberSubscription], assigned: Mapping[str, Assignment]
) -> None:
    """Two members would read a partition at once if it moved in one rebalance."""
    newest = max(member.generation for member in members.values())
    owners: dict[TopicPartition, str] = {
        partition: member_id
        for member_id, member in members.items()
        if member.generation == newest
        for partition in member.owned
    }
    for member_id, assignment in assigned.items():
        for partition in assignment.partitions:
            owner = owners.get(partition, member_id)
            if owner != member_id:
                raise AssignorFailed(
                    f"assignor {assignor.name!r} is cooperative, and gives {partition} to {member_id!r} "
                    f"while {owner!r} owns it; it must leave the partition out now, and give it in the next "
                    "rebalance"
                )
