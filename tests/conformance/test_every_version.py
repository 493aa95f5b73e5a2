"""Each API that the bundled broker offers, in each version, answered as Apache Kafka answers it.

Client libraries use one version of an API each; this module uses all of them, on both kinds of broker, with
the same expectations. Values that differ between clusters (ids, addresses, times) are left out or learnt
first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from pykafka2.broker.handlers import api as registry
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.cluster import DescribeClusterRequest
from pykafka2.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka2.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.registry import API_KEYS, ApiKey
from pykafka2.protocol.struct import Request
from pykafka2.records.batch import batches
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.encoder import BatchBuilder
from tests.broker.support.raw_client import RawClient

from .brokers import NUMBERS, Cluster

NO_ERROR, UNKNOWN_TOPIC, TOPIC_EXISTS, UNKNOWN_TOPIC_ID = 0, 3, 36, 100
OFFSET_OUT_OF_RANGE = 1
LOAD_IN_PROGRESS = 14
TIMESTAMPS = (1_700_000_000_000, 1_700_000_000_100)
VALUES = [b"first", b"second"]
OTHER_ID = bytes(range(16))
NOWHERE = "no-such-topic"


@attrs.frozen
class Place:
    """The cluster, a topic of one partition with the VALUES in it, and a connection to its leader."""

    cluster: Cluster
    wire: RawClient
    topic: str
    topic_id: bytes
    leader: int
    nodes: set[int]


@pytest.fixture(scope="module")
def place(cluster: Cluster) -> Iterator[Place]:
    place = place_of(cluster, cluster.new_topic())
    with place.wire:
        assert _produced(place.wire.call(_produce(place, 12), 12)) == (NO_ERROR, 0)
        yield place


def test_api_versions(place: Place) -> None:
    for version in versions(place, ApiKey.API_VERSIONS):
        requested = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
        response = place.wire.call(_fitting(requested, version), version)
        offered = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        assert response.error_code == NO_ERROR
        # Format 0 and 1 of records are gone, but librdkafka wants to see Produce 0 (KAFKA-18659).
        assert offered[ApiKey.PRODUCE] == (0, 13)
        assert offered[ApiKey.FETCH] == (4, 18)
        assert offered[ApiKey.API_VERSIONS] == (0, 5)


def test_apis_of_the_bundled_broker_are_offered_by_apache(place: Place) -> None:
    response = place.wire.call(ApiVersionsRequest(), 0)
    offered = {one.api_key: range(one.min_version, one.max_version + 1) for one in response.api_keys}
    registry.load()
    for api_key, api in registry.APIS.items():
        if (
            api.between_brokers or api_key in registry.TELEMETRY
        ):  # Apache Kafka serves those only with a plugin
            continue
        assert set(versions(place, api_key)) <= set(offered[api_key]), API_KEYS[api_key].name


def test_metadata(place: Place) -> None:
    for version in versions(place, ApiKey.METADATA):
        # Before version 4 to ask of a topic may be to create it.
        names = [place.topic, NOWHERE] if version >= 4 else [place.topic]
        requested = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=version < 4
        )
        response = place.wire.call(requested, version)
        assert {broker.node_id for broker in response.brokers} == place.nodes
        topics = {topic.name: topic for topic in response.topics}
        (partition,) = topics[place.topic].partitions
        assert topics[place.topic].error_code == partition.error_code == NO_ERROR
        assert (partition.partition_index, partition.leader_id) == (0, place.leader)
        assert {*partition.replica_nodes} == {*partition.isr_nodes} == place.nodes
        if version >= 4:
            assert topics[NOWHERE].error_code == UNKNOWN_TOPIC
            assert topics[NOWHERE].partitions == []
        if version >= 10:
            assert topics[place.topic].topic_id == place.topic_id


def test_metadata_by_id(place: Place) -> None:
    for version in range(12, 14):
        requested = [
            MetadataRequestTopic(topic_id=place.topic_id, name=None),
            MetadataRequestTopic(topic_id=OTHER_ID, name=None),
        ]
        response = place.wire.call(MetadataRequest(topics=requested), version)
        topics = {topic.topic_id: topic for topic in response.topics}
        assert topics[place.topic_id].name == place.topic
        assert (topics[OTHER_ID].error_code, topics[OTHER_ID].name) == (UNKNOWN_TOPIC_ID, None)


def test_produce(place: Place) -> None:
    for version in versions(place, ApiKey.PRODUCE):
        topic = place.cluster.new_topic()
        wire_place = place_of(place.cluster, topic)
        with wire_place.wire as wire:
            for base_offset in (0, 2):
                response = wire.call(_produce(wire_place, version), version)
                assert _produced(response) == (NO_ERROR, base_offset)


def test_produce_to_a_missing_topic_has_the_error_of_its_version(place: Place) -> None:
    for version in versions(place, ApiKey.PRODUCE):
        nowhere = attrs.evolve(place, topic=NOWHERE, topic_id=OTHER_ID)
        expected = UNKNOWN_TOPIC if version < 13 else UNKNOWN_TOPIC_ID
        assert _produced(place.wire.call(_produce(nowhere, version), version)) == (expected, -1)


def test_fetch(place: Place) -> None:
    for version in versions(place, ApiKey.FETCH):
        (partition,) = place.wire.call(_fetch(place, 0, version), version).responses[0].partitions
        assert (partition.partition_index, partition.error_code, partition.high_watermark) == (0, NO_ERROR, 2)
        rows = [row for batch in batches(partition.records) for row in decode_tuples(batch)]
        assert [(offset, timestamp, value) for offset, timestamp, _, value, _ in rows] == [
            (n, TIMESTAMPS[n], VALUES[n]) for n in (0, 1)
        ]


def test_fetch_beyond_the_end_and_from_a_missing_topic_have_their_errors(place: Place) -> None:
    nowhere = attrs.evolve(place, topic=NOWHERE, topic_id=OTHER_ID)
    for version in versions(place, ApiKey.FETCH):
        (partition,) = place.wire.call(_fetch(place, 99, version), version).responses[0].partitions
        assert (partition.error_code, partition.high_watermark) == (OFFSET_OUT_OF_RANGE, -1)
        (partition,) = place.wire.call(_fetch(nowhere, 0, version), version).responses[0].partitions
        assert partition.error_code == (UNKNOWN_TOPIC if version < 13 else UNKNOWN_TOPIC_ID)


def test_list_offsets(place: Place) -> None:
    for version in versions(place, ApiKey.LIST_OFFSETS):
        for timestamp, expected in (
            (-2, (0, -1)),
            (-1, (2, -1)),
            (TIMESTAMPS[0] + 1, (1, TIMESTAMPS[1])),
            (TIMESTAMPS[1] + 1, (-1, -1)),
            *([(-3, (1, TIMESTAMPS[1]))] if version >= 7 else []),
        ):
            partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            topics = [ListOffsetsTopic(name=place.topic, partitions=[partition])]
            response = place.wire.call(ListOffsetsRequest(replica_id=-1, topics=topics), version)
            (found,) = response.topics[0].partitions
            assert found.error_code == NO_ERROR
            assert (found.offset, found.timestamp) == expected, f"version {version}, time {timestamp}"
            if version >= 4:
                assert found.leader_epoch == (-1 if found.offset < 0 else 0)


def test_list_offsets_of_a_missing_topic_has_its_error(place: Place) -> None:
    for version in versions(place, ApiKey.LIST_OFFSETS):
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topics = [ListOffsetsTopic(name=NOWHERE, partitions=[partition])]
        response = place.wire.call(ListOffsetsRequest(replica_id=-1, topics=topics), version)
        (found,) = response.topics[0].partitions
        assert (found.error_code, found.offset, found.timestamp) == (UNKNOWN_TOPIC, -1, -1)


def test_offset_for_leader_epoch(place: Place) -> None:
    for version in versions(place, ApiKey.OFFSET_FOR_LEADER_EPOCH):
        for topic, epoch, expected in (
            (place.topic, 0, (NO_ERROR, 0, 2)),
            (place.topic, 5, (NO_ERROR, -1, -1)),
            (NOWHERE, 0, (UNKNOWN_TOPIC, -1, -1)),
        ):
            partition = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
            topics = [OffsetForLeaderTopic(topic=topic, partitions=[partition])]
            # Version 3 has the caller's replica id: -1 is a consumer.
            requested = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
            (end,) = place.wire.call(requested, version).topics[0].partitions
            assert (end.error_code, end.leader_epoch, end.end_offset) == expected


def test_create_and_delete_topics(place: Place) -> None:
    with RawClient(_controller_of(place)) as wire:
        names = {version: f"conformance-{next(NUMBERS)}" for version in versions(place, ApiKey.CREATE_TOPICS)}
        ids = {}
        for version, name in names.items():
            topic = CreatableTopic(
                name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[]
            )
            requested = CreateTopicsRequest(topics=[topic])
            checked = CreateTopicsRequest(topics=[topic], validate_only=True)
            for request, expected in (
                (checked, NO_ERROR),
                (requested, NO_ERROR),
                (requested, TOPIC_EXISTS),
            ):
                (created,) = wire.call(request, version).topics
                assert (created.name, created.error_code) == (name, expected)
                if version >= 5 and expected == NO_ERROR:
                    assert (created.num_partitions, created.replication_factor) == (2, 1)
                if version >= 7 and request is requested and expected == NO_ERROR:
                    ids[name] = created.topic_id
        assert all(topic_id != ZERO_UUID for topic_id in ids.values())

        left = list(names.values())
        for version in versions(place, ApiKey.DELETE_TOPICS):
            name = left.pop() if left else place.cluster.new_topic()
            for expected in (NO_ERROR, UNKNOWN_TOPIC):
                (deleted,) = wire.call(_delete(name, version), version).responses
                assert (deleted.name, deleted.error_code) == (name, expected), f"version {version}"


def test_init_producer_id(place: Place) -> None:
    seen = set()
    for version in versions(place, ApiKey.INIT_PRODUCER_ID):
        requested = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = place.wire.call(requested, version)
        deadline = time.monotonic() + 60
        while response.error_code == LOAD_IN_PROGRESS and time.monotonic() < deadline:
            response = place.wire.call(
                requested, version
            )  # Kafka fetches a block of ids with the first request
        assert (response.error_code, response.producer_epoch) == (NO_ERROR, 0)
        seen.add(response.producer_id)
    assert len(seen) == len(versions(place, ApiKey.INIT_PRODUCER_ID))


def test_find_coordinator(place: Place) -> None:
    """While its topic is being made there is no coordinator: then both say so, else both name a node."""
    for version in versions(place, ApiKey.FIND_COORDINATOR):
        requested = (
            FindCoordinatorRequest(key="g") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g"])
        )
        response = place.wire.call(requested, version)
        found = response if version < 4 else response.coordinators[0]
        assert (found.error_code, found.node_id in place.nodes) in ((NO_ERROR, True), (15, False))


def test_describe_cluster(place: Place) -> None:
    for version in versions(place, ApiKey.DESCRIBE_CLUSTER):
        requested = DescribeClusterRequest(include_cluster_authorized_operations=False)
        response = place.wire.call(requested, version)
        assert response.error_code == NO_ERROR
        assert {broker.broker_id for broker in response.brokers} == place.nodes


def test_describe_configs(place: Place) -> None:
    for version in versions(place, ApiKey.DESCRIBE_CONFIGS):
        requested = DescribeConfigsResource(
            resource_type=2,
            resource_name=place.topic,
            configuration_keys=["cleanup.policy", "max.message.bytes"],
        )
        (result,) = place.wire.call(DescribeConfigsRequest(resources=[requested]), version).results
        assert result.error_code == NO_ERROR
        settings = {one.name: one for one in result.configs}
        assert settings["cleanup.policy"].value == "delete"
        assert settings["max.message.bytes"].value == "1048588"
        for one in settings.values():
            assert (one.read_only, one.is_sensitive) == (False, False)
            assert one.config_source == 5  # the default


# ---------------------------------------------------------------------------------------------------
# Requests
# ---------------------------------------------------------------------------------------------------


def versions(place: Place, api_key: int) -> range:
    """The versions that the bundled broker serves: Apache Kafka gets the same requests."""
    registry.load()
    api = registry.APIS[api_key]
    return range(api.min_version, api.max_version + 1)


def place_of(cluster: Cluster, topic: str) -> Place:
    requested = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    with RawClient(cluster.bootstrap_servers.partition(",")[0]) as wire:
        metadata = wire.call(requested, 12)
    (about,) = metadata.topics
    leader = about.partitions[0].leader_id
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in metadata.brokers}
    return Place(cluster, RawClient(addresses[leader]), topic, about.topic_id, leader, {*addresses})


def _controller_of(place: Place) -> str:
    metadata = place.wire.call(MetadataRequest(topics=[]), 12)
    # Kafka in KRaft names any broker, which forwards to the controller.
    return next(
        f"{broker.host}:{broker.port}"
        for broker in metadata.brokers
        if broker.node_id == metadata.controller_id
    )


def _produce(place: Place, version: int) -> ProduceRequest:
    builder = BatchBuilder()
    for timestamp, value in zip(TIMESTAMPS, VALUES, strict=True):
        builder.append(timestamp, None, value)
    data = TopicProduceData(partition_data=[PartitionProduceData(index=0, records=builder.build())])
    if version < 13:
        data.name = place.topic
    else:
        data.topic_id = place.topic_id
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])


def _produced(response: Any) -> tuple[int, int]:
    (partition,) = response.responses[0].partition_responses
    return partition.error_code, partition.base_offset


def _fetch(place: Place, offset: int, version: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(partitions=[partition])
    if version < 13:
        topic.topic = place.topic
    else:
        topic.topic_id = place.topic_id
    return FetchRequest(max_wait_ms=1000, min_bytes=1, topics=[topic])


def _delete(name: str, version: int) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID)], timeout_ms=10_000)


def _fitting(request: Request[Any], version: int) -> Request[Any]:
    return request if version >= 3 else ApiVersionsRequest()
