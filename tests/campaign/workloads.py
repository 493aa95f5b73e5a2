"""Clients under faults: some produce, some consume, all of it in the history.

Blocking code, as an application would write it; each runs as an actor.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from pykafka2.errors import KafkaError
from pykafka2.testing.simulation.history import FAILED, OK, UNKNOWN, Sent
from pykafka2.types import RecordMetadata, TopicPartition

if TYPE_CHECKING:
    from pykafka2.testing.simulation.sync import SimEvent
    from pykafka2.testing.simulation.world import World

# Virtual seconds within which everything must be well again once all faults are over.
RECOVERY_TIME = 60.0


class Producing:
    """Sends numbered records to every partition until stopped, then flushes."""

    def __init__(self, world: World, stop: SimEvent, seed: str, options: dict[str, Any]) -> None:
        self._world = world
        self._stop = stop
        self._random = Random(seed)
        # Busy seeds fill batches and windows; calm ones cost a third and leave room for many more seeds.
        self._rounds_per_second = self._random.choice([0.5, 1.0, 1.0, 5.0])
        self.producer = world.simulation.producer(world.cluster, **options)
        world.producers.append(self.producer)
        self.name = world.simulation.last_client
        world.clients.append(self.name)
        self.problems: list[str] = []

    def run(self) -> None:
        """The actor's body."""
        random = self._random
        while not self._stop.is_set():
            for _ in range(random.randint(1, 8)):
                self._send(*random.choice(self._world.partitions()))
            if random.random() < 0.05:
                self._flush(random.choice([0.1, 1.0, 10.0]))
            self._stop.wait(random.expovariate(self._rounds_per_second))
        self.drain()

    def drain(self) -> None:
        """Everything sent has its outcome soon after the faults are over."""
        self._flush(self._longest_delivery())
        left = sum(
            1 for sent in self._world.history.sent if sent.producer == self.name and sent.outcome == "open"
        )
        if left:
            self.problems.append(f"{self.name}: {left} sends have no outcome after flush")

    def _longest_delivery(self) -> float:
        return RECOVERY_TIME

    def _flush(self, timeout: float) -> None:
        try:
            self.producer.flush(timeout=timeout)
        except KafkaError as error:
            self._world.simulation.note(f"{self.name} flush: {error!r}")

    def _send(self, topic: str, partition: int) -> None:
        world = self._world
        number = world.history.next_number(self.name, topic, partition)
        padding = "." * self._random.choice([0, 20, 200])
        value = f"{self.name}/{topic}-{partition}/{number}{padding}".encode()
        timestamp = world.simulation.clock.of(self.name).wall_ms()
        sent = Sent(self.name, topic, partition, number, value, world.now, timestamp=timestamp)
        # Before the send: a batch may be on its way before send() returns to its caller.
        world.history.sent.append(sent)

        def on_delivery(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            sent.done_at = world.now
            if metadata is not None:
                sent.outcome, sent.offset = OK, metadata.offset
            else:
                sent.outcome, sent.error = UNKNOWN, repr(error)

        try:
            self.producer.send(
                topic, value, partition=partition, timestamp_ms=timestamp, on_delivery=on_delivery
            )
        except KafkaError as error:
            # send() raises only where nothing was appended.
            sent.outcome, sent.error = FAILED, repr(error)


class Consuming:
    """Reads all partitions from the beginning until stopped, then until it has reached the end."""

    def __init__(self, world: World, stop: SimEvent, seed: str, options: dict[str, Any]) -> None:
        self._world = world
        self._stop = stop
        self._random = Random(seed)
        self.consumer = world.simulation.consumer(world.cluster, **options)
        world.consumers.append(self.consumer)
        self.name = world.simulation.last_client
        world.clients.append(self.name)
        self.problems: list[str] = []
        self._partitions = [TopicPartition(*one) for one in world.partitions()]

    def run(self) -> None:
        """The actor's body."""
        self._take_up(self._partitions)
        while not self._stop.is_set():
            self._take_up_new()
            self._poll(self._random.choice([0, 50, 500]))
            if self._random.random() < 0.1:
                self._world.simulation.sleep(self._random.uniform(0.0, 1.0))
        self.drain()

    def drain(self) -> None:
        """Read on until every position has reached the log's end."""
        deadline = self._world.now + RECOVERY_TIME
        self._take_up_new()
        while self._world.now < deadline:
            if not self._behind():
                return
            self._poll(200)
        self.problems.append(f"{self.name} did not reach the end of {self._behind()}")

    def _behind(self) -> list[str]:
        """Partitions of which something is still to be read, with both offsets."""
        history = self._world.history.reads_by_partition
        behind = []
        for one in self._partitions:
            end = self._world.high_watermark(one.topic, one.partition)
            reads = history.get((self.name, one))
            position = reads[-1].offset + 1 if reads else 0
            # What was deleted before it was read is past, too.
            position = max(position, self._world.log_start(one.topic, one.partition))
            if position < end:
                behind.append(f"{one}: {position} of {end}")
        return behind

    def _take_up_new(self) -> None:
        """Topics may have grown meanwhile."""
        new = [
            one
            for place in self._world.partitions()
            if (one := TopicPartition(*place)) not in self._partitions
        ]
        if new:
            self._partitions += new
            self._take_up(new)

    def _take_up(self, new: list[TopicPartition]) -> None:
        self.consumer.assign(self._partitions)
        for one in new:
            self.consumer.seek(one, 0)

    def _poll(self, timeout_ms: int) -> None:
        history = self._world.history
        try:
            polled = self.consumer.poll(timeout_ms=timeout_ms)
        except KafkaError as error:
            self._world.simulation.note(f"{self.name} poll: {error!r}")
            self._world.simulation.sleep(0.1)
            return
        history.polls += 1
        for records in polled.values():
            for record in records:
                history.read(self.name, record, self._world.now)
