"""Errors as values: an error raised in one process can be read in another."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pykafka2 import errors
from pykafka2.errors import IllegalTransition, IncompleteSend, KafkaError, UnknownErrorCode

CLASSES = [
    found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, KafkaError)
]
ARGUMENTS: dict[type[KafkaError], tuple[Any, ...]] = {
    IllegalTransition: ("open", "reopened"),
    IncompleteSend: ("gave up", 3, [4, 5]),
    UnknownErrorCode: (4711, "what is that"),
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling(kind: type[KafkaError]) -> None:
    error = kind(*ARGUMENTS.get(kind, ("orders-3: no",)))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_categories_of_transactional_errors_are_those_of_kip_1050() -> None:
    """Java's are compared in tests/conformance/test_errors_and_options.py."""
    recoverable = {kind.__name__ for kind in CLASSES if kind.application_recoverable}
    assert recoverable == {
        "FencedInstanceId",
        "IllegalGeneration",
        "InvalidProducerEpoch",
        "InvalidProducerIdMapping",
        "ProducerFenced",
        "UnknownMemberId",
    }
    abortable = {kind.__name__ for kind in CLASSES if kind.abortable}
    assert abortable == {"TransactionAbortable", "TransactionFailed"}
    assert not [kind for kind in CLASSES if kind.abortable and (kind.fatal or kind.application_recoverable)]


def test_pickled_incomplete_send_has_no_delivery() -> None:
    error = IncompleteSend("gave up", 3, [4, 5], delivery=object())
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.taken, copy.left, copy.delivery) == (3, [4, 5], None)


def test_error_without_a_message_has_the_whole_first_paragraph_of_its_class() -> None:
    assert str(errors.CorruptResponse()).endswith("It is unknown whether the request was processed.")
    assert str(errors.GroupAuthorizationFailed()).endswith("DELETE to delete it or its offsets.")
    assert str(errors.UnknownMemberId("gone")) == "gone"
