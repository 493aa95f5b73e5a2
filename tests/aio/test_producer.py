"""The asyncio producer over sockets: sending, waiting without blocking the loop, transactions."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow
import pytest

from pykafka2 import ConsumerGroupMetadata, JsonSerializer, TopicPartition
from pykafka2.aio import KafkaProducer
from pykafka2.errors import (
    BufferExhausted,
    IllegalArgument,
    IllegalState,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLarge,
    NoBrokersAvailable,
    RecordPurged,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka2.producer.transactions.state import Call
from pykafka2.producer.transactions.transactions import TransactionRunner
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.protocol.messages.transaction import EndTxnRequest
from pykafka2.testing import KafkaCluster
from tests.aio.running import longest_lag, run

NOWHERE = "127.0.0.1:1"
MOST_LAG = 1.0
"""Seconds; a call that blocks the loop blocks it for max_block_ms, which is longer in these tests."""

pytestmark = pytest.mark.kafka(brokers=1, topics={"orders": 2})


async def lag_during(call: Any) -> tuple[Any, float]:
    """Return the result, or the error, of an awaitable, and the loop's worst lag meanwhile."""
    stop = asyncio.Event()
    lag = asyncio.create_task(longest_lag(stop))
    try:
        result = await call
    except Exception as error:
        result = error
    stop.set()
    return result, await lag


def wait_for_committed(cluster: KafkaCluster, values: list[bytes]) -> None:
    """Wait until these are the committed values; markers are written after the response to EndTxn."""
    cluster.wait_until(lambda: cluster.log("orders", 0).values("read_committed") == values)
    cluster.wait_until(lambda: not any(one.is_open for one in cluster.transactions()))


def test_send_returns_a_delivery_and_send_and_wait_its_metadata(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            metadata = await (await producer.send("orders", b"a", partition=1, timestamp_ms=7))
            assert (metadata.topic, metadata.partition, metadata.offset, metadata.timestamp) == (
                "orders",
                1,
                0,
                7,
            )
            metadata = await producer.send_and_wait("orders", b"b", b"k", [("h", b"1")], 1)
            assert metadata.offset == 1
            assert await producer.partitions_for("orders") == {0, 1}
            assert [info.partition for info in await producer.partition_infos("orders")] == [0, 1]
            assert producer.health()["state"] == "open"
            assert producer.metrics()["record-send-total"] == 2
            assert producer.bootstrap_connected()
            assert producer.explain()

    run(program())
    records = list(kafka_cluster.log("orders", 1).records())
    assert [(one.value, one.key, list(one.headers)) for one in records] == [
        (b"a", None, []),
        (b"b", b"k", [("h", b"1")]),
    ]


def test_unawaited_deliveries_are_sent_before_the_block_ends(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, linger_ms=60_000
        ) as producer:
            for number in range(100):
                await producer.send("orders", b"%d" % number, partition=0)

    run(program())
    assert kafka_cluster.log("orders", 0).values() == [b"%d" % number for number in range(100)]


def test_serializers_and_interceptors_see_each_record_once(kafka_cluster: KafkaCluster) -> None:
    seen: list[str] = []
    acknowledged: list[int] = []

    class Interceptor:
        def on_send(self, record: Any) -> Any:
            seen.append(record.value)
            return record

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            acknowledged.append(metadata.offset)

    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers,
            value_serializer=JsonSerializer(),
            interceptors=[Interceptor()],
            buffer_memory=40_000,
        ) as producer:
            for number in range(300):
                await producer.send("orders", f"{number:01000}", partition=0)

    run(program())
    assert seen == [f"{number:01000}" for number in range(300)]
    assert acknowledged == list(range(300))


def test_cancelled_wait_for_a_delivery_leaves_its_acknowledgement_to_interceptors(
    kafka_cluster: KafkaCluster,
) -> None:
    acknowledged: list[int] = []

    class Interceptor:
        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            assert asyncio.get_running_loop()
            acknowledged.append(metadata.offset)

    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, interceptors=[Interceptor()]
        ) as producer:
            await producer.send_and_wait("orders", b"a", partition=0)
            kafka_cluster.controls.hold(ProduceRequest)
            delivery = await producer.send("orders", b"b", partition=0)
            gathering = asyncio.gather(delivery)
            gathering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gathering
            assert acknowledged == [0]
            kafka_cluster.controls.release(ProduceRequest)
            assert (await delivery).offset == 1

    run(program())
    assert acknowledged == [0, 1]


def test_send_waits_for_metadata_without_blocking_the_loop(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        kafka_cluster.controls.delay(MetadataRequest, 2.0, times=1)
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            deliveries, lag = await lag_during(
                asyncio.gather(*(producer.send("orders", b"%d" % number) for number in range(50)))
            )
            assert lag < MOST_LAG
            assert len({(done.partition, done.offset) for done in await asyncio.gather(*deliveries)}) == 50

    run(program())


def test_unreachable_brokers_fail_each_send_after_max_block_ms() -> None:
    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=NOWHERE, max_block_ms=2000)
        began = time.monotonic()
        (first, second), lag = await lag_during(
            asyncio.gather(*(producer.send("orders", b"v") for _ in range(2)), return_exceptions=True)
        )
        assert lag < MOST_LAG
        assert isinstance(first, NoBrokersAvailable)
        assert isinstance(second, NoBrokersAvailable)
        assert first is not second
        assert time.monotonic() - began >= 2
        await producer.close()

    run(program())


def test_unknown_topic_and_partition_raise_as_in_the_sync_producer(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, max_block_ms=200
        ) as producer:
            with pytest.raises(UnknownTopicOrPartition, match="no partition 7"):
                await producer.send("orders", b"v", partition=7)
            with pytest.raises(IllegalArgument):
                await producer.send("orders", "text")  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                await producer.send(7, b"v")  # type: ignore[arg-type]
            with pytest.raises(IllegalState, match="transactional_id"):
                await producer.begin_transaction()

    run(program())


@pytest.mark.gate
def test_full_buffer_suspends_the_tasks_and_keeps_their_order(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        kafka_cluster.controls.delay(ProduceRequest, 0.02)
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, buffer_memory=50_000, batch_size=5000
        ) as producer:

            async def task(name: int) -> None:
                for number in range(10):
                    await producer.send("orders", b"%d:%d " % (name, number) + bytes(500), partition=0)

            _, lag = await lag_during(asyncio.gather(*(task(name) for name in range(40))))
            assert lag < MOST_LAG
            await producer.flush()

    run(program())
    found: dict[bytes, list[int]] = {}
    for value in kafka_cluster.log("orders", 0).values():
        assert value is not None
        name, number = value.split()[0].split(b":")
        found.setdefault(name, []).append(int(number))
    assert found == {b"%d" % name: list(range(10)) for name in range(40)}


def test_tasks_that_wait_for_memory_are_served_in_order(kafka_cluster: KafkaCluster) -> None:
    tasks = 60

    async def program() -> None:
        kafka_cluster.controls.hold(ProduceRequest)
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, buffer_memory=50_000, batch_size=12_000
        ) as producer:
            await producer.partitions_for("orders")

            async def task(name: int) -> None:
                for number in range(3):
                    await producer.send("orders", b"%d:%d " % (name, number) + bytes(5000), partition=0)

            sending = asyncio.gather(*(task(name) for name in range(tasks)))
            await kafka_cluster.wait_until_async(lambda: kafka_cluster.controls.held(ProduceRequest))
            kafka_cluster.controls.release(ProduceRequest)
            await sending

    run(program())
    order = [value.split()[0].split(b":") for value in kafka_cluster.log("orders", 0).values() if value]
    waited = [(int(name), int(number)) for name, number in order[20:]]
    last = {number: max(at for at, one in enumerate(waited) if one[1] == number) for number in (0, 1)}
    assert len(order) == 3 * tasks
    assert all(at > last[0] for at, (_, number) in enumerate(waited) if number == 2)


def test_buffer_that_stays_full_raises_buffer_exhausted(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers,
            buffer_memory=20_000,
            batch_size=10_000,
            max_block_ms=1500,
        ) as producer:
            await producer.partitions_for("orders")
            kafka_cluster.controls.hold(ProduceRequest)
            sent = []
            for _ in range(3):
                outcome, lag = await lag_during(producer.send("orders", bytes(9000), partition=0))
                assert lag < MOST_LAG
                sent.append(outcome)
            assert isinstance(sent[-1], BufferExhausted)
            assert producer.metrics()["buffer-exhausted-total"] == 1
            kafka_cluster.controls.release(ProduceRequest)
            await producer.flush()
            await producer.send_and_wait("orders", b"usable", partition=0)

    run(program())
    assert kafka_cluster.log("orders", 0).values()[-1] == b"usable"


def test_send_many_keeps_headers_and_timestamps_and_reports_each_row(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            delivery = await producer.send_many(
                "orders",
                [b"a", b"b"],
                keys=[b"1", None],
                headers=[[("h", b"x")], None],
                timestamps_ms=[5, 6],
                partition=0,
            )
            assert [list(batch.rows) for batch in await delivery] == [[0, 1]]
            table = pyarrow.table({"value": [b"c"], "key": [b"3"], "timestamp_ms": [7]})
            await (await producer.send_many("orders", table, partition=0))
            kafka_cluster.controls.fail_next(ProduceRequest, MessageTooLarge)
            failed = await producer.send_many("orders", [b"z"], partition=1)
            with pytest.raises(MessageTooLarge):
                await failed
            assert [(list(rows), type(error)) for rows, error in failed.failures()] == [
                ([0], MessageTooLarge)
            ]

    run(program())
    assert [
        (one.value, one.key, list(one.headers), one.timestamp)
        for one in kafka_cluster.log("orders", 0).records()
    ] == [(b"a", b"1", [("h", b"x")], 5), (b"b", None, [], 6), (b"c", b"3", [], 7)]


def test_on_delivery_runs_on_the_loop_and_an_async_one_is_refused(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        loop, called = asyncio.get_running_loop(), asyncio.Event()
        where = []

        def on_delivery(metadata: Any, error: Any) -> None:
            where.append(asyncio.get_running_loop())
            called.set()

        async def never_awaited(metadata: Any, error: Any) -> None: ...

        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            await producer.send("orders", b"v", on_delivery=on_delivery)
            await called.wait()
            with pytest.raises(IllegalArgument, match="topic 'orders': it is async"):
                await producer.send("orders", b"v", on_delivery=never_awaited)  # type: ignore[arg-type]
        assert where == [loop]

    run(program())


def test_dropped_delivery_that_fails_is_logged_once(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
        await producer.partitions_for("orders")
        kafka_cluster.controls.fail_next(ProduceRequest, TopicAuthorizationFailed)
        await producer.send("orders", b"v", partition=0)
        with pytest.raises(TopicAuthorizationFailed):
            await producer.close()

    with caplog.at_level(logging.ERROR):
        run(program())
    lines = [record.getMessage() for record in caplog.records if "orders-0" in record.getMessage()]
    assert len(lines) == 1
    assert "TopicAuthorizationFailed" in lines[0]


def test_purge_drops_unsent_records(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, linger_ms=60_000
        ) as producer:
            delivery = await producer.send("orders", b"v")
            assert await producer.purge() == 1
            with pytest.raises(RecordPurged):
                await delivery

    run(program())


def test_flush_that_times_out_leaves_the_records(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            await producer.partitions_for("orders")
            kafka_cluster.controls.hold(ProduceRequest)
            delivery = await producer.send("orders", b"v", partition=0)
            with pytest.raises(KafkaTimeoutError):
                await producer.flush(0.05)
            kafka_cluster.controls.release(ProduceRequest)
            assert (await delivery).offset == 0

    run(program())


def test_transaction_block_commits_and_aborts_with_an_error(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t"
        ) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("orders", b"committed", partition=0)
                await producer.send_offsets_to_transaction(
                    {TopicPartition("orders", 1): 3}, ConsumerGroupMetadata("group")
                )

            async def failing() -> None:
                async with producer.transaction():
                    await producer.send("orders", b"aborted", partition=0)
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError) as raised:
                await failing()
            assert "the transaction was aborted" in raised.value.__notes__
            await producer.begin_transaction()
            await producer.send("orders", b"by hand", partition=0)
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.abort_transaction()

    run(program())
    wait_for_committed(kafka_cluster, [b"committed", b"by hand"])
    assert kafka_cluster.group("group").offsets == {TopicPartition("orders", 1): 3}


def test_start_after_init_transactions_keeps_the_registration(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t")
        await producer.init_transactions()
        await producer.start()
        async with producer, producer.transaction():
            await producer.send("orders", b"committed", partition=0)

    run(program())
    wait_for_committed(kafka_cluster, [b"committed"])


def test_concurrent_starts_and_init_transactions_register_the_transactional_id_once(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t")
        await asyncio.gather(producer.start(), producer.init_transactions(), producer.start())
        async with producer, producer.transaction():
            await producer.send("orders", b"committed", partition=0)

    run(program())
    wait_for_committed(kafka_cluster, [b"committed"])


def test_transaction_that_is_cancelled_at_its_end_still_ends_before_the_next(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t"
        ) as producer:
            await producer.init_transactions()

            async def one(value: bytes) -> None:
                async with producer.transaction():
                    await producer.send("orders", value, partition=0)

            kafka_cluster.controls.hold(EndTxnRequest)
            first = asyncio.create_task(one(b"first"))
            await kafka_cluster.wait_until_async(lambda: kafka_cluster.controls.held(EndTxnRequest))
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            kafka_cluster.controls.release(EndTxnRequest)
            await one(b"second")

    run(program())
    wait_for_committed(kafka_cluster, [b"first", b"second"])


def test_transaction_that_is_cancelled_when_it_has_begun_is_aborted_before_the_next(
    kafka_cluster: KafkaCluster,
) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t"
        ) as producer:
            await producer.init_transactions()

            async def two() -> None:
                task = asyncio.current_task()
                assert task is not None
                with pytest.raises(asyncio.CancelledError):
                    async with producer.transaction():
                        await producer.send("orders", b"first", partition=0)
                task.uncancel()
                async with producer.transaction():
                    await producer.send("orders", b"second", partition=0)

            task = asyncio.create_task(two())
            while not producer._bridge._running:
                await asyncio.sleep(0)
            (begin,) = producer._bridge._running
            begin.future.add_done_callback(lambda _: task.cancel())
            await task

    run(program())
    wait_for_committed(kafka_cluster, [b"second"])


def test_cancelled_transaction_block_is_aborted(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t"
        ) as producer:
            await producer.init_transactions()
            is_inside = asyncio.Event()

            async def block() -> None:
                async with producer.transaction():
                    await (await producer.send("orders", b"dropped", partition=0))
                    is_inside.set()
                    await asyncio.sleep(3600)

            task = asyncio.create_task(block())
            await is_inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send("orders", b"kept", partition=0)

    run(program())
    wait_for_committed(kafka_cluster, [b"kept"])


class LateThread:
    """Stops the helper thread of the first transactional call of a kind, before or after it takes effect."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: Call, *, after: bool) -> None:
        self.has_stopped = threading.Event()
        self.may_continue = threading.Event()
        run_call = TransactionRunner.run

        def stop() -> None:
            if not self.has_stopped.is_set():
                self.has_stopped.set()
                assert self.may_continue.wait(30)

        def run(runner: TransactionRunner, call: Call, *args: Any) -> Any:
            if call is kind and not after:
                stop()
            value = run_call(runner, call, *args)
            if call is kind and after:
                stop()
            return value

        monkeypatch.setattr(TransactionRunner, "run", run)


def test_start_with_a_late_thread_does_not_register_again_in_a_transaction(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t")
        late = LateThread(monkeypatch, Call.INIT, after=False)

        async def start_and_send() -> None:
            await producer.start()
            async with producer.transaction():
                await producer.send("orders", b"committed", partition=0)

        starting = [asyncio.create_task(producer.start()), asyncio.create_task(start_and_send())]
        await kafka_cluster.wait_until_async(late.has_stopped.is_set)
        await asyncio.wait(starting, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
        late.may_continue.set()
        await asyncio.gather(*starting)
        await producer.stop()

    run(program())
    wait_for_committed(kafka_cluster, [b"committed"])


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", [Call.BEGIN, Call.COMMIT, Call.ABORT], ids=lambda kind: kind.value)
def test_cancelled_call_with_a_late_thread_does_not_touch_the_next_transaction(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, kind: Call, after: bool
) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t"
        ) as producer:
            await producer.init_transactions()

            async def block() -> None:
                async with producer.transaction():
                    pass

            calls: dict[Call, Callable[[], Any]] = {
                Call.BEGIN: block,
                Call.COMMIT: producer.commit_transaction,
                Call.ABORT: producer.abort_transaction,
            }
            if kind is not Call.BEGIN:
                await producer.begin_transaction()
            late = LateThread(monkeypatch, kind, after=after)
            task = asyncio.create_task(calls[kind]())
            await kafka_cluster.wait_until_async(late.has_stopped.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            asyncio.get_running_loop().call_later(0.05, late.may_continue.set)
            for call in (producer.commit_transaction, producer.abort_transaction):
                with suppress(KafkaError):
                    await call()
            async with producer.transaction():
                await producer.send("orders", b"first", partition=0)
                await asyncio.sleep(0.15)
                await producer.send("orders", b"second", partition=0)

    run(program())
    wait_for_committed(kafka_cluster, [b"first", b"second"])


def test_rows_of_a_cancelled_send_many_are_not_in_the_next_transaction(kafka_cluster: KafkaCluster) -> None:
    is_encoding, may_continue = threading.Event(), threading.Event()

    def encode(value: bytes) -> bytes:
        if value == b"row":
            is_encoding.set()
            assert may_continue.wait(30)
        return value

    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t", value_serializer=encode
        ) as producer:
            await producer.init_transactions()

            async def block() -> None:
                async with producer.transaction():
                    sending = asyncio.create_task(producer.send_many("orders", [b"row"], partition=0))
                    await kafka_cluster.wait_until_async(is_encoding.is_set)
                    sending.cancel()
                    await sending

            with pytest.raises(asyncio.CancelledError):
                await block()
            asyncio.get_running_loop().call_later(0.05, may_continue.set)
            async with producer.transaction():
                await producer.send("orders", b"first", partition=0)
                await asyncio.sleep(0.15)
                await producer.send("orders", b"second", partition=0)

    run(program())
    wait_for_committed(kafka_cluster, [b"first", b"second"])


@pytest.mark.parametrize("kind", [Call.BEGIN, Call.COMMIT], ids=lambda kind: kind.value)
def test_block_that_is_cancelled_while_it_begins_or_ends_needs_no_call_before_the_next(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, kind: Call
) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t"
        ) as producer:
            await producer.init_transactions()

            async def block(value: bytes) -> None:
                async with producer.transaction():
                    await producer.send("orders", value, partition=0)
                    await asyncio.sleep(0.1)
                    await producer.send("orders", value, partition=0)

            late = LateThread(monkeypatch, kind, after=kind is Call.BEGIN)
            task = asyncio.create_task(block(b"cancelled"))
            await kafka_cluster.wait_until_async(late.has_stopped.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            asyncio.get_running_loop().call_later(0.05, late.may_continue.set)
            await block(b"next")

    run(program())
    first = [] if kind is Call.BEGIN else [b"cancelled"] * 2
    wait_for_committed(kafka_cluster, [*first, b"next", b"next"])


def test_call_by_hand_begins_after_the_end_of_a_cancelled_one(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t"
        ) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("orders", b"first", partition=0)
            late = LateThread(monkeypatch, Call.COMMIT, after=False)
            task = asyncio.create_task(producer.commit_transaction())
            await kafka_cluster.wait_until_async(late.has_stopped.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            again = asyncio.create_task(producer.commit_transaction())
            await asyncio.sleep(0.05)
            assert not again.done()
            late.may_continue.set()
            await again
            await producer.begin_transaction()
            await producer.send("orders", b"second", partition=0)
            await producer.commit_transaction()

    run(program())
    wait_for_committed(kafka_cluster, [b"first", b"second"])


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_end_of_a_cancelled_task_succeeds_when_called_again(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """It raised IllegalState if the helper thread was ahead of the cancellation."""

    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t"
        ) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("orders", b"first", partition=0)
            late = LateThread(monkeypatch, Call(end), after=True)
            task = asyncio.create_task(getattr(producer, end)())
            await kafka_cluster.wait_until_async(late.has_stopped.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            late.may_continue.set()
            await getattr(producer, end)()
            with pytest.raises(IllegalState):  # the second time there is no transaction
                await getattr(producer, end)()
            async with producer.transaction():
                await producer.send("orders", b"second", partition=0)

    run(program())
    first = [b"first"] if end == "commit_transaction" else []
    wait_for_committed(kafka_cluster, [*first, b"second"])


def test_init_of_a_cancelled_task_succeeds_when_called_again(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t"
        ) as producer:
            late = LateThread(monkeypatch, Call.INIT, after=True)
            task = asyncio.create_task(producer.init_transactions())
            await kafka_cluster.wait_until_async(late.has_stopped.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            late.may_continue.set()
            await producer.init_transactions()
            with pytest.raises(IllegalState):
                await producer.init_transactions()
            async with producer.transaction():
                await producer.send("orders", b"first", partition=0)

    run(program())
    wait_for_committed(kafka_cluster, [b"first"])


def test_error_at_the_end_of_the_block_is_a_note_of_the_error_of_the_block(
    kafka_cluster: KafkaCluster,
) -> None:
    async def block(has_bug: bool) -> None:
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            await producer.partitions_for("orders")
            kafka_cluster.controls.fail_next(ProduceRequest, TopicAuthorizationFailed)
            await producer.send("orders", b"v", partition=0)
            if has_bug:
                raise ZeroDivisionError

    with pytest.raises(TopicAuthorizationFailed):
        run(block(has_bug=False))
    with pytest.raises(ZeroDivisionError) as raised:
        run(block(has_bug=True))
    assert "while the producer was closed: TopicAuthorizationFailed" in raised.value.__notes__[0]


def test_on_delivery_of_send_many_runs_on_the_loop(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        where: list[Any] = []

        def on_delivery(batch: Any, error: Any) -> None:
            where.append((asyncio.get_running_loop(), error))

        async def never_awaited(batch: Any, error: Any) -> None: ...

        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            await (await producer.send_many("orders", [b"a"], partition=0, on_delivery=on_delivery))
            await asyncio.sleep(0)
            with pytest.raises(IllegalArgument, match="it is async"):
                await producer.send_many("orders", [b"a"], on_delivery=never_awaited)  # type: ignore[arg-type]
        assert where == [(asyncio.get_running_loop(), None)]

    run(program())


def test_dropped_deliveries_of_a_partition_that_keeps_failing_are_logged_once(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
        await producer.partitions_for("orders")
        kafka_cluster.controls.fail_next(ProduceRequest, TopicAuthorizationFailed, times=3)
        for _ in range(3):
            delivery = await producer.send("orders", b"v", partition=0)
            while not delivery.done():
                await asyncio.sleep(0.001)
            del delivery
        await producer.send_and_wait("orders", b"v", partition=0)
        with pytest.raises(TopicAuthorizationFailed):
            await producer.close()

    with caplog.at_level(logging.ERROR):
        run(program())
    assert len([one for one in caplog.records if "orders-0" in one.getMessage()]) == 1
