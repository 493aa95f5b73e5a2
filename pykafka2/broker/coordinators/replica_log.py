"""A shard's view of its broker: the partition it leads as a log, its records and events, and the topics.

`batch_of` builds the batch that the broker appends as leader for ShardLog.append; `entries_in` reads what a
runtime loads from a log's batches. Only durable state becomes an event, with each append; joining members are
visible in the requests, and offset commits are not included. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.coordinators.internal_topics import TRANSACTIONS_TOPIC
from pykafka2.broker.coordinators.replay import Producer, Record
from pykafka2.broker.coordinators.runtime import Entry, Marker
from pykafka2.broker.log.batch import parse_batch
from pykafka2.records.batch import RecordBatch
from pykafka2.records.control import read_marker
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.encoder import BatchBuilder

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.log.producer_state import VerificationGuard
    from pykafka2.broker.observed.event_log import EventLog
    from pykafka2.broker.replication.replica_manager import ReplicaManager
    from pykafka2.protocol.struct import RecordKey, RecordValue


# The first two bytes of a record's key.
GROUP, CONSUMER_GROUP, TARGET_ASSIGNMENT = b"\x00\x02", b"\x00\x03", b"\x00\x06"
LOGGED_KINDS = (GROUP, CONSUMER_GROUP, TARGET_ASSIGNMENT)


def note_records(events: EventLog, topic: str, records: Iterable[Record], now: float) -> None:
    """Record events for records about the state of a group or a transaction."""
    for record in records:
        if topic == TRANSACTIONS_TOPIC:
            _note_transaction(events, record, now)
        elif record.key[:2] in LOGGED_KINDS:
            _note_group(events, record, now)


def _note_group(events: EventLog, record: Record, now: float) -> None:
    from pykafka2.protocol.messages import consumer_group_records as consumer
    from pykafka2.protocol.messages import group_records as classic

    kinds: dict[bytes, tuple[type[RecordKey], type[RecordValue]]] = {
        GROUP: (classic.GroupMetadataKey, classic.GroupMetadataValue),
        CONSUMER_GROUP: (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
        TARGET_ASSIGNMENT: (
            consumer.ConsumerGroupTargetAssignmentMetadataKey,
            consumer.ConsumerGroupTargetAssignmentMetadataValue,
        ),
    }
    key, value = _decoded(record, kinds[record.key[:2]])
    name = str(getattr(key, "group", "") or getattr(key, "group_id", ""))
    if isinstance(value, classic.GroupMetadataValue):
        state = "Stable" if value.members else "Empty"
        text = f"{name} is {state}, generation {value.generation}, {len(value.members)} members"
        events.note(
            now, "group", text, group=name, state=state, epoch=value.generation, members=len(value.members)
        )
    elif isinstance(value, consumer.ConsumerGroupMetadataValue):
        events.note(now, "group", f"{name} has epoch {value.epoch}", group=name, epoch=value.epoch)
    elif isinstance(value, consumer.ConsumerGroupTargetAssignmentMetadataValue):
        text = f"{name} has a target assignment of epoch {value.assignment_epoch}"
        events.note(now, "group", text, group=name, assignment_epoch=value.assignment_epoch)
    elif record.key[:2] != TARGET_ASSIGNMENT:
        events.note(now, "group", f"{name} was removed", group=name, state="Dead")


def _note_transaction(events: EventLog, record: Record, now: float) -> None:
    from pykafka2.broker.coordinators.transactions.state import STATES
    from pykafka2.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue

    key, value = _decoded(record, (TransactionLogKey, TransactionLogValue))
    name: str = getattr(key, "transactional_id", "")
    if not isinstance(value, TransactionLogValue):
        events.note(now, "transaction", f"{name} was removed", transactional_id=name, state="Dead")
        return
    state = STATES[value.transaction_status].value
    text = f"{name} is {state}, producer {value.producer_id} epoch {value.producer_epoch}"
    events.note(
        now,
        "transaction",
        text,
        transactional_id=name,
        state=state,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
    )


def _decoded(
    record: Record, classes: tuple[type[RecordKey], type[RecordValue]]
) -> tuple[RecordKey | None, RecordValue | None]:
    from pykafka2.broker.coordinators.replay import decode_record

    return decode_record({int.from_bytes(record.key[:2], "big"): classes}, record.key, record.value) or (
        None,
        None,
    )


class ReplicaLog:
    """A partition that this broker leads, as a shard's log (see `ShardLog`)."""

    def __init__(
        self,
        replicas: ReplicaManager,
        key: Key,
        wall_ms: Callable[[float], int],
        events: EventLog,
        codec: int = 0,
    ) -> None:
        self._replicas = replicas
        self._key = key
        self._events = events
        self._wall_ms = wall_ms
        self._codec = codec
        # Kafka's group coordinator appends with acks=1 and then waits for the high watermark. Its transaction
        # log fails at once while too few replicas are in sync (CoordinatorPartitionWriter,
        # TransactionStateManager.appendTransactionToLog).
        self._needs_in_sync = key[0] == TRANSACTIONS_TOPIC
        self._guard: VerificationGuard | None = None

    @contextmanager
    def guarded_by(self, guard: VerificationGuard | None) -> Iterator[None]:
        """Set the verification guard for the appends inside the context."""
        self._guard = guard
        try:
            yield
        finally:
            self._guard = None

    def append(self, records: Sequence[Record], producer: Producer | None, now: float) -> int:
        batch = parse_batch(batch_of(records, producer, self._wall_ms(now), self._codec))
        offset = self._replicas.append_from_coordinator(
            self._key, batch, now, needs_in_sync=self._needs_in_sync, guard=self._guard
        )
        note_records(self._events, self._key[0], records, now)
        return offset

    def delete_before(self, offset: int) -> None:
        self._replicas.log_manager.delete_obsolete(self._key, offset)

    @property
    def high_watermark(self) -> int:
        return self._replicas.log_of(self._key).high_watermark


class ImageTopics:
    """The topics of an image, as coordinators use them (see `Topics`)."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def id_of(self, name: str) -> bytes | None:
        topic = self._image.topics.get(name)
        return None if topic is None else topic.id

    def name_of(self, topic_id: bytes) -> str | None:
        return self._image.topic_names.get(topic_id)

    def partition_count(self, name: str) -> int:
        topic = self._image.topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    def names(self) -> Iterable[str]:
        return self._image.topics


def batch_of(records: Sequence[Record], producer: Producer | None, at_ms: int, codec: int = 0) -> bytes:
    """Return one batch with all records, transactional if a producer is passed; without sequences."""
    builder = BatchBuilder(codec, max_bytes=2**31 - 1)
    for record in records:
        builder.append(at_ms, record.key, record.value)
    if producer is None:
        return builder.build()
    return builder.build(producer_id=producer.id, producer_epoch=producer.epoch, is_transactional=True)


def entries_in(batches: Iterable[RecordBatch]) -> Iterator[Entry | Marker]:
    """Iterate over the records and markers of a log; skip other control batches and keyless records.

    Raises:
        CorruptMessage, CorruptData: a batch is damaged.
    """
    for batch in batches:
        producer = Producer(batch.producer_id, batch.producer_epoch) if batch.is_transactional else None
        if batch.is_control:
            if not batch.count:
                continue  # compaction has emptied it
            marker = read_marker(batch)
            if producer is not None and (marker.is_commit or marker.is_abort):
                yield Marker(producer, marker.is_commit)
            continue
        for offset, _, key, value, _ in decode_tuples(batch):
            if key is not None:
                yield Entry(bytes(key), None if value is None else bytes(value), producer, offset)
