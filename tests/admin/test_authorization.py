"""Errors of admin calls whose principal lacks a right, with two topics and two groups, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, TopicPartition, errors
from pykafka2.admin import ConfigResource, ItemsFailed, Outcomes
from pykafka2.structs import TopicPartitionReplica
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster, Simulation

ME = "User:ANONYMOUS"
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
TOPIC = ConfigResource("TOPIC", "orders")

Call = Callable[[KafkaAdminClient], Any]

BY_ITEM: dict[str, tuple[Call, type[errors.KafkaError]]] = {
    "list_offsets": (
        lambda admin: admin.list_offsets({ORDERS: "latest", PAYMENTS: "latest"}, raise_errors=False),
        errors.TopicAuthorizationFailed,
    ),
    "delete_records": (
        lambda admin: admin.delete_records({ORDERS: 0, PAYMENTS: 0}, raise_errors=False),
        errors.TopicAuthorizationFailed,
    ),
    "describe_producers": (
        lambda admin: admin.describe_producers([ORDERS, PAYMENTS], raise_errors=False),
        errors.TopicAuthorizationFailed,
    ),
    "create_partitions": (
        lambda admin: admin.create_partitions({"orders": 5, "payments": 5}, raise_errors=False),
        errors.TopicAuthorizationFailed,
    ),
    "describe_configs": (
        lambda admin: admin.describe_configs([TOPIC], raise_errors=False),
        errors.TopicAuthorizationFailed,
    ),
    "alter_configs": (
        lambda admin: admin.alter_configs({TOPIC: {"retention.ms": 5}}, raise_errors=False),
        errors.TopicAuthorizationFailed,
    ),
    "alter_configs of a broker": (
        lambda admin: admin.alter_configs(
            {ConfigResource("BROKER", "1"): {"log.cleaner.threads": 2}}, raise_errors=False
        ),
        errors.ClusterAuthorizationFailed,
    ),
    "describe_groups": (
        lambda admin: admin.describe_groups(["g", "h"], raise_errors=False),
        errors.GroupAuthorizationFailed,
    ),
    "delete_groups": (
        lambda admin: admin.delete_groups(["g", "h"], raise_errors=False),
        errors.GroupAuthorizationFailed,
    ),
    "list_offsets_of_groups": (
        lambda admin: admin.list_offsets_of_groups(["g", "h"], raise_errors=False),
        errors.GroupAuthorizationFailed,
    ),
    "alter_group_offsets": (
        lambda admin: admin.alter_group_offsets("g", {ORDERS: 0, PAYMENTS: 0}, raise_errors=False),
        errors.GroupAuthorizationFailed,
    ),
    "elect_leaders": (
        lambda admin: admin.elect_leaders([ORDERS, PAYMENTS], raise_errors=False),
        errors.ClusterAuthorizationFailed,
    ),
    "alter_partition_reassignments": (
        lambda admin: admin.alter_partition_reassignments({ORDERS: [0], PAYMENTS: [0]}, raise_errors=False),
        errors.ClusterAuthorizationFailed,
    ),
    "describe_log_dirs": (
        lambda admin: admin.describe_log_dirs(raise_errors=False),
        errors.ClusterAuthorizationFailed,
    ),
    "alter_replica_log_dirs": (
        lambda admin: admin.alter_replica_log_dirs(
            {TopicPartitionReplica("orders", 0, 0): "/data"}, raise_errors=False
        ),
        errors.ClusterAuthorizationFailed,
    ),
    "update_features": (
        lambda admin: admin.update_features({"group.version": 1}, raise_errors=False),
        errors.ClusterAuthorizationFailed,
    ),
}

WHOLE: dict[str, Call] = {
    "list_partition_reassignments": lambda admin: admin.list_partition_reassignments(),
    "list_config_resources": lambda admin: admin.list_config_resources(),
    "describe_metadata_quorum": lambda admin: admin.describe_metadata_quorum(),
    "add_raft_voter": lambda admin: admin.add_raft_voter(1, bytes(16), {"CONTROLLER": ("localhost", 1)}),
    "remove_raft_voter": lambda admin: admin.remove_raft_voter(1, bytes(16)),
    "unregister_controller": lambda admin: admin.unregister_controller(1),
    "unregister_broker": lambda admin: admin.unregister_broker(1),
    "elect_leaders of all": lambda admin: admin.elect_leaders(),
    "abort_transaction": lambda admin: admin.abort_transaction(ORDERS, 1, 1, coordinator_epoch=0),
}

NEEDED: dict[str, tuple[str, Call]] = {
    "describe_groups": ("DESCRIBE", lambda admin: admin.describe_groups(["g"])),
    "list_group_offsets": ("DESCRIBE", lambda admin: admin.list_group_offsets("g")),
    "group_lag": ("DESCRIBE", lambda admin: admin.group_lag("g")),
    "alter_group_offsets": ("READ", lambda admin: admin.alter_group_offsets("g", {ORDERS: 0})),
    "delete_groups": ("DELETE", lambda admin: admin.delete_groups(["g"])),
    "delete_group_offsets": ("DELETE", lambda admin: admin.delete_group_offsets("g", [ORDERS])),
    "describe_share_groups": ("DESCRIBE", lambda admin: admin.describe_share_groups(["g"])),
    "list_share_group_offsets": ("DESCRIBE", lambda admin: admin.list_share_group_offsets("g")),
    "delete_share_groups": ("DELETE", lambda admin: admin.delete_share_groups(["g"])),
    "describe_transactions": ("DESCRIBE", lambda admin: admin.describe_transactions(["t"])),
    "fence_producers": ("WRITE", lambda admin: admin.fence_producers(["t"])),
    "describe_topics": ("DESCRIBE", lambda admin: admin.describe_topics(["orders"])),
    "create_partitions": ("ALTER", lambda admin: admin.create_partitions({"orders": 5})),
    "list_offsets": ("DESCRIBE", lambda admin: admin.list_offsets({ORDERS: "latest"})),
    "delete_records": ("DELETE", lambda admin: admin.delete_records({ORDERS: 0})),
    "describe_producers": ("READ", lambda admin: admin.describe_producers([ORDERS])),
    "find_hanging_transactions": (
        "DESCRIBE",
        lambda admin: admin.find_hanging_transactions(topics=["orders"]),
    ),
}
"""The operation that each call needs on the group, transactional id or topic."""


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER}
    return simulation.cluster(brokers=2, topics=["orders", "payments"], config=config, as_version="4.4")


@pytest.fixture
def admin(simulation: Simulation, cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        yield admin


@pytest.mark.parametrize("name", BY_ITEM)
def test_each_item_without_a_right_has_its_error_at_once(
    simulation: Simulation, admin: KafkaAdminClient, name: str
) -> None:
    call, error = BY_ITEM[name]
    started = simulation.now
    outcomes = call(admin)
    assert isinstance(outcomes, Outcomes)
    assert {type(one) for one in outcomes.errors.values()} == {error}
    assert not outcomes.succeeded
    assert simulation.now - started < 1


@pytest.mark.parametrize("name", WHOLE)
def test_call_without_a_right_on_the_cluster_raises_at_once(
    simulation: Simulation, cluster: KafkaCluster, admin: KafkaAdminClient, name: str
) -> None:
    cluster.acls.allow(ME, "DESCRIBE", topic="orders")
    started = simulation.now
    with pytest.raises(errors.ClusterAuthorizationFailed):
        WHOLE[name](admin)
    assert simulation.now - started < 1


@pytest.mark.parametrize("name", NEEDED)
def test_error_without_a_right_names_the_operation_that_the_call_needs(
    admin: KafkaAdminClient, name: str
) -> None:
    operation, call = NEEDED[name]
    with pytest.raises((errors.AuthorizationError, ItemsFailed), match=rf"needs an ACL: .*\b{operation}\b"):
        call(admin)


@pytest.mark.parametrize("name", ["find_hanging_transactions", "list_offsets"])
def test_error_from_the_metadata_names_the_topic(admin: KafkaAdminClient, name: str) -> None:
    _, call = NEEDED[name]
    with pytest.raises((errors.AuthorizationError, ItemsFailed), match=r"topic 'orders': .*needs an ACL"):
        call(admin)


def test_items_with_a_right_succeed_beside_items_without_one(
    cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    assert admin.list_groups() == admin.list_transactions() == []
    cluster.acls.allow(ME, "DESCRIBE", topic="orders")
    outcomes = admin.list_offsets({ORDERS: "latest", PAYMENTS: "latest"}, raise_errors=False)
    assert outcomes[ORDERS].offset == 0
    assert isinstance(outcomes.errors[PAYMENTS], errors.TopicAuthorizationFailed)
    cluster.acls.allow(ME, "READ", group="g")
    cluster.acls.allow(ME, "READ", topic="orders")
    committed = admin.alter_group_offsets("g", {ORDERS: 0, PAYMENTS: 0}, raise_errors=False)
    assert committed[ORDERS] is None
    assert isinstance(committed.errors[PAYMENTS], errors.TopicAuthorizationFailed)
    described = admin.describe_groups(["g", "h"], raise_errors=False)
    assert described["g"].state == "Empty"
    assert isinstance(described.errors["h"], errors.GroupAuthorizationFailed)
    assert [group.group_id for group in admin.list_groups()] == ["g"]
