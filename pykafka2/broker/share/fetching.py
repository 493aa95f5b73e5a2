"""A ShareFetch at the leader: reads what can be acquired, or waits in the purgatory until there is enough.

`max_bytes` is divided equally among the partitions that have something to acquire, and `max_records` is
counted down in their order, which rotates with the session's epoch. Like Kafka's DelayedShareFetch. Access
requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import attrs

from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.broker.replication.purgatory import DelayedOperation
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.share.acquired import AcquiredRange, covering
from pykafka2.broker.share.acquisition import AcquireLimits
from pykafka2.broker.share.share_partition import SharePartition, Status
from pykafka2.broker.share.surroundings import SharePartitionKey
from pykafka2.errors import BrokerError, OffsetOutOfRange
from pykafka2.records.batch import RecordBatch


@attrs.define(frozen=True)
class ShareFetchParams:
    """The limits of one ShareFetch."""

    group_id: str
    member_id: str
    max_wait: float
    """Seconds."""
    min_bytes: int
    max_bytes: int
    limits: AcquireLimits
    read_committed: bool


@attrs.define
class ShareFetchResult:
    """The result of one partition: what was acquired, and the batches that contain it."""

    key: SharePartitionKey
    error: BrokerError | None = None
    acquired: Sequence[AcquiredRange] = ()
    batches: Sequence[RecordBatch] = ()


def rotated(keys: Sequence[SharePartitionKey], epoch: int) -> Sequence[SharePartitionKey]:
    """Return the partitions of a fetch, from another one on with each epoch of the session."""
    start = epoch % len(keys) if keys and epoch > 0 else 0
    return [*keys[start:], *keys[:start]]


Failed = Callable[[SharePartition, BrokerError, float], object]
"""Callback: (share partition, error, now), for a partition that cannot be read here."""


class ShareReader:
    """Reads the log for share partitions."""

    def __init__(self, replicas: ReplicaManager, failed: Failed) -> None:
        self._replicas = replicas
        self._failed = failed

    def check(self, key: SharePartitionKey, failed: dict[SharePartitionKey, BrokerError]) -> None:
        """Note the error if this broker no longer leads a partition."""
        try:
            self._replicas.leader_of(key.place)
        except BrokerError as error:
            failed.setdefault(key, error)

    def has_enough(self, params: ShareFetchParams, ready: Sequence[SharePartition]) -> bool:
        """Return whether min_bytes can be read, or a partition has an error to report."""
        missing = params.min_bytes
        share = params.max_bytes // max(1, len(ready))
        for one in ready:
            offset = one.records.next_fetch_offset()
            try:
                log = self._replicas.leader_of(one.key.place).log
            except BrokerError:
                return True
            upper = log.last_stable_offset if params.read_committed else log.high_watermark
            if offset > log.log_end_offset or offset < log.log_start_offset:
                return True
            if offset < upper:
                if missing <= 1:
                    return True
                found = log.locate(offset, upper, max(share, missing), min_one=True)
                missing -= min(found.size_bytes, max(share, 1))
        return missing <= 0

    def read(
        self, params: ShareFetchParams, ready: Sequence[SharePartition], now: float
    ) -> list[ShareFetchResult]:
        """Acquire records of each partition within the limits."""
        share = params.max_bytes // max(1, len(ready))
        left = params.limits.max_records
        has_records = False
        results = []
        for one in ready:
            limits = attrs.evolve(params.limits, max_records=left)
            result = self._read_one(params, limits, one, share, now, min_one=not has_records)
            has_records = has_records or bool(result.batches)
            left -= sum(map(len, result.acquired))
            results.append(result)
        return results

    def _read_one(
        self,
        params: ShareFetchParams,
        limits: AcquireLimits,
        one: SharePartition,
        max_bytes: int,
        now: float,
        *,
        min_one: bool,
    ) -> ShareFetchResult:
        offset = one.records.next_fetch_offset()
        try:
            log = self._replicas.leader_of(one.key.place).log
            upper = log.last_stable_offset if params.read_committed else log.high_watermark
            try:
                # Nothing after this offset can be acquired, so it is not read from the disk either.
                last_offset = one.records.end_offset + limits.max_records
                batches = _read(log, offset, min(upper, last_offset + 1), max_bytes, min_one=min_one)
            except OffsetOutOfRange:
                one.records.move_log_start(log.log_start_offset)
                return ShareFetchResult(one.key)
        except BrokerError as error:
            self._failed(one, error, now)
            return ShareFetchResult(one.key, error)
        aborted: Sequence[AbortedTransaction] = ()
        if params.read_committed and batches:
            aborted = log.aborted_transactions(offset, batches[-1].next_offset)
        acquired = one.acquire(params.member_id, limits, offset, batches, aborted, now)
        if not acquired:
            return ShareFetchResult(one.key)
        kept = covering(batches, acquired[0].first_offset, acquired[-1].last_offset)
        return ShareFetchResult(one.key, None, acquired, kept)


def _read(
    log: PartitionLog, offset: int, upper_offset: int, max_bytes: int, *, min_one: bool
) -> list[RecordBatch]:
    """Read like `PartitionLog.read`, but batch by batch, as only few of the batches are needed."""
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRange(f"{log!r} does not have offset {offset}")
    found: list[RecordBatch] = []
    taken = 0
    for batch in log.batches(offset) if offset < upper_offset else ():
        taken += len(batch.buffer)
        if batch.base_offset >= upper_offset or (taken > max_bytes and (found or not min_one)):
            break
        found.append(batch)
    return found


class DelayedShareFetch(DelayedOperation):
    """Waits until a member can acquire enough records."""

    __slots__ = ("_on_done", "_params", "_partitions", "_reader", "failed")

    def __init__(
        self,
        deadline: float,
        reader: ShareReader,
        params: ShareFetchParams,
        partitions: Sequence[SharePartition],
        failed: dict[SharePartitionKey, BrokerError],
        on_done: Callable[[list[ShareFetchResult]], object],
    ) -> None:
        super().__init__(deadline)
        self._reader = reader
        self._params = params
        self._partitions = partitions
        self._on_done = on_done
        self.failed = failed
        """Partitions with an error so far."""

    @property
    def _ready(self) -> list[SharePartition]:
        return [one for one in self._partitions if one.key not in self.failed and one.can_acquire()]

    def try_complete(self, key: Hashable | None, now: float) -> bool:
        waiting = [one for one in self._partitions if one.key not in self.failed]
        if waiting and not any(one.status is Status.FENCED for one in waiting):
            ready = self._ready
            if not ready or not self._reader.has_enough(self._params, ready):
                return False
        return self.force_complete(now)

    def on_complete(self, now: float) -> None:
        for one in self._partitions:
            if one.status is Status.FENCED:
                self._reader.check(one.key, self.failed)
        ready = self._ready
        results = self._reader.read(self._params, ready, now) if ready else []
        results += [ShareFetchResult(key, error) for key, error in self.failed.items()]
        self._on_done(results)
