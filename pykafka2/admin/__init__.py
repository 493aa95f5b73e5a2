"""The admin client: topics, configurations, groups, ACLs, users, quotas, transactions.

`from pykafka2.admin import ...` has the client, and the arguments and results of its calls, also under
kafka-python's names. Each name is loaded at its first use.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pykafka2.admin.acl_names import ACL, ACLFilter, ResourcePattern, ResourcePatternFilter
    from pykafka2.admin.admin import KafkaAdminClient
    from pykafka2.admin.check_values import BrokerCheck, CheckStatus, CheckStep, ClusterCheck
    from pykafka2.admin.cluster_values import (
        ApiVersion,
        ClusterDescription,
        FeatureMetadata,
        FeatureUpdate,
        HangingTransaction,
        LogDir,
        ProducerState,
        QuorumInfo,
        QuorumReplica,
        ReplicaLog,
        ReplicaLogDir,
        UpdateFeatureType,
        VersionRange,
    )
    from pykafka2.admin.config_values import (
        AlterConfigOp,
        ConfigEntry,
        ConfigResource,
        ConfigResourceType,
        ConfigSynonym,
    )
    from pykafka2.admin.group_values import (
        GroupDescription,
        GroupListing,
        MemberDescription,
        MemberToRemove,
        OffsetSpec,
        OffsetTimestamp,
        PartitionLag,
        ShareGroupOffset,
    )
    from pykafka2.admin.outcomes import ItemsFailed, Listings, Outcomes
    from pykafka2.admin.terms import (
        AbortTransactionSpec,
        ConfigSourceType,
        ConfigType,
        GroupState,
        GroupType,
        ScramMechanism,
        TransactionState,
    )
    from pykafka2.admin.values import (
        AclBinding,
        DelegationToken,
        NewPartitions,
        NewTopic,
        PartitionReassignment,
        ProducerIdAndEpoch,
        QuotaEntity,
        ScramCredentialInfo,
        TopicDescription,
        TransactionDescription,
        TransactionListing,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from pykafka2.protocol.acl_terms import Operation as ACLOperation
    from pykafka2.protocol.acl_terms import PatternType as ACLResourcePatternType
    from pykafka2.protocol.acl_terms import Permission as ACLPermissionType
    from pykafka2.protocol.acl_terms import ResourceType

_HOMES = {
    "pykafka2.admin.acl_names": ("ACL", "ACLFilter", "ResourcePattern", "ResourcePatternFilter"),
    "pykafka2.admin.admin": ("KafkaAdminClient",),
    "pykafka2.admin.check_values": ("BrokerCheck", "CheckStatus", "CheckStep", "ClusterCheck"),
    "pykafka2.admin.cluster_values": (
        "ApiVersion",
        "ClusterDescription",
        "FeatureMetadata",
        "FeatureUpdate",
        "HangingTransaction",
        "LogDir",
        "ProducerState",
        "QuorumInfo",
        "QuorumReplica",
        "ReplicaLog",
        "ReplicaLogDir",
        "UpdateFeatureType",
        "VersionRange",
    ),
    "pykafka2.admin.config_values": (
        "AlterConfigOp",
        "ConfigEntry",
        "ConfigResource",
        "ConfigResourceType",
        "ConfigSynonym",
    ),
    "pykafka2.admin.group_values": (
        "GroupDescription",
        "GroupListing",
        "MemberDescription",
        "MemberToRemove",
        "OffsetSpec",
        "OffsetTimestamp",
        "PartitionLag",
        "ShareGroupOffset",
    ),
    "pykafka2.admin.outcomes": ("ItemsFailed", "Listings", "Outcomes"),
    "pykafka2.admin.terms": (
        "AbortTransactionSpec",
        "ConfigSourceType",
        "ConfigType",
        "GroupState",
        "GroupType",
        "ScramMechanism",
        "TransactionState",
    ),
    "pykafka2.admin.values": (
        "AclBinding",
        "DelegationToken",
        "NewPartitions",
        "NewTopic",
        "PartitionReassignment",
        "ProducerIdAndEpoch",
        "QuotaEntity",
        "ScramCredentialInfo",
        "TopicDescription",
        "TransactionDescription",
        "TransactionListing",
        "UserScramCredentialDeletion",
        "UserScramCredentialUpsertion",
    ),
    "pykafka2.protocol.acl_terms": ("ResourceType",),
}
_RENAMED = {
    "ACLOperation": "Operation",
    "ACLPermissionType": "Permission",
    "ACLResourcePatternType": "PatternType",
}
"""kafka-python's names of classes that have other names in pykafka2.protocol.acl_terms."""

__all__ = [
    "ACL",
    "ACLFilter",
    "ACLOperation",
    "ACLPermissionType",
    "ACLResourcePatternType",
    "AbortTransactionSpec",
    "AclBinding",
    "AlterConfigOp",
    "ApiVersion",
    "BrokerCheck",
    "CheckStatus",
    "CheckStep",
    "ClusterCheck",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSourceType",
    "ConfigSynonym",
    "ConfigType",
    "DelegationToken",
    "FeatureMetadata",
    "FeatureUpdate",
    "GroupDescription",
    "GroupListing",
    "GroupState",
    "GroupType",
    "HangingTransaction",
    "ItemsFailed",
    "KafkaAdminClient",
    "Listings",
    "LogDir",
    "MemberDescription",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "OffsetTimestamp",
    "Outcomes",
    "PartitionLag",
    "PartitionReassignment",
    "ProducerIdAndEpoch",
    "ProducerState",
    "QuorumInfo",
    "QuorumReplica",
    "QuotaEntity",
    "ReplicaLog",
    "ReplicaLogDir",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramMechanism",
    "ShareGroupOffset",
    "TopicDescription",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpdateFeatureType",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "VersionRange",
]

if not TYPE_CHECKING:  # or type checkers would accept every name

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _RENAMED:
            return getattr(import_module("pykafka2.protocol.acl_terms"), _RENAMED[name])
        for home, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(home), name)
                return value
        from pykafka2.other_clients import no_such_name

        raise no_such_name(__name__, name)
