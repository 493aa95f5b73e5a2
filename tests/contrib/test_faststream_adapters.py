"""The adapters between FastStream and the asyncio clients: arguments, record fields and errors of calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("faststream")

import aiokafka.errors
from aiokafka import ConsumerRebalanceListener
from aiokafka.producer.producer import _missing as UNSET  # noqa: N812 - a constant
from aiokafka.structs import TopicPartition as AiokafkaPartition
from faststream.kafka import Topic

from pykafka2 import TopicPartition
from pykafka2.contrib.faststream import (
    Admin,
    Consumer,
    KafkaBroker,
    Producer,
    first_of,
    options_of,
    record_of,
)
from pykafka2.errors import ConfigurationError, KafkaError, TopicAuthorizationFailed
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster
from pykafka2.types import ConsumerRecord
from tests.aio.running import run

pytestmark = pytest.mark.kafka(
    brokers=1, topics={"orders": 2}, config={"group.initial.rebalance.delay.ms": 0}
)

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOT_COMMITTED: dict[TopicPartition, int] = {}


def producer_of(cluster: KafkaCluster, **options: Any) -> Producer:
    return Producer({"bootstrap_servers": cluster.bootstrap_servers, **options})


def consumer_of(cluster: KafkaCluster, **options: Any) -> Consumer:
    return Consumer(
        **{"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest", **options}
    )


def records_of(cluster: KafkaCluster, partition: int = 0) -> list[tuple[Any, ...]]:
    """The key, value, timestamp and headers of each record in the log."""
    return [
        (record.key, record.value, record.timestamp, list(record.headers))
        for record in cluster.log("orders", partition).records()
    ]


# ---------------------------------------------------------------------- producing


def test_send_passes_on_every_field_of_the_record(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        producer = producer_of(kafka_cluster)
        await producer.start()
        metadata = await (await producer.send("orders", b"v", b"k", 1, 1234, [("h", b"x")]))
        assert (metadata.topic, metadata.partition, metadata.offset) == ("orders", 1, 0)
        await producer.stop()

    run(program())
    assert records_of(kafka_cluster, 1) == [(b"k", b"v", 1234, [("h", b"x")])]


def test_send_batch_passes_on_every_field_of_its_records(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        producer = producer_of(kafka_cluster)
        batch = producer.create_batch()
        batch.append(key=b"k", value=b"v", timestamp=1234, headers=[("h", b"x")])
        batch.append(key=None, value=b"w", timestamp=1235)
        metadata = await (await producer.send_batch(batch, "orders", partition=1))
        assert metadata is not None
        assert (metadata.partition, metadata.offset, metadata.timestamp) == (1, 0, 1234)
        await producer.stop()

    run(program())
    assert records_of(kafka_cluster, 1) == [(b"k", b"v", 1234, [("h", b"x")]), (None, b"w", 1235, [])]


def test_batch_that_fails_raises_its_error(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaBroker(kafka_cluster.bootstrap_servers, logger=None) as broker:
            kafka_cluster.controls.fail_next(ProduceRequest, TopicAuthorizationFailed)
            with pytest.raises(TopicAuthorizationFailed):
                await broker.publish_batch(b"a", b"b", topic="orders", partition=0)

    run(program())


def test_batch_with_a_failed_record_raises_when_the_others_are_done() -> None:
    async def program() -> None:
        failed, late = asyncio.Future[Any](), asyncio.Future[Any]()
        failed.set_exception(KafkaError("refused"))
        waiting = asyncio.create_task(first_of([failed, late]))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        late.set_result(None)
        with pytest.raises(KafkaError, match="refused"):
            await waiting

    run(program())


def test_batch_of_none_sends_nothing_and_returns_none(kafka_cluster: KafkaCluster) -> None:
    async def program() -> Any:
        async with KafkaBroker(kafka_cluster.bootstrap_servers, logger=None) as broker:
            return await broker.publish_batch(None, topic="orders", partition=0)

    assert run(program()) is None
    assert records_of(kafka_cluster) == []


def test_flush_sends_records_that_linger(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        producer = producer_of(kafka_cluster, linger_ms=60_000)
        delivery: Any = await producer.send("orders", b"v", partition=0)
        await producer.flush()
        assert delivery.done()
        assert not producer._closed
        await producer.stop()
        assert producer._closed

    run(program())
    assert len(records_of(kafka_cluster)) == 1


def test_partitioner_of_the_application_is_used(kafka_cluster: KafkaCluster) -> None:
    def by_length(key: bytes | None, partitions: list[int], available: list[int]) -> int:
        return partitions[len(key or b"") % 2]

    async def program() -> None:
        servers = kafka_cluster.bootstrap_servers
        async with KafkaBroker(servers, logger=None, partitioner=by_length) as broker:
            written = [await broker.publish(b"v", "orders", key=b"k" * length) for length in range(1, 9)]
            assert [metadata.partition for metadata in written] == [1, 0] * 4

    run(program())


def test_idempotence_that_the_application_requests_contradicts_acks_1(kafka_cluster: KafkaCluster) -> None:
    with pytest.raises(ConfigurationError, match="acks"):
        producer_of(kafka_cluster, enable_idempotence=True, acks=1)


# ---------------------------------------------------------------------- consuming


def test_record_has_every_field_and_no_null_header() -> None:
    record: ConsumerRecord[Any, Any] = ConsumerRecord(
        topic="orders",
        partition=1,
        offset=7,
        timestamp=1234,
        timestamp_type=1,
        key=b"k",
        value=b"value",
        headers=[("a", b"x"), ("b", None)],
        serialized_key_size=1,
        serialized_value_size=5,
        leader_epoch=3,
    )
    found = record_of(record)
    assert (found.topic, found.partition, found.offset) == ("orders", 1, 7)
    assert (found.timestamp, found.timestamp_type) == (1234, 1)
    assert (found.key, found.value) == (b"k", b"value")
    assert (found.serialized_key_size, found.serialized_value_size, found.checksum) == (1, 5, None)
    assert found.headers == (("a", b"x"), ("b", b""))


def test_group_options_reach_a_consumer_with_a_group_only(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        options = {"session_timeout_ms": 7000, "heartbeat_interval_ms": 500, "enable_auto_commit": False}
        member, alone = (
            consumer_of(kafka_cluster, group_id="g", **options),
            consumer_of(kafka_cluster, **options),
        )
        assert member._consumer._options.session_timeout == 7
        assert not member._consumer._options.enable_auto_commit
        await member.stop()
        await alone.stop()

    run(program())


def test_reads_of_a_group_do_not_commit_and_commit_does(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        await kafka_cluster_filled(kafka_cluster)
        consumer = consumer_of(kafka_cluster, group_id="g", enable_auto_commit=False)
        assert consumer._coordinator.member_id == ""
        consumer.subscribe(["orders"])
        assert consumer._subscription.topics == frozenset({"orders"})
        await consumer.start()
        assert (await consumer.getone()).value == b"0"
        assert (await anext(consumer)).value == b"1"
        member_id = consumer._coordinator.member_id
        assert member_id in kafka_cluster.group("g").members
        assert kafka_cluster.group("g").offsets == NOT_COMMITTED
        await consumer.commit()
        assert kafka_cluster.group("g").offsets[ZERO] == 2
        await consumer.stop()

    run(program())


def test_listener_of_a_group_is_called_and_one_without_a_group_is_not(kafka_cluster: KafkaCluster) -> None:
    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def __init__(self) -> None:
            self.assigned: list[Any] = []

        async def on_partitions_revoked(self, revoked: Any) -> None: ...

        async def on_partitions_assigned(self, assigned: Any) -> None:
            self.assigned += sorted(assigned)

    async def program() -> None:
        await kafka_cluster_filled(kafka_cluster)
        for group_id, assigned in (("g", [ZERO, ONE]), (None, [])):
            listener = Listener()
            consumer = consumer_of(kafka_cluster, group_id=group_id)
            consumer.subscribe(pattern="ord.*", listener=listener)
            await consumer.start()
            assert (await consumer.getone()).topic == "orders"
            assert listener.assigned == assigned
            await consumer.stop()

    run(program())


def test_getmany_returns_at_most_max_records_and_waits_at_most_timeout_ms(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> None:
        await kafka_cluster_filled(kafka_cluster)
        consumer = consumer_of(kafka_cluster)
        consumer.assign([AiokafkaPartition("orders", 0)])
        await consumer.start()
        polled = await consumer.getmany(timeout_ms=10_000, max_records=2)
        assert [record.value for record in polled[ZERO]] == [b"0", b"1"]
        polled = await consumer.getmany(timeout_ms=10_000)
        assert [record.value for record in polled[ZERO]] == [b"2"]
        assert await asyncio.wait_for(consumer.getmany(timeout_ms=10), 5) == {}
        consumer.seek(AiokafkaPartition("orders", 0), 1)
        assert (await consumer.getone()).offset == 1
        await consumer.stop()

    run(program())


def test_reads_of_a_stopped_consumer_raise_aiokafkas_error_and_end_an_iteration(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> None:
        consumer = consumer_of(kafka_cluster)
        consumer.assign([ZERO])
        pending = asyncio.ensure_future(consumer.getone())
        await asyncio.sleep(0.05)
        await consumer.stop()
        for read in (pending, consumer.getone(), consumer.getmany()):
            with pytest.raises(aiokafka.errors.ConsumerStoppedError):
                await read
        assert [record async for record in consumer] == []

    run(program())


def test_other_errors_of_reads_are_aiokafkas_with_the_text_of_ours(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        consumer = consumer_of(kafka_cluster)
        consumer.assign([ZERO])
        for read in (consumer.getone, lambda: consumer.getmany(timeout_ms=10_000)):
            kafka_cluster.controls.fail_next(FetchRequest, TopicAuthorizationFailed)
            with pytest.raises(aiokafka.errors.KafkaError, match="TopicAuthorizationFailed: ") as raised:
                await read()
            assert isinstance(raised.value.__cause__, TopicAuthorizationFailed)
        await consumer.stop()

    run(program())


async def kafka_cluster_filled(cluster: KafkaCluster) -> None:
    """Write the values 0, 1 and 2 to the first partition."""
    producer = producer_of(cluster)
    for number in range(3):
        await (await producer.send("orders", b"%d" % number, partition=0))
    await producer.stop()


# ---------------------------------------------------------------------- administration and options


def test_topics_are_created_with_their_partitions(kafka_cluster: KafkaCluster) -> None:
    async def program() -> list[Any]:
        admin = Admin()
        assert await admin.create_topics([]) == []
        await admin.connect(bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="not of an admin")
        client = admin.client
        await admin.connect(bootstrap_servers=kafka_cluster.bootstrap_servers)
        assert admin.client is client
        topics = [Topic("new", num_partitions=3), Topic("orders"), Topic("two words")]
        results = await admin.create_topics(topics)
        await admin.disconnect()
        return [(result.topic, type(result.error).__name__) for result in results]

    assert run(program()) == [
        ("new", "NoneType"),
        ("orders", "NoneType"),
        ("two words", "InvalidTopicException"),
    ]
    assert kafka_cluster.partition("new", 2)
    assert kafka_cluster.partition("new", 0).replicas == kafka_cluster.partition("orders", 0).replicas


def test_creation_that_fails_as_a_whole_is_the_error_of_each_topic(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        admin = Admin()
        await admin.connect(bootstrap_servers=kafka_cluster.bootstrap_servers)
        await admin.client.close()
        results = await admin.create_topics([Topic("a"), Topic("b")])
        assert [(result.topic, type(result.error).__name__) for result in results] == [
            ("a", "ClientClosed"),
            ("b", "ClientClosed"),
        ]

    run(program())


def test_options_of_aiokafka_without_a_counterpart_are_dropped() -> None:
    settings = {
        "loop": object(),
        "api_version": "auto",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": "x",
        "acks": UNSET,
        "client_id": None,
        "linger_ms": 0,
        "check_crcs": False,
        "consumer_timeout_ms": 200,
    }
    assert options_of(settings) == {"linger_ms": 0, "check_crcs": False, "consumer_timeout_ms": 200}
    assert options_of(settings, frozenset({"consumer_timeout_ms"})) == {"linger_ms": 0, "check_crcs": False}


def test_client_rack_reaches_the_consumers_only(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        servers = kafka_cluster.bootstrap_servers
        async with KafkaBroker(servers, logger=None, client_rack="west", client_id="shop") as broker:
            consumer = broker.config.broker_config.builder(group_id="g")
            assert consumer._consumer._options.client_rack == "west"
            assert consumer._consumer._options.client_id == "shop"
            await consumer.stop()

    run(program())
