"""Callbacks for records: one for many records costs no object for each record, and runs once for each."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.errors import KafkaError
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.producer.delivery.callbacks import PARTIAL_BYTES, RUN_BYTES, Listeners
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.types import RecordMetadata
from tests.producer.rows import a_batch, appended


class Notes:
    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.errors: list[KafkaError] = []

    def written(self, metadata: RecordMetadata) -> None:
        self.offsets.append(metadata.offset)

    def failed(self, error: KafkaError) -> None:
        self.errors.append(error)


def test_one_callable_for_all_records_is_one_run() -> None:
    batch, notes = a_batch(), Notes()
    for _ in range(100):
        # A method is another object each time that it is named.
        appended(batch).add_callback(notes.written).add_errback(notes.failed)
    assert batch.outcome is not None
    first_bytes = batch.outcome.listener_bytes
    for _ in range(100):
        appended(batch).add_callback(notes.written).add_errback(notes.failed)
    assert batch.outcome.listener_bytes == first_bytes
    appended(batch).add_callback(lambda metadata: None)
    assert batch.outcome.listener_bytes == first_bytes + RUN_BYTES
    batch.complete(7, -1)
    assert notes.offsets == list(range(7, 207))
    assert notes.errors == []


def test_errback_added_to_all_records_is_called_with_each_failure() -> None:
    batch, notes = a_batch(), Notes()
    for _ in range(5):
        appended(batch).add_callback(notes.written).add_errback(notes.failed)
    batch.seal()
    batch.fail(KafkaError("all"), {3: KafkaError("the fourth")})
    assert [str(error) for error in notes.errors] == ["all", "all", "all", "the fourth", "all"]
    assert (notes.offsets, batch.unreported) == ([], 0)


@pytest.mark.parametrize("has_failed", [False, True])
def test_first_callable_of_a_batch_is_called_for_its_kind_of_result_only(has_failed: bool) -> None:
    called: list[str] = []
    batches = {"callback": a_batch(), "errback": a_batch()}
    appended(batches["callback"]).add_callback(lambda metadata: called.append("callback"))
    appended(batches["errback"]).add_errback(lambda error: called.append("errback"))
    for batch in batches.values():
        batch.seal()
        batch.fail(KafkaError("failed")) if has_failed else batch.complete(7, -1)
    assert called == ["errback" if has_failed else "callback"]


def test_callback_gets_its_keyword_arguments() -> None:
    batch = a_batch()
    found: list[tuple[int, str]] = []

    def written(metadata: RecordMetadata, *, key: str) -> None:
        found.append((metadata.offset, key))

    appended(batch).add_callback(written, key="k")
    batch.seal()
    batch.complete(7, -1)
    assert found == [(7, "k")]


def test_callback_added_after_completion_is_called_at_once() -> None:
    batch, notes = a_batch(), Notes()
    deliveries = [appended(batch) for _ in range(3)]
    deliveries[0].add_callback(notes.written)
    batch.complete(0, -1)
    for delivery in deliveries[1:]:
        delivery.add_callback(notes.written)
        assert notes.offsets[-1] == deliveries.index(delivery)
    assert notes.offsets == [0, 1, 2]


def test_a_callable_that_adds_itself_to_the_next_record_is_called_for_that() -> None:
    batch, called = a_batch(), list[int]()
    deliveries = [appended(batch) for _ in range(3)]

    def written(metadata: RecordMetadata) -> None:
        called.append(metadata.offset)
        if metadata.offset < 2:
            deliveries[metadata.offset + 1].add_callback(written)

    deliveries[0].add_callback(written)
    batch.complete(0, -1)
    assert called == [0, 1, 2]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=30))
def test_each_is_called_as_often_as_it_was_added_in_the_order_of_its_record(
    added: list[tuple[int, int]],
) -> None:
    batch, called = a_batch(), list[tuple[int, int]]()
    deliveries = [appended(batch) for _ in range(5)]

    def one(metadata: RecordMetadata) -> None:
        called.append((metadata.offset, 0))

    def other(metadata: RecordMetadata) -> None:
        called.append((metadata.offset, 1))

    for index, which in added:
        deliveries[index].add_callback((one, other)[which])
    batch.complete(0, -1)
    assert sorted(called) == sorted(added)
    for index in range(5):
        assert [pair for pair in called if pair[0] == index] == [pair for pair in added if pair[0] == index]


def ended(batch: ProducerBatch, *, has_failed: bool) -> None:
    batch.seal()
    if has_failed:
        batch.fail(KafkaError("no"))
    else:
        batch.complete(0, -1)


def adder(*, has_failed: bool) -> Callable[..., Delivery]:
    return Delivery.add_errback if has_failed else Delivery.add_callback


@pytest.mark.parametrize("has_failed", [False, True])
@pytest.mark.parametrize(("args", "kwargs"), [((1,), {}), ((), {"name": "n"})])
def test_callable_gets_its_arguments_if_the_previous_record_has_it_without(
    args: tuple[int, ...], kwargs: dict[str, str], has_failed: bool
) -> None:
    batch, called, add = a_batch(), list[Any](), adder(has_failed=has_failed)

    def note(*args: Any, **kwargs: Any) -> None:
        called.append((args[:-1], kwargs))

    add(appended(batch), note)
    add(appended(batch), note, *args, **kwargs)
    add(appended(batch), note)
    ended(batch, has_failed=has_failed)
    assert called == [((), {}), (args, kwargs), ((), {})]


@pytest.mark.parametrize("has_failed", [False, True])
def test_callables_that_alternate_are_called_for_their_own_records(has_failed: bool) -> None:
    batch, called, add = a_batch(), list[str](), adder(has_failed=has_failed)

    def one(result: object) -> None:
        called.append("one")

    def other(result: object) -> None:
        called.append("other")

    for own in (one, other, other, one, other):
        add(appended(batch), own)
    ended(batch, has_failed=has_failed)
    assert called == ["one", "other", "other", "one", "other"]


@pytest.mark.parametrize("has_failed", [False, True])
def test_callback_of_one_record_and_errback_of_the_next_are_called_for_their_results(
    has_failed: bool,
) -> None:
    batch, called = a_batch(), list[object]()
    tell = called.append
    for _ in range(2):
        appended(batch).add_callback(tell)
        appended(batch).add_errback(tell)
    ended(batch, has_failed=has_failed)
    assert len(called) == 2
    assert {isinstance(one, KafkaError) for one in called} == {has_failed}


@pytest.mark.parametrize("has_failed", [False, True])
def test_callable_added_to_the_next_record_after_completion_is_called_at_once(has_failed: bool) -> None:
    batch, called, add = a_batch(), list[object](), adder(has_failed=has_failed)
    first, second = appended(batch), appended(batch)
    tell = called.append
    add(first, tell)
    ended(batch, has_failed=has_failed)
    add(second, tell)
    assert len(called) == 2


def test_callable_with_arguments_counts_as_more_memory_than_one_without() -> None:
    plain, with_arguments = a_batch(), a_batch()
    appended(plain).add_callback(print)
    appended(with_arguments).add_callback(print, 1)
    assert plain.outcome is not None
    assert with_arguments.outcome is not None
    assert with_arguments.outcome.listener_bytes == plain.outcome.listener_bytes + PARTIAL_BYTES


class ComparesWithFailure:
    """A callable whose `==` is code of the user's."""

    def __init__(self) -> None:
        self.results: list[object] = []

    def __call__(self, result: object) -> None:
        self.results.append(result)

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = None  # type: ignore[assignment]


def test_callables_of_consecutive_records_are_not_compared_by_user_code() -> None:
    batch, one, other = a_batch(), ComparesWithFailure(), ComparesWithFailure()
    for own in (one, other):
        appended(batch).add_callback(own)
    ended(batch, has_failed=False)
    assert (len(one.results), len(other.results)) == (1, 1)


@pytest.mark.parametrize("threads", [1, 3])
def test_callback_added_during_completion_is_called_exactly_once(threads: int) -> None:
    """Threads add while another tells, at a switch of threads every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(40):
            batch, notes = a_batch(), Notes()
            deliveries = [appended(batch) for _ in range(30 * threads)]

            def add(first: int, notes: Notes = notes, deliveries: list = deliveries) -> None:  # type: ignore[type-arg]
                for delivery in deliveries[first::threads]:
                    delivery.add_callback(notes.written)

            adding = [threading.Thread(target=add, args=(first,)) for first in range(threads)]
            for thread in adding:
                thread.start()
            batch.complete(0, -1)
            for thread in adding:
                thread.join()
            assert sorted(notes.offsets) == list(range(30 * threads))
    finally:
        sys.setswitchinterval(before)


def test_two_threads_that_take_share_the_runs() -> None:
    listeners = Listeners()
    for index in (0, 5, 9):
        listeners.add(index, print)
    one, other = listeners.take(), listeners.take()
    assert [[*next(one)[0]], [*next(other)[0]], [*next(one)[0]]] == [[0], [5], [9]]
    assert [*other] == [*one] == []
    assert not listeners
