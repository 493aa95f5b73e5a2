"""Access rules: the response of every API to each user, depending on the ACLs (StandardAuthorizer).

The super user ANONYMOUS prepares and makes rules; "eve", who has authenticated, sends the requests. Topics,
groups and transactional ids are called "..-open" and "..-closed": rules for the open ones let her in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.broker.support.batches import batch

from ...acl_filters import ANY_RULE
from .on_fetch import fill
from .side import Side, scenario

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(2, 10)
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12
DENY, ALLOW = 2, 3
EVE = {"client": "eve"}


def rule(
    resource_type: int,
    name: str,
    operation: int = ALL,
    permission: int = ALLOW,
    *,
    pattern: int = LITERAL,
    principal: str = "User:eve",
    host: str = "*",
) -> dict[str, Any]:
    return {
        "resource_type": resource_type,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permission_type": permission,
    }


def only(side: Side, *rules: Mapping[str, Any]) -> None:
    """Have these rules and no others, on every broker."""
    side.quietly("DeleteAcls", 3, filters=[ANY_RULE])
    if rules:
        made = side.quietly("CreateAcls", 3, creations=list(rules))
        assert not any(one.error_code for one in made.results), made
    for broker in range(3):
        side.until(
            lambda broker=broker: sum(len(one.acls) for one in all_rules(side, broker)) == len(rules),
            "the rules are on every broker",
        )


def all_rules(side: Side, broker: int = 0) -> list[Any]:
    """Resources with their rules, as a broker knows them."""
    resources: list[Any] = side.quietly("DescribeAcls", 3, broker, **ANY_RULE).resources
    return resources


def prepared(side: Side, name: str) -> tuple[str, str]:
    """An open and a closed topic with a record each."""
    topics = side.topic(f"{name}-open"), side.topic(f"{name}-closed")
    for topic in topics:
        fill(side, topic, 3)
    return topics


def ask_of_topics(side: Side, name: str) -> None:
    """Requests about topics: an open one, a closed one, a missing one."""
    open_one, closed = f"{name}-open", f"{name}-closed"
    names = [open_one, closed, f"{name}-unknown"]
    record = [{"index": 0, "records": batch([b"v"])}]
    for version, topics in ((9, names), (12, [closed])):
        side.ask(
            f"produce to {len(topics)}",
            "Produce",
            version,
            **EVE,
            acks=-1,
            timeout_ms=5000,
            topic_data=[{"name": one, "partition_data": record} for one in topics],
        )
    ids = {"open": side.id_of(open_one), "closed": side.id_of(closed), "unknown": bytes(range(16))}
    for label, one in ids.items():
        side.ask(
            f"produce by id, {label}",
            "Produce",
            13,
            **EVE,
            acks=-1,
            timeout_ms=5000,
            topic_data=[{"topic_id": one, "partition_data": record}],
        )
    wanted = [{"partition": 0, "partition_max_bytes": 1 << 20}]
    fetch: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, **EVE}
    side.ask("fetch", "Fetch", 12, topics=[{"topic": one, "partitions": wanted} for one in names], **fetch)
    for label, one in ids.items():
        side.ask(
            f"fetch by id, {label}", "Fetch", 17, topics=[{"topic_id": one, "partitions": wanted}], **fetch
        )
    of_follower = [{**wanted[0], "log_start_offset": 0}]
    side.ask(
        "as a follower",
        "Fetch",
        12,
        replica_id=1,
        topics=[{"topic": one, "partitions": of_follower} for one in names],
        **fetch,
    )
    ends = [{"partition_index": 0, "timestamp": -1}]
    side.ask(
        "ends",
        "ListOffsets",
        7,
        **EVE,
        replica_id=-1,
        topics=[{"name": one, "partitions": ends} for one in names],
    )
    epochs = [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}]
    side.ask(
        "epochs",
        "OffsetForLeaderEpoch",
        4,
        **EVE,
        replica_id=-1,
        topics=[{"topic": one, "partitions": epochs} for one in names],
    )
    side.ask(
        "producers",
        "DescribeProducers",
        0,
        **EVE,
        topics=[{"name": one, "partition_indexes": [0]} for one in names],
    )
    for version in (1, 8, 12):
        ask_for_metadata(side, version, names)
    for label, one in ids.items():
        by_id = [{"name": None, "topic_id": one}]
        answers = side.quietly("Metadata", 12, **EVE, topics=by_id, include_topic_authorized_operations=True)
        side.note(f"by id, {label}: Metadata v12", answers.topics[0])
    side.ask(
        "pages", "DescribeTopicPartitions", 0, **EVE, topics=[{"name": one} for one in names],
        response_partition_limit=100,
    )  # fmt: skip
    described = side.quietly("DescribeTopicPartitions", 0, **EVE, topics=[], response_partition_limit=10_000)
    side.note("pages of all", mine(name, [one.name for one in described.topics]))
    ask_of_configs(side, names)


def ask_for_metadata(side: Side, version: int, names: Iterable[str]) -> None:
    options: dict[str, Any] = {}
    if version >= 8:
        options["include_topic_authorized_operations"] = True
    if 8 <= version <= 10:
        options["include_cluster_authorized_operations"] = True
    side.ask("named", "Metadata", version, **EVE, topics=[{"name": one} for one in names], **options)
    answer = side.quietly("Metadata", version, **EVE, topics=None, **options)
    prefix = next(iter(names)).rpartition("-")[0]
    side.note(f"all v{version}", mine(prefix, [one.name for one in answer.topics]))


def mine(name: str, names: Iterable[str | None]) -> list[str]:
    """Resources of this scenario alone; the cluster has others'."""
    return sorted(one for one in names if one is not None and one.startswith(name))


def ask_of_configs(side: Side, names: list[str]) -> None:
    resources = [*((TOPIC, one) for one in names), (4, "0"), (8, "0"), (16, "metrics-x"), (32, "group-x")]
    described = side.quietly(
        "DescribeConfigs",
        4,
        **EVE,
        resources=[
            {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]}
            for kind, name in resources
        ],
    )
    for one in described.results:
        one.configs = []
    side.note("configs: DescribeConfigs v4", described)
    change = {"name": "retention.ms", "value": "3600000"}
    side.ask(
        "configs",
        "AlterConfigs",
        2,
        **EVE,
        validate_only=True,
        resources=[
            {"resource_type": kind, "resource_name": name, "configs": [change] if kind == TOPIC else []}
            for kind, name in resources
            if kind != 8
        ],
    )
    side.ask(
        "configs",
        "IncrementalAlterConfigs",
        1,
        **EVE,
        validate_only=True,
        resources=[
            {"resource_type": kind, "resource_name": name, "configs": [change] if kind == TOPIC else []}
            for kind, name in resources
        ],
    )
    side.ask("subscriptions", "ListConfigResources", 1, **EVE, resource_types=[16])


def ask_to_administrate(side: Side, name: str) -> None:
    """Requests that change topics and the cluster, as far as other scenarios do not notice."""
    ask = side.ask
    names = [f"{name}-open", f"{name}-closed", f"{name}-unknown"]
    new = [
        {"name": f"{name}-{one}", "num_partitions": 1, "replication_factor": 1}
        for one in ("open-new", "closed-new", "closed-twice", "closed-twice")
    ]
    answer = side.quietly("CreateTopics", 7, **EVE, topics=new, timeout_ms=5000, validate_only=True)
    for topic in answer.topics:
        topic.configs = None if topic.configs is None else topic.configs[:1]
    side.note("create: CreateTopics v7", answer)
    ask(
        "partitions",
        "CreatePartitions",
        3,
        **EVE,
        timeout_ms=5000,
        validate_only=True,
        topics=[{"name": one, "count": 3, "assignments": None} for one in (*names, names[1])],
    )
    trim = [{"partition_index": 0, "offset": 0}]
    ask(
        "records",
        "DeleteRecords",
        2,
        **EVE,
        timeout_ms=5000,
        topics=[{"name": one, "partitions": trim} for one in names],
    )
    ask("leaders", "ElectLeaders", 2, **EVE, election_type=0, timeout_ms=5000,
        topic_partitions=[{"topic": names[0], "partitions": [0]}])  # fmt: skip
    ask("moves", "ListPartitionReassignments", 0, **EVE, timeout_ms=5000, topics=None)
    ask("move", "AlterPartitionReassignments", 0, **EVE, timeout_ms=5000,
        topics=[{"name": names[2], "partitions": [{"partition_index": 0, "replicas": [0]}]}])  # fmt: skip
    directories = side.quietly("DescribeLogDirs", 4, **EVE, topics=[])
    side.note("directories", [directories.error_code, len(directories.results)])
    ask("directory", "AlterReplicaLogDirs", 2, **EVE,
        dirs=[{"path": "/nowhere", "topics": [{"name": names[0], "partitions": [0]}]}])  # fmt: skip
    quorum = side.quietly(
        "DescribeQuorum", 2, **EVE, topics=[{"topic_name": "__cluster_metadata", "partitions": [{}]}]
    )
    side.note("quorum", [quorum.error_code, bool(quorum.topics)])
    ask("features", "UpdateFeatures", 1, **EVE, timeout_ms=5000, feature_updates=[], validate_only=True)
    ask("broker", "UnregisterBroker", 0, **EVE, broker_id=77)
    ask("cluster", "DescribeCluster", 0, **EVE, include_cluster_authorized_operations=True)
    ask("rules", "DescribeAcls", 3, **EVE, **{**ANY_RULE, "resource_name_filter": "nothing"})
    ask("no rules", "CreateAcls", 3, **EVE, creations=[rule(TOPIC, "")])
    ask("no rules", "DeleteAcls", 3, **EVE, filters=[{**ANY_RULE, "resource_name_filter": "nothing"}])
    ask("markers", "WriteTxnMarkers", 1, **EVE, markers=[
        {"producer_id": 7, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0,
         "topics": [{"name": names[2], "partition_indexes": [0]}]}])  # fmt: skip


def ask_to_delete(side: Side, name: str) -> None:
    """Delete the open topic where it may."""
    names = [f"{name}-open", f"{name}-closed", f"{name}-unknown", f"{name}-closed-unknown"]
    ids = [side.id_of(one) for one in names[:2]]
    side.ask("by name", "DeleteTopics", 5, **EVE, timeout_ms=5000, topic_names=names[1:])
    for one in (*ids, bytes(range(16))):
        topics = [{"name": None, "topic_id": one}]
        side.ask("by id", "DeleteTopics", 6, **EVE, timeout_ms=5000, topics=topics)


def ask_of_groups(side: Side, name: str) -> None:
    """Requests about groups, and the topics whose offsets they commit."""
    node = side.coordinator(f"{name}-open")
    for group in (f"{name}-open", f"{name}-closed"):  # a fresh cluster has no coordinators yet
        side.coordinator(group, 1)
    ask = side.ask
    who: dict[str, Any] = {"broker": node, **EVE}
    groups = [f"{name}-open", f"{name}-closed"]
    topics = [f"{name}-open", f"{name}-closed", f"{name}-unknown"]
    for kind in (0, 1):
        found = side.quietly("FindCoordinator", 3, **who, key_type=kind, key=groups[1])
        if not found.error_code:
            found.node_id = found.port = -1  # wherever it is
        side.note("coordinator: FindCoordinator v3", found)
        found = side.quietly("FindCoordinator", 4, **who, key_type=kind, coordinator_keys=groups)
        answers = [[one.key, side.error(one), one.node_id < 0] for one in found.coordinators]
        side.note("coordinators", sorted(answers))
    for group in groups:
        ask("join", "JoinGroup", 7, **who, group_id=group, member_id="", session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000, protocol_type="consumer", protocols=[])  # fmt: skip
        ask("sync", "SyncGroup", 5, **who, group_id=group, member_id="m", generation_id=1, assignments=[])
        ask("heartbeat", "Heartbeat", 4, **who, group_id=group, member_id="m", generation_id=1)
        ask("leave", "LeaveGroup", 4, **who, group_id=group, members=[{"member_id": "m"}])
        ask("leave", "LeaveGroup", 2, **who, group_id=group, member_id="m")
        for version in (7, 9):
            committed = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
            ask("commit", "OffsetCommit", version, **who, group_id=group,
                topics=[{"name": one, "partitions": committed} for one in topics])  # fmt: skip
        for version in (1, 5, 7):
            named = [{"name": one, "partition_indexes": [0]} for one in topics]
            ask("committed", "OffsetFetch", version, **who, group_id=group, topics=named)
        ask("all committed", "OffsetFetch", 7, **who, group_id=group, topics=None)
        ask("delete offsets", "OffsetDelete", 0, **who, group_id=group,
            topics=[{"name": one, "partitions": [{"partition_index": 0}]} for one in topics])  # fmt: skip
        for subscribed in (topics[:1], topics[:2]):
            ask("subscribe", "ConsumerGroupHeartbeat", 0, **who, group_id=f"{group}-kip848", member_id="",
                member_epoch=7, rebalance_timeout_ms=1000, subscribed_topic_names=subscribed,
                topic_partitions=None)  # fmt: skip
    named = [{"name": one, "partition_indexes": [0]} for one in topics]
    of_groups = [{"group_id": one, "topics": named} for one in groups]
    ask("of groups", "OffsetFetch", 8, **who, groups=of_groups)
    ask(
        "all of groups", "OffsetFetch", 8, **who, groups=[{"group_id": one, "topics": None} for one in groups]
    )
    for version in (3, 6):
        ask("describe", "DescribeGroups", version, **who, groups=groups, include_authorized_operations=True)
    ask("describe", "ConsumerGroupDescribe", 0, **who, group_ids=groups, include_authorized_operations=True)
    listed = side.quietly("ListGroups", 4, **who)
    side.note("list", mine(name, [one.group_id for one in listed.groups]))
    ask("delete", "DeleteGroups", 2, **who, groups_names=groups)


def ask_of_transactions(side: Side, name: str) -> None:
    """Requests about transactional ids; no transaction begins."""
    node = side.coordinator(f"{name}-open", 1)
    ask = side.ask
    who: dict[str, Any] = {"broker": node, **EVE}
    ids = [f"{name}-open", f"{name}-closed"]
    topics = [f"{name}-open", f"{name}-closed", f"{name}-unknown"]
    side.when_ready("no id", "InitProducerId", 4, **who, transactional_id=None, transaction_timeout_ms=1)
    me = {"producer_id": 7, "producer_epoch": 0}
    for one in ids:
        ask("init", "InitProducerId", 4, **who, transactional_id=one, transaction_timeout_ms=0)
        for requested in (topics[:1], topics):
            ask("add", "AddPartitionsToTxn", 3, **who, v3_and_below_transactional_id=one,
                v3_and_below_producer_id=7, v3_and_below_producer_epoch=0,
                v3_and_below_topics=[{"name": topic, "partitions": [0]} for topic in requested])  # fmt: skip
        for group in ids:
            ask("offsets", "AddOffsetsToTxn", 3, **who, transactional_id=one, group_id=group, **me)
        ask("end", "EndTxn", 3, **who, transactional_id=one, committed=True, **me)
    ask("of a broker", "AddPartitionsToTxn", 4, **who, transactions=[
        {"transactional_id": ids[0], **me, "verify_only": True,
         "topics": [{"name": topics[0], "partitions": [0]}]}])  # fmt: skip
    answers = side.quietly("DescribeTransactions", 0, **who, transactional_ids=ids).transaction_states
    side.note("describe", [[one.transactional_id, side.error(one)] for one in answers])
    listed = side.quietly("ListTransactions", 0, **who, state_filters=[], producer_id_filters=[])
    side.note("list", mine(name, [one.transactional_id for one in listed.transaction_states]))
    node = side.coordinator(f"{name}-open")
    for one in ids:
        for group in ids:
            committed = [{"partition_index": 0, "committed_offset": 1}]
            ask("commit", "TxnOffsetCommit", 3, broker=node, **EVE, transactional_id=one, group_id=group,
                topics=[{"name": topic, "partitions": committed} for topic in topics[:2]], **me)  # fmt: skip
    records = batch([b"t"], attributes=16, producer_id=7, producer_epoch=0, base_sequence=0)
    for one in ids:
        data = [{"name": topics[1], "partition_data": [{"index": 0, "records": records}]}]
        side.ask("produce", "Produce", 9, **EVE, acks=-1, timeout_ms=5000, transactional_id=one,
            topic_data=data)  # fmt: skip


def ask_everything(side: Side, name: str) -> None:
    ask_of_topics(side, name)
    ask_to_administrate(side, name)
    ask_of_groups(side, name)
    ask_of_transactions(side, name)
    ask_to_delete(side, name)


@scenario
def access_without_rules(side: Side) -> None:
    prepared(side, "access-none")
    only(side)
    ask_everything(side, "access-none")


@scenario
def access_metadata_by_id_before_version_12(side: Side) -> None:
    """The field exists in versions 10 and 11 but must not be used: no access rule is checked."""
    name = "access-ids"
    open_one, closed = prepared(side, name)
    only(side, rule(TOPIC, open_one))
    ids = {"open": side.id_of(open_one), "closed": side.id_of(closed), "unknown": bytes(range(16))}
    for version in (10, 11):
        for label, one in ids.items():
            for named in (None, open_one, closed):
                topics = [{"name": named, "topic_id": one}]
                side.ask(f"{label}, named {named}", "Metadata", version, **EVE, topics=topics)
        everything = [{"name": None, "topic_id": one} for one in ids.values()]
        side.ask("all of them", "Metadata", version, **EVE, topics=everything)


@scenario
def access_by_rules_that_miss(side: Side) -> None:
    """For others, from elsewhere, of other resources, of the wrong kind."""
    name = "access-miss"
    prepared(side, name)
    kinds = (TOPIC, GROUP, TRANSACTIONAL_ID)
    only(
        side,
        *(rule(kind, f"{name}-open", principal="User:bob") for kind in kinds),
        *(rule(kind, f"{name}-open", host="10.1.2.3") for kind in kinds),
        *(rule(kind, f"{name}-ope") for kind in kinds),
        *(rule(kind, f"{name}-open-", pattern=PREFIXED) for kind in kinds),
        *(rule(kind, f"{name}-open", CREATE) for kind in kinds),
        rule(CLUSTER, "kafka-cluster", CREATE, principal="User:bob"),
        rule(CLUSTER, "kafka-cluster", host="10.1.2.3"),
    )
    ask_everything(side, name)


@scenario
def access_allowed(side: Side) -> None:
    name = "access-right"
    prepared(side, name)
    kinds = (TOPIC, GROUP, TRANSACTIONAL_ID)
    only(
        side,
        *(rule(kind, f"{name}-open", pattern=PREFIXED) for kind in kinds),
        rule(CLUSTER, "kafka-cluster"),
    )
    ask_everything(side, name)


@scenario
def access_allowed_on_resources_alone(side: Side) -> None:
    """Nothing is allowed on the cluster."""
    name = "access-resource"
    prepared(side, name)
    kinds = (TOPIC, GROUP, TRANSACTIONAL_ID)
    only(side, *(rule(kind, f"{name}-open", pattern=PREFIXED) for kind in kinds))
    ask_everything(side, name)


@scenario
def access_to_describe(side: Side) -> None:
    name = "access-describe"
    prepared(side, name)
    kinds = (TOPIC, GROUP, TRANSACTIONAL_ID)
    only(
        side,
        *(rule(kind, f"{name}-", DESCRIBE, pattern=PREFIXED) for kind in kinds),
        rule(CLUSTER, "kafka-cluster", DESCRIBE),
    )
    ask_everything(side, name)


@scenario
def access_denied_and_allowed(side: Side) -> None:
    name = "access-denied"
    prepared(side, name)
    kinds = (TOPIC, GROUP, TRANSACTIONAL_ID)
    only(
        side,
        *(rule(kind, "*") for kind in kinds),
        *(rule(kind, f"{name}-", permission=DENY, pattern=PREFIXED) for kind in kinds),
        rule(CLUSTER, "kafka-cluster"),
        rule(CLUSTER, "kafka-cluster", permission=DENY, principal="User:*"),
    )
    ask_everything(side, name)


@scenario
def access_operations_authorized(side: Side) -> None:
    """Authorized operations in responses (KIP-430): rule by rule."""
    name = "access-operations"
    topic = side.topic(name)
    node = side.coordinator(name)
    for operation in (READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS):
        others = [rule(TOPIC, topic, DESCRIBE), rule(GROUP, name, DESCRIBE)]
        rules = [rule(TOPIC, topic, operation)]
        if operation in (READ, DELETE, DESCRIBE):
            rules.append(rule(GROUP, name, operation))
        rules += [one for one in others if one not in rules]
        only(side, *rules)
        answers = side.quietly(
            "Metadata", 9, **EVE, topics=[{"name": topic}], include_topic_authorized_operations=True
        )
        side.note(f"topic, {operation}", answers.topics[0].topic_authorized_operations)
        groups = side.quietly(
            "DescribeGroups", 5, node, **EVE, groups=[name], include_authorized_operations=True
        )
        side.note(f"group, {operation}", groups.groups[0].authorized_operations)
    for operation in (
        CREATE,
        ALTER,
        DESCRIBE,
        CLUSTER_ACTION,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        IDEMPOTENT_WRITE,
    ):
        only(side, rule(CLUSTER, "kafka-cluster", operation))
        answers = side.quietly("DescribeCluster", 0, **EVE, include_cluster_authorized_operations=True)
        side.note(f"cluster, {operation}", answers.cluster_authorized_operations)


@scenario
def access_idempotent_producers(side: Side) -> None:
    """IDEMPOTENT_WRITE, or WRITE on any topic (KIP-679)."""
    name = "access-idempotent"

    def try_with(label: str, *rules: Mapping[str, Any]) -> None:
        only(side, *rules)
        side.when_ready(label, "InitProducerId", 4, **EVE, transactional_id=None, transaction_timeout_ms=1)

    write = rule(TOPIC, name, WRITE)
    try_with("no rule")
    try_with("on the cluster", rule(CLUSTER, "kafka-cluster", IDEMPOTENT_WRITE))
    try_with("a topic", write)
    try_with("every topic", rule(TOPIC, "*", WRITE))
    try_with("a topic, to read", rule(TOPIC, name, READ))
    try_with("all on a topic", rule(TOPIC, name))
    try_with("denied", write, rule(TOPIC, name, WRITE, DENY))
    try_with("another is denied", write, rule(TOPIC, f"{name}-2", WRITE, DENY))
    try_with("denied by a prefix", write, rule(TOPIC, "access-", WRITE, DENY, pattern=PREFIXED))
    try_with(
        "a shorter prefix", rule(TOPIC, "access-", WRITE, pattern=PREFIXED), rule(TOPIC, name, WRITE, DENY)
    )
    try_with("all are denied", write, rule(TOPIC, "*", WRITE, DENY))
    try_with(
        "everything, but a prefix", rule(TOPIC, "*", WRITE), rule(TOPIC, "a", WRITE, DENY, pattern=PREFIXED)
    )
    try_with("from elsewhere", rule(TOPIC, name, WRITE, host="10.1.2.3"))


@scenario
def access_rules_are_kept(side: Side) -> None:
    """Create, describe, delete: what is taken, what is refused, what filters match."""
    only(side)
    good = rule(TOPIC, "access-rules", READ)
    refused = [
        good,
        {**good, "resource_name": ""},
        {**good, "principal": "eve"},
        {**good, "principal": ""},
        {**good, "principal": "Group:"},
        {**good, "host": "", "principal": "User:nowhere"},
        {**good, "host": "not-an-address", "principal": "User:lost"},
        rule(CLUSTER, "another"),
        rule(CLUSTER, "kafka-cluster", READ),
        rule(GROUP, "access-rules", WRITE),
        rule(6, "a token", DESCRIBE),
        rule(7, "User:x", 13),
        rule(TRANSACTIONAL_ID, "t", 15),
        {**good, "resource_name": "not a topic's name!"},
        {**good, "principal": "Whoever:x"},
        good,
    ]
    side.ask("good and bad", "CreateAcls", 3, creations=refused)
    filters_in_rules = {
        "resource_type": (1,),
        "resource_pattern_type": (1, 2),
        "operation": (1,),
        "permission_type": (1,),
    }
    for field, numbers in filters_in_rules.items():
        for number in numbers:
            side.ask(f"{field} {number}", "CreateAcls", 3, creations=[good, {**good, field: number}])
    for field in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        for number in (0, 99):
            side.ask(f"{field} {number}", "CreateAcls", 3, creations=[{**good, field: number}])
    side.ask("prefixed", "CreateAcls", 3, creations=[
        rule(TOPIC, "access-", DENY, DENY, pattern=PREFIXED), rule(TOPIC, "*", DESCRIBE, principal="User:*"),
    ])  # fmt: skip
    side.ask("version 1", "CreateAcls", 1, creations=[rule(TOPIC, "access-old", READ)])
    side.until(
        lambda: any(one.resource_name == "access-old" for one in all_rules(side)), "the rules are known"
    )
    filters: dict[str, dict[str, Any]] = {
        "all": {},
        "topics": {"resource_type_filter": TOPIC},
        "a name": {"resource_name_filter": "access-rules"},
        "a name, literal": {"resource_name_filter": "access-rules", "pattern_type_filter": LITERAL},
        "a match": {"resource_name_filter": "access-rules", "pattern_type_filter": 2},
        "a prefix": {"resource_name_filter": "access-", "pattern_type_filter": PREFIXED},
        "a principal": {"principal_filter": "User:eve"},
        "everybody": {"principal_filter": "User:*"},
        "a host": {"host_filter": "*"},
        "an operation": {"operation": READ},
        "all operations": {"operation": ALL},
        "denying": {"permission_type": DENY},
        "an empty name": {"resource_name_filter": ""},
        "type 0": {"resource_type_filter": 0},
        "type 99": {"resource_type_filter": 99},
        "pattern 99": {"pattern_type_filter": 99},
        "operation 99": {"operation": 99},
        "permission 99": {"permission_type": 99},
    }
    for label, one in filters.items():
        side.ask(label, "DescribeAcls", 3, **{**ANY_RULE, **one})
    side.ask("version 1", "DescribeAcls", 1, **{**ANY_RULE, "pattern_type_filter": 3})
    for label in ("a name, literal", "a match", "type 99", "operation 99", "pattern 99", "type 0"):
        side.ask(label, "DeleteAcls", 3, filters=[{**ANY_RULE, **filters[label]}])
    both = [{**ANY_RULE, **filters["denying"]}, {**ANY_RULE, **filters["a principal"]}, {**ANY_RULE}]
    side.ask("overlapping", "DeleteAcls", 3, filters=both)
    side.eventually("nothing is left", lambda answers: not answers.resources, "DescribeAcls", 3, **ANY_RULE)
    side.ask("version 1", "DeleteAcls", 1, filters=[{**ANY_RULE, "pattern_type_filter": 3}])
