"""The asyncio consumer over sockets: reading, positions, commits, rebalances, a blocked loop."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

from pykafka2 import ConsumerRebalanceListener, KafkaProducer, TopicPartition
from pykafka2.aio import KafkaConsumer
from pykafka2.errors import (
    ConfigurationError,
    ConsumerStopped,
    IllegalArgument,
    IllegalState,
    KafkaTimeoutError,
    NoBrokersAvailable,
    WrongEventLoop,
)
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest
from pykafka2.protocol.messages.group import LeaveGroupRequest
from pykafka2.protocol.messages.offsets import ListOffsetsRequest
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)

pytestmark = pytest.mark.kafka(
    brokers=1, topics={"orders": 2}, config={"group.initial.rebalance.delay.ms": 0}
)


def fill(cluster: KafkaCluster, count: int, partition: int = 0, first: int = 0) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(first, first + count):
            producer.send("orders", b"%d" % number, partition=partition)


def consumer_of(cluster: KafkaCluster, *topics: str, **options: Any) -> KafkaConsumer[bytes, bytes]:
    chosen = {"auto_offset_reset": "earliest", **options}
    return KafkaConsumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **chosen)


async def take(consumer: KafkaConsumer[Any, Any], count: int) -> list[int]:
    """Return the values of the next records."""
    return [int((await consumer.getone()).value or b"-1") for _ in range(count)]


@pytest.mark.parametrize("group", [None, "billing"])
def test_each_way_of_reading_returns_all_records_in_order(
    kafka_cluster: KafkaCluster, group: str | None
) -> None:
    fill(kafka_cluster, 1200)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders", group_id=group) as consumer:
            found = []
            async for record in consumer:
                found.append(int(record.value or b""))
                if len(found) == 100:
                    break
            found += await take(consumer, 100)
            while len(found) < 700:
                polled = await consumer.poll(5000, max_records=100)
                found += [int(record.value or b"") for record in polled.get(FIRST, [])]
            polled = await consumer.getmany(timeout_ms=5000, max_records=10)
            found += [int(record.value or b"") for record in polled[FIRST]]
            while len(found) < 1200:
                columns = await consumer.poll_columns(5000)
                found += [int(value or b"") for value in columns[FIRST].values]
            assert found == list(range(1200))
            assert await consumer.position(FIRST) == 1200
            assert await consumer.poll(0) == {}
            assert await consumer.poll(50) == {}

    run(program())


def test_iteration_ends_after_consumer_timeout_ms_and_at_stop(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 3)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders", consumer_timeout_ms=300) as consumer:
            assert [record.value async for record in consumer] == [b"0", b"1", b"2"]
        consumer = consumer_of(kafka_cluster, "orders")

        async def values() -> list[bytes | None]:
            return [record.value async for record in consumer]

        reading = asyncio.create_task(values())
        await asyncio.sleep(0.2)
        await consumer.stop()
        assert await reading in ([b"0", b"1", b"2"], [])

    run(program())


def test_pending_reads_raise_consumer_stopped_at_stop(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        consumer = consumer_of(kafka_cluster, "orders", group_id="billing")
        pending = [asyncio.create_task(call) for call in (consumer.getone(), consumer.poll(60_000))]
        await kafka_cluster.wait_until_async(lambda: consumer.assignment())
        began = time.monotonic()
        await consumer.stop()
        assert time.monotonic() - began < 30
        for task in pending:
            with pytest.raises(ConsumerStopped):
                await task
        for call in (consumer.getone(), consumer.poll(), consumer.getmany(), consumer.poll_columns()):
            with pytest.raises(ConsumerStopped):
                await call
        await consumer.stop()

    run(program())
    assert not kafka_cluster.group("billing").members


def test_getone_waits_without_using_the_processor(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders") as consumer:
            waiting = asyncio.create_task(consumer.getone())
            await asyncio.sleep(0.3)
            began = time.thread_time()
            await asyncio.sleep(1.0)
            assert time.thread_time() - began < 0.2
            await asyncio.to_thread(fill, kafka_cluster, 1)
            assert (await waiting).value == b"0"

    run(program())


def test_reads_of_buffered_records_let_other_tasks_run(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 1000)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders", max_poll_records=1000) as consumer:
            await consumer.getone()
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            other = asyncio.create_task(count())
            found = 1
            while found < 1000:  # none of these polls waits
                found += sum(map(len, (await consumer.poll(5000, max_records=5)).values()))
                time.sleep(0.0002)
            for _ in range(200):
                assert await consumer.poll(0) == {}
            other.cancel()
            assert turns >= 200 + 5

    run(program())


@pytest.mark.gate
def test_busy_reader_lets_other_tasks_run(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 5000)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders") as consumer:
            await consumer.getone()
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            other = asyncio.create_task(count())
            for _ in range(4):
                consumer.seek(FIRST, 0)
                left = 5000
                while left:
                    left -= sum(map(len, (await consumer.poll(1000)).values()))
            other.cancel()
            assert turns >= 3

    run(program())


@pytest.mark.gate
def test_reads_raise_consumer_stopped_while_stop_is_in_progress(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 10)

    async def program() -> None:
        consumer = consumer_of(kafka_cluster, "orders", group_id="billing", consumer_timeout_ms=60_000)
        assert await take(consumer, 3) == [0, 1, 2]  # the others are in the buffer
        consumer.pause(FIRST, SECOND)
        pending = asyncio.create_task(consumer.poll(60_000))
        await asyncio.sleep(0.05)
        kafka_cluster.controls.hold(LeaveGroupRequest)
        stopping = asyncio.create_task(consumer.stop())
        await kafka_cluster.wait_until_async(lambda: kafka_cluster.controls.held(LeaveGroupRequest))
        calls: list[Awaitable[Any]] = [pending, consumer.getone(), consumer.poll(), consumer.getone(FIRST)]
        for call in calls:
            with pytest.raises(ConsumerStopped):
                await asyncio.wait_for(call, 30)
        assert [record async for record in consumer] == []
        assert not stopping.done()
        kafka_cluster.controls.release(LeaveGroupRequest)
        await stopping

    run(program())
    assert kafka_cluster.group("billing").offsets[FIRST] == 3


def test_record_in_the_buffer_is_not_returned_after_the_call_of_stop(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 10)

    async def program() -> None:
        consumer = consumer_of(kafka_cluster, "orders", group_id="billing")
        assert await take(consumer, 3) == [0, 1, 2]
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0)
        with pytest.raises(ConsumerStopped):
            await consumer.getone()
        await stopping

    run(program())
    assert kafka_cluster.group("billing").offsets[FIRST] == 3


def test_block_that_raises_commits_nothing(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 10)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders", group_id="billing") as consumer:
            assert await take(consumer, 3) == [0, 1, 2]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(program())
    assert FIRST not in kafka_cluster.group("billing").offsets


@pytest.mark.parametrize("end", ["cancel", "wakeup", "stop"])
def test_end_of_a_block_commits_the_record_that_is_handled_unless_the_task_is_cancelled(
    kafka_cluster: KafkaCluster, end: str
) -> None:
    fill(kafka_cluster, 3)
    committed: dict[TopicPartition, int] = {}

    async def program() -> None:
        handling, may_return = asyncio.Event(), asyncio.Event()

        async def handle(consumer: KafkaConsumer[bytes, bytes]) -> None:
            async with consumer:
                async for _ in consumer:
                    handling.set()
                    await may_return.wait()

        consumer = consumer_of(kafka_cluster, "orders", group_id="billing")
        task = asyncio.create_task(handle(consumer))
        await handling.wait()
        if end == "cancel":
            task.cancel()
        elif end == "wakeup":
            consumer.wakeup()
        else:
            await consumer.stop()
            committed.update(kafka_cluster.group("billing").offsets)
        may_return.set()
        await asyncio.wait([task])

    run(program())
    if end == "stop":
        assert committed[FIRST] == 1
    assert (FIRST in kafka_cluster.group("billing").offsets) is (end != "cancel")


def test_named_partitions_leave_buffered_records_of_the_others(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 10, partition=0)
    fill(kafka_cluster, 10, partition=1)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders") as consumer:
            await consumer.poll(5000, max_records=1)
            await kafka_cluster.wait_until_async(
                lambda: consumer.highwater(FIRST) == consumer.highwater(SECOND)
            )
            first = await consumer.getone()  # its slice contains records of both partitions
            other = SECOND if first.partition == 0 else FIRST
            polled = await consumer.getmany(other, timeout_ms=5000)
            assert [*polled] == [other]
            assert [*(await consumer.getmany(other, timeout_ms=0))] in ([], [other])

    run(program())


def test_cancelled_query_ends_and_lets_the_next_one_begin(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders") as consumer:
            await consumer.topics()
            kafka_cluster.controls.hold(ListOffsetsRequest)
            task = asyncio.create_task(consumer.end_offsets([FIRST]))
            await kafka_cluster.wait_until_async(lambda: kafka_cluster.controls.held(ListOffsetsRequest))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await kafka_cluster.wait_until_async(lambda: not consumer._bridge._running)
            kafka_cluster.controls.release(ListOffsetsRequest)
            assert await consumer.end_offsets([FIRST]) == {FIRST: 0}

    run(program())


def test_poll_columns_returns_buffered_records_of_an_iteration(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 10)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders") as consumer:
            assert await take(consumer, 3) == [0, 1, 2]
            columns = await consumer.poll_columns(0)
            assert [int(value or b"") for value in columns[FIRST].values][:1] == [3]

    run(program())


def test_poll_without_update_offsets_returns_the_records_again(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 10)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders") as consumer:
            for update_offsets in (False, False, True):
                polled = await consumer.poll(5000, max_records=4, update_offsets=update_offsets)
                assert [record.offset for record in polled[FIRST]] == [0, 1, 2, 3]
            assert (await consumer.getone()).offset == 4

    run(program())


def test_positions_and_offsets_are_those_of_the_sync_consumer(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 10)

    async def program() -> None:
        async with consumer_of(kafka_cluster, fetch_max_wait_ms=20) as consumer:
            with pytest.raises(IllegalState, match="no topic is subscribed"):
                await consumer.poll()
            consumer.assign([FIRST])
            assert consumer.assignment() == {FIRST}
            assert await consumer.position(FIRST) == 0
            assert await take(consumer, 4) == [0, 1, 2, 3]
            consumer.seek(FIRST, 8)
            assert await take(consumer, 2) == [8, 9]
            consumer.seek_to_beginning(FIRST)
            consumer.pause(FIRST)
            assert consumer.paused() == {FIRST}
            assert await consumer.poll(100) == {}
            consumer.resume(FIRST)
            assert await take(consumer, 1) == [0]
            consumer.seek_to_end()
            assert await consumer.position(FIRST) == 10
            assert await consumer.beginning_offsets([FIRST, SECOND]) == {FIRST: 0, SECOND: 0}
            assert await consumer.end_offsets([FIRST, SECOND]) == {FIRST: 10, SECOND: 0}
            assert (await consumer.offsets_for_times({FIRST: 0}))[FIRST].offset == 0  # type: ignore[union-attr]
            assert await consumer.partitions_for_topic("orders") == {0, 1}
            assert await consumer.topics() == {"orders"}
            consumer.incremental_assign([SECOND])
            consumer.incremental_unassign([FIRST])
            assert consumer.assignment() == {SECOND}
            assert consumer.health()["state"] == "open"
            assert consumer.metrics()["assigned-partitions"] == 1
            assert consumer.explain()
            assert consumer.bootstrap_connected()
            await consumer.unsubscribe()
            assert consumer.assignment() == set()

    run(program())


@pytest.mark.gate
def test_commits_are_those_of_the_sync_consumer(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 10)

    async def program() -> None:
        loop = asyncio.get_running_loop()
        called: list[Any] = []

        def callback(offsets: Any, error: Any) -> None:
            called.append((asyncio.get_running_loop(), error))

        async with consumer_of(
            kafka_cluster, "orders", group_id="billing", enable_auto_commit=False
        ) as consumer:
            assert await take(consumer, 3) == [0, 1, 2]
            await consumer.commit()
            assert await consumer.committed(FIRST) == 3
            await consumer.commit({FIRST: 5})
            assert await consumer.committed(FIRST) == 5
            await (await consumer.commit_async({FIRST: 7}, callback))
            both = await consumer.committed([FIRST, SECOND])
            assert {one: found.offset for one, found in both.items() if found} == {FIRST: 7, SECOND: 0}
            await consumer.commit()
            await asyncio.sleep(0)
            assert called == [(loop, None)]
            with pytest.raises(IllegalState, match="enable_auto_offset_store"):
                await consumer.store_offsets(offsets={FIRST: 1})
            assert consumer.group_metadata().group_id == "billing"
            kafka_cluster.controls.hold(OffsetCommitRequest)
            with pytest.raises(KafkaTimeoutError, match="commit"):
                await consumer.commit(timeout_ms=200)
            kafka_cluster.controls.release(OffsetCommitRequest)
            await consumer.commit()
        async with consumer_of(
            kafka_cluster, "orders", group_id="storing", enable_auto_offset_store=False
        ) as storing:
            record = await storing.getone()
            await storing.store_offsets(record)
            await storing.getone()

    run(program())
    assert kafka_cluster.group("billing").offsets[FIRST] == 3
    assert kafka_cluster.group("storing").offsets[FIRST] == 1


@pytest.mark.parametrize("is_default", [False, True], ids=["argument", "option"])
def test_commit_callback_that_close_calls_runs_on_the_loop(
    kafka_cluster: KafkaCluster, is_default: bool
) -> None:
    fill(kafka_cluster, 5)

    async def program() -> None:
        called: list[Any] = []

        def callback(offsets: Any, error: Any) -> None:
            called.append((asyncio.get_running_loop(), error))

        options = {"default_offset_commit_callback": callback} if is_default else {}
        consumer = consumer_of(kafka_cluster, "orders", group_id="billing", **options)
        await take(consumer, 5)
        await (await consumer.commit_async(None, None if is_default else callback))
        assert not called
        await consumer.close()  # on a helper thread
        await asyncio.sleep(0)
        assert called == [(asyncio.get_running_loop(), None)]

    run(program())


def test_stop_commits_the_returned_records_only(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 500)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders", group_id="billing") as consumer:
            assert await take(consumer, 17) == list(range(17))

    run(program())
    assert kafka_cluster.group("billing").offsets[FIRST] == 17


@pytest.mark.gate
def test_coroutine_listener_ends_before_another_member_reads(
    kafka_cluster: KafkaCluster,
) -> None:
    fill(kafka_cluster, 200, 0)
    fill(kafka_cluster, 200, 1)

    async def program() -> None:
        events: list[str] = []

        class Listener(ConsumerRebalanceListener):
            def __init__(self, consumer: KafkaConsumer[Any, Any]) -> None:
                self.consumer = consumer

            async def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:  # type: ignore[override]
                events.append(f"assigned {sorted(one.partition for one in assigned)}")
                for partition in assigned:
                    await self.consumer.position(partition)
                    self.consumer.seek(partition, 100)

            async def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:  # type: ignore[override]
                await asyncio.sleep(0.2)
                await self.consumer.commit(dict.fromkeys(revoked, 150))
                assert await self.consumer.committed(revoked[0]) == 150
                with pytest.raises(IllegalState, match="inside a rebalance listener"):
                    await self.consumer.getone()
                events.append(f"revoked {sorted(one.partition for one in revoked)}")

        options = {"group_id": "billing", "enable_auto_commit": False, "heartbeat_interval_ms": 100}
        async with consumer_of(kafka_cluster, **options) as one, consumer_of(kafka_cluster, **options) as two:
            one.subscribe(["orders"], listener=Listener(one))
            assert (await one.getone()).offset == 100
            assert events[0] == "assigned [0, 1]"
            two.subscribe(["orders"], on_assigned=lambda assigned: events.append(f"two: {len(assigned)}"))
            reading = asyncio.create_task(read_for_ever(one))
            record = await two.getone()
            assert record.offset == 150
            assert events.index(next(e for e in events if e.startswith("revoked"))) < events.index("two: 1")
            reading.cancel()
            await asyncio.wait([reading])

    run(program())


async def read_for_ever(consumer: KafkaConsumer[Any, Any]) -> None:
    while True:
        await consumer.poll(1000)


def test_exception_of_a_listener_is_raised_by_the_read(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 1)

    async def program() -> None:
        async def failing(assigned: Any) -> None:
            raise ZeroDivisionError

        async with consumer_of(kafka_cluster, group_id="billing") as consumer:
            consumer.subscribe(["orders"], on_assigned=failing)
            with pytest.raises(ZeroDivisionError) as raised:
                await consumer.getone()
            [note] = raised.value.__notes__
            assert re.fullmatch("raised by the rebalance listener .*failing for assigned partitions", note)
            assert await take(consumer, 1) == [0]

    run(program())


def test_plain_listener_runs_on_the_loop_and_its_awaitable_is_awaited(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 1)

    async def program() -> None:
        loop = asyncio.get_running_loop()
        story: list[Any] = []

        def plain(assigned: Any) -> None:
            story.append((threading.get_ident(), asyncio.get_running_loop()))

        def returns_a_future(assigned: Any) -> Any:
            future = loop.create_future()

            def end() -> None:
                story.append("done")
                future.set_result(None)

            loop.call_later(0.1, end)
            return future

        for listener, expected in ((plain, (threading.get_ident(), loop)), (returns_a_future, "done")):
            story.clear()
            async with consumer_of(kafka_cluster, group_id=listener.__name__) as consumer:
                consumer.subscribe(["orders"], on_assigned=listener)
                await consumer.getone()
                assert story == [expected]
                assert not consumer._listeners.is_running

    run(program())


@pytest.mark.gate
def test_stop_waits_for_a_listener_that_ends_in_time(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        started = asyncio.Event()
        story: list[str] = []

        async def slow(assigned: Any) -> None:
            started.set()
            await asyncio.sleep(0.3)
            story.append("listener")

        consumer = consumer_of(kafka_cluster, group_id="billing")
        consumer.subscribe(["orders"], on_assigned=slow)
        reading = asyncio.create_task(consumer.getone())
        await started.wait()
        await consumer.close()
        assert story == ["listener"]
        with pytest.raises(ConsumerStopped):
            await reading

    run(program())


def test_listener_that_never_returns_is_cancelled_at_the_rebalance_timeout(
    kafka_cluster: KafkaCluster,
) -> None:
    fill(kafka_cluster, 1)

    async def program() -> None:
        cancelled = asyncio.Event()

        async def hanging(assigned: Any) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                cancelled.set()

        async with consumer_of(
            kafka_cluster, group_id="billing", max_poll_interval_ms=500, session_timeout_ms=6000
        ) as consumer:
            consumer.subscribe(["orders"], on_assigned=hanging)
            with pytest.raises(KafkaTimeoutError, match="did not return within max_poll_interval_ms=500"):
                await consumer.getone()
            await cancelled.wait()

    run(program())


def test_stop_ends_a_listener_that_never_returns(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        started = asyncio.Event()

        async def hanging(assigned: Any) -> None:
            started.set()
            await asyncio.sleep(3600)

        consumer = consumer_of(kafka_cluster, group_id="billing")
        consumer.subscribe(["orders"], on_assigned=hanging)
        reading = asyncio.create_task(consumer.getone())
        await started.wait()
        await consumer.close(0.2)
        with pytest.raises(ConsumerStopped):
            await reading

    run(program())


def test_wrong_arguments_of_subscribe_raise_at_once(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with consumer_of(kafka_cluster, group_id="billing") as consumer:
            with pytest.raises(IllegalArgument, match=r"await unsubscribe\(\)"):
                consumer.subscribe([])
            with pytest.raises(IllegalArgument, match="must be a list"):
                consumer.subscribe("orders")
            with pytest.raises(IllegalArgument, match="not callable"):
                consumer.subscribe(["orders"], on_assigned=7)  # type: ignore[arg-type]
            with pytest.raises(IllegalArgument, match="has none of"):
                consumer.subscribe(["orders"], listener=object())
            consumer.subscribe(pattern="ord.*")
            while consumer.subscription() != {"orders"}:
                assert await consumer.poll(500) == {}
        async with consumer_of(kafka_cluster) as consumer:
            with pytest.raises(ConfigurationError):
                consumer.subscribe(["orders"], on_assigned=print)
            with pytest.raises(IllegalState, match="async for"):
                iter(consumer)

    run(program())


def test_consumer_in_a_second_loop_raises_and_can_be_closed(kafka_cluster: KafkaCluster) -> None:
    consumer = consumer_of(kafka_cluster, "orders")
    run(consumer.poll(10))

    async def again() -> None:
        for call in (consumer.getone(), consumer.poll(), consumer.commit(), consumer.position(FIRST)):
            with pytest.raises(WrongEventLoop):
                await call
        await consumer.close()

    run(again())


def test_failed_start_closes_the_consumer() -> None:
    async def program() -> None:
        consumer: KafkaConsumer[bytes, bytes] = KafkaConsumer(
            "orders", bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=300, request_timeout_ms=200
        )
        with pytest.raises(NoBrokersAvailable):
            await consumer.start()
        with pytest.raises(ConsumerStopped):
            await consumer.getone()

    run(program())


def test_poll_returns_in_time_while_a_call_of_another_task_waits(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 1)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders", group_id="billing") as consumer:
            kafka_cluster.controls.hold(ListOffsetsRequest)
            lookup = asyncio.create_task(consumer.end_offsets([FIRST]))
            await kafka_cluster.wait_until_async(lambda: kafka_cluster.controls.held(ListOffsetsRequest))
            async with asyncio.timeout(20):  # less than default_api_timeout_ms
                assert await consumer.poll(100) == {}
                assert await consumer.poll(0) == {}
            kafka_cluster.controls.release(ListOffsetsRequest)
            assert await lookup == {FIRST: 1}
            assert await take(consumer, 1) == [0]

    run(program())


@pytest.mark.gate
def test_blocked_loop_keeps_the_membership_and_continues(kafka_cluster: KafkaCluster) -> None:
    """The script of aiokafka's issue 847: `time.sleep` beside `async for` and commit, longer than the session
    timeout and shorter than max_poll_interval_ms."""
    fill(kafka_cluster, 20)

    async def program() -> None:
        async with consumer_of(
            kafka_cluster,
            "orders",
            group_id="billing",
            enable_auto_commit=False,
            session_timeout_ms=4000,
            heartbeat_interval_ms=200,
        ) as consumer:
            found = []
            member = ""
            async for record in consumer:
                found.append(int(record.value or b""))
                await consumer.commit()
                if len(found) == 5:
                    member = consumer.group_metadata().member_id
                    time.sleep(4.5)
                if len(found) == 20:
                    break
            assert found == list(range(20))
            assert consumer.group_metadata().member_id == member
            assert consumer.group_metadata().generation_id == 1

    run(program())


@pytest.mark.gate
def test_loop_blocked_beyond_max_poll_interval_loses_the_partitions_and_rejoins(
    kafka_cluster: KafkaCluster,
) -> None:
    fill(kafka_cluster, 20)

    async def program() -> None:
        lost: list[Any] = []
        async with consumer_of(
            kafka_cluster,
            group_id="billing",
            session_timeout_ms=10_000,
            heartbeat_interval_ms=200,
            max_poll_interval_ms=3000,
        ) as consumer:
            consumer.subscribe(["orders"], on_lost=lost.append)
            assert await take(consumer, 5) == [0, 1, 2, 3, 4]
            time.sleep(4.0)
            await asyncio.to_thread(
                kafka_cluster.wait_until, lambda: not kafka_cluster.group("billing").members
            )
            seen: set[int] = set()
            while not lost or 19 not in seen:
                seen.update(await take(consumer, 1))

    run(program())


def test_records_of_another_thread_reach_a_waiting_read(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders") as consumer:
            reading = asyncio.create_task(take(consumer, 50))
            thread = threading.Thread(target=fill, args=(kafka_cluster, 50))
            thread.start()
            assert await reading == list(range(50))
            await asyncio.to_thread(thread.join)

    run(program())
