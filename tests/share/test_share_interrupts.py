"""Ctrl-C at any moment of a poll() in implicit mode accepts no record that the application did not get."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import pykafka2.share
from pykafka2.clock import SystemClock
from pykafka2.share.lock import Lock
from pykafka2.share.locks import Locks
from pykafka2.share.records import AcknowledgeType
from pykafka2.testing import KafkaCluster
from pykafka2.types import TopicPartition
from tests.share.world import QUICK, TOPICS, configure, consumer, fill, take

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARE = str(Path(pykafka2.share.__file__).parent)


@attrs.define(eq=False)
class Interruption:
    """Raises KeyboardInterrupt once: at a call of a function of the share consumer, or at a return from C."""

    at: int
    moments: int = 0
    where: str = ""

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event not in ("call", "c_return") or not code.co_filename.startswith(SHARE):
            return
        if code.co_name in ("<genexpr>", "guarded"):
            return
        self.moments += 1
        if self.moments == self.at:
            self.where = f"{code.co_name}:{frame.f_lineno} {getattr(argument, '__name__', event)}"
            raise KeyboardInterrupt

    @contextmanager
    def strikes(self) -> Iterator[None]:
        before = sys.getprofile()
        sys.setprofile(self.profile)
        try:
            yield
        finally:
            sys.setprofile(before)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=1, topics=TOPICS, config=QUICK)
@pytest.mark.parametrize("way", ["poll", "iteration"])
def test_commit_after_an_interrupted_read_accepts_no_record_that_was_not_returned(
    kafka_cluster: KafkaCluster, way: str
) -> None:
    configure(kafka_cluster)
    fill(kafka_cluster, 100)
    with consumer(kafka_cluster, share_acquire_mode="record_limit", max_poll_records=1) as one:
        take(one, 1)
        one.commit()
        at = returned = 0
        while returned < 5:  # calls differ in length
            at += 1
            interruption, iteration = Interruption(at), iter(one)
            with interruption.strikes(), suppress(KeyboardInterrupt):
                if way == "iteration":
                    next(iteration)
                while way == "poll" and not one.poll(1000, 1):
                    pass
            results = one.commit()
            if interruption.moments < at:
                returned += 1
            else:
                assert results == {}, interruption.where
        assert at > 30


def test_interrupted_end_of_a_failed_block_lets_no_poll_accept_the_record() -> None:
    at, partition = 0, TopicPartition("t", 0)
    interruption = Interruption(0)
    while interruption.moments >= at:
        at += 1
        locks = Locks(SystemClock(), None, 300.0, lambda: None)
        delivery = locks.new((b"id", 0), partition, 0, 0.0, float("inf"))
        delivery.offsets += [5, 6]
        locks.deliver(delivery)
        locks.accept_later([delivery])
        locks.begin_handling(delivery, 5)
        interruption = Interruption(at)
        with interruption.strikes(), suppress(KeyboardInterrupt):
            locks.end_handling(delivery, 5, AcknowledgeType.RELEASE)
        locks.flush(accepts=True)
        accepted = [lock.offsets for lock in locks.take_ready(0) if lock.type == AcknowledgeType.ACCEPT]
        assert accepted == [[6]], interruption.where
    assert at > 3


Step = Callable[[Locks, Lock], object]


def release(offset: int) -> Step:
    return lambda locks, delivery: locks.decide(delivery, offset, AcknowledgeType.RELEASE)


def accept(offset: int) -> Step:
    return lambda locks, delivery: locks.decide(delivery, offset, AcknowledgeType.ACCEPT)


def begin(offset: int) -> Step:
    return lambda locks, delivery: locks.begin_handling(delivery, offset)


def end(offset: int) -> Step:
    return lambda locks, delivery: locks.end_handling(delivery, offset, AcknowledgeType.RELEASE)


def iterate(offset: int) -> Step:
    return lambda locks, delivery: locks.accept_implicitly(delivery, offset)


def send(locks: Locks, delivery: Lock) -> None:
    locks.flush(accepts=True)


def accept_later(locks: Locks, delivery: Lock) -> None:
    locks.accept_later([delivery])


@pytest.mark.parametrize(
    ("before", "interrupted", "after", "sent"),
    [
        pytest.param([], release(5), [release(6), send], {6}, id="decision"),
        pytest.param([], release(5), [send], set(), id="only decision"),
        pytest.param(
            [release(5)], accept(5), [release(6), accept(7), send], {5, 6, 7}, id="changed decision"
        ),
        pytest.param([begin(5), begin(6)], end(5), [end(6)], {6}, id="end of a block"),
        pytest.param([begin(5), accept(5)], end(5), [accept(6), send], {5, 6}, id="end after a decision"),
        pytest.param([], iterate(5), [iterate(6)], {6}, id="iteration"),
        pytest.param([release(5), accept_later], send, [send], {5, 6, 7}, id="sending"),
        pytest.param([accept_later, begin(5)], send, [send], {6, 7}, id="sending during a block"),
    ],
)
def test_interrupted_acknowledgement_leaves_the_others_and_the_next_request_in_order(
    before: list[Step], interrupted: Step, after: list[Step], sent: set[int]
) -> None:
    at, interruption = 0, Interruption(0)
    while interruption.moments >= at:
        at += 1
        locks = Locks(SystemClock(), None, 300.0, lambda: None)
        delivery = locks.new((b"id", 0), TopicPartition("t", 0), 0, 0.0, float("inf"))
        delivery.offsets += [5, 6, 7]
        locks.deliver(delivery)
        for step in before:
            step(locks, delivery)
        interruption = Interruption(at)
        with interruption.strikes(), suppress(KeyboardInterrupt):
            interrupted(locks, delivery)
        for step in after:
            step(locks, delivery)
        assert all(map(len, locks.unsettled())), interruption.where
        taken = locks.take_ready(0)
        assert all(lock.offsets for lock in taken), interruption.where
        of = {offset: lock for lock in taken for offset in lock.offsets}
        assert of.keys() >= sent, interruption.where
        assert all(delivery.moved.get(one, delivery) is of[one] for one in of), interruption.where
        locks.settle(taken, None)
        assert not locks.unsettled(), interruption.where
    assert at > 3


def test_block_after_an_interrupted_one_is_renewed() -> None:
    at, interruption = 0, Interruption(0)
    while interruption.moments >= at:
        at += 1
        clock = SystemClock()
        locks = Locks(clock, None, 300.0, lambda: None)
        until = clock.monotonic() + 1000.0
        delivery = locks.new((b"id", 0), TopicPartition("t", 0), 0, 0.0, until)
        delivery.offsets += [5, 6]
        locks.deliver(delivery)
        interruption = Interruption(at)
        with interruption.strikes(), suppress(KeyboardInterrupt):
            locks.begin_handling(delivery, 5)
        locks.begin_handling(delivery, 6)
        renewals, _ = locks.take_renewals(0, 2000.0, clock.monotonic())
        assert 6 in [offset for lock in renewals for offset in lock.offsets], interruption.where
    assert at > 2
