"""Faults planted into a member of KIP-848, each seen by the story that it would spoil."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pykafka2.clock import FOREVER
from pykafka2.consumer.commit.committer import Committer
from pykafka2.consumer.group.kip848 import reconciliation
from pykafka2.consumer.group.kip848.assignment import Owned
from pykafka2.consumer.group.kip848.heartbeats import Heartbeats, Leaving
from pykafka2.consumer.group.kip848.membership import ConsumerMembership
from pykafka2.consumer.group.kip848.reconciliation import Reconciliation
from pykafka2.consumer.group.member import Heartbeat
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.state.group_identity import GroupIdentity
from pykafka2.consumer.state.poll_interval import PollClock
from pykafka2.errors import KafkaError, UnknownMemberId, UnreleasedInstanceId
from pykafka2.testing import Simulation
from tests.consumer.group.kip848 import (
    test_commits,
    test_coordinator_errors,
    test_members,
    test_static_members,
    test_subscriptions,
)
from tests.gate import rest_in_gate

pytestmark = pytest.mark.slow

Story = Callable[[Simulation], None]
Mutant = Callable[[pytest.MonkeyPatch], None]


def revoke_without_the_last_commit(patch: pytest.MonkeyPatch) -> None:
    begin = OwnedPartitions.begin_revocation

    def hasty(self: OwnedPartitions, partitions: Any, **more: Any) -> bool:
        begun = begin(self, partitions, **more)
        self.last_commit = None
        return begun

    patch.setattr(OwnedPartitions, "begin_revocation", hasty)
    patch.setattr("pykafka2.consumer.commit.committer.Committer.commit_before_rebalance", lambda *args: None)


def forget_to_acknowledge(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Heartbeat, "hurry", lambda self: None)
    patch.setattr(ConsumerMembership, "_on_reconciled", lambda self, losses, owned, now: None)


def trust_what_was_said_before_an_error(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Heartbeats, "forget", lambda self: None)


def stay_settled_when_topics_go_and_come_back(patch: pytest.MonkeyPatch) -> None:
    reconcile = Reconciliation._reconcile

    def settled(self: Reconciliation, *args: Any) -> bool:
        before = self._settled
        found = reconcile(self, *args)
        self._settled = self._settled or before
        return found

    patch.setattr(Reconciliation, "_reconcile", settled)


def take_a_topic_made_anew_for_the_old_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reconciliation, "_of_topics_gone", lambda self, partitions: [])
    # Nor by any commit, which checks once more.
    patch.setattr(Committer, "_is_of_recreated_topic", lambda self, partition: False)


def keep_what_was_lost(patch: pytest.MonkeyPatch) -> None:
    lose = ConsumerMembership._end_membership

    def quietly(self: ConsumerMembership, *args: Any) -> None:
        losses = self.losses
        lose(self, *args)
        self.losses = losses

    patch.setattr(ConsumerMembership, "_end_membership", quietly)


def never_look_at_the_time_between_polls(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PollClock, "is_overrun", lambda self, now: False)
    patch.setattr(PollClock, "wake_at", lambda self, now: FOREVER)


def raise_a_refusal_only_once(patch: pytest.MonkeyPatch) -> None:
    fail = Reconciliation.raise_failure

    def once(self: Reconciliation) -> None:
        try:
            fail(self)
        finally:
            self._membership.failure = None

    patch.setattr(Reconciliation, "raise_failure", once)


def leave_static_members_for_good(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("pykafka2.consumer.group.kip848.heartbeats.STATIC_LEAVE_EPOCH", -1)


def believe_that_the_place_is_anothers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leaving, "may_hold_place", False)


def ask_for_offsets_as_nobody_in_particular(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "pykafka2.consumer.commit.offset_fetch.CommittedOffsets._moved",
        lambda self, error: UnknownMemberId(str(error)),
    )


def leave_the_pattern_with_the_broker(patch: pytest.MonkeyPatch) -> None:
    say = Heartbeats.next

    def silent(self: Heartbeats, *args: Any) -> Any:
        request = say(self, *args)
        request.subscribed_topic_regex = request.subscribed_topic_regex or None
        return request

    patch.setattr(Heartbeats, "next", silent)


def report_everything_as_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        reconciliation, "Owned", lambda number, partitions, is_whole: Owned(number, partitions, is_whole=True)
    )
    patch.setattr(Reconciliation, "_await_names", lambda self, unknown: None)


def commit_under_the_first_epoch_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("pykafka2.consumer.group.kip848.membership.GroupIdentity", _epoch_one)


def _epoch_one(member_id: str, epoch: int, instance_id: str | None, membership: int) -> GroupIdentity:
    return attrs.evolve(GroupIdentity(member_id, 1, instance_id), membership=membership)


PLANTED: dict[str, tuple[Story, Mutant]] = {
    "no last commit": (
        test_members.test_only_moving_partitions_are_revoked_and_reading_continues,
        revoke_without_the_last_commit,
    ),
    "no acknowledgement": (
        test_members.test_members_share_the_partitions_as_they_come_and_go,
        forget_to_acknowledge,
    ),
    "nothing said again": (
        lambda simulation: (
            test_coordinator_errors.test_retriable_error_of_later_heartbeats_loses_no_partition(
                simulation, test_coordinator_errors.NotCoordinator
            )
        ),
        trust_what_was_said_before_an_error,
    ),
    "settled too soon": (
        test_subscriptions.test_topics_taken_away_and_added_again_between_two_heartbeats_are_read_on,
        stay_settled_when_topics_go_and_come_back,
    ),
    "offsets of a topic that is gone": (
        lambda simulation: test_subscriptions.test_recreated_topic_is_another_topic(simulation, 0.0),
        take_a_topic_made_anew_for_the_old_one,
    ),
    "pattern not taken back": (
        test_subscriptions.test_regex_replaces_topic_names_and_names_replace_a_regex,
        leave_the_pattern_with_the_broker,
    ),
    "unknown topics forgotten": (
        test_subscriptions.test_a_subscription_pattern_is_resolved_by_the_brokers,
        report_everything_as_whole,
    ),
    "losses not reported": (
        lambda simulation: test_coordinator_errors.test_expelled_member_loses_its_partitions_and_rejoins(
            simulation, UnknownMemberId
        ),
        keep_what_was_lost,
    ),
    "refused in silence": (
        lambda simulation: (
            test_coordinator_errors.test_fatal_heartbeat_error_is_raised_until_the_subscription_changes(
                simulation, UnreleasedInstanceId, "session is over"
            )
        ),
        raise_a_refusal_only_once,
    ),
    "no look at the time": (
        test_static_members.test_static_member_keeps_its_partitions_beyond_max_poll_interval,
        never_look_at_the_time_between_polls,
    ),
    "static members gone for good": (
        test_static_members.test_returning_static_member_gets_its_former_partitions,
        leave_static_members_for_good,
    ),
    "locked out by itself": (
        test_static_members.test_a_first_heartbeat_without_an_answer_does_not_lock_its_sender_out,
        believe_that_the_place_is_anothers,
    ),
    "stale questions raised": (
        lambda simulation: test_commits.test_offset_fetch_with_a_stale_epoch_is_retried(
            simulation, UnknownMemberId
        ),
        ask_for_offsets_as_nobody_in_particular,
    ),
    "epochs that stand still": (
        test_commits.test_commits_and_questions_name_the_member_and_its_epoch,
        commit_under_the_first_epoch_for_ever,
    ),
}


@pytest.mark.parametrize("name", rest_in_gate(PLANTED))
def test_a_planted_fault_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    story, plant = PLANTED[name]
    with Simulation(1) as simulation:
        plant(monkeypatch)
        with pytest.raises((AssertionError, KafkaError, pytest.fail.Exception)):
            story(simulation)
