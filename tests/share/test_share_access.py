"""Rights of share groups: two users with a group each, against the authorizer, in virtual time.

The answers to single requests are compared with those of Apache Kafka in the scenario
`access_to_share_groups` (tests/conformance).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, KafkaShareConsumer, TopicPartition, errors
from pykafka2.admin import ConfigResource, ItemsFailed
from pykafka2.testing import STANDARD_AUTHORIZER, Simulation
from tests.share.world import identity, take

CONFIG = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:root",
    "offsets.topic.num.partitions": 2,
    "share.coordinator.state.topic.num.partitions": 2,
    "group.share.assignment.interval.ms": 0,
}
JOBS, MAILS = TopicPartition("jobs", 0), TopicPartition("mails", 0)

Call = Callable[[KafkaAdminClient], Any]


class AccessWorld:
    """A cluster with the topics `jobs` and `mails`, the users `ann` and `bob`, and the super user `root`."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._clients = 0
        self.cluster = simulation.cluster(
            3,
            ["jobs", "mails"],
            config=CONFIG,
            listeners=["SASL_PLAINTEXT"],
            users={"ann": "ann-secret", "bob": "bob-secret", "root": "root-secret"},
        )
        with self.admin("root") as root:
            for group in ("of-ann", "of-bob"):
                root.alter_configs({ConfigResource("GROUP", group): {"share.auto.offset.reset": "earliest"}})

    def options(self, user: str) -> Any:
        self._clients += 1
        runtime = self._simulation.runtime.at(f"{user}-{self._clients}")
        return {**self.cluster.options_for(user), "runtime": runtime}

    def allow(self, user: str, *operations: str, **resource: Any) -> None:
        self.cluster.acls.allow(f"User:{user}", *operations, **resource)

    def revoke(self, user: str, *operations: str, **resource: Any) -> None:
        self.cluster.acls.revoke(f"User:{user}", *operations, **resource)

    def admin(self, user: str) -> KafkaAdminClient:
        return KafkaAdminClient(**self.options(user))

    def consumer(self, user: str, group: str, *topics: str, **options: Any) -> KafkaShareConsumer[Any, Any]:
        return KafkaShareConsumer(*topics, group_id=group, **options, **self.options(user))

    def send(self, *values: bytes, topic: str = "jobs") -> None:
        with KafkaProducer(**self.options("root")) as producer:
            for value in values:
                producer.send(topic, value)


@pytest.fixture
def world(simulation: Simulation) -> AccessWorld:
    return AccessWorld(simulation)


def test_each_user_consumes_from_the_group_with_read_and_no_other(world: AccessWorld) -> None:
    world.send(b"1", b"2")
    for user in ("ann", "bob"):
        world.allow(user, "READ", group=f"of-{user}")
        world.allow(user, "READ", topic="jobs")
    for user, other in (("ann", "bob"), ("bob", "ann")):
        with world.consumer(user, f"of-{user}", "jobs") as consumer:
            assert identity(take(consumer, 2)) == {("jobs", b"1"), ("jobs", b"2")}
        with (
            world.consumer(user, f"of-{other}", "jobs") as consumer,
            pytest.raises(errors.GroupAuthorizationFailed, match=rf"'of-{other}'.*READ"),
        ):
            consumer.poll(30_000)


def test_group_needs_read_and_describe_is_not_enough(
    world: AccessWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.send(b"1")
    world.allow("ann", "READ", topic="jobs")
    world.allow("ann", "DESCRIBE", "DELETE", group="of-ann")
    with world.consumer("ann", "of-ann", "jobs") as consumer:
        with pytest.raises(errors.GroupAuthorizationFailed, match=r"'of-ann'.*READ"):
            consumer.poll(30_000)
        assert "share group 'of-ann': not authorized" in caplog.text
        world.allow("ann", "READ", group="of-ann")
        assert identity(take(consumer, 1)) == {("jobs", b"1")}


@pytest.mark.parametrize("operation", [None, "DESCRIBE", "WRITE"])
def test_topic_without_read_is_not_delivered(world: AccessWorld, operation: str | None) -> None:
    world.send(b"1")
    world.allow("ann", "READ", group="of-ann")
    if operation is not None:
        world.allow("ann", operation, topic="jobs")
    with world.consumer("ann", "of-ann", "jobs") as consumer:
        for _ in range(3):
            with pytest.raises(errors.TopicAuthorizationFailed, match=r"jobs.*READ"):
                consumer.poll(30_000)
        world.allow("ann", "READ", topic="jobs")
        assert identity(take_later(consumer, 1)) == {("jobs", b"1")}


def test_topic_without_read_does_not_keep_back_the_records_of_others(world: AccessWorld) -> None:
    world.send(b"1")
    world.send(b"2", topic="mails")
    world.allow("ann", "READ", group="of-ann")
    world.allow("ann", "READ", topic="mails")
    world.allow("ann", "DESCRIBE", topic="jobs")
    with world.consumer("ann", "of-ann", "jobs", "mails") as consumer:
        assert identity(take_later(consumer, 1)) == {("mails", b"2")}
        with pytest.raises(errors.TopicAuthorizationFailed, match=r"jobs-0.*READ"):
            consumer.poll(30_000)


def take_later(consumer: KafkaShareConsumer[Any, Any], count: int) -> list[Any]:
    """Return records as `take` does; polls can raise before, for a topic without READ."""
    for _ in range(10):
        try:
            return take(consumer, count)
        except errors.TopicAuthorizationFailed:
            continue
    raise AssertionError(consumer.explain())


def test_revoked_read_on_the_group_ends_the_membership_until_restored(world: AccessWorld) -> None:
    world.send(b"1")
    world.allow("ann", "READ", group="of-ann")
    world.allow("ann", "READ", topic="jobs")
    with world.consumer("ann", "of-ann", "jobs") as consumer:
        assert identity(take(consumer, 1)) == {("jobs", b"1")}
        assert consumer.commit() == {JOBS: None}
        world.revoke("ann", group="of-ann")
        with pytest.raises(errors.GroupAuthorizationFailed, match=r"'of-ann'.*READ"):
            consumer.poll(30_000)
        world.allow("ann", "READ", group="of-ann")
        world.send(b"2")
        assert identity(take(consumer, 1)) == {("jobs", b"2")}


def test_acknowledgement_without_read_on_the_topic_fails(world: AccessWorld) -> None:
    world.send(b"1")
    world.allow("ann", "READ", group="of-ann")
    world.allow("ann", "READ", topic="jobs")
    with world.consumer("ann", "of-ann", "jobs") as consumer:
        take(consumer, 1)
        world.revoke("ann", topic="jobs")
        (error,) = consumer.commit().values()
        assert isinstance(error, errors.TopicAuthorizationFailed)


CALLS: dict[str, tuple[str, str | None, Call]] = {
    "describe": ("DESCRIBE", None, lambda admin: admin.describe_share_groups(["of-ann"])),
    "list offsets": ("DESCRIBE", "DESCRIBE", lambda admin: admin.list_share_group_offsets("of-ann", [JOBS])),
    "alter offsets": ("READ", "READ", lambda admin: admin.alter_share_group_offsets("of-ann", {JOBS: 0})),
    "delete offsets": ("DELETE", "READ", lambda admin: admin.delete_share_group_offsets("of-ann", ["jobs"])),
    "delete": ("DELETE", None, lambda admin: admin.delete_share_groups(["of-ann"])),
}
"""Admin calls with the operations that they need on the group and on the topic."""
OTHERS = {"DESCRIBE": ["ALTER_CONFIGS"], "READ": ["DESCRIBE", "DELETE"], "DELETE": ["DESCRIBE", "READ"]}
"""Operations that do not include another one."""


def errors_of(call: Call, admin: KafkaAdminClient) -> set[type[Exception]]:
    """Return the types of the errors that a call raises, by itself or for its items."""
    try:
        call(admin)
    except ItemsFailed as failed:
        return {type(error) for error in failed.outcomes.errors.values()}
    except errors.AuthorizationError as error:
        return {type(error)}
    return set()


@pytest.mark.parametrize("name", CALLS)
def test_admin_call_needs_the_operations_of_kafka(world: AccessWorld, name: str) -> None:
    of_group, of_topic, call = CALLS[name]
    world.send(b"1")
    with world.consumer("root", "of-ann", "jobs") as consumer:
        take(consumer, 1)
    with world.admin("ann") as admin:
        world.allow("ann", "READ", topic="jobs")
        world.allow("ann", *OTHERS[of_group], group="of-ann")
        world.allow("ann", "ALL", group="of-bob")
        assert errors_of(call, admin) == {errors.GroupAuthorizationFailed}
        world.revoke("ann")
        world.allow("ann", of_group, group="of-ann")
        if of_topic is not None:
            world.allow("ann", *({"READ": ["DESCRIBE"]}.get(of_topic, [])), "CREATE", topic="jobs")
            assert errors_of(call, admin) == {errors.TopicAuthorizationFailed}
            world.allow("ann", of_topic, topic="jobs")
        assert errors_of(call, admin) == set()


def test_offsets_of_topics_without_describe_are_not_listed(world: AccessWorld) -> None:
    for topic in ("jobs", "mails"):
        world.send(b"1", topic=topic)
    with world.consumer("root", "of-ann", "jobs", "mails") as consumer:
        take(consumer, 2)
    world.allow("ann", "DESCRIBE", group="of-ann")
    world.allow("ann", "DESCRIBE", topic="mails")
    with world.admin("ann") as admin:
        assert list(admin.list_share_group_offsets("of-ann")) == [MAILS]
        assert [group.group_id for group in admin.list_groups()] == ["of-ann"]


@pytest.mark.parametrize("operations", [[], ["DESCRIBE"]])
@pytest.mark.parametrize("name", ["alter offsets", "delete offsets"])
def test_offsets_of_a_group_without_a_right_raise_the_error_of_the_group(
    world: AccessWorld, name: str, operations: list[str]
) -> None:
    if operations:
        world.allow("ann", *operations, group="of-ann")
    with world.admin("ann") as admin, pytest.raises(errors.GroupAuthorizationFailed):
        CALLS[name][2](admin)


@pytest.mark.parametrize("name", ["list offsets", "alter offsets", "delete offsets"])
def test_offsets_of_a_topic_without_a_right_have_the_message_of_kafka(world: AccessWorld, name: str) -> None:
    world.send(b"1")
    with world.consumer("root", "of-ann", "jobs") as consumer:
        take(consumer, 1)
    world.allow("ann", "ALL", group="of-ann")
    with world.admin("ann") as admin, pytest.raises(ItemsFailed) as failed:
        CALLS[name][2](admin)
    assert [str(error) for error in failed.value.outcomes.errors.values()] == ["Topic authorization failed."]
