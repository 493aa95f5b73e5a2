"""Keys and values of control records: the end of a transaction (KIP-98), and those of KRaft's log (KIP-595).

The key and the marker follow their version as an int16 (records/control.py). The values of KRaft's log have
their version as a field of their own.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int16, Int32, Int64, String, UInt16, Uuid, field
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.struct import Data, Struct


class ControlRecordTypeSchema(Data, versions="0"):
    """The key of a control record: 0 aborts a transaction, 1 commits it; 2 to 6 are those of KRaft's log."""

    type: Int16


class EndTxnMarker(Data, versions="0"):
    """The value of a control record: the epoch of the coordinator that wrote it."""

    coordinator_epoch: Int32


class LeaderVoter(Struct):
    voter_id: Int32
    voter_directory_id: Uuid = field("1+", default=ZERO_UUID)


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    """The first record of a leader's epoch in KRaft's log (type 2)."""

    version: Int16
    leader_id: Int32
    voters: list[LeaderVoter]
    granting_voters: list[LeaderVoter]


class SnapshotHeaderRecord(Data, versions="0", flexible="0+"):
    """The first record of a snapshot of KRaft's log (type 3)."""

    version: Int16
    last_contained_log_timestamp: Int64


class SnapshotFooterRecord(Data, versions="0", flexible="0+"):
    """The last record of a snapshot of KRaft's log (type 4); without it the snapshot is incomplete."""

    version: Int16


class KRaftVersionRecord(Data, versions="0", flexible="0+"):
    """The version of KRaft's protocol (type 5); 1 has voters that can change (KIP-853)."""

    version: Int16
    k_raft_version: Int16


class VoterEndpoint(Struct):
    name: String
    host: String
    port: UInt16


class KRaftVersionFeature(Struct):
    min_supported_version: Int16 = field(default=0)
    max_supported_version: Int16 = field(default=0)


class Voter(Struct):
    voter_id: Int32
    voter_directory_id: Uuid
    endpoints: list[VoterEndpoint]
    k_raft_version_feature: KRaftVersionFeature


class VotersRecord(Data, versions="0", flexible="0+"):
    """The voters of the quorum (type 6, KIP-853)."""

    version: Int16
    voters: list[Voter]
