"""FastStream's broker on pykafka2's clients: the scenarios of FastStream's documentation, over sockets."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("faststream")

from faststream import AckPolicy, BaseMiddleware, Depends, Logger
from faststream.exceptions import FeatureNotSupportedException
from faststream.kafka import KafkaMessage, KafkaRouter, TopicPartition
from faststream.kafka import TestKafkaBroker as InMemoryBroker
from faststream.kafka.exceptions import BatchBufferOverflowException
from faststream.security import SASLPlaintext

from pykafka2 import TopicPartition as TopicAndPartition
from pykafka2.contrib.faststream import KafkaBroker
from pykafka2.errors import KafkaError, RecordTooLarge
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

TIMEOUT = 30
numbers = itertools.count()


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=2, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        yield cluster


@pytest.fixture
def servers(shared_cluster: KafkaCluster) -> str:
    return shared_cluster.bootstrap_servers


@pytest.fixture
def topic(shared_cluster: KafkaCluster) -> str:
    name = f"topic-{next(numbers)}"
    shared_cluster.create_topic(name, partitions=2)
    return name


class Seen(list[Any]):
    """Values that a handler saw, and a wait for a number of them."""

    def __init__(self) -> None:
        super().__init__()
        self._news = asyncio.Event()

    def add(self, value: object) -> None:
        self.append(value)
        self._news.set()

    async def wait_for(self, count: int) -> list[Any]:
        async with asyncio.timeout(TIMEOUT):
            while len(self) < count:
                self._news.clear()
                await self._news.wait()
        return [*self]


def of_broker(servers: str, **options: Any) -> KafkaBroker:
    return KafkaBroker(servers, logger=None, **options)


@pytest.mark.gate
def test_subscriber_reads_and_publisher_sends_the_result(servers: str, topic: str) -> None:
    async def main() -> None:
        broker, seen = of_broker(servers), Seen()

        @broker.subscriber(topic, group_id=topic, auto_offset_reset="earliest")
        @broker.publisher(f"{topic}-results")
        async def double(number: int) -> int:
            seen.add(number)
            return number * 2

        @broker.subscriber(f"{topic}-results", group_id=f"{topic}-results", auto_offset_reset="earliest")
        async def result(number: int) -> None:
            seen.add(number)

        async with broker:
            await broker.start()
            for number in (1, 2):
                metadata = await broker.publish(number, topic, key=b"same", partition=1)
                assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 1, number - 1)
            assert sorted(await seen.wait_for(4)) == [1, 2, 2, 4]

    run(main())


def test_headers_key_and_reply_to_reach_the_handler(servers: str, topic: str) -> None:
    async def main() -> None:
        broker, seen = of_broker(servers), Seen()

        @broker.subscriber(topic, auto_offset_reset="earliest")
        async def handle(body: str, message: KafkaMessage) -> str:
            record = message.raw_message
            seen.add((body, message.headers["trace"], message.correlation_id, record.key, record.topic))
            return f"re: {body}"

        @broker.subscriber(f"{topic}-replies", auto_offset_reset="earliest")
        async def reply(body: str, message: KafkaMessage) -> None:
            seen.add((body, message.correlation_id))

        async with broker:
            await broker.start()
            await broker.publish(
                "hello",
                topic,
                key=b"k",
                headers={"trace": "7"},
                correlation_id="id-1",
                reply_to=f"{topic}-replies",
            )
            assert await seen.wait_for(2) == [
                ("hello", "7", "id-1", b"k", topic),
                ("re: hello", "id-1"),
            ]

    run(main())


def test_batches_are_published_and_read(servers: str, topic: str) -> None:
    async def main() -> None:
        broker, seen = of_broker(servers), Seen()

        @broker.subscriber(topic, batch=True, auto_offset_reset="earliest", batch_timeout_ms=50)
        async def handle(bodies: list[int]) -> None:
            for body in bodies:
                seen.add(body)

        async with broker:
            await broker.start()
            metadata = await broker.publish_batch(1, 2, 3, topic=topic, partition=0)
            assert (metadata.partition, metadata.offset) == (0, 0)
            pending = await broker.publish_batch(4, 5, topic=topic, partition=0, no_confirm=True)
            assert (await pending).offset == 3
            assert await seen.wait_for(5) == [1, 2, 3, 4, 5]

    run(main())


def test_batch_above_the_batch_size_names_the_message(servers: str, topic: str) -> None:
    async def main() -> None:
        async with of_broker(servers, max_batch_size=100) as broker:
            await broker.start()
            with pytest.raises(BatchBufferOverflowException) as caught:
                await broker.publish_batch(b"x" * 60, b"y" * 60, topic=topic)
            assert caught.value.message_position == 1

    run(main())


@pytest.mark.gate
@pytest.mark.parametrize("is_batch", [False, True], ids=["records", "batches"])
def test_nack_reads_the_record_again_and_ack_commits_it(
    servers: str, topic: str, is_batch: bool, shared_cluster: KafkaCluster
) -> None:
    async def main() -> None:
        broker, seen = of_broker(servers), Seen()

        @broker.subscriber(
            topic, group_id=topic, auto_offset_reset="earliest", ack_policy=AckPolicy.MANUAL, batch=is_batch
        )
        async def handle(body: Any, message: KafkaMessage) -> None:
            seen.add(body)
            if len(seen) < 3:
                await message.nack()
            else:
                await message.ack()

        async with broker:
            await broker.publish("again", topic, partition=1)
            await broker.start()
            assert await seen.wait_for(3) == [["again"] if is_batch else "again"] * 3
            async with asyncio.timeout(TIMEOUT):
                while shared_cluster.group(topic).offsets.get(TopicAndPartition(topic, 1)) != 1:
                    await asyncio.sleep(0.02)

    run(main())


@pytest.mark.gate
def test_handler_that_raises_reads_the_record_again_with_nack_on_error(servers: str, topic: str) -> None:
    async def main() -> None:
        broker, seen = of_broker(servers), Seen()

        @broker.subscriber(
            topic, group_id=topic, auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR
        )
        async def handle(body: str) -> None:
            seen.add(body)
            if len(seen) == 1:
                raise ValueError("once")

        async with broker:
            await broker.start()
            await broker.publish("again", topic)
            assert await seen.wait_for(2) == ["again", "again"]

    run(main())


def test_middlewares_see_records_read_and_published(servers: str, topic: str) -> None:
    async def main() -> None:
        seen = Seen()

        class Noting(BaseMiddleware):
            async def consume_scope(self, call_next: Callable[[Any], Any], msg: Any) -> Any:
                seen.add(f"read {msg.raw_message.topic}")
                return await call_next(msg)

            async def publish_scope(self, call_next: Callable[..., Any], cmd: Any) -> Any:
                seen.add(f"published {cmd.destination}")
                return await call_next(cmd)

        broker = of_broker(servers, middlewares=[Noting])

        @broker.subscriber(topic, auto_offset_reset="earliest")
        async def handle(body: str) -> None:
            seen.add(body)

        async with broker:
            await broker.start()
            await broker.publish("hello", topic)
            assert await seen.wait_for(3) == [f"published {topic}", f"read {topic}", "hello"]

    run(main())


def test_request_is_refused_as_faststream_documents(servers: str, topic: str) -> None:
    async def main() -> None:
        async with of_broker(servers) as broker:
            await broker.start()
            with pytest.raises(FeatureNotSupportedException, match="request"):
                await broker.request("hello", topic)

    run(main())


@pytest.mark.gate
def test_patterns_and_partitions_can_be_subscribed(servers: str, topic: str) -> None:
    async def main() -> None:
        broker, seen = of_broker(servers), Seen()

        @broker.subscriber(pattern=f"{topic}.*", group_id=topic, auto_offset_reset="earliest")
        async def by_pattern(body: str) -> None:
            seen.add(f"pattern {body}")

        @broker.subscriber(partitions=[TopicPartition(topic, 1)], auto_offset_reset="earliest")
        async def by_partition(body: str) -> None:
            seen.add(f"partition {body}")

        async with broker:
            await broker.publish("zero", topic, partition=0)
            await broker.publish("one", topic, partition=1)
            await broker.start()
            assert sorted(await seen.wait_for(3)) == ["partition one", "pattern one", "pattern zero"]

    run(main())


@pytest.mark.gate
@pytest.mark.parametrize(("policy", "consumers"), [(AckPolicy.ACK_FIRST, 1), (AckPolicy.ACK, 2)])
def test_workers_handle_records_at_the_same_time(
    servers: str, topic: str, policy: AckPolicy, consumers: int, shared_cluster: KafkaCluster
) -> None:
    """ACK_FIRST shares one consumer; the others have a consumer for each worker."""

    def assigned() -> list[bool]:
        try:
            return [bool(member.assignment) for member in shared_cluster.group(topic).members.values()]
        except KafkaError:  # there is no coordinator, or no group, before the first member joins
            return []

    async def every_consumer_has_partitions() -> None:
        async with asyncio.timeout(TIMEOUT):
            while assigned() != [True] * consumers:
                await asyncio.sleep(0.02)

    async def main() -> None:
        broker, seen, both = of_broker(servers), Seen(), asyncio.Barrier(2)

        @broker.subscriber(
            topic, group_id=topic, max_workers=2, ack_policy=policy, auto_offset_reset="earliest"
        )
        async def handle(body: str) -> None:
            await both.wait()
            seen.add(body)

        async with broker:
            await broker.start()
            await every_consumer_has_partitions()
            await broker.publish("zero", topic, partition=0)
            await broker.publish("one", topic, partition=1)
            assert sorted(await seen.wait_for(2)) == ["one", "zero"]

    run(main())


def test_records_can_be_taken_without_a_handler(servers: str, topic: str) -> None:
    async def main() -> None:
        async with of_broker(servers) as broker:
            subscriber = broker.subscriber(topic, auto_offset_reset="earliest", persistent=False)
            await subscriber.start()
            assert await subscriber.get_one(timeout=0.1) is None
            for number in range(3):
                await broker.publish(f"{number}", topic, partition=0)
            message = await subscriber.get_one(timeout=TIMEOUT)
            assert message is not None
            assert message.body == b"0"
            bodies = []
            async for message in subscriber:
                bodies.append(message.body)
                if len(bodies) == 2:
                    break
            assert bodies == [b"1", b"2"]
            await subscriber.stop()

    run(main())


def test_topics_of_subscribers_are_created_and_a_second_broker_finds_them(
    servers: str, topic: str, caplog: pytest.LogCaptureFixture, shared_cluster: KafkaCluster
) -> None:
    async def main() -> None:
        for _ in range(2):
            broker = KafkaBroker(servers, logger=logging.getLogger("broker"))

            @broker.subscriber(f"{topic}-new")
            async def handle(body: str) -> None: ...

            async with broker:
                await broker.start()
                assert await broker.ping(timeout=10)

    with caplog.at_level(logging.WARNING):
        run(main())
    assert "Failed to create topic" not in caplog.text
    assert shared_cluster.partition(f"{topic}-new", 0)


def test_errors_of_publish_are_those_of_pykafka2(servers: str, topic: str) -> None:
    async def main() -> None:
        async with of_broker(servers, max_request_size=2000) as broker:
            with pytest.raises(RecordTooLarge):
                await broker.publish(b"x" * 5000, topic)

    run(main())


@pytest.mark.parametrize(("acks", "is_idempotent"), [(None, True), ("all", True), (1, False)])
def test_records_are_sent_idempotently_with_acks_all(
    servers: str, topic: str, acks: Any, is_idempotent: bool, shared_cluster: KafkaCluster
) -> None:
    async def main() -> None:
        async with of_broker(servers, **({} if acks is None else {"acks": acks})) as broker:
            await broker.publish("hello", topic, partition=0)

    run(main())
    [batch] = shared_cluster.log(topic, 0).batches()
    assert batch.has_producer_id == is_idempotent


def test_ping_without_a_broker_is_false() -> None:
    async def main() -> None:
        broker = of_broker("127.0.0.1:1", request_timeout_ms=1000)
        assert not await broker.ping(timeout=0.2)

    run(main())


def test_routers_dependencies_and_loggers_work_as_in_faststream(servers: str, topic: str) -> None:
    async def main() -> None:
        router, seen = KafkaRouter(), Seen()

        def suffix() -> str:
            return "!"

        @router.subscriber(topic, auto_offset_reset="earliest")
        async def handle(body: str, logger: Logger, end: str = Depends(suffix)) -> None:
            seen.add(body + end)

        broker = of_broker(servers)
        broker.include_router(router)
        async with broker:
            await broker.start()
            await broker.publish("hello", topic)
            assert await seen.wait_for(1) == ["hello!"]

    run(main())


def test_in_memory_broker_of_faststream_still_serves_tests() -> None:
    async def main() -> None:
        broker, seen = of_broker("localhost:9092"), Seen()

        @broker.subscriber("orders")
        async def handle(body: str) -> None:
            seen.add(body)

        async with InMemoryBroker(broker):
            await broker.publish("hello", "orders")
        assert seen == ["hello"]

    run(main())


def test_sasl_options_reach_the_clients() -> None:
    async def main(servers: str) -> None:
        security = SASLPlaintext(username="alice", password="secret")
        async with of_broker(servers, security=security) as broker:
            assert (await broker.publish("hello", "orders", partition=0)).offset == 0

    with KafkaCluster(
        brokers=1,
        topics=["orders"],
        listeners=["SASL_PLAINTEXT"],
        users={"alice": "secret"},
    ) as cluster:
        run(main(cluster.bootstrap_servers))
