"""Groups in a storm from a seed: members come, go, stall, crash; coordinators move and die; replies are lost.

All the time no partition has two owners, and offsets within an ownership follow one another.  When it is over
every partition is owned again, every record has been read, and what was committed was handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any

import pytest

from pykafka2.consumer.commit.commit_queue import Offsets
from pykafka2.consumer.commit.committer import Committer
from pykafka2.errors import BrokerError, NotCoordinator, RebalanceInProgress, UnknownMemberId
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest, OffsetFetchRequest
from pykafka2.protocol.messages.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from pykafka2.testing import Simulation
from pykafka2.types import OffsetAndMetadata, TopicPartition
from tests.consumer.group.life import Group
from tests.gate import rest_in_long

pytestmark = pytest.mark.slow

STORM = 60.0
REQUESTS = [JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetCommitRequest, OffsetFetchRequest]
ASSIGNORS: list[dict[str, Any]] = [
    {},
    {"partition_assignment_strategy": "cooperative-sticky"},
    {"partition_assignment_strategy": "sticky"},
    {"partition_assignment_strategy": "roundrobin"},
]


CONFIG = {"default.replication.factor": 3, "offsets.topic.replication.factor": 3}
OPTIONS: dict[str, Any] = {
    "max_poll_interval_ms": 12_000,
    "default_api_timeout_ms": 20_000,
    "request_timeout_ms": 10_000,
}


class Storm:
    """Faults of the seed for a group."""

    requests: Sequence[Any] = REQUESTS
    """Requests answered with errors, except the last one, and requests without a response."""
    errors: Sequence[type[BrokerError]] = (NotCoordinator, RebalanceInProgress, UnknownMemberId)

    def __init__(self, simulation: Simulation, seed: int) -> None:
        self.random = Random(f"storm {seed}")
        self.group = self.new_group(simulation, {"orders": self.random.randint(3, 8)})
        self.values: list[bytes] = []
        self.read: list[bytes] = []
        self.names = 0
        self.down: set[int] = set()
        self.static = self.random.random() < 0.3
        self.happened: list[str] = []

    def new_group(self, simulation: Simulation, topics: dict[str, int]) -> Group:
        return Group(simulation, topics, brokers=3, config=CONFIG, **OPTIONS, **self.random.choice(ASSIGNORS))

    def blow(self) -> None:
        group, random = self.group, self.random
        for _ in range(2):
            self.join()
        group.settle()
        events: list[Callable[[], object]] = [
            self.join,
            self.leave,
            self.stall,
            self.crash,
            self.resume,
            self.move_coordinator,
            self.crash_coordinator,
            self.restart_broker,
            self.fail_requests,
            self.lose_replies,
            self.cut_off,
        ]
        until = group.now + STORM
        while group.now < until:
            event = random.choice(events)
            self.happened.append(f"{group.now:.1f} {event.__name__}")
            event()
            self.values += group.produce(random.randint(1, 10), start=len(self.values))
            group.turn(random.uniform(0.1, 4.0))
            self.check_places()

    def join(self) -> None:
        if len(self.group.members) < 5:
            self.names += 1
            more = {"group_instance_id": f"till-{self.names}"} if self.static else {}
            self.group.member(f"m{self.names}", **more)

    def leave(self) -> None:
        member = self.any()
        if member is not None and len(self.group.members) > 1:
            self.read += member.read
            member.consumer.close(timeout=2)
            member.is_stalled = True
            self.group.members.remove(member)

    def crash(self) -> None:
        member = self.any()
        if member is not None and len(self.group.members) > 1:
            self.read += member.read
            member.crash()

    def stall(self) -> None:
        member = self.any()
        if member is not None:
            member.is_stalled = True

    def resume(self) -> None:
        for member in self.group.members:
            member.resume()

    def move_coordinator(self) -> None:
        up = [number for number in range(3) if number not in self.down]
        self.group.cluster.controls.move_coordinator("g", to=self.random.choice(up))

    def crash_coordinator(self) -> None:
        if not self.down and (coordinator := self.group.cluster.coordinator("g")) >= 0:
            self.down.add(coordinator)
            self.group.cluster.controls.crash_broker(coordinator)

    def restart_broker(self) -> None:
        while self.down:
            self.group.cluster.controls.restart_broker(self.down.pop())

    def fail_requests(self) -> None:
        error = self.random.choice(self.errors)
        request = self.random.choice(self.requests[:-1])
        if request is not OffsetCommitRequest or error is not UnknownMemberId:
            self.group.cluster.controls.fail_next(request, error, times=self.random.randint(1, 3))

    def lose_replies(self) -> None:
        request = self.random.choice(self.requests)
        self.group.cluster.controls.lose_reply(request, times=self.random.randint(1, 3))

    def cut_off(self) -> None:
        member = self.any()
        if member is not None:
            member.runs_on_until = float("inf")
            self.group.cluster.controls.cut_client(member.name, silently=self.random.random() < 0.5)
            self.group.turn(self.random.uniform(0.1, 8.0))
            self.group.cluster.controls.heal()

    def any(self) -> Any:
        live = [member for member in self.group.members if not member.is_stalled]
        return self.random.choice(live) if live else None

    def calm(self) -> None:
        """It is over: everything heals, and the group must come to rest."""
        group = self.group
        self.restart_broker()
        group.cluster.controls.heal()
        group.cluster.controls.clear()
        self.resume()
        group.settle(60)
        for member in group.members:  # a session that was over in secret is known to be by then
            member.runs_on_until = min(member.runs_on_until, group.now + 10.0)
        self.values += group.produce(20, start=len(self.values))
        group.turn_until(lambda: set(self.values) <= set(self.all_read()), 30)

    def all_read(self) -> list[bytes]:
        return [*self.read, *(value for member in self.group.members for value in member.read)]

    def check_places(self) -> None:
        """Within one ownership every offset follows the one before."""
        for member in self.group.members:
            latest: dict[TopicPartition, int] = {}
            for partition, offset in member.places:
                if offset < 0:
                    latest.pop(partition, None)
                    continue
                assert latest.get(partition, offset - 1) == offset - 1, (
                    f"{member.name}: {partition} at {offset}"
                )
                latest[partition] = offset

    def check_commits(self) -> None:
        reached: dict[TopicPartition, int] = {}
        read = set(self.all_read())
        for partition, offset in self.group.cluster.group("g").offsets.items():
            values = self.group.cluster.log(*partition).values()
            reached[partition] = offset
            assert set(values[:offset]) <= read, f"{partition}: {offset} was committed, and not all was read"


@pytest.mark.gate
@pytest.mark.parametrize("seed", rest_in_long(range(12), in_gate=3))
def test_a_group_rides_out_a_storm(seed: int) -> None:
    with Simulation(seed) as simulation:
        storm = Storm(simulation, seed)
        try:
            storm.blow()
            storm.calm()
            storm.check_commits()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(storm.happened)) from error


@pytest.mark.gate
@pytest.mark.long
def test_storm_detects_commits_ahead_of_returned_records(monkeypatch: pytest.MonkeyPatch) -> None:
    consumed_offsets = Committer.consumed_offsets

    def ahead(self: Committer, partitions: Collection[TopicPartition] | None = None) -> Offsets:
        consumed = consumed_offsets(self, partitions)
        return {partition: OffsetAndMetadata(one.offset + 1) for partition, one in consumed.items()}

    monkeypatch.setattr(Committer, "consumed_offsets", ahead)
    for seed in range(20):
        with Simulation(seed) as simulation:
            storm = Storm(simulation, seed)
            try:
                storm.blow()
                storm.calm()
                storm.check_commits()
            except AssertionError:
                return
    pytest.fail("the planted bug was not seen within 20 seeds")
