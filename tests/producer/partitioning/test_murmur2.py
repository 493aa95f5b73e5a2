"""murmur2 agrees with Java's, or keys would move between partitions when a program changes its client."""

from __future__ import annotations

import random
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.producer.partitioning import key_hashes
from pykafka2.producer.partitioning.key_hashes import (
    ALL_CACHED_BELOW,
    CACHED_KEY_BYTES,
    CACHED_KEYS,
    LONGEST_CACHED_KEY_BYTES,
    ONE_OF,
    KeyHashes,
)
from pykafka2.producer.partitioning.murmur2 import murmur2, murmur2_by_words, positive, positive_murmur2
from tests.gate import rest_in_gate
from tests.producer.partitioning.java_hashes import JAVA

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas in a deprecated way
    from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python


@pytest.mark.parametrize("key", JAVA)
def test_golden_vectors_of_java(key: bytes) -> None:
    assert murmur2(key) == JAVA[key] & 0xFFFFFFFF


@given(st.binary(max_size=300))
def test_murmur2_agrees_with_an_independent_implementation(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF


@pytest.mark.gate
def test_keys_of_every_length_are_hashed_as_word_by_word() -> None:
    chance = random.Random(7)
    for length in range(301):
        for key in (chance.randbytes(length), b"\xff" * length, bytes(length)):
            assert murmur2(key) == murmur2_by_words(key)
            assert positive_murmur2(key) == positive(murmur2_by_words(key))


@given(st.binary(max_size=40))
def test_cached_hashes_are_the_positive_ones(key: bytes) -> None:
    hashes = KeyHashes()
    assert hashes[key] == hashes[key] == positive(murmur2(key))


@pytest.mark.pure
def test_one_of_eight_new_keys_is_cached_beyond_the_first_thousand() -> None:
    hashes = KeyHashes()
    for number in range(ALL_CACHED_BELOW + 10 * ONE_OF):
        hashes[b"%d" % number]
    assert len(hashes) == ALL_CACHED_BELOW + 10


@pytest.mark.pure
def test_without_gil_every_new_key_is_cached_without_an_iterator_that_threads_would_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`itertools.cycle` of a free-threaded Python 3.13 can read beyond its end if two threads share it."""
    monkeypatch.setattr(key_hashes, "HAS_GIL", False, raising=False)
    hashes = KeyHashes()
    for number in range(ALL_CACHED_BELOW + 10 * ONE_OF):
        hashes[b"%d" % number]
    assert len(hashes) == ALL_CACHED_BELOW + 10 * ONE_OF


def test_cache_that_reached_its_limit_is_emptied_and_caches_every_key_again() -> None:
    hashes = KeyHashes(len)
    for number in range(ALL_CACHED_BELOW + ONE_OF * (CACHED_KEYS - ALL_CACHED_BELOW)):
        hashes[b"%d" % number]
    assert len(hashes) == CACHED_KEYS
    for number in range(ONE_OF):
        hashes[b"new %d" % number]
    assert len(hashes) == 1
    hashes[b"hot"], hashes[b"warm"]
    assert {b"hot", b"warm"} < hashes.keys()


@pytest.mark.gate
@pytest.mark.pure
@pytest.mark.parametrize("key_bytes", rest_in_gate([2000, LONGEST_CACHED_KEY_BYTES]))
def test_the_cache_is_bounded_in_bytes(key_bytes: int) -> None:
    hashes = KeyHashes()
    most = 0
    for number in range(CACHED_KEY_BYTES // key_bytes + 20):
        key = b"%d" % number * (key_bytes // len(b"%d" % number))
        hashes[key]
        most = max(most, sum(map(len, hashes)))
    assert most <= CACHED_KEY_BYTES


def test_cache_emptied_when_full_caches_again() -> None:
    computed: list[bytes] = []

    def hash_of(key: bytes) -> int:
        computed.append(key)
        return 1

    hashes = KeyHashes(hash_of)
    for number in range(CACHED_KEY_BYTES // 4000 + 1):
        hashes[b"%04000d" % number]
    computed.clear()
    for _ in range(10):
        hashes[b"hot"], hashes[b"warm"]
    assert computed == [b"hot", b"warm"]


@pytest.mark.pure
def test_long_key_does_not_evict_cached_keys() -> None:
    hashes = KeyHashes()
    hashes[b"hot"]
    hashes[b"x" * (LONGEST_CACHED_KEY_BYTES + 1)]
    assert [*hashes] == [b"hot"]
