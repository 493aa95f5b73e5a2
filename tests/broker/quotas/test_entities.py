"""Two users, and two addresses: each has quotas of its own; over sockets."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.quotas.client_quotas import connection_rates
from pykafka2.broker.quotas.entities import CONNECTION_CREATION_RATE, IP, entity_of
from pykafka2.broker.server.connection_quotas import ConnectionQuotas
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce_request
from tests.broker.support.raw_client import RawClient

METADATA = MetadataRequest(topics=[])


def test_each_user_has_a_quota_of_its_own() -> None:
    users = {"ann": "secret", "bob": "secret"}
    with KafkaCluster(1, {"t": 1}, listeners=["SASL_PLAINTEXT"], users=users) as cluster:
        cluster.controls.set_quota(user="ann", producer_byte_rate=1000)
        cluster.controls.set_quota(user="bob", producer_byte_rate=1_000_000)
        for user in users:
            with KafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_username=user,
                sasl_password="secret",
                client_id=f"app-of-{user}",
            ) as producer:
                producer.send("t", b"x" * 11_000).result(timeout=20)

        def throttle_ms(user: str) -> int:
            (entry,) = cluster.history.entries("Produce", client_id=f"app-of-{user}")
            assert entry.response is not None
            return int(entry.response.throttle_time_ms)

        assert 0 < throttle_ms("ann") < 2000
        assert throttle_ms("bob") == 0


@pytest.mark.kafka(brokers=1)
def test_connections_above_the_rate_of_their_address_are_held_and_closed(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.controls.set_quota(ip="127.0.0.2", connection_creation_rate=1)
    kafka_cluster.controls.set_quota(ip="<default>", connection_creation_rate=1000)
    address = kafka_cluster.bootstrap_servers
    accepted, is_closed = 0, False
    while not is_closed:
        assert accepted < 60, "one of sixty within a minute must be above the rate"
        with RawClient(address, source="127.0.0.2") as wire:
            try:
                wire.call(METADATA, 12)
            except ConnectionError:
                is_closed = True
            else:
                accepted += 1
    assert accepted >= 10
    # Other addresses are not affected.
    for _ in range(12):
        with RawClient(address, source="127.0.0.3") as other:
            other.call(METADATA, 12)
    assert len(kafka_cluster.brokers[0].parts.quotas) <= 2
    kafka_cluster.controls.clear_quotas()
    with RawClient(address, source="127.0.0.2") as again:
        again.call(METADATA, 12)


@pytest.mark.kafka(brokers=1)
def test_an_illegal_quota_raises_with_the_argument_and_the_valid_names(kafka_cluster: KafkaCluster) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"producer_byte_rate": 5}, "No entity is named. Set user=, client_id=, both, or ip="),
        ({"user": ""}, "user='' is illegal. Set a name, or '<default>'"),
        ({"client_id": 5}, "client_id=5 is illegal"),
        ({"user": "ann"}, "No quota is set. Use one or more of producer_byte_rate"),
        (
            {"user": "ann", "producer_rate": 5},
            "no quota 'producer_rate'; did you mean 'producer_byte_rate'\\?",
        ),
        ({"user": "ann", "rate": 5}, "A user or client id has no quota 'rate'; use producer_"),
        ({"user": "ann", "connection_creation_rate": 5}, "has no quota 'connection_creation_rate'; use p"),
        (
            {"ip": "127.0.0.1", "producer_byte_rate": 5},
            "An IP address has no .*; use connection_creation_rate",
        ),
        (
            {"client": "app", "producer_byte_rate": 5},
            "No entity is named, and 'client' is unknown; did you mean 'client_id'",
        ),
        ({"user": "ann", "producer_bite_rate": 5}, "did you mean 'producer_byte_rate'"),
        ({"user": "ann", "producer_byte_rate": True}, "producer_byte_rate=True is illegal. Set a number"),
        ({"user": "ann", "producer_byte_rate": "5"}, "producer_byte_rate='5' is illegal. Set a number"),
        ({"user": "ann", "producer_byte_rate": nan}, "producer_byte_rate=nan is illegal. Set a number"),
        ({"user": "ann", "request_percentage": inf}, "request_percentage=inf is illegal. Set a number"),
        ({"user": "ann", "producer_byte_rate": 10**400}, "producer_byte_rate=10+ is illegal. Set a number"),
        (
            {"user": "ann", "producer_byte_rate": 5.5},
            "producer_byte_rate=5.5: .* cannot be a fractional value",
        ),
        ({"user": "ann", "request_percentage": float("nan")}, "request_percentage=nan is illegal"),
        (
            {"user": "ann", "producer_byte_rate": 0},
            "producer_byte_rate=0 is illegal. Set a number above 0, or",
        ),
        ({"ip": "nowhere", "connection_creation_rate": 5}, "ip='nowhere', .*: nowhere is not a valid IP"),
        (
            {"user": "a", "ip": "127.0.0.1", "producer_byte_rate": 5},
            "user='a', ip='127.0.0.1' cannot be combined",
        ),
    ]
    for arguments, words in refused:
        with pytest.raises(ConfigurationError, match=words):
            kafka_cluster.controls.set_quota(**arguments)
    assert kafka_cluster.controls.quotas() == []


@pytest.mark.kafka(brokers=1)
def test_quotas_are_listed_as_they_were_set_and_all_are_cleared(kafka_cluster: KafkaCluster) -> None:
    controls = kafka_cluster.controls
    controls.set_quota(user="ann", producer_byte_rate=5, consumer_byte_rate=6)
    controls.set_quota(user="<default>", client_id="app", request_percentage=0.5)
    controls.set_quota(ip="<default>", connection_creation_rate=1000)
    assert sorted(controls.quotas(), key=str) == [
        {"client_id": "app", "user": "<default>", "quotas": {"request_percentage": 0.5}},
        {"ip": "<default>", "quotas": {"connection_creation_rate": 1000.0}},
        {"user": "ann", "quotas": {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}},
    ]
    controls.set_quota(user="ann", producer_byte_rate=None)
    assert {"user": "ann", "quotas": {"consumer_byte_rate": 6.0}} in controls.quotas()
    controls.set_quota(user="ann", producer_byte_rate=5)
    controls.clear_quotas()
    assert controls.quotas() == []


@pytest.mark.kafka(brokers=1)
def test_unchanged_quotas_are_not_published_again(kafka_cluster: KafkaCluster) -> None:
    version = -1
    for is_published in (True, False):
        kafka_cluster.controls.set_quota(user="ann", producer_byte_rate=5)
        kafka_cluster.controls.set_quota(user="bob", producer_byte_rate=None)
        before, version = version, kafka_cluster.brokers[0].image.version
        assert (version > before) is is_published


@pytest.mark.kafka(brokers=1)
def test_quotas_survive_a_restart_of_the_only_broker_and_a_change_of_topics(
    kafka_cluster: KafkaCluster,
) -> None:
    kafka_cluster.controls.set_quota(client_id="app", producer_byte_rate=5)
    kafka_cluster.create_topic("other")
    kafka_cluster.controls.restart_broker(0)
    kafka_cluster.create_topic("another")
    assert kafka_cluster.controls.quotas() == [{"client_id": "app", "quotas": {"producer_byte_rate": 5.0}}]


@pytest.mark.kafka(brokers=3)
def test_quotas_survive_a_change_of_the_controller(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.controls.set_quota(client_id="app", producer_byte_rate=5)
    kafka_cluster.controls.move_controller((kafka_cluster.controller.id + 1) % 3)
    kafka_cluster.controls.set_quota(client_id="app", consumer_byte_rate=6)
    kafka_cluster.controls.crash_broker(kafka_cluster.controller.id)
    kafka_cluster.wait_until(lambda: kafka_cluster.controller is not None)
    kafka_cluster.create_topic("other")
    quotas = {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}
    assert kafka_cluster.controls.quotas() == [{"client_id": "app", "quotas": quotas}]


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_a_restarted_broker_applies_the_quotas_and_forgets_the_rates(kafka_cluster: KafkaCluster) -> None:
    leader = kafka_cluster.partition("t", 0).leader
    kafka_cluster.controls.set_quota(client_id="wire", producer_byte_rate=1000)

    def throttle_ms(size: int) -> int:
        with RawClient(kafka_cluster.broker(leader).address) as wire:
            request = produce_request("t", 0, batch([b"x" * size]), acks=1)
            return wire.call(request, 12).throttle_time_ms

    assert throttle_ms(20_000) > 0
    kafka_cluster.controls.stop_broker(leader)
    kafka_cluster.controls.restart_broker(leader)
    kafka_cluster.controls.move_leader(("t", 0), to=leader)
    assert throttle_ms(5000) == 0
    assert throttle_ms(20_000) > 0


@pytest.mark.kafka(brokers=1)
def test_request_quota_is_a_percentage_of_handler_time(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.controls.set_quota(client_id="wire", request_percentage=1e-9)
    with RawClient(kafka_cluster.bootstrap_servers) as wire:
        # At most one window, however far above.
        assert wire.call(METADATA, 12).throttle_time_ms == 1000
    with RawClient(kafka_cluster.bootstrap_servers, "other") as other:
        assert other.call(METADATA, 12).throttle_time_ms == 0


def test_requests_before_authentication_are_not_throttled() -> None:
    with KafkaCluster(1, listeners=["SASL_PLAINTEXT"], users={"ann": "secret"}) as cluster:
        cluster.controls.set_quota(user="<default>", request_percentage=1e-9)
        with RawClient(cluster.bootstrap_servers) as wire:
            versions = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            assert wire.call(versions, 3).throttle_time_ms == 0


def test_connection_rate_counts_only_accepted_connections() -> None:
    quotas = ConnectionQuotas(BrokerConfig({}))
    quotas.set_address_rates({"10.0.0.1": 1.0, None: 2.0})
    for _ in range(10):
        assert quotas.throttled_for("10.0.0.1:5000", 0.0) == 0
    # However many are refused, the throttle time is that of one connection too many, and at most a window.
    for _ in range(3):
        assert quotas.throttled_for("10.0.0.1:5000", 0.0) == 1.0
    assert quotas.throttled_for("10.0.0.1:5000", 5.0) == 1.0
    assert quotas.throttled_for("10.0.0.1:5000", 17.0) == 0
    for _ in range(20):
        assert quotas.throttled_for("[::ffff:10.0.0.2]:5000", 0.0) == 0
    assert quotas.throttled_for("10.0.0.2:5000", 0.0) > 0
    assert quotas.throttled_for("10.0.0.3:5000", 0.0) == 0
    quotas.set_address_rates({})
    assert quotas.throttled_for("10.0.0.1:5000", 0.0) == 0


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::A", "2001:db8::a"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        (None, None),
    ],
)
def test_quota_of_an_address_applies_to_all_its_notations(name: str | None, address: str | None) -> None:
    quotas = {entity_of({IP: name}): {CONNECTION_CREATION_RATE: 2.0}}
    assert connection_rates(quotas) == {address: 2.0}


def test_refused_connections_do_not_prolong_the_throttling() -> None:
    quotas = ConnectionQuotas(BrokerConfig({}))
    quotas.set_address_rates({None: 2.0})
    for _ in range(20):
        assert quotas.throttled_for("10.0.0.1:5000", 0.0) == 0
    for _ in range(5):
        assert quotas.throttled_for("10.0.0.1:5000", 0.0) == 0.5
    # 21 connections in 10.6 seconds; with the refused ones it would be 26.
    assert quotas.throttled_for("10.0.0.1:5000", 10.6) == 0


def test_changed_rate_of_an_address_forgets_its_connections() -> None:
    quotas = ConnectionQuotas(BrokerConfig({}))
    for _ in range(2):
        quotas.set_address_rates({None: 1.0})
        for _ in range(10):
            assert quotas.throttled_for("10.0.0.1:5000", 0.0) == 0
        assert quotas.throttled_for("10.0.0.1:5000", 0.0) == 1.0


def test_rates_of_addresses_have_the_windows_of_the_brokers_options() -> None:
    quotas = ConnectionQuotas(BrokerConfig({"quota.window.num": 3, "quota.window.size.seconds": 2}))
    quotas.set_address_rates({None: 1.0})
    for _ in range(4):
        assert quotas.throttled_for("10.0.0.1:5000", 0.0) == 0
    assert quotas.throttled_for("10.0.0.1:5000", 0.0) == 1.0
