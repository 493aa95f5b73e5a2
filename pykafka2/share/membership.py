"""A share consumer's membership: heartbeats that join, receive assignments, and leave (KIP-932).

Owned by the driver's thread, which polls it. The caller's thread sends commands and reads the plain
attributes, each of which is replaced by one assignment. Members own nothing exclusively, so an assignment
takes effect at once.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.driver.pollable import GROUP, PollResult, Send, ToCoordinator
from pykafka2.errors import (
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    KafkaError,
    RequestTimeout,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnsupportedVersion,
    error_of,
)
from pykafka2.logs import ClientLogger
from pykafka2.protocol.messages.share_group import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from pykafka2.share.lock import Place
from pykafka2.share.options import ShareConsumerOptions

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
FIRST_INTERVAL = 5.0
SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.1, 60.0
SHORTEST_WAIT = 1.0
LEAVE_ATTEMPTS = 3
HOUR = 3600.0
_EXPELLING = (UnknownMemberId, FencedMemberEpoch, GroupIdNotFound)

Done = Callable[[KafkaError | None], None]


class MemberState(Enum):
    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    STABLE = "stable"
    LEAVING = "leaving"


class ShareMembership:
    """One consumer's membership of a share group (a `Pollable`)."""

    def __init__(self, options: ShareConsumerOptions, cluster: ClusterClient) -> None:
        self._options = options
        self._cluster = cluster
        self._to = ToCoordinator(GROUP, options.group_id)
        self._log = ClientLogger(__name__, options.client_id)
        self._monotonic = cluster.driver.clock.monotonic
        random = cluster.driver.entropy.random
        self.member_id = urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
        self.state = MemberState.UNSUBSCRIBED
        self.assigned: frozenset[Place] = frozenset()
        """The assigned partitions, by topic id."""
        self.assignments = 0
        """Counts assignments; a member without partitions has one, too."""
        self.failure: KafkaError | None = None
        """The error that the next poll() raises."""
        self.last_error: KafkaError | None = None
        self.epoch = JOIN_EPOCH
        self.topics: frozenset[str] = frozenset()
        self._sent_topics: frozenset[str] | None = None
        self._backoff = Backoff(options.retry_backoff, options.retry_backoff_max, random)
        self._interval = FIRST_INTERVAL
        self._next_at = FOREVER
        self._retry_at = -FOREVER
        """The earliest time of the next join after an error that ended the membership."""
        self._sent_at: float | None = None
        self._is_in_flight = False
        self._membership = 0
        self._leave: Done | None = None
        self._leave_attempts = 0
        self.is_polling = False
        self.polled_at = self._monotonic()
        """When poll() last began or ended; max_poll_interval_ms counts from here."""
        self._changed_at: deque[float] = deque(maxlen=1000)
        self._rebalances = 0
        metrics = cluster.metrics
        self._times = metrics.series("heartbeat-response-time")
        metrics.gauge("last-heartbeat-seconds-ago", self._heartbeat_age)
        metrics.counter("rebalance-total", lambda: self._rebalances)
        metrics.gauge("rebalance-rate-per-hour", self._rebalances_in_last_hour)

    @property
    def coordinator(self) -> int | None:
        """The coordinator's node id; None if it is unknown."""
        return self._cluster.coordinators.node_of(self._to)

    @property
    def coordinator_error(self) -> KafkaError | None:
        """Why the last FindCoordinator request failed."""
        return self._cluster.coordinators.why_unknown(self._to)

    # ------------------------------------------------------------------ the caller's thread

    def subscribe(self, topics: frozenset[str]) -> None:
        """Join the group, or send it a changed subscription; without topics, leave it."""
        self.topics = topics
        self._cluster.driver.call_soon(self._subscribed)

    def on_poll(self) -> None:
        """Note a poll(); rejoin a group that was left because there was none for too long."""
        self.polled_at = self._monotonic()
        if self.topics and self.state is MemberState.UNSUBSCRIBED and self.failure is None:
            self._cluster.driver.call_soon(self._subscribed)

    def leave(self, done: Done) -> None:
        """Leave the group for good; `done(error)` is called on the driver's thread."""
        self.topics = frozenset()
        self._cluster.driver.call_soon(partial(self._begin_leave, done))

    # ------------------------------------------------------------------ the driver's turn

    def poll(self, now: float) -> PollResult:
        if self.state in (MemberState.JOINING, MemberState.STABLE):
            overrun_at = FOREVER if self.is_polling else self.polled_at + self._options.max_poll_interval
            if now >= overrun_at:
                self._log.warning(
                    "leaving share group %r: poll() was not called for max_poll_interval_ms (%.0f ms)",
                    self._to.key,
                    self._options.max_poll_interval * 1000,
                )
                self._begin_leave(lambda error: None, now)
        else:
            overrun_at = FOREVER
        if self._is_in_flight or now < self._next_at:
            return PollResult.idle_until(overrun_at if self._is_in_flight else min(self._next_at, overrun_at))
        return PollResult([self._heartbeat(now)], overrun_at)

    def _heartbeat(self, now: float) -> Send[ShareGroupHeartbeatResponse]:
        is_leaving = self.state is MemberState.LEAVING
        is_first = self.epoch == JOIN_EPOCH
        request = ShareGroupHeartbeatRequest(
            group_id=self._to.key,
            member_id=self.member_id,
            member_epoch=LEAVE_EPOCH if is_leaving else self.epoch,
        )
        topics = self.topics
        if is_first:
            request.rack_id = self._options.client_rack or None
        if not is_leaving and (is_first or topics != self._sent_topics):
            request.subscribed_topic_names = sorted(topics)
        self._sent_topics = topics
        self._is_in_flight, self._sent_at = True, now
        number = self._membership
        longest = self._options.request_timeout
        send: Send[ShareGroupHeartbeatResponse] = Send(
            request,
            self._to,
            lambda response, then: self._on_response(number, send, response, then),
            lambda error, then: self._on_failure(number, send, error, then),
            timeout=min(longest, max(self._interval * 2, SHORTEST_WAIT)),
        )
        return send

    # ------------------------------------------------------------------ commands

    def _subscribed(self, now: float) -> None:
        if self.state is MemberState.LEAVING:
            return
        if not self.topics:
            if self.state is not MemberState.UNSUBSCRIBED:
                self._begin_leave(lambda error: None, now)
            return
        if self.state is MemberState.UNSUBSCRIBED:
            self._rejoin()
        self.failure = None
        if not self._backoff.attempts:
            self._next_at = now
        elif self._next_at == FOREVER:
            self._next_at = max(now, self._retry_at)

    def _rejoin(self) -> None:
        self.state, self.epoch, self._sent_topics = MemberState.JOINING, JOIN_EPOCH, None
        self._membership += 1
        self._is_in_flight = False

    def _begin_leave(self, done: Done, now: float) -> None:
        self._assign(frozenset())
        if self.state is MemberState.UNSUBSCRIBED:
            done(None)
            return
        if self.state is MemberState.LEAVING:
            self._leave = partial(_call_both, self._leave, done)
            return
        self.state, self._leave, self._leave_attempts = MemberState.LEAVING, done, LEAVE_ATTEMPTS
        self._membership += 1
        self._is_in_flight, self._next_at = False, now
        self._backoff.reset()

    def _end_leave(self, error: KafkaError | None, now: float) -> None:
        done, self._leave = self._leave, None
        self.state, self.epoch, self._next_at = MemberState.UNSUBSCRIBED, JOIN_EPOCH, FOREVER
        if done is not None:
            done(error)
        if self.topics and (self.is_polling or self.polled_at > now - self._options.max_poll_interval):
            self._subscribed(now)  # subscribed again meanwhile

    # ------------------------------------------------------------------ responses

    def _on_response(
        self,
        number: int,
        send: Send[ShareGroupHeartbeatResponse],
        response: ShareGroupHeartbeatResponse,
        now: float,
    ) -> None:
        if number != self._membership:
            return
        if response.error_code:
            self._on_failure(number, send, error_of(response.error_code, response.error_message), now)
            return
        self._is_in_flight = False
        self._backoff.reset()
        if send.sent_at is not None:
            self._times.add(((now - send.sent_at) * 1000,))
        self.last_error = None
        if self.state is MemberState.LEAVING:
            self._end_leave(None, now)
            return
        self._interval = min(max(response.heartbeat_interval_ms / 1000, SHORTEST_INTERVAL), LONGEST_INTERVAL)
        self._next_at = now if self.topics != self._sent_topics else now + self._interval
        self.epoch = response.member_epoch
        if response.assignment is not None or self.state is MemberState.JOINING:
            topics = response.assignment.topic_partitions if response.assignment is not None else []
            self._assign(
                frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)
            )
        self.state = MemberState.STABLE

    def _on_failure(
        self, number: int, send: Send[ShareGroupHeartbeatResponse], error: KafkaError, now: float
    ) -> None:
        if number != self._membership:
            return
        self._is_in_flight = False
        self._sent_topics = None
        self.last_error = error
        self._next_at = now + self._backoff.next()
        if error.refresh_coordinator or isinstance(error, RequestTimeout):
            self._cluster.coordinators.forget_answerer(send)
        if self.state is MemberState.LEAVING:
            self._leave_attempts -= 1
            if isinstance(error, _EXPELLING) or not error.retriable or not self._leave_attempts:
                self._end_leave(None if isinstance(error, _EXPELLING) else error, now)
        elif isinstance(error, _EXPELLING) and self.epoch != JOIN_EPOCH:
            self._log.warning("the coordinator removed this member from %r: %s", self._to.key, error)
            self._assign(frozenset())
            self._rejoin()
            self._next_at = now
        elif not error.retriable:
            self.failure = explained(error, self._to.key, self.topics)
            self._log.error("share group %r: %s", self._to.key, self.failure)
            self._assign(frozenset())
            self._retry_at = self._next_at
            self.state, self.epoch, self._next_at = MemberState.UNSUBSCRIBED, JOIN_EPOCH, FOREVER

    def _assign(self, assigned: frozenset[Place]) -> None:
        self.assignments += 1
        if assigned != self.assigned:
            self.assigned = assigned
            self._rebalances += 1
            self._changed_at.append(self._monotonic())

    def _heartbeat_age(self) -> float:
        return -1.0 if self._sent_at is None else self._monotonic() - self._sent_at

    def _rebalances_in_last_hour(self) -> int:
        since = self._monotonic() - HOUR
        return sum(at > since for at in self._changed_at.copy())


def _call_both(first: Done | None, second: Done, error: KafkaError | None) -> None:
    if first is not None:
        first(error)
    second(error)


def explained(error: KafkaError, group_id: str, topics: Iterable[str]) -> KafkaError:
    """Return the error with a message that says what to do, or the error itself."""
    if isinstance(error, GroupAuthorizationFailed):
        # Heartbeats, fetches and acknowledgements all need READ; the message of the broker does not say so.
        return GroupAuthorizationFailed(
            f"not authorized to use group {group_id!r}; ask for an ACL that allows READ on it"
        )
    if isinstance(error, TopicAuthorizationFailed):
        # The response to a heartbeat does not name the topic.
        return TopicAuthorizationFailed(
            f"not authorized to use at least one of the subscribed topics {', '.join(sorted(topics))}; ask "
            "for an ACL that allows READ on each"
        )
    if isinstance(error, UnsupportedVersion):
        return UnsupportedVersion(
            f"the brokers do not serve share groups, which need Apache Kafka 4.2 or later with the feature "
            f"share.version: {error}"
        )
    return error
