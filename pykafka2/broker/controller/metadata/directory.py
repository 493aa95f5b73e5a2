"""The directory of the metadata log, `__cluster_metadata-0`: its names, its small files, and reading it.

| file | content |
|---|---|
| `NNN.log` | segments; NNN is the first offset |
| `NNN-EEE.checkpoint` | a snapshot of the metadata before offset NNN; EEE is the epoch of the record before |
| `quorum-state` | the latest leader and its epoch |
| `leader-epoch-checkpoint`, `partition.metadata` | as in every log directory |

`read_log` changes nothing. Errors are `CorruptData` with the path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import attrs

from pykafka2.broker.controller.metadata.batches import (
    MetadataBatch,
    Versioned,
    decode_batches,
    encode_controls,
    encode_records,
    valid_bytes,
)
from pykafka2.broker.log.file_system import FileSystem
from pykafka2.errors import CorruptData
from pykafka2.protocol.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from pykafka2.protocol.struct import Data

DIRECTORY: Final = "__cluster_metadata-0"
TOPIC_ID: Final = UUID(int=1)
QUORUM_STATE: Final = "quorum-state"
EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
BOOTSTRAP: Final = "bootstrap.checkpoint"
"""The first records of a new cluster, which `kafka-storage format` writes into the data directory."""

NO_LEADER: Final = -1
MAX_LOG_BYTES: Final = 2**31 - 1
"""Maximum size of a segment or snapshot."""
RECORDS_PER_BATCH: Final = 1000

_SEGMENT = re.compile(r"(\d{20})\.log")
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """The end offset of a snapshot, and the epoch of the record before it."""

    offset: int
    epoch: int


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def snapshot_name(snapshot: SnapshotId) -> str:
    return f"{snapshot.offset:020d}-{snapshot.epoch:010d}.checkpoint"


def segments_in(names: Sequence[str]) -> list[int]:
    """Return the base offsets of the segments among these names."""
    return sorted(int(match[1]) for match in map(_SEGMENT.fullmatch, names) if match)


def snapshots_in(names: Sequence[str]) -> list[SnapshotId]:
    """Return the snapshots among these names, the oldest first."""
    return sorted(SnapshotId(int(one[1]), int(one[2])) for one in map(_SNAPSHOT.fullmatch, names) if one)


@attrs.frozen
class QuorumState:
    """The content of `quorum-state`; `voters` is empty with kraft.version 1, whose log has them."""

    leader_id: int
    epoch: int
    voters: Sequence[int] = ()


def encode_quorum_state(state: QuorumState, kraft_version: int) -> bytes:
    """Return the file as Kafka writes it."""
    fields: dict[str, object] = {"leaderId": state.leader_id, "leaderEpoch": state.epoch, "votedId": -1}
    if kraft_version:
        fields = {**fields, "votedDirectoryId": "A" * 22, "data_version": 1}
    else:
        voters = [{"voterId": voter} for voter in state.voters]
        fields = {
            "clusterId": "",
            **fields,
            "appliedOffset": 0,
            "currentVoters": voters,
            "data_version": 0,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_quorum_state(data: bytes, where: str) -> QuorumState:
    """Raise `CorruptData`."""
    try:
        fields = json.loads(data)
        if fields["data_version"] not in (0, 1):
            raise CorruptData(f"{where}: version {fields['data_version']} is not 0 or 1")
        voters = [int(voter["voterId"]) for voter in fields.get("currentVoters") or ()]
        return QuorumState(int(fields["leaderId"]), int(fields["leaderEpoch"]), voters)
    except CorruptData:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"{where}: not a quorum state ({error!r})") from error


# ---------------------------------------------------------------------- snapshots


def encode_snapshot(
    records: Iterator[Versioned], controls: Sequence[Data], epoch: int, last_ms: int, now_ms: int
) -> bytes:
    """Return a whole snapshot; `controls` follow its header, `last_ms` is when the log last changed."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_ms)
    parts = [encode_controls([header, *controls], 0, epoch, now_ms)]
    offset = 1 + len(controls)
    pending: list[Versioned] = []
    for record in records:
        pending.append(record)
        if len(pending) == RECORDS_PER_BATCH:
            parts.append(encode_records(pending, offset, epoch, now_ms))
            offset += len(pending)
            pending = []
    if pending:
        parts.append(encode_records(pending, offset, epoch, now_ms))
        offset += len(pending)
    parts.append(encode_controls([SnapshotFooterRecord(version=0)], offset, epoch, now_ms))
    return b"".join(parts)


def read_snapshot(files: FileSystem, path: str) -> list[MetadataBatch]:
    """Return the batches of a snapshot. Raise `CorruptData` if it is damaged or incomplete."""
    batches = [*decode_batches(files.read(path, MAX_LOG_BYTES), path, 0)]
    first = batches[0].controls[:1] if batches else ()
    last = batches[-1].controls[-1:] if batches else ()
    if not first or not isinstance(first[0], SnapshotHeaderRecord):
        raise CorruptData(f"{path}: the snapshot does not begin with its header")
    if not last or not isinstance(last[0], SnapshotFooterRecord):
        raise CorruptData(f"{path}: the snapshot is incomplete, because it has no footer")
    return batches


# ---------------------------------------------------------------------- reading the log


@attrs.define
class LogContents:
    """The latest snapshot of a metadata log, and the batches from its offset on."""

    snapshot: SnapshotId | None
    snapshot_batches: list[MetadataBatch]
    batches: list[MetadataBatch]
    end_offset: int
    active_segment: int
    active_bytes: int
    """The valid bytes of the active segment; a torn write may follow."""
    torn_bytes: int

    @property
    def first_offset(self) -> int:
        """The offset at which `batches` begin."""
        return 0 if self.snapshot is None else self.snapshot.offset

    @property
    def has_records(self) -> bool:
        """Whether there is metadata, and not only the epochs of controllers."""
        return any(batch.records for batch in (*self.snapshot_batches, *self.batches))


def read_log(files: FileSystem, path: str) -> LogContents:
    """Read the latest snapshot and the log after it.

    Raise `CorruptData` with the path for a damaged file, a missing segment or a missing snapshot.
    """
    names = files.names(path)
    snapshots, segments = snapshots_in(names), segments_in(names)
    snapshot = snapshots[-1] if snapshots else None
    snapshot_batches = [] if snapshot is None else read_snapshot(files, f"{path}/{snapshot_name(snapshot)}")
    # The latest segment is never deleted. A directory that kafka-storage has formatted can have none.
    if snapshot is not None and snapshot.offset and not segments:
        raise CorruptData(f"{path}: the segments after the snapshot of offset {snapshot.offset} are missing")
    start = 0 if snapshot is None else snapshot.offset
    # Segments that end before the snapshot are kept for a while, but not read.
    ends = [*segments[1:], None][: len(segments)]  # a start can be killed before the first write
    needed = [base for base, end in zip(segments, ends, strict=True) if end is None or end > start]
    if needed and needed[0] > start:
        raise CorruptData(
            f"{path}: the log begins at offset {needed[0]}, but no snapshot has the metadata before it"
        )
    contents = LogContents(snapshot, snapshot_batches, [], start, start, 0, 0)
    next_offset = needed[0] if needed else start
    for base in needed:
        where = f"{path}/{segment_name(base)}"
        if base != next_offset:
            raise CorruptData(f"{where}: the segment of offset {next_offset} is missing before it")
        data = files.read(where, MAX_LOG_BYTES)
        valid = valid_bytes(data, where)
        if valid < len(data) and base != needed[-1]:
            raise CorruptData(f"{where}: the batch at byte {valid} is damaged, but other segments follow")
        for batch in decode_batches(data[:valid], where, base):
            if batch.base_offset >= start:
                contents.batches.append(batch)
            elif batch.next_offset > start:
                raise CorruptData(f"{where}: offset {start} of the snapshot is within a batch")
            next_offset = batch.next_offset
        contents.active_segment, contents.active_bytes = base, valid
        contents.torn_bytes = len(data) - valid
    if needed and next_offset < start:
        raise CorruptData(f"{path}: the log ends at offset {next_offset}, before its snapshot of {start}")
    contents.end_offset = max(start, next_offset)
    return contents
