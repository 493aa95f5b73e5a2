"""The group of the simulation: its story ends well, and planted bugs of the coordinator are caught by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup
from pykafka2.broker.coordinators.runtime import ShardRuntime
from pykafka2.testing.simulation.fault_table import KINDS
from pykafka2.testing.simulation.world import World
from tests.campaign.seed import Report
from tests.campaign.system_story import Shape, run_seed
from tests.gate import rest_in_gate
from tests.simulation import groups_story
from tests.simulation.planting import assert_caught
from tests.simulation.test_trace import hash_in_a_fresh_interpreter

FAULTS = ("break", "lose reply", "crash", "pause", "cut brokers", "move coordinator")


pytestmark = pytest.mark.usefixtures("quiet")


# What shows only when a coordinator dies while its followers lag.
LAGGING = ("crash", "cut brokers")


def tell(
    seed: int, plant: Callable[[World], object] | None = None, faults: tuple[str, ...] = FAULTS
) -> Report:
    kinds = tuple(kind for kind in KINDS if kind.name in faults)
    # Kafka's own numbers, so that a coordinator's partition is one of many.
    config: dict[str, object] = {"offsets.topic.num.partitions": 50, "replica.fetch.wait.max.ms": 500}
    shape = Shape(
        seconds=40.0,
        topics={"orders": 3},
        producers=0,
        consumers=0,
        members=3,
        kinds=kinds,
        config=config,
    )
    return run_seed(seed, shape, sabotage=plant)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_in_gate([4, 1]))
def test_members_own_each_partition_once_and_no_commit_is_lost(seed: int) -> None:
    report = tell(seed)
    assert report.error is None, f"{report.error!r}\n{report.timeline[-6000:]}"
    assert report.operations > 60


def commits_of_any_generation_are_taken(world: World, patch: pytest.MonkeyPatch) -> None:
    """A member that was thrown out overwrites what its successor committed."""
    patch.setattr(ClassicGroup, "check_commit", lambda self, *args, **kwargs: None)


def the_newest_records_are_not_loaded(world: World, patch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes over misses what was written last."""
    load = ShardRuntime.load

    def forget(self: ShardRuntime, entries: Iterable[Any], end_offset: int, now: float) -> None:
        load(self, list(entries)[:-3], end_offset, now)

    patch.setattr(ShardRuntime, "load", forget)


def generations_are_not_counted(world: World, patch: pytest.MonkeyPatch) -> None:
    """Each rebalance gives the same generation again."""
    begin = ClassicGroup.begin_generation

    def stay(self: ClassicGroup, wall_ms: int) -> None:
        before = self.generation
        begin(self, wall_ms)
        self.generation = max(before, 1)

    patch.setattr(ClassicGroup, "begin_generation", stay)


def replies_do_not_wait_for_replicas(world: World, patch: pytest.MonkeyPatch) -> None:
    """A commit is answered before it is on any follower; its coordinator crashes, and it is gone."""
    patch.setattr(
        ShardRuntime,
        "_respond",
        lambda self, deferred, response, now: deferred.complete(response),
    )


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "caught_by"),
    [
        (commits_of_any_generation_are_taken, {"CommitsAreKept"}),
        (the_newest_records_are_not_loaded, {"CommitsAreKept", "OneOwnerPerGeneration", "liveness"}),
        (generations_are_not_counted, {"OneOwnerPerGeneration", "CommitsAreKept"}),
        (replies_do_not_wait_for_replicas, {"CommitsAreKept", "OneOwnerPerGeneration"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_bug_of_the_coordinator_is_caught(
    mutant: Callable[[World, pytest.MonkeyPatch], None], caught_by: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = LAGGING if mutant is replies_do_not_wait_for_replicas else FAULTS
    assert_caught(mutant, caught_by, lambda seed, sabotage: tell(seed, sabotage, faults), monkeypatch)


@pytest.mark.gate
@pytest.mark.slow
def test_groups_leave_the_same_trace_for_each_hash_seed() -> None:
    assert hash_in_a_fresh_interpreter("tests.simulation.groups_story", 5, "77") == groups_story.tell(5)
