"""Scans of topics on a cluster: what is in them, where they end, and that they leave nothing open."""

from __future__ import annotations

import gc
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pykafka2
from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, Scan, TopicPartition
from pykafka2.errors import IllegalArgument, KafkaTimeoutError, SerializationError, UnknownTopicOrPartition
from pykafka2.tables import parquet
from pykafka2.tables import scan as scan_module
from pykafka2.tables.merge import merged
from pykafka2.tables.reader import limits_of
from pykafka2.testing import KafkaCluster, Topic
from tests.ctrl_c import interrupted
from tests.gate import rest_in_long
from tests.tables.topics import NOW, ORDERS, abort, fill, trim

pytestmark = pytest.mark.kafka(brokers=1, topics={"orders": 2, "payments": 2})


def scan(cluster: KafkaCluster, *topics: str, **arguments: Any) -> Scan:
    return pykafka2.scan(topics or "orders", bootstrap_servers=cluster.bootstrap_servers, **arguments)


def polled(cluster: KafkaCluster, topic: str = "orders", count: int = 0, **options: Any) -> list[Any]:
    """Return the records up to the ends of the partitions, as a consumer polls them."""
    partitions = [TopicPartition(topic, number) for number in (0, 1)]
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        found: list[Any] = []
        while any(consumer.position(one) < ends[one] for one in partitions):
            found += [one for records in consumer.poll(200).values() for one in records]
        return found


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(table[name].to_pylist() for name in ("partition", "offset", "value")), strict=True))


def test_a_scan_has_the_records_of_all_partitions_and_its_schema(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    fill(kafka_cluster, "payments", 10)
    found = scan(
        kafka_cluster, "payments", "orders", columns=["value", "topic", "partition", "offset", "timestamp"]
    )
    table = found.to_arrow()
    assert table.schema == found.schema()
    assert table.schema.field("timestamp").type == pa.timestamp("ms", "UTC")
    assert all(pa.types.is_dictionary(table.schema.field(name).type) for name in ("topic", "partition"))
    counts = table.group_by("topic").aggregate([("value", "count")]).to_pylist()
    assert {one["topic"]: one["value_count"] for one in counts} == {"orders": 100, "payments": 10}
    orders = table.filter(pa.compute.equal(table["topic"], "orders"))
    assert rows(orders) == sorted((one.partition, one.offset, one.value) for one in polled(kafka_cluster))
    table.validate(full=True)


def test_every_library_reads_the_same_records(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    fill(kafka_cluster)
    found = scan(kafka_cluster, key="text", value="json")
    connection = duckdb.connect()
    sums = [
        pl.DataFrame(found)["value"].struct.field("id").sum(),
        found.to_polars()["value"].struct.field("id").sum(),
        sum(one["id"] for one in found.to_pandas()["value"]),
        found.to_duckdb(connection).aggregate("sum(value.id)").fetchall()[0][0],
        connection.sql("select sum(value.id) from found where key = 'k1'").fetchall()[0][0] + 4500 - 10,
        found.lazy().select(pl.col("value").struct.field("id").sum()).collect().item(),
    ]
    assert sums == [4950, 4950, 4950, 4950, 4950, 4950]
    assert found.to_parquet(tmp_path / "orders.parquet") == 100
    assert pq.read_table(tmp_path / "orders.parquet")["key"].to_pylist()[:2] == ["k0", "k2"]
    assert [one.name for one in tmp_path.iterdir()] == ["orders.parquet"]
    assert isinstance(found.to_pandas(), pd.DataFrame)


@pytest.mark.gate
def test_columns_of_nulls_have_the_types_of_others(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for value in (None, b'{"a": [1]}'):
            producer.send("orders", value, partition=0).result(10)
    for how in (None, "text", "json"):
        found = scan(kafka_cluster, value=how, columns=["key", "value", "headers"])
        for start in (0, 1):
            frame = scan(kafka_cluster, value=how, start=start, columns=found.columns).to_polars()
            assert frame.schema == found.to_polars().schema == pl.DataFrame(found).schema
            assert frame["key"].null_count() == frame["headers"].null_count() == len(frame) == 2 - start
            assert frame["value"].null_count() == 1 - start


def test_an_empty_scan_has_its_columns(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    found = scan(kafka_cluster)
    assert scan(kafka_cluster, value="json").to_polars().columns == found.columns
    assert found.to_arrow().num_rows == len(found.to_polars()) == len(found.to_pandas()) == 0
    assert found.to_polars().columns == found.columns
    assert found.lazy().collect().columns == found.columns
    assert found.to_parquet(tmp_path / "empty.parquet") == 0
    assert found.estimate().rows == 0


@pytest.mark.parametrize(
    ("bounds", "offsets"),
    [
        ({"start": 45}, [*range(45, 50)]),
        ({"end": 3}, [0, 1, 2]),
        ({"start": {ORDERS[0]: 48, ORDERS[1]: 48}, "end": "latest"}, [48, 49]),
        ({"start": datetime.fromtimestamp((NOW + 94) / 1000, UTC)}, [47, 48, 49]),
        ({"start": "2023-11-14T22:13:20.094+00:00", "end": 48}, [47]),
        ({"start": "-10m"}, []),
        ({"end": "-1d", "start": 49}, [49]),
        ({"start": 48, "end": 60}, [48, 49]),
        ({"last_per_partition": 2}, [48, 49]),
        ({"last_per_partition": 1, "end": 10}, [9]),
        ({"last": 4}, [48, 49]),
        ({"start": 60}, []),
        ({"start": 5, "end": 4}, []),
        ({"start": "1969-12-31T00:00:00+00:00", "end": 2}, [0, 1]),
        ({"end": "-99999d"}, []),
        ({"end": "2200-01-01", "start": 49}, [49]),
        ({"last": 1_000}, [*range(50)]),
    ],
    ids=str,
)
def test_bounds(kafka_cluster: KafkaCluster, bounds: dict[str, Any], offsets: list[int]) -> None:
    fill(kafka_cluster)
    table = scan(kafka_cluster, columns=["partition", "offset"], **bounds).to_arrow()
    for partition in (0, 1):
        chosen = table.filter(pa.compute.equal(table["partition"].cast(pa.int32()), partition))
        assert chosen["offset"].to_pylist() == offsets


def test_last_over_all_has_the_newest_of_all_partitions(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        for number in range(5):
            producer.send("orders", b"new", partition=1, timestamp_ms=NOW + 1000 + number)
    table = scan(kafka_cluster, last=6).to_arrow()
    assert rows(table)[0][:2] == (1, 49)
    assert table["partition"].to_pylist() == [1] * 6


def test_last_over_all_keeps_the_order_of_each_partition(kafka_cluster: KafkaCluster) -> None:
    """A timestamp counts as that of the record before it, if that is newer."""
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        for partition, time in ((0, 50), (0, 1), (0, 2), (1, 30), (1, 40)):
            producer.send("orders", b"%d" % time, partition=partition, timestamp_ms=NOW + time)
    table = scan(kafka_cluster, last=3, columns=["value"]).to_arrow()
    assert table["value"].to_pylist() == [b"50", b"1", b"2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": -5}, "start=-5: an offset is not negative; for the last records use last=5"),
        ({"start": "-10x"}, r"start='-10x' is not a bound of a scan; use an offset, 'earliest'"),
        ({"end": None}, "end=None is not a bound"),
        ({"last": 0}, "last=0 must be a number of records"),
        ({"last": 1, "last_per_partition": 1}, "both set"),
        ({"order": "key"}, "order='key': use 'arrival' or 'timestamp'"),
        ({"columns": ["vlaue"]}, "'vlaue' is not a column"),
        ({"value": "avro"}, "value='avro' is not a format; use 'text', 'json'"),
        ({"value": bytes.decode}, "value_schema must be the Arrow type"),
        ({"value_deserializer": bytes.decode}, "a scan takes value="),
        ({"max_bytes_in_flight": 0}, "max_bytes_in_flight=0"),
        ({"start": {ORDERS[0]: 1}}, "has none for orders-1"),
        ({"start": {0: 1}}, "start: 0: 1 is not a TopicPartition and its offset"),
        ({"end": {ORDERS[0]: -1}}, "-1 is not a TopicPartition and its offset"),
        ({"partitions": 0}, "partitions=0: use a list of numbers"),
        ({"columns": []}, "columns is empty"),
        ({"value": "text", "value_schema": pa.string()}, "value_schema has no use with value='text'"),
        ({"value_schema": pa.int32()}, "value_schema has no use with value=None"),
        ({"value": "json", "value_schema": "a: int"}, "value_schema='a: int' must be a pyarrow.Schema"),
    ],
    ids=str,
)
def test_wrong_arguments(kafka_cluster: KafkaCluster, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(IllegalArgument, match=message):
        scan(kafka_cluster, **arguments)


def test_missing_topics_and_partitions_are_errors(kafka_cluster: KafkaCluster) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="topic 'nothing' does not exist"):
        scan(kafka_cluster, "orders", "nothing")
    with pytest.raises(UnknownTopicOrPartition, match=r"partitions 0 to 1 and no partition 2"):
        scan(kafka_cluster, partitions=[0, 2])


def test_records_that_arrive_after_the_call_are_not_read(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    found = scan(kafka_cluster)
    fill(kafka_cluster)
    assert found.to_arrow().num_rows == 100
    assert scan(kafka_cluster).to_arrow().num_rows == 200


@pytest.mark.gate
def test_aborted_records_are_read_only_with_read_uncommitted(kafka_cluster: KafkaCluster) -> None:
    abort(kafka_cluster)
    assert set(scan(kafka_cluster).to_arrow()["value"].to_pylist()) == {b"committed"}
    for level, count in (("read_committed", 10), ("read_uncommitted", 20)):
        table = scan(kafka_cluster, isolation_level=level).to_arrow()
        assert table.num_rows == count == len(polled(kafka_cluster, isolation_level=level))
    last = scan(kafka_cluster, last_per_partition=7, columns=["value"]).to_arrow()
    assert last["value"].to_pylist() == [b"committed"] * 10, (
        "offsets of markers and aborted records do not count"
    )


def test_an_open_transaction_ends_a_scan(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    with KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="open"
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"open", partition=0).result(10)
        fill(kafka_cluster)
        assert scan(kafka_cluster).to_arrow().num_rows == 150, "the other partition is read to its end"
        producer.abort_transaction()


def test_records_that_retention_deletes_meanwhile_are_left_out_with_a_warning(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    fill(kafka_cluster)
    found = scan(kafka_cluster)
    trim(kafka_cluster, 20)
    assert scan(kafka_cluster).offsets == dict.fromkeys(ORDERS, (20, 50))
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        assert found.to_arrow().num_rows == 60 == len(polled(kafka_cluster))
    assert "scan: offsets 0 to 19 of orders-0 were deleted before they were read" in caplog.text


@pytest.mark.gate
@pytest.mark.parametrize("count", [0, 300])
def test_a_topic_that_was_created_again_is_not_read_by_a_scan_of_the_old_one(
    kafka_cluster: KafkaCluster, count: int
) -> None:
    fill(kafka_cluster)
    found = scan(kafka_cluster, value="text")
    with KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
        admin.delete_topics(["orders"])
    kafka_cluster.create_topic("orders", partitions=2)
    fill(kafka_cluster, count=count)
    newest = pl.col("timestamp") > datetime.fromtimestamp((NOW + 200) / 1000, UTC)
    lazy = found.lazy()
    uses = (found.to_arrow, found.estimate, lazy.collect, lazy.filter(newest).collect)
    for use in uses:
        with pytest.raises(
            (UnknownTopicOrPartition, pl.exceptions.ComputeError),
            match="the topic was deleted and created again",
        ):
            use()
    assert scan(kafka_cluster).to_arrow().num_rows == count


@pytest.mark.gate
@pytest.mark.kafka(brokers=1, topics={})
def test_a_compacted_topic_has_the_last_record_of_each_key(fresh_kafka_cluster: KafkaCluster) -> None:
    fresh_kafka_cluster.create_topic("orders", partitions=2, configs={"cleanup.policy": "compact"})
    fill(fresh_kafka_cluster, count=1000)
    fresh_kafka_cluster.controls.roll_segments()
    fill(fresh_kafka_cluster, count=2)
    fresh_kafka_cluster.controls.compact("orders")
    found = scan(fresh_kafka_cluster)
    table = found.to_arrow()
    assert table.num_rows == len(polled(fresh_kafka_cluster)) < 30
    assert found.estimate().rows == 1002
    tail = scan(fresh_kafka_cluster, last_per_partition=4).to_arrow()
    assert tail.num_rows == 8, "offsets that compaction has emptied do not count"


def test_order_by_timestamp_merges_the_partitions(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, count=3000)
    table = scan(kafka_cluster, order="timestamp", max_bytes_in_flight=64 << 10).to_arrow()
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [NOW + row for row in range(3000)]
    bare = scan(kafka_cluster, order="timestamp", columns=["value"]).to_arrow()
    assert bare.column_names == ["value"]
    assert bare["value"].to_pylist() == [b'{"id": %d}' % row for row in range(3000)]


def test_a_record_out_of_order_follows_the_one_before_it(kafka_cluster: KafkaCluster) -> None:
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        for partition, time in ((0, 10), (0, 3), (1, 5), (1, 11), (0, 12)):
            producer.send("orders", b"%d" % time, partition=partition, timestamp_ms=NOW + time)
    table = scan(kafka_cluster, order="timestamp", columns=["value"]).to_arrow()
    assert table["value"].to_pylist() == [b"5", b"10", b"3", b"11", b"12"]


def test_merged_batches_keep_the_newest_time_and_the_order_of_equal_times() -> None:
    def batches(name: str, *times: list[int]) -> Iterator[pa.RecordBatch]:
        for some in times:
            yield pa.record_batch(
                {"name": [name] * len(some), "timestamp": pa.array(some, pa.timestamp("ms", "UTC"))}
            )

    late = merged([batches("a", [10], [3], [12]), batches("b", [5, 11])])
    assert [one for batch in late for one in batch["name"].to_pylist()] == ["b", "a", "a", "b", "a"]
    # The 3 counts as 10, so the other 10 comes first, though both are in the second batches.
    late = merged([batches("b", [10], [10]), batches("a", [10], [3])])
    assert [one for batch in late for one in batch["name"].to_pylist()] == ["b", "a", "b", "a"]
    equal = merged([batches("a", [1] * 40 + [2] * 40), batches("b", [1] * 40 + [2] * 40)])
    names = [one for batch in equal for one in batch["name"].to_pylist()]
    assert names == (["a"] * 40 + ["b"] * 40) * 2


@pytest.mark.parametrize("order", ["arrival", "timestamp"])
@pytest.mark.parametrize("max_bytes", [1, 64 << 10, 1 << 20, 64 << 20])
def test_open_fetches_stay_within_the_bytes_in_flight(order: Any, max_bytes: int) -> None:
    """Each open range has two pieces; 16 KiB is the smallest fetch."""
    for ranges in (1, 2, 8, 1000):
        limits = limits_of(ranges, order, max_bytes)
        assert limits.open_ranges == ranges if order == "timestamp" else limits.open_ranges <= 8
        least = 2 * (16 << 10) * (ranges if order == "timestamp" else 1)
        assert 2 * limits.open_ranges * limits.fetch_bytes <= max(max_bytes, least)


@pytest.mark.gate
def test_a_stream_of_found_json_fields_keeps_the_order_of_its_batches(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        fill(kafka_cluster, count=3000)
    monkeypatch.setattr("pykafka2.tables.arrow.BATCH_BYTES", 1)
    found = scan(kafka_cluster, value="json", partitions=[0], max_bytes_in_flight=1)
    batches = list(pa.RecordBatchReader.from_stream(found))
    offsets = [one for batch in batches for one in batch["offset"].to_pylist()]
    assert offsets == [*range(4500)]
    assert len(batches) > 1


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[KafkaConsumer]]:
    """The consumers of scans."""
    found: list[KafkaConsumer] = []

    class Noted(KafkaConsumer):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            found.append(self)

    monkeypatch.setattr(scan_module, "KafkaConsumer", Noted)
    yield found
    gc.collect()
    assert found
    assert all(one.health()["state"] == "closed" for one in found)


@pytest.mark.parametrize("order", ["arrival", "timestamp"])
def test_a_scan_that_is_ended_early_or_interrupted_closes_its_consumer(
    kafka_cluster: KafkaCluster, opened: list[KafkaConsumer], order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(kafka_cluster, count=3000)
    before = threading.active_count()
    found = scan(kafka_cluster, order=order, max_bytes_in_flight=64 << 10)
    batches = found.batches()
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pykafka2.tables.arrow.BatchMaker.batches", interrupt)
    with pytest.raises(KeyboardInterrupt):
        found.to_polars()
    assert threading.active_count() == before


@pytest.mark.slow
@pytest.mark.parametrize("use", ["to_arrow", "to_polars", "to_parquet"])
def test_ctrl_c_while_a_broker_does_not_respond_leaves_nothing_open(
    kafka_cluster: KafkaCluster, opened: list[KafkaConsumer], use: str, tmp_path: Path
) -> None:
    """The fixture fails the test if a client, a thread or a socket is left."""
    fill(kafka_cluster)
    found = scan(kafka_cluster)
    uses = {
        "to_arrow": found.to_arrow,
        "to_polars": found.to_polars,
        "to_parquet": lambda: found.to_parquet(tmp_path / "orders.parquet"),
    }
    kafka_cluster.controls.hold("Fetch")
    with interrupted(kafka_cluster.controls.held):
        uses[use]()
    kafka_cluster.controls.release()
    assert list(tmp_path.iterdir()) == []


QUERY = """
import gc, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # before polars' own handler
import polars, pykafka2
waits = {"request_timeout_ms": 300_000, "default_api_timeout_ms": 300_000}
scan = pykafka2.scan("orders", bootstrap_servers=sys.argv[1], **waits)
query = scan.lazy().filter(polars.col("offset") > 1)
threads = set(threading.enumerate())
try:
    try:
        query.collect(engine=sys.argv[2])
    finally:
        time.sleep(0.01)  # after polars' KeyboardInterrupt, Python raises another one for the same signal
except KeyboardInterrupt:
    consumers = [one for one in gc.get_objects() if isinstance(one, pykafka2.KafkaConsumer)]
    left = [one.name for one in threading.enumerate() if one not in threads and "pykafka2" in one.name]
    print({one.health()["state"] for one in consumers}, left)
"""


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("engine", rest_in_long(["streaming", "in-memory"]))
def test_ctrl_c_in_a_query_of_polars_while_a_broker_does_not_respond_leaves_nothing_open(
    kafka_cluster: KafkaCluster, engine: str
) -> None:
    """In a process of its own, because a part of the signal arrives after polars' KeyboardInterrupt."""
    fill(kafka_cluster)
    kafka_cluster.controls.hold("Fetch")
    with subprocess.Popen(
        [sys.executable, "-c", QUERY, kafka_cluster.bootstrap_servers, engine], stdout=subprocess.PIPE
    ) as program:
        try:
            kafka_cluster.wait_until(lambda: kafka_cluster.controls.held() > 0, timeout=60)
            program.send_signal(signal.SIGINT)
            output, _ = program.communicate(timeout=60)  # a fetch waits for 300 s
        finally:
            program.kill()
            kafka_cluster.controls.release()
    assert output.decode().strip() == "{'closed'} []"


def test_a_parquet_file_of_several_row_groups_has_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [pa.record_batch({"n": [first, first + 1]}) for first in (0, 2, 4)]
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", batches[0].nbytes + 1)  # two batches
    path = tmp_path / "numbers.parquet"
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert parquet.write_parquet(reader, str(path), {}) == 6
    assert pq.ParquetFile(path).num_row_groups == 2
    assert pq.read_table(path)["n"].to_pylist() == [*range(6)]


def test_an_interrupted_parquet_file_does_not_exist(
    kafka_cluster: KafkaCluster, tmp_path: Path, opened: list[KafkaConsumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(kafka_cluster)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pykafka2.tables.arrow.BatchMaker.batches", interrupt)
    with pytest.raises(KeyboardInterrupt):
        scan(kafka_cluster).to_parquet(tmp_path / "orders.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gate
def test_unused_and_partly_read_streams_close_their_consumers(
    kafka_cluster: KafkaCluster, opened: list[KafkaConsumer]
) -> None:
    fill(kafka_cluster)
    found = scan(kafka_cluster)
    pa.RecordBatchReader.from_stream(found)
    assert len(opened) == 1, "a stream that is not read connects to nothing"
    assert duckdb.connect().sql('select "offset" from found limit 1').fetchall() == [(0,)]
    assert found.lazy().head(3).collect().height == 3


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=2, topics={"orders": Topic(2, 1)})
def test_a_partition_without_a_leader_is_an_error(fresh_kafka_cluster: KafkaCluster) -> None:
    fill(fresh_kafka_cluster)
    found = scan(fresh_kafka_cluster, default_api_timeout_ms=3000, request_timeout_ms=1500)
    assert found.to_arrow().num_rows == 100
    fresh_kafka_cluster.controls.crash_broker(fresh_kafka_cluster.partition("orders", 1).leader)
    with pytest.raises(KafkaTimeoutError, match="orders"):
        scan(fresh_kafka_cluster, default_api_timeout_ms=3000, request_timeout_ms=1500)
    with pytest.raises(KafkaTimeoutError, match="orders-1"):
        found.to_arrow()


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=2)
@pytest.mark.parametrize("partitions", rest_in_long([250, 1000]))
def test_many_partitions(fresh_kafka_cluster: KafkaCluster, partitions: int) -> None:
    fresh_kafka_cluster.create_topic("wide", partitions=partitions)
    with KafkaProducer(bootstrap_servers=fresh_kafka_cluster.bootstrap_servers) as producer:
        numbers = [*range(partitions)] * 3
        values, times = [b"%d" % one for one in numbers], [*range(1, 3 * partitions + 1)]
        producer.send_many("wide", values, partitions=numbers, timestamps_ms=times).result(60)
    for order in ("arrival", "timestamp"):
        table = scan(fresh_kafka_cluster, "wide", order=order).to_arrow()
        assert sorted(table["value"].to_pylist()) == sorted(values)
    assert table["timestamp"].cast(pa.int64()).to_pylist() == times
    assert scan(fresh_kafka_cluster, "wide", last=5).to_arrow().num_rows == 5


def test_json_fields_are_those_of_all_records(kafka_cluster: KafkaCluster) -> None:
    values = [b'{"a": 1}', None, b'{"a": 2.5, "b": {"c": ["x"]}}', b'{"t": "2024-01-01"}']
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send("orders", value, partition=0).result(10)
    found = scan(kafka_cluster, value="json", max_bytes_in_flight=1)
    expected = [
        {"a": 1.0, "b": None, "t": None},
        None,
        {"a": 2.5, "b": {"c": ["x"]}, "t": None},
        {"a": None, "b": None, "t": "2024-01-01"},
    ]
    assert found.to_arrow()["value"].to_pylist() == expected
    chosen = scan(kafka_cluster, value="json", value_schema=pa.schema([("a", pa.float64())])).to_arrow()
    assert chosen["value"].to_pylist() == [None if one is None else {"a": one["a"]} for one in expected]


@pytest.mark.gate
def test_streams_have_the_json_fields_of_the_first_records(
    kafka_cluster: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records with other fields come in batches, and in partitions, that are read later."""
    path = tmp_path / "orders.parquet"
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        for partition, value in (
            (0, b'{"a": 1}'),
            (0, b'{"a": 2, "b": {"c": 1}}'),
            (1, b'{"a": 2.5, "b": {"d": 1}}'),
        ):
            producer.send("orders", value, partition=partition).result(10)
    found = scan(kafka_cluster, value="json")
    rows = [
        {"a": 1.0, "b": None},
        {"a": 2.0, "b": {"c": 1, "d": None}},
        {"a": 2.5, "b": {"c": None, "d": 1}},
    ]
    found.to_parquet(path)
    assert sorted(pq.read_table(path)["value"].to_pylist(), key=lambda one: one["a"]) == rows
    chosen = found.lazy().filter(pl.col("partition") == 0, pl.col("offset") == 1).select("value").collect()
    assert chosen["value"].to_list() == rows[1:2]
    assert found.to_duckdb(duckdb.connect()).aggregate("sum(value.a)").fetchall() == [(5.5,)]
    monkeypatch.setattr(scan_module, "FIELDS_BYTES", 1)
    with pytest.raises(SerializationError, match="its first records did not have"):
        found.to_parquet(path)
    with pytest.raises(
        (SerializationError, pl.exceptions.ComputeError), match="the first records of the scan did not have"
    ):
        found.lazy().select("value").collect()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"{", "value of the record at offset 1 is not JSON"),
        (b"[1]", "value of the record at offset 1 is JSON, but not an object"),
        (b'{"a": "text"}', "does not fit into one struct"),
        (b"", "value of the record at offset 1 is not JSON"),
    ],
)
def test_values_that_are_not_json_objects_of_one_struct(
    kafka_cluster: KafkaCluster, value: bytes, message: str
) -> None:
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        producer.send_many("orders", [b'{"a": 1}', value], partition=0).result(10)
    with pytest.raises(SerializationError, match=message):
        scan(kafka_cluster, value="json").to_arrow()


@pytest.mark.gate
def test_a_deserializer_has_its_schema(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    found = scan(kafka_cluster, value=len, value_schema=pa.int32(), key="text", columns=["key", "value"])
    assert found.to_arrow().schema == pa.schema([("key", pa.string()), ("value", pa.int32())])
    assert set(found.to_arrow()["value"].to_pylist()) == {9, 10}

    def broken(data: bytes) -> int:
        raise ValueError(data)

    with pytest.raises(SerializationError, match="value of orders-0 at offset 0: the deserializer raised"):
        scan(kafka_cluster, value=broken, value_schema=pa.int32()).to_arrow()
    with pytest.raises(SerializationError, match="does not fit into"):
        scan(kafka_cluster, value=bytes.decode, value_schema=pa.int32()).to_arrow()


def test_estimate_and_description(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, count=1000)
    found = scan(kafka_cluster, start=100)
    estimate = found.estimate()
    assert (estimate.rows, estimate.partitions) == (800, 2)
    assert 800 * 15 < estimate.bytes < 800 * 40
    assert repr(found) == (
        "<Scan of orders: 2 partitions, up to 800 rows, "
        "columns topic, partition, offset, timestamp, key, value>"
    )
    shown = found._repr_html_()
    assert "<td>orders</td><td>1</td><td>100</td><td>500</td><td>400</td>" in shown


def test_a_progress_bar_is_shown_on_request(
    kafka_cluster: KafkaCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(kafka_cluster)
    scan(kafka_cluster).to_arrow()
    assert capsys.readouterr().err == ""
    scan(kafka_cluster, progress=True).to_arrow()
    shown = capsys.readouterr().err
    assert "orders" in shown
    assert "100/100" in shown


class TestLazy:
    """Queries of polars read only what they need."""

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            (pl.col("partition") == 1, {1: (0, 50)}),
            (pl.col("partition").is_in([0]) & (pl.col("offset") >= 45), {0: (45, 50)}),
            ((pl.col("offset") < 3) & (pl.col("topic") == "orders"), {0: (0, 3), 1: (0, 3)}),
            (pl.lit(47) < pl.col("offset"), {0: (48, 50), 1: (48, 50)}),
            (pl.col("offset") == 7, {0: (7, 8), 1: (7, 8)}),
            (
                pl.col("timestamp") > datetime.fromtimestamp((NOW + 95) / 1000, UTC),
                {0: (48, 50), 1: (47, 50)},
            ),
            (pl.col("timestamp") < datetime.fromtimestamp((NOW + 4) / 1000, UTC), {0: (0, 50), 1: (0, 50)}),
            ((pl.col("offset") == 1) | (pl.col("offset") == 40), {0: (0, 50), 1: (0, 50)}),
            (pl.col("topic") == "other", {}),
        ],
        ids=str,
    )
    def test_conditions_choose_partitions_and_offsets(
        self, kafka_cluster: KafkaCluster, condition: Any, expected: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from pykafka2.tables import polars_source

        fill(kafka_cluster)
        found = scan(kafka_cluster, columns=["topic", "partition", "offset", "timestamp"])
        chosen: list[Any] = []
        original = polars_source.chosen_ranges

        def noted(*arguments: Any) -> Any:
            chosen.append(original(*arguments))
            return chosen[-1]

        monkeypatch.setattr(polars_source, "chosen_ranges", noted)
        result = found.lazy().filter(condition).collect().sort("partition", "offset")
        assert result.equals(found.to_polars().filter(condition).sort("partition", "offset"))
        assert {one.topic_partition.partition: (one.start, one.end) for one in chosen[0]} == expected

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            (pl.lit(47) < pl.col("offset"), (48, 50)),
            (pl.lit(47) <= pl.col("offset"), (47, 50)),
            (pl.lit(3) > pl.col("offset"), (0, 3)),
            (pl.lit(3) >= pl.col("offset"), (0, 4)),
        ],
        ids=str,
    )
    def test_conditions_with_the_column_on_the_right(
        self, kafka_cluster: KafkaCluster, condition: Any, expected: Any
    ) -> None:
        """polars turns most of them around itself."""
        from pykafka2.tables.polars_source import chosen_ranges

        fill(kafka_cluster)
        found = chosen_ranges(scan(kafka_cluster), condition)
        assert [(one.start, one.end) for one in found] == [expected, expected]

    @pytest.mark.gate
    def test_the_first_rows_of_a_query_end_its_read(
        self, kafka_cluster: KafkaCluster, opened: list[KafkaConsumer], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The number of rows is that of all frames, after the condition."""
        from pykafka2.tables import polars_source

        monkeypatch.setattr(polars_source, "KafkaConsumer", scan_module.KafkaConsumer)
        monkeypatch.setattr("pykafka2.tables.arrow.BATCH_BYTES", 1)
        for _ in range(3):
            fill(kafka_cluster, count=3000)
        found = scan(kafka_cluster, partitions=[0], columns=["offset"], max_bytes_in_flight=1)
        schema = found.lazy().collect_schema()
        sizes = [batch.num_rows for batch in found.batches()]
        assert len(sizes) > 2
        even, wanted = pl.col("offset") % 2 == 0, (sizes[0] + sizes[1]) // 2 - 10
        for predicate, expected in (
            (None, [*range(sizes[0] + 10)]),
            (even, [*range(0, 2 * wanted, 2)]),
        ):
            frames = list(polars_source._read(found, schema, ["offset"], predicate, len(expected)))
            assert pl.concat(frames)["offset"].to_list() == expected
            assert len([one for one in frames if len(one)]) == 2

    def test_only_the_columns_of_a_query_are_converted(
        self, kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(kafka_cluster)
        lazy = scan(kafka_cluster).lazy()
        from pykafka2.tables.arrow import BatchMaker

        made: list[set[str]] = []
        original = BatchMaker.batches

        def noted(self: BatchMaker, piece: Any) -> Any:
            made.append(set(self.schema.names))
            return original(self, piece)

        monkeypatch.setattr(BatchMaker, "batches", noted)
        assert lazy.filter(pl.col("offset") > 9).select("partition").collect().height == 80
        assert lazy.select(pl.len()).collect().item() == 100
        assert lazy.head(3).select("value").collect()["value"].to_list() == [
            b'{"id": %d}' % row for row in (0, 2, 4)
        ]
        assert made[0] == {"partition", "offset"}
        assert {len(one) for one in made} == {1, 2}
