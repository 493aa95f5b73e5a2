"""Sees to it that a consumer is never alive and stuck: partitions with data behind them must advance.

Caller's thread, inside poll().  While brokers answer, a partition whose position stands still although
records lie behind it is looked for anew after half a minute, and after two minutes `ConsumerStalled` says so
with what is known of the cause.  What is somebody else's doing is ridden out: brokers that cannot be reached
or throttle, partitions without a leader, transactions that stay open, a poll() that is not called.
"""

from __future__ import annotations

import logging

import attrs

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.fetcher import Fetcher
from pykafka2.consumer.fetch.offset_lookups import OffsetLookups
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.subscription import Assigned, Subscription
from pykafka2.errors import ConsumerStalled
from pykafka2.types import TopicPartition

logger = logging.getLogger(__name__)

LOOK_EVERY = 10.0
REDISCOVER_AFTER = 30.0
STALLED_AFTER = 120.0
# What may pass between two looks and still count: without poll() nothing can be handed over.
LONGEST_STEP = LOOK_EVERY + 1.0


@attrs.define
class _Standstill:
    """How long a partition has stood still, in time that counts."""

    generation: int
    position: int | None
    seconds: float = 0.0
    is_rediscovered: bool = False


class StallDetector:
    """Compares, every ten seconds, where each partition is with where it was."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        buffer: FetchBuffer,
        fetcher: Fetcher,
        lookups: OffsetLookups,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._buffer = buffer
        self._fetcher = fetcher
        self._lookups = lookups
        # An application may ask for records to come together; that much longer they may take.
        self._limit = STALLED_AFTER + options.fetch_max_wait
        self._looked_at = cluster.driver.clock.monotonic()
        self.due_at = self._looked_at + LOOK_EVERY
        """When the next look is due."""
        self._still: dict[TopicPartition, _Standstill] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._cut_off: dict[int, bool] = {}
        """By leader, whether it could not answer at the last look."""
        self.is_reading = False
        """Whether any position was another one at the last look than at the one before, or records were
        handed over that are to come again."""
        self.is_peeked_at = False
        """Since the last look, records were returned with update_offsets=False, or a large batch was decoded
        further: the application reads, although positions do not move."""

    def patience(self) -> float:
        """Seconds until the next look."""
        return max(self.due_at - self._cluster.driver.clock.monotonic(), 0.001)

    def standing_still(self) -> dict[TopicPartition, float]:
        """Partitions that do not advance although they should, each with the seconds so far.  Any thread."""
        return {partition: one.seconds for partition, one in dict(self._still).items() if one.seconds}

    def look(self) -> list[TopicPartition]:
        """Partitions to be looked for anew; none before the look is due.

        Raises:
            ConsumerStalled: a partition has stood still for two minutes; every two minutes once.
        """
        now = self._cluster.driver.clock.monotonic()
        step = now - self._looked_at
        if step < LOOK_EVERY:
            return []
        self._looked_at, self.due_at = now, now + LOOK_EVERY
        positions = dict(self._subscription.positions)
        self.is_reading = positions != self._positions or self.is_peeked_at
        self._positions, self.is_peeked_at = positions, False
        before, self._still = self._still, {}
        to_rediscover = []
        self._cut_off = {}
        for partition, assigned in self._subscription.assigned.items():
            if not self._should_advance(partition, assigned, now):
                continue
            position = self._subscription.positions.get(partition)
            one = before.get(partition)
            if one is None or one.position != position:
                one = _Standstill(assigned.generation, position)
            else:
                one.seconds += min(step, LONGEST_STEP)
            self._still[partition] = one
            if one.seconds >= REDISCOVER_AFTER and not one.is_rediscovered:
                one.is_rediscovered = True
                to_rediscover.append(partition)
                logger.warning("%s; looking for it anew", self._words(partition, one))
        for partition, one in self._still.items():
            if one.seconds >= self._limit:
                words = self._words(partition, one)
                del self._still[partition]
                raise ConsumerStalled(f"{words}; the consumer goes on trying with the next poll()")
        return to_rediscover

    def _should_advance(self, partition: TopicPartition, assigned: Assigned, now: float) -> bool:
        """Whether a position that stays where it is would be this consumer's fault."""
        if not assigned.is_readable:
            return False
        position = self._subscription.positions.get(partition)
        if position is None:
            return assigned.is_resetting and not self._is_outage(partition, now)
        end = self._fetcher.table.readable_ends.get(partition)
        if end is not None and position >= end:
            return False  # as nearly all do where there are thousands
        if self.is_reading and self._buffer.bytes_of(partition):
            return False  # it waits for its turn, and the application takes what it can
        return not self._is_outage(partition, now)

    def _is_outage(self, partition: TopicPartition, now: float) -> bool:
        """Whether there is nobody who could answer."""
        info = self._cluster.metadata.leader_of(*partition)
        if info is None:
            return True
        cut_off = self._cut_off.get(info.leader)
        if cut_off is None:  # once a look for each leader, as there may be 100,000 partitions
            cut_off = self._cut_off[info.leader] = self._is_cut_off(info.leader, now)
        return cut_off

    def _is_cut_off(self, leader: int, now: float) -> bool:
        cluster = self._cluster
        if not cluster.nodes.has_connection or cluster.metadata.last_error is not None:
            return True
        link = cluster.nodes.known_link(leader)
        return link is not None and (link.has_failed or link.is_backing_off or link.throttled_for(now) > 0)

    def _words(self, partition: TopicPartition, one: _Standstill) -> str:
        end = self._fetcher.table.readable_ends.get(partition)
        info = self._cluster.metadata.leader_of(*partition)
        trouble = self._fetcher.table.troubles.get(partition) or self._lookups.trouble_of(partition)
        where = "no position was found" if one.position is None else f"its position has been {one.position}"
        behind = "" if end is None or one.position is None else f" although records up to {end} are there"
        leader = "" if info is None else f", and node {info.leader}, its leader, is connected"
        why = f"; the last trouble was: {trouble}" if trouble else ""
        return f"{partition} does not advance: {where} for {one.seconds:.0f} s{behind}{leader}{why}"
