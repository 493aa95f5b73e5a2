"""Reactions to each error of the coordinator: a silent retry, or an error with advice."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidGroupId,
    InvalidRegularExpression,
    InvalidRequest,
    NotCoordinator,
    StaleMemberEpoch,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnknownServerError,
    UnreleasedInstanceId,
    UnsupportedAssignor,
    UnsupportedVersion,
)
from pykafka2.protocol.messages.committed_offsets import OffsetFetchRequest
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.testing import Simulation
from pykafka2.types import SubscriptionPattern
from tests.consumer.commit.scripted_coordinator import FIND_COORDINATOR, OldCluster
from tests.consumer.group.kip848.groups import BEATS, beats, consumer_group

pytestmark = pytest.mark.slow

HEARTBEAT = 68
LONG_SESSION = {"group.consumer.session.timeout.ms": 45_000}

PASSING: list[tuple[Any, type[BrokerError]]] = [
    (FindCoordinatorRequest, CoordinatorNotAvailable),
    (FindCoordinatorRequest, CoordinatorLoadInProgress),
    (BEATS, CoordinatorLoadInProgress),
    (BEATS, CoordinatorNotAvailable),
    (BEATS, NotCoordinator),
    (BEATS, UnknownMemberId),
    (BEATS, FencedMemberEpoch),
    (OffsetFetchRequest, StaleMemberEpoch),
    (OffsetFetchRequest, UnknownMemberId),
]


def names(value: object) -> str | None:
    return value.__name__.removesuffix("Request") if isinstance(value, type) else None


@pytest.mark.parametrize(("request_type", "error"), PASSING, ids=names)
def test_retriable_error_of_the_first_heartbeats_is_not_raised(
    simulation: Simulation, request_type: Any, error: type[BrokerError]
) -> None:
    group = consumer_group(simulation)
    group.produce(30)
    rule = group.cluster.controls.fail_next(request_type, error, times=2)
    member = group.member("a")
    group.turn_until(lambda: rule.fired == 2, 10)
    group.settle(10)
    group.turn_until(lambda: len(set(member.read)) == 30, 10)
    assert member.errors == []
    assert "lost" not in {call.what for call in member.calls}


@pytest.mark.parametrize(
    "error", [CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator], ids=names
)
def test_retriable_error_of_later_heartbeats_loses_no_partition(
    simulation: Simulation, error: type[BrokerError]
) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    group.settle()
    rule = group.cluster.controls.fail_next(BEATS, error, times=3)
    group.turn_until(lambda: rule.fired == 3, 10)
    group.turn(1)
    assert member.errors == []
    assert [call.what for call in member.calls] == ["assigned"]
    said = [one for one in beats(group) if one.member_epoch > 0 and one.rebalance_timeout_ms > 0]
    assert said, "all fields are sent again, as the earlier request may not have arrived"
    assert said[-1].subscribed_topic_names == ["orders"]


@pytest.mark.parametrize("error", [UnknownMemberId, FencedMemberEpoch, GroupIdNotFound], ids=names)
def test_expelled_member_loses_its_partitions_and_rejoins(
    simulation: Simulation, error: type[BrokerError]
) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    group.produce(30)
    group.settle()
    group.turn_until(lambda: len(set(member.read)) == 30, 10)
    member.calls.clear()
    group.cluster.controls.fail_next(BEATS, error)
    group.turn_until(lambda: len(member.calls) >= 2, 10)
    group.settle()
    assert [call.what for call in member.calls][:2] == ["lost", "assigned"]
    assert member.what("lost") == [[0, 1, 2, 3, 4, 5]]
    assert member.errors == []
    assert [one.member_epoch for one in beats(group)].count(0) == 2


FATAL: list[tuple[type[BrokerError], str]] = [
    (FencedInstanceId, "group_instance_id=None"),
    (GroupAuthorizationFailed, "ask for an ACL that allows READ"),
    (GroupIdNotFound, "group.consumer.migration.policy"),
    (GroupMaxSizeReached, "group.consumer.max.size"),
    (InvalidGroupId, "must not be empty"),
    (InvalidRegularExpression, "in RE2 syntax"),
    (InvalidRequest, "parts contradict each other"),
    (UnreleasedInstanceId, "or wait for the session timeout"),
    (UnsupportedAssignor, "group.consumer.assignors"),
    (UnsupportedVersion, "group_protocol='classic' until the cluster is at 4.0"),
]


@pytest.mark.parametrize(("error", "words"), FATAL, ids=names)
def test_fatal_heartbeat_error_is_raised_until_the_subscription_changes(
    simulation: Simulation, error: type[BrokerError], words: str
) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    group.cluster.controls.fail_next(BEATS, error)
    group.turn_until(lambda: len(member.errors) == 3, 10)
    assert {type(one) for one in member.errors} == {error}, "again and again: it is never alive and stuck"
    with pytest.raises(error, match=words):
        raise member.errors[0]
    assert len(beats(group)) == 1
    assert member.health()["state"] == "fatal"
    assert "subscribe()" in member.consumer.explain()
    member.consumer.subscribe(["orders"], listener=member)
    group.settle(5)
    assert len(member.errors) == 3


def test_fatal_error_is_not_raised_again_after_unsubscribe(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    group.cluster.controls.fail_next(BEATS, GroupMaxSizeReached)
    group.turn_until(lambda: len(member.errors) == 1, 10)
    member.consumer.unsubscribe()
    assert member.health()["failure"] is None
    member.consumer.subscribe(["orders"], listener=member)
    group.settle(5)
    assert len(member.errors) == 1


def test_a_member_that_is_refused_for_good_loses_its_partitions_first(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    group.settle()
    group.cluster.controls.fail_next(BEATS, GroupAuthorizationFailed)
    group.turn_until(lambda: bool(member.errors), 10)
    assert [call.what for call in member.calls] == ["assigned", "lost"]
    assert member.consumer.assignment() == set()


@pytest.mark.parametrize("error", [TopicAuthorizationFailed, UnknownServerError], ids=names)
def test_authorization_error_is_raised_and_retried(simulation: Simulation, error: type[BrokerError]) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    rule = group.cluster.controls.fail_next(BEATS, error, times=2)
    group.turn_until(lambda: rule.fired == 2, 5)
    group.settle(5)
    assert {type(one) for one in member.errors} <= {error}
    assert member.errors


def test_coordinator_without_kip_848_raises_unsupported_version(simulation: Simulation) -> None:
    group = consumer_group(simulation, config={"group.coordinator.rebalance.protocols": "classic"})
    member = group.member("a")
    group.turn_until(lambda: bool(member.errors), 10)
    with pytest.raises(UnsupportedVersion, match=r"does not support the protocol of KIP-848.*'classic'"):
        raise member.errors[0]


@pytest.mark.parametrize("heartbeats", [None, (0, 0)], ids=["none", "without patterns"])
def test_brokers_without_the_heartbeat_api_raise_unsupported_version(
    heartbeats: tuple[int, int] | None,
) -> None:
    cluster = OldCluster({FIND_COORDINATOR: (0, 3)})
    versions = cluster.brokers[0].versions
    versions.pop(HEARTBEAT)
    if heartbeats is not None:
        versions[HEARTBEAT] = heartbeats
    with cluster.consumer(group_id="old", group_protocol="consumer") as consumer:
        if heartbeats:
            consumer.subscribe(pattern=SubscriptionPattern("ord.*"))
            words = r"cannot resolve a SubscriptionPattern.*re\.compile"
        else:
            consumer.subscribe(["orders"])
            words = r"does not support the protocol of KIP-848.*'classic'"
        for _ in range(2):
            with pytest.raises(UnsupportedVersion, match=words):
                consumer.poll(5000)


def test_an_assignor_that_the_brokers_lack_is_named(simulation: Simulation) -> None:
    group = consumer_group(simulation, group_remote_assignor="mine")
    member = group.member("a")
    group.turn_until(lambda: bool(member.errors), 10)
    with pytest.raises(UnsupportedAssignor, match="group_remote_assignor='mine'"):
        raise member.errors[0]


def test_a_full_group_is_named(simulation: Simulation) -> None:
    group = consumer_group(simulation, config={"group.consumer.max.size": 1})
    group.member("a")
    group.settle()
    second = group.member("b")
    group.turn_until(lambda: bool(second.errors), 10)
    with pytest.raises(GroupMaxSizeReached, match=r"group\.consumer\.max\.size"):
        raise second.errors[0]


@pytest.mark.parametrize("times", [1, 2])
def test_lost_heartbeat_responses_are_retried(simulation: Simulation, times: int) -> None:
    group = consumer_group(simulation, request_timeout_ms=1000)
    group.produce(30)
    group.cluster.controls.lose_reply(BEATS, times=times)
    member = group.member("a")
    group.settle(20)
    group.turn_until(lambda: len(set(member.read)) == 30, 10)
    other = group.member("b")
    group.cluster.controls.lose_reply(BEATS, times=times)
    group.settle(20)
    assert member.errors == other.errors == []
    assert len(group.cluster.group("g").members) == 2


@pytest.mark.gate
def test_coordinator_slower_than_the_heartbeat_interval_is_waited_for(simulation: Simulation) -> None:
    group = consumer_group(simulation, config={"group.consumer.heartbeat.interval.ms": 300, **LONG_SESSION})
    values = group.produce(30)
    group.cluster.controls.delay(BEATS, 3.0)
    group.member("a")
    group.settle(30)
    group.member("b")
    group.settle(60)
    group.turn_until(lambda: {one for member in group.members for one in member.read} == set(values), 10)
    assert [member.errors for member in group.members] == [[], []]
