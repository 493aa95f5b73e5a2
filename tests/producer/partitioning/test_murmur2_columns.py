"""Hashes by column are those of each key alone, which test_murmur2.py compares with Java's."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.producer.partitioning.murmur2 import (
    MAX_LANES,
    MIN_LANES,
    NO_KEY,
    murmur2,
    murmur2_by_words,
    murmur2_column,
)
from tests.producer.partitioning.java_hashes import JAVA

Hashes = Callable[[list[bytes | None]], list[int]]

KEYS = st.lists(st.none() | st.binary(max_size=40), max_size=40)


def one_by_one(keys: list[bytes | None]) -> list[int]:
    return [NO_KEY if key is None else murmur2(key) for key in keys]


@given(KEYS)
def test_any_keys(keys: list[bytes | None]) -> None:
    assert murmur2_column(keys) == one_by_one(keys)


@given(KEYS)
def test_any_keys_with_numpy(keys: list[bytes | None]) -> None:
    assert with_numpy(keys) == one_by_one(keys)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 7, 16, 36])
@pytest.mark.parametrize("count", [MIN_LANES - 1, MIN_LANES, MAX_LANES + 3])
def test_many_keys_of_one_length(length: int, count: int) -> None:
    chance = random.Random(length)
    keys: list[bytes | None] = [chance.randbytes(length) for _ in range(count)]
    keys[: MIN_LANES // 2] = [b"\xff" * length] * (MIN_LANES // 2)  # every carry there can be
    assert murmur2_column(keys) == one_by_one(keys)


def with_numpy(keys: list[bytes | None]) -> list[int]:
    pytest.importorskip("numpy")
    from pykafka2.producer.partitioning.murmur2_numpy import murmur2_array

    numbers: list[int] = murmur2_array(keys).tolist()
    return numbers


@pytest.mark.gate
@pytest.mark.parametrize("hashes_of", [murmur2_column, with_numpy])
def test_columns_of_keys_of_every_length_are_hashed_as_word_by_word(hashes_of: Hashes) -> None:
    chance = random.Random(7)
    for length in range(301):
        keys: list[bytes | None] = [chance.randbytes(length) for _ in range(MIN_LANES)]
        keys += [b"\xff" * length, bytes(length)]
        assert hashes_of(keys) == [murmur2_by_words(key) for key in keys if key is not None]


@pytest.mark.parametrize("hashes_of", [murmur2_column, with_numpy])
@pytest.mark.parametrize("count", [1, MIN_LANES])
def test_columns_agree_with_golden_vectors_of_java(hashes_of: Hashes, count: int) -> None:
    for key, number in JAVA.items():
        assert hashes_of([key] * count) == [number & 0xFFFFFFFF] * count
    mixed: list[bytes | None] = [None, *JAVA] * count
    assert hashes_of(mixed) == [NO_KEY, *(number & 0xFFFFFFFF for number in JAVA.values())] * count


def test_column_longer_than_one_pass_of_numpy_is_hashed_whole() -> None:
    pytest.importorskip("numpy")
    from pykafka2.producer.partitioning.murmur2_numpy import MAX_LANES

    keys: list[bytes | None] = [b"%d" % number for number in range(2 * MAX_LANES + 3)]
    assert with_numpy(keys) == murmur2_column(keys)


def test_keys_that_lie_anywhere_in_a_buffer() -> None:
    np = pytest.importorskip("numpy")
    from pykafka2.producer.partitioning.murmur2_numpy import murmur2_buffer

    data = b"..abcdefghij"
    starts, lengths = np.array([2, 5, 5, 10, 12]), np.array([3, 5, -1, 2, 0])
    hashes = murmur2_buffer(np.frombuffer(data, np.uint8), starts, lengths)
    assert hashes.tolist() == one_by_one([b"abc", b"defgh", None, b"ij", b""])
