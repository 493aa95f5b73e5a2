"""Deliveries in asyncio.gather and its relatives: no task for each, and a cancelled wait loses no record."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from pykafka2 import KafkaProducer as SyncProducer
from pykafka2.aio import KafkaProducer
from pykafka2.errors import KafkaError, RecordPurged
from pykafka2.producer.delivery import loop_future
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

pytestmark = pytest.mark.kafka(brokers=1, topics={"orders": 3})

LOOPS: dict[str, Callable[[], Any]] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@asynccontextmanager
async def held(cluster: KafkaCluster, count: int = 3) -> AsyncIterator[list[Delivery]]:
    """Yield deliveries of records whose requests the broker holds until `release`."""
    async with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        await producer.partitions_for("orders")
        cluster.controls.hold(ProduceRequest)
        try:
            yield [await producer.send("orders", b"%d" % number) for number in range(count)]
        finally:
            cluster.controls.release(ProduceRequest)


@pytest.mark.parametrize("loop", LOOPS)
def test_gather_returns_the_metadata_in_order_without_tasks(kafka_cluster: KafkaCluster, loop: str) -> None:
    async def program() -> None:
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            deliveries = [await producer.send("orders", b"v", partition=number % 3) for number in range(300)]
            gathering = asyncio.gather(*deliveries)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            written = await gathering
            assert [(one.partition, one.offset) for one in written] == [(n % 3, n // 3) for n in range(300)]
            assert await asyncio.gather(*deliveries) == written  # all are done now

    run(program(), LOOPS[loop])


def test_gather_raises_the_first_error_or_returns_them(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, linger_ms=60_000
        ) as producer:
            deliveries = [await producer.send("orders", b"v", partition=0) for _ in range(3)]
            raising = asyncio.gather(*deliveries)
            returning = asyncio.gather(*deliveries, return_exceptions=True)
            assert await producer.purge() == 3
            with pytest.raises(RecordPurged):
                await raising
            assert [type(one) for one in await returning] == [RecordPurged] * 3

    run(program())
    assert "failed" not in caplog.text  # reported by gather


def test_cancelled_gather_ends_at_once_and_the_deliveries_can_be_awaited_again(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> None:
        async with held(kafka_cluster) as deliveries:
            for return_exceptions in (False, True):

                async def wait(return_exceptions: bool = return_exceptions) -> Any:
                    return await asyncio.gather(*deliveries, return_exceptions=return_exceptions)

                task = asyncio.create_task(wait())
                await asyncio.sleep(0.02)
                task.cancel()
                await asyncio.wait([task], timeout=30)
                assert task.cancelled()
                assert deliveries[0].cancelled()
                assert not deliveries[0].done()
            again = asyncio.gather(*deliveries)
            assert not deliveries[0].cancelled()
            kafka_cluster.controls.release(ProduceRequest)
            written = await again
            assert written == [await one for one in deliveries]
            assert not deliveries[0].cancelled()
            assert not deliveries[0].cancel()

    run(program())
    kafka_cluster.wait_until(lambda: sum(len(kafka_cluster.log("orders", n).values()) for n in range(3)) == 3)


def test_gather_that_begins_while_another_is_cancelled_does_not_keep_that_one(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> None:
        async with held(kafka_cluster, 1) as (delivery,):

            async def wait() -> Any:
                return await asyncio.gather(delivery)

            task = asyncio.create_task(wait())
            await asyncio.sleep(0.02)
            task.cancel()
            again = asyncio.gather(delivery)  # before the callbacks of the first one
            done, _ = await asyncio.wait([task], timeout=30)
            assert done
            assert task.cancelled()
            assert not delivery.cancelled()
            kafka_cluster.controls.release(ProduceRequest)
            assert len(await again) == 1

    run(program())


def test_wait_that_was_cancelled_before_the_batch_was_done_has_no_effect_afterwards(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> None:
        async with held(kafka_cluster, 1) as (delivery,):
            called: list[Any] = []
            delivery.add_done_callback(called.append)
            assert delivery.cancel()
            assert delivery.cancelled()
            await asyncio.sleep(0)
            assert called == [delivery]
            kafka_cluster.controls.release(ProduceRequest)
            await delivery
            assert not delivery.cancelled()
            assert not delivery.cancel()
            assert called == [delivery]

    run(program())


def test_cancel_of_a_done_delivery_returns_false_also_before_its_callbacks_ran(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> None:
        async with held(kafka_cluster, 1) as (delivery,):
            called: list[Any] = []
            delivery.add_done_callback(called.append)
            kafka_cluster.controls.release(ProduceRequest)
            while not delivery.done():
                time.sleep(0.001)  # the loop cannot run the callback
            assert not delivery.cancel()
            assert not called
            await asyncio.sleep(0)
            assert called == [delivery]

    run(program())


def test_callbacks_leave_the_queue_of_their_batch(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with held(kafka_cluster, 1) as (delivery,):
            waiters = delivery.place[0].waiters._waiters
            gathering = asyncio.gather(delivery)
            assert len(waiters) == 1
            kafka_cluster.controls.release(ProduceRequest)
            await gathering
            assert not waiters

    run(program())


def test_batch_that_is_done_before_the_callback_is_registered_calls_it(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The IO thread wakes the waiters of the batch between the check and the registration."""
    create = loop_future.LoopCallbacks

    async def program() -> None:
        async with held(kafka_cluster, 1) as (delivery,):

            def done_first(outcome: Any, loop: Any) -> Any:
                kafka_cluster.controls.release(ProduceRequest)
                while not delivery.done():
                    time.sleep(0.001)
                time.sleep(0.01)
                return create(outcome, loop)

            monkeypatch.setattr(loop_future, "LoopCallbacks", done_first)
            called: list[Any] = []
            delivery.add_done_callback(called.append)
            while not called:
                await asyncio.sleep(0.001)
            assert called == [delivery]

    run(program())


def test_wait_for_raises_timeout_error_and_the_record_is_sent(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with held(kafka_cluster, 1) as (delivery,):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(delivery, 0.03)
            waiting = asyncio.create_task(asyncio.wait_for(delivery, 30))
            await asyncio.sleep(0.02)
            kafka_cluster.controls.release(ProduceRequest)
            assert (await waiting).offset == 0

    run(program())


def test_wait_as_completed_and_shield_accept_deliveries(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with held(kafka_cluster) as deliveries:
            done, pending = await asyncio.wait(deliveries, timeout=0.02)
            assert (done, pending) == (set(), set(deliveries))
            shielded = asyncio.shield(deliveries[0])
            completed = asyncio.ensure_future(_all_of(asyncio.as_completed(deliveries)))
            await asyncio.sleep(0.02)
            kafka_cluster.controls.release(ProduceRequest)
            done, pending = await asyncio.wait(deliveries)
            assert (done, pending) == (set(deliveries), set())
            assert await shielded == deliveries[0].result()
            assert sorted(await completed) == sorted(one.result() for one in deliveries)

    run(program())


async def _all_of(futures: Any) -> list[Any]:
    return [await one for one in futures]


def test_add_done_callback_calls_on_the_loop_in_the_context_of_the_call(kafka_cluster: KafkaCluster) -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="")

    async def program() -> None:
        calls: list[tuple[Any, ...]] = []
        is_called = asyncio.Event()

        def callback(done: Delivery) -> None:
            calls.append((done, name.get(), threading.get_ident()))
            is_called.set()

        async with held(kafka_cluster, 1) as (delivery,):
            name.set("before")
            delivery.add_done_callback(callback)
            delivery.add_done_callback(print)
            assert delivery.remove_done_callback(print) == 1
            assert delivery.remove_done_callback(print) == 0
            name.set("after")
            kafka_cluster.controls.release(ProduceRequest)
            await is_called.wait()
            delivery.add_done_callback(callback)
            assert len(calls) == 1  # not at once
            await asyncio.sleep(0)
            here = threading.get_ident()
            assert calls == [(delivery, "before", here), (delivery, "after", here)]
            assert delivery.get_loop() is asyncio.get_running_loop()

    run(program())


def test_callback_that_raises_is_reported_and_the_others_are_called(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        async with held(kafka_cluster, 1) as (delivery,):
            called: list[Any] = []
            delivery.add_done_callback(lambda _: 1 / 0)
            delivery.add_done_callback(called.append)
            kafka_cluster.controls.release(ProduceRequest)
            await asyncio.gather(delivery)
            assert called == [delivery]
        (context,) = reported
        assert isinstance(context["exception"], ZeroDivisionError)

    run(program())


def test_exit_in_a_callback_is_raised_and_the_other_callbacks_are_called(kafka_cluster: KafkaCluster) -> None:
    called: list[int] = []

    async def program() -> None:
        async with held(kafka_cluster, 3) as deliveries:
            deliveries[0].add_done_callback(lambda _: sys.exit(3))
            for number, delivery in enumerate(deliveries):
                delivery.add_done_callback(lambda _, number=number: called.append(number))
            kafka_cluster.controls.release(ProduceRequest)
            await asyncio.sleep(60)

    with pytest.raises(SystemExit):
        run(program())
    assert sorted(called) == [0, 1, 2]


def test_deliveries_of_the_sync_producer_can_be_gathered(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        with SyncProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            deliveries = [producer.send("orders", b"v", partition=0) for _ in range(5)]
            assert [one.offset for one in await asyncio.gather(*deliveries)] == list(range(5))

    run(program())


def test_delivery_waits_in_two_loops_at_once(kafka_cluster: KafkaCluster) -> None:
    with SyncProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        producer.partitions_for("orders")
        kafka_cluster.controls.hold(ProduceRequest)
        delivery = producer.send("orders", b"v", partition=0)
        offsets: list[int] = []
        threads = [threading.Thread(target=lambda: offsets.append(_gathered(delivery))) for _ in range(2)]
        for thread in threads:
            thread.start()
        kafka_cluster.wait_until(lambda: len(delivery.place[0].loop_callbacks or ()) == 2)
        kafka_cluster.controls.release(ProduceRequest)
        for thread in threads:
            thread.join()
        assert offsets == [0, 0]


def _gathered(delivery: Delivery) -> int:
    async def program() -> int:
        (written,) = await asyncio.gather(delivery)
        return written.offset

    return run(program())


def test_no_running_loop_is_an_error_and_result_still_works(kafka_cluster: KafkaCluster) -> None:
    with SyncProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        delivery = producer.send("orders", b"v", partition=0)
        with pytest.raises(RuntimeError, match="no running event loop"):
            delivery.get_loop()
        assert not delivery.cancel()
        assert delivery.result(10).offset == 0


def test_failed_delivery_that_only_a_callback_saw_is_reported_by_flush(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, linger_ms=60_000)
        delivery = await producer.send("orders", b"v", partition=0)
        delivery.add_done_callback(lambda _: None)
        await producer.purge()
        with pytest.raises(KafkaError):
            await delivery
        await producer.close()

    run(program())
