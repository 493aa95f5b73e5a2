"""Controls of share groups (KIP-932): the acquisition locks of their members.

A mixin of `Controls` (controls/controls.py).  Any thread except the cluster's own.
"""

from __future__ import annotations

from pykafka2.broker.base.arguments import partition_key
from pykafka2.testing.running import Running
from pykafka2.types import TopicPartition


class ShareControls:
    """`controls.expire_locks("billing")`."""

    _running: Running

    def expire_locks(
        self,
        group_id: str,
        partition: TopicPartition | tuple[str, int] | None = None,
        *,
        member_id: str | None = None,
    ) -> int:
        """Let the acquisition locks of a share group expire now, as after share.record.lock.duration.ms: its
        records are delivered again, or archived after the last delivery.  One partition or all; one member or
        all.  Return the number of records.
        """
        self._running.check()
        place = None
        if partition is not None:
            place = partition_key(self._running.controllers.image, partition)
        count = 0
        with self._running.lock:
            for broker in self._running.brokers:
                shares = broker.parts.shares_or_none if broker.is_running else None
                for key, one in {} if shares is None else dict(shares.partitions).items():
                    if key.group_id == group_id and place in (None, key.place):
                        count += one.expire_locks(self._running.now(), member_id)
        return count
