"""Fencing of tasks that outlive their run or their batch: they must neither commit a part of their rows nor
end a healthy query.

Nothing here depends on threads: the late task goes on before one chosen call of the other run to the brokers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import attrs
import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, NewTopic
from pykafka2.errors import KafkaError
from pykafka2.testing import KafkaCluster
from spark_connector.errors import CheckpointBehind, SupersededRun
from spark_connector.options.sink_options import PER_TASK
from spark_connector.sink.context import Epoch, TaskPlace
from spark_connector.sink.exactly_once import commands, ledger
from spark_connector.sink.exactly_once import ledger_state as states
from spark_connector.sink.exactly_once import protocol as scripts
from spark_connector.sink.exactly_once import runner as cluster
from spark_connector.sink.exactly_once import transactional_ids as names
from spark_connector.sink.exactly_once.identity import BatchIdentity, Marker, TaskRows
from spark_connector.sink.exactly_once.ledger_state import LedgerState
from spark_connector.sink.exactly_once.messages import Written
from spark_connector.sink.exactly_once.runner import Cluster
from spark_connector.sink.task import write_epoch
from tests.spark.test_exactly_once import TASKS, Run, World, _hooked, all_of, at_step, rows, world

__all__ = ["_hooked", "world"]  # fixtures

pytestmark = pytest.mark.slow

IDENTITY = BatchIdentity(None, 3, ())
MOST_CALLS = 40
"""More than a run makes until its first batch is done."""


LONG = pytest.mark.long


@pytest.fixture(
    scope="module",
    params=[pytest.param(0, marks=LONG), 1, pytest.param(2, marks=LONG)],
    ids="transaction.version {}".format,
)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    with KafkaCluster(features={"transaction.version": request.param}) as found:
        yield found.bootstrap_servers


def new_world(servers: str) -> World:
    topic = f"out-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, partitions=4)])
        admin.wait_for_topics([topic])
    return World(servers, topic)


@attrs.define
class Calls:
    """Counts the sink's calls to brokers, and runs an action before the call number `at`."""

    at: int
    action: Callable[[], None]
    made: int = 0

    def next(self) -> None:
        self.made += 1
        if self.made == self.at:
            self.action()

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **more: Any) -> Any:
            self.next()
            return call(*arguments, **more)

        return counted


@attrs.define
class CountedAdmin:
    admin: Any
    calls: Calls

    def __getattr__(self, name: str) -> Any:
        return self.calls.counted(getattr(self.admin, name))


def count(calls: Calls, patch: pytest.MonkeyPatch) -> None:
    """Have every call that fences, ends or finds transactions counted, and every step of the ledger."""
    kept_admin = cluster.kept_admin
    patch.setattr(cluster, "kept_admin", lambda kafka: CountedAdmin(kept_admin(kafka), calls))
    patch.setattr(cluster, "end_all", calls.counted(cluster.end_all))
    for name in ("own", "write", "read", "markers", "committed_markers", "holder"):
        patch.setattr(ledger.Ledger, name, calls.counted(getattr(ledger.Ledger, name)))


@attrs.define
class LateTask:
    """A task of batch 1: it has sent its first row and goes on much later."""

    run: Run
    run_number: int
    producer: KafkaProducer
    partition: int

    @classmethod
    def begin(cls, run: Run, partition: int = 2) -> LateTask:
        number = run.state().run_number
        name = names.of_task(run.options.id_prefix, run.world.query, number, partition, 1, None)
        producer = KafkaProducer(bootstrap_servers=run.world.servers, transactional_id=name)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(run.world.topic, f"1/{partition}/0".encode(), partition=0).result(30)
        return cls(run, number, producer, partition)

    def go_on(self) -> None:
        """Send the second row and the marker, and commit; each may fail."""
        found = Cluster(self.run.options, self.run.world.query).ledger
        with suppress(KafkaError):
            self.producer.send(self.run.world.topic, f"1/{self.partition}/1".encode(), partition=1).result(30)
        marker = Marker(1, TaskRows(self.partition, 2), run=self.run_number)
        with suppress(KafkaError):
            found.send_marker(self.producer, marker).result(30)
        with suppress(KafkaError):
            self.producer.commit_transaction(30)


def play(run: Run, batch: int) -> None:
    """Run like two executors with one slot: the tasks run one after the other."""
    messages: list[Written] = [one for task in range(TASKS) for one in run.write(batch, only=task)]
    run.commit(batch, messages)


def interleave(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Play a run beside a late task of the run before, which goes on before each of its calls in turn."""
    for at in range(1, MOST_CALLS):
        world = new_world(servers)
        first, second = world.run(delivery=PER_TASK), world.run(delivery=PER_TASK)
        first.play(0)
        late = LateTask.begin(first)
        with monkeypatch.context() as patch:
            calls = Calls(at, late.go_on)
            count(calls, patch)
            play(second, 1)
        late.producer.close(1)
        assert world.committed() == all_of(0, 1), f"the late task went on before call {at}"
        if calls.made < at:
            return
    pytest.fail("the new run makes more calls than expected")


@pytest.mark.parametrize(
    "is_killed", [pytest.param(False, marks=LONG), True], ids=["claim completes", "claim is killed"]
)
def test_a_late_task_never_commits_a_part_of_its_rows(
    servers: str, is_killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before transaction.version 2 an abort by EndTxn left the late task its epoch: it committed its marker
    without its first row, and the new run took the partition for written."""
    if is_killed:  # after the ledger names the new run, before anything is fenced
        monkeypatch.setitem(cluster._EXECUTE, commands.AbortLeftovers, lambda *_: None)
    interleave(servers, monkeypatch)


def test_tasks_of_two_earlier_runs_are_fenced_in_every_partition(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claims were killed before they fenced anything, so each task fences those of its partition."""
    monkeypatch.setitem(cluster._EXECUTE, commands.AbortLeftovers, lambda *_: None)
    runs = [world.run(delivery=PER_TASK) for _ in range(3)]
    runs[0].play(0)
    late = []
    for run in runs[:2]:
        Cluster(run.options, world.query).perform(scripts.enter(run.epoch(1), 0))
        late += [LateTask.begin(run, partition) for partition in range(TASKS)]
    assert len(world.ongoing()) == len(late)
    messages = runs[2].write(1)
    assert world.ongoing() == []
    for task in late:
        task.go_on()
        task.producer.close(1)
    runs[2].commit(1, messages)
    assert world.committed() == all_of(0, 1)


def test_a_killed_task_of_an_earlier_run_is_fenced_at_once() -> None:
    """One of this run may only be slow, and is given time."""
    state = LedgerState("q").claimed("a", 0).done(0, IDENTITY, 5).claimed("b", 1)
    script = scripts.find_part(Epoch("q", "b", 1), 1, state)
    assert next(script) == commands.FenceTasks([commands.Attempts(1, 1, 1)])
    assert script.send(None) == commands.FindMarkers(1, None, 5, 2)
    assert script.send({}) == commands.FindMarkers(1, 1, 5)
    assert script.send({7: 1}) == commands.FindHolder(7)
    killed = commands.Attempts(1, 1, 2)
    assert script.send(killed) == commands.FenceTasks([killed])
    assert script.send(None) == commands.FindHolder(7)
    assert script.send(commands.Attempts(2, 1, 0)) == commands.Pause(1)


def test_runs_since_the_last_decision_may_have_tasks_left() -> None:
    state = LedgerState("q")
    assert list(state.claimed("a", 0).runs_before) == []
    done = state.claimed("a", 0).claimed("b", 0).done(0, IDENTITY, 0)
    assert list(done.runs_before) == []
    assert list(done.claimed("c", 1).claimed("d", 1).runs_before) == [2, 3]


def test_a_late_attempt_does_not_abort_the_next_batch(world: World) -> None:
    """Two of them have read the ledger, and register their ids when the next batch is already written."""
    run = world.run()
    first = run.write(0)
    second: list[Written] = []

    def go_on() -> None:
        run.commit(0, first)
        second.extend(run.write(1))

    def go_on_both() -> None:
        at_step["before-init"] = go_on
        run.write(0, attempt=1, only=2)

    at_step["before-init"] = go_on_both
    run.write(0, attempt=1, only=1)
    run.commit(1, second)
    play(run, 2)  # its tasks abort what the late attempts left open
    assert world.committed() == all_of(0, 1, 2)


@pytest.mark.parametrize("delivery", ["exactly_once", PER_TASK])
def test_an_attempt_of_an_older_batch_registers_no_id(world: World, delivery: str) -> None:
    """In a process of its own, which read the ledger before its batch was committed."""
    run = world.run(delivery=delivery)
    run.play(0)
    known = dict(ledger._read)
    run.play(1)
    run.play(2)
    messages = run.write(3)
    for task in (1, 2):
        ledger._read.update(known)
        at_step["before-init"] = lambda: pytest.fail("a late attempt registers its id")
        with pytest.raises(SupersededRun, match=r"Batch 1 .* is over, .* decided batch 2\. .* late"):
            run.write(1, attempt=1, only=task)
        at_step.clear()
    run.commit(3, messages)
    assert world.committed() == all_of(0, 1, 2, 3)


@pytest.mark.parametrize("delivery", ["exactly_once", PER_TASK])
def test_late_attempt_that_registered_its_id_raises_superseded_run(world: World, delivery: str) -> None:
    """With exactly_once the batch is not over for it until it commits, so only its transaction is aborted."""
    run = world.run(delivery=delivery)
    run.play(0)
    first = run.write(1, only=0)

    def go_on() -> None:
        run.commit(1, [*first, *run.write(1, only=1), *run.write(1, only=2)])
        run.play(2)

    at_step["before-init"] = go_on
    if delivery == PER_TASK:
        with pytest.raises(SupersededRun, match="late"):
            run.write(1, attempt=1, only=0)
    else:
        run.write(1, attempt=1, only=0)
    run.play(3)
    assert world.committed() == all_of(0, 1, 2, 3)


@pytest.mark.parametrize("delivery", ["exactly_once", PER_TASK])
def test_run_with_an_older_checkpoint_does_not_supersede_a_live_run(world: World, delivery: str) -> None:
    """An operator starts an old copy beside the healthy query: the copy is refused, by each of its tasks."""
    live, copy, copy_by_one = (world.run(delivery=delivery) for _ in range(3))
    for batch in (0, 1):
        live.commit(batch, of_source(live, batch, "good"))
    for task in (0, 1):
        with pytest.raises(CheckpointBehind, match=r"Batch 0 .* is older than batch 1"):
            copy.write(0, only=task)
    with pytest.raises(CheckpointBehind, match="other source offsets"):
        of_source(copy_by_one, 1, "other")
    live.play(2)
    assert live.state().run_number == 1
    assert world.committed() == all_of(0, 1, 2)


def of_source(run: Run, batch: int, source: str) -> list[Written]:
    """Write a batch whose source offsets are known."""
    epoch = attrs.evolve(run.epoch(batch), source=source)
    return [
        write_epoch(run.options, epoch, rows(batch, task), TaskPlace(task, 0, False)) for task in range(TASKS)
    ]


def test_a_run_of_long_ago_supersedes_no_later_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state names the last runs only.  Of two sinks in one ledger, each has its own runs."""
    monkeypatch.setattr(states, "MOST_PAST_RUNS", 2)
    runs = [world.run() for _ in range(6)]
    for run in runs[:5]:
        run.play(0)
    assert runs[0].name not in runs[4].state().past_runs
    messages = runs[4].write(1)
    for old in runs[:2]:
        ledger._read.clear()  # a new process
        with pytest.raises(SupersededRun, match="can commit nothing more"):
            old.write(1)
    other = World(world.servers, world.topic).run(ledgerTopic=runs[0].options.ledger_topic)
    other.name = runs[0].name
    other.play(0)
    runs[4].commit(1, messages)
    runs[5].play(2)
    assert world.committed() == all_of(0, 1, 2) + all_of(0)


def test_open_decision_of_another_query_is_aborted_after_five_seconds_and_a_short_one_costs_little() -> None:
    pauses = [ledger._pause_after(look) for look in range(1, ledger.DECISION_LOOKS + 1)]
    assert pauses[:2] == [0.01, 0.02]
    assert 5 <= sum(pauses) < 5.5


def test_open_decisions_of_two_killed_drivers_block_no_other_query(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a ledger that three queries share.  The other queries go on afterwards, too."""
    monkeypatch.setattr(ledger, "DECISION_LOOKS", 3)
    run = world.run()
    run.play(0)
    others = [World(world.servers, world.topic) for _ in range(2)]
    theirs = [other.run(ledgerTopic=run.options.ledger_topic) for other in others]
    for other in theirs:
        other.play(0)
        name = names.of_ledger(run.options.id_prefix, other.world.query)
        with KafkaProducer(
            bootstrap_servers=world.servers, transactional_id=name, transaction_timeout_ms=600_000
        ) as killed:
            killed.init_transactions()
            killed.begin_transaction()
            killed.send(run.options.ledger_topic, b"{}", key=other.world.query.encode(), partition=0).result(
                30
            )
            killed.detach_transaction()
    run.play(1)
    assert [other.ongoing() for other in others] == [[], []]
    for other in theirs:
        other.play(1)
    assert world.committed() == all_of(0, 1) + all_of(0, 1) + all_of(0, 1)
