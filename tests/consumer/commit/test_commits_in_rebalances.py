"""Commits of a group's members: before a partition is given away, and when the membership is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.clock import FOREVER
from pykafka2.consumer.commit.committer import Committer
from pykafka2.consumer.commit.errors import membership_error
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.state.group_identity import GroupIdentity, GroupStatus
from pykafka2.consumer.state.subscription import Assigned
from pykafka2.driver.completion import Completion
from pykafka2.errors import (
    CommitFailed,
    CoordinatorLoadInProgress,
    FencedInstanceId,
    GroupAuthorizationFailed,
    IllegalGeneration,
    KafkaError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest
from pykafka2.protocol.messages.group import HeartbeatRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.consumer.commit.stories import FIRST, GROUP, ORDERS, Callbacks, at, committed, produce

Found = list[tuple[TopicPartition, int]]


def member(simulation: Simulation, cluster: KafkaCluster, **options: Any) -> KafkaConsumer:
    """A member of the group."""
    return simulation.consumer(
        cluster,
        "orders",
        **{
            "group_id": GROUP,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 200,  # which tells of a rebalance
            **options,
        },
    )


def poll(consumer: KafkaConsumer, found: Found, timeout_ms: float = 200, limit: int = 1) -> int:
    """One poll; how many records came."""
    polled = consumer.poll(timeout_ms, max_records=limit)
    new = [(partition, record.offset) for partition, records in polled.items() for record in records]
    found += new
    return len(new)


def read_some(consumer: KafkaConsumer, count: int) -> Found:
    found: Found = []
    for _ in range(200):
        if len(found) >= count:
            return found
        poll(consumer, found)
    pytest.fail(f"only {found}")


def take_turns(consumers: list[KafkaConsumer], found: list[Found], rounds: int) -> None:
    for _ in range(rounds):
        for consumer, mine in zip(consumers, found, strict=True):
            poll(consumer, mine, 50)


def test_a_members_commits_name_it(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = member(simulation, cluster)
    with pytest.raises(RebalanceInProgress, match="not joined"):
        consumer.commit({FIRST: 1})
    read_some(consumer, 5)
    consumer.commit()
    [request] = cluster.history.requests(OffsetCommitRequest)
    metadata = consumer.group_metadata()
    assert (metadata.group_id, metadata.generation_id) == (GROUP, 1)
    assert metadata.member_id
    assert request.member_id == metadata.member_id
    assert request.generation_id_or_member_epoch == 1


def test_a_commit_just_as_the_membership_is_lost_is_the_members(
    simulation: Simulation, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit without a member would be accepted by a group that is empty by then, although others have read
    meanwhile.
    """
    consumer = member(simulation, cluster)
    read_some(consumer, 5)
    assert consumer._core.group is not None
    real = consumer._core.group.group_status

    class LostAfterTheFirstLook:
        looks = 0

        def __getattr__(self, name: str) -> object:
            self.looks += 1
            if self.looks == 2:
                real.commit_error, real.identity = CommitFailed("lost"), GroupIdentity()
            return getattr(real, name)

    monkeypatch.setattr(consumer._core.group.committer, "_group_status", LostAfterTheFirstLook())
    with pytest.raises(CommitFailed):
        consumer.commit()
    assert all(one.member_id for one in cluster.history.requests(OffsetCommitRequest))


@pytest.mark.gate
def test_commit_of_no_offsets_succeeds_during_a_rebalance(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """The same as in Java: a loop of poll() and commit() gets through its first join, and through later
    rebalances.
    """
    first, callbacks = member(simulation, cluster), Callbacks()
    first.commit()
    first.commit_async(callback=callbacks)
    first.poll(0)  # which joins, and does not wait for it
    first.commit()
    assert callbacks.calls == [({}, None)]
    assert cluster.history.count("OffsetCommit") == 0
    found: Found = []
    second = member(simulation, cluster)
    for _ in range(100):
        for consumer in (first, second):
            poll(consumer, found, 20)
            consumer.commit()
    assert {len(first.assignment()), len(second.assignment())} == {1}
    assert committed(cluster) == at(10, 10)


@pytest.mark.gate
def test_new_member_continues_at_the_committed_offsets(simulation: Simulation, cluster: KafkaCluster) -> None:
    first = member(simulation, cluster, enable_auto_commit=True)
    found: list[Found] = [read_some(first, 6), []]
    second = member(simulation, cluster, enable_auto_commit=True)
    take_turns([first, second], found, 60)
    assert {len(first.assignment()), len(second.assignment())} == {1}
    everything = found[0] + found[1]
    assert sorted(everything) == [(one, offset) for one in ORDERS for offset in range(10)], "each record once"


@pytest.mark.gate
@pytest.mark.slow
def test_close_of_a_member_commits_its_positions(simulation: Simulation, cluster: KafkaCluster) -> None:
    found: Found = []
    for _ in range(4):
        with member(simulation, cluster, enable_auto_commit=True) as consumer:
            found += read_some(consumer, 5)
    assert sorted(found) == [(one, offset) for one in ORDERS for offset in range(10)]
    assert committed(cluster) == at(10, 10)


@pytest.mark.gate
@pytest.mark.parametrize("is_behind_another", [False, True])
@pytest.mark.parametrize("is_member", [True, False])
def test_close_reports_the_timeout_of_its_last_commit(
    simulation: Simulation,
    cluster: KafkaCluster,
    is_member: bool,
    is_behind_another: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The commit has the timeout of close, and both end at the same moment."""
    consumer = member(simulation, cluster, enable_auto_commit=True)
    if not is_member:
        consumer.unsubscribe()
        consumer.assign([FIRST])
    read_some(consumer, 1)
    cluster.controls.hold(OffsetCommitRequest)
    if is_behind_another:
        consumer.commit_async({FIRST: 1}, Callbacks())
    began_at = simulation.now
    consumer.close(timeout_ms=2_000)
    assert simulation.now - began_at == pytest.approx(2, abs=0.01)
    [message] = [message for message in caplog.messages if "the last commit of" in message]
    assert "was not acknowledged within 2 s" in message


# ------------------------------------------------------------------ the membership is lost


@pytest.mark.gate
@pytest.mark.slow
def test_commit_after_max_poll_interval_names_the_measured_gap(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = member(simulation, cluster, max_poll_interval_ms=20_000)
    read_some(consumer, 5)
    simulation.run_for(27)
    with pytest.raises(CommitFailed, match=r"not called for 2\d\.\d s.*max_poll_interval_ms=20000"):
        consumer.commit()
    callbacks = Callbacks()
    consumer.commit_async(callback=callbacks)
    simulation.run_for(0.1)
    consumer.poll()
    assert isinstance(callbacks.errors[0], CommitFailed)
    read_some(consumer, 1)
    consumer.commit()
    assert consumer.group_metadata().generation_id > 1


@pytest.mark.parametrize("error", [UnknownMemberId, IllegalGeneration])
def test_a_commit_on_its_way_as_the_member_leaves_names_the_cause(error: type[KafkaError]) -> None:
    """The coordinator's answer comes when the member knows already why it is none any more."""
    group_status = GroupStatus(GROUP)
    identity = group_status.identity = GroupIdentity("member-1", 3)
    group_status.lost_because = "poll() was not called for 27.1 s, longer than max_poll_interval_ms=20000"
    failure = membership_error(error(), group_status, identity)
    assert isinstance(failure, CommitFailed)
    assert group_status.lost_because in str(failure)
    group_status.lost_because = ""
    assert "max_poll_interval_ms" in str(membership_error(error(), group_status, identity)), "what it may be"


@pytest.mark.gate
def test_the_new_owners_commit_stands(simulation: Simulation, cluster: KafkaCluster) -> None:
    """aiokafka's 848 and 700, kafka-python's 2070: processing that outlasts max_poll_interval_ms went round
    between the members for ever."""
    slow = member(simulation, cluster, max_poll_interval_ms=10_000)
    read_some(slow, 4)
    quick = member(simulation, cluster)
    found: Found = []
    for _ in range(150):
        poll(quick, found)
        if len(found) == 20:
            break
    quick.commit()
    assert committed(cluster) == at(10, 10)
    with pytest.raises(CommitFailed, match="max_poll_interval_ms"):
        slow.commit()
    assert committed(cluster) == at(10, 10)
    mine: list[Found] = [[], []]
    take_turns([slow, quick], mine, 40)
    assert mine == [[], []], "the slow one goes on behind what the other has done"


@pytest.mark.gate
def test_commit_after_the_session_timeout_names_missing_heartbeats(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = member(simulation, cluster, session_timeout_ms=6000, heartbeat_interval_ms=1000)
    read_some(consumer, 5)
    name = simulation.last_client
    cluster.controls.cut_client(name, silently=True)
    simulation.run_for(20)
    cluster.controls.heal()
    with pytest.raises(CommitFailed):
        consumer.commit()
    read_some(consumer, 1)
    consumer.commit()


def test_commit_of_a_fenced_static_member_raises_fenced_instance_id(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    first = member(simulation, cluster, group_instance_id="one")
    read_some(first, 3)
    second = member(simulation, cluster, group_instance_id="one")
    read_some(second, 3)
    with pytest.raises(FencedInstanceId, match="group_instance_id"):
        first.commit()
    second.commit()


@pytest.mark.gate
def test_commit_during_a_rebalance_succeeds_or_raises_rebalance_in_progress(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    first = member(simulation, cluster)
    read_some(first, 4)
    second = member(simulation, cluster)
    for _ in range(40):
        second.poll(100)
        simulation.run_for(0.1)
        try:
            first.commit(timeout_ms=5000)
        except RebalanceInProgress:
            first.poll(100)
    found: list[Found] = [[], []]
    take_turns([first, second], found, 40)
    assert len(first.assignment()) == len(second.assignment()) == 1
    first.commit()
    second.commit()
    assert committed(cluster) == at(10, 10)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    "session_timeout", [10, pytest.param(45, id="45 s, the default", marks=pytest.mark.gate)]
)
def test_commits_keep_members_with_blocked_heartbeats_in_the_group(
    simulation: Simulation, cluster: KafkaCluster, session_timeout: int
) -> None:
    options = {"session_timeout_ms": session_timeout * 1000, "max_poll_interval_ms": 3_600_000}
    members = [member(simulation, cluster, **options) for _ in range(2)]
    take_turns(members, [[], []], 30)
    generations = {one.group_metadata().generation_id for one in members}
    cluster.controls.fail_next(HeartbeatRequest, CoordinatorLoadInProgress, times=100_000)
    for _ in range(8):
        simulation.run_for(session_timeout / 2)
        for consumer in members:
            consumer.commit()
    assert len(cluster.group(GROUP).members) == 2
    assert {one.group_metadata().generation_id for one in members} == generations
    simulation.run_for(session_timeout + 1)
    assert not cluster.group(GROUP).members
    for consumer in members:
        with pytest.raises(CommitFailed):
            consumer.commit()


@pytest.mark.gate
def test_last_commit_that_ctrl_c_kept_from_being_sent_is_sent_by_the_next_poll(
    simulation: Simulation, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = member(simulation, cluster, enable_auto_commit=True, auto_commit_interval_ms=600_000)
    found: list[Found] = [read_some(first, 6), []]
    begin, strikes = Committer.commit_before_rebalance, [KeyboardInterrupt()]

    def interrupted(self: Committer, *arguments: Any) -> Completion[None] | None:
        if strikes:
            raise strikes.pop()
        return begin(self, *arguments)

    monkeypatch.setattr(Committer, "commit_before_rebalance", interrupted)
    second = member(simulation, cluster)
    with pytest.raises(KeyboardInterrupt):
        take_turns([second, first], found[::-1], 100)
    take_turns([first, second], found, 100)
    assert sorted(found[0] + found[1]) == [(one, offset) for one in ORDERS for offset in range(10)]


@pytest.mark.gate
def test_unanswered_last_commit_delays_a_rebalance_by_its_own_timeout_only(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """Requests behind it on its connection wait for its answer."""
    first = member(simulation, cluster, enable_auto_commit=True, max_poll_interval_ms=20_000)
    found: list[Found] = [read_some(first, 3), []]
    cluster.controls.rule(api="OffsetCommit", then="swallow", times=1)
    began_at = simulation.now
    second = member(simulation, cluster)
    while not len(first.assignment()) == len(second.assignment()) == 1:
        take_turns([first, second], found, 1)
    assert simulation.now - began_at < 15


@pytest.mark.gate
def test_evicted_member_that_unsubscribes_can_commit_partitions_assigned_by_hand(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    members = [
        member(simulation, cluster, enable_auto_commit=True, max_poll_interval_ms=20_000) for _ in range(2)
    ]
    take_turns(members, [[], []], 60)
    simulation.run_for(90)
    assert not cluster.group(GROUP).members
    produce(simulation, cluster, 2, ORDERS)
    for consumer, partition in zip(members, ORDERS, strict=True):
        consumer.unsubscribe()
        consumer.assign([partition])
        read_some(consumer, 2)
        consumer.assign([])
    simulation.run_for(1)
    assert committed(cluster) == at(12, 12)


# ------------------------------------------------------------------ known bugs of other clients


@pytest.mark.gate
@pytest.mark.slow
def test_partition_with_its_last_commit_in_flight_returns_no_records(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """KAFKA-14196: records came twice, as they were returned while the commit before the revocation was on
    its way."""
    first = member(simulation, cluster, enable_auto_commit=True)
    mine = read_some(first, 3)
    cluster.controls.hold(OffsetCommitRequest)
    second = member(simulation, cluster)
    others: Found = []
    while not cluster.controls.held(OffsetCommitRequest):
        poll(second, others, 50)
        poll(first, mine, 50)
    before = len(mine)
    for _ in range(10):
        poll(first, mine, 50)
        poll(second, others, 50)
    assert (len(mine), others) == (before, [])
    cluster.controls.clear()
    cluster.controls.release(OffsetCommitRequest)
    found = [mine, others]
    take_turns([first, second], found, 60)
    assert sorted(mine + others) == [(one, offset) for one in ORDERS for offset in range(10)]


@pytest.mark.gate
@pytest.mark.slow
def test_the_commit_before_a_rebalance_is_sent_once_and_the_member_joins_in_time(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """KAFKA-14024 and KAFKA-13310: each poll sent it again, and the member was out before it could join."""
    first = member(simulation, cluster, enable_auto_commit=True, max_poll_interval_ms=20_000)
    found: list[Found] = [read_some(first, 3), []]
    cluster.history.clear()
    cluster.controls.delay(OffsetCommitRequest, 4.0)
    member_id = first.group_metadata().member_id
    second = member(simulation, cluster, max_poll_interval_ms=20_000)
    take_turns([first, second], found, 200)
    assert first.group_metadata().member_id == member_id
    assert {len(first.assignment()), len(second.assignment())} == {1}
    sent = [one for one in cluster.history.requests(OffsetCommitRequest) if one.member_id == member_id]
    assert len([one for one in sent if len(one.topics[0].partitions) == 2]) <= 2


@pytest.mark.gate
def test_a_failed_commit_in_a_rebalance_keeps_no_partition_from_being_read(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """librdkafka's 2933 and 1605: a member stood still after its commit failed in a rebalance."""
    first = member(simulation, cluster, enable_auto_commit=True)
    found: list[Found] = [read_some(first, 3), []]
    cluster.controls.fail_next(OffsetCommitRequest, IllegalGeneration)
    second = member(simulation, cluster, enable_auto_commit=True)
    take_turns([first, second], found, 100)
    assert set(found[0] + found[1]) == {(one, offset) for one in ORDERS for offset in range(10)}
    assert len(first.assignment()) == len(second.assignment()) == 1


@pytest.mark.gate
def test_a_refused_commit_in_a_rebalance_keeps_no_partition_from_being_read(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """The same with a refusal that leaves the member in its group."""
    first = member(simulation, cluster, enable_auto_commit=True)
    found: list[Found] = [read_some(first, 3), []]
    cluster.controls.fail_next(OffsetCommitRequest, GroupAuthorizationFailed)
    second = member(simulation, cluster, enable_auto_commit=True)
    take_turns([first, second], found, 100)
    assert set(found[0] + found[1]) == {(one, offset) for one in ORDERS for offset in range(10)}
    assert len(first.assignment()) == len(second.assignment()) == 1


@pytest.mark.gate
def test_an_application_that_is_slow_with_each_record_stays_a_member(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """Iterating counts as polling: a request for the next record shows that the application is alive."""
    consumer = member(simulation, cluster, max_poll_interval_ms=5000, enable_auto_commit=True)
    for number, _ in enumerate(consumer):
        simulation.run_for(2.0)
        if number == 9:
            break
    assert consumer.group_metadata().generation_id == 1
    consumer.commit()
    assert sum(committed(cluster).values()) == 10


# ------------------------------------------------------------------ the same, planted into ours


def records_are_returned_while_a_partition_is_revoked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Assigned, "is_readable", property(lambda self: not self.is_paused))


def each_poll_commits_again(patch: pytest.MonkeyPatch) -> None:
    revoke = OwnedPartitions.revoke

    def commit_again(self: OwnedPartitions, partitions: list[TopicPartition]) -> bool:
        if self.last_commit is not None and not self.last_commit.is_done:
            self.last_commit = self._commit_queue.commit_before_rebalance(partitions, 30.0)
        return revoke(self, partitions)

    patch.setattr(OwnedPartitions, "revoke", commit_again)


def a_failed_commit_stops_the_rebalance(patch: pytest.MonkeyPatch) -> None:
    revoke = OwnedPartitions.revoke

    def insist(self: OwnedPartitions, partitions: list[TopicPartition]) -> bool:
        commit = self.last_commit
        if commit is not None and commit.is_done and commit.exception(0) is not None:
            self.last_commit, self._commit_until = Completion(self._driver, "one that never comes"), FOREVER
        return revoke(self, partitions)

    patch.setattr(OwnedPartitions, "revoke", insist)


def an_eviction_is_taken_for_something_that_passes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitFailed, "retriable", True)
    patch.setattr(Committer, "_wait", lambda self, completion, timeout: None)


PLANTED: dict[Callable[[Simulation, KafkaCluster], None], Callable[[pytest.MonkeyPatch], None]] = {
    test_partition_with_its_last_commit_in_flight_returns_no_records: (
        records_are_returned_while_a_partition_is_revoked
    ),
    test_the_commit_before_a_rebalance_is_sent_once_and_the_member_joins_in_time: each_poll_commits_again,
    test_a_refused_commit_in_a_rebalance_keeps_no_partition_from_being_read: (
        a_failed_commit_stops_the_rebalance
    ),
    test_the_new_owners_commit_stands: an_eviction_is_taken_for_something_that_passes,
}


@pytest.mark.gate
@pytest.mark.parametrize(("story", "plant"), PLANTED.items(), ids=lambda one: str(one.__name__))
def test_story_detects_the_planted_bug(
    simulation: Simulation, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, story: Any, plant: Any
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KafkaError, pytest.fail.Exception)):
        story(simulation, cluster)
