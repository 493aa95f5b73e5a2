"""A membership of a KIP-848 group alone: what it makes of each answer, and of those that come late."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.consumer.group.kip848.assignment import Owned, SubscribedTopics, Target
from pykafka2.consumer.group.kip848.heartbeats import JOIN_EPOCH, LEAVE_EPOCH, NOTHING, STATIC_LEAVE_EPOCH
from pykafka2.consumer.group.kip848.membership import ConsumerMembership
from pykafka2.consumer.group.kip848.reconciliation import Reconciliation
from pykafka2.consumer.group.kip848.states import MemberState
from pykafka2.consumer.state.group_identity import GroupIdentity, Rejection
from pykafka2.consumer.state.subscription import Hold
from pykafka2.errors import (
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    KafkaError,
    RequestTimeout,
    UnknownMemberId,
)
from pykafka2.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from tests.cluster.scripted import Hold as NoAnswer
from tests.consumer.group.kip848.test_heartbeats_and_assignments import ORDERS
from tests.consumer.logs import LogCluster

NO_SEND: Any = SimpleNamespace(to=None)
WISH = SubscribedTopics(frozenset({"orders"}))
HAS = Owned(1, {ORDERS: frozenset({0})}, is_whole=True)


@pytest.fixture
def cluster() -> LogCluster:
    return LogCluster({"orders": [0]}, brokers=1)


@pytest.fixture
def member(cluster: LogCluster) -> Iterator[ConsumerMembership]:
    """It has sent its first heartbeat."""
    with cluster.consumer(group_id="g", group_protocol="consumer") as consumer:
        assert consumer._core.group is not None
        membership = consumer._core.group.membership
        assert isinstance(membership, ConsumerMembership)
        join(membership, 1)
        yield membership


def join(member: ConsumerMembership, number: int) -> None:
    member._begin_join(number, member.losses, WISH, now_of(member))
    assert member.state is MemberState.JOINING


def now_of(member: ConsumerMembership) -> float:
    return member._driver.clock.monotonic()


def answer(
    member: ConsumerMembership,
    epoch: int = 1,
    *numbers: int,
    owned: Owned | None = None,
    membership: int | None = None,
    interval_ms: int = 5000,
) -> None:
    """The coordinator's answer to a heartbeat that said so, with these partitions assigned, if any."""
    topic = ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=ORDERS, partitions=list(numbers))
    response = ConsumerGroupHeartbeatResponse(
        error_message=None,
        member_id=member.member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=ConsumerGroupHeartbeatResponseAssignment(topic_partitions=[topic]) if numbers else None,
    )
    which = member._memberships if membership is None else membership
    member._on_response(which, owned or member._owned, NO_SEND, response, now_of(member))


def fail(member: ConsumerMembership, error: KafkaError) -> None:
    member._on_failure(member._memberships, NO_SEND, error, now_of(member))


# ---------------------------------------------------------------------------------------- answers


def test_an_answer_without_an_epoch_is_none(member: ConsumerMembership) -> None:
    answer(member, JOIN_EPOCH, 0)
    assert member.state is MemberState.JOINING
    assert member.target is None


@pytest.mark.parametrize(("interval_ms", "interval"), [(1, 0.1), (7000, 7.0), (30 * 86_400_000, 60.0)])
def test_a_broker_may_ask_for_heartbeats_within_bounds(
    member: ConsumerMembership, interval_ms: int, interval: float
) -> None:
    answer(member, 1, 0, interval_ms=interval_ms)
    assert member.heartbeat.interval == interval


def test_only_the_response_to_the_current_partitions_acknowledges_them(member: ConsumerMembership) -> None:
    answer(member, 1, 0)
    member._on_reconciled(0, HAS, now_of(member))
    assert member.state is MemberState.ACKNOWLEDGING
    answer(member, 1, owned=NOTHING)
    assert member.state is MemberState.ACKNOWLEDGING
    answer(member, 1, owned=HAS)
    assert member.state is MemberState.STABLE


def test_partial_assignment_keeps_the_member_reconciling(member: ConsumerMembership) -> None:
    answer(member, 1, 0, 1)
    part = Owned(1, {ORDERS: frozenset({0})}, is_whole=False)
    member._on_reconciled(0, part, now_of(member))
    answer(member, 1, owned=part)
    assert member.state is MemberState.RECONCILING


def test_repeated_assignment_changes_nothing(member: ConsumerMembership) -> None:
    answer(member, 1, 0)
    member._on_reconciled(0, HAS, now_of(member))
    answer(member, 2, 0, owned=HAS)
    assert member.state is MemberState.STABLE
    assert member.target is not None
    assert member.target.number == 1


def test_answers_that_do_not_come_are_waited_for_longer_each_time(member: ConsumerMembership) -> None:
    """Twice as long as the last one, up to request_timeout_ms, however many are lost in a row."""
    answer(member, 1, interval_ms=1000)
    waits = [member._timeout()]
    for _ in range(5):
        fail(member, RequestTimeout())
        waits.append(member._timeout())
    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    for _ in range(2000):
        fail(member, RequestTimeout())
    assert member._timeout() == 30.0
    answer(member, 1, interval_ms=1000)
    assert member._timeout() == 2.0, "an answer has come"
    fail(member, CoordinatorLoadInProgress())
    assert member._timeout() == 2.0, "so has this one, in time"


def test_changed_subscription_is_sent_at_once(member: ConsumerMembership) -> None:
    answer(member)
    member.heartbeat.delay(now_of(member) + 5)
    member.subscribe(SubscribedTopics(frozenset({"bills"})))
    member._driver._commands.pop()(now_of(member))
    assert member.heartbeat.is_due(now_of(member))


# ---------------------------------------------------------------------------------------- ends and beginnings


def test_repeatedly_fenced_member_rejoins_after_a_pause(member: ConsumerMembership) -> None:
    answer(member)
    fail(member, UnknownMemberId())
    assert member.state is MemberState.FENCED
    join(member, 2)
    assert member.heartbeat.is_due(now_of(member)), "the first time at once"
    answer(member)
    fail(member, UnknownMemberId())
    join(member, 3)
    assert not member.heartbeat.is_due(now_of(member))
    answer(member)
    answer(member, 2)
    fail(member, UnknownMemberId())
    join(member, 4)
    assert member.heartbeat.is_due(now_of(member)), "a good heartbeat in between ends the count"


def test_group_id_not_found_fences_the_member(member: ConsumerMembership) -> None:
    answer(member)
    fail(member, GroupIdNotFound())
    assert (member.state, member.losses) == (MemberState.FENCED, 1)


def test_responses_of_an_earlier_membership_are_ignored(member: ConsumerMembership) -> None:
    answer(member, 1, 0)
    earlier = GroupIdentity(member.member_id, 1, None, 1)
    fail(member, UnknownMemberId())
    join(member, 2)
    answer(member, 7, 0, membership=1)
    assert member.state is MemberState.JOINING, "a late answer"
    answer(member, 1, 0)
    member._on_reconciled(0, HAS, now_of(member))
    assert member._owned is NOTHING, "what was taken on before the loss"
    member.heartbeat.delay(now_of(member) + 5)
    member._group_status.rejection = Rejection(earlier, UnknownMemberId())
    member._on_rejected_commit()
    assert not member.heartbeat.is_due(now_of(member)), "a commit"
    member._group_status.rejection = Rejection(member._group_status.identity, UnknownMemberId())
    member._on_rejected_commit()
    assert member.heartbeat.is_due(now_of(member))


def test_rejoining_member_drops_pending_leaves_and_its_failure(member: ConsumerMembership) -> None:
    answer(member)
    member.failure = GroupIdNotFound()
    errors: list[KafkaError | None] = []
    member._leave("unsubscribed", errors.append, None, now_of(member))
    assert member.state is MemberState.LEAVING
    join(member, 2)
    assert len(errors) == 1
    assert not member._leaving._leave_requests.runners
    assert member.failure is None


# ---------------------------------------------------------------------------------------- leaving


@pytest.fixture
def said(member: ConsumerMembership) -> list[int]:
    """The epochs of the leave requests; the responses come at once."""
    epochs: list[int] = []
    start = member._leaving._leave_requests.start

    def call_done(script: Any, done: Any) -> None:
        epochs.append(next(script).request.member_epoch)
        done(None)

    assert callable(start)
    member._leaving._leave_requests.start = call_done  # type: ignore[method-assign]
    return epochs


def test_a_static_member_that_has_left_holds_no_place(member: ConsumerMembership, said: list[int]) -> None:
    leaving = member._leaving
    leaving.on_place_taken()
    assert not leaving.may_hold_place, "no static member"
    leaving._is_static = True
    leaving.on_place_taken()
    assert leaving.may_hold_place
    leaving.leave(True, False, lambda error: None)
    assert said == [LEAVE_EPOCH], "its first answer may have been lost"
    assert not leaving.may_hold_place
    leaving.step_out()
    assert said == [LEAVE_EPOCH, STATIC_LEAVE_EPOCH], "an application that does not poll may be back"


def test_the_age_of_a_state_counts_from_the_first_of_two_assignments_and_reports(
    member: ConsumerMembership, cluster: LogCluster
) -> None:
    cluster.on(FindCoordinatorRequest, lambda request, broker: NoAnswer())
    began = []
    for step in (
        lambda: answer(member, 1, 0),
        lambda: answer(member, 2, 0, 1),
        lambda: member._on_reconciled(0, HAS, now_of(member)),
        lambda: member._on_reconciled(0, HAS, now_of(member)),
    ):
        cluster.runtime.run_for(1)
        step()
        began.append((member.state, member.state_since))
    assert [state for state, _ in began] == [MemberState.RECONCILING] * 2 + [MemberState.ACKNOWLEDGING] * 2
    assert began[0] == began[1]
    assert began[2] == began[3]
    assert began[2][1] > began[0][1]


# ---------------------------------------------------------------------------------------- the caller's side


@pytest.fixture
def known() -> Iterator[tuple[LogCluster, KafkaConsumer, Reconciliation]]:
    """A consumer of "orders" whose metadata has another topic, too."""
    cluster = LogCluster({"orders": [0], "bills": [0]}, brokers=1)
    cluster.on(FindCoordinatorRequest, lambda request, broker: NoAnswer())
    with cluster.consumer(group_id="g", group_protocol="consumer") as consumer:
        consumer.subscribe(["orders"])
        consumer.partitions_for_topic("bills")
        consumer.partitions_for_topic("orders")
        assert consumer._core.group is not None
        protocol = consumer._core.group.rebalance.protocol
        assert isinstance(protocol, Reconciliation)
        yield cluster, consumer, protocol


Known = tuple[LogCluster, KafkaConsumer, Reconciliation]


def test_assigned_partitions_of_unsubscribed_topics_are_not_taken(known: Known) -> None:
    cluster, consumer, reconciliation = known
    ids = {name: topic.topic_id for name, topic in cluster.topics.items()}
    target = Target(1, {ids["orders"]: frozenset({0}), ids["bills"]: frozenset({0})})
    assert reconciliation._reconcile(target, 0)
    assert consumer.assignment() == {TopicPartition("orders", 0)}


def test_partition_of_a_recreated_topic_is_a_new_partition(known: Known) -> None:
    cluster, consumer, reconciliation = known
    assert reconciliation._reconcile(Target(1, {cluster.topics["orders"].topic_id: frozenset({0})}), 0)
    reconciliation._ids[TopicPartition("orders", 0)] = b"x" * 16  # it was of the topic of before
    assert reconciliation._reconcile(Target(2, {cluster.topics["orders"].topic_id: frozenset({0})}), 0)
    assert consumer._core.subscription.held(Hold.REVOKING) == [TopicPartition("orders", 0)]


def test_partitions_of_unsubscribed_topics_are_revoked_before_a_new_assignment(
    known: Known,
) -> None:
    cluster, consumer, reconciliation = known
    target = Target(1, {cluster.topics[name].topic_id: frozenset({0}) for name in ("orders", "bills")})
    consumer.subscribe(["orders", "bills"])
    assert [reconciliation._reconcile(target, 0) for _ in range(3)] == [True, False, False]
    consumer._core.subscription.subscribe(["orders"])
    assert reconciliation._reconcile(target, 0)
    assert consumer._core.subscription.held(Hold.REVOKING) == [TopicPartition("bills", 0)]
    assert consumer._core.subscription.held(Hold.OWNED) == [TopicPartition("orders", 0)]


def test_assigned_partition_without_metadata_is_kept(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, consumer, reconciliation = known
    orders, bills = (cluster.topics[name].topic_id for name in ("orders", "bills"))
    consumer.subscribe(["orders", "bills"])
    assert reconciliation._reconcile(Target(1, {orders: frozenset({0})}), 0)
    name_of = reconciliation._metadata.topic_name
    monkeypatch.setattr(
        reconciliation._metadata, "topic_name", lambda one: None if one == orders else name_of(one)
    )
    assert reconciliation._reconcile(Target(2, {orders: frozenset({0}), bills: frozenset({0})}), 0)
    assert consumer.assignment() == {TopicPartition("orders", 0), TopicPartition("bills", 0)}
    assert consumer._core.subscription.held(Hold.REVOKING) == []
    assert reconciliation.unnamed_topics == frozenset()


def test_expelled_member_awaits_no_topic_names_and_a_refused_one_subscribes_once(known: Known) -> None:
    _, consumer, reconciliation = known
    assert consumer._core.group is not None
    reconciliation._await_names(frozenset({b"?" * 16}))
    reconciliation.forget()
    assert reconciliation.unnamed_topics == frozenset()
    consumer._core.group.membership.state = MemberState.FATAL
    reconciliation.subscribed()
    reconciliation._send_subscription(0)
    assert not reconciliation._has_resubscribed, "the next refusal is raised"
    consumer._core.group.membership.state = MemberState.UNSUBSCRIBED


def strike(*said: object) -> None:
    raise KeyboardInterrupt


def test_join_interrupted_by_ctrl_c_is_not_awaited(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C came first: the next look asks for it."""
    cluster, consumer, reconciliation = known
    assert consumer._core.group is not None
    membership = consumer._core.group.membership
    monkeypatch.setattr(membership, "join", strike)
    with pytest.raises(KeyboardInterrupt):
        reconciliation.step(0)
    monkeypatch.undo()
    reconciliation.step(0)
    cluster.runtime.run_for(0.01)
    assert membership.state is MemberState.JOINING


def test_leave_interrupted_by_ctrl_c_keeps_the_membership(
    known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Ctrl-C came first: the assigned partitions are read further, or no member would read them."""
    cluster, consumer, reconciliation = known
    assert consumer._core.group is not None
    membership = consumer._core.group.membership
    assert isinstance(membership, ConsumerMembership)
    membership.target = Target(1, {cluster.topics["orders"].topic_id: frozenset({0})})

    monkeypatch.setattr(membership, "leave", strike)
    with pytest.raises(KeyboardInterrupt):
        reconciliation.leave("unsubscribed", lambda error: None, None)
    monkeypatch.undo()
    assert reconciliation.step(0)
    assert consumer.assignment() == {TopicPartition("orders", 0)}
