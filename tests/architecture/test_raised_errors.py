"""The errors of `pykafka2.errors` beside the source: each one of the client is raised somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pykafka2 import errors
from pykafka2.errors import BrokerError, KafkaError

CLASSES = [
    found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, KafkaError)
]


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
