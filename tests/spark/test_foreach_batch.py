"""`exactly_once_batches` without Spark: what it does with batches that are there, wholly or in part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Self

import attrs
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pykafka2 import KafkaProducer
from pykafka2.testing import ClusterApi
from spark_connector import connections, exactly_once_batches
from spark_connector.errors import CheckpointBehind, PartlyCommitted, SupersededRun, WrongSchema
from spark_connector.sink import writers as batch_module
from spark_connector.sink.context import TaskPlace
from spark_connector.sink.foreach_batch import ExactlyOnceBatches
from tests.spark.test_exactly_once import TASKS, World, all_of, rows

pytestmark = pytest.mark.slow

at_step: dict[str, Callable[[dict[str, Any]], None]] = {}


def on_step(step: str, known: dict[str, Any]) -> None:
    action = at_step.pop(step, None)
    if action is not None:
        action(known)


@pytest.fixture(autouse=True)
def _hooked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYKAFKA2_SPARK_STEP_HOOK", f"{__name__}:on_step")
    yield
    at_step.clear()
    connections.close_all()


@attrs.define
class Frame:
    """The part of a DataFrame that the helper uses; saving it plays the tasks one after the other."""

    number: int
    monkeypatch: pytest.MonkeyPatch
    schema: StructType = attrs.field(factory=lambda: StructType([StructField("value", StringType())]))
    saved: list[str] = attrs.Factory(list)
    values: list[list[str] | None] | None = None
    """By task; a task without a list fails."""
    _options: dict[str, str] = attrs.Factory(dict)

    @property
    def write(self) -> Self:
        return self

    def format(self, name: str) -> Self:
        self.saved.append(name)
        return self

    def mode(self, name: str) -> Self:
        return self

    def options(self, **settings: str) -> Self:
        self._options = {name.lower(): value for name, value in settings.items()}  # as Spark does
        return self

    def save(self) -> None:
        writer = batch_module.batch_writer(self._options, self.schema, False)
        messages: list[Any] = []
        try:
            for task, of_task in enumerate(self._tasks()):
                self.monkeypatch.setattr(
                    batch_module, "task_place", lambda task=task: TaskPlace(task, 0, False)
                )
                messages.append(writer.write(iter(of_task)))
            writer.commit(list(messages))
        except Exception:
            writer.abort(list(messages))
            raise

    def _tasks(self) -> Iterator[list[pa.RecordBatch]]:
        if self.values is None:
            yield from (rows(self.number, task) for task in range(TASKS))
            return
        for values in self.values:
            if values is None:
                raise RuntimeError("the task fails")
            yield [pa.record_batch({"value": pa.array(values, pa.string())})]


Play = Callable[[ExactlyOnceBatches, int], list[str]]


@pytest.fixture
def world(spark_kafka: ClusterApi, topic: str) -> World:
    return World(spark_kafka.bootstrap_servers, topic)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Hand a batch to the helper; return the formats in which it was saved."""

    def play(batches: ExactlyOnceBatches, number: int) -> list[str]:
        frame = Frame(number, monkeypatch)
        batches(frame, number)  # type: ignore[arg-type]
        return frame.saved

    return play


def helper(world: World, **more: str) -> ExactlyOnceBatches:
    options = {"kafka.bootstrap.servers": world.servers, "topic": world.topic}
    return exactly_once_batches(world.query, ledgerTopic=f"ledger-{world.query}", **options, **more)


@pytest.mark.parametrize("delivery", ["exactly_once", "exactly_once_per_task"])
def test_a_batch_that_is_there_is_computed_and_not_written(world: World, play: Play, delivery: str) -> None:
    first = helper(world, delivery=delivery)
    assert play(first, 0) == ["pykafka2"]
    assert play(first, 0) == ["pykafka2"]
    later = helper(world, delivery=delivery)  # after a restart
    assert play(later, 0) == ["pykafka2"]
    assert play(later, 1) == ["pykafka2"]
    assert world.committed() == all_of(0, 1)
    with pytest.raises(SupersededRun):
        play(first, 2)
    with pytest.raises(CheckpointBehind):
        play(later, 0)


def test_batch_decided_by_a_failed_call_is_finished_by_the_next(world: World, play: Play) -> None:
    def fail(known: dict[str, Any]) -> None:
        raise RuntimeError("out of memory")

    batches = helper(world)
    at_step["after-decided"] = fail
    with pytest.raises(RuntimeError):
        play(batches, 0)
    assert len(world.ongoing()) == TASKS
    assert play(batches, 0) == ["pykafka2"]
    assert world.committed() == all_of(0)


def test_missing_part_of_a_decided_batch_is_written(world: World, play: Play) -> None:
    def lose_one(known: dict[str, Any]) -> None:
        """Abort it like its coordinator after its time-out."""
        name = next(one for one in world.ongoing() if one.endswith("/2/0"))
        with KafkaProducer(bootstrap_servers=world.servers, transactional_id=name) as producer:
            producer.init_transactions()

    batches = helper(world)
    at_step["after-decided"] = lose_one
    with pytest.raises(PartlyCommitted, match="lacks partition 2 of 3 tasks"):
        play(batches, 0)
    assert world.committed() == all_of(0, tasks=2)
    assert play(helper(world), 0) == ["pykafka2"]
    assert world.committed() == all_of(0)


@pytest.mark.parametrize(
    "after",
    [[["a"], ["b"]], [["a", "b"], [], []], [["b"], [], ["a"]]],
    ids=["fewer tasks", "a task without rows", "equal counts"],
)
def test_batch_committed_in_part_by_a_failed_call_and_split_differently_commits_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, after: list[list[str] | None]
) -> None:
    """The query is started again with the same function, in the same process."""
    batches = helper(world, delivery="exactly_once_per_task")

    def call(values: list[list[str] | None]) -> None:
        batches(Frame(0, monkeypatch, values=values), 0)  # type: ignore[arg-type]

    with pytest.raises(RuntimeError, match="the task fails"):
        call([[], [], ["b"], None])
    assert world.committed() == Counter("b")
    for _ in range(2):
        with pytest.raises(CheckpointBehind):
            call(after)
        assert world.committed() == Counter("b")
    call([["a"], [], ["b"]])
    assert world.committed() == Counter("ab")
    assert world.ongoing() == []


def test_rows_of_a_wrong_type_are_rejected_before_any_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = Frame(0, monkeypatch, StructType([StructField("value", LongType())]))
    with pytest.raises(WrongSchema, match="'value' is bigint"):
        helper(world)(frame, 0)  # type: ignore[arg-type]
    assert frame.saved == []
