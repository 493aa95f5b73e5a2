"""Iterating costs no call of ours for each record, and yet it is known which records were handed out."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

import pytest

from pykafka2 import ConsumerRecord, TopicPartition
from pykafka2.consumer.state.iteration_queue import MOST_RECORDS, IterationQueue, SliceLength
from pykafka2.errors import ClientClosed, ConcurrentUse
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)


def record(offset: int, partition: int = 0, leader_epoch: int = 3) -> ConsumerRecord:
    return ConsumerRecord("orders", partition, offset, 0, 0, None, b"", [], leader_epoch)


def polled(first: int, second: int = 0) -> dict[TopicPartition, list[ConsumerRecord]]:
    return {ORDERS_0: [record(n) for n in range(first)], ORDERS_1: [record(n, 1) for n in range(second)]}


class TestUndelivered:
    def test_places_are_those_of_the_next_records(self) -> None:
        iteration_queue = IterationQueue()
        iteration_queue.put(polled(3, 2))
        assert iteration_queue.places() == {ORDERS_0: (0, -1), ORDERS_1: (0, -1)}
        iteration_queue.cut(4)
        for offset in range(3):
            assert next(iteration_queue.slice).offset == offset
        assert iteration_queue.places() == {ORDERS_1: (0, -1)}
        next(iteration_queue.slice)
        assert iteration_queue.is_between_slices
        assert iteration_queue.places() == {ORDERS_1: (1, 3)}
        iteration_queue.cut(4)
        next(iteration_queue.slice)
        assert not iteration_queue
        assert iteration_queue.places() == {}

    def test_iteration_slice_ends_when_its_records_are_forgotten(self) -> None:
        iteration_queue = IterationQueue()
        iteration_queue.put(polled(5, 5))
        iteration_queue.cut(10)
        held = iteration_queue.slice
        next(held)
        iteration_queue.forget([ORDERS_0])
        assert list(held) == []
        iteration_queue.cut(2)
        assert [one.partition for one in iteration_queue.slice] == [1, 1]
        assert iteration_queue.first_offset(ORDERS_1) == 2
        assert iteration_queue.first_offsets([ORDERS_0, ORDERS_1]) == {ORDERS_1: 2}
        iteration_queue.forget([ORDERS_1])
        assert not iteration_queue

    def test_take_continues_at_the_position_of_the_slice(self) -> None:
        iteration_queue = IterationQueue()
        iteration_queue.put(polled(5))
        iteration_queue.cut(3)
        next(iteration_queue.slice)
        assert [one.offset for one in iteration_queue.take(2, keep=True)[ORDERS_0]] == [1, 2]
        assert [one.offset for one in iteration_queue.take(2, keep=False)[ORDERS_0]] == [1, 2]
        assert iteration_queue.first_offset(ORDERS_0) == 3


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("seconds", "longest"), [(0.0, MOST_RECORDS), (0.001, 100), (0.02, 5), (0.3, 1), (40.0, 1)]
)
def test_a_slice_takes_the_application_about_a_tenth_of_a_second(seconds: float, longest: int) -> None:
    clock = Clock()
    length = SliceLength(clock)
    lengths = []
    for _ in range(30):
        lengths.append(length.next())
        clock.now += lengths[-1] * seconds
    assert lengths[0] == 1
    assert longest / 2 <= max(lengths[10:]) <= longest


def test_waiting_for_records_is_not_the_applications_time() -> None:
    clock = Clock()
    length = SliceLength(clock)
    for _ in range(12):
        length.next()
    length.pause()
    clock.now += 100
    assert length.next() == MOST_RECORDS


def test_no_python_runs_for_each_record() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    for _ in range(5):
        cluster.append("orders", 0, *[b"x"] * 1000)
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call") and "pykafka2/consumer" in frame.f_code.co_filename

    with cluster.consumer("orders", consumer_timeout_ms=2000) as consumer:
        consumer.poll(1000, max_records=1)
        cluster.runtime.run_for(1)
        number = 0
        sys.setprofile(count)
        try:
            for _ in consumer:
                number += 1
                if number == 4900:
                    break
        finally:
            sys.setprofile(None)
    assert number == 4900
    assert calls < number / 4, f"{calls} calls for {number} records"


def test_a_closed_consumer_hands_out_nothing_more() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, *[b"x"] * 100)
    consumer = cluster.consumer("orders")
    iterator = iter(consumer)
    next(iterator)
    next(consumer)
    consumer.close()
    with pytest.raises(ClientClosed):
        next(iterator)
    with pytest.raises(ClientClosed):
        next(consumer)


def test_an_iteration_in_another_thread_is_refused_at_the_next_slice() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, *[b"x"] * 100)
    with cluster.consumer("orders") as consumer:
        next(consumer)
        errors: list[BaseException] = []

        def iterate() -> None:
            try:
                for _ in consumer:
                    pass
            except ConcurrentUse as error:
                errors.append(error)

        with consumer._core.lock:
            thread = threading.Thread(target=iterate)
            thread.start()
            thread.join()
        assert len(errors) == 1


def test_two_iterations_share_the_records() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, *[b"x"] * 10)
    with cluster.consumer("orders") as consumer:
        rows = zip(range(5), consumer, consumer, strict=False)
        pairs = [(one.offset, other.offset) for _, one, other in rows]
    assert pairs == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
