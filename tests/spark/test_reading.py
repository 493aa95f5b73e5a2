"""Rows of a task: columns, values, order, losses; against a broker and without Spark."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from pykafka2 import KafkaProducer
from pykafka2.errors import KafkaTimeoutError
from pykafka2.testing import KafkaCluster, Topic
from spark_connector import connections
from spark_connector.errors import DataLoss, SparkConnectorError
from spark_connector.options.source_options import source_options
from spark_connector.source.ranges import OffsetRange
from spark_connector.source.reading import RangeTask
from tests.spark.kafka_data import AGES, age_out, send

pytestmark = pytest.mark.kafka(brokers=1, topics={"t": Topic(partitions=2, configs=AGES)})


@pytest.fixture(autouse=True)
def _close(kafka_cluster: KafkaCluster) -> Iterator[None]:
    yield
    connections.close_all()


def read(cluster: KafkaCluster, start: int, end: int, partition: int = 0, **settings: str) -> pa.Table:
    options = source_options(
        {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "t", **settings}, streaming=True
    )
    task = RangeTask(options, options.column_names)
    return pa.Table.from_batches(task.read(OffsetRange("t", partition, start, end)))


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist()  # type: ignore[no-any-return]


def test_all_columns_are_those_of_sparks_own_connector(kafka_cluster: KafkaCluster) -> None:
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        headers = [("a", b"1"), ("b", None)]
        producer.send("t", key=b"k", value=b"v", partition=1, timestamp_ms=1_700_000_000_123, headers=headers)
        producer.send("t", partition=1, timestamp_ms=1_700_000_000_124)
    first, second = rows(read(kafka_cluster, 0, 2, 1, includeHeaders="true"))
    at = datetime.datetime.fromtimestamp(1_700_000_000, datetime.UTC)
    assert first == {
        "key": b"k",
        "value": b"v",
        "topic": "t",
        "partition": 1,
        "offset": 0,
        "timestamp": at.replace(microsecond=123_000),
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, None)


def test_timestamp_type_is_read(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("u", configs={"message.timestamp.type": "LogAppendTime"})
    send(kafka_cluster, "u", [3])
    options = source_options({"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "subscribe": "u"})
    batches = RangeTask(options, ("timestampType",)).read(OffsetRange("u", 0, 0, 3))
    assert pa.Table.from_batches(batches).to_pydict() == {"timestampType": [1, 1, 1]}


def test_changing_timestamp_type_is_read_for_each_record(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [4])
    confluent = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    change = ConfigEntry(
        "message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET
    )
    topic = ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=[change])
    for done in confluent.incremental_alter_configs([topic]).values():
        done.result(10)
    send(kafka_cluster, "t", [2])
    for piece_bytes in (1, 1 << 20):  # each batch by itself, and all of them in one
        settings = {"kafka.max.partition.fetch.bytes": str(piece_bytes)}
        assert read(kafka_cluster, 0, 6, **settings)["timestampType"].to_pylist() == [0, 0, 0, 0, 1, 1]


def test_a_range_is_read_and_nothing_else(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [50])
    assert [row["offset"] for row in rows(read(kafka_cluster, 7, 31))] == list(range(7, 31))


def test_columns_have_the_requested_order(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [3])
    table = read(kafka_cluster, 0, 3, columns="offset,value,timestampType")
    assert table.column_names == ["offset", "value", "timestampType"]
    assert rows(table)[2] == {"offset": 2, "value": b"0000000002", "timestampType": 0}


@pytest.mark.gate
def test_many_rows_come_in_batches_of_sparks_size(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [25_000], size=4)
    table = read(kafka_cluster, 0, 25_000)
    assert max(batch.num_rows for batch in table.to_batches()) == 10_000
    assert table.column("offset").to_pylist() == list(range(25_000))
    assert set(table.column("topic").to_pylist()) == {"t"}


def test_aborted_records_are_left_out_of_committed_reads(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers, transactional_id="x") as producer:
        producer.init_transactions()
        for value in (b"aborted", b"committed"):
            producer.begin_transaction()
            producer.send("t", value=value, partition=0)
            if value == b"aborted":
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    committed = read(kafka_cluster, 0, 4, isolation="read_committed")
    assert committed.column("value").to_pylist() == [b"committed"]
    everything = read(kafka_cluster, 0, 4)
    assert everything.column("value").to_pylist() == [b"aborted", b"committed"]


def test_deleted_offsets_fail_the_task(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [50])
    age_out(kafka_cluster, "t")
    with pytest.raises(
        DataLoss, match=r"t-0: offsets 10 to 49 were deleted\. Some data may have been missed"
    ):
        read(kafka_cluster, 10, 51)


@pytest.mark.parametrize(("end", "left"), [(51, [50]), (30, [])])
def test_remaining_records_after_a_loss_are_read(
    kafka_cluster: KafkaCluster, end: int, left: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka_cluster, "t", [50])
    age_out(kafka_cluster, "t")
    options = {"failOnDataLoss": "false", "columns": "offset"}
    with caplog.at_level(logging.WARNING):
        task = RangeTask(
            source_options(
                {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "subscribe": "t", **options}
            ),
            ("offset",),
        )
        found = [
            one for batch in task.read(OffsetRange("t", 0, 10, end)) for one in batch["offset"].to_pylist()
        ]
    assert found == left
    assert "were deleted" in caplog.text


def test_records_read_before_a_loss_are_not_read_again(kafka_cluster: KafkaCluster) -> None:
    for _ in range(6):
        send(kafka_cluster, "t", [5])  # a batch each, of which one is fetched at a time
    settings = {"subscribe": "t", "failOnDataLoss": "false", "kafka.max.partition.fetch.bytes": "1"}
    options = source_options({"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, **settings})
    batches = RangeTask(options, ("offset",)).read(OffsetRange("t", 0, 0, 31))
    found = next(batches)["offset"].to_pylist()
    age_out(kafka_cluster, "t")
    for batch in batches:
        found += batch["offset"].to_pylist()
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (0, 30)
    assert len(found) < 31


def test_a_log_that_ends_before_the_range_is_a_loss(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5])
    with pytest.raises(DataLoss, match="t-0 ends before offset 7"):
        read(kafka_cluster, 7, 9, **{"kafkaConsumer.pollTimeoutMs": "1000"})


@pytest.mark.gate
@pytest.mark.kafka(
    brokers=2,
    topics={"t": 1},
    config={"unclean.leader.election.enable": True, "replica.lag.time.max.ms": 500},
)
@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_log_that_is_cut_while_it_is_read_is_a_loss(
    kafka_cluster: KafkaCluster, fails: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader that lacks records was elected, and has as many others by now: offsets alone do not tell."""

    def write(count: int) -> None:
        for _ in range(count):
            send(kafka_cluster, "t", [1])  # a batch each, of which one is fetched at a time

    leader = kafka_cluster.partition("t", 0).leader
    write(2)
    kafka_cluster.controls.pause_followers(("t", 0))
    write(6)
    settings = {"subscribe": "t", "failOnDataLoss": fails, "kafka.max.partition.fetch.bytes": "1"}
    options = source_options({"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, **settings})
    batches = RangeTask(options, ("offset",)).read(OffsetRange("t", 0, 0, 12))
    found = [next(batches)["offset"].to_pylist() for _ in range(3)]
    kafka_cluster.controls.move_leader(("t", 0), to=1 - leader)
    kafka_cluster.controls.resume_followers()
    write(10)
    if fails == "true":
        with pytest.raises(DataLoss, match="t-0: the log was truncated to offset 2"):
            list(batches)
        return
    found += [batch["offset"].to_pylist() for batch in batches]
    assert [offset for some in found for offset in some] == list(range(12))
    assert "the log was truncated to offset 2" in caplog.text


@pytest.mark.gate
def test_deleted_topic_is_a_loss(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5])
    read(kafka_cluster, 0, 5)
    kafka_cluster.delete_topic("t")
    with pytest.raises(DataLoss, match="t-0 was deleted"):
        read(kafka_cluster, 0, 5, **{"kafkaConsumer.pollTimeoutMs": "20000"})


def test_missing_records_are_waited_for_until_the_poll_timeout(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5])
    with pytest.raises(
        KafkaTimeoutError, match=r"no records from offset 5 on .* \(kafkaConsumer.pollTimeoutMs"
    ):
        read(kafka_cluster, 0, 6, **{"kafkaConsumer.pollTimeoutMs": "2000", "kafka.fetch.max.wait.ms": "50"})


def test_connections_are_kept_from_task_to_task(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5])
    read(kafka_cluster, 0, 5)
    there = {one.peer for one in kafka_cluster.connections("pykafka2-spark")}
    read(kafka_cluster, 0, 5)
    assert {one.peer for one in kafka_cluster.connections("pykafka2-spark")} == there


def test_no_group_is_made(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5])
    read(kafka_cluster, 0, 5, **{"kafka.group.id": "g"})
    apis = {entry.api for entry in kafka_cluster.history}
    assert not apis & {"JoinGroup", "OffsetCommit", "FindCoordinator", "ConsumerGroupHeartbeat"}


def test_timestamp_out_of_range_for_spark_raises_with_its_offset(kafka_cluster: KafkaCluster) -> None:
    """Microseconds of 64 bits end in the year 294247; producers' milliseconds do not."""
    configs = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    kafka_cluster.create_topic("far", configs=configs)
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        producer.send("far", b"x", timestamp_ms=2**60).result(30)
    options = source_options(
        {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "subscribe": "far"}, streaming=True
    )
    with pytest.raises(
        SparkConnectorError, match=r"far-0: a record between offsets 0 and 0 .*option columns"
    ):
        list(RangeTask(options, options.column_names).read(OffsetRange("far", 0, 0, 1)))
    (only,) = RangeTask(options, ("value",)).read(OffsetRange("far", 0, 0, 1))
    assert only.to_pylist() == [{"value": b"x"}]
