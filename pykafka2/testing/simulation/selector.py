"""The in-memory counterpart of network/selector.py: level-triggered readiness, no waiting of its own.

Sources (transports and listeners of this simulation) notify their selector when they become ready; the
selector notifies its task.  A turn of an idle loop therefore costs nothing.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, cast

from pykafka2.clock import FOREVER
from pykafka2.network.transport import Listener, Ready, Transport

if TYPE_CHECKING:
    from pykafka2.testing.simulation.scheduler import Scheduler
    from pykafka2.testing.simulation.tasks import SimTask


class Source:
    """A source that can be registered, with its readiness and the selector that waits for it."""

    def __init__(self) -> None:
        self.selector: SimSelector | None = None
        self.wanted = 0
        self.data: object = None

    def ready_bits(self) -> int:
        """Return the present state: READABLE and WRITABLE."""
        raise NotImplementedError

    def readiness_changed(self) -> None:
        """Called after each change that can make the source ready."""
        if self.selector is not None and self.ready_bits() & self.wanted:
            self.selector.mark(self)


class SimSelector:
    """Belongs to one task; `select` never waits, but for an actor that calls it by hand."""

    def __init__(self, scheduler: Scheduler, random: Random, place: str) -> None:
        self.place = place
        self._scheduler = scheduler
        self._random = random
        self._task: SimTask | None = None
        # Those that may be ready, in the order in which they became so (a dict: sets have no order).
        self._candidates: dict[Source, None] = {}
        self._sources: dict[Source, None] = {}
        self._is_closed = False
        self._woken = False

    def attach(self, task: SimTask) -> None:
        self._task = task
        self.place = task.place

    def register(self, source: Transport | Listener, interest: int, data: object) -> None:
        known = cast(Source, source)
        known.selector, known.wanted, known.data = self, interest, data
        self._sources[known] = None
        known.readiness_changed()

    def modify(self, source: Transport | Listener, interest: int, data: object) -> None:
        known = cast(Source, source)
        known.wanted, known.data = interest, data
        known.readiness_changed()

    def unregister(self, source: Transport | Listener) -> None:
        known = cast(Source, source)
        known.selector = None
        self._sources.pop(known, None)
        self._candidates.pop(known, None)

    def mark(self, source: Source) -> None:
        self._candidates[source] = None
        if self._task is not None:
            self._task.wake()
        else:
            self._scheduler.notify()

    def has_ready(self) -> bool:
        """Return whether the next `select` would report an event; drop sources that are no longer ready."""
        candidates = self._candidates
        while candidates:
            source = next(iter(candidates))
            if source.ready_bits() & source.wanted:
                return True
            del candidates[source]
        return False

    def select(self, timeout: float | None) -> list[Ready]:
        if timeout != 0 and not self._woken and not self.has_ready():
            wait = FOREVER if timeout is None else timeout
            self._scheduler.wait_until(lambda: self._woken or self.has_ready(), wait, "select")
        self._woken = False
        if not self._candidates:
            return []
        ready: list[Ready] = []
        for source in list(self._candidates):
            bits = source.ready_bits() & source.wanted
            if bits:
                ready.append((source.data, bits))
            else:
                del self._candidates[source]
        if len(ready) > 1:
            self._random.shuffle(ready)
        return ready

    def wake(self) -> None:
        self._woken = True
        if self._task is not None:
            self._task.wake()
        else:
            self._scheduler.notify()

    def close(self) -> None:
        self._is_closed = True
        for source in list(self._sources):
            source.selector = None
        self._sources.clear()
        self._candidates.clear()
