"""exactly_once_per_task without Spark: tasks that are played again beside siblings that were killed."""

from __future__ import annotations

from collections import Counter

import pytest

from pykafka2 import KafkaProducer, TransactionHandle
from pykafka2.errors import KafkaTimeoutError, NoBrokersAvailable
from pykafka2.testing import ClusterApi
from spark_connector.errors import ExactlyOnceError, PartlyCommitted
from spark_connector.options.sink_options import PER_TASK
from spark_connector.sink.context import TaskPlace
from spark_connector.sink.exactly_once import commands
from spark_connector.sink.exactly_once import protocol as scripts
from spark_connector.sink.exactly_once import transactional_ids as names
from spark_connector.sink.exactly_once.identity import Marker, TaskRows
from spark_connector.sink.exactly_once.ledger_state import LedgerState
from spark_connector.sink.exactly_once.messages import OpenTransaction, Written
from spark_connector.sink.exactly_once.runner import Cluster
from spark_connector.sink.task import write_epoch
from tests.spark.test_exactly_once import Run, World, _hooked, all_of, at_step, rows, world

__all__ = ["_hooked", "world"]  # fixtures

pytestmark = pytest.mark.slow


@pytest.fixture
def run(world: World) -> Run:
    """One whose batch 0 is done, so that markers of batch 1 follow."""
    found = world.run(delivery=PER_TASK)
    found.play(0)
    return found


def kill_behind_marker(run: Run, batch: int, partition: int) -> str:
    """Leave a transaction like a task that is killed before its commit; return its transactional id."""
    number = run.state().run_number
    name = names.of_task(run.options.id_prefix, run.world.query, number, partition, batch, None)
    with KafkaProducer(bootstrap_servers=run.world.servers, transactional_id=name) as killed:
        killed.init_transactions()
        killed.begin_transaction()
        killed.send(run.world.topic, b"never committed").result(30)
        Cluster(run.options, run.world.query).ledger.send_marker(
            killed, Marker(batch, TaskRows(partition, 1), run=number)
        ).result(30)
        killed.detach_transaction()
    assert name in run.world.ongoing()
    return name


def test_a_stage_that_is_run_again_writes_nothing_twice(run: Run) -> None:
    """Spark restarts the count of its tasks' attempts, and does not pass the stage's attempt to Python."""
    run.write(1, only=1)
    (repeated,) = run.write(1, only=1)
    assert repeated.is_repeated
    assert run.world.committed() == all_of(0) + Counter(["1/1/0", "1/1/1"])


def test_killed_sibling_without_a_marker_blocks_no_task(run: Run) -> None:
    kill_behind_marker(run, 1, 2)
    for attempt in (0, 1):
        place = TaskPlace(attempt, attempt, is_speculating=True)
        assert not write_epoch(run.options, run.epoch(1), rows(1, attempt), place).is_repeated
    run.commit(1, run.write(1, only=2))
    assert run.world.committed() == all_of(0, 1)


def test_killed_sibling_is_aborted_by_the_task_it_blocks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was killed before this task's marker was written, and its next attempt has no slot to run in."""
    monkeypatch.setattr(scripts, "MOST_ATTEMPTS", 3)
    killed = kill_behind_marker(run, 1, 0)
    run.write(1, only=1)
    (repeated,) = run.write(1, only=1, attempt=1)
    assert repeated.is_repeated
    assert killed not in run.world.ongoing()
    run.commit(1, [*run.write(1, only=0, attempt=1), repeated, *run.write(1, only=2)])
    assert run.world.committed() == all_of(0, 1)


def test_task_that_committed_beside_killed_attempts_is_not_written_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first attempt left a marker that can be read, and a sibling one before its committed marker."""
    monkeypatch.setattr(scripts, "MOST_ATTEMPTS", 3)
    kill_behind_marker(run, 1, 0)
    kill_behind_marker(run, 1, 2)
    run.write(1, only=0, attempt=1)
    (repeated,) = run.write(1, only=0, attempt=2)
    assert repeated.is_repeated


def test_sibling_that_continues_meanwhile_is_not_aborted() -> None:
    state = LedgerState("q").claimed("a", 0)
    script = scripts.find_part(World("nowhere", "t").run().epoch(1), 1, state)
    assert isinstance(next(script), commands.FindMarkers)
    command = script.send({7: 1})
    for holder in (commands.Attempts(1, 1, partition) for partition in (0, 2, 0)):
        assert command == commands.FindHolder(7)
        assert isinstance(script.send(holder), commands.Pause)
        command = script.send(None)
    assert script.send(None) == commands.FindCommitted(1, {7: 1})
    marker = Marker(1, TaskRows(1, 2))
    with pytest.raises(StopIteration) as ended:
        script.send({1: marker})
    assert ended.value.value == scripts.Part(marker, is_held=False)


def test_earlier_runs_are_fenced_before_their_markers_are_read() -> None:
    """A part that one of them commits later would be written twice."""
    state = LedgerState("q").claimed("a", 0).claimed("b", 0)
    script = scripts.find_part(World("nowhere", "t").run().epoch(0), 1, state)
    assert next(script) == commands.FenceTasks([commands.Attempts(1, 0, 1)])
    assert script.send(None) == commands.FindMarkers(0, None, 0, 2)
    assert script.send({7: 0}) == commands.FindMarkers(0, 1, 0, 2)
    with pytest.raises(StopIteration) as ended:
        script.send({})
    assert ended.value.value == scripts.Part(None, is_held=True)


def test_another_sinks_transaction_is_waited_for(run: Run, spark_kafka: ClusterApi) -> None:
    """In a ledger that queries share: nothing of theirs is aborted."""
    theirs = World(run.world.servers, run.world.topic).run(
        delivery=PER_TASK, ledgerTopic=run.options.ledger_topic
    )
    theirs.write(0, only=2)  # claims
    open_id = kill_behind_marker(theirs, 0, 0)
    run.write(1, only=1)
    ledger = Cluster(run.options, run.world.query).ledger
    (offset,) = ledger.markers(1, 1, 0)
    assert ledger.holder(offset) == commands.ANOTHER_SINK
    theirs.write(0, only=0)
    assert open_id not in theirs.world.ongoing()
    assert ledger.holder(offset) is None


def test_markers_of_another_sink_in_the_same_ledger_hold_no_part(run: Run) -> None:
    """A part is held because of markers of an earlier run; theirs has the same batch and a lower number."""
    theirs = World(run.world.servers, run.world.topic).run(
        delivery=PER_TASK, ledgerTopic=run.options.ledger_topic
    )
    theirs.play(0)
    theirs.write(1, only=0)
    later = run.world.run(delivery=PER_TASK)
    (written,) = later.write(1, only=0)
    assert written.transaction is None, "its task has committed it"
    (repeated,) = later.write(1, only=0)
    assert repeated.is_repeated


def test_write_without_a_known_outcome_is_aborted_a_second_time() -> None:
    """Brokers that did not answer may do so by then; if not, what that means is said."""
    slow = KafkaTimeoutError("no answer within 60 s")
    script = scripts.abort_job([])
    assert isinstance(next(script), commands.GiveUp)
    assert isinstance(script.throw(slow), commands.EndTransactions)
    assert isinstance(script.send({}), commands.AbortLeftovers)
    assert isinstance(script.send(None), commands.GiveUp)
    with pytest.raises(KafkaTimeoutError, match="no answer") as raised:
        script.throw(slow)
    assert "block readers until kafka.transaction.timeout.ms" in raised.value.__notes__[0]


def test_abort_at_unreachable_brokers_raises_no_brokers_available() -> None:
    options = World("127.0.0.1:1", "t").options(**{"kafka.max.block.ms": "300"})
    with pytest.raises(NoBrokersAvailable, match=r"within 0\.3 s"):
        Cluster(options, "job")._give_up(commands.GiveUp())


def committing(*, id_per_attempt: bool) -> scripts.Script[None]:
    """A batch write's commit, about to hear what became of its transactions."""
    handle = TransactionHandle("id", 1, 0, 2)
    script = scripts.commit_job(
        [Written(0, 2, "job", None, OpenTransaction(0, handle))], id_per_attempt=id_per_attempt
    )
    assert isinstance(next(script), commands.FindLost)
    assert isinstance(script.send({}), commands.Reach)
    assert isinstance(script.send(None), commands.EndTransactions)
    return script


def test_unanswered_commit_of_a_batch_write_raises_partly_committed() -> None:
    with pytest.raises(
        PartlyCommitted, match="rows of some tasks may be written and those of others missing: no answer"
    ):
        committing(id_per_attempt=False).throw(KafkaTimeoutError("no answer within 60 s"))


def test_a_batch_write_that_is_committed_does_not_fail_for_copies_that_lost() -> None:
    """A user who sees a failure writes all rows again."""
    script = committing(id_per_attempt=True)
    assert isinstance(script.send({}), commands.AbortLeftovers)
    with pytest.raises(StopIteration):
        script.throw(KafkaTimeoutError("no answer within 60 s"))


def test_per_task_delivery_writes_rows_lost_by_another_delivery(world: World) -> None:
    """A user who sees transactions time out may choose shorter ones."""
    first = world.run()
    messages = first.write(0)
    at_step["after-decided"] = lambda: world.take_over(messages[2])
    with pytest.raises(PartlyCommitted):
        first.commit(0, messages)
    other = world.run(delivery=PER_TASK)
    messages = other.write(0, tasks=2)
    with pytest.raises(ExactlyOnceError, match="split differently"):
        other.commit(0, messages)
    again = world.run(delivery=PER_TASK)
    messages = again.write(0)
    assert [one.is_repeated for one in messages] == [True, True, False]
    again.commit(0, messages)
    again.play(1)
    assert world.committed() == all_of(0, 1)
