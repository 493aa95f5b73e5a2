"""Asyncio applications of the aio scenario, whose calls are cancelled: senders, copiers, readers.

Each is a task of some event loop. What the application itself can see is checked here, into `problems`; what
only the logs can tell is in aio_story.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from pykafka2.aio import KafkaConsumer, KafkaProducer
from pykafka2.errors import ClientClosed, KafkaError, RecordPurged
from pykafka2.testing.simulation.history import FAILED, OK, OPEN, UNKNOWN
from pykafka2.testing.simulation.world import GROUP_ID, World
from pykafka2.types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from tests.campaign.copy_story import INPUT, OUTPUT, PATIENCE, TOPICS, TRANSACTION_TIMEOUT_MS, copy_of
from tests.campaign.producer_lives import outcome_of

if TYPE_CHECKING:
    from pykafka2.producer.delivery.delivery import Delivery
    from pykafka2.testing.simulation.sync import SimEvent

T = TypeVar("T")

READERS = "readers"
REFUSED = "refused"
"""The outcome of a send that was cancelled: the record must not be in the log."""

DELAYS = (0.0, 0.0, 0.0, 0.0003, 0.001, 0.005, 0.02, 0.2, 1.0)
"""Seconds after which a call is cancelled; 0 is within its first few passes of the loop."""


class CallWasCancelled(Exception):
    """The application has cancelled its own call."""


class Application:
    """One of them: its place in the network, its random decisions, and its cancellations."""

    kind = ""

    def __init__(self, world: World, stop: SimEvent, done: SimEvent, number: int, cancels: float) -> None:
        self.name = f"{self.kind}-{number}"
        self.problems: list[str] = []
        self.lives = 0
        self.cancelled = 0
        self.failures = 0
        self._world = world
        self._stop = stop
        self._done = done
        self._cancels = cancels
        self._random = Random(f"{world.simulation.seed}/{self.name}")

    def options(self, what: str) -> dict[str, Any]:
        """Options of this life's client, in a process of its own."""
        place = f"{self.name}-{what}-{self.lives}"
        if place not in self._world.clients:
            self._world.clients.append(place)
        return {
            "bootstrap_servers": self._world.cluster.bootstrap_servers,
            "client_id": place,
            "runtime": self._world.simulation.runtime.at(place),
        }

    def note(self, text: object) -> None:
        self._world.simulation.note(f"{self.name}: {text}")

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a call, or cancel it. Raises CallWasCancelled."""
        random = self._random
        # In peace rarely: an application that cancels most of its calls comes to no end.
        if random.random() >= self._cancels * (0.2 if self._stop.is_set() else 1.0):
            return await coroutine
        delay = random.choice(DELAYS)
        if delay and random.random() < 0.5:
            return await self._within(delay, coroutine)
        task = asyncio.ensure_future(coroutine)
        if delay:
            await asyncio.wait([task], timeout=delay)
        else:
            for _ in range(random.randint(0, 8)):
                await asyncio.sleep(0)
        task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            self.cancelled += 1
            raise CallWasCancelled from None

    async def _within(self, delay: float, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(delay):
                return await coroutine
        except KafkaError:
            raise
        except TimeoutError:
            self.cancelled += 1
            raise CallWasCancelled from None

    async def in_any_case(self, call: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Make a call that can be cancelled, and again until it was not. Kafka's errors are noted."""
        while True:
            try:
                await self.call(call())
            except CallWasCancelled:
                continue
            except KafkaError as error:
                self.note(repr(error))
            return

    async def rest(self, seconds: float) -> None:
        """Sleep, or in peace not at all."""
        if not self._stop.is_set():
            await asyncio.sleep(seconds)

    def block_the_loop(self, seconds: float) -> None:
        """Stop all tasks of the loop, as a computation does."""
        if not self._stop.is_set():
            self.note(f"blocks the loop for {seconds:g} s")
            self._world.simulation.sleep(seconds)


class Member(Application):
    """An application with a consumer in a group; `options` are those of all members."""

    def __init__(
        self,
        world: World,
        stop: SimEvent,
        done: SimEvent,
        number: int,
        cancels: float,
        options: dict[str, Any],
    ) -> None:
        super().__init__(world, stop, done, number, cancels)
        self._options = options


# ---------------------------------------------------------------------- sending


@attrs.define(eq=False)
class Record:
    """A record that a sender has sent, and its outcome."""

    place: TopicPartition
    value: bytes
    outcome: str = OPEN
    offset: int = -1
    error: str = ""

    def end(self, error: KafkaError) -> None:
        """Set the outcome that this error of a delivery means."""
        self.outcome = FAILED if isinstance(error, RecordPurged) else outcome_of(error)
        self.error = repr(error)


class Sender(Application):
    """Tasks that send to the input with one producer, one after another."""

    kind = "sender"

    def __init__(self, world: World, stop: SimEvent, done: SimEvent, number: int, cancels: float) -> None:
        super().__init__(world, stop, done, number, cancels)
        self.records: list[Record] = []
        self.is_over = False
        self._waiting: list[tuple[Record, Delivery]] = []
        self._tasks = self._random.choice([1, 2, 4])
        self._producer: KafkaProducer[Any, Any]

    async def run(self) -> None:
        while not self._stop.is_set():
            await self._live(self._random.uniform(2.0, 20.0))
        self.is_over = True

    async def _live(self, seconds: float) -> None:
        random = self._random
        self.lives += 1
        is_small = random.random() < 0.3
        request_timeout_ms = random.choice([500, 1000, 3000])
        producer: KafkaProducer[Any, Any] = KafkaProducer(
            **self.options("producer"),
            linger_ms=random.choice([0, 5, 50]),
            batch_size=random.choice([0, 200, 16_384]),
            buffer_memory=3000 if is_small else 33_554_432,
            max_block_ms=random.choice([100, 2000, 60_000]),
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_ms=request_timeout_ms + random.choice([1000, 10_000, 60_000]),
            metadata_max_age_ms=random.choice([1000, 300_000]),
        )
        self._producer = producer
        until = self._world.now + seconds
        async with asyncio.TaskGroup() as group:
            for _ in range(self._tasks):
                group.create_task(self._send_until(until))
        if random.random() < 0.7:
            await self.in_any_case(lambda: producer.flush(60))
            await self._settle()
            health = producer.health()
            free, total = health["buffer_available_bytes"], producer.metrics()["buffer-total-bytes"]
            if free != total and not health["requests_in_flight"]:
                self.problems.append(f"{self.name}: {free} bytes of {total:g} are free")
        close_timeout = random.choice([0.0, 1.0, 60.0])
        await self.in_any_case(lambda: producer.close(close_timeout))
        await self._settle()

    async def _send_until(self, until: float) -> None:
        random = self._random
        while not self._stop.is_set() and self._world.now < until:
            for _ in range(random.randint(1, 5)):
                with suppress(CallWasCancelled):
                    try:
                        await self._send()
                    except KafkaError as error:
                        self.note(repr(error))
            await self.rest(random.expovariate(2.0))

    async def _send(self) -> None:
        random, producer = self._random, self._producer
        chance = random.random()
        if chance < 0.05:
            await self.call(producer.flush(random.choice([0.05, 1.0])))
        elif chance < 0.07:
            await self.call(producer.purge())
        elif chance < 0.10:
            await self.call(producer.partitions_for(INPUT))
        elif chance < 0.18:
            await self._send_many()
        elif chance < 0.35:
            await self._send_and_wait(self._record())
        else:
            await self._send_one(self._record())

    def _record(self, partition: int | None = None) -> Record:
        if partition is None:
            partition = self._random.randrange(TOPICS[INPUT])
        padding = "." * self._random.choice([0, 20, 900])
        value = f"{self.name}/{len(self.records)}{padding}".encode()
        record = Record(TopicPartition(INPUT, partition), value)
        self.records.append(record)
        return record

    async def _send_one(self, record: Record) -> None:
        sending = self._producer.send(INPUT, record.value, partition=record.place.partition)
        try:
            delivery = await self.call(sending)
        except BaseException as error:
            record.outcome, record.error = REFUSED, repr(error)
            raise
        self._waiting.append((record, delivery))

    async def _send_and_wait(self, record: Record) -> None:
        record.outcome = UNKNOWN
        sending = self._producer.send_and_wait(INPUT, record.value, partition=record.place.partition)
        metadata = await self.call(sending)
        record.outcome, record.offset = OK, metadata.offset

    async def _send_many(self) -> None:
        partition = self._random.randrange(TOPICS[INPUT])
        rows = [self._record(partition) for _ in range(self._random.randint(2, 20))]
        for row in rows:
            row.outcome = UNKNOWN
        delivery = await self.call(
            self._producer.send_many(INPUT, [row.value for row in rows], partition=partition)
        )
        if self._random.random() < 0.5:
            return

        async def written() -> None:
            await delivery

        await self.call(written())
        for part in delivery.written():
            for place, number in enumerate(part.rows):
                rows[number].outcome, rows[number].offset = OK, part.base_offset + place

    async def _settle(self) -> None:
        """Await what was sent; awaits that are cancelled are repeated."""
        waiting, self._waiting = self._waiting, []
        for record, delivery in waiting:
            while True:
                try:
                    metadata = await self.call(_result(delivery))
                except CallWasCancelled:
                    continue
                except KafkaError as error:
                    record.end(error)
                else:
                    record.outcome, record.offset = OK, metadata.offset
                break


async def _result(delivery: Delivery) -> Any:
    return await delivery


# ---------------------------------------------------------------------- copying


class Copier(Member):
    """Copies its share of the input in transactions, whose calls are cancelled (copy_story.py)."""

    kind = "copier"

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self.commits = 0
        self._consumer: KafkaConsumer[Any, Any] | None = None
        self._producer: KafkaProducer[Any, Any] | None = None
        self._abandoned: list[Any] = []
        self._ending: str = ""
        """The call by hand that has begun to end a transaction."""

    async def run(self) -> None:
        while not self._done.is_set():
            try:
                if self._consumer is None or self._producer is None:
                    await self._begin()
                else:
                    await self._turn(self._consumer, self._producer)
            except CallWasCancelled:
                await self._go_on()
            except KafkaError as error:
                self.note(repr(error))
                self.failures += 1
                await self._go_on()
        await self._end(PATIENCE)
        for client in self._abandoned:
            with suppress(KafkaError):
                await client.close(timeout=0)

    async def _begin(self) -> None:
        self.lives += 1
        self._ending = ""
        producer: KafkaProducer[Any, Any] = KafkaProducer(
            **self.options("producer"),
            transactional_id=f"id-of-{self.name}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_block_ms=PATIENCE * 1000,
            request_timeout_ms=1000,
            delivery_timeout_ms=self._random.choice([3000, 6000]),
        )
        self._producer = producer
        try:
            await self.call(producer.init_transactions())
        except CallWasCancelled:
            await producer.init_transactions()
        consumer: KafkaConsumer[Any, Any] = KafkaConsumer(
            **self.options("consumer"), group_id=GROUP_ID, **self._options
        )
        consumer.subscribe([INPUT], on_assigned=self._listen, on_revoked=self._listen)
        self._consumer = consumer

    async def _listen(self, partitions: Sequence[TopicPartition]) -> None:
        await self.rest(self._random.choice([0.0, 0.01, 0.3]))

    async def _turn(self, consumer: KafkaConsumer[Any, Any], producer: KafkaProducer[Any, Any]) -> None:
        polled = await self.call(consumer.poll(timeout_ms=200))
        if not polled:
            return
        chance = self._random.random()
        if chance < 0.5:
            await self.call(self._copy_in_a_block(consumer, producer, polled))
        elif chance < 0.75:
            await self.call(self._copy_by_hand(consumer, producer, polled, ""))
        else:
            cancelled = self._random.choice(["begin", "offsets", "commit", "commit"])
            await self._copy_by_hand(consumer, producer, polled, cancelled)
        self.commits += 1

    async def _copy_in_a_block(
        self, consumer: KafkaConsumer[Any, Any], producer: KafkaProducer[Any, Any], polled: Polled
    ) -> None:
        async with producer.transaction():
            await self._copy(producer, polled)
            await self._stall()
            await producer.send_offsets_to_transaction(behind(polled), consumer.group_metadata(), PATIENCE)

    async def _copy_by_hand(
        self,
        consumer: KafkaConsumer[Any, Any],
        producer: KafkaProducer[Any, Any],
        polled: Polled,
        cancelled: str,
    ) -> None:
        """Copy with a call for each step, of which the one named `cancelled` can be cancelled."""

        async def step(name: str, call: Coroutine[Any, Any, None]) -> None:
            await (self.call(call) if name == cancelled else call)

        self._ending = "abort"
        await step("begin", producer.begin_transaction())
        await self._copy(producer, polled)
        await self._stall()
        offsets, group = behind(polled), consumer.group_metadata()
        await step("offsets", producer.send_offsets_to_transaction(offsets, group, PATIENCE))
        self._ending = "commit"
        await step("commit", producer.commit_transaction(PATIENCE))
        self._ending = ""

    async def _copy(self, producer: KafkaProducer[Any, Any], polled: Polled) -> None:
        for place, records in polled.items():
            for record in records:
                copy = copy_of(place, record)
                await producer.send(OUTPUT, copy, partition=place.partition % TOPICS[OUTPUT])

    async def _stall(self) -> None:
        chance = self._random.random()
        seconds = self._options["max_poll_interval_ms"] / 1000 * self._random.choice([0.2, 0.5, 1.5])
        if chance < 0.02:
            self.block_the_loop(seconds)
        elif chance < 0.04:
            await self.rest(seconds)

    async def _go_on(self) -> None:
        """Abort, and read again from where the group stands; or leave it all to another life."""
        consumer, producer = self._consumer, self._producer
        if consumer is not None and producer is not None and self._random.random() < 0.7:
            try:
                await self._end_by_hand(producer)
                await self.call(self._rewind(consumer))
            except CallWasCancelled:
                pass
            except KafkaError as error:
                self.note(f"recovering: {error!r}")
            else:
                return
        await self._end(self._random.choice([0.0, 1.0]))
        await self.rest(self._random.choice([0.1, 1.0]))

    async def _end_by_hand(self, producer: KafkaProducer[Any, Any]) -> None:
        """Wait for the end that was begun. Whether there was a transaction to end shows in the offsets."""
        ending, self._ending = self._ending, ""
        try:
            if ending == "commit":
                await producer.commit_transaction(PATIENCE)
            elif ending:
                await producer.abort_transaction(PATIENCE)
        except KafkaError as error:
            self.note(f"{ending}: {error!r}")
            with suppress(KafkaError):
                await producer.abort_transaction(PATIENCE)

    async def _rewind(self, consumer: KafkaConsumer[Any, Any]) -> None:
        owned = sorted(consumer.assignment())
        committed = await consumer.committed(owned, timeout_ms=PATIENCE * 1000) if owned else {}
        for place, stands in committed.items():
            consumer.seek(place, 0 if stands is None else stands.offset)

    async def _end(self, timeout: float) -> None:
        """Close the clients, or leave them as they are: the next life fences the producer."""
        clients = [client for client in (self._consumer, self._producer) if client is not None]
        self._consumer = self._producer = None
        if self._random.random() < 0.2 and not self._stop.is_set():
            self._abandoned += clients
            return
        for client in clients:
            await self.in_any_case(lambda client=client: client.close(timeout=timeout))  # type: ignore[misc]


Polled = Mapping[TopicPartition, list[ConsumerRecord[Any, Any]]]


def behind(polled: Polled) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit."""
    return {
        place: OffsetAndMetadata(records[-1].offset + 1, "", records[-1].leader_epoch)
        for place, records in polled.items()
    }


# ---------------------------------------------------------------------- reading


class Reader(Member):
    """A member of a group of its own, which reads the input at least once in every way there is."""

    kind = "reader"

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self.read: set[tuple[TopicPartition, int]] = set()
        self._held: dict[TopicPartition, int | None] = {}
        """By partition the next offset; None before the first record."""
        self._consumer: KafkaConsumer[Any, Any]

    async def run(self) -> None:
        while not self._done.is_set():
            await self._live(self._random.uniform(2.0, 30.0))

    async def _live(self, seconds: float) -> None:
        random = self._random
        self.lives += 1
        consumer: KafkaConsumer[Any, Any] = KafkaConsumer(
            **self.options("consumer"),
            group_id=READERS,
            enable_auto_commit=random.random() < 0.6,
            auto_commit_interval_ms=random.choice([100, 1000]),
            max_poll_records=random.choice([1, 5, 500]),
            consumer_timeout_ms=200,
            **self._options,
        )
        self._consumer = consumer
        is_plain = random.random() < 0.3
        consumer.subscribe(
            [INPUT],
            on_assigned=self._take if is_plain else self._take_later,
            on_revoked=self._give if is_plain else self._give_later,
            on_lost=self._give,
        )
        until = self._world.now + seconds
        while not self._done.is_set() and self._world.now < until:
            try:
                await self._step()
            except CallWasCancelled:
                pass
            except KafkaError as error:
                self.note(repr(error))
                self.failures += 1
                await asyncio.sleep(0.1)
        timeout = random.choice([0.0, 1.0, PATIENCE])
        await self.in_any_case(lambda: consumer.close(timeout))
        with suppress(ClientClosed, KafkaError):
            await consumer.poll(0)
            self.problems.append(f"{self.name}: a closed consumer was polled")
        self._held.clear()

    async def _step(self) -> None:
        random, consumer = self._random, self._consumer
        chance = random.random()
        if chance < 0.25:
            for records in (await self.call(consumer.poll(200, random.choice([None, 3])))).values():
                self._note_read(records)
        elif chance < 0.35:
            polled = await self.call(consumer.getmany(timeout_ms=50))
            self._note_read(record for records in polled.values() for record in records)
        elif chance < 0.45:
            for place, columns in (await self.call(consumer.poll_columns(200))).items():
                for offset in columns.offsets:
                    self._note_one(place, int(offset))
        elif chance < 0.65:
            for _ in range(random.randint(1, 5)):
                self._note_read([await self.call(self._get_one())])
        elif chance < 0.8:
            await self._iterate(random.randint(1, 5))
        elif chance < 0.9:
            await self._commit()
        elif chance < 0.98:
            await self._ask()
        elif random.random() < 0.3:
            self.block_the_loop(random.choice([0.5, 3.0, 8.0]))

    async def _get_one(self) -> Any:
        try:
            async with asyncio.timeout(0.5):
                return await self._consumer.getone()
        except KafkaError:
            raise
        except TimeoutError:
            raise CallWasCancelled from None

    async def _iterate(self, count: int) -> None:
        for _ in range(count):
            try:
                self._note_read([await self.call(self._consumer.__anext__())])
            except StopAsyncIteration:
                return

    async def _commit(self) -> None:
        if self._random.random() < 0.5:
            await self.call(self._consumer.commit(timeout_ms=2000))
        else:
            await (await self.call(self._consumer.commit_async()))

    async def _ask(self) -> None:
        random, consumer = self._random, self._consumer
        if not self._held:
            await self.call(consumer.topics())
            return
        place = random.choice(sorted(self._held))
        chance = random.random()
        if chance < 0.3:
            next_offset = self._held[place]
            position = await self.call(consumer.position(place, 2000))
            if next_offset is not None and self._held.get(place) == next_offset and position < next_offset:
                self.problems.append(f"{self.name}: the position of {place} is {position}, not {next_offset}")
        elif chance < 0.5:
            await self.call(consumer.committed(place, timeout_ms=2000))
        elif chance < 0.7:
            await self.call(consumer.end_offsets([place], 2000))
        elif chance < 0.85 and self._held[place]:
            offset = max(0, (self._held[place] or 0) - random.randint(0, 3))
            consumer.seek(place, offset)
            self._held[place] = offset
        else:
            consumer.pause(place)
            await self.rest(0.05)
            consumer.resume(place)

    # ------------------------------------------------------------------ listeners

    def _take(self, partitions: Sequence[TopicPartition]) -> None:
        for place in partitions:
            if place in self._held:
                self.problems.append(f"{self.name}: {place} was assigned twice")
            self._held[place] = None

    async def _take_later(self, partitions: Sequence[TopicPartition]) -> None:
        try:
            await self.rest(self._random.choice([0.0, 0.02, 0.4]))
        finally:
            self._take(partitions)  # also if `close` cancels this listener: they are revoked next

    def _give(self, partitions: Sequence[TopicPartition]) -> None:
        for place in partitions:
            if place not in self._held:
                self.problems.append(f"{self.name}: {place} was revoked, and is not held")
            self._held.pop(place, None)

    async def _give_later(self, partitions: Sequence[TopicPartition]) -> None:
        try:
            with suppress(KafkaError):
                await self._consumer.commit(timeout_ms=500)
        finally:
            self._give(partitions)

    # ------------------------------------------------------------------ records

    def _note_read(self, records: Iterable[ConsumerRecord[Any, Any]]) -> None:
        for record in records:
            self._note_one(TopicPartition(record.topic, record.partition), record.offset)

    def _note_one(self, place: TopicPartition, offset: int) -> None:
        self.read.add((place, offset))
        if place not in self._held:
            self.problems.append(f"{self.name}: {place} at {offset} was read, and {place} is not held")
            return
        expected = self._held[place]
        if expected is not None and offset != expected:
            self.problems.append(f"{self.name}: {place} at {offset} was read, and {expected} was next")
        self._held[place] = offset + 1
