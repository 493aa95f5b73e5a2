"""Requests of administration with any values: Kafka's own codes, no failure, and brokers that go on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykafka2.broker.handlers.api import APIS, load
from pykafka2.protocol.registry import ApiKey, request_class
from pykafka2.protocol.struct import Request
from pykafka2.testing import KafkaCluster
from pykafka2.testing.cluster import Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.plausible import plausible
from tests.broker.support.raw_client import RawClient

load()
OF_ADMINISTRATION = (
    "acls",
    "alter_configs",
    "client_quotas",
    "delegation_tokens",
    "describe_configs",
    "describe_topic_partitions",
    "partitions",
    "quorum",
    "scram_users",
    "topics",
    "update_features",
)
"""The files of handlers/; UnregisterBroker, which takes brokers away from the cluster, is in another."""
VERSIONS = [
    (request_class(key), version)
    for key, api in APIS.items()
    for version in range(api.min_version, api.max_version + 1)
    if api.handle.__module__.endswith(OF_ADMINISTRATION) or key == ApiKey.DESCRIBE_CLUSTER
]


def made(choice: tuple[type[Request[Any]], int]) -> st.SearchStrategy[tuple[Request[Any], int]]:
    cls, version = choice
    return plausible(cls, version).map(lambda request: (request, version))


@pytest.fixture(scope="module")
def wires() -> Iterator[list[RawClient]]:
    """A connection to each of three brokers."""
    topics = {"t": Topic(2, 2), "safe": Topic(1, 3)}
    with KafkaCluster(brokers=3, topics=topics, config={"delete.topic.enable": False}) as cluster:
        wires = [RawClient(broker.address) for broker in cluster.brokers]
        yield wires
        cluster.check()
        leader = cluster.partition("safe", 0).leader
        assert produce(wires[leader], "safe", 0, batch([b"still here"])).error_code == 0
        for wire in wires:
            wire.close()


@pytest.mark.gate
@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(broker=st.integers(0, 2), asked=st.sampled_from(VERSIONS).flatmap(made))
def test_any_request_is_answered_and_nothing_fails(
    wires: list[RawClient], caplog: pytest.LogCaptureFixture, broker: int, asked: tuple[Request[Any], int]
) -> None:
    request, version = asked
    caplog.clear()
    with caplog.at_level(logging.WARNING, "pykafka2.testing"):
        wires[broker].call(request, version)
    assert [record.getMessage() for record in caplog.records if "failed at" in record.getMessage()] == []
