"""Ctrl-C at any moment of the caller's thread, and polling on: nothing is lost, doubled, or waits for ever.

Python raises in the main thread after a call into C, or at the beginning of a function: both are tried here,
one moment a run, in virtual time.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
import pytest

import pykafka2.consumer
import pykafka2.interrupts
from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.consumer.fetch.fetched_data import FetchedData
from pykafka2.records.columns import GrowingColumns
from pykafka2.testing import QUICK, KafkaCluster, Simulation
from pykafka2.types import ConsumerRecord
from tests.consumer.group.kip848.groups import consumer_group
from tests.consumer.group.life import Group
from tests.consumer.logs import LogCluster, build_batch
from tests.gate import examples, rest_in_gate

ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
RECORDS = 12
CONSUMER = str(Path(pykafka2.consumer.__file__).parent)
INTERRUPTS = str(Path(pykafka2.interrupts.__file__))
ASSIGNORS = str(Path(CONSUMER) / "assignors")
"""They run on a thread of their own."""


class Interrupted(KeyboardInterrupt):
    """A Ctrl-C."""


@attrs.define(eq=False)
class Interruption:
    """Strikes once, at a moment counted from the beginning, or counted within one function."""

    at: int
    within: str
    is_elsewhere: Callable[[], bool]
    """Whether this is another thread's work."""
    moments: int = 0
    where: str = ""

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        if (
            event not in ("call", "c_return")
            or not path.startswith((CONSUMER, INTERRUPTS))
            or path.startswith(ASSIGNORS)
        ):
            return
        # Python ignores what is raised in a generator expression that is being thrown away.
        name = frame.f_code.co_name
        if self.is_elsewhere() or name == "<genexpr>" or self.within not in ("", name):
            return
        self.moments += 1
        if self.moments == self.at:
            self.where = f"{frame.f_code.co_name}:{frame.f_lineno} {getattr(argument, '__name__', event)}"
            raise Interrupted

    @contextmanager
    def strikes(self) -> Iterator[None]:
        before = sys.getprofile()
        sys.setprofile(self.profile)
        try:
            yield
        finally:
            sys.setprofile(before)


@attrs.define(eq=False)
class Story:
    """A member of a group that reads to the end, interrupted at one moment."""

    consumer: KafkaConsumer
    read: dict[TopicPartition, list[int]] = attrs.Factory(lambda: {one: [] for one in ORDERS})
    held: Counter[TopicPartition] = attrs.Factory(Counter)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.held.update(partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.held.subtract(partitions)

    def poll(self) -> None:
        for partition, records in self.consumer.poll(200).items():
            self.read[partition] += [record.offset for record in records]

    def iterate(self) -> None:
        for record in self.consumer:
            self.read[TopicPartition(record.topic, record.partition)].append(record.offset)

    def is_over(self) -> bool:
        return all(len(offsets) >= RECORDS for offsets in self.read.values())


def play(at: int, way: str, protocol: str, within: str = "") -> Interruption:
    with Simulation(seed=1) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"orders": 2}, config=dict(QUICK))
        with simulation.producer(cluster) as producer:
            for topic, number in ORDERS:
                for value in range(RECORDS):
                    producer.send(topic, b"%d" % value, partition=number)
        consumer = simulation.consumer(
            cluster,
            group_id="g",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
            max_poll_records=5,
            consumer_timeout_ms=300,
            group_protocol=protocol,
        )
        story = Story(consumer)
        consumer.subscribe(["orders"], listener=story)
        interruption = Interruption(at, within, consumer._core.cluster.driver.is_own_thread)
        read = getattr(story, way)
        with interruption.strikes():
            for turn in range(40):
                try:
                    read()
                except Interrupted:
                    pass
                if story.is_over() and turn > 8:
                    break
        check(cluster, story, interruption.where)
        if way == "poll":  # an iteration reads records again that it has polled and not returned
            metrics, logs = consumer.metrics(), [cluster.log("orders", partition) for partition in (0, 1)]
            size_bytes = sum(batch.size_bytes for log in logs for batch in log.batches())
            assert metrics["records-consumed-total"] == 2 * RECORDS, interruption.where
            assert metrics["bytes-consumed-total"] == size_bytes, interruption.where
    return interruption


def check(cluster: KafkaCluster, story: Story, where: str) -> None:
    assert story.read == {one: list(range(RECORDS)) for one in ORDERS}, where
    assert story.held == dict.fromkeys(ORDERS, 1), where
    assert story.consumer.assignment() == set(ORDERS), where
    story.consumer.close()
    assert dict(cluster.group("g").offsets) == dict.fromkeys(ORDERS, RECORDS), where


WAYS = [("poll", "classic"), ("iterate", "classic"), ("poll", "consumer"), ("iterate", "consumer")]


@pytest.mark.gate
@pytest.mark.parametrize(("way", "protocol"), WAYS)
def test_interrupted_member_continues(way: str, protocol: str) -> None:
    moments = play(0, way, protocol).moments
    for at in range(7, moments, moments // examples(12)):
        play(at, way, protocol)


# Each moved something, or said that it had, before it was sure to go on.
STEPS = [
    ("_call", "poll", "classic"),
    ("_apply", "poll", "classic"),
    ("begin_assignment", "poll", "classic"),
    ("replace", "poll", "classic"),
    ("_join_if_needed", "poll", "classic"),
    ("_send_subscription", "poll", "consumer"),
    ("_reconcile", "poll", "consumer"),
    ("_finish", "poll", "classic"),
    ("guarded", "iterate", "classic"),
    ("put", "iterate", "classic"),
    ("_replace", "iterate", "classic"),
    ("cut", "iterate", "classic"),
    ("move_last", "poll", "classic"),
    ("drop", "poll", "classic"),
    ("discard", "poll", "classic"),
]


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(("step", "way", "protocol"), rest_in_gate(STEPS))
def test_interrupted_position_changes_take_effect_whole_or_not_at_all(
    step: str, way: str, protocol: str
) -> None:
    moments = min(play(0, way, protocol, step).moments, examples(6))
    assert moments
    for at in range(1, moments + 1):
        play(at, way, protocol, step)


GIVING_UP = [
    (step, protocol)
    for step in (
        "remove_partitions",
        "consumed_offsets",
        "_begin_last_commit",
        "begin_revocation",
        "_forget",
        "_clear_position",
    )
    for protocol in ("consumer", "classic")
]


def give_up(at: int, protocol: str, within: str) -> Interruption:
    """A member reads everything, and is interrupted when it gives a half of it up for another."""
    with Simulation(seed=1) as simulation:
        group = (consumer_group if protocol == "consumer" else Group)(simulation, brokers=1)
        values = group.produce(30)
        first = group.member("a")
        group.turn_until(lambda: len(first.read) == 30, 20)
        second = group.member("b")
        drivers = [member.consumer._core.cluster.driver for member in group.members]
        interruption = Interruption(at, within, lambda: any(driver.is_own_thread() for driver in drivers))
        while not group.is_settled():
            with interruption.strikes(), suppress(Interrupted):
                first.poll()
            second.poll()
            assert simulation.now < 60, group.describe()
        group.turn(1)
        assert sorted([*first.read, *second.read]) == sorted(values), interruption.where
        assert group.problems == [], interruption.where
    return interruption


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(("step", "protocol"), rest_in_gate(GIVING_UP))
def test_revoked_partitions_are_committed_and_reported_once_despite_ctrl_c(step: str, protocol: str) -> None:
    moments = give_up(0, protocol, step).moments
    assert moments
    for at in range(1, min(moments, examples(6)) + 1):
        give_up(at, protocol, step)


def end(at: int, protocol: str, call: str) -> Interruption:
    """One of two members leaves, and is interrupted: the other does not wait for its session to end."""
    with Simulation(seed=1) as simulation:
        group = (consumer_group if protocol == "consumer" else Group)(simulation, brokers=1)
        first, second = group.member("a"), group.member("b")
        group.settle()
        drivers = [member.consumer._core.cluster.driver for member in group.members]
        interruption = Interruption(at, "", lambda: any(driver.is_own_thread() for driver in drivers))
        with interruption.strikes(), suppress(Interrupted):
            getattr(first.consumer, call)()
        getattr(first.consumer, call)()
        group.members.remove(first)
        assert group.turn_until(lambda: len(second.owned) == 6, 20) < 3, interruption.where
    return interruption


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("call", ["close", "unsubscribe"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_member_leaves_its_group_though_a_ctrl_c_strikes(protocol: str, call: str) -> None:
    moments = end(0, protocol, call).moments
    for at in (4, *range(7, moments, moments // 4), moments - 6):
        end(at, protocol, call)


@pytest.mark.gate
@pytest.mark.slow
def test_records_that_are_taken_back_from_an_iteration_come_once() -> None:
    """pause() in the middle of an iteration, interrupted at each moment."""
    at, moments = 0, 1
    while at < moments:
        cluster = LogCluster({"orders": [0, 0]}, brokers=1)
        for partition in range(2):
            cluster.append("orders", partition, *[b"x"] * RECORDS)
        with cluster.consumer("orders", consumer_timeout_ms=2000) as consumer:
            read: dict[TopicPartition, list[int]] = {one: [] for one in ORDERS}
            story = Story(consumer, read)
            for number, record in enumerate(consumer):
                read[TopicPartition(record.topic, record.partition)].append(record.offset)
                if number == 15:
                    break
            interruption = Interruption(at, "", consumer._core.cluster.driver.is_own_thread)
            with interruption.strikes(), suppress(Interrupted):
                consumer.pause(*ORDERS)
            consumer.resume(*ORDERS)
            story.iterate()
            assert read == {one: list(range(RECORDS)) for one in ORDERS}, interruption.where
            at, moments = at + 1, max(moments, interruption.moments)
    assert moments > 20


def test_a_seek_after_a_pause_that_was_interrupted_is_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, *[b"x"] * RECORDS)
    with cluster.consumer("orders", consumer_timeout_ms=2000) as consumer:
        assert next(consumer).offset == 0
        with monkeypatch.context() as patched:
            patched.setattr(consumer._core.position_control, "rewind", interrupt)
            with pytest.raises(KeyboardInterrupt):
                consumer.pause(ORDERS[0])
        consumer.seek(ORDERS[0], RECORDS - 1)
        assert [record.offset for record in consumer] == [RECORDS - 1]


def interrupt_amid_iteration(
    call: Callable[[KafkaConsumer], None], within: str
) -> Iterator[tuple[KafkaConsumer, str]]:
    """Consumers that have handed out two of many records when the call was interrupted, moment by moment."""
    at, moments = 0, 0  # the first one is not interrupted, and counts
    while at <= moments:
        cluster = LogCluster({"orders": [0, 0], "payments": [0]}, brokers=1)
        for topic, number in [*ORDERS, ("payments", 0)]:
            cluster.append(topic, number, *[b"x"] * RECORDS)
        with cluster.consumer("orders", consumer_timeout_ms=2000) as consumer:
            assert [next(consumer).offset, next(consumer).offset] == [0, 1]
            interruption = Interruption(at, within, consumer._core.cluster.driver.is_own_thread)
            with interruption.strikes(), suppress(Interrupted):
                call(consumer)
            yield consumer, interruption.where
            at, moments = at + 1, max(moments, interruption.moments)
    assert moments > 0


@pytest.mark.parametrize("within", ["seek", "reset"])
def test_a_seek_that_was_interrupted_skips_no_record(within: str) -> None:
    def seek(consumer: KafkaConsumer) -> None:
        consumer.seek(ORDERS[0], 7) if within == "seek" else consumer.seek_to_end(ORDERS[0])

    for consumer, where in interrupt_amid_iteration(seek, within):
        found = [record.offset for record in consumer if record.partition == 0]
        sought = list(range(7, RECORDS)) if within == "seek" else []
        assert found in (list(range(2, RECORDS)), sought), where


@pytest.mark.parametrize("within", ["forget", "_clear_position", "_release"])
def test_repeated_subscribe_after_an_interrupt_reads_only_its_topics(within: str) -> None:
    for consumer, where in interrupt_amid_iteration(lambda one: one.subscribe(["payments"]), within):
        consumer.subscribe(["payments"])
        found = [(record.topic, record.offset) for record in consumer]
        assert found == [("payments", offset) for offset in range(RECORDS)], where


def test_columns_that_are_interrupted_leave_nothing_out_of_the_next_poll() -> None:
    class Interrupted(GrowingColumns):
        def count_batch(self, last_offset: int, size_bytes: int, timestamp_type: int) -> None:
            if last_offset == 4:
                raise KeyboardInterrupt
            super().count_batch(last_offset, size_bytes, timestamp_type)

    blob = b"".join(build_batch([(None, b"x")], offset) for offset in range(6))
    data = FetchedData(ORDERS[0], 1, 0, memoryview(blob))
    found: list[ConsumerRecord] = []
    assert data.take(0, 2, found, check_crcs=True) == 2
    with pytest.raises(KeyboardInterrupt):
        data.take_columns(2, 100, Interrupted(), check_crcs=True)
    data.take(2, 100, found, check_crcs=True)
    assert [record.offset for record in found] == list(range(6))
