"""A shard's view of its broker: the partition it leads as a log, and the cluster's topics.

Light to import. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.coordinators.events import note_records
from pykafka2.broker.coordinators.routing import TRANSACTIONS_TOPIC
from pykafka2.broker.log.batch import parse_batch

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.coordinators.replay import Producer, Record
    from pykafka2.broker.log.producer_state import VerificationGuard
    from pykafka2.broker.observed.event_log import EventLog
    from pykafka2.broker.replication.replica_manager import ReplicaManager


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
        from pykafka2.broker.coordinators.batches import batch_of

        batch = parse_batch(batch_of(records, producer, self._wall_ms(now), self._codec))
        offset = self._replicas.append_from_coordinator(
            self._key, batch, now, needs_in_sync=self._needs_in_sync, guard=self._guard
        )
        note_records(self._events, self._key[0], records, now)
        return offset

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
