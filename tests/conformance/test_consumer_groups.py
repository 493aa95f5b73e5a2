"""Our members of KIP-848's groups, the same on the bundled broker and on Apache Kafka."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, SubscriptionPattern
from pykafka2.errors import (
    CommitFailed,
    InvalidRegularExpression,
    KafkaError,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from pykafka2.types import TopicPartition

from .brokers import Cluster
from .group_members import EVERYTHING, TIMEOUT, ListeningMember, all_owned, poll_until, produce
from .group_peers import GroupMember, group_member


class Member(ListeningMember):
    def __init__(self, cluster: Cluster, topic: str, pattern: Any = None, **options: Any) -> None:
        super().__init__()
        self.consumer = KafkaConsumer(
            **{
                "bootstrap_servers": cluster.bootstrap_servers,
                "group_id": f"{topic}-group",
                "group_protocol": "consumer",
                "auto_offset_reset": "earliest",
                "metadata_max_age_ms": 1000,
                **options,
            }
        )
        self.consumer.subscribe([] if pattern else [topic], pattern, listener=self)

    @property
    def is_stable(self) -> bool:
        return bool(self.consumer.health()["group"]["state"] == "stable")


def shared(*members: Member) -> bool:
    return all_owned(*members) and all(member.is_stable for member in members)


def refusal(member: Member) -> KafkaError:
    """The error that the member's polls raise; it is closed after that."""
    with member.consumer, pytest.raises(KafkaError) as raised:
        poll_until(lambda: False, member)
    return raised.value


@pytest.mark.slow
def test_members_join_rebalance_commit_and_resume(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    values = produce(cluster, topic, "first")
    one, two = Member(cluster, topic), Member(cluster, topic)
    poll_until(lambda: set(one.read) == set(values), one)
    poll_until(lambda: shared(one, two), one, two)
    revoked = [numbers for what, numbers in one.calls if what == "revoked"]
    assert [len(numbers) for numbers in revoked] == [2], "only what moves, once"
    assert two.owned == set(revoked[0])
    assert two.read == [], "what the first one had read was committed before it gave it up"
    more = produce(cluster, topic, "second")
    poll_until(lambda: set(more) <= {*one.read, *two.read}, one, two)
    one.consumer.close()
    poll_until(lambda: two.owned == EVERYTHING, two)
    two.consumer.close()
    assert sorted([*one.read, *two.read]) == sorted([*values, *more]), "each once"
    three = Member(cluster, topic)
    last = produce(cluster, topic, "third")
    poll_until(lambda: set(last) <= set(three.read), three)
    three.consumer.commit()
    place = three.consumer.committed(TopicPartition(topic, 0))
    three.consumer.close()
    assert (sorted(three.read), place) == (sorted(last), 30)


@pytest.mark.slow
def test_returning_static_member_keeps_its_partitions_and_a_duplicate_is_rejected(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    one = Member(cluster, topic, group_instance_id="till-1")
    two = Member(cluster, topic, group_instance_id="till-2")
    poll_until(lambda: shared(one, two), one, two)
    owned, before = one.owned, len(two.calls)
    one.consumer.close()
    again = Member(cluster, topic, group_instance_id="till-1")
    poll_until(lambda: shared(again, two), again, two)
    assert again.owned == owned
    assert len(two.calls) == before, "the other one has noticed nothing"
    refused = refusal(Member(cluster, topic, group_instance_id="till-1"))
    assert isinstance(refused, UnreleasedInstanceId)
    poll_until(lambda: shared(again, two), again, two)
    for member in (again, two):
        member.consumer.close(leave_group=True)


@pytest.mark.slow
def test_topics_are_found_by_the_brokers(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    values = produce(cluster, topic, "first")
    member = Member(cluster, topic, SubscriptionPattern(f"{topic}(-[a-z]+)?"))
    poll_until(lambda: set(member.read) == set(values), member)
    assert member.consumer.subscription() == {topic}
    member.consumer.subscribe([topic], listener=member)
    poll_until(lambda: member.is_stable, member)
    member.consumer.subscribe(pattern=SubscriptionPattern("("), listener=member)
    refused = refusal(member)
    assert isinstance(refused, InvalidRegularExpression)
    assert "RE2" in str(refused)


@pytest.mark.slow
def test_the_assignor_is_one_of_the_brokers(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    one = Member(cluster, topic, group_remote_assignor="range")
    two = Member(cluster, topic, group_remote_assignor="range")
    poll_until(lambda: shared(one, two), one, two)
    assert {frozenset(one.owned), frozenset(two.owned)} == {frozenset({0, 1}), frozenset({2, 3})}
    assert isinstance(refusal(Member(cluster, topic, group_remote_assignor="mine")), UnsupportedAssignor)
    for member in (one, two):
        member.consumer.close()


@pytest.mark.slow
def test_member_past_max_poll_interval_leaves_and_its_commit_names_it(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    slow = Member(cluster, topic, max_poll_interval_ms=3000)
    other = Member(cluster, topic)
    poll_until(lambda: shared(slow, other), slow, other)
    poll_until(lambda: other.owned == EVERYTHING, other)
    with pytest.raises(CommitFailed, match="max_poll_interval_ms=3000"):
        slow.consumer.commit({TopicPartition(topic, 0): 1})
    poll_until(lambda: shared(slow, other), slow, other)
    assert "lost" in [what for what, _ in slow.calls]
    for member in (slow, other):
        member.consumer.close()


@pytest.mark.slow
def test_group_changes_its_protocol_forth_and_back(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    values = produce(cluster, topic, "first")
    classic = {"group_protocol": "classic", "heartbeat_interval_ms": 300, "session_timeout_ms": 10_000}
    old = Member(cluster, topic, **classic)
    poll_until(lambda: set(old.read) == set(values), old)
    new = Member(cluster, topic)
    poll_until(lambda: shared(old, new), old, new)
    old.consumer.close()
    poll_until(lambda: shared(new), new)
    more = produce(cluster, topic, "second")
    poll_until(lambda: set(more) <= set(new.read), new)
    back = Member(cluster, topic, **classic)
    poll_until(lambda: shared(new, back), new, back)
    new.consumer.close()
    poll_until(lambda: shared(back), back)
    back.consumer.close()
    assert sorted([*old.read, *new.read, *back.read]) == sorted([*values, *more])


@pytest.mark.slow
@pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "theirs first"])
def test_ours_and_librdkafkas_members_share_a_group(cluster: Cluster, ours_first: bool) -> None:
    topic = cluster.new_topic(partitions=4)
    libraries = ["pykafka2 with KIP-848", "confluent with KIP-848"]
    members: list[GroupMember] = []
    read: list[bytes] = []

    def poll_until_shared() -> None:
        deadline = time.monotonic() + TIMEOUT
        while True:
            owned = [number for member in members for number in member.owned()]
            if sorted(owned) == sorted(EVERYTHING) and all(member.owned() for member in members):
                return
            assert time.monotonic() < deadline, owned
            poll()

    def poll() -> None:
        for member in members:
            read.extend(member.poll(0.05))

    values = produce(cluster, topic, "first")
    for library in libraries if ours_first else libraries[::-1]:
        members.append(group_member(library, cluster.bootstrap_servers, f"{topic}-group", topic))
        poll_until_shared()
        while len(read) < len(values):
            poll()
        for member in members:
            member.commit()
    values += produce(cluster, topic, "second")
    deadline = time.monotonic() + TIMEOUT
    while set(read) != set(values):
        assert time.monotonic() < deadline
        poll()
    for member in members:
        member.commit()
        member.close()
    assert sorted(read) == sorted(values), "each once"
