"""The asyncio share consumer: worker tasks, cancellation, renewal, and what it shares with the sync one."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

import pytest

from pykafka2 import Reject, ShareRecord, aio
from pykafka2.errors import ConsumerStopped
from pykafka2.testing import KafkaCluster
from tests.aio.running import run
from tests.share.world import QUICK, TOPICS, configure, fill

P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test that is a coroutine."""

    @functools.wraps(test)
    def run_test(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return run_test


quick = pytest.mark.kafka(brokers=2, topics=TOPICS, config=QUICK)


def member(cluster: KafkaCluster, **options: Any) -> aio.KafkaShareConsumer[bytes, bytes]:
    values: dict[str, Any] = {"fetch_max_wait_ms": 50, "share_acknowledgement_mode": "explicit", **options}
    return aio.KafkaShareConsumer(
        *TOPICS, group_id="g", bootstrap_servers=cluster.bootstrap_servers, **values
    )


async def work(
    consumer: aio.KafkaShareConsumer[bytes, bytes], handled: list[tuple[str, bytes]], goal: int
) -> None:
    """Handle records until so many are done; the first delivery of b"1" fails, and b"2" is rejected."""
    while len(handled) < goal:
        try:
            async for record in consumer:
                async with record:
                    await asyncio.sleep(0.001)
                    if record.value == b"1" and record.delivery_count == 1:
                        raise ValueError("try again")
                    handled.append((record.topic, record.value or b""))
                    if record.value == b"2":
                        raise Reject("never")
        except ValueError:
            continue


@pytest.mark.gate
@quick
@in_loop
async def test_tasks_of_two_consumers_share_the_queue_and_handle_each_record(
    kafka_cluster: KafkaCluster,
) -> None:
    configure(kafka_cluster)
    sent = fill(kafka_cluster, 10)
    handled: list[tuple[str, bytes]] = []
    options = {"consumer_timeout_ms": 200, "max_poll_records": 5}
    async with member(kafka_cluster, **options) as one, member(kafka_cluster, **options) as two:
        await asyncio.gather(*(work(each, handled, len(sent)) for each in (one, two) for _ in range(3)))
        for each in (one, two):
            assert set((await each.commit()).values()) <= {None}
        assert sorted(handled) == sorted(sent)
        assert "stable" in str(one.health()["group"])
    with pytest.raises(ConsumerStopped):
        await one.poll()


@pytest.mark.gate
@quick
@in_loop
async def test_close_ends_pending_polls_and_iterations(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    one, two = member(kafka_cluster), member(kafka_cluster)

    async def iterate() -> int:
        return len([record async for record in two])

    polling, iterating = asyncio.create_task(one.poll(60_000)), asyncio.create_task(iterate())
    await asyncio.sleep(0.05)
    await asyncio.gather(one.close(), two.close())
    with pytest.raises(ConsumerStopped):
        await polling
    assert await iterating == 0


@pytest.mark.gate
@quick
@in_loop
async def test_only_finished_handlers_accept_under_generated_cancellations(
    kafka_cluster: KafkaCluster,
) -> None:
    """A task is cancelled at a random step; its record comes back, and every record is accepted once."""
    configure(kafka_cluster, share_delivery_count_limit=10)
    sent = fill(kafka_cluster, 30)
    rng = random.Random(50)
    finished: dict[tuple[str, bytes | None], int] = {}
    handling: list[ShareRecord[bytes, bytes]] = []
    interrupted = 0

    async def handle(consumer: aio.KafkaShareConsumer[bytes, bytes], steps: int) -> None:
        async for record in consumer:
            async with record:
                handling.append(record)
                try:
                    for _ in range(steps):
                        await asyncio.sleep(0.0005)
                finally:
                    handling.remove(record)
            place = (record.topic, record.value)
            finished[place] = finished.get(place, 0) + 1  # no suspension since the block ended

    options = {"max_poll_records": 20}
    async with member(kafka_cluster, **options) as one, member(kafka_cluster, **options) as two:
        while len(finished) < len(sent):
            tasks = [asyncio.create_task(handle(each, rng.randrange(4, 12))) for each in (one, two)]
            for _ in range(200):
                if handling or len(finished) == len(sent):
                    break
                await asyncio.sleep(0.001)
            for _ in range(rng.randrange(12)):
                await asyncio.sleep(0.0005)
            while any(record.delivery_count > 6 for record in handling):
                await asyncio.sleep(0.001)  # it must not reach the limit of deliveries
            interrupted += len(handling)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert all(task.cancelled() for task in tasks)
        for each in (one, two):
            assert set((await each.commit()).values()) <= {None}
        assert {*finished} == sent
        assert set(finished.values()) == {1}
        assert interrupted >= 40  # test_share_cancellation.py has 300
