"""Transactions in the batches that a compaction reads. Kafka's CleanedTransactionMetadata.

Records of aborted transactions are removed. A marker stays until no batch of its transaction is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from operator import attrgetter

from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.records.batch import RecordBatch


class CleanedTransactions:
    """Tracks the transactions that are open at the current batch; batches must be read in offset order."""

    __slots__ = ("_aborted", "_committed", "_observed", "_waiting", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = deque(sorted(aborted, key=attrgetter("first_offset")))
        self._committed: set[int] = set()
        self._aborted: dict[int, AbortedTransaction] = {}
        self._observed: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """Aborted transactions that stay in the transaction index."""

    def is_removable(self, batch: RecordBatch) -> bool:
        """Return whether the batch is aborted, or the marker of a transaction without remaining batches."""
        self._begin_up_to(batch.last_offset)
        if batch.is_control:
            return self._is_removable_marker(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._observed.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _is_removable_marker(self, batch: RecordBatch) -> bool:
        from pykafka2.records.control import read_marker

        if not batch.count:
            return True
        marker = read_marker(batch, check_crcs=False)
        if marker.is_commit:
            was_read = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not was_read
        if not marker.is_abort:
            return False
        aborted = self._aborted.pop(batch.producer_id, None)
        if aborted is None:
            return True
        if batch.producer_id not in self._observed:
            return True
        self._observed.discard(batch.producer_id)
        self.kept.append(aborted)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0].first_offset <= offset:
            aborted = self._waiting.popleft()
            self._aborted.setdefault(aborted.producer_id, aborted)
