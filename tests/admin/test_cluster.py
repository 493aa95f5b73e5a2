"""The cluster as a whole, with brokers that stop and features that change, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from pykafka2 import KafkaAdminClient, NewTopic, TopicPartition
from pykafka2.admin.cluster_values import (
    ApiVersion,
    FeatureUpdate,
    UpdateFeatureType,
    VersionRange,
)
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.errors import (
    BrokerIdNotRegistered,
    ControllerIdNotRegistered,
    IllegalArgument,
    InconsistentClusterId,
    InvalidRequest,
    KafkaTimeoutError,
    RequestTimeout,
    UnknownTopicId,
    UnsupportedVersion,
)
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.quorum import AddRaftVoterRequest, RemoveRaftVoterRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.admin.worlds import World


def test_cluster_is_described(world: World) -> None:
    described = world.admin.describe_cluster()
    assert [node.id for node in described.nodes] == [0, 1]
    assert described.controller in described.nodes
    assert described.cluster_id == world.cluster.cluster_id
    assert (described.authorized_operations, described.fenced) == (None, ())


def test_fenced_brokers_and_operations_are_described_if_requested(
    simulation: Simulation, world: World
) -> None:
    world.cluster.controls.stop_broker(1)
    simulation.sleep(1)
    assert [node.id for node in world.admin.describe_cluster().nodes] == [0]
    described = world.admin.describe_cluster(include_fenced_brokers=True, include_authorized_operations=True)
    assert [node.id for node in described.nodes] == [0, 1]
    assert described.fenced == (1,)
    assert described.authorized_operations is not None
    assert {"ALTER", "CREATE", "DESCRIBE", "ALTER_CONFIGS"} <= set(described.authorized_operations)


def test_features_are_described_and_updated(world: World) -> None:
    before = world.admin.describe_features()
    assert before.finalized["group.version"] == VersionRange(1, 1)
    assert before.supported["group.version"] == VersionRange(0, 1)
    assert before.finalized_epoch >= 0
    checked = world.admin.update_features(
        {"group.version": ("SAFE_DOWNGRADE", 0)}, validate_only=True, raise_errors=False
    )
    assert list(checked) == ["group.version"]
    assert world.admin.describe_features().finalized == before.finalized
    with pytest.raises(ItemsFailed, match=r"group\.version"):
        world.admin.update_features({"group.version": 0})
    done = world.admin.update_features({"group.version": FeatureUpdate(0, UpdateFeatureType.SAFE_DOWNGRADE)})
    assert list(done) == ["group.version"]
    assert "group.version" not in world.admin.describe_features().finalized
    world.admin.update_features({"group.version": 1})
    assert world.admin.describe_features().finalized == before.finalized


@pytest.mark.parametrize(
    "updates", [["group.version"], {"group.version": -1}, {"group.version": ("DOWN", 1)}, {"": 1}]
)
def test_invalid_feature_updates_are_refused(world: World, updates: object) -> None:
    with pytest.raises(IllegalArgument):
        world.admin.update_features(updates)  # type: ignore[arg-type]


def test_quorum_of_controllers_is_described(world: World) -> None:
    quorum = world.admin.describe_metadata_quorum()
    assert quorum.leader_id in {voter.replica_id for voter in quorum.voters}
    assert [voter.replica_id for voter in quorum.voters] == [0, 1]
    assert quorum.high_watermark > 0
    assert all(voter.last_caught_up_time_ms for voter in quorum.voters)
    assert sorted(quorum.nodes) == [0, 1]


def test_versions_of_each_broker_are_returned(world: World) -> None:
    world.cluster.history.clear()
    versions = world.admin.api_versions()
    assert list(versions) == [0, 1]
    assert versions[0]["Metadata"] == ApiVersion(3, 0, 13)
    assert list(world.admin.api_versions([1])) == [1]
    with pytest.raises(IllegalArgument, match="list"):
        world.admin.api_versions(1)  # type: ignore[arg-type]


def test_broker_that_is_down_has_its_own_error(world: World) -> None:
    world.admin.api_versions()
    world.cluster.controls.crash_broker(1)
    outcomes = world.admin.api_versions([0, 1, 9], timeout=3, raise_errors=False)
    assert "Fetch" in outcomes[0]
    assert {broker: type(error) for broker, error in outcomes.errors.items()} == {
        1: KafkaTimeoutError,
        9: KafkaTimeoutError,
    }
    assert world.cluster.history.count(ApiVersionsRequest) > 0


def test_controllers_are_unregistered_by_brokers_of_kafka_4_4(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, as_version="4.4")
    active = cluster.controller.id
    with KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_servers, runtime=simulation.runtime.at("admin")
    ) as admin:
        admin.unregister_controller(1 - active)
        with pytest.raises(InvalidRequest, match="cannot unregister itself"):
            admin.unregister_controller(active)
        with pytest.raises(ControllerIdNotRegistered, match="Controller ID 7"):
            admin.unregister_controller(7)
        with pytest.raises(IllegalArgument, match="controller_id"):
            admin.unregister_controller(-1)


@pytest.mark.kafka(brokers=1, as_version="4.3")
def test_older_brokers_do_not_support_unregistering_controllers(kafka_cluster: KafkaCluster) -> None:
    with (
        KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin,
        pytest.raises(UnsupportedVersion, match="UnregisterController"),
    ):
        admin.unregister_controller(0)


def test_stopped_broker_is_unregistered(simulation: Simulation, world: World) -> None:
    world.cluster.controls.stop_broker(1)
    simulation.sleep(1)
    world.admin.unregister_broker(1)
    described = world.admin.describe_cluster(include_fenced_brokers=True)
    assert [node.id for node in described.nodes] == [0]
    with pytest.raises(BrokerIdNotRegistered):
        world.admin.unregister_broker(7)
    with pytest.raises(IllegalArgument, match="broker_id"):
        world.admin.unregister_broker("1")  # type: ignore[arg-type]


def test_change_of_voters_is_refused_by_a_static_quorum(world: World) -> None:
    admin, listeners = world.admin, {"CONTROLLER": ("localhost", 9093)}
    cluster_id = admin.describe_cluster().cluster_id
    for directory in (UUID(int=5), bytes(16)):
        with pytest.raises(UnsupportedVersion, match=r"adding voter because the kraft\.version feature is 0"):
            admin.add_raft_voter(7, directory, listeners, cluster_id=cluster_id)
        with pytest.raises(
            UnsupportedVersion, match=r"removing voter because the kraft\.version feature is 0"
        ):
            admin.remove_raft_voter(7, directory, cluster_id=cluster_id)
    with pytest.raises(InconsistentClusterId, match="another"):
        admin.add_raft_voter(7, bytes(16), listeners, cluster_id="another")
    with pytest.raises(InconsistentClusterId, match="another"):
        admin.remove_raft_voter(7, bytes(16), cluster_id="another")
    with pytest.raises(InvalidRequest, match="CONTROLLER"):
        admin.add_raft_voter(7, bytes(16), {"OTHER": ("localhost", 9093)})


def test_requests_to_change_voters_have_every_argument(world: World) -> None:
    directory = bytes(range(16))
    listeners = {"CONTROLLER": ("kafka-3", 9093), "SECURE": ("kafka-4", 9094)}
    world.cluster.history.clear()
    with pytest.raises(UnsupportedVersion):
        world.admin.add_raft_voter(7, directory, listeners, timeout=3)
    with pytest.raises(UnsupportedVersion):
        world.admin.remove_raft_voter(8, UUID(int=5))
    (added,) = world.cluster.history.requests(AddRaftVoterRequest)
    assert (added.cluster_id, added.voter_id, bytes(added.voter_directory_id)) == (None, 7, directory)
    assert [(one.name, one.host, one.port) for one in added.listeners] == [
        ("CONTROLLER", "kafka-3", 9093),
        ("SECURE", "kafka-4", 9094),
    ]
    assert added.timeout_ms == 3000
    (removed,) = world.cluster.history.requests(RemoveRaftVoterRequest)
    assert (removed.cluster_id, removed.voter_id) == (None, 8)
    assert bytes(removed.voter_directory_id) == UUID(int=5).bytes


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.describe_cluster(timeout=2),
        lambda admin: admin.describe_cluster(include_fenced_brokers=True, timeout=2),
        lambda admin: admin.describe_features(timeout=2),
        lambda admin: admin.update_features({"group.version": 1}, timeout=2),
        lambda admin: admin.describe_metadata_quorum(timeout=2),
        lambda admin: admin.add_raft_voter(7, bytes(16), {"CONTROLLER": ("kafka-3", 9093)}, timeout=2),
        lambda admin: admin.remove_raft_voter(7, bytes(16), timeout=2),
        lambda admin: admin.api_versions(timeout=2),
        lambda admin: admin.unregister_broker(1, timeout=2),
        lambda admin: admin.group_lag("g", timeout=2),
        lambda admin: admin.reset_group_offsets("g", timeout=2),
        lambda admin: admin.reset_group_offsets("g", dry_run=True, timeout=2),
        lambda admin: admin.list_group_offsets("g", timeout=2),
    ],
)
def test_call_ends_after_its_timeout_while_no_broker_responds(
    simulation: Simulation, world: World, call: Callable[[Any], object]
) -> None:
    world.admin.api_versions()
    for broker in (0, 1):
        world.cluster.controls.pause_broker(broker)
    began = simulation.now
    with pytest.raises((KafkaTimeoutError, RequestTimeout, ItemsFailed)):
        call(world.admin)
    assert 1.9 < simulation.now - began < 4
    for broker in (0, 1):
        world.cluster.controls.resume_broker(broker)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("voter_id", -1),
        ("directory_id", b"short"),
        ("directory_id", "text"),
        ("listeners", {}),
        ("listeners", {"CONTROLLER": "localhost:9093"}),
        ("port", {"CONTROLLER": ("localhost", 0)}),
        ("cluster_id", ""),
    ],
    ids=str,
)
def test_invalid_arguments_of_a_voter_are_named(world: World, argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {
        "voter_id": 7,
        "directory_id": bytes(16),
        "listeners": {"CONTROLLER": ("localhost", 9093)},
        "cluster_id": None,
    }
    arguments["listeners" if argument == "port" else argument] = value
    with pytest.raises(IllegalArgument, match=argument):
        world.admin.add_raft_voter(**arguments)


def test_topics_are_described_and_deleted_by_id(world: World) -> None:
    admin = world.admin
    ids = {name: topic.topic_id for name, topic in admin.describe_topics(["orders", "payments"]).items()}
    described = admin.describe_topics_by_id(ids.values(), include_authorized_operations=True)
    assert [described[topic_id].name for topic_id in ids.values()] == ["orders", "payments"]
    assert len(described[ids["orders"]].partitions) == 3
    assert "DESCRIBE" in (described[ids["orders"]].authorized_operations or ())
    unknown = bytes(15) + b"\x07"
    outcomes = admin.delete_topics_by_id([ids["orders"], unknown], raise_errors=False)
    assert outcomes[ids["orders"]] is None
    assert isinstance(outcomes.errors[unknown], UnknownTopicId)
    admin.create_topics([NewTopic("orders", partitions=1)])
    with pytest.raises(ItemsFailed, match="UnknownTopicId"):
        admin.delete_topics_by_id([ids["orders"]])
    with pytest.raises(ItemsFailed, match="UnknownTopicId"):
        admin.describe_topics_by_id([ids["orders"]])
    assert admin.list_topics() == ["orders", "payments"]


def test_topic_ids_can_be_uuids(world: World) -> None:
    from uuid import UUID

    topic_id = world.admin.describe_topics(["orders"])["orders"].topic_id
    assert world.admin.describe_topics_by_id([UUID(bytes=topic_id)])[topic_id].name == "orders"
    with pytest.raises(IllegalArgument, match="16 bytes"):
        world.admin.describe_topics_by_id(["orders"])  # type: ignore[list-item]
    assert TopicPartition("orders", 0) in world.admin.list_offsets({TopicPartition("orders", 0): "latest"})
