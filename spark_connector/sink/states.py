"""What the ledger says of one sink: who writes, which batch was decided last, and how far its commit got.

Pure data.  One record of the ledger holds the whole state, with the sink's name as key, so the last record is
all that matters, whether or not the broker compacts.

    phase     what it means                                 what may follow
    -------   -------------------------------------------   --------------------------------------------
    new       nothing was ever decided                      decided, done
    decided   these transactions are to be committed        done; redo, where some were lost
    redo      these partitions of the batch are missing     decided, of the same batch with those alone;
                                                            done, where tasks commit them themselves
    done      the batch is committed                        decided, done; of a later batch
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Final

import attrs

from pykafka2 import TransactionHandle
from spark_connector.errors import ExactlyOnceError
from spark_connector.sink.messages import OpenTransaction

FORMAT = 1
MOST_PAST_RUNS = 50
"""Names of earlier runs that are remembered, so that what is left of them is told that it is over."""


class Phase(Enum):
    NEW = "new"
    DECIDED = "decided"
    REDO = "redo"
    DONE = "done"


FOLLOWS: Final = {
    Phase.NEW: {Phase.DECIDED, Phase.DONE},
    Phase.DECIDED: {Phase.DONE, Phase.REDO},
    Phase.REDO: {Phase.DECIDED, Phase.DONE},
    Phase.DONE: {Phase.DECIDED, Phase.DONE},
}


@attrs.define(frozen=True)
class LedgerState:
    """State of a sink.

    run, run_number: who may decide; runs are counted from 1.
    first_batch: the batch that this run began with.
    batch: the last one that was decided, -1 for none.
    tasks: how many tasks that batch had.
    transactions: of a decided batch.
    missing: partitions that are to be written again, of phase redo.
    markers_from: where in the ledger's markers those of later batches begin.
    """

    sink: str
    run: str | None = None
    run_number: int = 0
    past_runs: tuple[str, ...] = ()
    first_batch: int = -1
    batch: int = -1
    phase: Phase = Phase.NEW
    tasks: int = 0
    transactions: tuple[OpenTransaction, ...] = ()
    missing: tuple[int, ...] = ()
    markers_from: int = 0

    def claimed(self, run: str, first_batch: int) -> LedgerState:
        """Another run writes from now on."""
        past = self.past_runs if self.run is None else (*self.past_runs, self.run)
        return attrs.evolve(
            self,
            run=run,
            run_number=self.run_number + 1,
            past_runs=past[-MOST_PAST_RUNS:],
            first_batch=first_batch,
        )

    def decided(self, batch: int, tasks: int, transactions: tuple[OpenTransaction, ...]) -> LedgerState:
        self._check(Phase.DECIDED, batch)
        return attrs.evolve(
            self, batch=batch, phase=Phase.DECIDED, tasks=tasks, transactions=transactions, missing=()
        )

    def ended(self, missing: tuple[int, ...]) -> LedgerState:
        """The decided transactions are over; `missing` are the partitions of those that were lost."""
        phase = Phase.REDO if missing else Phase.DONE
        self._check(phase, self.batch)
        return attrs.evolve(self, phase=phase, transactions=(), missing=missing)

    def done(self, batch: int, tasks: int, markers_from: int) -> LedgerState:
        """The tasks have committed the batch themselves."""
        self._check(Phase.DONE, batch)
        return attrs.evolve(
            self, batch=batch, phase=Phase.DONE, tasks=tasks, missing=(), markers_from=markers_from
        )

    def _check(self, phase: Phase, batch: int) -> None:
        in_order = batch > self.batch if self.phase in (Phase.NEW, Phase.DONE) else batch == self.batch
        if phase not in FOLLOWS[self.phase] or not in_order:
            raise ExactlyOnceError(
                f"the ledger has {self.sink!r} at batch {self.batch}, {self.phase.value}; batch {batch} "
                f"cannot be {phase.value} now"
            )


def to_json(state: LedgerState) -> bytes:
    told = attrs.asdict(state, recurse=True)
    told["phase"] = state.phase.value
    return json.dumps({"format": FORMAT, **told}, sort_keys=True).encode()


def from_json(text: bytes) -> LedgerState:
    """Raises ExactlyOnceError for what is no state of this format."""
    try:
        told: dict[str, Any] = json.loads(text)
        if told.pop("format") != FORMAT:
            raise ValueError("another format")
        told["phase"] = Phase(told["phase"])
        told["transactions"] = tuple(
            OpenTransaction(one["partition"], TransactionHandle(**one["handle"]), one["marker_offset"])
            for one in told["transactions"]
        )
        for name in ("past_runs", "missing"):
            told[name] = tuple(told[name])
        return LedgerState(**told)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExactlyOnceError(
            f"a record of the ledger is none of this version's ({error!r}): {text[:200]!r}; does the topic "
            "serve something else?"
        ) from None
