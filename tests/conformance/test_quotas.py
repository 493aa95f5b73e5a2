"""Quotas by our admin client, and our throttled clients, on the bundled broker and on Apache Kafka.

Raw requests are compared in behaviour/on_quotas.py.
"""

from __future__ import annotations

import time

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, QuotaEntity, errors
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.quotas import DescribeClientQuotasRequest
from tests.broker.support.raw_client import RawClient

from .brokers import Cluster, eventually

PRODUCED = 20_000.0
"""Bytes per second, over ten seconds: 200,000 bytes can be sent at once."""
CONSUMED = 21_500.0
"""Two records of 110,000 bytes are above it for a moment."""


def test_quotas_are_altered_described_and_refused(cluster: Cluster) -> None:
    user, client = QuotaEntity(user="conformance-ann"), QuotaEntity(client_id="conformance-app")
    both = QuotaEntity(user="conformance-ann", client_id=QuotaEntity.DEFAULT)
    host = QuotaEntity(ip="10.9.8.7")
    quotas = {
        user: {"consumer_byte_rate": 1e9, "producer_byte_rate": 2e9},
        client: {"request_percentage": 5000.5},
        both: {"controller_mutation_rate": 99.5},
        host: {"connection_creation_rate": 1000.0},
    }
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_client_quotas(quotas)
        eventually(lambda: admin.describe_client_quotas() == quotas)
        assert set(admin.describe_client_quotas(QuotaEntity(user=QuotaEntity.ANY))) == {user, both}
        assert set(admin.describe_client_quotas(QuotaEntity(user=QuotaEntity.ANY), strict=True)) == {user}
        assert set(admin.describe_client_quotas(host)) == {host}
        outcomes = admin.alter_client_quotas({user: {"producer_byte_rate": 0.5}}, raise_errors=False)
        assert isinstance(outcomes.errors[user], errors.InvalidRequest)
        admin.alter_client_quotas({entity: dict.fromkeys(keys) for entity, keys in quotas.items()})
        eventually(lambda: admin.describe_client_quotas() == {})


def test_clients_above_their_quotas_are_throttled_for_as_long(cluster: Cluster) -> None:
    topic = cluster.new_topic()
    name = f"throttled-{topic}"
    entity = QuotaEntity(client_id=name)
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.alter_client_quotas({entity: {"producer_byte_rate": PRODUCED, "consumer_byte_rate": CONSUMED}})
        try:
            eventually(lambda: entity in admin.describe_client_quotas(entity))
            with KafkaProducer(bootstrap_servers=servers, client_id=name) as producer:
                for _ in range(2):
                    producer.send(topic, bytes(110_000)).result(timeout=30)
                longest = producer.metrics()["produce-throttle-time-max"]
                assert 0 < longest <= 1300  # 20,000 bytes too many, less what the time has made up for
            with KafkaConsumer(
                topic,
                bootstrap_servers=servers,
                client_id=name,
                auto_offset_reset="earliest",
                # One record: Apache Kafka would append the first half of the next one.
                max_partition_fetch_bytes=110_100,
            ) as consumer:
                found = 0
                while found < 2:
                    found += sum(map(len, consumer.poll(timeout_ms=30_000).values()))
                assert 0 < consumer.metrics()["fetch-throttle-time-max"] <= 1000
        finally:
            admin.alter_client_quotas({entity: {"producer_byte_rate": None, "consumer_byte_rate": None}})


def test_connections_of_an_address_are_accepted_closed_and_accepted_again(cluster: Cluster) -> None:
    """Eleven in ten seconds are above one a second."""
    address = cluster.bootstrap_servers.split(",")[0]
    entity = QuotaEntity(ip="127.0.0.2")
    request = MetadataRequest(topics=[])
    described = DescribeClientQuotasRequest(components=[], strict=False)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_client_quotas({entity: {"connection_creation_rate": 1}})
        try:
            with RawClient(address) as elsewhere:
                for broker in cluster.bootstrap_servers.split(","):
                    with RawClient(broker) as wire:
                        eventually(lambda wire=wire: bool(wire.call(described, 1).entries))
                time.sleep(0.2)
                began = time.monotonic()
                accepted = 0
                held = 0.0
                while not held and accepted < 40:
                    with RawClient(address, source="127.0.0.2") as wire:
                        connected_at = time.monotonic()
                        try:
                            wire.call(request, 12)
                            accepted += 1
                        except ConnectionError:
                            held = time.monotonic() - connected_at
                assert 10 <= accepted <= 11 + 2 * (time.monotonic() - began)
                assert 0.3 < held < 20
                elsewhere.call(request, 12)
        finally:
            admin.alter_client_quotas({entity: {"connection_creation_rate": None}})
        eventually(lambda: admin.describe_client_quotas() == {})
        eventually(lambda: is_accepted(address, request))


def is_accepted(address: str, request: MetadataRequest) -> bool:
    """Return whether the broker serves a new connection."""
    try:
        with RawClient(address, source="127.0.0.2") as wire:
            wire.call(request, 12)
    except ConnectionError:
        return False
    return True
