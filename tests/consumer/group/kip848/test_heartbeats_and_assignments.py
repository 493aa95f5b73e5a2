"""The parts alone: the fields of a heartbeat, the meaning of an assignment, requests for topic ids."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest

from pykafka2.backoff import Backoff
from pykafka2.consumer.group.kip848.assignment import (
    Owned,
    SubscribedTopics,
    by_id,
    read_assignment,
    resolve,
    written,
)
from pykafka2.consumer.group.kip848.heartbeats import JOIN_EPOCH, NOTHING, Heartbeats
from pykafka2.consumer.group.kip848.states import MemberState
from pykafka2.consumer.group.member import Heartbeat
from pykafka2.consumer.inspection import state_in_words
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from pykafka2.types import TopicPartition

ORDERS, BILLS = b"o" * 16, b"b" * 16
NAMES = {ORDERS: "orders", BILLS: "bills"}


OPTIONAL = (
    "rack_id",
    "subscribed_topic_names",
    "subscribed_topic_regex",
    "server_assignor",
    "topic_partitions",
)


def heartbeats(**options: Any) -> Heartbeats:
    settings = {"group_id": "g", "group_protocol": "consumer", **options}
    return Heartbeats(CONSUMER_OPTIONS.parse(None, settings), "me")


def said(heartbeats: Heartbeats, epoch: int, subscribed: SubscribedTopics, owned: Owned) -> set[str]:
    """The fields that a heartbeat fills in, beside those that every one has."""
    request = heartbeats.next(epoch, subscribed, owned)
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "me", epoch)
    found = {name for name in OPTIONAL if getattr(request, name) is not None}
    return found | ({"rebalance_timeout_ms"} if request.rebalance_timeout_ms >= 0 else set())


EVERYTHING = {"subscribed_topic_names", "topic_partitions", "rebalance_timeout_ms"}


def test_heartbeat_has_only_changed_fields_and_all_when_in_doubt() -> None:
    beats, subscribed = heartbeats(), SubscribedTopics(frozenset({"orders"}))
    has = Owned(1, {ORDERS: frozenset({0, 1})}, is_whole=True)
    assert said(beats, JOIN_EPOCH, subscribed, NOTHING) == EVERYTHING
    assert said(beats, 1, subscribed, NOTHING) == set()
    assert said(beats, 1, subscribed, has) == {"topic_partitions"}
    assert said(beats, 2, subscribed, has) == set()
    assert said(beats, 2, SubscribedTopics(frozenset({"bills"})), has) == {"subscribed_topic_names"}
    again = attrs.evolve(has, number=2)
    assert said(beats, 2, SubscribedTopics(frozenset({"bills"})), again) == {"topic_partitions"}, (
        "for each assignment"
    )
    beats.forget()
    assert said(beats, 2, subscribed, has) == EVERYTHING
    assert said(beats, JOIN_EPOCH, subscribed, has) == EVERYTHING
    assert beats.next(JOIN_EPOCH, subscribed, has).topic_partitions == [], "a joining member owns nothing yet"


def test_regex_is_cleared_again_if_the_last_request_was_lost() -> None:
    beats = heartbeats(client_rack="cellar", group_remote_assignor="range")
    pattern, names = SubscribedTopics(pattern="ord.*"), SubscribedTopics(frozenset({"bills"}))
    assert said(beats, JOIN_EPOCH, pattern, NOTHING) == {
        *EVERYTHING,
        "subscribed_topic_regex",
        "rack_id",
        "server_assignor",
    }
    for _ in range(2):
        request = beats.next(1, names, NOTHING)
        assert (request.subscribed_topic_regex, request.subscribed_topic_names) == ("", ["bills"])
        beats.forget()
    assert heartbeats().next(JOIN_EPOCH, names, NOTHING).subscribed_topic_regex is None, "for brokers without"


def test_assignment_is_read_without_invalid_partitions() -> None:
    answer = ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=ORDERS, partitions=[3, -1, 3]),
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=BILLS, partitions=[]),
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=ORDERS, partitions=[0]),
        ]
    )
    assert read_assignment(answer) == {ORDERS: frozenset({0, 3})}
    assert read_assignment(None) == {}
    assert [(one.topic_id, one.partitions) for one in written(read_assignment(answer))] == [(ORDERS, [0, 3])]


def test_a_target_is_resolved_as_far_as_its_topics_are_known_and_read() -> None:
    target = {ORDERS: frozenset({1, 0}), BILLS: frozenset({0}), b"?" * 16: frozenset({7})}
    found = resolve(target, NAMES.get, lambda topic: topic != "bills")
    orders = {TopicPartition("orders", 0): ORDERS, TopicPartition("orders", 1): ORDERS}
    assert found.partitions == orders
    assert found.unknown == {b"?" * 16}
    assert by_id(found.partitions) == {ORDERS: frozenset({0, 1})}
    assert Owned(1, by_id(orders), is_whole=True) == Owned(1, {ORDERS: frozenset({1, 0})}, is_whole=True)


def heartbeat() -> Heartbeat:
    beat = Heartbeat(5.0, float("inf"), Backoff(1.0, 1.0, random.Random(1)))
    beat.begin(100.0)
    return beat


def test_urgent_heartbeat_waits_for_the_pending_response_and_backoff_only() -> None:
    beat = heartbeat()
    assert not beat.is_due(100.0)
    beat.hurry()
    assert beat.is_due(100.0)
    beat.on_sent(100.0)
    assert not beat.is_due(104.0)
    beat.hurry()
    assert not beat.is_due(104.0), "one at a time"
    beat.on_answer(104.0)
    assert beat.is_due(104.0)
    beat.on_sent(104.0)
    beat.on_answer(104.1)
    assert not beat.is_due(108.9)
    assert beat.is_due(109.0)
    beat.on_sent(109.0)
    beat.on_failure(109.0)
    beat.hurry()
    assert not beat.is_due(109.5), "the back-off stands"
    assert beat.is_due(110.3)


@pytest.mark.parametrize("state", list(MemberState))
def test_every_state_has_words(state: MemberState) -> None:
    health = {"because": "", "generation": 3, "last_heartbeat_age": 1.0, "last_poll_age": 2.0}
    health |= {"state_age": 4.0, "coordinator": 1, "coordinator_address": "broker-1:9092"}
    words = state_in_words("group 'g'", state.value, health)
    assert "group 'g'" in words
    assert words.endswith(".")
