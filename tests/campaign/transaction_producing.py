"""A transactional producer made of raw requests, as an actor of a simulation; see transactions.py.

Requests are made by hand through the cluster client, so that only the broker is on trial, and each
transaction is kept as its producer knows it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from pykafka2.driver.pollable import GROUP, TRANSACTION, ToCoordinator, ToLeader
from pykafka2.errors import InvalidProducerEpoch, KafkaError, ProducerFenced, error_of
from pykafka2.protocol.messages import committed_offsets, produce
from pykafka2.protocol.messages import transaction as messages
from pykafka2.protocol.struct import Request, Response
from pykafka2.records.encoder import BatchBuilder
from pykafka2.testing.simulation.world import World
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.testing.simulation.sync import SimEvent

R = TypeVar("R", bound=Response)

TOPIC: Final = "orders"
OPEN, COMMITTED, ABORTED, UNKNOWN = "open", "committed", "aborted", "unknown"
TIMEOUT_MS: Final = 10_000
"""Timeout of a transaction: shorter than some faults."""
PATIENCE: Final = 15.0
"""Seconds that a producer tries one request."""
RECOVERY_TIME: Final = 90.0
"""Virtual seconds within which everything must be well again once all faults are over."""

# The newest versions that clients of transaction.version 1 speak.
OLD_VERSIONS: Final[dict[type[Request[Any]], int]] = {
    produce.ProduceRequest: 11,
    messages.AddPartitionsToTxnRequest: 3,
    messages.EndTxnRequest: 4,
    messages.TxnOffsetCommitRequest: 4,
}


@attrs.define
class Written:
    """One transaction as its producer knows it; `values` by partition, in the order of sending."""

    name: str
    number: int
    outcome: str = OPEN
    values: dict[TopicPartition, list[bytes]] = attrs.field(factory=dict)
    offset: int | None = None
    """The offset of the producer's group that it commits."""

    @property
    def key(self) -> bytes:
        return f"{self.name}/{self.number}/".encode()


class TransactionalProducing:
    """One producer, as an actor: begins, writes, then commits, aborts or abandons, until stopped.

    With `is_new` it speaks transaction.version 2 (KIP-890), else 1.  Two of them may share a transactional id
    and fence each other.
    """

    def __init__(self, world: World, stop: SimEvent, name: str, transactional_id: str, is_new: bool) -> None:
        from pykafka2.admin.options import ADMIN_OPTIONS
        from pykafka2.cluster.client import ClusterClient

        self.name = name
        self.group = f"group-of-{name}"
        self.transactional_id = transactional_id
        self.transactions: list[Written] = []
        self.fenced = 0
        self._world = world
        self._stop = stop
        self._is_new = is_new
        self._random = Random(f"{world.simulation.seed}/{name}")
        self._id, self._epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = {}
        options = ADMIN_OPTIONS.parse(
            None,
            {
                "bootstrap_servers": world.cluster.bootstrap_servers,
                "client_id": name,
                "request_timeout_ms": self._random.choice([1000, 3000]),
            },
        )
        self._client: ClusterClient = ClusterClient(
            options, name=name, runtime=world.simulation.runtime.at(name)
        )
        world.clients.append(name)

    def close(self) -> None:
        self._client.close(0)

    def run(self) -> None:
        """The actor's body."""
        while not self._stop.is_set():
            try:
                if self._id < 0:
                    self._begin()
                self._transaction()
            except KafkaError as error:
                self._note_failure(error)
            self._stop.wait(self._random.expovariate(2.0))
        # What was left open is ended by the next producer of this id, or by its timeout.

    def _note_failure(self, error: KafkaError) -> None:
        self._world.simulation.note(f"{self.name}: {error!r}")
        self.fenced += isinstance(error, ProducerFenced | InvalidProducerEpoch)
        if self.transactions and self.transactions[-1].outcome == OPEN:
            self.transactions[-1].outcome = ABORTED  # it never requested a commit
        self._id = -1

    def _begin(self) -> None:
        request = messages.InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        self._take(self._ask(request, self._coordinator, lambda answer: answer.error_code))

    def _take(self, answer: Any) -> None:
        if (answer.producer_id, answer.producer_epoch) != (self._id, self._epoch):
            self._sequences.clear()
        self._id, self._epoch = answer.producer_id, answer.producer_epoch

    def _transaction(self) -> None:
        random = self._random
        written = Written(self.name, len(self.transactions))
        self.transactions.append(written)
        for _ in range(random.randint(1, 4)):
            self._write(written, TopicPartition(*random.choice(self._world.partitions())))
            if random.random() < 0.1:
                self._world.simulation.sleep(random.choice([0.01, 0.5, 3.0]))
        if random.random() < 0.5:
            self._commit_offset(written)
        how = random.random()
        if how < 0.1:  # a crash of the application: the next one starts from scratch
            written.outcome = ABORTED
            self._id = -1
            return
        self._end(written, is_commit=how < 0.75)

    def _end(self, written: Written, *, is_commit: bool) -> None:
        written.outcome = UNKNOWN if is_commit else ABORTED
        request = messages.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=is_commit,
        )
        answer = self._ask(request, self._coordinator, lambda answer: answer.error_code)
        if is_commit:
            written.outcome = COMMITTED
        if self._is_new:
            self._take(answer)

    def _write(self, written: Written, place: TopicPartition) -> None:
        if not self._is_new:
            self._add(place)
        values = written.values.setdefault(place, [])
        sequence = self._sequences.get(place, 0)
        builder = BatchBuilder()
        count = self._random.randint(1, 3)
        for _ in range(count):
            value = written.key + f"{place.partition}-{len(values)}".encode()
            values.append(value)
            builder.append(self._world.simulation.clock.wall_ms(), None, value)
        records = builder.build(
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = produce.PartitionProduceData(index=place.partition, records=records)
        topic = produce.TopicProduceData(
            name=place.topic, topic_id=self._topic_id(place.topic), partition_data=[data]
        )
        request = produce.ProduceRequest(
            transactional_id=self.transactional_id, acks=-1, timeout_ms=3000, topic_data=[topic]
        )
        self._sequences[place] = sequence + count
        self._ask(
            request, ToLeader(*place), lambda answer: answer.responses[0].partition_responses[0].error_code
        )

    def _topic_id(self, topic: str) -> bytes:
        known = self._client.wait_for_topic(topic, PATIENCE)
        return known.topic_id

    def _add(self, place: TopicPartition) -> None:
        topics = [messages.AddPartitionsToTxnTopic(name=place.topic, partitions=[place.partition])]
        request = messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=topics,
        )
        self._ask(
            request,
            self._coordinator,
            lambda answer: (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
        )

    def _commit_offset(self, written: Written) -> None:
        if not self._is_new:
            request = messages.AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self._id,
                producer_epoch=self._epoch,
                group_id=self.group,
            )
            self._ask(request, self._coordinator, lambda answer: answer.error_code)
        written.offset = written.number
        one = messages.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=written.number, committed_metadata=""
        )
        self._ask(
            messages.TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=self.group,
                producer_id=self._id,
                producer_epoch=self._epoch,
                topics=[messages.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[one])],
            ),
            ToCoordinator(GROUP, self.group),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )

    def committed_offset(self) -> int:
        """The group's committed offset; -1 for none."""
        return committed_offset(self._client, self.group, RECOVERY_TIME)

    @property
    def _coordinator(self) -> ToCoordinator:
        return ToCoordinator(TRANSACTION, self.transactional_id)

    def _ask(self, request: Request[R], to: Any, code: Callable[[Any], int]) -> R:
        newest = 12 if isinstance(request, produce.ProduceRequest) else None
        version = newest if self._is_new else OLD_VERSIONS.get(type(request))
        return self._client.request(request, to, PATIENCE, _checked(code), version)


def _checked(code: Callable[[Any], int]) -> Callable[[Any], KafkaError | None]:
    def check(answer: Any) -> KafkaError | None:
        found = code(answer)
        return error_of(found) if found else None

    return check


def committed_offset(client: ClusterClient, group: str, timeout: float) -> int:
    """The group's committed offset, once no transaction is open; -1 for none."""
    topic = committed_offsets.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    requested = committed_offsets.OffsetFetchRequestGroup(group_id=group, topics=[topic])
    request = committed_offsets.OffsetFetchRequest(groups=[requested], require_stable=True)

    def code(answer: Any) -> int:
        one = answer.groups[0]
        found: int = one.error_code or one.topics[0].partitions[0].error_code
        return found

    answer: Any = client.request(request, ToCoordinator(GROUP, group), timeout, _checked(code), 9)
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset
