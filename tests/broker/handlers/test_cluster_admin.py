"""UpdateFeatures, DescribeQuorum, UnregisterBroker, DescribeTopicPartitions: equal to Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from pykafka2.errors import name_of
from pykafka2.protocol.messages.cluster import (
    FeatureUpdateKey,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from pykafka2.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    MetadataRequest,
    TopicRequest,
)
from pykafka2.protocol.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from pykafka2.testing.cluster import Topic
from tests.broker.support.admin_requests import finalized_levels
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

UPGRADE, SAFE, UNSAFE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "
DOWNGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
    "downgrade."
)


def update(
    wire: RawClient, *updates: tuple[str, int, int], version: int = 2, validate_only: bool = False
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ],
        validate_only=validate_only,
    )
    return wire.call(request, version)


@pytest.mark.kafka(brokers=2)
def test_feature_updates_reach_all_brokers(live: LiveCluster) -> None:
    wire, other = live.connect(), live.connect(1)
    for change, words in (
        (("nosuch", 1, UPGRADE), "Local controller 0 does not support this feature."),
        (("nosuch", 0, UPGRADE), "Feature nosuch not found."),
        (("transaction.version", 1, UPGRADE), DOWNGRADE),
        (("transaction.version", 9, UPGRADE), "Local controller 0 only supports versions 0-2"),
        (("transaction.version", -1, UPGRADE), "A feature version cannot be less than 0."),
        (("transaction.version", 1, 7), "The controller does not support the given upgrade type."),
    ):
        response = update(wire, ("transaction.version", 2, UPGRADE), change)
        name, level, _ = change
        message = f"{FAILED}Invalid update version {level} for feature {name}. {words}"
        assert (name_of(response.error_code), response.error_message) == ("INVALID_UPDATE_VERSION", message)
    assert update(wire, ("transaction.version", 1, SAFE), validate_only=True).error_code == 0
    assert finalized_levels(other)["transaction.version"] == 2
    old = update(wire, ("transaction.version", 1, SAFE), version=1)
    assert [(one.feature, one.error_code) for one in old.results] == [("transaction.version", 0)]
    assert finalized_levels(other)["transaction.version"] == 1
    assert live.cluster.brokers[1].image.transaction_version == 1
    assert update(wire, ("transaction.version", 0, UNSAFE), ("group.version", 0, SAFE)).error_code == 0
    assert not {"transaction.version", "group.version"} & set(finalized_levels(other))
    # In version 0 there is a flag in place of the type.
    key = FeatureUpdateKey(feature="transaction.version", max_version_level=2, allow_downgrade=False)
    assert wire.call(UpdateFeaturesRequest(feature_updates=[key]), 0).error_code == 0
    assert finalized_levels(other)["transaction.version"] == 2


@pytest.mark.kafka(brokers=3)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_broker_is_a_voter_of_the_quorum(live: LiveCluster, version: int) -> None:
    topics = [
        DescribeQuorumRequestTopicData(
            topic_name=name, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
        )
        for name in ("__cluster_metadata", "other")
    ]
    response = live.connect(1).call(DescribeQuorumRequest(topics=topics), version)
    quorum, other = (topic.partitions[0] for topic in response.topics)
    assert [voter.replica_id for voter in quorum.current_voters] == [0, 1, 2]
    assert quorum.leader_id in (0, 1, 2)
    assert quorum.leader_epoch > 0
    assert {voter.log_end_offset for voter in quorum.current_voters} == {quorum.high_watermark}
    assert name_of(other.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    if version == 2:
        ports = {node.node_id: node.listeners[0].port for node in response.nodes}
        assert ports == {broker.id: broker.port for broker in live.cluster.brokers}


@pytest.mark.kafka(brokers=3, topics={"t": Topic(3, 3)})
def test_stopped_broker_can_be_unregistered(live: LiveCluster) -> None:
    wire = live.connect(1)
    refused = wire.call(UnregisterBrokerRequest(broker_id=9), 0)
    assert name_of(refused.error_code) == "BROKER_ID_NOT_REGISTERED"
    assert refused.error_message == "Broker ID 9 is not currently registered"
    live.controls.crash_broker(2)
    assert wire.call(UnregisterBrokerRequest(broker_id=2), 0).error_code == 0
    assert sorted(live.cluster.controller.image.brokers) == [0, 1]
    live.controls.restart_broker(2)
    assert sorted(live.cluster.controller.image.brokers) == [0, 1, 2]


@pytest.mark.gate
@pytest.mark.kafka(brokers=3, topics={"t": Topic(1, 3)})
def test_unregistered_live_brokers_are_missing_until_they_restart(live: LiveCluster) -> None:
    """Apache Kafka does the same: a broker registers again with its next start."""
    good, hostile = live.connect(), live.connect()
    codes = [
        hostile.call(UnregisterBrokerRequest(broker_id=number % 30 - 10), 0).error_code
        for number in range(300)
    ]
    assert codes.count(0) == 3
    assert {name_of(code) for code in codes if code} == {"BROKER_ID_NOT_REGISTERED"}
    everything = good.call(MetadataRequest(topics=None), 12)
    assert everything.brokers == []
    assert [partition.leader_id for partition in everything.topics[0].partitions] == [-1]
    for broker in range(3):
        live.controls.crash_broker(broker)
        live.controls.restart_broker(broker)
    live.cluster.wait_until(lambda: live.leader_id() >= 0)
    assert sorted(live.cluster.controller.image.brokers) == [0, 1, 2]
    leader = live.connect(live.leader_id())
    assert produce(leader, "t", 0, batch([b"goes on"])).error_code == 0


def page(
    wire: RawClient, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, str | None, list[int]]], tuple[str, int] | None]:
    """Topics with their errors and partitions, and where the next page begins."""
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None
        if cursor is None
        else DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    response = wire.call(request, 0)
    topics = [
        (
            name_of(topic.error_code),
            topic.name,
            [partition.partition_index for partition in topic.partitions],
        )
        for topic in response.topics
    ]
    following = response.next_cursor
    return topics, None if following is None else (following.topic_name, following.partition_index)


@pytest.mark.kafka(brokers=2, topics={"e": 3, "d": 3})
def test_describe_topic_partitions_returns_pages(live: LiveCluster) -> None:
    wire = live.connect(1)
    d, e = ("NONE", "d", [0, 1, 2]), ("NONE", "e", [0, 1, 2])
    assert page(wire) == page(wire, "e", "d", "e") == ([d, e], None)
    unknown, illegal = ("UNKNOWN_TOPIC_OR_PARTITION", "x", []), ("INVALID_TOPIC_EXCEPTION", "a b", [])
    assert page(wire, "x", "d", "a b") == ([illegal, d, unknown], None)
    assert page(wire, limit=2) == ([("NONE", "d", [0, 1])], ("d", 2))
    assert page(wire, limit=2, cursor=("d", 2)) == ([("NONE", "d", [2]), ("NONE", "e", [0])], ("e", 1))
    assert page(wire, limit=2, cursor=("e", 1)) == ([("NONE", "e", [1, 2])], None)
    assert page(wire, limit=3) == ([d], ("e", 0))
    assert page(wire, "e", limit=-1) == ([("NONE", "e", [0])], ("e", 1))
    assert page(wire, "e", cursor=("e", 9)) == ([("NONE", "e", [])], None)
    for cursor in (("zz", 0), ("e", -1)):
        refused, following = page(wire, "e", cursor=cursor)
        assert (refused, following) == ([("INVALID_REQUEST", "e", [])], None)


@pytest.mark.kafka(brokers=2, as_version="4.4")
def test_controller_is_unregistered_unless_it_is_active_or_unknown(live: LiveCluster) -> None:
    """KIP-1331; any broker forwards it."""
    active = live.cluster.controller.id
    for wire in (live.connect(), live.connect(1)):
        refused = [wire.call(UnregisterControllerRequest(controller_id=one), 0) for one in (active, 9)]
        assert [name_of(one.error_code) for one in refused] == [
            "INVALID_REQUEST",
            "CONTROLLER_ID_NOT_REGISTERED",
        ]
        assert "cannot unregister itself" in (refused[0].error_message or "")
        assert wire.call(UnregisterControllerRequest(controller_id=1 - active), 0).error_code == 0


@pytest.mark.kafka(brokers=2, as_version="4.4", features={"metadata.version": 32})
def test_controllers_are_not_unregistered_before_metadata_version_33(live: LiveCluster) -> None:
    other = 1 - live.cluster.controller.id
    answer = live.connect().call(UnregisterControllerRequest(controller_id=other), 0)
    assert name_of(answer.error_code) == "UNSUPPORTED_VERSION"


@pytest.mark.kafka(brokers=1, as_version="4.3")
def test_brokers_before_4_4_do_not_unregister_controllers(live: LiveCluster) -> None:
    with pytest.raises(ConnectionError):
        live.connect().call(UnregisterControllerRequest(controller_id=7), 0)
