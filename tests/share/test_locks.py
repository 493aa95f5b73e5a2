"""The locks of a share consumer, against a model with one state for each record."""

from __future__ import annotations

import random
from types import NoneType
from typing import Any

import attrs
import pytest

from pykafka2 import ConsumerInterceptor, Reject, ShareRecord
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.errors import (
    ClientClosed,
    CoordinatorLoadInProgress,
    ForkedClientError,
    IllegalState,
    InvalidRecordState,
    KafkaError,
    KafkaTimeoutError,
    ShareSessionNotFound,
    UnsupportedVersion,
)
from pykafka2.share.core import ShareCore
from pykafka2.share.lock import Lock, LockState
from pykafka2.share.locks import Locks
from pykafka2.share.node_session import LAST_EPOCH, next_epoch
from pykafka2.share.records import AcknowledgeType
from pykafka2.types import TopicPartition

TIMEOUT = 10.0
"""Seconds that a record stays locked."""
HELD, DECIDED, READY, SENDING, SETTLED = LockState
PARTITIONS = [TopicPartition("t", 0), TopicPartition("u", 1)]


class SetClock:
    """A clock that stands still until the test moves it."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def wall_ns(self) -> int:
        return int(self.now * 1e9)


@attrs.define(eq=False)
class Expected:
    """One record of the model."""

    delivery: Lock
    offset: int
    until: float
    state: LockState = HELD
    type: int = 0
    error: KafkaError | None = None
    is_handled: bool = False
    is_implicit: bool = False
    after_renewal: int = 0
    """The acknowledgement of its block, which ended while a RENEW was sent."""


class Model:
    """Random calls to `Locks`, and the state that each record must have after them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = SetClock()
        self.wakes = 0
        self.locks = Locks(self.clock, None, 100.0, self._wake)
        self.records: list[Expected] = []
        self.sending: list[Lock] = []
        self.renewing: list[Lock] = []
        self.next_offset = 0

    def _wake(self) -> None:
        self.wakes += 1

    def deliver(self) -> None:
        partition = self.random.choice(PARTITIONS)
        node = partition.partition
        until = self.clock.now + TIMEOUT
        lock = self.locks.new((b"id", partition.partition), partition, node, self.clock.now, until)
        for _ in range(self.random.randint(1, 6)):
            self.next_offset += self.random.choice([1, 1, 1, 3])
            lock.offsets.append(self.next_offset)
        self.locks.deliver(lock)
        is_implicit = self.random.random() < 0.4
        if is_implicit:
            self.locks.accept_later([lock])
        self.records += [Expected(lock, at, until, is_implicit=is_implicit) for at in lock.offsets]

    def refused(self, record: Expected, states: tuple[LockState, ...]) -> type[KafkaError] | None:
        """Return the error of a decision about this record, which is possible in these states."""
        if record.state is SETTLED:
            return IllegalState if record.error is None else InvalidRecordState
        return None if record.state in states else IllegalState

    def decide(self, record: Expected) -> None:
        kind = self.random.choice([*AcknowledgeType])
        refusal = self.refused(record, (HELD, DECIDED))
        if refusal is not None:
            with pytest.raises(refusal):
                self.locks.decide(record.delivery, record.offset, kind)
            return
        self.locks.decide(record.delivery, record.offset, kind)
        record.state, record.type, record.is_implicit = DECIDED, kind, False

    def begin(self, record: Expected) -> None:
        refusal = self.refused(record, (HELD,))
        if refusal is None and record.is_handled:
            refusal = IllegalState
        if refusal is None and self.clock.now >= record.until:
            refusal = InvalidRecordState
        if refusal is not None:
            with pytest.raises(refusal):
                self.locks.begin_handling(record.delivery, record.offset)
            return
        self.locks.begin_handling(record.delivery, record.offset)
        record.is_handled, record.is_implicit = True, False

    def end(self, record: Expected) -> None:
        if not record.is_handled:
            return
        kind = self.random.choice([*AcknowledgeType][:3])
        self.locks.end_handling(record.delivery, record.offset, kind)
        record.is_handled = False
        is_renewing = record.type == AcknowledgeType.RENEW
        if record.state is SENDING and is_renewing:
            record.after_renewal = kind
        elif record.state is HELD or (record.state in (DECIDED, READY) and is_renewing):
            record.state, record.type = READY, kind
        elif record.state is DECIDED:
            record.state = READY

    def iterated(self, record: Expected) -> None:
        self.locks.accept_implicitly(record.delivery, record.offset)
        if record.state is HELD and not record.is_handled:
            record.state, record.type, record.is_implicit = READY, 1, False

    def flush(self) -> None:
        accepts = self.random.random() < 0.5
        self.locks.flush(accepts=accepts)
        for record in self.records:
            if record.state is DECIDED:
                record.state = READY
            elif accepts and record.state is HELD and record.is_implicit:
                record.state, record.type = READY, 1
            if accepts:
                record.is_implicit = False

    def take(self) -> None:
        node = self.random.randrange(2)
        taken = self.locks.take_ready(node)
        self.sending += taken
        found = sorted((lock.partition, at, int(lock.type)) for lock in taken for at in lock.offsets)
        ready = [one for one in self.records if one.state is READY and one.delivery.node_id == node]
        assert found == sorted((one.delivery.partition, one.offset, int(one.type)) for one in ready)
        for one in ready:
            one.state = SENDING

    def of(self, locks: list[Lock]) -> list[Expected]:
        places = {(lock.partition, at) for lock in locks for at in lock.own_offsets()}
        return [one for one in self.records if (one.delivery.partition, one.offset) in places]

    def answer(self) -> None:
        taken, self.sending = self.sending, []
        sent, chance = [one for one in self.of(taken) if one.state is SENDING], self.random.random()
        if chance < 0.2:
            self.locks.retry(taken)
            for one in sent:
                one.state = READY
            return
        error = InvalidRecordState("lost") if chance < 0.4 else None
        self.locks.settle(taken, error, self.clock.now + TIMEOUT)
        for one in sent:
            if error is None and one.type == AcknowledgeType.RENEW:
                one.state = READY if one.after_renewal else HELD
                one.type, one.after_renewal = one.after_renewal, 0
                one.until = self.clock.now + TIMEOUT
            else:
                one.state, one.error = SETTLED, error

    def split(self) -> None:
        """Take records from the queue of an iteration, which can be lost meanwhile."""
        record = self.random.choice(self.records)
        part = self.locks.split(record.delivery, [record.offset])
        assert part.own_offsets() == ([record.offset] if record.state is HELD else [])
        record.is_implicit &= record.state is not HELD

    def renew(self) -> None:
        node = self.random.randrange(2)
        due, _ = self.locks.take_renewals(node, TIMEOUT, self.clock.now)
        expected = [
            one
            for one in self.records
            if one.delivery.node_id == node
            and one.is_handled
            and one.state is HELD
            and self.clock.now >= one.until - TIMEOUT / 2
        ]
        assert {*map(id, self.of(due))} == {*map(id, expected)}
        self.locks.renewed(due, self.clock.now + TIMEOUT, None)
        for one in expected:
            one.until = self.clock.now + TIMEOUT

    def lose(self) -> None:
        node = self.random.randrange(2)
        error = ShareSessionNotFound("gone")
        self.locks.lose(node, error)
        self.sending = [lock for lock in self.sending if lock.node_id != node]
        for one in self.records:
            if one.delivery.node_id == node and one.state is not SETTLED:
                one.state, one.error = SETTLED, error

    def expire(self) -> None:
        self.clock.now += self.random.choice([1.0, 4.0])
        self.locks.expire(self.clock.now)
        for one in self.records:
            if one.state is HELD and self.clock.now >= one.until:
                one.state, one.error = SETTLED, InvalidRecordState("expired")

    def check(self) -> None:
        for one in self.records:
            lock = one.delivery.moved.get(one.offset, one.delivery)
            assert lock.state is one.state, (one, lock)
            assert (lock.error is None) == (one.error is None)
            if one.state in (DECIDED, READY, SENDING):
                assert lock.type == one.type
            if one.state is HELD:
                assert lock.until == one.until
        counts: dict[LockState, int] = {}
        for lock, offsets in self.locks.open_locks():
            assert len(lock) == len(offsets)
            counts[lock.state] = counts.get(lock.state, 0) + len(offsets)
        states = [one.state for one in self.records if one.state is not SETTLED]
        assert counts == {state: states.count(state) for state in {*states}}

    def run(self, steps: int) -> None:
        single = [self.decide, self.begin, self.begin, self.end, self.end, self.iterated]
        single.append(lambda record: self.split())
        whole = [self.deliver, self.deliver, self.flush, self.take, self.answer, self.renew]
        for _ in range(steps):
            chance = self.random.random()
            if chance < 0.6 and self.records:
                self.random.choice(single)(self.random.choice(self.records[-25:]))
            elif chance < 0.96:
                self.random.choice(whole)()
            else:
                self.random.choice([self.lose, self.expire, self.expire])()
            self.check()


@pytest.mark.parametrize("seed", range(3))
def test_each_record_has_its_own_state_although_records_share_locks(seed: int) -> None:
    Model(seed).run(150)


def new_locks(count: int = 3) -> tuple[Locks, Lock, SetClock]:
    """Return locks with one delivery of so many records, from offset 0."""
    clock = SetClock()
    locks = Locks(clock, None, 100.0, lambda: None)
    delivery = locks.new((b"id", 0), PARTITIONS[0], 0, clock.now, clock.now + TIMEOUT)
    delivery.offsets += range(count)
    locks.deliver(delivery)
    return locks, delivery, clock


def test_renewals_continue_after_errors_that_pass_and_end_after_others() -> None:
    locks, delivery, clock = new_locks()
    locks.begin_handling(delivery, 0)
    clock.now += TIMEOUT / 2
    for error, is_renewed in ((CoordinatorLoadInProgress(), True), (UnsupportedVersion("1"), False)):
        due, _ = locks.take_renewals(0, TIMEOUT, clock.now)
        assert [lock.own_offsets() for lock in due] == [[0]]
        locks.expire(clock.now + TIMEOUT)  # not before the response
        locks.renewed(due, 0.0, error)
        again, _ = locks.take_renewals(0, TIMEOUT, clock.now)
        assert bool(again) is is_renewed
        locks.postpone(again)
    locks.end_handling(delivery, 0, AcknowledgeType.ACCEPT)
    assert [lock.own_offsets() for lock in locks.take_ready(0)] == [[0]]


def test_close_ends_acknowledgements_that_were_not_sent_with_its_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    locks, delivery, _ = new_locks()
    locks.keeps_outcomes = True
    locks.end_handling(delivery, 1, AcknowledgeType.ACCEPT)
    error = ClientClosed("closed")
    locks.close(error)
    assert locks.unsettled() == []
    assert [(one.offsets, one.error) for one in locks.outcomes] == [({1}, error)]
    assert delivery.moved[1].error is error
    assert "accepted too late for the close, so delivered again: 1 record; closed" in caplog.text


def test_totals_count_records_that_were_sent_failed_and_lost() -> None:
    locks, delivery, _ = new_locks(6)
    for offset in range(4):
        locks.end_handling(delivery, offset, AcknowledgeType.ACCEPT)
    assert locks.count_ready(0) == 4
    sent = locks.take_ready(0)
    assert locks.count_ready(0) == 0
    locks.settle(sent, InvalidRecordState("lost"))
    assert (locks.totals.sent, locks.totals.failed, locks.totals.lost) == (4, 4, 0)
    locks.lose(0, ShareSessionNotFound("gone"))
    assert locks.totals.lost == 2


def test_child_of_a_fork_uses_a_mutex_that_no_thread_of_its_parent_holds() -> None:
    locks, delivery, _ = new_locks()
    mutex = locks.mutex
    locks.abandon(ForkedClientError("forked"))
    assert locks.mutex is not mutex
    with pytest.raises(ForkedClientError):
        locks.decide(delivery, 0, AcknowledgeType.ACCEPT)


def test_result_of_a_partition_is_its_first_error() -> None:
    first, second = InvalidRecordState("1"), InvalidRecordState("2")
    cases = [(1, first, SETTLED), (1, second, SETTLED), (2, None, SETTLED), (0, None, SENDING)]
    for state in (READY, SENDING, SETTLED):
        locks, delivery, _ = new_locks()
        parts = [locks.split(delivery, [0]) for _ in cases]
        for part, (type, error, of) in zip(parts, cases, strict=True):
            part.type, part.error, part.state = type, error, of
        other = locks.split(delivery, [1])
        other.partition, other.type, other.state = PARTITIONS[1], 1, state
        core: Any = None  # it is not used
        results = ShareCore.results(core, [*parts, other], 1.0)
        assert results[PARTITIONS[0]] is first
        assert isinstance(results[PARTITIONS[1]], KafkaTimeoutError if state is not SETTLED else NoneType)


class Canceled(BaseException):
    """An error that, like KeyboardInterrupt and CancelledError, is not an Exception."""


class Never(Reject):
    """A reason of an application."""


@pytest.mark.parametrize(
    ("error", "type"),
    [
        (None, AcknowledgeType.ACCEPT),
        (ValueError(), AcknowledgeType.RELEASE),
        (Canceled(), AcknowledgeType.RELEASE),
        (GeneratorExit(), AcknowledgeType.RELEASE),
        (SystemExit(0), AcknowledgeType.RELEASE),
        (Reject(), AcknowledgeType.REJECT),
        (Never(), AcknowledgeType.REJECT),
    ],
)
@pytest.mark.parametrize("has_hooks", [False, True])
def test_block_decides_by_its_exception_and_ends_only_a_reject(
    error: BaseException | None, type: AcknowledgeType, has_hooks: bool
) -> None:
    locks, delivery, _ = new_locks()
    if has_hooks:
        locks.record_hooks = Interceptors(())
    record: ShareRecord[Any, Any] = ShareRecord("t", 0, 1, 0, 0, b"", b"", [], delivery=delivery)
    raised: BaseException | None = None
    try:
        with record:
            if error is not None:
                raise error
    except BaseException as caught:
        raised = caught
    assert raised is (None if isinstance(error, Reject) else error)
    (lock,) = locks.take_ready(0)
    assert (lock.type, lock.own_offsets()) == (type, [1])
    assert not locks.contexts


def test_hook_after_a_block_gets_the_error_of_a_fork() -> None:
    class Done(ConsumerInterceptor):
        errors: list[BaseException | None] = []  # noqa: RUF012

        def on_record_done(self, record: Any, error: BaseException | None, context: Any) -> None:
            self.errors.append(error)

    locks, delivery, _ = new_locks()
    locks.record_hooks = Interceptors((Done(),))
    record: ShareRecord[Any, Any] = ShareRecord("t", 0, 1, 0, 0, b"", b"", [], delivery=delivery)
    with pytest.raises(ForkedClientError), record:
        locks.abandon(ForkedClientError("forked"))
    assert [type(error) for error in Done.errors] == [ForkedClientError]


def test_session_epochs_continue_with_one_after_the_last() -> None:
    assert [next_epoch(epoch) for epoch in (LAST_EPOCH - 1, LAST_EPOCH, 1)] == [LAST_EPOCH, 1, 2]


def test_commit_does_not_wait_for_a_renewal_that_the_end_of_a_block_has_replaced() -> None:
    locks, delivery, _ = new_locks()
    locks.begin_handling(delivery, 1)
    locks.decide(delivery, 1, AcknowledgeType.RENEW)
    locks.flush(accepts=False)
    (waiting,) = locks.unsettled()
    locks.end_handling(delivery, 1, AcknowledgeType.ACCEPT)
    assert waiting.state is SETTLED
    (taken,) = locks.take_ready(0)
    assert (taken.offsets, taken.type) == ([1], AcknowledgeType.ACCEPT)


@pytest.mark.parametrize(("max_renew", "renewed"), [(0.0, []), (3.0, [7]), (float("inf"), [7])])
def test_lock_of_a_block_that_begins_late_is_renewed_within_max_renew(
    max_renew: float, renewed: list[int]
) -> None:
    clock = SetClock()
    locks = Locks(clock, None, max_renew, lambda: None)
    lock = locks.new((b"id", 0), PARTITIONS[0], 0, clock.now, clock.now + TIMEOUT)
    lock.offsets.append(7)
    locks.deliver(lock)
    clock.now += TIMEOUT * 0.7
    locks.begin_handling(lock, 7)
    due, _ = locks.take_renewals(0, TIMEOUT, clock.now)
    assert [at for part in due for at in part.own_offsets()] == renewed
