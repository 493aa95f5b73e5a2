"""The metadata log: all changes of the cluster's metadata, in order, with the epochs of their controllers.

Replaces the log of the KRaft quorum by one list in memory that all brokers share: appended records are
committed. One rule gives the quorum's guarantee: the log accepts records of its latest epoch only, so a
replaced controller cannot change anything, however late it resumes. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.broker.controller.records import ControllerElected, Record
from pykafka2.broker.controller.state import State
from pykafka2.errors import NotController

NO_CONTROLLER = -1

# Beyond this many records the log is replaced by a snapshot of the state, as in Kafka.
SNAPSHOT_AFTER = 10_000


class MetadataLog:
    """The latest snapshot and the records since then."""

    def __init__(self, snapshot: State) -> None:
        self._snapshot = snapshot
        self._first_offset = 0
        self._records: list[Record] = []
        self.epoch = 0
        self.controller_id = NO_CONTROLLER

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._first_offset + len(self._records)

    def begin_epoch(self, controller_id: int) -> int:
        """Starts the epoch of a new controller, which ends the previous one. Returns the new epoch."""
        self.epoch += 1
        self.controller_id = controller_id
        self._records.append(ControllerElected(controller_id, self.epoch))
        return self.epoch

    def check(self, epoch: int) -> None:
        """Raises `NotController` if this epoch is not the latest."""
        if epoch != self.epoch:
            raise NotController(
                f"controller epoch {epoch} has ended: broker {self.controller_id} is the controller "
                f"in epoch {self.epoch}"
            )

    def append(self, records: Sequence[Record], epoch: int) -> int:
        """Appends records together. Returns the log's new end. Raises `NotController` for an old epoch."""
        self.check(epoch)
        self._records.extend(records)
        return self.end_offset

    def replay(self) -> State:
        """Returns the state that results from replaying the whole log."""
        state = self._snapshot.copy()
        state.replay(self._records, self._first_offset)
        return state

    def replace_with_snapshot(self, state: State) -> None:
        """Replaces the records by this state, which has replayed the whole log."""
        self._snapshot = state.copy()
        self._first_offset = self.end_offset
        self._records.clear()

    @property
    def length(self) -> int:
        """The number of records since the snapshot."""
        return len(self._records)
