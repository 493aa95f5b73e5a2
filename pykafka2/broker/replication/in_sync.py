"""The leader's state of each follower, and whether a follower is in sync.

A follower leaves the ISR if it has not been at the leader's log end for replica.lag.time.max.ms, and joins
when it has reached the high watermark and the start of the leader's epoch (Kafka's Partition and Replica).
"""

from __future__ import annotations

import attrs

from pykafka2.broker.replication.fetch_session import SessionPartition

UNKNOWN_OFFSET = -1
NEVER = float("-inf")


@attrs.define
class FollowerState:
    """A leader's state of a follower; times are of the monotonic clock."""

    broker_id: int
    last_caught_up: float
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_at: float = NEVER
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    in_session: SessionPartition | None = None
    """Its partition in the session it fetches with, which does not name it while nothing changes."""
    broker_epoch: int = -1
    """The registration under which it fetches (KIP-903)."""

    def fetched(
        self,
        offset: int,
        log_start_offset: int,
        leader_log_end: int,
        now: float,
        in_session: SessionPartition | None = None,
    ) -> None:
        """Record a fetch at `offset`: the follower has everything before it."""
        last_fetch_at = self.last_fetch_at
        # If the partition is new in the session, earlier fetches of the session did not include it.
        if in_session is not None and in_session is self.in_session and in_session.session is not None:
            last_fetch_at = max(last_fetch_at, in_session.session.previous_fetch_at)
        self.in_session = in_session
        if offset >= leader_log_end:
            self.last_caught_up = max(self.last_caught_up, now)
        elif offset >= self.leader_end_at_last_fetch:
            # It has read everything up to the leader's log end at its last fetch, so it was caught up then.
            self.last_caught_up = max(self.last_caught_up, last_fetch_at)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_last_fetch = max(self.leader_end_at_last_fetch, leader_log_end)
        self.last_fetch_at = now

    def mark_lagging(self) -> None:
        """Mark the follower as never caught up, until it fetches at the leader's log end again."""
        self.last_caught_up = NEVER
        self.in_session = None

    @property
    def caught_up_at(self) -> float:
        """The last time the follower had all of the leader's records.

        Later fetches of an idle session count.
        """
        session = None if self.in_session is None else self.in_session.session
        if session is not None and 0 <= self.leader_end_at_last_fetch <= self.log_end_offset:
            return max(self.last_caught_up, session.last_fetch_at)
        return self.last_caught_up

    def is_caught_up(self, leader_log_end: int, now: float, max_lag: float) -> bool:
        """False once it has lagged for longer than `max_lag` seconds."""
        return self.log_end_offset == leader_log_end or now - self.caught_up_at <= max_lag

    def may_join(self, high_watermark: int, leader_epoch_start: int) -> bool:
        return self.log_end_offset >= high_watermark and self.log_end_offset >= leader_epoch_start
