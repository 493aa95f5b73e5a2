"""Hostile requests of an authenticated user with all rights except on the cluster, and their errors.

Errors have Kafka's names, anywhere in a response.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from tests.broker.support.batches import batch

NONE: Final = ""
TOPIC, GROUP, TRANSACTION = "t", "g", "x"
INT32, INT64 = 2**31 - 1, 2**63 - 1
LONG = "x" * 32_767
ODD_NAMES: Final = {
    "a path": "../../etc/passwd",
    "a line end": "a\nb",
    "a terminal's commands": "\x1b[2J",
    "NUL": "a\0b",
    "a space": "a b",
    "no characters": "",
    "a dot": ".",
    "two dots": "..",
    "32,767 characters": LONG,
    "250 characters": "a" * 250,
    "an emoji": "\U0001f600",
}


@attrs.define(frozen=True)
class Attack:
    """One request by API, version and fields (others are empty), with its outcome."""

    api: str
    version: int
    fields: Mapping[str, Any]
    outcome: str
    """The different errors of the response in their order, separated by spaces."""


def produced(
    outcome: str,
    records: bytes | None = None,
    topic: str = TOPIC,
    partition: int = 0,
    *,
    transactional_id: str | None = None,
    acks: int = -1,
    times: int = 1,
    **header: Any,
) -> Attack:
    data = {"index": partition, "records": batch(**header) if records is None else records}
    topic_data = [{"name": topic, "partition_data": [data] * times}]
    return Attack(
        "Produce",
        12,
        {
            "acks": acks,
            "timeout_ms": 1000,
            "topic_data": topic_data,
            "transactional_id": transactional_id,
        },
        outcome,
    )


def cut(records: bytes, at: int, fmt: str, value: int) -> bytes:
    """Return a batch with another number in its header."""
    data = bytearray(records)
    struct.pack_into(fmt, data, at, value)
    return bytes(data)


PRODUCING: Final = {
    "a control batch": produced("INVALID_RECORD", attributes=0x20),
    "an incorrect checksum": produced("CORRUPT_MESSAGE", corrupt=True),
    "no batch": produced("INVALID_RECORD", b""),
    "bytes that are no batch": produced("CORRUPT_MESSAGE", bytes(61)),
    "a batch of negative length": produced("CORRUPT_MESSAGE", cut(batch(), 8, ">i", -5)),
    "a batch of 2 GiB that is not there": produced("INVALID_RECORD", cut(batch(), 8, ">i", INT32)),
    "2,147,483,647 records": produced("INVALID_RECORD", count=INT32, last_offset_delta=INT32 - 1),
    "a count below zero": produced("INVALID_RECORD", count=-1, last_offset_delta=-2),
    "an unknown codec": produced("UNKNOWN_SERVER_ERROR", attributes=7),
    "damage in compressed data": produced("UNKNOWN_SERVER_ERROR", topic="raw", codec=1, damage=True),
    "the message format of 2014": produced("INVALID_RECORD", magic=0),
    "a message format of the future": produced("CORRUPT_MESSAGE", magic=9),
    "the end of time": produced("INVALID_TIMESTAMP", timestamp=INT64),
    "a time before all time": produced("INVALID_TIMESTAMP", timestamp=-(2**63)),
    "acks=7": produced("INVALID_REQUIRED_ACKS", acks=7),
    "partition -1": produced("UNKNOWN_TOPIC_OR_PARTITION", partition=-1),
    "partition 2,147,483,647": produced("UNKNOWN_TOPIC_OR_PARTITION", partition=INT32),
    "a topic with a path for a name": produced("UNKNOWN_TOPIC_OR_PARTITION", topic="../../etc/passwd"),
    "a topic of the brokers' own": produced("INVALID_TOPIC_EXCEPTION", topic="__consumer_offsets"),
    "a sequence below zero": produced("INVALID_RECORD", producer_id=9, producer_epoch=0, base_sequence=-7),
    "a transaction without a beginning": produced(
        "INVALID_PRODUCER_ID_MAPPING",
        transactional_id=TRANSACTION,
        attributes=0x10,
        producer_id=4_000,
        producer_epoch=0,
        base_sequence=0,
    ),
    "a transactional batch without a transactional id": produced(
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        attributes=0x10,
        producer_id=4_001,
        producer_epoch=0,
        base_sequence=0,
    ),
}


def fetched(
    outcome: str, version: int = 12, *, partition: Mapping[str, Any] | None = None, **fields: Any
) -> Attack:
    requested = {"partition": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1, **(partition or {})}
    return Attack(
        "Fetch",
        version,
        {
            "replica_id": -1,
            "topics": [{"topic": TOPIC, "partitions": [requested]}],
            "session_epoch": -1,
            **fields,
        },
        outcome,
    )


FETCHING: Final = {
    "a follower's fetch": fetched("TOPIC_AUTHORIZATION_FAILED", replica_id=0),
    "a follower's fetch by its state": Attack(
        "Fetch", 15, {"replica_state": {"replica_id": 0, "replica_epoch": 1}}, NONE
    ),
    "a session of another client": fetched("FETCH_SESSION_ID_NOT_FOUND", session_id=12345, session_epoch=1),
    "a session of a negative epoch": fetched("FETCH_SESSION_ID_NOT_FOUND", session_id=-7, session_epoch=-9),
    "an offset below zero": fetched("OFFSET_OUT_OF_RANGE", partition={"fetch_offset": -5}),
    "an offset at the end of numbers": fetched("OFFSET_OUT_OF_RANGE", partition={"fetch_offset": INT64}),
    "an epoch of the future": fetched("UNKNOWN_LEADER_EPOCH", partition={"current_leader_epoch": 999}),
    "an unknown isolation level": fetched("UNKNOWN_SERVER_ERROR", isolation_level=9),
    "partition -1 to read": fetched("UNKNOWN_TOPIC_OR_PARTITION", partition={"partition": -1}),
    "bytes below zero": fetched(
        "UNKNOWN_SERVER_ERROR", max_bytes=-1, min_bytes=-1, partition={"partition_max_bytes": -1}
    ),
    "a wait below zero": fetched(NONE, max_wait_ms=-5, min_bytes=INT32),
    "offsets of all times": Attack(
        "ListOffsets",
        9,
        {
            "replica_id": 99,
            "isolation_level": 0,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -99}]}],
        },
        "UNSUPPORTED_VERSION",
    ),
    "an end of an epoch below zero": Attack(
        "OffsetForLeaderEpoch",
        4,
        {
            "replica_id": -2,
            "topics": [
                {
                    "topic": TOPIC,
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": -9}],
                }
            ],
        },
        NONE,
    ),
    "records deleted beyond the end": Attack(
        "DeleteRecords",
        2,
        {
            "timeout_ms": 1000,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": INT64}]}],
        },
        "OFFSET_OUT_OF_RANGE",
    ),
    "records deleted before the beginning": Attack(
        "DeleteRecords",
        2,
        {
            "timeout_ms": 1000,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": -7}]}],
        },
        "OFFSET_OUT_OF_RANGE",
    ),
}


def joined(outcome: str, **fields: Any) -> Attack:
    protocols = [{"name": "range", "metadata": b""}]
    return Attack(
        "JoinGroup",
        9,
        {
            "group_id": GROUP,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": protocols,
            **fields,
        },
        outcome,
    )


def heartbeat(outcome: str, **fields: Any) -> Attack:
    return Attack(
        "ConsumerGroupHeartbeat",
        1,
        {
            "group_id": "g8",
            "member_id": "m",
            "member_epoch": 0,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": [TOPIC],
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [],
            **fields,
        },
        outcome,
    )


def committed(
    outcome: str, metadata: str = "", generation: int = -1, offset: int = 1, index: int = 0
) -> Attack:
    partition = {
        "partition_index": index,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": metadata,
    }
    topics = [{"name": TOPIC, "partitions": [partition]}]
    fields = {"group_id": GROUP, "generation_id_or_member_epoch": generation, "topics": topics}
    return Attack("OffsetCommit", 9, fields, outcome)


GROUPS: Final = {
    "a group without a name": joined("INVALID_GROUP_ID", group_id=""),
    "a session of no time": joined("INVALID_SESSION_TIMEOUT", session_timeout_ms=0),
    "a session of 24 days": joined("INVALID_SESSION_TIMEOUT", session_timeout_ms=INT32),
    "a session below zero": joined("INVALID_SESSION_TIMEOUT", session_timeout_ms=-1),
    "no protocols": joined("INCONSISTENT_GROUP_PROTOCOL", protocols=[]),
    "no kind of protocol": joined("INCONSISTENT_GROUP_PROTOCOL", protocol_type=""),
    "an unknown member": joined("UNKNOWN_MEMBER_ID", member_id="another member"),
    "a member's id of 32,767 characters": joined("UNKNOWN_MEMBER_ID", member_id=LONG),
    "an assignment for others": Attack(
        "SyncGroup",
        5,
        {
            "group_id": GROUP,
            "generation_id": 1,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": "another member", "assignment": b"x" * 100_000}],
        },
        "UNKNOWN_MEMBER_ID",
    ),
    "a heartbeat of a generation below zero": Attack(
        "Heartbeat", 4, {"group_id": GROUP, "generation_id": -9, "member_id": "m"}, "UNKNOWN_MEMBER_ID"
    ),
    "3,000 members that leave": Attack(
        "LeaveGroup",
        5,
        {"group_id": GROUP, "members": [{"member_id": f"m{n}", "reason": ""} for n in range(3_000)]},
        "UNKNOWN_MEMBER_ID",
    ),
    "an epoch that no member has": heartbeat("INVALID_REQUEST", member_epoch=-7),
    "no rebalance timeout": heartbeat("INVALID_REQUEST", rebalance_timeout_ms=-1),
    "an assignor that does not exist": heartbeat("UNSUPPORTED_ASSIGNOR", server_assignor="evil"),
    "a pattern with catastrophic backtracking": heartbeat(
        NONE, group_id="g9", subscribed_topic_names=None, subscribed_topic_regex="(a+)+$"
    ),
    "a pattern of a billion repetitions": heartbeat(
        "INVALID_REGULAR_EXPRESSION",
        subscribed_topic_names=None,
        subscribed_topic_regex="((a{1000}){1000}){1000}",
    ),
    "a pattern of 32,767 characters": heartbeat(
        "INVALID_REGULAR_EXPRESSION", subscribed_topic_names=None, subscribed_topic_regex=LONG
    ),
    "a pattern of nested brackets": heartbeat(
        "INVALID_REGULAR_EXPRESSION",
        subscribed_topic_names=None,
        subscribed_topic_regex="(" * 500 + ")" * 500,
    ),
    "partitions owned without an assignment": heartbeat(
        "INVALID_REQUEST", topic_partitions=[{"topic_id": bytes(16), "partitions": [1, 2, 3]}]
    ),
    "a commit of an unknown generation": committed("UNKNOWN_MEMBER_ID", generation=5),
    "a commit with 32 KiB of metadata": committed("OFFSET_METADATA_TOO_LARGE", metadata=LONG),
    "a commit below zero": committed(NONE, offset=-5),
    "a commit of partition -1": committed("UNKNOWN_TOPIC_OR_PARTITION", index=-1),
    "a group deleted that does not exist": Attack(
        "DeleteGroups", 2, {"groups_names": ["unknown"]}, "GROUP_ID_NOT_FOUND"
    ),
    "1,000 groups described": Attack(
        "DescribeGroups", 6, {"groups": [f"none-{n}" for n in range(1_000)]}, "GROUP_ID_NOT_FOUND"
    ),
    "a coordinator of an unknown type": Attack(
        "FindCoordinator", 6, {"key_type": 9, "coordinator_keys": ["a"]}, "INVALID_REQUEST"
    ),
    "a coordinator of nothing": Attack("FindCoordinator", 6, {"key_type": 0, "coordinator_keys": []}, NONE),
}

PRODUCER = {"transactional_id": TRANSACTION, "producer_id": 4_000, "producer_epoch": 0}

TRANSACTIONS: Final = {
    "a transaction of 24 days": Attack(
        "InitProducerId",
        5,
        {
            "transactional_id": TRANSACTION,
            "transaction_timeout_ms": INT32,
            "producer_id": -1,
            "producer_epoch": -1,
        },
        "INVALID_TRANSACTION_TIMEOUT",
    ),
    "a transaction of no time": Attack(
        "InitProducerId",
        5,
        {
            "transactional_id": TRANSACTION,
            "transaction_timeout_ms": 0,
            "producer_id": -1,
            "producer_epoch": -1,
        },
        "INVALID_TRANSACTION_TIMEOUT",
    ),
    "a transactional id without characters": Attack(
        "InitProducerId",
        5,
        {"transactional_id": "", "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1},
        "INVALID_REQUEST",
    ),
    "a producer's id of one's own making": Attack(
        "InitProducerId",
        5,
        {"transactional_id": "x2", "transaction_timeout_ms": 1000, "producer_id": 4_000, "producer_epoch": 3},
        NONE,
    ),
    "a producer without an epoch": Attack(
        "InitProducerId",
        5,
        {
            "transactional_id": "x2",
            "transaction_timeout_ms": 1000,
            "producer_id": 4_000,
            "producer_epoch": -1,
        },
        "INVALID_REQUEST",
    ),
    "partitions in an unknown transaction": Attack(
        "AddPartitionsToTxn",
        3,
        {
            "v3_and_below_transactional_id": TRANSACTION,
            "v3_and_below_producer_id": 4_000,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
        },
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    "partitions added as brokers do": Attack(
        "AddPartitionsToTxn",
        4,
        {"transactions": [{**PRODUCER, "verify_only": True, "topics": [{"name": TOPIC, "partitions": [0]}]}]},
        "CLUSTER_AUTHORIZATION_FAILED",
    ),
    "offsets in an unknown transaction": Attack(
        "AddOffsetsToTxn", 4, {**PRODUCER, "group_id": GROUP}, "INVALID_PRODUCER_ID_MAPPING"
    ),
    "a commit of an unknown transaction": Attack(
        "EndTxn", 4, {**PRODUCER, "committed": True}, "INVALID_PRODUCER_ID_MAPPING"
    ),
    "offsets committed in an unknown transaction": Attack(
        "TxnOffsetCommit",
        4,
        {
            **PRODUCER,
            "group_id": GROUP,
            "generation_id_or_member_epoch": -1,
            "topics": [
                {
                    "name": TOPIC,
                    "partitions": [
                        {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
                    ],
                }
            ],
        },
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    "markers of one's own": Attack(
        "WriteTxnMarkers",
        1,
        {
            "markers": [
                {
                    "producer_id": 4_000,
                    "transaction_result": True,
                    "coordinator_epoch": 0,
                    "topics": [{"name": TOPIC, "partition_indexes": [0]}],
                }
            ]
        },
        "CLUSTER_AUTHORIZATION_FAILED",
    ),
    "a state of transactions that does not exist": Attack(
        "ListTransactions", 1, {"state_filters": [LONG], "duration_filter": -(2**63)}, NONE
    ),
    "transactions by a pattern with catastrophic backtracking": Attack(
        "ListTransactions", 2, {"duration_filter": -1, "transactional_id_pattern": "(a+)+$"}, NONE
    ),
    "transactions by a pattern of a billion repetitions": Attack(
        "ListTransactions",
        2,
        {"duration_filter": -1, "transactional_id_pattern": "((a{1000}){1000}){1000}"},
        "INVALID_REGULAR_EXPRESSION",
    ),
}


def paged(outcome: str, limit: int = 10, **cursor: Any) -> Attack:
    fields: dict[str, Any] = {"topics": [{"name": TOPIC}], "response_partition_limit": limit, "cursor": None}
    if cursor:
        fields["cursor"] = {"topic_name": TOPIC, "partition_index": 0, **cursor}
    return Attack("DescribeTopicPartitions", 0, fields, outcome)


CURSORS: Final = {
    "a cursor at partition -1": paged("INVALID_REQUEST", partition_index=-1),
    "a cursor at partition 2,147,483,647": paged(NONE, partition_index=INT32),
    "a cursor at a topic outside the request": paged("INVALID_REQUEST", topic_name="nosuch"),
    "a cursor with a path": paged("INVALID_REQUEST", topic_name="../../etc/passwd"),
    "a page of nothing": paged(NONE, 0),
    "a page below zero": paged(NONE, -1),
    "a page of 2,147,483,647": paged(NONE, INT32),
}

CLUSTER: Final = {
    "access rules": Attack(
        "DescribeAcls",
        3,
        {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
        "CLUSTER_AUTHORIZATION_FAILED",
    ),
    "a rule for oneself": Attack(
        "CreateAcls",
        3,
        {
            "creations": [
                {
                    "resource_type": 4,
                    "resource_name": "kafka-cluster",
                    "resource_pattern_type": 3,
                    "principal": "User:bob",
                    "host": "*",
                    "operation": 2,
                    "permission_type": 3,
                }
            ]
        },
        "CLUSTER_AUTHORIZATION_FAILED",
    ),
    "another's password": Attack(
        "AlterUserScramCredentials",
        0,
        {
            "deletions": [],
            "upsertions": [
                {
                    "name": "ann",
                    "mechanism": 1,
                    "iterations": 4096,
                    "salt": b"s",
                    "salted_password": b"p" * 32,
                }
            ],
        },
        "CLUSTER_AUTHORIZATION_FAILED",
    ),
    "a broker unregistered": Attack("UnregisterBroker", 0, {"broker_id": 0}, "CLUSTER_AUTHORIZATION_FAILED"),
    "features taken away": Attack(
        "UpdateFeatures",
        1,
        {
            "timeout_ms": 1000,
            "feature_updates": [{"feature": "group.version", "max_version_level": 0, "upgrade_type": 2}],
        },
        "CLUSTER_AUTHORIZATION_FAILED",
    ),
    "leaders elected": Attack(
        "ElectLeaders",
        2,
        {"election_type": 1, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout_ms": 1000},
        "CLUSTER_AUTHORIZATION_FAILED",
    ),
    "a broker's options": Attack(
        "IncrementalAlterConfigs",
        1,
        {
            "resources": [
                {
                    "resource_type": 4,
                    "resource_name": "0",
                    "configs": [{"name": "super.users", "config_operation": 0, "value": "User:bob"}],
                }
            ]
        },
        "CLUSTER_AUTHORIZATION_FAILED",
    ),
    "a delegation token in another's name": Attack(
        "CreateDelegationToken",
        3,
        {
            "owner_principal_type": "User",
            "owner_principal_name": "ann",
            "renewers": [],
            "max_lifetime_ms": INT64,
        },
        "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    ),
    "a delegation token that is not one": Attack(
        "RenewDelegationToken", 2, {"hmac": b"x" * 64, "renew_period_ms": INT64}, "DELEGATION_TOKEN_NOT_FOUND"
    ),
}


def created(outcome: str, name: str, **topic: Any) -> Attack:
    fields = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], **topic}
    return Attack(
        "CreateTopics", 7, {"topics": [fields], "timeout_ms": 1000, "validate_only": False}, outcome
    )


NAMES: Final = {
    **{f"a topic named {what}": created("INVALID_TOPIC_EXCEPTION", name) for what, name in ODD_NAMES.items()},
    "a topic of 2,147,483,647 partitions": created("POLICY_VIOLATION", "big", num_partitions=INT32),
    "a topic of -5 partitions": created("INVALID_PARTITIONS", "small", num_partitions=-5),
    "a topic of 32,767 replicas": created("INVALID_REPLICATION_FACTOR", "wide", replication_factor=32_767),
    "a topic on brokers that do not exist": created(
        "INVALID_REPLICA_ASSIGNMENT",
        "far",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[{"partition_index": 0, "broker_ids": [99]}],
    ),
    "partitions beyond all bounds": Attack(
        "CreatePartitions",
        3,
        {"topics": [{"name": TOPIC, "count": INT32, "assignments": None}], "timeout_ms": 1000},
        "POLICY_VIOLATION",
    ),
    "an option that does not exist": created(
        "INVALID_CONFIG", "odd", configs=[{"name": "evil\nkey", "value": "\x1b[2J"}]
    ),
}

ATTACKS: Final = {
    name: attack
    for attacks in (PRODUCING, FETCHING, GROUPS, TRANSACTIONS, CURSORS, CLUSTER, NAMES)
    for name, attack in attacks.items()
}


def metadata_of(count: int) -> Attack:
    topics = [{"name": f"nosuch-{n}", "topic_id": bytes(16)} for n in range(count)]
    return Attack("Metadata", 12, {"topics": topics, "allow_auto_topic_creation": False}, "")


def groups_described(count: int) -> Attack:
    return Attack("DescribeGroups", 6, {"groups": [f"none-{n}" for n in range(count)]}, "")


def partitions_fetched(count: int) -> Attack:
    partitions = [{"partition": n} for n in range(count)]
    topics = [{"topic": TOPIC, "partitions": partitions}]
    return Attack("Fetch", 12, {"replica_id": -1, "session_epoch": 0, "topics": topics}, "")


def partitions_produced(count: int) -> Attack:
    data = [{"index": n + 1, "records": batch()} for n in range(count)]
    fields = {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": TOPIC, "partition_data": data}]}
    return Attack("Produce", 12, fields, "")


def coordinators_found(count: int) -> Attack:
    return Attack("FindCoordinator", 6, {"key_type": 0, "coordinator_keys": ["a"] * count}, "")


def offsets_fetched(count: int) -> Attack:
    groups = [{"group_id": f"g{n}", "member_epoch": -1, "topics": None} for n in range(count)]
    return Attack("OffsetFetch", 9, {"groups": groups}, "")


def partitions_moved_in_a_transaction(count: int) -> Attack:
    topics = [{"name": TOPIC, "partitions": list(range(count))}]
    return Attack(
        "AddPartitionsToTxn",
        3,
        {"v3_and_below_transactional_id": TRANSACTION, "v3_and_below_topics": topics},
        "",
    )


def protocols_offered(count: int) -> Attack:
    return joined("", protocols=[{"name": f"p{n}", "metadata": b""} for n in range(count)])


MANY: Final[dict[str, Callable[[int], Attack]]] = {
    "topics that do not exist": metadata_of,
    "groups that do not exist": groups_described,
    "partitions to fetch": partitions_fetched,
    "partitions to produce to": partitions_produced,
    "coordinators": coordinators_found,
    "groups' offsets": offsets_fetched,
    "partitions in a transaction": partitions_moved_in_a_transaction,
    "protocols of a group": protocols_offered,
}
"""Requests with many elements, by their number."""
