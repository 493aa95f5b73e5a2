"""All commits go through one queue: the last one counts, whatever happens to those before."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from pykafka2 import OffsetAndMetadata, TopicPartition
from pykafka2.errors import CoordinatorLoadInProgress, KafkaError, KafkaTimeoutError, NotCoordinator
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest
from pykafka2.testing import QUICK, KafkaCluster, Simulation
from tests.consumer.commit.scripted_coordinator import FIND_COORDINATOR, OFFSET_FETCH, OldCluster
from tests.consumer.commit.stories import FIRST, GROUP, committed, read, reader
from tests.gate import rest_in_long
from tests.internal_topics import FEW_PARTITIONS


class Outcome:
    """The outcome of each commit, in the order of the callbacks."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.written: set[int] = set()
        self.unknown: set[int] = set()

    def __call__(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: BaseException | None
    ) -> None:
        number = int(offsets[FIRST].metadata)
        self.order.append(number)
        (self.written if error is None else self.unknown).add(number)


def meet_a_fault(cluster: KafkaCluster, dice: random.Random) -> None:
    controls = cluster.controls
    fault = dice.randrange(20)
    if fault == 0:
        controls.fail_next(OffsetCommitRequest, NotCoordinator, times=dice.randint(1, 3))
    elif fault == 1:
        controls.fail_next(OffsetCommitRequest, CoordinatorLoadInProgress, times=dice.randint(1, 3))
    elif fault == 2:
        controls.lose_reply(OffsetCommitRequest, times=dice.randint(1, 2))
    elif fault == 3:
        controls.disconnect_next(OffsetCommitRequest)
    elif fault == 4:
        controls.move_coordinator(GROUP, dice.randrange(3))


def commit_in_all_ways(simulation: Simulation, cluster: KafkaCluster, seed: int) -> None:
    """Numbers count up in the metadata; offsets go up and down."""
    dice = random.Random(seed)
    outcome = Outcome()
    consumer = reader(simulation, cluster, [FIRST], request_timeout_ms=2000, retry_backoff_ms=20)
    consumer.commit({FIRST: OffsetAndMetadata(0, "0")})
    attempts: list[int] = []
    for number in range(1, 60):
        meet_a_fault(cluster, dice)
        offsets: dict[TopicPartition, Any] = {FIRST: OffsetAndMetadata(dice.randrange(100), str(number))}
        if dice.random() < 0.8:
            consumer.commit_async(offsets, outcome)
            attempts.append(number)
            simulation.run_for(dice.choice([0, 0, 0.001, 0.1]))
            continue
        try:
            consumer.commit(offsets, timeout_ms=10_000)
        except KafkaError:
            pass
        else:
            assert outcome.order == attempts, "each callback has been called, in its turn"
            there = consumer.committed(FIRST, metadata=True)
            assert there == offsets[FIRST], "nothing older has come behind it"
        simulation.run_for(dice.choice([0, 0.01, 0.5]))
    cluster.controls.clear()
    consumer.commit({FIRST: OffsetAndMetadata(77, "the last")})
    assert outcome.order == attempts
    assert committed(cluster) == {FIRST: 77}
    assert len(outcome.written) > 5
    assert outcome.unknown, "some were met by a fault"
    simulation.run_for(10)
    assert committed(cluster) == {FIRST: 77}


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_in_long(range(20), in_gate=6))
def test_last_commit_wins_in_every_order_of_responses(seed: int) -> None:
    with Simulation(seed=seed) as simulation:
        cluster = simulation.cluster(brokers=3, topics={"orders": 2}, config={**QUICK, **FEW_PARTITIONS})
        commit_in_all_ways(simulation, cluster, seed)


@pytest.mark.gate
@pytest.mark.parametrize("is_blocking", [False, True])
def test_later_commit_never_overtakes_an_earlier_one(is_blocking: bool) -> None:
    """The connection may become ready in the very turn in which the second one comes."""
    places = set()
    for turns in range(25):
        cluster = OldCluster({FIND_COORDINATOR: (0, 3), OFFSET_FETCH: (1, 7)})
        with cluster.reader() as consumer:
            [task] = cluster.runtime.tasks
            consumer.commit_async({FIRST: 1})
            for _ in range(turns):
                task.turn(cluster.now)
            places.add(len(cluster.brokers[0].requests(OffsetCommitRequest)))
            if is_blocking:
                consumer.commit({FIRST: 2})
            else:
                consumer.commit_async({FIRST: 2})
                cluster.runtime.run_for(1)
        sent = [
            one.topics[0].partitions[0].committed_offset
            for one in cluster.brokers[0].requests(OffsetCommitRequest)
        ]
        assert sent == [1, 2], f"after {turns} turns"
    assert places == {0, 1}, "before and after the first one left"


def test_commit_waits_while_the_last_commit_before_a_revocation_may_be_retried(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """That of partitions that are given away is not waited for: a commit of the application may follow it."""
    consumer = reader(simulation, cluster, [FIRST], enable_auto_commit=True)
    read(consumer, 1)
    assert consumer._core.group is not None
    cluster.controls.fail_next(OffsetCommitRequest, CoordinatorLoadInProgress)
    last = consumer._core.group.committer.commit_before_rebalance([FIRST], 10.0)
    consumer.commit_async({FIRST: 5})
    simulation.run_for(5)
    assert last is not None
    assert last.exception(0) is None
    sent = [
        one.topics[0].partitions[0].committed_offset for one in cluster.history.requests(OffsetCommitRequest)
    ]
    assert sent == [1, 1, 5]
    assert committed(cluster) == {FIRST: 5}


@pytest.mark.gate
@pytest.mark.parametrize("first", ["is repeated", "is not answered"])
def test_queued_commit_ends_at_its_own_deadline(
    simulation: Simulation, cluster: KafkaCluster, first: str
) -> None:
    """The last commit of partitions that are revoked may be retried for long; later commits have a timeout of
    their own.
    """
    consumer = reader(simulation, cluster, [FIRST], enable_auto_commit=True, request_timeout_ms=20_000)
    read(consumer, 1)
    assert consumer._core.group is not None
    if first == "is repeated":
        cluster.controls.fail_next(OffsetCommitRequest, CoordinatorLoadInProgress, times=10_000)
    else:
        cluster.controls.delay(OffsetCommitRequest, 15.0)
    last = consumer._core.group.committer.commit_before_rebalance([FIRST], 60.0)
    began_at = simulation.now
    with pytest.raises(KafkaTimeoutError, match=r"orders-0 to group .* not acknowledged within 0\.5 s"):
        consumer.commit({FIRST: 5}, timeout_ms=500)
    assert simulation.now - began_at == pytest.approx(0.5, abs=0.01)
    assert last is not None
    assert not last.is_done


@pytest.mark.parametrize("behind", ["nothing to commit", "given up before it was sent"])
def test_commit_that_ends_unsent_does_not_fail_others(
    simulation: Simulation, cluster: KafkaCluster, behind: str
) -> None:
    """Both are queued before the driver's thread looks, and the second needs no request."""
    consumer = reader(simulation, cluster)
    consumer.commit({FIRST: OffsetAndMetadata(1)})
    first = consumer.commit_async({FIRST: OffsetAndMetadata(2)})
    second = consumer.commit_async({} if behind == "nothing to commit" else {FIRST: OffsetAndMetadata(3)})
    if behind == "given up before it was sent":
        second.cancel()
    assert first.exception(5) is None, "the first was never sent"
    consumer.commit({FIRST: OffsetAndMetadata(4)})
    assert committed(cluster)[FIRST] == 4
