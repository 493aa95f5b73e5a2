"""Groups of KIP-848's members on the bundled broker, in virtual time: what differs from classic groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykafka2.consumer.group.kip848.membership import ConsumerMembership
from pykafka2.consumer.group.kip848.reconciliation import Reconciliation
from pykafka2.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from pykafka2.testing import Simulation
from tests.consumer.group.life import Group, Member

BEATS = ConsumerGroupHeartbeatRequest
SESSION = {"group.consumer.session.timeout.ms": 6000}
CLASSIC_ONLY = {"heartbeat_interval_ms": None, "session_timeout_ms": None}


def consumer_group(
    simulation: Simulation,
    topics: dict[str, int] | None = None,
    brokers: int = 2,
    config: dict[str, Any] | None = None,
    **options: Any,
) -> Group:
    """A group whose members say group_protocol="consumer"; a session lasts for six seconds."""
    return Group(
        simulation,
        topics,
        brokers,
        config={**SESSION, **(config or {})},
        **{"group_protocol": "consumer", **CLASSIC_ONLY, **options},
    )


def membership(member: Member) -> ConsumerMembership:
    assert member.consumer._core.group is not None
    found = member.consumer._core.group.membership
    assert isinstance(found, ConsumerMembership)
    return found


def reconciliation(member: Member) -> Reconciliation:
    assert member.consumer._core.group is not None
    found = member.consumer._core.group.rebalance.protocol
    assert isinstance(found, Reconciliation)
    return found


def beats(group: Group, member: Member | None = None) -> list[ConsumerGroupHeartbeatRequest]:
    """The heartbeats that the brokers have got, of this member or of all."""
    if member is None:
        return group.cluster.history.requests(BEATS)
    return group.cluster.history.requests(BEATS, client_id=member.name)


def owned(*members: Member) -> list[list[int]]:
    """The numbers of the partitions that each member owns."""
    return [sorted(one.partition for one in member.owned) for member in members]


def topics_of(members: Iterable[Member]) -> set[str]:
    return {partition.topic for member in members for partition in member.owned}
