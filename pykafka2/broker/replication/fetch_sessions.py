"""Fetch sessions: the broker remembers a reader's partitions, so that fetches name only changes (KIP-227).

All sessions of one broker: creation, lookup, changes, eviction. Slots and eviction are those of Kafka's
FetchSessionCache; fetch_session.py holds one session. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs

from pykafka2.broker.base.image import Key
from pykafka2.broker.replication.fetch_session import FetchSession, Ident, SessionPartition
from pykafka2.broker.replication.reading import FetchItem, FetchResult
from pykafka2.clock import Entropy
from pykafka2.errors import (
    BrokerError,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_AFTER: Final = 120.0
"""Seconds during which a session cannot be evicted for a more valuable one, and after which an unused one
can.
"""
SESSION_ERROR_CODES: Final = frozenset(
    error.code for error in (FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError)
)
"""Error codes of the session as a whole, not of a partition."""

NameOf = Callable[[bytes], str | None]


class FetchSessions:
    """The sessions of one broker, at most `max_slots` (max.incremental.fetch.session.cache.slots)."""

    def __init__(self, max_slots: int, entropy: Entropy) -> None:
        self._max_slots = max_slots
        self._entropy = entropy
        self._sessions: dict[int, FetchSession] = {}  # the least recently used first
        self._watching: dict[Key, dict[FetchSession, Ident]] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(list(self._sessions.values()))

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    # ------------------------------------------------------------------ used by the Fetch handler

    def create(
        self, results: Iterable[FetchResult], *, uses_topic_ids: bool, replica_id: int, now: float
    ) -> FetchSession | None:
        """Create a session for the partitions of a full fetch. Return None if there is no room for it."""
        fetched = list(results)
        is_from_follower = replica_id >= 0
        if is_from_follower:
            self._close_previous(replica_id)
        if not self._make_room(is_from_follower, len(fetched), now):
            return None
        session = FetchSession(self._new_id(), uses_topic_ids, replica_id, now, now)
        self._sessions[session.id] = session
        for result in fetched:
            self._add(session, result.item)
        session.fetched(now)
        session.settle(fetched)
        return session

    def incremental(
        self,
        session_id: int,
        epoch: int,
        *,
        uses_topic_ids: bool,
        items: Iterable[FetchItem],
        forgotten: Iterable[Ident],
        name_of: NameOf,
        now: float,
    ) -> FetchSession:
        """Apply a fetch's changes to its session. Raise the error for the whole request.

        A session without partitions is closed and returned empty.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFound
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch
        if session.uses_topic_ids is not uses_topic_ids:
            raise FetchSessionTopicIdError
        for item in items:
            self._add(session, item)
        for ident in forgotten:
            self._forget(session, ident)
        if not session.partitions:
            self.close(session_id)
            return session
        for ident in list(session.unresolved):
            self._resolve(session, ident, name_of)
        self._sessions.pop(session_id)
        self._sessions[session_id] = session  # the most recently used now
        session.last_used_at = now
        session.epoch = next_epoch(epoch)
        session.fetched(now)
        return session

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            for ident in list(session.partitions):
                self._forget(session, ident)

    # ------------------------------------------------------------------ used by the replica manager

    def moved(self, key: Key) -> Iterable[FetchSession]:
        """Mark a changed partition as dirty in its sessions, and return these."""
        watching = self._watching.get(key)
        if not watching:
            return ()
        for session, ident in watching.items():
            session.dirty[ident] = None
        return list(watching)

    def is_watched(self, key: Key) -> bool:
        """Return whether a session contains this partition."""
        return key in self._watching

    def _close_previous(self, replica_id: int) -> None:
        """Close the earlier session of a follower, which lost it with a restart or a broken link."""
        for session in list(self._sessions.values()):
            if session.replica_id == replica_id:
                self.close(session.id)

    # ------------------------------------------------------------------ partitions

    def _add(self, session: FetchSession, item: FetchItem) -> None:
        if isinstance(item.error, UnknownTopicOrPartition):
            # Each fetch checks the topic again: it can exist by then, and the session does not name it again.
            item = attrs.evolve(item, error=None)
        ident = session.ident_of(item)
        known = session.partitions.get(ident)
        if known is None:
            session.partitions[ident] = SessionPartition(item, session)
        else:
            # the topic was deleted or created since, so its id has another name
            if known.item.key != item.key:
                self._unwatch(session, ident, known.item.key)
            known.item = item
        session.dirty[ident] = None
        if isinstance(item.error, UnknownTopicId):
            session.unresolved[ident] = None
        else:
            session.unresolved.pop(ident, None)
            self._watching.setdefault(item.key, {})[session] = ident

    def _forget(self, session: FetchSession, ident: Ident) -> None:
        known = session.partitions.pop(ident, None)
        session.dirty.pop(ident, None)
        session.unresolved.pop(ident, None)
        if known is None:
            return
        known.session = None
        self._unwatch(session, ident, known.item.key)

    def _unwatch(self, session: FetchSession, ident: Ident, key: Key) -> None:
        watching = self._watching.get(key)
        # A recreated topic has another id under the same name: then the other one is watched.
        if watching is not None and watching.get(session) == ident:
            del watching[session]
            if not watching:
                del self._watching[key]

    def _resolve(self, session: FetchSession, ident: Ident, name_of: NameOf) -> None:
        known = session.partitions[ident]
        name = name_of(known.item.topic_id)
        if name is not None:
            session.checked_by = None
            self._add(session, attrs.evolve(known.item, topic=name, error=None))

    def check_access(
        self, session: FetchSession, rights: object, refusal_of: Callable[[str], BrokerError | None]
    ) -> None:
        """Apply rights to a session.

        Partitions that its reader cannot read any more fail from now on, others are read again.

        Costs nothing while the rights are the same object.
        """
        if session.checked_by is rights:
            return
        session.checked_by = rights
        for known in list(session.partitions.values()):
            item = known.item
            if item.error is None or isinstance(item.error, TopicAuthorizationFailed):
                error = refusal_of(item.topic)
                if (error is None) is not (item.error is None):
                    self._add(session, attrs.evolve(item, error=error))

    # ------------------------------------------------------------------ slots

    def _new_id(self) -> int:
        while True:
            session_id = self._entropy.random.randrange(1, 0x7FFFFFFF)
            if session_id not in self._sessions:
                return session_id

    def _make_room(self, is_from_follower: bool, size: int, now: float) -> bool:
        """Make room for a session of this size, evicting a less valuable one. Return whether there is room.

        Sessions of followers are more valuable than those of consumers, and larger ones more than smaller
        ones. Sessions younger than two minutes are kept, except those of consumers for followers.
        """
        if self._max_slots <= 0:
            return False
        if len(self._sessions) < self._max_slots:
            return True
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_used_at > EVICTION_AFTER:
            self._evict(oldest)
            return True
        evictable = [
            session
            for session in self._sessions.values()
            if now - session.created_at > EVICTION_AFTER
            or (is_from_follower and not session.is_from_follower)
        ]
        if not evictable:
            return False
        least = min(evictable, key=_value)
        if (is_from_follower, size) <= _value(least)[:2]:
            return False
        self._evict(least)
        return True

    def _evict(self, session: FetchSession) -> None:
        self.evictions += 1
        self.close(session.id)


def next_epoch(epoch: int) -> int:
    """Return the epoch of a session's next fetch; 0 and below have a special meaning."""
    return 1 if epoch == 0x7FFFFFFF else epoch + 1


def _value(session: FetchSession) -> tuple[bool, int, int]:
    return session.is_from_follower, len(session.partitions), session.id
