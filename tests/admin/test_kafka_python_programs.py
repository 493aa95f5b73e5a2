"""Admin programs written for kafka-python, with only their import changed, on a real socket."""

from __future__ import annotations

import pytest

import pykafka2
from pykafka2 import KafkaAdminClient, TopicPartition, admin
from pykafka2.admin import (
    ACL,
    AbortTransactionSpec,
    AclBinding,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    GroupState,
    GroupType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pykafka2.errors import IllegalArgument
from tests.admin.worlds import World

PROGRAM = """
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.structs import OffsetAndMetadata, TopicPartition

admin = KafkaAdminClient(bootstrap_servers=[SERVER])
admin.create_topics(['plain'], timeout_ms=None, validate_only=False)
admin.create_topics(
    {'detailed': {
        'num_partitions': 1,
        'replication_factor': 1,
        'configs': {'max.message.bytes': '1000000'},
    }},
    timeout_ms=5000,
)
admin.create_topics({'placed': {'assignments': {0: [0]}}}, wait_for_metadata=True)
admin.create_topics([NewTopic(name='old', num_partitions=2, replication_factor=1)], timeout_ms=5000)
admin.create_topics([NewTopic('older', 1, 1, topic_configs={'retention.ms': '5'})])
admin.wait_for_topics(['plain', 'detailed', 'old'], timeout_ms=10000)
admin.create_partitions({'old': NewPartitions(3), 'detailed': {'count': 2}}, timeout_ms=5000)
admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, 'plain', configs={'retention.ms': '7000'})])
found = admin.describe_configs([ConfigResource('TOPIC', 'plain', configs=['retention.ms'])])
admin.alter_group_offsets('g', {TopicPartition('plain', 0): OffsetAndMetadata(0, '', -1)})
listed = admin.list_groups()
described = admin.describe_groups(['g'])
offsets = admin.list_group_offsets(['g'])
admin.delete_records({TopicPartition('plain', 0): 0}, timeout_ms=5000)
admin.delete_topics(['plain'], timeout_ms=5000)
topics = admin.list_topics()
admin.close()
"""


@pytest.mark.kafka(brokers=1)
def test_admin_program_runs_with_its_import_changed(kafka_cluster: pykafka2.testing.KafkaCluster) -> None:
    names: dict[str, object] = {"SERVER": kafka_cluster.bootstrap_servers}
    exec(PROGRAM.replace("from kafka", "from pykafka2"), names)
    assert names["topics"] == ["detailed", "old", "older", "placed"]
    assert [group.group_id for group in names["listed"]] == ["g"]  # type: ignore[attr-defined]
    assert names["offsets"]["g"][TopicPartition("plain", 0)].offset == 0  # type: ignore[index]
    assert names["described"]["g"].state == GroupState.EMPTY  # type: ignore[index]
    (settings,) = names["found"].values()  # type: ignore[attr-defined]
    assert settings["retention.ms"].value == "7000"
    assert {name: len(one.partitions) for name, one in _described(kafka_cluster).items()} == {
        "detailed": 2,
        "old": 3,
    }


def _described(cluster: pykafka2.testing.KafkaCluster) -> dict[str, admin.TopicDescription]:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        return dict(client.describe_topics(["detailed", "old"]))


def test_every_public_name_of_the_admin_package_can_be_imported() -> None:
    assert list(admin.__all__) == sorted(admin.__all__)
    for name in admin.__all__:
        assert getattr(admin, name).__module__.startswith("pykafka2.")


def test_topics_have_kafka_pythons_arguments() -> None:
    theirs = NewTopic("a", num_partitions=2, replica_assignments={0: [1]}, topic_configs={"k": "v"})
    assert theirs == NewTopic("a", partitions=2, assignment={0: [1]}, configs={"k": "v"})
    with pytest.raises(IllegalArgument, match="num_partitions"):
        NewTopic("a", 3, num_partitions=2)


@pytest.mark.parametrize(
    ("topics", "named"),
    [
        ("orders", "list"),
        ({"num_partitions": 1}, "must be a dict"),
        ({"a": {"partitions": 1}}, "unknown option 'partitions'"),
        ([3], "NewTopic"),
    ],
)
def test_invalid_topics_are_refused(world: World, topics: object, named: str) -> None:
    with pytest.raises(IllegalArgument, match=named):
        world.admin.create_topics(topics)  # type: ignore[arg-type]


def test_both_timeouts_at_once_are_refused(world: World) -> None:
    with pytest.raises(IllegalArgument, match="timeout_ms"):
        world.admin.delete_topics(["orders"], timeout=1, timeout_ms=1000)


def test_rules_are_made_with_kafka_pythons_classes(world: World) -> None:
    pattern = ResourcePattern(ResourceType.TOPIC, "orders")
    acl = ACL("User:ann", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
    assert acl == AclBinding("TOPIC", "orders", "LITERAL", "User:ann", "*", "READ", "ALLOW")
    every = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    acl_filter = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, every)
    with pytest.raises(pykafka2.errors.SecurityDisabled):
        world.admin.describe_acls(acl_filter)


def test_kafka_pythons_enums_are_accepted(world: World) -> None:
    partition = TopicPartition("orders", 0)
    assert world.admin.list_offsets({partition: OffsetSpec.LATEST})[partition].offset == 0
    assert world.admin.list_groups(states=[GroupState.STABLE], types=[GroupType.CONSUMER]) == []
    orders = ConfigResource(ConfigResourceType.TOPIC, "orders", {"cleanup.policy": ("APPEND", "compact")})
    world.admin.alter_configs([orders])
    world.admin.alter_configs({orders: {"cleanup.policy": (AlterConfigOp.SUBTRACT, "compact")}})
    world.admin.upsert_scram_user("ann", "secret", mechanism=ScramMechanism.SCRAM_SHA_256)
    world.admin.create_partitions({"orders": NewPartitions(total_count=4)})
    world.fill("payments", [1])
    payments = TopicPartition("payments", 0)
    world.admin.abort_transaction(AbortTransactionSpec(payments, 77, 3))
    assert world.admin.list_offsets({payments: "latest"})[payments].offset == 2, "a record and the marker"


def test_password_and_mechanism_in_kafka_pythons_order_are_refused_without_the_password(world: World) -> None:
    swapped = UserScramCredentialUpsertion("ann", ScramMechanism.SCRAM_SHA_256, "the secret")
    with pytest.raises(IllegalArgument, match="mechanism comes after the password") as raised:
        world.admin.alter_user_scram_credentials([swapped])
    assert "the secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("list_consumer_groups", r"Use list_groups\(\)"),
        ("describe_streams_groups", "streams groups are listed, no more"),
        ("alter_streams_group_offsets", r"list_groups\(types=\['Streams'\]\)"),
        ("no_such_call", "no attribute 'no_such_call'$"),
    ],
)
def test_calls_with_other_names_are_named(world: World, name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=instead):
        getattr(world.admin, name)
