"""Members that join, leave, stall and die: what the others own, and the calls of each listener; in virtual
time.
"""

from __future__ import annotations

import pytest

from pykafka2.errors import CommitFailed, CoordinatorNotAvailable, IllegalState, UnknownMemberId
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest, OffsetFetchRequest
from pykafka2.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import Simulation
from pykafka2.types import TopicPartition
from tests.consumer.group.life import Group
from tests.gate import rest_in_gate

pytestmark = pytest.mark.slow


def test_a_member_joins_reads_and_leaves(simulation: Simulation) -> None:
    group = Group(simulation)
    values = group.produce(60)
    member = group.member("a")
    group.settle()
    group.turn(1)
    assert sorted(member.read) == sorted(values)
    history = group.cluster.history
    assert history.count(JoinGroupRequest) == 2, "one to get an id, one with it"
    assert history.count(SyncGroupRequest) == 1
    member.consumer.close()
    assert member.what("assigned", "revoked") == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
    assert group.cluster.group("g").members == {}
    assert set(group.cluster.group("g").offsets.values()) == {10}


def test_a_new_member_asks_in_this_order(simulation: Simulation) -> None:
    group = Group(simulation)
    group.produce(60)
    group.member("a")
    group.settle()
    group.turn(1)
    group.cluster.history.order(
        MetadataRequest,
        FindCoordinatorRequest,
        JoinGroupRequest,
        JoinGroupRequest,
        SyncGroupRequest,
        OffsetFetchRequest,
        FetchRequest,
        HeartbeatRequest,
        client_id="a",
    )


@pytest.mark.gate
def test_a_hundred_members_make_one_generation_and_a_late_one_adds_one(simulation: Simulation) -> None:
    group = Group(simulation, {"orders": 120}, config={"group.initial.rebalance.delay.ms": 3000})
    members = [group.member() for _ in range(100)]
    group.settle(120)
    assert {member.health()["generation"] for member in members} == {1}
    assert sorted({len(member.owned) for member in members}) == [1, 2]
    group.member("late")
    group.settle(120)
    assert {member.health()["generation"] for member in group.members} == {2}


def test_members_share_the_partitions_as_they_come_and_go(simulation: Simulation) -> None:
    group = Group(simulation)
    first = group.member("a")
    group.settle()
    second, third = group.member("b"), group.member("c")
    group.settle()
    assert sorted(len(one.owned) for one in group.members) == [2, 2, 2]
    second.consumer.close()
    group.members.remove(second)
    assert group.settle() < 2, "a LeaveGroup is not retried until the session ends"
    assert sorted(len(one.owned) for one in (first, third)) == [3, 3]


@pytest.mark.gate
def test_member_without_partitions_stays_and_takes_over(simulation: Simulation) -> None:
    group = Group(simulation, {"orders": 1})
    owner = group.member("a")
    group.settle()
    group.produce(3)
    spare = group.member("b")
    group.turn_until(lambda: spare.health()["state"] == "stable")
    group.turn(8)  # longer than a session
    assert (spare.what("assigned"), spare.read) == ([[]], []), "no callback, and no record read"
    assert spare.health()["state"] == "stable"
    owner.consumer.close()
    group.members.remove(owner)
    group.settle()
    group.produce(2, start=3)
    group.turn_until(lambda: len(spare.read) == 2)
    assert owner.read + spare.read == [b"%d" % number for number in range(5)]


@pytest.mark.gate
def test_committed_records_of_one_member_are_not_read_by_the_next(simulation: Simulation) -> None:
    group = Group(simulation)
    values = group.produce(600)
    first = group.member("a", max_poll_records=7)
    group.turn_until(lambda: len(first.read) > 100)
    second = group.member("b", max_poll_records=7)
    group.turn_until(lambda: len(first.read) + len(second.read) >= 600)
    group.turn(2)
    assert sorted(first.read + second.read) == sorted(values), "each once"


@pytest.mark.gate
def test_crashed_member_is_replaced_after_its_session_timeout(simulation: Simulation) -> None:
    group = Group(simulation)
    dead = group.member("a")
    alive = group.member("b")
    group.settle()
    dead.crash()
    assert 5 < group.settle() < 8
    assert len(alive.owned) == 6


@pytest.mark.gate
def test_heartbeats_continue_while_the_application_computes(simulation: Simulation) -> None:
    group = Group(simulation)
    busy, other = group.member("a"), group.member("b")
    group.settle()
    before = len(busy.calls)
    busy.is_stalled = True
    group.turn(20)
    assert len(busy.owned) == len(other.owned) == 3
    assert len(group.cluster.group("g").members) == 2
    busy.is_stalled = False
    group.turn(1)
    assert len(busy.calls) == before, "nothing has happened to it"


@pytest.mark.gate
def test_member_past_max_poll_interval_leaves_and_its_commit_names_the_gap(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    group = Group(simulation, max_poll_interval_ms=10_000)
    slow, other = group.member("a"), group.member("b")
    group.produce(60)
    group.settle()
    slow.calls.clear()
    slow.is_stalled = True
    group.turn_until(lambda: len(other.owned) == 6, 12)
    assert "longer than max_poll_interval_ms=10000" in caplog.text
    leaves = group.cluster.history.requests(LeaveGroupRequest, client_id="a")
    assert len(leaves) == 1
    group.turn(3)
    with pytest.raises(
        CommitFailed, match=r"poll\(\) was not called for 10\.\d s, .*max_poll_interval_ms=10000"
    ):
        slow.consumer.commit({TopicPartition("orders", 0): 3})
    slow.is_stalled = False
    group.settle()
    assert [call.what for call in slow.calls] == ["lost", "assigned"]
    assert len(slow.owned) == 3


def test_a_poll_during_a_rebalance_ends_in_time(simulation: Simulation) -> None:
    group = Group(simulation)
    first, second = group.member("a"), group.member("b")
    group.settle()
    third = group.member("c")
    for timeout_ms in (0, 1, 50, 700):
        for member in (first, third):
            before = group.now
            member.poll(timeout_ms)
            assert group.now - before <= timeout_ms / 1000 + 0.001
    assert third.health()["state"] == "joining", "it waits for the one that does not poll"
    del second


def test_wakeup_ends_a_poll_that_waits_for_the_group(simulation: Simulation) -> None:
    group = Group(simulation)
    first = group.member("a")
    group.settle()
    second = group.member("b")
    simulation.spawn(lambda: (simulation.sleep(0.7), second.consumer.wakeup()))
    before = group.now
    assert second.consumer.poll(timeout_ms=float("inf")) == {}
    assert 0.6 < group.now - before < 0.8
    del first


@pytest.mark.gate
def test_iterating_takes_part_in_rebalances(simulation: Simulation) -> None:
    group = Group(simulation)
    values = group.produce(300)
    other = group.member("b")
    group.settle()
    iterating = group.member("a", consumer_timeout_ms=3000)
    found: list[bytes] = []

    def iterate() -> None:
        for record in iterating.consumer:
            found.append(record.value)
            simulation.sleep(0.02)

    actor = simulation.spawn(iterate)
    group.turn(11, other)
    actor.result()
    assert iterating.what("assigned") == [[0, 1, 2]]
    assert sorted(found + other.read) == sorted(values)


@pytest.mark.gate
def test_iteration_gives_partitions_back_between_two_records(simulation: Simulation) -> None:
    group = Group(simulation)
    values = group.produce(120)
    iterating = group.member("a", consumer_timeout_ms=5_000)
    found: list[bytes] = []

    def iterate() -> None:
        for record in iterating.consumer:
            found.append(record.value)
            simulation.sleep(0.05)

    actor = simulation.spawn(iterate)
    simulation.sleep(2)
    other = group.member("b")
    group.turn_until(lambda: bool(other.owned), 3, other)
    group.turn(12, other)
    actor.result()
    assert sorted(found + other.read) == sorted(values), "each once: only what was yielded was committed"


def test_exception_of_a_listener_is_raised_by_poll(simulation: Simulation) -> None:
    group = Group(simulation)
    group.produce(60)
    member = group.member("a")

    def fail(what: str, partitions: list[TopicPartition]) -> None:
        raise LookupError(what)

    member.in_listener = fail
    with pytest.raises(LookupError, match="assigned"):
        group.turn(5)
    group.turn(1)
    assert len(member.read) == 60, "it goes on"
    other = group.member("b")
    with pytest.raises(LookupError, match="revoked") as raised:
        group.turn(5)
    [note] = raised.value.__notes__
    assert note.startswith("raised by the rebalance listener ")
    assert note.endswith("revoked for revoked partitions")
    with pytest.raises(LookupError, match="assigned"):
        group.turn(5, member)
    member.in_listener = lambda what, partitions: None
    group.settle()
    assert len(other.owned) == 3


def test_a_listener_may_use_the_consumer(simulation: Simulation) -> None:
    group = Group(simulation, enable_auto_commit=False)
    group.produce(60)
    member = group.member("a")
    consumer = member.consumer

    def use(what: str, partitions: list[TopicPartition]) -> None:
        if what == "assigned" and partitions:
            consumer.seek(partitions[0], 7)
            assert consumer.position(partitions[1]) == 0
            consumer.pause(partitions[2])
            assert consumer.assignment() == set(partitions)
        if what == "revoked":
            consumer.commit()
        with pytest.raises(IllegalState, match="listener"):
            consumer.poll()

    member.in_listener = use
    group.settle()
    group.turn(1)
    assert len(member.read) == 60 - 7 - 10
    consumer.close()
    offsets = group.cluster.group("g").offsets
    assert offsets[TopicPartition("orders", 0)] == 10
    assert TopicPartition("orders", 2) not in offsets or offsets[TopicPartition("orders", 2)] == 0


def test_on_assigned_and_on_revoked_functions_are_called(simulation: Simulation) -> None:
    group = Group(simulation)
    member = group.member("a", subscribes=False)
    calls: list[tuple[str, int]] = []
    member.consumer.subscribe(
        ["orders"],
        on_assigned=lambda partitions: calls.append(("assigned", len(partitions))),
        on_revoked=lambda partitions: calls.append(("revoked", len(partitions))),
    )
    for _ in range(20):
        member.consumer.poll(50)
    member.consumer.close()
    assert calls == [("assigned", 6), ("revoked", 6)]


def test_unsubscribing_leaves_and_subscribing_again_joins(simulation: Simulation) -> None:
    group = Group(simulation)
    member, other = group.member("a"), group.member("b")
    group.settle()
    member.consumer.unsubscribe()
    assert member.what("revoked")[-1] == [0, 1, 2]
    assert member.consumer.assignment() == set()
    group.turn_until(lambda: len(other.owned) == 6, 3)
    assert member.health()["state"] == "out"
    member.consumer.subscribe(["orders"], listener=member)
    group.settle()
    assert len(member.owned) == 3


def test_unsubscribe_waits_at_most_a_few_seconds_for_stopped_brokers(
    simulation: Simulation,
) -> None:
    group = Group(simulation)
    member = group.member("a")
    group.settle()
    for broker in (0, 1):
        group.cluster.controls.crash_broker(broker)
    began = group.now
    member.consumer.unsubscribe()
    assert group.now - began <= 5.5
    assert member.consumer.assignment() == set()


def test_another_subscription_is_taken_to_the_group(simulation: Simulation) -> None:
    group = Group(simulation, {"orders": 4, "refunds": 2})
    member = group.member("a")
    group.settle()
    member.consumer.subscribe(["refunds", "orders"], listener=member)
    group.settle()
    assert len(member.owned) == 6
    member.consumer.subscribe(["refunds"], listener=member)
    group.settle()
    assert {partition.topic for partition in member.owned} == {"refunds"}


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_topics_that_are_left_out_while_the_member_joins_are_not_taken_on(
    simulation: Simulation, strategy: str
) -> None:
    group = Group(simulation, {"orders": 2, "refunds": 2}, partition_assignment_strategy=strategy)
    group.cluster.controls.hold(SyncGroupRequest, times=1)
    member = group.member("a")
    group.turn_until(lambda: member.health()["state"] == "syncing", 10)
    member.consumer.subscribe(["refunds"], listener=member)
    group.cluster.controls.release()
    group.settle()
    assert member.what("revoked") == []
    assert {one.topic for call in member.calls for one in call.partitions} == {"refunds"}


@pytest.mark.gate
def test_partitions_that_are_added_are_shared_out(simulation: Simulation) -> None:
    group = Group(simulation, metadata_max_age_ms=2000)
    group.member("a"), group.member("b")
    group.settle()
    group.add_partitions("orders", 10)
    assert group.settle() < 6
    assert sorted(len(one.owned) for one in group.members) == [5, 5]


@pytest.mark.gate
def test_a_pattern_finds_topics_that_come_later(simulation: Simulation) -> None:
    group = Group(simulation, {"orders": 2, "other": 2}, metadata_max_age_ms=2000)
    members = [group.member(name, subscribes=False) for name in ("a", "b")]
    for member in members:
        member.consumer.subscribe(pattern="ord.*", listener=member)
    group.turn_until(lambda: sum(len(member.owned) for member in members) == 2)
    group.cluster.create_topic("ordinary", 4)
    group.counts["ordinary"] = 4
    group.turn_until(lambda: sum(len(member.owned) for member in members) == 6, 10)
    assert members[0].consumer.subscription() == {"orders", "ordinary"}
    group.cluster.delete_topic("orders")
    del group.counts["orders"]
    group.turn_until(lambda: sum(len(member.owned) for member in members) == 4, 15)


@pytest.mark.parametrize("was_subscribed", [True, False])
def test_a_pattern_is_joined_for_when_all_topics_are_known_and_not_for_those_that_happen_to_be(
    simulation: Simulation, was_subscribed: bool
) -> None:
    """Otherwise each member that requested a topic before would have made the whole group rebalance twice."""
    group = Group(simulation, {"orders": 2, "ordinary": 2})
    member = group.member("a", subscribes=was_subscribed)
    if was_subscribed:
        group.turn_until(lambda: len(member.owned) == 2, 10)
        member.calls.clear()
    else:
        assert member.consumer.partitions_for_topic("orders") == {0, 1}
    member.consumer.subscribe(pattern="ordi.*", listener=member)
    ordinary = {TopicPartition("ordinary", 0), TopicPartition("ordinary", 1)}
    group.turn_until(lambda: member.owned == ordinary, 10)
    assert member.what("assigned") == [[0, 1]]


@pytest.mark.gate
def test_enforce_rebalance_makes_the_leader_reassign(simulation: Simulation) -> None:
    group = Group(simulation)
    first, second = group.member("a"), group.member("b")
    group.settle()
    generation = first.health()["generation"]
    leader = first if first.health()["leading"] else second
    leader.consumer.enforce_rebalance("scales were wrong")
    group.turn(2)
    group.settle()
    assert first.health()["generation"] == generation + 1
    reasons = [request.reason for request in group.cluster.history.requests(JoinGroupRequest)]
    assert "scales were wrong" in reasons


@pytest.mark.parametrize("state", ["joining", "syncing", "stable"])
def test_close_ends_in_time_in_every_state(simulation: Simulation, state: str) -> None:
    group = Group(simulation)
    if state == "joining":
        other = group.member("b")
        group.settle()
        other.is_stalled = True
    member = group.member("a")
    if state == "syncing":
        group.cluster.controls.hold(SyncGroupRequest)
    for _ in range(100):
        member.poll()
        if member.health()["state"] == state:
            break
    assert member.health()["state"] == state
    before = group.now
    member.consumer.close(timeout=2)
    assert group.now - before <= 2.5
    group.simulation.sleep(1)
    clients = {one.client_id for one in group.cluster.group("g").members.values()}
    assert "a" not in clients, "it has left, overtaking its own join"


def test_closing_without_a_coordinator_ends_in_time(simulation: Simulation) -> None:
    group = Group(simulation)
    member = group.member("a")
    group.settle()
    for broker in range(2):
        group.cluster.controls.crash_broker(broker)
    before = group.now
    member.consumer.close(timeout=2)
    assert group.now - before <= 3
    assert member.what("revoked") == [[0, 1, 2, 3, 4, 5]]


def test_leaving_is_optional(simulation: Simulation) -> None:
    group = Group(simulation)
    member = group.member("a")
    group.settle()
    member.consumer.close(leave_group=False)
    assert len(group.cluster.group("g").members) == 1


def test_health_and_explain_describe_the_group(simulation: Simulation) -> None:
    group = Group(simulation)
    member = group.member("a")
    assert "not a member of group 'g'" in member.consumer.explain()
    group.settle()
    health = member.health()
    assert health["id"] == "g"
    assert health["state"] == "stable"
    assert health["generation"] == 1
    assert health["leading"]
    assert health["coordinator"] == group.cluster.coordinator("g")
    assert health["unfinished_rebalances"] == 0
    assert 0 <= health["last_heartbeat_age"] < 1
    assert 0 <= health["last_poll_age"] < 0.1
    assert "leads group 'g' in generation 1" in member.consumer.explain()
    group.member("b")
    group.turn(0.6, group.members[1])
    assert "rebalances: a heartbeat reported it" in member.consumer.explain()


@pytest.mark.gate
def test_explain_names_coordinator_and_other_members_while_a_join_waits(simulation: Simulation) -> None:
    """The leader of the last generation knows the others; everyone else knows only the coordinator."""
    group = Group(simulation)
    leader, slow = group.member("a"), group.member("b")
    group.settle()
    if not leader.health()["leading"]:
        leader, slow = slow, leader
    other_id = slow.health()["member_id"]
    slow.is_stalled = True
    new = group.member("c")
    group.turn_until(lambda: leader.health()["state"] == new.health()["state"] == "joining", 10)
    group.turn(3)
    number = group.cluster.coordinator("g")
    for one in (leader, new):
        explained = one.consumer.explain()
        assert f"for the coordinator, broker {number} at broker-{number}:" in explained
        since = one.health()["state_age"]
        assert 3 <= since < 10
        assert f"is joining group 'g' and has waited {since:.1f} s for" in explained
    generation = leader.health()["generation"]
    assert f"in generation {generation} the others were {other_id!r}" in leader.consumer.explain()
    assert "only the coordinator knows the members" in new.consumer.explain()


def test_explain_names_the_leader_that_has_not_assigned_yet(simulation: Simulation) -> None:
    group = Group(simulation)
    group.member("a"), group.member("b")
    group.settle()
    group.cluster.controls.hold(SyncGroupRequest)
    group.member("c")
    group.turn_until(lambda: all(one.health()["state"] == "syncing" for one in group.members), 10)
    group.turn(2)
    explained = {one.health()["member_id"]: one.consumer.explain() for one in group.members}
    leader_id = group.members[0].health()["leader_id"]
    assert leader_id in explained
    assert "leads group 'g' and has been assigning partitions for" in explained.pop(leader_id)
    assert len(explained) == 2
    for words in explained.values():
        assert f"for member {leader_id!r}, the leader of group 'g', to assign partitions" in words


def test_explain_names_the_silent_coordinator_of_a_kip_848_group(
    simulation: Simulation,
) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    cluster.controls.hold(ConsumerGroupHeartbeatRequest)
    consumer = simulation.consumer(cluster, "t", group_id="g", group_protocol="consumer")
    consumer.poll(3000)
    number = cluster.coordinator("g")
    explained = consumer.explain()
    assert f"for the coordinator, broker {number} at broker-{number}:" in explained
    assert "to answer its first heartbeat" in explained
    assert f"has waited {consumer.health()['group']['state_age']:.1f} s" in explained
    cluster.controls.clear()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_explain_names_the_reason_for_a_missing_coordinator(simulation: Simulation, protocol: str) -> None:
    """For example if __consumer_offsets cannot be created, which only a lookup reports."""
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    cluster.controls.rule(api=FindCoordinatorRequest, then=CoordinatorNotAvailable)
    consumer = simulation.consumer(cluster, "t", group_id="g", group_protocol=protocol)
    consumer.poll(3000)
    assert str(CoordinatorNotAvailable()) in consumer.explain()
    cluster.controls.clear()
    consumer.poll(3000)
    assert consumer.health()["group"]["coordinator_error"] is None
    consumer.close()


@pytest.mark.parametrize("call", rest_in_gate(["unsubscribe", "subscribe", "close"]))
@pytest.mark.parametrize("moment", rest_in_gate(["assigned", "revoked"]))
def test_listener_may_change_the_subscription(simulation: Simulation, call: str, moment: str) -> None:
    group = Group(simulation, {"orders": 6, "refunds": 2})
    member = group.member("a")
    other = group.member("b")
    if moment == "revoked":
        group.settle()
    done: list[str] = []

    def change(what: str, partitions: list[TopicPartition]) -> None:
        if what == moment and partitions and not done:
            done.append(what)
            if call == "subscribe":
                member.consumer.subscribe(["refunds"], listener=member)
            else:
                getattr(member.consumer, call)()

    member.in_listener = change
    if moment == "revoked":
        group.member("c")
    group.turn_until(lambda: bool(done), 10)
    if call == "subscribe":
        group.settle()
        assert {partition.topic for partition in member.owned} == {"refunds"}
        return
    assert member.owned == set()
    group.members.remove(member)
    group.settle()
    group.turn(1)
    clients = {one.client_id for one in group.cluster.group("g").members.values()}
    assert "a" not in clients
    assert "b" in clients
    del other


@pytest.mark.gate
def test_pending_revocation_is_forgotten_with_the_membership(simulation: Simulation) -> None:
    cooperative = {"partition_assignment_strategy": "cooperative-sticky"}
    group = Group(simulation, max_poll_interval_ms=5_000, **cooperative)
    first = group.member("a")
    group.settle()
    group.turn(1)
    group.produce(60)
    group.turn(1)
    group.cluster.controls.hold(OffsetCommitRequest)
    group.member("b")
    group.turn_until(lambda: "revoked as soon as" in first.consumer.explain(), 5)
    first.is_stalled = True
    group.turn(8)
    group.cluster.controls.release(OffsetCommitRequest)
    group.cluster.controls.clear()
    first.resume()
    group.settle()
    joins = group.cluster.history.count(JoinGroupRequest)
    group.turn(3)
    assert group.cluster.history.count(JoinGroupRequest) == joins, "no member rebalances without a reason"


@pytest.mark.gate
def test_former_leader_requests_only_the_topics_that_it_reads(simulation: Simulation) -> None:
    group = Group(simulation, {"orders": 2, "refunds": 2, "bills": 2}, metadata_max_age_ms=2000)
    leader, other = group.member("a", ["orders"]), group.member("b", ["refunds", "bills"])
    group.settle()
    assert leader.consumer._core.group.membership.is_leading  # type: ignore[union-attr]
    leader.consumer.unsubscribe()
    leader.consumer.assign([TopicPartition("orders", 0)])
    group.cluster.history.clear()
    for _ in range(20):
        leader.consumer.poll(1000)
        other.consumer.poll(0)
    requests = group.cluster.history.requests(MetadataRequest, client_id="a")
    assert requests
    assert {topic.name for request in requests for topic in request.topics or []} == {"orders"}


@pytest.mark.gate
def test_leader_does_not_recreate_deleted_topics_that_other_members_unsubscribed(
    simulation: Simulation,
) -> None:
    """Metadata requests create the topics that they name (allow_auto_create_topics)."""
    group = Group(simulation, {"orders": 2, "refunds": 2, "bills": 2, "notes": 2}, metadata_max_age_ms=2000)
    leader, other = group.member("a", ["orders"]), group.member("b", ["refunds", "bills"])
    group.settle()
    assert leader.consumer._core.group.membership.is_leading  # type: ignore[union-attr]
    other.consumer.subscribe(["notes"], listener=other)
    group.settle()
    for topic in ("refunds", "bills"):
        group.cluster.delete_topic(topic)
    group.cluster.history.clear()
    group.turn(20)
    requests = group.cluster.history.requests(MetadataRequest)
    assert requests
    assert {topic.name for request in requests for topic in request.topics or []} == {"orders", "notes"}
    leader.consumer.close()
    group.members.remove(leader)
    group.turn_until(lambda: other.consumer._core.group.membership.is_leading)  # type: ignore[union-attr]
    group.cluster.history.clear()
    group.turn(10)
    requests = group.cluster.history.requests(MetadataRequest)
    assert {topic.name for request in requests for topic in request.topics or []} == {"notes"}


@pytest.mark.gate
@pytest.mark.parametrize("end", ["follower", "unsubscribe"])
def test_former_leader_does_not_request_the_topics_of_the_other_members(
    simulation: Simulation, end: str
) -> None:
    group = Group(simulation, {"orders": 2, "refunds": 2, "bills": 2}, metadata_max_age_ms=2000)
    first, other = group.member("a", ["orders"]), group.member("b", ["refunds", "bills"])
    group.settle()
    assert first.consumer._core.group.membership.is_leading  # type: ignore[union-attr]
    if end == "follower":
        group.cluster.controls.fail_next(JoinGroupRequest, UnknownMemberId, client_id="a")
        first.consumer.enforce_rebalance()
    else:
        group.members.remove(first)
        first.consumer.unsubscribe()
        first.consumer.assign([TopicPartition("orders", 0)])
    group.turn_until(lambda: other.consumer._core.group.membership.is_leading, 60)  # type: ignore[union-attr]
    group.settle()
    group.cluster.history.clear()
    for _ in range(5):
        group.turn(2)
        first.consumer.poll(100)
    requests = group.cluster.history.requests(MetadataRequest, client_id="a")
    assert requests
    assert {topic.name for request in requests for topic in request.topics or []} == {"orders"}
