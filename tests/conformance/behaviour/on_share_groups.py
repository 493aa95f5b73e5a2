"""Share groups (KIP-932): members, start offsets, the share coordinator, and the records of both."""

from __future__ import annotations

import time
from typing import Any

from pykafka2.broker.coordinators.internal_topics import share_partition_key
from pykafka2.broker.coordinators.replay import Kinds, decode_record, record_of
from pykafka2.broker.coordinators.share.shard import SHARE_RECORDS
from pykafka2.protocol.messages import share_group_records as records
from pykafka2.protocol.struct import RecordKey, RecordValue
from pykafka2.records.batch import batches
from pykafka2.records.decoder import decode_tuples
from tests.broker.support.batches import batch

from .on_access import (
    CLUSTER,
    CLUSTER_ACTION,
    DELETE,
    DESCRIBE,
    EVE,
    GROUP,
    READ,
    TOPIC,
    only,
    prepared,
    rule,
)
from .on_groups_by_call import joining
from .on_produce import produce
from .side import TIMEOUT, Side, scenario

SHARE = 2
UNKNOWN_ID = b"\1" * 16

GROUP_RECORDS: Kinds = {
    key.RECORD_KIND: (key, value)
    for key, value in (
        (records.ShareGroupMemberMetadataKey, records.ShareGroupMemberMetadataValue),
        (records.ShareGroupMetadataKey, records.ShareGroupMetadataValue),
        (records.ShareGroupTargetAssignmentMetadataKey, records.ShareGroupTargetAssignmentMetadataValue),
        (records.ShareGroupTargetAssignmentMemberKey, records.ShareGroupTargetAssignmentMemberValue),
        (records.ShareGroupCurrentMemberAssignmentKey, records.ShareGroupCurrentMemberAssignmentValue),
        (records.ShareGroupStatePartitionMetadataKey, records.ShareGroupStatePartitionMetadataValue),
    )
}


def share_coordinator(side: Side, group: str, topic_id: bytes, partition: int = 0) -> int:
    """Return the broker that coordinates a share partition, once it does."""
    key = share_partition_key(group, topic_id, partition)
    deadline = time.monotonic() + TIMEOUT
    while True:
        found = side.quietly("FindCoordinator", 6, key_type=SHARE, coordinator_keys=[key]).coordinators[0]
        if found.error_code == 0:
            node: int = found.node_id
            topics = [{"topic_id": topic_id, "partitions": [{"partition": partition}]}]
            summary = side.quietly("ReadShareGroupStateSummary", 1, node, group_id=group, topics=topics)
            if summary.results[0].partitions[0].error_code == 0:
                return node
        assert time.monotonic() < deadline, f"no share coordinator: {found}"
        time.sleep(0.02)


def note_records(side: Side, topic: str, partition: int, kinds: Kinds, group: str, broker: int) -> None:
    """Write down a group's records of these kinds; each is also encoded again and must be the same bytes."""
    requested = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    fetched = side.quietly(
        "Fetch",
        12,
        broker,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[{"topic": topic, "partitions": [requested]}],
    )
    number = 0
    for one in batches(fetched.responses[0].partitions[0].records):
        for _, _, key, value, _ in decode_tuples(one):
            assert key is not None
            raw = bytes(key), None if value is None else bytes(value)
            decoded = decode_record(kinds, *raw)
            if decoded is None or group != decoded[0].group_id:  # type: ignore[attr-defined]
                continue
            number += 1
            again = record_of(*decoded)
            assert (again.key, again.value) == raw, f"{topic} has other bytes than {again}"
            note_record(side, number, *decoded)


def note_record(side: Side, number: int, key: RecordKey, value: RecordValue | None) -> None:
    name = type(key).__name__.removesuffix("Key")
    if isinstance(value, records.ShareGroupMetadataValue):
        value.metadata_hash = int(bool(value.metadata_hash))  # another function of the same topics
    side.note(f"record {number}: the key of {name}", key)
    side.note(f"record {number}: {name}", "deleted" if value is None else value)


def heartbeat(group: str, member: str, epoch: int, *topics: str, **options: Any) -> dict[str, Any]:
    fields = {"group_id": group, "member_id": member, "member_epoch": epoch, **options}
    return {**fields, "subscribed_topic_names": list(topics)} if topics else fields


@scenario
def share_states_by_call(side: Side) -> None:
    """Requests of brokers to a share coordinator, and its records."""
    topic, group = side.topic("share-states", partitions=2), "share-states"
    topic_id = side.id_of(topic)
    at = share_coordinator(side, group, topic_id)

    def ask(label: str, api: str, version: int, *partitions: dict[str, Any], **options: Any) -> None:
        of = options.pop("topic_id", topic_id)
        fields = {"group_id": group, "topics": [{"topic_id": of, "partitions": list(partitions)}], **options}
        side.ask(label, api, version, at, **fields)

    def written(first: int, last: int, state: int, count: int) -> dict[str, int]:
        return {
            "first_offset": first,
            "last_offset": last,
            "delivery_state": state,
            "delivery_count": count,
        }

    initialize, read = "InitializeShareGroupState", "ReadShareGroupState"
    write, summary, delete = "WriteShareGroupState", "ReadShareGroupStateSummary", "DeleteShareGroupState"
    ask("uninitialized", read, 0, {})
    ask("uninitialized", write, 1, {})
    ask("uninitialized", summary, 1, {}, {"partition": 1})
    ask("uninitialized", delete, 0, {})
    ask("an unknown topic", initialize, 0, {}, topic_id=UNKNOWN_ID)
    ask("an unknown topic", summary, 0, {}, topic_id=UNKNOWN_ID)
    ask("an unknown topic", delete, 0, {}, topic_id=UNKNOWN_ID)
    ask("an unknown partition", initialize, 0, {"partition": 2})
    ask("a negative partition", initialize, 0, {"partition": -1})
    ask("a negative epoch", initialize, 0, {"state_epoch": -1})
    ask("no group", initialize, 0, {}, group_id="")
    ask("no partitions", initialize, 0)
    ask("no topics", initialize, 0, topics=[])
    ask("both", initialize, 0, {"state_epoch": 3, "start_offset": 7}, {"partition": 1, "start_offset": -1})
    ask("both", summary, 1, {}, {"partition": 1})
    ask("both", summary, 0, {}, {"partition": 1})
    ask("a new leader", read, 0, {"leader_epoch": 4})
    ask("a former leader", read, 0, {"leader_epoch": 3})
    ask("a negative leader epoch", read, 0, {"leader_epoch": -1})
    known = {"state_epoch": 3, "leader_epoch": 4}
    batches = [written(7, 9, 2, 1), written(10, 19, 0, 1), written(20, 20, 4, 5)]
    ask("a former leader", write, 1, {**known, "leader_epoch": 3, "state_batches": batches})
    ask("a former state epoch", write, 1, {**known, "state_epoch": 2, "state_batches": batches})
    ask("a negative leader epoch", write, 1, {**known, "leader_epoch": -1})
    first = {**known, "start_offset": 7, "delivery_complete_count": 3, "state_batches": batches}
    ask("batches", write, 1, first)
    ask("the state", read, 0, {"leader_epoch": 4})
    again = [written(8, 12, 2, 2), written(15, 15, 0, 2)]
    ask("overlapping batches", write, 0, {**known, "start_offset": 8, "state_batches": again})
    ask("the state", read, 0, {"leader_epoch": 4})
    ask("an earlier start offset", write, 1, {**known, "start_offset": 5, "delivery_complete_count": 9})
    ask("the summary", summary, 1, {})
    ask("an earlier state epoch", initialize, 0, {"state_epoch": 2})
    ask("a new start offset", initialize, 0, {"state_epoch": 5, "start_offset": 30})
    ask("the state", read, 0, {"leader_epoch": 4})
    ask("a former state epoch", write, 1, known)
    ask("one", delete, 0, {"partition": 1})
    ask("once more", delete, 0, {"partition": 1})
    note_records(side, "__share_group_state", 0, SHARE_RECORDS, group, at)


@scenario
def share_coordinators_found(side: Side) -> None:
    """FindCoordinator of share partitions."""
    topic_id = side.id_of(side.topic("share-found"))
    key = share_partition_key("share-found", topic_id, 0)
    share_coordinator(side, "share-found", topic_id)
    invalid = ["", "share-found", f"share-found:{'A' * 22}", f":{key.partition(':')[2]}", f"{key}x"]

    def found(label: str, version: int, **fields: Any) -> None:
        side.note(
            label, [one.error_code for one in side.quietly("FindCoordinator", version, **fields).coordinators]
        )

    found("known", 6, key_type=SHARE, coordinator_keys=[key])
    found("invalid", 6, key_type=SHARE, coordinator_keys=invalid)
    found("old", 5, key_type=SHARE, coordinator_keys=[key])
    config = side.quietly(
        "DescribeConfigs", 4, resources=[{"resource_type": 2, "resource_name": "__share_group_state"}]
    )
    own = {one.name: one.value for one in config.results[0].configs if one.config_source == 1}
    side.note("the topic's options", dict(sorted(own.items())))


@scenario
def share_group_of_two(side: Side) -> None:
    """Members join, are assigned partitions once these are initialized, and leave."""
    topic, group = side.topic("share-of-two", partitions=3), "share-of-two"
    at = side.coordinator(group)
    topic_id = side.id_of(topic)
    share_coordinator(side, group, topic_id)
    side.await_topic_in_groups(topic, at)

    def beat(label: str, member: str, epoch: int, *topics: str, **options: Any) -> Any:
        fields = heartbeat(group, member, epoch, *topics, **options)
        return side.ask(label, "ShareGroupHeartbeat", 1, at, f"client-{member}", **fields)

    def until(label: str, member: str, epoch: int, partitions: int) -> int:
        """Send heartbeats until the member has so many partitions, and return its epoch."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            fields = heartbeat(group, member, epoch)
            answer = side.quietly("ShareGroupHeartbeat", 1, at, f"client-{member}", **fields)
            assert answer.error_code == 0, answer
            epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned = [one for each in answer.assignment.topic_partitions for one in each.partitions]
                if len(assigned) == partitions:
                    side.note(f"{label}: its partitions", sorted(assigned))
                    return epoch
            assert time.monotonic() < deadline, f"{label}: {answer}"
            time.sleep(0.05)

    def listed(label: str, states: list[str], group_type: str) -> None:
        """Note the group in the list, beside those of other scenarios."""
        fields = {"states_filter": states, "types_filter": [group_type]}
        answer = side.quietly("ListGroups", 5, at, **fields)
        own = [[one.group_state, one.group_type] for one in answer.groups if one.group_id == group]
        side.note(label, own)

    def describe(label: str) -> None:
        side.ask(label, "ShareGroupDescribe", 1, at, group_ids=[group])

    beat("an unknown group", "a", 1)
    beat("leaves an unknown group", "a", -1)
    beat("no member id", "", 0, topic)
    beat("no group id", "a", 0, topic, group_id="")
    beat("no topics", "a", 0)
    beat("an empty rack", "a", 0, topic, rack_id="")
    beat("an invalid epoch", "a", -2)
    first = until("the first", "a", beat("joins", "a", 0, topic).member_epoch, 3)
    describe("one member")
    beat("all fields", "a", first, topic, rack_id="rack")
    beat("a later epoch", "a", first + 5)
    beat("an earlier epoch", "a", first - 1)
    beat("an unknown member", "b", 1)
    beat("joins, too", "b", 0, topic)
    describe("two members")
    listed("listed among all kinds", [], "share")
    listed("listed by state", ["stable"], "Share")
    side.ask("a share group", "DescribeGroups", 6, at, groups=[group])
    side.ask("a share group", "ConsumerGroupDescribe", 1, at, group_ids=[group])
    side.ask("unknown and empty", "ShareGroupDescribe", 1, at, group_ids=["share-unknown", ""])
    side.ask("with members", "DeleteGroups", 3, at, groups_names=[group])
    side.ask("to a share group", "JoinGroup", 9, at, **joining(group))
    consumer = {"rebalance_timeout_ms": 10_000, "topic_partitions": [], "subscribed_topic_names": [topic]}
    side.ask(
        "to a share group",
        "ConsumerGroupHeartbeat",
        1,
        at,
        group_id=group,
        member_id="c",
        member_epoch=0,
        **consumer,
    )
    commit = {"topics": [{"name": topic, "partitions": [{"committed_offset": 1}]}]}
    side.ask(
        "to a share group", "OffsetCommit", 9, at, group_id=group, generation_id_or_member_epoch=-1, **commit
    )
    fetch = [{"group_id": group, "topics": None}]
    side.ask("of a share group", "OffsetFetch", 9, at, groups=fetch)
    side.ask(
        "of a share group",
        "OffsetDelete",
        0,
        at,
        group_id=group,
        topics=[{"name": topic, "partitions": [{}]}],
    )
    beat("leaves", "b", -1)
    beat("leaves again", "b", -1)
    beat("leaves last", "a", -1)
    describe("empty")
    listed("listed as empty", ["Empty"], "share")
    side.ask("empty", "DeleteGroups", 3, at, groups_names=[group, "share-unknown"])
    describe("deleted")
    note_records(side, "__consumer_offsets", 0, GROUP_RECORDS, group, at)


@scenario
def share_group_offsets(side: Side) -> None:
    """The start offsets of a share group: described with their lag, altered, deleted."""
    topic, other, group = side.topic("share-offsets", 2), side.topic("share-no-offsets"), "share-offsets"
    at = side.coordinator(group)
    share_coordinator(side, group, side.id_of(topic))
    side.await_topic_in_groups(other, at)
    produce(side, "ten", topic, batch([b"x"] * 10))

    def describe(label: str, version: int = 1, *, of: str = group, **partitions: list[int]) -> None:
        topics = [
            {"topic_name": name.replace("_", "-"), "partitions": numbers}
            for name, numbers in partitions.items()
        ]
        wanted = {"group_id": of, "topics": topics if partitions else None}
        side.ask(label, "DescribeShareGroupOffsets", version, at, groups=[wanted])

    def alter(label: str, name: str, *offsets: int, of: str = group) -> None:
        entries = [{"partition_index": index, "start_offset": each} for index, each in enumerate(offsets)]
        topics = [{"topic_name": name, "partitions": entries}]
        side.ask(label, "AlterShareGroupOffsets", 0, at, group_id=of, topics=topics)

    def delete(label: str, *names: str, of: str = group) -> None:
        topics = [{"topic_name": name} for name in names]
        side.ask(label, "DeleteShareGroupOffsets", 0, at, group_id=of, topics=topics)

    describe("an unknown group", of="share-unknown")
    describe("an unknown group", of="share-unknown", share_offsets=[0])
    describe("an unknown topic", share_unknown=[0])
    delete("an unknown group", topic)
    delete("no group", topic, of="")
    alter("no group", topic, 1, of="")
    alter("an unknown topic", "share-unknown", 1)
    alter("a new group", topic, 3, 0, 5)
    describe("both")
    describe("both", 0)
    describe("some", share_offsets=[0, 1], share_no_offsets=[0])
    alter("anew", topic, 8)
    describe("anew")
    joined = heartbeat(group, "m", 0, topic)
    side.quietly("ShareGroupHeartbeat", 1, at, **joined)
    alter("with members", topic, 1)
    delete("with members", topic)
    side.quietly("ShareGroupHeartbeat", 1, at, **heartbeat(group, "m", -1))
    delete("some", topic, other, "share-unknown")
    describe("deleted")
    side.ask("the rest", "DeleteGroups", 3, at, groups_names=[group])
    note_records(side, "__consumer_offsets", 0, GROUP_RECORDS, group, at)


@scenario
def access_to_share_groups(side: Side) -> None:
    """Requests of share groups by a user with some rights, and those to a share coordinator."""
    topics = prepared(side, "share-access")
    groups = [f"{name}-group" for name in topics]
    at = side.coordinator(groups[0])
    share_at = share_coordinator(side, groups[0], side.id_of(topics[0]))  # there is one partition
    for topic, group in zip(topics, groups, strict=True):
        side.await_topic_in_groups(topic, at)
        starts = [{"topic_name": topic, "partitions": [{"start_offset": 1}]}]
        side.quietly("AlterShareGroupOffsets", 0, at, group_id=group, topics=starts)

    def ask(label: str, api: str, version: int, **fields: Any) -> None:
        side.ask(label, api, version, at, **EVE, **fields)

    def ask_all(label: str) -> None:
        for topic, group in zip(topics, groups, strict=True):
            ask(f"{label}, {group}", "ShareGroupHeartbeat", 1, **heartbeat(group, "m", 5))
            ask(
                f"{label}, {group} to {topics[1]}",
                "ShareGroupHeartbeat",
                1,
                **heartbeat(group, "m", 5, topics[1]),
            )
            entries = [{"topic_name": name, "partitions": [{"start_offset": 2}]} for name in topics]
            ask(f"{label}, {group}", "AlterShareGroupOffsets", 0, group_id=group, topics=entries)
            named = [{"topic_name": name} for name in ("share-access-unknown", topics[1])]
            ask(f"{label}, {group}", "DeleteShareGroupOffsets", 0, group_id=group, topics=named)
            place = [{"topic_id": side.id_of(topic), "partitions": [{}]}]
            fields = {"group_id": group, "topics": place}
            side.ask(f"{label}, {group}", "ReadShareGroupStateSummary", 1, share_at, **EVE, **fields)
        ask(label, "ShareGroupDescribe", 1, group_ids=groups, include_authorized_operations=True)
        some = [{"topic_name": name, "partitions": [0]} for name in topics]
        wanted = [{"group_id": group, "topics": some} for group in groups]
        ask(label, "DescribeShareGroupOffsets", 1, groups=wanted)
        every = [{"group_id": group, "topics": None} for group in groups]
        ask(f"{label}, all topics", "DescribeShareGroupOffsets", 1, groups=every)

    only(side)
    ask_all("no rules")
    only(side, rule(GROUP, groups[0], READ), rule(TOPIC, topics[0], DESCRIBE))
    ask_all("reads a group")
    only(side, rule(GROUP, groups[0], DELETE), rule(TOPIC, topics[0], READ))
    ask_all("deletes a group")
    only(side, rule(GROUP, groups[0]), rule(TOPIC, topics[0]), rule(CLUSTER, "kafka-cluster", CLUSTER_ACTION))
    ask_all("all of one")
    only(side)
