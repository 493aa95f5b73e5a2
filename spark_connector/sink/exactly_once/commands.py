"""The commands of the exactly-once scripts: reading and writing the ledger, ending transactions.

Plain data. Neighbors: protocol.py yields commands, runner.py executes them and sends the results back.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from spark_connector.errors import ExactlyOnceError
from spark_connector.sink.exactly_once.crash_points import Step
from spark_connector.sink.exactly_once.ledger_state import LedgerState
from spark_connector.sink.exactly_once.messages import OpenTransaction


class Contended(ExactlyOnceError):
    """Another process has taken the ledger over since it was read."""


@attrs.define(frozen=True)
class Attempts:
    """A run's attempts at a task that commits its own transactions; they share a transactional id."""

    run: int
    batch: int
    partition: int


ANOTHER_SINK = Attempts(-1, -1, -1)


@attrs.define(frozen=True)
class ReadLedger:
    """Answer: the sink's `LedgerState`.

    owned: as who may write next, with all that was begun before ended.
    run: who asks.
    fresh: False where a state that this process has read earlier is good enough; of an owner one that names
        `run`, where a write follows, which tells whether it held.
    """

    owned: bool = False
    fresh: bool = True
    run: str | None = None


@attrs.define(frozen=True)
class WriteLedger:
    """Throws `Contended` if anybody else came in between."""

    state: LedgerState


@attrs.define(frozen=True)
class FindRun:
    """Answer: whether this run has ever claimed the sink."""

    run: str


@attrs.define(frozen=True)
class EndTransactions:
    """Answer: by partition, why a transaction is over otherwise.  Throws what keeps it from being known."""

    transactions: Sequence[OpenTransaction]
    commit: bool


@attrs.define(frozen=True)
class FindCommitted:
    """Answer: by partition, the committed `Marker` of each of these tasks of a batch that has one.

    partitions: of the tasks, by the offset of a marker.
    """

    batch: int
    partitions: Mapping[int, int]


@attrs.define(frozen=True)
class FindMarkers:
    """Answer: the offsets of a task's markers of a batch, rising, whatever became of their transactions."""

    batch: int
    partition: int
    start: int


@attrs.define(frozen=True)
class FindHolder:
    """Answer: the task whose open transaction keeps readers from the marker at this offset, as `Attempts`.

    None if the marker can be read, `ANOTHER_SINK` if the transaction is not of this sink.
    """

    offset: int


@attrs.define(frozen=True)
class FenceTasks:
    """Abort what these have open, and let them neither write nor commit any more.

    Throws what keeps it from being known.
    """

    tasks: Sequence[Attempts]


@attrs.define(frozen=True)
class FindEndOfMarkers:
    """Answer: the offset behind the last marker."""


@attrs.define(frozen=True)
class FindLost:
    """Answer: by partition, why a transaction can not be relied on to be committed."""

    transactions: Sequence[OpenTransaction]


@attrs.define(frozen=True)
class AbortLeftovers:
    """End what is open of the sink, or about to be: of all its runs, of one, or of those before one.

    registered: also ids without anything open, whose tasks may be about to write; of the runs before one,
        those of the last.  An id that was fenced looks so, too, and is not to be fenced time after time.
    """

    run: int | None = None
    before: int | None = None
    registered: bool = True

    def concerns(self, run: int, *, is_open: bool) -> bool:
        """Whether an id of this run is to be fenced."""
        if self.before is not None:
            return run < self.before and (is_open or run == self.before - 1)
        return self.run in (None, run)


@attrs.define(frozen=True)
class GiveUp:
    """Leave word that the job is given up, for tasks that begin after all."""


@attrs.define(frozen=True)
class FindGivenUp:
    """Answer: whether somebody has given the job up."""


@attrs.define(frozen=True)
class Pause:
    """Let others go first, longer each time."""

    attempt: int


@attrs.define(frozen=True)
class Reach:
    step: Step


Command = (
    ReadLedger
    | WriteLedger
    | FindRun
    | EndTransactions
    | FindCommitted
    | FindMarkers
    | FindHolder
    | FenceTasks
    | FindEndOfMarkers
    | FindLost
    | AbortLeftovers
    | GiveUp
    | FindGivenUp
    | Pause
    | Reach
)
R = TypeVar("R")
Script = Generator[Command, Any, R]
