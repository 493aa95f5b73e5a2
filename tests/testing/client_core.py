"""The core of our clients on brokers of any release, with the same steps on Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pykafka2 import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
)
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.errors import ProducerFenced, TransactionFailed, UnsupportedVersion
from pykafka2.testing import Simulation

POLL_MS = 100
DEADLINE = 30.0
COUNT = 60
CODECS = ["none", "gzip"]


@attrs.frozen
class Clients:
    """Clients of one cluster, with the clock that they live by."""

    bootstrap_servers: str
    options: Callable[[str], dict[str, Any]] = lambda name: {}
    now: Callable[[], float] = time.monotonic

    @classmethod
    def in_virtual_time(cls, simulation: Simulation, bootstrap_servers: str) -> Clients:
        def options(name: str) -> dict[str, Any]:
            return {"runtime": simulation.runtime.at(name), "client_id": name}

        return cls(bootstrap_servers, options, lambda: simulation.now)

    def producer(self, name: str = "producer", **options: Any) -> KafkaProducer[Any, Any]:
        return KafkaProducer(bootstrap_servers=self.bootstrap_servers, **self.options(name), **options)

    def consumer(self, *topics: str, name: str = "consumer", **options: Any) -> KafkaConsumer[Any, Any]:
        options = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 10, **options}
        return KafkaConsumer(
            *topics, bootstrap_servers=self.bootstrap_servers, **self.options(name), **options
        )

    def admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.bootstrap_servers, **self.options("admin"))

    def topic(self, name: str, partitions: int = 2) -> list[TopicPartition]:
        """Create a topic and return its partitions."""
        with self.admin() as admin:
            admin.create_topics([NewTopic(name, partitions=partitions, replication_factor=3)])
            admin.wait_for_topics([name])
        return [TopicPartition(name, number) for number in range(partitions)]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def read(clients: Clients, partition: TopicPartition, count: int, **options: Any) -> list[bytes | None]:
    """Return the first `count` values of a partition."""
    found: list[bytes | None] = []
    end_at = clients.now() + DEADLINE
    with clients.consumer(name="reader", **options) as consumer:
        consumer.assign([partition])
        while len(found) < count:
            assert clients.now() < end_at, f"only {len(found)} of {count} records arrived"
            for records in consumer.poll(POLL_MS).values():
                found += [record.value for record in records]
    return found


def records_of_every_kind_are_read_in_order(clients: Clients) -> None:
    kinds = [
        {"acks": "all", "enable_idempotence": True},
        {"acks": "all", "enable_idempotence": False, "max_in_flight_requests_per_connection": 1},
        {"acks": 1, "enable_idempotence": False, "max_in_flight_requests_per_connection": 1},
    ]
    first, second = clients.topic("kinds")
    sent = 0
    for codec in CODECS:
        for kind in kinds:
            with clients.producer(compression_type=codec, batch_size=200, **kind) as producer:
                deliveries = [
                    producer.send(first.topic, value, key=b"k", headers=[("h", b"1")], partition=0)
                    for value in numbers(sent, sent + COUNT)
                ]
            offsets = [delivery.result(timeout=0).offset for delivery in deliveries]
            assert offsets == list(range(sent, sent + COUNT))
            sent += COUNT
    assert read(clients, first, sent) == numbers(0, sent)
    with clients.consumer() as consumer:
        assert consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
        assert consumer.end_offsets([first, second]) == {first: sent, second: 0}
        assert consumer.offsets_for_times({first: 0})[first].offset == 0
        assert consumer.partitions_for_topic("kinds") == {0, 1}


def classic_group_shares_partitions_and_resumes(clients: Clients) -> None:
    partitions = clients.topic("shared")
    with clients.producer() as producer:
        for number, partition in enumerate(partitions * COUNT):
            producer.send(partition.topic, b"%d" % number, partition=partition.partition)
    options = {"group_id": "sharers", "group_protocol": "classic", "enable_auto_commit": False}
    seen: list[bytes | None] = []
    end_at = clients.now() + DEADLINE
    with (
        clients.consumer("shared", name="a", max_poll_records=10, **options) as one,
        clients.consumer("shared", name="b", max_poll_records=10, **options) as other,
    ):
        while not (len(one.assignment()) == len(other.assignment()) == 1):
            assert clients.now() < end_at, "the members do not share the partitions"
            for member in (one, other):
                member.poll(POLL_MS)
                if member.assignment():
                    member.seek_to_beginning()
        while len(set(seen)) < COUNT:
            assert clients.now() < end_at, "the members read no further"
            for member in (one, other):
                for records in member.poll(POLL_MS).values():
                    seen += [record.value for record in records]
                member.commit()
    with clients.consumer("shared", name="c", **options) as next_one:
        committed = next_one.committed(set(partitions))
        rest = 2 * COUNT - sum(found.offset for found in committed.values() if found is not None)
        more: list[bytes | None] = []
        while len(more) < rest:
            assert clients.now() < 2 * end_at, f"only {len(more)} of {rest} records arrived"
            for records in next_one.poll(POLL_MS).values():
                more += [record.value for record in records]
    assert sorted(seen + more) == sorted(numbers(0, 2 * COUNT))  # type: ignore[type-var]


def new_protocol_joins_or_names_the_classic_one(clients: Clients, has_protocol: bool) -> None:
    partitions = clients.topic("modern")
    with clients.producer() as producer:
        producer.send("modern", b"v", partition=0).result(timeout=DEADLINE)
    end_at = clients.now() + DEADLINE
    with clients.consumer("modern", group_id="modern", group_protocol="consumer") as consumer:
        if not has_protocol:
            with pytest.raises(UnsupportedVersion, match="group_protocol='classic'"):
                consumer.poll(1000 * DEADLINE)
            return
        while not consumer.poll(POLL_MS):
            assert clients.now() < end_at, "the member reads nothing"
        assert set(consumer.assignment()) == set(partitions)


def _move(clients: Clients, source: TopicPartition) -> None:
    """Commit and abort in turns, and go on after a successor has fenced the producer."""
    with clients.producer(transactional_id="mover", name="mover") as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send("target", b"%d" % number, partition=0)
            producer.send_offsets_to_transaction({source: OffsetAndMetadata(number + 1)}, "movers")
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        with clients.producer(transactional_id="mover", name="successor") as successor:
            successor.init_transactions()
            successor.begin_transaction()
            successor.send("target", b"last", partition=0)
            successor.commit_transaction()
        producer.begin_transaction()
        producer.send("target", b"fenced", partition=0)
        producer.commit_transaction()


def transactions_commit_abort_and_fence(clients: Clients) -> None:
    source, target = clients.topic("source", 1)[0], clients.topic("target", 1)[0]
    with pytest.raises((ProducerFenced, TransactionFailed)):
        _move(clients, source)
    assert read(clients, target, 3, isolation_level="read_committed") == [b"0", b"2", b"last"]
    with clients.consumer(group_id="movers") as consumer:
        found = consumer.committed({source})[source]
        assert found is not None
        assert found.offset == 3


def topics_are_created_described_and_deleted(clients: Clients) -> None:
    with clients.admin() as admin:
        assert len(admin.describe_cluster().nodes) == 3
        admin.create_topics([NewTopic("managed", partitions=3, replication_factor=3)])
        admin.wait_for_topics(["managed"])
        end_at = clients.now() + DEADLINE
        while "managed" not in admin.list_topics():  # another broker can hear of it later
            assert clients.now() < end_at, "the topic is not listed"
        described = admin.describe_topics(["managed"])["managed"]
        assert [one.partition for one in described.partitions] == [0, 1, 2]
        admin.delete_topics(["managed"])
        end_at = clients.now() + DEADLINE
        while "managed" in admin.list_topics():
            assert clients.now() < end_at, "the topic is still there"
        with pytest.raises(ItemsFailed, match="UnknownTopicOrPartition"):
            admin.delete_topics(["managed"], timeout=5.0)
