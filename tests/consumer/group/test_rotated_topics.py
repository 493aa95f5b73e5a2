"""One of a group's topics is deleted, or replaced by another; the group goes on with the others."""

from __future__ import annotations

import logging

import pytest

from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest
from pykafka2.testing import Simulation
from tests.consumer.group.kip848.groups import consumer_group
from tests.consumer.group.life import Group, Member
from tests.gate import rest_in_long

pytestmark = pytest.mark.slow

# the defaults
HEARTBEAT = 3.0
CLASSIC_DEFAULTS = {"heartbeat_interval_ms": 3000, "session_timeout_ms": 45_000}
OPTIONS = {"metadata_max_age_ms": 20_000}
TOPICS = {"log-1": 4, "log-2": 4, "log-3": 4}


def group_of(simulation: Simulation, protocol: str, assignor: str | None, **options: object) -> Group:
    if protocol == "consumer":
        return consumer_group(simulation, TOPICS, **{**OPTIONS, **options})
    strategy = {} if assignor is None else {"partition_assignment_strategy": assignor}
    return Group(simulation, TOPICS, **{**OPTIONS, **CLASSIC_DEFAULTS, **strategy, **options})


def longest_wait(group: Group, topic: str, seconds: int) -> float:
    """Produce a record to each partition of the topic every second; the longest time until one was read."""
    longest = 0.0
    until = group.now + seconds
    waiting: dict[bytes, float] = {}
    number = 1000
    produced_at = -1.0
    while group.now < until or waiting:
        if group.now - produced_at >= 1.0 and group.now < until:
            produced_at = group.now
            waiting |= dict.fromkeys(group.produce(group.counts[topic], topic, start=number), group.now)
            number += group.counts[topic]
        group.turn(0.2)
        values = {value for member in group.members for value in member.read}
        for value in values & waiting.keys():
            longest = max(longest, group.now - waiting.pop(value))
        assert group.now < until + 60, group.describe()
    return longest


def members_of(group: Group, how: str) -> list[Member]:
    members = [group.member(name, TOPICS, subscribes=how == "names") for name in ("a", "b")]
    if how == "pattern":
        for member in members:
            member.consumer.subscribe(pattern="log-.*", listener=member)
    group.settle()
    for topic in TOPICS:
        group.produce(8, topic)
    group.turn_until(lambda: sum(len(member.read) for member in members) == 24)
    group.turn(1)
    return members


PROTOCOLS = pytest.mark.parametrize(
    ("protocol", "assignor"), [("classic", None), ("classic", "cooperative-sticky"), ("consumer", None)]
)


@pytest.mark.parametrize(
    ("how", "protocol", "assignor"),
    rest_in_long(
        [
            ("pattern", "classic", None),
            ("names", "classic", "cooperative-sticky"),
            ("pattern", "consumer", None),
            ("names", "consumer", None),
            ("names", "classic", None),
            ("pattern", "classic", "cooperative-sticky"),
        ],
        in_gate=4,
    ),
)
def test_rotated_topic_does_not_stop_the_others(
    simulation: Simulation, caplog: pytest.LogCaptureFixture, how: str, protocol: str, assignor: str | None
) -> None:
    group = group_of(simulation, protocol, assignor)
    members = members_of(group, how)
    metadata = members[0].consumer._core.cluster.metadata
    old_ids = {metadata.topic_id(topic) for topic in ("log-1", "log-2")}
    group.cluster.history.clear()
    group.recreated = frozenset({"log-1", "log-2"}) if how == "names" else frozenset()
    for topic in ("log-1", "log-2"):
        group.cluster.delete_topic(topic)
        del group.counts[topic]
    for topic in ("log-4", "log-5") if how == "pattern" else ("log-1", "log-2"):
        group.cluster.create_topic(topic, 2)
        group.counts[topic] = 2
    with caplog.at_level(logging.WARNING, "pykafka2"):
        assert longest_wait(group, "log-3", 45) < 2 * HEARTBEAT
    group.settle()
    refused = [
        request
        for request in group.cluster.history.requests(OffsetCommitRequest)
        if old_ids & {topic.topic_id for topic in request.topics}
    ]
    assert len(refused) <= 10, "a few, until the metadata confirms the deletion"
    assert not [message for message in caplog.messages if "last commit" in message]


@pytest.mark.gate
@PROTOCOLS
def test_rebalance_after_a_deletion_does_not_stop_the_other_topics(
    simulation: Simulation, caplog: pytest.LogCaptureFixture, protocol: str, assignor: str | None
) -> None:
    """No member has metadata without the deleted topics yet when another one joins."""
    group = group_of(simulation, protocol, assignor, allow_auto_create_topics=False)
    members = members_of(group, "names")
    for topic in ("log-1", "log-2"):
        group.cluster.delete_topic(topic)
        del group.counts[topic]
    with caplog.at_level(logging.WARNING, "pykafka2"):
        group.member("c", TOPICS)
        assert longest_wait(group, "log-3", 45) < 2 * HEARTBEAT
    assert all({topic for topic, _ in member.owned} == {"log-3"} for member in members)
    assert not [message for message in caplog.messages if "last commit" in message]
