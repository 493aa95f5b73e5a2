"""Tools that look at the cluster and its logs, and those that write and read records."""

from __future__ import annotations

import re
import time

from .asker import Asker
from .side import Answers, Side


def cluster(side: Side) -> Answers:
    a = Asker(side)
    a.ask("TopicCommand", "--create", "--topic", "weighed", "--replica-assignment", "0:1:2,1:2:0")
    a.fill("weighed", 20)
    a.fill("weighed", 10, 1)
    time.sleep(0.3)
    a.ask("LogDirsCommand", "--describe", "--topic-list", "weighed")
    a.ask("LogDirsCommand", "--describe", "--topic-list", "weighed", "--broker-list", "1,9")
    feature = "FeatureCommand"
    a.ask(feature, "describe", ordered=False)
    a.ask(feature, "upgrade", "--feature", "group.version=1")
    a.ask(feature, "upgrade", "--feature", "transaction.version=9")
    a.ask(feature, "upgrade", "--feature", "nonsense.version=1")
    a.ask(feature, "upgrade", "--release-version", "4.4", "--dry-run", ordered=False)
    a.ask(feature, "downgrade", "--feature", "transaction.version=1", "--dry-run")
    a.ask(feature, "disable", "--feature", "group.version", "--dry-run")
    a.ask(feature, "version-mapping", "--release-version", "4.4", ordered=False)
    a.ask(
        "MetadataQuorumCommand",
        "describe",
        "--status",
        keep=lambda line: line.startswith(("ClusterId", "MaxFollowerLag:")),
    )
    a.ask("MetadataQuorumCommand", "describe", "--replication", keep=lambda line: line.startswith("NodeId"))
    a.ask("BrokerApiVersionsCommand", ordered=False)
    a.ask("GetOffsetShell", "--topic", "weighed")
    for when in (
        "latest",
        "earliest",
        "max-timestamp",
        "earliest-local",
        "latest-tiered",
        -1,
        -2,
        -3,
        1_000_000,
        3_000_000_000_000,
    ):
        a.ask("GetOffsetShell", "--topic", "weighed", "--time", when)
    a.ask("GetOffsetShell", "--topic-partitions", "weighed:1-2,wei.*:0")
    a.ask("GetOffsetShell", "--topic", "unknown")
    spots = {
        "partitions": [
            {"topic": "weighed", "partition": 0, "offset": 7},
            {"topic": "weighed", "partition": 1, "offset": 700},
        ],
        "version": 1,
    }
    a.ask("DeleteRecordsCommand", "--offset-json-file", a.file("delete.json", spots), ordered=False)
    a.ask(
        "GetOffsetShell",
        "--topic",
        "weighed",
        "--time",
        "earliest",
        name="earliest after DeleteRecordsCommand",
    )
    a.ask("ClusterTool", "cluster-id", "--bootstrap-server", side.servers, servers="", name="cluster-id")
    a.ask(
        "ClusterTool", "list-endpoints", "--bootstrap-server", side.servers, servers="", name="list-endpoints"
    )
    a.ask(
        "ClusterTool",
        "unregister",
        "--bootstrap-server",
        side.servers,
        "--id",
        99,
        servers="",
        name="unregister",
    )
    a.answers["ReplicaVerificationTool"] = verified(side, "weighed")
    a.ask("AclCommand", "--list")
    a.ask("DelegationTokenCommand", "--describe")
    a.ask("consumer.group.ShareGroupCommand", "--list")
    a.ask("consumer.group.ShareGroupCommand", "--describe", "--group", "s")
    a.ask("streams.StreamsGroupCommand", "--list")
    a.ask("streams.StreamsGroupCommand", "--describe", "--group", "s")
    return a.answers


def verified(side: Side, topic: str) -> str:
    """ReplicaVerificationTool's report about the topic's replicas; it runs until it is killed."""
    arguments = ("--bootstrap-server", side.servers, "--topics-include", topic, "--report-interval-ms", "500")
    log = side.folder / "ReplicaVerificationTool.log"
    deadline = time.monotonic() + 20
    with side.process("org.apache.kafka.tools.ReplicaVerificationTool", *arguments):
        while time.monotonic() < deadline:
            time.sleep(0.2)
            found = re.findall(r"max lag is (\d+) for partition .* among (\d+) partitions", log.read_text())
            if found:
                return "max lag {} among {} partitions".format(*found[-1])
    return log.read_text()


def data(side: Side) -> Answers:
    a = Asker(side)
    a.ask("TopicCommand", "--create", "--topic", "typed", "--partitions", 2, "--replication-factor", 3)
    a.ask(
        "ConsoleProducer",
        "--topic",
        "typed",
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "parse.headers=true",
        "--reader-property",
        "key.separator=:",
        input="".join(f"h1:v{n}\tk{n}:value {n}\n" for n in range(10)),
    )
    a.ask(
        "ConsoleProducer",
        "--topic",
        "typed",
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "key.separator=:",
        "--compression-codec",
        "zstd",
        "--command-property",
        "acks=all",
        input="k1:plain one\nk4:plain two\n",
    )
    show = [f"print.{what}=true" for what in ("key", "headers", "partition", "offset")]
    properties = [word for one in show for word in ("--formatter-property", one)]
    reader = ("consumer.ConsoleConsumer", "--topic", "typed", "--timeout-ms", 6000)
    a.ask(
        *reader,
        "--from-beginning",
        *properties,
        "--max-messages",
        12,
        ordered=False,
        name="all that was typed",
    )
    a.ask(*reader, "--partition", 0, "--offset", "latest", name="from the end")
    a.ask(
        *reader,
        "--from-beginning",
        "--max-messages",
        12,
        "--group",
        "typed",
        "--isolation-level",
        "read_committed",
        ordered=False,
        name="in a group",
    )
    a.ask(
        "consumer.ConsoleConsumer",
        "--topic",
        "__consumer_offsets",
        "--from-beginning",
        "--timeout-ms",
        4000,
        "--formatter",
        "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
        ordered=False,
        keep=lambda line: '"typed"' in line and "offset" in line,
        name="offsets by their formatter",
    )
    a.ask(
        "EndToEndLatency",
        "--topic",
        "typed",
        "--num-records",
        50,
        "--acks",
        "all",
        "--record-size",
        20,
        keep=lambda line: "Exception" in line,
        name="EndToEndLatency",
    )
    a.ask(
        "ProducerPerformance",
        "--topic",
        "typed",
        "--num-records",
        2000,
        "--record-size",
        100,
        "--throughput",
        -1,
        "--transactional-id",
        "perf",
        "--transaction-duration-ms",
        100,
        keep=lambda line: "Exception" in line,
        name="ProducerPerformance in transactions",
    )
    a.ask(
        "consumer.ConsoleConsumer",
        "--topic",
        "__transaction_state",
        "--from-beginning",
        "--timeout-ms",
        4000,
        "--formatter",
        "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
        keep=lambda line: '"perf"' in line and "Exception" in line,
        name="transactions by their formatter",
    )
    a.ask(
        "consumer.ConsoleShareConsumer",
        "--topic",
        "typed",
        "--timeout-ms",
        3000,
        "--group",
        "shared",
        name="a share consumer",
    )
    return a.answers
