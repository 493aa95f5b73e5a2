"""The short ways of records with and without a key do what the whole way does, whatever comes between."""

from __future__ import annotations

import dis
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2 import KafkaProducer
from pykafka2.aio import KafkaProducer as AsyncProducer
from pykafka2.errors import ClientClosed, ForkedClientError, IllegalState, KafkaError, RecordPurged
from pykafka2.producer.accumulator import batch_sizes
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.producer.accumulator.open_batch import NS_PER_MS, append_unlocked
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.delivery import callbacks
from pykafka2.producer.partitioning.key_hashes import positive_murmur2
from pykafka2.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka2.records.encoder import SHORT
from pykafka2.testing import Simulation
from pykafka2.types import RecordMetadata
from tests.driver.interleave import at_every_line, at_line
from tests.gate import examples
from tests.producer.rows import a_batch, appended


@attrs.frozen
class Step:
    """A send, and how many seconds pass before it."""

    arguments: dict[str, Any]
    pause: float
    tells: bool


OTHER_ARGUMENTS: list[dict[str, Any]] = [
    {"value": None},
    {"value": "text"},
    {"value": bytearray(b"bytes-like")},
    {"value": b"v", "key": b"key"},
    {"value": b"v" * 90, "key": b"another key"},
    {"value": b"v", "key": b""},
    {"value": b"v", "key": "text"},
    {"value": "text", "key": b"key"},
    {"value": b"v", "key": bytearray(b"bytes-like")},
    {"value": b"v", "key": b"key", "partition": 1},
    {"value": b"v", "key": b"key", "headers": [("h", b"1")]},
    {"value": b"v", "key": b"key", "timestamp_ms": 5},
    {"value": b"v", "key": b"key", "on_delivery": "no callable"},
    {"value": b"v", "key": b"key", "topic": ["no topic"]},
    {"value": b"v", "headers": [("h", b"1")]},
    {"value": b"v", "partition": 0},
    {"value": b"v", "timestamp_ms": 5},
    {"value": b"v", "on_delivery": "no callable"},
    {"value": b"v", "topic": ["no topic"]},
]
ARGUMENTS = st.one_of(
    st.fixed_dictionaries({"value": st.sampled_from([b"", b"x" * 100, b"y" * 70, b"z" * 2000])}),
    st.sampled_from(OTHER_ARGUMENTS),
)
PAUSES = st.sampled_from([0.0, 0.0, 0.0, 0.0003, 0.001, 0.02])
STEPS = st.lists(st.builds(Step, ARGUMENTS, PAUSES, st.booleans()), min_size=1, max_size=40)


class World:
    """A producer of its own with a cluster of its own, in a time of its own."""

    def __init__(self, *, is_short: bool) -> None:
        self.simulation = Simulation(seed=7)
        self.cluster = self.simulation.cluster(brokers=1, topics={"orders": 3})
        self.producer = self.simulation.producer(self.cluster, linger_ms=10, batch_size=1000)
        if not is_short:
            self.producer._open_batches = self.producer._shortcut = None

    def play(self, steps: list[Step]) -> list[Any]:
        """The results: errors, outcomes in order, each record's metadata, the requests."""
        came: list[Any] = []
        deliveries = []
        for number, step in enumerate(steps):
            self.simulation.sleep(step.pause)
            arguments = {"topic": "orders", **step.arguments}
            if step.tells:
                arguments.setdefault(
                    "on_delivery", lambda *outcome, number=number: came.append((number, outcome))
                )
            try:
                deliveries.append(self.producer.send(**arguments))
            except KafkaError as error:
                came.append((type(error), str(error)))
        self.producer.flush(30)
        came += [delivery.result(0) for delivery in deliveries]
        came += self.cluster.history.requests("Produce")
        self.cluster.history.clear()
        return came


@pytest.mark.slow
def test_short_and_full_send_paths_write_and_report_the_same() -> None:
    one, other = World(is_short=True), World(is_short=False)

    @settings(max_examples=examples(30), deadline=None, database=None)
    @given(STEPS)
    def check(steps: list[Step]) -> None:
        assert repr(one.play(steps)) == repr(other.play(steps))

    with one.simulation, other.simulation:
        check()
        assert one.producer._core.open_batches


def test_send_with_each_argument_does_the_same_while_batches_are_open() -> None:
    """A batch is open at the sticky partition and at those of all keys, in the same millisecond."""
    keys = sorted({step["key"] for step in OTHER_ARGUMENTS if isinstance(step.get("key"), bytes)})
    opening = [{"value": b"v"}, *({"value": b"v", "key": key} for key in keys)]
    one, other = World(is_short=True), World(is_short=False)
    with one.simulation, other.simulation:
        for arguments in OTHER_ARGUMENTS:
            steps = [Step(each, 0.0, tells=True) for each in (*opening, *opening, arguments, *opening)]
            assert repr(one.play(steps)) == repr(other.play(steps))


@pytest.mark.parametrize(
    ("options", "partition"),
    [
        ({}, positive_murmur2(b"key") % 3),
        ({"partitioner": lambda key, every, available: every[(positive_murmur2(b"key") + 1) % 3]}, None),
        ({"partitioner_ignore_keys": True}, None),
    ],
    ids=["default", "callable", "keys ignored"],
)
def test_key_decides_only_by_the_default_though_a_batch_is_open_at_its_partition(
    options: dict[str, Any], partition: int | None
) -> None:
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"orders": 3})
        producer = simulation.producer(cluster, linger_ms=60_000, **options)
        for number in range(3):
            producer.send("orders", b"v", partition=number)
        sticky = producer.send("orders", b"v")
        kept = [producer.send("orders", b"v", b"key") for _ in range(3)]
        producer.flush(30)
        assert {one.result(0).partition for one in kept} == {
            sticky.result(0).partition if partition is None else partition
        }


@pytest.mark.parametrize("arguments", [{"value": b""}, {"value": b"", "key": b"key"}], ids=str)
def test_records_of_one_millisecond_fill_batches_to_batch_size(arguments: dict[str, Any]) -> None:
    steps = [Step(arguments, 0.0, tells=False)] * 300
    one, other = World(is_short=True), World(is_short=False)
    with one.simulation, other.simulation:
        assert repr(one.play(steps)) == repr(other.play(steps))


@pytest.mark.pure
@pytest.mark.parametrize("key", [None, b"key"])
def test_record_has_the_millisecond_in_which_it_was_sent(key: bytes | None) -> None:
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"orders": 1})
        producer = simulation.producer(cluster, linger_ms=60_000)
        now_ns = producer._core.driver.clock.wall_ms() * NS_PER_MS
        times = [0, 0, NS_PER_MS - 1, NS_PER_MS, NS_PER_MS, 2 * NS_PER_MS, 2 * NS_PER_MS - 1, 7 * NS_PER_MS]
        for after_ns in times:
            producer._wall_ns = producer._core.appender._wall_ns = partial(int, now_ns + after_ns)
            producer.send("orders", b"v", key)
        producer.flush(30)
        written = [record.timestamp for record in cluster.log("orders", 0).records()]
        assert written == [(now_ns + after_ns) // NS_PER_MS for after_ns in times]


def by_taking(producer: KafkaProducer, queue: PartitionQueue) -> None:
    """Expire the batch like the IO thread."""
    if queue.batches:
        batch = queue.take()
        taken = [*batch.fields]
        batch.bytes()
        assert batch.fields == taken
        queue.batches.appendleft(batch)


def by_sending(producer: KafkaProducer, queue: PartitionQueue) -> None:
    """Append like a signal handler, or another thread."""
    try:
        producer.send("orders", b"between")
    except IllegalState:  # it came between two lines under a lock
        pass


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("action", [by_taking, by_sending])
@pytest.mark.parametrize(
    ("way", "key", "partition"),
    [
        (KafkaProducer.send, None, None),
        (KafkaProducer.send, b"key", None),
        (PartitionQueue.try_append, b"key", 0),
        pytest.param(append_unlocked, None, 0, marks=pytest.mark.pure),
        pytest.param(append_unlocked, b"key", 0, marks=pytest.mark.pure),
    ],
)
def test_send_interrupted_between_two_lines_loses_no_record(
    action: Callable[[KafkaProducer, PartitionQueue], None],
    way: Any,
    key: bytes | None,
    partition: int | None,
) -> None:
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"orders": 1})
        producer = simulation.producer(cluster, linger_ms=60_000)
        queue = producer._core.accumulator.queue("orders", 0)

        def attempt(line: int) -> bool:
            before = len(cluster.log("orders", 0).values())
            kept = [producer.send("orders", b"first")]

            def run() -> None:
                kept.extend(
                    producer.send("orders", b"%d" % number, key, partition=partition) for number in range(3)
                )

            has_line = at_line(way.__code__, line, lambda: action(producer, queue), run)
            producer.flush(30)
            values = cluster.log("orders", 0).values()
            assert [values[delivery.result(0).offset] for delivery in kept] == [b"first", b"0", b"1", b"2"]
            assert len(values) - before == 4 + values[before:].count(b"between")
            return has_line

        assert len(list(at_every_line(attempt))) > 5


@pytest.mark.parametrize("error", [ClientClosed, ForkedClientError])
def test_a_closed_producer_and_a_childs_have_no_short_way(error: type[KafkaError]) -> None:
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"orders": 1})
        producer = simulation.producer(cluster, linger_ms=60_000)
        producer.send("orders", b"v")
        assert producer._core.open_batches
        if error is ClientClosed:
            producer.close()
        else:
            producer._on_fork_in_child(ForkedClientError())
            producer._tracked.end()  # or the exit of this process would miss the record
        with pytest.raises(error):
            producer.send("orders", b"v")
        assert producer._open_batches is producer._shortcut is producer._core.open_batches is None


def test_headers_and_timestamp_of_a_keyed_record_are_written() -> None:
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"orders": 1})
        producer = simulation.producer(cluster, linger_ms=60_000)
        for own in ({}, {"headers": [("h", b"1")]}, {"timestamp_ms": 5}):
            producer.send("orders", b"v", b"key", **own)
        producer.flush(30)
        first, headed, timed = cluster.log("orders", 0).records()
        assert (first.headers, headed.headers, timed.timestamp) == ([], [("h", b"1")], 5)


def test_keyed_records_go_to_the_partitions_of_now_though_a_batch_is_open_at_the_old_one() -> None:
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"orders": 1})
        producer = simulation.producer(cluster, linger_ms=60_000, metadata_max_age_ms=1000)
        old = producer.send("orders", b"v", b"abc")
        more = CreatePartitionsTopic(name="orders", count=6, assignments=None)
        request = CreatePartitionsRequest(topics=[more], timeout_ms=5000, validate_only=False)
        simulation.client(cluster).request(request)
        simulation.sleep(3)
        new = producer.send("orders", b"v", b"abc")
        producer.flush(30)
        assert (old.result(0).partition, new.result(0).partition) == (0, positive_murmur2(b"abc") % 6)


@pytest.mark.pure
def test_a_clock_that_is_set_back_is_followed_at_once() -> None:
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"orders": 1})
        producer = simulation.producer(cluster, linger_ms=60_000)
        now_ms = producer._core.driver.clock.wall_ms()
        times = [now_ms, now_ms, now_ms - 3]
        kept = []
        for time_ms in times:
            producer._wall_ns = producer._core.appender._wall_ns = partial(int, time_ms * NS_PER_MS)
            kept.append(producer.send("orders", b"v"))
        producer.flush(30)
        assert [one.result(0).timestamp for one in kept] == times


def test_no_record_takes_the_short_way_to_a_batch_that_began_later() -> None:
    """Its timestamp takes more bytes there than the fast path assumes."""
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"orders": 1})
        producer = simulation.producer(cluster, linger_ms=60_000)
        later_ms = producer._core.driver.clock.wall_ms() + 60_000
        kept = [producer.send("orders", b"v", timestamp_ms=later_ms), producer.send("orders", b"v")]
        assert not producer._core.open_batches
        kept.append(producer.send("orders", b"v"))
        producer.flush(30)
        assert [delivery.result(0).offset for delivery in kept] == [0, 1, 2]


@pytest.mark.pure
def test_keyed_record_in_a_batch_that_began_later_has_its_own_timestamp() -> None:
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"orders": 1})
        producer = simulation.producer(cluster, linger_ms=60_000)
        now_ms = producer._core.driver.clock.wall_ms()
        producer._wall_ns = producer._core.appender._wall_ns = partial(int, now_ms * NS_PER_MS)
        kept = [producer.send("orders", b"v", b"key", timestamp_ms=now_ms + 60_000)]
        kept += [producer.send("orders", b"v", b"key") for _ in range(2)]
        producer.flush(30)
        assert [one.result(0).timestamp - now_ms for one in kept] == [60_000, 0, 0]


@pytest.mark.pure
def test_without_gil_every_record_is_checked_for_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_sizes, "HAS_GIL", False)
    step_bytes, _ = batch_sizes.next_step(10_000, 500, 5)
    assert step_bytes == 0


@pytest.mark.parametrize(("count", "is_checked"), [(10, False), (batch_sizes.MANY_RECORDS, True)])
def test_records_with_offsets_of_four_bytes_are_checked_for_size(count: int, is_checked: bool) -> None:
    step_bytes, _ = batch_sizes.next_step(10_000, 100 * count, count)
    assert (step_bytes == 0) is is_checked


def test_step_has_room_for_one_record_with_long_lengths_at_most() -> None:
    step_bytes, reserved_bytes = batch_sizes.next_step(1 << 20, 100_000, 10)
    assert step_bytes == batch_sizes.LARGEST_STEP_BYTES < 2 * SHORT
    assert reserved_bytes == batch_sizes.LONG_LENGTHS
    assert batch_sizes.next_step(SHORT - 1, 100_000, 10) == (SHORT - 1, 0)


@pytest.mark.gate
@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_append_without_a_lock_needs_the_gil_of_the_running_interpreter(is_enabled: bool) -> None:
    """A build without the GIL can have it enabled again, as by PYTHON_GIL=1 or an extension module."""
    code = f"import sys; sys._is_gil_enabled = lambda: {is_enabled}; "
    code += "from pykafka2.producer.accumulator.batch_sizes import HAS_GIL; print(HAS_GIL)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(is_enabled)


class GuardedBatches(deque[ProducerBatch]):
    """On a free-threaded build, a deque that another thread appends to cannot be iterated."""

    lock: threading.Lock

    def __iter__(self) -> Iterator[ProducerBatch]:
        if not self.lock.locked():
            raise RuntimeError("deque mutated during iteration")
        return super().__iter__()


def test_purge_holds_the_lock_while_it_lists_the_batches_of_a_queue() -> None:
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"orders": 1})
        producer = simulation.producer(cluster, linger_ms=60_000)
        delivery = producer.send("orders", b"v")
        [queue] = producer._core.accumulator.waiting_queues()
        queue.batches = guarded = GuardedBatches(queue.batches)
        guarded.lock = queue.lock
        assert producer.purge() == 1
        assert isinstance(delivery.exception(0), RecordPurged)


@pytest.mark.parametrize("has_gil", [True, False])
def test_callback_of_the_next_record_joins_a_run_only_under_the_global_lock(
    has_gil: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, the IO thread can take the run between the look at it and its growth."""
    monkeypatch.setattr(callbacks, "HAS_GIL", has_gil, raising=False)
    batch = a_batch()
    outcomes: list[RecordMetadata] = []
    tell = outcomes.append
    for number in range(3):
        appended(batch, number).add_callback(tell)
    assert batch.outcome is not None
    added, _ = batch.outcome.listeners()
    assert len(added._runs) == (1 if has_gil else 3)
    batch.seal()
    batch.complete(7, -1)
    assert [metadata.offset for metadata in outcomes] == [7, 8, 9]


@pytest.mark.pure
@pytest.mark.parametrize("way", [append_unlocked, KafkaProducer.send, AsyncProducer.send])
def test_the_line_by_which_a_record_joins_has_no_place_where_others_come_in(way: Callable[..., Any]) -> None:
    """No call, no jump back, and no line of its own in between for tracers."""
    [line] = [line for line in lines_of(dis.get_instructions(way)) if stores_count(line)]
    names = {one.opname for one in line}
    assert not [name for name in names if "CALL" in name or "BACKWARD" in name or "RESUME" in name]
    assert {"fields", "count", "room_bytes"} <= set(names_in(line))


def lines_of(instructions: Any) -> list[list[Any]]:
    lines: list[list[Any]] = []
    for one in instructions:
        is_new = one.starts_line if isinstance(one.starts_line, bool) else one.starts_line is not None
        if is_new or not lines:
            lines.append([])
        lines[-1].append(one)
    return lines


def names_in(line: list[Any]) -> Iterator[str]:
    """From CPython 3.13 on one instruction loads two variables; its value is the tuple of their names."""
    for one in line:
        values = one.argval if isinstance(one.argval, tuple) else (one.argval,)
        yield from map(str, values)


def stores_count(line: list[Any]) -> bool:
    return any(one.opname == "STORE_ATTR" and one.argval == "count" for one in line)
