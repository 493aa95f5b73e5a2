"""Accumulator and memory pool together, in any order of what callers and the IO thread do to them."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pykafka2.errors import BufferExhausted, KafkaError, RecordTooLarge
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.accumulator.batch import BatchState, ProducerBatch
from pykafka2.producer.accumulator.buffer_pool import Permit
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.producer.options import PRODUCER_OPTIONS
from pykafka2.records.batch import batches
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.rows import rows_of
from tests.gate import examples
from tests.producer.rows import a_row

BATCH_BYTES = 500
MEMORY_BYTES = 3000
PARTITIONS = 3


class AccumulatorAgainstLists(RuleBasedStateMachine):
    """Appended rows against a list for each partition, and the pool against a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.accumulator = Accumulator(
            PRODUCER_OPTIONS.parse(None, {"batch_size": BATCH_BYTES, "buffer_memory": MEMORY_BYTES}),
            monotonic=lambda: 0.0,
            wait_until=lambda predicate, timeout, *queues: predicate(),
            wake=lambda: None,
        )
        self.queues = [self.accumulator.queue("orders", number) for number in range(PARTITIONS)]
        self.sent: list[list[bytes]] = [[] for _ in self.queues]
        """Values by partition whose outcome is open, in order."""
        self.deliveries: dict[bytes, Delivery] = {}
        self.outcomes: dict[bytes, bool] = {}
        self.in_flight: list[ProducerBatch] = []
        self.others: list[Permit] = []
        self.number = 0

    def values(self, batch: ProducerBatch) -> list[bytes]:
        return [row[0] or b"" for row in rows_of(batch.fields)]

    # ------------------------------------------------------------------ callers

    @rule(partition=st.integers(0, PARTITIONS - 1), pad=st.sampled_from([0, 10, 100, 450, 600, 4000]))
    def send(self, partition: int, pad: int) -> None:
        queue = self.queues[partition]
        self.number += 1
        value = b"%d" % self.number + b"x" * pad
        row = a_row(
            value, on_delivery=lambda metadata, error: self.outcomes.__setitem__(value, error is None)
        )
        try:
            delivery = queue.try_append(*row) or self.accumulator.append_waiting(queue, *row, timeout=0)
        except RecordTooLarge:
            assert pad == 4000
        except BufferExhausted:
            is_behind_others = any(not permit.is_granted for permit in self.others)
            assert is_behind_others or self.accumulator.pool.available_bytes < BATCH_BYTES + pad + 100
        else:
            self.sent[partition].append(value)
            self.deliveries[value] = delivery

    @rule(size_bytes=st.integers(0, MEMORY_BYTES))
    def ask_for_memory(self, size_bytes: int) -> None:
        """Act like another caller that waits for it."""
        permit = Permit(size_bytes)
        self.accumulator.pool.request(permit)
        self.others.append(permit)

    @precondition(lambda self: self.others)
    @rule(data=st.data())
    def give_memory_back(self, data: st.DataObject) -> None:
        permit = data.draw(st.sampled_from(self.others))
        self.others.remove(permit)
        self.accumulator.pool.deallocate(permit)

    # ------------------------------------------------------------------ the IO thread

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def drain(self, partition: int) -> None:
        queue = self.queues[partition]
        if not queue.batches:
            return
        batch = queue.take()
        batch.move_to(BatchState.IN_FLIGHT)
        batch.attempts += 1
        encoded = batch.bytes()
        assert encoded is batch.bytes()
        [read] = batches(encoded)
        assert [value for _, _, _, value, _ in decode_tuples(read)] == self.values(batch)
        assert len(encoded) <= BATCH_BYTES or batch.count == 1
        self.in_flight.append(batch)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.in_flight))
        self.in_flight.remove(batch)
        self.accumulator.put_back(batch)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), is_written=st.booleans(), released_first=st.booleans())
    def end(self, data: st.DataObject, is_written: bool, released_first: bool) -> None:
        batch = data.draw(st.sampled_from(self.in_flight))
        self.in_flight.remove(batch)
        values = self.values(batch)
        for value in values:
            self.sent[batch.partition].remove(value)
        if released_first:
            self.accumulator.pool.deallocate(batch.permit)
        if is_written:
            self.accumulator.complete(batch, 100, -1)
        else:
            self.accumulator.fail(batch, KafkaError("no"))
        self.accumulator.pool.deallocate(batch.permit)
        for index, value in enumerate(values):
            delivery = self.deliveries.pop(value)
            assert self.outcomes.pop(value) is is_written
            assert delivery.succeeded() is is_written
            if is_written:
                assert delivery.result(0).offset == 100 + index
                assert delivery.result(0).serialized_value_size == len(value)

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def no_memory_is_lost(self) -> None:
        pool = self.accumulator.pool
        held = [*self.others, *(batch.permit for batch in self.accumulator.incomplete)]
        assert pool.available_bytes == MEMORY_BYTES - sum(
            permit.size_bytes for permit in held if permit.is_granted
        )
        assert pool.overhead_bytes == sum(permit.overhead_bytes for permit in held if permit.is_granted)
        assert len(pool.waiters) == sum(not permit.is_granted for permit in self.others)

    @invariant()
    def no_record_is_lost_and_none_is_out_of_order(self) -> None:
        for queue, sent in zip(self.queues, self.sent, strict=True):
            mine = [batch for batch in self.in_flight if batch.partition == queue.partition]
            everything = sorted([*queue.batches, *mine], key=lambda batch: batch.order)
            assert [value for batch in everything for value in self.values(batch)] == sent
            assert [*queue.batches] == sorted(queue.batches, key=lambda batch: batch.order)
            self.only_the_tail_is_open(queue)

    def only_the_tail_is_open(self, queue: PartitionQueue) -> None:
        for batch in queue.batches:
            is_tail = queue.tail is not None and batch.open is queue.tail
            assert (batch.state is BatchState.OPEN) == is_tail
        assert not queue.lock.locked()

    @invariant()
    def no_callback_runs_twice_or_too_early(self) -> None:
        assert not self.outcomes
        assert not any(delivery.done() for delivery in self.deliveries.values())


TestAccumulatorAgainstLists = pytest.mark.slow(AccumulatorAgainstLists.TestCase)
TestAccumulatorAgainstLists.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None
)
