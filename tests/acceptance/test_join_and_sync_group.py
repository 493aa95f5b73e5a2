"""The two phases of a rebalance, JoinGroup and SyncGroup.

Three members on three partitions: the id is refused, then given; the first is leader and alone learns of the
others; generation 1 after the initial wait; each partition has one owner.  A fourth member idles.  (Beside
Apache Kafka: `group_of_three_and_a_fourth` in tests/conformance/behaviour/on_groups_by_call.py, and other
people's clients in tests/conformance/test_other_clients.py.)
"""

from __future__ import annotations

import pytest

from pykafka2.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pykafka2.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignmentTopicPartition as TopicAssignment,
)
from pykafka2.protocol.messages.group import JoinGroupResponse
from pykafka2.testing.simulation import Simulation
from pykafka2.types import TopicPartition
from tests.broker.support.bench import ClusterBench, Reply, subscription
from tests.error_codes import MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS

TOPIC = "refunds"  # of three partitions
OFFERED = {"range": subscription(TOPIC)}


def joined(reply: Reply[JoinGroupResponse]) -> JoinGroupResponse:
    assert reply.response is not None
    assert reply.response.error_code == 0
    return reply.response


def one_each(members: list[str]) -> dict[str, bytes]:
    """The assignment of a leader's assignor: one partition for each member, none for the fourth."""
    assigned: dict[str, bytes] = {}
    for number, member in enumerate(members):
        own = [TopicAssignment(topic=TOPIC, partitions=[number])] if number < 3 else []
        assigned[member] = b"\0\0" + ConsumerProtocolAssignment(assigned_partitions=own).encode(0)
    return assigned


def sync_all(bench: ClusterBench, answers: list[JoinGroupResponse]) -> None:
    """The second phase: the leader sends all assignments, and each member receives its own."""
    leader = next(one for one in answers if one.leader == one.member_id)
    assignments = one_each([one.member_id for one in leader.members])
    replies = [
        bench.sync(
            one.member_id,
            one.generation_id,
            assignments if one is leader else None,
            protocol=one.protocol_name,
        )
        for one in answers
    ]
    bench.advance(0.1)
    for one, reply in zip(answers, replies, strict=True):
        assert reply.response is not None
        assert (reply.response.error_code, reply.response.assignment) == (0, assignments[one.member_id])


def owners(bench: ClusterBench) -> dict[TopicPartition, list[str]]:
    """The owner of each partition, from the coordinator's point of view."""
    found: dict[TopicPartition, list[str]] = {TopicPartition(TOPIC, number): [] for number in range(3)}
    for member in bench.group.members.values():
        for partition in member.assignment:
            found[partition].append(member.id)
    return found


@pytest.mark.parametrize("brokers", [1, 3])
def test_three_members_share_three_partitions_and_a_fourth_idles(
    simulation: Simulation, brokers: int
) -> None:
    bench = ClusterBench(simulation, brokers=brokers)

    refused = [bench.join(protocols=OFFERED).response for _ in range(3)]
    assert all(one is not None and one.error_code == MEMBER_ID_REQUIRED for one in refused)
    ids = [one.member_id for one in refused if one is not None]
    assert len(set(ids)) == 3

    started = simulation.now
    joins = [bench.join(ids[0], protocols=OFFERED)]
    for member in ids[1:]:
        bench.advance(2.0)  # within the initial wait, which is extended for each
        joins.append(bench.join(member, protocols=OFFERED))
        assert not joins[0].is_done
    while not joins[0].is_done:
        bench.advance(0.05)
    # Three seconds, and twice three more because members came meanwhile; not without end, and not less.
    assert simulation.now - started == pytest.approx(9.0, abs=0.06)
    answers = [joined(reply) for reply in joins]
    assert {(one.generation_id, one.leader, one.protocol_name) for one in answers} == {(1, ids[0], "range")}
    assert [[member.member_id for member in one.members] for one in answers] == [ids, [], []]
    decoded = ConsumerProtocolSubscription.decode(answers[0].members[2].metadata[2:], 1)
    assert decoded.topics == [TOPIC]

    assert bench.group.state == "CompletingRebalance"
    sync_all(bench, answers)
    assert bench.group.state == "Stable"
    assert owners(bench) == {TopicPartition(TOPIC, number): [ids[number]] for number in range(3)}

    fourth = bench.member_id(protocols=OFFERED)
    late = bench.join(fourth, protocols=OFFERED)
    assert not late.is_done
    assert [bench.heartbeat(one, 1) for one in ids] == [REBALANCE_IN_PROGRESS] * 3
    again = [bench.join(one, protocols=OFFERED) for one in ids]
    bench.advance(0.2)
    answers = [joined(reply) for reply in (*again, late)]
    assert {(one.generation_id, one.leader) for one in answers} == {(2, ids[0])}
    sync_all(bench, answers)
    assert bench.group.members[fourth].assignment == ()
    assert owners(bench) == {TopicPartition(TOPIC, number): [ids[number]] for number in range(3)}
    assert [bench.heartbeat(one, 2) for one in (*ids, fourth)] == [0] * 4
