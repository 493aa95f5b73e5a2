"""A consumer's membership of a classic group: joins, sends heartbeats, leaves, and handles the responses.

Owned by the driver's thread, which polls it. The caller's thread (rebalance.py) sends it commands and reads
its plain attributes, each of which is replaced by one assignment. Its parts: join.py, heartbeats.py (timing:
group/member.py), group/leave.py, leader.py. Commits read its state from `GroupStatus`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.assignors.assignor import Assignor, RebalanceProtocol
from pykafka2.consumer.group.classic.heartbeats import Heartbeats
from pykafka2.consumer.group.classic.join import (
    Assigned,
    ClassicLeaveRequests,
    Joining,
    JoinProtocols,
    explained,
)
from pykafka2.consumer.group.classic.leader import GroupLeader
from pykafka2.consumer.group.classic.states import HEARTBEATING, MOVES, MemberEvent, MemberState
from pykafka2.consumer.group.member import Member
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.group_identity import NOBODY, GroupIdentity, GroupStatus
from pykafka2.driver.pollable import PollResult
from pykafka2.driver.runtime import Outcome
from pykafka2.errors import (
    ClientClosed,
    CorruptData,
    FencedInstanceId,
    IllegalGeneration,
    KafkaError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka2.protocol.messages.group import JoinGroupResponse

_EXPELLING = (UnknownMemberId, IllegalGeneration)


class Membership(Member[MemberState, MemberEvent]):
    """One consumer's membership of a classic group (a `Pollable`)."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        group_status: GroupStatus,
        assignors: Sequence[Assignor],
        protocol: RebalanceProtocol,
    ) -> None:
        super().__init__(options, cluster, group_status, MemberState.OUT, MOVES)
        self.leader_id = ""
        """The leader's member id in the last generation that this member joined."""
        self.others: tuple[str, ...] = ()
        """Ids of that generation's other members, which the coordinator sends to the leader alone."""
        self._leader = GroupLeader(options, cluster.metadata, cluster.driver.clock, assignors, protocol)
        self._joining = Joining(options, cluster, self._to, self._leader.lead, self._new_backoff)
        self._heartbeats = Heartbeats(options, cluster, self._to, self._new_backoff(), self._on_heartbeat)
        self.heartbeat = self._heartbeats.timing
        self._leave_requests = ClassicLeaveRequests(options, cluster, self._to)
        self._assigned: Assigned | None = None

    # ------------------------------------------------------------------ the caller's thread

    @property
    def unfinished_rebalances(self) -> int:
        """Consecutive rebalances that did not finish."""
        return self._joining.unfinished

    @property
    def is_leading(self) -> bool:
        return bool(self._leader.topics)

    def take_assignment(self) -> Assigned | None:
        """Return a new assignment once, or None."""
        # The next assignment arrives only after the caller's next `join`, so this loses none.
        assigned = self._assigned
        if assigned is not None:
            self._assigned = None
        return assigned

    def join(self, number: int, losses: int, protocols: JoinProtocols) -> None:
        """Join the group, unless the membership that the caller has seen has ended."""
        self._driver.call_soon(partial(self._begin_join, number, losses, protocols))

    def rebalance(self, because: str) -> None:
        """Request a rebalance, which the caller's next `join` starts."""
        self._driver.call_soon(partial(self._request_rejoin, because))

    def reject(self, because: str) -> None:
        """Reject an invalid assignment: rejoin after retry_backoff_max_ms."""

        def join_later(now: float) -> None:
            self._joining.delay(now + self._options.retry_backoff_max)
            self._request_rejoin(because, now)

        self._driver.call_soon(join_later)

    def leave(self, reason: str, done: Callable[[KafkaError | None], None], *, sends_leave: bool) -> None:
        """End the membership; `done(error)` is called on the driver's thread when LeaveGroup has ended.

        Without `sends_leave` the coordinator removes the member when its session times out.
        """
        self._driver.call_soon(partial(self._leave, reason, done, sends_leave))

    # ------------------------------------------------------------------ the driver's turn

    def poll(self, now: float) -> PollResult:
        result = self._joining.poll(now)
        if self._leave_requests.runners:
            self._leave_requests.poll_into(result, now)
        if self._group_status.rejection is not None:
            self._on_rejected_commit(now)
        if self.state in HEARTBEATING:
            self._check_poll_interval(now)
        if self.state is MemberState.STABLE:
            self._rejoin_if_topics_changed(now)
        if self.state in HEARTBEATING:
            more = self._poll_heartbeat(now)
            result.sends += more.sends
            result.wake_at = min(result.wake_at, more.wake_at)
        return result

    def _poll_heartbeat(self, now: float) -> PollResult:
        heartbeat, next_check = self.heartbeat, self.polls.wake_at(now)
        if not heartbeat.is_due(now):
            return PollResult.idle_until(min(heartbeat.wake_at(), next_check))
        return PollResult([self._heartbeats.next(self._group_status.identity, now)], next_check)

    def _rejoin_if_topics_changed(self, now: float) -> None:
        news = self._leader.news(now)
        if news:
            self._request_rejoin(news, now)

    def _check_poll_interval(self, now: float) -> None:
        if not self.polls.is_overrun(now):
            return
        words = self.polls.why_overrun(now)
        self._log.warning("leaving group %r: %s", self._options.group_id, words)
        # A static member sends no LeaveGroup: it can return before its session times out (KIP-345).
        if self._options.group_instance_id is None:
            self._leave_group(words)
        self._end_membership(MemberEvent.LEAVE, words)

    # ------------------------------------------------------------------ commands

    def _begin_join(self, number: int, losses: int, protocols: JoinProtocols, now: float) -> None:
        self.joins_handled = number
        self.news += 1
        if losses != self.losses or (self.state, MemberEvent.JOIN) not in MOVES:
            return
        self._move(MemberEvent.JOIN, protocols.reason)
        self._rebalances.begin()
        self.because = ""
        self._assigned = None
        self._leader.resign()
        self.heartbeat.end()
        self._group_status.commit_error = RebalanceInProgress(
            f"group {self._options.group_id!r} is rebalancing; call poll() until that is over, then commit"
        )
        self._joining.begin(protocols, self._group_status.identity.member_id, self, self._on_join_ended, now)

    def _request_rejoin(self, because: str, now: float) -> None:
        # While SyncGroup is in flight, its response reports the rebalance.
        if self.state in (MemberState.STABLE, MemberState.MUST_JOIN):
            self.because = because
            self._assigned = None
            self._move(MemberEvent.REBALANCE, because)
            self._log.info("group %r rebalances: %s", self._options.group_id, because)

    def _leave(
        self, reason: str, done: Callable[[KafkaError | None], None], sends_leave: bool, now: float
    ) -> None:
        if self.state is not MemberState.FENCED:
            self.failure = None  # it ends with the membership
        if sends_leave:
            self._leave_group(reason, done)
        else:
            done(None)
        self._move(MemberEvent.LEAVE, reason)
        self._forget_membership(keep_id=False)
        self._group_status.commit_error = None

    # ------------------------------------------------------------------ progress of a join (`join.Watcher`)

    def on_member_id(self, member_id: str) -> None:
        """Store the member id that the coordinator assigned."""
        self._group_status.identity = GroupIdentity(member_id, -1, self._options.group_instance_id)

    def on_joined(self, response: JoinGroupResponse) -> None:
        """Enter the new generation and start heartbeats."""
        self._group_status.identity = GroupIdentity(
            response.member_id, response.generation_id, self._options.group_instance_id
        )
        self.leader_id = response.leader
        own_id = response.member_id
        self.others = tuple(member.member_id for member in response.members if member.member_id != own_id)
        self.heartbeat.begin(self._driver.clock.monotonic())
        self._move(MemberEvent.JOINED, f"generation {response.generation_id}")

    def on_forgotten(self) -> None:
        """Return to joining: the new coordinator does not know the generation."""
        self._leader.resign()
        self.heartbeat.end()
        self._move(MemberEvent.FORGOTTEN)

    def _on_join_ended(self, outcome: Outcome[Assigned]) -> None:
        if outcome.error is not None:
            self._on_join_failed(outcome.error)
            return
        self._assigned = outcome.get()
        self._leader.keep_topics()
        self._group_status.commit_error = None
        self._move(MemberEvent.SYNCED)
        self._rebalances.succeed()

    def _on_join_failed(self, error: BaseException) -> None:
        self._rebalances.fail()
        if self._end_if_expelled(error):
            return
        if isinstance(error, RebalanceInProgress):
            self._group_status.commit_error = None
            self._rejoin("the group started another rebalance before this one had finished")
        elif isinstance(error, CorruptData) and self.state is MemberState.SYNCING:
            self._log.warning("group %r: data of another member cannot be decoded: %s", self._to.key, error)
            self._rejoin(f"data of another member cannot be decoded: {error}")
        else:
            self._refuse(error)

    def _rejoin(self, because: str) -> None:
        self.because = because
        self._leader.resign()
        self._move(MemberEvent.REBALANCE, because)

    def _refuse(self, error: BaseException) -> None:
        """Have the caller's next poll raise the error; the poll after that joins again."""
        self._leader.resign()
        if self.state is MemberState.JOINING:
            self.losses += 1  # no heartbeats are sent, so other members get the partitions it kept
            self._group_status.lost_because = str(error)
        self.failure = error if isinstance(error, KafkaError) else _unexpected(error)
        self.because = str(error)
        self._move(MemberEvent.REFUSED, str(error))

    # ------------------------------------------------------------------ responses to heartbeats and commits

    def _on_heartbeat(self, identity: GroupIdentity, error: KafkaError | None, now: float) -> None:
        """Handle the response to a heartbeat, or its failure; see `heartbeats.OnHeartbeat`."""
        if identity != self._group_status.identity or self.state not in HEARTBEATING:
            return
        if error is None:
            self.heartbeat.on_answer(now)
        elif isinstance(error, RebalanceInProgress):
            self.heartbeat.on_answer(now)
            self._request_rejoin("a heartbeat reported it", now)
        else:
            self.heartbeat.on_failure(now)
            if self.state is MemberState.SYNCING and isinstance(error, IllegalGeneration):
                return  # the SyncGroup response shows whether only the coordinator has changed
            if not self._end_if_expelled(error) and not error.retriable:
                self.failure = explained(error, self._options)
                self.news += 1

    def _on_rejected_commit(self, now: float) -> None:
        """Handle a rejected commit, which can report a rebalance or an expulsion before a heartbeat does."""
        rejection, self._group_status.rejection = self._group_status.rejection, None
        if rejection is None or rejection.identity != self._group_status.identity:
            return
        if self.state not in HEARTBEATING:
            return
        is_over = self._end_if_expelled(rejection.error)
        is_rebalancing = not is_over and isinstance(rejection.error, RebalanceInProgress)
        if is_rebalancing and self.state is MemberState.STABLE:
            self._request_rejoin("the coordinator rejected a commit because of a rebalance", now)

    # ------------------------------------------------------------------ ends of a membership

    def _end_if_expelled(self, error: BaseException) -> bool:
        """End the membership if the error means that the coordinator fenced or removed this member."""
        if isinstance(error, FencedInstanceId):
            self._fence(error)
        elif isinstance(error, _EXPELLING):
            self._expel(error)
        else:
            return False
        return True

    def _expel(self, error: KafkaError) -> None:
        because = f"the coordinator removed this member from group {self._options.group_id!r}: {error}"
        self._log.warning("%s", because)
        self._end_membership(MemberEvent.EXPELLED, because, keep_id=isinstance(error, IllegalGeneration))

    def _fence(self, error: KafkaError) -> None:
        self.failure = explained(error, self._options)
        self._log.error("%s", self.failure)
        self._end_membership(MemberEvent.FENCE, str(self.failure))

    def _end_membership(self, event: MemberEvent, because: str, *, keep_id: bool = False) -> None:
        """Mark the owned partitions as lost."""
        self._assigned = None  # first: a caller that sees the loss must not find an assignment
        self._record_loss(because)
        self._move(event, because)
        self._forget_membership(keep_id=keep_id)

    def _forget_membership(self, *, keep_id: bool) -> None:
        identity = self._group_status.identity
        self._group_status.identity = (
            GroupIdentity(identity.member_id, -1, identity.group_instance_id) if keep_id else NOBODY
        )
        self._assigned = None
        self._rebalances.end()
        self._leader.resign()
        self._leader.keep_topics()
        self.heartbeat.end()
        self._joining.cancel(ClientClosed("the member leaves"), self._driver.clock.monotonic())

    def _leave_group(
        self, reason: str, done: Callable[[KafkaError | None], None] = lambda error: None
    ) -> None:
        if self.state is MemberState.FENCED:
            done(None)  # the group_instance_id belongs to another consumer
        else:
            member_id, is_joining = self._group_status.identity.member_id, self._joining.is_under_way
            self._leave_requests.send(member_id, reason, done, is_joining=is_joining)


def _unexpected(error: BaseException) -> KafkaError:
    failed = KafkaError(f"joining the group failed because of a client bug: {error!r}")
    failed.__cause__ = error
    return failed
