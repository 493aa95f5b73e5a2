"""The coordinators' bench: requests of groups in one line each, to a coordinator on one of two hosts.

`ShardBench` has a shard in memory: its log is a list, its time a variable. `ClusterBench` has a broker of a
simulated cluster on the wire. Tests of both get a `Bench`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, TypeVar, cast

from pykafka2 import errors
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup
from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroup
from pykafka2.broker.coordinators.groups.shard import GroupShard
from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC, partition_for
from pykafka2.broker.coordinators.replay import Caller, Deferred, Producer
from pykafka2.broker.coordinators.runtime import ShardRuntime
from pykafka2.broker.coordinators.settings import GroupSettings, TopicTable, group_settings
from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages import consumer_group, group_admin
from pykafka2.protocol.messages import group as messages
from pykafka2.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.transaction import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka2.protocol.struct import Request, Response
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from pykafka2.testing.views.groups import GroupView
from tests.broker.support.memory_log import MemoryLog
from tests.broker.support.raw_client import RawClient

R = TypeVar("R", bound=Response)

ORDERS, REFUNDS = b"o" * 16, b"r" * 16
TOPICS = {"orders": 6, "refunds": 3}
TOPIC_TABLE = TopicTable({"orders": (ORDERS, 6), "refunds": (REFUNDS, 3)})
GROUP = "billing"
PARTITION = (OFFSETS_TOPIC, partition_for(GROUP, 50))
A_MOMENT = 0.05
"""Virtual seconds in which a broker sends each response that waits for nothing."""


def subscription(*topics: str) -> bytes:
    """Return the metadata of a consumer in JoinGroup."""
    return b"\0\1" + ConsumerProtocolSubscription(topics=list(topics)).encode(1)


def answer(deferred: Deferred[R]) -> R:
    """Return a response, which must have arrived."""
    assert deferred.response is not None, f"{deferred.request} waits"
    return deferred.response


def code(deferred: Deferred[Any]) -> int | None:
    """Return the error code of a response; None while it is awaited."""
    return None if deferred.response is None else int(deferred.response.error_code)


def commit_request(
    group_id: str,
    offset: int = 5,
    *,
    member: str = "",
    generation: int = -1,
    topic: str = "orders",
    topic_id: bytes = bytes(16),
    partition: int = 0,
    metadata: str | None = "",
    **fields: Any,
) -> offsets.OffsetCommitRequest:
    """Return a request that commits one offset."""
    committed = offsets.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=metadata
    )
    return offsets.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[offsets.OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[committed])],
        **fields,
    )


def commit_code(response: offsets.OffsetCommitResponse) -> int:
    return response.topics[0].partitions[0].error_code


def fetch_all_request(*group_ids: str) -> offsets.OffsetFetchRequest:
    """Return a request for all committed offsets of groups."""
    groups = [offsets.OffsetFetchRequestGroup(group_id=one, topics=None) for one in group_ids]
    return offsets.OffsetFetchRequest(groups=groups)


class Bench:
    """Requests of groups, and time that passes by `advance` only."""

    now: float
    shard: GroupShard
    """The coordinator's state of the group's partition."""

    def __init__(self) -> None:
        self.group_id = GROUP

    def send(self, request: Request[R], version: int | None = None, client: str = "client") -> Deferred[R]:
        """Send a request; the response can come later."""
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        raise NotImplementedError

    def reload(self) -> None:
        """Have another coordinator load the group's partition."""
        raise NotImplementedError

    def topic_id(self, name: str) -> bytes:
        raise NotImplementedError

    def delete_topic(self, name: str) -> None:
        raise NotImplementedError

    def call(self, request: Request[R], version: int | None = None, client: str = "client") -> R:
        """Return the response to a request that waits for nothing."""
        return answer(self.send(request, version, client))

    def classic(self, group_id: str | None = None) -> ClassicGroup:
        group = self.shard.groups[group_id or self.group_id]
        assert isinstance(group, ClassicGroup)
        return group

    def consumer(self, group_id: str | None = None) -> ConsumerGroup:
        group = self.shard.groups[group_id or self.group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    # -- classic ------------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        session: float = 10.0,
        rebalance: float = 60.0,
        version: int = 9,
        kind: str = "consumer",
        group_id: str | None = None,
    ) -> Deferred[messages.JoinGroupResponse]:
        offered = {"range": subscription("orders")} if protocols is None else protocols
        request = messages.JoinGroupRequest(
            group_id=self.group_id if group_id is None else group_id,
            session_timeout_ms=round(session * 1000),
            rebalance_timeout_ms=round(rebalance * 1000) if version >= 1 else -1,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=[
                messages.JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered.items()
            ],
        )
        return self.send(request, version)

    def member_id(self, **options: Any) -> str:
        """Return the member id that a new dynamic member gets."""
        response = answer(self.join(**options))
        assert response.error_code == errors.MemberIdRequired.code
        return str(response.member_id)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        version: int = 5,
        kind: str | None = "consumer",
        protocol: str | None = None,
    ) -> Deferred[messages.SyncGroupResponse]:
        if protocol is None and version >= 5:
            group = self.shard.groups.get(self.group_id)
            protocol = (isinstance(group, ClassicGroup) and group.protocol) or "range"
        return self.send(
            messages.SyncGroupRequest(
                group_id=self.group_id,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=instance,
                protocol_type=kind,
                protocol_name=protocol,
                assignments=[
                    messages.SyncGroupRequestAssignment(member_id=one, assignment=data)
                    for one, data in (assignments or {}).items()
                ],
            ),
            version,
        )

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> int:
        request = messages.HeartbeatRequest(
            group_id=self.group_id, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.call(request).error_code

    def leave(self, *members: str, version: int = 5) -> messages.LeaveGroupResponse:
        if version < 3:
            return self.call(
                messages.LeaveGroupRequest(group_id=self.group_id, member_id=members[0]), version
            )
        leaving = [messages.MemberIdentity(member_id=one) for one in members]
        return self.call(messages.LeaveGroupRequest(group_id=self.group_id, members=leaving), version)

    def stable(self, count: int = 2, **options: Any) -> list[str]:
        """Make a stable group of dynamic members at generation 1. Return their ids, the leader's first."""
        ids = [self.member_id(**options) for _ in range(count)]
        joins = [self.join(one, **options) for one in ids]
        self.advance(3.0)
        while not joins[0].is_done:
            self.advance(3.0)
        return self.settle(ids, self.classic().generation)

    def static(self, instance: str = "a", **options: Any) -> str:
        """Make a stable group of one static member. Return its id."""
        joined = self.join(instance=instance, **options)
        self.advance(3.1)
        return self.settle([answer(joined).member_id], 1)[0]

    def settle(self, ids: list[str], generation: int) -> list[str]:
        """Sync all members, the leader with an assignment for each."""
        leader = self.classic().leader
        for one in ids:
            assignments = {other: other.encode() for other in ids} if one == leader else None
            self.sync(one, generation, assignments, kind=self.classic().protocol_type)
        return ids

    # -- offsets ------------------------------------------------------------------------------------

    def commit(
        self,
        offset: int = 5,
        *,
        member: str = "",
        generation: int = -1,
        partition: int = 0,
        topic: str = "orders",
        metadata: str | None = "",
        version: int = 9,
        group_id: str | None = None,
        instance: str | None = None,
        retention_ms: int = -1,
    ) -> int:
        """Commit one offset. Return the partition's error code."""
        request = commit_request(
            self.group_id if group_id is None else group_id,
            offset,
            member=member,
            generation=generation,
            partition=partition,
            topic=topic if version < 10 else "",
            topic_id=self.topic_id(topic) if version >= 10 else bytes(16),
            metadata=metadata,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
        )
        return commit_code(self.call(request, version))

    def commit_transactional(
        self,
        offset: int,
        producer: Producer,
        *,
        partition: int = 0,
        member: str = "",
        generation: int = -1,
        group_id: str | None = None,
        version: int = 5,
        topic_id: bytes | None = None,
    ) -> int:
        request = TxnOffsetCommitRequest(
            transactional_id="mover",
            group_id=self.group_id if group_id is None else group_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="orders" if version < 6 else "",
                    topic_id=(topic_id or self.topic_id("orders")) if version >= 6 else bytes(16),
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        (topic,) = self.call(request, version).topics
        assert (topic.name, topic.topic_id) == (request.topics[0].name, request.topics[0].topic_id)
        return topic.partitions[0].error_code

    def fetch(
        self,
        partitions: Iterable[int] | None = (0,),
        *,
        group_id: str | None = None,
        require_stable: bool = False,
        member: str | None = None,
        epoch: int = -1,
        topic: str = "orders",
        version: int = 9,
    ) -> offsets.OffsetFetchResponseGroup:
        """Return the group's committed offsets."""
        wanted = offsets.OffsetFetchRequestGroup(
            group_id=self.group_id if group_id is None else group_id,
            member_id=member,
            member_epoch=epoch,
            topics=None
            if partitions is None
            else [
                offsets.OffsetFetchRequestTopics(
                    name=topic if version < 10 else "",
                    topic_id=self.topic_id(topic) if version >= 10 else bytes(16),
                    partition_indexes=list(partitions),
                )
            ],
        )
        request = offsets.OffsetFetchRequest(groups=[wanted], require_stable=require_stable)
        return self.call(request, version).groups[0]

    def committed(self, partition: int = 0, **options: Any) -> int:
        """Return the committed offset, or -1 minus the error code."""
        one = self.fetch([partition], **options).topics[0].partitions[0]
        return one.committed_offset if not one.error_code else -1 - one.error_code

    # -- KIP-848 ------------------------------------------------------------------------------------

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        topics: list[str] | None = None,
        regex: str | None = None,
        owned: dict[bytes, list[int]] | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        rebalance: float | None = None,
        version: int = 1,
        group_id: str | None = None,
    ) -> consumer_group.ConsumerGroupHeartbeatResponse:
        """Send a heartbeat; one at epoch 0 has defaults for the fields that it needs."""
        if epoch == 0:
            owned = {} if owned is None else owned
            topics = ["orders"] if topics is None and regex is None else topics
            rebalance = 60.0 if rebalance is None else rebalance
        return self.call(
            consumer_group.ConsumerGroupHeartbeatRequest(
                group_id=self.group_id if group_id is None else group_id,
                member_id=member_id,
                member_epoch=epoch,
                instance_id=instance,
                rebalance_timeout_ms=-1 if rebalance is None else round(rebalance * 1000),
                subscribed_topic_names=topics,
                subscribed_topic_regex=regex,
                server_assignor=assignor,
                topic_partitions=None
                if owned is None
                else [
                    consumer_group.ConsumerGroupHeartbeatRequestTopicPartitions(
                        topic_id=topic_id, partitions=partitions
                    )
                    for topic_id, partitions in owned.items()
                ],
            ),
            version,
        )

    def describe(self, group_id: str | None = None, version: int = 6) -> group_admin.DescribedGroup:
        request = group_admin.DescribeGroupsRequest(groups=[group_id or self.group_id])
        return self.call(request, version).groups[0]

    def delete_group(self, group_id: str | None = None) -> int:
        request = group_admin.DeleteGroupsRequest(groups_names=[group_id or self.group_id])
        return self.call(request, 2).results[0].error_code


class ShardBench(Bench):
    """A shard in memory, with the settings of a broker with this configuration, or with these."""

    def __init__(
        self, settings: GroupSettings | None = None, *, config: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.settings = settings or (group_settings(BrokerConfig(config)) if config else GroupSettings())
        self.now = 1000.0
        self.log = MemoryLog()
        self.topics = TOPIC_TABLE
        self._ids = count(1)
        self.start()

    def start(self) -> None:
        """Start a coordinator that loads the log."""
        self.shard = GroupShard(
            self.settings, lambda now: round(now * 1000), lambda: f"{next(self._ids):04d}"
        )
        self.shard.on_topics(self.topics)
        self.runtime = ShardRuntime(self.shard, self.log)
        self.runtime.load(self.log.entries, len(self.log.entries), self.now)

    def reload(self) -> None:
        self.runtime.unload()
        self.start()

    def advance(self, seconds: float) -> None:
        """Let time pass, and let each timer run at its own time."""
        end = self.now + seconds
        while (due := self.runtime.poll(self.now)) <= end:
            self.now = max(due, self.now)
        self.now = end
        self.runtime.poll(self.now)

    def set_topics(self, topics: Mapping[str, tuple[bytes, int]], recreated: Iterable[str] = ()) -> None:
        """Replace the cluster's topics."""
        self.runtime.carry_out(self.shard.on_topics(TopicTable(dict(topics)), set(recreated)), self.now)

    def delete_topic(self, name: str) -> None:
        rest = [one for one in self.shard.topics.names() if one != name]
        self.topics = TopicTable({one: (self.topic_id(one), TOPICS[one]) for one in rest})
        self.runtime.carry_out(self.shard.on_topics(self.topics), self.now)

    def topic_id(self, name: str) -> bytes:
        return TOPIC_TABLE.id_of(name) or name.encode()

    def send(self, request: Request[R], version: int | None = None, client: str = "client") -> Deferred[R]:
        """Submit a request as a broker decodes it; the response must be encodable."""
        version = request.MAX_VERSION if version is None else version
        request = type(request).decode(request.encode(version), version)
        deferred: Deferred[R] = Deferred(request, version)
        encoded: list[bytes] = []
        deferred.then(lambda response: encoded.append(response.encode(version)))
        self.runtime.submit(Caller(version, client), deferred, self.now)
        return deferred

    def end_transaction(self, producer: Producer, committed: bool) -> None:
        """Append the marker of a transaction to this partition."""
        end = self.log.append_marker(producer, committed)
        self.runtime.on_marker(producer, committed, end, self.now)


class Reply(Deferred[R]):
    """A response that arrives over the wire."""

    __slots__ = ("_bench", "wire")

    def __init__(self, bench: ClusterBench, wire: RawClient, request: Request[R], version: int) -> None:
        super().__init__(request, version)
        self._bench = bench
        self.wire = wire

    def poll(self) -> None:
        """Receive the response if it has arrived."""
        if not self.is_done and self.wire.has_response():
            self.complete(self.wire.receive(type(self.request), self.version)[1])
            self._bench.idle.append(self.wire)


class ClusterBench(Bench):
    """A broker of a simulated cluster, over the wire and in virtual time.

    Each request that waits has its own connection, as each member of a real group has. `reload` moves the
    group's partition to another broker.
    """

    def __init__(
        self,
        simulation: Simulation,
        brokers: int = 1,
        config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.simulation = simulation
        self.cluster: KafkaCluster = simulation.cluster(brokers, TOPICS, config=dict(config or {}), **options)
        self.idle: list[RawClient] = []
        self.waiting: list[Reply[Any]] = []
        self.find()

    def find(self, broker: int = 0) -> int:
        """Return the id of the coordinator that a broker returns."""
        wire = self.wire(broker)
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id])
        (found,) = wire.call(request, 6).coordinators
        if found.error_code:
            raise errors.CoordinatorNotAvailable(found.error_message or "")
        self.coordinator = found.node_id
        wire.close()
        return found.node_id

    def wire(self, broker: int, client_id: str = "client") -> RawClient:
        """Open a connection to a broker."""
        return RawClient(self.cluster.broker(broker).address, client_id, simulation=self.simulation)

    @property
    def group(self) -> GroupView:
        return self.cluster.group(self.group_id)

    @property
    def shard(self) -> GroupShard:  # type: ignore[override]
        broker = self.cluster.broker(self.cluster.coordinator(self.group_id))
        return broker.coordinators.groups.shards[partition_for(self.group_id, 50)]

    @property
    def now(self) -> float:  # type: ignore[override]
        return self.simulation.now

    def topic_id(self, name: str) -> bytes:
        topic = self.cluster.controller.image.topics.get(name)
        return name.encode() if topic is None else topic.id

    def delete_topic(self, name: str) -> None:
        self.cluster.delete_topic(name)
        self.advance(0.2)

    def advance(self, seconds: float) -> None:
        """Let virtual time pass, and receive the responses."""
        self.simulation.run_for(seconds)
        for reply in self.waiting:
            reply.poll()
        self.waiting = [reply for reply in self.waiting if not reply.is_done]

    def reload(self) -> None:
        to = (self.coordinator + 1) % len(self.cluster.brokers)
        self.cluster.controls.move_coordinator(self.group_id, to)
        self.moved(to)

    def moved(self, to: int) -> None:
        """Send later requests to this broker, which is the coordinator now."""
        self.advance(A_MOMENT)
        for wire in self.idle:
            wire.close()
        self.idle.clear()
        self.coordinator = to

    def send(self, request: Request[R], version: int | None = None, client: str = "client") -> Reply[R]:
        """Send a request, and give the broker a moment."""
        version = request.MAX_VERSION if version is None else version
        while self.idle and not self.idle[-1].is_open():
            self.idle.pop().close()
        wire = self.idle.pop() if self.idle else self.wire(self.coordinator)
        wire.send(request, version)
        reply = Reply(self, wire, request, version)
        self.waiting.append(cast("Reply[Any]", reply))
        deadline = self.now + A_MOMENT
        while not reply.is_done and self.now < deadline:
            self.advance(0.002)
        return reply


def assigned(response: consumer_group.ConsumerGroupHeartbeatResponse) -> dict[bytes, list[int]] | None:
    """Return the assignment in the response to a heartbeat; None if it has none."""
    if response.assignment is None:
        return None
    return {one.topic_id: one.partitions for one in response.assignment.topic_partitions}
