"""Rows go where each record would go alone, with numpy and without."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.producer.bulk import partitions as bulk_partitions
from pykafka2.producer.bulk.partitions import NO_PARTITION, partitions_of_keys, rows_of_partitions
from pykafka2.producer.partitioning.key_hashes import KeyHashes, crc32
from pykafka2.records.column_encoder import ListColumns

KEYS = st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=30)


def one_by_one(keys: list[bytes | None], hashes: KeyHashes, partitions: int) -> list[int]:
    return [NO_PARTITION if key is None else hashes[key] % partitions for key in keys]


@pytest.fixture(params=["numpy", "plain"])
def _library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        pytest.importorskip("numpy")
        monkeypatch.setattr(bulk_partitions, "MANY_KEYS", 0)
    else:
        monkeypatch.setattr(bulk_partitions, "murmur2_numpy", lambda: None)


@pytest.mark.usefixtures("_library")
@given(KEYS, st.integers(1, 9), st.sampled_from([KeyHashes(), KeyHashes(crc32)]))
def test_keys_go_where_they_go_alone(keys: list[bytes | None], partitions: int, hashes: KeyHashes) -> None:
    numbers = partitions_of_keys(ListColumns([b"v"] * len(keys), keys), hashes, partitions)
    assert list(numbers) == one_by_one(keys, hashes, partitions)
    found = rows_of_partitions(numbers, partitions)
    expected: dict[int, list[int]] = {}
    for row, number in enumerate(one_by_one(keys, hashes, partitions)):
        expected.setdefault(number, []).append(row)
    assert {number: list(rows) for number, rows in found.items()} == expected


@given(KEYS, st.integers(1, 9), st.sampled_from([KeyHashes(), KeyHashes(crc32)]))
def test_keys_in_arrow_go_where_they_go_alone(
    keys: list[bytes | None], partitions: int, hashes: KeyHashes
) -> None:
    pa: Any = pytest.importorskip("pyarrow")
    from pykafka2.records.arrow_encoder import ArrowColumns

    whole = pa.array([b"another", *keys], pa.binary())
    columns = ArrowColumns(whole.slice(1), whole.slice(1))
    numbers = partitions_of_keys(columns, hashes, partitions)
    assert list(numbers) == one_by_one(keys, hashes, partitions)


def test_without_keys_all_rows_stick() -> None:
    columns = ListColumns([b"1", b"2"])
    assert rows_of_partitions(partitions_of_keys(columns, KeyHashes(), 3), 3) == {NO_PARTITION: [0, 1]}
