"""Records of a share partition in flight: their states, locks and delivery counts, batch by batch (KIP-932).

A batch has one state while all of its records share it, and one for each offset after a member has treated
them differently. States change as follows; every other change is a bug.

| state        | acquired | accepted     | released or expired | rejected or gap | log start moved |
|--------------|----------|--------------|---------------------|-----------------|-----------------|
| Available    | Acquired |              |                     |                 | Archived        |
| Acquired     |          | Acknowledged | Available (1)       | Archived (2)    | Archived (3)    |
| Acknowledged |          |              |                     |                 |                 |
| Archiving    |          |              |                     |                 | Archived (4)    |
| Archived     |          |              |                     |                 |                 |

(1) After the last delivery that the group allows: Archived, or Archiving with a dead-letter topic.
(2) A rejected record is Archiving with a dead-letter topic (KIP-1191).
(3) When it is released, or its lock expires.
(4) Also once the dead-letter topic has the record, or cannot have it.

An acknowledgement changes the state at once, and is undone if the share coordinator does not store it.  In
between the record is neither acquired nor acknowledged again. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from pykafka2.broker.base.timing_wheel import Timer, TimingWheel

NO_MEMBER: Final = ""


class RecordState(IntEnum):
    """The state of a record in a share group, with the number that the share coordinator stores."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState
ENDED: Final = frozenset({ACKNOWLEDGED, ARCHIVED})
"""The states in which a record is not delivered again."""


class AcquisitionLock:
    """The time until which a member holds records. Records that were acquired together share one.

    `timer` is None once no record is held by it; `has_expired` is then False.
    """

    __slots__ = ("deadline", "first_offset", "has_expired", "holders", "last_offset", "member_id", "timer")

    def __init__(self, member_id: str, first_offset: int, last_offset: int, deadline: float) -> None:
        self.member_id = member_id
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.deadline = deadline
        self.timer: Timer | None = None
        self.holders = 0
        """The number of states that refer to it."""
        self.has_expired = False

    def drop(self, wheel: TimingWheel) -> None:
        """End the hold of one state; the last one cancels the timer."""
        self.holders -= 1
        if not self.holders and self.timer is not None:
            wheel.cancel(self.timer)
            self.timer = None


class Undo(NamedTuple):
    """The state before an acknowledgement that is not stored yet, and the delivery limit at that time."""

    state: RecordState
    member_id: str
    delivery_limit: int


class DeliveryState:
    """The state of one record, or of all records of a batch."""

    __slots__ = ("delivery_count", "is_final", "lock", "member_id", "state", "undo")

    def __init__(self, state: RecordState, delivery_count: int, member_id: str = NO_MEMBER) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock: AcquisitionLock | None = None
        self.undo: Undo | None = None
        """Set while the share coordinator stores the state."""
        self.is_final = False
        """Whether it was archived by the log or the dead-letter queue, which is not undone."""

    def __repr__(self) -> str:
        held = f" by {self.member_id}" if self.member_id else ""
        return f"{self.state.name}{held}, delivered {self.delivery_count} times"

    @property
    def is_acquirable(self) -> bool:
        return self.state is AVAILABLE and self.undo is None

    @property
    def has_ended(self) -> bool:
        """Whether it is not delivered again, and that is stored."""
        return self.state in ENDED and self.undo is None

    def acquire(self, lock: AcquisitionLock) -> None:
        """Deliver the record to the member of a lock."""
        self.state = ACQUIRED
        self.delivery_count += 1
        self.member_id = lock.member_id
        self.hold(lock)

    def hold(self, lock: AcquisitionLock) -> None:
        """Refer to a lock."""
        self.lock = lock
        lock.holders += 1

    def let_go(self, wheel: TimingWheel) -> None:
        """End the reference to the lock, if there is one."""
        if self.lock is not None:
            self.lock.drop(wheel)
            self.lock = None

    def after_release(self, delivery_limit: int, *, has_dead_letters: bool) -> RecordState:
        """Return the state that a released record gets."""
        if self.delivery_count < delivery_limit:
            return AVAILABLE
        return ARCHIVING if has_dead_letters else ARCHIVED

    def change(self, state: RecordState) -> None:
        """Enter a state that needs no undo."""
        self.state = state
        self.member_id = NO_MEMBER

    def begin(self, state: RecordState, delivery_limit: int) -> None:
        """Enter a state that is undone unless the share coordinator stores it."""
        self.undo = Undo(self.state, self.member_id, delivery_limit)
        self.change(state)

    def commit(self, wheel: TimingWheel) -> None:
        """End a change that the share coordinator has stored."""
        self.undo = None
        self.let_go(wheel)

    def roll_back(self, wheel: TimingWheel) -> None:
        """Undo a change that was not stored. The record is released if its lock has expired meanwhile."""
        undo, self.undo = self.undo, None
        if undo is None or self.is_final:
            self.let_go(wheel)
        elif self.lock is not None and self.lock.has_expired:
            self.change(AVAILABLE if self.delivery_count < undo.delivery_limit else ARCHIVED)
            self.let_go(wheel)
        else:
            self.state = undo.state
            self.member_id = undo.member_id

    def archive(self, wheel: TimingWheel) -> None:
        """End the record for good, whatever its state."""
        self.is_final = True
        self.change(ARCHIVED)
        self.let_go(wheel)

    def copy(self) -> DeliveryState:
        """Return the state of another record of the same batch, held by the same lock."""
        copied = DeliveryState(self.state, self.delivery_count, self.member_id)
        copied.undo, copied.is_final = self.undo, self.is_final
        if self.lock is not None:
            copied.hold(self.lock)
        return copied


class Unit(NamedTuple):
    """Records that share one state: a batch, or one record of a divided batch."""

    first_offset: int
    last_offset: int
    state: DeliveryState


class InFlightBatch:
    """Consecutive offsets that were acquired together, or stored together by an earlier leader.

    `whole` is the state of all of them, or None once `offsets` has one for each.
    """

    __slots__ = ("first_offset", "last_offset", "offsets", "whole")

    def __init__(self, first_offset: int, last_offset: int, whole: DeliveryState) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.whole: DeliveryState | None = whole
        self.offsets: list[DeliveryState] = []

    def __repr__(self) -> str:
        state = self.offsets if self.whole is None else self.whole
        return f"<{self.first_offset}..{self.last_offset}: {state}>"

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1

    def divide(self) -> None:
        """Give each offset a state of its own."""
        whole = self.whole
        if whole is not None:
            self.offsets = [whole, *(whole.copy() for _ in range(len(self) - 1))]
            self.whole = None

    def state_at(self, offset: int) -> DeliveryState:
        """Return the state of an offset; of the last one for any offset after it."""
        if self.whole is not None:
            return self.whole
        return self.offsets[min(offset, self.last_offset) - self.first_offset]

    def is_within(self, first_offset: int, last_offset: int) -> bool:
        """Return whether all of its offsets are in this range."""
        return first_offset <= self.first_offset and self.last_offset <= last_offset

    def units(self) -> Iterator[Unit]:
        """Iterate over the states in order."""
        if self.whole is not None:
            yield Unit(self.first_offset, self.last_offset, self.whole)
            return
        for offset, state in enumerate(self.offsets, self.first_offset):
            yield Unit(offset, offset, state)

    def units_in(self, first_offset: int, last_offset: int) -> Iterator[Unit]:
        """Iterate over the states of these offsets; a batch that is only partly in the range is divided."""
        if self.whole is not None:
            if self.is_within(first_offset, last_offset):
                yield Unit(self.first_offset, self.last_offset, self.whole)
                return
            if last_offset < self.first_offset or first_offset > self.last_offset:
                return
            self.divide()
        base = self.first_offset
        for offset in range(max(first_offset, base), min(last_offset, self.last_offset) + 1):
            yield Unit(offset, offset, self.offsets[offset - base])
