"""The metadata log on disk, in the format of Apache Kafka with one voter.

Opened by recovery.py. Each write is forced to the disk before brokers see it, as in Kafka. Access
requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from pykafka2.broker.controller.metadata.batches import encode_controls, encode_records, versioned
from pykafka2.broker.controller.metadata.directory import (
    EPOCHS,
    QUORUM_STATE,
    QuorumState,
    SnapshotId,
    encode_quorum_state,
    encode_snapshot,
    segment_name,
    segments_in,
    snapshot_name,
    snapshots_in,
)
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.log.disk.text_files import encode_epochs
from pykafka2.broker.log.file_system import File, FileSystem
from pykafka2.broker.log.leader_epochs import LeaderEpochs
from pykafka2.errors import KafkaStorageError
from pykafka2.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderVoter,
    VotersRecord,
)
from pykafka2.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from pykafka2.protocol.struct import Data, MetadataRecord

logger = logging.getLogger(__name__)

MAX_RECORDS_PER_BATCH: Final = 10_000
"""Longer writes are a transaction of several batches (KIP-868)."""
FIRST_WITH_TRANSACTIONS: Final = 13
"""The metadata.version 3.6-IV1."""
NO_DIRECTORY: Final = bytes(16)


@attrs.define
class Quorum:
    """The voter of the log, and what the log's control records say about KRaft."""

    voter_id: int
    kraft_version: int = 0
    voters_record: VotersRecord | None = None
    """The voters with kraft.version 1 (KIP-853)."""

    def controls(self) -> list[Data]:
        """Return the control records that every snapshot repeats."""
        if self.voters_record is None:
            return []
        return [KRaftVersionRecord(version=0, k_raft_version=self.kraft_version), self.voters_record]


@attrs.frozen
class SnapshotRetention:
    """metadata.max.retention.bytes, of all snapshots and segments together."""

    max_bytes: int


@attrs.define(eq=False)
class DiskMetadataStorage:
    """One metadata log on disk; the single user of its directory."""

    files: FileSystem
    path: str
    quorum: Quorum
    retention: SnapshotRetention
    now_ms: Callable[[], int]
    epoch: int
    end_offset: int
    snapshot_offset: int
    epochs: LeaderEpochs
    metadata_version: int
    """The level of metadata.version at the start."""
    last_ms: int = 0
    """The timestamp of the last batch."""
    pending: Sequence[MetadataRecord] = ()
    """Records to write with the next epoch: the first ones of a new log, and those of the start."""
    has_open_transaction: bool = False
    """Whether the log ends within a transaction of a controller that failed, which is aborted."""
    segment: int = 0
    segment_bytes: int = 0
    _file: File | None = None
    _failure: Exception | None = None

    # ------------------------------------------------------------------ writes

    def begin_epoch(self, controller_id: int, epoch: int) -> None:
        """Append the start of an epoch. The log's leader is always its voter, whichever broker decides."""
        voter_id = self.quorum.voter_id
        state = QuorumState(voter_id, epoch, [voter_id])
        self._do(
            lambda: self.files.replace(
                f"{self.path}/{QUORUM_STATE}", encode_quorum_state(state, self.quorum.kraft_version)
            )
        )
        self.epoch = epoch
        self.epochs.assign(epoch, self.end_offset)
        self._do(self._write_epochs)
        # Kafka reads and writes version 0, also with kraft.version 1.
        voters = [LeaderVoter(voter_id=voter_id, voter_directory_id=NO_DIRECTORY)]
        change = LeaderChangeMessage(version=0, leader_id=voter_id, voters=voters, granting_voters=voters)
        self._write(encode_controls([change], self.end_offset, epoch, self._now()), 1)
        if self.has_open_transaction:
            self.has_open_transaction = False
            self.append([AbortTransactionRecord(reason="the controller failed")], self.metadata_version)
        if self.pending:
            records, self.pending = self.pending, ()
            self.append(records, self.metadata_version)

    def append(self, records: Sequence[MetadataRecord], metadata_version: int) -> None:
        """Append records, all or none. Raise `KafkaStorageError`, and from then on always."""
        self.check()
        now = self._now()
        groups: list[Sequence[MetadataRecord]] = [records]
        if len(records) > MAX_RECORDS_PER_BATCH and metadata_version >= FIRST_WITH_TRANSACTIONS:
            groups = [
                [BeginTransactionRecord()],
                *(
                    records[at : at + MAX_RECORDS_PER_BATCH]
                    for at in range(0, len(records), MAX_RECORDS_PER_BATCH)
                ),
                [EndTransactionRecord()],
            ]
        # Each batch is flushed before the next one: a crash damages the last batch alone.
        for group in groups:
            entries = [versioned(record, metadata_version) for record in group]
            self._write(encode_records(entries, self.end_offset, self.epoch, now), len(entries))

    def _write(self, data: bytes, count: int) -> None:
        self._do(lambda: self._write_bytes(data))
        self.segment_bytes += len(data)
        self.end_offset += count

    def _write_bytes(self, data: bytes) -> None:
        if self._file is None:
            path = f"{self.path}/{segment_name(self.segment)}"
            is_new = not self.files.exists(path)
            self._file = self.files.open(path, creates=is_new)
            if is_new:
                self.files.flush_directory(self.path)
        self._file.write(self.segment_bytes, data)
        self._file.flush()

    def _write_epochs(self) -> None:
        self.files.replace(f"{self.path}/{EPOCHS}", encode_epochs(self.epochs.entries).encode())

    def _now(self) -> int:
        self.last_ms = max(self.last_ms, self.now_ms())
        return self.last_ms

    # ------------------------------------------------------------------ snapshots

    def write_snapshot(self, state: MetadataImage) -> None:
        """Write a snapshot at the log's end, and begin a new segment.

        The oldest snapshots and segments are deleted if all together are larger than the retention.
        """
        snapshot = SnapshotId(self.end_offset, self.epoch)
        level = state.metadata_version
        data = encode_snapshot(
            (versioned(record, level) for record in state.snapshot()),
            self.quorum.controls(),
            self.epoch,
            self.last_ms,
            self._now(),
        )
        self._do(lambda: self.files.replace(f"{self.path}/{snapshot_name(snapshot)}", data))
        self.snapshot_offset = self.end_offset
        logger.info(
            "metadata log %s: snapshot of %d bytes at offset %d", self.path, len(data), self.end_offset
        )
        if self.segment_bytes:
            self.close()
            self.segment, self.segment_bytes = self.end_offset, 0
        self._do(self._delete_old)

    def _delete_old(self) -> None:
        """Delete the oldest snapshots, and segments before the first one left, while there is too much."""
        names = self.files.names(self.path)
        snapshots, segments = snapshots_in(names), segments_in(names)
        sizes = {
            name: self.files.open(f"{self.path}/{name}").size()
            for name in [*map(snapshot_name, snapshots), *map(segment_name, segments)]
        }
        while len(snapshots) > 1 and sum(sizes.values()) > self.retention.max_bytes:
            gone = [snapshot_name(snapshots.pop(0))]
            while len(segments) > 1 and segments[1] <= snapshots[0].offset:
                gone.append(segment_name(segments.pop(0)))
            for name in gone:
                self.files.remove(f"{self.path}/{name}")
                del sizes[name]
            logger.info("metadata log %s: deleted %s", self.path, ", ".join(gone))

    def close(self) -> None:
        """Close the active segment. The next write opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    # ------------------------------------------------------------------ failures

    def _do(self, action: Callable[[], None]) -> None:
        """Run an operation on files; after a failure the log accepts nothing more, as in Kafka."""
        self.check()
        try:
            action()
        except OSError as error:
            self._failure = error
            logger.exception("metadata log %s cannot be written", self.path)
            self.check()

    def check(self) -> None:
        """Raise `KafkaStorageError` if the log could not be written."""
        if self._failure is not None:
            raise KafkaStorageError(
                f"The metadata log {self.path} cannot be written: {self._failure}. "
                "Repair the disk, then start the cluster again."
            ) from self._failure
