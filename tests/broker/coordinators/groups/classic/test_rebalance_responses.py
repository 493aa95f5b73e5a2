"""Responses of a rebalance leave in one turn of the brokers' loop, on any number of connections.

Otherwise tests of some clients see which member got its response first, with other requests in between.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from pykafka2.broker.server import threads
from pykafka2.broker.server.channel import Slot
from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.processor import Processor
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from pykafka2.testing import QUICK, KafkaCluster
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

MEMBERS = 6
GROUP = "billing"

Turns = dict[str, list[int]]
"""The turns of the loop in which the responses of each API were sent, in their order."""


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Record the turn of each response; no turn has time for a second pass over its parts."""
    seen: Turns = defaultdict(list)
    # By thread: loops of other tests' clusters may turn beside this one.
    turn_of: dict[int, int] = defaultdict(int)
    run_once = threads.Loop.run_once
    responses_leaving = Processor.responses_leaving

    def counted(loop: threads.Loop, *arguments: Any) -> float:
        turn_of[threading.get_ident()] += 1
        return run_once(loop, *arguments)

    def noted(processor: Processor, connection: Connection, slots: Sequence[Slot]) -> None:
        pending = processor.connections[connection].pending
        for slot in slots:
            seen[type(pending[slot].request).__name__.removesuffix("Request")].append(
                turn_of[threading.get_ident()]
            )
        responses_leaving(processor, connection, slots)

    monkeypatch.setattr(threads.Loop, "run_once", counted)
    monkeypatch.setattr(Processor, "responses_leaving", noted)
    monkeypatch.setattr(threads, "MAX_TURN", 0.0)
    return seen


def join(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="test",
        protocols=[JoinGroupRequestProtocol(name="any", metadata=b"")],
    )


def sync(member_id: str, generation: int, members: Sequence[str]) -> SyncGroupRequest:
    shares = [SyncGroupRequestAssignment(member_id=member, assignment=b"share") for member in members]
    return SyncGroupRequest(group_id=GROUP, generation_id=generation, member_id=member_id, assignments=shares)


@pytest.mark.parametrize("brokers", [1, 3])
def test_responses_of_joins_and_syncs_are_sent_in_one_turn(
    turns: Turns, brokers: int, live: LiveCluster
) -> None:
    """With three brokers the responses wait for the followers of the group's log."""
    config = {**QUICK, "threads": "shared", "num.network.threads": 3}
    with KafkaCluster(brokers, config=config) as cluster, ExitStack() as stack:
        with RawClient(cluster.brokers[0].address) as asker:
            cluster.wait_until(lambda: not find(asker))
        coordinator = cluster.brokers[cluster.coordinator(GROUP)]
        wires = [stack.enter_context(RawClient(coordinator.address)) for _ in range(MEMBERS)]
        joined = [wire.call(join(), 3) for wire in wires[:1]]
        members = [joined[0].member_id]
        generation = joined[0].generation_id
        assert wires[0].call(sync(members[0], generation, members), 3).error_code == 0
        turns.clear()

        for wire in wires[1:]:
            wire.send(join(), 3)
        live.wait_for(lambda: len(cluster.group(GROUP).members) == MEMBERS)
        wires[0].send(join(members[0]), 3)
        responses = [wire.receive(JoinGroupRequest, 3)[1] for wire in wires]
        assert {response.generation_id for response in responses} == {generation + 1}
        assert len(turns["JoinGroup"]) == MEMBERS
        assert len(set(turns["JoinGroup"])) == 1, turns

        members = [response.member_id for response in responses]
        leader = members.index(responses[0].leader)
        for number, wire in enumerate(wires):
            if number != leader:
                wire.send(sync(members[number], generation + 1, ()), 3)
        live.wait_for(lambda: waiting(cluster) == MEMBERS - 1)
        wires[leader].send(sync(members[leader], generation + 1, members), 3)
        shares = [wire.receive(SyncGroupRequest, 3)[1].assignment for wire in wires]
        assert shares == [b"share"] * MEMBERS
        assert len(set(turns["SyncGroup"])) == 1, turns


def find(wire: RawClient) -> int:
    return wire.call(FindCoordinatorRequest(key=GROUP), 3).error_code


def waiting(cluster: KafkaCluster) -> int:
    """Return the number of SyncGroup requests without a response."""
    return sum(entry.answered_at is None for entry in cluster.history.entries("SyncGroup"))
