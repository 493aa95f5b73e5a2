"""A whole cluster with its clients, deterministic from a seed."""

from __future__ import annotations

from pykafka2.testing.simulation.actors import Actor
from pykafka2.testing.simulation.facade import Simulation
from pykafka2.testing.simulation.problems import (
    ActorFailed,
    ActorStuck,
    Deadlock,
    HotLoop,
    InvariantViolated,
    LoopFailed,
    SimulationError,
)

__all__ = [
    "Actor",
    "ActorFailed",
    "ActorStuck",
    "Deadlock",
    "HotLoop",
    "InvariantViolated",
    "LoopFailed",
    "Simulation",
    "SimulationError",
]
