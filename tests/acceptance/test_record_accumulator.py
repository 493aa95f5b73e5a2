"""Batches of the accumulator: one a partition in each request, up to `batch_size`, in the order of `send`."""

from __future__ import annotations

from typing import Any

from pykafka2.records.batch import RecordBatch
from pykafka2.testing import Simulation


def test_batches_are_whole_in_order_and_one_a_partition_in_each_request(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"orders": 4})
    producer = simulation.producer(cluster, batch_size=2000, linger_ms=20)
    for number in range(2000):
        producer.send("orders", b"%06d" % number, partition=number % 4)
    producer.flush(timeout=30)
    requests: list[Any] = cluster.history.requests("Produce")
    several = 0
    for request in requests:
        [topic] = request.topic_data
        partitions = [data.index for data in topic.partition_data]
        assert len(partitions) == len({*partitions})
        several += len(partitions) > 1
        for data in topic.partition_data:
            assert RecordBatch(memoryview(data.records)).size_bytes == len(data.records) <= 2000
    assert several, "partitions of one broker share requests"
    for partition in range(4):
        expected = [b"%06d" % number for number in range(partition, 2000, 4)]
        assert cluster.log("orders", partition).values() == expected
