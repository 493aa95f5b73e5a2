"""Committed offsets: the ones in the log, those pending in open transactions, and their expiry.

Offsets exist only in the log's records. An offset committed in a transaction is pending and invisible until
the marker arrives; meanwhile requests for stable offsets get UNSTABLE_OFFSET_COMMIT. Kafka 4.3's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from pykafka2.broker.coordinators.groups.classic.rebalance import AnyGroup, ClassicRebalance, Groups
from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup, GroupState
from pykafka2.broker.coordinators.replay import Producer, Result
from pykafka2.broker.coordinators.settings import NO_TOPICS, GroupSettings, Topics
from pykafka2.protocol.messages.group_records import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)

FIRST_COMMIT_WITH_TOPIC_IDS: Final = 10
FIRST_FETCH_WITH_TOPIC_IDS: Final = 10
FIRST_COMMIT_THAT_NAMES_A_MISSING_GROUP: Final = 9

NO_TOPIC_ID: Final = bytes(16)

Place = tuple[str, int]
"""Topic and partition."""


@attrs.define(frozen=True)
class CommittedOffset:
    """One committed offset; timestamps are in milliseconds since 1970."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int | None = None
    topic_id: bytes = NO_TOPIC_ID
    """The topic it was committed for, if the commit named the id; not another topic of the same name
    (KIP-848).
    """
    record_offset: int = attrs.field(default=0, eq=False)
    """Orders two commits, regardless of when their transactions' markers arrive."""

    @classmethod
    def from_record(cls, value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            None if value.expire_timestamp == -1 else value.expire_timestamp,
            value.topic_id,
            record_offset,
        )

    def is_of(self, topic_id: bytes) -> bool:
        """Return whether it is valid for a request with this topic id; NO_TOPIC_ID matches every topic."""
        return NO_TOPIC_ID in (self.topic_id, topic_id) or self.topic_id == topic_id


class OffsetStore:
    """All committed offsets of a shard."""

    def __init__(
        self,
        groups: Groups,
        classic: ClassicRebalance,
        settings: GroupSettings,
        wall_ms: Callable[[float], int],
    ) -> None:
        self.groups = groups
        self.topics: Topics = NO_TOPICS
        self.committed: dict[str, dict[Place, CommittedOffset]] = {}
        # Offsets that each producer's open transaction would commit, by group.
        self.pending: dict[int, dict[str, dict[Place, CommittedOffset]]] = {}
        self._replayed = 0
        self._classic = classic
        self._settings = settings
        self._wall_ms = wall_ms

    # -- replay -------------------------------------------------------------------------------------

    def replay(
        self,
        key: OffsetCommitKey | LegacyOffsetCommitKey,
        value: OffsetCommitValue | None,
        producer: Producer | None,
    ) -> None:
        place = (key.topic, key.partition)
        if value is None:
            self._forget(key.group, place)
            return
        # A consumer without a group protocol still has a group: empty, without a protocol.
        if key.group not in self.groups:
            self.groups[key.group] = ClassicGroup(key.group)
        self._replayed += 1
        offset = CommittedOffset.from_record(value, self._replayed)
        if producer is not None:
            self.pending.setdefault(producer.id, {}).setdefault(key.group, {})[place] = offset
        else:
            self.committed.setdefault(key.group, {})[place] = offset

    def replay_marker(self, producer: Producer, committed: bool) -> None:
        """End a transaction: its pending offsets are committed or dropped.

        An offset that was committed after the transaction's own is kept.
        """
        for group_id, offsets in self.pending.pop(producer.id, {}).items():
            known = self.committed.setdefault(group_id, {}) if committed else {}
            for place, offset in offsets.items():
                if place not in known or known[place].record_offset < offset.record_offset:
                    known[place] = offset

    def _forget(self, group_id: str, place: Place) -> None:
        offsets = self.committed.get(group_id, {})
        offsets.pop(place, None)
        if not offsets:
            self.committed.pop(group_id, None)
        for groups in self.pending.values():
            pending = groups.get(group_id, {})
            pending.pop(place, None)
            if not pending:
                groups.pop(group_id, None)

    def is_pending(self, group_id: str, place: Place) -> bool:
        """Return whether an open transaction would commit this partition."""
        return any(place in groups.get(group_id, ()) for groups in self.pending.values())

    def has_open_transaction(self, group_id: str) -> bool:
        return any(group_id in groups for groups in self.pending.values())

    # -- deletion and expiry -------------------------------------------------------------------------

    def forget_all(self, group_id: str, out: Result) -> None:
        """Delete all offsets of a group, including those pending in transactions."""
        for place in self._places(group_id):
            write_offset(out, group_id, place, None)

    def forget_topics(self, names: Iterable[str], out: Result) -> None:
        """Delete the offsets of deleted topics, including pending ones."""
        deleted = set(names)
        groups = dict.fromkeys(
            [*self.committed, *(group_id for groups in self.pending.values() for group_id in groups)]
        )
        for group_id in groups:
            for place in self._places(group_id):
                if place[0] in deleted:
                    write_offset(out, group_id, place, None)

    def _places(self, group_id: str) -> list[Place]:
        """Return the partitions with committed or pending offsets of a group, sorted."""
        places = set(self.committed.get(group_id, ()))
        for groups in self.pending.values():
            places |= set(groups.get(group_id, ()))
        return sorted(places)

    def expire(self, group_id: str, now: float, out: Result) -> bool:
        """Remove a group's expired offsets. Return whether none is left, including pending ones."""
        group = self.groups[group_id]
        known = self.committed.get(group_id)
        if not known:
            return not self.has_open_transaction(group_id)
        base_of = _expiry_base(group)
        if base_of is None:
            return False
        at_ms = self._wall_ms(now)
        retention_ms = self._settings.offsets_retention * 1000
        are_all_removed = True
        for place, offset in sorted(known.items()):
            if offset.expires_ms is not None:
                is_due = at_ms >= offset.expires_ms
            else:
                is_due = at_ms - base_of(offset) >= retention_ms
            if is_due and not group.is_subscribed_to(place[0]) and not self.is_pending(group_id, place):
                write_offset(out, group_id, place, None)
            else:
                are_all_removed = False
        return are_all_removed and not self.has_open_transaction(group_id)


def _expiry_base(group: AnyGroup) -> Callable[[CommittedOffset], int] | None:
    """Return the start of an offset's retention, in milliseconds since 1970; None if none expires."""
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            emptied_ms = group.changed_ms
            return lambda offset: offset.committed_ms if emptied_ms is None else emptied_ms
        knows_topics = group.uses_consumer_protocol and group.subscribed_topics is not None
        if not knows_topics or group.state is not GroupState.STABLE:
            return None
    return lambda offset: offset.committed_ms


def write_offset(out: Result, group_id: str, place: Place, offset: CommittedOffset | None) -> None:
    """Write a commit as a record, or its removal if None."""
    key = OffsetCommitKey(group=group_id, topic=place[0], partition=place[1])
    if offset is None:
        out.write(key, None)
        return
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.committed_ms,
        expire_timestamp=-1 if offset.expires_ms is None else offset.expires_ms,
        topic_id=offset.topic_id,
    )
    # Only version 1 can hold a separate expiry, which clients before 2.1 request.
    out.write(key, value, 4 if offset.expires_ms is None else 1)
