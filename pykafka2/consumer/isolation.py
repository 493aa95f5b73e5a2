"""Which batches a consumer may be shown: never control batches, and with read_committed no aborted ones.

Runs on the caller's thread inside poll(); fed by fetched.py with the broker's list of aborted transactions.
Sees whole batches, never single records.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop

from pykafka2.protocol.messages.fetch import AbortedTransaction
from pykafka2.records.batch import RecordBatch
from pykafka2.records.control import read_marker
from pykafka2.records.legacy import AnyBatch


class Visibility:
    """Passes over the batches of one fetch in order; `hides` must see each of them once.

    Without aborted transactions (always so with read_uncommitted) only control batches are hidden.
    """

    __slots__ = ("_aborted", "_active", "_where")

    def __init__(self, aborted: Iterable[AbortedTransaction] | None, where: str) -> None:
        # The broker lists aborted transactions by first offset but does not promise it: a heap does (KIP-98).
        self._aborted = [(one.first_offset, one.producer_id) for one in aborted or ()]
        heapify(self._aborted)
        self._active: set[int] = set()
        """Producers whose open transaction, at this place of the log, will turn out to be aborted."""
        self._where = where

    def hides(self, batch: AnyBatch) -> bool:
        """True if no record of the batch may be shown.

        Raises `CorruptData` if a control batch that matters cannot be read.
        """
        aborted = self._aborted
        while aborted and aborted[0][0] <= batch.last_offset:
            self._active.add(heappop(aborted)[1])
        if not isinstance(batch, RecordBatch):
            return False
        if batch.is_control:
            # A commit marker of an active producer belongs to an earlier transaction of it.
            if batch.producer_id in self._active and read_marker(batch, self._where).is_abort:
                self._active.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._active
