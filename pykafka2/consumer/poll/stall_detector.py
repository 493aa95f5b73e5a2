"""Detects partitions that stop advancing although brokers respond and have records.

Used on the caller's thread, inside poll(). After 30 s such a partition is rediscovered; after two minutes
`ConsumerStalled` is raised with the known cause. Conditions outside the client do not count as a stall:
unreachable or throttling brokers, partitions without a leader, open transactions, or an application that does
not call poll().
"""

from __future__ import annotations

import logging
from collections.abc import Container

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.fetch.fetcher import Fetcher
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.subscription import Assigned, Subscription
from pykafka2.errors import ConsumerStalled
from pykafka2.slotted import slotted
from pykafka2.types import TopicPartition

logger = logging.getLogger(__name__)

CHECK_EVERY = 10.0
REDISCOVER_AFTER = 30.0
STALLED_AFTER = 120.0
# The most that counts of the time between two checks: without poll() no record can be returned.
LONGEST_STEP = CHECK_EVERY + 1.0


@slotted
class _Stall:
    """How long a partition has not advanced, in time that counts."""

    generation: int
    position: int | None
    seconds: float = 0.0
    is_rediscovered: bool = False


class StallDetector:
    """Compares the positions of all partitions every ten seconds."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        fetcher: Fetcher,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._buffer = fetcher.buffer
        self._fetcher = fetcher
        self._lookups = fetcher.lookups
        # Brokers can delay records for fetch_max_wait_ms.
        self._limit = STALLED_AFTER + options.fetch_max_wait
        self._checked_at = cluster.driver.clock.monotonic()
        self.due_at = self._checked_at + CHECK_EVERY
        """When the next check is due."""
        self._stalls: dict[TopicPartition, _Stall] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._unavailable: dict[int, bool] = {}
        """By leader, whether it was unable to respond at the last check."""
        self.is_reading = False
        """Whether any position changed between the last two checks, or records were read in place."""
        self.has_read_in_place = False
        """Whether the application has read without moving a position since the last check: with
        update_offsets=False, or inside a large batch."""
        self.only: Container[TopicPartition] | None = None
        """The partitions that the current poll reads; all if None."""

    def due_in(self) -> float:
        """Return the seconds until the next check."""
        return max(self.due_at - self._cluster.driver.clock.monotonic(), 0.001)

    def stalled_for(self) -> dict[TopicPartition, float]:
        """Return the seconds of each partition that does not advance. Any thread can call it."""
        return {partition: stall.seconds for partition, stall in dict(self._stalls).items() if stall.seconds}

    def check(self) -> list[TopicPartition]:
        """Return the partitions whose brokers' state is to be reset; none before the check is due.

        Raises:
            ConsumerStalled: a partition has not advanced for two minutes; raised once every two minutes.
        """
        now = self._cluster.driver.clock.monotonic()
        step = now - self._checked_at
        if step < CHECK_EVERY:
            return []
        self._checked_at, self.due_at = now, now + CHECK_EVERY
        positions = dict(self._subscription.positions)
        self.is_reading = positions != self._positions or self.has_read_in_place
        self._positions, self.has_read_in_place = positions, False
        before, self._stalls = self._stalls, {}
        to_rediscover = []
        self._unavailable = {}
        for partition, assigned in self._subscription.assigned.items():
            if not self._should_advance(partition, assigned, now):
                continue
            position = self._subscription.positions.get(partition)
            stall = before.get(partition)
            if stall is None or stall.position != position:
                stall = _Stall(assigned.generation, position)
            else:
                stall.seconds += min(step, LONGEST_STEP)
            self._stalls[partition] = stall
            if stall.seconds >= REDISCOVER_AFTER and not stall.is_rediscovered:
                stall.is_rediscovered = True
                to_rediscover.append(partition)
                logger.warning("%s; rediscovering it", self._describe(partition, stall))
        for partition, stall in self._stalls.items():
            if stall.seconds >= self._limit:
                description = self._describe(partition, stall)
                del self._stalls[partition]
                raise ConsumerStalled(f"{description}; the next poll() tries again")
        return to_rediscover

    def _should_advance(self, partition: TopicPartition, assigned: Assigned, now: float) -> bool:
        """Return whether this consumer is at fault if the position does not advance."""
        if not assigned.is_readable or (self.only is not None and partition not in self.only):
            return False
        position = self._subscription.positions.get(partition)
        if position is None:
            return assigned.is_resetting and not self._is_outage(partition, now)
        end = self._fetcher.table.readable_ends.get(partition)
        if end is not None and position >= end:
            return False  # the usual case, so it is checked first
        if self.is_reading and self._buffer.bytes_of(partition):
            return False  # it waits for its turn while the application reads others
        return not self._is_outage(partition, now)

    def _is_outage(self, partition: TopicPartition, now: float) -> bool:
        """Return whether no broker is able to respond."""
        info = self._cluster.metadata.leader_of(*partition)
        if info is None:
            return True
        unavailable = self._unavailable.get(info.leader)
        if unavailable is None:  # once per leader and check: there can be 100,000 partitions
            unavailable = self._unavailable[info.leader] = self._is_unavailable(info.leader, now)
        return unavailable

    def _is_unavailable(self, leader: int, now: float) -> bool:
        cluster = self._cluster
        if not cluster.nodes.has_connection or cluster.metadata.last_error is not None:
            return True
        link = cluster.nodes.known_link(leader)
        return link is not None and (link.has_failed or link.is_backing_off or link.throttled_for(now) > 0)

    def _describe(self, partition: TopicPartition, stall: _Stall) -> str:
        end = self._fetcher.table.readable_ends.get(partition)
        info = self._cluster.metadata.leader_of(*partition)
        trouble = self._fetcher.table.troubles.get(partition) or self._lookups.last_error_of(partition)
        position = stall.position
        where = "no position was found" if position is None else f"its position has been {position}"
        behind = "" if end is None or position is None else f" although there are records up to {end}"
        leader = "" if info is None else f", and its leader, node {info.leader}, is connected"
        why = f"; the last error: {trouble}" if trouble else ""
        return f"{partition} does not advance: {where} for {stall.seconds:.0f} s{behind}{leader}{why}"
