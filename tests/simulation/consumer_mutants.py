"""Planted bugs of the members of groups, many of which clients of Kafka have had: each breaks a promise.

As those of mutants.py: a mutant gets the world when its clients are made, and patches the consumer (undone by
pytest's monkeypatch).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import attrs
import pytest

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.coordinators import Coordinators
from pykafka2.consumer.assignors.assignor import Assignment, group_assignment
from pykafka2.consumer.commit.commit_queue import Commit, CommitQueue, Offsets
from pykafka2.consumer.commit.committer import Committer
from pykafka2.consumer.commit.offset_fetch import CommittedOffsets
from pykafka2.consumer.commit.start_positions import StartPositions
from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.consumer.group.classic import leader as group_leader
from pykafka2.consumer.group.classic.join import ClassicLeaveRequests
from pykafka2.consumer.group.classic.leader import GroupLeader
from pykafka2.consumer.group.classic.membership import Membership
from pykafka2.consumer.group.classic.rebalance import Rebalance
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.consumer.state.poll_interval import PollClock
from pykafka2.driver.pollable import PollResult
from pykafka2.errors import KafkaError
from pykafka2.testing.simulation.world import World
from pykafka2.types import OffsetAndMetadata, TopicPartition

Mutant = Callable[[World, pytest.MonkeyPatch], None]


def leaders_give_a_partition_twice(world: World, patch: pytest.MonkeyPatch) -> None:
    """The leader gives what its first member has to the second, too."""

    def give_twice(*args: Any) -> dict[str, Assignment]:
        assigned = group_assignment(*args)
        first, *others = sorted(assigned)
        if others:
            more = (*assigned[others[0]].partitions, *assigned[first].partitions)
            assigned[others[0]] = attrs.evolve(assigned[others[0]], partitions=tuple(dict.fromkeys(more)))
        return assigned

    patch.setattr(group_leader, "group_assignment", give_twice)


def eager_members_keep_what_they_have(world: World, patch: pytest.MonkeyPatch) -> None:
    """Nothing is given up before joining, though the leader may give it to others."""
    patch.setattr(Rebalance, "_to_revoke_before_joining", lambda self: [])


def losses_are_not_reported(world: World, patch: pytest.MonkeyPatch) -> None:
    """Losses are not reported to the listener."""

    def go_silently(self: OwnedPartitions, because: str) -> None:
        self._forget(list(self._subscription.assigned))

    patch.setattr(OwnedPartitions, "lose", go_silently)


def commits_run_ahead_of_iteration(world: World, patch: pytest.MonkeyPatch) -> None:
    """Polled records count as handed over, although iteration has not reached them (KAFKA-2942's kind)."""
    patch.setattr(IterationQueue, "places", lambda self: {})


def commits_are_made_as_polls_return(world: World, patch: pytest.MonkeyPatch) -> None:
    """Automatic commits are made with the records of this very poll, not with those of the one before."""
    run = Committer.run
    patch.setattr(Committer, "run", lambda self, remaining: self.call_back())
    patch.setattr(Committer, "due_in", lambda self: FOREVER)
    patch.setattr(Committer, "on_return", lambda self: run(self, 0.0))


def group_positions_are_not_fetched(world: World, patch: pytest.MonkeyPatch) -> None:
    """Every partition is read where auto_offset_reset says."""
    patch.setattr(StartPositions, "without_commit", lambda self, partitions: list(partitions))


def failed_questions_count_as_no_commit(world: World, patch: pytest.MonkeyPatch) -> None:
    """A coordinator that cannot answer now is taken to know of nothing (librdkafka 1.8.0's kind)."""
    read = CommittedOffsets.read

    def believe(
        self: CommittedOffsets, answer: Any, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        known_offsets = self._partitions_of(answer)
        known = read(self, answer, [one for one in partitions if one in known_offsets])
        return {one: known.get(one) for one in partitions}

    def accept(self: CommittedOffsets, answer: Any, partitions: Any, ids: Any) -> None:
        for group in answer.groups:
            ids.give_names(group.topics)

    patch.setattr(CommittedOffsets, "refusal", accept)
    patch.setattr(CommittedOffsets, "read", believe)


def refused_commits_count_as_written(world: World, patch: pytest.MonkeyPatch) -> None:
    """A commit that the coordinator could not write is reported as written."""

    def believe(self: CommitQueue, commit: Commit, error: KafkaError, now: float) -> None:
        commit.send = None
        self._succeed(commit)

    patch.setattr(CommitQueue, "_on_error", believe)


def commits_are_now_and_then_old(world: World, patch: pytest.MonkeyPatch) -> None:
    """Every third commit is of what was handed over by the one before."""
    consumed_offsets = Committer.consumed_offsets
    known_offsets: dict[int, list[Offsets]] = {}

    def remember(self: Committer, partitions: Collection[TopicPartition] | None = None) -> Offsets:
        before = known_offsets.setdefault(id(self), [])
        now = consumed_offsets(self, partitions)
        before.append(now)
        return {**now, **before[-2]} if len(before) % 3 == 0 and before[-2].keys() == now.keys() else now

    patch.setattr(Committer, "consumed_offsets", remember)


def callbacks_come_backwards(world: World, patch: pytest.MonkeyPatch) -> None:
    """The last of several finished commits is reported first."""

    def call_back(self: Committer) -> None:
        done = [one for one in self._pending_callbacks if one.completion.is_done]
        for one in reversed(done):
            self._pending_callbacks.remove(one)
            one.callback(one.offsets, one.completion.exception(0))

    patch.setattr(Committer, "call_back", call_back)


def callbacks_come_twice(world: World, patch: pytest.MonkeyPatch) -> None:
    """A commit's callback is called once too often."""
    call_back = Committer.call_back

    def call_twice(self: Committer) -> None:
        if self._pending_callbacks and self._pending_callbacks[0].completion.is_done:
            one = self._pending_callbacks[0]
            one.callback(one.offsets, one.completion.exception(0))
        call_back(self)

    patch.setattr(Committer, "call_back", call_twice)


def last_commits_are_left_out(world: World, patch: pytest.MonkeyPatch) -> None:
    """Nothing is committed before partitions are given away."""
    patch.setattr(Committer, "commit_before_rebalance", lambda self, partitions, timeout: None)
    patch.setattr(Committer, "close", lambda self, timeout, autocommit: None)


def silence_of_the_application_is_not_noticed(world: World, patch: pytest.MonkeyPatch) -> None:
    """A member that does not poll for longer than max_poll_interval_ms continues its heartbeats (before
    KIP-62).
    """
    patch.setattr(PollClock, "is_overrun", lambda self, now: False)
    patch.setattr(PollClock, "wake_at", lambda self, now: FOREVER)


def heartbeats_stop_while_the_application_computes(world: World, patch: pytest.MonkeyPatch) -> None:
    """A member beats inside poll() only, as clients did before KIP-62."""
    beat = Membership._poll_heartbeat

    def beat_in_polls(self: Membership, now: float) -> PollResult:
        return beat(self, now) if self.polls.is_waiting else PollResult.idle_until(now + 0.1)

    patch.setattr(Membership, "_poll_heartbeat", beat_in_polls)


def coordinators_are_cached_forever(world: World, patch: pytest.MonkeyPatch) -> None:
    """Requests to a former coordinator are repeated forever (KAFKA-13840)."""
    patch.setattr(Coordinators, "forget_answerer", lambda self, send: None)


def nothing_rests_between_attempts(world: World, patch: pytest.MonkeyPatch) -> None:
    """No back-off anywhere."""
    patch.setattr(Backoff, "next", lambda self: 0.0)


def goodbyes_are_not_said(world: World, patch: pytest.MonkeyPatch) -> None:
    """Members leave without a word, so the others wait for their sessions to end."""

    def say_nothing(
        self: ClassicLeaveRequests, member_id: str, reason: str, done: Callable[[None], None], **how: Any
    ) -> None:
        done(None)

    patch.setattr(ClassicLeaveRequests, "send", say_nothing)


def leaders_do_not_watch_topics(world: World, patch: pytest.MonkeyPatch) -> None:
    """Added partitions are assigned to no member."""
    patch.setattr(GroupLeader, "news", lambda self, now: "")


def rewinding_goes_one_too_far(world: World, patch: pytest.MonkeyPatch) -> None:
    """Records that iteration had not returned before a rebalance are skipped."""
    first_offsets = IterationQueue.first_offsets

    def forget(self: IterationQueue, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {one: offset + 1 for one, offset in first_offsets(self, partitions).items()}

    patch.setattr(IterationQueue, "first_offsets", forget)


def closing_takes_its_time(world: World, patch: pytest.MonkeyPatch) -> None:
    """close() waits for a second longer than it was allowed to, and more."""
    close = KafkaConsumer.close

    def close_late(self: KafkaConsumer, timeout: float | None = None, **more: Any) -> None:
        close(self, timeout, **more)
        world.simulation.sleep((timeout or 0.0) + 2.0)

    patch.setattr(KafkaConsumer, "close", close_late)
