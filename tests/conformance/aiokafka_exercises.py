"""aiokafka against one cluster, as its own integration tests use it: groups, transactions, offsets, admin.

Its source distribution comes without its tests, so these are ours, about the same matters. Each is a
coroutine that gets the cluster's address and a unique name; `python_clients.py` runs them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

PATIENCE = 60.0


@asynccontextmanager
async def _producer(servers: str, **options: Any) -> AsyncIterator[Any]:
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=servers, **options) as producer:
        yield producer


@asynccontextmanager
async def _consumer(servers: str, *topics: str, **options: Any) -> AsyncIterator[Any]:
    from aiokafka import AIOKafkaConsumer

    defaults = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300, "fetch_max_wait_ms": 100}
    async with AIOKafkaConsumer(*topics, bootstrap_servers=servers, **{**defaults, **options}) as consumer:
        yield consumer


async def _topic(servers: str, name: str, partitions: int = 1, **configs: str) -> str:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        options = {option.replace("_", "."): value for option, value in configs.items()}
        await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=options)])
    finally:
        await admin.close()
    return name


async def _write(servers: str, topic: str, count: int, partitions: int = 1, **options: Any) -> None:
    async with _producer(servers, acks="all", **options) as producer:
        sent = [
            await producer.send(topic, b"%d" % n, partition=n % partitions, timestamp_ms=10**12 + n)
            for n in range(count)
        ]
        await asyncio.gather(*sent)


async def _read(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        for records in (await consumer.getmany(timeout_ms=100)).values():
            found += records
    return found


async def _until(holds: Callable[[], bool], what: str, work: Callable[[], Awaitable[Any]]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited {PATIENCE:.0f} s for {what}"
        await work()


async def batches_of_every_codec(servers: str, name: str) -> None:
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        topic = await _topic(servers, f"{name}-{codec}")
        await _write(servers, topic, 300, compression_type=codec, enable_idempotence=True)
        async with _consumer(servers, topic) as consumer:
            found = await _read(consumer, 300)
        assert [(one.offset, one.value, one.timestamp) for one in found] == [
            (n, b"%d" % n, 10**12 + n) for n in range(300)
        ]


async def a_batch_made_by_hand(servers: str, name: str) -> None:
    topic = await _topic(servers, name)
    async with _producer(servers) as producer:
        batch = producer.create_batch()
        for n in range(10):
            batch.append(key=None, value=b"%d" % n, timestamp=None)
        batch.close()
        first = await (await producer.send_batch(batch, topic, partition=0))
        assert (first.offset, first.partition) == (0, 0)
        second = producer.create_batch()  # an empty one is as good as none
        await producer.send_batch(second, topic, partition=0)
        assert (await producer.send_and_wait(topic, b"last", partition=0)).offset == 10


async def times_of_the_broker(servers: str, name: str) -> None:
    topic = await _topic(servers, name, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    async with _producer(servers) as producer:
        sent = await producer.send_and_wait(topic, b"x", timestamp_ms=5)
    assert sent.timestamp_type == 1
    assert sent.timestamp >= before
    async with _consumer(servers, topic) as consumer:
        (found,) = await _read(consumer, 1)
    assert (found.timestamp, found.timestamp_type) == (sent.timestamp, 1)


async def too_large_a_record(servers: str, name: str) -> None:
    from aiokafka.errors import MessageSizeTooLargeError

    topic = await _topic(servers, name, max_message_bytes="1000")
    async with _producer(servers) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, b"x" * 5000)
        assert (await producer.send_and_wait(topic, b"x")).offset == 0


async def a_record_larger_than_a_fetch(servers: str, name: str) -> None:
    topic = await _topic(servers, name)
    async with _producer(servers) as producer:
        for n in range(3):
            await producer.send_and_wait(topic, b"%d" % n * 100_000)
    async with _consumer(servers, topic, max_partition_fetch_bytes=100_500) as consumer:
        assert [len(one.value) for one in await _read(consumer, 3)] == [100_000] * 3


async def positions_and_offsets(servers: str, name: str) -> None:
    from aiokafka import TopicPartition
    from aiokafka.errors import OffsetOutOfRangeError

    topic = await _topic(servers, name)
    await _write(servers, topic, 20)
    where = TopicPartition(topic, 0)
    async with _consumer(servers, group_id=name, enable_auto_commit=False) as consumer:
        consumer.assign([where])
        assert await consumer.committed(where) is None
        assert await consumer.position(where) == 0
        assert (await consumer.beginning_offsets([where]), await consumer.end_offsets([where])) == (
            {where: 0},
            {where: 20},
        )
        at = await consumer.offsets_for_times({where: 10**12 + 7})
        assert (at[where].offset, at[where].timestamp) == (7, 10**12 + 7)
        assert (await consumer.offsets_for_times({where: 10**12 + 99}))[where] is None
        consumer.seek(where, 15)
        assert [one.offset for one in await _read(consumer, 5)] == [15, 16, 17, 18, 19]
        await consumer.commit({where: (12, "why")})
        await consumer.seek_to_committed()
        assert (await consumer.getone()).offset == 12
        consumer.pause(where)
        assert await consumer.getmany(timeout_ms=200) == {}
        consumer.resume(where)
        assert (await consumer.getone()).offset == 13
        await consumer.seek_to_end()
        assert await consumer.position(where) == 20
    async with _consumer(servers, auto_offset_reset="none") as consumer:
        consumer.assign([where])
        consumer.seek(where, 1000)
        with pytest.raises(OffsetOutOfRangeError):
            await asyncio.wait_for(consumer.getone(), PATIENCE)


async def groups_share_and_listen(servers: str, name: str) -> None:
    from aiokafka import ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def __init__(self) -> None:
            self.seen: list[tuple[str, int]] = []

        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            self.seen.append(("revoked", len(revoked)))

        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            self.seen.append(("assigned", len(assigned)))

    for assignor in (RoundRobinPartitionAssignor, StickyPartitionAssignor):
        topic = await _topic(servers, f"{name}-{assignor.name}", 4)
        await _write(servers, topic, 40, 4)
        options: dict[str, Any] = {"group_id": topic, "partition_assignment_strategy": [assignor]}
        options |= {"auto_commit_interval_ms": 100, "max_poll_interval_ms": 6000}
        async with _consumer(servers, **options) as one:
            listener = Listener()
            one.subscribe([topic], listener=listener)
            assert len(await _read(one, 40)) == 40
            await asyncio.sleep(0.3)  # the automatic commit
            async with _consumer(servers, topic, **options) as two:

                async def both(one: Any = one, two: Any = two) -> None:
                    await asyncio.gather(one.getmany(timeout_ms=50), two.getmany(timeout_ms=50))

                await _until(lambda: len(one.assignment()) == 2 == len(two.assignment()), "shares", both)
                assert not one.assignment() & two.assignment()
            await _until(
                lambda: len(one.assignment()) == 4, "all of it again", lambda: one.getmany(timeout_ms=50)
            )
        assigned = [count for word, count in listener.seen if word == "assigned"]
        assert assigned[0] == 4
        assert len(assigned) >= 3
        async with _consumer(servers, topic, **options) as three:
            assert await three.getmany(timeout_ms=500) == {}, "the group had committed everything"


async def static_members_come_back(servers: str, name: str) -> None:
    topic = await _topic(servers, name, 2)
    options = {"group_id": name, "group_instance_id": "first", "session_timeout_ms": 6000}
    async with _consumer(servers, topic, **options) as consumer:
        await _until(lambda: len(consumer.assignment()) == 2, "it", lambda: consumer.getmany(timeout_ms=50))
        generation = consumer._coordinator.generation
        member = consumer._coordinator.member_id
    async with _consumer(servers, topic, **options) as consumer:
        await _until(lambda: len(consumer.assignment()) == 2, "it", lambda: consumer.getmany(timeout_ms=50))
        assert consumer._coordinator.generation == generation, "no rebalance for a returning member"
        assert consumer._coordinator.member_id != member


async def patterns_find_new_topics(servers: str, name: str) -> None:
    await _topic(servers, f"{name}-one")
    async with _consumer(servers, group_id=name, metadata_max_age_ms=300) as consumer:
        consumer.subscribe(pattern=f"^{name}-.*")
        await _write(servers, f"{name}-one", 1)
        await _read(consumer, 1)
        await _topic(servers, f"{name}-two")
        await _write(servers, f"{name}-two", 1)
        assert (await _read(consumer, 1))[0].topic == f"{name}-two"


async def transactions_commit_and_abort(servers: str, name: str) -> None:
    source, target = await _topic(servers, f"{name}-in", 2), await _topic(servers, f"{name}-out", 2)
    await _write(servers, source, 100, 2)
    async with (
        _consumer(servers, source, group_id=name, enable_auto_commit=False) as consumer,
        _producer(servers, transactional_id=name) as producer,
    ):
        done, turn = 0, 0
        while done < 100:
            batch = await consumer.getmany(timeout_ms=5000, max_records=20)
            assert batch, f"nothing after {done}"
            turn += 1
            try:
                async with producer.transaction():
                    for where, records in batch.items():
                        for one in records:
                            await producer.send(target, one.value, partition=where.partition)
                    await producer.send_offsets_to_transaction(
                        {where: records[-1].offset + 1 for where, records in batch.items()}, name
                    )
                    if turn % 2:
                        raise InterruptedError
            except InterruptedError:
                for where, records in batch.items():
                    consumer.seek(where, records[0].offset)
            else:
                done += sum(map(len, batch.values()))
        for where in consumer.assignment():
            assert await consumer.committed(where) == 50
    async with _consumer(servers, target, isolation_level="read_committed") as reader:
        found = await _read(reader, 100)
        assert await reader.getmany(timeout_ms=300) == {}
        for where in reader.assignment():
            assert reader.last_stable_offset(where) == reader.highwater(where)
    assert sorted(int(one.value) for one in found) == list(range(100))
    async with _consumer(servers, target) as reader:
        assert len(await _read(reader, 101)) > 100, "what was aborted is there for others"


async def transactional_producers_are_fenced(servers: str, name: str) -> None:
    from aiokafka import TopicPartition
    from aiokafka.errors import OutOfOrderSequenceNumber, ProducerFenced

    topic = await _topic(servers, name)
    async with _producer(servers, transactional_id=name) as old:
        first = old._txn_manager.producer_id
        async with _producer(servers, transactional_id=name) as new:
            assert new._txn_manager.producer_id == first
            async with new.transaction():
                await new.send_and_wait(topic, b"new")
        with pytest.raises(ProducerFenced):
            async with old.transaction():
                await old.send_and_wait(topic, b"old")
    async with _producer(servers, transactional_id=f"{name}-gap") as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"1", partition=0)
        producer._txn_manager.increment_sequence_number(TopicPartition(topic, 0), 1)
        with pytest.raises(OutOfOrderSequenceNumber):
            await producer.send_and_wait(topic, b"2", partition=0)


async def transactions_time_out(servers: str, name: str) -> None:
    """The coordinator ends what its producer leaves open, and readers go on."""
    from aiokafka.errors import InvalidProducerEpoch, ProducerFenced

    topic = await _topic(servers, name)
    async with _producer(servers, transactional_id=name, transaction_timeout_ms=1000) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"left open")
        await _write(servers, topic, 1)
        async with _consumer(servers, topic, isolation_level="read_committed") as reader:
            assert await reader.getmany(timeout_ms=300) == {}
            (found,) = await _read(reader, 1)
            assert found.value == b"0"
        with pytest.raises((ProducerFenced, InvalidProducerEpoch)):  # which, depends on EndTxn's version
            await producer.commit_transaction()


async def administration(servers: str, name: str) -> None:
    from aiokafka import TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        again = [NewTopic(name, 1, 1)]
        assert (await admin.create_topics(again)).topic_errors[0][1] == 0
        assert (await admin.create_topics(again)).topic_errors[0][1] == 36
        assert name in await admin.list_topics()
        await admin.create_partitions({name: NewPartitions(3)})
        cluster = await admin.describe_cluster()
        assert cluster["brokers"]
        resource = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "12345"})
        await admin.alter_configs([resource])
        (described,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        values = {entry[0]: entry[1] for entry in described.resources[0][4]}
        assert values["retention.ms"] == "12345"
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "-1"})])
        await _write(servers, name, 30, 3)
        deleted = await admin.delete_records({TopicPartition(name, 0): RecordsToDelete(before_offset=4)})
        assert deleted == {TopicPartition(name, 0): 4}
        async with _consumer(servers, name, group_id=name, auto_commit_interval_ms=100) as consumer:
            await _read(consumer, 26)
            await consumer.commit()
            (group,) = await admin.describe_consumer_groups([name])
            assert group.groups[0][2] == "Stable"
        assert (name, "consumer") in await admin.list_consumer_groups()
        offsets = await admin.list_consumer_group_offsets(name)
        assert {where.partition: one.offset for where, one in offsets.items()} == {0: 10, 1: 10, 2: 10}
        await admin.find_coordinator(name)
        await admin.delete_topics([name])
        deadline = time.monotonic() + PATIENCE
        while name in await admin.list_topics():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
    finally:
        await admin.close()


EXERCISES: dict[str, Callable[[str, str], Awaitable[None]]] = {
    exercise.__name__.replace("_", " "): exercise
    for exercise in (
        batches_of_every_codec,
        a_batch_made_by_hand,
        times_of_the_broker,
        too_large_a_record,
        a_record_larger_than_a_fetch,
        positions_and_offsets,
        groups_share_and_listen,
        static_members_come_back,
        patterns_find_new_topics,
        transactions_commit_and_abort,
        transactional_producers_are_fenced,
        transactions_time_out,
        administration,
    )
}
