"""Share groups on a running cluster: their options, states and members."""

from __future__ import annotations

from typing import Any

from pykafka2.broker.base.image import GROUP_RESOURCE
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.share_group import ShareGroupHeartbeatRequest
from tests.broker.support.admin_requests import alter
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.share_member import ShareMember
from tests.connections import LiveCluster

SMALL = {
    "share.coordinator.state.topic.num.partitions": 2,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.share.assignment.interval.ms": 0,
}
"""A small state topic, which is created quickly, and assignments without a delay."""


def topic_id(live: LiveCluster, name: str = "t") -> bytes:
    return live.cluster.running.controllers.image.topics[name].id


def initialize(live: LiveCluster, group_id: str = "g") -> None:
    """Have a member join a group, so that the states of its share partitions are initialized."""
    wire = live.connect()
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
    found: list[int] = []

    def is_found() -> bool:
        (coordinator,) = wire.call(find, 6).coordinators
        found.append(coordinator.node_id)
        return not coordinator.error_code

    live.wait_for(is_found)
    at = live.connect(found[-1])
    request = ShareGroupHeartbeatRequest(
        group_id=group_id, member_id="first", member_epoch=0, subscribed_topic_names=["t"]
    )
    assigned: set[int] = set()

    def is_assigned() -> bool:
        response = at.call(request, 1)
        if response.error_code:
            return False
        request.member_epoch, request.subscribed_topic_names = response.member_epoch, None
        if response.assignment is not None:
            for topic in response.assignment.topic_partitions:
                assigned.update(topic.partitions)
        return len(assigned) == len(live.cluster.running.controllers.image.topics["t"].partitions)

    live.wait_for(is_assigned)


def configure(live: LiveCluster, group_id: str = "g", **options: object) -> None:
    """Initialize a group and set its options; it reads from the earliest offset."""
    initialize(live, group_id)
    values = {name.replace("_", "."): str(value) for name, value in options.items()}
    changes = {"share.auto.offset.reset": "earliest", **values}
    made = alter(
        live.connect(), GROUP_RESOURCE, group_id, *((name, 0, value) for name, value in changes.items())
    )
    assert made[0] == "NONE", made


def wait_until_active(live: LiveCluster, count: int) -> None:
    """Wait until the leader has read the states of so many share partitions."""
    parts = live.cluster.running.broker(live.leader_id()).parts

    def are_active() -> bool:
        shares = parts.shares_or_none
        return shares is not None and [one.is_active for one in shares.partitions.values()] == [True] * count

    live.wait_for(are_active)


def member(live: LiveCluster, name: str = "m", partition: int = 0, **fields: Any) -> ShareMember:
    """Return a member on a connection of its own to the leader of a partition."""
    return ShareMember(live.leader(partition=partition), topic_id(live), member_id=name, **fields)


def fill(live: LiveCluster, *sizes: int, partition: int = 0) -> None:
    """Produce batches of so many records."""
    wire = live.leader(partition=partition)
    for size in sizes:
        records = batch([b"%d" % number for number in range(size)])
        assert produce(wire, "t", partition, records).error_code == 0
