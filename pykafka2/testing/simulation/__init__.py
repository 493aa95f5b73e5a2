"""A whole cluster with its clients, deterministic from a seed; faults by name, checkers of invariants.

Most tests need only `Simulation`.  For faults drawn from the seed, describe the system as a `World`, draw a
`FaultPlan` and run it with an `Injector`; `Checker`s verify invariants under all faults
(docs/guides/simulation.md).
"""

from __future__ import annotations

from pykafka2.testing.simulation.actors import Actor
from pykafka2.testing.simulation.checkers import Checker, all_checkers, watch
from pykafka2.testing.simulation.facade import Simulation
from pykafka2.testing.simulation.fault_table import KINDS, kinds
from pykafka2.testing.simulation.faults import Fault, FaultPlan, Injector, table
from pykafka2.testing.simulation.problems import (
    ActorFailed,
    ActorStuck,
    Deadlock,
    HotLoop,
    InvariantViolated,
    LoopFailed,
    SimulationError,
)
from pykafka2.testing.simulation.world import World

__all__ = [
    "KINDS",
    "Actor",
    "ActorFailed",
    "ActorStuck",
    "Checker",
    "Deadlock",
    "Fault",
    "FaultPlan",
    "HotLoop",
    "Injector",
    "InvariantViolated",
    "LoopFailed",
    "Simulation",
    "SimulationError",
    "World",
    "all_checkers",
    "kinds",
    "table",
    "watch",
]
