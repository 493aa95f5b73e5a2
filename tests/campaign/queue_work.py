"""The applications of the scenario `queues`: they handle records, fast or slow, and decide about each.

Three ways: `with record:` blocks, `acknowledge()` with commits, and implicit acceptance by the next poll().
Members close, crash, stall beyond their locks, and begin again.  Others are asyncio applications, which
handle each record in a task of its own, and cancel some.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2 import aio
from pykafka2.broker.share.state_changes import ACCEPT, REJECT
from pykafka2.errors import IllegalState, InvalidRecordState, KafkaError
from pykafka2.share.records import AcknowledgeType, Reject
from tests.campaign.queue_evidence import RecordKey

if TYPE_CHECKING:
    from pykafka2.share.consumer import KafkaShareConsumer
    from pykafka2.share.records import ShareRecord
    from pykafka2.testing.simulation.sync import SimEvent
    from pykafka2.testing.simulation.world import World
    from pykafka2.types import TopicPartition

    AnyConsumer = KafkaShareConsumer[Any, Any] | aio.KafkaShareConsumer[Any, Any]

BLOCKS, EXPLICIT, IMPLICIT = "blocks", "explicit", "implicit"
WAYS = (BLOCKS, BLOCKS, EXPLICIT, EXPLICIT, IMPLICIT)
LOST = (InvalidRecordState, IllegalState)
"""A record whose lock was lost before its handler began, or ended."""

PATIENCE = 3.0


class _Failure(Exception):
    """The error of a handler."""


@attrs.define
class Diary:
    """The knowledge of applications: decisions by record, and what their clients reported as confirmed."""

    decisions: dict[RecordKey, set[tuple[str, int]]] = attrs.field(factory=dict)
    """Member id and type."""
    confirmed: list[tuple[str, RecordKey]] = attrs.field(factory=list)
    handled: int = 0

    def decide(self, group: str, member: str, record: ShareRecord[Any, Any], kind: int) -> None:
        """Note a decision, before the client learns of it."""
        self.handled += 1
        self.decisions.setdefault(key_of(group, record), set()).add((member, kind))

    def watch(self, consumer: AnyConsumer, group: str) -> None:
        """Note what this consumer confirms."""
        member = member_id(consumer)

        def called(offsets: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
            if error is None:
                self.confirmed += [
                    (member, RecordKey(group, *place, offset))
                    for place in offsets
                    for offset in offsets[place]
                ]

        consumer.set_acknowledgement_commit_callback(called)


def key_of(group: str, record: ShareRecord[Any, Any]) -> RecordKey:
    return RecordKey(group, record.topic, record.partition, record.offset)


def member_id(consumer: AnyConsumer) -> str:
    return consumer._core.membership.member_id


def drawn_options(draw: Random, way: str) -> dict[str, Any]:
    """Options of a single member."""
    return {
        "share_acknowledgement_mode": "implicit" if way == IMPLICIT else "explicit",
        "share_acquire_mode": draw.choice(["batch_optimized", "record_limit"]),
        "max_poll_records": draw.choice([1, 4, 4, 500]),
        "max_renew_ms": draw.choice([0, 300_000]),
        "max_poll_interval_ms": draw.choice([4000, 300_000]),
        "fetch_max_wait_ms": draw.choice([100, 500]),
        "request_timeout_ms": draw.choice([1000, 3000]),
        "retry_backoff_ms": draw.choice([20, 100, 100]),
        "metadata_max_age_ms": draw.choice([1000, 3000]),
    }


class Application:
    """One application with a share consumer, in life after life."""

    def __init__(
        self,
        world: World,
        stop: SimEvent,
        diary: Diary,
        name: str,
        group: str,
        topic: str,
        lock_seconds: float,
    ) -> None:
        self.name = name
        self.lives = 0
        self.failures = 0
        self._world = world
        self._stop = stop
        self._diary = diary
        self._group = group
        self._topic = topic
        self._lock_seconds = lock_seconds
        self._random = Random(f"{world.simulation.seed}/{name}")
        self._slow_share = self._random.choice([0.0, 0.04, 0.04, 0.3])
        """How many records in one are handled slowly."""

    def _handling_time(self) -> float:
        """Mostly short; at times longer than a lock."""
        if self._random.random() < self._slow_share:
            return self._lock_seconds * self._random.choice([0.7, 1.3, 2.2])
        return self._random.choice([0.0, 0.01, 0.05])

    def _decide_in_block(self, consumer: AnyConsumer, record: ShareRecord[Any, Any]) -> None:
        """Decide at the end of a `with record:` block, and raise if the record is not accepted."""
        chance = self._random.random()
        if chance < 0.15:
            raise _Failure
        kind = REJECT if chance < 0.25 else ACCEPT
        self._diary.decide(self._group, member_id(consumer), record, kind)
        if kind == REJECT:
            raise Reject


class Member(Application):
    """An application with threads; `run` is an actor."""

    _way = BLOCKS
    _consumer: KafkaShareConsumer[Any, Any] | None = None

    def run(self) -> None:
        """The actor's body."""
        while not self._stop.is_set():
            try:
                if self._consumer is None:
                    self._consumer = self._begin()
                self._turn(self._consumer)
            except KafkaError as error:
                self._world.simulation.note(f"{self.name}: {error!r}")
                self.failures += 1
                self._end(timeout=self._random.choice([0.0, 1.0]))
                self._rest(self._random.choice([0.1, 1.0]))
        self._end(timeout=PATIENCE)

    def _begin(self) -> KafkaShareConsumer[Any, Any]:
        simulation = self._world.simulation
        self.lives += 1
        self._way = self._random.choice(WAYS)
        consumer = simulation.share_consumer(
            self._world.cluster, self._topic, group_id=self._group, **drawn_options(self._random, self._way)
        )
        self._diary.watch(consumer, self._group)
        simulation.note(f"{self.name} begins as {simulation.last_client}, {member_id(consumer)}: {self._way}")
        return consumer

    def _turn(self, consumer: KafkaShareConsumer[Any, Any]) -> None:
        polled = consumer.poll(timeout_ms=300)
        if self._way == IMPLICIT:
            for records in polled.values():
                for record in records:
                    self._diary.decide(self._group, member_id(consumer), record, ACCEPT)
        chance = self._random.random()
        if chance < 0.02:
            self._crash(consumer)
        elif chance < 0.05:
            self._end(timeout=self._random.choice([0.0, PATIENCE]))
        elif polled:
            self._handle_all(consumer, [record for records in polled.values() for record in records])

    def _handle_all(
        self, consumer: KafkaShareConsumer[Any, Any], records: list[ShareRecord[Any, Any]]
    ) -> None:
        if self._way == IMPLICIT:
            self._rest(self._handling_time())
            return
        handle = self._in_block if self._way == BLOCKS else self._explicitly
        for record in records:
            with suppress(*LOST):
                handle(consumer, record)
        chance = self._random.random()
        if chance < 0.3:
            consumer.commit(timeout_ms=1000)
        elif chance < 0.5:
            consumer.commit_async()
        elif chance < 0.55:
            self._end(timeout=PATIENCE)  # which sends what was decided

    def _in_block(self, consumer: KafkaShareConsumer[Any, Any], record: ShareRecord[Any, Any]) -> None:
        with suppress(_Failure), record:
            self._rest(self._handling_time())
            self._decide_in_block(consumer, record)

    def _explicitly(self, consumer: KafkaShareConsumer[Any, Any], record: ShareRecord[Any, Any]) -> None:
        self._rest(self._handling_time())
        chance = self._random.random()
        if chance < 0.08:
            return  # its lock will expire
        if chance < 0.2:
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
            return
        if chance < 0.3:
            consumer.acknowledge(record, AcknowledgeType.RENEW)
            consumer.commit(timeout_ms=1000)
            self._rest(0.8 * self._lock_seconds)
        kind = AcknowledgeType.REJECT if chance > 0.9 else AcknowledgeType.ACCEPT
        self._diary.decide(self._group, member_id(consumer), record, kind)
        consumer.acknowledge(record, kind)

    def _crash(self, consumer: KafkaShareConsumer[Any, Any]) -> None:
        """End like a process that is killed: it neither acknowledges nor leaves."""
        self._world.simulation.note(f"{self.name} crashes")
        consumer._core.cluster.close(0)
        self._consumer = None

    def _end(self, timeout: float) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(KafkaError):
                consumer.close(timeout=timeout)

    def _rest(self, seconds: float) -> None:
        if seconds and not self._stop.is_set():
            self._stop.wait(seconds)


class AioMember(Application):
    """An application with an event loop; `run` is the coroutine of an actor."""

    async def run(self) -> None:
        while not self._stop.is_set():
            self.lives += 1
            place = f"{self.name}-{self.lives}"
            try:
                async with self._begin(place) as consumer:
                    await self._live(consumer, self._world.now + self._random.uniform(1.0, 8.0))
            except KafkaError as error:
                self._world.simulation.note(f"{place}: {error!r}")
                self.failures += 1
                await asyncio.sleep(self._random.choice([0.1, 1.0]))

    def _begin(self, place: str) -> aio.KafkaShareConsumer[Any, Any]:
        consumer: aio.KafkaShareConsumer[Any, Any] = aio.KafkaShareConsumer(
            self._topic,
            bootstrap_servers=self._world.cluster.bootstrap_servers,
            client_id=place,
            group_id=self._group,
            runtime=self._world.simulation.runtime.at(place),
            **drawn_options(self._random, BLOCKS),
        )
        self._diary.watch(consumer, self._group)
        self._world.simulation.note(f"{place} begins: {member_id(consumer)}")
        return consumer

    async def _live(self, consumer: aio.KafkaShareConsumer[Any, Any], until: float) -> None:
        while not self._stop.is_set() and self._world.now < until:
            polled = await consumer.poll(timeout_ms=300)
            async with asyncio.TaskGroup() as tasks:
                for records in polled.values():
                    for record in records:
                        tasks.create_task(self._handle(consumer, record))
            if self._random.random() < 0.3:
                await consumer.commit(timeout_ms=1000)

    async def _handle(
        self, consumer: aio.KafkaShareConsumer[Any, Any], record: ShareRecord[Any, Any]
    ) -> None:
        patience = self._lock_seconds * self._random.choice([0.5, 3.0])
        with suppress(_Failure, TimeoutError, *LOST):
            async with asyncio.timeout(patience), record:
                await asyncio.sleep(self._handling_time())
                self._decide_in_block(consumer, record)
