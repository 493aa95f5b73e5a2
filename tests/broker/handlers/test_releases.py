"""`KafkaCluster(as_version=...)`: the API versions and features of older releases of Apache Kafka."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, NewTopic
from pykafka2.broker.base.features import DEFAULT, RELEASES, release_of
from pykafka2.broker.config.configs import DEFAULT_SOURCE
from pykafka2.broker.config.kafka_table import ADDED
from pykafka2.broker.handlers.api import APIS, client_ranges, load
from pykafka2.errors import ConfigurationError, UnknownOption, name_of
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.cluster import DescribeClusterRequest, FeatureUpdateKey, UpdateFeaturesRequest
from pykafka2.protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.group import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka2.protocol.messages.group_admin import DescribeGroupsRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.topics import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Request
from pykafka2.testing import QUICK
from pykafka2.testing.cluster import KafkaCluster
from tests.broker.support.admin_requests import api_versions, topic_of
from tests.broker.support.raw_client import RawClient
from tests.conformance.behaviour.plain import request_of
from tests.connections import LiveCluster


def ranges(answer: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}


@pytest.mark.kafka(brokers=1, as_version="2.8")
def test_broker_as_2_8_advertises_its_ranges_and_no_features(live: LiveCluster) -> None:
    response = api_versions(live.connect(), 3)
    served = ranges(response)
    assert served[ApiKey.FETCH] == (4, 12)
    assert served[ApiKey.METADATA] == (0, 11)
    assert served[ApiKey.FIND_COORDINATOR] == (0, 3)
    assert served[ApiKey.JOIN_GROUP] == (0, 7)
    assert served[ApiKey.API_VERSIONS] == (0, 3)
    assert served[ApiKey.DESCRIBE_CLUSTER] == (0, 0)
    assert not served.keys() & {
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
    features = response.supported_features, response.finalized_features, response.finalized_features_epoch
    assert features == ([], [], 0)


@pytest.mark.kafka(brokers=1, as_version="2.8")
def test_newer_api_versions_request_gets_the_range_of_2_8_in_version_0(live: LiveCluster) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    wire = live.connect()
    wire.send(request, 4)
    _, response = wire.receive(ApiVersionsRequest, 0)
    assert name_of(response.error_code) == "UNSUPPORTED_VERSION"
    assert ranges(response) == {ApiKey.API_VERSIONS: (0, 3)}


@pytest.mark.kafka(brokers=1, as_version="2.8")
def test_request_of_a_newer_version_closes_the_connection(live: LiveCluster) -> None:
    assert live.connect().call(MetadataRequest(topics=[]), 11).brokers
    with pytest.raises(ConnectionError):
        live.connect().call(MetadataRequest(topics=[]), 12)
    with pytest.raises(ConnectionError):
        live.connect().call(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)


@pytest.mark.kafka(brokers=1, as_version="3.9")
def test_broker_as_3_9_serves_version_0_of_consumer_groups_and_rejects_them(wire: RawClient) -> None:
    response = api_versions(wire, 4)
    assert ranges(response)[ApiKey.CONSUMER_GROUP_HEARTBEAT] == (0, 0)
    assert {one.name: one.max_version_level for one in response.finalized_features} == {
        "metadata.version": 21
    }
    assert [one.name for one in response.supported_features] == ["kraft.version", "metadata.version"]
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="", member_epoch=0)
    assert name_of(wire.call(beat, 0).error_code) == "UNSUPPORTED_VERSION"


@pytest.mark.kafka(brokers=1, as_version="4.0")
def test_broker_as_4_0_has_transaction_version_2(live: LiveCluster) -> None:
    response = api_versions(live.connect(), 4)
    assert {one.name: one.max_version_level for one in response.finalized_features} == {
        "group.version": 1,
        "metadata.version": 25,
        "transaction.version": 2,
    }
    assert ranges(response)[ApiKey.END_TXN] == (0, 5)


@pytest.mark.kafka(brokers=1, as_version="3.9")
def test_feature_of_a_newer_release_cannot_be_finalized(live: LiveCluster) -> None:
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=2, upgrade_type=1)
    response = live.connect().call(UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update]), 1)
    (result,) = response.results
    assert name_of(result.error_code) == "INVALID_UPDATE_VERSION"
    assert "does not support this feature" in (result.error_message or "")


@pytest.mark.parametrize(("release", "is_on"), [("3.5", False), ("3.6", True), ("4.4", True)])
def test_partitions_of_transactions_are_verified_since_3_6(release: str, is_on: bool) -> None:
    option = "transaction.partition.verification.enable"
    assert KafkaCluster(as_version=release).config.get(option) is is_on
    assert KafkaCluster(as_version=release, config={option: not is_on}).config.get(option) is not is_on


def test_each_declaration_has_the_versions_of_kafka() -> None:
    load()
    default = client_ranges(DEFAULT)
    assert default == {key: DEFAULT.versions_of(key, 0, 99) for key in default}


def test_newest_release_serves_all_versions() -> None:
    load()
    served = {key: (api.min_version, api.max_version) for key, api in APIS.items() if not api.between_brokers}
    assert client_ranges(release_of(RELEASES[-1]), has_telemetry=True) == served


@pytest.mark.parametrize("release", RELEASES)
def test_no_release_advertises_an_api_between_brokers(release: str) -> None:
    """Kafka 3.0 to 3.2 let clients send AllocateProducerIds."""
    load()
    between_brokers = {key for key, api in APIS.items() if api.between_brokers}
    assert len(between_brokers) > 1
    assert not between_brokers & client_ranges(release_of(release)).keys()


def test_each_release_adds_versions_and_only_4_0_removes_some() -> None:
    load()
    before = client_ranges(release_of("2.8"))
    for name in RELEASES[1:]:
        now = client_ranges(release_of(name))
        # KRaft had no SCRAM users before 3.5, and no delegation tokens before 3.6.
        lost = {key for key in before if key not in now and name != "3.3"}
        assert not lost, name
        assert all(now[key][1] >= high for key, (_, high) in before.items() if key in now), name
        before = now


FINGERPRINTS = {
    "2.8": 0x64A6AFD2,
    "3.0": 0xE602775D,
    "3.1": 0xE01A95B7,
    "3.2": 0xB3615E41,
    "3.3": 0xB67959EA,
    "3.4": 0xB1929503,
    "3.5": 0x07470A1B,
    "3.6": 0x366A56D4,
    "3.7": 0xC8478536,
    "3.8": 0xC9A1BE12,
    "3.9": 0x6634B17E,
    "4.0": 0x52B5B8F7,
    "4.1": 0x4E932C49,
    "4.2": 0xAC3FC4C8,
    "4.3": 0xF09D0F66,
    "4.4": 0x3198D8DE,
}
"""Checksums of what tests/conformance/test_releases.py compared with Apache Kafka's jars on 2026-11-26."""


@pytest.mark.parametrize("name", RELEASES)
def test_ranges_and_features_are_those_compared_with_apache_kafka(name: str) -> None:
    """After a change run tests/conformance/test_releases.py with -m "", which the gate leaves out."""
    release = release_of(name)
    levels = sorted((feature, one.lowest, one.highest) for feature, one in release.supported.items())
    facts = sorted(release.ranges.items()), levels, sorted(release.finalized.items())
    found = crc32(repr(facts).encode())
    assert found == FINGERPRINTS[name], f"{found:#010x}"


@pytest.mark.parametrize(("release", "has_zookeeper"), [("2.8", True), ("3.2", True), ("3.3", False)])
def test_releases_before_3_3_have_zookeeper_and_no_features(release: str, has_zookeeper: bool) -> None:
    imitated = release_of(release)
    assert imitated.has_zookeeper is has_zookeeper
    assert (not imitated.supported, not imitated.finalized) == (has_zookeeper, has_zookeeper)


@pytest.mark.parametrize(
    ("release", "supported", "finalized"),
    [
        ("3.8", {"metadata.version"}, {"metadata.version"}),
        ("3.9", {"metadata.version", "kraft.version"}, {"metadata.version"}),
        (
            "4.0",
            {"metadata.version", "kraft.version", "group.version", "transaction.version"},
            {"metadata.version", "group.version", "transaction.version"},
        ),
    ],
)
def test_features_come_with_their_release(release: str, supported: set[str], finalized: set[str]) -> None:
    imitated = release_of(release)
    assert imitated.supported.keys() >= supported
    assert imitated.finalized.keys() == finalized
    if release < "4.0":
        assert imitated.supported.keys() == supported


@pytest.mark.parametrize(
    ("release", "scram", "tokens"),
    [("3.2", True, True), ("3.3", False, False), ("3.5", True, False), ("3.6", True, True)],
)
def test_first_releases_with_kraft_lack_scram_users_and_delegation_tokens(
    release: str, scram: bool, tokens: bool
) -> None:
    load()
    served = client_ranges(release_of(release)).keys()
    scram_apis = {ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS}
    token_apis = {
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
    assert scram_apis & served == (scram_apis if scram else set())
    assert token_apis & served == (token_apis if tokens else set())


def test_share_version_is_supported_since_4_1_finalized_since_4_2_and_2_since_4_4() -> None:
    found = {name: release_of(name) for name in ("4.0", "4.1", "4.2", "4.4")}
    assert ["share.version" in one.supported for one in found.values()] == [False, True, True, True]
    assert [one.finalized.get("share.version") for one in found.values()] == [None, None, 1, 2]


def test_option_that_4_4_added_is_unknown_before() -> None:
    added = {"max.decompressed.message.bytes": 1000}
    assert KafkaCluster(config=added).config.int("max.decompressed.message.bytes") == 1000
    with pytest.raises(UnknownOption, match=r"no broker configuration 'max.decompressed.message.bytes'"):
        KafkaCluster(as_version="4.3", config=added)


@pytest.mark.kafka(brokers=1, as_version="4.3")
def test_topics_as_4_3_reject_and_hide_options_of_4_4(live: LiveCluster) -> None:
    topics = [topic_of("plain"), topic_of("newer", configs={"remote.copy.lag.ms": "0"})]
    plain, newer = live.connect().call(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7).topics
    assert name_of(newer.error_code) == "INVALID_CONFIG"
    assert "Unknown topic config name: remote.copy.lag.ms" in (newer.error_message or "")
    assert {one.name for one in plain.configs or []}.isdisjoint(ADDED["4.4"])


@pytest.mark.parametrize("name", ["2.7", "3.10", "latest", "3.9.1", "", 3.9, 4])
def test_unknown_release_raises_with_the_valid_ones(name: object) -> None:
    valid = r"use one of '2.8', '3.0', .*'4.3', '4.4'$"
    with pytest.raises(ConfigurationError, match=rf"as_version={name!r} is not a known release.*; {valid}"):
        KafkaCluster(as_version=name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["3.9.1", "v3.9", 3.9])
def test_misspelt_release_raises_with_the_nearest_one(name: object) -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean '3.9'\?"):
        KafkaCluster(as_version=name)  # type: ignore[arg-type]


OLDER: list[tuple[str, int, dict[str, Any]]] = [
    ("CreateTopics", 1, {"topics": [{"name": "made", "num_partitions": 1, "replication_factor": 1}]}),
    ("DeleteTopics", 0, {"topic_names": ["missing"], "timeout_ms": 1000}),
    (
        "DescribeConfigs",
        0,
        {"resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}]},
    ),
    (
        "OffsetCommit",
        1,
        {
            "group_id": "g",
            "topics": [{"name": "t", "partitions": [{"committed_offset": 5, "committed_metadata": "m"}]}],
        },
    ),
    ("OffsetForLeaderEpoch", 1, {"topics": [{"topic": "t", "partitions": [{}]}]}),
    ("DescribeLogDirs", 0, {"topics": None}),
    ("AlterReplicaLogDirs", 0, {}),
    (
        "DescribeAcls",
        0,
        {
            "resource_type_filter": 1,
            "operation": 1,
            "permission_type": 1,
            "resource_name_filter": None,
            "principal_filter": None,
            "host_filter": None,
        },
    ),
    (
        "CreateAcls",
        0,
        {
            "creations": [
                {"resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*"}
                | {"operation": 3, "permission_type": 3}
            ]
        },
    ),
    ("DeleteAcls", 0, {}),
    ("WriteTxnMarkers", 0, {}),
    ("DescribeDelegationToken", 0, {"owners": None}),
]
"""The APIs whose lowest versions 4.0 removed, with the highest of these and the fields of a request."""


def older_requests() -> dict[str, tuple[Request[Any], int]]:
    return {f"{api}Request v{version}": (request_of(api, fields), version) for api, version, fields in OLDER}


@pytest.mark.kafka(brokers=1, topics={"t": 1}, as_version="3.9")
@pytest.mark.parametrize("name", older_requests())
def test_versions_that_4_0_removed_are_served_before_it(live: LiveCluster, name: str) -> None:
    request, newest = older_requests()[name]
    for version in range(newest, -1, -1):
        if (request.API_KEY, version) != (ApiKey.OFFSET_COMMIT, 0):
            assert live.connect().call(request, version) is not None


@pytest.mark.kafka(brokers=1, topics={"t": 1}, as_version="4.0")
@pytest.mark.parametrize("name", older_requests())
def test_versions_that_4_0_removed_close_the_connection(live: LiveCluster, name: str) -> None:
    request, version = older_requests()[name]
    with pytest.raises(ConnectionError):
        live.connect().call(request, version)


@pytest.mark.kafka(brokers=1, as_version="2.8")
def test_version_0_of_create_and_delete_topics_is_served_as_2_8(live: LiveCluster, wire: RawClient) -> None:
    create, _ = older_requests()["CreateTopicsRequest v1"]
    assert [one.error_code for one in wire.call(create, 0).topics] == [0]
    assert live.cluster.topics() == ["made"]
    gone = DeleteTopicsRequest(topic_names=["made"], timeout_ms=1000)
    assert [one.error_code for one in wire.call(gone, 0).responses] == [0]
    assert live.cluster.topics() == []


@pytest.mark.parametrize(("release", "hours"), [("3.9", None), ("4.0", 1)])
def test_timestamps_in_the_future_are_limited_since_4_0(release: str, hours: int | None) -> None:
    config = KafkaCluster(as_version=release).config
    limit = 2**63 - 1 if hours is None else hours * 3_600_000
    pipelined = KafkaCluster(as_version=release, pipelined=True).config
    assert pipelined.int("log.message.timestamp.after.max.ms") == limit
    assert config.int("log.message.timestamp.after.max.ms") == limit
    assert [one.source for one in config.synonyms("log.message.timestamp.after.max.ms")] == [DEFAULT_SOURCE]


@pytest.mark.kafka(brokers=1, as_version="3.9")
def test_each_feature_has_its_own_result_before_4_0(live: LiveCluster) -> None:
    updates = [
        FeatureUpdateKey(feature="no.such.version", max_version_level=1, upgrade_type=1),
        FeatureUpdateKey(feature="metadata.version", max_version_level=21, upgrade_type=1),
    ]
    response = live.connect().call(UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=updates), 1)
    assert response.error_code == 0
    assert [(one.feature, name_of(one.error_code)) for one in response.results] == [
        ("no.such.version", "INVALID_UPDATE_VERSION"),
        ("metadata.version", "NONE"),
    ]


@pytest.mark.kafka(brokers=1, as_version="3.9", features={"metadata.version": 20})
def test_validated_feature_updates_before_4_0_are_not_made(live: LiveCluster) -> None:
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=21, upgrade_type=1)
    for is_validated, level in ((True, 20), (False, 21)):
        request = UpdateFeaturesRequest(
            timeout_ms=10_000, feature_updates=[update], validate_only=is_validated
        )
        response = live.connect().call(request, 1)
        assert [name_of(one.error_code) for one in response.results] == ["NONE"]
        assert response.error_message == ""
        finalized = live.cluster.brokers[0].image.features
        assert finalized["metadata.version"] == level


@pytest.mark.kafka(brokers=1, as_version="2.8")
def test_log_of_a_request_that_a_release_does_not_serve_names_the_release(
    live: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"), pytest.raises(ConnectionError):
        live.connect().call(MetadataRequest(topics=[]), 12)
    assert "Metadata v12 is not served as Apache Kafka 2.8, v0 to v11 are" in caplog.text
    with caplog.at_level("INFO"), pytest.raises(ConnectionError):
        live.connect().call(ConsumerGroupHeartbeatRequest(group_id="g", member_id="", member_epoch=0), 0)
    assert "ConsumerGroupHeartbeat is not served to clients as Apache Kafka 2.8" in caplog.text


@pytest.mark.parametrize(
    ("release", "operations", "has_assignment"), [("3.9", {3, 6, 8}, False), ("4.0", {3, 6, 8, 10, 11}, True)]
)
def test_group_without_a_stable_generation_is_described_like_its_release(
    release: str, operations: set[int], has_assignment: bool
) -> None:
    with (
        KafkaCluster(1, as_version=release, topics={"t": 1}, config=dict(QUICK)) as cluster,
        KafkaConsumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer,
        RawClient(cluster.bootstrap_servers) as wire,
    ):
        while not consumer.assignment():
            consumer.poll(50)
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        wire.send(join, 3)  # starts a rebalance
        cluster.wait_until(lambda: cluster.group("g").state == "PreparingRebalance")
        with RawClient(cluster.bootstrap_servers) as other:
            request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
            (group,) = other.call(request, 5).groups
        assert group.authorized_operations == sum(1 << code for code in operations)
        assert any(member.member_assignment for member in group.members) is has_assignment


@pytest.mark.kafka(brokers=3, as_version="2.8")
def test_only_the_controller_creates_topics_with_zookeeper(live: LiveCluster) -> None:
    create, version = older_requests()["CreateTopicsRequest v1"]
    controller = live.cluster.controller.id
    for broker in range(3):
        assert live.connect(broker).call(MetadataRequest(topics=[]), 11).controller_id == controller
        if broker != controller:
            (refused,) = live.connect(broker).call(create, version).topics
            assert name_of(refused.error_code) == "NOT_CONTROLLER"
    assert live.cluster.topics() == []
    assert live.connect(controller).call(create, version).topics[0].error_code == 0
    with KafkaAdminClient(bootstrap_servers=live.cluster.bootstrap_servers) as admin:
        live.controls.move_controller((controller + 1) % 3)
        admin.create_topics([NewTopic("after")])
    assert live.cluster.topics() == ["after", "made"]


@pytest.mark.kafka(brokers=3, as_version="3.3")
def test_every_broker_creates_topics_with_kraft(live: LiveCluster) -> None:
    create, version = older_requests()["CreateTopicsRequest v1"]
    other = (live.cluster.controller.id + 1) % 3
    assert live.connect(other).call(create, version).topics[0].error_code == 0


def test_feature_that_the_release_lacks_raises_with_the_release() -> None:
    with pytest.raises(UnknownOption, match=r"no feature 'group.version' in Apache Kafka 3\.9"):
        KafkaCluster(as_version="3.9", features={"group.version": 1})


@pytest.mark.gate
@pytest.mark.slow
def test_cluster_in_another_process_responds_like_the_release() -> None:
    with (
        KafkaCluster(1, as_version="2.8", process=True) as cluster,
        RawClient(cluster.bootstrap_servers) as wire,
    ):
        assert ranges(api_versions(wire, 3))[ApiKey.FETCH] == (4, 12)


def epochs_of_a_group_that_all_have_left(live: LiveCluster) -> tuple[int, int]:
    """Return the epochs of a KIP-848 group and of its target assignment, after its only member has left."""
    wire = live.connect()

    def beat(epoch: int) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=epoch,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        return wire.call(request, 1).error_code

    wire.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)  # creates __consumer_offsets
    live.wait_for(lambda: beat(0) == 0)
    assert beat(-1) == 0
    (group,) = wire.call(
        ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False), 1
    ).groups
    assert (group.error_code, group.group_state) == (0, "Empty")
    return group.group_epoch, group.assignment_epoch


@pytest.mark.kafka(brokers=1, topics={"t": 1}, as_version="4.3")
def test_group_that_all_have_left_keeps_its_assignment_epoch_before_4_4(live: LiveCluster) -> None:
    group_epoch, assignment_epoch = epochs_of_a_group_that_all_have_left(live)
    assert assignment_epoch < group_epoch


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_group_that_all_have_left_begins_an_assignment_epoch_since_4_4(live: LiveCluster) -> None:
    group_epoch, assignment_epoch = epochs_of_a_group_that_all_have_left(live)
    assert assignment_epoch == group_epoch
