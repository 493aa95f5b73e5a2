"""The options of members: what each makes a consumer say to its coordinator, or do."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import KafkaConsumer
from pykafka2.consumer.assignors.wire_format import read_subscription
from pykafka2.consumer.group.classic.rebalance import Rebalance
from pykafka2.errors import ConfigurationError, IllegalArgument, IllegalState
from pykafka2.protocol.messages.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest
from pykafka2.testing import Simulation
from pykafka2.types import TopicPartition
from tests.cluster.scripted import BOOTSTRAP, ScriptedCluster
from tests.consumer.group.life import Group

pytestmark = pytest.mark.slow


def test_join_request_has_the_member_options(simulation: Simulation) -> None:
    group = Group(
        simulation,
        session_timeout_ms=7_000,
        max_poll_interval_ms=23_000,
        group_instance_id="till-1",
        client_rack="cellar",
        partition_assignment_strategy=["roundrobin", "cooperative-sticky", "sticky"],
    )
    member = group.member("a")
    group.settle()
    joined = group.cluster.history.requests(JoinGroupRequest)[-1]
    assert (joined.group_id, joined.group_instance_id) == ("g", "till-1")
    assert joined.session_timeout_ms == 7_000
    assert joined.rebalance_timeout_ms == 23_000, "the others wait as long as it may take between two polls"
    assert [one.name for one in joined.protocols] == ["roundrobin", "cooperative-sticky", "sticky"]
    for protocol in joined.protocols:
        assert read_subscription(bytes(protocol.metadata)).rack == "cellar"
    member.consumer.close(leave_group=True)
    (left,) = group.cluster.history.requests(LeaveGroupRequest)
    assert left.members[0].reason == "the consumer is closed"


@pytest.mark.gate
@pytest.mark.parametrize("interval_ms", [200, 1000])
def test_heartbeats_follow_heartbeat_interval_ms(simulation: Simulation, interval_ms: int) -> None:
    group = Group(simulation, heartbeat_interval_ms=interval_ms)
    group.member("a")
    group.settle()
    group.cluster.history.clear()
    group.turn(5)
    assert abs(group.cluster.history.count(HeartbeatRequest) - 5000 // interval_ms) <= 1


def test_each_consumer_has_assignors_of_its_own(simulation: Simulation) -> None:
    group = Group(simulation, partition_assignment_strategy="sticky")
    first, second = group.member("a"), group.member("b")
    assert first.consumer._core.group is not None
    assert second.consumer._core.group is not None
    ours, theirs = (one.consumer._core.group.rebalance.protocol for one in (first, second))
    assert isinstance(ours, Rebalance)
    assert isinstance(theirs, Rebalance)
    assert ours._assignors.assignors[0] is not theirs._assignors.assignors[0]


# ---------------------------------------------------------------------------------------- bad input


def consumer(*topics: str, **options: Any) -> KafkaConsumer:
    runtime: Any = ScriptedCluster(1, {"orders": [0]}).runtime
    return KafkaConsumer(*topics, runtime=runtime, bootstrap_servers=BOOTSTRAP, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group_id": "g", "partition_assignment_strategy": "rnage"}, "'rnage'; the nearest is 'range'"),
        ({"group_id": "g", "partition_assignment_strategy": []}, "a group needs an assignor"),
        ({"group_id": "g", "session_timeout": 3}, "session_timeout_ms"),
        (
            {"group_instance_id": "till-1"},
            "group_instance_id='till-1' needs a group_id",
        ),
        ({"heartbeat_interval_ms": 500}, "heartbeat_interval_ms=500 needs a group_id"),
    ],
)
def test_invalid_group_options_are_rejected_at_construction(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        consumer("orders", **options)


def test_subscribing_and_assigning_exclude_each_other() -> None:
    with consumer("orders", group_id="g") as one:
        with pytest.raises(IllegalState, match="unsubscribe"):
            one.assign([TopicPartition("orders", 0)])
        with pytest.raises(IllegalState, match="not both"):
            one.subscribe(["orders"], pattern="ord.*")
        with pytest.raises(IllegalArgument, match="on_assigned"):
            one.subscribe(["orders"], listener=object())
        assert one.subscription() == {"orders"}, "nothing of it has counted"
        one.unsubscribe()
        one.assign([TopicPartition("orders", 0)])
        with pytest.raises(IllegalState, match="unsubscribe"):
            one.subscribe(["orders"])
        with pytest.raises(IllegalState, match="subscribe"):
            one.enforce_rebalance()
