"""Records of classic groups in __consumer_offsets.

Commits and group states, each after its kind or version as an int16.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bytes, Int32, Int64, String, Uuid, field
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.struct import RecordKey, RecordValue, Struct


class LegacyOffsetCommitKey(RecordKey, kind=0, versions="0"):
    """The key of a commit in its oldest format."""

    group: String
    topic: String
    partition: Int32


class LegacyOffsetCommitValue(RecordValue, kind=0, versions="0"):
    """A commit in its oldest format."""

    offset: Int64
    metadata: String
    commit_timestamp: Int64


class OffsetCommitKey(RecordKey, kind=1, versions="0"):
    """The group and partition of a commit."""

    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(RecordValue, kind=1, versions="0-4", flexible="4+"):
    """A committed offset."""

    offset: Int64
    leader_epoch: Int32 = field("3+", default=-1, ignorable=True)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field("1", default=-1, ignorable=True)
    topic_id: Uuid = field("4+", default=ZERO_UUID, tag=0, ignorable=True)


class GroupMetadataKey(RecordKey, kind=2, versions="0"):
    """The group of a state record."""

    group: String


class MemberMetadata(Struct):
    member_id: String
    group_instance_id: String | None = field("3+", default=None, nullable="0+", ignorable=True)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field("1+", default=-1, ignorable=True)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


class GroupMetadataValue(RecordValue, kind=2, versions="0-4", flexible="4+"):
    """A group's generation, protocol and members."""

    protocol_type: String
    generation: Int32
    protocol: String | None = field(nullable="0+")
    leader: String | None = field(nullable="0+")
    current_state_timestamp: Int64 = field("2+", default=-1, ignorable=True)
    members: list[MemberMetadata]
