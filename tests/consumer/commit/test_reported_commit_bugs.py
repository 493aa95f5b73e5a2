"""Bugs of commits that other clients had, each as a story that ours passes.

Beside each stands the bug, planted into ours, with which the story fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import KafkaConsumer
from pykafka2.consumer.commit.commit_queue import Commit, CommitQueue
from pykafka2.consumer.commit.committer import Committer
from pykafka2.consumer.commit.start_positions import StartPositions
from pykafka2.consumer.poll.poller import Poller
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.driver.completion import Completion
from pykafka2.errors import CoordinatorLoadInProgress, KafkaError, UnstableOffsetCommit
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest, OffsetFetchRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.consumer.commit.stories import FIRST, Callbacks, committed, read, reader

Story = Callable[[Simulation, KafkaCluster], None]
Plant = Callable[[pytest.MonkeyPatch], None]


# ------------------------------------------------------------------ loss: too much is committed


def what_iteration_has_fetched_ahead_is_not_committed(simulation: Simulation, cluster: KafkaCluster) -> None:
    """KAFKA-2942, Yelp's 40 and 2555 of kafka-python: records that were never returned counted as read."""
    consumer = reader(simulation, cluster, [FIRST], enable_auto_commit=True)
    for record in consumer:
        if record.offset == 2:
            break
    consumer.commit()
    assert committed(cluster) == {FIRST: 3}
    consumer.close()
    assert committed(cluster) == {FIRST: 3}


def positions_are_taken_as_handed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IterationQueue, "places", lambda self: {})


def what_a_poll_returns_is_not_committed_by_that_poll(simulation: Simulation, cluster: KafkaCluster) -> None:
    """The same, with polls: a crash while the records are worked on would lose them."""
    consumer = reader(simulation, cluster, [FIRST], enable_auto_commit=True)
    returned = 0
    for _ in range(10):
        returned += len(consumer.poll(1000, max_records=1)[FIRST])
        simulation.run_for(2)
        done = committed(cluster).get(FIRST, 0) if cluster.history.count("OffsetCommit") else 0
        assert done < returned


def automatic_commits_at_the_end_of_a_poll(patch: pytest.MonkeyPatch) -> None:
    run, poll = Committer.run, Poller._poll

    def poll_and_commit(self: Poller, *arguments: Any) -> Any:
        found = poll(self, *arguments)
        self._subscription.positions.update(
            {one: records[-1].offset + 1 for one, records in found.items()}  # handed over by now
        )
        for task in self._poll_tasks:
            if isinstance(task, Committer):
                run(task, 0.0)
        return found

    patch.setattr(Committer, "run", lambda self, remaining: None)
    patch.setattr(Poller, "_poll", poll_and_commit)


# ------------------------------------------------------------------ a jump to the end


def an_error_that_passes_is_not_taken_for_no_offset(simulation: Simulation, cluster: KafkaCluster) -> None:
    """librdkafka 1.8.0, 2.2.0 and its 4447, kafka-python's 2629: a time-out led to a reset."""
    with reader(simulation, cluster) as consumer:
        consumer.commit({FIRST: 7})
    cluster.controls.fail_next(OffsetFetchRequest, UnstableOffsetCommit, times=3)
    cluster.controls.hold(OffsetFetchRequest, times=2)
    consumer = reader(
        simulation,
        cluster,
        [FIRST],
        auto_offset_reset="latest",
        request_timeout_ms=500,
        default_api_timeout_ms=900,
    )
    assert read(consumer, 1) == {FIRST: [7]}


def an_error_counts_as_no_offset(patch: pytest.MonkeyPatch) -> None:
    take = StartPositions._take_response

    def take_lightly(self: StartPositions) -> None:
        answer, requested = self.response, self._requested
        if answer is not None and answer.is_done and answer.exception(0) is not None:
            self.response, self._requested = None, {}
            self._uncommitted.update(requested)
        else:
            take(self)

    patch.setattr(StartPositions, "_take_response", take_lightly)


def a_seek_during_an_offset_fetch_stays(simulation: Simulation, cluster: KafkaCluster) -> None:
    """KAFKA-7703, franz-go's SetOffsets: the older question's answer came later and moved the reader."""
    with reader(simulation, cluster) as consumer:
        consumer.commit({FIRST: 7})
    cluster.controls.hold(OffsetFetchRequest)
    consumer = reader(simulation, cluster, [FIRST])
    consumer.poll(500)
    consumer.seek(FIRST, 2)
    cluster.controls.release(OffsetFetchRequest)
    simulation.run_for(1)
    assert read(consumer, 1) == {FIRST: [2]}
    consumer.assign([])
    consumer.assign([FIRST])
    assert read(consumer, 1) == {FIRST: [7]}


def answers_are_taken_whenever_they_come(patch: pytest.MonkeyPatch) -> None:
    take, prepare = StartPositions._take_response, Poller._prepare

    def apply_always(self: StartPositions, partition: Any, generation: int, one: Any) -> None:
        if one is not None:
            self._subscription.seek(partition, one.offset)

    def take_first(self: Poller) -> None:
        if self._start_positions is not None:
            take(self._start_positions)
        prepare(self)

    patch.setattr(StartPositions, "_apply", apply_always)
    patch.setattr(Poller, "_prepare", take_first)


def partitions_are_read_after_many_failures(simulation: Simulation, cluster: KafkaCluster) -> None:
    """Three faults of franz-go: a member that beats its heart and never fetches, once OffsetFetch has failed
    more often than it is tried again."""
    cluster.controls.fail_next(OffsetFetchRequest, CoordinatorLoadInProgress, times=30)
    consumer = reader(simulation, cluster, [FIRST], default_api_timeout_ms=3000)
    assert consumer.poll(60_000)


def a_request_is_sent_once(patch: pytest.MonkeyPatch) -> None:
    take = StartPositions._take_response

    def take_and_keep(self: StartPositions) -> None:
        answer = self.response
        if answer is not None and answer.is_done and answer.exception(0) is not None:
            self.response = Completion(self._committed._cluster.driver, "an answer that never comes")
        take(self)

    patch.setattr(StartPositions, "_take_response", take_and_keep)


# ------------------------------------------------------------------ order


def a_commit_that_failed_does_not_come_again_behind_a_later_one(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """KAFKA-5211 and others: an asynchronous commit that was tried again overwrote its successor."""
    consumer = reader(simulation, cluster, [FIRST])
    cluster.controls.fail_next(OffsetCommitRequest, CoordinatorLoadInProgress)
    consumer.commit_async({FIRST: 3})
    consumer.commit_async({FIRST: 8})
    simulation.run_for(5)
    assert committed(cluster) == {FIRST: 8}


def asynchronous_commits_are_tried_again(patch: pytest.MonkeyPatch) -> None:
    on_error = CommitQueue._on_error

    def try_again(self: CommitQueue, commit: Commit, error: KafkaError, now: float) -> None:
        if error.retriable:
            commit.send = None
            self._retry(commit, error, now + 0.1)
            self._cluster.driver.wake()
        else:
            on_error(self, commit, error, now)

    patch.setattr(CommitQueue, "_on_error", try_again)


# ------------------------------------------------------------------ close and wakeup


def asynchronous_commits_survive_close(simulation: Simulation, cluster: KafkaCluster) -> None:
    """KAFKA-16103: what was being committed was dropped by close."""
    consumer, callbacks = reader(simulation, cluster, [FIRST]), Callbacks()
    consumer.commit_async({FIRST: 5}, callbacks)
    consumer.close()
    assert callbacks.errors == [None]
    assert committed(cluster) == {FIRST: 5}


def close_waits_for_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Committer, "close", lambda self, timeout, autocommit: self._abandon_commits())


def close_keeps_its_timeout_without_a_coordinator(simulation: Simulation, cluster: KafkaCluster) -> None:
    """KAFKA-17734, confluent-kafka-python's 1667, kafka-python's 1562: close hung, or took its time."""
    consumer = reader(simulation, cluster, [FIRST], enable_auto_commit=True)
    read(consumer, 3)
    for broker in range(3):
        cluster.controls.pause_broker(broker)
    began_at = simulation.now
    consumer.close(timeout=2.0)
    assert simulation.now - began_at <= 3.0


def close_waits_as_long_as_a_commit_may_take(patch: pytest.MonkeyPatch) -> None:
    close = Committer.close
    patch.setattr(
        Committer, "close", lambda self, timeout, autocommit: close(self, 60.0, autocommit=autocommit)
    )


def a_wakeup_does_not_end_a_commit(simulation: Simulation, cluster: KafkaCluster) -> None:
    """KAFKA-14208: a wakeup meant for poll ended an asynchronous commit."""
    consumer, callbacks = reader(simulation, cluster, [FIRST]), Callbacks()
    consumer.wakeup()
    consumer.commit_async({FIRST: 4}, callbacks)
    consumer.commit({FIRST: 5})
    assert callbacks.errors == [None]
    assert committed(cluster) == {FIRST: 5}
    assert consumer.poll(60_000) == {}, "it ends the poll, as it was meant to"


def a_wakeup_ends_whatever_waits(patch: pytest.MonkeyPatch) -> None:
    woken: list[bool] = []
    wait, wakeup = Committer._wait, KafkaConsumer.wakeup

    def be_woken(self: Committer, *arguments: Any) -> None:
        assert not woken, "woken"
        wait(self, *arguments)

    def wake(self: KafkaConsumer) -> None:
        woken.append(True)
        wakeup(self)

    patch.setattr(Committer, "_wait", be_woken)
    patch.setattr(KafkaConsumer, "wakeup", wake)


STORIES: dict[Story, Plant] = {
    what_iteration_has_fetched_ahead_is_not_committed: positions_are_taken_as_handed_over,
    what_a_poll_returns_is_not_committed_by_that_poll: automatic_commits_at_the_end_of_a_poll,
    an_error_that_passes_is_not_taken_for_no_offset: an_error_counts_as_no_offset,
    a_seek_during_an_offset_fetch_stays: answers_are_taken_whenever_they_come,
    partitions_are_read_after_many_failures: a_request_is_sent_once,
    a_commit_that_failed_does_not_come_again_behind_a_later_one: asynchronous_commits_are_tried_again,
    asynchronous_commits_survive_close: close_waits_for_nothing,
    close_keeps_its_timeout_without_a_coordinator: close_waits_as_long_as_a_commit_may_take,
    a_wakeup_does_not_end_a_commit: a_wakeup_ends_whatever_waits,
}


def name_of(value: Any) -> str:
    return str(value.__name__)


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES, ids=name_of)
def test_ours_has_it_not(simulation: Simulation, cluster: KafkaCluster, story: Story) -> None:
    story(simulation, cluster)


@pytest.mark.gate
@pytest.mark.parametrize(("story", "plant"), STORIES.items(), ids=name_of)
def test_story_detects_the_planted_bug(
    simulation: Simulation, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, story: Story, plant: Plant
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        story(simulation, cluster)
