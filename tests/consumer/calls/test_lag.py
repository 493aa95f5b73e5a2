"""`lag()`: how far behind a consumer is, without a request."""

from __future__ import annotations

import pytest

from pykafka2.errors import IllegalState
from pykafka2.protocol.messages.offsets import ListOffsetsRequest
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_lag_shrinks_with_returned_records_and_grows_with_the_log() -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    cluster.append("orders", 0, *[b"x"] * 10)
    with cluster.consumer("orders", max_poll_records=4) as consumer:
        consumer.unsubscribe()
        consumer.assign([ORDERS_0, ORDERS_1])
        consumer.poll()
        assert consumer.lag(ORDERS_0) is None
        assert len(consumer.poll(1000)[ORDERS_0]) == 4
        before = len(cluster.requests(ListOffsetsRequest))
        assert (consumer.lag(ORDERS_0), consumer.lag(ORDERS_1)) == (6, 0)
        assert len(cluster.requests(ListOffsetsRequest)) == before
        assert consumer.metrics()["records-lag-max"] == 6
        while consumer.poll():
            pass
        assert consumer.lag(ORDERS_0) == 0
        cluster.append("orders", 0, b"y")
        cluster.runtime.run_for(1)
        assert consumer.lag(ORDERS_0) == 1
        with pytest.raises(IllegalState, match="bills-0"):
            consumer.lag(TopicPartition("bills", 0))


def test_lag_counts_records_not_yet_returned_by_iteration() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, *[b"x"] * 10)
    with cluster.consumer("orders") as consumer:
        for record in consumer:
            assert consumer.lag(ORDERS_0) == 9 - record.offset
            if record.offset == 5:
                break


def test_with_read_committed_the_lag_ends_where_an_open_transaction_begins() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, *[b"x"] * 10)
    cluster.log("orders").stable_end = 8
    for isolation, lag in (("read_uncommitted", 9), ("read_committed", 7)):
        with cluster.consumer("orders", max_poll_records=1, isolation_level=isolation) as consumer:
            consumer.poll(1000)
            assert consumer.lag(ORDERS_0) == lag
            assert consumer.metrics()["records-lag-max"] == lag


def test_an_open_transaction_at_the_very_beginning_leaves_no_lag() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, *[b"x"] * 10)
    cluster.log("orders").stable_end = 0
    with cluster.consumer("orders", isolation_level="read_committed") as consumer:
        consumer.poll(1000, update_offsets=False)
        assert consumer.lag(ORDERS_0) == 0
