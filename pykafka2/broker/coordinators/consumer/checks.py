"""Validation of ConsumerGroupHeartbeat requests and member epochs. Pure functions."""

from __future__ import annotations

from pykafka2.broker.coordinators.consumer.reconciliation import Owned
from pykafka2.broker.coordinators.consumer.state import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
)
from pykafka2.errors import (
    FencedMemberEpoch,
    InvalidRequest,
    UnsupportedAssignor,
)
from pykafka2.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
)


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Reject an invalid request, before the group is looked up."""
    epoch = request.member_epoch
    problem = None
    if not request.group_id:
        problem = "the group id is empty"
    elif not request.member_id and (version >= 1 or epoch != JOIN_EPOCH):
        problem = "the member id is empty"
    elif request.instance_id == "" or request.rack_id == "":
        problem = "an instance id or rack id is empty; use null for none"
    elif epoch < STATIC_LEAVE_EPOCH:
        problem = f"invalid member epoch {epoch}"
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        problem = "only static members can leave temporarily"
    elif epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            problem = "the first request needs a rebalance timeout"
        elif request.topic_partitions is None or request.topic_partitions:
            problem = "the first request needs an empty list of owned partitions"
        elif request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            problem = "the first request needs topics or a pattern"
    if problem is not None:
        raise InvalidRequest(problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignor(
            f"unknown assignor {request.server_assignor}; use one of {', '.join(assignors)}"
        )


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's.

    The previous epoch is accepted after a lost response.
    """
    if epoch == member.epoch:
        return
    is_subset = owned is not None and all(
        partition in member.assigned.get(topic_id, {})
        for topic_id, partitions in owned
        for partition in partitions
    )
    if epoch < member.epoch and epoch == member.previous_epoch and is_subset:
        return
    raise FencedMemberEpoch(f"{member.id} is at epoch {member.epoch}, not {epoch}; it must rejoin")


def owned_of(request: ConsumerGroupHeartbeatRequest) -> Owned:
    if request.topic_partitions is None:
        return None
    return [(topic.topic_id, topic.partitions) for topic in request.topic_partitions]
