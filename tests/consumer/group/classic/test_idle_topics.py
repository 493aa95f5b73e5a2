"""Eager rebalances of a group whose topics are idle: fetch sessions stay, and nothing counts as a stall."""

from __future__ import annotations

import logging

import pytest

from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.testing import Simulation
from pykafka2.types import TopicPartition
from tests.consumer.group.life import Group

pytestmark = pytest.mark.slow

TOPICS = {"orders": 3, "refunds": 3}


def full_fetches(group: Group) -> int:
    """The number of fetches that start a session."""
    return sum(request.session_epoch == 0 for request in group.cluster.history.requests(FetchRequest))


@pytest.mark.gate
@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_eager_rebalance_on_idle_topics_keeps_fetch_sessions_without_a_stall_warning(
    simulation: Simulation, caplog: pytest.LogCaptureFixture, isolation_level: str
) -> None:
    group = Group(simulation, TOPICS, partition_assignment_strategy="range", isolation_level=isolation_level)
    for topic in TOPICS:
        group.produce(6, topic)
    members = [group.member(name, TOPICS) for name in ("a", "b")]
    group.settle()
    group.turn_until(lambda: sum(len(member.read) for member in members) == 12)
    group.turn(2)
    started, generation = full_fetches(group), members[0].health()["generation"]
    with caplog.at_level(logging.WARNING, "pykafka2"):
        for _ in range(2):
            members[0].consumer.enforce_rebalance()
            group.turn(50)
            generation += 1
            assert {member.health()["generation"] for member in members} == {generation}
            for member in members:
                for topic, number in member.owned:
                    assert member.consumer.highwater(TopicPartition(topic, number)) == 2
    assert not [message for message in caplog.messages if "does not advance" in message]
    assert full_fetches(group) == started
    for topic in TOPICS:
        group.produce(6, topic, start=100)
    group.turn_until(lambda: sum(len(member.read) for member in members) == 24)
