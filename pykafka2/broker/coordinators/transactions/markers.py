"""Unwritten markers: the transition from Prepare... to Complete... (Kafka's marker channel).

Soft state of one shard: a coordinator that loads a partition schedules all markers of decided transactions
again, so a marker can be written twice, which partitions accept. The runtime holds markers back until the
record of the decision is committed, because a failover could otherwise revoke it.
"""

from __future__ import annotations

from typing import Final

import attrs

from pykafka2 import errors
from pykafka2.broker.coordinators.groups.settings import Topics
from pykafka2.broker.coordinators.replay import WriteMarkers
from pykafka2.broker.coordinators.transactions.partitions import deleted
from pykafka2.broker.coordinators.transactions.state import Partition, Transaction, TransactionState

_WRITTEN: Final = frozenset({0, errors.UnsupportedForMessageFormat.code, errors.UnsupportedVersion.code})

# A newer coordinator or epoch exists: this one must not end the transaction any more.
_FENCED: Final = frozenset({errors.InvalidProducerEpoch.code, errors.TransactionCoordinatorFenced.code})


@attrs.define
class PendingMarkers:
    """A decided transaction: its partitions without a marker, and those where writing failed."""

    decision: WriteMarkers
    unwritten: set[Partition]
    failed: set[Partition] = attrs.field(factory=set)
    is_abandoned: bool = False
    """Fenced: the newer producer or coordinator takes over."""

    @property
    def is_done(self) -> bool:
        return not self.unwritten and not self.is_abandoned

    def is_of(self, order: WriteMarkers) -> bool:
        return attrs.evolve(order, partitions=self.decision.partitions) == self.decision

    def order_all(self) -> WriteMarkers:
        return attrs.evolve(self.decision, partitions=frozenset(self.unwritten))

    def order_failed(self) -> WriteMarkers | None:
        """Return the failed markers again; None if there are none."""
        failed, self.failed = frozenset(self.failed & self.unwritten), set()
        return attrs.evolve(self.decision, partitions=failed) if failed else None

    def note(self, partition: Partition, code: int) -> None:
        """Record the leader's result for the marker of a partition."""
        if code in _FENCED:
            self.is_abandoned = True
        elif code in _WRITTEN:
            self.unwritten.discard(partition)
        elif partition in self.unwritten:
            self.failed.add(partition)

    def drop_deleted(self, topics: Topics | None) -> None:
        """Drop deleted partitions, which need no marker."""
        self.unwritten -= deleted(frozenset(self.unwritten), topics)


def pending_markers_of(transaction: Transaction, coordinator_epoch: int) -> PendingMarkers:
    """Return the pending markers of a transaction in Prepare...: all of its partitions."""
    decision = WriteMarkers(
        transaction.id,
        transaction.producer_id,
        transaction.epoch,
        coordinator_epoch,
        transaction.state is TransactionState.PREPARE_COMMIT,
        transaction.partitions,
        transaction.client_version,
    )
    return PendingMarkers(decision, set(transaction.partitions))
