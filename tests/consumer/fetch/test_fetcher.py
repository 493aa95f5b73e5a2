"""The fetcher alone, where a race between the two threads is laid out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.fetched_data import FetchedData
from pykafka2.consumer.fetch.fetcher import Fetcher
from pykafka2.consumer.fetch.offset_lookups import OffsetLookups
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.types import TopicPartition
from tests.cluster.scripted import BOOTSTRAP
from tests.consumer.logs import LogCluster

PARTITIONS = [TopicPartition("t", number) for number in range(3)]


class HastyBuffer(FetchBuffer):
    """The application takes everything just before the fetcher asks to hear of room."""

    def notify_when_drained(self) -> None:
        for partition in self.partitions():
            self.drop(self.items(partition))
        super().notify_when_drained()


def beginning(fetcher: Fetcher, partition: TopicPartition) -> Callable[[float], None]:
    return lambda now: fetcher.begin(partition, 1, 0)


@pytest.mark.parametrize("filled", [1, 3], ids=["one partition is full", "all are, and so is the buffer"])
def test_buffer_space_freed_between_check_and_fetch_is_used(filled: int) -> None:
    cluster = LogCluster({"t": [0, 1, 2]}, brokers=3)
    for number in range(filled):
        for _ in range(100):
            cluster.append("t", number, b"x" * 50)
    options = CONSUMER_OPTIONS.parse(
        None,
        {
            "bootstrap_servers": BOOTSTRAP,
            "queued_max_bytes": 3000,
            "max_partition_fetch_bytes": 600,
            "fetch_max_wait_ms": 60_000,  # or the empty partitions' answers would wake it soon
        },
    )
    runtime: Any = cluster.runtime
    client = ClusterClient(options, name="test", runtime=runtime)
    buffer = HastyBuffer(client.driver.wake)
    lookups = OffsetLookups(client, options.isolation)
    fetcher = Fetcher(options, client, buffer, lookups)
    client.add(lookups, fetcher)
    client.metadata.pin_topics({"t"})
    for one in PARTITIONS:
        client.driver.call_soon(beginning(fetcher, one))
    cluster.runtime.run_for(10)
    for one in PARTITIONS[:filled]:
        assert fetcher.table.states[one].offset == 100, "it never stands still"
    client.close()


def test_data_of_an_unassigned_partition_is_dropped() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, b"a")
    with cluster.consumer() as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.poll()
        cluster.runtime.run_for(0.0005)  # the fetch is on its way
        consumer.assign([])
        cluster.runtime.run_for(1)
        assert consumer.metrics()["buffered-bytes"] == 0


def test_next_fetch_continues_behind_the_last_whole_batch() -> None:
    partition = TopicPartition("t", 0)
    cluster = LogCluster({"t": [0]}, brokers=1)
    for _ in range(3):
        cluster.append("t", 0, b"x" * 10, b"y" * 10)
    records = cluster.log("t").read(0, 10_000)
    assert FetchedData(partition, 1, 0, memoryview(records)).next_offset == 6
    assert FetchedData(partition, 1, 0, memoryview(records)[:-1]).next_offset == 4
