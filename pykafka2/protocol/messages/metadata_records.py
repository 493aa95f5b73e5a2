"""Records of the metadata log, `__cluster_metadata`, and of the controller's snapshots.

On disk a record begins with three unsigned varints: the version of its frame (1), API key, version.
"""

from __future__ import annotations

from pykafka2.protocol.fields import (
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    Uuid,
    field,
)
from pykafka2.protocol.struct import MetadataRecord, Struct


class BrokerEndpoint(Struct):
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


class BrokerFeature(Struct):
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


class RegisterBrokerRecord(MetadataRecord, api_key=0, versions="0-4", flexible="0+"):
    """A broker registered: its endpoints, features, rack and log directories."""

    broker_id: Int32
    is_migrating_zk_broker: Bool = field("2+", default=False)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: String | None = field(nullable="0+")
    fenced: Bool = field(default=True)
    in_controlled_shutdown: Bool = field("1+", default=False)
    log_dirs: list[Uuid] = field("3+", factory=list, tag=0)
    cordoned_log_dirs: list[Uuid] | None = field("4+", default=None, nullable="4+", tag=1)


class UnregisterBrokerRecord(MetadataRecord, api_key=1, versions="0", flexible="0+"):
    """The registration of a broker was removed."""

    broker_id: Int32
    broker_epoch: Int64


class TopicRecord(MetadataRecord, api_key=2, versions="0", flexible="0+"):
    """A topic was created."""

    name: String
    topic_id: Uuid


class PartitionRecord(MetadataRecord, api_key=3, versions="0-2", flexible="0+"):
    """A partition was created, or its whole state in a snapshot."""

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32 = field(default=-1)
    leader_recovery_state: Int8 = field(default=0, tag=0)
    leader_epoch: Int32 = field(default=-1)
    partition_epoch: Int32 = field(default=-1)
    directories: list[Uuid] = field("1+", factory=list)
    eligible_leader_replicas: list[Int32] | None = field("2+", default=None, nullable="2+", tag=1)
    last_known_elr: list[Int32] | None = field("2+", default=None, nullable="2+", tag=2)


class ConfigRecord(MetadataRecord, api_key=4, versions="0", flexible="0+"):
    """An option of a resource was set, or removed if the value is None."""

    resource_type: Int8
    resource_name: String
    name: String
    value: String | None = field(nullable="0+")


class PartitionChangeRecord(MetadataRecord, api_key=5, versions="0-2", flexible="0+"):
    """The changed fields of a partition; the others have their defaults."""

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid
    isr: list[Int32] | None = field(default=None, nullable="0+", tag=0)
    leader: Int32 = field(default=-2, tag=1)
    replicas: list[Int32] | None = field(default=None, nullable="0+", tag=2)
    removing_replicas: list[Int32] | None = field(default=None, nullable="0+", tag=3)
    adding_replicas: list[Int32] | None = field(default=None, nullable="0+", tag=4)
    leader_recovery_state: Int8 = field(default=-1, tag=5)
    directories: list[Uuid] | None = field("1+", default=None, nullable="1+", tag=8)
    eligible_leader_replicas: list[Int32] | None = field("2+", default=None, nullable="2+", tag=6)
    last_known_elr: list[Int32] | None = field("2+", default=None, nullable="2+", tag=7)


class FenceBrokerRecord(MetadataRecord, api_key=7, versions="0", flexible="0+"):
    """A broker was fenced (before metadata.version 3.3-IV2)."""

    id: Int32
    epoch: Int64


class UnfenceBrokerRecord(MetadataRecord, api_key=8, versions="0", flexible="0+"):
    """A broker was unfenced (before metadata.version 3.3-IV2)."""

    id: Int32
    epoch: Int64


class RemoveTopicRecord(MetadataRecord, api_key=9, versions="0", flexible="0+"):
    """A topic was deleted."""

    topic_id: Uuid


class DelegationTokenRecord(MetadataRecord, api_key=10, versions="0", flexible="0+"):
    """A delegation token was created or renewed; its HMAC is not stored."""

    owner: String
    requester: String
    renewers: list[String]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


class UserScramCredentialRecord(MetadataRecord, api_key=11, versions="0", flexible="0+"):
    """A SCRAM credential was set."""

    name: String
    mechanism: Int8
    salt: Bytes = field(secret=True)
    stored_key: Bytes = field(secret=True)
    server_key: Bytes = field(secret=True)
    iterations: Int32


class FeatureLevelRecord(MetadataRecord, api_key=12, versions="0", flexible="0+"):
    """A feature was finalized at a level; 0 disables it."""

    name: String
    feature_level: Int16


class EntityData(Struct):
    entity_type: String
    entity_name: String | None = field(nullable="0+")


class ClientQuotaRecord(MetadataRecord, api_key=14, versions="0", flexible="0+"):
    """A client quota was set or removed."""

    entity: list[EntityData]
    key: String
    value: Float64
    remove: Bool


class ProducerIdsRecord(MetadataRecord, api_key=15, versions="0", flexible="0+"):
    """A block of producer ids was allocated."""

    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    next_producer_id: Int64


class BrokerRegistrationChangeRecord(MetadataRecord, api_key=17, versions="0-3", flexible="0+"):
    """The changed fields of a broker's registration."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = field(default=0, tag=0)
    in_controlled_shutdown: Int8 = field("1+", default=0, tag=1)
    log_dirs: list[Uuid] = field("2+", factory=list, tag=2)
    cordoned_log_dirs: list[Uuid] | None = field("3+", default=None, nullable="3+", tag=3)


class AccessControlEntryRecord(MetadataRecord, api_key=18, versions="0", flexible="0+"):
    """An ACL was created."""

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class RemoveAccessControlEntryRecord(MetadataRecord, api_key=19, versions="0", flexible="0+"):
    """An ACL was deleted."""

    id: Uuid


class NoOpRecord(MetadataRecord, api_key=20, versions="0", flexible="0+"):
    """Changes nothing; the active controller writes it to show that it is alive (KIP-835)."""


class ZkMigrationStateRecord(MetadataRecord, api_key=21, versions="0", flexible="0+"):
    """The state of a migration from ZooKeeper (KIP-866)."""

    zk_migration_state: Int8


class RemoveUserScramCredentialRecord(MetadataRecord, api_key=22, versions="0", flexible="0+"):
    """A SCRAM credential was deleted."""

    name: String
    mechanism: Int8


class BeginTransactionRecord(MetadataRecord, api_key=23, versions="0", flexible="0+"):
    """Starts a transaction of the metadata log: records up to its end apply together (KIP-868)."""

    name: String | None = field(default=None, nullable="0+", tag=0)


class EndTransactionRecord(MetadataRecord, api_key=24, versions="0", flexible="0+"):
    """Ends a transaction of the metadata log."""


class AbortTransactionRecord(MetadataRecord, api_key=25, versions="0", flexible="0+"):
    """Aborts a transaction of the metadata log."""

    reason: String | None = field(default=None, nullable="0+", tag=0)


class RemoveDelegationTokenRecord(MetadataRecord, api_key=26, versions="0", flexible="0+"):
    """A delegation token was deleted."""

    token_id: String


class ControllerEndpoint(Struct):
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


class ControllerFeature(Struct):
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


class RegisterControllerRecord(MetadataRecord, api_key=27, versions="0", flexible="0+"):
    """A controller registered: its endpoints and features (KIP-919)."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]


class ClearElrRecord(MetadataRecord, api_key=28, versions="0", flexible="0+"):
    """Clears the eligible leader replicas of a topic, or of all (KIP-966)."""

    topic_name: String


class UnregisterControllerRecord(MetadataRecord, api_key=29, versions="0", flexible="0+"):
    """A controller was unregistered (KIP-1331)."""

    controller_id: Int32
