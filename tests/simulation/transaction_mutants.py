"""Planted bugs of transactions, each of which the transactions' workload must catch; see mutants.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.broker.coordinators.groups.offsets import OffsetStore
from pykafka2.broker.coordinators.groups.service import GroupCoordinator
from pykafka2.broker.coordinators.replay import Result
from pykafka2.broker.coordinators.transactions.service import TransactionCoordinator
from pykafka2.broker.coordinators.transactions.shard import TransactionShard
from pykafka2.broker.coordinators.transactions.state import Transaction
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.producer_state import Verifications
from pykafka2.broker.log.transaction_index import TransactionIndex

Mutant = Callable[[pytest.MonkeyPatch], None]


def last_stable_offset_is_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """read_committed readers see what is still open."""
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


def aborted_list_is_empty(patch: pytest.MonkeyPatch) -> None:
    """Fetch names no aborted transaction."""
    patch.setattr(PartitionLog, "aborted_transactions", lambda self, start, end: [])


def aborted_list_forgets_earlier_ones(patch: pytest.MonkeyPatch) -> None:
    """Only transactions that begin within the range are named."""
    overlapping = TransactionIndex.overlapping

    def shorter(self: TransactionIndex, start: int, end: int) -> Any:
        return [one for one in overlapping(self, start, end) if one.first_offset >= start]

    patch.setattr(TransactionIndex, "overlapping", shorter)


def a_new_coordinator_orders_no_markers(patch: pytest.MonkeyPatch) -> None:
    """Decisions of the former coordinator are never carried out."""
    loaded = TransactionShard.on_loaded

    def without_markers(self: TransactionShard, now: float) -> Result:
        result = loaded(self, now)
        result.actions.clear()
        self.pending_markers.clear()
        return result

    patch.setattr(TransactionShard, "on_loaded", without_markers)


def every_answer_to_a_marker_counts_as_written(patch: pytest.MonkeyPatch) -> None:
    """A leader that refuses is taken for one that has the marker."""
    written = TransactionCoordinator.marker_written

    def believe(self: TransactionCoordinator, markers: Any, place: Any, code: int, now: float) -> None:
        written(self, markers, place, 0, now)

    patch.setattr(TransactionCoordinator, "marker_written", believe)


def timeouts_do_not_abort(patch: pytest.MonkeyPatch) -> None:
    """A transaction that a producer left open stays open until the next one starts."""
    patch.setattr(TransactionShard, "_abort_timed_out", lambda self, now: None)


def group_coordinator_hears_of_no_marker(patch: pytest.MonkeyPatch) -> None:
    """Offsets of a transaction stay pending."""
    patch.setattr(GroupCoordinator, "on_marker", lambda self, *args, **kwargs: None)


def aborted_offsets_are_committed(patch: pytest.MonkeyPatch) -> None:
    """An abort's marker commits what the transaction would have."""
    replay = OffsetStore.replay_marker
    patch.setattr(
        OffsetStore, "replay_marker", lambda self, producer, committed: replay(self, producer, True)
    )


def batches_of_a_transaction_are_not_verified(patch: pytest.MonkeyPatch) -> None:
    """A batch that comes after the end opens a transaction that never ends (KIP-890)."""
    patch.setattr(Verifications, "begin", lambda self, *args: None)
    patch.setattr(Verifications, "check", lambda self, batch, guard: None)


def a_commit_is_decided_as_an_abort_now_and_then(patch: pytest.MonkeyPatch) -> None:
    """The coordinator writes another decision than the requested one."""
    ended = Transaction.ended
    calls = [0]

    def mistaken(self: Transaction, committed: bool, *args: Any) -> Transaction:
        calls[0] += 1
        return ended(self, committed and calls[0] % 7 != 0, *args)

    patch.setattr(Transaction, "ended", mistaken)


MUTANTS = (
    last_stable_offset_is_the_high_watermark,
    aborted_list_is_empty,
    aborted_list_forgets_earlier_ones,
    a_new_coordinator_orders_no_markers,
    every_answer_to_a_marker_counts_as_written,
    timeouts_do_not_abort,
    group_coordinator_hears_of_no_marker,
    aborted_offsets_are_committed,
    batches_of_a_transaction_are_not_verified,
    a_commit_is_decided_as_an_abort_now_and_then,
)
