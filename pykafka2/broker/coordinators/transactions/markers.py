"""Which markers are still to be written: the way from Prepare... to Complete... (Kafka's marker channel).

Soft state of one shard: a coordinator that loads orders all markers of what it finds decided again, so a
marker may be written twice; partitions take that.  The runtime holds an order back until the
record of the decision is committed, because a marker must not tell what a failover then takes back.
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

# A newer coordinator or a newer epoch was there: not ours to end any more.
_FENCED: Final = frozenset({errors.InvalidProducerEpoch.code, errors.TransactionCoordinatorFenced.code})


@attrs.define
class PendingMarkers:
    """One transaction whose end is decided: which partitions have no marker, and which of them failed."""

    decision: WriteMarkers
    unwritten: set[Partition]
    failed: set[Partition] = attrs.field(factory=set)
    is_abandoned: bool = False
    """Fenced: whoever fenced us will see to it, or the next coordinator."""

    @property
    def is_done(self) -> bool:
        return not self.unwritten and not self.is_abandoned

    def is_of(self, order: WriteMarkers) -> bool:
        return attrs.evolve(order, partitions=self.decision.partitions) == self.decision

    def order_all(self) -> WriteMarkers:
        return attrs.evolve(self.decision, partitions=frozenset(self.unwritten))

    def order_failed(self) -> WriteMarkers | None:
        """Those that failed, once more; None if none is left."""
        failed, self.failed = frozenset(self.failed & self.unwritten), set()
        return attrs.evolve(self.decision, partitions=failed) if failed else None

    def note(self, partition: Partition, code: int) -> None:
        """What the leader of a partition said to its marker."""
        if code in _FENCED:
            self.is_abandoned = True
        elif code in _WRITTEN:
            self.unwritten.discard(partition)
        elif partition in self.unwritten:
            self.failed.add(partition)

    def drop_deleted(self, topics: Topics | None) -> None:
        """A partition that does not exist any more needs no marker."""
        self.unwritten -= deleted(frozenset(self.unwritten), topics)


def pending_markers_of(transaction: Transaction, coordinator_epoch: int) -> PendingMarkers:
    """For a transaction in Prepare...: everything is to be written."""
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
