"""Unexpected exceptions inside the bundled broker.

Each affects as little as possible (one connection, one request, one turn of a component). It is logged with
its traceback and kept here, so that no test ignores it: `KafkaCluster.close` raises, the pytest fixtures fail
the test, and a simulation fails its run. Any thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator

import attrs

from pykafka2.errors import IllegalState

logger = logging.getLogger(__name__)

MAX_KEPT = 100

OnProblem = Callable[[str, BaseException], None]
"""Callback: (where it happened, the exception)."""


def log_problem(where: str, error: BaseException) -> None:
    """Log the traceback; for components outside a cluster."""
    logger.error("%s failed because of a bug in pykafka2", where, exc_info=error)


@attrs.define(frozen=True)
class Problem:
    """An exception and the component that raised it, such as "handler-0-0" or "a timer of broker 1"."""

    where: str
    error: BaseException

    def __str__(self) -> str:
        return f"{self.where} failed: {self.error!r}"


class Problems:
    """The unexpected exceptions of one cluster, oldest first: `len`, iteration, truth.

    Keeps the first hundred, counts all.
    """

    def __init__(self) -> None:
        self.count = 0
        self.on_problem: Callable[[Problem], None] | None = None
        """Called with each problem; a simulation sets it."""
        self._kept: deque[Problem] = deque()

    def __iter__(self) -> Iterator[Problem]:
        return iter(list(self._kept))

    def __len__(self) -> int:
        return self.count

    def note(self, where: str, error: BaseException) -> None:
        """Record an unexpected exception and log its traceback."""
        log_problem(where, error)
        self.count += 1
        problem = Problem(where, error)
        if len(self._kept) < MAX_KEPT:
            self._kept.append(problem)
        if self.on_problem is not None:
            self.on_problem(problem)

    def take(self) -> list[Problem]:
        """Return the kept problems and clear them, for a test that planted them."""
        kept, self._kept = list(self._kept), deque()
        self.count = 0
        return kept

    def raise_any(self) -> None:
        """Raise `IllegalState` if there is a problem; the first one is its cause."""
        first = next(iter(self), None)
        if first is not None:
            count = "" if len(self) == 1 else f" ({len(self)} problems, this is the first)"
            raise IllegalState(
                f"inside the bundled broker {first}{count}; this is a bug in pykafka2, not in your test"
            ) from first.error
