"""Subscriptions of members: names, patterns matched here, patterns resolved by the brokers, and changes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, SubscriptionPattern
from pykafka2.cluster.metadata import Metadata
from pykafka2.errors import ConfigurationError, IllegalArgument, InvalidRegularExpression
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import Simulation
from pykafka2.types import TopicPartition
from tests.cluster.scripted import BOOTSTRAP, ScriptedCluster
from tests.consumer.group.kip848.groups import beats, consumer_group, membership, reconciliation, topics_of
from tests.consumer.group.life import Group, Member

pytestmark = pytest.mark.slow

TOPICS = {"orders": 2, "orders-eu": 2, "bills": 2}


def patterned(group: Group, pattern: Any, name: str = "a", **options: Any) -> Member:
    """A member that has subscribed to a pattern."""
    member = group.member(name, subscribes=False, **options)
    member.consumer.subscribe(pattern=pattern, listener=member)
    return member


def test_topics_can_be_added_and_taken_away(simulation: Simulation) -> None:
    group = consumer_group(simulation, TOPICS)
    member = group.member("a", ["orders"])
    group.settle()
    member.consumer.subscribe(["orders", "bills"], listener=member)
    group.settle()
    assert topics_of([member]) == {"orders", "bills"}
    member.consumer.subscribe(["bills"], listener=member)
    group.settle()
    assert topics_of([member]) == {"bills"}
    assert member.what("revoked") == [[0, 1]]
    assert [one.member_epoch for one in beats(group)].count(0) == 1, "the membership goes on"
    group.turn(1)
    assert set(membership(member).target.partitions) == set(reconciliation(member)._ids.values())  # type: ignore[union-attr]


@pytest.mark.gate
def test_topics_taken_away_and_added_again_between_two_heartbeats_are_read_on(
    simulation: Simulation,
) -> None:
    group = consumer_group(simulation, TOPICS, config={"group.consumer.heartbeat.interval.ms": 5000})
    member = group.member("a", ["orders", "bills"])
    group.settle()
    for topics in (["bills"], ["orders", "bills"]):
        member.consumer.subscribe(topics, listener=member)
        member.poll(0)
    group.turn(20)
    assert topics_of([member]) == {"orders", "bills"}
    values = group.produce(20)
    group.turn_until(lambda: set(values) <= set(member.read), 5)


def test_a_pattern_of_python_is_matched_here(simulation: Simulation) -> None:
    group = consumer_group(simulation, TOPICS)
    member = patterned(group, re.compile(r"orders(?!-)"), metadata_max_age_ms=1000)
    group.turn_until(lambda: topics_of([member]) == {"orders"}, 5)
    assert {one.subscribed_topic_regex for one in beats(group)} == {None}
    assert member.consumer.subscription() == {"orders"}
    group.cluster.create_topic("orders2", 1)
    group.turn_until(lambda: topics_of([member]) == {"orders", "orders2"}, 5)


@pytest.mark.gate
def test_a_subscription_pattern_is_resolved_by_the_brokers(simulation: Simulation) -> None:
    group = consumer_group(simulation, TOPICS)
    values = group.produce(20) + group.produce(20, "orders-eu", start=20)
    member = patterned(group, SubscriptionPattern("orders.*"))
    group.turn_until(lambda: topics_of([member]) == {"orders", "orders-eu"}, 5)
    assert beats(group)[0].subscribed_topic_regex == "orders.*"
    assert beats(group)[0].subscribed_topic_names == []
    assert member.consumer.subscription() == {"orders", "orders-eu"}, "those that it has partitions of"
    group.turn_until(lambda: set(member.read) == set(values), 5)
    requests = group.cluster.history.requests(MetadataRequest, client_id="a")
    assert all(one.topics is not None for one in requests), "it never asks for all topics of the cluster"
    assert any(topic.name is None for one in requests for topic in one.topics or [])


def test_topics_that_are_made_later_are_found_by_the_brokers(simulation: Simulation) -> None:
    group = consumer_group(simulation, TOPICS)
    member, other = (
        patterned(group, SubscriptionPattern("new.*|orders")),
        patterned(group, SubscriptionPattern("new.*|orders"), "b"),
    )
    group.turn_until(lambda: topics_of([member, other]) == {"orders"}, 5)
    group.cluster.create_topic("new-one", 4)
    group.turn_until(lambda: len(member.owned) == len(other.owned) == 3, 10)
    assert topics_of([member, other]) == {"orders", "new-one"}


@pytest.mark.gate
def test_regex_replaces_topic_names_and_names_replace_a_regex(simulation: Simulation) -> None:
    group = consumer_group(simulation, TOPICS)
    member = patterned(group, SubscriptionPattern("orders.*"))
    group.turn_until(lambda: topics_of([member]) == {"orders", "orders-eu"}, 5)
    group.cluster.controls.lose_reply(type(beats(group)[0]))
    member.consumer.subscribe(["bills"], listener=member)
    group.turn_until(lambda: topics_of([member]) == {"bills"}, 40)
    group.turn(3)
    assert topics_of([member]) == {"bills"}, "the pattern was taken back"
    assert "" in {one.subscribed_topic_regex for one in beats(group)}
    member.consumer.subscribe(pattern=SubscriptionPattern("orders"), listener=member)
    group.turn_until(lambda: topics_of([member]) == {"orders"}, 5)
    group.turn(1)
    assert topics_of([member]) == {"orders"}


def test_invalid_regex_is_raised_and_another_subscription_recovers(simulation: Simulation) -> None:
    group = consumer_group(simulation, TOPICS)
    member = patterned(group, SubscriptionPattern("orders("))
    group.turn_until(lambda: len(member.errors) >= 2, 5)
    with pytest.raises(InvalidRegularExpression, match=r"'orders\('.*RE2 syntax"):
        raise member.errors[0]
    member.consumer.subscribe(pattern=SubscriptionPattern("orders"), listener=member)
    group.turn_until(lambda: topics_of([member]) == {"orders"}, 5)


@pytest.mark.parametrize("options", [{}, {"group_id": "g"}], ids=["no group", "classic"])
def test_a_subscription_pattern_is_for_members_of_kip_848(options: dict[str, Any]) -> None:
    runtime: Any = ScriptedCluster(1, {"orders": [0]}).runtime
    with KafkaConsumer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options) as consumer:
        with pytest.raises(ConfigurationError, match=r"group_protocol='consumer'.*re\.compile"):
            consumer.subscribe(pattern=SubscriptionPattern("orders"))
        assert consumer.subscription() == set()


def test_an_empty_subscription_pattern_is_refused() -> None:
    runtime: Any = ScriptedCluster(1, {"orders": [0]}).runtime
    settings: dict[str, Any] = {"group_id": "g", "group_protocol": "consumer"}
    with (
        KafkaConsumer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **settings) as consumer,
        pytest.raises(IllegalArgument, match="must not be empty"),
    ):
        consumer.subscribe(pattern=SubscriptionPattern(""))


@pytest.mark.gate
def test_partitions_that_are_added_are_read(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    first, second = group.member("a"), group.member("b")
    group.settle()
    group.add_partitions("orders", 10)
    group.settle()
    assert len(first.owned) == len(second.owned) == 5
    values = group.produce(20)
    group.turn_until(lambda: set(values) <= {*first.read, *second.read}, 5)


def test_a_topic_that_is_made_later_is_read_when_it_is_there(simulation: Simulation) -> None:
    group = consumer_group(simulation, TOPICS)
    member = group.member("a", ["later"], allow_auto_create_topics=False)
    group.turn_until(lambda: member.health()["state"] == "stable", 5)
    assert member.what("assigned") == [[]]
    group.cluster.create_topic("later", 3)
    group.counts["later"] = 3
    group.settle()
    assert member.what("assigned") == [[], [0, 1, 2]]


@pytest.mark.gate
@pytest.mark.parametrize("gone_for", [0.0, 1.0], ids=["at once", "after a second"])
def test_recreated_topic_is_another_topic(simulation: Simulation, gone_for: float) -> None:
    group = consumer_group(simulation)
    member = group.member("a", metadata_max_age_ms=1000, allow_auto_create_topics=False)
    old = group.produce(60)
    group.settle()
    group.turn_until(lambda: set(member.read) == set(old), 5)
    group.cluster.delete_topic("orders")
    group.turn(gone_for)
    group.cluster.create_topic("orders", 6)
    new = group.produce(60, start=100)
    group.settle()
    group.turn_until(lambda: set(member.read) == set(old + new), 10)
    assert member.what("revoked"), "the partitions of the topic that is gone were given back"
    assert member.owned == {TopicPartition("orders", number) for number in range(6)}


def test_an_assignment_waits_for_topics_that_the_metadata_does_not_name_yet(simulation: Simulation) -> None:
    group = consumer_group(simulation, TOPICS)
    member = group.member("a", ["orders"])
    group.settle()
    group.cluster.controls.delay(MetadataRequest, 2.0)
    group.cluster.history.clear()
    member.consumer.subscribe(["orders", "bills"], listener=member)
    group.turn_until(lambda: member.health()["state"] == "reconciling", 1)
    group.turn(1)
    assert [one.topic_partitions for one in beats(group, member) if one.topic_partitions is not None] == []
    assert member.health()["state"] == "reconciling"
    assert "as soon as their topics are in the metadata" in member.consumer.explain()
    assert len(reconciliation(member).unnamed_topics) == 1
    group.settle()
    assert member.what("assigned") == [[0, 1], [0, 1]], "one call for each topic, none for the waiting"


@pytest.mark.gate
def test_slow_iteration_takes_a_topic_as_soon_as_its_name_is_known(simulation: Simulation) -> None:
    group = consumer_group(simulation, TOPICS)
    group.produce(200)
    member = group.member("a", ["orders"])
    next(member.consumer)
    group.cluster.controls.delay(MetadataRequest, 2.0)
    member.consumer.subscribe(["orders", "bills"], listener=member)
    for _ in range(30):
        next(member.consumer)
        simulation.sleep(0.2)
    assert topics_of([member]) == {"orders", "bills"}


def test_a_ctrl_c_just_as_it_asks_for_names_does_not_keep_it_waiting_for_them(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = consumer_group(simulation, TOPICS)
    want_topic_ids, strikes = Metadata.want_topic_ids, [KeyboardInterrupt()]

    def interrupted(self: Metadata, topic_ids: Iterable[bytes]) -> None:
        if strikes and topic_ids:
            raise strikes.pop()
        want_topic_ids(self, topic_ids)

    monkeypatch.setattr(Metadata, "want_topic_ids", interrupted)
    patterned(group, SubscriptionPattern("orders.*"))
    with pytest.raises(KeyboardInterrupt):
        group.settle(20)
    group.turn_until(lambda: topics_of(group.members) == {"orders", "orders-eu"}, 20)
