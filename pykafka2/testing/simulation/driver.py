"""The simulation as a `Runtime`: clients and brokers run on it as they run on threads and sockets.

One `SimRuntime` stands for one place (a process); all of a simulation share its scheduler and its network.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TypeVar, cast

from pykafka2.broker.log.file_system import FileSystem
from pykafka2.clock import Clock, Entropy, SeededEntropy
from pykafka2.driver.runtime import Outcome, Step, Task, ignore_error
from pykafka2.driver.wait_queue import RuntimeWaiters, WaitQueue
from pykafka2.network.script import Lane
from pykafka2.network.transport import Network, Selector
from pykafka2.testing.simulation.files import SimFiles
from pykafka2.testing.simulation.network import SimNetwork
from pykafka2.testing.simulation.problems import SimulationEnded
from pykafka2.testing.simulation.scheduler import Scheduler
from pykafka2.testing.simulation.tasks import SimTask, TaskSelector
from pykafka2.testing.simulation.transports import place_of

T = TypeVar("T")

# 2026-01-01T00:00:00Z: a date that never changes, so that timestamps replay.
EPOCH_MS = 1_767_225_600_000

# Delay of name resolution and similar work: a few milliseconds.
SHORTEST_OFFLOAD = 0.5e-3
OFFLOAD_SPREAD = 4e-3

BLOCKING = (Lane.CALLS, Lane.CLOSING, Lane.TOKENS)
"""The lanes whose work can wait in virtual time: calls of asyncio clients, coroutines of token providers."""

# Seconds until a helper thread begins with a call: mostly at once, at times much later.
HELPER_DELAYS = (0.0, 1e-3, 20e-3, 0.3)
HELPER_WEIGHTS = (80, 12, 6, 2)


class SimClock:
    """Virtual time.  `jump` changes only the wall clock, as an administrator or NTP would.

    Each place has its own clock, which can jump alone or with the `world`'s.
    """

    def __init__(self, scheduler: Scheduler, world: SimClock | None = None) -> None:
        self._scheduler = scheduler
        self._world = world
        self._wall_offset = 0.0
        self.wall_readings = 0
        self.places: dict[str, SimClock] = {}

    def monotonic(self) -> float:
        return self._scheduler.now

    def wall_ms(self) -> int:
        self.wall_readings += 1
        if self._world is not None:
            self._world.wall_readings += 1
        return self.file_ms()

    def file_ms(self) -> int:
        """Return the wall clock for times of files, whose use does not count as a reading."""
        offset, world = self._wall_offset, self._world
        if world is not None:
            offset += world._wall_offset
        return EPOCH_MS + int((self._scheduler.now + offset) * 1000)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    def jump(self, seconds: float) -> None:
        """Change the wall clock, forward or back."""
        self._wall_offset += seconds

    def of(self, place: str) -> SimClock:
        """Return the clock of one place."""
        clock = self.places.get(place)
        if clock is None:
            clock = self.places[place] = SimClock(self._scheduler, self)
        return clock


class _Waiter:
    """An actor in wait queues: a wake-up makes the scheduler evaluate the predicates of its place."""

    def __init__(self, scheduler: Scheduler, place: object) -> None:
        self.unpark = partial(scheduler.check_waiters, place)


class SimRuntime(RuntimeWaiters):
    """`Runtime` in virtual time.  Any actor, any loop; always under the baton.

    Its waiters are tasks of event loops; the scheduler has the actors that wait.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        network: SimNetwork,
        clock: SimClock,
        seed: int | str,
        place: str | None = None,
        files: SimFiles | None = None,
    ) -> None:
        super().__init__()
        self.scheduler = scheduler
        self.sim_network = network
        self.network: Network = network
        self.clock: Clock = clock
        self.sim_clock = clock
        self.entropy: Entropy = SeededEntropy(f"{seed}/entropy/{place}")
        self.place = place
        self.sim_files = SimFiles(seed, clock.file_ms) if files is None else files
        self.files: FileSystem = self.sim_files
        self._seed = seed
        self._offload_random = Random(f"{seed}/offload/{place}")
        self._calls = 0

    def at(self, place: str) -> SimRuntime:
        """Return the same simulation, seen from another process."""
        clock = self.sim_clock.of(place) if self.place is None else self.sim_clock
        return SimRuntime(self.scheduler, self.sim_network, clock, self._seed, place, self.sim_files)

    def spawn(
        self,
        name: str,
        step: Step,
        selector: Selector | None = None,
        on_failed: Callable[[BaseException], None] = ignore_error,
    ) -> Task:
        place = place_of(name) if self.place is None else self.place
        return self.scheduler.spawn_task(name, place, step, cast("TaskSelector | None", selector), on_failed)

    def wait_until(self, predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
        waiter = _Waiter(self.scheduler, self)
        for queue in queues:
            queue.join(waiter)
        try:
            return self.scheduler.wait_until(predicate, timeout, of=self)
        finally:
            for queue in queues:
                queue.leave(waiter)

    def notify(self) -> None:
        self.scheduler.notify()
        super().notify()

    def check_waiters(self) -> None:
        self.scheduler.check_waiters(self)
        super().check_waiters()

    def offload(
        self,
        work: Callable[[], T],
        then: Callable[[Outcome[T]], None],
        lane: Lane = Lane.COMPUTING,
    ) -> None:
        """Run `work` without interruption after a virtual delay; it can take real time, but not block.

        In the lanes of `BLOCKING` it can block: each call is an actor.
        """
        if lane in BLOCKING:
            self._start_call(work, then)
            return

        def run() -> None:
            try:
                outcome = Outcome(value=work())
            except Exception as error:
                outcome = Outcome(error=error)
            then(outcome)

        delay = SHORTEST_OFFLOAD + OFFLOAD_SPREAD * self._offload_random.random()
        if lane is Lane.DISK:
            delay += self.sim_files.flush_delay
        self.scheduler.call_at(self.scheduler.now + delay, run)

    def _start_call(self, work: Callable[[], T], then: Callable[[Outcome[T]], None]) -> None:
        def run() -> None:
            try:
                outcome: Outcome[T] = Outcome(value=work())
            except SimulationEnded:
                raise
            except BaseException as error:
                outcome = Outcome(error=error)
            then(outcome)

        self._calls += 1
        delay = self._offload_random.choices(HELPER_DELAYS, HELPER_WEIGHTS)[0]
        self.scheduler.spawn_actor(f"{self.place} call-{self._calls}", run, delay)

    def is_current(self, task: Task) -> bool:
        return self.scheduler.current_task is cast(SimTask, task)

    def is_in_a_loop(self) -> bool:
        return self.scheduler.is_in_a_loop

    def close(self) -> None:
        """Do nothing: `Simulation.close` ends everything."""
