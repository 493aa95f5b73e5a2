"""What an application does with a producer while faults happen, and what it is told.

Blocking code; each worker is an actor with one producer after another, made with options drawn from the seed.
What the application itself can see, it looks at here: each record has one outcome, in time; calls end in
time; a flush that returned has left nothing open.  What only the logs can tell is in producer_promises.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.errors import DeliveryTimeout, KafkaError, KafkaTimeoutError
from pykafka2.producer.delivery import OnDelivery
from pykafka2.testing.simulation.history import FAILED, OK, OPEN, UNKNOWN, Sent
from pykafka2.types import RecordMetadata

if TYPE_CHECKING:
    from pykafka2.producer.producer import KafkaProducer
    from pykafka2.testing.simulation.sync import SimEvent
    from pykafka2.testing.simulation.world import World

# Virtual seconds that a call may take beyond its timeout, and an outcome beyond its delivery timeout.
MARGIN = 1.0
# Once all faults are over every record has its outcome within so long, however patient its producer is.
RECOVERY_TIME = 60.0

MOST_LIVES = 4
ALL = "all"


def drawn_options(draw: Random) -> dict[str, Any]:
    """Among them delivery timeouts that faults outlast, windows of one, buffers that fill."""
    is_idempotent = draw.random() < 0.6
    linger_ms = draw.choice([0, 5, 50, 300])
    request_timeout_ms = draw.choice([500, 1000, 3000, 10_000])
    options: dict[str, Any] = {
        "enable_idempotence": is_idempotent,
        "acks": ALL if is_idempotent else draw.choice([ALL, ALL, 1, 0]),
        "max_in_flight_requests_per_connection": draw.choice([1, 2, 5] if is_idempotent else [1, 1, 5, 20]),
        "compression_type": draw.choice(["none", "none", "none", "gzip", "snappy", "lz4", "zstd"]),
        "linger_ms": linger_ms,
        "batch_size": draw.choice([0, 200, 2000, 16_384]),
        "buffer_memory": draw.choice([33_554_432, 33_554_432, 33_554_432, 60_000]),
        "max_block_ms": draw.choice([100, 2000, 60_000]),
        "request_timeout_ms": request_timeout_ms,
        "delivery_timeout_ms": linger_ms + request_timeout_ms + draw.choice([0, 1000, 10_000, 60_000]),
        "retry_backoff_ms": draw.choice([20, 100, 100]),
        "metadata_max_age_ms": draw.choice([1000, 300_000]),
    }
    retries = draw.choice([None, None, None, 1, 3] if is_idempotent else [None, None, 0, 2])
    if retries is not None:
        options["retries"] = retries
    return options


@attrs.define(eq=False)
class Life:
    """One producer from its making to its close."""

    name: str
    options: dict[str, Any]
    producer: KafkaProducer
    sent: list[Sent] = attrs.field(factory=list)
    is_closed: bool = False

    @property
    def is_idempotent(self) -> bool:
        return bool(self.options["enable_idempotence"])

    @property
    def acks(self) -> object:
        return self.options["acks"]

    @property
    def delivery_timeout(self) -> float:
        return float(self.options["delivery_timeout_ms"]) / 1000

    def open(self) -> Iterator[Sent]:
        return (sent for sent in self.sent if sent.outcome == OPEN)


def outcome_of(error: KafkaError) -> str:
    """What an application knows by the error of a delivery: nothing, but where the producer is sure."""
    is_sure = isinstance(error, DeliveryTimeout) and "was never sent" in str(error)
    return FAILED if is_sure else UNKNOWN


class Worker:
    """Sends numbered records to every partition until told to stop, with one producer after another."""

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
            chance = random.random()
            if chance < 0.06:
                self._flush(random.choice([0.05, 0.5, 5.0]))
            elif chance < 0.10:
                self._send_and_wait(random.choice([0.05, 0.5, 5.0]))
            elif chance < 0.16 and self._is_short_lived and len(self.lives) < len(self.options):
                self._close(random.choice([0.0, 0.2, 3.0]))
                self._begin()
            self._stop.wait(random.expovariate(self._rounds_per_second))
        self._flush(RECOVERY_TIME)
        for sent in self.life.open():
            self.problems.append(f"{sent} has no outcome after {RECOVERY_TIME:g} s of peace")
        self._look_at_memory()
        self._close(RECOVERY_TIME)

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
        self.life.is_closed = True
        if self.allowance:
            return  # a producer that stands still gives up what is left when it goes on
        for sent in self.life.open():
            self.problems.append(f"{sent} has no outcome after close({timeout})")

    def _look_at_memory(self) -> None:
        """All that was lent has come back."""
        left = self.life.producer.health()["buffer_available_bytes"]
        if left != self.life.options["buffer_memory"]:
            self.problems.append(
                f"{self.life.name}: {left} bytes of {self.life.options['buffer_memory']} are free"
            )

    # ------------------------------------------------------------------ calls

    def _flush(self, timeout: float) -> None:
        before = list(self.life.open())
        is_over = self._in_time("flush", timeout, lambda: self.life.producer.flush(timeout=timeout))
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

    def _send(self, topic: str, partition: int) -> Any:
        world, life = self._world, self.life
        number = world.history.next_number(life.name, topic, partition)
        padding = "." * self._random.choice([0, 20, 200])
        value = f"{life.name}/{topic}-{partition}/{number}{padding}".encode()
        sent = Sent(life.name, topic, partition, number, value, world.now)
        # Before the send: a batch may be on its way before send() returns to its caller.
        world.history.sent.append(sent)
        life.sent.append(sent)
        delivery = None
        try:
            delivery = life.producer.send(topic, value, partition=partition, on_delivery=self._teller(sent))
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

        def told(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
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

        return told
