"""The exactly-once protocol without Spark: permitted commits, lost transactions, refusals.

Each `Run` is a driver with its tasks; several of one query stand for a driver that was believed to be dead.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import attrs
import pyarrow as pa
import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer
from pykafka2.errors import ConfigurationError, KafkaError
from pykafka2.testing import ClusterApi
from spark_connector import clock, connections
from spark_connector.errors import (
    CheckpointBehind,
    ExactlyOnceError,
    NotCommitted,
    PartlyCommitted,
    SupersededRun,
    WrongRow,
)
from spark_connector.options.sink_options import SinkOptions
from spark_connector.sink.context import Epoch, TaskPlace
from spark_connector.sink.exactly_once import commands, ledger
from spark_connector.sink.exactly_once import protocol as scripts
from spark_connector.sink.exactly_once import transactional_ids as names
from spark_connector.sink.exactly_once.identity import BatchIdentity, Marker, TaskRows
from spark_connector.sink.exactly_once.ledger_state import (
    FOLLOWS,
    MOST_PAST_RUNS,
    LedgerState,
    Phase,
    from_bytes,
    to_bytes,
)
from spark_connector.sink.exactly_once.messages import Written
from spark_connector.sink.exactly_once.runner import Cluster
from spark_connector.sink.preflight import sink_options
from spark_connector.sink.task import write_epoch, write_job
from spark_connector.sink.writers import abort_epoch, commit_epoch
from tests.spark.committed import committed

pytestmark = pytest.mark.slow

TASKS = 3

at_step: dict[str, Callable[[], None]] = {}


def on_step(step: str, known: dict[str, object]) -> None:
    action = at_step.pop(step, None)
    if action is not None:
        action()


@pytest.fixture(autouse=True)
def _hooked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYKAFKA2_SPARK_STEP_HOOK", f"{__name__}:on_step")
    yield
    at_step.clear()
    connections.close_all()


@attrs.define
class World:
    servers: str
    topic: str
    query: str = attrs.field(factory=lambda: f"q-{uuid.uuid4().hex[:8]}")

    def options(self, **more: str) -> SinkOptions:
        settings = {
            "kafka.bootstrap.servers": self.servers,
            "topic": self.topic,
            "delivery": "exactly_once",
            "ledgerTopic": f"ledger-{self.query}",  # what one test leaves open holds up no other
        }
        return sink_options({**settings, **more}, streaming=True)

    def run(self, **more: str) -> Run:
        return Run(self, self.options(**more))

    def committed(self) -> Counter[str]:
        return committed(self.servers, self.topic)

    def ongoing(self) -> list[str]:
        """This query's open transactions; none is left when readers may continue."""
        with KafkaAdminClient(bootstrap_servers=self.servers) as admin:
            found = admin.list_transactions(states=["Ongoing"])
        return [one.transactional_id for one in found if f"/{self.query}/" in one.transactional_id]

    def take_over(self, message: Written) -> None:
        """Abort a task's transaction, as its coordinator does after its time-out."""
        assert message.transaction is not None
        name = message.transaction.handle.transactional_id
        with KafkaProducer(bootstrap_servers=self.servers, transactional_id=name) as producer:
            producer.init_transactions()


@attrs.define
class Run:
    """A run of the query."""

    world: World
    options: SinkOptions
    name: str = attrs.field(factory=lambda: uuid.uuid4().hex)

    def epoch(self, batch: int) -> Epoch:
        return Epoch(self.world.query, self.name, batch)

    def write(
        self, batch: int, *, tasks: int = TASKS, attempt: int = 0, only: int | None = None
    ) -> list[Written]:
        return [
            write_epoch(self.options, self.epoch(batch), rows(batch, task), TaskPlace(task, attempt, False))
            for task in range(tasks)
            if only in (None, task)
        ]

    def commit(self, batch: int, messages: list[Written]) -> None:
        commit_epoch(self.options, self.epoch(batch), messages)

    def play(self, batch: int) -> None:
        self.commit(batch, self.write(batch))

    def state(self) -> LedgerState:
        return Cluster(self.options, self.world.query).ledger.read(fresh=True)


def rows(batch: int, task: int, count: int = 2) -> list[pa.RecordBatch]:
    return [pa.record_batch({"value": pa.array([f"{batch}/{task}/{row}" for row in range(count)])})]


def all_of(*batches: int, tasks: int = TASKS) -> Counter[str]:
    return Counter(f"{batch}/{task}/{row}" for batch in batches for task in range(tasks) for row in range(2))


@pytest.fixture
def world(spark_kafka: ClusterApi, topic: str) -> World:
    return World(spark_kafka.bootstrap_servers, topic)


def test_a_batch_shows_when_it_is_committed_and_not_before(world: World) -> None:
    run = world.run()
    messages = run.write(0)
    assert len(world.ongoing()) == TASKS
    run.commit(0, messages)
    assert world.committed() == all_of(0)
    state = run.state()
    assert (state.batch, state.phase, state.run_number, state.first_batch) == (0, Phase.DONE, 1, 0)
    assert world.ongoing() == []


@pytest.mark.parametrize("delivery", ["exactly_once", "exactly_once_per_task"])
def test_batch_without_rows_leaves_a_record_and_its_tasks_send_nothing(world: World, delivery: str) -> None:
    nowhere, run = World("localhost:1", "t", world.query).run(), world.run(delivery=delivery)
    nothing = [pa.record_batch({"value": pa.array([], pa.string())})]
    messages = [
        write_epoch(nowhere.options, run.epoch(0), nothing, TaskPlace(task, 0, False)) for task in range(2)
    ]
    run.commit(0, messages)
    state = run.state()
    assert (state.batch, state.phase, state.tasks, state.rows) == (0, Phase.DONE, 2, ())
    run.play(1)
    assert world.committed() == all_of(1)


def test_an_earlier_run_can_commit_nothing_once_a_later_one_has_begun(world: World) -> None:
    first, second = world.run(), world.run()
    first.play(0)
    late = first.write(1)
    messages = second.write(1)
    with pytest.raises(SupersededRun, match="later run"):
        first.commit(1, late)
    abort_epoch(first.options, first.epoch(1), late)
    second.commit(1, messages)
    assert world.committed() == all_of(0, 1)
    with pytest.raises(SupersededRun):
        commit_epoch(first.options, first.epoch(2), [attrs.evolve(late[0], is_repeated=True)])


def test_tasks_of_an_earlier_run_that_come_late_do_not_disturb(world: World) -> None:
    first, second = world.run(), world.run()
    first.play(0)
    messages: list[Written] = []
    at_step["before-init"] = lambda: messages.extend(second.write(1))  # the late task has read the ledger
    late = first.write(1, only=0)
    assert not late[0].is_repeated
    with pytest.raises(SupersededRun):
        first.write(1, only=1)
    second.commit(1, messages)
    abort_epoch(first.options, first.epoch(1), late)
    assert world.committed() == all_of(0, 1)


def test_new_process_of_an_earlier_run_raises_superseded_run(world: World) -> None:
    first, second = world.run(), world.run()
    first.play(0)
    second.play(1)
    ledger._read.clear()
    with pytest.raises(SupersededRun, match="can commit nothing more"):
        first.write(1)


def test_a_decision_that_came_first_counts_and_the_later_run_finishes_it(world: World) -> None:
    first, second = world.run(), world.run()
    messages = first.write(0)

    def die() -> None:
        raise KeyboardInterrupt

    at_step["after-decided"] = die
    with pytest.raises(KeyboardInterrupt):
        first.commit(0, messages)
    assert first.state().phase is Phase.DECIDED
    repeated = second.write(0)
    assert all(one.is_repeated for one in repeated)
    assert world.committed() == all_of(0)
    second.commit(0, repeated)
    second.play(1)
    assert world.committed() == all_of(0, 1)


def test_a_process_that_committed_for_an_earlier_run_commits_for_the_next(world: World) -> None:
    """Spark keeps the process that commits; tasks elsewhere have claimed the new run meanwhile."""
    first, second = world.run(), world.run()
    with ThreadPoolExecutor(1) as driver:  # each thread takes over for itself, as a process does
        driver.submit(first.commit, 0, first.write(0)).result()
        repeated = second.write(0)
        assert all(one.is_repeated for one in repeated)
        driver.submit(second.commit, 0, repeated).result()
        driver.submit(second.commit, 1, second.write(1)).result()
    assert world.committed() == all_of(0, 1)


def test_abort_after_the_decision_leaves_it_to_the_next_run(world: World) -> None:
    run = world.run()
    messages = run.write(0)

    def fail() -> None:
        raise RuntimeError("out of memory")

    at_step["after-decided"] = fail
    with pytest.raises(RuntimeError):
        run.commit(0, messages)
    abort_epoch(run.options, run.epoch(0), messages)
    assert len(world.ongoing()) == TASKS
    world.run().play(0)
    assert world.committed() == all_of(0)


def test_abort_before_the_decision_ends_known_and_unknown_transactions(world: World) -> None:
    run = world.run()
    messages = run.write(0)
    abort_epoch(run.options, run.epoch(0), messages[:1])
    assert world.ongoing() == []
    run.play(0)
    assert world.committed() == all_of(0)


def test_lost_transaction_before_the_decision_commits_no_row(world: World) -> None:
    run = world.run()
    messages = run.write(0)
    world.take_over(messages[1])
    with pytest.raises(NotCommitted, match=r"1 of 3 transactions.*partition 1: .*transaction\.timeout\.ms"):
        run.commit(0, messages)
    assert world.committed() == Counter()
    assert world.ongoing() == []
    world.run().play(0)
    assert world.committed() == all_of(0)


def test_transaction_of_another_attempt_is_not_taken_for_the_committed_one(world: World) -> None:
    """It has the same id and is open, too."""
    run = world.run()
    messages = run.write(0)
    run.write(0, attempt=1, only=1)
    with pytest.raises(NotCommitted, match=r"1 of 3 transactions.*partition 1: .*another attempt"):
        run.commit(0, messages)
    abort_epoch(run.options, run.epoch(0), messages)  # as Spark does then
    assert world.committed() == Counter()


def test_batch_is_not_decided_close_to_the_transaction_timeout(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.run(**{"kafka.transaction.timeout.ms": "100000"})
    messages = run.write(0)
    wall = clock.wall
    monkeypatch.setattr(clock, "wall", lambda: wall() + 96)
    with pytest.raises(NotCommitted, match=r"s left: kafka\.transaction\.timeout\.ms=100000 is too short"):
        run.commit(0, messages)
    abort_epoch(run.options, run.epoch(0), messages)  # as Spark does then
    assert world.committed() == Counter()


def test_a_minute_is_time_enough_to_decide(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = world.run(**{"kafka.transaction.timeout.ms": "900000"})
    messages = run.write(0)
    wall = clock.wall
    monkeypatch.setattr(clock, "wall", lambda: wall() + 830)
    run.commit(0, messages)
    assert world.committed() == all_of(0)


def test_only_tasks_lost_after_the_decision_are_written_again(world: World) -> None:
    run = world.run()
    messages = run.write(0)
    at_step["after-decided"] = lambda: world.take_over(messages[2])
    with pytest.raises(PartlyCommitted, match="lacks partition 2 of 3 tasks"):
        run.commit(0, messages)
    assert world.committed() == all_of(0, tasks=2)
    again = world.run()
    messages = again.write(0)
    assert [one.is_repeated for one in messages] == [True, True, False]
    again.commit(0, messages)
    again.play(1)
    assert world.committed() == all_of(0, 1)


def test_task_committed_before_its_id_was_taken_over_is_not_written_again(world: World) -> None:
    """The answer to the second commit is the same as of one that was aborted; the marker tells them apart."""
    run = world.run()
    messages = run.write(0)

    def die() -> None:
        for message in messages:
            world.take_over(message)
        raise KeyboardInterrupt

    at_step["before-done"] = die
    with pytest.raises(KeyboardInterrupt):
        run.commit(0, messages)
    again = world.run()
    assert all(one.is_repeated for one in again.write(0))
    assert world.committed() == all_of(0)


def test_rows_that_are_there_already_are_read_to_their_end(world: World) -> None:
    """Spark's aggregations keep their state only then."""
    world.run().play(0)
    again = world.run()
    left = iter([*rows(0, 0), *rows(0, 0), *rows(0, 0)])
    assert write_epoch(again.options, again.epoch(0), left, TaskPlace(0, 0, False)).is_repeated
    assert list(left) == []


def test_a_batch_that_is_split_in_another_way_is_not_completed(world: World) -> None:
    run = world.run()
    messages = run.write(0)
    at_step["after-decided"] = lambda: world.take_over(messages[2])
    with pytest.raises(PartlyCommitted):
        run.commit(0, messages)
    again = world.run()
    other = again.write(0, tasks=2)
    with pytest.raises(ExactlyOnceError, match="split differently"):
        again.commit(0, other)


def test_an_older_checkpoint_is_refused(world: World) -> None:
    world.run(failOnLedgerLoss="false").play(5)
    with pytest.raises(CheckpointBehind, match=r"Batch 4 .* older than batch 5"):
        world.run().write(4)


def test_next_attempt_of_a_task_aborts_the_transaction_of_the_first(world: World) -> None:
    run = world.run()
    run.write(0, only=1)
    run.commit(0, run.write(0, attempt=1))
    assert world.committed() == all_of(0)


def test_attempts_with_ids_of_their_own_do_not_disturb_each_other(world: World) -> None:
    run = world.run(transactionalIdPerAttempt="true")
    messages = run.write(0)
    run.write(0, attempt=1, only=1)  # the copy that speculation started, and that lost
    assert len(world.ongoing()) == TASKS + 1
    run.commit(0, messages)
    assert world.committed() == all_of(0)
    assert world.ongoing() == []


def test_speculation_is_refused_without_ids_of_their_own(world: World) -> None:
    place = TaskPlace(0, 0, is_speculating=True)
    run = world.run()
    with pytest.raises(ConfigurationError, match="transactionalIdPerAttempt=true"):
        write_epoch(run.options, run.epoch(0), rows(0, 0), place)
    for more in ({"transactionalIdPerAttempt": "true"}, {"delivery": "exactly_once_per_task"}):
        other = World(world.servers, world.topic).run(**more)
        write_epoch(other.options, other.epoch(0), rows(0, 0), place)


def test_a_row_that_cannot_be_written_aborts_its_transaction(world: World) -> None:
    run = world.run()
    bad = pa.record_batch({"value": pa.array(["x"]), "partition": pa.array([7], pa.int32())})
    with pytest.raises(WrongRow):
        write_epoch(run.options, run.epoch(0), [*rows(0, 0), bad], TaskPlace(0, 0, False))
    assert world.ongoing() == []


def test_tasks_that_commit_themselves_leave_markers_for_later_attempts(world: World) -> None:
    run = world.run(delivery="exactly_once_per_task")
    run.play(0)
    run.write(1, only=1)
    assert world.committed() == all_of(0) + Counter(["1/1/0", "1/1/1"])
    (repeated,) = run.write(1, attempt=1, only=1)  # its message was lost, say
    assert repeated.is_repeated
    again = world.run(delivery="exactly_once_per_task")
    messages = again.write(1)
    assert [one.is_repeated for one in messages] == [False, True, False]
    again.commit(1, messages)
    again.play(2)
    assert world.committed() == all_of(0, 1, 2)


def test_a_task_that_commits_itself_and_outlives_its_run_writes_nothing(world: World) -> None:
    first, second = (world.run(delivery="exactly_once_per_task") for _ in range(2))
    first.play(0)
    known_to_first = dict(ledger._read)
    second.play(1)
    ledger._read.update(known_to_first)  # a process of its own, which looked before the second run began
    with pytest.raises(SupersededRun):
        first.write(1, only=0)
    assert world.committed() == all_of(0, 1)


def test_open_transaction_of_a_killed_task_does_not_block_per_task_commits(world: World) -> None:
    """They look for markers, behind the open one's, and its own task may have no slot while they wait."""
    settings = {"delivery": "exactly_once_per_task"}
    first, second = world.run(**settings), world.run(**settings)
    first.play(0)
    name = names.of_task("pykafka2-spark", world.query, 1, 2, 1, None)
    with KafkaProducer(bootstrap_servers=world.servers, transactional_id=name) as killed:
        killed.init_transactions()
        killed.begin_transaction()
        Cluster(first.options, world.query).ledger.send_marker(killed, Marker(1, TaskRows(2, 2), run=1))
        killed.detach_transaction()
    assert world.ongoing() == [name]
    messages = [one for task in range(TASKS) for one in second.write(1, only=task)]
    assert not any(one.is_repeated for one in messages)
    second.commit(1, messages)
    assert world.committed() == all_of(0, 1)


def test_late_copy_of_a_task_committed_by_itself_writes_nothing(world: World) -> None:
    """The copy that speculation started has committed, and Spark has not ended the first one yet."""
    run = world.run(delivery="exactly_once_per_task")
    run.play(0)
    for attempt in (1, 0):
        place = TaskPlace(1, attempt, is_speculating=True)
        written = write_epoch(run.options, run.epoch(1), rows(1, 1), place)
    assert written.is_repeated
    assert world.committed() == all_of(0) + Counter(["1/1/0", "1/1/1"])


def test_a_batch_write_is_committed_together_or_not_at_all(world: World) -> None:
    options = sink_options(
        {"kafka.bootstrap.servers": world.servers, "topic": world.topic, "delivery": "exactly_once"},
        streaming=False,
    )

    def job(name: str) -> list[Written]:
        return [write_job(options, name, rows(0, task), TaskPlace(task, 0, False)) for task in range(TASKS)]

    aborted = job("job-1")
    Cluster(options, "job-1").perform(scripts.abort_job(aborted[:1]))
    lost = job("job-2")
    world.take_over(lost[0])
    with pytest.raises(NotCommitted):
        Cluster(options, "job-2").perform(scripts.commit_job(lost, id_per_attempt=False))
    assert world.committed() == Counter()
    Cluster(options, "job-3").perform(scripts.commit_job(job("job-3"), id_per_attempt=False))
    assert world.committed() == all_of(0)


@pytest.mark.parametrize("per_attempt", ["false", "true"], ids=["one id", "an id per attempt"])
@pytest.mark.parametrize("step", ["before-init", "after-init", "after-append"])
def test_a_task_that_outlives_its_failed_write_leaves_nothing_open(
    world: World, step: str, per_attempt: str
) -> None:
    """Spark gives the job up while another task is still at work; nothing is waited for."""
    options = sink_options(
        {
            "kafka.bootstrap.servers": world.servers,
            "topic": world.topic,
            "delivery": "exactly_once",
            "transactionalIdPerAttempt": per_attempt,
        },
        streaming=False,
    )
    name = f"job-{uuid.uuid4().hex}"
    done = write_job(options, name, rows(0, 0), TaskPlace(0, 0, False))
    at_step[step] = lambda: Cluster(options, name).perform(scripts.abort_job([done]))
    with suppress(KafkaError):  # a task whose rows are all written by then gets no error
        write_job(options, name, rows(0, 1), TaskPlace(1, 1, False))
    with pytest.raises(NotCommitted, match="has failed"):
        write_job(options, name, rows(0, 2), TaskPlace(2, 0, False))
    prefix = f"pykafka2-spark/{name}/"
    with KafkaAdminClient(bootstrap_servers=world.servers) as admin:
        states = {one.transactional_id: one.state for one in admin.list_transactions()}
    assert "Ongoing" not in {state for one, state in states.items() if one.startswith(prefix)}
    assert world.committed() == Counter()


def test_ids_of_sinks_with_a_common_prefix_are_distinguished() -> None:
    of_ten = names.of_task("p", "q-10", 3, 1, 0, None)
    assert names.run_of(of_ten, "p", "q-10") == 3
    assert names.run_of(of_ten, "p", "q-1") is None
    assert names.run_of(names.of_ledger("p", "q-10"), "p", "q-10") is None


TWO_TASKS = BatchIdentity("offsets", 2, (TaskRows(0, 5, 7), TaskRows(1, 3)))


def test_states_follow_the_table_alone() -> None:
    state = LedgerState("q")
    for phase, follows in FOLLOWS.items():
        here = attrs.evolve(state, phase=phase, batch=3)
        later = 3 if phase in (Phase.DECIDED, Phase.REDO) else 4
        for wanted, make in {
            Phase.DECIDED: lambda here=here, later=later: here.decided(later, TWO_TASKS, ()),
            Phase.DONE: lambda here=here, later=later: here.done(later, TWO_TASKS, 0),
            Phase.REDO: lambda here=here: here.ended((1,)),
        }.items():
            if wanted in follows:
                assert make().phase is wanted
            else:
                with pytest.raises(ExactlyOnceError):
                    make()


def test_the_last_runs_are_remembered() -> None:
    state = LedgerState("q")
    names = [f"run-{number}" for number in range(MOST_PAST_RUNS + 3)]
    for name in names:
        state = state.claimed(name, 0)
    assert state.past_runs == tuple(names[2:-1])


def test_second_claim_of_the_ledger_logs_no_error(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """All tasks of a run's first batch claim it; those that are too late look again."""
    run = world.run()
    cluster = Cluster(run.options, world.query)
    late = cluster.ledger.own(None)
    kept, connections._kept = connections._kept, {}
    try:
        first = cluster.ledger.own(None)
        cluster.ledger.write(first.claimed("another", 0))
        connections.close_all()
    finally:
        connections._kept = kept
    with caplog.at_level("INFO"), pytest.raises(commands.Contended):
        cluster.ledger.write(late.claimed("late", 0))
    assert "took over the ledger first" in caplog.text
    assert [one for one in caplog.records if one.levelname in ("WARNING", "ERROR")] == []


def test_owner_closed_to_make_room_overwrites_no_decision(world: World) -> None:
    """If many queries share a process, an owner may be closed between its check and its decision."""
    first, second = world.run(), world.run()
    late = first.write(0)
    messages: list[Written] = []

    def make_room() -> None:
        connections.close_all()
        with ThreadPoolExecutor(1) as another:
            messages.extend(another.submit(second.write, 0).result())

    at_step["before-decided"] = make_room
    with pytest.raises(SupersededRun):
        first.commit(0, late)
    second.commit(0, messages)
    assert world.committed() == all_of(0)


def test_states_survive_the_ledger(world: World) -> None:
    run = world.run()
    messages = run.write(0)
    transactions = tuple(one.transaction for one in messages if one.transaction is not None)
    state = LedgerState("q").claimed("a", 0).decided(0, TWO_TASKS, transactions).claimed("b", 0)
    assert from_bytes(to_bytes(state)) == state
    assert (state.past_runs, state.run_number) == (("a",), 2)
    with pytest.raises(ExactlyOnceError, match="no other use"):
        from_bytes(b"{}")
    abort_epoch(run.options, run.epoch(0), messages)


def test_late_claim_does_not_end_transactions_of_its_siblings(world: World) -> None:
    """Several tasks of a run's first batch claim it at once; all but one come too late, perhaps by much."""
    for delivery in ("exactly_once", "exactly_once_per_task"):
        run = World(world.servers, world.topic).run(delivery=delivery)
        late = Cluster(run.options, run.world.query)
        script = scripts.enter(run.epoch(0), 0)
        command = next(script)
        calls = []
        while not isinstance(command, commands.WriteLedger):  # up to the claim itself
            calls.append(type(command))
            command = script.send(late._read(command) if isinstance(command, commands.ReadLedger) else None)
        assert commands.AbortLeftovers not in calls

        ledger._read.clear()
        messages = run.write(0)  # the siblings', by another task that claimed
        entry = late.perform(scripts.enter(run.epoch(0), 0))
        assert not entry.is_written
        run.commit(0, messages)
        assert run.state().run_number == 1
    assert world.committed() == all_of(0) + all_of(0)


@pytest.mark.parametrize(("partition", "looks"), [(0, 0), (1, 2), (7, 10)])
def test_finishing_a_decided_batch_extends_the_wait_of_others(partition: int, looks: int) -> None:
    """With each take-over it starts over: a run with fifty tasks at once made no progress for a minute."""
    script = scripts.enter(World("nowhere", "t").run().epoch(0), partition)
    state = LedgerState("q").claimed("a", 0)

    def polled() -> int:
        """How often, until it takes over."""
        command, times = script.send(state), 0
        while isinstance(command, commands.Pause):
            assert script.send(None) == commands.ReadLedger()
            command, times = script.send(state), times + 1
        assert isinstance(command, commands.ReadLedger)
        assert command.owned
        return times

    assert next(script) == commands.ReadLedger(fresh=False)
    assert polled() == looks
    assert isinstance(script.send(state), commands.Reach)
    assert isinstance(script.send(None), commands.WriteLedger)
    assert isinstance(script.throw(commands.Contended("another was there")), commands.Pause)


def epochs(world: World, names: Iterable[str]) -> dict[str, int]:
    """How often each of these transactional ids was taken over."""
    with KafkaAdminClient(bootstrap_servers=world.servers) as admin:
        return {name: one.producer_epoch for name, one in admin.describe_transactions(names).items()}


def test_transactions_of_an_earlier_run_are_fenced_once(world: World) -> None:
    """Each takes a producer of its own: a query that is often killed would begin later each time."""
    world.run().play(0)
    world.run().write(1)  # killed here
    left = world.ongoing()
    assert len(left) == TASKS
    world.run().play(1)
    fenced = epochs(world, left)
    world.run().play(2)
    world.run().play(3)
    assert epochs(world, left) == fenced
    assert world.committed() == all_of(0, 1, 2, 3)


def test_late_task_of_an_earlier_run_writes_no_row(world: World) -> None:
    world.run().play(0)
    name = names.of_task("pykafka2-spark", world.query, 1, 7, 1, None)
    with KafkaProducer(bootstrap_servers=world.servers, transactional_id=name) as late:
        late.init_transactions()
        world.run().play(1)
        late.begin_transaction()
        with suppress(KafkaError):
            late.send(world.topic, b"late").result(30)
        with pytest.raises(KafkaError):
            late.commit_transaction()
    assert world.ongoing() == []
    assert world.committed() == all_of(0, 1)


def test_copies_that_lost_are_fenced_once_and_not_with_every_batch(world: World) -> None:
    run = world.run(transactionalIdPerAttempt="true")
    messages = run.write(0)
    before = set(world.ongoing())
    run.write(0, attempt=1, only=1)
    lost = set(world.ongoing()) - before
    assert len(lost) == 1
    run.commit(0, messages)
    fenced = epochs(world, lost)
    run.play(1)
    run.play(2)
    assert epochs(world, lost) == fenced
    assert world.committed() == all_of(0, 1, 2)


def test_abort_reads_the_ledger_again_before_it_acts(world: World) -> None:
    """Processes that commit are shared by queries: another one of them has decided the batch."""
    run = world.run()

    def fail() -> None:
        raise RuntimeError("out of memory")

    with ThreadPoolExecutor(1) as another:  # each thread takes over for itself, as a process does
        another.submit(run.play, 0).result()
        messages = run.write(1)
        at_step["after-decided"] = fail
        with pytest.raises(RuntimeError):
            run.commit(1, messages)
        another.submit(abort_epoch, run.options, run.epoch(1), messages).result()
    assert len(world.ongoing()) == TASKS
    assert all(one.is_repeated for one in world.run().write(1))
    assert world.committed() == all_of(0, 1)
