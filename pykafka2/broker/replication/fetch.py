"""A fetch of several partitions: what is read, its results, and fetch sessions (KIP-227).

A session also tracks the partitions that may have something to report (`dirty`): those that moved, and those
just added. A fetch reads only these, so a follower of a thousand idle partitions costs as little as one of
none. Slots and eviction are those of Kafka's FetchSessionCache. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs

from pykafka2.broker.base.image import Key
from pykafka2.broker.log.leader_epochs import EpochEnd
from pykafka2.broker.log.transaction_index import AbortedTransaction
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
from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.gathered_part import GatheredPart
from pykafka2.records.batch import Buffer

NO_TOPIC_ID = bytes(16)


@attrs.define
class FetchInfo:
    """One partition of a fetch. `topic` is the hexadecimal id if the name is unknown.

    Treated as immutable; not frozen, because that would double the cost of creating one.
    """

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    error: BrokerError | None = None

    @property
    def key(self) -> Key:
        return self.topic, self.partition


@attrs.define
class FetchPartitionData:
    """The result of one partition. `has_more`: limits held back further records."""

    info: FetchInfo
    error: BrokerError | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Buffer | FilePart | GatheredPart = b""
    diverging: EpochEnd | None = None
    preferred_read_replica: int = -1
    has_more: bool = False
    aborted: list[AbortedTransaction] | None = None
    """For read_committed readers: aborted transactions with data in the records."""


Ident = tuple[bytes | str, int]
"""Topic id (since version 13) or name, and partition: the key of a partition in a session."""


@attrs.define(eq=False)
class CachedPartition:
    """One partition of a session: its last request and its last response."""

    info: FetchInfo
    session: FetchSession | None
    """None once the session has removed the partition."""
    high_watermark: int = -1
    log_start_offset: int = -1

    def has_news(self, result: FetchPartitionData) -> bool:
        """Return whether the response of a partition must be sent at all."""
        return (
            bool(len(result.records))
            or result.error is not None
            or result.diverging is not None
            or result.preferred_read_replica >= 0
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
        )

    def record_response(self, result: FetchPartitionData) -> bool:
        """Record the response of a partition. Return whether it must be sent."""
        has_news = self.has_news(result)
        # After an error the next response is always sent, because the error is over.
        self.high_watermark = -1 if result.error is not None else result.high_watermark
        self.log_start_offset = result.log_start_offset
        return has_news


@attrs.define(eq=False)
class FetchSession:
    """The partitions that one reader fetches from one broker. Times in seconds of the monotonic clock."""

    id: int
    uses_topic_ids: bool
    replica_id: int
    """The follower that uses it, negative for a consumer."""
    created_at: float
    last_used_at: float
    epoch: int = 1
    """The epoch that the next fetch must carry."""
    partitions: dict[Ident, CachedPartition] = attrs.field(factory=dict)
    dirty: dict[Ident, None] = attrs.field(factory=dict)
    unresolved: dict[Ident, None] = attrs.field(factory=dict)
    """Partitions whose topic id is unknown so far."""
    checked_by: object = None
    """The rights that its partitions were last checked with; they are checked again when the object
    changes.
    """
    last_fetch_at: float = float("-inf")
    previous_fetch_at: float = float("-inf")

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0

    def ident_of(self, info: FetchInfo) -> Ident:
        return (info.topic_id if self.uses_topic_ids else info.topic), info.partition

    def partition_of(self, info: FetchInfo) -> CachedPartition | None:
        return self.partitions.get(self.ident_of(info))

    def current_partitions(self) -> list[FetchInfo]:
        """Return the partitions that a fetch must read, in round-robin order."""
        return [self.partitions[ident].info for ident in self.dirty]

    def fetched(self, now: float) -> None:
        """Record a fetch of this session."""
        self.previous_fetch_at, self.last_fetch_at = self.last_fetch_at, now

    def changed(self, results: Iterable[FetchPartitionData]) -> list[FetchPartitionData]:
        """Return the results that a response would contain now; the session stays as it is."""
        return [
            result
            for result in results
            if (known := self.partition_of(result.info)) is not None and known.has_news(result)
        ]

    def record_responses(self, results: Iterable[FetchPartitionData]) -> list[FetchPartitionData]:
        """Return the results that the response must contain, and record them as sent.

        The other partitions are clean until they move.
        """
        to_send: list[FetchPartitionData] = []
        for result in results:
            ident = self.ident_of(result.info)
            known = self.partitions.get(ident)
            if known is None:
                continue
            if known.record_response(result):
                to_send.append(result)
            if len(result.records):
                # A partition that returned records goes to the end of the round.
                self.dirty.pop(ident, None)
                self.dirty[ident] = None
            elif not (
                result.has_more
                or result.error is not None
                or result.diverging is not None
                or result.preferred_read_replica >= 0
            ):
                self.dirty.pop(ident, None)
        return to_send


CONSUMER = -1
FUTURE_REPLICA = -3
"""A log that moves to another directory of its broker: any replica serves it up to the log's end."""


@attrs.define
class FetchParams:
    """A whole fetch. `replica_id` is negative for consumers; `may_follow`: a follower can serve it (KIP-392).

    `replica_epoch` is the follower's broker epoch: fetches from before a restart are stale. `rack_id` is the
    consumer's, None if it cannot be sent to another replica. With a `session` the partitions are the dirty
    ones of the session, and `infos` is empty.
    """

    replica_id: int
    infos: list[FetchInfo]
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    may_follow: bool = False
    replica_epoch: int = -1
    rack_id: str | None = None
    session: FetchSession | None = None
    first_segments: dict[Key, int] = attrs.field(factory=dict)
    """The base offsets of the active segments when the fetch began to wait."""
    has_waited: bool = False
    """Whether it was in the purgatory."""
    _by_key: dict[Key, list[FetchInfo]] | None = None

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0

    def current_partitions(self) -> list[FetchInfo]:
        """Return the partitions to read now."""
        return self.infos if self.session is None else self.session.current_partitions()

    def infos_of(self, key: Key) -> list[FetchInfo]:
        if len(self.infos) == 1:
            return self.infos if self.infos[0].key == key else []
        by_key = self._by_key
        if by_key is None:
            by_key = self._by_key = {}
            for info in self.infos:
                by_key.setdefault(info.key, []).append(info)
        return by_key.get(key, [])


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
FIRST_VERSION_WITH_SESSIONS: Final = 7

NameOf = Callable[[bytes], str | None]


def is_session_error(code: int, version: int) -> bool:
    """Return whether an error is one of the session, which responses before sessions cannot have."""
    return version >= FIRST_VERSION_WITH_SESSIONS and code in SESSION_ERROR_CODES


class FetchSessionCache:
    """The sessions of one broker, at most `max_slots` (max.incremental.fetch.session.cache.slots)."""

    def __init__(self, max_slots: int, entropy: Entropy) -> None:
        self._max_slots = max_slots
        self._entropy = entropy
        self.by_id: dict[int, FetchSession] = {}
        """The least recently used first."""
        self._watching: dict[Key, dict[FetchSession, Ident]] = {}
        self.evictions = 0

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(list(self.by_id.values()))

    def get(self, session_id: int) -> FetchSession | None:
        return self.by_id.get(session_id)

    # ------------------------------------------------------------------ used by the Fetch handler

    def create(
        self, results: Iterable[FetchPartitionData], *, uses_topic_ids: bool, replica_id: int, now: float
    ) -> FetchSession | None:
        """Create a session for the partitions of a full fetch. Return None if there is no room for it."""
        fetched = list(results)
        is_from_follower = replica_id >= 0
        if is_from_follower:
            self._close_previous(replica_id)
        if not self._make_room(is_from_follower, len(fetched), now):
            return None
        session = FetchSession(self._new_id(), uses_topic_ids, replica_id, now, now)
        self.by_id[session.id] = session
        for result in fetched:
            self._add(session, result.info)
        session.fetched(now)
        session.record_responses(fetched)
        return session

    def incremental(
        self,
        session_id: int,
        epoch: int,
        *,
        uses_topic_ids: bool,
        infos: Iterable[FetchInfo],
        forgotten: Iterable[Ident],
        name_of: NameOf,
        now: float,
    ) -> FetchSession:
        """Apply a fetch's changes to its session. Raise the error for the whole request.

        A session without partitions is closed and returned empty.
        """
        session = self.by_id.get(session_id)
        if session is None:
            raise FetchSessionIdNotFound
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch
        if session.uses_topic_ids is not uses_topic_ids:
            raise FetchSessionTopicIdError
        for info in infos:
            self._add(session, info)
        for ident in forgotten:
            self._forget(session, ident)
        if not session.partitions:
            self.close(session_id)
            return session
        for ident in list(session.unresolved):
            self._resolve(session, ident, name_of)
        self.by_id.pop(session_id)
        self.by_id[session_id] = session  # the most recently used now
        session.last_used_at = now
        session.epoch = next_epoch(epoch)
        session.fetched(now)
        return session

    def close(self, session_id: int) -> None:
        session = self.by_id.pop(session_id, None)
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
        for session in list(self.by_id.values()):
            if session.replica_id == replica_id:
                self.close(session.id)

    # ------------------------------------------------------------------ partitions

    def _add(self, session: FetchSession, info: FetchInfo) -> None:
        if isinstance(info.error, UnknownTopicOrPartition):
            # Each fetch checks the topic again: it can exist by then, and the session does not name it again.
            info = attrs.evolve(info, error=None)
        ident, key = session.ident_of(info), info.key
        known = session.partitions.get(ident)
        if known is None:
            session.partitions[ident] = CachedPartition(info, session)
        else:
            # the topic was deleted or created since, so its id has another name
            before = known.info.key
            if before != key:
                self._unwatch(session, ident, before)
            known.info = info
        session.dirty[ident] = None
        if isinstance(info.error, UnknownTopicId):
            session.unresolved[ident] = None
        else:
            session.unresolved.pop(ident, None)
            self._watching.setdefault(key, {})[session] = ident

    def _forget(self, session: FetchSession, ident: Ident) -> None:
        known = session.partitions.pop(ident, None)
        session.dirty.pop(ident, None)
        session.unresolved.pop(ident, None)
        if known is None:
            return
        known.session = None
        self._unwatch(session, ident, known.info.key)

    def _unwatch(self, session: FetchSession, ident: Ident, key: Key) -> None:
        watching = self._watching.get(key)
        # A recreated topic has another id under the same name: then the other one is watched.
        if watching is not None and watching.get(session) == ident:
            del watching[session]
            if not watching:
                del self._watching[key]

    def _resolve(self, session: FetchSession, ident: Ident, name_of: NameOf) -> None:
        known = session.partitions[ident]
        name = name_of(known.info.topic_id)
        if name is not None:
            session.checked_by = None
            self._add(session, attrs.evolve(known.info, topic=name, error=None))

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
            info = known.info
            if info.error is None or isinstance(info.error, TopicAuthorizationFailed):
                error = refusal_of(info.topic)
                if (error is None) is not (info.error is None):
                    self._add(session, attrs.evolve(info, error=error))

    # ------------------------------------------------------------------ slots

    def _new_id(self) -> int:
        while True:
            session_id = self._entropy.random.randrange(1, 0x7FFFFFFF)
            if session_id not in self.by_id:
                return session_id

    def _make_room(self, is_from_follower: bool, size: int, now: float) -> bool:
        """Make room for a session of this size, evicting a less valuable one. Return whether there is room.

        Sessions of followers are more valuable than those of consumers, and larger ones more than smaller
        ones. Sessions younger than two minutes are kept, except those of consumers for followers.
        """
        if self._max_slots <= 0:
            return False
        if len(self.by_id) < self._max_slots:
            return True
        oldest = next(iter(self.by_id.values()))
        if now - oldest.last_used_at > EVICTION_AFTER:
            self._evict(oldest)
            return True
        evictable = [
            session
            for session in self.by_id.values()
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
