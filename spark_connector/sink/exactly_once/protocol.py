"""The exactly-once protocol: what a task does before it writes, and how the driver commits, aborts and
recovers.

Sans IO: each script is a generator that yields a `Command`, and receives its response or has its error
thrown into it; runner.py executes commands.  ledger_state.py explains the phases.

A process that changes the ledger first takes over the sink's single transactional id
(`ReadLedger(owned=True)`) and then reads.  The next process takes it over again, so a write succeeds only if
nothing was written since the read; otherwise it fails with `Contended`.
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
    check_task,
)
from spark_connector.sink.exactly_once.messages import OpenTransaction, Written

MOST_ATTEMPTS = 20
"""Attempts at a write that other processes interrupt."""
MOST_LOOKS = 10
"""Checks by a task that waits for another task to begin the run, before it tries itself: about 4 s."""


@attrs.define(frozen=True)
class Entry:
    """The work of a task: write its rows, or skip them because they are already written."""

    state: LedgerState
    is_written: bool


# ---------------------------------------------------------------------- before a task writes


def enter(
    epoch: Epoch, partition: int, checks: Checks = STRICT, *, recovers: bool = False, fresh: bool = False
) -> Script[Entry]:
    """Make this run the ledger's writer, and check whether the task's rows are written.

    Args:
        recovers: also finishes a batch that this run left decided.
        fresh: whether this run may have decided the batch, as in foreachBatch.

    Raises:
        SupersededRun: a later run has begun, or a later batch of this run.
        CheckpointBehind: the ledger has later batches, or this batch with other source offsets.
        LedgerBehind: the ledger lacks earlier batches.
    """
    state: LedgerState = yield ReadLedger(fresh=fresh or recovers)
    if state.run != epoch.run or (recovers and state.phase is Phase.DECIDED):
        state = yield from _claim(epoch, 0 if recovers else partition, checks)
    if not recovers:  # in foreachBatch, several starts of a query can share a run
        check_not_late(state, epoch)
    check_not_behind(state, epoch)
    if fresh or recovers or state.first_batch == epoch.number:  # later in a run, a cached state is enough
        check_ledger(state, epoch, checks)
    is_known = epoch.number == state.batch
    if is_known:
        check_source(state, epoch, checks)
    if is_known and state.phase is Phase.REDO:
        return Entry(state, is_written=partition not in state.missing)
    return Entry(state, is_written=is_known)


def _claim(epoch: Epoch, partition: int, checks: Checks) -> Script[LedgerState]:
    """Take over the sink from an earlier run: finish its decided batch, then abort the rest.

    All tasks of a run's first batch arrive here at once, and the first one goes ahead.  The others only check
    for some seconds, because each takeover makes the task that finishes the decided batch start again.

    A run whose checkpoint is behind claims nothing, because the last run may be alive and healthy.
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
                    f"A later run of {epoch.sink!r} has begun, so run {epoch.run} can commit nothing more."
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
        f"Other processes interrupted {MOST_ATTEMPTS} attempts to begin with {epoch.sink!r}. Start the "
        "query again."
    )


@attrs.define(frozen=True)
class Part:
    """A task's part of a batch whose tasks commit their own transactions.

    marker: of the attempt that has committed the part; None if none has.
    is_held: the driver commits the part, because an earlier run may have committed others.
    """

    marker: Marker | None
    is_held: bool


def find_part(epoch: Epoch, partition: int, state: LedgerState) -> Script[Part]:
    """Find what earlier attempts have committed, if tasks commit their own transactions.

    If an earlier run may have committed some parts of the batch, the others are held: the batch can be split
    in another way now, and a task knows only its own rows.  So no part becomes visible before the committed
    ones have been compared, and a task that differs fails the batch.

    Called after the task has taken over its transactional id and then read `state`, so no other attempt of
    its run can still commit.  Earlier runs have other ids, which are fenced here.  Fencing is one request
    that aborts and raises the epoch.  EndTxn would not do: before Kafka 4.0 the producer keeps its epoch
    after an abort, and could commit its marker without the aborted rows.  An attempt of an earlier run that
    registers its id only now reads the ledger afterwards and is superseded.

    A task cannot tell from Spark's attempt number that it is a second attempt: a stage that runs again counts
    from 0.
    """
    earlier = [Attempts(run, epoch.number, partition) for run in state.runs_before]
    if earlier:
        yield FenceTasks(earlier)
    is_held: bool = state.batch == epoch.number or (
        bool(earlier) and bool((yield FindMarkers(epoch.number, None, state.markers_from, state.run_number)))
    )
    before = state.run_number if is_held else None  # attempts of this run commit nothing that is held
    markers: dict[int, int] = yield FindMarkers(epoch.number, partition, state.markers_from, before)
    found = yield from _committed(markers, epoch, state)
    return Part(found.get(partition), is_held)


def _check_parts(
    state: LedgerState, epoch: Epoch, messages: Sequence[Written], checks: Checks
) -> Script[None]:
    """Check that each part of the batch that an earlier run has committed is still the part of its task.

    A task compares its own part.  But one that has no rows now compares nothing, and one that no longer
    exists cannot.

    Raise CheckpointBehind: a task has other rows now.
    """
    if not state.runs_before:
        return
    markers: dict[int, int] = yield FindMarkers(epoch.number, None, state.markers_from, state.run_number)
    found = yield from _committed(markers, epoch, state)
    by_partition = {message.partition: message for message in messages}
    for partition, marker in sorted(found.items()):
        check_task(marker, by_partition.get(partition, Written(partition, 0)), epoch, checks)


def _committed(markers: dict[int, int], epoch: Epoch, state: LedgerState) -> Script[dict[int, Marker]]:
    """Return those of these markers that are committed, by partition."""
    if not markers:
        return {}
    yield from _wait_until_readable(max(markers), state.run_number)
    found: dict[int, Marker] = yield FindCommitted(epoch.number, markers)
    return found


def _wait_until_readable(marker: int, run_number: int) -> Script[None]:
    """Wait for the open transactions before a marker, which hide its outcome from readers.

    Another task's transaction normally ends a moment after its marker, unless the task was killed.  Its next
    attempt may wait for the slot that this task occupies, so it is fenced here: at once if its run is over,
    otherwise after some time.
    """
    looks: dict[Attempts, int] = {}
    while True:
        holder: Attempts | None = yield FindHolder(marker)
        if holder is None or holder == ANOTHER_SINK:
            return  # the next read waits for another sink's transaction, and its error names it
        looks[holder] = look = looks.get(holder, 0) + 1
        if look > MOST_ATTEMPTS:
            return
        if look == MOST_ATTEMPTS or (look == 1 and holder.run < run_number):
            yield FenceTasks([holder])
        else:
            yield Pause(look)


# ---------------------------------------------------------------------- the driver's part


def commit(
    epoch: Epoch,
    messages: Sequence[Written],
    checks: Checks = STRICT,
    *,
    id_per_attempt: bool,
    has_parts: bool = False,
) -> Script[None]:
    """Decide to commit the batch, and end its tasks' transactions.

    has_parts: tasks of earlier runs may have committed parts of the batch themselves.

    Another query can fence this driver during any write that stays open for long, also after the decision.
    Then the ledger is read again, and a decided batch is finished again.

    Raises:
        CheckpointBehind: the ledger has another batch under this number; nothing was committed.
        SupersededRun: a later run has begun; it has finished the batch if this run had decided it.
            NotCommitted: a transaction is lost, or close to its timeout; nothing was committed.
            PartlyCommitted: a transaction was lost after the decision; the next run writes its partition
            again.
    """
    transactions = _transactions(messages)
    if not transactions and not any(message.is_repeated for message in messages):
        yield from enter(epoch, 0, checks, fresh=True)  # no task has called it
    is_decided = False  # by this call
    for _ in range(MOST_ATTEMPTS):
        try:
            state: LedgerState = yield ReadLedger(owned=True, run=epoch.run, fresh=False)
            _check_run(state, epoch)
            is_decided = is_decided or _is_decision(state, epoch, transactions)
            is_known = state.batch == epoch.number and state.phase in (Phase.DONE, Phase.DECIDED)
            if is_known and transactions and not is_decided:
                raise ExactlyOnceError(
                    f"Batch {epoch.number} of {epoch.sink!r} was already decided, but tasks have written it "
                    "again. Start the query again."
                )
            if not is_known and not is_decided:
                if has_parts and state.phase is not Phase.REDO:
                    yield from _check_parts(state, epoch, messages, checks)
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
    """Record that the tasks have committed their parts of the batch, so that no run writes it again.

    Parts that are held are committed first, as those of `commit`.

    Raise CheckpointBehind: the ledger has another batch under this number.
    """
    if _transactions(messages):
        yield from commit(epoch, messages, checks, id_per_attempt=False, has_parts=True)
        return
    if not any(message.rows or message.is_repeated for message in messages):
        yield from enter(epoch, 0, checks, fresh=True)  # no task has called it
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
            else:
                yield from _check_parts(state, epoch, messages, checks)
            markers_from: int = yield FindEndOfMarkers()
            yield Reach(Step.BEFORE_DONE)
            yield WriteLedger(state.done(epoch.number, BatchIdentity.of(messages), markers_from))
        except Contended:
            continue
        yield Reach(Step.AFTER_DONE)
        return
    raise ExactlyOnceError(
        f"The tasks of batch {epoch.number} of {epoch.sink!r} have committed, but other processes took over "
        f"the ledger {MOST_ATTEMPTS} times before it recorded that. The next start of the query records it."
    )


def abort(epoch: Epoch, messages: Iterable[Written]) -> Script[None]:
    """Abort the batch, unless it is decided: then the next run finishes it."""
    state: LedgerState = yield ReadLedger(owned=True, run=epoch.run)
    if state.run == epoch.run and state.batch == epoch.number and state.phase in (Phase.DECIDED, Phase.DONE):
        return
    yield EndTransactions(_transactions(messages), commit=False)
    if state.run == epoch.run:
        yield AbortLeftovers(state.run_number)


def commit_job(messages: Iterable[Written], *, id_per_attempt: bool) -> Script[None]:
    """Commit a batch write, which has no ledger: all of it or nothing, unless the driver dies in between.

    Raises:
        NotCommitted: a transaction is lost, or close to its timeout; nothing was committed.
        PartlyCommitted: some were lost between the check and their end, or brokers did not respond.
    """
    transactions = _transactions(messages)
    yield from _check_not_lost(None, transactions)
    yield Reach(Step.AFTER_DECIDED)
    try:
        lost: dict[int, KafkaError] = yield EndTransactions(transactions, commit=True)
    except KafkaError as error:
        raise PartlyCommitted(
            f"Some of {len(transactions)} transactions could not be committed, so rows of some tasks may be "
            f"written and those of others missing: {error}"
        ) from error
    if id_per_attempt:
        with suppress(KafkaError):  # the rows are written; open transactions of lost attempts time out
            yield AbortLeftovers()
    if lost:
        raise PartlyCommitted(
            f"{len(lost)} of {len(transactions)} transactions were lost during the commit, so "
            f"the rows of {_numbered(lost)} are missing: {next(iter(lost.values()))}"
        )


def enter_job(job: str) -> Script[None]:
    """Prepare a task of a batch write, after it registered its id and before its first row.

    Raise NotCommitted: the job has failed, so the rows would never be committed.
    """
    if (yield FindGivenUp()):
        raise NotCommitted(f"Job {job} has failed, so this task of it writes nothing.")


def abort_job(messages: Iterable[Written]) -> Script[None]:
    """Abort a batch write whose other tasks may still start, because Spark does not wait for them.

    A task registers its id and then checks whether the job has failed; this script does the reverse.  So a
    task either has registered in time to be fenced here, or it finds that the job has failed.

    Raises:
        KafkaError: the failure could not be recorded; all known transactions were aborted.
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
    """Try again to record the failure of a job, as brokers may respond by now."""
    try:
        yield GiveUp()
    except KafkaError as error:
        error.add_note(
            "the failure of the write could not be recorded, so tasks that start after this write rows that "
            "are not committed and can block readers until kafka.transaction.timeout.ms"
        )
        raise
    yield AbortLeftovers()


# ---------------------------------------------------------------------- steps of these


def _decide(
    state: LedgerState, epoch: Epoch, messages: Sequence[Written], checks: Checks
) -> Script[LedgerState]:
    """Record the decision, or a batch without transactions as done.  Return the written state."""
    transactions = _transactions(messages)
    if state.phase is Phase.REDO:
        _check_redo(state, epoch, messages, [transaction.partition for transaction in transactions])
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
    """Return whether the ledger has decided these transactions: a fenced write can have reached it."""
    return bool(transactions) and state.batch == epoch.number and state.transactions == transactions


def _contended_to_the_end(epoch: Epoch, *, is_decided: bool) -> ExactlyOnceError:
    text = f"Other processes took over the ledger of {epoch.sink!r} {MOST_ATTEMPTS} times"
    if is_decided:
        return ExactlyOnceError(
            f"{text}. Batch {epoch.number} is decided, and the next start of the query commits it."
        )
    return NotCommitted(f"{text}. Batch {epoch.number} is not committed.")


def _finish(state: LedgerState) -> Script[LedgerState]:
    """Commit the decided batch and return the written state.  Can be repeated."""
    lost: dict[int, KafkaError] = yield EndTransactions(state.transactions, commit=True)
    missing: tuple[int, ...] = ()
    if lost:
        markers = {
            transaction.marker_offset: transaction.partition
            for transaction in state.transactions
            if transaction.partition in lost
        }
        committed: dict[int, Marker] = yield FindCommitted(state.batch, markers)
        missing = tuple(sorted(set(markers.values()) - committed.keys()))
    yield Reach(Step.BEFORE_DONE)
    ended = state.ended(missing)
    yield WriteLedger(ended)
    yield Reach(Step.AFTER_DONE)
    return ended


def _check_run(state: LedgerState, epoch: Epoch) -> None:
    if state.run != epoch.run:
        # A later run finishes a batch that this run decided, so the ledger then has it.
        became = "is in the ledger" if state.batch >= epoch.number else f"of run {epoch.run} is not committed"
        raise SupersededRun(
            f"A later run of {epoch.sink!r} has begun ({state.run}). Batch {epoch.number} {became}."
        )


def _check_redo(
    state: LedgerState, epoch: Epoch, messages: Sequence[Written], written: Iterable[int]
) -> None:
    """Check that the rewritten rows are the missing ones, with the same number of tasks as before."""
    written = set(written)
    if len(messages) != state.tasks or written != set(state.missing):
        raise ExactlyOnceError(
            f"Batch {epoch.number} of {epoch.sink!r} lacks {_numbered(state.missing)} of {state.tasks} "
            "tasks; "
            f"now it has {len(messages)} tasks, and {_numbered(written)} wrote. The batch is split "
            "differently, so "
            "it cannot be completed exactly once. Restore the split "
            "(minPartitions, spark.sql.shuffle.partitions), or continue with a new checkpoint."
        )


def _check_not_lost(epoch: Epoch | None, transactions: Sequence[OpenTransaction]) -> Script[None]:
    lost: dict[int, str] = yield FindLost(transactions)
    if lost:
        yield EndTransactions(
            [transaction for transaction in transactions if transaction.partition not in lost], commit=False
        )
        what = "the write" if epoch is None else f"batch {epoch.number} of {epoch.sink!r}"
        raise NotCommitted(
            f"Nothing of {what} is committed, because {len(lost)} of {len(transactions)} transactions "
            "are lost: "
            f"{_numbered(lost)}: {next(iter(lost.values()))}"
        )


def _raise_if_missing(state: LedgerState) -> None:
    if state.phase is Phase.REDO:
        raise PartlyCommitted(
            f"Batch {state.batch} of {state.sink!r} lacks {_numbered(state.missing)} of "
            f"{state.tasks} tasks, whose transactions were lost after the decision. Start the query again: "
            "it writes only the missing partitions."
        )


def _transactions(messages: Iterable[Written]) -> tuple[OpenTransaction, ...]:
    return tuple(message.transaction for message in messages if message.transaction is not None)


def _numbered(partitions: Iterable[int]) -> str:
    return "partition " + (", ".join(str(partition) for partition in sorted(partitions)) or "none")
