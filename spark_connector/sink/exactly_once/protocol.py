"""The exactly-once protocol: what a task does before it writes, and how the driver commits, aborts and
recovers.

Sans IO: each script is a generator that yields what is to be done (`Command`) and is sent the answer, or has
the failure thrown into it; runner.py carries commands out.  What the phases mean stands in ledger_state.py.

Whoever changes the ledger first takes over the sink's one transactional id (`ReadLedger(owned=True)`) and
then reads.  Whoever comes later takes it over again, so a write only succeeds if nothing was written since
it was read: `Contended` otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import attrs

from pykafka2.errors import KafkaError
from spark_connector.errors import (
    ExactlyOnceError,
    NotCommitted,
    PartlyCommitted,
    SupersededRun,
)
from spark_connector.sink.context import Epoch
from spark_connector.sink.exactly_once.commands import (
    ANOTHER_SINK,
    AbortLeftovers,
    Attempts,
    Contended,
    EndTransactions,
    FenceTasks,
    FindCommitted,
    FindEndOfMarkers,
    FindGivenUp,
    FindHolder,
    FindLost,
    FindMarkers,
    FindRun,
    GiveUp,
    Pause,
    Reach,
    ReadLedger,
    Script,
    WriteLedger,
)
from spark_connector.sink.exactly_once.crash_points import Step
from spark_connector.sink.exactly_once.identity import BatchIdentity, Marker
from spark_connector.sink.exactly_once.ledger_state import (
    STRICT,
    Checks,
    LedgerState,
    Phase,
    check_batch,
    check_ledger,
    check_not_behind,
    check_not_late,
    check_source,
)
from spark_connector.sink.exactly_once.messages import OpenTransaction, Written

MOST_ATTEMPTS = 20
"""Of a write that others come in between."""
MOST_LOOKS = 10
"""Of a task that waits for another to begin the run, before it tries itself: some four seconds."""


@attrs.define(frozen=True)
class Entry:
    """The work of a task: write its rows, or nothing if they are written already."""

    state: LedgerState
    is_written: bool


# ---------------------------------------------------------------------- before a task writes


def enter(
    epoch: Epoch, partition: int, checks: Checks = STRICT, *, recovers: bool = False, fresh: bool = False
) -> Script[Entry]:
    """Have the ledger name this run, and see whether the task's rows are there.

    Args:
        recovers: also finishes what the same run left decided.
        fresh: whether the batch may have been decided by the same run, as in foreachBatch.

    Raises:
        SupersededRun: a later run has begun, or a later batch of this run.
        CheckpointBehind: later batches are committed, or this one from other source offsets.
        LedgerBehind: the ledger lacks earlier batches.
    """
    state: LedgerState = yield ReadLedger(fresh=fresh or recovers)
    if state.run != epoch.run or (recovers and state.phase is Phase.DECIDED):
        state = yield from _claim(epoch, 0 if recovers else partition, checks)
    if not recovers:  # in foreachBatch several starts of a query can share a run
        check_not_late(state, epoch)
    check_not_behind(state, epoch)
    if fresh or recovers or state.first_batch == epoch.number:  # later in a run, an older state will do
        check_ledger(state, epoch, checks)
    is_known = epoch.number == state.batch
    if is_known:
        check_source(state, epoch, checks)
    if is_known and state.phase is Phase.REDO:
        return Entry(state, is_written=partition not in state.missing)
    return Entry(state, is_written=is_known)


def _claim(epoch: Epoch, partition: int, checks: Checks) -> Script[LedgerState]:
    """Take the sink over from an earlier run: finish what that had decided, then abort the rest.

    All tasks of a run's first batch come here at once; the first one is let go first.  The others only look
    for some seconds: who takes over has whoever is finishing what was decided begin anew.

    A run whose checkpoint is behind claims nothing: the last run may be alive and healthy.
    """
    looks = min(2 * partition, MOST_LOOKS)
    for _ in range(MOST_ATTEMPTS):
        for look in range(1, looks + 1):
            yield Pause(look)
            state: LedgerState = yield ReadLedger()
            if state.run == epoch.run:
                return state
        looks = MOST_LOOKS
        try:
            state = yield ReadLedger(owned=True, run=epoch.run)
            if state.run == epoch.run and state.phase is not Phase.DECIDED:
                return state
            if epoch.run in state.past_runs or (
                state.run != epoch.run and state.has_older_runs and (yield FindRun(epoch.run))
            ):
                raise SupersededRun(
                    f"a later run of {epoch.sink!r} has begun; this one ({epoch.run}) can commit nothing more"
                )
            if state.phase is Phase.DECIDED:
                yield Reach(Step.IN_RECOVERY)
                state = yield from _finish(state)
            if state.run == epoch.run:
                return state
            check_not_behind(state, epoch)
            if state.batch == epoch.number:
                check_source(state, epoch, checks)
            yield Reach(Step.BEFORE_CLAIM)
            claimed = state.claimed(epoch.run, epoch.number)
            yield WriteLedger(claimed)
            yield AbortLeftovers(before=claimed.run_number)
            return claimed
        except Contended:
            continue
    raise ExactlyOnceError(
        f"others kept coming in between {MOST_ATTEMPTS} attempts to begin with {epoch.sink!r}"
    )


def find_written(epoch: Epoch, partition: int, state: LedgerState) -> Script[Marker | None]:
    """Returns the committed marker of this part of the batch, of a task that commits its own transaction.

    Called after the task has taken over its transactional id and then read `state`, so no other attempt of
    its run can commit any more.  Earlier runs have ids of their own, which are fenced here.  Fencing is one
    request that aborts and takes the epoch: an abort by EndTxn leaves a producer its epoch before Kafka 4.0,
    and that producer could commit its marker without the rows that were aborted.  An attempt of an earlier
    run that registers its id only now reads the ledger afterwards and finds itself superseded.

    A task cannot tell from Spark's attempt number that it is a second attempt: a stage that runs again counts
    from 0.
    """
    earlier = [Attempts(run, epoch.number, partition) for run in state.runs_before]
    if earlier:
        yield FenceTasks(earlier)
    markers: list[int] = yield FindMarkers(epoch.number, partition, state.markers_from)
    if not markers:
        return None
    yield from _wait_until_readable(markers[-1], state.run_number)
    found: dict[int, Marker] = yield FindCommitted(epoch.number, dict.fromkeys(markers, partition))
    return found.get(partition)


def _wait_until_readable(marker: int, run_number: int) -> Script[None]:
    """Wait for the open transactions before a marker, which keep its outcome from being read.

    Another task's ends a moment after its own marker, unless the task was killed in between.  Its next
    attempt may wait for the slot that this task occupies, so it is fenced here: at once if its run is over,
    after some time otherwise.
    """
    looks: dict[Attempts, int] = {}
    while True:
        holder: Attempts | None = yield FindHolder(marker)
        if holder is None or holder == ANOTHER_SINK:
            return  # the read that follows waits for another sink's, and names it in its error
        looks[holder] = look = looks.get(holder, 0) + 1
        if look > MOST_ATTEMPTS:
            return
        if look == MOST_ATTEMPTS or (look == 1 and holder.run < run_number):
            yield FenceTasks([holder])
        else:
            yield Pause(look)


# ---------------------------------------------------------------------- the driver's part


def commit(
    epoch: Epoch, messages: Sequence[Written], checks: Checks = STRICT, *, id_per_attempt: bool
) -> Script[None]:
    """Decide that the batch is committed, and end its tasks' transactions.

    Another query can fence this driver at any write that stays open for long, also after the decision.  The
    ledger is then read again, and a decided batch is finished again.

    Raises:
        CheckpointBehind: the ledger has another batch under this number; nothing was committed.
        SupersededRun: a later run has begun; it has finished the batch if this run had decided it.
        NotCommitted: a transaction is lost, or about to be; nothing was committed.
        PartlyCommitted: a transaction was lost after the decision; the next run writes its partition again.
    """
    transactions = _transactions(messages)
    if not transactions and not any(one.is_repeated for one in messages):
        yield from enter(epoch, 0, checks, fresh=True)  # no task has done so
    is_decided = False  # by this call
    for _ in range(MOST_ATTEMPTS):
        try:
            state: LedgerState = yield ReadLedger(owned=True, run=epoch.run, fresh=False)
            _check_run(state, epoch)
            is_decided = is_decided or _is_decision(state, epoch, transactions)
            is_known = state.batch == epoch.number and state.phase in (Phase.DONE, Phase.DECIDED)
            if is_known and transactions and not is_decided:
                raise ExactlyOnceError(
                    f"batch {epoch.number} of {epoch.sink!r} was decided already, but tasks have written it "
                    "again"
                )
            if not is_known and not is_decided:
                state = yield from _decide(state, epoch, messages, checks)
                is_decided = state.phase is Phase.DECIDED
            if state.phase is Phase.DECIDED:
                state = yield from _finish(state)
        except Contended:
            continue
        if is_decided and id_per_attempt:
            yield AbortLeftovers(state.run_number, registered=False)
        _raise_if_missing(state)
        if is_known and not is_decided:
            check_batch(state, epoch, messages, checks)
        return
    raise _contended_to_the_end(epoch, is_decided=is_decided)


def commit_per_task(epoch: Epoch, messages: Sequence[Written], checks: Checks = STRICT) -> Script[None]:
    """Note that the tasks have committed their parts of the batch, so that no run writes it again.

    Raises CheckpointBehind: the ledger has another batch under this number.
    """
    if not any(one.rows or one.is_repeated for one in messages):
        yield from enter(epoch, 0, checks, fresh=True)  # no task has done so
    for _ in range(MOST_ATTEMPTS):
        try:
            state: LedgerState = yield ReadLedger(owned=True, run=epoch.run, fresh=False)
            _check_run(state, epoch)
            if state.batch == epoch.number and state.phase is Phase.DONE:
                check_batch(state, epoch, messages, checks)
                return
            if state.phase is Phase.REDO:
                _check_redo(state, epoch, messages, state.missing)
                check_batch(state, epoch, messages, checks)
            markers_from: int = yield FindEndOfMarkers()
            yield Reach(Step.BEFORE_DONE)
            yield WriteLedger(state.done(epoch.number, BatchIdentity.of(messages), markers_from))
        except Contended:
            continue
        yield Reach(Step.AFTER_DONE)
        return
    raise ExactlyOnceError(
        f"the tasks of batch {epoch.number} of {epoch.sink!r} have committed, but other processes took the "
        f"ledger over {MOST_ATTEMPTS} times before it recorded that; the next start of the query records it"
    )


def abort(epoch: Epoch, messages: Iterable[Written]) -> Script[None]:
    """Give the batch up, unless it is decided: then the next run finishes it."""
    state: LedgerState = yield ReadLedger(owned=True, run=epoch.run)
    if state.run == epoch.run and state.batch == epoch.number and state.phase in (Phase.DECIDED, Phase.DONE):
        return
    yield EndTransactions(_transactions(messages), commit=False)
    if state.run == epoch.run:
        yield AbortLeftovers(state.run_number)


def commit_job(messages: Iterable[Written], *, id_per_attempt: bool) -> Script[None]:
    """Commit a batch write, which has no ledger: all of it, or nothing unless the driver dies meanwhile.

    Raises:
        NotCommitted: a transaction is lost, or about to be; nothing was committed.
        PartlyCommitted: some were lost between that look and their end, or brokers did not answer.
    """
    transactions = _transactions(messages)
    yield from _check_not_lost(None, transactions)
    yield Reach(Step.AFTER_DECIDED)
    try:
        lost: dict[int, KafkaError] = yield EndTransactions(transactions, commit=True)
    except KafkaError as error:
        raise PartlyCommitted(
            f"not all of {len(transactions)} transactions could be committed, so some tasks' rows may be "
            f"there and those of others are missing: {error}"
        ) from error
    if id_per_attempt:
        with suppress(KafkaError):  # the rows are there; what attempts that lost have open times out
            yield AbortLeftovers()
    if lost:
        raise PartlyCommitted(
            f"{len(lost)} of {len(transactions)} transactions were lost while they were being committed, so "
            f"the rows of {_numbered(lost)} are missing: {next(iter(lost.values()))}"
        )


def enter_job(job: str) -> Script[None]:
    """Prepare a task of a batch write, between registering its id and its first row.

    Raises NotCommitted: the job has failed meanwhile; whoever committed to it would leave rows behind.
    """
    if (yield FindGivenUp()):
        raise NotCommitted(f"{job} has failed and was given up; this task of it writes nothing")


def abort_job(messages: Iterable[Written]) -> Script[None]:
    """Spark does not wait for the other tasks of a job that fails: some may begin only now.

    A task registers its id first and then looks whether the job is given up; here it is the other way round.
    So a task has either registered in time to be fenced here, or it sees that it comes too late.

    Raises:
        KafkaError: nobody could be told that the job is given up; what was known of it is ended.
    """
    problem: KafkaError | None = None
    try:
        yield GiveUp()
    except KafkaError as error:
        problem = error
    yield EndTransactions(_transactions(messages), commit=False)
    yield AbortLeftovers()
    if problem is not None:
        yield from _give_up_after_all()


def _give_up_after_all() -> Script[None]:
    """Brokers that did not answer may do so by now."""
    try:
        yield GiveUp()
    except KafkaError as error:
        error.add_note(
            "tasks that are begun after this cannot be told that the write was given up: what they write "
            "is not committed, and may hold up readers until kafka.transaction.timeout.ms is over"
        )
        raise
    yield AbortLeftovers()


# ---------------------------------------------------------------------- steps of these


def _decide(
    state: LedgerState, epoch: Epoch, messages: Sequence[Written], checks: Checks
) -> Script[LedgerState]:
    """Record the decision; a batch without transactions is done at once.  Returns what was written."""
    transactions = _transactions(messages)
    if state.phase is Phase.REDO:
        _check_redo(state, epoch, messages, [one.partition for one in transactions])
        check_batch(state, epoch, messages, checks)
    yield from _check_not_lost(epoch, transactions)
    yield Reach(Step.BEFORE_DECIDED)
    identity = BatchIdentity.of(messages)
    if not transactions:
        done = state.done(epoch.number, identity, state.markers_from)
        yield WriteLedger(done)
        return done
    decided = state.decided(epoch.number, identity, transactions)
    yield WriteLedger(decided)
    yield Reach(Step.AFTER_DECIDED)
    return decided


def _is_decision(state: LedgerState, epoch: Epoch, transactions: Sequence[OpenTransaction]) -> bool:
    """Whether the ledger has decided these transactions: a fenced write can have reached it after all."""
    return bool(transactions) and state.batch == epoch.number and state.transactions == transactions


def _contended_to_the_end(epoch: Epoch, *, is_decided: bool) -> ExactlyOnceError:
    text = f"other processes took the ledger of {epoch.sink!r} over {MOST_ATTEMPTS} times"
    if is_decided:
        return ExactlyOnceError(
            f"{text}; batch {epoch.number} is decided, and the next start of the query commits it"
        )
    return NotCommitted(f"{text}; batch {epoch.number} is not committed")


def _finish(state: LedgerState) -> Script[LedgerState]:
    """Commit what is decided; the state that was written.  As often as one likes."""
    lost: dict[int, KafkaError] = yield EndTransactions(state.transactions, commit=True)
    missing: tuple[int, ...] = ()
    if lost:
        markers = {one.marker_offset: one.partition for one in state.transactions if one.partition in lost}
        committed: dict[int, Marker] = yield FindCommitted(state.batch, markers)
        missing = tuple(sorted(set(markers.values()) - committed.keys()))
    yield Reach(Step.BEFORE_DONE)
    ended = state.ended(missing)
    yield WriteLedger(ended)
    yield Reach(Step.AFTER_DONE)
    return ended


def _check_run(state: LedgerState, epoch: Epoch) -> None:
    if state.run != epoch.run:
        # A later run finishes what this one had decided, so the ledger has the batch then.
        became = (
            "is in the ledger"
            if state.batch >= epoch.number
            else f"of this one ({epoch.run}) is not committed"
        )
        raise SupersededRun(
            f"a later run of {epoch.sink!r} has begun ({state.run}); batch {epoch.number} {became}"
        )


def _check_redo(
    state: LedgerState, epoch: Epoch, messages: Sequence[Written], written: Iterable[int]
) -> None:
    """Check that the rows written again are the missing ones, in as many tasks as before."""
    written = set(written)
    if len(messages) != state.tasks or written != set(state.missing):
        raise ExactlyOnceError(
            f"batch {epoch.number} of {epoch.sink!r} was committed but for {_numbered(state.missing)} of "
            f"{state.tasks} tasks; now it has {len(messages)} tasks, and {_numbered(written)} wrote: the "
            "batch is split in another way, so it cannot be completed exactly once.  Let it be split as "
            "before (minPartitions, spark.sql.shuffle.partitions), or go on with a new checkpoint"
        )


def _check_not_lost(epoch: Epoch | None, transactions: Sequence[OpenTransaction]) -> Script[None]:
    lost: dict[int, str] = yield FindLost(transactions)
    if lost:
        yield EndTransactions([one for one in transactions if one.partition not in lost], commit=False)
        what = "the write" if epoch is None else f"batch {epoch.number} of {epoch.sink!r}"
        raise NotCommitted(
            f"nothing of {what} is committed, as {len(lost)} of {len(transactions)} transactions cannot be: "
            f"{_numbered(lost)}: {next(iter(lost.values()))}"
        )


def _raise_if_missing(state: LedgerState) -> None:
    if state.phase is Phase.REDO:
        raise PartlyCommitted(
            f"batch {state.batch} of {state.sink!r} is committed but for {_numbered(state.missing)} of "
            f"{state.tasks} tasks, whose transactions were lost after the decision; start the query again: "
            "only these will be written again"
        )


def _transactions(messages: Iterable[Written]) -> tuple[OpenTransaction, ...]:
    return tuple(one.transaction for one in messages if one.transaction is not None)


def _numbered(partitions: Iterable[int]) -> str:
    return "partition " + (", ".join(str(one) for one in sorted(partitions)) or "none")
