"""The metadata log: every change of the cluster's metadata, in order, under the epoch of its controller.

It stands where Kafka has the log of the KRaft quorum.  Here it is one list in memory that all brokers share:
what is appended is committed.  What the quorum's protocol promises is kept by one rule: the log takes
records of its newest epoch only, so a controller that was replaced cannot change anything, however late it
wakes up.  Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.broker.controller.records import ControllerElected, Record
from pykafka2.broker.controller.state import State
from pykafka2.errors import NotController

NO_CONTROLLER = -1

# Beyond this many records the log begins with a snapshot of the state, as Kafka's does.
SNAPSHOT_AFTER = 10_000


class MetadataLog:
    """Records since the last snapshot, and that snapshot."""

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
        """A broker becomes the controller: the epoch before ends here.  The new epoch."""
        self.epoch += 1
        self.controller_id = controller_id
        self._records.append(ControllerElected(controller_id, self.epoch))
        return self.epoch

    def check(self, epoch: int) -> None:
        """Raise `NotController` if this epoch is not the newest."""
        if epoch != self.epoch:
            raise NotController(
                f"controller epoch {epoch} has ended: broker {self.controller_id} is the controller "
                f"in epoch {self.epoch}"
            )

    def append(self, records: Sequence[Record], epoch: int) -> int:
        """Add records together; the log's end after them.  `NotController` for an epoch that has ended."""
        self.check(epoch)
        self._records.extend(records)
        return self.end_offset

    def replay(self) -> State:
        """The state that the whole log describes, made anew."""
        state = self._snapshot.copy()
        state.replay(self._records, self._first_offset)
        return state

    def replace_with_snapshot(self, state: State) -> None:
        """Begin with this state, which has replayed the whole log, and forget the records."""
        self._snapshot = state.copy()
        self._first_offset = self.end_offset
        self._records.clear()

    @property
    def length(self) -> int:
        """How many records there are since the snapshot."""
        return len(self._records)
