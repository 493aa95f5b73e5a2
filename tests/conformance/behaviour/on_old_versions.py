"""Versions that the other scenarios leave out, of calls that are not about groups or transactions."""

from __future__ import annotations

from typing import Any

from tests.broker.support.batches import batch

from .on_fetch import fetch
from .on_offsets import list_offsets
from .on_produce import produce
from .on_topics import create
from .side import Side, scenario


@scenario
def old_versions_of_records(side: Side) -> None:
    topic = side.topic("old-records")
    produce(side, "appended", topic, batch([b"a"]), 4)
    produce(side, "another", topic, batch([b"b"]), 4)
    for version in range(4, 19):
        fetch(side, "a part", topic, 1, version, partition_max_bytes=1)
        fetch(side, "out of range", topic, 7, version)
        fetch(side, "no such topic", "old-records-nowhere", 0, version) if version < 13 else None
    for version in range(1, 12):
        for timestamp in (-1, -2, 0, 2**60):
            list_offsets(side, f"time {timestamp}", topic, timestamp, version)
        list_offsets(side, "no such topic", "old-records-nowhere", -1, version)
        list_offsets(side, "no such partition", topic, -1, version, partition=3)
        if version >= 2:
            list_offsets(side, "read committed", topic, -1, version, isolation_level=1)
    one = {"partition_index": 0, "offset": 1}
    deleting = {"timeout_ms": 5000, "topics": [{"name": topic, "partitions": [one]}]}
    side.ask("deletes", "DeleteRecords", 1, **deleting)
    for version in range(2, 5):
        requested = [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]
        side.ask("an epoch", "OffsetForLeaderEpoch", version, replica_id=-2, topics=requested)


@scenario
def old_versions_of_topics(side: Side) -> None:
    topic = side.topic("old-topics", partitions=2)
    for version in range(14):
        side.ask("known", "Metadata", version, topics=[{"name": topic}])
        side.ask("unknown", "Metadata", version, topics=[{"name": "old-topics-nowhere"}])
        side.ask("illegal", "Metadata", version, topics=[{"name": "a b"}])
        side.ask(
            "an id", "Metadata", version, topics=[{"name": None, "topic_id": side.id_of(topic)}]
        ) if version >= 10 else None
    for version in range(1, 7):
        name = f"old-topics-{version}"
        create(side, "made", name, 1, version=max(version, 2))
        gone = {"topics": [{"name": name}]} if version >= 6 else {"topic_names": [name]}
        side.ask("deleted", "DeleteTopics", version, timeout_ms=10_000, **gone)
        side.ask("deleted again", "DeleteTopics", version, timeout_ms=10_000, **gone)
    for version in range(4):
        for count in (2, 3):
            wanted = {"name": topic, "count": count, "assignments": None}
            side.ask(
                f"{count} partitions",
                "CreatePartitions",
                version,
                timeout_ms=10_000,
                validate_only=True,
                topics=[wanted],
            )
    for version in range(3):
        requested = [{"topic": topic, "partitions": [0, 7]}]
        kind = {} if version == 0 else {"election_type": 0}
        side.ask(
            "leads already", "ElectLeaders", version, timeout_ms=10_000, topic_partitions=requested, **kind
        )
    for version in range(2):
        parts = [{"partition_index": 9, "replicas": [0]}, {"partition_index": 0, "replicas": [5]}]
        side.ask(
            "no such",
            "AlterPartitionReassignments",
            version,
            timeout_ms=10_000,
            topics=[{"name": topic, "partitions": parts}],
        )


@scenario
def old_versions_of_configs(side: Side) -> None:
    topic = side.topic("old-configs")

    def resource(kind: int, name: str, **configs: str | None) -> dict[str, Any]:
        entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        return {"resource_type": kind, "resource_name": name, "configs": entries}

    def incremental(kind: int, name: str, **configs: str | None) -> dict[str, Any]:
        changed = resource(kind, name, **configs)
        for one in changed["configs"]:
            one["config_operation"] = 0
        return changed

    for version in range(3):
        for label, one in {
            "set": resource(2, topic, retention_ms="5000"),
            "bad": resource(2, topic, retention_ms="x"),
            "nowhere": resource(2, "old-configs-nowhere", retention_ms="1"),
            "of another broker": resource(4, "1", log_cleaner_backoff_ms="20000"),
        }.items():
            side.ask(label, "AlterConfigs", version, resources=[one], validate_only=True)
    for version in range(2):
        for label, one in {
            "set": incremental(2, topic, retention_ms="5000"),
            "bad": incremental(2, topic, retention_ms="x"),
            "of another broker": incremental(4, "1", log_cleaner_backoff_ms="20000"),
            "of a group": incremental(32, "old-configs", consumer_session_timeout_ms="50000"),
            "of a group, too short": incremental(32, "old-configs", consumer_session_timeout_ms="10"),
            "of a group, unknown": incremental(32, "old-configs", no_such="10"),
            "of a broker, by no number": incremental(4, "one", log_cleaner_backoff_ms="20000"),
        }.items():
            side.ask(label, "IncrementalAlterConfigs", version, resources=[one], validate_only=True)
    for version in range(2):
        types = {"resource_types": [16]} if version else {}
        side.ask("listed", "ListConfigResources", version, **types)


@scenario
def old_versions_of_the_rest(side: Side) -> None:
    for version in range(5):
        named = {"client_software_name": "old", "client_software_version": "1"} if version >= 3 else {}
        answer = side.quietly("ApiVersions", version, **named)
        first = min(answer.api_keys, key=lambda one: one.api_key)
        side.note(
            f"ApiVersions v{version}",
            [answer.error_code, first.api_key, first.min_version, first.max_version],
        )
        names = [one.name for one in answer.supported_features if one.name.startswith("group")]
        side.note(f"features in v{version}", names)
    for version in range(2):
        side.ask("no SASL here", "SaslHandshake", version, client=f"sasl-{version}", mechanism="PLAIN")
    for version in range(3):
        side.ask("no SASL here", "SaslAuthenticate", version, client=f"token-{version}", auth_bytes=b"\0a\0b")
    topic = side.topic("old-rest")
    for version in range(1, 6):
        answer = side.quietly("DescribeLogDirs", version, topics=[{"topic": topic, "partitions": [0]}])
        side.note(
            f"DescribeLogDirs v{version}", [answer.error_code, [len(one.topics) for one in answer.results]]
        )
        none = side.quietly("DescribeLogDirs", version, topics=[])
        side.note(f"DescribeLogDirs v{version} of nothing", [len(one.topics) for one in none.results])
    for version in (1, 2):
        moved = [{"path": "/nowhere", "topics": [{"name": topic, "partitions": [0]}]}]
        side.ask("nowhere", "AlterReplicaLogDirs", version, dirs=moved)
    for version in range(3):
        requested = [{"topic_name": "old-rest-nowhere", "partitions": [{}]}]
        side.ask("of another topic", "DescribeQuorum", version, topics=requested)
        old = {"feature": "transaction.version", "max_version_level": 1}
        kind = {"allow_downgrade": True} if version == 0 else {"upgrade_type": 2}
        more = {} if version == 0 else {"validate_only": True}
        for name, level in (("no.such.version", 1), ("group.version", 99)):
            one = {**old, **kind, "feature": name, "max_version_level": level}
            side.ask(name, "UpdateFeatures", version, timeout_ms=10_000, feature_updates=[one], **more)
    at = side.coordinator("old-rest")
    side.await_topic_in_groups(topic, at)
    first = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": [topic], "topic_partitions": []}
    assigned = side.ask(
        "an id is given",
        "ConsumerGroupHeartbeat",
        0,
        at,
        group_id="old-rest",
        member_id="",
        member_epoch=0,
        **first,
    )
    side.ask(
        "goes on",
        "ConsumerGroupHeartbeat",
        0,
        at,
        group_id="old-rest",
        member_id=assigned.member_id,
        member_epoch=assigned.member_epoch,
    )
    side.ask(
        "without an id", "ConsumerGroupHeartbeat", 0, at, group_id="old-rest", member_id="", member_epoch=1
    )
    side.ask("described", "ConsumerGroupDescribe", 0, at, group_ids=["old-rest"])
    side.ask(
        "leaves",
        "ConsumerGroupHeartbeat",
        0,
        at,
        group_id="old-rest",
        member_id=assigned.member_id,
        member_epoch=-1,
    )
