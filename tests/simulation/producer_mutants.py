"""Planted bugs of producers, many of which clients of Kafka have had: each breaks a promise.

As those of mutants.py: a mutant gets the world when its clients are made, and patches the producer (undone by
pytest's monkeypatch).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.broker.log.producer_state import ProducerStates
from pykafka2.cluster.metadata import Metadata
from pykafka2.errors import (
    DeliveryTimeout,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
)
from pykafka2.producer.accumulator import batch as batch_module
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.accumulator.batch import NO_SEQUENCE, ProducerBatch
from pykafka2.producer.accumulator.buffer_pool import BufferPool, Permit
from pykafka2.producer.idempotence import IdempotentPolicy, IdentityPolicy, Sequences, Verdict
from pykafka2.producer.sending.results import Outcomes
from pykafka2.producer.sending.sender import Sender
from pykafka2.producer.shutdown import Shutdown
from pykafka2.testing.simulation.world import World
from pykafka2.types import NO_OFFSET, NO_TIMESTAMP

Mutant = Callable[[World, pytest.MonkeyPatch], None]


def errors_count_as_success(world: World, patch: pytest.MonkeyPatch) -> None:
    """Too few replicas in sync is taken for written."""
    attempt_failed = Outcomes.attempt_failed

    def believe(
        self: Outcomes, batch: Any, sent_as: Any, error: Any, now: float, *answer: Any, **how: Any
    ) -> None:
        if isinstance(error, NotEnoughReplicas | RequestTimedOut):
            self.written(batch, NO_OFFSET, NO_TIMESTAMP, now)
        else:
            attempt_failed(self, batch, sent_as, error, now, *answer, **how)

    patch.setattr(Outcomes, "attempt_failed", believe)


def one_replica_is_enough(world: World, patch: pytest.MonkeyPatch) -> None:
    """acks=all is sent as acks=1."""
    produce = Sender._produce

    def ask_less(self: Sender, *args: Any) -> Any:
        send = produce(self, *args)
        if send.request.acks == -1:
            send.request.acks = 1
        return send

    patch.setattr(Sender, "_produce", ask_less)


def a_lost_answer_counts_as_never_sent(world: World, patch: pytest.MonkeyPatch) -> None:
    """The application learns that a batch was never sent, although it was."""

    def expired(self: Outcomes, batch: ProducerBatch, waited_for: str) -> DeliveryTimeout:
        return DeliveryTimeout("it was never sent")

    patch.setattr(Outcomes, "expired", expired)


def batches_go_to_the_next_partition(world: World, patch: pytest.MonkeyPatch) -> None:
    """Now and then bytes of one partition are sent to another, and acknowledged there."""
    produce = Sender._produce
    counted = [0]

    def misplace(self: Sender, *args: Any) -> Any:
        send = produce(self, *args)
        counted[0] += 1
        if counted[0] % 10 == 0:
            for topic in send.request.topic_data:
                if len(topic.partition_data) == 2:
                    first, second = topic.partition_data
                    first.records, second.records = second.records, first.records
        return send

    patch.setattr(Sender, "_produce", misplace)


def retries_are_not_counted(world: World, patch: pytest.MonkeyPatch) -> None:
    """`retries` is ignored: a batch is sent again until its delivery timeout."""
    attempt_failed = Outcomes.attempt_failed

    def forget(self: Outcomes, batch: ProducerBatch, *args: Any, **how: Any) -> None:
        attempts, batch.attempts = batch.attempts, min(batch.attempts, 1)
        attempt_failed(self, batch, *args, **how)
        batch.attempts = attempts

    patch.setattr(Outcomes, "attempt_failed", forget)


def metadata_is_requested_without_pause(world: World, patch: pytest.MonkeyPatch) -> None:
    """No back-off between two requests for metadata that bring nothing new."""

    def at_once(self: Metadata) -> None:
        self._gap = 0.0
        self._update_requested = True

    patch.setattr(Metadata, "_retry_later", at_once)


def windows_have_one_more(world: World, patch: pytest.MonkeyPatch) -> None:
    """One more request than `max_in_flight_requests_per_connection` is sent ahead."""
    send_to = Sender._send_to

    def send_more(self: Sender, node_id: int, *args: Any) -> None:
        known = self._in_flight.get(node_id, 0)
        if known:
            self._in_flight[node_id] = known - 1
        send_to(self, node_id, *args)
        if known:
            self._in_flight[node_id] += 1

    patch.setattr(Sender, "_send_to", send_more)


def retries_queue_up_behind(world: World, patch: pytest.MonkeyPatch) -> None:
    """Without idempotence a batch that failed is sent again after those that came later."""
    put_back = Accumulator.put_back

    def at_the_end(self: Accumulator, batch: ProducerBatch) -> None:
        queue = self.queue(batch.topic, batch.partition)
        if batch.base_sequence == NO_SEQUENCE:
            queue.next_order += 1
            batch.order = queue.next_order
        put_back(self, batch)

    patch.setattr(Accumulator, "put_back", at_the_end)


def every_retry_is_numbered_anew(world: World, patch: pytest.MonkeyPatch) -> None:
    """A batch of unknown outcome is sent again under a new epoch, which no broker takes for a repeat."""

    def verdict(self: IdentityPolicy, error: Any, *, is_in_turn: bool) -> Verdict:
        found = original(self, error, is_in_turn=is_in_turn)
        return Verdict.RENUMBER if found is Verdict.RETRY and is_in_turn else found

    original = IdempotentPolicy.verdict
    patch.setattr(IdempotentPolicy, "verdict", verdict)


def holes_are_filled(world: World, patch: pytest.MonkeyPatch) -> None:
    """The number of a batch that was given up, and may be in the log, is given to the next one."""

    def fill(self: Sequences, batch: ProducerBatch, *, may_be_written: bool) -> None:
        run = self._run(batch)
        if self._finish(run, batch) and not run.unfinished:
            run.next_sequence = batch.base_sequence

    patch.setattr(Sequences, "on_failed", fill)


def holes_are_left(world: World, patch: pytest.MonkeyPatch) -> None:
    """After a batch was given up, numbers go on in the same epoch; the broker does not look."""
    patch.setattr(ProducerStates, "check", lambda self, batch: None)
    patch.setattr(Sequences, "on_failed", lambda self, batch, **_: self._finish(self._run(batch), batch))


def first_numbers_are_one(world: World, patch: pytest.MonkeyPatch) -> None:
    """Each run of numbers begins at 1, which a broker takes from a producer that it does not know."""
    may_begin = Sequences._may_begin

    def begin(self: Sequences, run: Any) -> bool:
        may = may_begin(self, run)
        if may and run.next_sequence == 0 and not run.window:
            run.next_sequence = 1
        return may

    patch.setattr(Sequences, "_may_begin", begin)


def order_of_retries_is_not_kept(world: World, patch: pytest.MonkeyPatch) -> None:
    """A batch is sent again while earlier ones of its partition are not written; the broker does not look."""
    patch.setattr(ProducerStates, "check", lambda self, batch: None)
    patch.setattr(
        Sequences, "may_send", lambda self, batch: self.is_known and self._may_begin(self._run(batch))
    )


def outcomes_are_reported_twice(world: World, patch: pytest.MonkeyPatch) -> None:
    """The callbacks of one batch in twenty are called two times."""
    tell = batch_module.call_written
    counted = [0]

    def repeat(*outcome: Any) -> None:
        counted[0] += 1
        for _ in range(1 if counted[0] % 20 else 2):
            tell(*outcome)

    patch.setattr(batch_module, "call_written", repeat)


def nothing_expires(world: World, patch: pytest.MonkeyPatch) -> None:
    """`delivery_timeout_ms` is ignored."""
    patch.setattr(Sender, "_expire", lambda self, now: float("inf"))


def flush_returns_early(world: World, patch: pytest.MonkeyPatch) -> None:
    """Flush waits for what is queued when it begins, and not for what is in flight."""
    begin_flush = Accumulator.begin_flush

    def forget(self: Accumulator, who: object) -> list[ProducerBatch]:
        return [batch for batch in begin_flush(self, who) if not batch.attempts]

    patch.setattr(Accumulator, "begin_flush", forget)


def expired_batches_keep_their_memory(world: World, patch: pytest.MonkeyPatch) -> None:
    """A batch that expires on the wire does not return its memory."""
    fail, deallocate = Accumulator.fail, BufferPool.deallocate
    expired: list[Permit] = []

    def note(self: Accumulator, batch: ProducerBatch, error: Any, *record_errors: Any) -> None:
        if isinstance(error, DeliveryTimeout):
            expired.append(batch.permit)
        fail(self, batch, error, *record_errors)

    def keep(self: BufferPool, permit: Permit) -> None:
        if permit not in expired:
            deallocate(self, permit)

    patch.setattr(Accumulator, "fail", note)
    patch.setattr(BufferPool, "deallocate", keep)


def flush_takes_no_timeout(world: World, patch: pytest.MonkeyPatch) -> None:
    """`flush(timeout)` waits for everything."""
    flush = Shutdown.flush
    patch.setattr(Shutdown, "flush", lambda self, timeout=None: flush(self, None))


def send_waits_for_ever(world: World, patch: pytest.MonkeyPatch) -> None:
    """`max_block_ms` is ignored where memory is short."""
    wait = Accumulator._wait_for_memory
    patch.setattr(
        Accumulator,
        "_wait_for_memory",
        lambda self, queue, permit, timeout: wait(self, queue, permit, float("inf")),
    )


def moved_leaders_end_a_batch(world: World, patch: pytest.MonkeyPatch) -> None:
    """NOT_LEADER_OR_FOLLOWER is taken for "not written", and a new batch takes the numbers over."""
    attempt_failed = Outcomes.attempt_failed

    def give_up(
        self: Outcomes, batch: Any, sent_as: Any, error: Any, now: float, *answer: Any, **how: Any
    ) -> None:
        if isinstance(error, NotLeaderOrFollower) and not batch.is_done:
            if self._sequences is not None:
                run = self._sequences._run(batch)
                run.next_sequence = batch.base_sequence
                self._sequences._finish(run, batch)
            self._accumulator.fail(batch, DeliveryTimeout("it was never sent"))
            self._accumulator.pool.deallocate(batch.permit)
        else:
            attempt_failed(self, batch, sent_as, error, now, *answer, **how)

    patch.setattr(Outcomes, "attempt_failed", give_up)
