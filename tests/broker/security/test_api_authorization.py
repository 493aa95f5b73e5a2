"""Every API with no rights, the wrong rights, the right ones, and rights that are denied again.

The requests are real frames. The rights of each API are written here independently of the broker's table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2.errors import name_of as error_named
from pykafka2.protocol.struct import Struct
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster
from tests.acl_filters import ANY_RULE
from tests.broker.support.batches import batch
from tests.broker.support.raw_client import RawClient
from tests.conformance.behaviour.plain import request_of

ME = "User:ANONYMOUS"
TOPIC, OTHER_TOPIC, GROUP, TRANSACTION = "orders", "payments", "readers", "writer"
OPERATIONS = (
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
)
ALLOWING = {
    "DESCRIBE": {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"},
    "DESCRIBE_CONFIGS": {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
}
ON_TOPIC = {"topic": TOPIC}
ON_GROUP = {"group": GROUP}
ON_TRANSACTION = {"transactional_id": TRANSACTION}
ON_CLUSTER = {"cluster": True}
REFUSALS = {
    "topic": "TOPIC_AUTHORIZATION_FAILED",
    "group": "GROUP_AUTHORIZATION_FAILED",
    "transactional_id": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "cluster": "CLUSTER_AUTHORIZATION_FAILED",
}

Needs = list[tuple[str, dict[str, Any]]]
"""The required operations in the order of their checks."""

AS_PRODUCER = {"producer_id": 7, "producer_epoch": 0}
RECORDS = [{"index": 0, "records": batch([b"v"])}]
TRANSACTIONAL = [
    {"index": 0, "records": batch([b"v"], attributes=16, producer_id=7, producer_epoch=0, base_sequence=0)}
]
FETCHED = [{"topic": TOPIC, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}]
COMMITTED = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
NAMED = [{"name": TOPIC, "partition_indexes": [0]}]
CLUSTER = "cluster"

# API, version, fields, required operations.
CASES: dict[str, tuple[str, int, dict[str, Any], Needs]] = {
    "produce": (
        "Produce",
        9,
        {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": TOPIC, "partition_data": RECORDS}]},
        [("WRITE", ON_TOPIC)],
    ),
    "produce in a transaction": (
        "Produce",
        9,
        {
            "acks": 1,
            "timeout_ms": 1000,
            "transactional_id": TRANSACTION,
            "topic_data": [{"name": TOPIC, "partition_data": TRANSACTIONAL}],
        },
        [("WRITE", ON_TRANSACTION), ("WRITE", ON_TOPIC)],
    ),
    "fetch": ("Fetch", 12, {"topics": FETCHED, "replica_id": -1}, [("READ", ON_TOPIC)]),
    "fetch in a session": (
        "Fetch",
        12,
        {"topics": FETCHED, "replica_id": -1, "session_epoch": 0},
        [("READ", ON_TOPIC)],
    ),
    "list offsets": (
        "ListOffsets",
        7,
        {
            "replica_id": -1,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
        [("DESCRIBE", ON_TOPIC)],
    ),
    "delete records": (
        "DeleteRecords",
        2,
        {
            "timeout_ms": 1000,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}],
        },
        [("DELETE", ON_TOPIC)],
    ),
    "leader epochs": (
        "OffsetForLeaderEpoch",
        4,
        {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        [("DESCRIBE", ON_TOPIC)],
    ),
    "producers": ("DescribeProducers", 0, {"topics": NAMED}, [("READ", ON_TOPIC)]),
    "metadata": ("Metadata", 9, {"topics": [{"name": TOPIC}]}, [("DESCRIBE", ON_TOPIC)]),
    "pages of topics": (
        "DescribeTopicPartitions",
        0,
        {"topics": [{"name": TOPIC}], "response_partition_limit": 10},
        [("DESCRIBE", ON_TOPIC)],
    ),
    "create topics": (
        "CreateTopics",
        4,
        {
            "timeout_ms": 1000,
            "validate_only": True,
            "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}],
        },
        [("CREATE", {"topic": "new"})],
    ),
    "create topics, by the cluster": (
        "CreateTopics",
        4,
        {
            "timeout_ms": 1000,
            "validate_only": True,
            "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}],
        },
        [("CREATE", ON_CLUSTER)],
    ),
    "delete topics": (
        "DeleteTopics",
        5,
        {"timeout_ms": 1000, "topic_names": ["gone"]},
        [("DELETE", {"topic": "gone"})],
    ),
    "create partitions": (
        "CreatePartitions",
        3,
        {
            "timeout_ms": 1000,
            "validate_only": True,
            "topics": [{"name": TOPIC, "count": 3, "assignments": None}],
        },
        [("ALTER", ON_TOPIC)],
    ),
    **{
        f"{verb} configs of {kind}": (
            api,
            1,
            {"resources": [{"resource_type": number, "resource_name": name, **more}], **options},
            [(operation, resource)],
        )
        for verb, api, operation, more, options in (
            ("describe", "DescribeConfigs", "DESCRIBE_CONFIGS", {"configuration_keys": None}, {}),
            ("alter", "AlterConfigs", "ALTER_CONFIGS", {"configs": []}, {"validate_only": True}),
            ("change", "IncrementalAlterConfigs", "ALTER_CONFIGS", {"configs": []}, {"validate_only": True}),
        )
        for kind, number, name, resource in (
            ("a topic", 2, TOPIC, ON_TOPIC),
            ("a broker", 4, "0", ON_CLUSTER),
            ("a group", 32, GROUP, ON_GROUP),
        )
    },
    "configured resources": ("ListConfigResources", 1, {}, [("DESCRIBE_CONFIGS", ON_CLUSTER)]),
    "quotas": (
        "DescribeClientQuotas",
        1,
        {"components": [], "strict": False},
        [("DESCRIBE_CONFIGS", ON_CLUSTER)],
    ),
    "alter quotas": (
        "AlterClientQuotas",
        1,
        {
            "entries": [{"entity": [{"entity_type": "user", "entity_name": "unknown"}], "ops": []}],
            "validate_only": True,
        },
        [("ALTER_CONFIGS", ON_CLUSTER)],
    ),
    "log directories": ("DescribeLogDirs", 4, {"topics": None}, [("DESCRIBE", ON_CLUSTER)]),
    "move directories": (
        "AlterReplicaLogDirs",
        2,
        {"dirs": [{"path": "/x", "topics": [{"name": TOPIC, "partitions": [0]}]}]},
        [("ALTER", ON_CLUSTER)],
    ),
    "elect": (
        "ElectLeaders",
        2,
        {"timeout_ms": 1000, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}]},
        [("ALTER", ON_CLUSTER)],
    ),
    "reassign": (
        "AlterPartitionReassignments",
        0,
        {
            "timeout_ms": 1000,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 9, "replicas": [0]}]}],
        },
        [("ALTER", ON_CLUSTER)],
    ),
    "reassignments": (
        "ListPartitionReassignments",
        0,
        {"timeout_ms": 1000, "topics": None},
        [("DESCRIBE", ON_CLUSTER)],
    ),
    "quorum": (
        "DescribeQuorum",
        2,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{}]}]},
        [("DESCRIBE", ON_CLUSTER)],
    ),
    "features": (
        "UpdateFeatures",
        1,
        {"timeout_ms": 1000, "feature_updates": [], "validate_only": True},
        [("ALTER", ON_CLUSTER)],
    ),
    "add a voter": (
        "AddRaftVoter",
        1,
        {"timeout_ms": 1000, "voter_id": 1, "listeners": [], "cluster_id": None},
        [("ALTER", ON_CLUSTER)],
    ),
    "remove a voter": ("RemoveRaftVoter", 0, {"voter_id": 1, "cluster_id": None}, [("ALTER", ON_CLUSTER)]),
    "unregister a controller": (
        "UnregisterController",
        0,
        {"controller_id": 77},
        [("ALTER", ON_CLUSTER)],
    ),
    "unregister": ("UnregisterBroker", 0, {"broker_id": 77}, [("ALTER", ON_CLUSTER)]),
    "describe rules": ("DescribeAcls", 3, ANY_RULE, [("DESCRIBE", ON_CLUSTER)]),
    "create rules": (
        "CreateAcls",
        3,
        {"creations": [{"resource_type": 2, "resource_pattern_type": 3}]},
        [("ALTER", ON_CLUSTER)],
    ),
    "delete rules": (
        "DeleteAcls",
        3,
        {"filters": [{**ANY_RULE, "resource_name_filter": "nothing"}]},
        [("ALTER", ON_CLUSTER)],
    ),
    "find a group's coordinator": (
        "FindCoordinator",
        4,
        {"key_type": 0, "coordinator_keys": [GROUP]},
        [("DESCRIBE", ON_GROUP)],
    ),
    "find a transaction's coordinator": (
        "FindCoordinator",
        3,
        {"key_type": 1, "key": TRANSACTION},
        [("DESCRIBE", ON_TRANSACTION)],
    ),
    "join": ("JoinGroup", 5, {"group_id": GROUP, "session_timeout_ms": 10_000}, [("READ", ON_GROUP)]),
    "sync": ("SyncGroup", 3, {"group_id": GROUP, "member_id": "m"}, [("READ", ON_GROUP)]),
    "heartbeat": ("Heartbeat", 4, {"group_id": GROUP, "member_id": "m"}, [("READ", ON_GROUP)]),
    "leave": (
        "LeaveGroup",
        4,
        {"group_id": GROUP, "members": [{"member_id": "m"}]},
        [("READ", ON_GROUP)],
    ),
    "heartbeat of KIP-848": (
        "ConsumerGroupHeartbeat",
        0,
        {
            "group_id": "readers",
            "member_id": "m",
            "member_epoch": 7,
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": None,
        },
        [("READ", ON_GROUP), ("DESCRIBE", ON_TOPIC)],
    ),
    "commit": (
        "OffsetCommit",
        8,
        {
            "group_id": GROUP,
            "generation_id_or_member_epoch": -1,
            "topics": [{"name": TOPIC, "partitions": COMMITTED}],
        },
        [("READ", ON_GROUP), ("READ", ON_TOPIC)],
    ),
    "committed": (
        "OffsetFetch",
        8,
        {"groups": [{"group_id": GROUP, "topics": NAMED}]},
        [("DESCRIBE", ON_GROUP), ("DESCRIBE", ON_TOPIC)],
    ),
    "committed, of one group": (
        "OffsetFetch",
        5,
        {"group_id": GROUP, "topics": NAMED},
        [("DESCRIBE", ON_GROUP), ("DESCRIBE", ON_TOPIC)],
    ),
    "delete offsets": (
        "OffsetDelete",
        0,
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]},
        [("DELETE", ON_GROUP), ("READ", ON_TOPIC)],
    ),
    "describe groups": ("DescribeGroups", 5, {"groups": [GROUP]}, [("DESCRIBE", ON_GROUP)]),
    "describe KIP-848 groups": ("ConsumerGroupDescribe", 0, {"group_ids": [GROUP]}, [("DESCRIBE", ON_GROUP)]),
    "delete groups": ("DeleteGroups", 2, {"groups_names": [GROUP]}, [("DELETE", ON_GROUP)]),
    "a producer's id": (
        "InitProducerId",
        4,
        {"transactional_id": None, "transaction_timeout_ms": 1, "producer_id": -1, "producer_epoch": -1},
        [("IDEMPOTENT_WRITE", ON_CLUSTER)],
    ),
    "a transactional id": (
        "InitProducerId",
        4,
        {"transactional_id": TRANSACTION, "transaction_timeout_ms": 0, "producer_id": -1},
        [("WRITE", ON_TRANSACTION)],
    ),
    "add partitions": (
        "AddPartitionsToTxn",
        3,
        {
            "v3_and_below_transactional_id": TRANSACTION,
            "v3_and_below_producer_id": 7,
            "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
        },
        [("WRITE", ON_TRANSACTION), ("WRITE", ON_TOPIC)],
    ),
    "verify partitions": (
        "AddPartitionsToTxn",
        4,
        {
            "transactions": [
                {
                    "transactional_id": TRANSACTION,
                    **AS_PRODUCER,
                    "topics": [{"name": TOPIC, "partitions": [0]}],
                }
            ]
        },
        [("CLUSTER_ACTION", ON_CLUSTER)],
    ),
    "add offsets": (
        "AddOffsetsToTxn",
        3,
        {"transactional_id": TRANSACTION, "group_id": GROUP, **AS_PRODUCER},
        [("WRITE", ON_TRANSACTION), ("READ", ON_GROUP)],
    ),
    "end": (
        "EndTxn",
        3,
        {"transactional_id": TRANSACTION, "committed": True, **AS_PRODUCER},
        [("WRITE", ON_TRANSACTION)],
    ),
    "commit in a transaction": (
        "TxnOffsetCommit",
        3,
        {
            "transactional_id": TRANSACTION,
            "group_id": GROUP,
            **AS_PRODUCER,
            "topics": [{"name": TOPIC, "partitions": COMMITTED}],
        },
        [("WRITE", ON_TRANSACTION), ("READ", ON_GROUP), ("READ", ON_TOPIC)],
    ),
    "markers": (
        "WriteTxnMarkers",
        1,
        {"markers": [{**AS_PRODUCER, "topics": [{"name": "gone", "partition_indexes": [0]}]}]},
        [("CLUSTER_ACTION", ON_CLUSTER)],
    ),
    "describe transactions": (
        "DescribeTransactions",
        0,
        {"transactional_ids": [TRANSACTION]},
        [("DESCRIBE", ON_TRANSACTION)],
    ),
    "fetch as a follower": (
        "Fetch",
        12,
        {"topics": FETCHED, "replica_id": 5},
        [("CLUSTER_ACTION", ON_CLUSTER)],
    ),
}
WITH_TOPIC_ERROR = {"fetch as a follower", "create topics, by the cluster"}
"""Cases that require rights on the cluster, with the error of topics."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """A cluster without allowed operations, except those that a test allows."""
    config = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:root",
        "auto.create.topics.enable": False,
        "group.initial.rebalance.delay.ms": 0,
    }
    with KafkaCluster(brokers=1, topics=[TOPIC, OTHER_TOPIC], config=config, as_version="4.4") as cluster:
        cluster.acls.allow(ME, "ALL", group="*")
        cluster.acls.allow(ME, "ALL", transactional_id="*")
        with RawClient(cluster.bootstrap_servers) as wire:
            # The coordinators exist, and have loaded.
            for kind, key in ((0, GROUP), (1, TRANSACTION)):
                ask(wire, "FindCoordinator", 3, key_type=kind, key=key)
            cluster.wait_until(lambda: not _loads(wire))
        yield cluster


def _loads(wire: RawClient) -> bool:
    group = ask(wire, "OffsetFetch", 5, group_id=GROUP, topics=[])
    transaction = ask(wire, "DescribeTransactions", 0, transactional_ids=[TRANSACTION])
    codes = {group.error_code, transaction.transaction_states[0].error_code}
    return bool(codes & {14, 15, 16})


@pytest.fixture
def wire(cluster: KafkaCluster) -> Iterator[RawClient]:
    cluster.acls.revoke()
    cluster.forget()
    with RawClient(cluster.bootstrap_servers) as wire:
        yield wire


def ask(wire: RawClient, api: str, version: int, **fields: Any) -> Any:
    return wire.call(request_of(api, fields), version)


def codes_in(response: Any) -> set[str]:
    """Return the names of all errors anywhere in a response."""
    found: set[str] = set()
    for name in response.__slots__ if isinstance(response, Struct) else ():
        value = getattr(response, name)
        if name.endswith("error_code"):
            found.add(error_named(value))
        for one in value if isinstance(value, list) else [value]:
            found |= codes_in(one)
    return found - {"NONE"}


def kind_of(resource: dict[str, Any]) -> str:
    return next(iter(resource))


def refusal_of(case: str, needed: tuple[str, dict[str, Any]]) -> str:
    return REFUSALS["topic" if case in WITH_TOPIC_ERROR else kind_of(needed[1])]


def elsewhere(resource: dict[str, Any]) -> dict[str, Any]:
    """Return another resource of the same kind, or a transactional id for the cluster."""
    (kind, name), *_ = resource.items()
    return {"transactional_id": "another"} if kind == CLUSTER else {kind: f"{name}-2"}


@pytest.mark.parametrize("case", CASES)
def test_request_without_one_of_its_rights_is_rejected(
    cluster: KafkaCluster, wire: RawClient, case: str
) -> None:
    api, version, fields, needs = CASES[case]
    for lacking, (operation, resource) in enumerate(needs):
        refusal = refusal_of(case, needs[lacking])
        others = [one for number, one in enumerate(needs) if number != lacking]
        allowing = ALLOWING.get(operation, {operation}) | {"ALL"}
        by_cluster = api in ("CreateTopics", "DeleteTopics", "WriteTxnMarkers", "OffsetForLeaderEpoch")

        cluster.acls.revoke()
        for one, on in others:
            cluster.acls.allow(ME, one, **on)
        assert refusal in codes_in(ask(wire, api, version, **fields)), "no right"

        wrong = [one for one in OPERATIONS if one not in allowing]
        if api == "InitProducerId" and resource is ON_CLUSTER:
            wrong.remove("WRITE")
        if api == "WriteTxnMarkers":
            wrong.remove("ALTER")
        cluster.acls.allow(ME, *wrong, **resource)
        cluster.acls.allow(ME, operation, **elsewhere(resource))
        cluster.acls.allow("User:another", operation, **resource)
        cluster.acls.allow(ME, operation, **resource, host="10.1.2.3")
        if case != "delete topics":  # Describe allows to learn that the topic does not exist
            assert refusal in codes_in(ask(wire, api, version, **fields)), "the wrong rights"

        cluster.acls.allow(ME, operation, **resource)
        assert refusal not in codes_in(ask(wire, api, version, **fields)), "the right one"

        cluster.acls.deny(ME, operation, **resource)
        if api == "WriteTxnMarkers":
            cluster.acls.deny(ME, "ALTER", cluster=True)
        if by_cluster and resource is not ON_CLUSTER:
            cluster.acls.deny(ME, "ALL", cluster=True)
        if case != "delete topics":
            assert refusal in codes_in(ask(wire, api, version, **fields)), "denied"


@pytest.mark.parametrize("case", CASES)
def test_request_with_exactly_its_rights_is_allowed(
    cluster: KafkaCluster, wire: RawClient, case: str
) -> None:
    api, version, fields, needs = CASES[case]
    for operation, resource in needs:
        cluster.acls.allow(ME, operation, **resource)
    results = codes_in(ask(wire, api, version, **fields))
    assert not results & set(REFUSALS.values())
    assert cluster.acls.denials() == []


def test_denial_records_principal_operation_and_resource(cluster: KafkaCluster, wire: RawClient) -> None:
    api, version, fields, _ = CASES["produce"]
    for _ in range(3):
        ask(wire, api, version, **fields)
    (denied,) = cluster.acls.denials(ME)
    assert denied.facts == {
        "broker": 0,
        "principal": ME,
        "host": "127.0.0.1",
        "api": "Produce",
        "operation": "WRITE",
        "resource_type": "TOPIC",
        "resource": TOPIC,
    }
    assert denied.text == f"{ME} from 127.0.0.1 may not WRITE TOPIC {TOPIC} (Produce)"
    assert cluster.acls.denials("User:another") == []


# ---------------------------------------------------------------------- filtered responses


def test_metadata_for_all_topics_has_only_topics_with_describe(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    def names(version: int) -> list[str]:
        return [topic.name for topic in ask(wire, "Metadata", version, topics=None).topics]

    for version in (1, 9, 13):
        assert names(version) == []
    assert [topic.name for topic in ask(wire, "Metadata", 0, topics=[]).topics] == []
    cluster.acls.allow(ME, "READ", topic=TOPIC)
    for version in (1, 9, 13):
        assert names(version) == [TOPIC]
    listed = ask(wire, "DescribeTopicPartitions", 0, topics=[], response_partition_limit=10)
    assert [topic.name for topic in listed.topics] == [TOPIC]
    assert cluster.acls.denials() == [], "filtered topics are not denials"


def test_unauthorized_topic_does_not_fail_the_others_of_a_produce(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    cluster.acls.allow(ME, "WRITE", "READ", topic=TOPIC)
    topics = [{"name": one, "partition_data": RECORDS} for one in (TOPIC, OTHER_TOPIC)]
    before = cluster.log(TOPIC, 0).log_end_offset
    response = ask(wire, "Produce", 9, acks=1, timeout_ms=1000, topic_data=topics)
    results = {one.name: error_named(one.partition_responses[0].error_code) for one in response.responses}
    assert results == {TOPIC: "NONE", OTHER_TOPIC: "TOPIC_AUTHORIZATION_FAILED"}
    assert cluster.log(TOPIC, 0).log_end_offset == before + 1
    assert cluster.log(OTHER_TOPIC, 0).log_end_offset == 0


@pytest.mark.parametrize("names", [[TOPIC, OTHER_TOPIC], [OTHER_TOPIC]])
def test_unauthorized_produce_with_acks_0_closes_the_connection(
    cluster: KafkaCluster, wire: RawClient, names: list[str]
) -> None:
    cluster.acls.allow(ME, "WRITE", topic=TOPIC)
    before = cluster.log(TOPIC, 0).log_end_offset
    topics = [{"name": one, "partition_data": RECORDS} for one in names]
    wire.send(request_of("Produce", {"acks": 0, "timeout_ms": 1000, "topic_data": topics}), 9)
    assert wire.is_closed_by_broker()
    assert cluster.log(TOPIC, 0).log_end_offset - before == names.count(TOPIC)


def test_revoked_read_fails_the_next_fetch_of_a_session(cluster: KafkaCluster, wire: RawClient) -> None:
    cluster.acls.allow(ME, "READ", topic=TOPIC)
    opened = ask(wire, "Fetch", 12, topics=FETCHED, replica_id=-1, session_epoch=0, max_wait_ms=0)
    assert opened.session_id
    session = {"session_id": opened.session_id, "replica_id": -1, "max_wait_ms": 0}

    def fetch(epoch: int) -> set[str]:
        return codes_in(ask(wire, "Fetch", 12, topics=[], session_epoch=epoch, **session))

    assert fetch(1) == set()
    cluster.acls.revoke()
    assert fetch(2) == fetch(3) == {"TOPIC_AUTHORIZATION_FAILED"}
    cluster.acls.allow(ME, "READ", topic=TOPIC)
    assert fetch(4) == fetch(5) == set()


def test_listed_groups_and_transactions_require_describe(cluster: KafkaCluster, wire: RawClient) -> None:
    cluster.acls.allow(ME, "READ", group=GROUP)
    cluster.acls.allow(ME, "READ", topic=TOPIC)
    api, version, fields, _ = CASES["commit"]
    ask(wire, api, version, **fields)

    def listed() -> list[str]:
        return [one.group_id for one in ask(wire, "ListGroups", 4).groups]

    assert listed() == [GROUP]
    cluster.acls.revoke()
    assert listed() == []
    cluster.acls.allow(ME, "DESCRIBE", cluster=True)
    assert listed() == [GROUP]


def test_offset_fetch_for_all_topics_has_only_topics_with_describe(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    api, version, fields, needs = CASES["commit"]
    for operation, resource in needs:
        cluster.acls.allow(ME, operation, **resource)
    ask(wire, api, version, **fields)

    def committed() -> list[list[str]]:
        of_group = ask(wire, "OffsetFetch", 5, group_id=GROUP, topics=None).topics
        groups = ask(wire, "OffsetFetch", 8, groups=[{"group_id": GROUP, "topics": None}]).groups
        return [[one.name for one in of_group], [one.name for one in groups[0].topics]]

    assert committed() == [[TOPIC], [TOPIC]]
    cluster.acls.revoke(topic=TOPIC)
    assert committed() == [[], []]


def test_authorized_operations_are_those_that_rules_allow(cluster: KafkaCluster, wire: RawClient) -> None:
    cluster.acls.allow(ME, "WRITE", topic=TOPIC)
    cluster.acls.allow(ME, "DESCRIBE", "CREATE", cluster=True)
    response = ask(
        wire,
        "Metadata",
        9,
        topics=[{"name": TOPIC}, {"name": OTHER_TOPIC}],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    results = {topic.name: topic.topic_authorized_operations for topic in response.topics}
    assert results == {TOPIC: 1 << 4 | 1 << 8, OTHER_TOPIC: -(2**31)}
    assert response.cluster_authorized_operations == 1 << 5 | 1 << 8
    described = ask(wire, "DescribeCluster", 0, include_cluster_authorized_operations=True)
    assert described.cluster_authorized_operations == 1 << 5 | 1 << 8
    cluster.acls.revoke(cluster=True)
    described = ask(wire, "DescribeCluster", 0, include_cluster_authorized_operations=True)
    assert described.cluster_authorized_operations == 0


def test_cached_metadata_is_returned_only_with_describe_on_all_topics(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    """The cached bytes have all topics, which a client without Describe on all must not get."""
    cluster.acls.allow(ME, "DESCRIBE", topic="*")
    for _ in range(2):
        assert len(ask(wire, "Metadata", 9, topics=None).topics) >= 2
    cluster.acls.revoke()
    cluster.acls.allow(ME, "DESCRIBE", topic=OTHER_TOPIC)
    for _ in range(2):
        assert [one.name for one in ask(wire, "Metadata", 9, topics=None).topics] == [OTHER_TOPIC]


# ---------------------------------------------------------------------- attempts to bypass ACLs


def test_topic_id_beside_an_authorized_name_shows_no_other_topic(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    ids = {name: cluster.controller.image.topics[name].id for name in (TOPIC, OTHER_TOPIC)}
    cluster.acls.allow(ME, "DESCRIBE", topic=TOPIC)
    (hidden,) = ask(wire, "Metadata", 12, topics=[{"name": TOPIC, "topic_id": ids[OTHER_TOPIC]}]).topics
    assert (codes_in(hidden), hidden.name, hidden.partitions) == ({"TOPIC_AUTHORIZATION_FAILED"}, None, [])
    (seen,) = ask(wire, "Metadata", 12, topics=[{"name": OTHER_TOPIC, "topic_id": ids[TOPIC]}]).topics
    assert (codes_in(seen), seen.name) == (set(), TOPIC)


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("topic", [TOPIC, OTHER_TOPIC])
def test_metadata_by_topic_id_before_version_12_is_an_invalid_request_under_any_acl(
    cluster: KafkaCluster, wire: RawClient, version: int, topic: str
) -> None:
    cluster.acls.allow(ME, "DESCRIBE", topic=TOPIC)
    topic_id = cluster.controller.image.topics[topic].id
    for name in (None, TOPIC, OTHER_TOPIC):
        response = ask(
            wire,
            "Metadata",
            version,
            topics=[{"name": name, "topic_id": topic_id}],
            include_topic_authorized_operations=True,
        )
        (refused,) = response.topics
        assert codes_in(refused) == {"INVALID_REQUEST"}
        assert (refused.name, refused.topic_id, refused.partitions) == (name or "", topic_id, [])
        assert refused.topic_authorized_operations == -(2**31)
        assert response.brokers == []
    assert cluster.acls.denials() == []


@pytest.mark.parametrize("all_first", [True, False])
def test_group_twice_in_offset_fetch_has_separately_authorized_results(
    cluster: KafkaCluster, wire: RawClient, all_first: bool
) -> None:
    api, version, fields, needs = CASES["commit"]
    for operation, resource in needs:
        cluster.acls.allow(ME, operation, **resource)
    ask(wire, api, version, **fields)
    cluster.acls.revoke(topic=TOPIC)
    requested = [{"group_id": GROUP, "topics": None}, {"group_id": GROUP, "topics": NAMED}]
    responses = ask(wire, "OffsetFetch", 8, groups=requested if all_first else requested[::-1]).groups
    of_all, of_one = responses if all_first else responses[::-1]
    assert [topic.name for topic in of_all.topics] == []
    assert [topic.name for topic in of_one.topics] == [TOPIC]
    assert codes_in(of_one) == {"TOPIC_AUTHORIZATION_FAILED"}


def test_committed_offsets_of_an_unknown_topic_id_get_unknown_topic_id(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    cluster.acls.allow(ME, "DESCRIBE", group=GROUP)
    cluster.acls.allow(ME, "DESCRIBE", topic=TOPIC)
    topics = [{"topic_id": b"\x07" * 16, "partition_indexes": [0]}]
    (group,) = ask(wire, "OffsetFetch", 10, groups=[{"group_id": GROUP, "topics": topics}]).groups
    assert [topic.topic_id for topic in group.topics] == [b"\x07" * 16]
    assert codes_in(group) == {"UNKNOWN_TOPIC_ID"}


def test_error_of_an_unauthorized_fetch_session_does_not_grow(cluster: KafkaCluster, wire: RawClient) -> None:
    """Its partitions keep their error, whose traceback must not reference every fetch."""
    opened = ask(wire, "Fetch", 12, topics=FETCHED, replica_id=-1, session_epoch=0, max_wait_ms=0)
    for epoch in range(1, 9):
        response = ask(
            wire, "Fetch", 12, topics=[], session_id=opened.session_id, session_epoch=epoch, replica_id=-1
        )
        assert codes_in(response) == {"TOPIC_AUTHORIZATION_FAILED"}
    session = cluster.broker(0).replicas.sessions.get(opened.session_id)
    assert session is not None
    (known,) = session.partitions.values()
    assert known.info.error is not None
    depth, trace = 0, known.info.error.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    assert depth <= 2


def test_forwarded_request_is_checked_by_the_controllers_acls(cluster: KafkaCluster, wire: RawClient) -> None:
    """The metadata of the forwarding broker can lack new ACLs, or have revoked ones."""
    api, version, fields, _ = CASES["create topics"]
    cluster.controls.hold_metadata(0)
    try:
        cluster.acls.allow(ME, "CREATE", topic="new")
        assert codes_in(ask(wire, api, version, **fields)) == set()
    finally:
        cluster.controls.release_metadata(0)


def test_at_most_a_thousand_denials_are_recorded(cluster: KafkaCluster, wire: RawClient) -> None:
    ask(wire, "Metadata", 9, topics=[{"name": f"hidden-{number}"} for number in range(1_200)])
    assert len(cluster.acls.denials(ME)) == 1_000


def test_topic_partitions_cursor_at_an_unauthorized_topic_continues_behind_it(cluster: KafkaCluster) -> None:
    """A client that pages through all topics gets the next one that it can describe."""
    cluster.acls.revoke()
    cluster.acls.allow(ME, "DESCRIBE", topic=OTHER_TOPIC)
    fields = {
        "topics": [],
        "response_partition_limit": 10,
        "cursor": {"topic_name": TOPIC, "partition_index": 0},
    }
    with RawClient(cluster.bootstrap_servers) as wire:
        response = wire.call(request_of("DescribeTopicPartitions", fields), 0)
        assert [(one.name, one.error_code) for one in response.topics] == [(OTHER_TOPIC, 0)]
