"""The asyncio clients in the simulation: virtual time, the same trace for the same seed, faults."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest

from pykafka2 import ConsumerGroupMetadata, NewTopic, TopicPartition
from pykafka2.aio import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.errors import CoordinatorNotAvailable, KafkaTimeoutError
from pykafka2.testing import KafkaCluster, Simulation, Topic
from pykafka2.testing.simulation import driver
from tests.gate import rest_in_long
from tests.internal_topics import FEW_PARTITIONS

RECORDS = 20


class World:
    """A simulation with a cluster of three brokers, and the options of its clients."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        self.cluster: KafkaCluster = self.simulation.cluster(
            3, {"orders": Topic(2, 3)}, config={"group.initial.rebalance.delay.ms": 0, **FEW_PARTITIONS}
        )

    def options(self, place: str, **options: Any) -> Any:
        runtime = self.simulation.runtime.at(place)
        servers = self.cluster.bootstrap_servers
        return {"bootstrap_servers": servers, "client_id": place, "runtime": runtime, **options}

    def reader_options(self, place: str, **options: Any) -> Any:
        return self.options(place, group_id="billing", auto_offset_reset="earliest", **options)

    async def produce(self, place: str = "shop", seconds: float = 1.0) -> None:
        async with KafkaProducer(**self.options(place)) as producer:
            for number in range(RECORDS):
                await producer.send_and_wait("orders", b"%d" % number)
                await asyncio.sleep(seconds)

    async def consume(self, place: str = "reader", count: int = RECORDS) -> list[int]:
        found: list[int] = []
        async with KafkaConsumer("orders", **self.reader_options(place)) as consumer:
            while len(found) < count:
                found.append(int((await consumer.getone()).value or b""))
            await consumer.commit()
        return sorted(found)

    @property
    def committed(self) -> int:
        return sum(self.cluster.group("billing").offsets.values())


@pytest.fixture
def world() -> Iterator[World]:
    made = World(seed=1)
    with made.simulation:
        yield made


@pytest.mark.gate
@pytest.mark.parametrize("seed", [1, 2])
def test_same_seed_plays_the_same_trace(seed: int) -> None:
    def play() -> tuple[str, list[str], float]:
        story: list[str] = []
        made = World(seed)
        with made.simulation as simulation:

            async def main() -> None:
                async with KafkaAdminClient(**made.options("admin")) as admin:
                    await admin.create_topics([NewTopic("payments", partitions=3)])
                    story.extend(sorted(await admin.list_topics()))
                async with asyncio.TaskGroup() as group:
                    reading = group.create_task(made.consume())
                    group.create_task(made.produce())
                story.append(str(reading.result()))

            simulation.run(main)
            assert made.committed == RECORDS
            return simulation.trace_hash, story, simulation.now

    first, second = play(), play()
    assert first == second
    assert first[1][-1] == str(list(range(RECORDS)))
    assert first[2] == pytest.approx(RECORDS, abs=2)


@pytest.mark.gate
def test_two_loops_and_a_sync_client_share_a_cluster(world: World) -> None:
    simulation = world.simulation
    sync = simulation.producer(world.cluster)

    async def shop() -> None:
        await world.produce("shop")

    async def reader() -> list[int]:
        return await world.consume("reader", 2 * RECORDS)

    shopping, reading = simulation.spawn(shop), simulation.spawn(reader)
    for number in range(RECORDS):
        sync.send("orders", b"%d" % number).result(timeout=60)
        simulation.sleep(0.7)
    shopping.result()
    assert reading.result() == sorted([*range(RECORDS), *range(RECORDS)])


@pytest.mark.gate
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_stop_in_the_middle_of_a_rebalance_commits_the_returned_records(world: World, protocol: str) -> None:
    """The first member has revoked a partition and waits for the second, which finds out within 3 s."""
    simulation = world.simulation
    options = {"auto_commit_interval_ms": 60_000, "group_protocol": protocol}
    if protocol == "classic":
        options |= {"partition_assignment_strategy": "cooperative-sticky"}

    async def read(consumer: KafkaConsumer[bytes, bytes], found: list[int], seconds: float) -> None:
        until = simulation.now + seconds
        while simulation.now < until:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                found += [int(record.value or b"") for record in records]

    async def main() -> tuple[list[int], list[int]]:
        mine: list[int] = []
        others: list[int] = []
        first = KafkaConsumer("orders", **world.reader_options("first", **options))
        second = KafkaConsumer("orders", **world.reader_options("second", **options))
        await first.start()
        await read(first, mine, 1.0)
        await second.start()
        reading = asyncio.create_task(read(second, others, 30.0))
        while len(first.assignment()) != 1:
            await read(first, mine, 0.05)
        async with KafkaProducer(**world.options("shop")) as producer:
            for number in range(RECORDS):
                await producer.send_and_wait("orders", b"%d" % number, partition=number % 2)
        await read(first, mine, 1.0)
        if protocol == "classic":
            assert first.health()["group"]["state"] == "joining"
        assert mine
        await first.stop()
        await reading
        await second.stop()
        return mine, others

    mine, others = simulation.run(main)
    assert sorted(mine + others) == list(range(RECORDS)), "each once"


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("lacks", "read"),
    rest_in_long(
        [
            ("brokers", "getone"),
            ("topic", "async for"),
            ("brokers", "getmany"),
            ("topic", "getone"),
            ("brokers", "async for"),
            ("topic", "getmany"),
        ],
        in_gate=3,
    ),
)
def test_consumer_started_before_the_brokers_or_its_topic_waits_and_reads(
    world: World, lacks: str, read: str, caplog: pytest.LogCaptureFixture
) -> None:
    simulation, cluster, late = world.simulation, world.cluster, 200.0
    topics = ["orders"] if lacks == "brokers" else ["parcels", "payments"]
    if lacks == "brokers":
        for broker in range(3):
            cluster.controls.crash_broker(broker)

    async def main() -> bytes | None:
        options = world.reader_options("reader", allow_auto_create_topics=False)
        async with KafkaConsumer(*topics, **options) as consumer:
            if read == "getone":
                return (await consumer.getone()).value
            if read == "getmany":
                found = await consumer.getmany(timeout_ms=2000 * late)
                return next(iter(found.values()))[0].value
            async for record in consumer:
                return record.value
        return None

    async def create() -> None:
        async with KafkaAdminClient(**world.options("admin")) as admin:
            await admin.create_topics([NewTopic(topic, 1, 1) for topic in topics])

    reading = simulation.spawn(main)
    simulation.sleep(late)
    if lacks == "brokers":
        for broker in range(3):
            cluster.controls.restart_broker(broker)
    else:
        simulation.spawn(create).result()
    simulation.producer(cluster).send(topics[-1], b"first").result(timeout=60)
    assert reading.result() == b"first"
    assert simulation.now < late + 60
    words = "waiting for a broker: " if lacks == "brokers" else "waiting for payments: "
    assert len([message for message in caplog.messages if words in message]) == 4


@pytest.mark.gate
def test_partitions_are_shared_by_two_loops(world: World) -> None:
    simulation, owned = world.simulation, {}

    def member(place: str) -> Any:
        async def run() -> None:
            async with KafkaConsumer("orders", **world.reader_options(place)) as consumer:
                while simulation.now < 20:
                    await consumer.poll(1000)
                owned[place] = consumer.assignment()

        return run

    members = [simulation.spawn(member(place), place) for place in ("one", "two")]
    for actor in members:
        actor.result()
    assert [len(partitions) for partitions in owned.values()] == [1, 1]


@pytest.mark.gate
def test_a_loop_blocked_for_40_seconds_keeps_its_membership(world: World) -> None:
    simulation, revoked = world.simulation, []

    async def main() -> None:
        consumer: KafkaConsumer[bytes, bytes] = KafkaConsumer(
            **world.reader_options("reader", session_timeout_ms=6000, max_poll_interval_ms=60_000)
        )
        consumer.subscribe(["orders"], on_revoked=revoked.append, on_lost=revoked.append)
        async with consumer, KafkaProducer(**world.options("shop")) as producer:
            await producer.send_and_wait("orders", b"before")
            assert (await consumer.getone()).value == b"before"
            generation = consumer.group_metadata().generation_id
            simulation.sleep(40)  # no task runs meanwhile
            await producer.send_and_wait("orders", b"after")
            assert (await consumer.getone()).value == b"after"
            assert consumer.group_metadata().generation_id == generation
            assert revoked == []
            simulation.sleep(70)  # beyond max_poll_interval_ms
            await producer.send_and_wait("orders", b"at last")
            assert (await consumer.getone()).value in (b"before", b"after", b"at last")
            assert revoked

    simulation.run(main)


def test_offsets_kept_over_several_reads_never_reach_a_recreated_topic(world: World) -> None:
    simulation, cluster = world.simulation, world.cluster
    cluster.create_topic("bills", 1)

    async def main() -> None:
        reader = KafkaConsumer("orders", "bills", **world.reader_options("reader", enable_auto_commit=False))
        copier = KafkaProducer(**world.options("copier", transactional_id="copier", max_block_ms=5000))
        async with reader as consumer, copier as producer, KafkaProducer(**world.options("shop")) as shop:
            await producer.init_transactions()
            await shop.send_and_wait("bills", b"old")
            assert (await consumer.getone()).value == b"old"
            kept: dict[TopicPartition, int] = {TopicPartition("bills", 0): 1}
            async with producer.transaction():
                cluster.delete_topic("bills")
                await asyncio.sleep(1)  # a Metadata request creates it again
                await shop.send_and_wait("orders", b"next", partition=0)
                assert (await consumer.getone()).value == b"next"
                while (await consumer.position(TopicPartition("bills", 0))) != 0:
                    await consumer.poll(500)
                with pytest.raises(KafkaTimeoutError, match=r"bills-0"):
                    await producer.send_offsets_to_transaction(kept, consumer.group_metadata())
                raise LookupError

    with pytest.raises(LookupError):
        simulation.run(main)
    assert TopicPartition("bills", 0) not in cluster.group("billing").offsets


@pytest.mark.gate
def test_records_survive_a_crash_of_a_broker_and_a_partition_of_the_network(world: World) -> None:
    simulation, controls = world.simulation, world.cluster.controls

    async def faults() -> None:
        await asyncio.sleep(3)
        controls.crash_broker(world.cluster.partition("orders", 0).leader)
        await asyncio.sleep(3)
        simulation.network.cut("shop", "broker-1")
        await asyncio.sleep(3)
        controls.heal()
        simulation.network.heal()

    async def main() -> list[int]:
        _, found, _ = await asyncio.gather(world.produce(), world.consume(), faults())
        return found

    assert simulation.run(main) == list(range(RECORDS))


@pytest.mark.gate
def test_timeouts_end_calls_in_virtual_time(world: World) -> None:
    simulation = world.simulation

    async def main() -> None:
        async with KafkaConsumer("orders", **world.reader_options("reader")) as consumer:
            await consumer.poll(5000)
            began = simulation.now
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(60):
                    await consumer.getone()
            assert simulation.now - began == pytest.approx(60, abs=0.1)
            assert await consumer.poll(3000) == {}
            assert simulation.now - began == pytest.approx(63, abs=0.1)

    simulation.run(main)


@pytest.mark.gate
def test_a_queue_connects_a_reading_and_a_writing_task(world: World) -> None:
    async def main() -> list[int]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=2)

        async def read() -> None:
            async with KafkaConsumer("orders", **world.reader_options("reader")) as consumer:
                for _ in range(RECORDS):
                    await queue.put((await consumer.getone()).value)

        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            group.create_task(world.produce(seconds=0.1))
            return sorted([int(await queue.get() or b"") for _ in range(RECORDS)])

    assert world.simulation.run(main) == list(range(RECORDS))


def test_callbacks_of_a_sync_client_run_on_no_event_loop(world: World) -> None:
    """Also if the thread that turns the client's loop belongs to a coroutine that blocks."""
    running: list[object] = []
    sync = world.simulation.producer(world.cluster)

    async def main() -> None:
        sync.send("orders", b"1", on_delivery=lambda *_: running.append(asyncio._get_running_loop()))
        world.simulation.sleep(5)
        assert asyncio.get_running_loop() is not None

    world.simulation.run(main)
    assert running == [None]


@pytest.mark.gate
def test_no_client_is_left_waiting_when_its_loop_has_ended(world: World) -> None:
    """A program that ends without closing its clients leaves calls behind, and the simulation ends them."""

    async def main() -> None:
        consumer: KafkaConsumer[bytes, bytes] = KafkaConsumer("orders", **world.reader_options("reader"))
        asyncio.create_task(consumer.getone())  # noqa: RUF006 - cancelled at the end of the loop
        await asyncio.sleep(10)

    world.simulation.run(main)
    world.simulation.run_for(10)


@pytest.mark.gate
def test_views_are_awaited_in_virtual_time(world: World) -> None:
    async def main() -> None:
        writing = asyncio.create_task(world.produce())
        await world.cluster.wait_until_async(
            lambda: any(world.cluster.log("orders", number).values() for number in range(2)), timeout=30
        )
        assert not writing.done()
        await writing

    world.simulation.run(main)


LATE = (0, 0, 0, 1)
"""Every call on a helper thread begins 0.3 s late (HELPER_DELAYS)."""


async def cancelled(call: Coroutine[Any, Any, object]) -> None:
    """Cancel a call before its helper thread has begun with it."""
    task = asyncio.ensure_future(call)
    await asyncio.sleep(0.1)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


def test_call_that_was_cancelled_before_it_began_has_no_effect(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "HELPER_WEIGHTS", LATE)

    async def main() -> None:
        async with KafkaProducer(**world.options("shop", transactional_id="t")) as producer:
            await producer.init_transactions()
            await cancelled(producer.begin_transaction())
            await asyncio.sleep(1)
            await producer.begin_transaction()
            await cancelled(producer.abort_transaction())
            await producer.send("orders", b"kept")
            await asyncio.sleep(1)
            await producer.commit_transaction()

    world.simulation.run(main)
    logs = [world.cluster.log("orders", number).values("read_committed") for number in range(2)]
    assert sorted(logs) == [[], [b"kept"]]


def test_offsets_of_a_cancelled_transaction_are_not_in_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "HELPER_WEIGHTS", LATE)

    async def copy(producer: KafkaProducer[Any, Any]) -> None:
        async with producer.transaction():
            await producer.send("orders", b"dropped")
            await cancelled(
                producer.send_offsets_to_transaction(
                    {TopicPartition("orders", 0): 7}, ConsumerGroupMetadata("billing")
                )
            )
            raise ValueError("aborts")

    async def main() -> None:
        async with KafkaProducer(**world.options("shop", transactional_id="t")) as producer:
            await producer.init_transactions()
            with pytest.raises(ValueError, match="aborts"):
                await copy(producer)
            async with producer.transaction():
                await producer.send("orders", b"kept")
                await asyncio.sleep(1)

    world.simulation.run(main)
    logs = [world.cluster.log("orders", number).values("read_committed") for number in range(2)]
    assert sorted(logs) == [[], [b"kept"]]
    with pytest.raises(CoordinatorNotAvailable, match="No client has looked up"):
        world.cluster.group("billing")
