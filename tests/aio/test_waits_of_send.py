"""How long `send` waits for memory and metadata, in virtual time, and what a cancelled wait leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2.aio import KafkaProducer
from pykafka2.aio.memory_queue import MemoryQueue
from pykafka2.aio.producer import MAX_METADATA_CALLS
from pykafka2.cluster.client import GRACE
from pykafka2.driver.thread_driver import MAX_CALL_THREADS
from pykafka2.errors import BufferExhausted, KafkaError, UnknownTopicOrPartition
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.aio.running import run

MAX_BLOCK = 5.0
"""Seconds; max_block_ms of the producers."""


class World:
    """A simulation with one broker."""

    def __init__(self) -> None:
        self.simulation = Simulation(seed=1)
        self.cluster: KafkaCluster = self.simulation.cluster(1, {"orders": 1})

    def producer(self, **options: Any) -> KafkaProducer[bytes, bytes]:
        chosen = {"max_block_ms": MAX_BLOCK * 1000, "request_timeout_ms": 60_000, **options}
        return KafkaProducer(
            bootstrap_servers=self.cluster.bootstrap_servers,
            runtime=self.simulation.runtime.at("shop"),
            **chosen,
        )

    async def ended_at(self, call: Any, error: type[KafkaError]) -> float:
        """Wait until a call raises, and return the time."""
        with pytest.raises(error):
            await call
        return self.simulation.now

    async def fill(self, producer: KafkaProducer[bytes, bytes]) -> None:
        """Use all memory of a producer with `SMALL_BUFFER` while the broker holds its requests."""
        await producer.partitions_for("orders")
        self.cluster.controls.hold(ProduceRequest)
        for _ in range(2):
            await producer.send("orders", bytes(9000))


SMALL_BUFFER = {"buffer_memory": 20_000, "batch_size": 9500}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with made.simulation:
        yield made


# ---------------------------------------------------------------------- memory


def test_each_task_in_the_line_for_memory_waits_max_block_ms_from_its_own_call(world: World) -> None:
    async def main() -> None:
        async with world.producer(**SMALL_BUFFER) as producer:
            await world.fill(producer)
            began, tasks = world.simulation.now, []
            for _ in range(3):
                call = producer.send("orders", bytes(9000))
                tasks.append(asyncio.create_task(world.ended_at(call, BufferExhausted)))
                await asyncio.sleep(2)
            assert [await task - began for task in tasks] == [
                pytest.approx(start + MAX_BLOCK, abs=0.1) for start in (0, 2, 4)
            ]
            waited = producer.metrics()["bufferpool-wait-time-ns-total"]
            assert waited == pytest.approx(
                (MAX_BLOCK + 2 + 2) * 1e9, rel=0.05
            )  # of the first ones in the queue
            world.cluster.controls.release(ProduceRequest)

    world.simulation.run(main)


def test_task_behind_a_later_call_leaves_the_line_at_its_own_timeout(world: World) -> None:
    """It has waited for metadata before, so its place is behind a task that began after it."""

    async def main() -> None:
        async with world.producer(**SMALL_BUFFER) as producer:
            await world.fill(producer)
            began = world.simulation.now
            world.cluster.controls.delay(MetadataRequest, 4.0, times=1)
            world.cluster.create_topic("new")
            early = asyncio.create_task(world.ended_at(producer.send("new", bytes(9000)), BufferExhausted))
            await asyncio.sleep(3)
            late = asyncio.create_task(world.ended_at(producer.send("orders", bytes(9000)), BufferExhausted))
            assert await early - began == pytest.approx(MAX_BLOCK, abs=0.1)
            assert await late - began == pytest.approx(3 + MAX_BLOCK, abs=0.1)
            world.cluster.controls.release(ProduceRequest)

    world.simulation.run(main)


def test_cancelled_wait_returns_its_memory_and_its_place_in_the_line(world: World) -> None:
    async def main() -> None:
        async with world.producer(**SMALL_BUFFER, linger_ms=0) as producer:
            await world.fill(producer)
            waiting = [
                asyncio.create_task(producer.send("orders", b"%d" % n + bytes(8000))) for n in range(4)
            ]
            await asyncio.sleep(1)
            for task in (waiting[0], waiting[2]):
                task.cancel()
            await asyncio.sleep(1)
            assert len(producer._waiting) == 2
            world.cluster.controls.release(ProduceRequest)
            for task in (waiting[1], waiting[3]):
                await (await task)
            assert not producer._waiting
            metrics = producer.metrics()
            assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]

    world.simulation.run(main)
    values = world.cluster.log("orders", 0).values()
    assert [value[:1] for value in values if value][2:] == [b"1", b"3"]


@pytest.mark.parametrize("key", [None, b"k"], ids=["plain", "key"])
def test_next_record_of_a_served_task_does_not_overtake_tasks_in_the_line(
    world: World, key: bytes | None
) -> None:
    async def main() -> None:
        async with world.producer(**SMALL_BUFFER) as producer:
            await world.fill(producer)

            async def send(*values: bytes) -> None:
                for value in values:
                    await producer.send("orders", value, key=key)

            sending = [asyncio.create_task(send(b"1" + bytes(1000), b"3")), asyncio.create_task(send(b"2"))]
            await asyncio.sleep(0.1)
            assert len(producer._waiting) == 2
            world.cluster.controls.release(ProduceRequest)
            await asyncio.gather(*sending)

    world.simulation.run(main)
    values = world.cluster.log("orders", 0).values()
    assert [value[:1] for value in values if value][2:] == [b"1", b"2", b"3"]


def test_place_in_the_line_that_timed_out_is_not_the_first_one() -> None:
    async def program() -> None:
        queue = MemoryQueue()
        first, second = queue.join(), queue.join()
        assert await first.wait(60)
        assert not await second.wait(0.001)
        first.leave()
        assert await second.wait(60)
        second.leave()
        loop: Any = asyncio.get_running_loop()
        (timeout,) = [timer for timer in loop._scheduled if not timer.cancelled()]
        assert "Timeout" in repr(timeout)  # that of `run`

    run(program())


# ---------------------------------------------------------------------- metadata


def test_each_task_that_waits_for_metadata_waits_max_block_ms_from_its_own_call(world: World) -> None:
    async def main() -> None:
        async with world.producer(allow_auto_create_topics=False) as producer:
            began, tasks = world.simulation.now, []
            for _ in range(3):
                call = producer.send("missing", b"v")
                tasks.append(asyncio.create_task(world.ended_at(call, UnknownTopicOrPartition)))
                await asyncio.sleep(2)
            assert [await task - began for task in tasks] == [
                pytest.approx(start + MAX_BLOCK, abs=0.2) for start in (0, 2, 4)
            ]

    world.simulation.run(main)


@pytest.mark.parametrize(
    ("topic", "partition", "text"),
    [("missing", None, "missing"), ("orders", 7, "no partition 7")],
    ids=["topic", "partition"],
)
def test_call_of_another_task_does_not_prolong_the_wait_for_metadata(
    world: World, topic: str, partition: int | None, text: str
) -> None:
    """Act like a task that has waited for memory before."""

    async def main() -> None:
        async with world.producer(allow_auto_create_topics=False) as producer:
            began = world.simulation.now
            call = producer.send(topic, b"v", partition=partition)
            other = asyncio.create_task(world.ended_at(call, UnknownTopicOrPartition))
            await asyncio.sleep(0.1)
            with pytest.raises(UnknownTopicOrPartition, match=text):
                await producer._wait_for_metadata(topic, partition, began - 3)
            assert world.simulation.now - began == pytest.approx(MAX_BLOCK - 3, abs=GRACE + 0.2)
            assert await other - began == pytest.approx(MAX_BLOCK, abs=0.2)

    world.simulation.run(main)


def test_cancelled_wait_for_metadata_leaves_the_other_tasks_waiting(world: World) -> None:
    async def main() -> None:
        async with world.producer() as producer:
            world.cluster.controls.hold(MetadataRequest)
            tasks = [asyncio.create_task(producer.send("orders", b"%d" % number)) for number in range(3)]
            await asyncio.sleep(1)
            assert len(producer._bridge._running) == 1  # one call for all of them
            tasks[0].cancel()
            await asyncio.sleep(1)
            assert [task.done() for task in tasks] == [True, False, False]
            world.cluster.controls.release(MetadataRequest)
            for task in tasks[1:]:
                await (await task)

    world.simulation.run(main)
    assert sorted(world.cluster.log("orders", 0).values()) == [b"1", b"2"]  # type: ignore[type-var]


def test_call_for_metadata_ends_with_the_last_task_that_waits_for_it(world: World) -> None:
    async def main() -> None:
        async with world.producer() as producer:
            world.cluster.controls.hold(MetadataRequest)
            tasks = [asyncio.create_task(producer.send("orders", b"v")) for _ in range(2)]
            await asyncio.sleep(1)
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0.5)
            assert not producer._bridge._running
            world.cluster.controls.release(MetadataRequest)
            await producer.send_and_wait("orders", b"usable")

    world.simulation.run(main)
    assert world.cluster.log("orders", 0).values() == [b"usable"]


def test_sends_to_many_missing_topics_leave_helper_threads_for_other_calls(world: World) -> None:
    async def main() -> None:
        async with world.producer(allow_auto_create_topics=False) as producer:
            began = world.simulation.now
            missing = [
                asyncio.create_task(
                    world.ended_at(producer.send(f"missing-{number}", b"v"), UnknownTopicOrPartition)
                )
                for number in range(MAX_CALL_THREADS + 5)
            ]
            await asyncio.sleep(0.1)
            assert len(producer._bridge._running) == MAX_METADATA_CALLS < MAX_CALL_THREADS
            assert (await producer.send_and_wait("orders", b"v")).offset == 0  # its metadata is unknown, too
            assert world.simulation.now - began < 1
            assert [await task - began for task in missing] == [pytest.approx(MAX_BLOCK, abs=0.2)] * len(
                missing
            )
            assert not producer._bridge._running

    world.simulation.run(main)


def test_topics_beyond_the_route_calls_are_sent_to_when_they_are_created(world: World) -> None:
    async def main() -> None:
        async with world.producer(allow_auto_create_topics=False) as producer:
            names = [f"later-{number}" for number in range(MAX_METADATA_CALLS + 5)]
            sending = [asyncio.create_task(producer.send_and_wait(name, b"v")) for name in names]
            await asyncio.sleep(0.5)
            for name in names:
                world.cluster.create_topic(name)
            assert [(await task).topic for task in sending] == names

    world.simulation.run(main)


# ---------------------------------------------------------------------- other tasks


def test_sender_that_never_waits_lets_other_tasks_run(world: World) -> None:
    async def main() -> None:
        async with world.producer() as producer:
            await producer.send_and_wait("orders", b"first")
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            other = asyncio.create_task(count())
            for _ in range(100):
                await producer.send("orders", b"v", key=b"k")  # misses the shortcut
            assert turns >= 20
            other.cancel()

    world.simulation.run(main)


@pytest.mark.parametrize("key", [None, b"k"], ids=["plain", "key"])
def test_gathered_sends_append_in_the_order_of_their_tasks(world: World, key: bytes | None) -> None:
    async def main() -> None:
        async with world.producer() as producer:
            await producer.send_and_wait("orders", b"first")
            await asyncio.gather(*(producer.send("orders", b"%d" % number, key=key) for number in range(50)))

    world.simulation.run(main)
    assert world.cluster.log("orders", 0).values()[1:] == [b"%d" % number for number in range(50)]


def test_interceptor_is_called_for_a_cancelled_send(world: World) -> None:
    outcomes: list[Any] = []

    class Interceptor:
        def on_send(self, record: Any) -> Any:
            return record

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            outcomes.append(error if metadata is None or error is not None else metadata.offset)

    async def main() -> None:
        async with world.producer(interceptors=[Interceptor()]) as producer:
            world.cluster.controls.hold(MetadataRequest)
            task = asyncio.create_task(producer.send("orders", b"cancelled"))
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait([task])
            assert [str(error) for error in outcomes] == ["cancelled"]
            world.cluster.controls.release(MetadataRequest)
            await producer.send_and_wait("orders", b"sent")
            await asyncio.sleep(1)
            assert outcomes[1:] == [0]

    world.simulation.run(main)
