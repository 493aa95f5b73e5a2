"""The last step of records to the application: what a call takes back, and what the next call finishes."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka2 import TopicPartition
from pykafka2.consumer.core import Handover, Owned, handing_over
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.types import ConsumerRecord

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def record(partition: TopicPartition, offset: int) -> ConsumerRecord[Any, Any]:
    return ConsumerRecord(*partition, offset, 0, 0, None, b"x", [], -1, -1, 1)


class Parts:
    """A handover with three queued records of each of two assigned partitions."""

    def __init__(self) -> None:
        self.queue = IterationQueue()
        self.subscription: Any = SimpleNamespace(changes=1, assigned={ORDERS_0: None, ORDERS_1: None})
        self.taken_back: list[str] = []
        self.rewound: list[tuple[TopicPartition, int]] = []
        self.interrupts = 0
        """So many calls of `rewind` are interrupted."""
        collector = SimpleNamespace(
            moved=None,
            undo_last_pass=lambda: self.taken_back.append("polled"),
            put_back=lambda partition, offset: False,
        )
        position_control = SimpleNamespace(rewind=self.rewind)
        self.poller: Any = SimpleNamespace(
            collector=collector, is_in_pass=False, position_control=position_control
        )
        self.handover = Handover(self.subscription, self.poller, self.queue)
        self.queue.put({one: [record(one, offset) for offset in (4, 5, 6)] for one in (ORDERS_0, ORDERS_1)})

    def rewind(self, partition: TopicPartition, offset: int) -> None:
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        self.rewound.append((partition, offset))

    def queued(self) -> set[TopicPartition]:
        return set(self.queue.places())


@pytest.fixture
def parts() -> Parts:
    parts = Parts()
    parts.handover.begin()
    return parts


def test_rewind_drops_the_queued_records_and_moves_the_position_back(parts: Parts) -> None:
    parts.handover.rewind([ORDERS_0])
    assert parts.rewound == [(ORDERS_0, 4)]
    assert parts.queued() == {ORDERS_1}


def test_rewind_without_queued_records_is_not_remembered(parts: Parts) -> None:
    parts.queue.clear()
    parts.handover.rewind([ORDERS_0])
    parts.queue.put({ORDERS_0: [record(ORDERS_0, 9)]})
    parts.handover.begin()
    assert parts.rewound == []
    assert parts.queued() == {ORDERS_0}


def test_rewind_of_a_revoked_partition_moves_no_position(parts: Parts) -> None:
    del parts.subscription.assigned[ORDERS_0]
    parts.handover.rewind([ORDERS_0, ORDERS_1])
    assert parts.rewound == [(ORDERS_1, 4)]
    assert parts.queued() == set()


def interrupt_rewind(parts: Parts) -> None:
    parts.interrupts = 1
    with pytest.raises(KeyboardInterrupt):
        parts.handover.rewind([ORDERS_0])
    assert parts.rewound == []


def test_next_call_finishes_an_interrupted_rewind(parts: Parts) -> None:
    interrupt_rewind(parts)
    parts.handover.begin()
    assert parts.rewound == [(ORDERS_0, 4)]
    assert parts.queued() == {ORDERS_1}


def test_next_rewind_finishes_an_interrupted_one(parts: Parts) -> None:
    interrupt_rewind(parts)
    parts.handover.rewind([ORDERS_1])
    assert sorted(parts.rewound) == [(ORDERS_0, 4), (ORDERS_1, 4)]
    assert not parts.queue


def test_take_back_finishes_an_interrupted_rewind(parts: Parts) -> None:
    interrupt_rewind(parts)
    parts.handover.undo_interrupted_call(was_in_pass=False)
    assert parts.rewound == [(ORDERS_0, 4)]


def test_finished_rewind_is_not_repeated(parts: Parts) -> None:
    parts.handover.rewind([ORDERS_0])
    parts.queue.put({ORDERS_0: [record(ORDERS_0, 4)]})
    parts.handover.begin()
    assert parts.rewound == [(ORDERS_0, 4)]
    assert parts.queued() == {ORDERS_0, ORDERS_1}


def test_rewind_interrupted_before_its_records_are_dropped_is_repeated(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(parts.queue, "forget", interrupt)
        with pytest.raises(KeyboardInterrupt):
            parts.handover.rewind([ORDERS_0])
    parts.handover.begin()
    assert parts.queued() == {ORDERS_1}


def test_records_of_revoked_partitions_are_dropped_though_the_first_try_is_interrupted(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    del parts.subscription.assigned[ORDERS_0]
    parts.subscription.changes += 1
    with monkeypatch.context() as patched:
        patched.setattr(parts.queue, "keep_only", interrupt)
        with pytest.raises(KeyboardInterrupt):
            parts.handover.begin()
    parts.handover.begin()
    assert parts.queued() == {ORDERS_1}


def test_queue_is_compared_with_the_assignment_only_after_a_change(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    monkeypatch.setattr(parts.queue, "keep_only", calls.append)
    parts.handover.begin()
    assert len(calls) == 0
    parts.subscription.changes += 1
    parts.handover.begin()
    parts.handover.begin()
    assert len(calls) == 1


def test_begin_forgets_the_records_of_the_call_before(parts: Parts) -> None:
    parts.queue.take(2, keep=False)
    parts.poller.collector.moved = {ORDERS_0: (7, 4, None)}
    parts.handover.begin()
    assert parts.queue.taken is None
    assert parts.poller.collector.moved is None


@pytest.mark.parametrize("was_in_pass", [False, True])
def test_take_back_restores_whether_a_pass_runs(parts: Parts, was_in_pass: bool) -> None:
    parts.poller.is_in_pass = was_in_pass
    before = parts.handover.begin()
    parts.poller.is_in_pass = not was_in_pass
    parts.handover.undo_interrupted_call(before)
    assert parts.poller.is_in_pass is was_in_pass


def test_take_back_restores_records_taken_from_the_queue_and_no_others(parts: Parts) -> None:
    assert parts.queue.take(4, keep=False)
    parts.handover.undo_interrupted_call(was_in_pass=False)
    assert parts.queue.places() == {ORDERS_0: (4, -1), ORDERS_1: (4, -1)}
    assert parts.taken_back == []


def test_take_back_restores_polled_records_that_were_not_queued(parts: Parts) -> None:
    parts.queue.clear()
    parts.handover.undo_interrupted_call(was_in_pass=False)
    assert parts.taken_back == ["polled"]


def test_interrupt_before_the_call_began_takes_nothing_back() -> None:
    """The records of the previous call belong to the application already."""

    class Consumer(Owned):
        def __init__(self, handover: Any) -> None:
            self._core: Any = SimpleNamespace(lock=threading.RLock(), refusal=None, handover=handover)

        @handing_over
        def poll(self) -> None:
            """Return nothing."""

    def interrupt() -> bool:
        raise KeyboardInterrupt

    taken_back: list[bool] = []
    consumer = Consumer(SimpleNamespace(begin=interrupt, undo_interrupted_call=taken_back.append))
    with pytest.raises(KeyboardInterrupt):
        consumer.poll()
    assert taken_back == []
