"""Tables and frames as records: what is in the topic, and which rows failed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pykafka2
from pykafka2 import KafkaProducer
from pykafka2.errors import (
    BufferExhausted,
    IllegalArgument,
    IncompleteSend,
    InvalidRecord,
    RecordTooLarge,
    SerializationError,
)
from pykafka2.tables import write as write_module
from pykafka2.testing import KafkaCluster
from tests.tables.topics import NOW, fill

pytestmark = pytest.mark.kafka(brokers=1, topics={"orders": 2, "copy": 2})

ROWS = {"id": [1, 2, 3], "name": ["a", None, "ü"], "amount": [1.5, 2.0, None]}


def written(cluster: KafkaCluster, topic: str = "copy", **arguments: Any) -> pa.Table:
    return pykafka2.scan(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        columns=["partition", "key", "value", "timestamp", "headers"],
        order="timestamp",
        **arguments,
    ).to_arrow()


CONNECTION = duckdb.connect()


def frames() -> dict[str, Any]:
    table = pa.table(ROWS)
    return {
        "table": table,
        "batch": table.to_batches()[0],
        "reader": table.to_reader(),
        "polars": pl.DataFrame(ROWS),
        "lazy": pl.LazyFrame(ROWS),
        "pandas": pd.DataFrame(ROWS).convert_dtypes(),
        "duckdb": CONNECTION.from_arrow(table),
    }


@pytest.mark.gate
@pytest.mark.parametrize("kind", sorted(frames()))
def test_rows_of_each_library_become_json_objects(kafka_cluster: KafkaCluster, kind: str) -> None:
    result = pykafka2.write(
        frames()[kind], "copy", key="id", partition=1, bootstrap_servers=kafka_cluster.bootstrap_servers
    )
    assert (result.rows, result.written, result.failed, result.failures) == (3, 3, 0, [])
    table = written(kafka_cluster)
    assert table["key"].to_pylist() == [b"1", b"2", b"3"]
    found = [json.loads(one) for one in table["value"].to_pylist()]
    assert found == [{"name": n, "amount": a} for n, a in zip(ROWS["name"], ROWS["amount"], strict=True)]
    assert written(kafka_cluster, value="json").num_rows == 3


@pytest.mark.gate
def test_a_scan_is_copied_with_keys_headers_and_timestamps(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        producer.send("orders", None, key=b"gone", headers=[("h", b"1")], timestamp_ms=NOW + 500, partition=0)
    names = ["partition", "key", "value", "headers", "timestamp"]
    scan = pykafka2.scan("orders", columns=names, bootstrap_servers=kafka_cluster.bootstrap_servers)
    result = pykafka2.write(
        scan, "copy", partition="partition", bootstrap_servers=kafka_cluster.bootstrap_servers
    )
    assert result.written == 101
    assert written(kafka_cluster).equals(written(kafka_cluster, "orders"))


def test_chosen_columns_and_all_types_of_json(kafka_cluster: KafkaCluster) -> None:
    moment = datetime(2026, 11, 29, tzinfo=UTC)
    row = {"at": moment, "price": Decimal("1.50"), "tags": ["x"], "inner": {"a": 1}, "left": 1}
    table = pa.Table.from_pylist([row])
    pykafka2.write(
        table,
        "copy",
        value=["at", "price", "tags"],
        key="inner",
        bootstrap_servers=kafka_cluster.bootstrap_servers,
    )
    [value], [key] = (written(kafka_cluster)[name].to_pylist() for name in ("value", "key"))
    assert json.loads(value) == {"at": "2026-11-29T00:00:00+00:00", "price": "1.50", "tags": ["x"]}
    assert json.loads(key) == {"a": 1}


def test_categories_and_numbers_that_json_lacks(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers
    frame = pl.DataFrame(
        {"key": ["a", None], "value": ["x", "y"]},
        schema={"key": pl.Categorical, "value": pl.Enum(["x", "y"])},
    )
    pykafka2.write(frame, "copy", partition=0, bootstrap_servers=servers)
    pykafka2.write(
        pl.DataFrame({"n": [float("nan")], "in": [[float("inf"), 1.0]]}),
        "copy",
        partition=0,
        bootstrap_servers=servers,
    )
    table = written(kafka_cluster)
    assert table["key"].to_pylist() == [b"a", None, None]
    assert table["value"].to_pylist() == [b"x", b"y", b'{"n":null,"in":[null,1.0]}']


def test_an_error_names_the_rows_of_the_table(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_module, "ROWS_PER_CALL", 10)
    data = pa.table({"value": [[b"x"] if row == 25 else [] for row in range(26)]})
    with pytest.raises(SerializationError) as failed:
        pykafka2.write(data, "copy", bootstrap_servers=kafka_cluster.bootstrap_servers)
    assert failed.value.__notes__ == ["in rows 20 to 25 of the table; the rows before them were sent"]
    assert written(kafka_cluster).num_rows == 20


@pytest.mark.gate
def test_rows_that_are_too_large_are_failures(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_module, "ROWS_PER_CALL", 10)
    rows = [0, 4, 5, 19, 25]
    data = pa.table(
        {
            "value": ["x" * 2_000_000 if row in rows else str(row) for row in range(26)],
            "key": [str(row) for row in range(26)],
            "timestamp": [NOW + row for row in range(26)],
        }
    )
    result = pykafka2.write(data, "copy", partition=1, bootstrap_servers=kafka_cluster.bootstrap_servers)
    assert [row for failed, _ in result.failures for row in failed] == rows
    assert all(isinstance(error, RecordTooLarge) for _, error in result.failures)
    assert "row 25 of the table" in result.failures[-1][1].__notes__
    left = [b"%d" % row for row in range(26) if row not in rows]
    table = written(kafka_cluster)
    assert table["value"].to_pylist() == table["key"].to_pylist() == left
    assert (result.rows, result.written) == (26, 21)


def test_rows_that_fail_are_returned(kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_module, "ROWS_PER_CALL", 10)
    kafka_cluster.controls.rule(api="Produce", nth=2, then="error:INVALID_RECORD")
    result = pykafka2.write(
        pa.table({"value": [b"%d" % row for row in range(30)]}),
        "copy",
        partition=0,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        max_in_flight_requests_per_connection=1,
        bulk_batch_size=100,
        linger_ms=0,
    )
    left = set(written(kafka_cluster)["value"].to_pylist())
    assert {b"%d" % row for rows, _ in result.failures for row in rows} == {
        b"%d" % row for row in range(30)
    } - left
    assert (result.rows, result.written) == (30, len(left))
    assert 0 < result.failed < 30
    assert all(isinstance(error, InvalidRecord) for _, error in result.failures)


@pytest.mark.gate
def test_rows_of_a_partition_that_fail_have_the_numbers_of_the_table(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_module, "ROWS_PER_CALL", 10)
    kafka_cluster.controls.rule(api="Produce", topic="copy", partition=1, then="error:INVALID_RECORD")
    result = pykafka2.write(
        pa.table({"value": [b"%d" % row for row in range(30)], "to": pa.array([0, 1, 1] * 10, pa.int32())}),
        "copy",
        partition="to",
        bootstrap_servers=kafka_cluster.bootstrap_servers,
    )
    expected = [row for row in range(30) if row % 3]
    assert sorted(row for rows, _ in result.failures for row in rows) == expected
    assert written(kafka_cluster)["value"].to_pylist() == [b"%d" % row for row in range(0, 30, 3)]


@pytest.mark.gate
@pytest.mark.slow
def test_rows_that_find_no_memory_have_the_numbers_of_the_table(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_module, "ROWS_PER_CALL", 10)
    send_many, left = KafkaProducer.send_many, []

    def until_full(*arguments: Any, **columns: Any) -> Any:
        try:
            return send_many(*arguments, **columns)
        except IncompleteSend as error:
            left.append(list(error.left))
            kafka_cluster.controls.clear()  # the rows before it are written
            raise

    monkeypatch.setattr(KafkaProducer, "send_many", until_full)
    kafka_cluster.controls.hold("Produce")
    values = [b"x" * (10 if row < 10 else 9_000) for row in range(20)]
    result = pykafka2.write(
        pa.table({"value": values}),
        "copy",
        partition=0,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        buffer_memory=50_000,
        max_block_ms=2000,
        bulk_batch_size=10_000,
    )
    [(rows, error)] = result.failures
    assert list(rows) == [10 + row for row in left[0]]
    assert isinstance(error, BufferExhausted)
    assert rows[0] > 10
    assert rows[-1] == 19
    assert result.written == written(kafka_cluster).num_rows == 20 - len(rows)


@pytest.mark.parametrize(
    ("data", "arguments", "error", "message"),
    [
        ({"a": 1}, {}, IllegalArgument, "data is dict; give a pyarrow Table"),
        (pa.table({"a": [1]}), {"key": "b"}, IllegalArgument, "the table has no column 'b', but a"),
        (pa.table({"a": [1]}), {"key": "a"}, IllegalArgument, "no column is left for the values"),
        (
            pa.table({"a": [b"\xff"]}),
            {},
            SerializationError,
            "a of row 0 of a batch cannot be written as JSON: bytes",
        ),
        (
            pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]),
            {},
            IllegalArgument,
            "the table has two columns 'a'; rename one",
        ),
        (pl.Series("a", [1]), {}, IllegalArgument, "data is Series"),
        (pd.Series([1]), {}, IllegalArgument, "data is Series"),
        (pa.table({"a": [1]}), {"value_serializer": str.encode}, IllegalArgument, "value_serializer"),
    ],
)
def test_wrong_arguments(
    kafka_cluster: KafkaCluster, data: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        pykafka2.write(data, "copy", bootstrap_servers=kafka_cluster.bootstrap_servers, **arguments)
    assert written(kafka_cluster).num_rows == 0
