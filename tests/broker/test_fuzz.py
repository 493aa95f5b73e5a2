"""Random requests: one costs its own connection at most, and the brokers continue.

Frames are damaged (tests/fuzz/making.py), or whole with values that a broker could know.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykafka2.broker.handlers.api import APIS, load
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.registry import ApiKey, request_class
from pykafka2.protocol.struct import Request
from pykafka2.testing import KafkaCluster, Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch_request, produce, produce_request
from tests.broker.support.raw_client import RawClient
from tests.fuzz.making import any_instance, damaged, plausible_scalar
from tests.gate import examples

load()
TOPICS = {"t": Topic(2, 2), "safe": Topic(1, 3), "frames": 1}
SEEDS = st.integers(0, 2**32 - 1)

FRAMES = [
    b"".join(encode_request(request, version, 1, "fuzz"))
    for request, version in (
        (produce_request("frames", 0, batch([b"a", b"b"])), 9),
        (produce_request("frames", 0, batch([b"c"], codec=3)), 3),
        (fetch_request("frames", 0, 0), 12),
        (fetch_request("frames", 0, 0), 4),
        (MetadataRequest(topics=None), 12),
        (ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), 3),
    )
]


def damaged_frame(random: Random) -> bytes:
    """Return a damaged frame, mostly with its size adapted so that the rest is read; or any bytes."""
    kind = random.randrange(10)
    if kind == 0:
        return random.randbytes(random.randrange(200))
    frame = random.choice(FRAMES)
    if kind == 1:
        return damaged(random, frame)
    body = damaged(random, frame, begin=4)[4:]
    return struct.pack(">i", len(body)) + body


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {
        "auto.create.topics.enable": False,
        "delete.topic.enable": False,
        "group.initial.rebalance.delay.ms": 0,
        "log.validate": "strict",
        "socket.request.max.bytes": 1_000_000,
    }
    with KafkaCluster(brokers=3, topics=TOPICS, config=config) as cluster:
        with RawClient(cluster.brokers[0].address) as wire:
            for kind in (0, 1):
                find = FindCoordinatorRequest(key_type=kind, coordinator_keys=["t"])
                cluster.wait_until(lambda find=find: not wire.call(find, 6).coordinators[0].error_code)
        yield cluster


@pytest.fixture(autouse=True)
def check_brokers(cluster: KafkaCluster) -> Iterator[None]:
    yield
    cluster.check()


@pytest.mark.gate
@pytest.mark.slow
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SEEDS)
def test_damaged_frames_do_not_affect_other_connections(cluster: KafkaCluster, seed: int) -> None:
    random = Random(seed)
    leader = cluster.brokers[cluster.partition("frames", 0).leader].address
    with RawClient(leader) as hostile:
        try:
            hostile.socket.sendall(b"".join(damaged_frame(random) for _ in range(random.randint(1, 3))))
            hostile.socket.shutdown(socket.SHUT_WR)
            hostile.socket.settimeout(1.0)
            while hostile.socket.recv(65536):
                pass
        except (ConnectionError, TimeoutError):  # a fetch can request a long wait
            pass
    cluster.check()
    with RawClient(leader) as wire:
        names = {topic.name for topic in wire.call(MetadataRequest(topics=None), 12).topics}
        assert set(TOPICS) <= names
    assert len(cluster.log("frames", 0).values()) == cluster.log("frames", 0).log_end_offset, (
        "each record is readable"
    )


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
VERSIONS = {
    "administration": [
        (request_class(key), version)
        for key, api in APIS.items()
        for version in range(api.min_version, api.max_version + 1)
        if api.handle.__module__.endswith(OF_ADMINISTRATION) or key == ApiKey.DESCRIBE_CLUSTER
    ],
    "coordinators": [
        (request_class(key), version)
        for key in (
            *range(ApiKey.OFFSET_COMMIT, ApiKey.LIST_GROUPS + 1),
            *range(ApiKey.DELETE_RECORDS, ApiKey.TXN_OFFSET_COMMIT + 1),
            ApiKey.LIST_OFFSETS,
            ApiKey.DELETE_GROUPS,
            ApiKey.OFFSET_DELETE,
            *range(ApiKey.DESCRIBE_PRODUCERS, ApiKey.LIST_TRANSACTIONS + 1),
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
        )
        if key in APIS and not APIS[key].between_brokers
        for version in range(APIS[key].min_version, APIS[key].max_version + 1)
    ],
}


def plausible(random: Random, area: str) -> tuple[Request[Any], int]:
    """Return a request, and its version."""
    cls, version = random.choice(VERSIONS[area])
    return any_instance(random, cls, version, plausible_scalar), version


@pytest.mark.gate
@pytest.mark.slow
@settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(SEEDS)
def test_each_request_of_administration_gets_a_response_without_an_internal_error(
    cluster: KafkaCluster, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    random = Random(seed)
    request, version = plausible(random, "administration")
    caplog.clear()
    with (
        caplog.at_level(logging.WARNING, "pykafka2.testing"),
        RawClient(random.choice(cluster.brokers).address) as wire,
    ):
        wire.call(request, version)
    assert [record.getMessage() for record in caplog.records if "failed at" in record.getMessage()] == []


@pytest.mark.gate
@pytest.mark.slow
@settings(
    max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(SEEDS)
def test_random_coordinator_requests_leave_the_brokers_running(cluster: KafkaCluster, seed: int) -> None:
    random = Random(seed)
    address = random.choice(cluster.brokers).address
    with RawClient(address) as wire:
        wire.socket.settimeout(
            0.02
        )  # some requests wait for others, as joins do, and delay those behind them
        try:
            for _ in range(random.randint(1, 12)):
                wire.send(*plausible(random, "coordinators"))
                wire.receive_frame()
        except (TimeoutError, ConnectionError):
            pass
    with RawClient(address) as wire:
        names = [topic.name for topic in wire.call(MetadataRequest(topics=None), 12).topics]
    assert "t" in names


@pytest.mark.gate
@pytest.mark.slow
def test_brokers_accept_records_after_all_requests(cluster: KafkaCluster) -> None:
    with RawClient(cluster.brokers[cluster.partition("safe", 0).leader].address) as wire:
        assert produce(wire, "safe", 0, batch([b"still here"])).error_code == 0


def test_the_requests_are_of_many_apis() -> None:
    assert len({cls for cls, _ in VERSIONS["administration"]}) >= 20
    assert len({cls for cls, _ in VERSIONS["coordinators"]}) >= 22
