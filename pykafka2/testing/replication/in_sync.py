"""Which followers are in sync: what the leader remembers of each, and the two questions it asks (rule 65).

A follower leaves the ISR when it has not been at the leader's log end for replica.lag.time.max.ms, and
joins when it has reached the high watermark and the start of the leader's epoch (Kafka's Partition and
Replica).
"""

from __future__ import annotations

import attrs

UNKNOWN_OFFSET = -1


@attrs.define
class FollowerState:
    """A follower in its leader's eyes; times are those of the monotonic clock."""

    broker_id: int
    last_caught_up: float
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_at: float = 0.0
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET

    def fetched(self, offset: int, log_start_offset: int, leader_log_end: int, now: float) -> None:
        """It asked for `offset`: so it has everything before."""
        if offset >= leader_log_end:
            self.last_caught_up = max(self.last_caught_up, now)
        elif offset >= self.leader_end_at_last_fetch and self.last_fetch_at:
            # It has read all that there was when it asked the last time, so it was caught up then.
            self.last_caught_up = max(self.last_caught_up, self.last_fetch_at)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_last_fetch = leader_log_end
        self.last_fetch_at = now

    def is_caught_up(self, leader_log_end: int, now: float, max_lag: float) -> bool:
        """False once it has lagged for longer than `max_lag` seconds."""
        return self.log_end_offset == leader_log_end or now - self.last_caught_up <= max_lag

    def may_join(self, high_watermark: int, leader_epoch_start: int) -> bool:
        return self.log_end_offset >= high_watermark and self.log_end_offset >= leader_epoch_start
