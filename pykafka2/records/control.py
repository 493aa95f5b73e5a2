"""Control batches: the markers that end a transaction in each partition it wrote to (KIP-98).

The broker writes them; the consumer reads them to distinguish committed records from aborted ones.
"""

from __future__ import annotations

import struct

from pykafka2.errors import CorruptData
from pykafka2.records.batch import NO_LEADER_EPOCH, RecordBatch
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.encoder import BatchBuilder
from pykafka2.slotted import slotted

ABORT = 0
COMMIT = 1

KEY = struct.Struct(">hh")  # version, type
VALUE = struct.Struct(">hi")  # version, coordinator epoch


@slotted(frozen=True)
class ControlMarker:
    """The content of a control record: its type (0 abort, 1 commit, others belong to KRaft) and the
    coordinator epoch.

    coordinator_epoch is -1 for types other than abort and commit.
    """

    type: int
    coordinator_epoch: int = -1

    @property
    def is_commit(self) -> bool:
        return self.type == COMMIT

    @property
    def is_abort(self) -> bool:
        return self.type == ABORT


def build_end_marker(
    committed: bool,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Return a control batch that commits or aborts the producer's transaction in one partition."""
    builder = BatchBuilder()
    builder.append(timestamp, KEY.pack(0, COMMIT if committed else ABORT), VALUE.pack(0, coordinator_epoch))
    return builder.build(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        partition_leader_epoch=partition_leader_epoch,
    )


def parse_control(key: bytes | None, value: bytes | None) -> ControlMarker:
    """Return the marker in a control record; ignores fields that newer versions append to key and value."""
    if key is None or len(key) < KEY.size:
        raise CorruptData(f"a control record's key of {len(key or b'')} bytes is shorter than {KEY.size}")
    version, marker_type = KEY.unpack_from(key)
    if version < 0:
        raise CorruptData(f"a control record's key of version {version}")
    if marker_type not in (ABORT, COMMIT):
        return ControlMarker(marker_type)
    if value is None or len(value) < VALUE.size:
        raise CorruptData(f"an end marker's value of {len(value or b'')} bytes is shorter than {VALUE.size}")
    return ControlMarker(marker_type, VALUE.unpack_from(value)[1])


def read_marker(batch: RecordBatch, where: str = "records", check_crcs: bool = True) -> ControlMarker:
    """Return the marker of a control batch, which contains exactly one record."""
    for _, _, key, value, _ in decode_tuples(batch, where, check_crcs):
        return parse_control(key, value)
    raise CorruptData(f"{where} at offset {batch.base_offset}: a control batch without a record")
