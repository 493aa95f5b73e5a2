"""The walk over a batch's records that checks offsets, keys and times; it can be advanced in slices.

A batch of 1 MB can hold a million records and more, whose walk takes a second: the handler of Produce
advances it by `SLICE` records at a time, so that other requests are handled in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import attrs

from pykafka2.broker.log.batch_rules import NO_TIMESTAMP, BatchRules
from pykafka2.errors import BrokerError, CorruptData, InvalidRecord, InvalidTimestamp, UnknownServerError
from pykafka2.records.batch import RecordBatch

if TYPE_CHECKING:
    from pykafka2.records.tuple_decoder import RecordTuple

SLICE: Final = 2_000
"""Records that are checked in one piece, in some 3 ms."""
MAX_RECORD_ERRORS: Final = 1_000
"""Records that an answer names; Kafka names all of them."""


@attrs.define(frozen=True)
class RecordError:
    """Which record of a batch was refused, and why (KIP-467)."""

    index: int
    message: str


class RecordsRejected(BrokerError):
    """An error that names the records that caused it."""

    record_errors: tuple[RecordError, ...] = ()


class InvalidRecords(RecordsRejected, InvalidRecord):
    """InvalidRecord that names the records."""


class InvalidTimestamps(RecordsRejected, InvalidTimestamp):
    """InvalidTimestamp that names the records."""


class RecordWalk:
    """Checks a batch's records one after another: their number, order, keys and times."""

    def __init__(self, batch: RecordBatch, rules: BatchRules, now_ms: int) -> None:
        self.rules = rules
        self._batch = batch
        self._now_ms = now_ms
        self._next = 0
        self._largest = NO_TIMESTAMP
        self._errors: list[RecordError] = []
        self._error_count = 0
        self._is_out_of_order = False
        self._kind: type[RecordsRejected] = InvalidRecords
        self._failure: BrokerError | None = None
        self._records: Iterator[RecordTuple] | None = None

    def advance(self, limit: int) -> bool:
        """Check up to `limit` more records; return True if the walk is over."""
        if self._failure is not None:
            return True
        try:
            return self._check(limit) < limit
        except BrokerError as error:
            self._failure = error
        except CorruptData as cause:
            self._failure = self._unreadable(cause)
        return True

    def finish(self) -> int:
        """Check all that is left; return the largest timestamp, or raise why the batch is refused."""
        while not self.advance(SLICE):
            pass
        if self._failure is not None:
            raise self._failure
        if self._errors:
            rejected = self._kind(
                f"{self._error_count} of {self._batch.count} records were rejected, "
                f"the first: {self._errors[0].message}"
            )
            rejected.record_errors = tuple(self._errors)
            raise rejected
        if self._is_out_of_order:
            # The code that Kafka 4.3.1 responds with.
            raise UnknownServerError("the offset deltas of the compressed records are not ascending by one")
        return self._largest

    def _check(self, limit: int) -> int:
        batch, rules, now_ms = self._batch, self.rules, self._now_ms
        if self._records is None:
            self._records = self._open()
        largest, index = self._largest, self._next
        needs_keys, base_offset = rules.needs_keys, batch.base_offset
        for offset, at, key, _, _ in islice(self._records, limit):
            if at > largest:
                largest = at
            if needs_keys and key is None:
                self._refuse(index, "a compacted topic cannot accept a record without key")
            elif (why := rules.wrong_time(batch, at, now_ms)) is not None:
                self._refuse(index, why)
                self._kind = InvalidTimestamps
            elif offset != base_offset + index:
                if batch.codec_id:
                    self._is_out_of_order = True
                else:
                    self._refuse(index, f"it has offset delta {offset - base_offset}")
            index += 1
        checked, self._next, self._largest = index - self._next, index, largest
        return checked

    def _open(self) -> Iterator[RecordTuple]:
        from pykafka2.records.tuple_decoder import decode_tuples

        return decode_tuples(self._batch, "the batch", check_crcs=False)

    def _unreadable(self, cause: CorruptData) -> BrokerError:
        try:
            records_of(self._batch)
        except UnknownServerError as error:
            return error
        failure = InvalidRecord(f"the batch's records cannot be read: {cause}")
        failure.__cause__ = cause
        return failure

    def _refuse(self, index: int, why: str) -> None:
        self._error_count += 1
        if len(self._errors) < MAX_RECORD_ERRORS:
            self._errors.append(RecordError(index, why))


def records_of(batch: RecordBatch) -> bytes:
    """The batch's records, decompressed; `UnknownServerError` if they cannot be, as in Kafka."""
    try:
        return batch.records_bytes()
    except CorruptData as error:
        raise UnknownServerError(f"the batch cannot be decompressed: {error}") from error
