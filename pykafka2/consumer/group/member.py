"""A member of a group: its state, and the timing of its heartbeats. Shared by both group protocols.

Owned by the driver's thread, so heartbeats are sent however long the application computes. Durations are
seconds, times are those of the driver's monotonic clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Generic, TypeVar

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.group_identity import GroupStatus
from pykafka2.consumer.state.poll_interval import PollClock
from pykafka2.driver.pollable import GROUP, ToCoordinator
from pykafka2.errors import CommitFailed, IllegalTransition, KafkaError
from pykafka2.events import StateMoved
from pykafka2.logs import ClientLogger
from pykafka2.metrics import Metrics
from pykafka2.slotted import slotted

NEVER = -FOREVER
HOUR = 3600.0
MOST_KEPT = 1000
"""Times of rebalances that are kept."""
StateT = TypeVar("StateT", bound=Enum)
EventT = TypeVar("EventT", bound=Enum)


@slotted(eq=False)
class Heartbeat:
    """The heartbeats of one member, one at a time."""

    interval: float
    session_timeout: float
    backoff: Backoff
    sent_at: float = NEVER
    answered_at: float = NEVER
    """When the coordinator last responded to this member."""
    is_in_flight: bool = False
    is_warned: bool = False
    _next_at: float = FOREVER
    _is_hurried: bool = False

    @property
    def timeout(self) -> float:
        """Seconds to wait for a response; half of the session remains for a retry."""
        return self.session_timeout / 2

    def begin(self, now: float) -> None:
        """Start when the coordinator has accepted the member."""
        self.answered_at = now
        self.is_in_flight = self.is_warned = False
        self.backoff.reset()
        self._next_at = now + self.interval

    def end(self) -> None:
        """Send no more heartbeats until `begin`."""
        self._next_at = FOREVER
        self.is_in_flight = self._is_hurried = False

    def hurry(self) -> None:
        """Send the next heartbeat as soon as the response to the last one is here and a backoff is over."""
        self._is_hurried = True
        if not self.is_in_flight and not self.backoff.attempts:
            self._next_at = NEVER

    def delay(self, until: float) -> None:
        """Do not send the next heartbeat before `until`."""
        self._is_hurried = False
        self._next_at = until

    def is_due(self, now: float) -> bool:
        return not self.is_in_flight and now >= self._next_at

    def wake_at(self) -> float:
        return FOREVER if self.is_in_flight else self._next_at

    def on_sent(self, now: float) -> None:
        self.is_in_flight = True
        self._is_hurried = False
        self.sent_at = now

    def on_answer(self, now: float) -> None:
        """Handle a response from a coordinator that knows the member, even with an error."""
        self.is_in_flight = self.is_warned = False
        self.answered_at = now
        self.backoff.reset()
        self._next_at = NEVER if self._is_hurried else self.sent_at + self.interval

    def on_failure(self, now: float) -> None:
        """Handle a missing response, or one from a broker that is not the coordinator: retry soon."""
        self.is_in_flight = False
        self._next_at = now + self.backoff.next()

    def is_session_over(self, now: float) -> bool:
        """Return whether the session has timed out, unless the coordinator is new."""
        return now > self.answered_at + self.session_timeout


class Rebalances:
    """Measures the rebalances of one member, one at a time."""

    def __init__(self, metrics: Metrics, monotonic: Callable[[], float]) -> None:
        self._metrics = metrics
        self._monotonic = monotonic
        self._latencies = metrics.series("rebalance-latency")
        self._began_at: float | None = None
        self._ended_at: float | None = None
        self._completed: deque[float] = deque(maxlen=MOST_KEPT)
        self._failed: deque[float] = deque(maxlen=MOST_KEPT)
        metrics.gauge("last-rebalance-seconds-ago", self._age)
        metrics.gauge("rebalance-rate-per-hour", lambda: self._in_last_hour(self._completed))
        metrics.gauge("failed-rebalance-rate-per-hour", lambda: self._in_last_hour(self._failed))

    def begin(self) -> None:
        """Note the start of a rebalance, unless one is under way."""
        if self._began_at is None:
            self._began_at = self._monotonic()

    def succeed(self) -> None:
        if self._began_at is not None:
            self._ended_at = now = self._monotonic()
            self._latencies.add(((now - self._began_at) * 1000,))
            self._completed.append(now)
            self._began_at = None

    def fail(self) -> None:
        """Count an attempt that failed; the next one continues the rebalance."""
        if self._began_at is not None:
            self._metrics.add("failed-rebalance-total")
            self._failed.append(self._monotonic())

    def end(self) -> None:
        """Forget a rebalance that the end of the membership has ended."""
        self._began_at = None

    def _in_last_hour(self, times: deque[float]) -> int:
        since = self._monotonic() - HOUR
        return sum(at > since for at in times.copy())

    def _age(self) -> float:
        return -1.0 if self._ended_at is None else self._monotonic() - self._ended_at


class Member(Generic[StateT, EventT]):
    """The state of one member, which moves by the state table of its group protocol.

    The caller's thread reads the plain attributes; each is replaced by one assignment.
    """

    heartbeat: Heartbeat

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        group_status: GroupStatus,
        state: StateT,
        moves: Mapping[tuple[StateT, EventT], StateT],
    ) -> None:
        driver = cluster.driver
        self.state = state
        self.state_since = driver.clock.monotonic()
        self.news = 0
        """Grows with every change that the caller's thread must handle."""
        self.losses = 0
        """Counts memberships that ended although the application did not leave: others own the partitions."""
        self.joins_handled = 0
        """The number of the caller's last `join` that was started or came too late."""
        self.because = ""
        """Why this consumer is not a member, or must rejoin."""
        self.failure: KafkaError | None = None
        """The error that the next poll() raises."""
        self.polls = PollClock(driver.clock, options.max_poll_interval, driver.clock.monotonic())
        self._moves = moves
        self._options = options
        self._cluster = cluster
        self._driver = driver
        self._to = ToCoordinator(GROUP, options.group_id or "")
        self._group_status = group_status
        self._log = ClientLogger(type(self).__module__, options.client_id)
        self._rebalances = Rebalances(cluster.metrics, driver.clock.monotonic)
        cluster.metrics.gauge("last-heartbeat-seconds-ago", self._heartbeat_age)
        self._new_backoff: Callable[[], Backoff] = partial(
            Backoff, options.retry_backoff, options.retry_backoff_max, driver.entropy.random
        )

    @property
    def coordinator(self) -> int | None:
        """The coordinator's node id; None if it is unknown."""
        return self._cluster.coordinators.node_of(self._to)

    @property
    def coordinator_error(self) -> KafkaError | None:
        """Why the last FindCoordinator request failed."""
        return self._cluster.coordinators.why_unknown(self._to)

    def _heartbeat_age(self) -> float:
        sent_at = self.heartbeat.sent_at
        return self._driver.clock.monotonic() - sent_at if sent_at > NEVER else -1.0

    def _move(self, event: EventT, because: str = "") -> None:
        """Move to the state that the table has for this event.

        Raises:
            IllegalTransition: the table has none.
        """
        state = self._moves.get((self.state, event))
        if state is None:
            raise IllegalTransition(self.state, event)
        before, self.state = self.state, state
        if before is not state:
            self.state_since = self._driver.clock.monotonic()
        self.news += 1
        if before is not state and self._driver.event_sink.is_watched:
            who = f"member of {self._options.group_id}"
            self._driver.event_sink.emit(
                StateMoved(self._driver.clock.monotonic(), who, before.value, state.value, because)
            )

    def _record_loss(self, because: str) -> None:
        """Mark the owned partitions as lost."""
        self.losses += 1
        self.because = because
        self._group_status.lost_because = because
        self._group_status.commit_error = CommitFailed(
            f"the offsets were not committed, because this consumer is not a member of the group: {because}"
        )
