"""A batch whose records came by column: encoded when it is made, and never open to others.

Between the accumulator, which gives it its place and its permit, and the sender, for which it is a batch like
any other (batch.py): numbered, sent, sent again, split, completed once.  It holds its records' bytes once:
what was framed for a first attempt is stamped anew where it gets other numbers.
"""

from __future__ import annotations

from pykafka2.errors import IllegalState
from pykafka2.producer.accumulator.batch import BatchState, Charge, ProducerBatch, charge_nothing, raise_here
from pykafka2.producer.accumulator.batch_sizes import BATCH_OVERHEAD_BYTES, BatchPlan
from pykafka2.producer.accumulator.buffer_pool import Permit
from pykafka2.producer.delivery.batch_outcome import WaitUntil
from pykafka2.producer.delivery.callbacks import Interrupt
from pykafka2.records.batch import RecordBatch, with_producer
from pykafka2.records.column_encoder import EncodedRecords
from pykafka2.records.encoder import NO_HEADERS, encode_headers, frame_batch
from pykafka2.records.rows import Fields, fields_of_rows
from pykafka2.records.tuple_decoder import decode_tuples


class ColumnBatch(ProducerBatch):
    """Records for one partition, already encoded.  See `ProducerBatch` for what is not said here."""

    __slots__ = ("_framed", "_max_timestamp", "_records")

    def __init__(
        self,
        topic: str,
        partition: int,
        plan: BatchPlan,
        records: EncodedRecords,
        *,
        permit: Permit,
        created_at: float,
        wait_until: WaitUntil,
        interrupt: Interrupt = raise_here,
        charge: Charge = charge_nothing,
    ) -> None:
        super().__init__(
            topic,
            partition,
            plan,
            order=0,
            permit=permit,
            created_at=created_at,
            wait_until=wait_until,
            interrupt=interrupt,
            charge=charge,
        )
        self._records: bytes | None = records.body
        self._framed: bytes | None = None
        """What was sent before under other numbers."""
        self.base_timestamp = records.base_timestamp
        self._max_timestamp = records.max_timestamp
        self.count = records.count
        self.raw_bytes = len(records.body)
        self.is_full = True

    @property
    def _bound_bytes(self) -> int:
        return super()._bound_bytes if self.fields else self.raw_bytes

    def _charge_all(self) -> bool:
        if self.fields:
            return super()._charge_all()
        # Its bytes are what its permit is for; compressed, they take less.
        return self._charge(self.permit, BATCH_OVERHEAD_BYTES)

    def _frame(self) -> bytes:
        if self._records is None:
            raise IllegalState(f"{self} is done and has no bytes any more")
        return frame_batch(
            self._records,
            self.count,
            self.base_timestamp,
            self._max_timestamp,
            self._plan.codec,
            self._plan.level,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            is_transactional=self.is_transactional,
        )

    def close(self) -> None:
        if self.state is BatchState.OPEN:
            self.move_to(BatchState.QUEUED)

    def unpack(self) -> None:
        encoded = self.encoded or self._framed or self._frame()
        batch = RecordBatch(memoryview(encoded))
        records = decode_tuples(batch, f"{self.topic}-{self.partition}", check_crcs=False)
        self.fields = fields_of_rows(
            (value, key, timestamp, encode_headers(headers) if headers else NO_HEADERS, None)
            for _, timestamp, key, value, headers in records
        )
        self.encoded = self._records = self._framed = None

    def sequence(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self._framed = self.encoded or self._framed
        super().sequence(producer_id, producer_epoch, base_sequence)

    def bytes(self) -> bytes:
        if self.fields:
            return super().bytes()
        if self.encoded is None:
            if self._framed is not None:
                numbers = (self.producer_id, self.producer_epoch, self.base_sequence)
                self.encoded, self._framed = with_producer(self._framed, *numbers), None
            else:
                self.encoded, self._records = self._frame(), None
        return self.encoded

    def _end(self) -> Fields:
        count = self.count
        fields = super()._end()
        self.count, self._records, self._framed = count, None, None
        return fields

    def abandon(self) -> None:
        super().abandon()
        self._records = None
