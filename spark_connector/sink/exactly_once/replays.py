"""Compares a replayed batch with the ledger, and the ledger with the checkpoint.

Each batch reaches the sink with the number that follows the last one.  A lower number, or the same number
with another identity, means that the checkpoint is behind the ledger; a gap means that the ledger lost
batches.

Pure but for warnings.  Neighbours: identity.py for what is compared, protocol.py calls this.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import attrs

from spark_connector.errors import CheckpointBehind, LedgerBehind, SupersededRun
from spark_connector.options.sink_options import CHECK_NONE, SinkOptions
from spark_connector.sink.context import Epoch
from spark_connector.sink.exactly_once.identity import OTHER_SOURCE, BatchIdentity, Marker, is_other_source
from spark_connector.sink.exactly_once.ledger_state import LedgerState, Phase
from spark_connector.sink.exactly_once.messages import Written

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
    """Raises SupersededRun if this run itself has decided a later batch, so that this attempt is late.

    A run whose checkpoint is behind claims nothing, and the numbers of a run's batches rise.
    """
    if state.run == epoch.run and epoch.number < state.batch:
        raise SupersededRun(
            f"batch {epoch.number} of {epoch.sink!r} is over, as this run has decided batch {state.batch}: "
            "this attempt of a task is late and writes nothing"
        )


def check_not_behind(state: LedgerState, epoch: Epoch) -> None:
    """Raises CheckpointBehind if the ledger has later batches."""
    if epoch.number < state.batch:
        raise CheckpointBehind(
            f"batch {epoch.number} of {epoch.sink!r} is older than batch {state.batch}, which is committed: "
            "the checkpoint is an earlier copy, or was made anew under the same name.  Restore the newest "
            "checkpoint, or begin with a new checkpoint and a new name"
        )


def check_ledger(state: LedgerState, epoch: Epoch, checks: Checks) -> None:
    """Raises LedgerBehind if the ledger lacks batches before this one."""
    if epoch.number <= state.batch + 1 or (state.rows is None and state.phase is not Phase.NEW):
        return  # before format 2, batches without rows left no record
    found = "has no batch" if state.phase is Phase.NEW else f"ends at batch {state.batch}"
    text = (
        f"the checkpoint of {epoch.sink!r} is at batch {epoch.number}, but the ledger {found}: records of "
        "the ledger are lost, another ledgerTopic was used, or batches were not written by this sink, so "
        "rows may be written twice.  Restore the ledger; or set failOnLedgerLoss=false to go on from this "
        "batch"
    )
    if checks.ledger_loss:
        raise LedgerBehind(text)
    logger.warning("ledger behind the checkpoint: %s", text)


def check_source(state: LedgerState, epoch: Epoch, checks: Checks) -> None:
    """Raises CheckpointBehind if a batch that the ledger has comes from other source offsets now."""
    if is_other_source(state.source, epoch.source):
        _differs(epoch, OTHER_SOURCE, checks)


def check_batch(state: LedgerState, epoch: Epoch, messages: Sequence[Written], checks: Checks) -> None:
    """Raises CheckpointBehind if a batch that the ledger has is not the one that these tasks had."""
    if state.rows is None:
        return  # of format 1
    before, now = BatchIdentity(state.source, state.tasks, state.rows), BatchIdentity.of(messages)
    found = before.difference(now)
    if found and state.phase is not Phase.REDO and before.has_same_rows(now):
        logger.info("replayed batch %d of %r is split into other tasks: %s", epoch.number, epoch.sink, found)
    elif found:
        _differs(epoch, found, checks)


def check_task(marker: Marker, written: Written, epoch: Epoch, checks: Checks) -> None:
    """Raises CheckpointBehind if a task's rows are not those of its committed marker."""
    before = BatchIdentity(marker.source, 0, (marker.task,))
    found = before.difference(attrs.evolve(BatchIdentity.of([written]), tasks=0))
    if found:
        _differs(epoch, found, checks)


def _differs(epoch: Epoch, difference: str, checks: Checks) -> None:
    text = (
        f"batch {epoch.number} of {epoch.sink!r} is not the batch that was committed under this number: "
        f"{difference}.  The checkpoint is an earlier copy or lost its last entry, or query or source "
        "give other rows now.  Restore the newest checkpoint, or begin with a new one; if you know that the "
        "batch is the same, set replayCheck=counts (the values differ) or, for one start, replayCheck=none"
    )
    if checks.replayed_batch:
        raise CheckpointBehind(text)
    logger.warning("replayed batch differs: %s", text)
