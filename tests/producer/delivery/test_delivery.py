"""Deliveries: one outcome per batch, seen by every record's future, set once."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from pykafka2.errors import (
    IllegalTransition,
    InvalidRecord,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLarge,
)
from pykafka2.producer.accumulator.batch import LEGAL_MOVES, BatchState, ProducerBatch
from pykafka2.producer.accumulator.buffer_pool import Permit
from pykafka2.producer.bulk.delivery import BulkDelivery, Share
from pykafka2.producer.delivery.batch_outcome import READS_OF_ONE, BatchOutcome
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.types import BatchMetadata, RecordMetadata
from tests.driver.interleave import at_every_line, at_line
from tests.producer.rows import a_batch, appended


def test_all_records_of_a_batch_share_its_outcome() -> None:
    batch = a_batch()
    first, second = appended(batch, 5), appended(batch, 6)
    assert (first.done(), second.is_done) == (False, False)
    batch.seal()
    batch.complete(40, -1)
    assert first.result() == RecordMetadata("orders", 3, 40, 5, 3, -1)
    assert second.get() == RecordMetadata("orders", 3, 41, 6, 3, -1)
    assert (second.exception(), second.succeeded(), second.failed()) == (None, True, False)


@pytest.mark.parametrize("append_time", [-1, 99])
@pytest.mark.parametrize("base_offset", [40, -1])
def test_metadata_of_records_read_one_after_the_other_is_that_of_each_alone(
    base_offset: int, append_time: int
) -> None:
    batch = a_batch()
    rows = [(b"%d" % number * number, None if number % 2 else b"key") for number in range(20)]
    deliveries = [appended(batch, 5 + at, value=value, key=key) for at, (value, key) in enumerate(rows)]
    batch.seal()
    batch.complete(base_offset, append_time)
    expected = [
        RecordMetadata(
            "orders",
            3,
            base_offset + at if base_offset >= 0 else -1,
            5 + at if append_time < 0 else append_time,
            -1 if key is None else len(key),
            len(value),
        )
        for at, (value, key) in enumerate(rows)
    ]
    for _ in range(2):
        found = [delivery.result() for delivery in deliveries]
        assert found == expected
        assert {type(one) for one in found} == {RecordMetadata}


def test_metadata_of_records_that_were_read_is_not_kept_by_the_batch() -> None:
    batch = a_batch()
    deliveries = [appended(batch) for _ in range(20)]
    batch.seal()
    batch.complete(0, -1)
    for delivery in deliveries:
        delivery.result()
    ready = deliveries[0].place[0].ready
    assert ready is not None
    assert ready[READS_OF_ONE:] == [None] * (20 - READS_OF_ONE)


def test_the_brokers_append_time_wins_where_the_topic_has_it() -> None:
    batch = a_batch()
    delivery = appended(batch, 5)
    batch.seal()
    batch.complete(0, 99)
    assert delivery.result().timestamp == 99


def test_an_offset_that_is_not_known_is_minus_one() -> None:
    batch = a_batch()
    appended(batch)
    second = appended(batch)
    batch.seal()
    batch.complete(-1, -1)
    assert second.result().offset == -1


def test_offsets_that_are_not_known_of_some_rows_are_minus_one() -> None:
    batch = a_batch()
    outcome, first = [appended(batch) for _ in range(5)][2].place
    bulk = BulkDelivery([Share(outcome, first, range(3))])
    batch.seal()
    batch.complete(-1, -1)
    assert [call.base_offset for call in bulk.result(0)] == [-1]


def test_a_failure_is_raised_typed_and_counts_as_reported() -> None:
    batch = a_batch()
    delivery, other = appended(batch), appended(batch)
    batch.seal()
    batch.fail(MessageTooLarge("orders-3"))
    assert batch.unreported == 2
    with pytest.raises(MessageTooLarge):
        delivery.result(0)
    assert isinstance(delivery.exception(0), MessageTooLarge)
    assert batch.unreported == 1
    assert other.failed()


@pytest.mark.parametrize("call", ["result", "get"])
def test_records_that_share_an_error_do_not_share_how_it_was_raised(call: str) -> None:
    """Its traceback grew by two lines a record, and kept the frames of all earlier callers."""
    batch = a_batch()
    awaited: list[Any] = [appended(batch) for _ in range(3)]
    awaited += [BulkDelivery([Share(awaited[0].place[0], 0, range(3))])] * 2
    batch.seal()
    batch.fail(MessageTooLarge("orders-3"))
    lines = set()
    for one in awaited:
        with pytest.raises(MessageTooLarge) as raised:
            getattr(one, call)()
        lines.add(len(raised.traceback))
    assert len(lines) <= 2, lines


def test_threads_that_learn_of_a_failure_at_the_same_time_are_all_counted() -> None:
    """One of the first two callers was forgotten, and `flush` raised the failure again."""

    def attempt(line: int) -> bool:
        batch = a_batch()
        one, other = appended(batch), appended(batch)
        batch.seal()
        batch.fail(MessageTooLarge("orders-3"))
        came = at_line(BatchOutcome.mark_reported.__code__, line, lambda: other.exception(), one.exception)
        assert batch.unreported == (0 if came else 1)
        return came

    assert len([*at_every_line(attempt)]) >= 1


def test_a_record_may_have_an_error_of_its_own() -> None:
    batch = a_batch()
    first, second = appended(batch), appended(batch)
    batch.seal()
    batch.fail(InvalidRecord("batch"), {1: InvalidRecord("record 1")})
    assert (str(first.exception()), str(second.exception())) == ("batch", "record 1")


def test_failures_of_single_records_are_reported_row_by_row() -> None:
    batch = a_batch()
    outcome, first = [appended(batch) for _ in range(7)][1].place
    bulk = BulkDelivery([Share(outcome, first, range(100, 105))])
    batch.seal()
    others = InvalidRecord("others")
    batch.fail(others, {0: InvalidRecord("0"), 2: InvalidRecord("2"), 3: InvalidRecord("3")})
    calls = [([*rows], str(error)) for rows, error in bulk.failures(0)]
    assert calls == [([100], "others"), ([101], "2"), ([102], "3"), ([103, 104], "others")]


def test_halves_may_be_written_in_any_order() -> None:
    batch = a_batch()
    deliveries = [appended(batch, number) for number in range(4)]
    bulk = BulkDelivery([Share(deliveries[0].place[0], 0, range(4))])
    batch.seal()
    first, second = batch.split((Permit(0), Permit(0)))
    second.complete(10, -1)
    assert not deliveries[3].done()
    first.complete(50, -1)
    assert [delivery.result(0).offset for delivery in deliveries] == [50, 51, 10, 11]
    assert [delivery.result(0).timestamp for delivery in deliveries] == [0, 1, 2, 3]
    assert [(part.base_offset, [*part.rows]) for part in bulk.result(0)] == [(50, [0, 1]), (10, [2, 3])]


def test_an_open_outcome_raises_a_timeout() -> None:
    with pytest.raises(KafkaTimeoutError, match="orders-3 has no result after 2 s"):
        appended(a_batch()).result(timeout=2)


def test_callbacks_in_kafka_pythons_form_are_called_by_outcome() -> None:
    calls: list[object] = []
    for error in (None, MessageTooLarge("no")):
        batch = a_batch()
        delivery = appended(batch)
        delivery.add_callback(lambda tag, metadata: calls.append((tag, metadata.offset)), "ok")
        delivery.add_errback(lambda tag, problem: calls.append((tag, type(problem))), "bad")
        delivery.add_done_callback(lambda done: calls.append(done.done()))
        batch.seal()
        batch.complete(7, -1) if error is None else batch.fail(error)
    assert calls == [("ok", 7), True, ("bad", MessageTooLarge), True]


def test_a_callback_added_late_is_called_at_once_and_once() -> None:
    calls: list[int] = []
    batch = a_batch()
    delivery = appended(batch)
    batch.seal()
    batch.complete(7, -1)
    delivery.add_callback(lambda metadata: calls.append(metadata.offset))
    assert calls == [7]


def test_on_delivery_gets_metadata_or_error() -> None:
    calls: list[tuple[RecordMetadata | None, KafkaError | None]] = []
    batch = a_batch()
    appended(batch, on_delivery=lambda metadata, error: calls.append((metadata, error)))
    batch.seal()
    batch.fail(error := MessageTooLarge("no"))
    assert calls == [(None, error)]
    assert batch.unreported == 0


def test_on_delivery_is_called_for_a_record_behind_one_without_it() -> None:
    batch, offsets = a_batch(), list[int]()
    appended(batch)
    appended(batch, on_delivery=lambda metadata, error: offsets.append(metadata.offset if metadata else -1))
    batch.seal()
    batch.complete(40, -1)
    assert offsets == [41]


def test_sizes_in_metadata_are_those_of_each_record_if_the_first_key_is_null() -> None:
    batch = a_batch()
    kept = [appended(batch, key=None), appended(batch, key=b"key")]
    batch.seal()
    batch.complete(40, -1)
    assert [delivery.result().serialized_key_size for delivery in kept] == [-1, 3]


def test_a_delivery_can_be_awaited() -> None:
    async def wait_for(batch: ProducerBatch, delivery: Delivery) -> RecordMetadata:
        batch.seal()
        threading.Timer(0.01, batch.complete, (7, -1)).start()
        return await delivery

    batch = a_batch()
    assert asyncio.run(wait_for(batch, appended(batch))).offset == 7


def test_all_batches_of_a_bulk_are_awaited() -> None:
    async def wait_for(*batches: ProducerBatch) -> list[BatchMetadata]:
        shares = [Share(appended(one).place[0], 0, range(1)) for one in batches]
        for number, one in enumerate(batches):
            one.seal()
            threading.Timer(0.01 * (number + 1), one.complete, (number, -1)).start()
        return await BulkDelivery(shares)

    assert [one.base_offset for one in asyncio.run(wait_for(a_batch(), a_batch()))] == [0, 1]


@pytest.mark.parametrize("is_bulk", [False, True])
def test_cancelled_await_gets_no_outcome(is_bulk: bool) -> None:
    problems: list[object] = []

    async def give_up(batch: ProducerBatch, delivery: Delivery) -> None:
        async def wait_for() -> None:
            outcome, index = delivery.place
            await (BulkDelivery([Share(outcome, index, [0])]) if is_bulk else delivery)

        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        waiting = asyncio.ensure_future(wait_for())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        batch.seal()
        batch.complete(7, -1)
        await asyncio.sleep(0.01)

    batch = a_batch()
    asyncio.run(give_up(batch, appended(batch)))
    assert problems == []


def awaitable(delivery: Delivery, is_bulk: bool) -> Delivery | BulkDelivery:
    outcome, index = delivery.place
    return BulkDelivery([Share(outcome, index, [0])]) if is_bulk else delivery


async def await_it(delivery: Delivery | BulkDelivery) -> object:
    return await delivery


@pytest.mark.parametrize("is_bulk", [False, True])
def test_delivery_awaited_by_a_closed_loop_completes_without_a_log_line(
    is_bulk: bool, caplog: pytest.LogCaptureFixture
) -> None:
    batch = a_batch()
    deliveries = [awaitable(appended(batch, timestamp), is_bulk) for timestamp in (5, 6)]
    with closing(asyncio.new_event_loop()) as loop:
        tasks = [loop.create_task(await_it(one)) for one in deliveries]
        loop.run_until_complete(asyncio.sleep(0))
    batch.seal()
    batch.complete(7, -1)
    assert all(one.done() for one in deliveries)
    assert caplog.text == ""
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_bulk", [False, True])
def test_cancelled_await_leaves_no_memory_behind(is_bulk: bool) -> None:
    batch = a_batch()
    delivery = awaitable(appended(batch), is_bulk)

    async def give_up(count: int) -> None:
        for _ in range(count):
            waiting = asyncio.ensure_future(await_it(delivery))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])

    count = 200
    with asyncio.Runner() as runner:
        runner.run(give_up(10))
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            runner.run(give_up(count))
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (after - before) / count < 100  # bytes an await
    batch.seal()
    batch.complete(7, -1)
    assert delivery.done()


@pytest.mark.parametrize("before", BatchState)
@pytest.mark.parametrize("after", BatchState)
def test_a_batch_moves_legally_or_not_at_all(before: BatchState, after: BatchState) -> None:
    batch = a_batch()
    batch.state = before
    if after in LEGAL_MOVES[before]:
        batch.move_to(after)
        assert batch.state is after
    else:
        with pytest.raises(IllegalTransition):
            batch.move_to(after)
        assert batch.state is before


def test_bytes_are_made_once_per_sequence() -> None:
    batch = a_batch()
    appended(batch)
    batch.seal()
    batch.sequence((1, 0), 5)
    first = batch.bytes()
    assert batch.bytes() is first
    batch.sequence((1, 1), 0)
    assert batch.bytes() != first


@pytest.mark.parametrize("copy_of", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("delivery", [appended(a_batch()), BulkDelivery([])], ids=["single", "bulk"])
def test_pickling_a_delivery_raises_and_recommends_result(
    delivery: object, copy_of: Callable[[object], object]
) -> None:
    with pytest.raises(TypeError, match=r"Delivery cannot be pickled .* result\(\)"):
        copy_of(delivery)
