"""Coordinators lie to a member of a group: no partition is read that is not its own, nothing is skipped."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from pykafka2 import OffsetAndMetadata
from pykafka2.consumer.assignors.assignor import Assignment
from pykafka2.consumer.assignors.wire_format import assignment_bytes
from pykafka2.errors import BrokerError, GroupAuthorizationFailed, KafkaError
from pykafka2.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from pykafka2.testing import QUICK, Simulation
from pykafka2.types import TopicPartition
from tests.gate import rest_in_gate
from tests.hostile_brokers.liar import End, Silence
from tests.hostile_brokers.lies import Lie, body, body_of, changing, saying, setting
from tests.hostile_brokers.worlds import BAD, GOOD, World, check, ending, poll_for

pytestmark = pytest.mark.slow

VALUES = [b"0", b"1", b"2"]
FIND, JOIN, SYNC, BEAT, LEAVE = "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"
BEAT_848, COMMITTED, COMMIT, LIST = "ConsumerGroupHeartbeat", "OffsetFetch", "OffsetCommit", "ListOffsets"
ANY = KafkaError


def every(path: str, value: Any) -> Any:
    return setting((path, value))


def coordinator(**fields: Any) -> Any:
    return setting(*((f"coordinators.*.{name}", value) for name, value in fields.items()))


def assigned(*partitions: tuple[str, int]) -> Any:
    assignment = Assignment(tuple(TopicPartition(*one) for one in partitions), None)
    return every("assignment", assignment_bytes(assignment))


def members_twice(answer: Any) -> None:
    answer.members += [copy(one) for one in answer.members]


def members_with(metadata: bytes) -> Any:
    return every("members.*.metadata", metadata)


def going_back(answer: Any, count: list[int] = [1_000]) -> None:  # noqa: B006
    count[0] -= 1
    answer.generation_id = count[0]


FIND_LIES = [
    Lie("coordinator: node -1 without an error", FIND, coordinator(node_id=-1)),
    Lie("coordinator: port 0", FIND, coordinator(port=0)),
    Lie("coordinator: no host", FIND, coordinator(host="")),
    Lie("coordinator: a host of 30,000 characters", FIND, coordinator(host="h" * 30_000)),
    Lie("coordinator: an address that refuses connections", FIND, coordinator(node_id=9, port=1)),
    Lie("coordinator: the key of another group", FIND, coordinator(key="other")),
    Lie("coordinator: no answer for the key", FIND, every("coordinators", [])),
    Lie("coordinator: loading for ever", FIND, coordinator(error_code=14)),
    Lie("coordinator: an unknown error", FIND, coordinator(error_code=12_345), ANY, "12345"),
    Lie(
        "coordinator: forbidden in 30,000 characters",
        FIND,
        coordinator(error_code=30, error_message="\nx" * 15_000),
        GroupAuthorizationFailed,
    ),
    Lie("coordinator: an answer cut short", FIND, body_of(lambda data: data[:7])),
    Lie("coordinator: 2**31 - 2 keys in nine bytes", FIND, body(bytes(4) + b"\xff\xff\xff\xff\x07")),
]

CLASSIC_LIES = [
    Lie("join: generation -1", JOIN, every("generation_id", -1)),
    Lie("join: generations that go back", JOIN, changing(going_back)),
    Lie("join: no member id", JOIN, every("member_id", "")),
    Lie("join: a member id of 30,000 characters", JOIN, every("member_id", "m" * 30_000)),
    Lie("join: a new member id each time", JOIN, every("error_code", 79)),
    Lie("join: another leads, and is not there", JOIN, every("leader", "nobody")),
    Lie("join: members of garbage", JOIN, members_with(b"\xff\xfe\xfd")),
    Lie("join: members of nothing", JOIN, members_with(b"")),
    Lie("join: members of a negative version", JOIN, members_with(b"\xff\xff" + bytes(20))),
    Lie("join: members of 2**31 - 1 topics", JOIN, members_with(b"\0\0\x7f\xff\xff\xff")),
    Lie("join: every member twice", JOIN, changing(members_twice)),
    Lie("join: the leader is no member", JOIN, every("members", [])),
    Lie("join: a protocol that no member offered", JOIN, every("protocol_name", "mine"), ANY),
    Lie("join: a protocol of 30,000 characters", JOIN, every("protocol_name", "x" * 30_000), ANY, "'xxx"),
    Lie("join: no protocol", JOIN, every("protocol_name", None), ANY),
    Lie("join: another type of protocol", JOIN, every("protocol_type", "connect")),
    Lie("join: unknown member for ever", JOIN, every("error_code", 25)),
    Lie("join: a rebalance for ever", JOIN, every("error_code", 27)),
    Lie("join: an unknown error", JOIN, every("error_code", 12_345), ANY, "12345"),
    Lie("join: 24 days of throttling", JOIN, every("throttle_time_ms", 2**31 - 1), for_good=True),
    Lie("join: an answer cut short", JOIN, body_of(lambda data: data[:-5])),
    Lie("sync: an assignment of nothing at all", SYNC, every("assignment", b"")),
    Lie("sync: an assignment of garbage", SYNC, every("assignment", b"\0\1\xff\xff\xff")),
    Lie("sync: an assignment of version -1", SYNC, every("assignment", b"\xff\xff" + bytes(8))),
    Lie("sync: an assignment of version 99", SYNC, every("assignment", b"\0\x63" + bytes(8)), for_good=True),
    Lie("sync: 2**31 - 1 topics in six bytes", SYNC, every("assignment", b"\0\0\x7f\xff\xff\xff")),
    Lie("sync: a negative partition", SYNC, assigned(("orders", -1))),
    Lie("sync: a partition that is not there", SYNC, assigned(("orders", 2**31 - 1)), for_good=True),
    Lie(
        "sync: 50 partitions that are not there",
        SYNC,
        assigned(*(("orders", n) for n in range(50))),
        for_good=True,
    ),
    Lie("sync: a partition twice", SYNC, assigned(("orders", 0), ("orders", 0)), for_good=True),
    Lie("sync: a topic without a subscriber", SYNC, assigned(("other", 0))),
    Lie("sync: a topic without a name", SYNC, assigned(("", 0))),
    Lie("sync: an unknown error", SYNC, every("error_code", 12_345), ANY, "12345"),
    Lie("sync: a rebalance for ever", SYNC, every("error_code", 27)),
    Lie("sync: silence", SYNC, saying(Silence)),
    Lie("heartbeat: an unknown error", BEAT, every("error_code", 12_345), ANY, "12345"),
    Lie("heartbeat: unknown member each time", BEAT, every("error_code", 25)),
    Lie("heartbeat: a rebalance each time", BEAT, every("error_code", 27)),
    Lie("heartbeat: fenced, though there is no such name", BEAT, every("error_code", 82), ANY, for_good=True),
    Lie("heartbeat: silence", BEAT, saying(Silence)),
    Lie("heartbeat: the end in place of an answer", BEAT, saying(End)),
]


def gives(*topics: tuple[bytes, list[int]]) -> Any:
    """An assignment of these ids and numbers; None stands for the topic's own id."""

    def edit(answer: Any) -> None:
        if answer.error_code:
            return
        answer.assignment = ConsumerGroupHeartbeatResponseAssignment(
            topic_partitions=[
                ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in topics
            ]
        )

    return changing(edit)


def gives_own(*numbers: int) -> Any:
    def edit(answer: Any) -> None:
        for topic in answer.assignment.topic_partitions if answer.assignment else ():
            topic.partitions = list(numbers)

    return changing(edit)


CONSUMER_LIES = [
    Lie("kip-848: epoch -1", BEAT_848, every("member_epoch", -1)),
    Lie("kip-848: epoch -2", BEAT_848, every("member_epoch", -2)),
    Lie("kip-848: epoch 0", BEAT_848, every("member_epoch", 0)),
    Lie("kip-848: epoch 2**31 - 1", BEAT_848, every("member_epoch", 2**31 - 1)),
    Lie("kip-848: another member id", BEAT_848, every("member_id", "m" * 30_000)),
    Lie("kip-848: heartbeats every 0 ms", BEAT_848, every("heartbeat_interval_ms", 0)),
    Lie("kip-848: heartbeats every -1 ms", BEAT_848, every("heartbeat_interval_ms", -1)),
    Lie("kip-848: heartbeats every 24 days", BEAT_848, every("heartbeat_interval_ms", 2**31 - 1)),
    Lie("kip-848: an unknown topic id", BEAT_848, gives((b"x" * 16, [0])), for_good=True),
    Lie("kip-848: the zero topic id", BEAT_848, gives((bytes(16), [0])), for_good=True),
    Lie("kip-848: a negative partition", BEAT_848, gives_own(-1), for_good=True),
    Lie("kip-848: a partition that is not there", BEAT_848, gives_own(2**31 - 1), for_good=True),
    Lie("kip-848: a partition twice", BEAT_848, gives_own(0, 0), for_good=True),
    Lie(
        "kip-848: 50 partitions that are not there",
        BEAT_848,
        gives_own(*range(50)),
        for_good=True,
    ),
    Lie("kip-848: never an assignment", BEAT_848, every("assignment", None), for_good=True),
    Lie("kip-848: an unknown error", BEAT_848, every("error_code", 12_345), ANY, "12345"),
    Lie("kip-848: fenced each time", BEAT_848, every("error_code", 110)),
    Lie("kip-848: unknown member each time", BEAT_848, every("error_code", 25)),
    Lie("kip-848: no such assignor", BEAT_848, every("error_code", 112), BrokerError, for_good=True),
    Lie(
        "kip-848: an error of 30,000 characters",
        BEAT_848,
        setting(("error_code", 42), ("error_message", "\nx" * 15_000)),
        ANY,
        for_good=True,
    ),
    Lie("kip-848: silence", BEAT_848, saying(Silence)),
    Lie("kip-848: an answer cut short", BEAT_848, body_of(lambda data: data[:-3])),
    Lie(
        "kip-848: 2**31 - 2 topics in five bytes",
        BEAT_848,
        body(bytes(4) + b"\0\0\0\0\0\0\0\1\0\0\0\0\1\xff\xff\xff\xff\x07"),
    ),
]

PARTITIONS = "groups.*.topics.*.partitions.*."


def committed(**fields: Any) -> Any:
    return setting(*((PARTITIONS + name, value) for name, value in fields.items()))


def twice(answer: Any) -> None:
    for group in answer.groups:
        for topic in group.topics:
            topic.partitions += [copy(one) for one in topic.partitions]


OFFSET_LIES = [
    Lie("committed: offset -2", COMMITTED, committed(committed_offset=-2)),
    Lie("committed: offset -2**63", COMMITTED, committed(committed_offset=-(2**63))),
    Lie("committed: partitions left out", COMMITTED, every("groups.*.topics", [])),
    Lie("committed: groups left out", COMMITTED, every("groups", [])),
    Lie("committed: another group", COMMITTED, every("groups.*.group_id", "other")),
    Lie("committed: another topic", COMMITTED, every("groups.*.topics.*.name", "other")),
    Lie("committed: another partition", COMMITTED, committed(partition_index=77)),
    Lie("committed: every partition twice", COMMITTED, changing(twice)),
    Lie("committed: metadata of 30,000 characters", COMMITTED, committed(metadata="\n" * 30_000)),
    Lie("committed: an unknown error", COMMITTED, every("groups.*.error_code", 12_345), ANY, "12345"),
    Lie("committed: a partition's unknown error", COMMITTED, committed(error_code=12_345), ANY, "12345"),
    Lie("committed: unstable for ever", COMMITTED, committed(error_code=88)),
    Lie("committed: loading for ever", COMMITTED, every("groups.*.error_code", 14)),
    Lie("committed: silence", COMMITTED, saying(Silence)),
    Lie("committed: an answer cut short", COMMITTED, body_of(lambda data: data[:-4])),
    Lie("commit: partitions left out", COMMIT, every("topics", []), ANY, "the response to the commit lacks"),
    Lie(
        "commit: another partition",
        COMMIT,
        every("topics.*.partitions.*.partition_index", 99),
        ANY,
        "the response to the commit lacks",
    ),
    Lie(
        "commit: an unknown error",
        COMMIT,
        every("topics.*.partitions.*.error_code", 12_345),
        ANY,
        "12345",
    ),
    Lie("commit: loading for ever", COMMIT, every("topics.*.partitions.*.error_code", 14), ANY),
    Lie("commit: silence", COMMIT, saying(Silence), ANY),
]


LIES = [*FIND_LIES, *CLASSIC_LIES, *CONSUMER_LIES, *OFFSET_LIES]


@pytest.mark.parametrize("lie", rest_in_gate(LIES), ids=str)
def test_a_lie_to_a_member_skips_nothing_and_ends_with_the_lie(simulation: Simulation, lie: Lie) -> None:
    world = World(simulation, everywhere=True, config={**QUICK, "group.consumer.session.timeout.ms": 6_000})
    with world.producer() as producer:
        for partition in (BAD, GOOD):
            for value in VALUES:
                producer.send("orders", value, partition=partition.partition).result(5)
    is_848 = lie.api == BEAT_848
    options: dict[str, Any] = {"group_id": "g", "auto_commit_interval_ms": 500}
    if is_848:
        options["group_protocol"] = "consumer"
    else:
        options |= {"heartbeat_interval_ms": 500, "session_timeout_ms": 6_000}
    begin = 0
    if lie.api == COMMITTED:
        begin = 1
        with world.consumer(group_id="g") as consumer:
            consumer.commit({one: OffsetAndMetadata(begin) for one in (BAD, GOOD)})
    consumer = world.consumer("orders", **options)
    if lie.api in (BEAT, COMMIT, LEAVE):
        assert poll_for(world, consumer, 10.0, lambda: all(map(world.read.get, (BAD, GOOD)))) == []
    with world.lied_to(lie):
        errors: list[KafkaError | None] = [*poll_for(world, consumer, 6.0)]
        if lie.api == COMMIT:
            errors.append(ending(lambda: consumer.commit(timeout_ms=3_000)))
    check(lie, errors)
    if lie.for_good:
        ending(lambda: consumer.close())
        consumer = world.consumer("orders", **options)
    with world.producer() as producer:
        for partition in (BAD, GOOD):
            producer.send("orders", b"after", partition=partition.partition).result(10)
    poll_for(world, consumer, 40.0, lambda: all(b"after" in world.read[one] for one in (BAD, GOOD)))
    for partition in (BAD, GOOD):
        assert list(dict.fromkeys(world.read[partition])) == [*VALUES[begin:], b"after"]
    began = simulation.now
    ending(lambda: consumer.close())
    assert simulation.now - began < 10
