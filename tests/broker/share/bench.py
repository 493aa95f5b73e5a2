"""A share partition over a log and a share coordinator in memory, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.broker.share.acquired import AcquiredRange
from pykafka2.broker.share.acquisition import AcquireLimits
from pykafka2.broker.share.in_flight import AcquisitionLock, RecordState
from pykafka2.broker.share.options import ShareGroupOptions, ShareOptions
from pykafka2.broker.share.share_partition import Acknowledgement, SharePartition
from pykafka2.broker.share.surroundings import DeadLetters, SharePartitionKey, Surroundings
from pykafka2.errors import BrokerError
from pykafka2.protocol.messages.share_state import (
    ReadShareGroupStateRequestPartitionData,
    ReadShareGroupStateResponsePartitionResult,
    ReadShareGroupStateResponseStateBatch,
    WriteShareGroupStateRequestPartitionData,
    WriteShareGroupStateResponsePartitionResult,
)
from pykafka2.records.batch import RecordBatch
from tests.broker.support.batches import batch, view

KEY = SharePartitionKey("g", b"\1" * 16, "t", 0)
OPTIONS = ShareGroupOptions(30.0, 5, 2000, False, True, "earliest", "", False)

State = tuple[int, str, int]
"""Offset, state and delivery count."""


def log_of(*sizes: int, start: int = 0) -> list[RecordBatch]:
    """Return batches of so many records."""
    result = []
    for size in sizes:
        data = view(batch([b"v"] * size))
        result.append(view(data.with_offsets(start)))
        start += size
    return result


class MemoryCoordinator:
    """A share coordinator's state of one share partition. While it is held, calls wait for `resume`."""

    def __init__(self, start_offset: int = -1) -> None:
        self.start_offset = start_offset
        self.state_epoch = 0
        self.states: dict[int, tuple[int, int]] = {}
        self.completed_count = -1
        self.error_code = 0
        self.is_held = False
        self.writes = 0
        self._held: list[Callable[[], None]] = []

    def resume(self, position: int | None = None) -> None:
        """Let the held calls take place, or the one at this position."""
        if position is not None:
            self._held.pop(position)()
            return
        held, self._held = self._held, []
        for call in held:
            call()

    def call(
        self, group_id: str, topic_id: bytes, entry: Any, done: Callable[[Any, float], None], now: float
    ) -> None:
        is_read = isinstance(entry, ReadShareGroupStateRequestPartitionData)

        def call() -> None:
            done(self._read(entry) if is_read else self._write(entry), now)

        if self.is_held:
            self._held.append(call)
        else:
            call()

    def _read(self, entry: ReadShareGroupStateRequestPartitionData) -> Any:
        return ReadShareGroupStateResponsePartitionResult(
            partition=entry.partition,
            error_code=self.error_code,
            state_epoch=self.state_epoch,
            start_offset=self.start_offset,
            state_batches=[
                ReadShareGroupStateResponseStateBatch(
                    first_offset=offset, last_offset=offset, delivery_state=state, delivery_count=count
                )
                for offset, (state, count) in sorted(self.states.items())
            ],
        )

    def _write(self, entry: WriteShareGroupStateRequestPartitionData) -> Any:
        code = self.error_code
        if not code:
            self.writes += 1
            self.completed_count = entry.delivery_complete_count
            self.start_offset = max(self.start_offset, entry.start_offset)
            for one in entry.state_batches:
                for offset in range(one.first_offset, one.last_offset + 1):
                    self.states[offset] = (one.delivery_state, one.delivery_count)
            for offset in [offset for offset in self.states if offset < self.start_offset]:
                del self.states[offset]
        return WriteShareGroupStateResponsePartitionResult(partition=entry.partition, error_code=code)


class StoredBatches(MemoryCoordinator):
    """A share coordinator with these batches: first offset, last offset, state."""

    def __init__(self, *batches: tuple[int, int, int]) -> None:
        super().__init__(start_offset=0)
        self.batches = batches

    def _read(self, entry: ReadShareGroupStateRequestPartitionData) -> Any:
        batches = [
            ReadShareGroupStateResponseStateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=1
            )
            for first, last, state in self.batches
        ]
        return ReadShareGroupStateResponsePartitionResult(
            partition=entry.partition, state_epoch=0, start_offset=0, state_batches=batches
        )


class FixedOptions(ShareOptions):
    """The options of a group without a broker."""

    def __init__(self, options: ShareGroupOptions) -> None:
        self.options = options

    def of(self, group_id: str) -> ShareGroupOptions:
        return self.options

    def has_dead_letters(self, group_id: str) -> bool:
        return bool(self.options.dead_letter_topic)


class Bench:
    """One share partition."""

    def __init__(
        self, *batches: RecordBatch, coordinator: MemoryCoordinator | None = None, **options: Any
    ) -> None:
        self.now = 0.0
        self.log = list(batches)
        self.log_start = 0
        self.wheel = TimingWheel(0.0)
        self.options = FixedOptions(attrs.evolve(OPTIONS, **options))
        self.coordinator = coordinator or MemoryCoordinator()
        self.letters: list[DeadLetters] = []
        self.hold_letters: list[Callable[[float], object]] | None = None
        self.notified = 0
        self.restart()

    def restart(self, *, loads: bool = True) -> None:
        """Have a new leader read the state; the old one is fenced."""
        if hasattr(self, "partition"):
            self.partition.fence()
        around = Surroundings(self.wheel, self.options, self.coordinator, self, self._send, self._notify)
        self.partition = SharePartition(KEY, 0, around)
        self.load_errors: list[BrokerError | None] = []
        if loads:
            self.partition.initialize(lambda error, at: self.load_errors.append(error), self.now)

    def start_offset(self, key: SharePartitionKey, leader_epoch: int, options: ShareGroupOptions) -> int:
        return self.log_start

    def _send(self, letters: DeadLetters, on_done: Callable[[float], object], now: float) -> None:
        self.letters.append(letters)
        if self.hold_letters is None:
            on_done(now)
        else:
            self.hold_letters.append(on_done)

    def _notify(self, key: SharePartitionKey, now: float) -> None:
        self.notified += 1

    # ------------------------------------------------------------------ what members do

    def acquire(
        self,
        member_id: str = "m",
        max_records: int = 500,
        *,
        batch_size: int = 500,
        strict: bool = False,
        aborted: Sequence[AbortedTransaction] = (),
    ) -> list[AcquiredRange]:
        """Acquire what the log has from the next fetch offset on."""
        if not self.partition.can_acquire():
            return []
        offset = self.partition.records.next_fetch_offset()
        fetched = [one for one in self.log if one.last_offset >= offset]
        limits = AcquireLimits(max_records, batch_size, strict)
        return self.partition.acquire(member_id, limits, offset, fetched, aborted, self.now)

    def acknowledge(
        self, first: int, last: int, *types: int, member_id: str = "m"
    ) -> list[BrokerError | None]:
        """Acknowledge offsets. Return the list that gets the result."""
        results: list[BrokerError | None] = []
        self.partition.acknowledge(
            member_id,
            [Acknowledgement(first, last, types)],
            lambda error, at: results.append(error),
            self.now,
        )
        return results

    def leave(self, member_id: str = "m") -> None:
        self.partition.release(member_id, lambda error, at: None, self.now)

    def wait(self, seconds: float) -> None:
        """Advance the time."""
        self.now += seconds
        self.wheel.advance(self.now)

    # ------------------------------------------------------------------ what they see

    @property
    def states(self) -> list[State]:
        """The states of all offsets in the window."""
        return [
            (offset, unit.state.state.name, unit.state.delivery_count)
            for unit in self.partition.records.units()
            for offset in range(unit.first_offset, unit.last_offset + 1)
            if offset >= self.window[0]
        ]

    @property
    def stored(self) -> list[State]:
        """The states that the coordinator has."""
        return [
            (offset, RecordState(state).name, count)
            for offset, (state, count) in sorted(self.coordinator.states.items())
        ]

    @property
    def locks(self) -> list[AcquisitionLock]:
        """The locks that still have a timer."""
        return [lock for lock in self.partition._locks if lock.timer is not None]

    @property
    def window(self) -> tuple[int, int]:
        return self.partition.records.start_offset, self.partition.records.end_offset


def ranges(acquired: Iterable[AcquiredRange]) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and delivery count of each range."""
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in acquired]
