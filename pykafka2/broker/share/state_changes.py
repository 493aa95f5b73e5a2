"""Changes of the states of records: made together, then stored by the share coordinator or undone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import attrs

from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.share.in_flight import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    ENDED,
    DeliveryState,
    InFlightBatch,
    RecordState,
    Undo,
    Unit,
)
from pykafka2.broker.share.in_flight_records import InFlightRecords
from pykafka2.broker.share.options import ShareOptions
from pykafka2.broker.share.surroundings import DeadLetters, SharePartitionKey
from pykafka2.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    GroupIdNotFound,
    InvalidRecordState,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownServerError,
    UnknownTopicOrPartition,
    error_of,
)
from pykafka2.protocol.messages.share_state import WriteShareGroupStateRequestStateBatch as StateBatch

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""Types of acknowledgement."""

REJECTED: Final = "Offset rejected by client."
LIMIT_REACHED: Final = "Offset delivery count exceeded the threshold."
"""Kafka's texts in a dead letter."""


class Change(NamedTuple):
    """A changed state that must be stored. `undo` is None if it is not undone."""

    batch: InFlightBatch
    unit: Unit
    undo: Undo | None
    cause: str | None = None
    """Why the records are dead letters."""

    def states(self) -> Iterable[DeliveryState]:
        """Return the changed states: more than one if the batch was divided since."""
        if self.batch.whole is not None or self.unit.first_offset == self.unit.last_offset:
            return (self.unit.state,)
        return [unit.state for unit in self.batch.units() if unit.state.undo is self.undo]


class Changes:
    """The changes of one turn to the records of a share partition.

    The group's options are those of the moment when it was created.
    """

    def __init__(
        self, records: InFlightRecords, wheel: TimingWheel, options: ShareOptions, group_id: str
    ) -> None:
        self.made: list[Change] = []
        self._records = records
        self._wheel = wheel
        of_group = options.of(group_id)
        self._delivery_limit = of_group.delivery_limit
        self._can_renew = of_group.can_renew
        self._has_dead_letters = options.has_dead_letters(group_id)

    def acknowledge(self, kind: int, batch: InFlightBatch, unit: Unit) -> bool:
        """Change a state by an acknowledgement. Return False for a renewal, which changes nothing."""
        if kind == RENEW:
            if not self._can_renew:
                raise InvalidRecordState("Renewing acquisition locks is not enabled for the group.")
            return False
        if kind == ACCEPT:
            self._begin(batch, unit, ACKNOWLEDGED)
        elif kind == RELEASE:
            self.release(batch, unit)
        elif kind == REJECT and self._has_dead_letters:
            self._begin(batch, unit, ARCHIVING, REJECTED)
        else:
            self._begin(batch, unit, ARCHIVED)
        return True

    def release(self, batch: InFlightBatch, unit: Unit) -> None:
        """Release records; `end` undoes it if it is not stored."""
        self._begin(batch, unit, *self._after_release(unit))

    def expire(self, batch: InFlightBatch, unit: Unit) -> None:
        """Release records whose lock has ended; this is not undone."""
        state, cause = self._after_release(unit)
        unit.state.change(state)
        unit.state.let_go(self._wheel)
        self._records.count_ended(unit, state)
        if state is AVAILABLE:
            self._records.search()
        self.made.append(Change(batch, unit, None, cause))

    def _after_release(self, unit: Unit) -> tuple[RecordState, str | None]:
        """Return the state of released records, and why they are dead letters."""
        state = ARCHIVED
        if unit.last_offset >= self._records.start_offset:
            state = unit.state.after_release(self._delivery_limit, has_dead_letters=self._has_dead_letters)
        return state, LIMIT_REACHED if state is ARCHIVING else None

    def _begin(self, batch: InFlightBatch, unit: Unit, state: RecordState, cause: str | None = None) -> None:
        unit.state.begin(state, self._delivery_limit)
        self._records.count_ended(unit, state)
        self.made.append(Change(batch, unit, unit.state.undo, cause))

    def end(self, *, is_stored: bool) -> None:
        """Commit the changes, or undo them."""
        for change in self.made:
            if change.undo is None:
                continue
            before = change.unit.state.state
            for state in change.states():
                if is_stored:
                    state.commit(self._wheel)
                else:
                    state.roll_back(self._wheel)
                if state.state is AVAILABLE:
                    self._records.search()
            after = change.unit.state.state
            if (before in ENDED) != (
                after in ENDED
            ):  # undone, or ended because the lock has expired meanwhile
                self._records.count_ended(change.unit, before, -1)
                self._records.count_ended(change.unit, after)


def state_batch(first_offset: int, last_offset: int, state: RecordState, count: int) -> StateBatch:
    return StateBatch(
        first_offset=first_offset, last_offset=last_offset, delivery_state=int(state), delivery_count=count
    )


def state_batches(changes: Iterable[Change]) -> list[StateBatch]:
    """Return changed states as they are stored, with adjacent equal ones as one."""
    result: list[StateBatch] = []
    for change in changes:
        first, last, state = change.unit
        previous = result[-1] if result else None
        if (
            previous is not None
            and previous.last_offset + 1 == first
            and previous.delivery_state == state.state
            and previous.delivery_count == state.delivery_count
        ):
            previous.last_offset = last
        else:
            result.append(state_batch(first, last, state.state, state.delivery_count))
    return result


def dead_letters(key: SharePartitionKey, changes: Iterable[Change]) -> list[DeadLetters]:
    """Return the dead letters among changed records, with adjacent equal ones as one."""
    result: list[DeadLetters] = []
    for change in changes:
        if change.cause is None:
            continue
        first, last, state = change.unit
        made = DeadLetters(key, first, last, state.delivery_count, change.cause)
        previous = result[-1] if result else None
        if previous is not None and made == attrs.evolve(
            previous, first_offset=previous.last_offset + 1, last_offset=last
        ):
            result[-1] = attrs.evolve(previous, last_offset=last)
        else:
            result.append(made)
    return result


_OF_COORDINATOR: Final = (NotCoordinator, CoordinatorNotAvailable, CoordinatorLoadInProgress)
_OF_LEADER: Final = (FencedLeaderEpoch, FencedStateEpoch, NotLeaderOrFollower)
_PASSED_ON: Final = (GroupIdNotFound, UnknownTopicOrPartition)


def raise_for_client(result: Any) -> None:
    """Raise the error that a member gets for a result of the share coordinator."""
    if not result.error_code:
        return
    error, text = error_of(result.error_code), result.error_message or ""
    if isinstance(error, _OF_COORDINATOR):
        raise CoordinatorNotAvailable(text)
    if isinstance(error, _OF_LEADER):
        raise NotLeaderOrFollower(text)
    if isinstance(error, _PASSED_ON):
        raise type(error)(text)
    raise UnknownServerError(text)
