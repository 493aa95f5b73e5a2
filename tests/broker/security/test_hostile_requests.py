"""Hostile requests of an authenticated user: rejected, or its connection is closed; others are served."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from pykafka2.broker.handlers.api import APIS, load
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.registry import API_KEYS
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster, Topic
from pykafka2.testing.views.timeline import errors_in
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.hostile_requests import ATTACKS, MANY, committed
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import USERS, address_of, frame_of, log_in, raw_frame

ME = "User:bob"
TOPICS = {"t", "raw", "__consumer_offsets", "__transaction_state"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ann",
        "delegation.token.secret.key": "k",
        "group.initial.rebalance.delay.ms": 0,
        "log.validate": "strict",
    }
    topics = {"t": 1, "raw": Topic(configs={"compression.type": "uncompressed"})}
    with KafkaCluster(1, topics, listeners=["SASL_PLAINTEXT"], users=USERS, config=config) as cluster:
        for resource in ("topic", "group", "transactional_id"):
            cluster.acls.allow(ME, "ALL", **{resource: "*"})
        with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
            log_in(wire)
            for kind in (0, 1):
                while find_coordinator(wire, kind):
                    cluster.wait_until(lambda: True)
            # The group exists for all cases, in any order.
            wire.call(committed("").request, 9)
        yield cluster


def find_coordinator(wire: RawClient, kind: int) -> int:
    """Find the coordinator, which creates the internal topic, and return the error code."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"])
    return wire.call(request, 6).coordinators[0].error_code


@pytest.fixture(scope="module")
def victim(cluster: KafkaCluster) -> Iterator[RawClient]:
    with RawClient(address_of(cluster, "SASL_PLAINTEXT"), "well-behaved") as wire:
        assert log_in(wire).error_code == 0
        assert produce(wire, "t", 0, batch([b"good"])).error_code == 0
        yield wire


@pytest.fixture
def evil(cluster: KafkaCluster) -> Iterator[RawClient]:
    with RawClient(address_of(cluster, "SASL_PLAINTEXT"), "evil") as wire:
        assert log_in(wire, "bob").error_code == 0
        yield wire


@pytest.mark.gate
@pytest.mark.parametrize("name", ATTACKS)
def test_hostile_requests_are_rejected_without_effect_on_others(
    cluster: KafkaCluster, evil: RawClient, victim: RawClient, name: str
) -> None:
    attack = ATTACKS[name]
    response = evil.call(attack.request, attack.version)
    assert " ".join(dict.fromkeys(errors_in(response))) == attack.outcome, response
    assert_no_effect_on_others(cluster, victim)


def assert_no_effect_on_others(cluster: KafkaCluster, victim: RawClient) -> None:
    """Assert that the broker reports no problem, serves others, and has the same records."""
    cluster.check()
    assert {one.name for one in victim.call(MetadataRequest(topics=None), 12).topics} == TOPICS
    assert cluster.log("t", 0).values() == [b"good"]


load()
CLIENTS_APIS = sorted(key for key, api in APIS.items() if not api.between_brokers)
BROKERS_APIS = sorted(key for key in API_KEYS if key not in CLIENTS_APIS)
BODIES = {
    "nothing": b"",
    "lengths of 2 GiB": b"\x7f\xff\xff\xff" * 16,
    "lengths below zero": b"\xff\xff\xff\xff" * 16,
    "varints without end": b"\x80" * 64,
    "zeros": bytes(64),
    "128 tagged fields of 16 KiB": b"\x7f\x01\xff\x7f" * 16,
}


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("body", BODIES)
def test_malformed_body_closes_only_its_connection(
    cluster: KafkaCluster, victim: RawClient, body: str
) -> None:
    """Each API of clients, in its first and last version, closes the connection or responds in time."""
    for key in CLIENTS_APIS:
        for version in {APIS[key].min_version, APIS[key].max_version}:
            with RawClient(address_of(cluster, "SASL_PLAINTEXT"), "evil") as wire:
                assert log_in(wire, "bob").error_code == 0
                wire.socket.sendall(raw_frame(frame_of(key, version, BODIES[body])))
                wire.socket.shutdown(socket.SHUT_WR)
                while wire.socket.recv(65_536):
                    pass
    assert_no_effect_on_others(cluster, victim)


def test_inter_broker_request_of_a_user_closes_its_connection(
    cluster: KafkaCluster, victim: RawClient
) -> None:
    for key in BROKERS_APIS:
        with RawClient(address_of(cluster, "SASL_PLAINTEXT"), "evil") as wire:
            assert log_in(wire, "bob").error_code == 0
            wire.socket.sendall(raw_frame(frame_of(key, API_KEYS[key].max_version, bytes(64))))
            assert wire.is_closed_by_broker(), API_KEYS[key].name
    assert_no_effect_on_others(cluster, victim)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("name", MANY)
def test_time_of_a_request_is_proportional_to_the_number_of_its_elements(
    cluster: KafkaCluster, evil: RawClient, victim: RawClient, name: str
) -> None:
    """Five times as many elements take at most nine times as long."""
    times = []
    for count in (200, 1_000):
        attack = MANY[name](count)
        request = attack.request
        began = time.process_time()
        for _ in range(3):
            evil.call(request, attack.version)
        times.append(time.process_time() - began)
    assert times[1] < 9 * times[0] + 0.05
    assert_no_effect_on_others(cluster, victim)
