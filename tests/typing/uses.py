"""How applications use the public API, for the type checker; never run.

A line that must be refused carries `type: ignore[code]`; mypy reports an ignore that is not needed, so a
signature that grows too lax fails as loudly as one that grows too strict.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, assert_type

from pykafka2 import (
    BulkDelivery,
    ClusterView,
    ConsumerRebalanceListener,
    ConsumerRecord,
    Delivery,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Partitioner,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
    aio,
)
from pykafka2.admin import ConfigResource
from pykafka2.errors import KafkaError, NotLeaderOrFollower
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.serializers import Buffer, LongDeserializer, LongSerializer, StringSerializer
from pykafka2.testing import FaultRule, KafkaCluster, Simulation


def producing(servers: str) -> None:
    with KafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=5) as producer:
        delivery = producer.send("orders", b"value", key=b"key", headers=[("source", b"test")], partition=1)
        assert_type(delivery, Delivery)
        headers = [("source", b"test")]
        producer.send("orders", b"value", headers=headers)
        producer.send("orders", b"value", headers=(("source", None),))
        producer.send("orders", b"value", headers=[("source", "test")])  # type: ignore[list-item]
        deliveries: list[Delivery] = [delivery]
        assert_type(deliveries[0].result(timeout=10), RecordMetadata)
        bulk = producer.send_many("orders", [b"value"], headers=headers)
        assert_type(bulk, BulkDelivery)
        producer.send_many("orders", [b"value", None], headers=[headers, None])
        assert_type(producer.purge(), int)
        assert_type(delivery.done(), bool)
        producer.send("orders", value=b"v", on_delivery=delivered, timestamp_ms=1)
        producer.flush(timeout=5)
    KafkaProducer({"bootstrap.servers": servers, "linger.ms": 5}).close(timeout=1)
    KafkaProducer(bootstrap_servers=servers, linger=5)  # type: ignore[call-arg]
    KafkaProducer(acks=2)  # type: ignore[arg-type]
    KafkaProducer(compression_type="zip", value_serializer=str.encode)  # type: ignore[arg-type]
    KafkaProducer(security_protocol="TLS")  # type: ignore[arg-type]
    KafkaProducer(partitioner="roundrobin")  # type: ignore[arg-type]
    KafkaProducer(partitioner="murmur2", compression_type="zstd", acks=1, sasl_mechanism="PLAIN").close()
    producer.send(topic="orders", partition="1")  # type: ignore[arg-type]


class ByCustomer:
    def partition(
        self,
        topic: str,
        key: str,
        key_bytes: bytes | None,
        value: object,
        value_bytes: bytes | None,
        cluster: ClusterView,
    ) -> int:
        numbers = sorted(cluster.partitions_for_topic(topic))
        return numbers[0] if key == "vip" else max(cluster.available_partitions_for_topic(topic))


class Tracing(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> None:
        record.headers = [*(record.headers or []), ("trace", b"1")]


def extending(servers: str) -> None:
    mine: Partitioner = ByCustomer()
    KafkaProducer(bootstrap_servers=servers, partitioner=mine, interceptors=[Tracing()]).close()


def producing_with_serializers(servers: str) -> None:
    plain = KafkaProducer(bootstrap_servers=servers)
    assert_type(plain, KafkaProducer[Buffer, Buffer])
    plain.send("orders", "text")  # type: ignore[arg-type]
    plain.send("orders", b"value", key="text")  # type: ignore[arg-type]
    plain.send("orders", None, key=bytearray(b"key"))
    plain.send_many("orders", [b"value", None], keys=["text", "text"])  # type: ignore[list-item]
    texts = KafkaProducer(bootstrap_servers=servers, value_serializer=str.encode)
    texts.send("orders", "text", key=b"key")
    texts.send("orders", b"bytes")  # type: ignore[arg-type]
    numbered = KafkaProducer(key_serializer=LongSerializer(), value_serializer=StringSerializer())
    assert_type(numbered, KafkaProducer[int | None, str | None])
    numbered.send("orders", "text", key=7)
    numbered.send("orders", "text", key="seven")  # type: ignore[arg-type]
    lenient = KafkaProducer(bootstrap_servers=servers, value_serializer=lambda value: repr(value).encode())
    lenient.send("orders", {"any": "thing"})
    lambdas = KafkaProducer(value_serializer=lambda value: value.encode("utf-8"))
    lambdas.send("orders", "text")
    settings = {"bootstrap.servers": servers, "value.serializer": str.encode}
    configured: KafkaProducer[Buffer, str] = KafkaProducer(settings)
    configured.send("orders", "text")
    takes_bytes(plain)
    takes_bytes(texts)  # type: ignore[arg-type]
    takes_any(plain)
    takes_any(texts)


class Twice(KafkaProducer[bytes, bytes]):
    def send_twice(self, value: bytes) -> None:
        self.send("orders", value)
        self.send("orders", value)


class Words(KafkaProducer[Buffer, str]):
    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(bootstrap_servers=servers, value_serializer=str.encode)
        self.topic = topic

    def say(self, word: str) -> None:
        self.send(self.topic, word)


def subclassing_the_producer(servers: str) -> None:
    assert_type(Twice(bootstrap_servers=servers, acks=1), Twice)
    with Twice({"bootstrap.servers": servers}) as twice:
        twice.send_twice(b"value")
    Words(servers, "words").say("word")
    Words(servers)  # type: ignore[call-arg]
    KafkaProducer(value_serializer=3)  # type: ignore[arg-type]


def takes_bytes(producer: KafkaProducer) -> None:
    assert_type(producer, KafkaProducer[Buffer, Buffer])


def takes_any(producer: KafkaProducer[Any, Any]) -> None:
    delivery = producer.send("orders", "whatever its serializers take")
    delivery.add_callback(lambda metadata: metadata.offset + 1)
    delivery.add_errback(lambda error: error.retriable)
    delivery.add_callback(lambda tag, metadata: None, "tag")


def delivered(metadata: RecordMetadata | None, error: KafkaError | None) -> None: ...


class Totals(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        assert_type(assigned[0].topic, str)


def consuming_in_a_group(servers: str) -> None:
    with KafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        group_id="billing",
        group_instance_id="till-1",
        partition_assignment_strategy=["cooperative-sticky"],
    ) as consumer:
        consumer.subscribe(["orders"], listener=Totals())
        consumer.subscribe(pattern="ord.*", on_revoked=lambda partitions: print(partitions[0].partition))
        consumer.subscribe(["orders"], on_lost=3)  # type: ignore[arg-type]
        assert_type(next(consumer), ConsumerRecord[bytes, bytes])
        consumer.enforce_rebalance("scales were wrong")
        consumer.close(timeout=1, leave_group=False)


def consuming(servers: str) -> None:
    partition = TopicPartition("orders", 0)
    with KafkaConsumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        assert_type(consumer, KafkaConsumer[bytes, bytes])
        assert_type(consumer.poll(timeout_ms=100), dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]])
        for columns in consumer.poll_columns(timeout_ms=100).values():
            assert_type(columns.values, list[bytes | None])
            assert_type(columns.offsets, list[int])
        for record in consumer:
            assert_type(record, ConsumerRecord)
            assert_type(record.offset, int)
            assert_type(record.value, bytes | None)
            record.value.decode()  # type: ignore[union-attr]
        consumer.assign([partition])
        consumer.seek(partition, 7)
        assert_type(consumer.position(partition), int)
        assert_type(consumer.end_offsets([partition]), dict[TopicPartition, int])
        assert_type(
            consumer.offsets_for_times({partition: 0}), dict[TopicPartition, OffsetAndTimestamp | None]
        )
    consumer.seek(partition, "7")  # type: ignore[arg-type]
    KafkaConsumer("orders", auto_offset_reset="begin")  # type: ignore[arg-type]
    KafkaConsumer("orders", auto_offset_rest="latest")  # type: ignore[call-arg]
    KafkaConsumer("orders", isolation_level="committed")  # type: ignore[arg-type]
    KafkaConsumer("orders", partition_assignment_strategy=["stick"])  # type: ignore[list-item]
    KafkaConsumer("orders", group_protocol="new", value_deserializer=bytes.decode)  # type: ignore[arg-type]
    KafkaConsumer("orders", auto_offset_reset=timedelta(hours=1), isolation_level="read_committed").close()


class Customer:
    def __init__(self, data: bytes) -> None:
        self.name = data.decode()


def consuming_with_deserializers(servers: str) -> None:
    texts = KafkaConsumer("orders", bootstrap_servers=servers, value_deserializer=bytes.decode)
    assert_type(texts, KafkaConsumer[bytes, str])
    for records in texts.poll(timeout_ms=100).values():
        assert_type(records[0].key, bytes | None)
        assert_type(records[0].value, str | None)
    numbered = KafkaConsumer(key_deserializer=LongDeserializer(), value_deserializer=Customer)
    assert_type(numbered, KafkaConsumer[int, Customer])
    for record in numbered:
        assert_type(record, ConsumerRecord[int, Customer])
        print(record.value.nam if record.value else "")  # type: ignore[attr-defined]
        print(record.value.name)  # type: ignore[union-attr]
    assert_type(next(numbered).key, int | None)
    loaded = KafkaConsumer(value_deserializer=lambda data: json.loads(data))
    assert_type(loaded, KafkaConsumer[bytes, Any])
    settings = {"bootstrap.servers": servers, "value.deserializer": bytes.decode}
    configured: KafkaConsumer[bytes, str] = KafkaConsumer(settings)
    reads_text(configured)
    reads_text(numbered)  # type: ignore[arg-type]
    reads_anything(numbered)


def reads_text(consumer: KafkaConsumer[Any, str]) -> None:
    assert_type(next(consumer).value, str | None)


def reads_anything(consumer: KafkaConsumer[object, object]) -> None:
    topic, partition, leader_epoch, *_ = next(consumer)
    print(topic, partition, leader_epoch)


def administering(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("orders", partitions=6, replication_factor=3)], timeout=10)
        assert_type(admin.list_topics(), list[str])
        admin.create_topics([7])  # type: ignore[list-item]
        admin.create_topics({"orders": {"num_partitions": 6}})
        offsets = admin.list_offsets({TopicPartition("orders", 0): "latest"})
        assert_type(offsets[TopicPartition("orders", 0)].offset, int)
        assert_type(admin.list_group_offsets("g"), dict[TopicPartition, OffsetAndMetadata])
        assert_type(admin.list_group_offsets(["g"])["g"], dict[TopicPartition, OffsetAndMetadata])
        assert_type(admin.describe_groups(["g"])["g"].state, str)
        admin.alter_configs({ConfigResource("TOPIC", "orders"): {"retention.ms": 5, "segment.ms": None}})
        admin.alter_configs({"orders": {"retention.ms": 5}})  # type: ignore[dict-item]
    KafkaAdminClient(bootstrap_server=servers)  # type: ignore[call-arg]
    KafkaAdminClient(security_protocol="ssl")  # type: ignore[arg-type]


async def on_the_loop(producer: KafkaProducer) -> None:
    assert_type(await producer.send("orders", b"value"), RecordMetadata)
    async with aio.KafkaProducer(value_serializer=str.encode) as other:
        assert_type(await (await other.send("orders", "text")), RecordMetadata)
        assert_type(await other.send_and_wait("orders", "text"), RecordMetadata)
        await other.send("orders", b"bytes")  # type: ignore[arg-type]
    async with aio.KafkaConsumer("orders", value_deserializer=bytes.decode) as consumer:
        assert_type((await consumer.getone()).value, str | None)
        async for record in consumer:
            assert_type(record.value, str | None)
        await consumer.poll(timeout="1")  # type: ignore[call-arg]
    async with aio.KafkaAdminClient() as admin:
        assert_type(await admin.list_topics(), list[str])
        await admin.create_topics([7])  # type: ignore[list-item]


def testing() -> None:
    with KafkaCluster(brokers=3, topics={"orders": 6}) as cluster:
        assert_type(cluster.bootstrap_servers, str)
        controls = cluster.controls
        assert_type(controls.rule(api="Produce", nth=3, then="apply_then_lose_reply"), FaultRule)
        assert_type(controls.fail_next("Produce", NotLeaderOrFollower, topic="orders"), FaultRule)
        controls.rule(api="Produce", nht=3, then="hold")  # type: ignore[call-arg]
        assert_type(controls.add_rule({"api": "Fetch", "then": "hold"}), FaultRule)
        controls.cut_client("orders-app", broker=1, silently=True)
        controls.shrink_isr(("orders", 0), 1, 2)
        controls.cut_lnik(0, 1)  # type: ignore[attr-defined]
        controls.hold("Produce", topc="orders")  # type: ignore[call-arg]
        assert_type(cluster.history.count("Produce", client_id="a", where=lambda request: True), int)
        cluster.history.order("Metadata", ("Produce", lambda request: request.acks == 1))
        cluster.history.exactly(2, ProduceRequest, client_id="a")
        assert_type(cluster.history.requests(ProduceRequest), list[ProduceRequest])
        assert_type(cluster.history.requests("Produce")[0].acks, Any)
        assert_type(cluster.history.entries("Produce")[0].request.acks, Any)
        assert_type(cluster.wait_until(lambda: cluster.topics(), timeout=5.0), list[str])
        assert_type(cluster.connections("orders-app")[0].software, str)
        assert_type(cluster.pid, int)
        assert_type(cluster.partition("orders", 0).replicas[0].log_end_offset, int)
        assert_type(cluster.metrics().api("Produce").total.p99, float)
        assert_type(str(cluster.timeline(last=5)), str)
    with KafkaCluster(process=True) as elsewhere:
        assert_type(elsewhere, KafkaCluster)
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=3, topics={"orders": 1})
        assert_type(simulation.producer(cluster), KafkaProducer[Any, Any])
