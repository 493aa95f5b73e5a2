"""Tasks of the asyncio share consumer, cancelled at each await point in virtual time.

A record is accepted only if its handler ended normally, and none is lost.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from random import Random
from typing import Any

import pytest

from pykafka2 import ShareRecord
from pykafka2.admin.config_values import ConfigResource, ConfigResourceType
from pykafka2.aio import KafkaAdminClient, KafkaProducer, KafkaShareConsumer
from pykafka2.errors import GroupIdNotFound
from pykafka2.share.records import AcknowledgeType
from pykafka2.testing import KafkaCluster, Simulation, Topic
from tests.aio.cancelling import Conditions, attempts, conditions
from tests.gate import rest_in_long

TOPICS = ("jobs", "mails")
CONFIG = {
    "share.coordinator.state.topic.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 100,
    "group.share.min.record.lock.duration.ms": 1000,
}
OPTIONS = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": "4000",
    "share.delivery.count.limit": "10",
}
GROUP = "workers"
RECORDS = 60
"""Records of each topic in a batch of work, which is sent again when few are left."""
LAST_TRIES = 6
"""Deliveries after which a handler does not wait, so that no record reaches the limit of deliveries."""

Place = tuple[str, int, int]


class Work:
    """A cluster, its share group, and the records whose handlers ended."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.cluster: KafkaCluster = simulation.cluster(
            2, {topic: Topic(1, 2) for topic in TOPICS}, config=CONFIG
        )
        self.done: Counter[Place] = Counter()
        self.sent = 0
        self._numbers = count()
        self.is_explicit = True

    def options(self) -> dict[str, Any]:
        runtime = self.simulation.runtime.at(f"client-{next(self._numbers)}")
        return {"bootstrap_servers": self.cluster.bootstrap_servers, "runtime": runtime}

    async def prepare(self) -> None:
        async with KafkaAdminClient(**self.options()) as admin:
            await admin.alter_configs({ConfigResource(ConfigResourceType.GROUP, GROUP): OPTIONS})

    async def send_more(self) -> None:
        """Send records unless enough are left."""
        if len(TOPICS) * self.sent - len(self.done) < 20:
            async with KafkaProducer(**self.options()) as producer:
                for topic in TOPICS:
                    await producer.send_many(topic, [b"work"] * RECORDS)
            self.sent += RECORDS

    def consumer(self, **options: Any) -> KafkaShareConsumer[bytes, bytes]:
        return KafkaShareConsumer(
            *TOPICS,
            group_id=GROUP,
            share_acknowledgement_mode="explicit",
            consumer_timeout_ms=500,
            max_poll_records=4,
            fetch_max_wait_ms=100,
            **self.options(),
            **options,
        )

    async def handle(self, record: ShareRecord[Any, Any]) -> None:
        async with record:
            if record.delivery_count < LAST_TRIES:
                await asyncio.sleep(0.01)
                await asyncio.sleep(0)
        self.done[place_of(record)] += 1  # nothing suspends the task between the block's end and here

    def accepted(self) -> set[Place]:
        """Return the records that the leaders have as accepted; nothing is ever rejected here."""
        found: set[Place] = set()
        for topic in TOPICS:
            try:
                view = self.cluster.share_partition(GROUP, (topic, 0))
            except GroupIdNotFound:  # no member has fetched from it yet
                continue
            offsets = [*range(view.start_offset), *view.offsets("ACKNOWLEDGED")]
            found.update((topic, 0, offset) for offset in offsets)
        return found

    def check(self) -> None:
        assert self.accepted() <= {*self.done}
        assert {*self.done.values()} <= {1}

    async def finish(self) -> None:
        """Handle what is left; then every record is accepted, and was handled once."""
        total = len(TOPICS) * self.sent
        async with self.consumer() as consumer:
            while len(self.done) < total:
                async for record in consumer:
                    await self.handle(record)
            await consumer.commit()
        self.check()
        assert len(self.accepted()) == total


def place_of(record: ShareRecord[Any, Any]) -> Place:
    return record.topic, record.partition, record.offset


Scenario = Callable[[Work], Awaitable[int]]


async def iterations(work: Work) -> int:
    """Cancel a worker at each step of an iteration and of its handlers."""
    cases = 0
    async with work.consumer() as consumer:

        async def handle_two() -> None:
            left = 2
            async for record in consumer:
                await work.handle(record)
                left -= 1
                if not left:
                    return

        async for attempt in attempts(handle_two, work.send_more):
            assert attempt.error is None
            cases += attempt.is_reached
            work.check()
    return cases


async def polls_and_commits(work: Work) -> int:
    """Cancel a poll, the work on its records, and the commit of the acknowledgements."""
    cases = 0
    async with work.consumer() as consumer:
        held: list[ShareRecord[Any, Any]] = []

        async def take_some() -> None:
            for records in (await consumer.poll(500, 3)).values():
                held.extend(records)
            for record in [*held]:
                if record.delivery_count < LAST_TRIES:
                    await asyncio.sleep(0.01)
                consumer.acknowledge(record)
                held.remove(record)
                work.done[place_of(record)] += 1
            await consumer.commit()

        async for attempt in attempts(take_some, work.send_more):
            assert attempt.error is None
            cases += attempt.is_reached
            for record in held:
                consumer.acknowledge(record, AcknowledgeType.RELEASE)
            held.clear()
            work.check()
        assert set((await consumer.commit()).values()) <= {None}
    return cases


async def closes(work: Work) -> int:
    """Cancel close() while records are decided, are in a block, and wait for their handlers."""
    cases = 0
    consumers: list[KafkaShareConsumer[bytes, bytes]] = []

    async def take() -> None:
        await work.send_more()
        # Each close releases all acquired records, which must not reach the limit of deliveries unseen.
        consumer = work.consumer(share_acquire_mode="record_limit")
        consumers.append(consumer)
        found: list[ShareRecord[Any, Any]] = []
        for _ in range(20):
            found += [record for of in (await consumer.poll(500, 4)).values() for record in of]
            if len(found) >= 3:
                break
        consumer.acknowledge(found[0])
        work.done[place_of(found[0])] += 1
        for record in found[1:]:
            if record.delivery_count >= LAST_TRIES:
                await work.handle(record)

    async for attempt in attempts(lambda: consumers[-1].close(), take):
        assert attempt.error is None
        cases += attempt.is_reached
        await consumers[-1].close()
        work.check()
    return cases


LEAST: dict[Scenario, int] = {iterations: 66, polls_and_commits: 66, closes: 18}
"""The scenarios, and how many cancellations each has with every seed: 300 with two seeds."""


def play(seed: int, scenario: Scenario, least: int) -> int:
    """Play a scenario until it has had so many cancellations; return their number."""
    chosen = Random(f"{seed}/cancellations")
    with Simulation(seed, watchdog=60.0) as simulation:
        work = Work(simulation)

        async def program() -> int:
            delays = [0.0, 0.001, 0.002, 0.01, 0.1]
            conditions.set(Conditions(300.0, lambda: chosen.choice(delays)))
            await work.prepare()
            cases = 0
            while cases < least:
                cases += await scenario(work)
            await work.finish()
            return cases

        return simulation.run(program)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_in_long([1, 2]))
@pytest.mark.parametrize("scenario", LEAST, ids=lambda scenario: scenario.__name__)
def test_cancellations_accept_only_records_of_finished_handlers(scenario: Scenario, seed: int) -> None:
    assert play(seed, scenario, LEAST[scenario]) >= LEAST[scenario]
