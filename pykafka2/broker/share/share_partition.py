"""A share partition: one partition as one share group reads it, at the partition's leader (KIP-932).

Members acquire records, hold them for a limited time, and accept, release, reject or renew them. The share
coordinator stores what has ended, before the member gets the response; without that everything is as before.
The states and their changes are in in_flight.py. Based on Kafka's SharePartition.

| status       | meaning                                                            | next                |
|--------------|--------------------------------------------------------------------|---------------------|
| EMPTY        | nothing is known                                                   | INITIALIZING        |
| INITIALIZING | the state is requested from its coordinator                        | ACTIVE, FAILED      |
| ACTIVE       | records are delivered                                              | FENCED              |
| FAILED       | the state could not be read; the next fetch starts with a new one  |                     |
| FENCED       | another broker leads, or a newer state epoch exists                |                     |

Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, Final

import attrs

from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.broker.share.acquired import AcquiredRange, aborted_batches, without
from pykafka2.broker.share.acquisition import AcquireLimits, acquire
from pykafka2.broker.share.in_flight import (
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    NO_MEMBER,
    AcquisitionLock,
    DeliveryState,
    InFlightBatch,
    Unit,
)
from pykafka2.broker.share.in_flight_records import InFlightRecords
from pykafka2.broker.share.state_changes import (
    ACCEPT,
    GAP,
    LIMIT_REACHED,
    REJECTED,
    RENEW,
    Changes,
    dead_letters,
    raise_for_client,
    state_batch,
    state_batches,
)
from pykafka2.broker.share.surroundings import DeadLetters, SharePartitionKey, Surroundings
from pykafka2.errors import (
    BrokerError,
    InvalidRecordState,
    InvalidRequest,
    KafkaError,
    UnknownServerError,
)
from pykafka2.protocol.messages import share_state as messages
from pykafka2.records.batch import RecordBatch

UNKNOWN_START: Final = -1
"""The stored start offset of a share partition that no member has read."""

MIN_LOCKS: Final = 64
"""Ended locks that are kept before they are dropped together."""

NOT_ACQUIRED: Final = "The batch cannot be acknowledged. The batch is not in the acquired state."
NOT_COMPLETED: Final = "The record state is invalid. The acknowledgement of delivery could not be completed."

OnDone = Callable[["BrokerError | None", float], object]
"""Callback: (error or None, now)."""


@attrs.define(frozen=True)
class Acknowledgement:
    """Types for consecutive offsets: one for all, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]

    def type_of(self, offset: int) -> int:
        """Return the type for an offset."""
        return self.types[offset - self.first_offset if len(self.types) > 1 else 0]


class Status(Enum):
    EMPTY = "empty"
    INITIALIZING = "initializing"
    ACTIVE = "active"
    FAILED = "failed"
    FENCED = "fenced"


class SharePartition:
    """One partition in one share group, for one leader epoch."""

    def __init__(self, key: SharePartitionKey, leader_epoch: int, surroundings: Surroundings) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.status = Status.EMPTY
        self.state_epoch = 0
        self.waiting: list[Any] = []
        """The fetches that wait for its state."""
        self.records = InFlightRecords(surroundings.wheel, self._new_lock)
        self._around = surroundings
        self._wheel = surroundings.wheel
        self._options = surroundings.options
        self._locks: dict[AcquisitionLock, None] = {}
        self._most_locks = MIN_LOCKS  # more of them are searched for ended ones
        self._held_until = 0.0  # the deadline of locks that are created in this turn

    def __repr__(self) -> str:
        key = self.key
        return f"<{key.topic}-{key.partition} in share group {key.group_id}: {self.status.value}>"

    @property
    def is_active(self) -> bool:
        return self.status is Status.ACTIVE

    # ------------------------------------------------------------------ start and end

    def initialize(self, on_done: OnDone, now: float) -> None:
        """Read the state from the share coordinator."""
        self.status = Status.INITIALIZING

        def loaded(stored: messages.ReadShareGroupStateResponsePartitionResult, at: float) -> None:
            if self.status is not Status.INITIALIZING:
                return  # fenced meanwhile
            try:
                raise_for_client(stored)
                waiting = self._load(stored)
            except KafkaError as error:
                self.status = Status.FAILED
                on_done(error if isinstance(error, BrokerError) else UnknownServerError(str(error)), at)
                return
            self.status = Status.ACTIVE
            on_done(None, at)
            for letters in waiting:
                self._send(letters, at)

        entry = messages.ReadShareGroupStateRequestPartitionData(
            partition=self.key.partition, leader_epoch=self.leader_epoch
        )
        self._around.persister.call(self.key.group_id, self.key.topic_id, entry, loaded, now)

    def _load(self, stored: messages.ReadShareGroupStateResponsePartitionResult) -> list[DeadLetters]:
        """Apply a stored state. Return the dead letters that an earlier leader may not have sent."""
        options = self._options.of(self.key.group_id)
        start = stored.start_offset
        if start == UNKNOWN_START:
            start = self._around.places.start_offset(self.key, self.leader_epoch, options)
        self.state_epoch = stored.state_epoch
        self.records.load(start, stored.state_batches)
        return [
            DeadLetters(
                self.key,
                first,
                last,
                state.delivery_count,
                LIMIT_REACHED if state.delivery_count >= options.delivery_limit else REJECTED,
            )
            for first, last, state in self.records.units()
            if state.state is ARCHIVING
        ]

    def fence(self) -> None:
        """End: another broker leads, or the state is no longer valid. Locks expire without effect."""
        self.status = Status.FENCED
        for lock in list(self._locks):
            if lock.timer is not None:
                self._wheel.cancel(lock.timer)
                lock.timer = None
        self._locks.clear()

    # ------------------------------------------------------------------ acquiring

    def can_acquire(self) -> bool:
        """Return whether a fetch can acquire records, if the log has them."""
        if not self.is_active:
            return False
        return self.records.can_acquire(self._options.of(self.key.group_id).max_record_locks)

    def acquire(
        self,
        member_id: str,
        limits: AcquireLimits,
        fetch_offset: int,
        fetched: Sequence[RecordBatch],
        aborted: Sequence[AbortedTransaction],
        now: float,
    ) -> list[AcquiredRange]:
        """Acquire records of fetched batches for a member, without those of `aborted` transactions."""
        if not self.is_active:
            return []
        options = self._options.of(self.key.group_id)
        self._held_until = now + options.record_lock
        acquired = acquire(self.records, member_id, limits, fetch_offset, fetched, options)
        if not aborted or not acquired:
            return acquired
        skipped = aborted_batches(fetched, aborted)
        self.records.skip(skipped)
        return without(acquired, skipped)

    # ------------------------------------------------------------------ locks

    def _new_lock(self, member_id: str, first_offset: int, last_offset: int) -> AcquisitionLock:
        lock = AcquisitionLock(member_id, first_offset, last_offset, self._held_until)

        def expire(at: float) -> None:
            self._expire(lock, at)

        lock.timer = self._wheel.add(self._held_until, expire)
        self._locks[lock] = None
        if len(self._locks) > self._most_locks:
            self._locks = {held: None for held in self._locks if held.timer is not None}
            self._most_locks = 2 * len(self._locks) + MIN_LOCKS
        return lock

    def expire_locks(self, now: float, member_id: str | None = None) -> int:
        """Let all locks expire now, or those of one member. Return the number of released records."""
        released = 0
        for lock in list(self._locks):
            if lock.timer is not None and member_id in (None, lock.member_id):
                self._wheel.cancel(lock.timer)
                released += self._expire(lock, now)
        return released

    def _expire(self, lock: AcquisitionLock, now: float) -> int:
        """Release what a member still holds. Return the number of records."""
        lock.has_expired = True
        lock.timer = None
        self._locks.pop(lock, None)
        if self.status is not Status.ACTIVE:
            return 0
        changes = self._changes()
        for batch in self.records.overlapping(lock.first_offset, lock.last_offset):
            self._divide_at_start(batch)
            # A member can renew each record apart, so that a divided batch has as many locks.
            is_whole = batch.whole is not None
            units = batch.units() if is_whole else batch.units_in(lock.first_offset, lock.last_offset)
            for unit in units:
                if unit.state.lock is lock and unit.state.state is ACQUIRED:
                    changes.expire(batch, unit)
        if changes.made:
            self._store(changes, lambda error, at: None, now)
            self._around.notify(self.key, now)
        return sum(change.unit.last_offset - change.unit.first_offset + 1 for change in changes.made)

    def _divide_at_start(self, batch: InFlightBatch) -> None:
        """Divide a held batch in which the window starts: what is before it ends, the rest is released."""
        whole = batch.whole
        if (
            whole is not None
            and whole.state is ACQUIRED
            and batch.first_offset < self.records.start_offset <= batch.last_offset
        ):
            batch.divide()

    # ------------------------------------------------------------------ acknowledging

    def acknowledge(
        self, member_id: str, acknowledgements: Iterable[Acknowledgement], on_done: OnDone, now: float
    ) -> None:
        """Apply acknowledgements of a member, all or none, and call `on_done` once they are stored."""
        changes = self._changes()
        try:
            for one in acknowledgements:
                self._acknowledge(member_id, one, changes, now)
        except BrokerError as error:
            changes.end(is_stored=False)
            on_done(error, now)
            return
        self._store(changes, on_done, now)

    def _changes(self) -> Changes:
        return Changes(self.records, self._wheel, self._options, self.key.group_id)

    def _acknowledge(self, member_id: str, one: Acknowledgement, changes: Changes, now: float) -> None:
        if any(not GAP <= number <= RENEW for number in one.types):
            raise InvalidRequest(f"Invalid acknowledge type: {list(one.types)}")
        start = self.records.start_offset
        if one.last_offset < start:
            return
        renewed: list[Unit] = []
        # Some clients send a type for each offset even if all are accepted.
        divides = len(one.types) > 1 and one.types.count(ACCEPT) < len(one.types)
        for batch in self.records.acknowledged(one.first_offset, one.last_offset):
            if batch.last_offset < start:
                continue
            if batch.whole is not None:
                _check_owner(member_id, batch.whole, NOT_ACQUIRED, "Member is not the owner of batch record")
                if divides or batch.first_offset < start:
                    batch.divide()
            for unit in batch.units_in(max(one.first_offset, start), one.last_offset):
                if batch.whole is None:
                    _check_offset(member_id, unit.state)
                if not changes.acknowledge(one.type_of(unit.first_offset), batch, unit):
                    renewed.append(unit)
        if renewed:
            self._renew(member_id, renewed, now)

    def _renew(self, member_id: str, units: Sequence[Unit], now: float) -> None:
        self._held_until = now + self._options.of(self.key.group_id).record_lock
        lock = self._new_lock(member_id, units[0].first_offset, units[-1].last_offset)
        for unit in units:
            unit.state.let_go(self._wheel)
            unit.state.hold(lock)

    def release(self, member_id: str, on_done: OnDone, now: float) -> None:
        """Release all records of a member, which leaves or whose session has ended."""
        if not self.is_active:
            on_done(None, now)
            return
        changes = self._changes()
        for batch in list(self.records.batches):
            if batch.whole is not None and batch.whole.member_id == member_id:
                self._divide_at_start(batch)
            for unit in batch.units():
                if unit.state.state is ACQUIRED and unit.state.member_id == member_id:
                    changes.release(batch, unit)
        self._store(changes, on_done, now)

    # ------------------------------------------------------------------ storing

    def _store(self, changes: Changes, on_done: OnDone, now: float) -> None:
        """Have the share coordinator store changes, and undo them if it does not."""
        if not changes.made:
            on_done(None, now)
            return
        stored = state_batches(changes.made)
        dead = dead_letters(self.key, changes.made)

        def written(error: BrokerError | None, at: float) -> None:
            if self.status is Status.FENCED:
                on_done(error, at)
                return
            changes.end(is_stored=error is None)
            self.records.trim()
            on_done(error, at)
            self._around.notify(self.key, at)
            if error is None or changes.made[0].undo is None:
                for letters in dead:
                    self._send(letters, at)

        self._write(stored, written, now)

    def _write(
        self, batches: Sequence[messages.WriteShareGroupStateRequestStateBatch], on_done: OnDone, now: float
    ) -> None:
        def done(result: Any, at: float) -> None:
            try:
                raise_for_client(result)
            except BrokerError as error:
                on_done(error, at)
            else:
                on_done(None, at)

        entry = messages.WriteShareGroupStateRequestPartitionData(
            partition=self.key.partition,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.records.start_offset,
            delivery_complete_count=self.records.completed_count,
            state_batches=list(batches),
        )
        self._around.persister.call(self.key.group_id, self.key.topic_id, entry, done, now)

    # ------------------------------------------------------------------ dead letters

    def _send(self, letters: DeadLetters, now: float) -> None:
        """Send dead letters, and then end their records, whether they could be sent or not."""
        first_offset, last_offset = letters.first_offset, letters.last_offset

        def sent(at: float) -> None:
            if not self.is_active:
                return  # the next leader sends them again
            for batch in self.records.overlapping(first_offset, last_offset):
                for unit in batch.units_in(first_offset, last_offset):
                    if unit.state.state is ARCHIVING and unit.state.undo is None:
                        unit.state.archive(self._wheel)
                        self.records.count_ended(unit, ARCHIVED)
            ended = state_batch(first_offset, last_offset, ARCHIVED, letters.delivery_count)
            self._write([ended], archived, at)

        def archived(error: BrokerError | None, at: float) -> None:
            if self.is_active and self.records.trim():
                self._around.notify(self.key, at)

        self._around.send_dead_letters(letters, sent, now)


def _check_owner(member_id: str, state: DeliveryState, not_acquired: str, not_owner: str) -> None:
    """Raise `InvalidRecordState` unless a member holds records."""
    if state.member_id == NO_MEMBER or state.state is not ACQUIRED:
        raise InvalidRecordState(not_acquired)
    if state.member_id != member_id:
        raise InvalidRecordState(not_owner)
    if state.undo is not None:
        raise InvalidRecordState(NOT_COMPLETED)


def _check_offset(member_id: str, state: DeliveryState) -> None:
    if state.state is not ACQUIRED:
        raise InvalidRecordState("The offset cannot be acknowledged. The offset is not acquired.")
    if state.undo is not None:
        raise InvalidRecordState(NOT_COMPLETED)
    if state.member_id != member_id:
        raise InvalidRecordState("Member is not the owner of offset")
