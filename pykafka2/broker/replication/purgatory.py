"""Requests that wait: acks=all produces, long-polling fetches, record deletions. Kafka's purgatory.

An operation is tried, watched under its keys, and tried again, because its condition may have been met in
between. A caller that has just tried it, under the same lock, can skip both. The operation is then tried
whenever one of its keys changes, until it completes or its deadline passes. It completes exactly once
(Kafka's DelayedOperation). A failing operation does not affect the others. Kafka's DelayedProduce,
DelayedFetch and DelayedDeleteRecords are the operations. Everything here runs under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

import attrs

from pykafka2.broker.base.image import Key
from pykafka2.broker.base.timing_wheel import Timer, TimingWheel
from pykafka2.broker.replication.fetch import FetchInfo, FetchParams, FetchPartitionData
from pykafka2.broker.replication.replica import HostedReplicas, Replica
from pykafka2.errors import (
    BrokerError,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicOrPartition,
)

K = TypeVar("K", bound=Hashable)

# Completed operations stay under keys that never change; beyond this many they are purged.
PURGE_INTERVAL = 1000


class DelayedOperation:
    """An operation that completes once: when it can, when its deadline passes, or when it is forced to."""

    __slots__ = ("deadline", "is_completed", "timer")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.is_completed = False
        self.timer: Timer | None = None

    def try_complete(self, key: Hashable | None, now: float) -> bool:
        """Call `force_complete` if the operation can complete now; return whether it did.

        `key` is the key that changed, or None if any may have changed.
        """
        raise NotImplementedError

    def on_complete(self, now: float) -> None:
        """Perform the completion; called exactly once."""
        raise NotImplementedError

    def on_expiration(self, now: float) -> None:
        """Called when the deadline has passed, just before `on_complete`."""

    def force_complete(self, now: float) -> bool:
        """Complete the operation. Return False if it has completed before."""
        if self.is_completed:
            return False
        self.is_completed = True
        self.on_complete(now)
        return True


class Purgatory(Generic[K]):
    """Delayed operations, watched by key. Timers come from the broker's timing wheel."""

    def __init__(self, name: str, wheel: TimingWheel) -> None:
        self.name = name
        self._wheel = wheel
        self._watchers: dict[K, list[DelayedOperation]] = {}
        self._completed_since_purge = 0

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[K], now: float, *, was_tried: bool = False
    ) -> bool:
        """Return True if the operation completed or expired at once; otherwise watch it until it does.

        `was_tried`: the caller has just found that it cannot complete yet, and has changed nothing it waits
        for.
        """
        if not was_tried and operation.try_complete(None, now):
            return True
        for key in keys:
            self._watchers.setdefault(key, []).append(operation)
        # The condition may have been met between the attempt above and the watch.
        if not was_tried and operation.try_complete(None, now):
            self._note_completed()
            return True
        if operation.deadline <= now:
            self._expire(operation, now)
            return True
        operation.timer = self._wheel.add(operation.deadline, lambda at: self._expire(operation, at))
        return False

    def check(self, key: K, now: float) -> int:
        """Try every operation that watches `key`, which has changed. Return the number that completed."""
        watched = self._watchers.get(key)
        if not watched:
            return 0
        self._watchers[key] = []
        completed = 0
        waiting: list[DelayedOperation] = []
        for operation in watched:
            if operation.is_completed:
                continue
            try:
                is_done = operation.try_complete(key, now)
            except Exception as error:
                is_done = self._failed(operation, error)
            if is_done:
                completed += 1
                self._retire(operation)
            else:
                waiting.append(operation)
        # Completing an operation may have added watchers of the same key; these stay behind the older ones.
        waiting.extend(self._watchers.get(key, ()))
        if waiting:
            self._watchers[key] = waiting
        else:
            self._watchers.pop(key, None)
        return completed

    def is_watched(self, key: K) -> bool:
        """Return whether an operation may be watching this key."""
        return key in self._watchers

    def discard(self, operation: DelayedOperation) -> None:
        """Drop an operation without completing it, because its result is no longer needed."""
        if not operation.is_completed:
            operation.is_completed = True
            self._retire(operation)

    def discard_all(self) -> None:
        """Drop all operations without completing them, because the broker has crashed."""
        for watched in self._watchers.values():
            for operation in watched:
                operation.is_completed = True
                if operation.timer is not None:
                    self._wheel.cancel(operation.timer)
        self._watchers.clear()

    def waiting(self) -> int:
        """Return the number of waiting operations."""
        return len({id(op) for ops in self._watchers.values() for op in ops if not op.is_completed})

    def watched(self) -> int:
        """Return the number of entries in the watch lists, including completed ones not purged yet."""
        return sum(map(len, self._watchers.values()))

    def _expire(self, operation: DelayedOperation, now: float) -> None:
        if operation.is_completed:
            return
        operation.is_completed = True
        try:
            operation.on_expiration(now)
            operation.on_complete(now)
        except Exception as error:
            self._failed(operation, error)
        self._note_completed()

    def _failed(self, operation: DelayedOperation, error: Exception) -> bool:
        """Report an operation that raised, and mark it as completed.

        It gets no response; the others continue.
        """
        self._wheel.on_problem(f"{type(operation).__name__} in the purgatory {self.name}", error)
        operation.is_completed = True
        return True

    def _retire(self, operation: DelayedOperation) -> None:
        if operation.timer is not None:
            self._wheel.cancel(operation.timer)
        self._note_completed()

    def _note_completed(self) -> None:
        self._completed_since_purge += 1
        if self._completed_since_purge >= PURGE_INTERVAL:
            self._purge()

    def _purge(self) -> None:
        self._completed_since_purge = 0
        for key in list(self._watchers):
            alive = [operation for operation in self._watchers[key] if not operation.is_completed]
            if alive:
                self._watchers[key] = alive
            else:
                del self._watchers[key]


@attrs.define
class ProduceResult:
    """The result of one partition's batch; offsets and timestamps as in the response."""

    error: BrokerError | None = None
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    required_offset: int = -1
    """The high watermark at which an acks=all produce completes."""


class Outcome(Protocol):
    """The result of one partition of a request."""

    error: BrokerError | None


R = TypeVar("R", bound=Outcome)


class DelayedByPartition(DelayedOperation, Generic[R]):
    """Waits for each partition of a request; completes with the last one, or at the deadline.

    A partition is done when it fails or this broker is no longer its leader.
    """

    __slots__ = ("_hosted", "_on_done", "_pending", "results")

    TIMED_OUT = ""

    def __init__(
        self,
        deadline: float,
        hosted: HostedReplicas,
        results: dict[Key, R],
        on_done: Callable[[dict[Key, R]], None],
    ) -> None:
        super().__init__(deadline)
        self.results = results
        self._hosted = hosted
        self._on_done = on_done
        self._pending = {key: None for key, result in results.items() if result.error is None}

    def settle(self, replica: Replica, result: R) -> bool:
        """Write the outcome of a partition into the result. Return False while it must wait."""
        raise NotImplementedError

    def lost(self, key: Key, replica: Replica | None) -> BrokerError:
        """Return the error of a partition that this broker no longer leads."""
        if replica is None and self._hosted.image.partition(*key) is None:
            return UnknownTopicOrPartition(f"{key[0]}-{key[1]} was deleted")
        return NotLeaderOrFollower(f"the leader of {key[0]}-{key[1]} has changed")

    @property
    def keys(self) -> list[Key]:
        return list(self._pending)

    def try_complete(self, key: Hashable | None, now: float) -> bool:
        if key is None:
            for pending in list(self._pending):
                self._check(pending)
        elif key in self._pending:
            self._check(key)
        return not self._pending and self.force_complete(now)

    def _check(self, key: Key) -> None:
        result = self.results[key]
        replica = self._hosted.replicas.get(key)
        if replica is None or not replica.is_leader:
            result.error = self.lost(key, replica)
        elif not self.settle(replica, result):
            return
        del self._pending[key]

    def on_expiration(self, now: float) -> None:
        for key in self._pending:
            self.results[key].error = RequestTimedOut(
                f"{key[0]}-{key[1]}: the replicas did not {self.TIMED_OUT} within the request's timeout"
            )

    def on_complete(self, now: float) -> None:
        self._on_done(self.results)


class DelayedProduce(DelayedByPartition[ProduceResult]):
    """Waits on each partition until the high watermark has passed the appended batch."""

    __slots__ = ()

    TIMED_OUT = "catch up"

    def settle(self, replica: Replica, result: ProduceResult) -> bool:
        if replica.high_watermark < result.required_offset:
            return False
        if len(replica.maximal_isr) < replica.min_isr:
            result.error = NotEnoughReplicasAfterAppend()
        return True


def follower_key(follower: int) -> Key:
    """Return the key of a follower's waiting fetch.

    It completes when this broker becomes the leader of further partitions.

    The follower then fetches again with these, instead of waiting up to replica.fetch.wait.max.ms as in
    Kafka.
    """
    return "", follower


class Reader(Protocol):
    """Reads from the replicas for a waiting fetch (replica_reader.py)."""

    def has_enough(self, params: FetchParams, infos: Iterable[FetchInfo]) -> bool:
        """Return whether enough can be read of these partitions, or the fetch must complete."""
        ...

    def read(self, params: FetchParams) -> list[FetchPartitionData]: ...


class DelayedFetch(DelayedOperation):
    """Waits until enough bytes can be read, or until the fetch must complete for another reason."""

    __slots__ = ("_on_done", "_params", "_reader")

    def __init__(
        self,
        deadline: float,
        reader: Reader,
        params: FetchParams,
        on_done: Callable[[list[FetchPartitionData]], None],
    ) -> None:
        super().__init__(deadline)
        self._reader = reader
        self._params = params
        self._on_done = on_done

    def try_complete(self, key: Hashable | None, now: float) -> bool:
        return self.is_ready(key) and self.force_complete(now)

    def is_ready(self, key: Hashable | None) -> bool:
        """Return whether enough can be read, or the fetch must complete for another reason."""
        params = self._params
        if params.is_from_follower and key == follower_key(params.replica_id):
            return True
        # If one byte is enough, only the changed partition is checked; a session knows which ones changed.
        if key is None or params.min_bytes > 1 or params.session is not None:
            infos = params.current_partitions()
        else:
            infos = params.infos_of(key)  # type: ignore[arg-type]
        return self._reader.has_enough(params, infos)

    def on_complete(self, now: float) -> None:
        self._on_done(self._reader.read(self._params))


@attrs.define
class DeleteResult:
    """The result of one partition of a DeleteRecords."""

    error: BrokerError | None = None
    required_offset: int = -1
    low_watermark: int = -1
    """The smallest log start of the live replicas; the initial value until the deletion is done."""


class DelayedDeleteRecords(DelayedByPartition[DeleteResult]):
    """Waits until every live replica's log starts at or after the deleted offset."""

    __slots__ = ()

    TIMED_OUT = "follow"

    def lost(self, key: Key, replica: Replica | None) -> BrokerError:
        self.results[key].low_watermark = -1
        if replica is None:
            return UnknownTopicOrPartition(f"{key[0]}-{key[1]} is no longer on this broker")
        return super().lost(key, replica)

    def settle(self, replica: Replica, result: DeleteResult) -> bool:
        low_watermark = replica.low_watermark(self._hosted.image.is_alive)
        if low_watermark < result.required_offset:
            return False
        result.low_watermark = low_watermark
        return True
