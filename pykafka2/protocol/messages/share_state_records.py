"""Records of the share coordinator in __share_group_state (KIP-932).

Snapshots of a share partition's state, and updates since.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int8, Int16, Int32, Int64, String, Uuid, field
from pykafka2.protocol.struct import RecordKey, RecordValue, Struct


class ShareSnapshotKey(RecordKey, kind=0, versions="0"):
    """The share partition of a snapshot."""

    group_id: String
    topic_id: Uuid
    partition: Int32


class ShareSnapshotValueStateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ShareSnapshotValue(RecordValue, kind=0, versions="0", flexible="0+"):
    """The whole state of a share partition."""

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(default=-1, tag=0)
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[ShareSnapshotValueStateBatch]


class ShareUpdateKey(RecordKey, kind=1, versions="0"):
    """The share partition of an update."""

    group_id: String
    topic_id: Uuid
    partition: Int32


class ShareUpdateValueStateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ShareUpdateValue(RecordValue, kind=1, versions="0", flexible="0+"):
    """The changes since the last snapshot."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(default=-1, tag=0)
    state_batches: list[ShareUpdateValueStateBatch]
