"""Fixtures of the tests that talk to brokers: connections that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pykafka2.testing.cluster import KafkaCluster
from tests.broker.support.raw_client import RawClient


@pytest.fixture
def connect(kafka_cluster: KafkaCluster) -> Iterator[Callable[[int], RawClient]]:
    """`connect(broker_id)` is a new connection to a broker; all are closed after the test."""
    wires: list[RawClient] = []

    def open_one(broker_id: int = 0) -> RawClient:
        wires.append(RawClient(kafka_cluster.brokers[broker_id].address))
        return wires[-1]

    yield open_one
    for wire in wires:
        wire.close()


@pytest.fixture
def leader(
    kafka_cluster: KafkaCluster, connect: Callable[[int], RawClient]
) -> Callable[[str, int], RawClient]:
    """`leader(topic, partition)` is a new connection to the broker that leads it."""
    return lambda topic, partition: connect(kafka_cluster.partition(topic, partition).leader)


@pytest.fixture
def wait_for(kafka_cluster: KafkaCluster) -> Callable[[Callable[[], bool]], None]:
    """`wait_for(predicate)` polls until it holds, at most ten seconds."""

    def wait(predicate: Callable[[], bool]) -> None:
        for _ in range(2000):
            if predicate():
                return
            kafka_cluster.runtime.wait_until(lambda: False, 0.005)
        raise AssertionError("it did not come true within ten seconds")

    return wait
