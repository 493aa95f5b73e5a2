"""Our members of groups, the same on the bundled broker and on Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import KafkaConsumer
from pykafka2.errors import CommitFailed, FencedInstanceId, InvalidSessionTimeout
from pykafka2.types import TopicPartition

from .brokers import Cluster
from .group_members import EVERYTHING, ListeningMember, all_owned, poll_until, produce


class Member(ListeningMember):
    def __init__(self, cluster: Cluster, topic: str, **options: Any) -> None:
        super().__init__()
        self.consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=f"{topic}-group",
            auto_offset_reset="earliest",
            **{"heartbeat_interval_ms": 300, "session_timeout_ms": 10_000, **options},
        )
        self.consumer.subscribe([topic], listener=self)


@pytest.mark.slow
def test_members_join_rebalance_commit_and_resume(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    values = produce(cluster, topic, "first")
    one, two = Member(cluster, topic), Member(cluster, topic)
    poll_until(lambda: set(one.read) == set(values), one)
    poll_until(lambda: all_owned(one, two), one, two)
    assert one.calls[:2] == [("assigned", [0, 1, 2, 3]), ("revoked", [0, 1, 2, 3])]
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
    three.consumer.close()
    assert sorted(three.read) == sorted(last)


@pytest.mark.slow
def test_cooperative_members_keep_unmoved_partitions(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    options = {"partition_assignment_strategy": "cooperative-sticky"}
    one = Member(cluster, topic, **options)
    poll_until(lambda: one.owned == EVERYTHING, one)
    two = Member(cluster, topic, **options)
    poll_until(lambda: all_owned(one, two), one, two)
    revoked = [partitions for what, partitions in one.calls if what == "revoked"]
    assert [len(partitions) for partitions in revoked] == [2]
    assert two.owned == set(revoked[0])
    for member in (one, two):
        member.consumer.close()


@pytest.mark.slow
def test_close_while_the_others_rejoin_commits_the_kept_partitions(cluster: Cluster) -> None:
    """Groups accept commits of the old generation until all members have joined the next one."""
    topic = cluster.new_topic(partitions=4)
    options = {
        "partition_assignment_strategy": "cooperative-sticky",
        "auto_commit_interval_ms": 60_000,
        "heartbeat_interval_ms": 2000,
    }
    one = Member(cluster, topic, **options)
    poll_until(lambda: one.owned == EVERYTHING, one)
    two = Member(cluster, topic, **options)
    poll_until(lambda: len(one.owned) == 2 and one.consumer.health()["group"]["state"] == "joining", one, two)
    values = produce(cluster, topic, "kept")
    poll_until(lambda: len(one.read) == 20, one)
    one.consumer.close()
    poll_until(lambda: two.owned == EVERYTHING, two)
    last = produce(cluster, topic, "last")
    poll_until(lambda: set(last) <= set(two.read), two)
    two.consumer.close()
    assert sorted([*one.read, *two.read]) == sorted([*values, *last]), "each once"


@pytest.mark.slow
def test_returning_static_member_keeps_its_partitions_and_a_duplicate_is_fenced(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    one = Member(cluster, topic, group_instance_id="till-1")
    two = Member(cluster, topic, group_instance_id="till-2")
    poll_until(lambda: all_owned(one, two), one, two)
    owned, before = one.owned, len(two.calls)
    one.consumer.close()
    again = Member(cluster, topic, group_instance_id="till-1")
    poll_until(lambda: again.owned, again, two)
    assert again.owned == owned
    assert len(two.calls) == before, "the other one has noticed nothing"
    double = Member(cluster, topic, group_instance_id="till-1")
    poll_until(lambda: double.owned, double, two)
    with pytest.raises(FencedInstanceId, match="till-1"):
        poll_until(lambda: False, again)
    assert again.calls[-1][0] == "lost"
    for member in (again, double, two):
        member.consumer.close(leave_group=True)


@pytest.mark.slow
def test_member_past_max_poll_interval_leaves_and_its_commit_names_it(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    slow = Member(cluster, topic, max_poll_interval_ms=3000)
    other = Member(cluster, topic)
    poll_until(lambda: all_owned(slow, other), slow, other)
    poll_until(lambda: other.owned == EVERYTHING, other)
    with pytest.raises(CommitFailed, match="max_poll_interval_ms=3000"):
        slow.consumer.commit({TopicPartition(topic, 0): 1})
    poll_until(lambda: all_owned(slow, other), slow, other)
    assert ("lost", [0, 1]) in slow.calls or ("lost", [2, 3]) in slow.calls
    for member in (slow, other):
        member.consumer.close()


@pytest.mark.slow
def test_a_session_that_the_brokers_do_not_allow_is_refused_by_name(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    with (
        KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=f"{topic}-group",
            session_timeout_ms=20,
            heartbeat_interval_ms=5,
        ) as consumer,
        pytest.raises(InvalidSessionTimeout, match="session_timeout_ms=20"),
    ):
        consumer.poll(timeout_ms=60_000)
