"""Columns on real threads and sockets: several callers at once, beside single sends."""

from __future__ import annotations

import threading

import pytest

from pykafka2 import KafkaProducer
from pykafka2.testing import KafkaCluster

ROWS, CALLS, THREADS = 500, 10, 4


@pytest.mark.slow
def test_threads_send_columns_and_records_side_by_side() -> None:
    with KafkaCluster(brokers=1, topics={"orders": 3}) as cluster:
        producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            batch_size=2000,
            bulk_batch_size=10_000,
            buffer_memory=200_000,
        )
        problems: list[BaseException] = []

        def send(thread: int) -> None:
            try:
                for call in range(CALLS):
                    rows = [b"%d %04d" % (thread, call * (ROWS + 1) + row) for row in range(ROWS)]
                    producer.send_many("orders", rows, partition=thread % 3)
                    last = b"%d %04d" % (thread, call * (ROWS + 1) + ROWS)
                    producer.send("orders", last, partition=thread % 3)
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=send, args=(thread,)) for thread in range(THREADS)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
        producer.flush(60)
        assert problems == []
        health = producer.health()
        assert (health["buffer_available_bytes"], health["buffer_overhead_bytes"]) == (200_000, 0)
        producer.close()
        for thread in range(THREADS):
            mine = [
                value
                for value in cluster.log("orders", thread % 3).values()
                if value and value[:1] == b"%d" % thread
            ]
            assert mine == [b"%d %04d" % (thread, number) for number in range(CALLS * (ROWS + 1))]
