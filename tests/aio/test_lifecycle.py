"""Loops, threads, start and close of the asyncio clients: wrong use raises a typed error at once."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from pykafka2 import TopicPartition, lifecycle
from pykafka2.aio import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.driver.thread_driver import MAX_CALL_THREADS, ThreadRuntime
from pykafka2.errors import (
    ClientClosed,
    ConsumerStopped,
    KafkaError,
    KafkaTimeoutError,
    LoopBlocked,
    NoBrokersAvailable,
    WrongEventLoop,
)
from pykafka2.network.script import Lane
from pykafka2.protocol.messages.group import LeaveGroupRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

NOWHERE = "127.0.0.1:1"

pytestmark = pytest.mark.kafka(brokers=1, topics={"orders": 1})

LOOPS: dict[str, Callable[[], Any]] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("loop", LOOPS)
def test_producer_sends_on_each_event_loop(kafka_cluster: KafkaCluster, loop: str) -> None:
    async def program() -> list[int]:
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            deliveries = [await producer.send("orders", b"%d" % number) for number in range(20)]
            return [(await delivery).offset for delivery in deliveries]

    assert run(program(), LOOPS[loop]) == list(range(20))


@pytest.mark.parametrize("loop", LOOPS)
def test_consumer_reads_on_each_event_loop(kafka_cluster: KafkaCluster, loop: str) -> None:
    async def program() -> list[bytes | None]:
        servers = kafka_cluster.bootstrap_servers
        async with (
            KafkaProducer(bootstrap_servers=servers) as producer,
            KafkaConsumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
        ):
            reading = asyncio.create_task(consumer.getone())
            await producer.send("orders", b"v")
            return [(await reading).value]

    assert run(program(), LOOPS[loop]) == [b"v"]


def test_client_made_outside_a_loop_binds_to_the_loop_of_its_first_call(kafka_cluster: KafkaCluster) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)

    async def program() -> int:
        async with producer:
            return (await producer.send_and_wait("orders", b"v")).offset

    assert run(program()) == 0


def test_second_asyncio_run_raises_and_can_close(kafka_cluster: KafkaCluster) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    run(producer.send_and_wait("orders", b"v"))

    async def again() -> None:
        with pytest.raises(WrongEventLoop, match="its first call, which is closed; create a client in each"):
            await producer.send("orders", b"lost?")
        await producer.close()

    run(again())
    assert kafka_cluster.log("orders", 0).values() == [b"v"]


def test_call_from_another_thread_raises_at_once(kafka_cluster: KafkaCluster) -> None:
    raised: list[BaseException] = []

    async def program() -> None:
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"v")

            def elsewhere() -> None:
                for call in (producer.send("orders", b"v"), producer.flush(), producer.close()):
                    try:
                        asyncio.run(call)
                    except KafkaError as error:
                        raised.append(error)

            thread = threading.Thread(target=elsewhere)
            thread.start()
            await asyncio.to_thread(thread.join)

    run(program())
    assert [type(error) for error in raised] == [WrongEventLoop] * 3
    assert all("use asyncio.run_coroutine_threadsafe" in str(error) for error in raised)


@pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer, KafkaAdminClient])
def test_each_client_raises_in_a_second_loop_and_in_another_thread(
    kafka_cluster: KafkaCluster, client: Any
) -> None:
    used = client(bootstrap_servers=kafka_cluster.bootstrap_servers)
    run(used.start())

    async def again() -> None:
        with pytest.raises(WrongEventLoop, match=f"{client.__name__} belongs to the event loop of its first"):
            await used.start()

    run(again())
    raised: list[type[BaseException]] = []

    def elsewhere() -> None:
        try:
            asyncio.run(used.start())
        except KafkaError as error:
            raised.append(type(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert raised == [WrongEventLoop]
    run(used.close())


def test_await_outside_any_event_loop_raises_wrong_event_loop() -> None:
    """A loop like that of trio, or of another framework with an event loop of its own."""
    producer = KafkaProducer(bootstrap_servers=NOWHERE)
    consumer = KafkaConsumer("orders", bootstrap_servers=NOWHERE)
    admin = KafkaAdminClient(bootstrap_servers=NOWHERE)
    for call in (
        producer.send("orders", b"v"),
        producer.flush(),
        producer.begin_transaction(),
        producer.start(),
        producer.close(),
        consumer.getone(),
        consumer.__anext__(),
        consumer.poll(),
        consumer.commit(),
        consumer.position(TopicPartition("orders", 0)),
        consumer.close(),
        admin.list_topics(),
        admin.close(),
    ):
        with pytest.raises(
            WrongEventLoop, match="no asyncio event loop runs in this thread; await calls of a Ka"
        ):
            call.send(None)

    async def close() -> None:
        for client in (producer, consumer, admin):
            await client.close()  # type: ignore[attr-defined]

    run(close())


def test_send_without_await_warns_and_appends_nothing(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            with pytest.warns(RuntimeWarning, match=r"coroutine 'KafkaProducer.send' was never awaited"):
                producer.send("orders", b"forgotten")  # CPython frees the coroutine at once
            await producer.send_and_wait("orders", b"awaited")

    run(program())
    assert kafka_cluster.log("orders", 0).values() == [b"awaited"]


def test_calls_after_close_raise_client_closed(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
        await producer.send_and_wait("orders", b"v")
        await producer.stop()
        await producer.close()
        for call in (
            producer.send("orders", b"v"),
            producer.send_many("orders", [b"v"]),
            producer.flush(),
            producer.purge(),
            producer.partitions_for("orders"),
            producer.start(),
        ):
            with pytest.raises(ClientClosed):
                await call

    run(program())


def test_second_close_waits_for_the_first_one(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        servers = kafka_cluster.bootstrap_servers
        producer = KafkaProducer(bootstrap_servers=servers, linger_ms=60_000)
        await producer.partitions_for("orders")
        await producer.send("orders", b"v")
        kafka_cluster.controls.hold(ProduceRequest)
        closing = [asyncio.create_task(producer.close()) for _ in range(2)]
        await kafka_cluster.wait_until_async(lambda: kafka_cluster.controls.held(ProduceRequest))
        assert not any(task.done() for task in closing)
        kafka_cluster.controls.release(ProduceRequest)
        await asyncio.gather(*closing)

        consumer = KafkaConsumer("orders", bootstrap_servers=servers, group_id="billing")
        while not consumer.assignment():
            await consumer.poll(100)
        kafka_cluster.controls.hold(LeaveGroupRequest)
        closing = [asyncio.create_task(consumer.close(timeout=30)) for _ in range(2)]
        await kafka_cluster.wait_until_async(lambda: kafka_cluster.controls.held(LeaveGroupRequest))
        assert not any(task.done() for task in closing)
        kafka_cluster.controls.release(LeaveGroupRequest)
        await asyncio.gather(*closing)

    run(program())


@pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer])
def test_async_with_on_a_closed_client_raises_client_closed(client: Any) -> None:
    async def program() -> None:
        closed = client(bootstrap_servers=NOWHERE)
        await closed.close()
        with pytest.raises(ClientClosed):
            await closed.__aenter__()

    run(program())


def test_send_of_a_closed_producer_calls_no_serializer() -> None:
    async def program() -> None:
        called: list[str] = []
        producer = KafkaProducer(bootstrap_servers=NOWHERE, value_serializer=called.append)
        await producer.close()
        with pytest.raises(ClientClosed):
            await producer.send("orders", b"v")
        assert not called

    run(program())


def test_calls_of_a_stopped_consumer_raise_client_closed() -> None:
    async def program() -> None:
        partition = TopicPartition("orders", 0)
        consumer = KafkaConsumer("orders", bootstrap_servers=NOWHERE, group_id="billing")
        await consumer.stop()
        for call in (
            consumer.topics(),
            consumer.committed(partition),
            consumer.position(partition),
            consumer.partitions_for_topic("orders"),
            consumer.beginning_offsets([partition]),
            consumer.end_offsets([partition]),
            consumer.offsets_for_times({partition: 0}),
            consumer.commit(),
            consumer.commit_async(),
            consumer.unsubscribe(),
            consumer.start(),
            consumer.seek_to_committed(partition),
        ):
            with pytest.raises(ClientClosed):
                await call

    run(program())


def test_failed_start_closes_the_producer() -> None:
    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=NOWHERE, max_block_ms=300)
        with pytest.raises(NoBrokersAvailable, match=NOWHERE):
            await producer.start()
        with pytest.raises(ClientClosed):
            await producer.send("orders", b"v")

    run(program())


@pytest.mark.gate
@pytest.mark.kafka(config={"auto.create.topics.enable": "false"})
def test_close_does_not_wait_for_calls_that_use_every_helper_thread(kafka_cluster: KafkaCluster) -> None:
    async def program() -> list[Any]:
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, max_block_ms=600_000)
        await producer.start()
        waiting = [
            asyncio.create_task(producer.partitions_for(f"missing-{number}"))
            for number in range(MAX_CALL_THREADS + 5)
        ]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(30):
            await producer.close()
            return await asyncio.gather(*waiting, return_exceptions=True)

    assert {type(error) for error in run(program())} == {ClientClosed}


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(config={"auto.create.topics.enable": "false"})
def test_call_without_a_free_helper_thread_times_out(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka2.aio.bridge.START_TIMEOUT", 0.5)

    async def program() -> list[Any]:
        servers = kafka_cluster.bootstrap_servers
        async with KafkaProducer(bootstrap_servers=servers, max_block_ms=600_000) as producer:
            hanging = [
                asyncio.create_task(producer.partitions_for(f"missing-{number}"))
                for number in range(MAX_CALL_THREADS)
            ]
            await asyncio.sleep(0.1)
            late = [producer.flush(), producer.purge()]
            errors = await asyncio.gather(*late, return_exceptions=True)
            assert not any(task.done() for task in hanging)
            hanging[0].cancel()  # which leaves a thread
            async with asyncio.timeout(30):
                while await asyncio.gather(producer.purge(), return_exceptions=True) != [0]:
                    pass
        await asyncio.gather(*hanging, return_exceptions=True)
        return errors

    errors = run(program())
    assert [type(error) for error in errors] == [KafkaTimeoutError] * 2
    assert "did not begin within 0.5 s" in str(errors[0])


@pytest.mark.gate
@pytest.mark.slow
def test_admin_client_answers_after_more_calls_than_threads_and_a_pause(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka2.driver.thread_driver.OFFLOAD_IDLE", 0.2)

    runtime = ThreadRuntime()
    pool = runtime._pools[Lane.CALLS]

    async def program() -> list[int]:
        servers = kafka_cluster.bootstrap_servers
        async with KafkaAdminClient(bootstrap_servers=servers, runtime=runtime) as admin:
            counts = []
            for _ in range(2):
                kafka_cluster.controls.hold(MetadataRequest)
                calls = [asyncio.create_task(admin.list_topics()) for _ in range(3 * MAX_CALL_THREADS)]
                await asyncio.sleep(0.1)
                kafka_cluster.controls.release(MetadataRequest)
                await asyncio.gather(*calls)
                while pool._threads:
                    await asyncio.sleep(0.02)
                async with asyncio.timeout(30):
                    counts.append(len(await admin.list_topics()))
            return counts

    assert run(program()) == [1, 1]
    runtime.close()


def test_sync_with_statement_names_async_with() -> None:
    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=NOWHERE)
        with pytest.raises(KafkaError, match="write `async with`"), producer:
            pass
        await producer.close()

    run(program())


def test_waiting_for_a_delivery_without_await_raises_instead_of_blocking_the_loop(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> int:
        kafka_cluster.controls.hold(ProduceRequest)
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            delivery = await producer.send("orders", b"v")
            with pytest.raises(LoopBlocked, match="await"):
                delivery.result()
            kafka_cluster.controls.release(ProduceRequest)
            return (await delivery).offset

    assert run(program()) == 0


def test_producer_dropped_without_close_warns_and_does_not_block_the_loop(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> float:
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, linger_ms=60_000)
        await producer.partitions_for("orders")
        await producer.send("orders", b"sent at the end")
        kafka_cluster.controls.hold(ProduceRequest)
        gc.collect()
        gc.freeze()  # so that the measured collection takes no time of its own
        took = 0.0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del producer
            while not any(issubclass(one.category, ResourceWarning) for one in caught):
                began = time.monotonic()
                gc.collect()
                took = max(took, time.monotonic() - began)
                await asyncio.sleep(0.001)  # a helper thread can still refer to the producer
        gc.unfreeze()
        return took

    took = run(program())
    kafka_cluster.controls.release(ProduceRequest)
    assert took < 1.0  # a sync producer blocks here until its DROP_TIMEOUT
    kafka_cluster.wait_until(lambda: kafka_cluster.log("orders", 0).values() == [b"sent at the end"])
    kafka_cluster.wait_until(lambda: not any("pykafka2-" in one.name for one in threading.enumerate()))


UNSTOPPED = """
import asyncio, sys
from pykafka2.aio import KafkaProducer

async def use(servers, name):
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=60_000)
    for number in range(50):
        await producer.send("orders", b"%s %d" % (name, number))

async def main():
    for name in (b"first", b"second"):
        await use(sys.argv[1], name)

asyncio.run(main())
"""


def run_unstopped(servers: str) -> subprocess.CompletedProcess[str]:
    """Run a program with two asyncio producers that are local variables and never stopped."""
    command = [sys.executable, "-c", UNSTOPPED, servers]
    return subprocess.run(command, timeout=60, capture_output=True, text=True)


@pytest.mark.gate
@pytest.mark.slow
def test_unstopped_local_producers_send_their_records_although_the_program_ends(
    kafka_cluster: KafkaCluster,
) -> None:
    done = run_unstopped(kafka_cluster.bootstrap_servers)
    assert (done.returncode, done.stderr) == (0, "")
    expected = {b"%s %d" % (name, number) for name in (b"first", b"second") for number in range(50)}
    assert set(kafka_cluster.log("orders", 0).values()) == expected


@pytest.mark.gate
@pytest.mark.slow
def test_unstopped_local_producers_report_the_number_of_lost_records(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.controls.hold(ProduceRequest)
    done = run_unstopped(kafka_cluster.bootstrap_servers)
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if "was dropped without close(): 50 records" in line]
    assert len(lines) == 2, done.stderr


@pytest.mark.gate
def test_dropped_producer_that_ends_at_once_is_not_kept_until_exit(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The IO thread ends a producer without records before the thread that dropped it runs again."""

    async def program() -> None:
        for _ in range(2):
            producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
            await producer.send_and_wait("orders", b"x")
            shutdown, driver = producer._core.shutdown, producer._core.driver
            call_soon = driver.call_soon

            def call_and_let_it_end(command: Any) -> None:
                call_soon(command)  # noqa: B023
                while not driver.is_own_thread() and not shutdown.is_closed:  # noqa: B023
                    time.sleep(0.001)

            monkeypatch.setattr(driver, "call_soon", call_and_let_it_end)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                del producer
                gc.collect()
            assert shutdown.is_closed
            assert shutdown not in lifecycle._endings

    run(program())


@pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer])
def test_close_with_a_wrong_timeout_raises_and_leaves_the_client_open(
    kafka_cluster: KafkaCluster, client: Any
) -> None:
    async def program() -> None:
        used = client(bootstrap_servers=kafka_cluster.bootstrap_servers)
        await used.start()
        with pytest.raises((KafkaError, TypeError), match="timeout='soon'"):
            await used.close("soon")
        if client is KafkaProducer:
            await used.send_and_wait("orders", b"v")
        else:
            assert await used.topics() == {"orders"}
        await used.close()

    run(program())


def test_error_of_close_is_raised_to_concurrent_calls_and_not_to_later_ones(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> None:
        kafka_cluster.controls.hold(ProduceRequest)
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
        await producer.send("orders", b"v")
        closed = await asyncio.gather(producer.close(0.05), producer.close(), return_exceptions=True)
        assert [type(error) for error in closed] == [KafkaTimeoutError] * 2
        await producer.close()
        kafka_cluster.controls.release(ProduceRequest)

    run(program())


def test_error_of_a_cancelled_close_is_raised_by_the_next_close(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> None:
        kafka_cluster.controls.hold(ProduceRequest)
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
        await producer.send("orders", b"v")
        closing = asyncio.create_task(producer.close(0.05))
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        await kafka_cluster.wait_until_async(lambda: producer.health()["state"] == "closed")
        with pytest.raises(KafkaTimeoutError):
            await producer.close()
        kafka_cluster.controls.release(ProduceRequest)

    run(program())


def test_cancelled_close_that_waits_for_a_listener_continues(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        consumer = KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="billing")
        started, may_return = asyncio.Event(), asyncio.Event()

        async def assigned(partitions: Any) -> None:
            started.set()
            await may_return.wait()

        consumer.subscribe(["orders"], on_assigned=assigned)
        reading = asyncio.create_task(consumer.getone())
        await started.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.close(), 0.05)
        may_return.set()
        with pytest.raises(ConsumerStopped):
            await reading
        await kafka_cluster.wait_until_async(lambda: consumer.health()["state"] == "closed")

    run(program())
