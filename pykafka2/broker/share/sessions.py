"""Share sessions: the partitions that one member of a share group fetches from one broker (KIP-932).

A fetch with epoch 0 opens a session; later ones name only changes. Epoch -1 closes it, and the member's
records are released; so does the end of the connection that opened it. Like Kafka's ShareSessionCache.
Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from pykafka2.broker.server.request_context import Origin
from pykafka2.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1

MemberKey = tuple[str, str]
"""Group id and member id."""

Place = tuple[bytes, int]
"""Topic id and partition."""


def next_epoch(epoch: int) -> int:
    """Return the epoch of a session's next request; 0 and below have a special meaning."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


@attrs.define(eq=False)
class ShareSession:
    """One member's session. A value of `partitions` is whether the next response must have the partition."""

    key: MemberKey
    origin: Origin
    partitions: dict[Place, bool]
    epoch: int = 1

    def update(self, added: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Add and remove partitions."""
        for place in added:
            self.partitions.setdefault(place, True)
        for place in forgotten:
            self.partitions.pop(place, None)

    def must_report(self, place: Place, *, has_records: bool, has_failed: bool) -> bool:
        """Return whether a response has this partition, and note that it was reported.

        A partition with records moves behind the others.
        """
        is_due = self.partitions.get(place)
        if is_due is None:
            return has_records or has_failed  # forgotten while the fetch waited
        if has_records:
            del self.partitions[place]
        self.partitions[place] = has_failed
        return is_due or has_records or has_failed


class ShareSessions:
    """The share sessions of one broker; at most `limit` (group.share.max.share.sessions)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_key: dict[MemberKey, ShareSession] = {}
        self._groups: dict[Origin, dict[str, None]] = {}  # whose sessions a connection has opened

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: MemberKey) -> ShareSession | None:
        return self._by_key.get(key)

    def find(self, key: MemberKey) -> ShareSession:
        """Return a session. Raise `ShareSessionNotFound`."""
        session = self._by_key.get(key)
        if session is None:
            raise ShareSessionNotFound(f"member {key[1]} of {key[0]} has no share session")
        return session

    def members_of(self, group_id: str) -> list[str]:
        """Return the ids of a group's members that have a session."""
        return [key[1] for key in self._by_key if key[0] == group_id]

    def for_fetch(
        self,
        key: MemberKey,
        epoch: int,
        origin: Origin,
        added: Iterable[Place],
        forgotten: Iterable[Place],
        *,
        acknowledges: bool,
    ) -> ShareSession | None:
        """Open, continue or end the session of a fetch; None if it ends.

        Raise `ShareSessionNotFound`, `InvalidShareSessionEpoch`, `ShareSessionLimitReached`, or
        `InvalidRequest` if the first fetch has acknowledgements.
        """
        if epoch == FINAL_EPOCH:
            self.find(key)
            return None
        if epoch == INITIAL_EPOCH:
            if acknowledges:
                raise InvalidRequest("the first request of a share session has acknowledgements")
            return self._open(key, origin, added)
        session = self._advance(key, epoch)
        session.update(added, forgotten)
        return session

    def _open(self, key: MemberKey, origin: Origin, partitions: Iterable[Place]) -> ShareSession:
        self.remove(key)
        if len(self._by_key) >= self._limit:
            raise ShareSessionLimitReached(f"the broker has {self._limit} share sessions already")
        session = ShareSession(key, origin, dict.fromkeys(partitions, False))
        self._by_key[key] = session
        self._groups.setdefault(origin, {})[key[0]] = None
        return session

    def for_acknowledge(self, key: MemberKey, epoch: int) -> None:
        """Continue the session of a ShareAcknowledge. Raise as `for_fetch`."""
        if epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpoch("acknowledgements cannot open a share session")
        if epoch == FINAL_EPOCH:
            self.find(key)
        else:
            self._advance(key, epoch)

    def _advance(self, key: MemberKey, epoch: int) -> ShareSession:
        session = self.find(key)
        if session.epoch != epoch:
            raise InvalidShareSessionEpoch(f"the share session has epoch {session.epoch}, not {epoch}")
        session.epoch = next_epoch(epoch)
        return session

    def remove(self, key: MemberKey) -> ShareSession | None:
        """End a session. Return it if there was one."""
        return self._by_key.pop(key, None)

    def clear(self) -> None:
        """End all sessions."""
        self._by_key.clear()

    def opened_by(self, origin: Origin) -> list[ShareSession]:
        """Return the sessions that a connection has opened."""
        return [session for session in self._by_key.values() if session.origin is origin]

    def disconnected(self, origin: Origin) -> Iterable[str]:
        """Handle the end of a connection. Return the groups of the sessions that it has opened."""
        return self._groups.pop(origin, {})
