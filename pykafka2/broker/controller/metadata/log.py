"""The metadata log: all changes of the cluster's metadata, in order, with the epochs of their controllers.

Replaces the log of the KRaft quorum by one log that all brokers share: appended records are committed. One
rule gives the quorum's guarantee: the log accepts records of its latest epoch only, so a replaced controller
cannot change anything, however late it resumes. All controllers use `state`, the metadata at the end;
`MetadataStorage` keeps the records across restarts of the cluster. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pykafka2.broker.controller.metadata.image import Changes, MetadataImage
from pykafka2.errors import NotController
from pykafka2.protocol.struct import MetadataRecord

NO_CONTROLLER = -1

# Beyond this many records a snapshot is written, from which the log continues, as in Kafka.
SNAPSHOT_AFTER = 10_000


class MetadataStorage(Protocol):
    """Keeps the metadata log across restarts. Its offsets are those of the log."""

    epoch: int
    """The latest epoch."""
    end_offset: int
    """The offset of the next record."""
    snapshot_offset: int
    """The end offset of the latest snapshot."""

    def begin_epoch(self, controller_id: int, epoch: int) -> None:
        """Append the start of a controller's epoch. Raise `KafkaStorageError`."""
        ...

    def append(self, records: Sequence[MetadataRecord], metadata_version: int) -> None:
        """Append records, all or none. Raise `KafkaStorageError`, and from then on always."""
        ...

    def write_snapshot(self, state: MetadataImage) -> None:
        """Write a snapshot of the metadata, which is that at the log's end."""
        ...


class MemoryStorage:
    """Keeps nothing: the metadata ends with the cluster."""

    def __init__(self) -> None:
        self.epoch = 0
        self.end_offset = 0
        self.snapshot_offset = 0

    def begin_epoch(self, controller_id: int, epoch: int) -> None:
        self.epoch = epoch
        self.end_offset += 1

    def append(self, records: Sequence[MetadataRecord], metadata_version: int) -> None:
        self.end_offset += len(records)

    def write_snapshot(self, state: MetadataImage) -> None:
        self.snapshot_offset = self.end_offset


class MetadataLog:
    """The metadata log of a cluster; `state` is the metadata at its end."""

    def __init__(self, state: MetadataImage, storage: MetadataStorage | None = None) -> None:
        self.state = state
        self._storage: MetadataStorage = MemoryStorage() if storage is None else storage
        self.controller_id = NO_CONTROLLER

    @property
    def epoch(self) -> int:
        """The epoch of the latest controller."""
        return self._storage.epoch

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._storage.end_offset

    def begin_epoch(self, controller_id: int) -> int:
        """Start the epoch of a new controller, which ends the previous one. Return the new epoch."""
        self._storage.begin_epoch(controller_id, self.epoch + 1)
        self.controller_id = controller_id
        self.state.derive(self.end_offset)
        return self.epoch

    def check(self, epoch: int) -> None:
        """Raise `NotController` if this epoch is not the latest."""
        if epoch != self.epoch:
            raise NotController(
                f"controller epoch {epoch} has ended: broker {self.controller_id} is the controller "
                f"in epoch {self.epoch}"
            )

    def append(self, records: Sequence[MetadataRecord], epoch: int) -> Changes:
        """Append records together, and replay them. Return the topics that changed.

        Raise `NotController` for an old epoch, and `KafkaStorageError`; then nothing changes.
        """
        self.check(epoch)
        self._storage.append(records, self.state.metadata_version)
        changed = self.state.replay(records, self.end_offset)
        if self.length > SNAPSHOT_AFTER:
            self.write_snapshot()
        return changed

    def write_snapshot(self) -> None:
        """Write a snapshot of the metadata at the log's end."""
        self._storage.write_snapshot(self.state)

    @property
    def length(self) -> int:
        """The number of records since the snapshot."""
        return self.end_offset - self._storage.snapshot_offset
