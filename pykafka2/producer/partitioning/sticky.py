"""Chooses partitions for records without a key: one partition for batch_size bytes, then another.

KIP-794. It is drawn at random: with equal chances, or, if adaptive, more often the fewer batches of it wait,
and never if its leader accepts no requests. With a rack, leaders there are preferred (KIP-1123). Callers'
threads draw, at most once per batch; the IO thread records in `NodeDelays` which nodes accept no requests.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate

from pykafka2.driver.driver import Driver
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.options import ProducerOptions
from pykafka2.producer.partitioning.topic_route import Route

QUEUES_PER_DRAW = 64
"""Weights are computed again after one draw per this number of partitions, to bound the cost."""


class NodeDelays:
    """The times since when nodes accept no requests although batches for them are ready."""

    def __init__(self) -> None:
        self._waiting_since: dict[int, float] = {}

    def note(self, waiting: Collection[int], now: float) -> None:
        """Record the nodes whose batches could not be sent. Used on the IO thread."""
        since = self._waiting_since
        if since or waiting:
            # Replaced, never changed, as other threads read it.
            self._waiting_since = {node: since.get(node, now) for node in waiting}

    def slow(self, now: float, timeout: float) -> set[int]:
        """Return the nodes whose batches have waited longer than `timeout` seconds. Any thread."""
        return {node for node, since in self._waiting_since.items() if now - since > timeout}


class StickyChoice:
    """Draws the partition that a topic's records without a key stick to.

    Args:
        batch_bytes: the least bytes that it gets; whole batches are sent, so it can be twice as much.
        is_adaptive: whether full queues are drawn less often (partitioner_adaptive_partitioning_enable).
        availability_timeout: seconds (partitioner_availability_timeout_ms); 0 ignores delays.
        rack: leaders in this rack are preferred (KIP-1123); None: racks do not matter.
    """

    def __init__(
        self,
        *,
        batch_bytes: int,
        is_adaptive: bool,
        availability_timeout: float,
        rack: str | None = None,
        delays: NodeDelays,
        seeded: random.Random,
        monotonic: Callable[[], float],
    ) -> None:
        self._batch_bytes = max(1, batch_bytes)
        self._is_adaptive = is_adaptive
        self._availability_timeout = availability_timeout
        self._rack = rack
        self._delays = delays
        self._seeded = seeded
        self._monotonic = monotonic
        self._weighted: dict[str, _Weighted] = {}

    @classmethod
    def of(cls, options: ProducerOptions, driver: Driver, delays: NodeDelays) -> StickyChoice:
        """Return the choice for a producer's options."""
        return cls(
            batch_bytes=options.batch_size,
            is_adaptive=options.partitioner_adaptive_partitioning_enable,
            availability_timeout=options.partitioner_availability_timeout,
            rack=options.client_rack if options.partitioner_rack_aware else None,
            delays=delays,
            seeded=driver.entropy.random,
            monotonic=driver.clock.monotonic,
        )

    def begin(self, route: Route, old: Route | None) -> None:
        """Give a new route its partition: the old route's, if that still exists."""
        if self._rack is not None:
            route.prefer_rack(self._rack)
        if old is not None and old.sticky in route.queues:
            route.sticky_from_bytes = old.sticky_from_bytes
            route.sticky = old.sticky
        else:
            self._stick(route, self._draw(route))

    def next(self, route: Route) -> PartitionQueue:
        """Return the queue for the next batch, as the sticky one has no open batch with room."""
        queue = route.sticky
        # Without an open batch, as for a record that is sent alone, this saves a call.
        begun_bytes = queue.closed_bytes if queue.tail is None else queue.begun_bytes
        if begun_bytes - route.sticky_from_bytes >= self._batch_bytes:
            queue = self._draw(route)
            self._stick(route, queue)
        return queue

    def turns(self, route: Route, count: int) -> list[PartitionQueue]:
        """Return the queues for this number of runs of records, each of at least batch_size bytes."""
        queues = [self.next(route)]
        while len(queues) < count:
            queues.append(self._draw(route))
            self._stick(route, queues[-1])
        return queues

    def _stick(self, route: Route, queue: PartitionQueue) -> None:
        # In this order, a thread that reads between the two keeps its queue for another batch.
        route.sticky_from_bytes = queue.begun_bytes
        route.sticky = queue

    def _draw(self, route: Route) -> PartitionQueue:
        chance = self._seeded.random()
        if self._is_adaptive and len(route.queues) > 1:
            weighted = self._weighted.get(route.topic)
            if weighted is None or weighted.of is not route.queues or weighted.draws_left <= 0:
                weighted = self._weighted[route.topic] = self._weigh(route)
            weighted.draws_left -= 1
            if weighted.sums:
                return weighted.draw(chance)
        queues = route.nearby or route.queues
        return queues[int(chance * len(queues))]

    def _weigh(self, route: Route) -> _Weighted:
        if self._availability_timeout > 0:
            slow = self._delays.slow(self._monotonic(), self._availability_timeout)
            for queues in (route.nearby, route.available) if slow else ():
                quick = [queue for queue in queues if route.leader(queue) not in slow]
                if quick:
                    return _Weighted(route, quick)
        return _Weighted(route, route.nearby)


class _Weighted:
    """Queues with sums of weights. A weight is the batches that the longest queue has more, plus one."""

    __slots__ = ("draws_left", "of", "queues", "sums")

    def __init__(self, route: Route, queues: Sequence[PartitionQueue]) -> None:
        self.of = route.queues  # the list identifies the route, which would keep its snapshot
        self.queues = queues
        lengths = [len(queue.batches) for queue in queues]
        longest = max(lengths, default=0)
        self.sums = list(accumulate(longest + 1 - length for length in lengths))
        self.draws_left = 1 + len(route.queues) // QUEUES_PER_DRAW

    def draw(self, chance: float) -> PartitionQueue:
        """Return the queue for a random number from 0 to below 1."""
        return self.queues[bisect_right(self.sums, int(chance * self.sums[-1]))]
