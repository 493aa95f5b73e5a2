"""Hooks of the asyncio clients: records processed by tasks, acknowledgements, and hooks that raise."""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2 import ClientInfo, ConsumerInterceptor, ConsumerRecord, ProducerInterceptor, ProducerRecord
from pykafka2.aio import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.errors import GroupAuthorizationFailed, IllegalArgument, KafkaTimeoutError, WrongEventLoop
from pykafka2.events import RequestSent
from pykafka2.testing import KafkaCluster, Simulation
from tests.internal_topics import FEW_PARTITIONS

CONFIG = {"group.initial.rebalance.delay.ms": 0, **FEW_PARTITIONS}
current: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="-")


class World:
    """A simulation with two brokers and a topic of two partitions."""

    def __init__(self) -> None:
        self.simulation = Simulation(seed=1)
        self.cluster: KafkaCluster = self.simulation.cluster(2, {"orders": 2}, config=CONFIG)

    def options(self, **options: Any) -> Any:
        runtime = self.simulation.runtime.at("shop")
        return {"bootstrap_servers": self.cluster.bootstrap_servers, "runtime": runtime, **options}

    def consumer(self, *topics: str, **options: Any) -> KafkaConsumer[Any, Any]:
        timeout = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 3000}
        return KafkaConsumer(*topics, **self.options(**timeout, **options))

    async def produce(self, count: int) -> None:
        async with KafkaProducer(**self.options()) as producer:
            for partition in (0, 1):
                values = [b"%d" % value for value in range(partition, count, 2)]
                await producer.send_many("orders", values, partition=partition)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with made.simulation:
        yield made


class Spans(ConsumerInterceptor):
    """Sets a context variable while a record is processed, as a tracer does."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.errors: list[str] = []

    def on_record(self, record: ConsumerRecord[Any, Any]) -> Any:
        name = f"{record.partition}@{record.offset}"
        self.seen.append(("+", name))
        return name, current.set(name)

    def on_record_done(
        self, record: ConsumerRecord[Any, Any], error: BaseException | None, context: Any
    ) -> None:
        name, token = context
        current.reset(token)
        self.seen.append(("-", name))
        self.errors.append("" if error is None else repr(error))


@pytest.mark.gate
def test_iteration_runs_each_record_in_its_context(world: World) -> None:
    spans = Spans()

    def fail(consumer: KafkaConsumer[Any, Any], record: ConsumerRecord[Any, Any]) -> None:
        with consumer.process_span(record):
            assert current.get() == f"{record.partition}@{record.offset}"
            raise ValueError("mine")

    async def main() -> None:
        await world.produce(6)
        async with world.consumer("orders", interceptors=[spans]) as consumer:
            found = []
            async for record in consumer:
                await asyncio.sleep(1)
                assert current.get() == f"{record.partition}@{record.offset}"
                found.append(record.value)
            assert current.get() == "-"
            assert sorted(found) == [b"%d" % value for value in range(6)]
            assert spans.seen == [(sign, name) for _, name in spans.seen[::2] for sign in "+-"]
            await world.produce(2)
            async for _ in consumer:
                break
            assert spans.seen[-1][0] == "-", "the loop was left"
            record = await consumer.getone()
            assert spans.seen[-1][0] == "-", "getone has no block"
            with pytest.raises(ValueError, match="mine"):
                fail(consumer, record)
        assert spans.errors[-1] == "ValueError('mine')"

    world.simulation.run(main)


def test_two_tasks_iterate_over_one_consumer_without_mixing_their_records(world: World) -> None:
    spans = Spans()

    async def work(consumer: KafkaConsumer[Any, Any]) -> int:
        count = 0
        async for record in consumer:
            await asyncio.sleep(0.1)
            assert current.get() == f"{record.partition}@{record.offset}"
            count += 1
        return count

    async def main() -> None:
        await world.produce(20)
        async with world.consumer("orders", interceptors=[spans]) as consumer:
            counts = await asyncio.gather(work(consumer), work(consumer))
        assert sum(counts) == 20
        assert min(counts) > 0
        assert len(spans.seen) == 40

    world.simulation.run(main)


@pytest.mark.gate
def test_cancelled_task_loses_no_record_and_ends_its_last_one(world: World) -> None:
    spans = Spans()

    async def main() -> None:
        await world.produce(6)
        found: list[Any] = []

        async def work(consumer: KafkaConsumer[Any, Any]) -> None:
            async for record in consumer:
                found.append(record.value)
                await asyncio.sleep(1)

        async with world.consumer("orders", interceptors=[spans]) as consumer:
            task = asyncio.create_task(work(consumer))
            while len(found) < 3:
                await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(spans.seen) == 6
            await work(consumer)
        assert sorted(found) == [b"%d" % value for value in range(6)]

    world.simulation.run(main)


def test_anext_runs_each_record_in_its_hooks_and_close_ends_the_last_ones(world: World) -> None:
    spans = Spans()

    async def main() -> None:
        await world.produce(6)
        async with world.consumer("orders", interceptors=[spans]) as consumer:
            await anext(consumer)
            assert [sign for sign, _ in spans.seen] == ["+"]
            await anext(consumer)
            assert [sign for sign, _ in spans.seen] == ["+", "-", "+"]
            kept = aiter(consumer)
            await anext(kept)
            assert len({name for _, name in spans.seen}) == 3
        assert [sign for sign, _ in spans.seen].count("-") == 3, "a kept iterator and anext(consumer)"
        with pytest.raises(StopAsyncIteration):
            await anext(kept)

    world.simulation.run(main)


def test_step_of_an_iteration_in_another_loop_is_refused(world: World) -> None:
    spans = Spans()

    async def main() -> None:
        await world.produce(6)
        async with world.consumer("orders", interceptors=[spans]) as consumer:
            records = aiter(consumer)
            await anext(records)

            def step() -> None:
                with asyncio.Runner() as runner, pytest.raises(WrongEventLoop):
                    runner.run(anext(records))  # type: ignore[arg-type]

            thread = threading.Thread(target=step)
            thread.start()
            thread.join()
            assert len(spans.seen) == 1

    world.simulation.run(main)


@pytest.mark.gate
def test_hooks_on_helper_threads_see_the_context_variables_of_the_task(world: World) -> None:
    seen: list[tuple[str, str]] = []

    class Noting:
        def on_send_many(self, records: Any) -> None:
            seen.append(("send_many", current.get()))

        def on_commit(self, offsets: Any) -> None:
            seen.append(("commit", current.get()))

    async def work(name: str) -> None:
        current.set(name)
        async with KafkaProducer(**world.options(), interceptors=[Noting()]) as producer:
            await (await producer.send_many("orders", [b"v"], partition=0))
        async with world.consumer("orders", group_id=name, interceptors=[Noting()]) as consumer:
            await consumer.getone()
            await consumer.commit()

    async def program() -> None:
        await asyncio.gather(work("a"), work("b"))
        assert current.get() == "-"

    world.simulation.run(program)
    assert {("send_many", "a"), ("send_many", "b"), ("commit", "a"), ("commit", "b")} <= {*seen}
    assert "-" not in {name for _, name in seen}


def test_producer_and_admin_client_call_hooks(world: World) -> None:
    class Watching(ProducerInterceptor):
        def __init__(self) -> None:
            self.done: list[Any] = []
            self.apis: set[str] = set()
            self.kinds: list[str] = []
            self.closed = 0

        def on_start(self, client: ClientInfo) -> None:
            self.kinds.append(client.kind)

        def on_send(self, record: ProducerRecord) -> None:
            record.context = current.get()

        def on_acknowledgement(self, metadata: Any, error: Any, record: Any = None) -> None:
            failed = None if error is None else type(error).__name__
            self.done.append((record.value, record.partition, record.context, failed))

        def on_request(self, event: RequestSent) -> None:
            self.apis.add(event.api)

        def close(self) -> None:
            self.closed += 1

    watching = Watching()

    async def main() -> None:
        current.set("task")
        async with KafkaProducer(**world.options(interceptors=[watching])) as producer:
            await producer.send_and_wait("orders", b"a", partition=1)
            await (await producer.send("orders", b"b", partition=0, on_delivery=lambda *_: None))
            with pytest.raises(IllegalArgument):
                await producer.send("orders", 7)
        async with KafkaAdminClient(**world.options(interceptors=[watching])) as admin:
            await admin.create_topics(["more"])
            await admin.close()
        assert watching.done == [
            (b"a", 1, "task", None),
            (b"b", 0, "task", None),
            (7, None, "task", "IllegalArgument"),
        ]
        assert {"Produce", "CreateTopics"} <= watching.apis
        assert watching.kinds == ["producer", "admin"]
        assert watching.closed == 2

    world.simulation.run(main)


def test_failed_commits_and_rebalances_are_reported(world: World) -> None:
    class Watching(ConsumerInterceptor):
        def __init__(self) -> None:
            self.commits: list[str | None] = []
            self.events: list[tuple[str, int]] = []
            self.polls = 0

        def on_poll_start(self) -> None:
            self.polls += 1

        def on_commit(self, offsets: Any, error: BaseException | None = None) -> None:
            self.commits.append(None if error is None else type(error).__name__)

        def on_assigned(self, partitions: Any) -> None:
            self.events.append(("assigned", len(partitions)))

        def on_revoked(self, partitions: Any) -> None:
            self.events.append(("revoked", len(partitions)))

    watching = Watching()

    async def main() -> None:
        await world.produce(2)
        options: Any = {"group_id": "g", "enable_auto_commit": False, "interceptors": [watching]}
        async with world.consumer("orders", **options) as consumer:
            assert await consumer.getmany(timeout_ms=5000)
            assert watching.polls == 1
            await consumer.commit()
            world.cluster.controls.rule(api="OffsetCommit", then="error:GROUP_AUTHORIZATION_FAILED", times=1)
            with pytest.raises(GroupAuthorizationFailed):
                await consumer.commit()
            world.cluster.controls.hold("OffsetCommit")
            with pytest.raises(KafkaTimeoutError):
                await consumer.commit(timeout_ms=500)
            world.cluster.controls.clear()
        assert watching.commits == [None, "GroupAuthorizationFailed", "KafkaTimeoutError"]
        assert watching.events == [("assigned", 2), ("revoked", 2)]

    world.simulation.run(main)


class Chaotic:
    """Raises in every hook at random, and counts its calls."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.calls: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_") and name != "close":
            raise AttributeError(name)

        def hook(*arguments: Any, **more: Any) -> None:
            self.calls[name] = self.calls.get(name, 0) + 1
            if self._random.random() < 0.5:
                raise RuntimeError(f"{name} is broken")

        return hook


MANY = 10_000


@pytest.mark.gate
def test_hooks_that_raise_at_random_lose_no_record(world: World) -> None:
    sending, reading = Chaotic(1), Chaotic(2)

    async def main() -> None:
        async with KafkaProducer(**world.options(interceptors=[sending])) as producer:
            for value in range(MANY):
                await producer.send("orders", b"%d" % value)
        options: Any = {"group_id": "g", "interceptors": [reading]}
        found: list[int] = []
        async with world.consumer("orders", **options) as consumer:
            while len(found) < MANY // 2:
                found.append(int((await consumer.getone()).value))
            found += [int(record.value) async for record in consumer]
        assert sorted(found) == [*range(MANY)]

    world.simulation.run(main)
    assert sum(world.cluster.group("g").offsets.values()) == MANY
    assert sending.calls["on_send"] == sending.calls["on_acknowledgement"] == MANY
    assert reading.calls["on_record"] == reading.calls["on_record_done"] == MANY // 2
    assert {"on_consume", "on_assigned", "on_commit", "on_poll_start"} <= reading.calls.keys()
