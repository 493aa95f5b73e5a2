"""What went wrong inside the bundled broker: exceptions that nobody there was meant to raise.

Each costs as little as can be (a connection, a request, one part's turn), is logged with its traceback and is
kept here, so that no test passes over it: `KafkaCluster.close` raises, the pytest fixtures fail the test, a
simulation fails its run.  Any thread.
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
"""(where, what was raised there)"""


def log_problem(where: str, error: BaseException) -> None:
    """For what runs in no cluster: the traceback in the log, and nothing else."""
    logger.error("%s failed by a mistake in pykafka2", where, exc_info=error)


@attrs.define(frozen=True)
class Problem:
    """One exception, and what raised it: "handler-0-0", "a timer of broker 1"."""

    where: str
    error: BaseException

    def __str__(self) -> str:
        return f"{self.where} failed: {self.error!r}"


class Problems:
    """Those of one cluster, oldest first: `len`, iteration, truth.  Keeps the first hundred, counts all."""

    def __init__(self) -> None:
        self.count = 0
        self.on_problem: Callable[[Problem], None] | None = None
        """Told of each; a simulation listens."""
        self._kept: deque[Problem] = deque()

    def __iter__(self) -> Iterator[Problem]:
        return iter(list(self._kept))

    def __len__(self) -> int:
        return self.count

    def note(self, where: str, error: BaseException) -> None:
        """Something failed that must not; its traceback is logged."""
        log_problem(where, error)
        self.count += 1
        problem = Problem(where, error)
        if len(self._kept) < MAX_KEPT:
            self._kept.append(problem)
        if self.on_problem is not None:
            self.on_problem(problem)

    def take(self) -> list[Problem]:
        """What was kept, and forget it: for a test that planted it."""
        kept, self._kept = list(self._kept), deque()
        self.count = 0
        return kept

    def raise_any(self) -> None:
        """Raise `IllegalState` if there is one, with the first as its cause."""
        first = next(iter(self), None)
        if first is not None:
            count = "" if len(self) == 1 else f" ({len(self)} problems, this is the first)"
            raise IllegalState(
                f"inside the bundled broker {first}{count}; this is a mistake in pykafka2, not in your test"
            ) from first.error
