"""The access that each API declares, compared with the rights that Apache Kafka checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from pykafka2.broker.handlers import authorization
from pykafka2.broker.handlers.api import APIS, api, load
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.fields import Field
from pykafka2.protocol.messages.telemetry import PushTelemetryRequest
from pykafka2.protocol.registry import API_KEYS, request_class
from pykafka2.protocol.struct import Struct
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster
from tests.broker.support.raw_client import RawClient

load()
TOPIC, GROUP, TRANSACTION, CLUSTER = "TOPIC", "GROUP", "TRANSACTIONAL_ID", "CLUSTER"
OPEN: Final = ("", "")
FILTERED: Final = ("", "by entry")
"""The request needs no right; its response has only what the client can describe."""

KAFKA: Final[dict[str, tuple[str, str]]] = {
    "Produce": ("WRITE", TOPIC),
    "Fetch": ("READ", TOPIC),
    "ListOffsets": ("DESCRIBE", TOPIC),
    "Metadata": ("DESCRIBE", TOPIC),
    "OffsetCommit": ("READ", GROUP),
    "OffsetFetch": ("DESCRIBE", GROUP),
    "FindCoordinator": ("DESCRIBE", GROUP),
    "JoinGroup": ("READ", GROUP),
    "Heartbeat": ("READ", GROUP),
    "LeaveGroup": ("READ", GROUP),
    "SyncGroup": ("READ", GROUP),
    "DescribeGroups": ("DESCRIBE", GROUP),
    "ListGroups": FILTERED,
    "SaslHandshake": OPEN,
    "ApiVersions": OPEN,
    "CreateTopics": ("CREATE", TOPIC),
    "DeleteTopics": ("DELETE", TOPIC),
    "DeleteRecords": ("DELETE", TOPIC),
    "InitProducerId": ("WRITE", TRANSACTION),
    "OffsetForLeaderEpoch": ("DESCRIBE", TOPIC),
    "AddPartitionsToTxn": ("WRITE", TRANSACTION),
    "AddOffsetsToTxn": ("WRITE", TRANSACTION),
    "EndTxn": ("WRITE", TRANSACTION),
    "WriteTxnMarkers": ("CLUSTER_ACTION", CLUSTER),
    "TxnOffsetCommit": ("WRITE", TRANSACTION),
    "DescribeAcls": ("DESCRIBE", CLUSTER),
    "CreateAcls": ("ALTER", CLUSTER),
    "DeleteAcls": ("ALTER", CLUSTER),
    "DescribeConfigs": ("DESCRIBE_CONFIGS", TOPIC),
    "AlterConfigs": ("ALTER_CONFIGS", TOPIC),
    "AlterReplicaLogDirs": ("ALTER", CLUSTER),
    "DescribeLogDirs": ("DESCRIBE", CLUSTER),
    "SaslAuthenticate": OPEN,
    "CreatePartitions": ("ALTER", TOPIC),
    # A client's own tokens need no right.
    "CreateDelegationToken": OPEN,
    "RenewDelegationToken": OPEN,
    "ExpireDelegationToken": OPEN,
    "DescribeDelegationToken": OPEN,
    "DeleteGroups": ("DELETE", GROUP),
    "ElectLeaders": ("ALTER", CLUSTER),
    "IncrementalAlterConfigs": ("ALTER_CONFIGS", TOPIC),
    "AlterPartitionReassignments": ("ALTER", CLUSTER),
    "ListPartitionReassignments": ("DESCRIBE", CLUSTER),
    "OffsetDelete": ("DELETE", GROUP),
    "DescribeClientQuotas": ("DESCRIBE_CONFIGS", CLUSTER),
    "AlterClientQuotas": ("ALTER_CONFIGS", CLUSTER),
    "DescribeUserScramCredentials": ("DESCRIBE", CLUSTER),
    "AlterUserScramCredentials": ("ALTER", CLUSTER),
    "DescribeQuorum": ("DESCRIBE", CLUSTER),
    "UpdateFeatures": ("ALTER", CLUSTER),
    "DescribeCluster": FILTERED,
    "DescribeProducers": ("READ", TOPIC),
    "UnregisterBroker": ("ALTER", CLUSTER),
    "UnregisterController": ("ALTER", CLUSTER),
    "DescribeTransactions": ("DESCRIBE", TRANSACTION),
    "ListTransactions": FILTERED,
    "ConsumerGroupHeartbeat": ("READ", GROUP),
    "ConsumerGroupDescribe": ("DESCRIBE", GROUP),
    "GetTelemetrySubscriptions": OPEN,
    "PushTelemetry": OPEN,
    "ListConfigResources": ("DESCRIBE_CONFIGS", CLUSTER),
    "DescribeTopicPartitions": ("DESCRIBE", TOPIC),
    "ShareGroupHeartbeat": ("READ", GROUP),
    "ShareGroupDescribe": ("DESCRIBE", GROUP),
    "ShareFetch": ("READ", GROUP),
    "ShareAcknowledge": ("READ", GROUP),
    "AddRaftVoter": ("ALTER", CLUSTER),
    "RemoveRaftVoter": ("ALTER", CLUSTER),
    "InitializeShareGroupState": ("CLUSTER_ACTION", CLUSTER),
    "ReadShareGroupState": ("CLUSTER_ACTION", CLUSTER),
    "WriteShareGroupState": ("CLUSTER_ACTION", CLUSTER),
    "DeleteShareGroupState": ("CLUSTER_ACTION", CLUSTER),
    "ReadShareGroupStateSummary": ("CLUSTER_ACTION", CLUSTER),
    "StreamsGroupHeartbeat": ("READ", GROUP),
    "StreamsGroupDescribe": ("DESCRIBE", GROUP),
    "DescribeShareGroupOffsets": ("DESCRIBE", GROUP),
    "AlterShareGroupOffsets": ("READ", GROUP),
    "DeleteShareGroupOffsets": ("DELETE", GROUP),
}
"""The first right that KafkaApis and ControllerApis of Apache Kafka check, also for APIs that are not served
here: the operation and the type of the resource.
"""

FOR_BROKERS: Final = {
    "AlterPartition",
    "Envelope",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "AllocateProducerIds",
    "AssignReplicasToDirs",
}
FIELDS: Final = {"resource_type": 2, "timeout_ms": 60_000, "acks": 1}
"""A request about a topic that waits for its response."""
SERVED = sorted(one.name for one in APIS.values() if not one.between_brokers)
KEYS = {info.name: key for key, info in API_KEYS.items()}


def naming_orders(cls: type[Struct], version: int) -> Any:
    """Return a request that names `orders` wherever it has a string, once in each list."""
    return cls(**{field.name: _value(field, version) for field in resolved_fields(cls)})


def _value(field: Field, version: int) -> Any:
    if version not in field.versions:
        return field.absent_value()
    if field.name in FIELDS:
        return FIELDS[field.name]
    one: Any = field.absent_value()
    if field.struct is not None:
        one = naming_orders(field.struct, version)
    elif field.kind == "string":
        one = "orders"
    elif field.array:
        one = 0
    return [one] if field.array else one


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """A cluster whose clients have no right."""
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "client.telemetry": True}
    with KafkaCluster(brokers=1, config=config, as_version="4.4") as cluster:
        yield cluster


@pytest.mark.parametrize("name", SERVED)
def test_each_api_needs_the_right_of_kafka(cluster: KafkaCluster, name: str) -> None:
    assert name in KAFKA, f"add the first right that Kafka checks for {name}"
    served = APIS[KEYS[name]]
    needed = KAFKA[name]
    assert (served.access is authorization.OPEN) == (needed == OPEN)
    if needed == OPEN:
        return
    cluster.forget()
    request = naming_orders(request_class(KEYS[name]), served.min_version)
    with RawClient(cluster.bootstrap_servers) as wire:
        wire.call(request, served.min_version)
    denied = [(one.facts["operation"], one.facts["resource_type"]) for one in cluster.acls.denials()]
    assert denied[:1] == ([] if needed == FILTERED else [needed])


def test_apis_between_brokers_are_those_of_kafka() -> None:
    assert {one.name for one in APIS.values() if one.access is authorization.BROKERS} == FOR_BROKERS


def test_an_api_without_access_does_not_register() -> None:
    before = dict(APIS)
    with pytest.raises(TypeError, match=r"PushTelemetry has no access\. Write what its sender needs"):
        api(PushTelemetryRequest, 0, 0)
    assert before == APIS


def test_an_api_is_declared_once() -> None:
    with pytest.raises(TypeError, match="Metadata is declared twice"):
        api(request_class(KEYS["Metadata"]), 0, 1, access=authorization.OPEN)
