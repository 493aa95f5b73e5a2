"""The queue between processors and handlers, and the order in which a loop turns its parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from pykafka2.broker.server.request_channel import RequestChannel
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.threads import Loops, Part
from pykafka2.broker.timers import Completions
from pykafka2.clock import FOREVER
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.testing import KafkaCluster

REQUEST = cast(RequestContext, object())


def test_a_processor_that_waits_for_room_is_told_of_it() -> None:
    channel, processor = RequestChannel(1), Part("processor")
    channel.put(REQUEST)
    processor.is_signalled = False
    channel.wait_for_room(processor)
    assert not processor.is_signalled
    assert channel.take() is REQUEST
    assert processor.is_signalled


def test_room_that_is_there_already_is_told_at_once() -> None:
    channel, processor = RequestChannel(1), Part("processor")
    processor.is_signalled = False
    channel.wait_for_room(processor)
    assert processor.is_signalled


class Worker(Part):
    """Notes its turns; has work for `count` of them."""

    def __init__(self, name: str, turns: list[str], count: int) -> None:
        super().__init__(name)
        self._turns = turns
        self._count = count

    def run(self, now: float) -> float:
        self._turns.append(self.name)
        self._count -= 1
        if self._count > 0:
            self.signal()
        return FOREVER


class Last(Worker):
    runs_last = True


@pytest.fixture
def runtime() -> Iterator[ThreadRuntime]:
    with_threads = ThreadRuntime()
    yield with_threads
    with_threads.close()


def test_a_part_that_runs_last_waits_until_the_others_have_nothing_to_do(runtime: ThreadRuntime) -> None:
    turns: list[str] = []
    loops = Loops(runtime, "test", separate=False)
    loops.add_all([Last("last", turns, 1), Worker("worker", turns, 5)])
    assert runtime.wait_until(lambda: "last" in turns, 5)
    loops.stop()
    assert turns == ["worker"] * 5 + ["last"]


def test_waiting_requests_are_completed_after_all_requests_at_hand() -> None:
    """So that a follower's fetch takes along everything that one read has brought."""
    assert Completions.runs_last
    with KafkaCluster(brokers=1) as cluster:
        assert any(isinstance(part, Completions) for part in cluster.brokers[0].parts.loop_parts())
