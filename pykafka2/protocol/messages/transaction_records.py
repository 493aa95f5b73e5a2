"""Records of the transaction coordinator in __transaction_state (KIP-98, KIP-890).

One record per change of a transaction; the latest one of a transactional id is valid.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int8, Int16, Int32, Int64, String, field
from pykafka2.protocol.struct import Data, RecordKey, RecordValue, Struct


class TransactionLogKey(RecordKey, kind=0, versions="0"):
    """A transactional id."""

    transactional_id: String


class PartitionsSchema(Struct):
    topic: String
    partition_ids: list[Int32]


class TransactionLogValue(RecordValue, kind=0, versions="0-1", flexible="1+"):
    """A transaction: producer, state, partitions and times."""

    producer_id: Int64
    previous_producer_id: Int64 = field("1+", default=-1, tag=0)
    next_producer_id: Int64 = field("1+", default=-1, tag=1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = field("1+", default=-1, tag=3)
    transaction_timeout_ms: Int32
    transaction_status: Int8  # 0: empty, 1: ongoing, 2: prepare commit, 3: prepare abort, ...
    transaction_partitions: list[PartitionsSchema] | None = field(nullable="0+")
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field("1+", default=0, tag=2)


class AbortedTxn(Data, versions="0"):
    """An entry of a segment's transaction index, after its version as an int16."""

    producer_id: Int64
    first_offset: Int64
    last_offset: Int64
    last_stable_offset: Int64
