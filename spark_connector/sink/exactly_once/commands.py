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
    """Another process took over the ledger after it was read."""


@attrs.define(frozen=True)
class Attempts:
    """The attempts of one run at a task that commits its own transactions; they share a transactional id."""

    run: int
    batch: int
    partition: int


ANOTHER_SINK = Attempts(-1, -1, -1)


@attrs.define(frozen=True)
class ReadLedger:
    """Response: the sink's `LedgerState`.

    owned: take over the ledger first, which ends the transactions of the previous owner.
    run: the run that reads.
    fresh: False if a state that this process has read before is good enough.  An owner's state must then name
        `run`; the write that follows detects a change.
    """

    owned: bool = False
    fresh: bool = True
    run: str | None = None


@attrs.define(frozen=True)
class WriteLedger:
    """Throws `Contended` if another process has written since the read."""

    state: LedgerState


@attrs.define(frozen=True)
class FindRun:
    """Response: whether this run has ever claimed the sink."""

    run: str


@attrs.define(frozen=True)
class EndTransactions:
    """Response: by partition, the error of each transaction that ended otherwise.  Throws unknown
    outcomes.
    """

    transactions: Sequence[OpenTransaction]
    commit: bool


@attrs.define(frozen=True)
class FindCommitted:
    """Response: by partition, the committed `Marker` of each of these tasks of a batch.

    partitions: of the tasks, by marker offset.
    """

    batch: int
    partitions: Mapping[int, int]


@attrs.define(frozen=True)
class FindMarkers:
    """Response: the markers of a batch, committed or not: partition of the task by offset, ascending.

    partition: only of this task; None for all.
    before: only of runs before this one.
    """

    batch: int
    partition: int | None
    start: int
    before: int | None = None


@attrs.define(frozen=True)
class FindHolder:
    """Response: the task (`Attempts`) whose open transaction hides the marker at this offset from readers.

    None if the marker can be read, `ANOTHER_SINK` if the transaction belongs to another sink.
    """

    offset: int


@attrs.define(frozen=True)
class FenceTasks:
    """Aborts the open transactions of these attempts, so that they can neither write nor commit.

    Throws if the outcome is unknown.
    """

    tasks: Sequence[Attempts]


@attrs.define(frozen=True)
class FindEndOfMarkers:
    """Response: the offset after the last marker."""


@attrs.define(frozen=True)
class FindLost:
    """Response: by partition, the reason why a transaction may fail to commit."""

    transactions: Sequence[OpenTransaction]


@attrs.define(frozen=True)
class AbortLeftovers:
    """Aborts the sink's transactions that are open or may soon be: of all runs, of `run`, or before `before`.

    registered: include ids without an open transaction, whose tasks may be about to write; of the runs before
        `before`, only those of the last.  An id that was fenced looks the same, and must not be fenced again
        and
        again.
    """

    run: int | None = None
    before: int | None = None
    registered: bool = True

    def concerns(self, run: int, *, is_open: bool) -> bool:
        """Return whether an id of this run must be fenced."""
        if self.before is not None:
            return run < self.before and (is_open or run == self.before - 1)
        return self.run in (None, run)


@attrs.define(frozen=True)
class GiveUp:
    """Records that the job failed, for tasks that start later."""


@attrs.define(frozen=True)
class FindGivenUp:
    """Response: whether the job was recorded as failed."""


@attrs.define(frozen=True)
class Pause:
    """Lets other processes go first; waits longer with each attempt."""

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
