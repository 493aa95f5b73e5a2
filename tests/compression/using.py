"""Choose the library of a codec for a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pykafka2.compression import Codec, codec, libraries

CASES = [(name, package) for name, packages in libraries.CANDIDATES.items() for package in packages]
"""Each codec with each of its libraries."""


@contextmanager
def using(name: str, package: str) -> Iterator[Codec]:
    """Give the codec this library; the test is skipped if it cannot be imported."""
    try:
        wanted = libraries.load(name, package)
    except ImportError as error:
        pytest.skip(f"{package} is not installed: {error}")
    before = libraries.chosen.get(name)
    libraries.chosen[name] = wanted
    try:
        yield codec(name)
    finally:
        if before is None:
            del libraries.chosen[name]
        else:
            libraries.chosen[name] = before


def by_each_library(name: str, data: bytes, level: int | None = None) -> dict[str, bytes]:
    """Compress with each library of the codec that is installed."""
    made = {}
    for package in libraries.CANDIDATES[name]:
        try:
            with using(name, package) as found:
                made[package] = found.compress(data, level)
        except pytest.skip.Exception:
            continue
    return made
