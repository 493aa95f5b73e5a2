"""A sink's state in the ledger (run, last decided batch, progress of its commit), and the check of replays.

One record of the ledger holds the whole state, with the sink's name as its key, so only the last record
counts, with or without compaction.

        phase     meaning                                       next
        -------   -------------------------------------------   --------------------------------------------
        new       nothing was ever decided                      decided, done
        decided   these transactions must be committed          done; redo, if some were lost
        redo      these partitions of the batch are missing     decided, for these partitions of the batch;
                                                                done, if tasks commit them themselves
        done      the batch is committed                        decided, done; for a later batch

Each batch reaches the sink with the number that follows the last one. A lower number, or the same number with
another identity, means that the checkpoint is behind the ledger; a gap means that the ledger lost batches.

Pure, except for warnings. Neighbors: identity.py, protocol.py.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

import attrs

from pykafka2 import TransactionHandle
from spark_connector.errors import CheckpointBehind, ExactlyOnceError, LedgerBehind, SupersededRun
from spark_connector.options.sink_options import CHECK_NONE, SinkOptions
from spark_connector.sink.context import Epoch
from spark_connector.sink.exactly_once.identity import (
    OTHER_SOURCE,
    BatchIdentity,
    Marker,
    TaskRows,
    is_other_source,
)
from spark_connector.sink.exactly_once.messages import OpenTransaction, Written

FORMAT = 2
"""Format 1 did not record the identity of the batch."""
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

    run, run_number: the run that can decide; runs are counted from 1.
    first_batch: the first batch of this run.
    batch: the last decided batch, -1 for none.
    tasks: number of tasks of that batch.
    transactions: of a decided batch.
    missing: partitions that must be written again, in phase redo.
    batch_run: the number of the run that decided that batch.
    markers_from: offset in the ledger's markers where those of later batches begin.
    source: digest of the batch's source offsets; None if they are unknown.
    rows: of the batch's tasks that had any; None in a record of format 1.
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
        """Earlier runs that can have tasks of the batch after the last decided one, or of a missing
        partition.
        """
        return range(max(self.batch_run, 1), self.run_number)

    def claimed(self, run: str, first_batch: int) -> LedgerState:
        """Return the state after another run has taken over."""
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
        """Return the state after the decided transactions ended; `missing`: partitions of lost
        transactions.
        """
        phase = Phase.REDO if missing else Phase.DONE
        self._check(phase, self.batch)
        return attrs.evolve(self, phase=phase, transactions=(), missing=missing)

    def done(self, batch: int, identity: BatchIdentity, markers_from: int) -> LedgerState:
        """Return the state after the tasks committed the batch themselves, or had no rows."""
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
                f"The ledger has {self.sink!r} at batch {self.batch}, {self.phase.value}, so batch {batch} "
                f"cannot become {phase.value}."
            )


def to_bytes(state: LedgerState) -> bytes:
    """Encode a record of the ledger: JSON, compressed if it is long."""
    fields = attrs.asdict(state, recurse=False)
    fields["phase"] = state.phase.value
    fields["transactions"] = [
        [one.partition, *attrs.astuple(one.handle), one.marker_offset] for one in state.transactions
    ]
    fields["rows"] = None if state.rows is None else [attrs.astuple(one) for one in state.rows]
    text = json.dumps({"format": FORMAT, **fields}, sort_keys=True, separators=(",", ":")).encode()
    return text if len(text) <= PLAIN_BYTES else zlib.compress(text)


def from_bytes(record: bytes) -> LedgerState:
    """Decode a record of the ledger.  Raise ExactlyOnceError if it is not a state of format 1 or 2."""
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
            f"A record of the ledger has an unknown format ({error!r}): {record[:200]!r}. Check that the "
            "topic has no other use, and that no later version has written to it."
        ) from None


def _of_format_1(fields: dict[str, Any]) -> OpenTransaction:
    return OpenTransaction(
        fields["partition"], TransactionHandle(**fields["handle"]), fields["marker_offset"]
    )


def _of_format_2(fields: list[Any]) -> OpenTransaction:
    partition, *handle, marker_offset = fields
    return OpenTransaction(partition, TransactionHandle(*handle), marker_offset)


_TRANSACTION_OF: Final[dict[int, Callable[[Any], OpenTransaction]]] = {1: _of_format_1, 2: _of_format_2}


logger = logging.getLogger(__name__)


@attrs.define(frozen=True)
class Checks:
    """Which differences raise an error; the others are logged as warnings."""

    replayed_batch: bool = True
    ledger_loss: bool = True


STRICT = Checks()


def checks_of(options: SinkOptions) -> Checks:
    return Checks(options.replay_check != CHECK_NONE, options.fail_on_ledger_loss)


def check_not_late(state: LedgerState, epoch: Epoch) -> None:
    """Raise SupersededRun if this run has already decided a later batch, so this attempt is late.

    A run whose checkpoint is behind claims nothing, and the numbers of a run's batches rise.
    """
    if state.run == epoch.run and epoch.number < state.batch:
        raise SupersededRun(
            f"Batch {epoch.number} of {epoch.sink!r} is over, as this run has decided batch {state.batch}. "
            "This attempt of a task is late and writes nothing."
        )


def check_not_behind(state: LedgerState, epoch: Epoch) -> None:
    """Raise CheckpointBehind if the ledger has later batches."""
    if epoch.number < state.batch:
        raise CheckpointBehind(
            f"Batch {epoch.number} of {epoch.sink!r} is older than batch {state.batch}, which is committed: "
            "the checkpoint is an earlier copy, or was recreated under the same name. Restore the newest "
            "checkpoint, or start with a new checkpoint and a new name."
        )


def check_ledger(state: LedgerState, epoch: Epoch, checks: Checks) -> None:
    """Raise LedgerBehind if the ledger lacks batches before this one."""
    if epoch.number <= state.batch + 1 or (state.rows is None and state.phase is not Phase.NEW):
        return  # format 1 had no records for batches without rows
    found = "has no batch" if state.phase is Phase.NEW else f"ends at batch {state.batch}"
    text = (
        f"The checkpoint of {epoch.sink!r} is at batch {epoch.number}, but the ledger {found}, so rows may "
        "be written twice. Records of the ledger are lost, another ledgerTopic was used, or another "
        "sink wrote "
        "the batches. Restore the ledger, or set failOnLedgerLoss=false to continue from this batch."
    )
    if checks.ledger_loss:
        raise LedgerBehind(text)
    logger.warning("ledger behind the checkpoint: %s", text)


def check_source(state: LedgerState, epoch: Epoch, checks: Checks) -> None:
    """Raise CheckpointBehind if a batch in the ledger now comes from other source offsets."""
    if is_other_source(state.source, epoch.source):
        _differs(epoch, OTHER_SOURCE, checks)


def check_batch(state: LedgerState, epoch: Epoch, messages: Sequence[Written], checks: Checks) -> None:
    """Raise CheckpointBehind if the tasks' batch differs from the batch in the ledger."""
    if state.rows is None:
        return  # of format 1
    before, now = BatchIdentity(state.source, state.tasks, state.rows), BatchIdentity.of(messages)
    found = before.difference(now)
    if found and state.phase is not Phase.REDO and before.has_same_rows(now):
        logger.info("Replayed batch %d of %r is split into other tasks: %s", epoch.number, epoch.sink, found)
    elif found:
        _differs(epoch, found, checks)


def check_task(marker: Marker, written: Written, epoch: Epoch, checks: Checks) -> None:
    """Raise CheckpointBehind if a task's rows are not those of its committed marker."""
    before = BatchIdentity(marker.source, 0, (marker.task,))
    found = before.difference(attrs.evolve(BatchIdentity.of([written]), tasks=0))
    if found:
        _differs(epoch, found, checks)


def _differs(epoch: Epoch, difference: str, checks: Checks) -> None:
    text = (
        f"Batch {epoch.number} of {epoch.sink!r} is not the batch that was committed under this number: "
        f"{difference}. The checkpoint is an earlier copy or lost its last entry, or the query or its source "
        "now returns other rows. Restore the newest checkpoint or start with a new one; if the batch is the "
        "same, set replayCheck=counts (the values differ) or, for one start, replayCheck=none."
    )
    if checks.replayed_batch:
        raise CheckpointBehind(text)
    logger.warning("replayed batch differs: %s", text)
