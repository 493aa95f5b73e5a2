"""Errors that are raised at several places: each gets a copy of its own, which says the same."""

from __future__ import annotations

import pytest

from pykafka2.errors import KafkaError, UnknownErrorCode
from tests.test_errors import ARGUMENTS, CLASSES


class Theirs(KafkaError):
    """An assignor may raise such a one, and poll() raises it again."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place


@pytest.mark.parametrize("kind", [*CLASSES, Theirs], ids=lambda kind: kind.__name__)
def test_an_error_that_is_raised_again_is_the_same(kind: type[KafkaError]) -> None:
    error = kind(*{**ARGUMENTS, Theirs: ("orders-3", "no")}.get(kind, ("orders-3: no",)))
    error.__cause__ = ValueError("because")
    again = error.anew()
    assert again is not error
    assert type(again) is kind
    assert (str(again), vars(again), again.__cause__) == (str(error), vars(error), error.__cause__)


def test_unknown_error_code_keeps_its_message_when_raised_again() -> None:
    """An error like those of a batch's records that may be in the log: of words, and raised by each
    `result()`.
    """
    first = UnknownErrorCode(4711, "orders-3: no")
    later = UnknownErrorCode(f"{first}; it may or may not be in the log")
    for error in (first, later):
        again = error.anew()
        assert (str(again), again.unknown_code) == (str(error), error.unknown_code)
