"""Requests of groups, offsets and transactions with any values: whatever they ask, the brokers go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.handlers.api import APIS, load
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.registry import ApiKey, request_class
from pykafka2.protocol.struct import Request
from pykafka2.testing import KafkaCluster
from tests.broker.support.plausible import plausible
from tests.broker.support.raw_client import RawClient

load()
KEYS = (
    *range(ApiKey.OFFSET_COMMIT, ApiKey.LIST_GROUPS + 1),
    *range(ApiKey.DELETE_RECORDS, ApiKey.TXN_OFFSET_COMMIT + 1),
    ApiKey.LIST_OFFSETS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
    *range(ApiKey.DESCRIBE_PRODUCERS, ApiKey.LIST_TRANSACTIONS + 1),
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
)
VERSIONS = [
    (request_class(key), version)
    for key in KEYS
    if key in APIS and not APIS[key].between_brokers
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]


def made(choice: tuple[type[Request[Any]], int]) -> st.SearchStrategy[tuple[Request[Any], int]]:
    cls, version = choice
    return plausible(cls, version).map(lambda request: (request, version))


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {"group.initial.rebalance.delay.ms": 0, "socket.request.max.bytes": 1_000_000}
    with KafkaCluster(brokers=2, topics={"t": 2}, config=config) as one:
        yield one


@pytest.mark.gate
@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(
    asked=st.lists(st.sampled_from(VERSIONS).flatmap(made), min_size=1, max_size=4), broker=st.integers(0, 1)
)
def test_random_coordinator_requests_leave_the_brokers_running(
    cluster: KafkaCluster, asked: list[tuple[Request[Any], int]], broker: int
) -> None:
    with RawClient(cluster.brokers[broker].address) as wire:
        for request, version in asked:
            wire.send(request, version)  # some wait for others, as joins do, and hold up those behind them
    with RawClient(cluster.brokers[broker].address) as wire:
        names = [topic.name for topic in wire.call(MetadataRequest(topics=None), 12).topics]
    assert "t" in names
    cluster.check()


def test_the_apis_are_those_of_coordinators() -> None:
    assert len({cls for cls, _ in VERSIONS}) >= 22
