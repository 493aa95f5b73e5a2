"""Other people's tools of administration change the bundled broker as they do Apache Kafka.

kafka-python's admin client, librdkafka's (confluent-kafka), and Kafka's own commands; on Apache Kafka the
same tests show that it is not the tools, nor these tests, that misbehave.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .bridge import Bridge
from .brokers import Cluster, eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import TopicPartition
    from kafka.admin import ConfigResource, KafkaAdminClient

TIMEOUT = 30.0
PREFERRED = 0

Tool = Callable[..., str]


@pytest.fixture
def python_admin(cluster: Cluster) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield admin
    admin.close()


@pytest.fixture
def confluent_admin(cluster: Cluster) -> Any:
    from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]

    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def replicas_of(admin: Any, topic: str) -> dict[int, tuple[list[int], list[int], int]]:
    """Replicas, those in sync, and the leader of each partition, as kafka-python describes them."""
    (described,) = admin.describe_topics([topic])
    return {
        one["partition_index"]: (list(one["replica_nodes"]), sorted(one["isr_nodes"]), one["leader_id"])
        for one in described["partitions"]
    }


# ---------------------------------------------------------------------- kafka-python


def test_kafka_python_makes_widens_and_deletes_topics(cluster: Cluster, python_admin: Any) -> None:
    name = cluster.new_topic() + "-by-kafka-python"
    python_admin.create_topics(
        {name: {"assignments": {0: [1, 0], 1: [2, 1]}, "configs": {"retention.ms": "5"}}}
    )
    python_admin.wait_for_topics([name])
    cluster.await_topic(name, 2)
    assert replicas_of(python_admin, name)[0][0] == [1, 0]
    python_admin.create_partitions({name: {"count": 3, "assignments": [[2, 0]]}})
    cluster.await_topic(name, 3)
    assert replicas_of(python_admin, name)[2][0] == [2, 0]
    page = python_admin.describe_topic_partitions([name], response_partition_limit=2)
    assert page["next_cursor"]["partition_index"] == 2
    python_admin.delete_topics([name])
    eventually(lambda: name not in python_admin.list_topics())


def test_kafka_python_alters_configurations(cluster: Cluster, python_admin: Any) -> None:
    topic = cluster.new_topic()

    def shown(name: str) -> str | None:
        resource = ConfigResource("TOPIC", topic, {name: None})
        described = python_admin.describe_configs([resource], config_filter="all")
        value: str | None = described["topic"][topic][name]["value"]
        return value

    python_admin.alter_configs(
        [ConfigResource("TOPIC", topic, {"retention.ms": "777", "cleanup.policy": ("APPEND", "compact")})]
    )
    eventually(lambda: (shown("retention.ms"), shown("cleanup.policy")) == ("777", "delete,compact"))
    python_admin.reset_configs([ConfigResource("TOPIC", topic, ["retention.ms"])])
    eventually(lambda: shown("retention.ms") == "604800000")
    python_admin.alter_configs([ConfigResource("BROKER", "0", {"log.cleaner.threads": "2"})])
    python_admin.reset_configs([ConfigResource("BROKER", "0", ["log.cleaner.threads"])])
    python_admin.alter_configs([ConfigResource("GROUP", topic, {"consumer.session.timeout.ms": "46000"})])
    # A broker that knows no group has no place for them in its response.
    eventually(lambda: topic in python_admin.list_config_resources(["GROUP"]).get("group", ()))


def test_kafka_python_moves_partitions_and_elects_leaders(cluster: Cluster, python_admin: Any) -> None:
    name = cluster.new_topic() + "-moved"
    python_admin.create_topics({name: {"assignments": {0: [0, 1]}}})
    cluster.await_topic(name, 1)
    place = TopicPartition(name, 0)
    python_admin.alter_partition_reassignments({place: [1, 2]})
    eventually(lambda: replicas_of(python_admin, name)[0] == ([1, 2], [1, 2], 1))
    assert place not in python_admin.list_partition_reassignments()
    python_admin.alter_partition_reassignments({place: [2, 1]})
    eventually(lambda: replicas_of(python_admin, name)[0] == ([2, 1], [1, 2], 1))
    python_admin.elect_leaders(PREFERRED, {name: [0]})
    eventually(lambda: replicas_of(python_admin, name)[0][2] == 2)


def test_kafka_python_admin_describes_the_cluster(cluster: Cluster, python_admin: Any) -> None:
    described = python_admin.describe_cluster()
    assert sorted(one["broker_id"] for one in described["brokers"]) == [0, 1, 2]
    quorum = python_admin.describe_metadata_quorum()
    (shown,) = quorum["topics"][0]["partitions"]
    assert shown["leader_id"] in {voter["replica_id"] for voter in shown["current_voters"]}
    assert python_admin.describe_features()["transaction.version"]["supported"] == (0, 2)
    python_admin.update_features({"transaction.version": ("SAFE_DOWNGRADE", 1)}, validate_only=True)
    assert python_admin.describe_features()["transaction.version"]["finalized"] == (2, 2)


# ---------------------------------------------------------------------- librdkafka


def test_confluent_makes_widens_and_deletes_topics(cluster: Cluster, confluent_admin: Any) -> None:
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import NewPartitions, NewTopic  # type: ignore[attr-defined]

    name = cluster.new_topic() + "-by-librdkafka"
    topic = NewTopic(name, 2, replica_assignment=[[0, 1], [1, 2]], config={"cleanup.policy": "compact"})
    confluent_admin.create_topics([topic])[name].result(TIMEOUT)
    with pytest.raises(KafkaException, match="already exists"):
        confluent_admin.create_topics([topic])[name].result(TIMEOUT)
    confluent_admin.create_partitions([NewPartitions(name, 4)])[name].result(TIMEOUT)
    cluster.await_topic(name, 4)
    described = confluent_admin.describe_topics(TopicCollection([name]))[name].result(TIMEOUT)
    assert len(described.partitions) == 4
    confluent_admin.delete_topics([name])[name].result(TIMEOUT)
    eventually(lambda: name not in confluent_admin.list_topics(timeout=TIMEOUT).topics)


def test_confluent_alters_configurations(cluster: Cluster, confluent_admin: Any) -> None:
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ConfigSource,
    )

    topic = cluster.new_topic()

    def resource(*entries: Any) -> Any:
        return ConfigResource("topic", topic, incremental_configs=list(entries) or None)

    def shown(name: str) -> Any:
        target = ConfigResource("topic", topic)
        return confluent_admin.describe_configs([target])[target].result(TIMEOUT)[name]

    for operation, value, expected in (
        (AlterConfigOpType.SET, "compact", "compact"),
        (AlterConfigOpType.APPEND, "delete", "compact,delete"),
        (AlterConfigOpType.SUBTRACT, "compact", "delete"),
    ):
        target = resource(ConfigEntry("cleanup.policy", value, incremental_operation=operation))
        confluent_admin.incremental_alter_configs([target])[target].result(TIMEOUT)
        eventually(lambda expected=expected: shown("cleanup.policy").value == expected)
    assert shown("cleanup.policy").source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    target = resource(ConfigEntry("cleanup.policy", None, incremental_operation=AlterConfigOpType.DELETE))
    confluent_admin.incremental_alter_configs([target])[target].result(TIMEOUT)
    eventually(lambda: shown("cleanup.policy").source == ConfigSource.DEFAULT_CONFIG.value)
    # The older way, which replaces everything.
    replacing = ConfigResource("topic", topic, set_config={"segment.ms": "60000"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        confluent_admin.alter_configs([replacing])[replacing].result(TIMEOUT)
    eventually(lambda: shown("segment.ms").value == "60000")


def test_confluent_elects_leaders(cluster: Cluster, confluent_admin: Any, python_admin: Any) -> None:
    from confluent_kafka import ElectionType
    from confluent_kafka import TopicPartition as Place

    name = cluster.new_topic() + "-elected"
    python_admin.create_topics({name: {"assignments": {0: [0, 1]}}})
    cluster.await_topic(name, 1)
    python_admin.alter_partition_reassignments({TopicPartition(name, 0): [1, 0]})
    place = Place(name, 0)
    for error in (None, "ELECTION_NOT_NEEDED"):
        elected = confluent_admin.elect_leaders(ElectionType.PREFERRED, [place]).result(TIMEOUT)
        assert (None if elected[place] is None else elected[place].name()) == error
    eventually(lambda: replicas_of(python_admin, name)[0][2] == 1)


# ---------------------------------------------------------------------- Kafka's commands


@pytest.fixture
def tool(java: Bridge, cluster: Cluster) -> Tool:
    """`tool("LeaderElectionCommand", ...)` with the cluster's address added: what it printed."""

    def tool(name: str, *arguments: object, status: int = 0) -> str:
        words = ["--bootstrap-server", cluster.bootstrap_servers, *map(str, arguments)]
        (done,) = java("tool", [{"class": name, "arguments": words}])
        assert done["status"] == status, done["output"]
        return str(done["output"])

    return tool


@pytest.mark.real_kafka
def test_config_command(cluster: Cluster, tool: Tool) -> None:
    topic = cluster.new_topic()
    command = "ConfigCommand"

    def configs(*arguments: object) -> str:
        return tool(command, "--entity-type", "topics", "--entity-name", topic, *arguments)

    configs("--alter", "--add-config", "retention.ms=4321,cleanup.policy=[compact,delete]")
    eventually(lambda: "retention.ms=4321" in configs("--describe"))
    eventually(lambda: "cleanup.policy=compact,delete" in configs("--describe"))
    configs("--alter", "--delete-config", "retention.ms")
    eventually(lambda: "retention.ms" not in configs("--describe"))
    assert "min.insync.replicas=1" in configs("--describe", "--all")
    brokers = ("--entity-type", "brokers", "--entity-default")
    tool(command, *brokers, "--alter", "--add-config", "log.cleaner.threads=2")
    eventually(lambda: "log.cleaner.threads=2" in tool(command, *brokers, "--describe"))
    tool(command, *brokers, "--alter", "--delete-config", "log.cleaner.threads")


@pytest.mark.real_kafka
def test_reassign_and_election_commands(
    cluster: Cluster, tool: Tool, tmp_path: Path, python_admin: Any
) -> None:
    name = cluster.new_topic() + "-by-command"
    python_admin.create_topics({name: {"assignments": {0: [0, 1]}}})
    cluster.await_topic(name, 1)
    plan = tmp_path / "plan.json"

    def move(*replicas: int) -> None:
        partition = {"topic": name, "partition": 0, "replicas": list(replicas)}
        plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        reassign = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", plan)
        assert "Successfully started" in tool(*reassign, "--execute")
        eventually(lambda: f"{name}-0 is completed" in tool(*reassign, "--verify"))

    move(2, 1)
    eventually(lambda: replicas_of(python_admin, name)[0] == ([2, 1], [1, 2], 2))
    move(1, 2)
    elect = ("LeaderElectionCommand", "--election-type", "preferred", "--topic", name, "--partition", 0)
    assert "Successfully completed leader election" in tool(*elect)
    assert "Valid replica already elected" in tool(*elect)
    eventually(lambda: replicas_of(python_admin, name)[0][2] == 1)
    assert name not in tool("reassign.ReassignPartitionsCommand", "--list")


@pytest.mark.real_kafka
def test_quorum_and_feature_commands(tool: Tool) -> None:
    assert "LeaderId" in tool("MetadataQuorumCommand", "describe", "--status")
    assert "Leader" in tool("MetadataQuorumCommand", "describe", "--replication")
    assert "transaction.version" in tool("FeatureCommand", "describe")
    downgrade = ("FeatureCommand", "downgrade", "--feature", "transaction.version=1", "--dry-run")
    assert "can be downgraded to 1" in tool(*downgrade)
    tool("FeatureCommand", "upgrade", "--feature", "transaction.version=9", status=1)
