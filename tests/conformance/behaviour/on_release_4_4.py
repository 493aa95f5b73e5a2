"""Scenarios about additions of Apache Kafka 4.4: commits by topic id, the expected broker, and more."""

from __future__ import annotations

from typing import Any

from .on_groups_by_call import beating, committing
from .on_transactions import producer
from .side import Side, scenario

UNKNOWN_ID = b"\1" * 16
ZERO_ID = bytes(16)


@scenario
def transaction_offsets_by_topic_id(side: Side) -> None:
    """TxnOffsetCommit 6 (KIP-1319): topics by id, and errors that older versions do not have."""
    topic = side.topic("by-topic-id", partitions=2)
    topic_id, group = side.id_of(topic), "by-topic-id"
    at = side.coordinator(group)
    who = producer(side, "by-topic-id")
    who.init("an id")

    def commit(
        label: str, places: dict[bytes, list[int]], version: int = 6, of: str = group, **changed: Any
    ) -> None:
        names = {topic_id: topic}
        topics = [
            {
                **({"topic_id": one} if version >= 6 else {"name": names.get(one, "by-topic-id-unknown")}),
                "partitions": [{"partition_index": each, "committed_offset": 5} for each in partitions],
            }
            for one, partitions in places.items()
        ]
        fields = {**who.own(), "group_id": of, **changed}
        side.when_ready(label, "TxnOffsetCommit", version, at, **fields, topics=topics)

    def fetched(label: str, **options: Any) -> None:
        side.ask(label, "OffsetFetch", 10, at, groups=[{"group_id": group, "topics": None}], **options)

    commit("an unknown id", {UNKNOWN_ID: [0]})
    commit("no id", {ZERO_ID: [0]})
    commit("a name", {UNKNOWN_ID: [0]}, version=5)
    commit("an unknown partition", {topic_id: [2]})
    commit("all kinds", {UNKNOWN_ID: [0], topic_id: [-1, 0], ZERO_ID: [1]})
    fetched("nothing yet")
    commit("the other partition", {topic_id: [1]})
    who.end("commits", committed=True)
    wanted = [{"group_id": group, "topics": [{"topic_id": topic_id, "partition_indexes": [0, 1]}]}]

    def is_stable(answer: Any) -> bool:
        return all(not one.error_code for each in answer.groups[0].topics for one in each.partitions)

    side.eventually("both", is_stable, "OffsetFetch", 10, at, groups=wanted, require_stable=True)
    for version in (5, 6):
        missing = {"generation_id_or_member_epoch": 1, "member_id": "x", "of": "by-topic-id-missing"}
        commit("a generation of no group", {topic_id: [0]}, version, **missing)
        commit("a generation of no member", {topic_id: [0]}, version, generation_id_or_member_epoch=1)
        stranger = {"member_id": "x", "generation_id_or_member_epoch": 1}
        commit("an unknown member", {topic_id: [0]}, version, **stranger)
        commit("no group", {topic_id: [0]}, version, of="")


@scenario
def transaction_offsets_by_member_epoch(side: Side) -> None:
    """TxnOffsetCommit 5 and 6 of a member of a KIP-848 group, with epochs that are not its own."""
    topic = side.topic("by-member-epoch")
    group = "by-member-epoch"
    at = side.coordinator(group)
    side.await_topic_in_groups(topic, at)
    joined = side.quietly("ConsumerGroupHeartbeat", 1, at, **beating(group, "m", 0, topic))
    who = producer(side, "by-member-epoch")
    who.init("an id")
    for version in (5, 6):
        for label, epoch in (
            ("a later epoch", joined.member_epoch + 1),
            ("an earlier epoch", joined.member_epoch - 1),
            ("its epoch", joined.member_epoch),
            ("no epoch", -1),
        ):
            named = {"topic_id": side.id_of(topic)} if version >= 6 else {"name": topic}
            side.when_ready(
                label,
                "TxnOffsetCommit",
                version,
                at,
                **who.own(),
                group_id=group,
                member_id="m",
                generation_id_or_member_epoch=epoch,
                topics=[{**named, "partitions": [{"committed_offset": 1}]}],
            )
    who.end("aborts", committed=False)
    side.quietly("ConsumerGroupHeartbeat", 1, at, **beating(group, "m", -1))


@scenario
def groups_deleted_with_messages(side: Side) -> None:
    """DeleteGroups 3 has a message for each group."""
    topic, group = side.topic("with-messages"), "with-messages"
    at = side.coordinator(group)
    side.await_topic_in_groups(topic, at)
    side.quietly("ConsumerGroupHeartbeat", 1, at, **beating(group, "m", 0, topic))
    side.ask("has members", "DeleteGroups", 3, at, groups_names=[group, "with-messages-unknown"])
    side.quietly("ConsumerGroupHeartbeat", 1, at, **beating(group, "m", -1))
    side.ask("empty", "DeleteGroups", 3, at, groups_names=[group])
    classic = "with-messages-classic"
    other = side.coordinator(classic)
    side.ask("commits", "OffsetCommit", 9, other, **committing(classic, topic, 0))
    side.ask("a simple group", "DeleteGroups", 3, other, groups_names=[classic])
    side.ask("not the coordinator", "DeleteGroups", 3, (other + 1) % 3, groups_names=[classic])


@scenario
def brokers_expected(side: Side) -> None:
    """ApiVersions 5 (KIP-1242): a client names the cluster and the node that it expects."""
    cluster_id = side.quietly("DescribeCluster", 1).cluster_id
    software = {"client_software_name": "wire", "client_software_version": "1"}
    for label, expected in {
        "nothing": {},
        "this one": {"cluster_id": cluster_id, "node_id": 0},
        "another node": {"cluster_id": cluster_id, "node_id": 1},
        "another cluster": {"cluster_id": "another", "node_id": 0},
        "an empty cluster": {"cluster_id": "", "node_id": 0},
        "a cluster alone": {"cluster_id": cluster_id},
        "a node alone": {"node_id": 0},
        "a negative node": {"cluster_id": cluster_id, "node_id": -2},
    }.items():
        answer = side.quietly("ApiVersions", 5, client=label, **software, **expected)
        side.note(label, [side.error(answer), len(answer.api_keys) > 1, len(answer.supported_features) > 1])


@scenario
def controllers_unregistered(side: Side) -> None:
    side.ask("an unknown controller", "UnregisterController", 0, controller_id=77)
    side.ask("a negative controller", "UnregisterController", 0, controller_id=-1)
