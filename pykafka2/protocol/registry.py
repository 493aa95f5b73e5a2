"""The table of messages: API keys, versions, and the module of each class.

The table is enough to negotiate versions and to read a request's header; a message's module is imported at
the first use of its class. tests/protocol/test_registry.py compares the table with the classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, cast

from pykafka2.errors import UnsupportedVersion
from pykafka2.protocol.struct import Data, Message, Request, Response
from pykafka2.slotted import slotted


class ApiKey:
    """The numbers of Kafka's APIs."""

    PRODUCE: Final = 0
    FETCH: Final = 1
    LIST_OFFSETS: Final = 2
    METADATA: Final = 3
    OFFSET_COMMIT: Final = 8
    OFFSET_FETCH: Final = 9
    FIND_COORDINATOR: Final = 10
    JOIN_GROUP: Final = 11
    HEARTBEAT: Final = 12
    LEAVE_GROUP: Final = 13
    SYNC_GROUP: Final = 14
    DESCRIBE_GROUPS: Final = 15
    LIST_GROUPS: Final = 16
    SASL_HANDSHAKE: Final = 17
    API_VERSIONS: Final = 18
    CREATE_TOPICS: Final = 19
    DELETE_TOPICS: Final = 20
    DELETE_RECORDS: Final = 21
    INIT_PRODUCER_ID: Final = 22
    OFFSET_FOR_LEADER_EPOCH: Final = 23
    ADD_PARTITIONS_TO_TXN: Final = 24
    ADD_OFFSETS_TO_TXN: Final = 25
    END_TXN: Final = 26
    WRITE_TXN_MARKERS: Final = 27
    TXN_OFFSET_COMMIT: Final = 28
    DESCRIBE_ACLS: Final = 29
    CREATE_ACLS: Final = 30
    DELETE_ACLS: Final = 31
    DESCRIBE_CONFIGS: Final = 32
    ALTER_CONFIGS: Final = 33
    ALTER_REPLICA_LOG_DIRS: Final = 34
    DESCRIBE_LOG_DIRS: Final = 35
    SASL_AUTHENTICATE: Final = 36
    CREATE_PARTITIONS: Final = 37
    CREATE_DELEGATION_TOKEN: Final = 38
    RENEW_DELEGATION_TOKEN: Final = 39
    EXPIRE_DELEGATION_TOKEN: Final = 40
    DESCRIBE_DELEGATION_TOKEN: Final = 41
    DELETE_GROUPS: Final = 42
    ELECT_LEADERS: Final = 43
    INCREMENTAL_ALTER_CONFIGS: Final = 44
    ALTER_PARTITION_REASSIGNMENTS: Final = 45
    LIST_PARTITION_REASSIGNMENTS: Final = 46
    OFFSET_DELETE: Final = 47
    DESCRIBE_CLIENT_QUOTAS: Final = 48
    ALTER_CLIENT_QUOTAS: Final = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS: Final = 50
    ALTER_USER_SCRAM_CREDENTIALS: Final = 51
    DESCRIBE_QUORUM: Final = 55
    ALTER_PARTITION: Final = 56
    UPDATE_FEATURES: Final = 57
    ENVELOPE: Final = 58
    DESCRIBE_CLUSTER: Final = 60
    DESCRIBE_PRODUCERS: Final = 61
    BROKER_REGISTRATION: Final = 62
    BROKER_HEARTBEAT: Final = 63
    UNREGISTER_BROKER: Final = 64
    DESCRIBE_TRANSACTIONS: Final = 65
    LIST_TRANSACTIONS: Final = 66
    ALLOCATE_PRODUCER_IDS: Final = 67
    CONSUMER_GROUP_HEARTBEAT: Final = 68
    CONSUMER_GROUP_DESCRIBE: Final = 69
    GET_TELEMETRY_SUBSCRIPTIONS: Final = 71
    PUSH_TELEMETRY: Final = 72
    ASSIGN_REPLICAS_TO_DIRS: Final = 73
    LIST_CONFIG_RESOURCES: Final = 74
    DESCRIBE_TOPIC_PARTITIONS: Final = 75
    SHARE_GROUP_HEARTBEAT: Final = 76
    SHARE_GROUP_DESCRIBE: Final = 77
    SHARE_FETCH: Final = 78
    SHARE_ACKNOWLEDGE: Final = 79
    ADD_RAFT_VOTER: Final = 80
    REMOVE_RAFT_VOTER: Final = 81
    INITIALIZE_SHARE_GROUP_STATE: Final = 83
    READ_SHARE_GROUP_STATE: Final = 84
    WRITE_SHARE_GROUP_STATE: Final = 85
    DELETE_SHARE_GROUP_STATE: Final = 86
    READ_SHARE_GROUP_STATE_SUMMARY: Final = 87
    DESCRIBE_SHARE_GROUP_OFFSETS: Final = 90
    ALTER_SHARE_GROUP_OFFSETS: Final = 91
    DELETE_SHARE_GROUP_OFFSETS: Final = 92
    UNREGISTER_CONTROLLER: Final = 94


@slotted(frozen=True)
class ApiInfo:
    """One API: its key and name, the supported stable versions, the first flexible one (None: none)."""

    key: int
    name: str
    module: str
    min_version: int
    max_version: int
    flexible_from: int | None

    def is_flexible(self, version: int) -> bool:
        """Return whether headers and body of `version` have compact lengths and tagged fields (KIP-482)."""
        return self.flexible_from is not None and version >= self.flexible_from


API_KEYS: Final[dict[int, ApiInfo]] = {
    api.key: api
    for api in (
        ApiInfo(0, "Produce", "produce", 0, 13, 9),
        ApiInfo(1, "Fetch", "fetch", 0, 18, 12),
        ApiInfo(2, "ListOffsets", "offsets", 0, 11, 6),
        ApiInfo(3, "Metadata", "metadata", 0, 13, 9),
        ApiInfo(8, "OffsetCommit", "committed_offsets", 0, 10, 8),
        ApiInfo(9, "OffsetFetch", "committed_offsets", 0, 10, 6),
        ApiInfo(10, "FindCoordinator", "coordinator", 0, 6, 3),
        ApiInfo(11, "JoinGroup", "group", 0, 9, 6),
        ApiInfo(12, "Heartbeat", "group", 0, 4, 4),
        ApiInfo(13, "LeaveGroup", "group", 0, 5, 4),
        ApiInfo(14, "SyncGroup", "group", 0, 5, 4),
        ApiInfo(15, "DescribeGroups", "group_admin", 0, 6, 5),
        ApiInfo(16, "ListGroups", "group_admin", 0, 5, 3),
        ApiInfo(17, "SaslHandshake", "sasl", 0, 1, None),
        ApiInfo(18, "ApiVersions", "api_versions", 0, 5, 3),
        ApiInfo(19, "CreateTopics", "topics", 0, 7, 5),
        ApiInfo(20, "DeleteTopics", "topics", 0, 6, 4),
        ApiInfo(21, "DeleteRecords", "topics", 0, 2, 2),
        ApiInfo(22, "InitProducerId", "transaction", 0, 5, 2),
        ApiInfo(23, "OffsetForLeaderEpoch", "offsets", 0, 4, 4),
        ApiInfo(24, "AddPartitionsToTxn", "transaction", 0, 5, 3),
        ApiInfo(25, "AddOffsetsToTxn", "transaction", 0, 4, 3),
        ApiInfo(26, "EndTxn", "transaction", 0, 5, 3),
        ApiInfo(27, "WriteTxnMarkers", "transaction", 0, 2, 1),
        ApiInfo(28, "TxnOffsetCommit", "transaction", 0, 6, 3),
        ApiInfo(29, "DescribeAcls", "acls", 0, 3, 2),
        ApiInfo(30, "CreateAcls", "acls", 0, 3, 2),
        ApiInfo(31, "DeleteAcls", "acls", 0, 3, 2),
        ApiInfo(32, "DescribeConfigs", "configs", 0, 4, 4),
        ApiInfo(33, "AlterConfigs", "configs", 0, 2, 2),
        ApiInfo(34, "AlterReplicaLogDirs", "log_dirs", 0, 2, 2),
        ApiInfo(35, "DescribeLogDirs", "log_dirs", 0, 5, 2),
        ApiInfo(36, "SaslAuthenticate", "sasl", 0, 2, 2),
        ApiInfo(37, "CreatePartitions", "topics", 0, 3, 2),
        ApiInfo(38, "CreateDelegationToken", "tokens", 0, 3, 2),
        ApiInfo(39, "RenewDelegationToken", "tokens", 0, 2, 2),
        ApiInfo(40, "ExpireDelegationToken", "tokens", 0, 2, 2),
        ApiInfo(41, "DescribeDelegationToken", "tokens", 0, 3, 2),
        ApiInfo(42, "DeleteGroups", "group_admin", 0, 3, 2),
        ApiInfo(43, "ElectLeaders", "reassignments", 0, 2, 2),
        ApiInfo(44, "IncrementalAlterConfigs", "configs", 0, 1, 1),
        ApiInfo(45, "AlterPartitionReassignments", "reassignments", 0, 1, 0),
        ApiInfo(46, "ListPartitionReassignments", "reassignments", 0, 0, 0),
        ApiInfo(47, "OffsetDelete", "committed_offsets", 0, 0, None),
        ApiInfo(48, "DescribeClientQuotas", "quotas", 0, 1, 1),
        ApiInfo(49, "AlterClientQuotas", "quotas", 0, 1, 1),
        ApiInfo(50, "DescribeUserScramCredentials", "users", 0, 0, 0),
        ApiInfo(51, "AlterUserScramCredentials", "users", 0, 0, 0),
        ApiInfo(55, "DescribeQuorum", "quorum", 0, 2, 0),
        ApiInfo(56, "AlterPartition", "broker_lifecycle", 0, 3, 0),
        ApiInfo(57, "UpdateFeatures", "cluster", 0, 2, 0),
        ApiInfo(58, "Envelope", "cluster", 0, 0, 0),
        ApiInfo(60, "DescribeCluster", "cluster", 0, 2, 0),
        ApiInfo(61, "DescribeProducers", "transaction_admin", 0, 0, 0),
        ApiInfo(62, "BrokerRegistration", "broker_lifecycle", 0, 4, 0),
        ApiInfo(63, "BrokerHeartbeat", "broker_lifecycle", 0, 2, 0),
        ApiInfo(64, "UnregisterBroker", "cluster", 0, 0, 0),
        ApiInfo(65, "DescribeTransactions", "transaction_admin", 0, 0, 0),
        ApiInfo(66, "ListTransactions", "transaction_admin", 0, 2, 0),
        ApiInfo(67, "AllocateProducerIds", "broker_lifecycle", 0, 0, 0),
        ApiInfo(68, "ConsumerGroupHeartbeat", "consumer_group", 0, 1, 0),
        ApiInfo(69, "ConsumerGroupDescribe", "consumer_group", 0, 1, 0),
        ApiInfo(71, "GetTelemetrySubscriptions", "telemetry", 0, 0, 0),
        ApiInfo(72, "PushTelemetry", "telemetry", 0, 0, 0),
        ApiInfo(73, "AssignReplicasToDirs", "broker_lifecycle", 0, 0, 0),
        ApiInfo(74, "ListConfigResources", "configs", 0, 1, 0),
        ApiInfo(75, "DescribeTopicPartitions", "metadata", 0, 0, 0),
        ApiInfo(76, "ShareGroupHeartbeat", "share_group", 1, 1, 0),
        ApiInfo(77, "ShareGroupDescribe", "share_group", 1, 1, 0),
        ApiInfo(78, "ShareFetch", "share_fetch", 1, 2, 0),
        ApiInfo(79, "ShareAcknowledge", "share_fetch", 1, 2, 0),
        ApiInfo(80, "AddRaftVoter", "quorum", 0, 1, 0),
        ApiInfo(81, "RemoveRaftVoter", "quorum", 0, 0, 0),
        ApiInfo(83, "InitializeShareGroupState", "share_state", 0, 0, 0),
        ApiInfo(84, "ReadShareGroupState", "share_state", 0, 0, 0),
        ApiInfo(85, "WriteShareGroupState", "share_state", 0, 1, 0),
        ApiInfo(86, "DeleteShareGroupState", "share_state", 0, 0, 0),
        ApiInfo(87, "ReadShareGroupStateSummary", "share_state", 0, 1, 0),
        ApiInfo(90, "DescribeShareGroupOffsets", "share_offsets", 0, 1, 0),
        ApiInfo(91, "AlterShareGroupOffsets", "share_offsets", 0, 0, 0),
        ApiInfo(92, "DeleteShareGroupOffsets", "share_offsets", 0, 0, 0),
        ApiInfo(94, "UnregisterController", "cluster", 0, 0, 0),
    )
}
"""All supported APIs, by key."""

DATA_MODULES: Final[dict[str, tuple[str, ...]]] = {
    "headers": (
        "RequestHeader",
        "ResponseHeader",
    ),
    "consumer_protocol": (
        "ConsumerProtocolSubscription",
        "ConsumerProtocolAssignment",
    ),
    "control_records": (
        "ControlRecordTypeSchema",
        "EndTxnMarker",
        "LeaderChangeMessage",
        "SnapshotHeaderRecord",
        "SnapshotFooterRecord",
        "KRaftVersionRecord",
        "VotersRecord",
    ),
    "principal": ("DefaultPrincipalData",),
    "group_records": (
        "LegacyOffsetCommitKey",
        "LegacyOffsetCommitValue",
        "OffsetCommitKey",
        "OffsetCommitValue",
        "GroupMetadataKey",
        "GroupMetadataValue",
    ),
    "consumer_group_records": (
        "ConsumerGroupMetadataKey",
        "ConsumerGroupMetadataValue",
        "ConsumerGroupPartitionMetadataKey",
        "ConsumerGroupPartitionMetadataValue",
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupMemberMetadataValue",
        "ConsumerGroupTargetAssignmentMetadataKey",
        "ConsumerGroupTargetAssignmentMetadataValue",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMemberValue",
        "ConsumerGroupCurrentMemberAssignmentKey",
        "ConsumerGroupCurrentMemberAssignmentValue",
        "ConsumerGroupRegularExpressionKey",
        "ConsumerGroupRegularExpressionValue",
    ),
    "share_group_records": (
        "ShareGroupMemberMetadataKey",
        "ShareGroupMemberMetadataValue",
        "ShareGroupMetadataKey",
        "ShareGroupMetadataValue",
        "ShareGroupTargetAssignmentMetadataKey",
        "ShareGroupTargetAssignmentMetadataValue",
        "ShareGroupTargetAssignmentMemberKey",
        "ShareGroupTargetAssignmentMemberValue",
        "ShareGroupCurrentMemberAssignmentKey",
        "ShareGroupCurrentMemberAssignmentValue",
        "ShareGroupStatePartitionMetadataKey",
        "ShareGroupStatePartitionMetadataValue",
    ),
    "share_state_records": (
        "ShareSnapshotKey",
        "ShareSnapshotValue",
        "ShareUpdateKey",
        "ShareUpdateValue",
    ),
    "transaction_records": (
        "TransactionLogKey",
        "TransactionLogValue",
        "AbortedTxn",
    ),
    "metadata_records": (
        "RegisterBrokerRecord",
        "UnregisterBrokerRecord",
        "TopicRecord",
        "PartitionRecord",
        "ConfigRecord",
        "PartitionChangeRecord",
        "FenceBrokerRecord",
        "UnfenceBrokerRecord",
        "RemoveTopicRecord",
        "DelegationTokenRecord",
        "UserScramCredentialRecord",
        "FeatureLevelRecord",
        "ClientQuotaRecord",
        "ProducerIdsRecord",
        "BrokerRegistrationChangeRecord",
        "AccessControlEntryRecord",
        "RemoveAccessControlEntryRecord",
        "NoOpRecord",
        "ZkMigrationStateRecord",
        "RemoveUserScramCredentialRecord",
        "BeginTransactionRecord",
        "EndTransactionRecord",
        "AbortTransactionRecord",
        "RemoveDelegationTokenRecord",
        "RegisterControllerRecord",
        "ClearElrRecord",
        "UnregisterControllerRecord",
    ),
}
"""The messages that are neither requests nor responses, by module."""

_MESSAGES: Final = "pykafka2.protocol.messages."
_REQUESTS: Final[dict[int, type[Request[Any]]]] = {}


def api(api_key: int) -> ApiInfo:
    """Return the facts about an API. Raise UnsupportedVersion if pykafka2 does not support it."""
    info = API_KEYS.get(api_key)
    if info is None:
        raise UnsupportedVersion(f"pykafka2 does not support API key {api_key}")
    return info


def name_of(api_key: int) -> str:
    """Return Kafka's name of an API, such as "Fetch"; for unknown keys, the number as text."""
    info = API_KEYS.get(api_key)
    return f"API {api_key}" if info is None else info.name


def request_class(api_key: int) -> type[Request[Any]]:
    """Return the class of an API's requests. Raise UnsupportedVersion if it is unknown."""
    found = _REQUESTS.get(api_key)
    if found is None:
        info = api(api_key)
        found = _REQUESTS[api_key] = getattr(import_module(_MESSAGES + info.module), info.name + "Request")
    return found


def response_class(api_key: int) -> type[Response]:
    """Return the class of an API's responses. Raise UnsupportedVersion if it is unknown."""
    return request_class(api_key).RESPONSE


def all_messages() -> Iterator[type[Message]]:
    """Return all message classes: requests and responses by key, then the rest. Import them all."""
    for api_key in API_KEYS:
        yield request_class(api_key)
        yield response_class(api_key)
    yield from all_data()


def all_data() -> Iterator[type[Data]]:
    """Return the classes of all messages that are neither requests nor responses. Import them all."""
    for module, names in DATA_MODULES.items():
        for name in names:
            yield cast("type[Data]", getattr(import_module(_MESSAGES + module), name))
