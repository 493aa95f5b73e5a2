"""Commits of members and their committed offsets: epochs that move on, and memberships that end."""

from __future__ import annotations

import copy
from typing import Any

import attrs
import pytest

from pykafka2 import TopicPartition
from pykafka2.consumer.commit.commit_queue import Commit, CommitQueue
from pykafka2.errors import (
    CommitFailed,
    CoordinatorLoadInProgress,
    FencedMemberEpoch,
    GroupIdNotFound,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgress,
    RetriableCommitFailed,
    StaleMemberEpoch,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest, OffsetFetchRequest
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponseTopic
from pykafka2.testing import Simulation
from tests.consumer.group.kip848.groups import BEATS, beats, consumer_group, membership
from tests.consumer.group.life import Group, Member

pytestmark = pytest.mark.slow

FIRST = TopicPartition("orders", 0)


def settled(simulation: Simulation, **options: Any) -> tuple[Group, Member]:
    """A group with one member that commits only on request."""
    group = consumer_group(simulation, **{"enable_auto_commit": False, **options})
    member = group.member("a")
    group.settle()
    group.turn(0.5)
    return group, member


def epochs(group: Group) -> list[int]:
    return [one.generation_id_or_member_epoch for one in group.cluster.history.requests(OffsetCommitRequest)]


def test_commits_and_questions_name_the_member_and_its_epoch(simulation: Simulation) -> None:
    group, member = settled(simulation)
    member.consumer.commit({FIRST: 5})
    [request] = group.cluster.history.requests(OffsetCommitRequest)
    metadata = member.consumer.group_metadata()
    assert metadata.member_id == membership(member).member_id == request.member_id
    assert metadata.generation_id == request.generation_id_or_member_epoch > 0
    assert member.consumer.committed(FIRST) == 5
    for fetch in group.cluster.history.requests(OffsetFetchRequest):
        assert fetch.groups[0].member_id == metadata.member_id
        assert fetch.groups[0].member_epoch == metadata.generation_id


def test_before_it_has_joined_nothing_can_be_committed(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    with pytest.raises(RebalanceInProgress, match="not joined"):
        member.consumer.commit({FIRST: 1})


def test_a_stale_epoch_is_tried_again_with_the_new_one(simulation: Simulation) -> None:
    group, member = settled(simulation)
    group.cluster.controls.fail_next(OffsetCommitRequest, StaleMemberEpoch, times=2)
    member.consumer.commit({FIRST: 5})
    assert len(epochs(group)) == 3
    assert group.cluster.group("g").offsets[FIRST] == 5


@pytest.mark.gate
def test_an_epoch_that_moves_on_while_a_commit_is_under_way_costs_nothing(simulation: Simulation) -> None:
    """The other member joins while this one's thread waits for the answer: the epoch is another by then."""
    group, member = settled(simulation)
    before = member.consumer.group_metadata().generation_id
    other = group.member("b")
    failing = group.cluster.controls.fail_next(OffsetCommitRequest, StaleMemberEpoch, times=30)
    done: list[bool] = []

    def commit() -> None:
        member.consumer.commit({FIRST: 7}, timeout_ms=20_000)
        done.append(True)

    actor = simulation.spawn(commit)
    for _ in range(20):
        other.poll()
        simulation.sleep(0.1)
    group.cluster.controls.remove_rule(failing)
    simulation.run_for(5)
    actor.result()
    assert done == [True]
    assert epochs(group)[0] == before
    assert group.cluster.group("g").offsets[FIRST] == 7


def test_an_epoch_that_stays_stale_ends_with_the_timeout(simulation: Simulation) -> None:
    group, member = settled(simulation)
    group.cluster.controls.fail_next(OffsetCommitRequest, StaleMemberEpoch, times=1000)
    with pytest.raises(KafkaTimeoutError, match=r"the last attempt failed: .*epoch"):
        member.consumer.commit({FIRST: 5}, timeout_ms=2000)
    assert len(epochs(group)) < 20, "with back-off"


def test_stale_epoch_in_commit_async_is_reported_as_retriable(simulation: Simulation) -> None:
    group, member = settled(simulation)
    group.cluster.controls.fail_next(OffsetCommitRequest, StaleMemberEpoch)
    outcomes: list[BaseException | None] = []
    member.consumer.commit_async({FIRST: 5}, callback=lambda offsets, error: outcomes.append(error))
    group.turn(0.5)
    assert isinstance(outcomes[0], RetriableCommitFailed)
    assert len(epochs(group)) == 1


@pytest.mark.parametrize("error", [UnknownMemberId, GroupIdNotFound], ids=["member", "group"])
def test_commit_of_an_expelled_member_raises_commit_failed(
    simulation: Simulation, error: type[KafkaError]
) -> None:
    group, member = settled(simulation)
    group.cluster.controls.fail_next(OffsetCommitRequest, error)  # type: ignore[arg-type]
    before = len(beats(group))
    with pytest.raises(CommitFailed, match=r"has removed this consumer.*poll"):
        member.consumer.commit({FIRST: 5})
    simulation.run_for(0.05)
    assert len(beats(group)) > before, "a heartbeat shows at once whether that is so"


@pytest.mark.gate
def test_the_last_commit_of_an_earlier_membership_is_never_sent_again(simulation: Simulation) -> None:
    """The id outlives the membership, so a new epoch would let it through, over the next owner's commit."""
    group = consumer_group(simulation, auto_commit_interval_ms=60_000)
    group.produce(60)
    member = group.member("a")
    group.turn_until(lambda: len(member.read) == 60)
    failing = group.cluster.controls.fail_next(OffsetCommitRequest, StaleMemberEpoch, times=1000)
    other = group.member("b")
    group.turn_until(lambda: failing.fired >= 3, 10)
    group.cluster.controls.fail_next(BEATS, FencedMemberEpoch, client_id="a")
    group.turn_until(lambda: "lost" in [call.what for call in member.calls], 10)
    group.settle()
    group.cluster.controls.remove_rule(failing)
    group.turn(5)
    assert group.cluster.group("g").offsets == {}
    assert other.owned


@pytest.mark.gate
def test_without_that_check_it_is(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    check = CommitQueue._on_stale_epoch

    def forgetful(self: CommitQueue, commit: Commit, error: KafkaError, now: float) -> None:
        commit.identity = attrs.evolve(commit.identity, membership=self._group_status.identity.membership)
        check(self, commit, error, now)

    monkeypatch.setattr(CommitQueue, "_on_stale_epoch", forgetful)
    with pytest.raises(AssertionError):
        test_the_last_commit_of_an_earlier_membership_is_never_sent_again(simulation)


def test_a_member_resumes_where_the_group_has_committed(simulation: Simulation) -> None:
    group, member = settled(simulation)
    values = group.produce(60)
    group.turn_until(lambda: len(member.read) == 60, 5)
    member.consumer.commit()
    member.consumer.close()
    group.members.remove(member)
    again = group.member("b")
    more = group.produce(6, start=60)
    group.turn_until(lambda: len(again.read) == 6, 5)
    assert sorted(again.read) == sorted(more)
    assert sorted(member.read) == sorted(values)


@pytest.mark.parametrize("error", [StaleMemberEpoch, UnknownMemberId], ids=["epoch", "member"])
def test_offset_fetch_with_a_stale_epoch_is_retried(simulation: Simulation, error: type[KafkaError]) -> None:
    group, member = settled(simulation)
    member.consumer.commit({FIRST: 3})
    group.cluster.controls.fail_next(OffsetFetchRequest, error, times=2)  # type: ignore[arg-type]
    assert member.consumer.committed(FIRST) == 3


def test_member_expelled_during_an_offset_fetch_reads_after_rejoining(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    group.produce(60)
    group.cluster.controls.delay(OffsetFetchRequest, 1.0, times=1)
    member = group.member("a")
    group.turn_until(lambda: member.health()["state"] == "stable", 5)
    group.cluster.controls.fail_next(BEATS, UnknownMemberId)
    group.turn_until(lambda: len(set(member.read)) == 60, 20)
    assert member.errors == []


@pytest.mark.gate
def test_automatic_commits_continue_through_rebalances(simulation: Simulation) -> None:
    group = consumer_group(simulation, auto_commit_interval_ms=200)
    member = group.member("a")
    values = group.produce(60)
    group.settle()
    other = group.member("b")
    group.settle()
    values += group.produce(60, start=60)
    group.turn_until(lambda: len(member.read) + len(other.read) == 120, 5)
    group.turn(1)
    assert set(group.cluster.group("g").offsets.values()) == {20}
    assert sorted(member.read + other.read) == sorted(values)


def knowing_nothing(request: Any, response: Any) -> Any:
    """The answer of a broker that has just started."""
    unknown = [
        MetadataResponseTopic(error_code=UnknownTopicOrPartition.code or 0, name=topic.name, partitions=[])
        for topic in response.topics
    ]
    changed = copy.copy(response)  # the broker may have kept its own
    changed.topics = unknown
    return changed


@pytest.mark.gate
def test_a_broker_that_knows_nothing_of_the_topic_does_not_keep_the_last_commit_back(
    simulation: Simulation,
) -> None:
    """Two such answers are doubted, and partitions are given away meanwhile."""
    group = consumer_group(simulation, auto_commit_interval_ms=3_600_000)
    member = group.member("a")
    group.settle()
    values = group.produce(60)
    group.turn_until(lambda: len(member.read) == len(values), 10)
    metadata = member.consumer._core.cluster.metadata
    group.cluster.controls.rule(
        api=MetadataRequest, client_id="a", times=2, then="replace_reply", reply=knowing_nothing
    )
    metadata.request_update()
    group.turn_until(lambda: metadata.topic_error("orders") is not None, 5)
    group.cluster.controls.delay(MetadataRequest, 30.0, client_id="a")
    other = group.member("b")
    group.settle()
    group.turn(1)
    assert isinstance(metadata.topic_error("orders"), UnknownTopicOrPartition)
    assert other.owned
    assert other.read == [], "these were committed"


def test_revocation_does_not_wait_for_commits_of_a_deleted_topic(simulation: Simulation) -> None:
    group = consumer_group(simulation, auto_commit_interval_ms=3_600_000, allow_auto_create_topics=False)
    member = group.member("a")
    group.settle()
    group.produce(60)
    group.turn_until(lambda: len(member.read) == 60, 10)
    group.cluster.delete_topic("orders")
    assert group.turn_until(lambda: not member.owned, 20) < 5
    # Nor does another commit behind it.
    parts = member.consumer._core.group
    assert parts is not None
    assert group.turn_until(lambda: not parts.commits.count, 30) < 2


@pytest.mark.gate
def test_positions_of_unsubscribed_topics_are_committed(
    simulation: Simulation,
) -> None:
    """The metadata is kept until then: an unknown topic would count as deleted."""
    group = consumer_group(simulation, {"orders": 2, "bills": 2}, auto_commit_interval_ms=3_600_000)
    before = group.member("a")
    group.settle()
    before.consumer.commit({TopicPartition("orders", number): 0 for number in range(2)})
    before.consumer.close()
    group.members.remove(before)
    member = group.member("b")  # looks for no beginnings, which would keep the topic known, too
    group.settle()
    group.produce(20)
    group.turn_until(lambda: len(member.read) == 20, 10)
    group.cluster.controls.fail_next(OffsetCommitRequest, CoordinatorLoadInProgress, times=5)
    member.consumer.subscribe(["bills"], listener=member)
    group.turn_until(lambda: {one.topic for one in member.owned} == {"bills"}, 20)
    group.turn(1)
    assert group.cluster.group("g").offsets == {TopicPartition("orders", number): 10 for number in range(2)}
