"""The values of a share consumer's API: records, acknowledgement types, and `Reject`."""

from __future__ import annotations

from enum import IntEnum
from itertools import repeat
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self

import attrs

from pykafka2.errors import IllegalState
from pykafka2.types import ConsumerRecord, K, V

if TYPE_CHECKING:
    from pykafka2.records.runs import Run


class AcknowledgeType(IntEnum):
    """The treatment of a delivered record by the brokers (KIP-932, KIP-1222)."""

    ACCEPT = 1
    """It is done."""
    RELEASE = 2
    """It is delivered again, unless it has reached the group's limit of deliveries."""
    REJECT = 3
    """It is not delivered again; a group with a dead-letter queue gets it there."""
    RENEW = 4
    """Its lock lasts for another lock duration; another acknowledgement must follow."""


class Reject(Exception):
    """Raised in a `with record:` block: the record is rejected, and the block ends without an exception."""


class RecordHooks(Protocol):
    """The hooks that are called around a `with record:` block (consumer/interceptors.py)."""

    def on_record(self, record: Any) -> list[Any]: ...

    def on_record_done(self, record: Any, error: BaseException | None, contexts: list[Any]) -> None: ...


class Acknowledger(Protocol):
    """The part of its consumer's locks that a record needs (locks.py).

    `contexts` has the results of the hooks on_record of blocks that have begun, by delivery and offset.
    """

    record_hooks: RecordHooks | None
    contexts: dict[tuple[Any, int], list[Any]]

    def begin_handling(self, delivery: Any, offset: int) -> None: ...

    def end_handling(self, delivery: Any, offset: int, type: AcknowledgeType) -> None: ...


@attrs.define(eq=True)
class ShareRecord(ConsumerRecord[K, V], Generic[K, V]):
    """A record that a share consumer has acquired.

    `delivery_count` is 1 for the first delivery. As a context manager (`with` or `async with`, on any thread
    or task) it accepts the record at the end of the block, releases it if the block raises, and rejects it if
    the block raises `Reject`. Its lock is renewed during the block, up to max_renew_ms.
    """

    delivery_count: int = 1
    _delivery: Any = attrs.field(default=None, eq=False, repr=False)

    def __enter__(self) -> Self:
        """Start handling the record.

        Raises:
            InvalidRecordState: its lock has expired or was lost, so another consumer can have the record.
            IllegalState: it was acknowledged before, or is a copy from another process.
        """
        delivery = self._delivery
        if delivery is None:
            raise IllegalState("this record is a copy; only the consumer that received it can acknowledge it")
        acknowledger = delivery.acknowledger
        acknowledger.begin_handling(delivery, self.offset)
        if acknowledger.record_hooks is not None:
            self._begin_with_hooks(acknowledger)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        delivery = self._delivery
        if delivery is None:
            return False
        acknowledger = delivery.acknowledger
        if acknowledger.record_hooks is not None:
            self._end_with_hooks(acknowledger, error)
        else:
            type = AcknowledgeType.ACCEPT if error is None else _type_after(error)
            acknowledger.end_handling(delivery, self.offset, type)
        return error is not None and isinstance(error, Reject)

    def _begin_with_hooks(self, acknowledger: Acknowledger) -> None:
        hooks = acknowledger.record_hooks
        try:
            contexts = hooks.on_record(self) if hooks is not None else []
        except BaseException:  # such as a Ctrl-C: the block does not begin
            acknowledger.end_handling(self._delivery, self.offset, AcknowledgeType.RELEASE)
            raise
        acknowledger.contexts[self._delivery, self.offset] = contexts

    def _end_with_hooks(self, acknowledger: Acknowledger, error: BaseException | None) -> None:
        hooks = acknowledger.record_hooks
        contexts = acknowledger.contexts.pop((self._delivery, self.offset), None)
        type = AcknowledgeType.ACCEPT if error is None else _type_after(error)
        try:
            acknowledger.end_handling(self._delivery, self.offset, type)
        except BaseException as failure:
            error = failure
            raise
        finally:
            if hooks is not None and contexts is not None:
                hooks.on_record_done(self, error, contexts)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self.__exit__(kind, error, trace)

    def __reduce__(self) -> Any:
        """Pickle a copy, which cannot acknowledge."""
        values = [getattr(self, field.name) for field in attrs.fields(ShareRecord) if field.name[:1] != "_"]
        return ShareRecord, tuple(values)


def _type_after(error: BaseException) -> AcknowledgeType:
    """Return the acknowledgement of a record whose block has raised this."""
    return AcknowledgeType.REJECT if isinstance(error, Reject) else AcknowledgeType.RELEASE


def delivery_of(record: ShareRecord[Any, Any]) -> Any:
    """Return the lock of a record's delivery; None for a copy."""
    return record._delivery


def is_of(record: ShareRecord[Any, Any], acknowledger: Acknowledger) -> bool:
    """Return whether a record was returned by the consumer with these locks."""
    return record._delivery is not None and record._delivery.acknowledger is acknowledger


def share_records(
    run: Run,
    topic: str,
    partition: int,
    timestamp_type: int,
    leader_epoch: int,
    delivery_count: int,
    delivery: Any,
) -> list[ShareRecord[Any, Any]]:
    """Return the records of a run, with raw keys and values, whose delivery has this lock."""
    records = list(map(ShareRecord.__new__, repeat(ShareRecord, len(run))))
    rows = zip(records, run.offsets, run.timestamps, run.keys, run.values, strict=True)
    for record, offset, timestamp, key, value in rows:
        # No headers are set: see ConsumerRecord.
        record.topic = topic
        record.partition = partition
        record.offset = offset
        record.timestamp = timestamp
        record.timestamp_type = timestamp_type
        record.key = key
        record.value = value
        record.leader_epoch = leader_epoch
        record.serialized_key_size = -1 if key is None else len(key)
        record.serialized_value_size = -1 if value is None else len(value)
        record.delivery_count = delivery_count
        record._delivery = delivery
    headers_by_row = getattr(run, "headers", None)
    if isinstance(headers_by_row, dict):
        for row, headers in headers_by_row.items():
            records[row].headers = headers
    return records
