"""What goes wrong in a simulation, as opposed to in the system that it runs.

None of these is a `KafkaError`: the code under test catches those, and it must not be able to swallow a
deadlock of the simulation.
"""

from __future__ import annotations


class SimulationError(RuntimeError):
    """Root of everything that fails a simulation as such."""


class Deadlock(SimulationError):
    """Actors wait, and nothing that is scheduled could ever wake them; the message lists the waits."""


class HotLoop(SimulationError):
    """Loops were turned far too often in one virtual second: they spin, or ask each other without rest."""


class ActorStuck(SimulationError):
    """An actor kept the baton for too many real seconds: it blocks or spins outside the simulation."""


class ActorFailed(SimulationError):
    """An actor ended by an exception that nobody asked for; the exception is the cause."""


class LoopFailed(SimulationError):
    """A loop (a broker's or a client's) ended by an exception, or a broker went on after one that nobody
    there was meant to raise; the exception is the cause.
    """


class InvariantViolated(AssertionError):
    """A checker found that the system broke a promise; the message says which and where."""


class SimulationEnded(BaseException):
    """Thrown into actors that still wait when the simulation is closed; unwinds their stacks."""
