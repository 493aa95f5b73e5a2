"""The share sessions of one consumer: when it requests records, and of which brokers.

Owned by the driver's thread, which polls it. Records are requested while the application waits for some,
because their locks run from the moment when a broker has sent them. While a quick application (core.py)
handles some, the next ones are requested ahead, once; that request does not wait for records to come, so that
it delays no acknowledgement.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.clock import FOREVER
from pykafka2.driver.pollable import PollResult
from pykafka2.share.lock import Place
from pykafka2.share.node_session import INITIAL_EPOCH, NodeSession, SessionContext

EXPIRE_EVERY = 1.0


class ShareSessions:
    """The share sessions of one consumer (a `Pollable`)."""

    def __init__(self, context: SessionContext) -> None:
        self.context = context
        self.nodes: dict[int, NodeSession] = {}
        self._cluster = context.cluster
        self._unknown_ids: frozenset[bytes] = frozenset()
        self._expire_at = -FOREVER

    # ------------------------------------------------------------------ any thread

    def want_records(self, limit: int) -> bool:
        """Request at most so many records of each leader, until the first ones arrive.

        Return False if that is so already.
        """
        context = self.context
        context.wanted_records = min(limit, context.options.max_poll_records)
        if context.wants_records:
            return False
        context.wants_records = True
        self._cluster.driver.wake()
        return True

    def want_ahead(self) -> None:
        """Request records once of all leaders that no request for records is under way to."""
        for session in [*self.nodes.values()]:
            session.is_ahead = session.epoch != INITIAL_EPOCH and session.in_flight != "fetch"
        self._cluster.driver.wake()

    def close(self, done: Callable[[], object]) -> None:
        """Send what is due, end all sessions, and call `done` on the driver's thread."""

        def begin(now: float) -> None:
            self.context.on_closed = done

        self._cluster.driver.call_soon(begin)

    # ------------------------------------------------------------------ the driver's turn

    def poll(self, now: float) -> PollResult:
        result = PollResult.idle()
        for topic in self.context.membership.topics:
            self._cluster.metadata.want_topic(topic, now)
        for session in self.nodes.values():
            session.check_connection(now)
        if self.context.on_closed is not None:
            self._poll_close(result, now)
            return result
        if now >= self._expire_at:
            self.context.locks.expire(now)
            self._expire_at = now + EXPIRE_EVERY
        wanted = self._wanted_by_leader()
        for node_id in {**wanted, **dict.fromkeys(self.nodes)}:
            if node_id not in self.nodes:
                self.nodes[node_id] = NodeSession(node_id, self.context)
            send = self.nodes[node_id].next_send(wanted.get(node_id, set()), result, now)
            if send is not None:
                result.sends.append(send)
        return result

    def _wanted_by_leader(self) -> dict[int, set[Place]]:
        """Return the assigned partitions by leader; request metadata for those without a known one."""
        by_leader: dict[int, set[Place]] = {}
        unknown: set[bytes] = set()
        for place in sorted(self.context.membership.assigned):
            topic = self._cluster.metadata.topic_name(place[0])
            info = None if topic is None else self._cluster.metadata.partition(topic, place[1])
            if info is None or info.leader < 0:
                unknown.add(place[0])
            else:
                by_leader.setdefault(info.leader, set()).add(place)
        if unknown and (unknown != self._unknown_ids or not self._cluster.metadata.version):
            self._cluster.metadata.request_update()
        self._unknown_ids = frozenset(unknown)
        return by_leader

    def _poll_close(self, result: PollResult, now: float) -> None:
        sends = [session.next_close(now) for session in self.nodes.values()]
        result.sends += [send for send in sends if send is not None]
        done = self.context.on_closed
        if done is not None and all(session.is_closed for session in self.nodes.values()):
            self.context.on_closed = None
            self.nodes.clear()
            done()
