"""The admin client and Java's `Admin` describe the same cluster alike, on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.admin import ConfigResource, NewTopic

from .bridge import Bridge
from .brokers import Cluster, eventually

BEGIN_MS = 1_700_000_000_000
TOPIC, GROUP, TRANSACTION = "java-admin", "java-admin-group", "java-admin-txn"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(2)]


@pytest.fixture(scope="module")
def admin(apache: Cluster) -> Iterator[KafkaAdminClient]:
    """Results for a cluster with a topic, a group with a member and an open transaction."""
    servers = apache.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics(
            [NewTopic(TOPIC, assignment={0: [0, 1], 1: [2, 0]}, configs={"retention.ms": "-1"})]
        )
        apache.await_topic(TOPIC, 2)
        producer = KafkaProducer(bootstrap_servers=servers, transactional_id=TRANSACTION)
        consumer = KafkaConsumer(
            TOPIC, bootstrap_servers=servers, group_id=GROUP, client_id="java-admin-member"
        )
        with producer, consumer:
            producer.init_transactions()
            with producer.transaction():
                for number in range(5):
                    producer.send(TOPIC, b"v", partition=0, timestamp_ms=BEGIN_MS + number * 1000)
            eventually(lambda: consumer.poll(timeout_ms=100) is not None and bool(consumer.assignment()))
            consumer.commit({PARTITIONS[0]: 3})
            admin.wait_for_group(GROUP, members=1)
            producer.begin_transaction()
            producer.send(TOPIC, b"open", partition=1, timestamp_ms=BEGIN_MS).result(20)
            yield admin


@pytest.fixture(scope="module")
def views(admin: KafkaAdminClient, apache: Cluster, java: Bridge) -> Any:
    """Return values of Java's Admin, by call."""
    item = {
        "bootstrap_servers": apache.bootstrap_servers,
        "topic": TOPIC,
        "group": GROUP,
        "transactional_id": TRANSACTION,
        "time": BEGIN_MS + 1500,
    }
    (answers,) = java("admin_views", [item])
    return answers


def test_topics_are_those_of_java(admin: KafkaAdminClient, views: Any) -> None:
    topic = admin.describe_topics([TOPIC], include_authorized_operations=True)[TOPIC]
    theirs = views["topics"][TOPIC]
    assert sorted(topic.authorized_operations or ()) == theirs["authorizedOperations"]
    assert topic.is_internal == theirs["isInternal"]
    assert [
        (f"node {one.leader}", [f"node {id}" for id in one.replicas], [f"node {id}" for id in one.isr])
        for one in topic.partitions
    ] == [(one["leader"], one["replicas"], one["isr"]) for one in theirs["partitions"]]


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("max_timestamp", "max_timestamp"),
        ("by_time", BEGIN_MS + 1500),
    ],
)
def test_offsets_are_those_of_java(admin: KafkaAdminClient, views: Any, name: str, spec: str | int) -> None:
    ours = admin.list_offsets(dict.fromkeys(PARTITIONS, spec), isolation_level="read_committed")
    assert {
        str(partition): {
            "offset": one.offset,
            "timestamp": one.timestamp,
            "leaderEpoch": None if one.leader_epoch < 0 else one.leader_epoch,
        }
        for partition, one in ours.items()
    } == views[name]


def test_settings_are_those_of_java(admin: KafkaAdminClient, views: Any) -> None:
    resource = ConfigResource("TOPIC", TOPIC)
    ours = admin.describe_configs([resource], include_synonyms=True)[resource]

    def synonyms(entries: Any) -> list[tuple[str, str, str]]:
        return sorted((str(one["source"]), str(one["name"]), str(one["value"])) for one in entries)

    assert {
        entry.name: (
            entry.value,
            entry.source,
            entry.type,
            entry.is_default,
            entry.is_read_only,
            entry.is_sensitive,
            synonyms(attrs.asdict(one) for one in entry.synonyms),
        )
        for entry in ours.values()
    } == {
        entry["name"]: (
            entry["value"],
            entry["source"],
            entry["type"],
            entry["isDefault"],
            entry["isReadOnly"],
            entry["isSensitive"],
            synonyms(entry["synonyms"]),
        )
        for entry in views["configs"][f"TOPIC {TOPIC}"]["entries"]
    }


def test_groups_are_those_of_java(admin: KafkaAdminClient, views: Any) -> None:
    (listed,) = [one for one in admin.list_groups() if one.group_id == GROUP]
    (theirs,) = [one for one in views["groups"] if one["groupId"] == GROUP]
    assert (listed.protocol, listed.state.upper(), listed.type.upper(), listed.is_simple) == (
        theirs["protocol"],
        theirs["groupState"],
        theirs["type"],
        theirs["isSimpleConsumerGroup"],
    )
    group = admin.describe_groups([GROUP], include_authorized_operations=True)[GROUP]
    theirs = views["group"][GROUP]
    assert (group.state.upper(), group.type.upper(), group.assignor, group.epoch, group.assignment_epoch) == (
        theirs["groupState"],
        theirs["type"],
        theirs["partitionAssignor"],
        theirs["groupEpoch"],
        theirs["targetAssignmentEpoch"],
    )
    assert sorted(group.authorized_operations or ()) == theirs["authorizedOperations"]
    assert group.coordinator is not None
    assert f"node {group.coordinator.id}" == theirs["coordinator"]
    (ours,), (java,) = group.members, theirs["members"]
    assert (
        ours.client_id,
        ours.member_id,
        ours.group_instance_id,
        ours.client_host,
        ours.epoch,
        ours.rack,
    ) == (
        java["clientId"],
        java["consumerId"],
        java["groupInstanceId"],
        java["host"],
        java["memberEpoch"],
        java["rackId"],
    )
    assert [str(partition) for partition in ours.assignment] == java["assignment"]["topicPartitions"]
    assert (ours.target, ours.is_classic) == (java["targetAssignment"], java["upgraded"])


def test_committed_offsets_are_those_of_java(admin: KafkaAdminClient, views: Any) -> None:
    assert {
        str(partition): (one.offset, one.metadata, None if one.leader_epoch < 0 else one.leader_epoch)
        for partition, one in admin.list_group_offsets(GROUP).items()
    } == {
        name: (one["offset"], one["metadata"], one["leaderEpoch"])
        for name, one in views["offsets"][GROUP].items()
        if one is not None
    }


def test_cluster_and_features_are_those_of_java(admin: KafkaAdminClient, views: Any) -> None:
    ours = admin.describe_cluster(include_authorized_operations=True, include_fenced_brokers=True)
    theirs = views["cluster"]
    assert (ours.cluster_id, sorted(f"node {one.id}" for one in ours.nodes)) == (
        theirs["clusterId"],
        sorted(theirs["nodes"]),
    )
    assert sorted(ours.authorized_operations or ()) == theirs["authorizedOperations"]
    features, java = admin.describe_features(), views["features"]
    assert {name: tuple(one) for name, one in features.finalized.items()} == {
        name: (one["minVersionLevel"], one["maxVersionLevel"])
        for name, one in java["finalizedFeatures"].items()
    }
    assert {name: tuple(one) for name, one in features.supported.items()} == {
        name: (one["minVersion"], one["maxVersion"]) for name, one in java["supportedFeatures"].items()
    }
    assert features.finalized_epoch >= java["finalizedFeaturesEpoch"]
    quorum, java = admin.describe_metadata_quorum(), views["quorum"]
    assert (quorum.leader_id, quorum.leader_epoch) == (java["leaderId"], java["leaderEpoch"])
    for ours_of, theirs_of in ((quorum.voters, "voters"), (quorum.observers, "observers")):
        # The controller lists them in any order.
        assert sorted(one.replica_id for one in ours_of) == sorted(
            one["replicaId"] for one in java[theirs_of]
        )
    assert quorum.high_watermark >= java["highWatermark"]
    assert {
        str(id): [(name, host, port) for name, host, port in listeners]
        for id, listeners in quorum.nodes.items()
    } == {
        id: [(one["listener"], one["host"], one["port"]) for one in node["endpoints"]]
        for id, node in java["nodes"].items()
    }


def test_log_directories_are_those_of_java(admin: KafkaAdminClient, views: Any) -> None:
    ours = admin.describe_log_dirs([0, 1, 2], partitions=PARTITIONS)
    for broker, paths in ours.items():
        theirs = views["log_dirs"][str(broker)]
        assert list(paths) == list(theirs)
        for path, directory in paths.items():
            java = theirs[path]
            assert (directory.total_bytes, directory.is_cordoned, directory.error) == (
                java["totalBytes"],
                java["isCordoned"],
                java["error"],
            )
            assert {
                str(partition): (one.size_bytes, one.offset_lag, one.is_future)
                for partition, one in directory.replicas.items()
            } == {
                name: (one["size"], one["offsetLag"], one["isFuture"])
                for name, one in java["replicaInfos"].items()
                if name.startswith(TOPIC)
            }


def test_producers_and_transactions_are_those_of_java(admin: KafkaAdminClient, views: Any) -> None:
    for partition, states in admin.describe_producers(PARTITIONS).items():
        assert [
            {
                "producerId": one.producer_id,
                "producerEpoch": one.producer_epoch,
                "lastSequence": one.last_sequence,
                "lastTimestamp": one.last_timestamp,
                "coordinatorEpoch": one.coordinator_epoch,
                "currentTransactionStartOffset": one.transaction_start_offset,
            }
            for one in states
        ] == views["producers"][str(partition)]["activeProducers"]
    (listed,) = [one for one in admin.list_transactions() if one.transactional_id == TRANSACTION]
    assert [(listed.producer_id, listed.state.upper())] == [
        (one["producerId"], one["state"])
        for one in views["transactions"]
        if one["transactionalId"] == TRANSACTION
    ]
    ours, theirs = admin.describe_transactions([TRANSACTION])[TRANSACTION], views["transaction"][TRANSACTION]
    assert ours.coordinator_id == theirs["coordinatorId"]
    assert (ours.producer_id, ours.producer_epoch, ours.state.upper(), ours.start_time_ms) == (
        theirs["producerId"],
        theirs["producerEpoch"],
        theirs["state"],
        theirs["transactionStartTimeMs"],
    )
    assert [str(partition) for partition in ours.partitions] == theirs["topicPartitions"]
    assert ours.timeout * 1000 == theirs["transactionTimeoutMs"]


def test_reassignments_and_resources_are_those_of_java(admin: KafkaAdminClient, views: Any) -> None:
    assert admin.list_partition_reassignments() == views["reassignments"] == {}
    ours = {f"{one.resource_type.name} {one.name}" for one in admin.list_config_resources()}
    assert ours == set(views["resources"])
