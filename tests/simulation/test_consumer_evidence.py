"""Evidence for the promises of groups: the source of an offset, and the time a partition is held."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest

from pykafka2.driver.pollable import GROUP, ToCoordinator, ToNode
from pykafka2.protocol.messages.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from pykafka2.testing import Simulation
from pykafka2.testing.simulation.problems import InvariantViolated
from pykafka2.testing.simulation.world import GROUP_ID, World
from pykafka2.types import TopicPartition
from tests.campaign.consumer_evidence import Evidence, FetchedOffset, WrittenCommit
from tests.campaign.consumer_lives import AUTOMATIC
from tests.campaign.consumer_promises import CommitsAreKept, CommitsNeverGoBack
from tests.campaign.consumer_work import Application, Habits


def commit(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return OffsetCommitRequest(group_id=GROUP_ID, topics=[topic])


@pytest.mark.slow
def test_stale_coordinator_may_return_old_offsets(simulation: Simulation) -> None:
    """The same as in Apache Kafka; so its response breaks no promise, while the same response of the
    coordinator does.
    """
    config = {"offsets.topic.num.partitions": 1, "replica.lag.time.max.ms": 500}
    cluster = simulation.cluster(brokers=2, topics={"orders": 1}, config=config)
    world = World(simulation, cluster, {"orders": 1})
    client = simulation.client(cluster)
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP_ID, topics=None)])

    def ask(request: Any, to: Any) -> None:
        client.request(request, to, max_version=9)  # from 10 on topics have ids

    ask(commit(3), ToCoordinator(GROUP, GROUP_ID))
    former = cluster.coordinator(GROUP_ID)
    cluster.controls.hold_metadata(former)
    world.move_leader("__consumer_offsets", 0, 1 - former)
    ask(fetch, ToNode(former))
    ask(commit(15), ToNode(1 - former))
    ask(fetch, ToNode(former))
    ask(fetch, ToNode(1 - former))
    ask(commit(5), ToNode(1 - former))  # by the member that continued at 3
    evidence = Evidence.gather(world)
    assert [(fetched.offset, fetched.is_outdated) for fetched in evidence.fetched] == [
        (3, True),
        (3, True),
        (15, False),
    ]
    CommitsAreKept([], [evidence]).finish(world)
    CommitsNeverGoBack([], [evidence]).finish(world)
    evidence.fetched = [attrs.evolve(fetched, is_outdated=False) for fetched in evidence.fetched]
    with pytest.raises(InvariantViolated, match="fetched 3 after orders-0 at 15"):
        CommitsAreKept([], [evidence]).finish(world)
    with pytest.raises(InvariantViolated, match=r"orders-0 at 5 .* after orders-0 at 15"):
        CommitsNeverGoBack([], [evidence]).finish(world)


@pytest.mark.parametrize("answered_at", [9.0, 10.0])
def test_reading_from_a_late_commit_of_the_same_member_breaks_no_promise(
    simulation: Simulation, answered_at: float
) -> None:
    """Its client had given it up with its connection, and committed more over another; both may be answered
    at once, when the replicas have them."""
    world = World(simulation, simulation.cluster(brokers=1, topics={"orders": 1}), {"orders": 1})
    place = TopicPartition("orders", 0)

    def written(life: str, offset: int, asked_at: float, answered_at: float, since: float) -> WrittenCommit:
        return WrittenCommit(life, "m", 1, place, offset, asked_at, answered_at, (life, since), False)

    commits = [
        written("first", 16, 8.0, 10.0, 2.0),
        written("first", 18, 9.0, answered_at, 8.5),
        written("second", 17, 12.0, 12.0, 11.0),
    ]
    fetched = [FetchedOffset("second", place, 16, 11.0, 11.0)]
    CommitsNeverGoBack([], [Evidence({}, commits, fetched, [], [])]).finish(world)
    CommitsAreKept([], [Evidence({}, commits, fetched, [], [])]).finish(world)
    commits[0] = written("first", 16, 8.0, 8.0, 2.0)
    with pytest.raises(InvariantViolated, match="fetched 16 after orders-0 at 18"):
        CommitsAreKept([], [Evidence({}, commits, fetched, [], [])]).finish(world)
    with pytest.raises(InvariantViolated, match=r"orders-0 at 17 .* after orders-0 at 18"):
        CommitsNeverGoBack([], [Evidence({}, commits, fetched, [], [])]).finish(world)


class Slow(Random):
    """Draws what lets a listener take a second."""

    def random(self) -> float:
        return 0.0

    def choice(self, of: Any) -> Any:
        return of[-1]


def test_partition_is_held_from_the_start_of_the_assignment_listener(simulation: Simulation) -> None:
    """However long it takes: by its end the group may have put the member out, and given it to another."""
    cluster = simulation.cluster(brokers=1, topics={"orders": 1})
    world = World(simulation, cluster, {"orders": 1})
    habits = Habits("application-0", ("orders",), None, AUTOMATIC, [{}])
    application = Application(world, simulation.event(), simulation.event(), "seed", habits)
    application._random = Slow()
    told_at = world.now
    application.on_partitions_assigned([TopicPartition("orders", 0)])
    assert world.now == told_at + 1.0
    (held,) = application.life.held.values()
    assert held.since == told_at
