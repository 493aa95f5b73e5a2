"""Replayed batches prove that they are the ones that the ledger has: without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext

import attrs
import pyarrow as pa
import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, NewTopic, TopicPartition
from pykafka2.testing import ClusterApi
from spark_connector.errors import CheckpointBehind, ExactlyOnceError, LedgerBehind, PartlyCommitted
from spark_connector.options.sink_options import EXACTLY_ONCE, PER_TASK
from spark_connector.sink.clients import ends_of
from spark_connector.sink.context import TaskPlace
from spark_connector.sink.exactly_once import ledger
from spark_connector.sink.exactly_once.ledger_state import (
    STRICT,
    LedgerState,
    Phase,
    check_batch,
    check_ledger,
)
from spark_connector.sink.exactly_once.messages import Written
from spark_connector.sink.task import write_epoch
from spark_connector.sink.writers import abort_epoch
from spark_connector.source.ranges import OffsetRange, tasks_of
from tests.spark.test_exactly_once import Run, World, _hooked, all_of, at_step, world

__all__ = ["_hooked", "world"]  # fixtures

pytestmark = pytest.mark.slow

both_deliveries = pytest.mark.parametrize("delivery", [EXACTLY_ONCE, PER_TASK])


def write(run: Run, batch: int, values: list[list[str]], source: str | None = None) -> list[Written]:
    """Write a batch of these values, a list for each task; abort it if a task fails, as Spark does.

    source: digest of the source offsets.
    """
    messages: list[Written] = []
    try:
        for task, own in enumerate(values):
            rows = [pa.record_batch({"value": pa.array(own, pa.string())})]
            epoch = attrs.evolve(run.epoch(batch), source=source)
            messages.append(write_epoch(run.options, epoch, rows, TaskPlace(task, 0, False)))
    except Exception:
        abort_epoch(run.options, run.epoch(batch), messages)
        raise
    return messages


def play(run: Run, batch: int, values: list[list[str]], source: str | None = None) -> None:
    run.commit(batch, write(run, batch, values, source))


@both_deliveries
def test_replayed_batch_with_more_rows_raises_checkpoint_behind(world: World, delivery: str) -> None:
    play(world.run(delivery=delivery), 0, [["a"], ["b"]])
    replay = world.run(delivery=delivery)
    with pytest.raises(CheckpointBehind, match=r"task 1 .* 1 row.* 3 rows.*newest"):
        play(replay, 0, [["a"], ["b", "c", "d"]])
    assert set(world.committed()) == {"a", "b"}


@both_deliveries
def test_replayed_batch_with_other_rows_of_equal_count_raises_checkpoint_behind(
    world: World, delivery: str
) -> None:
    play(world.run(delivery=delivery), 0, [["a"], ["b"]])
    with pytest.raises(CheckpointBehind, match=r"task 1 .* other keys or values.*replayCheck=counts"):
        play(world.run(delivery=delivery), 0, [["a"], ["c"]])


@both_deliveries
def test_replayed_batch_with_the_same_rows_in_another_order_counts_as_written(
    world: World, delivery: str
) -> None:
    play(world.run(delivery=delivery), 0, [["a", "b", "c"], ["d"]])
    play(world.run(delivery=delivery), 0, [["c", "a", "b"], ["d"]])
    assert world.committed().total() == 4


@both_deliveries
@pytest.mark.parametrize(
    "values",
    [[["a"], []], [[], []], [["a"], ["b"], ["c"]], [["a", "c"]], [["b"], ["c"]]],
    ids=["a task without rows", "no rows", "one task more", "one task less", "other tasks"],
)
def test_replayed_batch_with_other_rows_in_other_tasks_raises_checkpoint_behind(
    world: World, delivery: str, values: list[list[str]]
) -> None:
    play(world.run(delivery=delivery), 0, [["a"], ["b"]])
    with pytest.raises(CheckpointBehind):
        play(world.run(delivery=delivery), 0, values)
    assert set(world.committed()) == {"a", "b"}


SPLITS = {
    "an empty task more": [["a"], ["b", "c"], []],
    "one task": [["a", "b", "c"]],
    "tasks swapped": [["b", "c"], ["a"]],
}


@both_deliveries
@pytest.mark.parametrize(
    ("source", "values"),
    [*((None, values) for values in SPLITS.values()), ("offsets", SPLITS["one task"])],
    ids=[*SPLITS, "one task, with source offsets"],
)
def test_replayed_batch_with_the_same_rows_in_other_tasks_counts_as_written(
    world: World, delivery: str, source: str | None, values: list[list[str]]
) -> None:
    """A restart with another minPartitions, or another number of cores or shuffle partitions."""
    play(world.run(delivery=delivery), 0, [["a"], ["b", "c"]], source)
    again = world.run(delivery=delivery)
    play(again, 0, values, source)
    play(again, 1, [["d"], ["e"]], source)
    assert world.committed() == dict.fromkeys("abcde", 1)


@both_deliveries
def test_split_in_another_way_needs_more_proof_than_counts(world: World, delivery: str) -> None:
    play(world.run(delivery=delivery, replayCheck="counts"), 0, [["a"], ["b", "c"]])
    with pytest.raises(CheckpointBehind, match="task 0 had 1 row and has 3 rows now"):
        play(world.run(delivery=delivery, replayCheck="counts"), 0, [["a", "b", "c"]])


@both_deliveries
def test_rows_are_compared_if_only_the_replay_knows_its_source_offsets(world: World, delivery: str) -> None:
    """The option checkpointLocation came with the restart."""
    play(world.run(delivery=delivery), 0, [["a"], ["b"]])
    with pytest.raises(CheckpointBehind, match=r"task 1 .* other keys or values"):
        play(world.run(delivery=delivery), 0, [["a"], ["c"]], "offsets")
    play(world.run(delivery=delivery), 0, [["a"], ["b"]], "offsets")
    assert set(world.committed()) == {"a", "b"}


def test_rows_of_a_marker_are_compared_if_only_the_replay_knows_its_source_offsets(world: World) -> None:
    """exactly_once_per_task: the first run was killed before the driver noted the batch as done."""
    write(world.run(delivery=PER_TASK), 0, [["a"]])
    with pytest.raises(CheckpointBehind, match=r"task 0 .* other keys or values"):
        write(world.run(delivery=PER_TASK), 0, [["b"]], "offsets")


def test_rewritten_rows_are_compared_if_only_the_replay_knows_its_source_offsets(world: World) -> None:
    run = world.run()
    messages = write(run, 0, [["a"], ["b"]])
    at_step["after-decided"] = lambda: world.take_over(messages[1])
    with pytest.raises(PartlyCommitted):
        run.commit(0, messages)
    again = world.run()
    messages = write(again, 0, [["a"], ["c"]], "offsets")
    with pytest.raises(CheckpointBehind, match=r"task 1 .* other keys or values"):
        again.commit(0, messages)
    abort_epoch(again.options, again.epoch(0), messages)  # as Spark does then
    play(world.run(), 0, [["a"], ["b"]], "offsets")
    assert set(world.committed()) == {"a", "b"}


def test_missing_part_of_a_batch_must_be_split_as_before(world: World) -> None:
    """The same rows, of which task 1 has another part now."""
    run = world.run()
    messages = write(run, 0, [["a"], ["b", "c"]])
    at_step["after-decided"] = lambda: world.take_over(messages[1])
    with pytest.raises(PartlyCommitted):
        run.commit(0, messages)
    again = world.run()
    messages = write(again, 0, [["a", "b"], ["c"]])
    with pytest.raises(CheckpointBehind, match="task 0 had 1 row and has 2 rows now"):
        again.commit(0, messages)
    abort_epoch(again.options, again.epoch(0), messages)  # as Spark does then
    assert set(world.committed()) == {"a"}


@both_deliveries
def test_rows_in_the_replay_of_a_batch_without_rows_raise_checkpoint_behind(
    world: World, delivery: str
) -> None:
    play(world.run(delivery=delivery), 0, [[], []])
    with pytest.raises(CheckpointBehind):
        play(world.run(delivery=delivery), 0, [["a"], []])


@both_deliveries
def test_replayed_batch_without_rows_counts_as_written(world: World, delivery: str) -> None:
    for _ in range(2):
        play(world.run(delivery=delivery), 0, [[], []])
    play(world.run(delivery=delivery), 0, [[]])
    play(world.run(delivery=delivery), 1, [["a"], []])
    assert world.committed() == {"a": 1}


@both_deliveries
def test_changed_topic_applies_to_the_first_batch_that_is_not_committed(
    world: World, delivery: str, spark_kafka: ClusterApi
) -> None:
    play(world.run(delivery=delivery), 0, [["a"], ["b"]])
    spark_kafka.create_topic(f"{world.topic}-new", partitions=2)
    moved = World(world.servers, f"{world.topic}-new", world.query)
    again = moved.run(delivery=delivery)
    play(again, 0, [["a"], ["b"]])
    play(again, 1, [["c"], []])
    assert world.committed() == {"a": 1, "b": 1}
    assert moved.committed() == {"c": 1}


def test_replayed_task_with_another_row_count_than_its_marker_raises_checkpoint_behind(world: World) -> None:
    """exactly_once_per_task: the first run was killed before the driver noted the batch as done."""
    write(world.run(delivery=PER_TASK), 0, [["a"]])
    with pytest.raises(CheckpointBehind, match=r"task 0 .* 1 row.* 2 rows"):
        write(world.run(delivery=PER_TASK), 0, [["a", "b"]])


def test_rewritten_partition_with_another_row_count_is_not_committed(world: World) -> None:
    run = world.run()
    messages = run.write(0)
    at_step["after-decided"] = lambda: world.take_over(messages[2])
    with pytest.raises(PartlyCommitted):
        run.commit(0, messages)
    again = world.run()
    messages = write(again, 0, [["0/0/0", "0/0/1"], ["0/1/0", "0/1/1"], ["0/2/0", "0/2/1", "new"]])
    with pytest.raises(CheckpointBehind, match=r"task 2 .* 2 rows.* 3 rows"):
        again.commit(0, messages)
    abort_epoch(again.options, again.epoch(0), messages)  # as Spark does then
    world.run().play(0)
    assert world.committed() == all_of(0)


@both_deliveries
def test_replay_check_counts_accepts_other_values(world: World, delivery: str) -> None:
    """Rows computed by rand() or now(): the first ones stay."""
    play(world.run(delivery=delivery, replayCheck="counts"), 0, [["a"], ["b"]])
    play(world.run(delivery=delivery, replayCheck="counts"), 0, [["a"], ["c"]])
    with pytest.raises(CheckpointBehind):
        play(world.run(delivery=delivery, replayCheck="counts"), 0, [["a"], ["b", "c"]])
    assert set(world.committed()) == {"a", "b"}


@both_deliveries
def test_replay_check_none_logs_a_warning_and_continues(
    world: World, delivery: str, caplog: pytest.LogCaptureFixture
) -> None:
    play(world.run(delivery=delivery), 0, [["a"], ["b"]])
    again = world.run(delivery=delivery, replayCheck="none")
    play(again, 0, [["a", "b"], ["c"]])
    assert "task 0" in caplog.text
    play(again, 1, [["d"], []])
    assert set(world.committed()) == {"a", "b", "d"}


@both_deliveries
def test_empty_ledger_of_a_query_with_batches_raises_ledger_behind(world: World, delivery: str) -> None:
    for batch in (1, 7):
        with pytest.raises(
            LedgerBehind, match=f"at batch {batch}, but the ledger has no batch.*failOnLedger"
        ):
            world.run(delivery=delivery).write(batch)
        with pytest.raises(LedgerBehind):
            play(world.run(delivery=delivery), batch, [[], []])
    assert world.committed() == {}


@both_deliveries
@pytest.mark.parametrize("made_anew", [False, True])
def test_ledger_that_was_deleted_raises_ledger_behind_in_a_process_that_knew_it(
    world: World, delivery: str, made_anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink does not wait for the topic to come back until kafka.default.api.timeout.ms."""
    monkeypatch.setattr(ledger, "DELETED_AFTER_MS", 300)
    timeouts: list[float | None] = []

    def recorded(kafka: Mapping[str, str], place: TopicPartition, timeout_ms: float | None = None) -> object:
        timeouts.append(timeout_ms)
        return ends_of(kafka, place, timeout_ms)

    world.run(delivery=delivery).play(0)
    world.run(delivery=delivery).play(1)
    monkeypatch.setattr(ledger, "ends_of", recorded)
    with KafkaAdminClient(bootstrap_servers=world.servers) as admin:
        admin.delete_topics([f"ledger-{world.query}"])
        if made_anew:
            admin.create_topics([NewTopic(f"ledger-{world.query}", partitions=2)])
    for only in (0, 1):
        with pytest.raises(LedgerBehind, match="at batch 2, but the ledger has no batch"):
            world.run(delivery=delivery).write(2, only=only)
    assert timeouts[0] == 300
    assert (None in timeouts) is not made_anew  # the sink has just created the ledger itself
    assert world.committed() == all_of(0, 1)


@both_deliveries
def test_ledger_that_lacks_the_last_batch_raises_ledger_behind(world: World, delivery: str) -> None:
    world.run(delivery=delivery).play(0)
    with pytest.raises(LedgerBehind, match="at batch 2, but the ledger ends at batch 0"):
        world.run(delivery=delivery).write(2)


def test_ledger_loss_logs_a_warning_without_fail_on_ledger_loss(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.run(failOnLedgerLoss="false").play(4)
    assert "ledger behind the checkpoint" in caplog.text
    world.run().play(5)
    assert world.committed() == all_of(4, 5)


def test_gaps_in_a_ledger_of_format_1_are_accepted(world: World) -> None:
    """Batches without rows left no record there."""
    run = world.run()
    run.play(0)
    before = attrs.evolve(run.state(), source=None, rows=None)
    check_ledger(before, run.epoch(7), STRICT)
    check_batch(before, run.epoch(0), [], STRICT)
    with pytest.raises(LedgerBehind):
        check_ledger(run.state(), run.epoch(7), STRICT)


def format_1(state: LedgerState) -> bytes:
    """A record as it was before batches had an identity."""
    fields = attrs.asdict(state)
    for name in ("source", "rows", "batch_run"):
        del fields[name]
    return json.dumps({"format": 1, **fields, "phase": state.phase.value}).encode()


@both_deliveries
@pytest.mark.parametrize("next_batch", [0, 9], ids=["replays", "goes on after batches without rows"])
def test_query_continues_with_a_ledger_of_format_1(world: World, delivery: str, next_batch: int) -> None:
    first = world.run(delivery=delivery)
    first.play(0)
    before = first.state()
    with KafkaProducer(bootstrap_servers=world.servers) as producer:
        producer.send(
            first.options.ledger_topic, format_1(before), key=world.query.encode(), partition=0
        ).result(30)
    ledger._read.clear()
    again = world.run(delivery=delivery)
    again.play(next_batch)
    assert world.committed() == all_of(*{0, next_batch})
    state = again.state()
    assert (state.run_number, state.batch, state.phase) == (2, next_batch, Phase.DONE)
    later = world.run(delivery=delivery)  # format 2, with the same rows known or unknown
    later.play(next_batch)
    with pytest.raises(LedgerBehind) if next_batch else nullcontext():
        world.run(delivery=delivery).play(next_batch + 2)


def test_query_finishes_a_decision_of_format_1(world: World) -> None:
    run = world.run()
    messages = run.write(0)

    def write_as_format_1() -> None:
        with KafkaProducer(bootstrap_servers=world.servers) as producer:
            record = format_1(run.state())
            producer.send(run.options.ledger_topic, record, key=world.query.encode(), partition=0).result(30)
        raise KeyboardInterrupt

    at_step["after-decided"] = write_as_format_1
    with pytest.raises(KeyboardInterrupt):
        run.commit(0, messages)
    ledger._read.clear()
    again = world.run()
    assert all(one.is_repeated for one in again.write(0))
    again.play(1)
    assert world.committed() == all_of(0, 1)


OFFSETS = "digest of the source offsets"


def all_values(tasks: list[list[str]]) -> list[str]:
    return [value for values in tasks for value in values]


def planned(**options: int) -> list[list[str]]:
    """Return the values of each task that the source plans for partitions of 100, 50 and 50 records."""
    ranges = [OffsetRange("t", partition, 0, end) for partition, end in enumerate((100, 50, 50))]
    tasks = tasks_of(ranges, options.get("minPartitions"), options.get("maxRecordsPerPartition"))
    return [[f"{one.partition}@{at}" for at in range(one.start, one.end)] for one in tasks]


def shuffled(partitions: int) -> list[list[str]]:
    hashes = {0: 20, 1: 20, 2: 20, 3: 10, 4: 20, 5: 10}  # rows by hash of their key
    return [
        [f"{key}@{row}" for key, count in hashes.items() if key % partitions == task for row in range(count)]
        for task in range(partitions)
    ]


SPLITS_OF_EQUAL_COUNTS = {
    "minPartitions": (1, planned(), planned(minPartitions=4)),
    "maxRecordsPerPartition": (1, planned(), planned(maxRecordsPerPartition=50)),
    "spark.sql.shuffle.partitions": (1, shuffled(3), shuffled(2)),
    "adaptive execution": (1, shuffled(6), [all_values(shuffled(6)[:2]), *shuffled(6)[2:]]),
    "repartition() without columns": (0, planned()[1:], planned()[:0:-1]),
}
"""By option: the task that committed, and the values of each task before and after the restart."""
splits = pytest.mark.parametrize(
    ("task", "before", "after"), SPLITS_OF_EQUAL_COUNTS.values(), ids=SPLITS_OF_EQUAL_COUNTS
)
sources = pytest.mark.parametrize("source", [OFFSETS, None], ids=["known offsets", "unknown offsets"])


@splits
@sources
def test_batch_committed_in_part_and_split_into_equal_counts_commits_nothing(
    world: World, source: str | None, task: int, before: list[list[str]], after: list[list[str]]
) -> None:
    """The other tasks must not commit, either: the committed rows would be theirs now."""
    assert len(before[task]) == len(after[task])
    assert before[task] != after[task]
    first = world.run(delivery=PER_TASK)
    write(first, 0, [values if number == task else [] for number, values in enumerate(before)], source)
    for replay in (world.run(delivery=PER_TASK), world.run(delivery=PER_TASK)):
        with pytest.raises(CheckpointBehind, match=rf"task {task} .* other keys or values"):
            write(replay, 0, after, source)
    assert world.committed() == Counter(before[task])
    again = world.run(delivery=PER_TASK)
    play(again, 0, before, source)  # with the former options
    play(again, 1, [["next"], []], source)
    assert world.committed() == Counter([*all_values(before), "next"])
    assert world.ongoing() == []


@pytest.mark.parametrize(
    "after",
    [[["a", "b"], ["c", "d"]], [["a", "b"], ["c", "d"], []], [[], [], []], []],
    ids=["fewer tasks", "a task without rows", "no rows", "no tasks"],
)
@sources
def test_committed_part_of_a_task_without_rows_in_the_replay_raises_checkpoint_behind(
    world: World, source: str | None, after: list[list[str]]
) -> None:
    """No task checks that part."""
    before = [["a"], ["b", "c"], ["d"]]
    first = world.run(delivery=PER_TASK)
    write(first, 0, [[], [], before[2]], source)
    again = world.run(delivery=PER_TASK)
    messages = write(again, 0, after, source)
    with pytest.raises(CheckpointBehind, match=r"task 2 had 1 row and has 0 rows now"):
        again.commit(0, messages)
    abort_epoch(again.options, again.epoch(0), messages)
    assert world.committed() == Counter("d")
    play(world.run(delivery=PER_TASK), 0, before, source)
    assert world.committed() == Counter("abcd")
    assert world.ongoing() == []


@splits
@sources
def test_batch_with_lost_tasks_and_split_into_equal_counts_commits_nothing(
    world: World, source: str | None, task: int, before: list[list[str]], after: list[list[str]]
) -> None:
    run = world.run()
    messages = write(run, 0, before, source)
    at_step["after-decided"] = lambda: world.take_over(messages[task])
    with pytest.raises(PartlyCommitted):
        run.commit(0, messages)
    for delivery in (EXACTLY_ONCE, PER_TASK):
        again = world.run(delivery=delivery)
        messages = write(again, 0, after, source)
        with pytest.raises((CheckpointBehind, ExactlyOnceError)):
            again.commit(0, messages)
        abort_epoch(again.options, again.epoch(0), messages)  # as Spark does then
    lost = Counter(all_values(before)) - Counter(before[task])
    assert world.committed() == lost
    play(world.run(delivery=PER_TASK), 0, before, source)
    assert world.committed() == Counter(all_values(before))


@both_deliveries
@splits
@sources
def test_committed_batch_that_is_split_into_equal_counts_counts_as_written(
    world: World,
    delivery: str,
    source: str | None,
    task: int,
    before: list[list[str]],
    after: list[list[str]],
) -> None:
    play(world.run(delivery=delivery), 0, before, source)
    play(world.run(delivery=delivery), 0, after, source)
    others = [[value + "!" for value in values] for values in after]
    with pytest.raises(CheckpointBehind):
        play(world.run(delivery=delivery), 0, others, source)
    assert world.committed() == Counter(all_values(before))


@both_deliveries
def test_rows_are_compared_although_the_source_offsets_are_the_same(world: World, delivery: str) -> None:
    """The same offsets with other rows, as after a topic was deleted and created again."""
    play(world.run(delivery=delivery), 0, [["a"], ["b"]], OFFSETS)
    with pytest.raises(CheckpointBehind, match=r"task 1 .* other keys or values"):
        play(world.run(delivery=delivery), 0, [["a"], ["c"]], OFFSETS)
    assert set(world.committed()) == {"a", "b"}


def test_crash_of_the_driver_in_the_replay_of_a_batch_committed_in_part(world: World) -> None:
    write(world.run(delivery=PER_TASK), 0, [["a"], []], OFFSETS)
    values = [["a"], ["b"], ["c"]]
    killed = world.run(delivery=PER_TASK)
    write(killed, 0, values, OFFSETS)  # before the decision
    killed = world.run(delivery=PER_TASK)

    def die() -> None:
        raise KeyboardInterrupt

    for step in ("before-decided", "after-decided"):
        killed = world.run(delivery=PER_TASK)
        at_step[step] = die
        with pytest.raises(KeyboardInterrupt):
            play(killed, 0, values, OFFSETS)
    again = world.run(delivery=PER_TASK)
    play(again, 0, values, OFFSETS)
    play(again, 1, [["d"]], OFFSETS)
    assert world.committed() == Counter("abcd")


def test_replay_of_a_partly_committed_batch_with_a_task_that_runs_twice(world: World) -> None:
    """A stage that runs again, or a task that was killed after its marker: the later attempt counts."""
    write(world.run(delivery=PER_TASK), 0, [["a"], []], OFFSETS)
    replay = world.run(delivery=PER_TASK)
    values = [["a"], ["b"], ["c"]]
    write(replay, 0, values, OFFSETS)
    play(replay, 0, values, OFFSETS)
    assert world.committed() == Counter("abc")


def test_task_of_a_partly_committed_batch_that_runs_again_leaves_its_siblings_open(world: World) -> None:
    """Its killed attempt left a marker behind those of transactions that the driver commits later."""
    write(world.run(delivery=PER_TASK), 0, [["a"], []], OFFSETS)
    replay = world.run(delivery=PER_TASK)
    messages = write(replay, 0, [["a"], ["b"], ["c"]], OFFSETS)
    epoch = attrs.evolve(replay.epoch(0), source=OFFSETS)
    rows = [pa.record_batch({"value": pa.array(["c"])})]
    again = write_epoch(replay.options, epoch, rows, TaskPlace(2, 1, False))
    replay.commit(0, [*messages[:2], again])
    assert world.committed() == Counter("abc")


def test_second_batch_committed_in_part_and_split_in_another_way_commits_nothing(
    world: World,
) -> None:
    """The run that committed a task is the one that finished the batch before."""
    first = world.run(delivery=PER_TASK)
    play(first, 0, [["a"], ["b"]], OFFSETS)
    write(first, 1, [[], ["d"]], OFFSETS)
    with pytest.raises(CheckpointBehind, match=r"task 1 .* other keys or values"):
        write(world.run(delivery=PER_TASK), 1, [["d"], ["c"]], OFFSETS)
    assert world.committed() == Counter("abd")
    play(world.run(delivery=PER_TASK), 1, [["c"], ["d"]], OFFSETS)
    assert world.committed() == Counter("abcd")


def test_committed_task_from_other_source_offsets_raises_checkpoint_behind(world: World) -> None:
    """With replayCheck=counts, nothing else shows that it has other rows."""
    write(world.run(delivery=PER_TASK, replayCheck="counts"), 0, [["a"]], OFFSETS)
    with pytest.raises(CheckpointBehind, match="other source offsets"):
        write(world.run(delivery=PER_TASK, replayCheck="counts"), 0, [["b"]], "digest of other offsets")


def test_replay_check_none_continues_a_batch_committed_in_part(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    write(world.run(delivery=PER_TASK), 0, [["a", "b"], []])
    play(world.run(delivery=PER_TASK, replayCheck="none"), 0, [["a"], ["c"]])
    assert "task 0 had 2 rows and has 1 row now" in caplog.text
    assert world.committed() == Counter("abc")


@both_deliveries
def test_copy_of_a_checkpoint_with_other_source_offsets_claims_nothing(world: World, delivery: str) -> None:
    """The healthy query continues."""
    healthy = world.run(delivery=delivery)
    play(healthy, 0, [["a"]], OFFSETS)
    with pytest.raises(CheckpointBehind, match="other source offsets"):
        write(world.run(delivery=delivery), 0, [["b"]], "digest of other offsets")
    play(healthy, 1, [["c"]], OFFSETS)
    assert world.committed() == Counter("ac")
