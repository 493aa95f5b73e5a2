"""Two queries share a ledger, and a write of one driver stays open until the other query aborts it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

from pykafka2 import TransactionHandle
from pykafka2.errors import ProducerFenced
from spark_connector.errors import ExactlyOnceError, NotCommitted, PartlyCommitted, SupersededRun
from spark_connector.options.sink_options import EXACTLY_ONCE, PER_TASK
from spark_connector.sink.context import Epoch
from spark_connector.sink.exactly_once import commands, ledger
from spark_connector.sink.exactly_once import protocol as scripts
from spark_connector.sink.exactly_once import transactional_ids as names
from spark_connector.sink.exactly_once.identity import BatchIdentity
from spark_connector.sink.exactly_once.ledger_state import LedgerState, Phase
from spark_connector.sink.exactly_once.messages import OpenTransaction, Written
from tests.spark.test_exactly_once import Run, World, _hooked, all_of, at_step, world

__all__ = ["_hooked", "world"]  # fixtures

pytestmark = pytest.mark.slow


@attrs.define
class Writes:
    """Counts the writes of one sink's driver to the ledger, and acts in the middle of some of them.

    before: called when a write is in the log and its commit is not yet sent, by the write's number.
    fenced_after: numbers of writes that are committed, but reported as fenced.
    """

    before: dict[int, Callable[[], None]] = attrs.field(factory=dict)
    fenced_after: tuple[int, ...] = ()
    made: int = 0


@attrs.define
class SlowProducer:
    """A producer whose transactions stay open for as long as `Writes` wants."""

    real: Any
    writes: Writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self.real.transaction():
            yield
            self.real.flush()
            self.writes.made += 1
            number = self.writes.made
            self.writes.before.get(number, lambda: None)()
        if number in self.writes.fenced_after:
            raise ProducerFenced("the response to the commit was lost, and the retry came too late")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run, Writes], None]:
    monkeypatch.setattr(ledger, "DECISION_LOOKS", 0)  # the other query aborts at once
    monkeypatch.setattr(scripts, "MOST_LOOKS", 1)  # no sibling task claims the run

    def slow(run: Run, writes: Writes) -> None:
        new_producer, mine = ledger.new_producer, names.of_ledger(run.options.id_prefix, run.world.query)

        def new(kafka: Any, transactional_id: str | None = None) -> Any:
            made = new_producer(kafka, transactional_id)
            return SlowProducer(made, writes) if transactional_id == mine else made

        monkeypatch.setattr(ledger, "new_producer", new)

    return slow


CLAIM, FIRST, LAST = 1, 2, 3
"""The writes of a run's first batch: its claim, then the decision and `done`; or `done` alone."""


@pytest.mark.parametrize(
    ("delivery", "writes"),
    [
        (EXACTLY_ONCE, [CLAIM]),
        (EXACTLY_ONCE, [LAST]),
        (EXACTLY_ONCE, [FIRST, LAST, LAST + 1]),
        (PER_TASK, [FIRST, FIRST + 1]),
    ],
)
def test_driver_that_another_query_fences_in_a_write_finishes_its_batch(
    world: World, slow: Callable[[Run, Writes], None], delivery: str, writes: list[int]
) -> None:
    run = world.run(delivery=delivery)
    others = [World(world.servers, world.topic) for _ in range(2)]
    theirs = [other.run(ledgerTopic=run.options.ledger_topic) for other in others]
    batches = [0, 0]

    def fence() -> None:
        for number, other in enumerate(theirs):
            other.play(batches[number])
            batches[number] += 1

    made = Writes(dict.fromkeys(writes, fence))
    slow(run, made)
    run.play(0)
    assert batches == [len(writes)] * 2
    state = run.state()
    assert (state.batch, state.phase) == (0, Phase.DONE)
    run.play(1)
    expected = all_of(0, 1)
    for count in batches:
        expected += all_of(*range(count))
    assert world.committed() == expected
    assert world.ongoing() == []


@pytest.mark.parametrize("delivery", [EXACTLY_ONCE, PER_TASK])
@pytest.mark.parametrize("writes", [(FIRST,), (LAST,)])
def test_write_that_was_committed_but_reported_as_fenced_counts(
    world: World, slow: Callable[[Run, Writes], None], delivery: str, writes: tuple[int, ...]
) -> None:
    run = world.run(delivery=delivery)
    slow(run, Writes(fenced_after=writes))
    run.play(0)
    run.play(1)
    assert world.committed() == all_of(0, 1)
    assert world.ongoing() == []


def test_run_with_a_decision_finished_by_a_later_run_raises_superseded_run(world: World) -> None:
    first, second = world.run(), world.run()
    messages = first.write(0)

    def finish() -> None:
        with ThreadPoolExecutor(1) as another:  # each thread takes over for itself, as a process does
            another.submit(second.play, 0).result()

    at_step["before-done"] = finish
    with pytest.raises(SupersededRun, match="Batch 0 is in the ledger"):
        first.commit(0, messages)
    late = [Written(0, 0, world.query, first.name, is_repeated=True)]
    with pytest.raises(SupersededRun, match=r"Batch 1 of run .* is not committed"):
        first.commit(1, late)
    second.play(1)
    assert world.committed() == all_of(0, 1)


def transactions(*partitions: int) -> tuple[OpenTransaction, ...]:
    return tuple(
        OpenTransaction(one, TransactionHandle(f"id-{one}", 100 + one, 0, 2), 10 + one) for one in partitions
    )


def committing() -> tuple[scripts.Script[None], LedgerState, LedgerState]:
    """A commit of two tasks about to read the ledger; the states before and after its decision."""
    opened = transactions(0, 1)
    messages = [Written(one.partition, 1, "q", "run", one) for one in opened]
    before = LedgerState("q").claimed("run", 0)
    script = scripts.commit(Epoch("q", "run", 0), messages, id_per_attempt=False)
    assert isinstance(next(script), commands.ReadLedger)
    return script, before, before.decided(0, BatchIdentity.of(messages), opened)


def write_next(script: scripts.Script[None], state: LedgerState) -> commands.WriteLedger:
    """Send the state that was read; returns the write that follows."""
    command = script.send(state)
    answers: dict[type, object] = {commands.FindLost: {}, commands.EndTransactions: {}}
    while not isinstance(command, commands.WriteLedger):
        command = script.send(answers.get(type(command)))
    return command


@pytest.mark.parametrize("is_decided", [False, True])
def test_driver_fenced_each_time_reports_whether_its_batch_is_decided(is_decided: bool) -> None:
    script, before, decided = committing()
    state = decided if is_decided else before
    fenced = commands.Contended("belongs to another process now")
    for _ in range(scripts.MOST_ATTEMPTS - 1):
        assert isinstance(write_next(script, state), commands.WriteLedger)
        assert isinstance(script.throw(fenced), commands.ReadLedger)
    write_next(script, state)
    with pytest.raises(ExactlyOnceError) as error:
        script.throw(fenced)
    assert ("not committed" in str(error.value)) == (not is_decided)
    assert isinstance(error.value, NotCommitted) == (not is_decided)
    assert ("decided" in str(error.value)) == is_decided


def test_driver_that_is_fenced_after_its_decision_reports_lost_tasks_that_the_ledger_has() -> None:
    """The write of `redo` was committed and reported as fenced; the lost tasks are not decided again."""
    script, before, decided = committing()
    write_next(script, before)
    assert isinstance(script.send(None), commands.Reach)
    assert isinstance(script.send(None), commands.EndTransactions)
    script.send({1: ProducerFenced()})
    script.send({})
    command = script.send(None)
    assert isinstance(command, commands.WriteLedger)
    assert command.state == decided.ended((1,))
    assert isinstance(script.throw(commands.Contended("fenced")), commands.ReadLedger)
    with pytest.raises(PartlyCommitted, match="lacks partition 1 of 2 tasks"):
        script.send(decided.ended((1,)))


def test_ledger_takeover_is_retried() -> None:
    script, before, decided = committing()
    assert isinstance(script.throw(commands.Contended("fenced while it began")), commands.ReadLedger)
    assert write_next(script, before).state == decided


def test_batch_that_others_decided_is_never_taken_for_this_drivers_decision() -> None:
    script, _, decided = committing()
    other = attrs.evolve(decided, transactions=transactions(0, 2))
    with pytest.raises(ExactlyOnceError, match="tasks have written it again"):
        script.send(other)
