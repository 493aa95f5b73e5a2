"""Requests of brokers to the controller: registration, heartbeats, in-sync replicas, ids, directories.

AlterPartition, BrokerRegistration, BrokerHeartbeat, AllocateProducerIds, AssignReplicasToDirs; clients never
send them.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int8, Int16, Int32, Int64, String, UInt16, Uuid, field
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.struct import Request, Response, Struct


class BrokerState(Struct):
    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)


class AlterPartitionRequestPartitionData(Struct):
    partition_index: Int32
    leader_epoch: Int32
    new_isr: list[Int32] = field("0-2", factory=list)
    new_isr_with_epochs: list[BrokerState] = field("3+", factory=list)
    leader_recovery_state: Int8 = field("1+", default=0)
    partition_epoch: Int32


class AlterPartitionRequestTopicData(Struct):
    topic_name: String = field("0-1", default="", ignorable=True)
    topic_id: Uuid = field("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData]


class AlterPartitionRequest(Request["AlterPartitionResponse"], api_key=56, versions="0-3", flexible="0+"):
    """Change the in-sync replicas of partitions; sent by their leader."""

    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    topics: list[AlterPartitionRequestTopicData]


class AlterPartitionResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)
    leader_id: Int32
    leader_epoch: Int32
    isr: list[Int32]
    leader_recovery_state: Int8 = field("1+", default=0, ignorable=True)
    partition_epoch: Int32


class AlterPartitionResponseTopicData(Struct):
    topic_name: String = field("0-1", default="", ignorable=True)
    topic_id: Uuid = field("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData]


class AlterPartitionResponse(Response, api_key=56, versions="0-3", flexible="0+"):
    """Per partition: the new state."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    topics: list[AlterPartitionResponseTopicData]


class Listener(Struct):
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


class Feature(Struct):
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


class BrokerRegistrationRequest(
    Request["BrokerRegistrationResponse"], api_key=62, versions="0-4", flexible="0+"
):
    """Register a broker."""

    broker_id: Int32
    cluster_id: String
    incarnation_id: Uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: String | None = field(nullable="0+")
    is_migrating_zk_broker: Bool = field("1+", default=False)
    log_dirs: list[Uuid] = field("2+", factory=list, ignorable=True)
    previous_broker_epoch: Int64 = field("3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Response, api_key=62, versions="0-4", flexible="0+"):
    """The broker's epoch."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    broker_epoch: Int64 = field(default=-1)


class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"], api_key=63, versions="0-2", flexible="0+"):
    """A broker's heartbeat, with its wish to be fenced or shut down."""

    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    current_metadata_offset: Int64
    want_fence: Bool
    want_shut_down: Bool
    offline_log_dirs: list[Uuid] = field("1+", factory=list, tag=0)
    cordoned_log_dirs: list[Uuid] | None = field("2+", default=None, nullable="0+", tag=1)


class BrokerHeartbeatResponse(Response, api_key=63, versions="0-2", flexible="0+"):
    """Whether the broker is caught up, is fenced, and can shut down."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    is_caught_up: Bool = field(default=False)
    is_fenced: Bool = field(default=True)
    should_shut_down: Bool


class AllocateProducerIdsRequest(
    Request["AllocateProducerIdsResponse"], api_key=67, versions="0", flexible="0+"
):
    """Allocate a block of producer ids for a broker."""

    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)


class AllocateProducerIdsResponse(Response, api_key=67, versions="0", flexible="0+"):
    """The allocated block."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    producer_id_start: Int64
    producer_id_len: Int32


class AssignReplicasToDirsRequestPartitionData(Struct):
    partition_index: Int32


class AssignReplicasToDirsRequestTopicData(Struct):
    topic_id: Uuid
    partitions: list[AssignReplicasToDirsRequestPartitionData]


class AssignReplicasToDirsRequestDirectoryData(Struct):
    id: Uuid
    topics: list[AssignReplicasToDirsRequestTopicData]


class AssignReplicasToDirsRequest(
    Request["AssignReplicasToDirsResponse"], api_key=73, versions="0", flexible="0+"
):
    """Report the log directories of a broker's replicas (KIP-858)."""

    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData]


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: Uuid
    partitions: list[AssignReplicasToDirsResponsePartitionData]


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: Uuid
    topics: list[AssignReplicasToDirsResponseTopicData]


class AssignReplicasToDirsResponse(Response, api_key=73, versions="0", flexible="0+"):
    """Per replica: whether the controller has stored its directory."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    directories: list[AssignReplicasToDirsResponseDirectoryData]
