"""CreateTopics, DeleteTopics, Metadata, DescribeConfigs, DescribeCluster."""

from __future__ import annotations

from typing import Any

from .side import Side, scenario


def create(side: Side, label: str, name: str, partitions: int = 1, factor: int = 3, **options: Any) -> Any:
    """configs and assignments as dicts."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "configs": [{"name": name, "value": value} for name, value in options.pop("configs", {}).items()],
        "assignments": [
            {"partition_index": index, "broker_ids": brokers}
            for index, brokers in options.pop("assignments", {}).items()
        ],
    }
    return side.ask(
        label, "CreateTopics", options.pop("version", 7), topics=[topic], timeout_ms=10_000, **options
    )


@scenario
def topics_created(side: Side) -> None:
    for version in (2, 3, 4, 5, 6, 7):
        create(side, "plain", f"topics-created-{version}", 3, version=version)
    create(side, "defaults", "topics-defaults", -1, -1)
    create(side, "assigned", "topics-assigned", -1, -1, assignments={0: [2, 1], 1: [1, 0]})
    create(
        side,
        "with configs",
        "topics-configs",
        configs={"retention.ms": "1000", "cleanup.policy": "compact,delete"},
    )
    create(side, "only validated", "topics-validated", validate_only=True)
    side.ask("it does not exist", "Metadata", 12, topics=[{"name": "topics-validated"}])
    create(side, "it exists", "topics-defaults")
    side.await_topic_everywhere("topics-assigned")
    side.ask("the assigned one", "Metadata", 12, topics=[{"name": "topics-assigned"}])
    create(side, "from another broker", "topics-other-broker", broker=2)


@scenario
def topics_refused(side: Side) -> None:
    side.topic("topics_refused.here")
    create(side, "collides", "topics.refused_here")
    create(side, "exists", "topics_refused.here")
    for name in ("", ".", "..", "a b", "a/b", "ключ", "x" * 250):
        create(side, f"the name {name[:20]!r}", name)
    create(side, "the longest name", "x" * 249, validate_only=True)
    create(side, "no partitions", "topics-refused", 0)
    create(side, "-2 partitions", "topics-refused", -2)
    create(side, "no replicas", "topics-refused", 1, 0)
    create(side, "-2 replicas", "topics-refused", 1, -2)
    create(side, "4 replicas on 3 brokers", "topics-refused", 1, 4)
    create(side, "an internal name", "__consumer_offsets_not", validate_only=True)
    for label, assignments in {
        "unknown broker": {0: [0, 7]},
        "negative broker": {0: [-1]},
        "a broker twice": {0: [0, 0]},
        "no brokers": {0: []},
        "sizes differ": {0: [0, 1], 1: [0]},
        "not from 0": {1: [0, 1]},
        "a gap": {0: [0, 1], 2: [0, 1]},
    }.items():
        create(side, f"assigned: {label}", "topics-refused", -1, -1, assignments=assignments)
    create(side, "assigned and counted", "topics-refused", 2, 2, assignments={0: [0, 1], 1: [1, 2]})
    for name, value in {
        "no.such.config": "1",
        "retention.ms": "soon",
        "cleanup.policy": "shred",
        "min.insync.replicas": "0",
        "max.message.bytes": "-1",
        "compression.type": "brotli",
        "segment.bytes": "10",
        "unclean.leader.election.enable": "maybe",
        "min.cleanable.dirty.ratio": "1.5",
        "message.timestamp.type": "Yesterday",
        "retention.bytes": "9999999999999999999",
        "remote.storage.enable": "true",
    }.items():
        create(side, f"{name}={value}", "topics-refused", configs={name: value})
    twice = {"name": "topics-refused", "num_partitions": 1, "replication_factor": 1}
    side.ask("one name twice", "CreateTopics", 7, topics=[twice, twice], timeout_ms=10_000)
    good = {"name": "topics-refused-good", "num_partitions": 1, "replication_factor": 1}
    bad = {"name": "topics-refused-bad", "num_partitions": 0, "replication_factor": 1}
    side.ask("good and bad", "CreateTopics", 7, topics=[good, bad], timeout_ms=10_000)
    side.ask("no topics", "CreateTopics", 7, topics=[], timeout_ms=10_000)


@scenario
def topics_deleted(side: Side) -> None:
    names = [f"topics-deleted-{number}" for number in range(4)]
    ids = {}
    for name in names:
        side.topic(name)
        ids[name] = side.id_of(name)

    def delete(label: str, version: int, *topics: dict[str, Any], names: tuple[str, ...] = ()) -> None:
        side.ask(
            label, "DeleteTopics", version, topics=list(topics), topic_names=list(names), timeout_ms=10_000
        )

    delete("by name, version 4", 4, names=(names[0],))
    delete("by name", 6, {"name": names[1]})
    delete("by id", 6, {"name": None, "topic_id": ids[names[2]]})
    delete("gone, by name", 6, {"name": names[1]})
    delete("gone, by id", 6, {"name": None, "topic_id": ids[names[2]]})
    delete("unknown id", 6, {"name": None, "topic_id": bytes(range(16))})
    delete("name and id", 6, {"name": names[3], "topic_id": ids[names[3]]})
    delete("neither", 6, {"name": None, "topic_id": bytes(16)})
    delete("twice", 6, {"name": names[3]}, {"name": names[3]})
    delete("by name and by id", 6, {"name": names[3]}, {"name": None, "topic_id": ids[names[3]]})
    delete("still there", 6, {"name": names[3]})
    delete("version 5, unknown", 5, names=("topics-deleted-unknown",))


@scenario
def metadata_of_topics(side: Side) -> None:
    topic = side.topic("metadata-topic", partitions=2)
    for version in (0, 1, 4, 5, 7, 8, 9, 10, 11, 12, 13):
        side.ask("by name", "Metadata", version, topics=[{"name": topic}])
    side.ask("by id", "Metadata", 12, topics=[{"name": None, "topic_id": side.id_of(topic)}])
    side.ask("unknown", "Metadata", 12, topics=[{"name": "metadata-unknown"}])
    side.ask(
        "unknown, may not be created",
        "Metadata",
        12,
        topics=[{"name": "metadata-unknown"}],
        allow_auto_topic_creation=False,
    )
    side.ask("illegal name", "Metadata", 12, topics=[{"name": "no good"}])
    side.ask("empty name", "Metadata", 12, topics=[{"name": ""}])
    side.ask("unknown id", "Metadata", 12, topics=[{"name": None, "topic_id": bytes(range(16))}])
    side.ask("null name in version 9", "Metadata", 10, topics=[{"name": None, "topic_id": bytes(16)}])
    side.ask("name and id", "Metadata", 12, topics=[{"name": topic, "topic_id": side.id_of(topic)}])
    side.ask("none", "Metadata", 12, topics=[])
    side.ask(
        "authorized operations",
        "Metadata",
        12,
        topics=[{"name": topic}],
        include_topic_authorized_operations=True,
    )
    side.ask(
        "authorized operations of the cluster",
        "Metadata",
        10,
        topics=[],
        include_cluster_authorized_operations=True,
    )
    side.ask("twice", "Metadata", 12, topics=[{"name": topic}, {"name": topic}])
    for version in (0, 1, 2):
        side.ask("the cluster", "DescribeCluster", version)
    side.ask("its authorized operations", "DescribeCluster", 1, include_cluster_authorized_operations=True)
    side.ask("the controllers", "DescribeCluster", 1, endpoint_type=2)
    side.ask("endpoint type 9", "DescribeCluster", 1, endpoint_type=9)


@scenario
def configs_described(side: Side) -> None:
    topic = side.topic("configs-topic", configs={"retention.ms": "5000", "min.insync.replicas": "2"})

    def ask(
        label: str, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **options: Any
    ) -> None:
        side.ask(
            label,
            "DescribeConfigs",
            version,
            **options,
            resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        )

    for version in (1, 2, 3, 4):
        ask("a topic", 2, topic, version=version)
    ask(
        "with synonyms",
        2,
        topic,
        ["retention.ms", "min.insync.replicas", "segment.bytes"],
        include_synonyms=True,
    )
    ask("unknown keys", 2, topic, ["no.such", "retention.ms"])
    ask("no keys", 2, topic, [])
    ask("unknown topic", 2, "configs-unknown")
    ask("illegal topic", 2, "no good")
    ask(
        "a broker",
        4,
        "0",
        [
            "num.io.threads",
            "auto.create.topics.enable",
            "log.retention.ms",
            "num.partitions",
            "message.max.bytes",
            "min.insync.replicas",
        ],
    )
    ask("another broker", 4, "1", ["num.io.threads"])
    ask("unknown broker", 4, "17", ["num.io.threads"])
    ask("not a number", 4, "zero", ["num.io.threads"])
    ask("all brokers", 4, "", None)
    ask("type 3", 3, "x", None)
    ask("type 99", 99, "x", None)


@scenario
def configs_of_a_broker(side: Side) -> None:
    """Every option of a broker: its type, whether it may be changed, whether it is a secret."""
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    answer = side.quietly("DescribeConfigs", 4, 1, resources=[resource])
    for one in answer.results[0].configs:
        if one.name.startswith("listener.name.") or one.name == "super.users":
            continue  # of the listener and the authorizer that tests of SASL and of access have
        traits = [f"type {one.config_type}"]
        traits += ["read only"] * one.read_only + ["sensitive"] * one.is_sensitive
        side.note_fixed(one.name, ", ".join(traits))
