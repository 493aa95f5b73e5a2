"""Work of an application with a producer while faults happen, and the outcomes it sees.

Blocking code: each worker is an actor with one producer after another, made with options drawn from the seed.
It checks here what the application can see: each record has one outcome, in time; calls end in time; a flush
that returned has left nothing open. producer_promises.py checks what only the logs can show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from pykafka2.errors import DeliveryTimeout, IncompleteSend, KafkaError, KafkaTimeoutError
from pykafka2.producer.delivery.delivery import OnDelivery
from pykafka2.testing.simulation.history import FAILED, OK, OPEN, Sent
from pykafka2.types import RecordMetadata
from tests.campaign.producer_lives import Bulk, Life, outcome_of

if TYPE_CHECKING:
    from pykafka2.testing.simulation.sync import SimEvent
    from pykafka2.testing.simulation.world import World

# Virtual seconds that a call may take beyond its timeout, and an outcome beyond its delivery timeout.
MARGIN = 1.0
# Once all faults are over every record has its outcome within so long, however patient its producer is.
RECOVERY_TIME = 60.0


class Worker:
    """Sends numbered records to every partition until stopped, with one producer after another."""

    def __init__(self, world: World, stop: SimEvent, seed: str, options: Sequence[dict[str, Any]]) -> None:
        self._world = world
        self._stop = stop
        self._random = Random(seed)
        self.options = options
        """One after another, a producer is made with each of these, if it comes to that."""
        self._rounds_per_second = self._random.choice([1.0, 1.0, 3.0])
        self._longest_burst = self._random.choice([2, 6, 20])
        self._is_short_lived = self._random.random() < 0.3
        self.lives: list[Life] = []
        self.problems: list[str] = []
        self.allowance = 0.0
        """Seconds for which faults stop this worker's producers; set by the story."""
        self._begin()

    @property
    def life(self) -> Life:
        return self.lives[-1]

    def run(self) -> None:
        """The actor's body."""
        random = self._random
        while not self._stop.is_set():
            for _ in range(random.randint(1, self._longest_burst)):
                self._send(*random.choice(self._world.partitions()))
            self._settle_bulks()
            chance = random.random()
            if chance < 0.06:
                self._flush(random.choice([0.05, 0.5, 5.0]))
            elif chance < 0.10:
                self._send_and_wait(random.choice([0.05, 0.5, 5.0]))
            elif chance < 0.18:
                self._send_many(*random.choice(self._world.partitions()))
            elif chance < 0.24 and self._is_short_lived and len(self.lives) < len(self.options):
                self._close(random.choice([0.0, 0.2, 3.0]))
                self._begin()
            self._stop.wait(random.expovariate(self._rounds_per_second))
        self._flush(RECOVERY_TIME)
        for sent in self.life.open():
            self.problems.append(f"{sent} has no outcome after {RECOVERY_TIME:g} s of peace")
        self._look_at_memory()
        self._close(RECOVERY_TIME)
        self._settle_bulks()

    # ------------------------------------------------------------------ one producer after another

    def _begin(self) -> None:
        options = self.options[len(self.lives)]
        simulation = self._world.simulation
        producer = simulation.producer(self._world.cluster, **options)
        self.lives.append(Life(simulation.last_client, options, producer))
        simulation.note(f"{simulation.last_client}: {options}")
        self._world.clients.append(simulation.last_client)
        self._world.producers.append(producer)

    def _close(self, timeout: float) -> None:
        """Whatever becomes of it, every record has its outcome then."""
        self._in_time("close", timeout, lambda: self.life.producer.close(timeout=timeout))
        self._settle_bulks()
        if self.allowance:
            return  # a producer that stands still gives up what is left when it goes on
        for sent in self.life.open():
            self.problems.append(f"{sent} has no outcome after close({timeout})")

    def _look_at_memory(self) -> None:
        """All that was lent has come back, unless bytes of expired batches are still on the wire."""
        health = self.life.producer.health()
        left = health["buffer_available_bytes"]
        if left != self.life.options["buffer_memory"] and not health["requests_in_flight"]:
            self.problems.append(
                f"{self.life.name}: {left} bytes of {self.life.options['buffer_memory']} are free"
            )

    # ------------------------------------------------------------------ calls

    def _flush(self, timeout: float) -> None:
        before = list(self.life.open())
        is_over = self._in_time("flush", timeout, lambda: self.life.producer.flush(timeout=timeout))
        self._settle_bulks()
        left = [sent for sent in before if sent.outcome == OPEN]
        if is_over and left:
            self.problems.append(f"{self.life.name}: flush returned, and {left[0]} is open")

    def _send_and_wait(self, timeout: float) -> None:
        delivery = self._send(*self._random.choice(self._world.partitions()))
        if delivery is not None:
            self._in_time("result", timeout, lambda: delivery.result(timeout))

    def _in_time(self, what: str, timeout: float, call: Callable[[], object]) -> bool:
        """Make a call that may raise; False if its time was over before what it waited for."""
        began = self._world.now
        error: KafkaError | None = None
        try:
            call()
        except KafkaError as raised:
            self._world.simulation.note(f"{self.life.name} {what}: {raised!r}")
            error = raised
        took = self._world.now - began
        if took > timeout + MARGIN + self.allowance:
            self.problems.append(f"{self.life.name}: {what} took {took:.3f} s with a timeout of {timeout} s")
        return not isinstance(error, KafkaTimeoutError) or isinstance(error, DeliveryTimeout)

    def _record(self, topic: str, partition: int) -> Sent:
        """The next record to this partition, in the history before it is sent: it may be on its way before
        the call has returned.
        """
        world, life = self._world, self.life
        number = world.history.next_number(life.name, topic, partition)
        padding = "." * self._random.choice([0, 20, 200])
        value = f"{life.name}/{topic}-{partition}/{number}{padding}".encode()
        sent = Sent(life.name, topic, partition, number, value, world.now)
        world.history.sent.append(sent)
        life.sent.append(sent)
        return sent

    def _send(self, topic: str, partition: int) -> Any:
        world, life = self._world, self.life
        sent = self._record(topic, partition)
        on_delivery = self._teller(sent)
        has_late_callback = self._random.random() < 0.2
        delivery = None
        try:
            if has_late_callback:
                delivery = life.producer.send(topic, sent.value, partition=partition)
                delivery.add_callback(lambda metadata: on_delivery(metadata, None))
                delivery.add_errback(lambda error: on_delivery(None, error))
            else:
                delivery = life.producer.send(topic, sent.value, partition=partition, on_delivery=on_delivery)
        except KafkaError as error:
            # send() raises only where nothing was appended.
            sent.outcome, sent.error, sent.done_at = FAILED, repr(error), world.now
        took = world.now - sent.sent_at
        if sent.outcome == OPEN:
            sent.sent_at = world.now  # what it had to wait for room does not count against its delivery
        if took > life.options["max_block_ms"] / 1000 + MARGIN:
            self.problems.append(
                f"{sent}: send took {took:.3f} s, max_block_ms={life.options['max_block_ms']}"
            )
        return delivery

    def _teller(self, sent: Sent) -> OnDelivery:
        world, life = self._world, self.life

        def on_delivery(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            if sent.outcome != OPEN:
                self.problems.append(f"{sent} has a second outcome after {sent.outcome}: {metadata or error}")
            sent.done_at = world.now
            took = world.now - sent.sent_at
            if took > life.delivery_timeout + MARGIN + self.allowance:
                self.problems.append(f"{sent}: an outcome after {took:.3f} s, {life.options}")
            if metadata is not None:
                sent.outcome, sent.offset = OK, metadata.offset
            elif error is not None:
                sent.outcome, sent.error = outcome_of(error), repr(error)

        return on_delivery

    # ------------------------------------------------------------------ many at once

    def _send_many(self, topic: str, partition: int) -> None:
        life = self.life
        rows = [self._record(topic, partition) for _ in range(self._random.randint(2, 30))]
        left: Sequence[int] = range(len(rows))
        try:
            delivery = life.producer.send_many(topic, [row.value for row in rows], partition=partition)
        except IncompleteSend as error:
            left, delivery = error.left, error.delivery
        except KafkaError as error:
            self._world.simulation.note(f"{life.name} send_many: {error!r}")
            delivery = None
        else:
            left = ()
        for row in left:
            rows[row].outcome, rows[row].error = FAILED, "not taken by send_many"
        if delivery is not None:
            life.bulks.append(Bulk(rows, delivery, self._world.now))

    def _settle_bulks(self) -> None:
        """Note the outcomes of those calls of `send_many` that are done by now."""
        for life in self.lives:
            for bulk in list(life.bulks):
                if bulk.delivery.done():
                    life.bulks.remove(bulk)
                    self._settle(bulk)
                elif self._world.now > bulk.sent_at + life.delivery_timeout + MARGIN + self.allowance:
                    self.problems.append(f"{bulk.sent[0]} and more by send_many at {bulk.sent_at} are open")

    def _settle(self, bulk: Bulk) -> None:
        for part in bulk.delivery.written():
            for place, row in enumerate(part.rows):
                sent = bulk.sent[row]
                if sent.outcome != OPEN:
                    self.problems.append(f"{sent} has a second outcome after {sent.outcome}: {part}")
                sent.outcome = OK
                sent.offset = -1 if part.base_offset < 0 else part.base_offset + place
        for rows, error in bulk.delivery.failures(0):
            for row in rows:
                sent = bulk.sent[row]
                if sent.outcome != OPEN:
                    self.problems.append(f"{sent} has a second outcome after {sent.outcome}: {error!r}")
                sent.outcome, sent.error = outcome_of(error), repr(error)
