"""Bugs that group members of other clients have had, under the names by which they were reported.

Each is a story that ends well, and does not with the bug planted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pykafka2.consumer.assignors.wire_format import read_subscription
from pykafka2.consumer.commit.start_positions import StartPositions
from pykafka2.consumer.group import owned_partitions
from pykafka2.consumer.group.classic import join
from pykafka2.consumer.group.classic.membership import Membership
from pykafka2.consumer.group.classic.rebalance import Rebalance
from pykafka2.consumer.group.member import Heartbeat
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.group.task import GroupTask
from pykafka2.consumer.state.subscription import Assigned
from pykafka2.errors import (
    CommitFailed,
    CoordinatorLoadInProgress,
    IllegalGeneration,
    KafkaError,
    RebalanceInProgress,
    TransactionFailed,
)
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest, OffsetFetchRequest
from pykafka2.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from pykafka2.testing import Simulation
from pykafka2.types import OffsetAndMetadata, TopicPartition
from tests.consumer.group.life import Group
from tests.gate import rest_in_gate

pytestmark = pytest.mark.slow

Story = Callable[[Simulation], None]
Mutant = Callable[[pytest.MonkeyPatch], None]
COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}


# ---------------------------------------------------------------------------------------- the stories


def nothing_is_handed_over_while_the_last_commit_is_under_way(simulation: Simulation) -> None:
    group = Group(simulation)
    group.produce(60)
    first = group.member("a")
    group.turn_until(lambda: len(first.read) == 60)
    group.cluster.controls.hold(OffsetCommitRequest)
    group.member("b")
    group.turn_until(lambda: bool(group.cluster.controls.held(OffsetCommitRequest)), 3)
    group.produce(60, start=60)
    group.turn(1)
    assert len(first.read) == 60
    group.cluster.controls.release(OffsetCommitRequest)
    group.settle()
    group.turn(3)
    everything = [value for member in group.members for value in member.read]
    assert len(everything) == len(set(everything)) == 120


def a_commit_that_hangs_does_not_cost_the_membership(simulation: Simulation) -> None:
    group = Group(simulation, max_poll_interval_ms=20_000)
    group.produce(60)
    first = group.member("a")
    group.settle()
    group.turn(1)
    rule = group.cluster.controls.hold(OffsetCommitRequest)
    second = group.member("b")
    assert group.turn_until(lambda: bool(second.owned), 30) < 15
    assert first.what("lost") == []
    assert rule.fired <= 3, "it is not sent again by each poll"


def what_a_member_claims_is_of_the_generation_that_gave_it(simulation: Simulation) -> None:
    group = Group(simulation, **COOPERATIVE)
    first = group.member("a")
    group.settle()
    group.cluster.controls.fail_next(SyncGroupRequest, RebalanceInProgress, times=2, client_id="a")
    group.member("b")
    group.settle()
    claims = [
        (request.generation, len(request.owned))
        for one in group.cluster.history.requests(JoinGroupRequest, client_id="a")
        for request in [read_subscription(bytes(one.protocols[0].metadata))]
        if request.owned
    ]
    assert claims[:3] == [(1, 6)] * 3, "the two generations that it never got an assignment in do not count"
    assert first.errors == []


def a_member_that_was_thrown_out_owns_nothing(simulation: Simulation) -> None:
    group = Group(simulation, max_poll_interval_ms=5_000, **COOPERATIVE)
    first, second = group.member("a"), group.member("b")
    group.settle()
    first.is_stalled = True
    group.turn_until(lambda: len(second.owned) == 6, 10)
    first.is_stalled = False
    group.settle(20)


def a_commit_that_fails_in_a_rebalance_stops_no_partition(simulation: Simulation) -> None:
    group = Group(simulation)
    group.produce(60)
    first = group.member("a")
    group.settle()
    group.turn(1)
    group.cluster.controls.fail_next(OffsetCommitRequest, IllegalGeneration)
    second = group.member("b")
    group.settle(20)
    group.produce(60, start=60)
    group.turn(2)
    assert {b"%d" % number for number in range(60, 120)} <= {*first.read, *second.read}


def a_member_whose_offsets_could_not_be_had_reads_once_they_can(simulation: Simulation) -> None:
    group = Group(simulation, default_api_timeout_ms=1000)
    values = group.produce(60)
    group.cluster.controls.fail_next(OffsetFetchRequest, CoordinatorLoadInProgress, times=15)
    member = group.member("a")
    group.turn_until(lambda: len(member.read) == 60, 30)
    assert sorted(member.read) == sorted(values)
    assert len(group.cluster.group("g").members) == 1


def a_good_bye_that_is_lost_is_said_again(simulation: Simulation) -> None:
    group = Group(simulation)
    member = group.member("a")
    group.settle()
    group.cluster.controls.fail_next(LeaveGroupRequest, CoordinatorLoadInProgress, times=2)
    member.consumer.close()
    assert group.cluster.group("g").members == {}, "no ghost is left for others to wait for"


def a_heartbeat_without_an_answer_costs_nothing_and_blocks_no_commit(simulation: Simulation) -> None:
    group = Group(simulation, enable_auto_commit=False)
    group.produce(60)
    member = group.member("a")
    group.settle()
    group.turn(1)
    group.cluster.controls.hold(HeartbeatRequest, times=1)
    group.turn_until(lambda: group.cluster.controls.rules()[0].fired == 1, 3)
    group.turn(10)
    assert member.what("lost", "revoked") == []
    group.cluster.controls.hold(HeartbeatRequest, times=1)
    group.turn(0.6)
    before = group.now
    member.consumer.commit()
    assert group.now - before < 5


def a_close_ends_in_time_without_its_coordinator(simulation: Simulation) -> None:
    group = Group(simulation)
    member = group.member("a")
    group.settle()
    group.cluster.controls.hold(LeaveGroupRequest)
    group.cluster.controls.crash_broker(group.cluster.coordinator("g"))
    before = group.now
    member.consumer.close(timeout=2)
    assert group.now - before <= 3


def who_is_too_slow_hears_why_and_its_successors_commits_stand(simulation: Simulation) -> None:
    group = Group(simulation, max_poll_interval_ms=5_000, enable_auto_commit=False)
    group.produce(60)
    slow, other = group.member("a"), group.member("b")
    group.settle()
    slow.is_stalled = True
    group.turn_until(lambda: len(other.owned) == 6, 10)
    group.turn(1)
    other.consumer.commit()
    errors: list[KafkaError | None] = []
    slow.consumer.commit_async(
        {TopicPartition("orders", number): 1 for number in range(6)},
        lambda offsets, error: errors.append(error),
    )
    simulation.sleep(1)
    slow.consumer.commit_async({}, lambda offsets, error: None)
    assert isinstance(errors[0], CommitFailed)
    assert "longer than max_poll_interval_ms=5000" in str(errors[0])
    assert set(group.cluster.group("g").offsets.values()) == {10}


# ---------------------------------------------------------------------------------------- the bugs


def readable_whatever_the_hold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Assigned, "is_readable", property(lambda self: not self.is_paused))


def wait_for_the_commit_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owned_partitions, "SHARE_OF_COMMIT", 100.0)


def claim_the_newest_generation(patch: pytest.MonkeyPatch) -> None:
    join = Rebalance._join_if_needed

    def claiming(self: Rebalance, losses: int) -> bool:
        last = self._assignors.last
        if last is not None:
            generation = self._membership._group_status.identity.generation_id
            self._assignors.last = attrs.evolve(last, generation=generation)
        return join(self, losses)

    patch.setattr(Rebalance, "_join_if_needed", claiming)


def keep_what_was_lost(patch: pytest.MonkeyPatch) -> None:
    lose = Membership._end_membership

    def quietly(self: Membership, *args: Any, **more: Any) -> None:
        losses = self.losses
        lose(self, *args, **more)
        self.losses = losses

    patch.setattr(Membership, "_end_membership", quietly)


def revoke_only_after_a_successful_commit(patch: pytest.MonkeyPatch) -> None:
    revoke, lose = OwnedPartitions.revoke, OwnedPartitions.lose

    def stubborn(self: OwnedPartitions, partitions: list[TopicPartition]) -> bool:
        commit = self.last_commit
        if commit is not None and commit.is_done and commit.exception(0) is not None:
            return False
        return revoke(self, partitions)

    def without_losing(self: OwnedPartitions, because: str) -> None:
        if self.last_commit is None:
            lose(self, because)

    patch.setattr(OwnedPartitions, "revoke", stubborn)
    patch.setattr(OwnedPartitions, "lose", without_losing)


def give_up_on_committed_offsets(patch: pytest.MonkeyPatch) -> None:
    without_commit = StartPositions.without_commit

    def once(self: StartPositions, partitions: Any) -> Any:
        left = list(partitions)
        if self.last_error is not None:
            return []
        return without_commit(self, left)

    patch.setattr(StartPositions, "without_commit", once)


def say_good_bye_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(join, "LEAVE_ATTEMPTS", 1)


def wait_for_heartbeats_as_for_any_request(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Heartbeat, "timeout", property(lambda self: 30.0))


def leave_without_looking_at_the_time(patch: pytest.MonkeyPatch) -> None:
    end = GroupTask.end
    patch.setattr(GroupTask, "end", lambda self, reason, timeout, **more: end(self, reason, 60.0, **more))
    patch.setattr(join, "LEAVE_ATTEMPTS", 1000)


def forget_why_it_left(patch: pytest.MonkeyPatch) -> None:
    lose = Membership._end_membership

    def speechless(self: Membership, *args: Any, **more: Any) -> None:
        lose(self, *args, **more)
        self._group_status.commit_error = None
        self._group_status.lost_because = ""

    patch.setattr(Membership, "_end_membership", speechless)


BUGS: dict[str, tuple[Story, Mutant]] = {
    "KAFKA-14196": (nothing_is_handed_over_while_the_last_commit_is_under_way, readable_whatever_the_hold),
    "KAFKA-14024": (a_commit_that_hangs_does_not_cost_the_membership, wait_for_the_commit_for_ever),
    "KAFKA-12984": (what_a_member_claims_is_of_the_generation_that_gave_it, claim_the_newest_generation),
    "KAFKA-13419": (a_member_that_was_thrown_out_owns_nothing, keep_what_was_lost),
    "librdkafka-2933": (
        a_commit_that_fails_in_a_rebalance_stops_no_partition,
        revoke_only_after_a_successful_commit,
    ),
    "franz-go-offset-fetch": (
        a_member_whose_offsets_could_not_be_had_reads_once_they_can,
        give_up_on_committed_offsets,
    ),
    "franz-go-ghost": (a_good_bye_that_is_lost_is_said_again, say_good_bye_once),
    "kafka-python-1985": (
        a_heartbeat_without_an_answer_costs_nothing_and_blocks_no_commit,
        wait_for_heartbeats_as_for_any_request,
    ),
    "KAFKA-17734": (a_close_ends_in_time_without_its_coordinator, leave_without_looking_at_the_time),
    "aiokafka-848": (who_is_too_slow_hears_why_and_its_successors_commits_stand, forget_why_it_left),
}


@pytest.mark.parametrize("name", BUGS)
def test_known_bugs_of_other_clients_do_not_occur(name: str, simulation: Simulation) -> None:
    story, _ = BUGS[name]
    story(simulation)


@pytest.mark.gate
@pytest.mark.parametrize("name", rest_in_gate(BUGS))
def test_with_the_bug_planted_it_does_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    story, plant = BUGS[name]
    with Simulation(1) as simulation:
        plant(monkeypatch)
        with pytest.raises((AssertionError, KafkaError)):
            story(simulation)


def test_offsets_of_a_membership_that_is_lost_are_refused_to_a_transaction(simulation: Simulation) -> None:
    """Without its name they would be taken as those of a consumer without a group (KIP-447)."""
    group = Group(simulation, max_poll_interval_ms=1500)
    member = group.member("a")
    group.settle()
    group.produce(6)
    group.turn(1)
    membership = member.consumer.group_metadata()
    simulation.sleep(4)  # it does not poll, and leaves
    assert member.health()["state"] == "out"
    assert member.consumer.group_metadata() == membership
    producer = simulation.producer(group.cluster, transactional_id="copier")
    producer.init_transactions()
    producer.begin_transaction()
    with pytest.raises(TransactionFailed):
        producer.send_offsets_to_transaction(
            {TopicPartition("orders", 0): OffsetAndMetadata(1)}, member.consumer.group_metadata()
        )
    producer.abort_transaction()
