"""Metadata of topics, and responses about the cluster, configs and coordinators, over real sockets."""

from __future__ import annotations

import pytest

from pykafka2.protocol.messages.cluster import DescribeClusterRequest
from pykafka2.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pykafka2.protocol.messages.topics import DeleteTopicsRequest
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.testing.cluster import Topic
from tests.broker.support.data_requests import error_name
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster


def metadata(wire: RawClient, *names: str, version: int = 12, create: bool = False) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return wire.call(MetadataRequest(topics=topics, allow_auto_topic_creation=create), version)


@pytest.mark.kafka(brokers=3, topics={"orders": 6, "audit": Topic(partitions=1, replication_factor=1)})
def test_metadata_lists_brokers_topics_and_leaders(live: LiveCluster) -> None:
    everything = live.connect(1).call(MetadataRequest(topics=None), 12)
    ports = {node.node_id: node.port for node in everything.brokers}
    assert ports == {broker.id: broker.port for broker in live.cluster.brokers}
    assert everything.cluster_id == live.cluster.cluster_id
    topics = {topic.name: topic for topic in everything.topics}
    assert set(topics) == {"orders", "audit"}
    leaders = [partition.leader_id for partition in topics["orders"].partitions]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2], "leaders are not balanced"
    for partition in topics["orders"].partitions:
        assert sorted(partition.replica_nodes) == sorted(partition.isr_nodes) == [0, 1, 2]
        assert partition.replica_nodes[0] == partition.leader_id
    assert len(topics["audit"].partitions[0].replica_nodes) == 1


@pytest.mark.kafka(brokers=1, topics={"a": 1, "b": 1})
@pytest.mark.parametrize("version", range(14))
def test_every_version_of_metadata_is_served(wire: RawClient, version: int) -> None:
    found = metadata(wire, "a", version=version, create=version < 4)
    assert {topic.name for topic in found.topics} == {"a"}
    none = wire.call(MetadataRequest(topics=[]), version)
    # In version 0 an empty list asks for all topics, later for none.
    assert len(none.topics) == (2 if version == 0 else 0)
    if version:
        assert len(wire.call(MetadataRequest(topics=None), version).topics) == 2


@pytest.mark.kafka(brokers=1, topics={"a": 1})
def test_metadata_by_topic_id(live: LiveCluster) -> None:
    topic_id = live.cluster.controller.image.topics["a"].id
    by_id = [MetadataRequestTopic(topic_id=one, name=None) for one in (topic_id, b"\x09" * 16)]
    known, unknown = live.connect().call(MetadataRequest(topics=by_id), 12).topics
    assert (known.name, known.topic_id, known.error_code) == ("a", topic_id, 0)
    assert (unknown.name, error_name(unknown.error_code)) == (None, "UnknownTopicId")


@pytest.mark.kafka(brokers=1, topics={"a": 1})
@pytest.mark.parametrize("name", [None, "", "a", "absent"])
@pytest.mark.parametrize("version", [10, 11])
def test_versions_10_and_11_of_metadata_refuse_topic_ids(
    live: LiveCluster, wire: RawClient, version: int, name: str | None
) -> None:
    for topic_id in (live.cluster.controller.image.topics["a"].id, b"\x09" * 16):
        topics = [MetadataRequestTopic(name="a"), MetadataRequestTopic(topic_id=topic_id, name=name)]
        by_name, by_id = wire.call(MetadataRequest(topics=topics), version).topics
        # Kafka rejects the whole request, so each of its topics gets the error.
        assert (by_name.name, by_name.topic_id, by_name.partitions) == ("a", ZERO_UUID, [])
        assert (by_id.name, by_id.topic_id, by_id.partitions) == (name or "", topic_id, [])
        assert {error_name(one.error_code) for one in (by_name, by_id)} == {"InvalidRequest"}
    assert not metadata(wire, "a", version=version).topics[0].error_code, "the connection must stay open"


@pytest.mark.kafka(brokers=2, topics={"t": Topic(replication_factor=1)})
def test_partition_without_leader_gets_leader_not_available(live: LiveCluster) -> None:
    leading = live.leader_id()
    live.controls.crash_broker(leading)
    response = metadata(live.connect(1 - leading), "t")
    (partition,) = response.topics[0].partitions
    assert (error_name(partition.error_code), partition.leader_id) == ("LeaderNotAvailable", -1)
    assert partition.offline_replicas == [leading]
    assert [node.node_id for node in response.brokers] == [1 - leading]


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"delete.topic.enable": False})
def test_delete_topics_is_rejected_with_delete_topic_enable_false(live: LiveCluster) -> None:
    response = live.connect().call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    assert error_name(response.responses[0].error_code) == "TopicDeletionDisabled"


@pytest.mark.kafka(
    brokers=1, topics={"t": Topic(configs={"retention.ms": 5})}, config={"log.segment.bytes": 1048577}
)
def test_describe_configs_names_value_source_and_synonyms(live: LiveCluster) -> None:
    resources = [
        DescribeConfigsResource(
            resource_type=2, resource_name="t", configuration_keys=["retention.ms", "segment.bytes"]
        ),
        DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=["num.partitions"]),
        DescribeConfigsResource(resource_type=2, resource_name="nosuch", configuration_keys=None),
        DescribeConfigsResource(resource_type=4, resource_name="9", configuration_keys=None),
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
    topic, broker, unknown, other = live.connect().call(request, 4).results
    values = {config.name: config for config in topic.configs}
    assert (values["retention.ms"].value, values["retention.ms"].config_source) == ("5", 1)
    assert (values["segment.bytes"].value, values["segment.bytes"].config_source) == ("1048577", 4)
    assert [synonym.name for synonym in values["segment.bytes"].synonyms] == ["log.segment.bytes"] * 2
    assert [config.value for config in broker.configs] == ["1"]
    assert error_name(unknown.error_code) == "UnknownTopicOrPartition"
    assert error_name(other.error_code) == "InvalidRequest"


@pytest.mark.kafka(brokers=3)
def test_describe_cluster(live: LiveCluster, wire: RawClient) -> None:
    live.controls.crash_broker(2)
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    alive = wire.call(request, 2)
    assert [node.broker_id for node in alive.brokers] == [0, 1]
    request.include_fenced_brokers = True
    everyone = wire.call(request, 2)
    assert [(node.broker_id, node.is_fenced) for node in everyone.brokers] == [
        (0, False),
        (1, False),
        (2, True),
    ]


@pytest.mark.kafka(brokers=3)
def test_find_coordinator_names_the_same_live_broker_everywhere(live: LiveCluster) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g1", "g2"])
    responses = [
        [(one.key, one.node_id, one.port) for one in live.connect(broker).call(request, 4).coordinators]
        for broker in range(3)
    ]
    assert responses[0] == responses[1] == responses[2]
    old = live.connect().call(FindCoordinatorRequest(key="g1", key_type=0), 3)
    assert (old.error_code, old.node_id) == (0, responses[0][0][1])
    transaction = live.connect().call(FindCoordinatorRequest(key="x", key_type=1), 3)
    assert (transaction.error_code, transaction.node_id in range(3)) == (0, True)


@pytest.mark.kafka(brokers=1)
def test_init_producer_id_rejects_an_empty_id_and_a_wrong_coordinator(wire: RawClient) -> None:
    for transactional_id, error in (("", "InvalidRequest"), ("tx", "NotCoordinator")):
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000)
        assert error_name(wire.call(request, 5).error_code) == error
