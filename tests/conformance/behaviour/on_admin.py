"""Administration: partitions, configurations, elections, reassignments, features, log directories."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...acl_filters import ANY_RULE
from .side import Side, scenario


@scenario
def partitions_created(side: Side) -> None:
    topic = side.topic("partitions-created", partitions=2)

    def ask(label: str, count: int, name: str = topic, version: int = 3, **options: Any) -> None:
        lists = options.pop("assignments", None)
        assignments = None if lists is None else [{"broker_ids": brokers} for brokers in lists]
        side.ask(
            label,
            "CreatePartitions",
            version,
            timeout_ms=10_000,
            topics=[{"name": name, "count": count, "assignments": assignments}],
            **options,
        )

    ask("as many", 2)
    ask("fewer", 1)
    ask("none", 0)
    ask("negative", -1)
    ask("unknown topic", 3, "partitions-unknown")
    ask("too few assignments", 4, assignments=[[0, 1, 2]])
    ask("too many assignments", 3, assignments=[[0, 1, 2], [0, 1, 2]])
    ask("unknown broker", 3, assignments=[[0, 1, 9]])
    ask("another replication factor", 3, assignments=[[0, 1]])
    ask("a broker twice", 3, assignments=[[0, 0, 1]])
    ask("no brokers", 3, assignments=[[]])
    ask("only validated", 5, validate_only=True)
    ask("assigned", 3, assignments=[[2, 1, 0]])
    ask("plain", 4, version=0)
    twice = {"name": topic, "count": 9, "assignments": None}
    side.ask("one name twice", "CreatePartitions", 3, timeout_ms=10_000, topics=[twice, twice])
    side.await_topic_everywhere(topic, partitions=4)
    answer = side.quietly("Metadata", 12, topics=[{"name": topic}])
    side.note("how many", len(answer.topics[0].partitions))


SET, DELETE, APPEND, SUBTRACT = range(4)
BROKER, TOPIC, GROUP = 4, 2, 32

GROUP_BOUNDS = {
    "consumer.session.timeout.ms": ("0", "44999", "45000", "60000", "60001"),
    "consumer.heartbeat.interval.ms": ("0", "299", "300", "5000", "15000", "15001"),
    "consumer.assignment.interval.ms": ("-1", "0", "15000", "15001"),
    "share.session.timeout.ms": ("0", "44999", "60000", "60001"),
    "share.heartbeat.interval.ms": ("4999", "5000", "15001"),
    "share.record.lock.duration.ms": ("999", "14999", "15000", "60000", "60001"),
    "share.delivery.count.limit": ("1", "2", "10", "11"),
    "share.partition.max.record.locks": ("99", "100", "10000", "10001"),
    "share.auto.offset.reset": ("earliest", "LATEST", "by_duration:PT1H", "by_duration:-PT1H", "never"),
    "share.isolation.level": ("read_committed", "READ_COMMITTED", "none"),
    "share.renew.acknowledge.enable": ("true", "no"),
    "share.assignment.interval.ms": ("-1", "15001"),
    "streams.session.timeout.ms": ("44999", "60001"),
    "streams.heartbeat.interval.ms": ("4999", "15001"),
    "streams.num.standby.replicas": ("-1", "2", "3"),
    "streams.initial.rebalance.delay.ms": ("-1", "0", "86400000"),
    "streams.assignment.interval.ms": ("-1", "15001"),
}


@scenario
def configs_of_groups(side: Side) -> None:
    """Groups have options of their own, with bounds among those of the brokers."""

    def alter(label: str, name: str, *entries: tuple[str, int, str | None], **options: Any) -> None:
        configs = [
            {"name": one, "config_operation": operation, "value": value} for one, operation, value in entries
        ]
        resource = {"resource_type": GROUP, "resource_name": name, "configs": configs}
        fields = {"validate_only": False, **options}
        side.ask(label, "IncrementalAlterConfigs", 1, resources=[resource], **fields)

    def described(label: str, name: str, until: Callable[[Any], object] = bool, **options: Any) -> None:
        resource = {"resource_type": GROUP, "resource_name": name, "configuration_keys": None}
        side.eventually(
            label, until, "DescribeConfigs", 4, resources=[resource | options], include_synonyms=True
        )

    def has(name: str, value: str) -> Callable[[Any], bool]:
        return lambda answer: any((one.name, one.value) == (name, value) for one in answer.results[0].configs)

    described("nothing is set", "configs-group")
    described("no name", "")
    for name, values in GROUP_BOUNDS.items():
        for value in values:
            alter(f"{name}={value}", "configs-group", (name, SET, value), validate_only=True)
        alter(f"{name}=word", "configs-group", (name, SET, "word"), validate_only=True)
        alter(f"{name} appended to", "configs-group", (name, APPEND, "1"), validate_only=True)
    described("only validated", "configs-group")
    alter("below the heartbeats", "configs-group", ("consumer.heartbeat.interval.ms", SET, "15000"),
          ("consumer.session.timeout.ms", SET, "15000"))  # fmt: skip
    alter("two", "configs-group", ("consumer.heartbeat.interval.ms", SET, "400"),
          ("consumer.session.timeout.ms", SET, "50000"))  # fmt: skip
    described("two", "configs-group", has("consumer.session.timeout.ms", "50000"))
    described("one of them", "configs-group", configuration_keys=["consumer.session.timeout.ms"])
    side.ask("listed", "ListConfigResources", 1, resource_types=[GROUP])
    alter("delete", "configs-group", ("consumer.session.timeout.ms", DELETE, None))
    described("deleted", "configs-group", has("consumer.session.timeout.ms", "45000"))
    alter("unknown", "configs-group", ("consumer.session.timeout", SET, "50000"))
    alter("delete an unknown one", "configs-group", ("consumer.session.timeout", DELETE, None))
    alter("no name", "", ("consumer.session.timeout.ms", SET, "50000"))
    alter("null", "configs-group", ("consumer.session.timeout.ms", SET, None))
    alter("nothing", "configs-group")
    resource = {
        "resource_type": GROUP,
        "resource_name": "configs-group",
        "configs": [{"name": "share.delivery.count.limit", "value": "7"}],
    }
    side.ask("replaced", "AlterConfigs", 2, resources=[resource], validate_only=False)
    described("replaced", "configs-group", has("share.delivery.count.limit", "7"))
    side.ask("emptied", "AlterConfigs", 2, resources=[resource | {"configs": []}], validate_only=False)
    described("emptied", "configs-group", has("share.delivery.count.limit", "5"))


@scenario
def configs_altered(side: Side) -> None:
    topic = side.topic("configs-altered")

    def alter(
        label: str,
        *entries: tuple[str, int, str | None],
        kind: int = TOPIC,
        name: str = topic,
        **options: Any,
    ) -> None:
        configs = [
            {"name": one, "config_operation": operation, "value": value} for one, operation, value in entries
        ]
        side.ask(
            label,
            "IncrementalAlterConfigs",
            1,
            resources=[{"resource_type": kind, "resource_name": name, "configs": configs}],
            **{"validate_only": False, **options},
        )

    keys = ["retention.ms", "cleanup.policy", "min.insync.replicas", "max.message.bytes"]
    wanted = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": keys}

    def described(label: str, name: str, value: str) -> None:
        side.eventually(
            label,
            lambda answer: any(one.name == name and one.value == value for one in answer.results[0].configs),
            "DescribeConfigs",
            4,
            resources=[wanted],
        )

    alter("set", ("retention.ms", SET, "1000"), ("max.message.bytes", SET, "2000"))
    described("set", "retention.ms", "1000")
    alter("append", ("cleanup.policy", APPEND, "compact"))
    described("appended", "cleanup.policy", "delete,compact")
    alter("append what is there", ("cleanup.policy", APPEND, "compact"))
    alter("subtract", ("cleanup.policy", SUBTRACT, "delete"))
    described("subtracted", "cleanup.policy", "compact")
    alter("delete", ("retention.ms", DELETE, None))
    described("deleted", "retention.ms", "604800000")
    alter("only validated", ("retention.ms", SET, "7"), validate_only=True)
    alter("bad value", ("retention.ms", SET, "soon"))
    alter("bad value, validated", ("retention.ms", SET, "soon"), validate_only=True)
    alter("unknown name", ("no.such", SET, "1"))
    alter("delete an unknown name", ("no.such", DELETE, None))
    alter("append to a number", ("retention.ms", APPEND, "1"))
    alter("null value", ("retention.ms", SET, None))
    alter("one name twice", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None))
    alter("operation 9", ("retention.ms", 9, "1"))
    alter("nothing")
    alter("unknown topic", ("retention.ms", SET, "1"), name="configs-unknown")
    alter("illegal topic", ("retention.ms", SET, "1"), name="no good")
    alter("type 99", ("retention.ms", SET, "1"), kind=99)
    alter("a static option of a broker", ("num.partitions", SET, "5"), kind=BROKER, name="0")
    alter("an option that only files set", ("process.roles", SET, "broker"), kind=BROKER, name="0")
    alter("unknown broker", ("log.retention.ms", SET, "5"), kind=BROKER, name="77")
    alter("a dynamic option of a broker", ("log.cleaner.backoff.ms", SET, "20000"), kind=BROKER, name="0")
    alter("of all brokers", ("log.cleaner.backoff.ms", SET, "30000"), kind=BROKER, name="")
    requested = {
        "resource_type": BROKER,
        "resource_name": "0",
        "configuration_keys": ["log.cleaner.backoff.ms"],
    }
    side.eventually(
        "layers",
        lambda answer: len(answer.results[0].configs[0].synonyms) == 3,
        "DescribeConfigs",
        4,
        resources=[requested],
        include_synonyms=True,
    )
    alter("back", ("log.cleaner.backoff.ms", DELETE, None), kind=BROKER, name="0")
    alter("back", ("log.cleaner.backoff.ms", DELETE, None), kind=BROKER, name="")

    def replace(label: str, configs: dict[str, str | None], name: str = topic, **options: Any) -> None:
        entries = [{"name": one, "value": value} for one, value in configs.items()]
        side.ask(
            label,
            "AlterConfigs",
            2,
            resources=[{"resource_type": TOPIC, "resource_name": name, "configs": entries}],
            **{"validate_only": False, **options},
        )

    replace("replaces all", {"min.insync.replicas": "2"})
    described("replaced", "min.insync.replicas", "2")
    replace("bad value", {"min.insync.replicas": "0"})
    replace("null value", {"min.insync.replicas": None})
    replace("unknown topic", {"min.insync.replicas": "1"}, "configs-unknown")
    twice = {"resource_type": TOPIC, "resource_name": topic, "configs": []}
    side.ask(
        "one resource twice", "IncrementalAlterConfigs", 1, resources=[twice, twice], validate_only=False
    )


@scenario
def leaders_elected(side: Side) -> None:
    topic = side.topic("leaders-elected")

    def elect(label: str, name: str = topic, partition: int = 0, kind: int = 0, version: int = 2) -> None:
        side.ask(
            label,
            "ElectLeaders",
            version,
            election_type=kind,
            timeout_ms=10_000,
            topic_partitions=[{"topic": name, "partitions": [partition]}],
        )

    elect("it leads already")
    elect("it leads already, version 0", version=0)
    elect("unclean, but there is a leader", kind=1)
    elect("unknown partition", partition=5)
    elect("unknown topic", "leaders-unknown")
    elect("unknown type", kind=9)


@scenario
def partitions_reassigned(side: Side) -> None:
    topic = side.topic("partitions-reassigned", replicas=[0, 1])

    def move(
        label: str, replicas: list[int] | None, name: str = topic, partition: int = 0, **options: Any
    ) -> None:
        one = {"partition_index": partition, "replicas": replicas}
        side.ask(
            label,
            "AlterPartitionReassignments",
            options.pop("version", 1),
            timeout_ms=10_000,
            topics=[{"name": name, "partitions": [one]}],
            **options,
        )

    move("cancel nothing", None)
    move("no replicas", [])
    move("unknown broker", [0, 9])
    move("negative broker", [-1])
    move("a broker twice", [0, 0])
    move("unknown partition", [0, 2], partition=5)
    move("unknown topic", [0, 2], "partitions-unknown")
    move("another replication factor, not allowed", [0], allow_replication_factor_change=False)
    move("moves", [2, 0])
    listed = partial(side.eventually, api="ListPartitionReassignments", version=0, timeout_ms=10_000)
    listed("done", lambda answer: not answer.topics, topics=[{"name": topic, "partition_indexes": [0]}])
    side.eventually(
        "the new replicas",
        lambda answer: sorted(answer.topics[0].partitions[0].isr_nodes) == [0, 2],
        "DescribeTopicPartitions",
        0,
        topics=[{"name": topic}],
        response_partition_limit=10,
    )
    listed("unknown", lambda answer: True, topics=[{"name": "partitions-unknown", "partition_indexes": [0]}])
    listed("all", lambda answer: True, topics=None)


@scenario
def partitions_described(side: Side) -> None:
    topic = side.topic("partitions-described", partitions=3)
    other = side.topic("partitions-described-2", partitions=2)
    ask = partial(side.ask, api="DescribeTopicPartitions", version=0)
    both = [{"name": topic}, {"name": other}]
    ask("both", topics=both, response_partition_limit=100)
    first = ask("two at a time", topics=both, response_partition_limit=2)
    ask(
        "from there",
        topics=both,
        response_partition_limit=2,
        cursor={
            "topic_name": first.next_cursor.topic_name,
            "partition_index": first.next_cursor.partition_index,
        },
    )
    ask("unknown", topics=[{"name": "partitions-unknown"}], response_partition_limit=5)
    ask("illegal", topics=[{"name": "no good"}], response_partition_limit=5)
    ask("limit 0", topics=both, response_partition_limit=0)
    ask(
        "a cursor at a negative partition",
        topics=both,
        response_partition_limit=2,
        cursor={"topic_name": topic, "partition_index": -1},
    )


@scenario
def features_updated(side: Side) -> None:
    def update(label: str, feature: str, level: int, kind: int = 1, **options: Any) -> None:
        one = {"feature": feature, "max_version_level": level, "upgrade_type": kind}
        side.ask(
            label,
            "UpdateFeatures",
            options.pop("version", 2),
            timeout_ms=10_000,
            validate_only=True,
            feature_updates=[one],
            **options,
        )

    update("as it is", "transaction.version", 2)
    update("down, but as an upgrade", "transaction.version", 1)
    update("down", "transaction.version", 1, 2)
    update("down, version 1", "transaction.version", 1, 2, version=1)
    update("above what there is", "transaction.version", 9)
    update("unknown", "no.such.version", 1)
    update("negative", "group.version", -1)
    update("unknown kind", "group.version", 1, 9)
    update("no name", "", 1)
    side.ask("nothing", "UpdateFeatures", 2, timeout_ms=10_000, validate_only=True, feature_updates=[])


@scenario
def log_directories(side: Side) -> None:
    topic = side.topic("log-directories")
    answer = side.quietly("DescribeLogDirs", 4, topics=[{"topic": topic, "partitions": [0]}])
    side.note("directories", len(answer.results))
    for directory in answer.results:
        directory.log_dir, directory.total_bytes, directory.usable_bytes = "(somewhere)", 0, 0
    side.note("one topic: DescribeLogDirs v4", answer)
    unknown = side.quietly("DescribeLogDirs", 4, topics=[{"topic": "log-unknown", "partitions": [0]}])
    side.note("unknown topic", [len(one.topics) for one in unknown.results])
    side.ask(
        "an unknown directory",
        "AlterReplicaLogDirs",
        2,
        dirs=[{"path": "/nowhere", "topics": [{"name": topic, "partitions": [0]}]}],
    )
    side.ask(
        "unknown topic",
        "AlterReplicaLogDirs",
        2,
        dirs=[{"path": "/nowhere", "topics": [{"name": "log-unknown", "partitions": [0]}]}],
    )


@scenario
def brokers_and_quorum(side: Side) -> None:
    side.ask("unknown broker", "UnregisterBroker", 0, broker_id=77)
    side.ask("a negative broker", "UnregisterBroker", 0, broker_id=-1)
    answer = side.quietly(
        "DescribeQuorum", 2, topics=[{"topic_name": "__cluster_metadata", "partitions": [{}]}]
    )
    one = answer.topics[0].partitions[0]
    side.note("the quorum's error", [answer.error_code, one.error_code])
    side.ask(
        "another topic", "DescribeQuorum", 2, topics=[{"topic_name": "brokers-unknown", "partitions": [{}]}]
    )
    listeners = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 9}]
    new, another = (
        {"cluster_id": None, "voter_id": 77, "voter_directory_id": bytes(15) + b"\1"},
        {"cluster_id": "another"},
    )
    for version in (0, 1):
        side.ask(
            f"a voter is added ({version})",
            "AddRaftVoter",
            version,
            timeout_ms=1000,
            listeners=listeners,
            **new,
        )
    side.ask(
        "to another cluster", "AddRaftVoter", 1, timeout_ms=1000, listeners=listeners, **{**new, **another}
    )
    side.ask("without listeners", "AddRaftVoter", 1, timeout_ms=1000, listeners=[], **new)
    side.ask("a voter is removed", "RemoveRaftVoter", 0, **new)
    side.ask("from another cluster", "RemoveRaftVoter", 0, **{**new, **another})
    side.ask("SASL is not spoken here", "SaslHandshake", 1, mechanism="PLAIN")
    side.ask("nor after that", "SaslAuthenticate", 2, client="sasl", auth_bytes=b"\0a\0b")
    resources = side.quietly("ListConfigResources", 1, resource_types=[16])
    side.note("subscriptions of client metrics", [one.resource_name for one in resources.config_resources])
    side.ask("an unknown kind of resource", "ListConfigResources", 1, resource_types=[99])


@scenario
def acls_without_an_authorizer(side: Side) -> None:
    """A broker that has no authorizer keeps no rules, and says so."""
    rule = {
        "resource_type": 2,
        "resource_name": "orders",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    for version in (1, 3):
        side.ask(f"describe v{version}", "DescribeAcls", version, **ANY_RULE)
        side.ask(f"create v{version}", "CreateAcls", version, creations=[rule, {**rule, "operation": 4}])
        side.ask(f"delete v{version}", "DeleteAcls", version, filters=[ANY_RULE, ANY_RULE])
    side.ask("create nothing", "CreateAcls", 3, creations=[])
    side.ask("delete nothing", "DeleteAcls", 3, filters=[])
    side.ask("create of a type that nobody knows", "CreateAcls", 3, creations=[{**rule, "resource_type": 99}])
    side.ask(
        "describe of a type that nobody knows", "DescribeAcls", 3, **{**ANY_RULE, "resource_type_filter": 99}
    )
