"""Building blocks of coordinator shards: records, results, deferred responses.

A shard is the state of one partition of a coordinator's internal topic. It is sans-IO: an
operation returns a `Result` with the records to append and the responses to send once they are committed.
Durable state changes only when records are replayed: right after the append, or by the next coordinator from
its log. runtime.py executes results; the kinds of shards are shard.py of groups/, transactions/ and share/.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs

from pykafka2.broker.coordinators.refusals import refusal
from pykafka2.errors import BrokerError, CorruptData, IllegalState
from pykafka2.protocol.messages import consumer_group_records as consumer
from pykafka2.protocol.messages import group_records as group
from pykafka2.protocol.messages import transaction_records as transaction
from pykafka2.protocol.struct import RecordKey, RecordValue, Request, Response

ResponseT = TypeVar("ResponseT", bound=Response)

Kinds = dict[int, tuple[type[RecordKey], type[RecordValue]]]

GROUP_RECORDS: Final[Kinds] = {
    key.RECORD_KIND: (key, value)
    for key, value in (
        (group.LegacyOffsetCommitKey, group.OffsetCommitValue),
        (group.OffsetCommitKey, group.OffsetCommitValue),
        (group.GroupMetadataKey, group.GroupMetadataValue),
        (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
        (consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue),
        (consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue),
        (
            consumer.ConsumerGroupTargetAssignmentMetadataKey,
            consumer.ConsumerGroupTargetAssignmentMetadataValue,
        ),
        (consumer.ConsumerGroupTargetAssignmentMemberKey, consumer.ConsumerGroupTargetAssignmentMemberValue),
        (
            consumer.ConsumerGroupCurrentMemberAssignmentKey,
            consumer.ConsumerGroupCurrentMemberAssignmentValue,
        ),
        (consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
    )
}
"""Records of __consumer_offsets, by the int16 at the start of their keys."""

TRANSACTION_RECORDS: Final[Kinds] = {0: (transaction.TransactionLogKey, transaction.TransactionLogValue)}
"""Records of __transaction_state."""

# Kafka 4.3 writes the highest version of all other values.
_WRITTEN_VERSION: Final[dict[type[RecordValue], int]] = {
    group.GroupMetadataValue: 3,
}

_INT16: Final = struct.Struct(">h")


@attrs.define(frozen=True)
class Record:
    """One record of a coordinator's log, as bytes; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


def record_of(key: RecordKey, value: RecordValue | None, version: int | None = None) -> Record:
    """Return the record for a key and value.

    `version` is that of the value; by default the one that Kafka 4.3 writes.
    """
    encoded_key = _INT16.pack(key.RECORD_KIND) + key.encode(0)
    if value is None:
        return Record(encoded_key, None)
    if version is None:
        version = _WRITTEN_VERSION.get(type(value), value.MAX_VERSION)
    return Record(encoded_key, _INT16.pack(version) + value.encode(version))


def decode_record(
    kinds: Kinds, key: bytes, value: bytes | None
) -> tuple[RecordKey, RecordValue | None] | None:
    """Decode a record; None for ignored types (share and streams groups).

    Raises:
        CorruptData: the bytes are not such a record.
    """
    if len(key) < 2:
        raise CorruptData(f"a coordinator's key starts with an int16, but it has {len(key)} bytes")
    (kind,) = _INT16.unpack_from(key)
    classes = kinds.get(kind)
    if classes is None:
        return None
    decoded_key = classes[0].decode(key[2:], 0)
    if value is None:
        return decoded_key, None
    if len(value) < 2:
        raise CorruptData(f"a coordinator's value starts with an int16, but it has {len(value)} bytes")
    (version,) = _INT16.unpack_from(value)
    return decoded_key, classes[1].decode(value[2:], version)


@attrs.define(frozen=True)
class Caller:
    """The sender of a request, as operations need it."""

    version: int
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    may_describe: Callable[[str], bool] = lambda topic: True
    """Whether the sender can see a topic; used if a request names none."""
    rules: object = None
    """The access rules behind that decision, compared by identity. None: no authorizer."""


class Deferred(Generic[ResponseT]):
    """A response now or later; it completes exactly once, and a second time raises IllegalState."""

    __slots__ = ("_callbacks", "request", "response", "version")

    def __init__(self, request: Request[ResponseT], version: int) -> None:
        self.request = request
        self.version = version
        self.response: ResponseT | None = None
        self._callbacks: list[Callable[[ResponseT], None]] = []

    @property
    def is_done(self) -> bool:
        return self.response is not None

    def complete(self, response: ResponseT) -> None:
        if self.response is not None:
            raise IllegalState(f"{type(self.request).__name__} has a response already: {self.response}")
        self.response = response
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(response)

    def refuse(self, code: int, message: str | None = None) -> None:
        """Complete it with the error response, and with a message if that can hold one."""
        response: Any = refusal(self.request, self.version, code)
        if message and getattr(response, "error_message", "") is None:
            response.error_message = message
        self.complete(response)

    def then(self, callback: Callable[[ResponseT], None]) -> None:
        """Call the callback with the response, at once if it is complete."""
        if self.response is None:
            self._callbacks.append(callback)
        else:
            callback(self.response)


@attrs.define(frozen=True)
class Producer:
    """The producer of a transactional batch."""

    id: int
    epoch: int


@attrs.define(frozen=True)
class WriteMarkers:
    """Markers that the broker must send to the leaders of partitions (WriteTxnMarkers)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    partitions: frozenset[tuple[str, int]]
    transaction_version: int


@attrs.define
class Result:
    """The result of an operation or a timer.

    The records are appended as one batch, then replayed, then `on_appended` is called (it can add responses
    and actions). The responses are sent once everything appended so far is committed. If the append fails,
    nothing is replayed, `on_append_error` repairs soft state (it can add responses), and the other responses
    become errors.
    """

    records: list[Record] = attrs.field(factory=list)
    responses: list[tuple[Deferred[Any], Response]] = attrs.field(factory=list)
    actions: list[WriteMarkers] = attrs.field(factory=list)
    producer: Producer | None = None
    """Set for a batch that belongs to a transaction."""
    delete_before: int | None = None
    """The records of the log before this offset are obsolete and are deleted."""
    on_appended: Callable[[Result], None] | None = None
    on_append_error: Callable[[BrokerError, Result], None] | None = None

    def write(self, key: RecordKey, value: RecordValue | None, version: int | None = None) -> None:
        self.records.append(record_of(key, value, version))

    def respond(self, deferred: Deferred[Any], response: Response) -> None:
        self.responses.append((deferred, response))

    def refuse(self, deferred: Deferred[Any], code: int, **fields: object) -> None:
        """Add an error response, with these fields of it set."""
        response = refusal(deferred.request, deferred.version, code)
        for name, value in fields.items():
            setattr(response, name, value)
        self.respond(deferred, response)


class Shard(Protocol):
    """The state of one partition of a coordinator's topic. All times are the broker's monotonic seconds."""

    LOADS_WHAT_CAN_BE_READ: bool
    """Whether it keeps what precedes a record that cannot be replayed; otherwise loading fails."""

    def operation(self, caller: Caller, deferred: Deferred[Any], now: float) -> Result:
        """Handle `deferred.request`; raise a BrokerError to reject it as a whole."""
        ...

    def poll(self, now: float) -> Result | None:
        """Return the result of the next due timer, None if none is due; execute it before the next call."""
        ...

    @property
    def next_deadline(self) -> float:
        """When `poll` has work next; infinity if never."""
        ...

    def replay(
        self, key: bytes, value: bytes | None, producer: Producer | None, now: float, offset: int
    ) -> None:
        """Apply the record at an offset; `producer` is set if it belongs to an open transaction."""
        ...

    def replay_marker(self, producer: Producer, committed: bool, now: float) -> None:
        """Apply the end of a producer's transaction in this partition."""
        ...

    def on_loaded(self, now: float) -> Result:
        """Start the timers after the log was replayed."""
        ...

    def on_unloaded(self) -> Result:
        """Release all waiting requests after the partition has moved."""
        ...
