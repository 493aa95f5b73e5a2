"""A membership of a classic group alone: what it makes of words that come late, and what it lets go."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pykafka2.clock import FOREVER
from pykafka2.consumer.assignors.assignor import Assignment
from pykafka2.consumer.group.classic.heartbeats import Heartbeats
from pykafka2.consumer.group.classic.join import Assigned, JoinProtocols, leave_group
from pykafka2.consumer.group.classic.membership import Membership
from pykafka2.consumer.group.classic.rebalance import Rebalance
from pykafka2.consumer.group.classic.states import MemberEvent, MemberState
from pykafka2.consumer.group.member import NEVER
from pykafka2.consumer.state.group_identity import NOBODY, GroupIdentity, Rejection
from pykafka2.driver.pollable import PollResult
from pykafka2.errors import (
    ClientClosed,
    CorruptData,
    Disconnected,
    FencedInstanceId,
    GroupAuthorizationFailed,
    IllegalGeneration,
    KafkaError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka2.network.script import Script, wait
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.group import LeaveGroupResponse
from pykafka2.types import TopicPartition
from tests.cluster.scripted import Hold as NoAnswer
from tests.consumer.logs import LogCluster

ME = GroupIdentity("me", 5)
EARLIER = GroupIdentity("me", 4)
WISH = JoinProtocols(frozenset({"orders"}), (("range", b""),))


@pytest.fixture
def cluster() -> LogCluster:
    return LogCluster({"orders": [0]}, brokers=1)


@pytest.fixture
def member(cluster: LogCluster) -> Iterator[Membership]:
    """A member in generation 5, without a known coordinator."""
    with cluster.consumer(group_id="g") as consumer:
        group = consumer._core.group
        assert group is not None
        assert isinstance(group.membership, Membership)
        group.membership.state = MemberState.STABLE
        group.group_status.identity = ME
        yield group.membership


# ---------------------------------------------------------------------------------------- late words


def test_join_requested_before_a_loss_is_not_started(member: Membership, cluster: LogCluster) -> None:
    member._end_membership(MemberEvent.EXPELLED, "put out")
    member._begin_join(1, 0, WISH, cluster.now)
    assert member.state is MemberState.OUT
    assert member.joins_handled == 1, "it came too late, and is not waited for"
    member._begin_join(2, 1, WISH, cluster.now)
    assert member.state is MemberState.JOINING


@pytest.mark.parametrize("by", ["heartbeat", "commit"])
def test_error_for_an_earlier_generation_does_not_end_this_one(
    member: Membership, cluster: LogCluster, by: str
) -> None:
    def tell(identity: GroupIdentity) -> None:
        if by == "heartbeat":
            member._on_heartbeat(identity, UnknownMemberId(), cluster.now)
        else:
            member._group_status.rejection = Rejection(identity, UnknownMemberId())
            member._on_rejected_commit(cluster.now)

    tell(EARLIER)
    assert member.state is MemberState.STABLE
    tell(ME)
    assert member.state is MemberState.OUT


def test_untaken_assignment_is_void_after_a_rebalance(member: Membership, cluster: LogCluster) -> None:
    member._assigned = Assigned("range", 5, Assignment())
    member._request_rejoin("a heartbeat reported it", cluster.now)
    assert member.state is MemberState.MUST_JOIN
    assert member.take_assignment() is None


def test_a_refused_heartbeat_is_news_to_a_poll_that_waits(member: Membership, cluster: LogCluster) -> None:
    before = member.news
    member._on_heartbeat(ME, GroupAuthorizationFailed(), cluster.now)
    assert member.state is MemberState.STABLE
    assert isinstance(member.failure, GroupAuthorizationFailed)
    assert member.news > before


def test_the_next_heartbeat_and_an_overrun_are_woken_for(member: Membership, cluster: LogCluster) -> None:
    member.polls.enter()
    member.polls.leave()
    member.heartbeat.begin(cluster.now)
    assert member.poll(cluster.now).wake_at == member.heartbeat.wake_at()
    member.heartbeat.hurry()
    due = member.poll(cluster.now)
    assert len(due.sends) == 1
    assert due.wake_at == member.polls.wake_at(cluster.now) < FOREVER, "though its answer may not come"


def test_leave_without_a_request_wakes_the_driver(
    member: Membership, cluster: LogCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds that out after it has checked for leaves, and no other event might turn the driver soon."""
    woken: list[bool] = []
    monkeypatch.setattr(member._driver, "wake", lambda: woken.append(True))
    member._leave_requests.send("me", "it did not poll", lambda error: None, is_joining=False)
    assert woken


def test_retry_of_a_leave_group_request_wakes_the_driver(member: Membership, cluster: LogCluster) -> None:
    def patient() -> Script[None]:
        yield from wait(0.7)

    member._leave_requests.start(patient(), lambda error: None)
    result = PollResult.idle()
    member._leave_requests.poll_into(result, cluster.now)
    assert result.wake_at == cluster.now + 0.7


def test_join_interrupted_by_ctrl_c_is_repeated_by_the_next_poll(
    cluster: LogCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.on(FindCoordinatorRequest, lambda request, broker: NoAnswer())

    def strike(*said: object) -> None:
        raise KeyboardInterrupt

    with cluster.consumer("orders", group_id="g") as consumer:
        assert consumer._core.group is not None
        membership, protocol = consumer._core.group.membership, consumer._core.group.rebalance.protocol
        with monkeypatch.context() as patch:
            patch.setattr(membership, "join", strike)
            with pytest.raises(KeyboardInterrupt):
                protocol.step(0)
        protocol.step(0)
        cluster.runtime.run_for(0.01)
        assert membership.state is MemberState.JOINING


def test_member_out_of_the_group_requests_no_further_rebalance(cluster: LogCluster) -> None:
    """Else its next assignment, which takes nothing away, would have the group rebalance once more."""
    with cluster.consumer(group_id="g") as consumer:
        assert consumer._core.group is not None
        protocol = consumer._core.group.rebalance.protocol
        assert isinstance(protocol, Rebalance)
        protocol._has_revoked = True
        protocol.forget()
        assert not protocol._has_revoked


# ---------------------------------------------------------------------------------------- what is let go


def test_fenced_member_stays_fenced_after_unsubscribe(member: Membership, cluster: LogCluster) -> None:
    member._fence(FencedInstanceId())
    member._leave("unsubscribed", lambda error: None, True, cluster.now)
    assert member.state is MemberState.FENCED
    assert isinstance(member.failure, FencedInstanceId)


def test_refused_sync_keeps_the_owned_partitions(member: Membership) -> None:
    """Its heartbeats go on until it joins again."""
    member.state = MemberState.SYNCING
    member._on_join_failed(GroupAuthorizationFailed())
    assert member.state is MemberState.MUST_JOIN
    assert member.losses == 0


def test_an_answer_to_a_join_that_cannot_be_read_is_raised(member: Membership) -> None:
    """It is no other member's doing, and another join would bring the same."""
    member.state = MemberState.JOINING
    member._on_join_failed(CorruptData("nonsense"))
    assert isinstance(member.failure, CorruptData)


@pytest.mark.parametrize(
    ("error", "identity"), [(UnknownMemberId(), NOBODY), (IllegalGeneration(), GroupIdentity("me", -1))]
)
def test_expelled_member_keeps_a_member_id_still_known(
    member: Membership, error: KafkaError, identity: GroupIdentity
) -> None:
    member._expel(error)
    assert member._group_status.identity == identity


def test_refused_join_loses_the_kept_partitions(member: Membership, cluster: LogCluster) -> None:
    member._begin_join(1, 0, WISH, cluster.now)
    member._joining.cancel(ClientClosed("the answer has come"), cluster.now)
    member._refuse(GroupAuthorizationFailed())
    assert (member.state, member.losses) == (MemberState.OUT, 1)


@pytest.mark.parametrize("end", ["another rebalance", "leaving"])
def test_obstacle_to_commits_ends_with_the_join_or_membership(
    member: Membership, cluster: LogCluster, end: str
) -> None:
    member.state = MemberState.SYNCING
    member._group_status.commit_error = RebalanceInProgress("not now")
    if end == "leaving":
        member._leave("closed", lambda error: None, False, cluster.now)
    else:
        member._on_join_failed(RebalanceInProgress())
    assert member._group_status.commit_error is None


def test_expelled_member_does_not_lead(member: Membership) -> None:
    member._leader.topics = frozenset({"orders"})
    member._end_membership(MemberEvent.EXPELLED, "put out")
    assert not member.is_leading


def test_leader_log_names_at_most_twenty_unassigned_partitions(member: Membership) -> None:
    leader = member._leader
    leader._moving = frozenset(TopicPartition("orders", number) for number in range(10_000))
    words = leader.news(leader._moving_since + 100.0)
    assert "no member owns orders-0, orders-1, " in words
    assert "orders-19 and 9980 more, and the previous owner" in words


def test_rejected_assignment_is_retried_after_a_pause(member: Membership, cluster: LogCluster) -> None:
    member.reject("it makes no sense")
    cluster.runtime.run_for(0.01)
    assert member.state is MemberState.MUST_JOIN
    assert member._joining._not_before > cluster.now + 0.5


def test_expelled_member_takes_no_assignment(member: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's thread comes between two steps of the driver's, which has counted the loss by then."""
    member._assigned = Assigned("range", 1, Assignment((TopicPartition("orders", 0),)))
    seen: list[Assigned | None] = []
    move = Membership._move

    def look_and_move(self: Membership, event: MemberEvent, because: str = "") -> None:
        seen.append(self.take_assignment())
        move(self, event, because)

    monkeypatch.setattr(Membership, "_move", look_and_move)
    member._end_membership(MemberEvent.EXPELLED, "put out")
    assert seen == [None]


# ---------------------------------------------------------------------------------------- pauses


def test_join_backoff_restarts_after_a_successful_join(member: Membership, cluster: LogCluster) -> None:
    joining = member._joining
    for _ in range(6):
        joining._note(GroupAuthorizationFailed(), cluster.now)
    assert joining._not_before > cluster.now + 0.5
    joining._note(None, cluster.now)
    joining._note(GroupAuthorizationFailed(), cluster.now)
    assert joining._not_before < cluster.now + 0.2


def test_a_new_membership_begins_without_the_pause_of_the_last(member: Membership) -> None:
    beat = member.heartbeat
    for _ in range(4):
        beat.on_failure(100.0)
    beat.end()
    beat.begin(100.0)
    beat.hurry()
    assert beat.wake_at() == NEVER


def test_silence_is_warned_of_once(
    member: Membership, cluster: LogCluster, caplog: pytest.LogCaptureFixture
) -> None:
    beats: Heartbeats = member._heartbeats
    beats.timing.begin(cluster.now)
    with caplog.at_level(logging.WARNING, "pykafka2"):
        for seconds in (1, 50, 55, 60):
            beats.next(ME, cluster.now + seconds)
    said = [message for message in caplog.messages if "group 'g': no response to a heartbeat for" in message]
    assert len(said) == 1
    assert "for 50.0 s, longer than session_timeout_ms" in said[0]


# ---------------------------------------------------------------------------------------- leaving


def test_leave_group_with_unknown_member_id_succeeds(member: Membership) -> None:
    script = leave_group(member._options, "me", "closed", 5, member._joining._new_backoff())
    next(script)
    with pytest.raises(StopIteration):
        script.send(LeaveGroupResponse(error_code=UnknownMemberId.code, members=[]))


def test_leave_group_is_retried_up_to_its_limit(member: Membership) -> None:
    script = leave_group(member._options, "me", "closed", 2, member._joining._new_backoff())
    next(script)
    script.throw(Disconnected("gone"))
    next(script)
    with pytest.raises(Disconnected):
        script.throw(Disconnected("gone"))
