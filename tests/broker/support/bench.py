"""A coordinator shard on a bench: its log in memory, its time in a variable, requests in one line each.

`Bench` is the group coordinator; `reload` crashes it and lets another go on from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pykafka2 import errors
from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup
from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroup
from pykafka2.broker.coordinators.groups.shard import GroupShard
from pykafka2.broker.coordinators.replay import Caller, Deferred, Producer
from pykafka2.broker.coordinators.runtime import MemoryLog, ShardRuntime
from pykafka2.broker.coordinators.settings import GroupSettings, TopicTable
from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages import consumer_group, group_admin
from pykafka2.protocol.messages import group as messages
from pykafka2.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from pykafka2.protocol.messages.transaction import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka2.protocol.struct import Request, Response

R = TypeVar("R", bound=Response)

ORDERS, REFUNDS = b"o" * 16, b"r" * 16
TOPICS = TopicTable({"orders": (ORDERS, 6), "refunds": (REFUNDS, 3)})
GROUP = "billing"


def subscription(*topics: str) -> bytes:
    """What a consumer says about itself in a JoinGroup."""
    return b"\0\1" + ConsumerProtocolSubscription(topics=list(topics)).encode(1)


class Bench:
    """One group shard; `now` moves by `advance` only."""

    def __init__(self, settings: GroupSettings | None = None, topics: TopicTable = TOPICS) -> None:
        self.settings = settings or GroupSettings()
        self.group_id = GROUP
        self.now = 1000.0
        self.log = MemoryLog()
        self.topics = topics
        self._ids = self._names()
        self.start()

    @staticmethod
    def _names() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield f"{number:04d}"

    def start(self) -> None:
        """A coordinator that begins with what the log holds."""
        self.shard = GroupShard(self.settings, lambda now: round(now * 1000), lambda: next(self._ids))
        self.shard.on_topics(self.topics)
        self.runtime = ShardRuntime(self.shard, self.log)
        self.runtime.load(self.log.entries, len(self.log.entries), self.now)

    def reload(self) -> None:
        """The partition moves to another broker."""
        self.runtime.unload()
        self.start()

    def advance(self, seconds: float) -> None:
        """Let time pass, each timer at its own moment."""
        end = self.now + seconds
        while (due := self.runtime.poll(self.now)) <= end:
            self.now = max(due, self.now)
        self.now = end
        self.runtime.poll(self.now)

    def ask(self, request: Request[R], version: int | None = None, client: str = "client") -> Deferred[R]:
        """Submit a request as it comes over the wire; the answer must be encodable."""
        version = request.MAX_VERSION if version is None else version
        request = type(request).decode(request.encode(version), version)
        deferred: Deferred[R] = Deferred(request, version)
        checked: list[bytes] = []
        deferred.then(lambda response: checked.append(response.encode(version)))
        self.runtime.submit(Caller(version, client), deferred, self.now)
        return deferred

    def answer(self, request: Request[R], version: int | None = None, client: str = "client") -> R:
        """The answer to a request that is answered at once."""
        deferred = self.ask(request, version, client)
        assert deferred.response is not None, f"{request} waits"
        return deferred.response

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
        return self.ask(request, version)

    def member_id(self, **options: Any) -> str:
        """An id given out to a new dynamic member."""
        response = self.join(**options).response
        assert response is not None
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
        return self.ask(
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
        return self.answer(request).error_code

    def leave(self, *members: str, version: int = 5) -> messages.LeaveGroupResponse:
        if version < 3:
            return self.answer(
                messages.LeaveGroupRequest(group_id=self.group_id, member_id=members[0]), version
            )
        leaving = [messages.MemberIdentity(member_id=one) for one in members]
        return self.answer(messages.LeaveGroupRequest(group_id=self.group_id, members=leaving), version)

    def stable(self, count: int = 2, **options: Any) -> list[str]:
        """A stable group of that many dynamic members at generation 1; the first leads."""
        ids = [self.member_id(**options) for _ in range(count)]
        joins = [self.join(one, **options) for one in ids]
        self.advance(3.0)
        while not joins[0].is_done:
            self.advance(3.0)
        return self.settle(ids, self.classic().generation)

    def settle(self, ids: list[str], generation: int) -> list[str]:
        """Everybody syncs, the leader with one assignment for each."""
        leader = self.classic().leader
        for one in ids:
            everybody = {other: other.encode() for other in ids} if one == leader else None
            self.sync(one, generation, everybody, kind=self.classic().protocol_type)
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
        """Commit one offset; the partition's error code."""
        response = self.answer(
            offsets.OffsetCommitRequest(
                group_id=self.group_id if group_id is None else group_id,
                generation_id_or_member_epoch=generation,
                member_id=member,
                group_instance_id=instance,
                retention_time_ms=retention_ms,
                topics=[
                    offsets.OffsetCommitRequestTopic(
                        name=topic if version < 10 else "",
                        topic_id=(TOPICS.id_of(topic) or topic.encode()) if version >= 10 else bytes(16),
                        partitions=[
                            offsets.OffsetCommitRequestPartition(
                                partition_index=partition,
                                committed_offset=offset,
                                committed_metadata=metadata,
                            )
                        ],
                    )
                ],
            ),
            version,
        )
        return response.topics[0].partitions[0].error_code

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
    ) -> int:
        response = self.answer(
            TxnOffsetCommitRequest(
                transactional_id="mover",
                group_id=self.group_id if group_id is None else group_id,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                generation_id_or_member_epoch=generation,
                member_id=member,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name="orders",
                        partitions=[
                            TxnOffsetCommitRequestPartition(
                                partition_index=partition, committed_offset=offset, committed_metadata=""
                            )
                        ],
                    )
                ],
            ),
            version,
        )
        return response.topics[0].partitions[0].error_code

    def end_transaction(self, producer: Producer, committed: bool) -> None:
        """The transaction coordinator has its marker written to this partition."""
        end = self.log.append_marker(producer, committed)
        self.runtime.on_marker(producer, committed, end, self.now)

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
        """What the group committed, by the request's newest form with names."""
        wanted = offsets.OffsetFetchRequestGroup(
            group_id=self.group_id if group_id is None else group_id,
            member_id=member,
            member_epoch=epoch,
            topics=None
            if partitions is None
            else [
                offsets.OffsetFetchRequestTopics(
                    name=topic if version < 10 else "",
                    topic_id=(TOPICS.id_of(topic) or topic.encode()) if version >= 10 else bytes(16),
                    partition_indexes=list(partitions),
                )
            ],
        )
        request = offsets.OffsetFetchRequest(groups=[wanted], require_stable=require_stable)
        return self.answer(request, version).groups[0]

    def committed(self, partition: int = 0, **options: Any) -> int:
        """The committed offset, or minus the error code less one."""
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
        """One heartbeat; a first one (epoch 0) fills in what it must have."""
        if epoch == 0:
            owned = {} if owned is None else owned
            topics = ["orders"] if topics is None and regex is None else topics
            rebalance = 60.0 if rebalance is None else rebalance
        return self.answer(
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
        return self.answer(request, version).groups[0]

    def delete_group(self, group_id: str | None = None) -> int:
        request = group_admin.DeleteGroupsRequest(groups_names=[group_id or self.group_id])
        return self.answer(request).results[0].error_code


def given(response: consumer_group.ConsumerGroupHeartbeatResponse) -> dict[bytes, list[int]] | None:
    """The assignment of a heartbeat's answer; None if it says nothing."""
    if response.assignment is None:
        return None
    return {one.topic_id: one.partitions for one in response.assignment.topic_partitions}
