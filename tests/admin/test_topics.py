"""Topics: several in one call, and waiting for them, against the bundled cluster in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2 import KafkaAdminClient, NewTopic
from pykafka2.admin.outcomes import ItemsFailed, Outcomes
from pykafka2.errors import (
    CorruptResponse,
    IllegalArgument,
    InvalidReplicationFactor,
    InvalidTopicException,
    KafkaTimeoutError,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from pykafka2.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest
from pykafka2.testing import KafkaCluster, Simulation


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    return simulation.cluster(brokers=2)


@pytest.fixture
def admin(simulation: Simulation, cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        yield admin


def test_waiting_for_a_topic_creates_none(admin: KafkaAdminClient) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="misspelt"):
        admin.wait_for_topics(["misspelt"], timeout=2)
    assert admin.list_topics() == []


def test_a_partition_without_a_leader_is_waited_for_and_named(
    simulation: Simulation, cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    admin.create_topics([NewTopic("orders", assignment={0: [0], 1: [1]})])
    admin.wait_for_topics(["orders"], timeout=10)
    cluster.controls.crash_broker(1)
    simulation.sleep(1)
    started = simulation.now
    with KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_servers, runtime=simulation.runtime.at("other")
    ) as other:
        with pytest.raises(KafkaTimeoutError, match=r"orders-1 within 3 s"):
            other.wait_for_topics(["orders"], timeout=3)
        assert simulation.now - started == pytest.approx(3, abs=0.5)

        def come_back() -> None:
            simulation.sleep(2)
            cluster.controls.restart_broker(1)

        simulation.spawn(come_back)
        other.wait_for_topics(["orders"], timeout=60)
        assert other.describe_topics(["orders"])["orders"].partitions[1].leader == 1


# ---------------------------------------------------------------------- several topics

OF_THE_TOPIC = 1
"""DescribeConfigs' number of a value's source."""


def placed(admin: KafkaAdminClient, topic: str) -> dict[int, list[int]]:
    partitions = admin.describe_topics([topic])[topic].partitions
    assert [one.partition for one in partitions] == list(range(len(partitions)))
    return {one.partition: list(one.replicas) for one in partitions}


def configured(admin: KafkaAdminClient, topic: str) -> dict[str, str | None]:
    """The configuration that the topic itself has."""
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=None)
    (answer,) = admin._cluster.request(DescribeConfigsRequest(resources=[resource])).results
    return {one.name: one.value for one in answer.configs if one.config_source == OF_THE_TOPIC}


def test_settings_of_a_new_topic_can_be_numbers_and_bools(admin: KafkaAdminClient) -> None:
    configs = {"retention.ms": 1000, "preallocate": True, "min.cleanable.dirty.ratio": 0.25}
    admin.create_topics([NewTopic("typed", configs=configs)], wait_for_metadata=True)
    assert configured(admin, "typed") == {
        "retention.ms": "1000",
        "preallocate": "true",
        "min.cleanable.dirty.ratio": "0.25",
    }
    with pytest.raises(
        IllegalArgument, match=r"topic 'bad': retention.ms=\[1\] must be a str, a number or a bool"
    ):
        admin.create_topics([NewTopic("bad", configs={"retention.ms": [1]})])  # type: ignore[dict-item]


def test_each_topic_is_created_with_its_own_settings(admin: KafkaAdminClient) -> None:
    created = admin.create_topics(
        [
            "plain",
            NewTopic("wide", partitions=3, replication_factor=2),
            NewTopic("assigned", assignment={0: [1], 1: [0]}),
            NewTopic("kept", configs={"retention.ms": "1000", "cleanup.policy": "compact"}),
        ]
    )
    admin.wait_for_topics(created, timeout=10)
    assert list(created) == ["plain", "wide", "assigned", "kept"]
    assert {name: len(one.partitions) for name, one in admin.describe_topics(created).items()} == {
        "plain": 1,
        "wide": 3,
        "assigned": 2,
        "kept": 1,
    }
    assert [len(brokers) for brokers in placed(admin, "wide").values()] == [2, 2, 2]
    assert placed(admin, "assigned") == {0: [1], 1: [0]}
    assert configured(admin, "kept") == {"retention.ms": "1000", "cleanup.policy": "compact"}
    assert configured(admin, "wide") == {}
    assert {created[name].topic_id for name in created} == {
        one.topic_id for one in admin.describe_topics(created).values()
    }


def test_each_created_topic_has_its_own_outcome(admin: KafkaAdminClient) -> None:
    admin.create_topics(["orders"])
    wanted = ["bad name", "orders", NewTopic("far", replication_factor=9), "new-1", "new-2"]
    outcomes = admin.create_topics(wanted, raise_errors=False)
    assert {name: type(error) for name, error in outcomes.errors.items()} == {
        "bad name": InvalidTopicException,
        "orders": TopicAlreadyExists,
        "far": InvalidReplicationFactor,
    }
    assert [outcomes[name].name for name in ("new-1", "new-2")] == ["new-1", "new-2"]
    with pytest.raises(InvalidReplicationFactor):
        outcomes["far"]
    with pytest.raises(ItemsFailed, match=r"failed for 2 of 3: .*bad name.*; .*orders") as caught:
        admin.create_topics(["bad name", "new-3", "orders"])
    assert list(caught.value.outcomes.errors) == ["bad name", "orders"]
    assert admin.list_topics() == ["new-1", "new-2", "new-3", "orders"]


def test_topics_that_are_only_validated_are_not_created(admin: KafkaAdminClient) -> None:
    assert list(admin.create_topics(["a", "b"], validate_only=True)) == ["a", "b"]
    assert admin.list_topics() == []


def test_each_deleted_topic_has_its_own_outcome(admin: KafkaAdminClient) -> None:
    admin.create_topics(["a", "b", "c"])
    outcomes = admin.delete_topics(["missing-1", "a", "missing-2", "b"], raise_errors=False)
    assert list(outcomes.errors) == ["missing-1", "missing-2"]
    assert {type(error) for error in outcomes.errors.values()} == {UnknownTopicOrPartition}
    assert (outcomes["a"], outcomes["b"]) == (None, None)
    assert admin.list_topics() == ["c"]
    with pytest.raises(ItemsFailed, match=r"delete_topics failed for 2 of 3: a: .*; b: "):
        admin.delete_topics(["a", "c", "b"])
    assert admin.list_topics() == []


def test_each_described_topic_has_its_own_outcome(admin: KafkaAdminClient) -> None:
    admin.create_topics(["a", NewTopic("b", partitions=2)])
    admin.wait_for_topics(["a", "b"])
    outcomes = admin.describe_topics(["missing-1", "a", "missing-2", "b"], raise_errors=False)
    assert list(outcomes.errors) == ["missing-1", "missing-2"]
    assert [len(outcomes[name].partitions) for name in ("a", "b")] == [1, 2]


def test_internal_topics_are_listed_on_request(
    simulation: Simulation, cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    admin.create_topics(["a", "b"])
    producer = simulation.producer(cluster, transactional_id="creates the log of transactions")
    producer.init_transactions()
    producer.close()
    assert admin.list_topics() == ["a", "b"]
    assert admin.list_topics(include_internal=True) == ["__transaction_state", "a", "b"]


def test_every_topic_is_waited_for_within_one_timeout(
    simulation: Simulation, cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    """The first topic appears late, the second one has two partitions without a leader, so 3 s are over."""
    admin.create_topics([NewTopic("led", assignment={0: [0]}), NewTopic("lost", assignment={0: [1], 1: [1]})])
    admin.wait_for_topics(["led", "lost"], timeout=10)
    cluster.controls.crash_broker(1)
    simulation.sleep(1)

    def create() -> None:
        simulation.sleep(2)
        cluster.create_topic("late", partitions=1)

    simulation.spawn(create)
    started = simulation.now
    with pytest.raises(KafkaTimeoutError, match=r"no leader of lost-0, lost-1 within 3 s"):
        admin.wait_for_topics(["late", "led", "lost"], timeout=3)
    assert simulation.now - started == pytest.approx(3, abs=0.5)


def test_a_missing_topic_behind_a_late_one_is_waited_for_within_one_timeout(
    simulation: Simulation, cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    def create() -> None:
        simulation.sleep(2)
        cluster.create_topic("late", partitions=1)

    simulation.spawn(create)
    started = simulation.now
    with pytest.raises(UnknownTopicOrPartition, match="missing"):
        admin.wait_for_topics(["late", "missing"], timeout=3)
    assert simulation.now - started == pytest.approx(3, abs=0.5)


@pytest.mark.parametrize(("timeout", "sent_ms"), [(None, 30_000), (7.5, 7_500)])
def test_the_broker_gets_the_timeout_of_the_call(
    admin: KafkaAdminClient, cluster: KafkaCluster, timeout: float | None, sent_ms: int
) -> None:
    for change in (admin.create_topics, admin.delete_topics):
        change(["a"], timeout=timeout)
    requests = [cluster.history.requests(api)[-1] for api in (CreateTopicsRequest, DeleteTopicsRequest)]
    assert [one.timeout_ms for one in requests] == [sent_ms, sent_ms]


def test_request_is_not_repeated_if_only_some_of_its_topics_timed_out(
    admin: KafkaAdminClient, cluster: KafkaCluster
) -> None:
    """The repetition would fail for the topics that were created: they exist."""
    results = [{"name": "a"}, {"name": "b", "error_code": RequestTimedOut.code}]
    cluster.controls.rule(api="CreateTopics", then="replace_reply", times=1, reply={"topics": results})
    outcomes = admin.create_topics(["a", "b"], raise_errors=False)
    assert list(outcomes.succeeded) == ["a"]
    assert isinstance(outcomes.errors["b"], RequestTimedOut)
    assert cluster.history.count(CreateTopicsRequest) == 1


def test_every_topic_that_an_answer_leaves_out_is_named() -> None:
    with pytest.raises(CorruptResponse, match=r"has no result for 'b', 'd'$"):
        Outcomes.of_all(["a", "b", "c", "d"], {"a": 1}, {"c": UnknownTopicOrPartition()})
