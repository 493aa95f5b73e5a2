"""A consumer's membership of a KIP-848 group: heartbeats that join, receive assignments and acknowledge them.

Owned by the driver's thread, which polls it. The caller's thread (reconciliation.py) sends it commands and
reads its plain attributes, each of which is replaced by one assignment. The coordinator assigns the
partitions. Its parts: heartbeats.py (requests, also to leave), errors.py, group/member.py (timing). Commits
read its state from `GroupStatus`.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial

from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.group.kip848.assignment import Owned, SubscribedTopics, Target, read_assignment
from pykafka2.consumer.group.kip848.errors import EXPELLING, FATAL, explained
from pykafka2.consumer.group.kip848.heartbeats import (
    FIRST_VERSION_WITH_PATTERN,
    JOIN_EPOCH,
    NOTHING,
    Heartbeats,
    Leaving,
)
from pykafka2.consumer.group.kip848.states import JOINED, MEMBERS, MOVES, MemberEvent, MemberState
from pykafka2.consumer.group.member import Heartbeat, Member
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.group_identity import NOBODY, GroupIdentity, GroupStatus
from pykafka2.driver.pollable import PollResult, Send
from pykafka2.errors import (
    CorruptResponse,
    GroupIdNotFound,
    KafkaError,
    RebalanceInProgress,
    RequestTimeout,
    UnreleasedInstanceId,
    error_of,
)
from pykafka2.protocol.messages.consumer_group import ConsumerGroupHeartbeatResponse

# The heartbeat interval before the coordinator's first response, and the bounds of the intervals it can set.
FIRST_INTERVAL = 5.0
SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.1, 60.0
# After a lost response there must be time for a retry within the session, which spans several heartbeats.
# A missing response can also be slow, so each timeout is twice as long as the one before.
INTERVALS_TO_WAIT = 2
SHORTEST_WAIT = 1.0
MOST_DOUBLINGS = 10


class ConsumerMembership(Member[MemberState, MemberEvent]):
    """One consumer's membership of a KIP-848 group (a `Pollable`)."""

    is_leading = False
    unfinished_rebalances = 0
    leader_id = ""
    others: tuple[str, ...] = ()

    def __init__(self, options: ConsumerOptions, cluster: ClusterClient, group_status: GroupStatus) -> None:
        super().__init__(options, cluster, group_status, MemberState.UNSUBSCRIBED, MOVES)
        self.target: Target | None = None
        """The target assignment of this member; None before the coordinator's first response."""
        # The client generates its id, so it can leave even if its first heartbeat got no response (KIP-1082).
        self.member_id = urlsafe_b64encode(cluster.driver.entropy.random.randbytes(16)).decode().rstrip("=")
        self.heartbeat = Heartbeat(FIRST_INTERVAL, FOREVER, self._new_backoff())
        self._rejoin_backoff = self._new_backoff()
        self._expulsions = 0
        """Consecutive expulsions, each before the second successful heartbeat."""
        self._timeouts = 0
        """Consecutive heartbeats that timed out."""
        self._leaving = Leaving(options, cluster, self._to, self.member_id, self._new_backoff)
        self._heartbeats = Heartbeats(options, self.member_id)
        self._subscribed = SubscribedTopics()
        self._owned = NOTHING
        self._epoch = JOIN_EPOCH
        self._memberships = 0
        self._targets = 0

    # ------------------------------------------------------------------ the caller's thread

    def join(self, number: int, losses: int, subscribed: SubscribedTopics) -> None:
        """Join the group, unless the membership that the caller has seen has ended."""
        self._driver.call_soon(partial(self._begin_join, number, losses, subscribed))

    def subscribe(self, subscribed: SubscribedTopics) -> None:
        """Send a changed subscription to the coordinator."""

        def change(now: float) -> None:
            self._subscribed = subscribed
            if self.state in MEMBERS:
                self.heartbeat.hurry()

        self._driver.call_soon(change)

    def reconciled(self, losses: int, owned: Owned) -> None:
        """Acknowledge the partitions that the application owns after its listeners were called."""
        self._driver.call_soon(partial(self._on_reconciled, losses, owned))

    def leave(self, reason: str, done: Callable[[KafkaError | None], None], for_good: bool | None) -> None:
        """End the membership; `done(error)` is called on the driver's thread when the leave heartbeat has
        ended; see `Leaving.leave`."""
        self._driver.call_soon(partial(self._leave, reason, done, for_good))

    # ------------------------------------------------------------------ the driver's turn

    def poll(self, now: float) -> PollResult:
        result = self._leaving.poll(now)
        if self._group_status.rejection is not None:
            self._on_rejected_commit()
        if self.state in MEMBERS:
            self._check_poll_interval(now)
        if self.state in MEMBERS:
            more = self._poll_heartbeat(now)
            result.sends += more.sends
            result.wake_at = min(result.wake_at, more.wake_at)
        return result

    def _poll_heartbeat(self, now: float) -> PollResult:
        heartbeat = self.heartbeat
        if not heartbeat.is_due(now):
            return PollResult.idle_until(min(heartbeat.wake_at(), self.polls.wake_at(now)))
        heartbeat.on_sent(now)
        membership, owned = self._memberships, self._owned
        request = self._heartbeats.next(self._epoch, self._subscribed, owned)
        send: Send[ConsumerGroupHeartbeatResponse] = Send(
            request,
            self._to,
            lambda response, then: self._on_response(membership, owned, send, response, then),
            lambda error, then: self._on_failure(membership, send, error, then),
            timeout=self._timeout(),
            min_version=None if request.subscribed_topic_regex is None else FIRST_VERSION_WITH_PATTERN,
        )
        return PollResult([send], self.polls.wake_at(now))

    def _timeout(self) -> float:
        """Return the seconds to wait for the response to the next heartbeat."""
        longest, timeout = self._options.request_timeout, self.heartbeat.interval * INTERVALS_TO_WAIT
        return min(longest, max(timeout, SHORTEST_WAIT) * 2.0 ** min(self._timeouts, MOST_DOUBLINGS))

    def _check_poll_interval(self, now: float) -> None:
        if not self.polls.is_overrun(now):
            return
        words = self.polls.why_overrun(now)
        self._log.warning("leaving group %r: %s", self._options.group_id, words)
        self._leaving.step_out()
        self._end_membership(MemberEvent.OVERRUN, words)

    def _on_rejected_commit(self) -> None:
        """Send a heartbeat after a rejected commit, to find out whether this is still a member."""
        rejection, self._group_status.rejection = self._group_status.rejection, None
        if rejection is not None and rejection.identity.membership == self._memberships:
            self.heartbeat.hurry()

    # ------------------------------------------------------------------ commands

    def _begin_join(self, number: int, losses: int, subscribed: SubscribedTopics, now: float) -> None:
        self.joins_handled = number
        self.news += 1
        if losses != self.losses or (self.state, MemberEvent.JOIN) not in MOVES:
            return
        self._leaving.give_up(now)
        self._move(MemberEvent.JOIN)
        self.because, self.failure = "", None
        self._memberships += 1
        self._subscribed = subscribed
        self._owned = NOTHING
        self._epoch = JOIN_EPOCH
        self._group_status.commit_error = RebalanceInProgress(
            f"this consumer is joining group {self._options.group_id!r}; call poll() until it has joined, "
            "then commit"
        )
        self.heartbeat.begin(now)
        if self._expulsions > 1:
            self.heartbeat.delay(now + self._rejoin_backoff.next())
        else:
            self.heartbeat.hurry()

    def _on_reconciled(self, losses: int, owned: Owned, now: float) -> None:
        if losses == self.losses and self.state in JOINED:
            self._owned = owned
            self._move(MemberEvent.RECONCILED)
            self.heartbeat.hurry()

    def _leave(
        self, reason: str, done: Callable[[KafkaError | None], None], for_good: bool | None, now: float
    ) -> None:
        membership = self._memberships

        def left(error: KafkaError | None) -> None:
            if self.state is MemberState.LEAVING and membership == self._memberships:
                self._move(MemberEvent.LEFT)
            done(error)

        self.target = self.failure = None  # both end with the membership
        was_member = self.state in MEMBERS
        self._move(MemberEvent.LEAVE, reason)
        self._forget_membership()
        self._group_status.commit_error = None
        self._leaving.leave(for_good, was_member, left)

    # ------------------------------------------------------------------ responses

    def _is_current(self, membership: int) -> bool:
        return membership == self._memberships and self.state in MEMBERS

    def _on_response(
        self,
        membership: int,
        owned: Owned,
        send: Send[ConsumerGroupHeartbeatResponse],
        response: ConsumerGroupHeartbeatResponse,
        now: float,
    ) -> None:
        if not self._is_current(membership):
            return
        if response.error_code:
            message = response.error_message
            error = error_of(response.error_code, *([message] if message else []))
            self._on_failure(membership, send, error, now)
            return
        if response.member_epoch <= JOIN_EPOCH:
            invalid = (
                f"the response to a heartbeat of group {self._to.key!r} has the invalid member epoch "
                f"{response.member_epoch}"
            )
            self._on_failure(membership, send, CorruptResponse(invalid), now)
            return
        interval = response.heartbeat_interval_ms / 1000
        self.heartbeat.interval = min(max(interval, SHORTEST_INTERVAL), LONGEST_INTERVAL)
        self.heartbeat.on_answer(now)
        self._timeouts = 0
        self._epoch = response.member_epoch
        self._group_status.identity = GroupIdentity(
            self.member_id, self._epoch, self._options.group_instance_id, membership
        )
        self._group_status.commit_error = None
        self._leaving.on_place_taken()
        self._apply_response(owned, response)

    def _apply_response(self, owned: Owned, response: ConsumerGroupHeartbeatResponse) -> None:
        is_first = self.state is MemberState.JOINING
        if not is_first:
            self._expulsions = 0
            self._rejoin_backoff.reset()
        if self.state is MemberState.ACKNOWLEDGING and owned is self._owned:
            is_all = owned.is_whole and self.target is not None and owned.number == self.target.number
            self._move(MemberEvent.ACKNOWLEDGED if is_all else MemberEvent.INCOMPLETE)
            if is_all:
                self._rebalances.succeed()
        if response.assignment is None and not is_first:
            return
        partitions = read_assignment(response.assignment)
        if is_first or self.target is None or partitions != self.target.partitions:
            self._targets += 1
            self.target = Target(self._targets, partitions)
            self._move(MemberEvent.ASSIGNED, f"epoch {self._epoch}")
            self._rebalances.begin()

    def _on_failure(
        self,
        membership: int,
        send: Send[ConsumerGroupHeartbeatResponse],
        error: KafkaError,
        now: float,
    ) -> None:
        if not self._is_current(membership):
            return
        self._heartbeats.forget()
        self.heartbeat.on_failure(now)
        self._timeouts += isinstance(error, RequestTimeout)
        if error.refresh_coordinator or isinstance(error, RequestTimeout):
            self._cluster.coordinators.forget_answerer(send)
        if self.state is MemberState.JOINING and error.retriable:
            self._leaving.on_place_taken()  # perhaps only the response was lost
        is_member = self._epoch != JOIN_EPOCH
        if isinstance(error, EXPELLING) or (is_member and isinstance(error, GroupIdNotFound)):
            self._expel(error)
        elif isinstance(error, UnreleasedInstanceId) and self._leaving.may_hold_place:
            self._leaving.release_place()
        elif isinstance(error, FATAL):
            self._refuse(error)
        elif not error.retriable:
            self.failure = explained(error, self._options, self._subscribed.pattern)
            self.news += 1

    # ------------------------------------------------------------------ ends of a membership

    def _expel(self, error: KafkaError) -> None:
        self._expulsions += 1
        because = f"the coordinator removed this member from group {self._options.group_id!r}: {error}"
        self._log.warning("%s", because)
        self._end_membership(MemberEvent.EXPELLED, because)

    def _refuse(self, error: KafkaError) -> None:
        self.failure = explained(error, self._options, self._subscribed.pattern)
        self._log.error("%s", self.failure)
        self._end_membership(MemberEvent.REFUSED, str(self.failure))

    def _end_membership(self, event: MemberEvent, because: str) -> None:
        """Mark the owned partitions as lost."""
        self.target = None  # first: a caller that sees the loss must not find a target
        self._record_loss(because)
        self._rebalances.fail()
        self._forget_membership()
        self._move(event, because)

    def _forget_membership(self) -> None:
        self._group_status.identity = NOBODY
        self._rebalances.end()
        self.target = None
        self._heartbeats.forget()
        self.heartbeat.end()
