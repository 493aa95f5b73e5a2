"""Who is in sync: a leader's broker notes what followers have fetched and tells the controller of changes.

Changes of many partitions go to the controller together, as in Kafka's AlterPartition: a broker that comes
back joins a thousand of them with one fetch.  Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka2.testing.controller import IsrChange
from pykafka2.testing.replication.in_sync import NEVER
from pykafka2.testing.replication.reading import FetchPlan
from pykafka2.testing.replication.replica import Key, Replica

if TYPE_CHECKING:
    from pykafka2.testing.controller import Controller


class IsrKeeper:
    """The ISRs and high watermarks of the partitions that one broker leads.  `max_lag` in seconds."""

    def __init__(
        self, broker_id: int, controller: Controller, max_lag: float, moved: dict[Key, bool]
    ) -> None:
        self._broker_id = broker_id
        self._controller = controller
        self._max_lag = max_lag
        self._moved = moved  # the replica manager's list of what moved

    def is_stale(self, plan: FetchPlan) -> bool:
        """Whether a follower's fetch was sent before it last registered."""
        broker = self._controller.image.brokers.get(plan.replica_id)
        return broker is None or plan.replica_epoch not in (-1, broker.epoch)

    def followers_fetched(self, plan: FetchPlan, replicas: dict[Key, Replica], now: float) -> None:
        """A follower's fetch says how far it has come: ISRs may grow, high watermarks move."""
        if self.is_stale(plan):
            return
        grown: list[IsrChange] = []
        for item in plan.current_items():
            replica = replicas.get(item.key)
            if replica is None or item.error is not None:
                continue
            follower = replica.followers.get(plan.replica_id)
            log_start_before = follower.log_start_offset if follower is not None else -1
            in_session = None if plan.session is None else plan.session.partition_of(item)
            if not replica.note_fetch(plan.replica_id, item, now, in_session):
                continue
            if item.log_start_offset != log_start_before:
                self._moved[item.key] = True  # a delete-records may have waited for it
            if plan.replica_id not in replica.image.isr:
                joining = [one for one in replica.followers_to_add() if self._controller.image.is_alive(one)]
                if joining:
                    grown.append(self._change(replica, {*replica.image.isr, *joining}))
            self.advance_high_watermark(replica, now)
        self._tell(grown)

    def shrink(self, replicas: Iterable[Replica], now: float) -> None:
        """Drop followers that have lagged for too long (rule 65)."""
        led = [replica for replica in replicas if replica.is_leader]
        shrunk: list[IsrChange] = []
        for replica in led:
            lagging = replica.followers_to_drop(now, self._max_lag)
            if lagging:
                shrunk.append(self._change(replica, set(replica.image.isr) - set(lagging)))
        self._tell(shrunk)
        for replica in led:
            self.advance_high_watermark(replica, now)

    def drop(self, replica: Replica, brokers: Iterable[int]) -> None:
        """Take these followers out, however well they do, and wait for them no longer."""
        for broker in brokers:
            replica.followers[broker].last_caught_up = NEVER
        left = set(replica.image.isr) - set(brokers)
        if left != set(replica.image.isr):
            self._tell([self._change(replica, left)])

    def advance_high_watermark(self, replica: Replica, now: float) -> None:
        if replica.advance_high_watermark(now, self._max_lag, self._controller.image.is_alive):
            self._moved[replica.key] = True

    def _change(self, replica: Replica, isr: set[int]) -> IsrChange:
        return IsrChange(*replica.key, replica.image.partition_epoch, frozenset(isr))

    def _tell(self, changes: list[IsrChange]) -> None:
        if changes:
            # A change that is refused is void: the controller knows better, and its image is on the way.
            self._controller.alter_partitions(self._broker_id, changes)
