"""Offset ranges of a batch, planned at its start: beginnings, ends, losses; against a broker, no session."""

from __future__ import annotations

import logging

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import ConfigurationError, KafkaError, UnknownTopicOrPartition
from pykafka2.testing import KafkaCluster, Topic
from spark_connector.errors import DataLoss
from spark_connector.options.source_options import source_options
from spark_connector.source.batch import KafkaBatchReader
from tests.spark.kafka_data import AGES, age_out, send

pytestmark = pytest.mark.kafka(brokers=1, topics={"t": Topic(partitions=2, configs=AGES)})

Ranges = list[tuple[int, int, int]]


def planned(cluster: KafkaCluster, **settings: str) -> Ranges:
    """Partition, start and end of each task."""
    chosen = {} if {"assign", "subscribePattern"} & settings.keys() else {"subscribe": "t"}
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    options = source_options({**servers, **chosen, **settings}, streaming=False)
    values = [one.value for one in KafkaBatchReader(options, options.column_names).partitions()]
    return [(one.partition, one.start, one.end) for one in values if one is not None]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [(0, 0, 5), (1, 0, 3)]),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, [(0, 0, 5), (1, 0, 3)]),
        ({"startingOffsets": '{"t": {"0": 2, "1": -2}}'}, [(0, 2, 5), (1, 0, 3)]),
        ({"endingOffsets": '{"t": {"0": 4, "1": -1}}'}, [(0, 0, 4), (1, 0, 3)]),
        ({"endingOffsets": '{"t": {"0": 0, "1": 2}}'}, [(1, 0, 2)]),
        ({"assign": '{"t": [1]}'}, [(1, 0, 3)]),
        ({"assign": '{"t": [1]}', "endingOffsets": '{"t": {"1": 1}}'}, [(1, 0, 1)]),
        ({"subscribePattern": "t|nothing"}, [(0, 0, 5), (1, 0, 3)]),
        # The records of each partition are of 1000, 2000, ... ms.
        ({"startingTimestamp": "2000"}, [(0, 1, 5), (1, 1, 3)]),
        ({"endingTimestamp": "3000"}, [(0, 0, 2), (1, 0, 2)]),
        ({"endingTimestamp": "3001"}, [(0, 0, 3), (1, 0, 3)]),
        ({"endingTimestamp": "9000"}, [(0, 0, 5), (1, 0, 3)]),
        ({"startingTimestamp": "2000", "endingTimestamp": "3000"}, [(0, 1, 2), (1, 1, 2)]),
        ({"startingTimestamp": "2000", "endingOffsets": '{"t": {"0": 3, "1": 2}}'}, [(0, 1, 3), (1, 1, 2)]),
        ({"startingOffsets": '{"t": {"0": 1, "1": 0}}', "endingTimestamp": "3000"}, [(0, 1, 2), (1, 0, 2)]),
        ({"endingOffsetsByTimestamp": '{"t": {"0": 4000, "1": 9000}}'}, [(0, 0, 3), (1, 0, 3)]),
        # One time for all comes before times by partition, and these before offsets.
        (
            {"endingTimestamp": "2000", "endingOffsetsByTimestamp": '{"t": {"0": 4000, "1": 4000}}'},
            [(0, 0, 1), (1, 0, 1)],
        ),
        (
            {
                "endingOffsetsByTimestamp": '{"t": {"0": 4000, "1": 2000}}',
                "endingOffsets": '{"t": {"0": 1, "1": 1}}',
            },
            [(0, 0, 3), (1, 0, 1)],
        ),
        ({"startingTimestamp": "4000", "startingOffsetsByTimestampStrategy": "latest"}, [(0, 3, 5)]),
        ({"maxRecordsPerPartition": "3"}, [(0, 0, 2), (0, 2, 5), (1, 0, 3)]),
        ({"minPartitions": "3"}, [(0, 0, 2), (0, 2, 5), (1, 0, 3)]),
    ],
    ids=str,
)
def test_batch_ranges_follow_the_options(
    kafka_cluster: KafkaCluster, settings: dict[str, str], expected: Ranges
) -> None:
    send(kafka_cluster, "t", [5, 3], first_ms=1000)
    assert planned(kafka_cluster, **settings) == expected


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"endingOffsets": '{"t": {"0": 1}}'}, ConfigurationError, "endingOffsets .* does not name t-1"),
        (
            {"endingOffsetsByTimestamp": '{"t": {"0": 1}}'},
            ConfigurationError,
            "endingOffsetsByTimestamp .* does not name t-1",
        ),
        ({"startingTimestamp": "4000"}, ConfigurationError, "t-1 has no record of that time or later"),
        (
            {"startingOffsets": '{"t": {"0": 4, "1": 0}}', "endingOffsets": '{"t": {"0": 2, "1": 3}}'},
            ConfigurationError,
            "t-0: the starting offset 4 is after the ending offset 2",
        ),
        (
            {"startingTimestamp": "3000", "endingTimestamp": "2000"},
            ConfigurationError,
            "is after the ending",
        ),
        (
            {"assign": '{"u": [0]}'},
            UnknownTopicOrPartition,
            "assign: topic 'u' does not exist. Correct the option",
        ),
    ],
    ids=lambda one: str(one) if isinstance(one, dict) else "",
)
def test_invalid_batch_range_raises_with_the_reason(
    kafka_cluster: KafkaCluster, settings: dict[str, str], error: type[KafkaError], words: str
) -> None:
    send(kafka_cluster, "t", [5, 3], first_ms=1000)
    with pytest.raises(error, match=words):
        planned(kafka_cluster, **settings)


FROM_2 = {"startingOffsets": '{"t": {"0": 2, "1": 0}}'}


def test_deleted_offsets_fail_a_batch(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5, 3])
    age_out(kafka_cluster, "t")
    with pytest.raises(DataLoss, match="t-0: offsets 2 to 4 were deleted"):
        planned(kafka_cluster, **FROM_2)
    with pytest.raises(DataLoss, match="t-0: offsets 2 to 3 were deleted"):
        planned(kafka_cluster, **FROM_2, endingOffsets='{"t": {"0": 4, "1": 3}}')


def test_lost_offsets_are_logged_and_skipped_without_fail_on_data_loss(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka_cluster, "t", [5, 3])
    age_out(kafka_cluster, "t")
    lenient = {**FROM_2, "failOnDataLoss": "false"}
    with caplog.at_level(logging.WARNING):
        assert planned(kafka_cluster, **lenient) == [(0, 5, 6), (1, 0, 3)]
        assert planned(kafka_cluster, **lenient, endingOffsets='{"t": {"0": 4, "1": 3}}') == [(1, 0, 3)]
    assert "t-0: offsets 2 to 4 were deleted" in caplog.text


def test_empty_range_of_deleted_offsets_is_no_loss(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5, 3])
    age_out(kafka_cluster, "t")
    assert planned(kafka_cluster, **FROM_2, endingOffsets='{"t": {"0": 2, "1": 3}}') == [(1, 0, 3)]


@pytest.mark.parametrize(("isolation", "end"), [("read_uncommitted", 6), ("read_committed", 5)])
def test_latest_follows_the_isolation_level(kafka_cluster: KafkaCluster, isolation: str, end: int) -> None:
    send(kafka_cluster, "t", [5])
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="x") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", value=b"x", partition=0)
        producer.flush()
        assert planned(kafka_cluster, isolation=isolation) == [(0, 0, end)]
        assert planned(kafka_cluster, **{"kafka.isolation.level": isolation}) == [(0, 0, end)]
        producer.abort_transaction()
        kafka_cluster.wait_until(lambda: planned(kafka_cluster, isolation=isolation) == [(0, 0, 7)])
