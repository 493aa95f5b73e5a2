"""Faults of disks, copies, clocks and topics; a bug that each is there for is caught."""

from __future__ import annotations

import pytest

from pykafka2.errors import KafkaStorageError, KafkaTimeoutError
from pykafka2.testing import QUICK
from pykafka2.testing.simulation import Simulation
from pykafka2.testing.simulation.data_faults import AddPartition
from pykafka2.testing.simulation.fault_table import KINDS
from pykafka2.testing.simulation.world import World
from tests.campaign.consumer_faults import NewTopic
from tests.campaign.seed import Report, Sabotage
from tests.campaign.system_story import Shape, run_seed
from tests.simulation import data_mutants, mutants
from tests.simulation.mutants import Mutant
from tests.simulation.planting import SEEDS, assert_caught
from tests.simulation.test_groups import tell as tell_of_a_group
from tests.simulation.test_groups import the_newest_records_are_not_loaded

EVERYDAY = ("break", "lose reply", "crash", "cut brokers", "move leader")


pytestmark = pytest.mark.usefixtures("quiet")


def tell(seed: int, faults: tuple[str, ...], plant: Sabotage | None = None) -> Report:
    kinds = tuple(kind for kind in KINDS if kind.name in faults)
    assert len(kinds) == len(faults)
    config: dict[str, object] = {"replica.lag.time.max.ms": 2000, "min.insync.replicas": 1}
    shape = Shape(seconds=20.0, topics={"orders": 2}, producers=1, config=config, kinds=kinds)
    return run_seed(seed, shape, sabotage=plant)


def test_a_full_disk_refuses_and_nothing_is_lost_by_it() -> None:
    with Simulation(3) as simulation:
        cluster = simulation.cluster(topics={"orders": 1})
        producer = simulation.producer(cluster, acks="all", delivery_timeout_ms=60_000)
        producer.send("orders", b"before", partition=0).result()
        leader = cluster.partition("orders", 0).leader
        disk = cluster.broker(leader).logs.disk
        disk.is_full = True
        sent = producer.send("orders", b"meanwhile", partition=0)
        simulation.run_for(2.0)
        assert not sent.is_done
        assert disk.refused > 0
        codes = [
            one.error_code
            for entry in cluster.history.entries("Produce")
            if entry.response is not None
            for topic in entry.response.responses  # type: ignore[attr-defined]
            for one in topic.partition_responses
        ]
        assert KafkaStorageError.code in codes
        disk.is_full = False
        assert sent.result(timeout=10).offset == 1


@pytest.mark.parametrize("fault", [AddPartition("orders"), NewTopic(1)])
def test_a_change_without_a_controller_keeps_no_other_faults_going(
    fault: AddPartition | NewTopic,
) -> None:
    """They end in the turn of the one that waits."""
    with Simulation(3) as simulation:
        world = World(simulation, simulation.cluster(brokers=1, topics={"orders": 1}), {"orders": 1})
        world.cluster.controls.stop_broker(0)
        before = world.now
        with pytest.raises(KafkaTimeoutError):
            fault.start(world)
        assert world.now - before <= 5.0


def test_no_tail_is_lost_while_a_restart_is_not_known() -> None:
    """The controller finds the restarted broker out of sync as soon as it returns: the other one has all
    records.
    """
    with Simulation(3) as simulation:
        cluster = simulation.cluster(brokers=3, topics={"orders": 1}, config=dict(QUICK))
        world = World(simulation, cluster, {"orders": 1})
        active = cluster.controller.id
        other = (active + 1) % 3
        assert world.may_lose_a_tail(other)
        cluster.controls.crash_broker(active, unnoticed=True)
        cluster.controls.restart_broker(active)
        assert not world.may_lose_a_tail(other)
        assert simulation.wait_until(lambda: world.may_lose_a_tail(other), 20)


# Where a bug needs more than a few seeds to show, the first one says where to begin.
@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "caught_by", "faults", "first"),
    [
        pytest.param(
            data_mutants.acks_come_one_record_early,
            {"AnswersAreTrue", "AckedIsKept"},
            EVERYDAY,
            8,
            marks=pytest.mark.gate,
        ),
        (data_mutants.truncation_keeps_what_producers_wrote, {"LogsKnowThemselves"}, EVERYDAY, 1),
        (
            data_mutants.fetches_of_a_parted_log_count,
            {"InSyncHasAll", "AckedIsKept"},
            (*EVERYDAY, "slow replication", "stop"),
            5,
        ),
        pytest.param(
            data_mutants.purgatory_loses_a_completion,
            {"AnswersAreTrue", "liveness"},
            EVERYDAY,
            25,
            marks=pytest.mark.gate,
        ),
        (data_mutants.a_failed_append_is_remembered, {"LogsKnowThemselves", "liveness"}, ("disk full",), 0),
        (data_mutants.times_never_run_back, {"TimesAreKept"}, ("client clock jump",), 2),
        (data_mutants.deletions_take_one_record_more, {"AckedIsKept"}, ("delete records",), 0),
        (data_mutants.new_partitions_are_taken_for_the_first, {"AckedIsKept"}, ("add partition",), 0),
        (mutants.broker_acknowledges_before_replication, {"AnswersAreTrue"}, ("slow replication",), 0),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_bug_is_caught(
    mutant: Mutant, caught_by: set[str], faults: tuple[str, ...], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_caught(mutant, caught_by, lambda seed, sabotage: tell(seed, faults, sabotage), monkeypatch, first)


@pytest.mark.gate
@pytest.mark.slow
def test_a_lost_commit_is_seen_when_controller_and_coordinator_fall_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(SEEDS):
        with monkeypatch.context() as patch:
            report = tell_of_a_group(
                seed,
                lambda world, patch=patch: the_newest_records_are_not_loaded(world, patch),  # type: ignore[misc]
                ("double failure",),
            )
        if report.error is not None:
            assert "CommitsAreKept" in str(report.error) or "OneOwner" in str(report.error)
            return
    pytest.fail(f"not caught within {SEEDS} seeds")
