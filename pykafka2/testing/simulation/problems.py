"""Failures of a simulation itself, as opposed to the system that it runs.

None of these is a `KafkaError`: the code under test catches those, and could swallow a deadlock of the
simulation.
"""

from __future__ import annotations


class SimulationError(RuntimeError):
    """Base class of the simulation's own failures."""


class Deadlock(SimulationError):
    """Actors wait, and nothing that is scheduled can wake them; the message lists the waits."""


class HotLoop(SimulationError):
    """Loops had far too many turns in one virtual second: they spin, or wake each other endlessly."""


class ActorStuck(SimulationError):
    """An actor kept the baton for too many real seconds: it blocks or spins outside the simulation."""


class ActorFailed(SimulationError):
    """An actor ended with an exception that no caller has received; the exception is the cause."""


class LoopFailed(SimulationError):
    """A loop (a broker's or a client's) ended with an exception, or a broker continued after an unexpected
    one; the exception is the cause.
    """


class InvariantViolated(AssertionError):
    """A checker found a violation of its invariant; the message names it."""


class SimulationEnded(BaseException):
    """Thrown into actors that still wait when the simulation is closed; unwinds their stacks."""
