"""Every API with no rights, the wrong rights, the right ones, and rights that are denied again.

The requests are real frames. The rights of each API are written here independently of the broker's table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2.errors import name_of as error_named
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.registry import API_KEYS, request_class
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
REFUSALS = {
    "topic": "TOPIC_AUTHORIZATION_FAILED",
    "group": "GROUP_AUTHORIZATION_FAILED",
    "transactional_id": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "cluster": "CLUSTER_AUTHORIZATION_FAILED",
}
Resource = dict[str, Any]
ON: dict[str, Resource] = {
    "topic": {"topic": TOPIC},
    "topic new": {"topic": "new"},
    "topic gone": {"topic": "gone"},
    "group": {"group": GROUP},
    "transactional_id": {"transactional_id": TRANSACTION},
    "cluster": {"cluster": True},
}
"""The resources of rights, as `Acls.allow` has them."""
ON_CLUSTER = ON["cluster"]

Needs = list[tuple[str, Resource]]
"""The required operations in the order of their checks."""

AS_PRODUCER = {"producer_id": 7, "producer_epoch": 0}
RECORDS = [{"index": 0, "records": batch([b"v"])}]
TRANSACTIONAL = [
    {"index": 0, "records": batch([b"v"], attributes=16, producer_id=7, producer_epoch=0, base_sequence=0)}
]
FETCHED = [{"topic": TOPIC, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}]
COMMITTED = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
NAMED = [{"name": TOPIC, "partition_indexes": [0]}]
NUMBERED = [{"name": TOPIC, "partitions": [0]}]
NEW = [{"name": "new", "num_partitions": 1, "replication_factor": 1}]
USUAL = {"timeout_ms": 1000, "acks": 1, "replica_id": -1, "validate_only": True}
"""The values of fields of these names, if a request has no other."""


def of_partition_0(**fields: Any) -> list[dict[str, Any]]:
    """Return the topic with its partition 0, which has further fields."""
    return [{"name": TOPIC, "partitions": [{"partition_index": 0, **fields}]}]


def configs_of(kind: int, name: str) -> dict[str, dict[str, Any]]:
    resource = {"resource_type": kind, "resource_name": name}
    changed = {"resources": [{**resource, "configs": []}]}
    return {f"AlterConfigs 1 of {kind}": changed, f"IncrementalAlterConfigs 1 of {kind}": changed}


def described_configs_of(kind: int, name: str) -> dict[str, dict[str, Any]]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    return {f"DescribeConfigs 1 of {kind}": {"resources": [resource]}}


# By the required operations and their resources: requests by API and version.
REQUESTS: dict[str, dict[str, dict[str, Any]]] = {
    "WRITE topic": {"Produce 9": {"topic_data": [{"name": TOPIC, "partition_data": RECORDS}]}},
    "READ topic": {
        "Fetch 12": {"topics": FETCHED},
        "Fetch 12 in a session": {"topics": FETCHED, "session_epoch": 0},
        "DescribeProducers 0": {"topics": NAMED},
    },
    "DESCRIBE topic": {
        "ListOffsets 7": {"topics": of_partition_0(timestamp=-1)},
        "OffsetForLeaderEpoch 4": {
            "topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}]
        },
        "Metadata 9": {"topics": [{"name": TOPIC}]},
        "DescribeTopicPartitions 0": {"topics": [{"name": TOPIC}], "response_partition_limit": 10},
    },
    "DELETE topic": {"DeleteRecords 2": {"topics": of_partition_0(offset=0)}},
    "DELETE topic gone": {"DeleteTopics 5": {"topic_names": ["gone"]}},
    "CREATE topic new": {"CreateTopics 4": {"topics": NEW}},
    "CREATE cluster": {"CreateTopics 4": {"topics": NEW}},
    "ALTER topic": {"CreatePartitions 3": {"topics": [{"name": TOPIC, "count": 3, "assignments": None}]}},
    "DESCRIBE_CONFIGS topic": described_configs_of(2, TOPIC),
    "ALTER_CONFIGS topic": configs_of(2, TOPIC),
    "DESCRIBE_CONFIGS group": described_configs_of(32, GROUP),
    "ALTER_CONFIGS group": configs_of(32, GROUP),
    "DESCRIBE_CONFIGS cluster": {
        **described_configs_of(4, "0"),
        "ListConfigResources 1": {},
        "DescribeClientQuotas 1": {"components": [], "strict": False},
    },
    "ALTER_CONFIGS cluster": {
        **configs_of(4, "0"),
        "AlterClientQuotas 1": {
            "entries": [{"entity": [{"entity_type": "user", "entity_name": "unknown"}], "ops": []}]
        },
    },
    "DESCRIBE cluster": {
        "DescribeLogDirs 4": {"topics": None},
        "ListPartitionReassignments 0": {"topics": None},
        "DescribeQuorum 2": {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{}]}]},
        "DescribeAcls 3": ANY_RULE,
    },
    "ALTER cluster": {
        "AlterReplicaLogDirs 2": {"dirs": [{"path": "/x", "topics": NUMBERED}]},
        "ElectLeaders 2": {"topic_partitions": [{"topic": TOPIC, "partitions": [0]}]},
        "AlterPartitionReassignments 0": {
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 9, "replicas": [0]}]}]
        },
        "UpdateFeatures 1": {"feature_updates": []},
        "AddRaftVoter 1": {"voter_id": 1, "listeners": [], "cluster_id": None},
        "RemoveRaftVoter 0": {"voter_id": 1, "cluster_id": None},
        "UnregisterController 0": {"controller_id": 77},
        "UnregisterBroker 0": {"broker_id": 77},
        "CreateAcls 3": {"creations": [{"resource_type": 2, "resource_pattern_type": 3}]},
        "DeleteAcls 3": {"filters": [{**ANY_RULE, "resource_name_filter": "nothing"}]},
    },
    "CLUSTER_ACTION cluster": {
        "AddPartitionsToTxn 4": {
            "transactions": [{"transactional_id": TRANSACTION, **AS_PRODUCER, "topics": NUMBERED}]
        },
        "WriteTxnMarkers 1": {
            "markers": [{**AS_PRODUCER, "topics": [{"name": "gone", "partition_indexes": [0]}]}]
        },
        "Fetch 12 as a follower": {"topics": FETCHED, "replica_id": 5},
    },
    "DESCRIBE group": {
        "FindCoordinator 4": {"key_type": 0, "coordinator_keys": [GROUP]},
        "DescribeGroups 5": {"groups": [GROUP]},
        "ConsumerGroupDescribe 0": {"group_ids": [GROUP]},
    },
    "READ group": {
        "JoinGroup 5": {"group_id": GROUP, "session_timeout_ms": 10_000},
        "SyncGroup 3": {"group_id": GROUP, "member_id": "m"},
        "Heartbeat 4": {"group_id": GROUP, "member_id": "m"},
        "LeaveGroup 4": {"group_id": GROUP, "members": [{"member_id": "m"}]},
    },
    "DELETE group": {"DeleteGroups 2": {"groups_names": [GROUP]}},
    "READ group, DESCRIBE topic": {
        "ConsumerGroupHeartbeat 0": {
            "group_id": GROUP,
            "member_id": "m",
            "member_epoch": 7,
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": None,
        }
    },
    "READ group, READ topic": {
        "OffsetCommit 8": {
            "group_id": GROUP,
            "generation_id_or_member_epoch": -1,
            "topics": [{"name": TOPIC, "partitions": COMMITTED}],
        }
    },
    "DESCRIBE group, DESCRIBE topic": {
        "OffsetFetch 8": {"groups": [{"group_id": GROUP, "topics": NAMED}]},
        "OffsetFetch 5": {"group_id": GROUP, "topics": NAMED},
    },
    "DELETE group, READ topic": {"OffsetDelete 0": {"group_id": GROUP, "topics": of_partition_0()}},
    "IDEMPOTENT_WRITE cluster": {
        "InitProducerId 4": {
            "transactional_id": None,
            "transaction_timeout_ms": 1,
            "producer_id": -1,
            "producer_epoch": -1,
        }
    },
    "DESCRIBE transactional_id": {
        "FindCoordinator 3": {"key_type": 1, "key": TRANSACTION},
        "DescribeTransactions 0": {"transactional_ids": [TRANSACTION]},
    },
    "WRITE transactional_id": {
        "InitProducerId 4": {"transactional_id": TRANSACTION, "producer_id": -1},
        "EndTxn 3": {"transactional_id": TRANSACTION, "committed": True, **AS_PRODUCER},
    },
    "WRITE transactional_id, WRITE topic": {
        "Produce 9": {
            "transactional_id": TRANSACTION,
            "topic_data": [{"name": TOPIC, "partition_data": TRANSACTIONAL}],
        },
        "AddPartitionsToTxn 3": {
            "v3_and_below_transactional_id": TRANSACTION,
            "v3_and_below_producer_id": 7,
            "v3_and_below_topics": NUMBERED,
        },
    },
    "WRITE transactional_id, READ group": {
        "AddOffsetsToTxn 3": {"transactional_id": TRANSACTION, "group_id": GROUP, **AS_PRODUCER}
    },
    "WRITE transactional_id, READ group, READ topic": {
        "TxnOffsetCommit 3": {
            "transactional_id": TRANSACTION,
            "group_id": GROUP,
            **AS_PRODUCER,
            "topics": [{"name": TOPIC, "partitions": COMMITTED}],
        }
    },
}


def case_of(name: str, rights: str, fields: dict[str, Any]) -> tuple[str, int, dict[str, Any], Needs]:
    api, version, *_ = name.split()
    cls = request_class(next(key for key, info in API_KEYS.items() if info.name == api))
    usual = {one.name: USUAL[one.name] for one in resolved_fields(cls) if one.name in USUAL}
    needs = [(one.split()[0], ON[one.split(maxsplit=1)[1]]) for one in rights.split(", ")]
    return api, int(version), {**usual, **fields}, needs


CASES = {
    f"{name} needs {rights}": case_of(name, rights, fields)
    for rights, requests in REQUESTS.items()
    for name, fields in requests.items()
}
"""API, version, fields and required operations of each request."""
COMMIT = CASES["OffsetCommit 8 needs READ group, READ topic"]
WITH_TOPIC_ERROR = {
    "Fetch 12 as a follower needs CLUSTER_ACTION cluster",
    "CreateTopics 4 needs CREATE cluster",
}
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
    return {"transactional_id": "another"} if kind == "cluster" else {kind: f"{name}-2"}


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
        if api != "DeleteTopics":  # Describe allows to learn that the topic does not exist
            assert refusal in codes_in(ask(wire, api, version, **fields)), "the wrong rights"

        cluster.acls.allow(ME, operation, **resource)
        assert refusal not in codes_in(ask(wire, api, version, **fields)), "the right one"

        cluster.acls.deny(ME, operation, **resource)
        if api == "WriteTxnMarkers":
            cluster.acls.deny(ME, "ALTER", cluster=True)
        if by_cluster and resource is not ON_CLUSTER:
            cluster.acls.deny(ME, "ALL", cluster=True)
        if api != "DeleteTopics":
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
    api, version, fields, _ = CASES["Produce 9 needs WRITE topic"]
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
    api, version, fields, _ = COMMIT
    ask(wire, api, version, **fields)

    def listed() -> list[str]:
        return [one.group_id for one in ask(wire, "ListGroups", 4).groups]

    assert listed() == [GROUP]
    cluster.acls.revoke()
    assert listed() == []
    assert cluster.acls.denials() == [], "a filtered group is no denial"
    cluster.acls.allow(ME, "DESCRIBE", cluster=True)
    assert listed() == [GROUP]


def test_offset_fetch_for_all_topics_has_only_topics_with_describe(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    api, version, fields, needs = COMMIT
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


def test_cluster_action_allows_leader_epochs_of_every_topic(cluster: KafkaCluster, wire: RawClient) -> None:
    fields = REQUESTS["DESCRIBE topic"]["OffsetForLeaderEpoch 4"]
    cluster.acls.allow(ME, "CLUSTER_ACTION", cluster=True)
    assert codes_in(ask(wire, "OffsetForLeaderEpoch", 4, **fields, replica_id=-1)) == set()
    assert cluster.acls.denials() == []


def test_duplicate_topics_of_create_partitions_are_an_invalid_request_without_any_right(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    topics = [{"name": name, "count": 3, "assignments": None} for name in (TOPIC, OTHER_TOPIC, TOPIC)]
    results = ask(wire, "CreatePartitions", 3, topics=topics, timeout_ms=1000).results
    assert {one.name: error_named(one.error_code) for one in results} == {
        TOPIC: "INVALID_REQUEST",
        OTHER_TOPIC: "TOPIC_AUTHORIZATION_FAILED",
    }
    assert [one.facts["resource"] for one in cluster.acls.denials()] == [OTHER_TOPIC]
    (denied,) = (one for one in results if one.name == OTHER_TOPIC)
    assert denied.error_message is None


def test_request_without_its_right_on_the_cluster_has_kafkas_message(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    for api, version, fields in (
        ("DescribeAcls", 3, ANY_RULE),
        ("ListPartitionReassignments", 0, {"topics": None, "timeout_ms": 1000}),
    ):
        response = ask(wire, api, version, **fields)
        assert codes_in(response) == {"CLUSTER_AUTHORIZATION_FAILED"}
        assert response.error_message == "Cluster authorization failed."


def test_denied_configs_of_loggers_and_brokers_have_no_message(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    kinds = {2: TOPIC, 4: "0", 8: "0"}
    resources = [
        {"resource_type": kind, "resource_name": name, "configs": []} for kind, name in kinds.items()
    ]
    for api in ("IncrementalAlterConfigs", "AlterConfigs"):
        responses = ask(wire, api, 1, resources=resources).responses
        assert {one.resource_type: one.error_message for one in responses} == {
            2: "Topic authorization failed.",
            4: None,
            8: None if api == "IncrementalAlterConfigs" else "Cluster authorization failed.",
        }


# ---------------------------------------------------------------------- attempts to bypass ACLs


def test_transactional_id_is_checked_although_the_topic_is_known_to_be_writable(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    """Batches without a transaction have made the decision about the topic known."""
    cluster.acls.allow(ME, "WRITE", topic=TOPIC)
    plain = [{"name": TOPIC, "partition_data": RECORDS}]
    for _ in range(2):
        assert codes_in(ask(wire, "Produce", 9, topic_data=plain, acks=1)) == set()
    for name in (TRANSACTION, "another"):
        topics = [{"name": TOPIC, "partition_data": TRANSACTIONAL}]
        response = ask(wire, "Produce", 9, transactional_id=name, topic_data=topics, acks=-1)
        assert codes_in(response) == {"TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}


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
    api, version, fields, needs = COMMIT
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
    api, version, fields, _ = CASES["CreateTopics 4 needs CREATE topic new"]
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
