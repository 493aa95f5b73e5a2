"""A sink's state in the ledger: the current run, the last decided batch, and how far its commit got.

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
import zlib
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import attrs

from pykafka2 import TransactionHandle
from spark_connector.errors import ExactlyOnceError
from spark_connector.sink.exactly_once.identity import BatchIdentity, TaskRows
from spark_connector.sink.exactly_once.messages import OpenTransaction

FORMAT = 2
"""Format 1 had no identity of the batch."""
PLAIN_BYTES = 16_384
"""Longer records are compressed: 10,000 tasks fit into the megabyte that brokers allow by default."""
MOST_PAST_RUNS = 50
"""Earlier runs that the state names.  Older ones are looked up in the ledger, once per start of a query."""


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
    batch_run: the number of the run that decided that batch.
    markers_from: where in the ledger's markers those of later batches begin.
    source: digest of the batch's source offsets; None if they are unknown.
    rows: of the batch's tasks that had any; None if a record of format 1 does not say.
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
    batch_run: int = 0
    source: str | None = None
    rows: tuple[TaskRows, ...] | None = None

    @property
    def has_older_runs(self) -> bool:
        """Whether there were more runs than `past_runs` names; the ledger has a record of each."""
        return self.run_number - 1 > len(self.past_runs)

    @property
    def runs_before(self) -> range:
        """Earlier runs that may have tasks at the batch after the last decided one, or at a missing part."""
        return range(max(self.batch_run, 1), self.run_number)

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

    def decided(
        self, batch: int, identity: BatchIdentity, transactions: tuple[OpenTransaction, ...]
    ) -> LedgerState:
        self._check(Phase.DECIDED, batch)
        state = attrs.evolve(self, batch=batch, phase=Phase.DECIDED, transactions=transactions, missing=())
        return state._identified(identity)

    def ended(self, missing: tuple[int, ...]) -> LedgerState:
        """The decided transactions are over; `missing` are the partitions of those that were lost."""
        phase = Phase.REDO if missing else Phase.DONE
        self._check(phase, self.batch)
        return attrs.evolve(self, phase=phase, transactions=(), missing=missing)

    def done(self, batch: int, identity: BatchIdentity, markers_from: int) -> LedgerState:
        """The tasks have committed the batch themselves, or had no rows."""
        self._check(Phase.DONE, batch)
        state = attrs.evolve(self, batch=batch, phase=Phase.DONE, missing=(), markers_from=markers_from)
        return state._identified(identity)

    def _identified(self, identity: BatchIdentity) -> LedgerState:
        return attrs.evolve(
            self,
            batch_run=self.run_number,
            source=identity.source,
            tasks=identity.tasks,
            rows=identity.rows,
        )

    def _check(self, phase: Phase, batch: int) -> None:
        in_order = batch > self.batch if self.phase in (Phase.NEW, Phase.DONE) else batch == self.batch
        if phase not in FOLLOWS[self.phase] or not in_order:
            raise ExactlyOnceError(
                f"the ledger has {self.sink!r} at batch {self.batch}, {self.phase.value}; batch {batch} "
                f"cannot be {phase.value} now"
            )


def to_bytes(state: LedgerState) -> bytes:
    """A record of the ledger: JSON, compressed if it is long."""
    fields = attrs.asdict(state, recurse=False)
    fields["phase"] = state.phase.value
    fields["transactions"] = [
        [one.partition, *attrs.astuple(one.handle), one.marker_offset] for one in state.transactions
    ]
    fields["rows"] = None if state.rows is None else [attrs.astuple(one) for one in state.rows]
    text = json.dumps({"format": FORMAT, **fields}, sort_keys=True, separators=(",", ":")).encode()
    return text if len(text) <= PLAIN_BYTES else zlib.compress(text)


def from_bytes(record: bytes) -> LedgerState:
    """Raises ExactlyOnceError for a record that is not a state of format 1 or 2."""
    try:
        text = record if record.startswith(b"{") else zlib.decompress(record)
        fields: dict[str, Any] = json.loads(text)
        transaction_of = _TRANSACTION_OF[fields.pop("format")]
        fields["transactions"] = tuple(transaction_of(one) for one in fields["transactions"])
        fields["phase"] = Phase(fields["phase"])
        if fields.get("rows") is not None:
            fields["rows"] = tuple(TaskRows(*one) for one in fields["rows"])
        for name in ("past_runs", "missing"):
            fields[name] = tuple(fields[name])
        return LedgerState(**fields)
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        raise ExactlyOnceError(
            f"a record of the ledger has an unknown format ({error!r}): {record[:200]!r}.  Check that the "
            "topic is not used for something else, and that no later version has written to it"
        ) from None


def _of_format_1(fields: dict[str, Any]) -> OpenTransaction:
    return OpenTransaction(
        fields["partition"], TransactionHandle(**fields["handle"]), fields["marker_offset"]
    )


def _of_format_2(fields: list[Any]) -> OpenTransaction:
    partition, *handle, marker_offset = fields
    return OpenTransaction(partition, TransactionHandle(*handle), marker_offset)


_TRANSACTION_OF: Final[dict[int, Callable[[Any], OpenTransaction]]] = {1: _of_format_1, 2: _of_format_2}
