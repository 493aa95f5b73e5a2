"""The exactly-once sink with two of each: earlier runs, lost transactions, leftovers, sinks, batch writes."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from pykafka2 import KafkaProducer, TransactionHandle
from pykafka2.errors import KafkaError, ProducerFenced
from spark_connector.errors import ExactlyOnceError, NotCommitted, PartlyCommitted, SupersededRun
from spark_connector.options.sink_options import PER_TASK
from spark_connector.sink import writers as batch_module
from spark_connector.sink.context import TaskPlace
from spark_connector.sink.exactly_once import commands, ledger
from spark_connector.sink.exactly_once import protocol as scripts
from spark_connector.sink.exactly_once import transactional_ids as names
from spark_connector.sink.exactly_once.messages import OpenTransaction, Written
from spark_connector.sink.preflight import sink_options
from tests.spark.test_exactly_once import TASKS, World, _hooked, all_of, at_step, rows, world

__all__ = ["_hooked", "world"]  # fixtures

pytestmark = pytest.mark.slow


def test_each_of_two_earlier_runs_is_superseded(world: World) -> None:
    runs = [world.run() for _ in range(3)]
    for batch, run in enumerate(runs):
        run.play(batch)
    for earlier in runs[:2]:
        ledger._read.clear()  # a process of its own
        with pytest.raises(SupersededRun, match="can commit nothing more"):
            earlier.write(3)
    assert runs[2].state().past_runs == (runs[0].name, runs[1].name)
    runs[2].play(3)
    assert world.committed() == all_of(0, 1, 2, 3)


def test_open_transactions_of_two_earlier_runs_are_aborted_by_the_next(world: World) -> None:
    first, second = world.run(), world.run()
    first.play(0)
    at_step["before-init"] = lambda: second.write(1)  # the first run's task has read the ledger
    first.write(1, only=0)
    assert len(world.ongoing()) == TASKS + 1
    other = World(world.servers, world.topic).run(ledgerTopic=first.options.ledger_topic)
    theirs = other.write(0)
    world.run().play(1)
    assert world.ongoing() == []
    other.commit(0, theirs)
    assert world.committed() == all_of(0, 1) + all_of(0)


def test_each_lost_transaction_is_named_and_the_rest_aborted(world: World) -> None:
    run = world.run()
    messages = run.write(0)
    for lost in (messages[0], messages[2]):
        world.take_over(lost)
    with pytest.raises(NotCommitted, match=r"2 of 3 transactions are lost: partition 0, 2: "):
        run.commit(0, messages)
    assert world.ongoing() == []
    assert world.committed() == Counter()


def test_every_lost_task_of_a_decided_batch_is_written_again(world: World) -> None:
    run = world.run()
    messages = run.write(0)

    def lose_two() -> None:
        world.take_over(messages[1])
        world.take_over(messages[2])

    at_step["after-decided"] = lose_two
    with pytest.raises(PartlyCommitted, match="lacks partition 1, 2 of 3 tasks"):
        run.commit(0, messages)
    assert world.committed() == all_of(0, tasks=1)
    again = world.run()
    messages = again.write(0)
    assert [one.is_repeated for one in messages] == [True, False, False]
    with pytest.raises(ExactlyOnceError, match=r"lacks partition 1, 2 .* and partition 1 wrote"):
        again.commit(0, [messages[0], messages[1], Written(2, 0, world.query, again.name)])
    again.commit(0, messages)
    assert world.committed() == all_of(0)


def test_every_task_that_an_earlier_run_left_open_is_aborted(world: World) -> None:
    """Tasks commit themselves; those of another sink in the same ledger go on."""
    first, second = world.run(delivery=PER_TASK), world.run(delivery=PER_TASK)
    first.play(0)
    theirs = World(world.servers, world.topic)
    ids = [
        names.of_task(first.options.id_prefix, query, 1, partition, 1, None)
        for query in (world.query, theirs.query)
        for partition in (5, 7)
    ]
    opened = []
    for name in ids:
        producer = KafkaProducer(bootstrap_servers=world.servers, transactional_id=name)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(world.topic, b"left open").result(30)
        opened.append(producer)
    second.play(1)
    assert world.ongoing() == []
    assert sorted(theirs.ongoing()) == sorted(ids[2:])
    for late, is_over in zip(opened, (True, True, False, False), strict=True):
        with suppress(KafkaError):
            late.send(world.topic, b"late").result(30)
            late.commit_transaction()
            assert not is_over
        late.close(1)
    assert world.committed() == all_of(0, 1) + Counter(["left open", "late"] * 2)


def handle(number: int) -> TransactionHandle:
    return TransactionHandle(f"id-{number}", number, 0, 2)


def test_a_batch_write_names_every_transaction_that_was_lost_meanwhile() -> None:
    messages = [
        Written(number, 2, "job", None, OpenTransaction(number, handle(number))) for number in range(3)
    ]
    script = scripts.commit_job(messages, id_per_attempt=False)
    assert isinstance(next(script), commands.FindLost)
    assert isinstance(script.send({}), commands.Reach)
    ends = script.send(None)
    assert isinstance(ends, commands.EndTransactions)
    assert [one.partition for one in ends.transactions] == [0, 1, 2]
    with pytest.raises(PartlyCommitted, match=r"2 of 3 transactions were lost .* partition 0, 2 are missing"):
        script.send({2: ProducerFenced(), 0: ProducerFenced()})


def test_repeatedly_contended_commit_reads_the_ledger_again_each_time(world: World) -> None:
    run = world.run()
    script = scripts.commit(run.epoch(0), run.write(0), id_per_attempt=False)
    state = run.state()
    command = next(script)
    for _ in range(2):
        assert isinstance(command, commands.ReadLedger)
        assert isinstance(script.send(state), commands.FindLost)
        assert isinstance(script.send({}), commands.Reach)
        assert isinstance(script.send(None), commands.WriteLedger)
        command = script.throw(commands.Contended("another came in between"))
    assert isinstance(command, commands.ReadLedger)
    script.close()


@pytest.mark.parametrize("delivery", ["exactly_once", PER_TASK])
def test_a_batch_that_another_process_of_the_run_has_written_is_not_written_again(
    world: World, monkeypatch: pytest.MonkeyPatch, delivery: str
) -> None:
    """foreachBatch may play a batch twice in one run; the worker's own view of the ledger is older."""
    run = world.run(delivery=delivery)
    settings = {
        "kafka.bootstrap.servers": world.servers,
        "topic": world.topic,
        "delivery": delivery,
        "ledgerTopic": run.options.ledger_topic,
    }
    epoch = run.epoch(1)
    of_epoch = {"epoch.sink": epoch.sink, "epoch.run": epoch.run, "epoch.batch": str(epoch.number)}
    writer = batch_module.KafkaBatchWriter(
        sink_options({**settings, **of_epoch}, streaming=False), "job-unused"
    )
    run.play(0)
    known = dict(ledger._read)
    with ThreadPoolExecutor(1) as another:
        another.submit(run.play, 1).result()
    ledger._read.clear()
    ledger._read.update(known)
    messages = []
    for task in range(TASKS):
        monkeypatch.setattr(batch_module, "task_place", lambda task=task: TaskPlace(task, 0, False))
        messages.append(writer.write(iter(rows(1, task))))
    assert [one.is_repeated for one in messages] == [True] * TASKS
    writer.commit([messages[0], None, *messages[1:]])
    assert world.ongoing() == []
    assert world.committed() == all_of(0, 1)


def test_two_batch_writes_end_their_own_transactions_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"kafka.bootstrap.servers": world.servers, "topic": world.topic, "delivery": "exactly_once"}
    options = sink_options(settings, streaming=False)
    writers = [batch_module.KafkaBatchWriter(options, f"job-{world.query}-{name}") for name in "ab"]
    written: list[list[Written | None]] = [[], []]
    for task in range(TASKS):
        monkeypatch.setattr(batch_module, "task_place", lambda task=task: TaskPlace(task, 0, False))
        for batch, writer in enumerate(writers):
            written[batch].append(writer.write(iter(rows(batch, task))))
    writers[0].abort([written[0][0], None])  # the other tasks never reached Spark
    assert World(world.servers, world.topic, writers[0]._job).ongoing() == []
    writers[1].commit(list(written[1]))
    assert world.committed() == all_of(1)
