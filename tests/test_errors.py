"""Errors as values: what is raised in one process may be looked at in another."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import errors
from pykafka2.errors import BrokerError, IllegalTransition, IncompleteSend, KafkaError, UnknownErrorCode

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


def test_pickled_incomplete_send_has_no_delivery() -> None:
    error = IncompleteSend("gave up", 3, [4, 5], delivery=object())
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.taken, copy.left, copy.delivery) == (3, [4, 5], None)


@pytest.mark.gate
def test_every_error_of_the_client_is_raised_somewhere() -> None:
    """Except bases, the brokers' errors (raised by code), and names for programs of kafka-python."""
    root = Path(errors.__file__).parent
    sources = [path for path in root.rglob("*.py") if path != root / "errors.py"]
    names = set(re.findall(r"\w+", "\n".join(path.read_text(encoding="utf-8") for path in sources)))
    unused = [
        kind.__name__
        for kind in CLASSES
        if not issubclass(kind, BrokerError | errors._NeverRaised) and kind.__name__ not in names
    ]
    assert [name for name in unused if name not in ("RetriableError", "InvalidMetadataError")] == []
