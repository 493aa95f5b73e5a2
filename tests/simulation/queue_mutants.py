"""Planted bugs of share groups, in brokers and in the share consumer: a promise of queues that is broken.

As those of mutants.py: a mutant gets the world before the story begins, and patches classes (undone by
pytest's monkeypatch).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import pytest

from pykafka2.broker.coordinators.share.shard import ShareShard
from pykafka2.broker.coordinators.share.state import ShareState
from pykafka2.broker.handlers import share_fetch
from pykafka2.broker.handlers.share_requests import FINAL_EPOCH
from pykafka2.broker.share import share_partition, state_changes
from pykafka2.broker.share.dead_letters import DeadLetterQueue
from pykafka2.broker.share.in_flight import ACKNOWLEDGED, ACQUIRED, AVAILABLE, DeliveryState
from pykafka2.broker.share.in_flight_records import InFlightRecords
from pykafka2.broker.share.persister import Persister
from pykafka2.broker.share.share_partition import Acknowledgement, SharePartition
from pykafka2.broker.share.state_changes import ACCEPT, REJECT, RELEASE, Changes
from pykafka2.protocol.messages import share_state
from pykafka2.share.locks import Locks, LockState
from pykafka2.testing.simulation.world import World

Mutant = Callable[[World, pytest.MonkeyPatch], None]


# ---------------------------------------------------------------------- leaders and coordinators


def new_leaders_forget_what_was_accepted(world: World, patch: pytest.MonkeyPatch) -> None:
    """A new leader loads the stored state without the acknowledged records."""
    load = InFlightRecords.load

    def forget(self: InFlightRecords, start_offset: int, stored: Sequence[Any]) -> None:
        load(self, start_offset, [one for one in stored if one.delivery_state != ACKNOWLEDGED])

    patch.setattr(InFlightRecords, "load", forget)


def snapshots_lose_the_states(world: World, patch: pytest.MonkeyPatch) -> None:
    """A snapshot has the start offset, and none of the records after it."""
    value = ShareState.snapshot_value
    patch.setattr(ShareState, "snapshot_value", lambda self: value(attrs.evolve(self, batches=())))


def delivery_counts_are_not_stored(world: World, patch: pytest.MonkeyPatch) -> None:
    """The stored count of a released record lacks its last delivery."""
    state_batch = state_changes.state_batch

    def without_last(first_offset: int, last_offset: int, state: Any, count: int) -> Any:
        return state_batch(first_offset, last_offset, state, count - (state is AVAILABLE))

    patch.setattr(state_changes, "state_batch", without_last)


def failed_writes_count_as_stored(world: World, patch: pytest.MonkeyPatch) -> None:
    """A write that a coordinator rejects is not repeated, and its members see a success."""
    retry = Persister._retry

    def succeed(self: Persister, call: Any, failure: Any, now: float) -> None:
        if call.is_write:
            result = share_state.WriteShareGroupStateResponsePartitionResult(partition=call.entry.partition)
            self._complete(call, result, now)
        else:
            retry(self, call, failure, now)

    patch.setattr(Persister, "_retry", succeed)


def former_leaders_are_not_fenced(world: World, patch: pytest.MonkeyPatch) -> None:
    """The coordinator takes writes of a leader although a newer one has read the state."""
    patch.setattr(ShareShard, "_check_leader_epoch", lambda self, key, epoch: None)


# ---------------------------------------------------------------------- locks and counts


def locks_do_not_end(world: World, patch: pytest.MonkeyPatch) -> None:
    """The end of a lock releases nothing."""
    patch.setattr(SharePartition, "_expire", lambda self, lock, now: 0)


def two_members_hold_a_record(world: World, patch: pytest.MonkeyPatch) -> None:
    """A record that a member holds since its first delivery is delivered to another one."""

    def is_acquirable(self: DeliveryState) -> bool:
        is_held_once = self.state is ACQUIRED and self.delivery_count == 1
        return self.undo is None and (self.state is AVAILABLE or is_held_once)

    patch.setattr(DeliveryState, "is_acquirable", property(is_acquirable))


def renewed_locks_end_as_before(world: World, patch: pytest.MonkeyPatch) -> None:
    """A renewal is confirmed, and the lock ends when it would have ended."""
    patch.setattr(SharePartition, "_renew", lambda self, member_id, units, now: None)


def anybody_acknowledges(world: World, patch: pytest.MonkeyPatch) -> None:
    """A member whose lock has ended acknowledges what another one holds by now."""
    offset, owner = share_partition._check_offset, share_partition._check_owner
    patch.setattr(share_partition, "_check_offset", lambda member_id, state: offset(state.member_id, state))
    patch.setattr(
        share_partition,
        "_check_owner",
        lambda member_id, state, *texts: owner(state.member_id, state, *texts),
    )


def archived_one_delivery_early(world: World, patch: pytest.MonkeyPatch) -> None:
    _other_limit(-1, patch)


def archived_one_delivery_late(world: World, patch: pytest.MonkeyPatch) -> None:
    _other_limit(1, patch)


def _other_limit(more: int, patch: pytest.MonkeyPatch) -> None:
    after_release = DeliveryState.after_release
    patch.setattr(
        DeliveryState,
        "after_release",
        lambda self, delivery_limit, **options: after_release(self, delivery_limit + more, **options),
    )


# ---------------------------------------------------------------------- acknowledgements


def close_loses_acknowledgements(world: World, patch: pytest.MonkeyPatch) -> None:
    """The last acknowledgements of a session are confirmed, and released with the rest."""
    acknowledge = share_fetch.acknowledge

    def confirm(services: Any, context: Any, request: Any, on_done: Any, now: float) -> None:
        if request.share_session_epoch != FINAL_EPOCH:
            acknowledge(services, context, request, on_done, now)
            return
        on_done(
            {
                (topic.topic_id, partition.partition_index): None
                for topic in request.topics
                for partition in topic.partitions
            }
        )

    patch.setattr(share_fetch, "acknowledge", confirm)


def rejected_records_are_delivered_again(world: World, patch: pytest.MonkeyPatch) -> None:
    """A reject is a release."""
    acknowledge = Changes.acknowledge

    def release(self: Changes, kind: int, *args: Any) -> bool:
        return acknowledge(self, RELEASE if kind == REJECT else kind, *args)

    patch.setattr(Changes, "acknowledge", release)


def one_type_counts_for_a_range(world: World, patch: pytest.MonkeyPatch) -> None:
    """The first of several acknowledgements of consecutive records is applied to all of them."""
    patch.setattr(Acknowledgement, "type_of", lambda self, offset: self.types[0])


# ---------------------------------------------------------------------- dead letters


def dead_letters_are_lost(world: World, patch: pytest.MonkeyPatch) -> None:
    """Every third range of dead letters is not written."""
    send = DeadLetterQueue.send
    counted = [0]

    def lose(self: DeadLetterQueue, letters: Any, on_done: Any, now: float) -> None:
        counted[0] += 1
        if counted[0] % 3:
            send(self, letters, on_done, now)
        else:
            on_done(now)

    patch.setattr(DeadLetterQueue, "send", lose)


def dead_letters_end_with_their_leader(world: World, patch: pytest.MonkeyPatch) -> None:
    """A new leader does not send what the former one was about to send."""
    load = SharePartition._load

    def load_only(self: SharePartition, stored: Any) -> list[Any]:
        load(self, stored)
        return []

    patch.setattr(SharePartition, "_load", load_only)


# ---------------------------------------------------------------------- share consumers


def close_accepts_everything(world: World, patch: pytest.MonkeyPatch) -> None:
    """A consumer that closes accepts the records that its application has not handled."""
    flush = Locks.flush

    def accept(self: Locks, *, accepts: bool) -> bool:
        if not accepts:
            for lock, _ in self.open_locks():
                if lock.state is LockState.HELD:
                    lock.type = ACCEPT
                    self._make_ready(lock)
        flush(self, accepts=accepts)
        return True

    patch.setattr(Locks, "flush", accept)


def close_drops_decisions(world: World, patch: pytest.MonkeyPatch) -> None:
    """A consumer that closes does not send what its application has decided at last."""
    flush = Locks.flush

    def drop(self: Locks, *, accepts: bool) -> bool:
        is_first = flush(self, accepts=accepts)
        if not accepts:
            self._ready.clear()
        return is_first

    patch.setattr(Locks, "flush", drop)


def errors_are_reported_as_confirmations(world: World, patch: pytest.MonkeyPatch) -> None:
    """The callback gets no error for acknowledgements that failed."""
    settle = Locks.settle

    def succeed(self: Locks, locks: Iterable[Any], error: Any, *more: float) -> None:
        settle(self, locks, None, *more)

    patch.setattr(Locks, "settle", succeed)
