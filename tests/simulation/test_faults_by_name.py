"""Faults are chosen by name; an unknown name is refused, and the error contains the nearest one."""

from __future__ import annotations

import pytest

from pykafka2.errors import ConfigurationError
from pykafka2.testing.simulation import KINDS, Fault, FaultPlan, Injector, Simulation, World, kinds


def test_kinds_are_found_by_name() -> None:
    assert [kind.name for kind in kinds("crash", "cut one way")] == ["crash", "cut one way"]
    assert kinds() == KINDS


def test_a_misspelt_kind_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="Unknown kind of fault 'crahs'; did you mean 'crash'"):
        kinds("crahs")


def test_a_plan_with_a_kind_that_is_not_there_is_refused_before_it_begins(simulation: Simulation) -> None:
    world = World(simulation, simulation.cluster(brokers=1), {})
    plan = FaultPlan((Fault(1.0, "brake"),))
    with pytest.raises(ConfigurationError, match="Unknown kind of fault 'brake'; did you mean 'break'"):
        Injector(world, plan, KINDS)


@pytest.mark.parametrize(("partitions", "outcome"), [(1, "replication cut"), (0, "no effect")])
def test_cut_brokers_has_an_effect_if_a_follower_fetches_over_the_link(
    simulation: Simulation, partitions: int, outcome: str
) -> None:
    cluster = simulation.cluster(brokers=2, topics={"orders": partitions} if partitions else {})
    plan = FaultPlan((Fault(1.0, "cut brokers", 2.0, {"one": 0, "other": 1, "both": True}),))
    injector = Injector(World(simulation, cluster, {"orders": partitions}), plan, KINDS)
    simulation.run(injector.run)
    assert injector.tallies["cut brokers"].outcomes == {outcome: 1}
