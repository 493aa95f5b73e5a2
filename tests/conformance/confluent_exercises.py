"""confluent-kafka (librdkafka) against one cluster: KIP-848 groups, administration, transactions.

Its source distribution comes without its integration tests, so these are ours, about the same matters. Each
is a function that gets the cluster's address and a unique name; `python_clients.py` runs them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

PATIENCE = 60.0


@cache  # it has to outlive the futures that it hands out
def _admin(servers: str) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": servers})


def _topic(servers: str, name: str, partitions: int = 1, **configs: str) -> str:
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    options = {option.replace("_", "."): value for option, value in configs.items()}
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=options)
    _admin(servers).create_topics([new])[name].result(PATIENCE)
    return name


def _write(servers: str, topic: str, count: int, partitions: int = 1, **options: Any) -> None:
    from confluent_kafka import Producer

    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, **options})
    for n in range(count):
        producer.produce(
            topic,
            b"%d" % n,
            partition=n % partitions,
            timestamp=10**12 + n,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(PATIENCE) == 0
    assert not failures


@contextmanager
def _consumer(servers: str, group: str, **options: Any) -> Iterator[Any]:
    from confluent_kafka import Consumer

    defaults = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    settings = {option.replace("_", "."): value for option, value in options.items()}
    consumer = Consumer({**defaults, "enable.auto.commit": False, **settings})
    try:
        yield consumer
    finally:
        consumer.close()


def _read(consumers: list[Any], count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        for consumer in consumers:
            for message in consumer.consume(100, timeout=0.05):
                assert message.error() is None, message.error()
                found.append(message)
    return found


def _until(holds: Callable[[], bool], what: str, consumers: list[Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited {PATIENCE:.0f} s for {what}"
        for consumer in consumers:
            for message in consumer.consume(100, timeout=0.05):
                assert message.error() is None, message.error()


def new_groups_by_every_assignor(servers: str, name: str) -> None:
    for assignor in ("uniform", "range"):
        _new_group(servers, f"{name}-{assignor}", assignor)


def _new_group(servers: str, group: str, assignor: str) -> None:
    topic = _topic(servers, group, 4)
    _write(servers, topic, 40, 4)
    seen: list[tuple[str, int]] = []
    options = {"group_protocol": "consumer", "group_remote_assignor": assignor}
    with _consumer(servers, group, **options) as one:
        one.subscribe(
            [topic],
            on_assign=lambda _, found: seen.append(("assigned", len(found))),
            on_revoke=lambda _, found: seen.append(("revoked", len(found))),
        )
        _read([one], 40)
        one.commit(asynchronous=False)
        with _consumer(servers, group, **options) as two:
            two.subscribe([topic])
            _until(lambda: len(one.assignment()) == 2 == len(two.assignment()), "shares", [one, two])
        _until(lambda: len(one.assignment()) == 4, "all of it again", [one])
        described = _admin(servers).describe_consumer_groups([group])[group].result(PATIENCE)
        assert (described.state.name, described.type.name) == ("STABLE", "CONSUMER")
        assert described.partition_assignor == assignor
        assert len(described.members[0].assignment.topic_partitions) == 4
    # It gives up half, and later gets just that half back.
    changes = [one for one in seen if one[1]]
    assert changes[:3] == [("assigned", 4), ("revoked", 2), ("assigned", 2)], seen


def new_groups_by_pattern(servers: str, name: str) -> None:
    """The broker resolves it (RE2), and sees topics that come later."""
    _topic(servers, f"{name}-one")
    with _consumer(servers, name, group_protocol="consumer") as consumer:
        consumer.subscribe([f"^{name}-.*"])
        _until(lambda: len(consumer.assignment()) == 1, "the first topic", [consumer])
        _topic(servers, f"{name}-two")
        _until(lambda: len(consumer.assignment()) == 2, "the second topic", [consumer])


def static_members_of_new_groups(servers: str, name: str) -> None:
    topic = _topic(servers, name, 2)
    for _ in range(2):
        with _consumer(servers, name, group_protocol="consumer", group_instance_id="first") as consumer:
            consumer.subscribe([topic])
            _until(lambda: len(consumer.assignment()) == 2, "both partitions", [consumer])
            described = _admin(servers).describe_consumer_groups([name])[name].result(PATIENCE)
            assert [member.group_instance_id for member in described.members] == ["first"]


def new_groups_commit_and_resume(servers: str, name: str) -> None:
    from confluent_kafka import TopicPartition

    topic = _topic(servers, name, 2)
    _write(servers, topic, 20, 2)
    for expected in (20, 0):
        with _consumer(servers, name, group_protocol="consumer") as consumer:
            consumer.subscribe([topic])
            if expected:
                _read([consumer], expected)
                consumer.commit(asynchronous=False)
            else:
                _until(lambda: len(consumer.assignment()) == 2, "both partitions", [consumer])
                assert consumer.consume(1, timeout=0.3) == []
            committed = consumer.committed([TopicPartition(topic, n) for n in range(2)], timeout=PATIENCE)
            assert [one.offset for one in committed] == [10, 10]


def classic_groups_move_to_the_new_protocol(servers: str, name: str) -> None:
    topic = _topic(servers, name, 4)
    with _consumer(servers, name, group_protocol="classic", heartbeat_interval_ms=300) as old:
        old.subscribe([topic])
        _until(lambda: len(old.assignment()) == 4, "all of it", [old])
        with _consumer(servers, name, group_protocol="consumer") as new:
            new.subscribe([topic])
            _until(lambda: len(old.assignment()) == 2 == len(new.assignment()), "shares", [old, new])
        _until(lambda: len(old.assignment()) == 4, "all of it again", [old])


def classic_groups_by_cooperative_sticky(servers: str, name: str) -> None:
    topic = _topic(servers, name, 4)
    options = {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 300}
    with _consumer(servers, name, **options) as one, _consumer(servers, name, **options) as two:
        one.subscribe([topic])
        _until(lambda: len(one.assignment()) == 4, "all of it", [one])
        two.subscribe([topic])
        _until(lambda: len(one.assignment()) == 2 == len(two.assignment()), "shares", [one, two])


def transactions_carry_offsets(servers: str, name: str) -> None:
    from confluent_kafka import Producer

    for protocol in ("classic", "consumer"):
        source = _topic(servers, f"{name}-{protocol}-in", 2)
        target = _topic(servers, f"{name}-{protocol}-out", 2)
        _write(servers, source, 60, 2)
        producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{name}-{protocol}"})
        producer.init_transactions(PATIENCE)
        with _consumer(servers, f"{name}-{protocol}", group_protocol=protocol) as consumer:
            consumer.subscribe([source])
            found = _read([consumer], 60)
            for is_committed in (False, True):
                producer.begin_transaction()
                for message in found:
                    producer.produce(target, message.value(), partition=message.partition())
                producer.send_offsets_to_transaction(
                    consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), PATIENCE
                )
                if is_committed:
                    producer.commit_transaction(PATIENCE)
                else:
                    producer.abort_transaction(PATIENCE)
                committed = consumer.committed(consumer.assignment(), timeout=PATIENCE)
                assert {one.offset for one in committed} == ({30} if is_committed else {-1001})
        with _consumer(servers, f"{name}-{protocol}-reader") as reader:
            reader.subscribe([target])
            assert sorted(int(one.value()) for one in _read([reader], 60)) == list(range(60))
            assert reader.consume(1, timeout=0.3) == []


def transactional_producers_are_fenced(servers: str, name: str) -> None:
    from confluent_kafka import KafkaError, KafkaException, Producer

    topic = _topic(servers, name)
    old, new = (Producer({"bootstrap.servers": servers, "transactional.id": name}) for _ in range(2))
    old.init_transactions(PATIENCE)
    old.begin_transaction()
    old.produce(topic, b"old")
    old.flush(PATIENCE)
    new.init_transactions(PATIENCE)
    with pytest.raises(KafkaException) as refused:
        old.commit_transaction(PATIENCE)
    error = refused.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)


def administration(servers: str, name: str) -> None:
    from confluent_kafka import (
        ConsumerGroupState,
        ConsumerGroupTopicPartitions,
        ConsumerGroupType,
        TopicCollection,
        TopicPartition,
    )
    from confluent_kafka.admin import (
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewPartitions,
        OffsetSpec,
    )

    admin = _admin(servers)
    topic = _topic(servers, name, 2)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE)
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(PATIENCE)
    assert (described.name, len(described.partitions), described.is_internal) == (topic, 3, False)
    cluster = admin.describe_cluster().result(PATIENCE)
    assert cluster.cluster_id
    assert cluster.nodes

    entry = ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE)
    values = admin.describe_configs([resource])[resource].result(PATIENCE)
    assert values["retention.ms"].value == "12345"
    entry = ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource("topic", topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE)

    _write(servers, topic, 30, 3)
    where = TopicPartition(topic, 0)

    def offset(spec: Any) -> int:
        return int(admin.list_offsets({where: spec})[where].result(PATIENCE).offset)

    specs = (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp())
    assert [offset(spec) for spec in specs] == [0, 10, 9]
    assert offset(OffsetSpec.for_timestamp(10**12 + 13)) == 5
    deleted = admin.delete_records([TopicPartition(topic, 0, 4)])
    assert next(iter(deleted.values())).result(PATIENCE).low_watermark == 4
    assert offset(OffsetSpec.earliest()) == 4

    with _consumer(servers, name, group_protocol="consumer") as consumer:
        consumer.subscribe([topic])
        _read([consumer], 26)
        consumer.commit(asynchronous=False)
        listed = admin.list_consumer_groups(
            states={ConsumerGroupState.STABLE}, types={ConsumerGroupType.CONSUMER}
        ).result(PATIENCE)
        assert name in [group.group_id for group in listed.valid]
    ask = [ConsumerGroupTopicPartitions(name)]
    found = admin.list_consumer_group_offsets(ask)[name].result(PATIENCE)
    assert {(one.partition, one.offset) for one in found.topic_partitions} == {(0, 10), (1, 10), (2, 10)}
    ask = [ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 1, 3)])]
    admin.alter_consumer_group_offsets(ask)[name].result(PATIENCE)
    ask = [ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 1)])]
    found = admin.list_consumer_group_offsets(ask)[name].result(PATIENCE)
    assert found.topic_partitions[0].offset == 3
    admin.delete_consumer_groups([name])[name].result(PATIENCE)
    admin.delete_topics([topic])[topic].result(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while topic in admin.list_topics(timeout=PATIENCE).topics:
        assert time.monotonic() < deadline


EXERCISES: dict[str, Callable[[str, str], None]] = {
    exercise.__name__.replace("_", " "): exercise
    for exercise in (
        new_groups_by_every_assignor,
        new_groups_by_pattern,
        static_members_of_new_groups,
        new_groups_commit_and_resume,
        classic_groups_move_to_the_new_protocol,
        classic_groups_by_cooperative_sticky,
        transactions_carry_offsets,
        transactional_producers_are_fenced,
        administration,
    )
}
