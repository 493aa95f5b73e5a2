"""Scenarios about additions of Apache Kafka 4.4: commits by topic id, the expected broker, and more."""

from __future__ import annotations

from typing import Any

from tests.broker.support.batches import NOW_MS, batch

from .on_groups_by_call import beating, committing
from .on_offsets import list_offsets
from .on_produce import produce, the_log
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


@scenario
def produce_larger_than_allowed_once_decompressed(side: Side) -> None:
    """max.decompressed.message.bytes: the size of one record of a compressed batch, without its length."""
    limit = {"max.decompressed.message.bytes": "100"}
    topic = side.topic("decompressed", configs=limit)
    fits, too_large = b"v" * 93, b"v" * 94  # 7 bytes more in the record
    for codec in range(5):
        produce(side, f"codec {codec}, 100 bytes", topic, batch([fits], codec=codec))
        produce(side, f"codec {codec}, 101 bytes", topic, batch([too_large], codec=codec))
    produce(side, "the second of three", topic, batch([b"a", too_large, b"b"], codec=1))
    produce(side, "the last of twenty", topic, batch([*[fits] * 19, too_large], codec=3))
    produce(side, "twenty that fit", topic, batch([fits] * 20, codec=3))
    the_log(side, topic)
    compacted = side.topic("decompressed-compacted", configs={**limit, "cleanup.policy": "compact"})
    produce(side, "without a key before", compacted, batch([b"a", too_large], codec=1))
    produce(side, "without a key behind", compacted, batch([too_large, b"a"], keys=[b"k", None], codec=1))
    for codec in ("uncompressed", "zstd"):
        other = side.topic(f"decompressed-{codec}", configs={**limit, "compression.type": codec})
        produce(side, f"uncompressed to {codec}", other, batch([too_large]))
        produce(side, f"gzip to {codec}", other, batch([too_large], codec=1))
        the_log(side, other)


@scenario
def offsets_of_records_larger_than_allowed(side: Side) -> None:
    """ListOffsets by timestamp decompresses records: it fails if the limit was lowered below their size."""
    topic = side.topic("decompressed-later")
    produce(side, "small", topic, batch([b"v"], codec=1))
    produce(side, "large", topic, batch([b"v" * 200, b"v"], codec=1, timestamp=NOW_MS + 1))
    produce(side, "small again", topic, batch([b"v"], codec=1, timestamp=NOW_MS + 2))
    times = (0, NOW_MS + 1, NOW_MS + 2, NOW_MS + 3, -1, -2, -3)
    for timestamp in times:
        list_offsets(side, f"before, {timestamp}", topic, timestamp)
    lower = {"name": "max.decompressed.message.bytes", "config_operation": 0, "value": "100"}
    resource = {"resource_type": 2, "resource_name": topic, "configs": [lower]}
    side.ask("lowers the limit", "IncrementalAlterConfigs", 1, resources=[resource])
    data = [{"index": 0, "records": batch([b"v" * 150], codec=1)}]
    fields = {"acks": -1, "timeout_ms": 5000, "topic_data": [{"name": topic, "partition_data": data}]}

    def error() -> int:
        answer = side.quietly("Produce", 12, **fields)
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    side.until(error, "the broker has the limit")
    for timestamp in times:
        list_offsets(side, f"after, {timestamp}", topic, timestamp)
