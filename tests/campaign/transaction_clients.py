"""`KafkaProducer` with transactions, as an actor of a simulation; see transactions.py.

The same story as transaction_producing.py tells with raw requests, so that the client is on trial as well:
what its calls say about a transaction must be what readers see.  A producer that walks away is kept, and
tries to commit when its successor has begun: that must never succeed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pykafka2.errors import KafkaError, KafkaTimeoutError, ProducerFenced, TransactionFailed
from pykafka2.producer.transactions.handle import end_transaction
from pykafka2.testing.simulation.problems import InvariantViolated
from pykafka2.testing.simulation.world import World
from pykafka2.types import OffsetAndMetadata, TopicPartition
from tests.campaign.transaction_producing import (
    ABORTED,
    COMMITTED,
    OPEN,
    PATIENCE,
    RECOVERY_TIME,
    TIMEOUT_MS,
    TOPIC,
    UNKNOWN,
    Written,
    committed_offset,
)

if TYPE_CHECKING:
    from pykafka2.producer.producer import KafkaProducer
    from pykafka2.testing.simulation.sync import SimEvent

CRASHES: Final = 0.1
DETACHES: Final = 0.15
COMMITS: Final = 0.75


class ClientProducing:
    """One application, as an actor: it makes a producer, and another when that one cannot go on."""

    def __init__(self, world: World, stop: SimEvent, name: str, transactional_id: str) -> None:
        self.name = name
        self.group = f"group-of-{name}"
        self.transactional_id = transactional_id
        self.transactions: list[Written] = []
        self.fenced = 0
        self._world = world
        self._stop = stop
        self._random = Random(f"{world.simulation.seed}/{name}")
        self._producer: KafkaProducer | None = None
        self._zombies: list[tuple[KafkaProducer, Written]] = []
        self._options: dict[str, Any] = {
            "bootstrap_servers": world.cluster.bootstrap_servers,
            "client_id": name,
            "request_timeout_ms": self._random.choice([1000, 3000]),
        }
        world.clients.append(name)

    def close(self) -> None:
        for producer in (self._producer, *(zombie for zombie, _ in self._zombies)):
            if producer is not None:
                with suppress(KafkaError):
                    producer.close(0)

    def run(self) -> None:
        """The actor's body."""
        while not self._stop.is_set():
            try:
                if self._producer is None:
                    self._producer = self._begin()
                self._transaction(self._producer)
            except KafkaError as error:
                self._note_failure(error)
            self._stop.wait(self._random.expovariate(2.0))
        # What was left open is ended by the next producer of this id, or by its timeout.

    def _note_failure(self, error: KafkaError) -> None:
        self._world.simulation.note(f"{self.name}: {error!r}")
        self.fenced += isinstance(error, ProducerFenced)
        if self.transactions and self.transactions[-1].outcome == OPEN:
            self.transactions[-1].outcome = ABORTED  # it never requested a commit
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaError):
                producer.close(self._random.choice([0, 1]))

    def _begin(self) -> KafkaProducer:
        from pykafka2.producer.producer import KafkaProducer

        producer = KafkaProducer(
            **self._options,
            runtime=self._world.simulation.runtime.at(self.name),
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            max_block_ms=PATIENCE * 1000,
            delivery_timeout_ms=self._random.choice([4000, 8000]),
            linger_ms=self._random.choice([0, 5, 100]),
            batch_size=self._random.choice([100, 16_384]),
        )
        try:
            producer.init_transactions()
        except KafkaError:
            producer.close(0)
            raise
        for zombie, written in self._zombies:
            self._rise(zombie, written)
        self._zombies.clear()
        return producer

    def _rise(self, zombie: KafkaProducer, written: Written) -> None:
        """Its successor has begun, so it must not be able to end what it began."""
        try:
            zombie.commit_transaction(1)
        except KafkaError as error:
            self._world.simulation.note(f"{self.name}: a zombie got {error!r}")
        else:
            raise InvariantViolated(f"a zombie of {self.name} committed transaction {written.number}")
        finally:
            with suppress(KafkaError):
                zombie.close(0)

    def _transaction(self, producer: KafkaProducer) -> None:
        random = self._random
        written = Written(self.name, len(self.transactions))
        self.transactions.append(written)
        producer.begin_transaction()
        for _ in range(random.randint(1, 4)):
            self._write(producer, written, TopicPartition(*random.choice(self._world.partitions())))
            if random.random() < 0.3:
                producer.flush(PATIENCE)
            if random.random() < 0.1:
                self._world.simulation.sleep(random.choice([0.01, 0.5, 3.0]))
        if random.random() < 0.5:
            written.offset = written.number
            offsets = {TopicPartition(TOPIC, 0): OffsetAndMetadata(written.number)}
            producer.send_offsets_to_transaction(offsets, self.group)
        how = random.random()
        if how < CRASHES:
            written.outcome = ABORTED
            self._producer = None
            self._zombies.append((producer, written))
        elif how < CRASHES + DETACHES:
            self._hand_over(producer, written)
        elif how < COMMITS:
            self._commit(producer, written)
        else:
            written.outcome = ABORTED
            self._again(producer.abort_transaction)

    def _write(self, producer: KafkaProducer, written: Written, place: TopicPartition) -> None:
        for _ in range(self._random.randint(1, 3)):
            values = written.values.setdefault(place, [])
            value = written.key + f"{place.partition}-{len(values)}".encode()
            producer.send(place.topic, value, partition=place.partition)
            values.append(value)

    def _commit(self, producer: KafkaProducer, written: Written) -> None:
        written.outcome = UNKNOWN
        try:
            self._again(producer.commit_transaction)
        except TransactionFailed:
            written.outcome = ABORTED  # that is what the error promises
            self._again(producer.abort_transaction)
        else:
            written.outcome = COMMITTED

    def _again(self, end: Callable[[float], None]) -> None:
        """Call it until it does not time out; at last its timeout is passed on."""
        for _ in range(3):
            with suppress(KafkaTimeoutError):
                end(5.0)
                return
        end(5.0)

    def _hand_over(self, producer: KafkaProducer, written: Written) -> None:
        """Another process ends the transaction."""
        handle = pickle.loads(pickle.dumps(producer.detach_transaction()))
        self._producer = None
        producer.close(self._random.choice([0, 5]))
        is_commit = self._random.random() < 0.7
        written.outcome = UNKNOWN if is_commit else ABORTED
        for _ in range(self._random.randint(1, 2)):
            end_transaction(
                handle,
                commit=is_commit,
                timeout=PATIENCE,
                runtime=self._world.simulation.runtime.at(self.name),
                **self._options,
            )
        if is_commit:
            written.outcome = COMMITTED

    def committed_offset(self) -> int:
        """The group's committed offset; -1 for none."""
        from pykafka2.admin.options import ADMIN_OPTIONS
        from pykafka2.cluster.client import ClusterClient

        options = ADMIN_OPTIONS.parse(None, self._options)
        runtime = self._world.simulation.runtime.at(self.name)
        client = ClusterClient(options, name=self.name, runtime=runtime)
        try:
            return committed_offset(client, self.group, RECOVERY_TIME)
        finally:
            client.close(0)
