"""Iteration on another thread: its items, its errors, and that nothing is left of it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from pykafka2.driver.read_ahead import read_ahead

LATE_AFTER_S = 0.005


@pytest.fixture(autouse=True)
def _leaves_no_thread() -> Iterator[None]:
    yield
    assert not [one for one in threading.enumerate() if one.name == "reader"]


class Reading:
    """Two gates: each item passes the first one, an interruption opens both."""

    def __init__(self, items: Any, error: BaseException | None = None) -> None:
        self.gate = threading.Event()
        self.interrupted = self.closed = 0
        self._items, self._error = items, error

    def items(self) -> Generator[int, None, None]:
        try:
            for item in self._items:
                self.gate.wait()
                yield item
            if self._error is not None:
                raise self._error
        finally:
            self.closed += 1

    def interrupt(self) -> None:
        self.interrupted += 1
        self.gate.set()

    def start(self) -> Generator[int | None, None, None]:
        return read_ahead(self.items, self.interrupt, LATE_AFTER_S, "reader")


def test_items_keep_their_order_and_none_stands_for_a_late_one() -> None:
    reading = Reading(range(3))
    found = reading.start()
    assert [next(found), next(found)] == [None, None]
    reading.gate.set()
    assert [one for one in found if one is not None] == [0, 1, 2]
    assert (reading.interrupted, reading.closed) == (1, 1)


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt(), SystemExit(3)])
def test_an_error_of_the_iteration_is_raised_after_its_items(error: BaseException) -> None:
    reading = Reading(range(2), error)
    reading.gate.set()
    found: list[int | None] = []
    with pytest.raises(type(error)) as raised:
        found.extend(reading.start())
    assert raised.value is error
    assert reading.closed == 1


def test_closing_interrupts_a_step_that_blocks() -> None:
    reading = Reading(range(3))
    found = reading.start()
    assert next(found) is None
    found.close()
    assert (reading.interrupted, reading.closed) == (1, 1)


def test_closing_ends_an_iteration_that_is_ahead() -> None:
    reading = Reading(itertools.count())
    reading.gate.set()
    found = reading.start()
    assert next(one for one in found if one is not None) == 0
    found.close()
    assert reading.closed == 1


def test_an_iteration_is_one_item_ahead() -> None:
    begun: list[int] = []

    def items() -> Generator[int, None, None]:
        for item in range(100):
            begun.append(item)
            yield item

    found = read_ahead(items, lambda: None, LATE_AFTER_S, "reader")
    assert next(one for one in found if one is not None) == 0
    found.close()
    assert len(begun) <= 3  # the one that was taken, the one that waits, and the next
