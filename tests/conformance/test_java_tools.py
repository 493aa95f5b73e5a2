"""Kafka's own command-line tools against the bundled broker, as a shell would run them, in one JVM.

ProducerPerformance, ConsumerPerformance, VerifiableProducer, VerifiableConsumer, TransactionalMessageCopier,
TopicCommand and a few more.  On Apache Kafka the same tests show that the tests are right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .bridge import Bridge
from .brokers import Cluster, eventually

pytestmark = pytest.mark.real_kafka

Tool = Callable[..., str]


@pytest.fixture
def tool(java: Bridge) -> Tool:
    """`tool("TopicCommand", "--list", ...)`: what it printed; AssertionError where it exits with a status."""

    def tool(name: str, *arguments: object, status: int = 0) -> str:
        (done,) = java("tool", [{"class": name, "arguments": [str(argument) for argument in arguments]}])
        assert done["status"] == status, done["output"]
        return str(done["output"])

    return tool


def events(output: str) -> list[dict[str, Any]]:
    """The lines of JSON among what a tool printed."""
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"')]


def test_producer_and_consumer_performance(cluster: Cluster, tool: Tool) -> None:
    topic = cluster.new_topic(partitions=3)
    servers = f"bootstrap.servers={cluster.bootstrap_servers}"
    output = tool(
        "ProducerPerformance",
        "--topic",
        topic,
        "--num-records",
        5000,
        "--record-size",
        200,
        "--throughput",
        -1,
        "--producer-props",
        servers,
        "acks=all",
        "compression.type=lz4",
    )
    assert "5000 records sent" in output
    output = tool(
        "ConsumerPerformance",
        "--bootstrap-server",
        cluster.bootstrap_servers,
        "--topic",
        topic,
        "--num-records",
        5000,
        "--group",
        f"{topic}-group",
        "--timeout",
        20_000,
    )
    row = output.strip().splitlines()[-1].split(", ")
    assert int(row[4]) == 5000, output


def test_verifiable_producer_and_consumer(cluster: Cluster, tool: Tool) -> None:
    topic = cluster.new_topic(partitions=2)
    produced = events(
        tool(
            "VerifiableProducer",
            "--bootstrap-server",
            cluster.bootstrap_servers,
            "--topic",
            topic,
            "--max-messages",
            500,
            "--acks",
            -1,
        )
    )
    acknowledged = [one for one in produced if one["name"] == "producer_send_success"]
    assert len(acknowledged) == 500
    for protocol in ("classic", "consumer"):
        consumed = events(
            tool(
                "VerifiableConsumer",
                "--bootstrap-server",
                cluster.bootstrap_servers,
                "--topic",
                topic,
                "--group-id",
                f"{topic}-{protocol}",
                "--max-messages",
                500,
                "--reset-policy",
                "earliest",
                "--group-protocol",
                protocol,
                "--verbose",
            )
        )
        values = [one["value"] for one in consumed if one["name"] == "record_data"]
        assert sorted(map(int, values)) == list(range(500))
        commits = [one for one in consumed if one["name"] == "offsets_committed"]
        assert commits
        assert all(one["success"] for one in commits)


def test_transactional_message_copier(cluster: Cluster, tool: Tool) -> None:
    """Consume, transform, produce: 300 records in transactions of 50, every one once under read_committed."""
    source, target = cluster.new_topic(), cluster.new_topic()
    tool(
        "VerifiableProducer",
        "--bootstrap-server",
        cluster.bootstrap_servers,
        "--topic",
        source,
        "--max-messages",
        300,
    )
    copied = events(
        tool(
            "TransactionalMessageCopier",
            "--broker-list",
            cluster.bootstrap_servers,
            "--input-topic",
            source,
            "--input-partition",
            0,
            "--output-topic",
            target,
            "--max-messages",
            300,
            "--consumer-group",
            f"{source}-copier",
            "--transactional-id",
            f"{source}-copier",
            "--transaction-size",
            50,
            "--transaction-timeout",
            30_000,
        )
    )
    assert copied[-1]["consumed"] == 300, copied
    assert copied[-1]["remaining"] == 0
    read = events(
        tool(
            "VerifiableConsumer",
            "--bootstrap-server",
            cluster.bootstrap_servers,
            "--topic",
            target,
            "--group-id",
            f"{target}-reader",
            "--max-messages",
            300,
            "--reset-policy",
            "earliest",
            "--verbose",
        )
    )
    values = [one["value"] for one in read if one["name"] == "record_data"]
    assert list(map(int, values)) == list(range(300))


def test_topic_command(cluster: Cluster, tool: Tool) -> None:
    name = cluster.new_topic() + "-by-tool"

    def topics(*arguments: object, status: int = 0) -> str:
        return tool(
            "TopicCommand", "--bootstrap-server", cluster.bootstrap_servers, *arguments, status=status
        )

    topics(
        "--create",
        "--topic",
        name,
        "--partitions",
        3,
        "--replication-factor",
        3,
        "--config",
        "retention.ms=5000",
    )
    cluster.await_topic(name, 3)
    assert name in topics("--list").split()
    described = topics("--describe", "--topic", name)
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 3\s+Configs: .*retention.ms=5000", described)
    assert len(re.findall(r"Partition: \d\s+Leader: \d\s+Replicas: \d,\d,\d\s+Isr: \d,\d,\d", described)) == 3
    topics("--alter", "--topic", name, "--partitions", 5)
    cluster.await_topic(name, 5)
    assert "PartitionCount: 5" in topics("--describe", "--topic", name)
    topics("--create", "--topic", name, status=1)
    topics("--delete", "--topic", name)
    eventually(lambda: name not in topics("--list").split())  # another broker may not know it yet


def test_offsets_and_groups_by_command(cluster: Cluster, tool: Tool, tmp_path: Path) -> None:
    topic = cluster.new_topic(partitions=2)
    servers = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic)
    tool("VerifiableProducer", *servers, "--max-messages", 40)
    offsets = [int(place.rpartition(":")[2]) for place in tool("GetOffsetShell", *servers).split()]
    assert sum(offsets) == 40
    spot = {"topic": topic, "partition": 0, "offset": offsets[0]}
    file = tmp_path / "records.json"
    file.write_text(json.dumps({"partitions": [spot], "version": 1}))
    tool("DeleteRecordsCommand", "--bootstrap-server", cluster.bootstrap_servers, "--offset-json-file", file)
    output = tool(
        "GetOffsetShell",
        "--bootstrap-server",
        cluster.bootstrap_servers,
        "--topic",
        topic,
        "--time",
        "earliest",
    )
    assert f"{topic}:0:{offsets[0]}" in output.split()


def test_share_group_offsets_by_command(cluster: Cluster, tool: Tool) -> None:
    topic = cluster.new_topic(partitions=2)
    group = f"share-{topic}"
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    tool("VerifiableProducer", *servers, "--topic", topic, "--max-messages", 40)

    def groups(*arguments: object) -> str:
        return tool("consumer.group.ShareGroupCommand", *servers, *arguments)

    def described() -> list[tuple[str, str]]:
        """Return start offset and lag of each partition."""
        rows = [line.split() for line in groups("--describe", "--group", group).splitlines()]
        return [(row[3], row[4]) for row in rows if row[:2] == [group, topic]]

    reset = ("--group", group, "--topic", topic, "--reset-offsets", "--execute")
    groups(*reset, "--to-earliest")
    assert [start for start, _ in described()] == ["0", "0"]
    assert sum(int(lag) for _, lag in described()) == 40
    groups(*reset, "--to-latest")
    assert [lag for _, lag in described()] == ["0", "0"]
    assert group in groups("--list").split()
    for patience_ms in (5000, 20_000, 60_000):  # the tool ends after so long without a record
        states = tool(
            "consumer.ConsoleConsumer",
            *servers,
            "--topic",
            "__share_group_state",
            "--from-beginning",
            "--timeout-ms",
            patience_ms,
            "--formatter",
            "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter",
            "--command-property",
            "exclude.internal.topics=false",
        )
        # The formatter writes no line ends.
        printed = re.sub(r'(?<=\})(?=\{"key"|Processed)', "\n", states)
        snapshots = [one for one in events(printed) if one["key"]["data"]["groupId"] == group]
        if len(snapshots) >= 4:
            break
    assert [one["key"]["type"] for one in snapshots] == [0] * 4
    assert sorted(one["value"]["data"]["snapshotEpoch"] for one in snapshots) == [0, 0, 1, 1]
    groups("--group", group, "--topic", topic, "--delete-offsets")
    assert described() == []
    groups("--group", group, "--delete")
    assert group not in groups("--list").split()
