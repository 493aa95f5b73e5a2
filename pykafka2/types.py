"""The values of the public API: plain data without a client.

All of them can be pickled, compare by value and hold no reference to a client, so that threads and processes
can exchange them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, SupportsIndex, TypedDict

import attrs

from pykafka2.other_clients import (
    unexpected_argument,
    with_foreign_calls,
)

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # comes with every type checker; supports defaults

    K = TypeVar("K", default=bytes, covariant=True)
    V = TypeVar("V", default=bytes, covariant=True)
else:
    from typing import TypeVar

    K = TypeVar("K", covariant=True)
    V = TypeVar("V", covariant=True)

Headers = list[tuple[str, bytes | None]]
"""Record headers in order; names that are not UTF-8 are decoded with `surrogateescape`."""

GivenHeaders = Sequence[tuple[str, bytes | bytearray | memoryview | None]]
"""Record headers for `send`: pairs of a name and bytes, in order."""

CREATE_TIME = 0
LOG_APPEND_TIME = 1
NO_TIMESTAMP = -1
NO_OFFSET = -1

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class TopicPartition(NamedTuple):
    """One partition of a topic; hashable, sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


_new_tuple = tuple.__new__


def _new_topic_partition(
    cls: type[TopicPartition],
    topic: str,
    partition: int,
    offset: object = None,
    metadata: object = None,
    leader_epoch: object = None,
) -> TopicPartition:
    """Create a partition; the other arguments are confluent-kafka's, which raise an error that names ours."""
    if offset is None and metadata is None and leader_epoch is None:
        return _new_tuple(cls, (topic, partition))
    name = "offset" if offset is not None else "metadata" if metadata is not None else "leader_epoch"
    raise unexpected_argument(cls, "__new__", name)


if not TYPE_CHECKING:  # type checkers know the two fields
    _new_topic_partition.__qualname__ = "TopicPartition.__new__"
    _new_topic_partition.__wrapped__ = TopicPartition.__new__  # has the signature that `inspect` shows
    TopicPartition.__new__ = _new_topic_partition
    with_foreign_calls(TopicPartition)


class TopicPartitionReplica(NamedTuple):
    """One replica of a partition, by the id of its broker."""

    topic: str
    partition: int
    broker_id: int


class IsolationLevel(IntEnum):
    """Whether records of open and aborted transactions are read; for the option `isolation_level`."""

    READ_UNCOMMITTED = READ_UNCOMMITTED
    """All records up to the high watermark."""
    READ_COMMITTED = READ_COMMITTED
    """Records up to the last stable offset, without those of aborted transactions."""


@attrs.define(frozen=True)
class SubscriptionPattern:
    """A regular expression in RE2's syntax that the brokers resolve: topics whose whole name matches.

    For `KafkaConsumer.subscribe(pattern=...)` with group_protocol='consumer'.
    """

    pattern: str

    def __str__(self) -> str:
        return self.pattern


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, any text, and the leader epoch (-1 if unknown)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetInTopic(OffsetAndMetadata):
    """An offset of `consumer.next_offsets()`, which also has the id of its topic.

    A transaction commits it only to the topic with this id (KIP-1319). The id is not compared.
    """

    topic_id: bytes = b""

    @classmethod
    def of(cls, offset: OffsetAndMetadata, topic_id: bytes) -> OffsetInTopic:
        """Return the offset with this id."""
        made = cls(*offset)
        made.topic_id = topic_id
        return made

    def __repr__(self) -> str:
        return repr(OffsetAndMetadata(*self))


class OffsetAndTimestamp(NamedTuple):
    """The first offset whose record is not older than the requested time (milliseconds since the epoch)."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


@attrs.define(frozen=True)
class Node:
    """A broker as the cluster's metadata lists it."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"node {self.id} ({self.host}:{self.port})"


@attrs.define(frozen=True)
class PartitionInfo:
    """A partition as the metadata describes it; leader is -1 if there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


# Created for each record, hence neither frozen nor validated (hotpath: attrs frozen costs 0.4 us more).
@with_foreign_calls
@attrs.define(eq=True)
class ConsumerRecord(Generic[K, V]):
    """One consumed record.

    timestamp is in milliseconds since the epoch; timestamp_type is 0 (create time) or 1 (log-append time).
    key and value are the results of the deserializers, bytes without one, or None for a null; their types are
    `K | None` and `V | None`. The serialized sizes are those of the bytes, -1 for None.

    Unpacks and indexes like kafka-python's named tuple: topic, partition, leader_epoch, offset, timestamp,
    timestamp_type, key, value, headers, checksum (None), serialized_key_size, serialized_value_size,
    serialized_header_size.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: K | None
    value: V | None
    headers: Headers
    leader_epoch: int = -1
    serialized_key_size: int = -1
    serialized_value_size: int = -1

    def __iter__(self) -> Iterator[Any]:
        return iter(self._as_tuple())

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        return self._as_tuple()[index]

    def __len__(self) -> int:
        return 13

    def _as_tuple(self) -> tuple[Any, ...]:
        header_size = sum(
            len(name.encode("utf-8", "surrogateescape")) + len(data or b"") for name, data in self.headers
        )
        return (
            self.topic,
            self.partition,
            self.leader_epoch,
            self.offset,
            self.timestamp,
            self.timestamp_type,
            self.key,
            self.value,
            self.headers,
            None,
            self.serialized_key_size,
            self.serialized_value_size,
            header_size if self.headers else -1,
        )


def _headers_of(record: Any) -> Headers:
    """The headers in order, an empty list if there are none."""
    headers: Headers | None = getattr(record, "headers_slot", None)  # an `except` takes twice as long
    if headers is None:
        # An empty list for each record would add a fifth to the cost of reading it, and as much again for
        # the garbage collector.
        record.headers_slot = headers = []
    return headers


if not TYPE_CHECKING:  # type checkers know the field
    # The decoders set the slot itself, which is as fast as any other.
    ConsumerRecord.headers_slot = _slot = ConsumerRecord.headers
    ConsumerRecord.headers = property(_headers_of, _slot.__set__, _slot.__delete__)


@attrs.define(frozen=True)
class BadRecord:
    """Data that could not be read: a record that a deserializer rejected, or the rest of a damaged batch.

    `error` is the reason; if it is skipped, reading continues at `next_offset`. For a record, key, value,
    headers and timestamp are the raw ones; for a damaged batch only `batch` is set, its bytes.
    """

    topic: str
    partition: int
    offset: int
    next_offset: int
    error: Exception
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = attrs.Factory(list)
    batch: bytes | None = attrs.field(default=None, repr=False)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition, with its topic."""
        return TopicPartition(self.topic, self.partition)


# Created for each record with a callback: creating a tuple makes no Python call.
class RecordMetadata(NamedTuple):
    """The position of a sent record: offset -1 with acks=0; timestamp in milliseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    timestamp: int = NO_TIMESTAMP
    serialized_key_size: int = -1
    serialized_value_size: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition, with its topic."""
        return TopicPartition(self.topic, self.partition)


@attrs.define(frozen=True)
class BatchMetadata:
    """The position of records of one `send_many` that were written in one batch.

    `rows` are their numbers in the call: the record of rows[n] is at base_offset + n. base_offset is -1 with
    acks=0. timestamp is the broker's, in milliseconds since the epoch, with log-append time; otherwise it is
    -1, as each record has its own.
    """

    topic: str
    partition: int
    base_offset: int
    rows: Sequence[int]
    timestamp: int = NO_TIMESTAMP

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.rows)

    @property
    def last_offset(self) -> int:
        """The offset of the last record; -1 with acks=0."""
        return self.base_offset + len(self.rows) - 1 if self.base_offset >= 0 else self.base_offset

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition, with its topic."""
        return TopicPartition(self.topic, self.partition)


@attrs.define(frozen=True)
class ConsumerGroupMetadata:
    """A consumer's membership, for a transactional producer (KIP-447).

    `topic_ids` are the ids of the topics whose records it has read, so that a topic that was deleted and
    created again does not get old offsets (KIP-1319).
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topic_ids: Mapping[TopicPartition, bytes] = attrs.field(factory=dict, kw_only=True, eq=False, repr=False)


class MetricKind(StrEnum):
    """How the value of a metric is meant."""

    COUNTER = "counter"
    """A total since the client was created; never decreases."""
    GAUGE = "gauge"
    """A current value."""
    RATE = "rate"
    """An increase per second, or per hour where the unit says so, over the last 30 to 60 seconds."""
    AVERAGE = "average"
    """The mean of the last 30 to 60 seconds; nan if nothing was measured."""
    MAXIMUM = "maximum"
    """The largest value of the last 30 to 60 seconds; nan if nothing was measured."""
    MINIMUM = "minimum"
    """The smallest value of the last 30 to 60 seconds; nan if nothing was measured."""


@attrs.define(frozen=True)
class Metric:
    """One metric of a client, with its value when it was read.

    `name`, `group` and `tags` are Apache Kafka's: the tag `client-id` is always there, and `node-id`, `topic`
    or `topic` and `partition` if there is a value for each broker, topic or partition. `unit` is a word such
    as `milliseconds`.
    """

    name: str
    group: str
    value: float
    kind: MetricKind
    unit: str
    tags: Mapping[str, str]
    description: str


class ClientHealth(TypedDict):
    """The fields that `health()` has in every client: producer, consumer and admin client."""

    implementation: str
    """The implementation of the code that runs for each record: `python`, or `c` with pykafka2-c."""
    state: str
    """open, closed or failed; only a new client helps if it is not open."""
    failure: str | None
    """The exception that ended the IO thread."""
    connected: bool
    """Whether any broker is connected; False before the first call that needs the cluster."""
    unreachable: dict[str, str]
    """The addresses that the client cannot connect to, with the reasons."""
    throttled: dict[str, float]
    """The brokers that throttle the client, with the seconds that remain."""
    metadata_version: int
    """The number of successful Metadata responses."""
    metadata_age: float | None
    """Seconds since the last successful Metadata response; None before the first."""
    metadata_request_age: float | None
    """Seconds since the last Metadata request; None before the first."""
    metadata_error: str | None
    """The error of the last Metadata request; None after a success."""


class ProducerHealth(ClientHealth):
    """The result of `KafkaProducer.health`: the fields of `ClientHealth`, and these."""

    records_waiting: int
    """The records that were appended and have no outcome yet."""
    requests_in_flight: int
    """The Produce requests without a response."""
    buffer_available_bytes: int
    """The part of buffer_memory that is free."""
    buffer_overhead_bytes: int
    """The memory that records take beside their bytes."""
    senders_waiting_for_memory: int
    """The calls of `send` that wait for buffer_memory."""
    senders_waiting_for_metadata: dict[str, list[float]]
    """The seconds that each blocked `send` has waited, by what it waits for."""
    codec_libraries: dict[str, str | None]
    """The package that each codec uses, or None if there is none."""
    producer_id: int | None
    """The id of an idempotent producer; None before the first record."""
    producer_epoch: int | None
    """The epoch of the producer id."""
    transaction_state: str | None
    """The state of the transaction; None without a transactional_id."""
    transaction_error: str | None
    """The error that makes the transaction fail."""
    waiting_for: dict[str, str]
    """Reasons why queued records wait, by partition."""
    partitions: dict[str, dict[str, int]]
    """Numbers of written records and batches, and of queued batches, by partition."""


class ConsumerHealth(ClientHealth):
    """The result of `KafkaConsumer.health`: the fields of `ClientHealth`, and these."""

    group: Any
    """The membership as a dict; None without a group_id."""
    partitions: dict[str, dict[str, Any]]
    """Position, high watermark, last error and seconds without progress, by partition."""
    buffered_bytes: int
    """The fetched bytes that no call has returned yet."""
    codec_libraries: dict[str, str | None]
    """The package that each codec uses, or None if there is none."""


class ShareConsumerHealth(ClientHealth):
    """The result of `KafkaShareConsumer.health`: the fields of `ClientHealth`, and these."""

    group: dict[str, Any]
    """The membership: id, state, member_id, epoch, coordinator, last_error and assigned partitions."""
    lock_timeout: float | None
    """Seconds for which a record is locked; None before the first response."""
    locks: dict[str, dict[str, Any]]
    """The records that wait for an acknowledgement or its confirmation, by partition: how many in each state,
    offset and age of the oldest, the seconds until the first lock expires, and how long handlers run."""
    brokers: dict[int, dict[str, Any]]
    """The share sessions by node id: epoch, request in flight and its seconds, waiting acknowledgements and
    last error."""
    buffered_records: int
    """The acquired offsets that no call has returned yet."""
    locks_lost: int
    """The records whose locks ended without an acknowledgement."""
    locks_renewed: int
    """The renewals of locks."""


class AdminHealth(ClientHealth):
    """The result of `KafkaAdminClient.health`: the fields of `ClientHealth`, and these."""

    calls: list[str]
    """The requests that callers wait for."""
