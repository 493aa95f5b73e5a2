"""Rows go where each record would go alone, and in that order, with numpy and without."""

from __future__ import annotations

import random
from itertools import groupby
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykafka2.producer.bulk import partitions as bulk_partitions
from pykafka2.producer.bulk.partitions import (
    NO_PARTITION,
    partitions_of_keys,
    rows_of_partitions,
    rows_without_partition,
    set_partition,
)
from pykafka2.producer.partitioning.key_hashes import KeyHashes, crc32
from pykafka2.producer.partitioning.murmur2 import murmur2, positive
from pykafka2.records.column_encoder import ListColumns
from pykafka2.testing import KafkaCluster, Simulation
from tests.gate import examples, rest_in_long

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
    expected_numbers = one_by_one(keys, hashes, partitions)
    assert list(numbers) == expected_numbers
    keyless = rows_without_partition(numbers)
    assert list(keyless) == [row for row, key in enumerate(keys) if key is None]
    set_partition(numbers, keyless, 0)
    found = rows_of_partitions(numbers, partitions)
    expected: dict[int, list[int]] = {}
    for row, number in enumerate(expected_numbers):
        expected.setdefault(0 if number == NO_PARTITION else number, []).append(row)
    assert {number: list(rows) for number, rows in found.items()} == expected


@pytest.mark.gate
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
    assert rows_without_partition(partitions_of_keys(columns, KeyHashes(), 3)) == [0, 1]


TOPICS = {"one": 1, "two": 2, "five": 5}
Call = tuple[str, list[tuple[bytes | None, int | None]]]
"""A topic, and the key and the named partition of each row."""


@st.composite
def calls(draw: st.DrawFn) -> Call:
    topic = draw(st.sampled_from([*TOPICS]))
    keys = draw(
        st.lists(st.none() | st.sampled_from([b"", b"k", b"other", b"x" * 20]), min_size=1, max_size=12)
    )
    named = st.none() | st.integers(0, TOPICS[topic] - 1) if draw(st.booleans()) else st.none()
    return topic, [(key, draw(named)) for key in keys]


def logs_of(sent: list[Call], way: str, partitioner: str | None) -> dict[tuple[str, int], list[Any]]:
    """The records of each partition after these calls, each in an equal world."""
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics=TOPICS)
        producer = simulation.producer(cluster, linger_ms=1000, partitioner=partitioner)
        for topic in TOPICS:
            producer.partitions_for(topic)
        for number, (topic, rows) in enumerate(sent):
            values = [b"%d.%d" % (number, row) for row in range(len(rows))]
            keys, named = [key for key, _ in rows], [partition for _, partition in rows]
            is_named = any(partition is not None for partition in named)
            if way == "send":
                for value, key, partition in zip(values, keys, named, strict=True):
                    producer.send(topic, value, key, partition=partition)
            elif way == "lists":
                producer.send_many(topic, values, keys=keys, partitions=named if is_named else None)
            else:
                pa: Any = pytest.importorskip("pyarrow")
                column = pa.array(named, pa.int32()) if is_named else None
                arrays = pa.array(values, pa.binary()), pa.array(keys, pa.binary())
                producer.send_many(topic, arrays[0], keys=arrays[1], partitions=column)
        producer.flush(timeout=30)
        return {
            (topic, partition): [
                (record.key, record.value) for record in cluster.log(topic, partition).records()
            ]
            for topic, partitions in TOPICS.items()
            for partition in range(partitions)
        }


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize(
    ("_library", "partitioner"),
    rest_in_long(
        [
            ("numpy", None),
            ("plain", "consistent_random"),
            ("numpy", "murmur2_round_robin"),
            ("plain", None),
            ("numpy", "consistent_random"),
            ("plain", "murmur2_round_robin"),
        ],
        in_gate=3,
    ),
    indirect=["_library"],
)
@given(st.lists(calls(), min_size=1, max_size=5))
@example([("one", [(key, None) for key in (None, b"", b"k", None, b"k", None)])])
@settings(max_examples=examples(25))
def test_log_of_each_partition_equals_that_of_send(partitioner: str | None, sent: list[Call]) -> None:
    expected = logs_of(sent, "send", partitioner)
    assert logs_of(sent, "lists", partitioner) == expected
    if bulk_partitions.murmur2_numpy() is not None:  # which Arrow columns require
        assert logs_of(sent, "arrow", partitioner) == expected


@pytest.mark.gate
@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize(
    "null_keys", rest_in_long([1, 9, 5], in_gate=2), ids=lambda tenth: f"{tenth} of 10 keys null"
)
def test_rows_keep_their_order_in_each_partition_over_many_batches(
    simulation: Simulation, cluster: KafkaCluster, null_keys: int
) -> None:
    chance = random.Random(7)
    producer = simulation.producer(cluster, bulk_batch_size=5000, batch_size=1000)
    keys = [None if chance.random() * 10 < null_keys else b"%d" % chance.randrange(9) for _ in range(20_000)]
    producer.send_many("spread", [b"%d" % row for row in range(10_000)], keys=keys[:10_000])
    producer.send_many("spread", [b"%d" % row for row in range(10_000, 20_000)], keys=keys[10_000:])
    producer.flush(timeout=60)
    found = 0
    keyless = [0] * 6
    partition_of: dict[int, int] = {}
    for partition in range(6):
        records = list(cluster.log("spread", partition).records())
        rows = [int(record.value or b"") for record in records]
        assert rows == sorted({*rows})
        for record, row in zip(records, rows, strict=True):
            assert record.key == keys[row]
            partition_of[row] = partition
            assert record.key is None or positive(murmur2(record.key)) % 6 == partition
        keyless[partition] = sum(record.key is None for record in records)
        found += len(rows)
    assert found == 20_000
    sticky = [partition_of[row] for row, key in enumerate(keys) if key is None]
    assert max(len([*same]) for _, same in groupby(sticky)) < 2000, "a batch has about 400 of them"
    assert sum(count > 0 for count in keyless) > 3, "they stick to a partition for a batch, not for the call"


@pytest.mark.usefixtures("_library")
def test_rows_larger_than_a_batch_keep_their_order(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, bulk_batch_size=2000, batch_size=1000)
    values = [b"%d" % row * 5000 for row in range(8)]
    producer.send_many("spread", values, keys=[None, b"k", None, None, b"k", b"", None, b"k"])
    producer.flush(timeout=60)
    logs = [[record.value for record in cluster.log("spread", number).records()] for number in range(6)]
    assert logs == [[value for value in values if value in log] for log in logs]
    assert sum(map(len, logs)) == len(values)


@pytest.mark.gate
def test_rows_of_a_long_column_go_to_the_partitions_that_they_name(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """The column is spread in several blocks."""
    chance = random.Random(7)
    named = [chance.randrange(6) for _ in range(10_000)]
    producer = simulation.producer(cluster, bulk_batch_size=5000, batch_size=1000)
    producer.send_many("spread", [b"%d" % row for row in range(len(named))], partitions=named)
    producer.flush(timeout=60)
    for partition in range(6):
        rows = [int(record.value or b"") for record in cluster.log("spread", partition).records()]
        assert rows == [row for row, number in enumerate(named) if number == partition]
