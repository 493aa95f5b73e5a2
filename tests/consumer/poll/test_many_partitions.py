"""Thousands of partitions: what a consumer does for each of them grows with their number, and no faster."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from pykafka2.cluster.nodes import Nodes
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster

pytestmark = pytest.mark.slow


class Calls:
    """Counts calls of Python functions on this thread, by name."""

    def __init__(self) -> None:
        self.total = 0
        self.by_code: dict[Any, int] = {}

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self.total += 1
            self.by_code[frame.f_code] = self.by_code.get(frame.f_code, 0) + 1

    def __enter__(self) -> Calls:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)


def test_stall_check_visits_each_connection_once() -> None:
    """A look for stalled partitions, every ten seconds: with 100,000 of them it took 8 s of a poll."""
    count = 500
    cluster = LogCluster({"orders": [0, 1] * (count // 2)}, brokers=2)
    with cluster.consumer(fetch_max_wait_ms=60_000) as consumer:
        consumer.assign([TopicPartition("orders", number) for number in range(count)])
        while len(consumer._core.subscription.positions) < count:
            consumer.poll(100)
        for partition in consumer.assignment():  # there are records, which do not come
            consumer._core.fetcher.table.readable_ends[partition] = 5
        cluster.runtime.run_for(11)
        with Calls() as calls:
            consumer.poll()
    getter = Nodes.has_connection.fget
    assert getter is not None
    assert 1 <= calls.by_code[getter.__code__] < 20
