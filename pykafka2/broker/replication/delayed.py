"""Requests that wait for replicas: acks=all produces, long-polling fetches, record deletions.

Each checks whether it can complete (Kafka's DelayedProduce, DelayedFetch and DelayedDeleteRecords); the
purgatory completes it exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

import attrs

from pykafka2.broker.base.image import Key
from pykafka2.broker.base.purgatory import DelayedOperation
from pykafka2.broker.replication.fetch_plan import FetchPlan
from pykafka2.broker.replication.hosted import HostedReplicas
from pykafka2.broker.replication.reading import FetchItem, FetchResult
from pykafka2.broker.replication.replica import Replica
from pykafka2.errors import (
    BrokerError,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicOrPartition,
)


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

    def readable_bytes(self, plan: FetchPlan, item: FetchItem) -> int | None:
        """Return the number of readable bytes of a partition; None if the fetch must complete at once."""
        ...

    def read(self, plan: FetchPlan) -> list[FetchResult]: ...


class DelayedFetch(DelayedOperation):
    """Waits until enough bytes can be read, or until the fetch must complete for another reason."""

    __slots__ = ("_on_done", "_plan", "_reader")

    def __init__(
        self,
        deadline: float,
        reader: Reader,
        plan: FetchPlan,
        on_done: Callable[[list[FetchResult]], None],
    ) -> None:
        super().__init__(deadline)
        self._reader = reader
        self._plan = plan
        self._on_done = on_done

    def try_complete(self, key: Hashable | None, now: float) -> bool:
        return self.is_ready(key) and self.force_complete(now)

    def is_ready(self, key: Hashable | None) -> bool:
        """Return whether enough can be read, or the fetch must complete for another reason."""
        plan = self._plan
        if plan.min_bytes <= 0 or (plan.is_from_follower and key == follower_key(plan.replica_id)):
            return True
        # If one byte is enough, only the changed partition is checked; a session knows which ones changed.
        if key is None or plan.min_bytes > 1 or plan.session is not None:
            items = plan.current_items()
        else:
            items = plan.items_of(key)  # type: ignore[arg-type]
        available = 0
        for item in items:
            size = self._reader.readable_bytes(plan, item)
            if size is None:
                return True
            available += size
            if available >= plan.min_bytes:
                return True
        return False

    def on_complete(self, now: float) -> None:
        self._on_done(self._reader.read(self._plan))


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
