"""Arrow's columns: they arrive as the same rows in lists would, and an unsupported column is named."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from pykafka2.errors import (
    IllegalArgument,
    RecordTooLarge,
    SerializationError,
    UnknownTopicOrPartition,
)
from pykafka2.producer.partitioning.murmur2 import murmur2, positive
from pykafka2.testing import KafkaCluster, Simulation
from tests.gate import rest_in_gate

pa = pytest.importorskip("pyarrow")

FEW_ROWS = 4096
"""Smaller chunks are joined."""

MANY = 3000


def log(cluster: KafkaCluster, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
    return cluster.log(topic, partition).values()


def varying(count: int = MANY) -> list[bytes | None]:
    chance = random.Random(2)
    return [None if chance.random() < 0.1 else chance.randbytes(chance.randrange(150)) for _ in range(count)]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(100), pa.string()], ids=str)
def test_columns_of_one_length(simulation: Simulation, cluster: KafkaCluster, kind: Any) -> None:
    producer = simulation.producer(cluster, bulk_batch_size=100_000)
    values = [b"%0100d" % row for row in range(MANY)]
    producer.send_many("orders", pa.array(values, kind)).result(10)
    assert log(cluster) == values
    assert max(batch.size_bytes for batch in cluster.log("orders", 0).batches()) > 90_000


@pytest.mark.gate
@pytest.mark.parametrize("count", [20, MANY], ids=["few", "many"])
def test_keys_headers_and_times(simulation: Simulation, cluster: KafkaCluster, count: int) -> None:
    producer = simulation.producer(cluster, bulk_batch_size=20_000, batch_size=2000)
    values = varying(count)
    keys = [None if row % 9 == 0 else b"key-%d" % (row % 50) for row in range(count)]
    headers = [None if row % 3 else [{"key": "row", "value": b"%d" % row}] for row in range(count)]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    times = [1_000_000 + 7 * row for row in range(count)]
    batches = producer.send_many(
        "spread",
        pa.array(values, pa.binary()),
        keys=pa.array(keys, pa.binary()),
        headers=pa.array(headers, kind),
        timestamps_ms=pa.array([time * 1000 for time in times], pa.timestamp("us")),
    ).result(10)
    arrived = [record for partition in range(6) for record in cluster.log("spread", partition).records()]
    assert sorted(
        (record.timestamp, record.key, record.value, str(record.headers)) for record in arrived
    ) == sorted(
        (times[row], keys[row], values[row], str([("row", b"%d" % row)] if headers[row] else []))
        for row in range(count)
    )
    assert sorted(row for batch in batches for row in batch.rows) == list(range(count))
    for partition in range(6):
        rows = [row for row, key in enumerate(keys) if key and positive(murmur2(key)) % 6 == partition]
        keyed = [
            record.value for record in cluster.log("spread", partition).records() if record.key is not None
        ]
        assert keyed == [values[row] for row in rows]


def test_chunked_columns_with_chunks_of_their_own(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    values = varying()
    chunked = pa.chunked_array([pa.array(values[:1000], pa.binary()), pa.array(values[1000:], pa.binary())])
    keys = pa.chunked_array(
        [pa.array([b"k"] * 2000, pa.binary()), pa.array([b"k"] * (MANY - 2000), pa.binary())]
    )
    producer.send_many("orders", chunked, keys=keys, partition=0).result(10)
    assert log(cluster) == values


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("names_partitions", rest_in_gate([False, True]))
def test_each_chunk_has_its_own_rows_of_every_column(
    simulation: Simulation, cluster: KafkaCluster, names_partitions: bool
) -> None:
    """Chunks of so many rows are sent as they are, one behind the other."""
    producer = simulation.producer(cluster, bulk_batch_size=50_000)
    count = 2 * FEW_ROWS
    values = [b"%0100d" % row for row in range(count)]
    numbers = [row // 10 % 6 for row in range(count)] if names_partitions else None
    batches = producer.send_many(
        "spread",
        pa.chunked_array([values[:FEW_ROWS], values[FEW_ROWS:]], pa.binary()),
        headers=[[("row", b"%d" % row)] for row in range(count)],
        timestamps_ms=pa.array(range(count)),
        partitions=numbers,
    ).result(10)
    found: dict[int, bytes | None] = {}
    logs = [list(cluster.log("spread", partition).records()) for partition in range(6)]
    for batch in batches:
        records = logs[batch.partition]
        for place, row in enumerate(batch.rows):
            record = records[batch.base_offset + place]
            assert (record.timestamp, record.headers) == (row, [("row", b"%d" % row)])
            assert numbers is None or batch.partition == numbers[row]
            found[row] = record.value
    assert found == dict(enumerate(values))


def test_many_small_chunks_make_few_batches(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    chunks = [[b"%0100d" % row for row in range(first, first + 300)] for first in range(0, MANY, 300)]
    producer.send_many("orders", pa.chunked_array(chunks, pa.binary()), partition=0).result(10)
    assert len(list(cluster.log("orders", 0).batches())) == 1
    assert log(cluster) == [value for chunk in chunks for value in chunk]


def test_a_null_among_times_is_now(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    producer.partitions_for("orders")
    times = pa.array([5, None], pa.int64())
    producer.send_many("orders", pa.array([b"1", b"2"], pa.binary()), timestamps_ms=times)
    now_ms = producer.send("orders", b"3").result(10).timestamp
    producer.flush(10)
    assert [record.timestamp for record in cluster.log("orders", 0).records()] == [5, now_ms, now_ms]


def test_a_partition_that_is_not_there_is_refused_before_the_chunks_in_front_of_it(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, max_block_ms=100)
    values = pa.chunked_array([[b"v"] * FEW_ROWS] * 2, pa.binary())
    with pytest.raises(UnknownTopicOrPartition, match="no partition 99"):
        producer.send_many("spread", values, partitions=[0] * (2 * FEW_ROWS - 1) + [99])
    assert producer.health()["records_waiting"] == 0


def test_a_table_names_its_columns(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    count = 600
    table = pa.table(
        {
            "key": pa.array([b"k%d" % row for row in range(count)], pa.binary()),
            "value": pa.array([f"v{row}" for row in range(count)]),
            "partition": pa.array([None if row % 2 else row % 6 for row in range(count)], pa.int32()),
            "timestamp": pa.array(range(count), pa.timestamp("ms")),
            "headers": pa.array([[("a", b"1")]] * count, pa.map_(pa.string(), pa.binary())),
        }
    )
    producer.send_many("spread", table).result(10)
    arrived = {
        record.value: (partition, record)
        for partition in range(6)
        for record in cluster.log("spread", partition).records()
    }
    for row in range(count):
        partition, record = arrived[b"v%d" % row]
        by_key = positive(murmur2(b"k%d" % row)) % 6
        assert partition == (by_key if row % 2 else row % 6)
        assert (record.timestamp, record.headers) == (row, [("a", b"1")])
    producer.send_many("orders", table.select(["value"]).to_batches()[0]).result(10)
    assert log(cluster) == [b"v%d" % row for row in range(count)]


def test_objects_with_the_arrow_c_interface_are_read_like_arrow_arrays(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    class Column:
        """A column of another library."""

        def __init__(self, array: Any) -> None:
            self.array = array

        def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
            return self.array.__arrow_c_array__(requested_schema)  # type: ignore[no-any-return]

    producer = simulation.producer(cluster)
    producer.send_many(
        "orders", Column(pa.array([b"1", b"2"], pa.binary())), keys=Column(pa.array(["a", "b"]))
    ).result(10)
    producer.send_many("orders", Column(pa.record_batch({"value": pa.array([b"3"], pa.binary())}))).result(10)
    assert log(cluster) == [b"1", b"2", b"3"]


class Stream:
    """A column of another library, which hands over its chunks once."""

    def __init__(self, column: Any) -> None:
        self._stream = column.__arrow_c_stream__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._stream


class BrokenColumn:
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        raise RuntimeError("no column here")

    def __repr__(self) -> str:
        return "BrokenColumn()"


def test_dictionaries_views_and_nulls_are_made_plain(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    producer.send_many("orders", pa.array(["a", "b", "a"]).dictionary_encode()).result(10)
    producer.send_many("orders", pa.nulls(2)).result(10)
    producer.send_many("orders", pa.array([b"view"], pa.binary_view())).result(10)
    producer.send_many("orders", pa.array([], pa.binary())).result(10)
    assert log(cluster) == [b"a", b"b", b"a", None, None, b"view"]


def test_lists_and_arrow_columns_can_be_combined(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    values = pa.array([b"1", b"2"], pa.binary())
    producer.send_many(
        "orders", values, keys=[b"a", None], timestamps_ms=[5, 6], partitions=[0, None]
    ).result(10)
    producer.send_many(
        "orders", [b"3", b"4"], keys=pa.array(["c", "d"]), timestamps_ms=pa.array([7, 8])
    ).result(10)
    column = pa.array([[("h", b"1")]] * 2, pa.map_(pa.string(), pa.binary()))
    producer.send_many("orders", [b"5", b"6"], headers=column, partitions=pa.array([0, 0])).result(10)
    assert [record.headers for record in cluster.log("orders", 0).records()][-2:] == [[("h", b"1")]] * 2
    records = [(record.key, record.value, record.timestamp) for record in cluster.log("orders", 0).records()]
    assert records[:4] == [(b"a", b"1", 5), (None, b"2", 6), (b"c", b"3", 7), (b"d", b"4", 8)]


def test_a_stream_that_can_be_read_once_is_read_once(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    batches = [pa.record_batch({"value": pa.array([b"%d" % row], pa.binary())}) for row in range(3)]
    producer.send_many("orders", pa.RecordBatchReader.from_batches(batches[0].schema, batches)).result(10)
    assert log(cluster) == [b"0", b"1", b"2"]
    values = pa.array([b"3"], pa.binary())
    keys = Stream(pa.chunked_array([["k"]]))
    producer.send_many("orders", Stream(pa.chunked_array([values])), keys=keys).result(10)
    producer.send_many("orders", [b"4"], timestamps_ms=Stream(pa.chunked_array([[7]]))).result(10)
    assert [(record.key, record.value) for record in cluster.log("orders", 0).records()][3:] == [
        (b"k", b"3"),
        (None, b"4"),
    ]


@pytest.mark.parametrize(
    ("values", "arguments", "words"),
    [
        (pa.array([1, 2]), {}, "values=DataType.int64. .* takes an Arrow column of binary"),
        (pa.array(["a", "b"]), {"keys": pa.array([1, 2])}, "keys=DataType.int64"),
        (pa.array(["a", "b"]), {"keys": pa.array(["a"])}, "keys has 1 entries, and values has 2"),
        (pa.array(["a", "b"]), {"partitions": pa.array(["a", "b"])}, "partitions=DataType.string"),
        (pa.array(["a", "b"]), {"partitions": pa.array([0, -1])}, r"partitions\[1\]=-1"),
        (pa.array(["a", "b"]), {"timestamps_ms": pa.array(["a", "b"])}, "timestamps_ms=DataType.string"),
        (pa.array(["a", "b"]), {"timestamps_ms": pa.array([3, -2])}, r"timestamps_ms\[1\]=-2"),
        (
            pa.array(["a", "b"]),
            {"timestamps_ms": pa.array([3])},
            "timestamps_ms has 1 entries, and values",
        ),
        (pa.table({"valu": ["a"]}), {}, "values has a column 'valu' .* columns are value, key"),
        (pa.table({"key": ["a"]}), {}, "values has no column 'value'"),
        (pa.table({"value": ["a"], "key": ["a"]}), {"keys": [b"k"]}, "keys .* given twice"),
        (
            pa.table({"value": ["a"], "timestamp": [1], "timestamp_ms": [1]}),
            {},
            "timestamps_ms .* given twice",
        ),
        (pa.table({"value": ["a"], "partition": [1]}), {"partition": 0}, "partitions .* given twice"),
        (pa.table([["a"], ["b"]], names=["value", "value"]), {}, "values .* given twice"),
        (pa.array(["a", "b"]), {"headers": pa.array([1, 2])}, "headers=DataType.int64. .* of maps"),
        (
            pa.array(["a", "b"]),
            {"timestamps_ms": pa.array([1, 1 << 63], pa.uint64())},
            r"timestamps_ms\[1\]=9223372036854775808",
        ),
        (BrokenColumn(), {}, "values=.* cannot be read as Arrow: RuntimeError"),
    ],
)
def test_invalid_arrow_argument_raises_and_names_the_fault(
    simulation: Simulation, cluster: KafkaCluster, values: Any, arguments: dict[str, Any], words: str
) -> None:
    producer = simulation.producer(cluster)
    with pytest.raises(IllegalArgument, match=words):
        producer.send_many("orders", values, **arguments)
    assert producer.health()["records_waiting"] == 0


def test_a_value_that_is_too_large_is_named(simulation: Simulation, cluster: KafkaCluster) -> None:
    chunks = [pa.array([b"1", b"2"], pa.binary()), pa.array([b"3", b"x" * 2_000_000], pa.binary())]
    with pytest.raises(RecordTooLarge, match=r"values\[3\] .* max_request_size=1048576"):
        simulation.producer(cluster).send_many("orders", pa.chunked_array(chunks))


def test_serializers_want_objects(simulation: Simulation, cluster: KafkaCluster) -> None:
    column = pa.array(["a"])
    with pytest.raises(IllegalArgument, match=r"has a serializer.*to_pylist"):
        simulation.producer(cluster, value_serializer=str.encode).send_many("orders", column)
    with pytest.raises(SerializationError, match=r"keys\[0\] .* is an int"):
        simulation.producer(cluster).send_many("orders", column, keys=[1])


def test_missing_pyarrow_raises_illegal_argument_that_names_it(
    simulation: Simulation, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pykafka2.producer.bulk.arrow", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delattr("pykafka2.producer.bulk.arrow", raising=False)
    with pytest.raises(IllegalArgument, match="requires pyarrow and numpy"):
        simulation.producer(cluster).send_many("orders", pa.array(["a"]))
