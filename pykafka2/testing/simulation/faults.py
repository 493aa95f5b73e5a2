"""Plans of faults as data: time, kind, target, duration.

A plan is drawn from the seed (swarm testing): each seed uses a random subset of the kinds, at random rates,
with a quarter of the time without faults.  The injector runs the plan as an actor, undoes lasting faults, and
counts fired and effective faults of each kind; fault_kinds.py has the kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Protocol

import attrs

from pykafka2.broker.config.keys import nearest
from pykafka2.errors import ConfigurationError, KafkaError

if TYPE_CHECKING:
    from pykafka2.testing.simulation.world import World

CALM_SHARE = 0.25
WINDOW = 8.0
"""Seconds: calm is drawn for whole windows."""


@attrs.define(frozen=True)
class Fault:
    """One fault: `at` in virtual seconds from the start, `lasts` in seconds (0: a moment)."""

    at: float
    kind: str
    lasts: float = 0.0
    args: Mapping[str, object] = attrs.field(factory=dict)

    def __str__(self) -> str:
        args = ", ".join(f"{name}={value}" for name, value in self.args.items())
        return f"{self.kind}({args})" + (f" for {self.lasts:.2f} s" if self.lasts else "")


class FaultKind(Protocol):
    """The arguments, start and stop of one kind of fault.  One object per fault."""

    def start(self, world: World) -> None: ...

    def stop(self, world: World) -> None:
        """End the fault; also called for faults without duration, right after `start`."""
        ...

    def outcome(self, world: World) -> str:
        """Called after `stop`; return the outcome, an empty string without effect."""
        ...


@attrs.define(frozen=True)
class Kind:
    """A kind of fault: maximum duration (0: a moment), class, generator of arguments."""

    name: str
    longest: float
    make: Callable[..., FaultKind]
    draw: Callable[[Random, World], dict[str, object]]


@attrs.define(frozen=True)
class FaultPlan:
    """Faults in order of time."""

    faults: tuple[Fault, ...]

    @classmethod
    def draw(
        cls,
        seed: int | str,
        seconds: float,
        kinds: Iterable[Kind],
        world: World,
        *,
        start: float = 2.0,
        window: float = WINDOW,
    ) -> FaultPlan:
        """Draw a plan for `seconds` of virtual time from the seed; calm is drawn for whole windows."""
        random = Random(f"{seed}/faults")
        known = list(kinds)
        chosen = [kind for kind in known if random.random() < 0.5]
        while len(chosen) < min(3, len(known)):
            chosen.append(random.choice([kind for kind in known if kind not in chosen]))
        calm = [random.random() < CALM_SHARE for _ in range(int(seconds / window) + 1)]
        faults = []
        for kind in chosen:
            mean = random.uniform(4.0, 16.0)
            at = start + random.expovariate(1 / mean)
            while at < seconds:
                if not calm[int(at / window)]:
                    lasts = kind.longest * random.uniform(0.1, 1.0)
                    faults.append(Fault(at, kind.name, lasts, kind.draw(random, world)))
                at += random.expovariate(1 / mean)
        return cls(tuple(sorted(faults, key=lambda fault: (fault.at, fault.kind))))


@attrs.define
class Tally:
    """For one kind: number of fired faults, and their outcomes."""

    fired: int = 0
    effective: int = 0
    outcomes: dict[str, int] = attrs.field(factory=dict)

    def count(self, outcome: str) -> None:
        if outcome:
            self.effective += 1
        self.outcomes[outcome or "no effect"] = self.outcomes.get(outcome or "no effect", 0) + 1

    def add(self, other: Tally) -> None:
        self.fired += other.fired
        self.effective += other.effective
        for outcome, count in other.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + count


Tallies = dict[str, Tally]


def add_tallies(total: Tallies, more: Tallies) -> None:
    for kind, tally in more.items():
        total.setdefault(kind, Tally()).add(tally)


def table(tallies: Tallies) -> str:
    """Return a readable table of kinds, fired faults and outcomes."""
    lines = [f"{'fault':<18}{'fired':>7}{'effect':>8}  outcomes"]
    for kind in sorted(tallies):
        tally = tallies[kind]
        outcomes = ", ".join(f"{outcome} {count}" for outcome, count in sorted(tally.outcomes.items()))
        lines.append(f"{kind:<18}{tally.fired:>7}{tally.effective:>8}  {outcomes}")
    return "\n".join(lines)


@attrs.define
class _Running:
    fault: Fault
    kind: FaultKind
    stops_at: float


class Injector:
    """Runs a plan: `simulation.spawn(Injector(world, plan, KINDS).run, "faults")`.

    Raises `ConfigurationError` for a fault of a kind that is not among `kinds`.
    """

    def __init__(self, world: World, plan: FaultPlan, kinds: Iterable[Kind]) -> None:
        self.tallies: Tallies = {}
        self._world = world
        self._plan = plan
        self._kinds = {kind.name: kind for kind in kinds}
        for fault in plan.faults:
            if fault.kind not in self._kinds:
                close = nearest(fault.kind, self._kinds)
                raise ConfigurationError(f"Unknown kind of fault {fault.kind!r}{close}")
        self._running: list[_Running] = []

    def run(self) -> None:
        """Run all faults at their times, then end lasting ones."""
        for fault in self._plan.faults:
            self._wait_until(fault.at)
            self._start(fault)
        while self._running:
            self._wait_until(min(running.stops_at for running in self._running))

    @property
    def effective(self) -> int:
        """The number of faults that changed something."""
        return sum(tally.effective for tally in self.tallies.values())

    def _wait_until(self, when: float) -> None:
        """Sleep, and end faults whose time is over on the way."""
        while True:
            due = [running for running in self._running if running.stops_at <= self._world.now]
            for running in due:
                self._stop(running)
            next_stop = min((running.stops_at for running in self._running), default=when)
            until = min(when, next_stop)
            if until <= self._world.now and not due:
                return
            if until > self._world.now:
                self._world.simulation.sleep(until - self._world.now)

    def _start(self, fault: Fault) -> None:
        kind = self._kinds[fault.kind].make(**fault.args)
        tally = self.tallies.setdefault(fault.kind, Tally())
        tally.fired += 1
        self._world.simulation.note(f"fault: {fault}")
        try:
            kind.start(self._world)
        except KafkaError as error:
            tally.count("")
            self._world.simulation.note(f"fault refused: {error}")
            return
        self._running.append(_Running(fault, kind, self._world.now + fault.lasts))

    def _stop(self, running: _Running) -> None:
        self._running.remove(running)
        running.kind.stop(self._world)
        outcome = running.kind.outcome(self._world)
        self.tallies[running.fault.kind].count(outcome)
        self._world.simulation.note(f"fault over: {running.fault.kind}: {outcome or 'no effect'}")
