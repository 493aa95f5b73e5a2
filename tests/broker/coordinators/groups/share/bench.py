"""A share group on a simulated cluster: heartbeats and administration in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka2 import errors
from pykafka2.protocol.messages import group_admin, share_group, share_offsets
from pykafka2.protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.raw_client import RawClient

TOPICS = {"orders": 4, "refunds": 2}
GROUP = "queue"
GROUP_RESOURCE = 32


class ShareGroupBench:
    """The requests of group "queue", each on a connection of its own, to its coordinator."""

    def __init__(
        self,
        simulation: Simulation,
        brokers: int = 3,
        config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.simulation = simulation
        self.cluster: KafkaCluster = simulation.cluster(brokers, TOPICS, config=dict(config or {}), **options)
        self.epochs: dict[str, int] = {}
        self.assigned: dict[str, list[tuple[str, int]]] = {}

    def call(self, request: Any, version: int, broker: int | None = None) -> Any:
        address = self.cluster.broker(self.coordinator() if broker is None else broker).address
        with RawClient(address, simulation=self.simulation) as wire:
            return wire.call(request, version)

    def coordinator(self) -> int:
        """Return the coordinator that the brokers name, once there is one."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
        for _ in range(100):
            broker = next(one for one in self.cluster.brokers if one.is_running)
            with RawClient(broker.address, simulation=self.simulation) as wire:
                (found,) = wire.call(request, 6).coordinators
            if not found.error_code:
                return int(found.node_id)
            self.simulation.run_for(0.1)
        raise errors.CoordinatorNotAvailable(GROUP)

    def name_of(self, topic_id: bytes) -> str:
        return self.cluster.controller.image.topic_names[topic_id]

    def beat(self, member: str, *topics: str, epoch: int | None = None, version: int = 1) -> Any:
        """Send a member's heartbeat, and keep its epoch and assignment."""
        request = share_group.ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member,
            member_epoch=self.epochs.get(member, 0) if epoch is None else epoch,
            subscribed_topic_names=list(topics) or None,
        )
        response = self.call(request, version)
        if not response.error_code:
            self.epochs[member] = response.member_epoch
            if response.assignment is not None:
                self.assigned[member] = sorted(
                    (self.name_of(topic.topic_id), number)
                    for topic in response.assignment.topic_partitions
                    for number in topic.partitions
                )
        return response

    def leave(self, member: str) -> int:
        code: int = self.beat(member, epoch=-1).error_code
        self.epochs.pop(member, None)
        self.assigned.pop(member, None)
        return code

    def settle(self, rounds: int = 4) -> None:
        """Send heartbeats of all members in turn, more than an assignment interval apart."""
        for _ in range(rounds):
            self.simulation.run_for(1.1)
            for member in list(self.epochs):
                assert self.beat(member).error_code == 0

    def places(self, member: str) -> list[int]:
        """Return a member's partitions of topic "orders"."""
        return [number for topic, number in self.assigned[member] if topic == "orders"]

    def describe(self) -> share_group.DescribedGroup:
        request = share_group.ShareGroupDescribeRequest(
            group_ids=[GROUP], include_authorized_operations=False
        )
        described: share_group.DescribedGroup = self.call(request, 1).groups[0]
        return described

    def delete(self) -> int:
        request = group_admin.DeleteGroupsRequest(groups_names=[GROUP])
        return int(self.call(request, 2).results[0].error_code)

    def offsets(self, topic: str | None = None) -> dict[tuple[str, int], tuple[int, int]]:
        """Return start offset and lag of each partition with one; of one topic or of all."""
        topics = (
            None
            if topic is None
            else [
                share_offsets.DescribeShareGroupOffsetsRequestTopic(
                    topic_name=topic, partitions=list(range(TOPICS[topic]))
                )
            ]
        )
        group = share_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=topics)
        (described,) = self.call(share_offsets.DescribeShareGroupOffsetsRequest(groups=[group]), 1).groups
        assert described.error_code == 0
        return {
            (one.topic_name, partition.partition_index): (partition.start_offset, partition.lag)
            for one in described.topics
            for partition in one.partitions
        }

    def alter(self, topic: str, *starts: int) -> Any:
        partitions = [
            share_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start)
            for index, start in enumerate(starts)
        ]
        entry = share_offsets.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
        return self.call(share_offsets.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[entry]), 0)

    def delete_offsets(self, *topics: str) -> Any:
        entries = [share_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
        return self.call(share_offsets.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=entries), 0)

    def configure(self, **options: object) -> int:
        """Set options of the group; "_" stands for "."."""
        configs = [
            IncrementalAlterConfigsRequestAlterableConfig(
                name=name.replace("_", "."), config_operation=0, value=str(value)
            )
            for name, value in options.items()
        ]
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=configs
        )
        response = self.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1, 0)
        return int(response.responses[0].error_code)

    def restart_coordinator(self) -> None:
        """Crash the broker that coordinates the group; another one takes over before it restarts."""
        broker = self.coordinator()
        self.cluster.controls.crash_broker(broker)
        self.simulation.run_for(12.0)
        self.cluster.controls.restart_broker(broker)
        self.simulation.run_for(2.0)
