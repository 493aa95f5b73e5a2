"""Requests that no honest client sends, each with the errors in its response.

They come from an authenticated user with access to every topic, group and transactional id, but not to the
cluster. Errors have Kafka's names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from pykafka2.protocol import registry
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.struct import Request, Struct
from tests.broker.support.batches import batch, in_transaction
from tests.conformance.behaviour.plain import request_of

NONE: Final = ""
TOPIC, GROUP, TRANSACTION = "t", "g", "x"
INT32, INT64 = 2**31 - 1, 2**63 - 1
LONG = "x" * 32_767
BILLION = "((a{1000}){1000}){1000}"
"""A pattern of a billion repetitions."""
ODD_NAMES: Final = {
    "a path": "../../etc/passwd",
    "a line end": "a\nb",
    "a terminal's commands": "\x1b[2J",
    "NUL": "a\0b",
    "a space": "a b",
    "no characters": "",
    "a point": ".",
    "two points": "..",
    "32,767 characters": LONG,
    "250 characters": "a" * 250,
    "letters of no alphabet": "\U0001f600",
}


@attrs.define(frozen=True)
class Attack:
    """One request by API and version, and the errors in its response, each once and in order.

    Values are by path; "topics.partitions.offset" makes one element in each list. Fields without a value hold
    nothing, or zero.
    """

    api: str
    version: int
    outcome: str
    values: Mapping[str, Any]

    @property
    def request(self) -> Request[Any]:
        info = next(one for one in registry.API_KEYS.values() if one.name == self.api)
        return request_of(self.api, nested(registry.request_class(info.key), self.values))


Attacks = dict[str, Attack]


def nested(cls: type[Struct], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested fields from values by path."""
    fields = {one.name: one for one in resolved_fields(cls)}
    found: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        name, _, rest = path.partition(".")
        if rest:
            inner.setdefault(name, {})[rest] = value
        else:
            found[name] = value
    for name, rests in inner.items():
        struct = fields[name].struct
        assert struct is not None, name
        element = nested(struct, rests)
        found[name] = [element] if fields[name].array else element
    return found


def produced(
    outcome: str,
    records: bytes | None = None,
    topic: str = TOPIC,
    partition: int = 0,
    *,
    transactional_id: str | None = None,
    acks: int = -1,
    **header: Any,
) -> Attack:
    data = {"index": partition, "records": batch(**header) if records is None else records}
    values = {
        "acks": acks,
        "timeout_ms": 1000,
        "transactional_id": transactional_id,
        "topic_data.name": topic,
        "topic_data.partition_data": [data],
    }
    return Attack("Produce", 12, outcome, values)


def cut(records: bytes, at: int, fmt: str, value: int) -> bytes:
    """A batch with another number somewhere in its header."""
    data = bytearray(records)
    struct.pack_into(fmt, data, at, value)
    return bytes(data)


PRODUCING: Final = {
    "a control batch": produced("INVALID_RECORD", attributes=0x20),
    "a wrong checksum": produced("CORRUPT_MESSAGE", corrupt=True),
    "no batch": produced("INVALID_RECORD", b""),
    "bytes that are no batch": produced("CORRUPT_MESSAGE", bytes(61)),
    "a batch of negative length": produced("CORRUPT_MESSAGE", cut(batch(), 8, ">i", -5)),
    "a batch of 2 GiB that is missing": produced("INVALID_RECORD", cut(batch(), 8, ">i", INT32)),
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
    "an internal topic": produced("INVALID_TOPIC_EXCEPTION", topic="__consumer_offsets"),
    "a sequence below zero": produced("INVALID_RECORD", producer_id=9, producer_epoch=0, base_sequence=-7),
    "a transaction that was not started": produced(
        "INVALID_PRODUCER_ID_MAPPING", in_transaction([b"value"], 4_000), transactional_id=TRANSACTION
    ),
    "a transactional batch without a transactional id": produced(
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", in_transaction([b"value"], 4_001)
    ),
}


def fetched(outcome: str, *, partition: Mapping[str, Any] | None = None, **fields: Any) -> Attack:
    requested = {"partition": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1, **(partition or {})}
    values = {"topics.topic": TOPIC, "topics.partitions": [requested]}
    return Attack("Fetch", 12, outcome, {"replica_id": -1, "session_epoch": -1, **values, **fields})


FETCHING: Final = {
    "a follower's fetch": fetched("TOPIC_AUTHORIZATION_FAILED", replica_id=0),
    "a follower's fetch by its state": Attack(
        "Fetch", 15, NONE, {"replica_state.replica_id": 0, "replica_state.replica_epoch": 1}
    ),
    "another client's session": fetched("FETCH_SESSION_ID_NOT_FOUND", session_id=12345, session_epoch=1),
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
        "UNSUPPORTED_VERSION",
        {"replica_id": 99, "topics.name": "t", "topics.partitions.timestamp": -99},
    ),
    "an end of an epoch below zero": Attack(
        "OffsetForLeaderEpoch", 4, NONE, {"topics.topic": "t", "topics.partitions.leader_epoch": -9}
    ),
    **{
        f"records deleted {where}": Attack(
            "DeleteRecords",
            2,
            "OFFSET_OUT_OF_RANGE",
            {"timeout_ms": 1_000, "topics.name": "t", "topics.partitions.offset": offset},
        )
        for where, offset in (("beyond the end", INT64), ("before the beginning", -7))
    },
}


def joined(outcome: str, **fields: Any) -> Attack:
    usual = {"group_id": GROUP, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
    protocols = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
    return Attack("JoinGroup", 9, outcome, {**usual, **protocols, **fields})


def heartbeat(outcome: str, **fields: Any) -> Attack:
    usual = {"group_id": "g8", "member_id": "m", "rebalance_timeout_ms": 10_000, "topic_partitions": []}
    if "subscribed_topic_regex" not in fields:
        usual["subscribed_topic_names"] = [TOPIC]
    return Attack("ConsumerGroupHeartbeat", 1, outcome, {**usual, **fields})


def committed(
    outcome: str, metadata: str = "", generation: int = -1, offset: int = 1, index: int = 0
) -> Attack:
    values = {
        "group_id": GROUP,
        "generation_id_or_member_epoch": generation,
        "topics.name": TOPIC,
        "topics.partitions.partition_index": index,
        "topics.partitions.committed_offset": offset,
        "topics.partitions.committed_metadata": metadata,
    }
    return Attack("OffsetCommit", 9, outcome, values)


GROUPS: Final = {
    "a group without a name": joined("INVALID_GROUP_ID", group_id=""),
    "a session of no time": joined("INVALID_SESSION_TIMEOUT", session_timeout_ms=0),
    "a session of 24 days": joined("INVALID_SESSION_TIMEOUT", session_timeout_ms=INT32),
    "a session below zero": joined("INVALID_SESSION_TIMEOUT", session_timeout_ms=-1),
    "no protocols": joined("INCONSISTENT_GROUP_PROTOCOL", protocols=[]),
    "no kind of protocol": joined("INCONSISTENT_GROUP_PROTOCOL", protocol_type=""),
    "an unknown member": joined("UNKNOWN_MEMBER_ID", member_id="another"),
    "a member's id of 32,767 characters": joined("UNKNOWN_MEMBER_ID", member_id=LONG),
    "an assignment for others": Attack(
        "SyncGroup",
        5,
        "UNKNOWN_MEMBER_ID",
        {
            "group_id": "g",
            "generation_id": 1,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments.member_id": "another",
            "assignments.assignment": b"x" * 100000,
        },
    ),
    "a heartbeat of a generation below zero": Attack(
        "Heartbeat", 4, "UNKNOWN_MEMBER_ID", {"group_id": "g", "generation_id": -9, "member_id": "m"}
    ),
    "3,000 members that leave": Attack(
        "LeaveGroup",
        5,
        "UNKNOWN_MEMBER_ID",
        {"group_id": GROUP, "members": [{"member_id": f"m{n}", "reason": ""} for n in range(3_000)]},
    ),
    "an epoch below -2": heartbeat("INVALID_REQUEST", member_epoch=-7),
    "a join without a rebalance timeout": heartbeat("INVALID_REQUEST", rebalance_timeout_ms=-1),
    "an unknown assignor": heartbeat("UNSUPPORTED_ASSIGNOR", server_assignor="evil"),
    "a pattern with endless backtracking": heartbeat(NONE, group_id="g9", subscribed_topic_regex="(a+)+$"),
    **{
        name: heartbeat("INVALID_REGULAR_EXPRESSION", subscribed_topic_regex=pattern)
        for name, pattern in {
            "a pattern of a billion repetitions": BILLION,
            "a pattern of 32,767 characters": LONG,
            "a pattern in brackets without end": "(" * 500 + ")" * 500,
        }.items()
    },
    "owned partitions that were never assigned": heartbeat(
        "INVALID_REQUEST", topic_partitions=[{"topic_id": bytes(16), "partitions": [1, 2, 3]}]
    ),
    "a commit of a generation without a member": committed("UNKNOWN_MEMBER_ID", generation=5),
    "a commit with 32 KiB of metadata": committed("OFFSET_METADATA_TOO_LARGE", metadata=LONG),
    "a commit below zero": committed(NONE, offset=-5),
    "a commit of partition -1": committed("UNKNOWN_TOPIC_OR_PARTITION", index=-1),
    "deletion of an unknown group": Attack(
        "DeleteGroups", 2, "GROUP_ID_NOT_FOUND", {"groups_names": ["unknown"]}
    ),
    "1,000 groups described": Attack(
        "DescribeGroups", 6, "GROUP_ID_NOT_FOUND", {"groups": [f"none-{n}" for n in range(1_000)]}
    ),
    "a coordinator of an unknown type": Attack(
        "FindCoordinator", 6, "INVALID_REQUEST", {"key_type": 9, "coordinator_keys": ["a"]}
    ),
    "a coordinator of nothing": Attack("FindCoordinator", 6, NONE, {}),
}


def rejected(api: str, version: int, outcome: str, requests: Mapping[str, Mapping[str, Any]]) -> Attacks:
    """Return requests of one API with the same errors, by their names."""
    return {name: Attack(api, version, outcome, values) for name, values in requests.items()}


ANOTHER: Final = {"transactional_id": "x2", "transaction_timeout_ms": 1_000}
UNKNOWN_ID: Final = "INVALID_PRODUCER_ID_MAPPING"
NOT_STARTED: Final = {"transactional_id": TRANSACTION, "producer_id": 4_000}
TRANSACTIONS: Final = {
    **rejected(
        "InitProducerId",
        5,
        "INVALID_TRANSACTION_TIMEOUT",
        {
            "a transaction of 24 days": {"transactional_id": "x", "transaction_timeout_ms": INT32},
            "a transaction of no time": {"transactional_id": "x"},
        },
    ),
    **rejected(
        "InitProducerId",
        5,
        "INVALID_REQUEST",
        {
            "a transactional id without characters": {"transaction_timeout_ms": 1_000},
            "a producer without an epoch": {**ANOTHER, "producer_id": 4_000},
        },
    ),
    "an invented producer id": Attack(
        "InitProducerId", 5, NONE, {**ANOTHER, "producer_id": 4_000, "producer_epoch": 3}
    ),
    "partitions of an unknown transaction": Attack(
        "AddPartitionsToTxn",
        3,
        UNKNOWN_ID,
        {
            **{f"v3_and_below_{name}": value for name, value in NOT_STARTED.items()},
            "v3_and_below_topics.name": TOPIC,
            "v3_and_below_topics.partitions": [0],
        },
    ),
    "partitions added as brokers do": Attack(
        "AddPartitionsToTxn",
        4,
        "CLUSTER_AUTHORIZATION_FAILED",
        {
            **{f"transactions.{name}": value for name, value in NOT_STARTED.items()},
            "transactions.verify_only": True,
            "transactions.topics.name": TOPIC,
            "transactions.topics.partitions": [0],
        },
    ),
    "offsets of an unknown transaction": Attack(
        "AddOffsetsToTxn", 4, UNKNOWN_ID, {**NOT_STARTED, "group_id": GROUP}
    ),
    "a commit of an unknown transaction": Attack("EndTxn", 4, UNKNOWN_ID, {**NOT_STARTED, "committed": True}),
    "committed offsets of an unknown transaction": Attack(
        "TxnOffsetCommit",
        4,
        UNKNOWN_ID,
        {**NOT_STARTED, "group_id": GROUP, "topics.name": TOPIC, "topics.partitions.committed_offset": 1},
    ),
    "an unknown state of transactions": Attack(
        "ListTransactions", 1, NONE, {"state_filters": [LONG], "duration_filter": -(2**63)}
    ),
    "transactions by a pattern with endless backtracking": Attack(
        "ListTransactions", 2, NONE, {"transactional_id_pattern": "(a+)+$"}
    ),
    "transactions by a pattern of a billion repetitions": Attack(
        "ListTransactions", 2, "INVALID_REGULAR_EXPRESSION", {"transactional_id_pattern": BILLION}
    ),
}


def paged(outcome: str, limit: int = 10, **cursor: Any) -> Attack:
    place = {"topic_name": TOPIC, "partition_index": 0, **cursor} if cursor else None
    values = {"topics.name": TOPIC, "response_partition_limit": limit, "cursor": place}
    return Attack("DescribeTopicPartitions", 0, outcome, values)


CURSORS: Final = {
    "a cursor at partition -1": paged("INVALID_REQUEST", partition_index=-1),
    "a cursor at partition 2,147,483,647": paged(NONE, partition_index=INT32),
    "a cursor at a topic that was not requested": paged("INVALID_REQUEST", topic_name="nosuch"),
    "a cursor with a path": paged("INVALID_REQUEST", topic_name="../../etc/passwd"),
    "a page of nothing": paged(NONE, 0),
    "a page below zero": paged(NONE, -1),
    "a page of 2,147,483,647": paged(NONE, INT32),
}

CLUSTER: Final = {
    name: Attack(api, version, "CLUSTER_AUTHORIZATION_FAILED", values)
    for name, (api, version, values) in {
        "access rules": (
            "DescribeAcls",
            3,
            {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
        ),
        "a rule for oneself": (
            "CreateAcls",
            3,
            {
                "creations.resource_type": 4,
                "creations.resource_name": "kafka-cluster",
                "creations.principal": "User:bob",
                "creations.host": "*",
                "creations.operation": 2,
                "creations.permission_type": 3,
            },
        ),
        "another's password": (
            "AlterUserScramCredentials",
            0,
            {
                "upsertions.name": "ann",
                "upsertions.mechanism": 1,
                "upsertions.iterations": 4_096,
                "upsertions.salt": b"s",
                "upsertions.salted_password": b"p" * 32,
            },
        ),
        "markers of a client": (
            "WriteTxnMarkers",
            1,
            {
                "markers.producer_id": 4_000,
                "markers.transaction_result": True,
                "markers.topics.name": TOPIC,
                "markers.topics.partition_indexes": [0],
            },
        ),
        "a broker unregistered": ("UnregisterBroker", 0, {}),
        "features taken away": (
            "UpdateFeatures",
            1,
            {
                "timeout_ms": 1_000,
                "feature_updates.feature": "group.version",
                "feature_updates.upgrade_type": 2,
            },
        ),
        "leaders elected": (
            "ElectLeaders",
            2,
            {
                "election_type": 1,
                "topic_partitions.topic": TOPIC,
                "topic_partitions.partitions": [0],
                "timeout_ms": 1_000,
            },
        ),
        "a broker's options": (
            "IncrementalAlterConfigs",
            1,
            {
                "resources.resource_type": 4,
                "resources.resource_name": "0",
                "resources.configs.name": "super.users",
                "resources.configs.value": "User:bob",
            },
        ),
    }.items()
}
TOKENS: Final = {
    "a delegation token in another's name": Attack(
        "CreateDelegationToken",
        3,
        "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
        {"owner_principal_type": "User", "owner_principal_name": "ann", "max_lifetime_ms": INT64},
    ),
    "a delegation token that is not one": Attack(
        "RenewDelegationToken", 2, "DELEGATION_TOKEN_NOT_FOUND", {"hmac": b"x" * 64, "renew_period_ms": INT64}
    ),
}


def created(outcome: str, name: str, **topic: Any) -> Attack:
    fields = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], **topic}
    return Attack("CreateTopics", 7, outcome, {"timeout_ms": 1000, "topics": [fields]})


NAMES: Final = {
    **{
        f"a topic called {kind}": created("INVALID_TOPIC_EXCEPTION", name) for kind, name in ODD_NAMES.items()
    },
    "a topic of 2,147,483,647 partitions": created("POLICY_VIOLATION", "big", num_partitions=INT32),
    "a topic of -5 partitions": created("INVALID_PARTITIONS", "small", num_partitions=-5),
    "a topic of 32,767 replicas": created("INVALID_REPLICATION_FACTOR", "wide", replication_factor=32_767),
    "a topic on unknown brokers": created(
        "INVALID_REPLICA_ASSIGNMENT",
        "far",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[{"partition_index": 0, "broker_ids": [99]}],
    ),
    "partitions beyond all bounds": Attack(
        "CreatePartitions",
        3,
        "POLICY_VIOLATION",
        {"topics.name": "t", "topics.count": INT32, "topics.assignments": None, "timeout_ms": 1_000},
    ),
    "an unknown option": created(
        "INVALID_CONFIG", "odd", configs=[{"name": "evil\nkey", "value": "\x1b[2J"}]
    ),
}

ATTACKS: Final = {
    name: attack
    for attacks in (PRODUCING, FETCHING, GROUPS, TRANSACTIONS, CURSORS, CLUSTER, TOKENS, NAMES)
    for name, attack in attacks.items()
}


MANY: Final[dict[str, Callable[[int], Attack]]] = {
    "unknown topics": lambda count: Attack(
        "Metadata",
        12,
        NONE,
        {"topics": [{"name": f"nosuch-{n}"} for n in range(count)], "allow_auto_topic_creation": False},
    ),
    "unknown groups": lambda count: Attack(
        "DescribeGroups", 6, NONE, {"groups": [f"none-{n}" for n in range(count)]}
    ),
    "partitions to fetch": lambda count: fetched(
        NONE, session_epoch=0, **{"topics.partitions": [{"partition": n} for n in range(count)]}
    ),
    "partitions to produce to": lambda count: Attack(
        "Produce",
        12,
        NONE,
        {
            "acks": 1,
            "timeout_ms": 1000,
            "topic_data.name": TOPIC,
            "topic_data.partition_data": [{"index": n + 1, "records": batch()} for n in range(count)],
        },
    ),
    "coordinators": lambda count: Attack("FindCoordinator", 6, NONE, {"coordinator_keys": ["a"] * count}),
    "groups' offsets": lambda count: Attack(
        "OffsetFetch",
        9,
        NONE,
        {"groups": [{"group_id": f"g{n}", "member_epoch": -1, "topics": None} for n in range(count)]},
    ),
    "partitions in a transaction": lambda count: Attack(
        "AddPartitionsToTxn",
        3,
        NONE,
        {
            "v3_and_below_transactional_id": TRANSACTION,
            "v3_and_below_topics.name": TOPIC,
            "v3_and_below_topics.partitions": list(range(count)),
        },
    ),
    "protocols of a group": lambda count: joined(
        NONE, protocols=[{"name": f"p{n}", "metadata": b""} for n in range(count)]
    ),
}
"""Requests with many of something, by how many."""
