"""A consumer's membership of a classic group: when to join, to beat, to leave, and what each answer means.

Owned by the driver's thread, which polls it; the caller's thread (rebalance.py) sends it commands and reads
its plain attributes, each of which is replaced by one assignment.  Its parts: join.py, heartbeats.py (timing:
group/member.py), group/leave.py, leader.py (the leader's part).  What commits need to know of it
stands in `GroupStanding`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.assignors.assignor import Assignor, RebalanceProtocol
from pykafka2.consumer.group.classic.heartbeats import Heartbeats
from pykafka2.consumer.group.classic.join import Assigned, ClassicLeaveRequests, Joining, JoinWish, explained
from pykafka2.consumer.group.classic.leader import GroupLeader
from pykafka2.consumer.group.classic.states import BEATING, MOVES, MemberEvent, MemberState
from pykafka2.consumer.group.member import Member
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.group_identity import NOBODY, GroupIdentity, GroupStanding
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
    """One consumer's place in its group (a `Pollable`)."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        standing: GroupStanding,
        assignors: Sequence[Assignor],
        protocol: RebalanceProtocol,
    ) -> None:
        super().__init__(options, cluster, standing, MemberState.OUT, MOVES)
        self.leader_id = ""
        """The leader's member id in the last generation that this member joined."""
        self.others: tuple[str, ...] = ()
        """Ids of that generation's other members, which the coordinator sends to the leader alone."""
        self._leader = GroupLeader(options, cluster.metadata, cluster.driver.clock, assignors, protocol)
        self._joining = Joining(options, cluster, self._to, self._leader.lead, self._new_backoff)
        self._heartbeats = Heartbeats(options, cluster, self._to, self._new_backoff(), self._on_beat)
        self.heartbeat = self._heartbeats.timing
        self._leave_requests = ClassicLeaveRequests(options, cluster, self._to)
        self._assigned: Assigned | None = None

    # ------------------------------------------------------------------ the caller's thread

    @property
    def unfinished_rebalances(self) -> int:
        """So many in a row were not brought to an end."""
        return self._joining.unfinished

    @property
    def is_leading(self) -> bool:
        return bool(self._leader.topics)

    def take_assignment(self) -> Assigned | None:
        """The assignment that has come, once."""
        # Another one comes only after the caller's next `join`, so nothing can be lost between the two.
        assigned = self._assigned
        if assigned is not None:
            self._assigned = None
        return assigned

    def join(self, number: int, losses: int, wish: JoinWish) -> None:
        """Join the group (again), unless the membership that the caller knows has ended meanwhile."""
        self._driver.call_soon(partial(self._begin_join, number, losses, wish))

    def rebalance(self, because: str) -> None:
        """Have the group rebalance, with the caller's next `join`."""
        self._driver.call_soon(partial(self._ask_to_join, because))

    def reject(self, because: str) -> None:
        """The assignment cannot be meant: join again, but not at once."""

        def join_later(now: float) -> None:
            self._joining.delay(now + self._options.retry_backoff_max)
            self._ask_to_join(because, now)

        self._driver.call_soon(join_later)

    def leave(self, reason: str, done: Callable[[KafkaError | None], None], *, say_so: bool) -> None:
        """End the membership; `done(error)` on the driver's thread when the coordinator knows, or cannot be
        told.  Without `say_so` it is left to find out when the session ends."""
        self._driver.call_soon(partial(self._leave, reason, done, say_so))

    # ------------------------------------------------------------------ the driver's turn

    def poll(self, now: float) -> PollResult:
        result = self._joining.poll(now)
        if self._leave_requests.runners:
            self._leave_requests.poll_into(result, now)
        if self._standing.rejection is not None:
            self._on_rejected_commit(now)
        if self.state in BEATING:
            self._look_for_overrun(now)
        if self.state is MemberState.STABLE:
            self._follow_topics(now)
        if self.state in BEATING:
            beat = self._beat(now)
            result.sends += beat.sends
            result.wake_at = min(result.wake_at, beat.wake_at)
        return result

    def _beat(self, now: float) -> PollResult:
        heartbeat, next_look = self.heartbeat, self.polls.wake_at(now)
        if not heartbeat.is_due(now):
            return PollResult.idle_until(min(heartbeat.wake_at(), next_look))
        self._leader.keep_topics(now)
        return PollResult([self._heartbeats.next(self._standing.identity, now)], next_look)

    def _follow_topics(self, now: float) -> None:
        news = self._leader.news(now)
        if news:
            self._ask_to_join(news, now)

    def _look_for_overrun(self, now: float) -> None:
        if not self.polls.is_overrun(now):
            return
        words = self.polls.why_overrun(now)
        self._log.warning("leaving group %r: %s", self._options.group_id, words)
        # A static member is not announced as gone: it may come back before its session ends (KIP-345).
        if self._options.group_instance_id is None:
            self._say_goodbye(words)
        self._lose(MemberEvent.LEAVE, words)

    # ------------------------------------------------------------------ commands

    def _begin_join(self, number: int, losses: int, wish: JoinWish, now: float) -> None:
        self.joins_handled = number
        self.news += 1
        if losses != self.losses or (self.state, MemberEvent.JOIN) not in MOVES:
            return
        self._move(MemberEvent.JOIN, wish.reason)
        self.because = ""
        self._assigned = None
        self._leader.resign()
        self.heartbeat.end()
        self._standing.obstacle = RebalanceInProgress(
            f"group {self._options.group_id!r} is rebalancing; poll() until it is over, then commit"
        )
        self._joining.begin(wish, self._standing.identity.member_id, self, self._on_join_ended, now)

    def _ask_to_join(self, because: str, now: float) -> None:
        # While it syncs, SyncGroup says it.
        if self.state in (MemberState.STABLE, MemberState.MUST_JOIN):
            self.because = because
            self._assigned = None
            self._move(MemberEvent.REBALANCE, because)
            self._log.info("group %r rebalances: %s", self._options.group_id, because)

    def _leave(
        self, reason: str, done: Callable[[KafkaError | None], None], say_so: bool, now: float
    ) -> None:
        if self.state is not MemberState.FENCED:
            self.failure = None  # it is over with the membership
        if say_so:
            self._say_goodbye(reason, done)
        else:
            done(None)
        self._move(MemberEvent.LEAVE, reason)
        self._forget_membership(keep_id=False)
        self._standing.obstacle = None

    # ------------------------------------------------------------------ what a join has come to

    def on_member_id(self, member_id: str) -> None:
        """See `group_steps.Watcher`."""
        self._standing.identity = GroupIdentity(member_id, -1, self._options.group_instance_id)

    def on_joined(self, response: JoinGroupResponse) -> None:
        """See `group_steps.Watcher`."""
        self._standing.identity = GroupIdentity(
            response.member_id, response.generation_id, self._options.group_instance_id
        )
        self.leader_id = response.leader
        own_id = response.member_id
        self.others = tuple(one.member_id for one in response.members if one.member_id != own_id)
        self.heartbeat.begin(self._driver.clock.monotonic())
        self._move(MemberEvent.JOINED, f"generation {response.generation_id}")

    def on_forgotten(self) -> None:
        """See `group_steps.Watcher`."""
        self._leader.resign()
        self.heartbeat.end()
        self._move(MemberEvent.FORGOTTEN)

    def _on_join_ended(self, outcome: Outcome[Assigned]) -> None:
        if outcome.error is not None:
            self._on_join_failed(outcome.error)
            return
        self._assigned = outcome.get()
        self._standing.obstacle = None
        self._move(MemberEvent.SYNCED)

    def _on_join_failed(self, error: BaseException) -> None:
        if self._end_if_told(error):
            return
        if isinstance(error, RebalanceInProgress):
            self._standing.obstacle = None
            self._join_anew("the group began another rebalance before this one was over")
        elif isinstance(error, CorruptData) and self.state is MemberState.SYNCING:
            self._log.warning("group %r: what another member sent cannot be read: %s", self._to.key, error)
            self._join_anew(f"what another member sent cannot be read: {error}")
        else:
            self._refuse(error)

    def _join_anew(self, because: str) -> None:
        self.because = because
        self._leader.resign()
        self._move(MemberEvent.REBALANCE, because)

    def _refuse(self, error: BaseException) -> None:
        """The caller's poll raises it; the one after that tries again."""
        self._leader.resign()
        if self.state is MemberState.JOINING:
            self.losses += 1  # without heartbeats the others get what was kept
            self._standing.lost_because = str(error)
        self.failure = error if isinstance(error, KafkaError) else _unexpected(error)
        self.because = str(error)
        self._move(MemberEvent.REFUSED, str(error))

    # ------------------------------------------------------------------ what heartbeats and commits are told

    def _on_beat(self, identity: GroupIdentity, error: KafkaError | None, now: float) -> None:
        """See `beats.OnBeat`."""
        if identity != self._standing.identity or self.state not in BEATING:
            return
        if error is None:
            self.heartbeat.on_answer(now)
        elif isinstance(error, RebalanceInProgress):
            self.heartbeat.on_answer(now)
            self._ask_to_join("the coordinator said so", now)
        else:
            self.heartbeat.on_failure(now)
            if self.state is MemberState.SYNCING and isinstance(error, IllegalGeneration):
                return  # SyncGroup says whether that is so only because the coordinator is another
            if not self._end_if_told(error) and not error.retriable:
                self.failure = explained(error, self._options)
                self.news += 1

    def _on_rejected_commit(self, now: float) -> None:
        """A commit was told first."""
        rejection, self._standing.rejection = self._standing.rejection, None
        if rejection is None or rejection.identity != self._standing.identity or self.state not in BEATING:
            return
        is_over = self._end_if_told(rejection.error)
        is_rebalancing = not is_over and isinstance(rejection.error, RebalanceInProgress)
        if is_rebalancing and self.state is MemberState.STABLE:
            self._ask_to_join("a commit was told so", now)

    # ------------------------------------------------------------------ ends of a membership

    def _end_if_told(self, error: BaseException) -> bool:
        """End the membership where that is what the coordinator's word means; whether it was."""
        if isinstance(error, FencedInstanceId):
            self._fence(error)
        elif isinstance(error, _EXPELLING):
            self._expel(error)
        else:
            return False
        return True

    def _expel(self, error: KafkaError) -> None:
        because = f"the coordinator put this member out of group {self._options.group_id!r}: {error}"
        self._log.warning("%s", because)
        self._lose(MemberEvent.EXPELLED, because, keep_id=isinstance(error, IllegalGeneration))

    def _fence(self, error: KafkaError) -> None:
        self.failure = explained(error, self._options)
        self._log.error("%s", self.failure)
        self._lose(MemberEvent.FENCE, str(self.failure))

    def _lose(self, event: MemberEvent, because: str, *, keep_id: bool = False) -> None:
        """Mark the owned partitions as lost."""
        self._assigned = None  # before the loss is told: who has seen that takes nothing on by this any more
        self._record_loss(because)
        self._move(event, because)
        self._forget_membership(keep_id=keep_id)

    def _forget_membership(self, *, keep_id: bool) -> None:
        identity = self._standing.identity
        self._standing.identity = (
            GroupIdentity(identity.member_id, -1, identity.group_instance_id) if keep_id else NOBODY
        )
        self._assigned = None
        self._leader.resign()
        self.heartbeat.end()
        self._joining.cancel(ClientClosed("the member leaves"), self._driver.clock.monotonic())

    def _say_goodbye(
        self, reason: str, done: Callable[[KafkaError | None], None] = lambda error: None
    ) -> None:
        if self.state is MemberState.FENCED:
            done(None)  # the place is another's
        else:
            member_id, is_joining = self._standing.identity.member_id, self._joining.is_under_way
            self._leave_requests.say(member_id, reason, done, is_joining=is_joining)


def _unexpected(error: BaseException) -> KafkaError:
    failed = KafkaError(f"joining the group failed by a mistake of the client: {error!r}")
    failed.__cause__ = error
    return failed
