"""A task that is cancelled at any await point loses no record, repeats none, and leaves the client usable.

Every public coroutine is cancelled at each of its await points, at three moments of each wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from itertools import count
from typing import Any

import pytest

from pykafka2 import ConsumerGroupMetadata, NewTopic, TopicPartition
from pykafka2 import KafkaProducer as SyncProducer
from pykafka2.aio import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.driver.runtime import Runtime
from pykafka2.errors import KafkaError, RetriableCommitFailed
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster
from tests.aio.cancelling import attempts, conditions
from tests.aio.running import run

FIRST = TopicPartition("orders", 0)
RECORDS = 2000

Scenario = Callable[[KafkaCluster], Awaitable[int]]

pytestmark = pytest.mark.kafka(
    brokers=1, topics={"orders": 1, "input": 1}, config={"group.initial.rebalance.delay.ms": 0}
)


new_runtime: ContextVar[Callable[[], Runtime | None]] = ContextVar("new_runtime", default=lambda: None)
"""Returns the runtime of a new client; None for real threads and sockets."""


def producer_of(cluster: KafkaCluster, **options: Any) -> KafkaProducer[bytes, bytes]:
    return KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, runtime=new_runtime.get()(), **options)


def consumer_of(cluster: KafkaCluster, **options: Any) -> KafkaConsumer[bytes, bytes]:
    chosen = {"auto_offset_reset": "earliest", **options}
    return KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, runtime=new_runtime.get()(), **chosen)


def found_in(cluster: KafkaCluster, topic: str = "orders") -> Counter[bytes]:
    return Counter(value.split()[0] for value in cluster.log(topic, 0).values() if value and value[0])


class Ledger:
    """The records of a scenario: which must be in the log once, which never, which at most once."""

    def __init__(self) -> None:
        self.numbers = count()
        self.sent: list[bytes] = []
        self.refused: list[bytes] = []

    def check(self, found: Counter[bytes]) -> None:
        assert [value for value in self.sent if found[value] != 1] == []
        assert [value for value in self.refused if found[value]] == []
        assert [value for value, times in found.items() if times > 1] == []


# ---------------------------------------------------------------------- the producer


async def sends_to(cluster: KafkaCluster, size: int, **options: Any) -> int:
    """Cancel sends; a record whose send was cancelled is not in the log, every other one is there once."""
    ledger, cases = Ledger(), 0
    async with producer_of(cluster, **options) as producer:
        tag = b""

        async def fill_the_buffer() -> None:
            for _ in range(2):
                await producer.send("orders", bytes(size))

        async def send() -> Any:
            nonlocal tag
            tag = b"%d" % next(ledger.numbers)
            return await producer.send("orders", tag + b" " + bytes(size))

        for _ in range(4):
            async for attempt in attempts(send, fill_the_buffer):
                assert attempt.error is None
                cases += attempt.is_reached
                (ledger.refused if attempt.is_cancelled else ledger.sent).append(tag)
        await producer.send_and_wait("orders", b"last")
        await producer.flush()
        metrics = producer.metrics()
        assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]
    ledger.check(found_in(cluster))
    assert found_in(cluster)[b"last"] == 1
    return cases


async def sends_into_a_full_buffer(cluster: KafkaCluster) -> int:
    cluster.controls.delay(ProduceRequest, 0.01)
    return await sends_to(cluster, 9000, buffer_memory=20_000, batch_size=9500)


async def sends_with_a_serializer(cluster: KafkaCluster) -> int:
    cluster.controls.delay(ProduceRequest, 0.01)
    options = {"buffer_memory": 20_000, "batch_size": 9500, "value_serializer": bytes}
    return await sends_to(cluster, 9000, **options)


async def sends_among_rivals(cluster: KafkaCluster) -> int:
    """Cancel sends that wait in a queue with those of other tasks, which all succeed."""
    cluster.controls.delay(ProduceRequest, 0.002)
    ledger, cases = Ledger(), 0
    async with producer_of(cluster, buffer_memory=20_000, batch_size=9500) as producer:
        is_over = False

        async def rival() -> None:
            while not is_over:
                tag = b"%d" % next(ledger.numbers)
                await producer.send("orders", tag + b" " + bytes(9000))
                ledger.sent.append(tag)

        tag = b""

        async def send() -> Any:
            nonlocal tag
            tag = b"%d" % next(ledger.numbers)
            return await producer.send("orders", tag + b" " + bytes(9000))

        rivals = [asyncio.create_task(rival()) for _ in range(4)]
        for _ in range(5):
            async for attempt in attempts(send):
                assert attempt.error is None
                cases += attempt.is_reached
                (ledger.refused if attempt.is_cancelled else ledger.sent).append(tag)
        is_over = True
        await asyncio.gather(*rivals)
        assert not producer._waiting
        await producer.flush()
        metrics = producer.metrics()
        assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]
    ledger.check(found_in(cluster))
    return cases


async def first_sends_to_topics(cluster: KafkaCluster) -> int:
    cluster.controls.delay(MetadataRequest, 0.01)
    numbers, cases = count(), 0
    cancelled: list[str] = []
    async with producer_of(cluster) as producer:
        topic = ""

        async def send() -> Any:
            nonlocal topic
            topic = f"new-{next(numbers)}"
            return await producer.send(topic, b"once")

        for _ in range(3):
            async for attempt in attempts(send):
                assert attempt.error is None
                cases += attempt.is_reached
                if attempt.is_cancelled:
                    cancelled.append(topic)
                else:
                    await attempt.value
                    assert found_in(cluster, topic) == {b"once": 1}
    assert all(not found_in(cluster, topic) for topic in cancelled if topic in cluster.topics())
    return cases


async def waits_for_deliveries(cluster: KafkaCluster) -> int:
    cluster.controls.delay(ProduceRequest, 0.005)
    ledger, cases = Ledger(), 0
    deliveries: list[Any] = []
    async with producer_of(cluster) as producer:
        for _ in range(4):
            tag = b"%d" % next(ledger.numbers)
            delivery = await producer.send("orders", tag)

            async def wait(delivery: Any = delivery) -> Any:
                return await delivery

            async for attempt in attempts(wait):
                cases += attempt.is_reached
            await delivery
            ledger.sent.append(tag)

            async def send_and_wait() -> Any:
                return await producer.send_and_wait("orders", b"%d" % next(ledger.numbers))

            async for attempt in attempts(send_and_wait):
                assert attempt.error is None
                cases += attempt.is_reached

            async def send_some() -> None:
                tags = [b"%d" % next(ledger.numbers) for _ in range(3)]
                deliveries[:] = [await producer.send("orders", tag) for tag in tags]
                ledger.sent.extend(tags)

            async def gather() -> Any:
                return await asyncio.gather(*deliveries)

            async for attempt in attempts(gather, before=send_some):
                assert attempt.error is None
                cases += attempt.is_reached
                offsets = [(await delivery).offset for delivery in deliveries]
                if not attempt.is_cancelled:
                    assert [one.offset for one in attempt.value] == offsets
    ledger.check(found_in(cluster))
    return cases


async def bulk_calls_flushes_and_queries(cluster: KafkaCluster) -> int:
    cluster.controls.delay(ProduceRequest, 0.005)
    ledger, cases = Ledger(), 0
    async with producer_of(cluster, buffer_memory=100_000) as producer:

        async def send_many() -> Any:
            values = [b"%d " % next(ledger.numbers) + bytes(1000) for _ in range(150)]
            return await producer.send_many("orders", values)

        async def flush() -> None:
            await producer.send("orders", b"%d" % next(ledger.numbers))
            await producer.flush()

        calls: list[Callable[[], Any]] = [
            send_many,
            flush,
            producer.purge,
            lambda: producer.partitions_for("orders"),
            producer.start,
        ]
        for call in calls:
            for _ in range(3):
                async for attempt in attempts(call):
                    assert attempt.error is None
                    cases += attempt.is_reached
        await producer.send_and_wait("orders", b"last")
    ledger.sent.append(b"last")
    ledger.check(found_in(cluster))
    return cases


async def transactions(cluster: KafkaCluster) -> int:
    ledger, cases = Ledger(), 0
    async with producer_of(cluster, transactional_id="t") as producer:

        async def settle() -> None:
            """End what a cancelled call has left open, as its documentation says."""
            for call in (producer.init_transactions, producer.commit_transaction, producer.abort_transaction):
                try:
                    await call()
                except KafkaError:
                    pass

        async def block() -> None:
            async with producer.transaction():
                await producer.send("orders", b"%d" % next(ledger.numbers))

        async def by_hand() -> None:
            await producer.begin_transaction()
            await producer.send("orders", b"%d" % next(ledger.numbers))
            await producer.send_offsets_to_transaction({FIRST: 1}, ConsumerGroupMetadata("group"))
            await producer.commit_transaction()

        async def aborted() -> None:
            await producer.begin_transaction()
            await producer.send("orders", b"%d" % next(ledger.numbers))
            await producer.abort_transaction()

        for call in (producer.init_transactions, block, by_hand, aborted):
            async for attempt in attempts(call):
                cases += attempt.is_reached
                await settle()
                value = b"usable-%d" % next(ledger.numbers)
                async with producer.transaction():
                    await producer.send("orders", value)
                ledger.sent.append(value)
    await cluster.wait_until_async(lambda: not any(one.is_open for one in cluster.transactions()))
    ledger.check(Counter(cluster.log("orders", 0).values("read_committed")))  # type: ignore[arg-type]
    return cases


async def closes(cluster: KafkaCluster) -> int:
    cluster.controls.delay(ProduceRequest, 0.01)
    ledger, cases = Ledger(), 0
    producer = producer_of(cluster)

    async def close() -> None:
        nonlocal producer
        producer = producer_of(cluster)
        tag = b"%d" % next(ledger.numbers)
        await producer.send("orders", tag)
        ledger.sent.append(tag)
        await producer.stop()

    await producer.close()
    async for attempt in attempts(close):
        assert attempt.error is None
        cases += attempt.is_reached
        await producer.stop()
    ledger.check(found_in(cluster))
    return cases


# ---------------------------------------------------------------------- the consumer


def fill(cluster: KafkaCluster) -> None:
    runtime = new_runtime.get()()
    with SyncProducer(bootstrap_servers=cluster.bootstrap_servers, runtime=runtime) as producer:
        for first in range(0, RECORDS, 10):  # small batches, as poll_columns returns whole ones
            producer.send_many("input", [b"%d" % number for number in range(first, first + 10)])
            producer.flush()


async def reads_with(cluster: KafkaCluster, **options: Any) -> int:
    """Cancel reads, commits and queries of one consumer; it returns every record once, in order."""
    fill(cluster)
    found: list[int] = []
    cases = 0

    def take(records: Any) -> None:
        found.extend(int(record.value) for record in records)

    async with consumer_of(cluster, max_poll_records=7, **options) as consumer:
        consumer.subscribe(["input"])
        partition = TopicPartition("input", 0)
        reads: list[tuple[Callable[[], Any], Callable[[Any], None]]] = [
            (consumer.getone, lambda record: take([record])),
            (consumer.__anext__, lambda record: take([record])),
            (lambda: consumer.poll(1000), lambda polled: take(polled.get(partition, []))),
            (lambda: consumer.getmany(timeout_ms=5, max_records=3), lambda one: take(one.get(partition, []))),
            (lambda: consumer.getone(partition), lambda record: take([record])),
            (
                lambda: consumer.poll_columns(1000, 5),
                lambda polled: found.extend(
                    int(value) for columns in polled.values() for value in columns.values
                ),
            ),
        ]
        others: list[Callable[[], Any]] = [
            lambda: consumer.position(partition),
            lambda: consumer.beginning_offsets([partition]),
            lambda: consumer.end_offsets([partition]),
            lambda: consumer.offsets_for_times({partition: 0}),
            lambda: consumer.partitions_for_topic("input"),
            consumer.topics,
            consumer.start,
        ]
        if "group_id" in options:

            async def commit_async() -> None:
                completion = await consumer.commit_async()
                try:
                    await completion
                except RetriableCommitFailed:
                    if not conditions.get().has_faults:
                        raise

            others += [consumer.commit, commit_async, lambda: consumer.committed(partition)]
        for number in range(4):
            for read, received in reads:
                consumer._read_since = 0.0  # the next read lets other tasks run first
                consumer.seek(partition, len(found)) if number and consumer.assignment() else None
                async for attempt in attempts(read):
                    assert attempt.error is None
                    cases += attempt.is_reached
                    if not attempt.is_cancelled:
                        received(attempt.value)
                assert found == list(range(len(found)))
            if number == 0 or "group_id" in options:
                for other in others:
                    async for attempt in attempts(other):
                        assert attempt.error is None
                        cases += attempt.is_reached
        while len(found) < RECORDS:
            take((await consumer.poll(5000)).get(partition, []))
    assert found == list(range(RECORDS))
    return cases


async def reads_of_a_group(cluster: KafkaCluster) -> int:
    return await reads_with(cluster, group_id="billing", fetch_max_wait_ms=10)


async def reads_without_a_group(cluster: KafkaCluster) -> int:
    return await reads_with(cluster, fetch_max_wait_ms=10)


async def joins_with_a_listener(cluster: KafkaCluster) -> int:
    """Cancel the first read of members, so also in the middle of their listener, and their close."""
    fill(cluster)
    cases, members = 0, count()
    consumer = consumer_of(cluster)
    assigned: list[Any] = []

    async def on_assigned(partitions: Sequence[TopicPartition]) -> None:
        await asyncio.sleep(0.005)
        assigned.append(list(partitions))

    async def join() -> Any:
        nonlocal consumer
        assigned.clear()
        consumer = consumer_of(cluster, group_id=f"group-{next(members)}", enable_auto_commit=False)
        consumer.subscribe(["input"], on_assigned=on_assigned)
        return await consumer.getone()

    await consumer.close()
    async for attempt in attempts(join):
        assert attempt.error is None
        cases += attempt.is_reached
        record = attempt.value if not attempt.is_cancelled else await consumer.getone()
        assert record.offset == 0
        assert assigned == [[TopicPartition("input", 0)]]
        stopping = consumer
        async for stopped in attempts(stopping.unsubscribe):
            assert stopped.error is None
            cases += stopped.is_reached
        async for stopped in attempts(stopping.stop):
            assert stopped.error is None
            cases += stopped.is_reached
        await consumer.stop()
    return cases


async def admin_calls(cluster: KafkaCluster) -> int:
    numbers, cases = count(), 0
    runtime = new_runtime.get()()
    async with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, runtime=runtime) as admin:
        calls: list[Callable[[], Any]] = [
            admin.list_topics,
            admin.describe_cluster,
            lambda: admin.create_topics([NewTopic(f"topic-{next(numbers)}")]),
            lambda: admin.wait_for_topics(["orders"]),
        ]
        for call in calls:
            async for attempt in attempts(call):
                assert attempt.error is None
                cases += attempt.is_reached
        assert "orders" in await admin.list_topics()
    return cases


LEAST: dict[Scenario, int] = {
    sends_into_a_full_buffer: 8,
    sends_with_a_serializer: 8,
    sends_among_rivals: 15,
    first_sends_to_topics: 6,
    waits_for_deliveries: 12,
    bulk_calls_flushes_and_queries: 24,
    transactions: 15,
    closes: 4,
    reads_of_a_group: 110,
    reads_without_a_group: 40,
    joins_with_a_listener: 130,
    admin_calls: 8,
}
"""The least number of cases of each scenario; the moment of a wake-up decides how many there are."""


@pytest.mark.gate
@pytest.mark.parametrize("scenario", LEAST, ids=lambda scenario: scenario.__name__)
def test_cancelled_calls_lose_and_repeat_nothing(kafka_cluster: KafkaCluster, scenario: Scenario) -> None:
    async def program() -> int:
        return await scenario(kafka_cluster)

    cases = run(program())
    assert cases >= LEAST[scenario]


def test_scenarios_have_three_hundred_cases() -> None:
    assert sum(LEAST.values()) >= 300
