"""The buffer between the two threads: what is put comes out, in order, with its bytes counted."""

from __future__ import annotations

import faulthandler
import sys
import threading
from collections import deque
from types import FrameType

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pykafka2.consumer.fetch import buffer as fetch_buffer
from pykafka2.consumer.fetch.buffer import FetchBuffer, Item
from pykafka2.consumer.fetch.fetched_data import FetchedData, Problem
from pykafka2.errors import OffsetOutOfRange
from pykafka2.types import TopicPartition
from tests.consumer.logs import build_batch
from tests.gate import examples

PARTITIONS = [TopicPartition("t", number) for number in range(3)]


def data(partition: TopicPartition, size: int = 1, offset: int = 0) -> FetchedData:
    batch = build_batch([(None, b"x" * size)], offset)
    return FetchedData(partition, 1, offset, memoryview(batch))


class BufferMachine(RuleBasedStateMachine):
    """Against plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.rooms = 0
        self.buffer = FetchBuffer(self.on_drained)
        self.model: dict[TopicPartition, list[Item]] = {}

    def on_drained(self) -> None:
        self.rooms += 1

    @rule(partition=st.sampled_from(PARTITIONS), size=st.integers(0, 500))
    def put(self, partition: TopicPartition, size: int) -> None:
        item = data(partition, size)
        arrivals = self.buffer.arrivals
        self.buffer.put(item)
        self.model.setdefault(partition, []).append(item)
        assert self.buffer.arrivals == arrivals + 1

    @rule(partition=st.sampled_from(PARTITIONS))
    def put_problem(self, partition: TopicPartition) -> None:
        item = Problem(partition, 1, 0, OffsetOutOfRange())
        self.buffer.put(item)
        self.model.setdefault(partition, []).append(item)

    @rule(partition=st.sampled_from(PARTITIONS), count=st.integers(0, 3))
    def drop(self, partition: TopicPartition, count: int) -> None:
        items = self.buffer.items(partition)[:count]
        self.buffer.drop(items)
        self.model[partition] = self.model.get(partition, [])[len(items) :]

    @rule(partition=st.sampled_from(PARTITIONS))
    def drop_what_is_not_at_the_head(self, partition: TopicPartition) -> None:
        self.buffer.drop(self.buffer.items(partition)[1:])

    @rule(partition=st.sampled_from(PARTITIONS))
    def discard(self, partition: TopicPartition) -> None:
        self.buffer.discard([partition])
        self.model.pop(partition, None)

    @rule(partition=st.sampled_from(PARTITIONS))
    def serve(self, partition: TopicPartition) -> None:
        self.buffer.move_last(partition)
        if self.model.get(partition):
            assert self.buffer.partitions()[-1] == partition

    @rule(partition=st.sampled_from(PARTITIONS))
    def room_is_reported_once(self, partition: TopicPartition) -> None:
        self.buffer.notify_when_drained()
        before = self.rooms
        self.buffer.discard([partition])
        self.buffer.discard([partition])
        self.model.pop(partition, None)
        assert self.rooms == before + 1

    @invariant()
    def agrees_with_the_model(self) -> None:
        for partition in PARTITIONS:
            expected = self.model.get(partition, [])
            assert self.buffer.items(partition) == expected
            assert self.buffer.bytes_of(partition) == sum(item.size_bytes for item in expected)
        assert self.buffer.size_bytes == sum(map(self.buffer.bytes_of, PARTITIONS))
        assert set(self.buffer.partitions()) == {p for p, items in self.model.items() if items}


TestBuffer = BufferMachine.TestCase
TestBuffer.settings = settings(max_examples=examples(40), stateful_step_count=25)


def test_reset_stays_until_it_is_dropped_by_its_reader() -> None:
    buffer = FetchBuffer(lambda: None)
    buffer.put_reset(PARTITIONS[0], 3, 42)
    assert buffer.arrivals == 1
    taken = buffer.resets.copy()
    assert taken == buffer.resets == {PARTITIONS[0]: (3, 42)}
    buffer.put_reset(PARTITIONS[0], 4, 43)
    buffer.drop_resets(taken)
    assert buffer.resets == {PARTITIONS[0]: (4, 43)}, "a newer one is not dropped with an older"
    buffer.drop_resets(buffer.resets.copy())
    assert buffer.resets == {}


@pytest.mark.slow
def test_two_threads_lose_nothing_and_count_right() -> None:
    buffer = FetchBuffer(lambda: None)
    items = deque(data(PARTITIONS[n % 3], n % 50, n) for n in range(3000))
    expected = [item.offset for item in items]
    found: list[int] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def put_all() -> None:
        for item in items:
            buffer.put(item)

    putter = threading.Thread(target=put_all)
    try:
        putter.start()
        while len(found) < len(expected):
            for partition in buffer.partitions():
                taken = buffer.items(partition)
                found += [item.offset for item in taken]
                buffer.drop(taken)
                buffer.move_last(partition)
    finally:
        putter.join()
        sys.setswitchinterval(interval)
    assert sorted(found) == expected
    for rest in range(3):
        mine = [offset for offset in found if offset % 3 == rest]
        assert mine == sorted(mine)
    assert buffer.size_bytes == 0
    assert buffer.partitions() == []


def interrupted(at: int) -> int:
    """Take things away, with a signal handler that does so, too, after call number `at`; how many calls."""
    buffer, count = FetchBuffer(lambda: None), 0
    for partition in PARTITIONS * 2:
        buffer.put(data(partition, 10))

    def handle() -> None:
        buffer.discard([PARTITIONS[1]])
        buffer.drop(buffer.items(PARTITIONS[0]))
        buffer.put(data(PARTITIONS[1], 30))

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        if event == "c_return" and frame.f_code.co_filename == fetch_buffer.__file__:
            count += 1
            if count == at:
                handle()  # Python switches profiling off for it

    sys.setprofile(profile)
    try:
        buffer.move_last(PARTITIONS[0])
        buffer.drop([item for partition in PARTITIONS for item in buffer.items(partition)])
        buffer.discard([PARTITIONS[1]])
    finally:
        sys.setprofile(None)
    left = [item for partition in buffer.partitions() for item in buffer.items(partition)]
    assert buffer.size_bytes == sum(item.size_bytes for item in left)
    assert buffer.size_bytes == sum(map(buffer.bytes_of, PARTITIONS))
    return count


def test_signal_handler_can_use_the_buffer_it_interrupted() -> None:
    """After any call inside these methods, as Python runs handlers: it waits for no lock."""
    faulthandler.dump_traceback_later(10, exit=True)
    moments = interrupted(0)
    for at in range(1, moments + 1):
        interrupted(at)
    faulthandler.cancel_dump_traceback_later()
    assert moments > 10
