"""Groups under random members that join, leave, stall and return, and coordinators that crash at any point.

Clients handle each response as real ones do. After every step: a partition has one owner, a generation or
epoch never decreases, every response has a client, and a coordinator that loads the log has the same state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup, GroupState
from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroup, ConsumerGroupState
from pykafka2.broker.coordinators.groups.shard import GroupShard
from pykafka2.broker.coordinators.replay import Deferred, Producer
from pykafka2.broker.coordinators.runtime import Entry, Marker, ShardRuntime
from pykafka2.broker.coordinators.settings import GroupSettings
from pykafka2.errors import NotEnoughReplicas
from pykafka2.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from pykafka2.protocol.messages.group import JoinGroupResponse, SyncGroupResponse
from tests.broker.support.bench import GROUP, ORDERS, TOPIC_TABLE, ShardBench, assigned
from tests.broker.support.memory_log import MemoryLog
from tests.error_codes import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from tests.gate import examples

PARTITIONS = 6
CLIENTS = 4
WHO = st.integers(0, CLIENTS - 1)


def twins_of(bench: ShardBench) -> list[GroupShard]:
    """Return the shards that load the log, whole and compacted."""
    return [loaded_from(bench, entries) for entries in (bench.log.entries, compacted(bench.log.entries))]


def loaded_from(bench: ShardBench, entries: list[Entry | Marker]) -> GroupShard:
    shard = GroupShard(bench.settings, lambda now: round(now * 1000), lambda: "twin")
    shard.on_topics(TOPIC_TABLE)
    ShardRuntime(shard, MemoryLog()).load(entries, len(entries), bench.now)
    return shard


def compacted(entries: list[Entry | Marker]) -> list[Entry | Marker]:
    """Return the last record of each key, and all records of transactions."""
    last = {
        one.key: place for place, one in enumerate(entries) if isinstance(one, Entry) and one.producer is None
    }
    return [
        one
        for place, one in enumerate(entries)
        if isinstance(one, Marker) or one.producer is not None or last[one.key] == place
    ]


def offsets_of(shard: GroupShard) -> tuple[Any, Any]:
    pending = {
        (producer, group_id): offsets
        for producer, groups in shard.offsets.pending.items()
        for group_id, offsets in groups.items()
        if offsets
    }
    return shard.offsets.committed, pending


def assignment_of(partitions: Iterable[int]) -> bytes:
    topic = ConsumerProtocolAssignmentTopicPartition(topic="orders", partitions=list(partitions))
    return b"\0\1" + ConsumerProtocolAssignment(assigned_partitions=[topic]).encode(1)


def partitions_in(data: bytes) -> frozenset[int]:
    if not data:
        return frozenset()
    assignment = ConsumerProtocolAssignment.decode(data[2:], 1, allow_trailing=True)
    return frozenset(one for topic in assignment.assigned_partitions for one in topic.partitions)


@attrs.define
class ClassicClient:
    """A consumer of the classic protocol that sends one request at a time."""

    bench: ShardBench
    instance: str | None = None
    member_id: str = ""
    generation: int = -1
    owned: frozenset[int] = frozenset()
    waiting: Deferred[Any] | None = None
    stalled: bool = False
    attempts: int = 0

    def step(self) -> None:
        if self.stalled:
            return
        if self.waiting is not None:
            if self.waiting.response is None:
                return
            deferred, self.waiting = self.waiting, None
            self.take(deferred.response)
        elif self.generation < 0:
            self.join()
        else:
            code = self.bench.heartbeat(self.member_id, self.generation, self.instance)
            if code == REBALANCE_IN_PROGRESS:
                self.join()
            elif code:
                self.lose(code)

    def join(self) -> None:
        # Eager: it revokes all partitions before it joins.
        self.owned = frozenset()
        self.attempts += 1
        self.waiting = self.bench.join(self.member_id, instance=self.instance, rebalance=20.0)

    def take(self, response: object) -> None:
        if isinstance(response, JoinGroupResponse):
            if response.error_code == MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                self.join()
            elif response.error_code:
                self.lose(response.error_code)
            else:
                self.member_id, self.generation = response.member_id, response.generation_id
                members = [one.member_id for one in response.members]
                shares = {
                    one: assignment_of(range(position, PARTITIONS, len(members)))
                    for position, one in enumerate(members)
                }
                if response.skip_assignment:
                    shares = {}
                self.waiting = self.bench.sync(
                    self.member_id, self.generation, shares, instance=self.instance
                )
        elif isinstance(response, SyncGroupResponse):
            if response.error_code:
                self.lose(response.error_code)
            else:
                self.owned = partitions_in(response.assignment)

    def lose(self, code: int) -> None:
        self.owned, self.generation = frozenset(), -1
        if code in (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID):
            self.member_id = ""

    def crash(self) -> None:
        """Restart the process without LeaveGroup."""
        self.waiting, self.member_id = None, ""
        self.owned, self.generation, self.stalled = frozenset(), -1, False


class GroupMachine(RuleBasedStateMachine):
    """The clients of one group, which act together or alone, and stall."""

    bench: ShardBench
    clients: list[Any]

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.all_act()
            self.bench.advance(1.0)

    def owned_by(self, clients: Iterable[Any]) -> list[int]:
        return sorted(partition for client in clients for partition in client.owned)

    @rule(count=st.integers(1, 4))
    def some_rounds(self, count: int) -> None:
        self.rounds(count)

    @rule(who=WHO)
    def client_acts(self, who: int) -> None:
        self.clients[who].step()

    @rule()
    def all_act(self) -> None:
        for client in self.clients:
            client.step()

    @rule(who=WHO)
    def client_stalls_or_comes_back(self, who: int) -> None:
        self.clients[who].stalled = not self.clients[who].stalled

    @rule(who=WHO)
    def one_append_fails(self, who: int) -> None:
        self.bench.log.fails_with = NotEnoughReplicas()
        self.clients[who].step()
        self.bench.log.fails_with = None


class ClassicMachine(GroupMachine):
    @initialize(static=st.integers(0, CLIENTS), settled=st.booleans())
    def begin(self, static: int, settled: bool) -> None:
        self.bench = ShardBench(GroupSettings(initial_rebalance_delay=1.0))
        self.clients = [ClassicClient(self.bench, f"i{n}" if n < static else None) for n in range(CLIENTS)]
        self.generation = 0
        if settled:
            self.rounds(12)

    @rule(who=WHO)
    def client_crashes(self, who: int) -> None:
        self.clients[who].crash()

    @rule(who=WHO)
    def client_leaves(self, who: int) -> None:
        client = self.clients[who]
        if client.member_id and client.waiting is None:
            self.bench.leave(client.member_id)
            client.crash()

    @rule(who=WHO)
    def client_changes_its_subscription(self, who: int) -> None:
        client = self.clients[who]
        if client.member_id and client.waiting is None and not client.stalled:
            client.join()

    @rule(who=WHO, offset=st.integers(0, 9), partition=st.integers(0, 5))
    def client_commits(self, who: int, offset: int, partition: int) -> None:
        client = self.clients[who]
        if self.bench.log.commits_at_once and client.generation >= 0:
            self.bench.commit(
                offset, member=client.member_id, generation=client.generation, partition=partition
            )

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 6.0, 11.0, 21.0]))
    def time_passes(self, seconds: float) -> None:
        self.bench.advance(seconds)

    @rule()
    def coordinator_moves(self) -> None:
        self.bench.log.commit_all()
        self.bench.reload()
        group = self.bench.shard.groups.get(GROUP)
        # The last generation may be incomplete, so that it is not in the log.
        self.generation = group.generation if isinstance(group, ClassicGroup) else 0

    @invariant()
    def a_generation_never_falls(self) -> None:
        group = self.bench.shard.groups.get(GROUP)
        if isinstance(group, ClassicGroup):
            assert group.generation >= self.generation
            self.generation = group.generation
        else:
            self.generation = 0

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        group = self.bench.shard.groups.get(GROUP)
        if not isinstance(group, ClassicGroup):
            return
        # A member of an older generation cannot commit; its next heartbeat fails.
        current = [
            client
            for client in self.clients
            if client.member_id in group.members and client.generation == group.generation
        ]
        owned = [partition for client in current for partition in client.owned]
        assert len(owned) == len(set(owned)), [(c.member_id, c.owned) for c in current]

    @invariant()
    def nobody_waits_for_an_answer_that_never_comes(self) -> None:
        group = self.bench.shard.groups.get(GROUP)
        parked = set()
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                parked |= {id(one) for one in (member.awaiting_join, member.awaiting_sync) if one}
        for client in self.clients:
            if client.waiting is not None and not client.waiting.is_done:
                assert id(client.waiting) in parked or self.bench.runtime.waiting

    @invariant()
    def the_log_knows_the_group(self) -> None:
        for twin in twins_of(self.bench):
            self.compare(twin, self.bench.shard)

    def compare(self, twin: GroupShard, live: GroupShard) -> None:
        assert offsets_of(twin) == offsets_of(live)
        group, other = live.groups.get(GROUP), twin.groups.get(GROUP)
        assert (group is None) == (other is None)
        if not isinstance(group, ClassicGroup) or not isinstance(other, ClassicGroup):
            return
        assert group.logged == other.logged
        if group.state is GroupState.STABLE:
            assert (other.state, other.generation, other.leader) == (
                group.state,
                group.generation,
                group.leader,
            )
            assert {one.id: (one.assignment, one.instance_id) for one in other.members.values()} == {
                one.id: (one.assignment, one.instance_id) for one in group.members.values()
            }

    def teardown(self) -> None:
        """After the faults all members are in one stable group, within a rebalance and a session timeout."""
        if not hasattr(self, "clients"):
            return
        for client in self.clients:
            client.stalled = False
        self.rounds(60)
        group = self.bench.classic()
        assert group.state is GroupState.STABLE
        assert {client.member_id for client in self.clients} == set(group.members)
        assert self.owned_by(self.clients) == [*range(PARTITIONS)]


@attrs.define
class ModernClient:
    """A consumer of KIP-848 that sends one heartbeat at a time."""

    bench: ShardBench
    name: str
    instance: str | None = None
    life: int = 0
    epoch: int = 0
    owned: frozenset[int] = frozenset()
    is_away: bool = False
    stalled: bool = False
    topics: tuple[str, ...] = ("orders",)

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.life}"

    def step(self) -> None:
        if self.stalled:
            return
        self.is_away = False
        response = self.bench.beat(
            self.member_id,
            self.epoch,
            owned={ORDERS: sorted(self.owned)} if self.epoch else {},
            topics=list(self.topics),
            instance=self.instance,
            rebalance=20.0,
        )
        if response.error_code in (
            UNKNOWN_MEMBER_ID,
            GROUP_ID_NOT_FOUND,
            FENCED_INSTANCE_ID,
            FENCED_MEMBER_EPOCH,
        ):
            self.epoch, self.owned = 0, frozenset()
        elif response.error_code == 0:
            self.epoch = response.member_epoch
            mine = assigned(response)
            if mine is not None:
                self.owned = frozenset(mine.get(ORDERS, ()))

    def leave(self, epoch: int) -> None:
        if self.epoch > 0:
            self.bench.beat(self.member_id, epoch, instance=self.instance)
        self.epoch, self.owned, self.is_away = 0, frozenset(), True
        self.life += 1


class ModernMachine(GroupMachine):
    @initialize(static=st.integers(0, CLIENTS), interval=st.sampled_from([0.0, 1.0]), settled=st.booleans())
    def begin(self, static: int, interval: float, settled: bool) -> None:
        self.bench = ShardBench(GroupSettings(consumer_assignment_interval=interval))
        self.clients = [
            ModernClient(self.bench, f"m{n}", f"i{n}" if n < static else None) for n in range(CLIENTS)
        ]
        self.epoch = 0
        if settled:
            self.rounds(12)

    @rule(who=WHO)
    def client_leaves(self, who: int) -> None:
        self.clients[who].leave(-1)

    @rule(who=WHO)
    def client_leaves_for_a_while(self, who: int) -> None:
        client = self.clients[who]
        if client.instance is not None:
            client.leave(-2)

    @rule(who=WHO)
    def client_changes_its_subscription(self, who: int) -> None:
        client = self.clients[who]
        client.topics = ("refunds",) if client.topics == ("orders",) else ("orders",)

    @rule(who=WHO)
    def an_answer_is_lost(self, who: int) -> None:
        client = self.clients[who]
        before = client.epoch, client.owned
        client.step()
        if client.epoch and before[0]:
            client.epoch, client.owned = before

    @rule(offset=st.integers(0, 9), producer=st.integers(1, 2))
    def a_producer_commits(self, offset: int, producer: int) -> None:
        self.bench.commit_transactional(offset, Producer(producer, 0))

    @rule(producer=st.integers(1, 2), committed=st.booleans())
    def a_transaction_ends(self, producer: int, committed: bool) -> None:
        self.bench.end_transaction(Producer(producer, 0), committed)

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 20.0, 46.0]))
    def time_passes(self, seconds: float) -> None:
        self.bench.advance(seconds)

    @rule()
    def coordinator_moves(self) -> None:
        self.bench.reload()

    @invariant()
    def an_epoch_never_falls(self) -> None:
        group = self.bench.shard.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            assert group.epoch >= self.epoch
            self.epoch = group.epoch

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        group = self.bench.shard.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        # The next heartbeat of a member that was removed fails.
        inside = [client for client in self.clients if client.member_id in group.members]
        owned = [partition for client in inside for partition in client.owned]
        assert len(owned) == len(set(owned))
        for client in inside:
            for partition in client.owned:
                assert group.owners.get((ORDERS, partition)) == client.member_id

    @invariant()
    def owners_are_what_members_have(self) -> None:
        group = self.bench.shard.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            held = [
                (topic_id, partition)
                for member in group.members.values()
                for held_by in (member.assigned, member.pending_revocation)
                for topic_id, partitions in held_by.items()
                for partition in partitions
            ]
            assert sorted(held) == sorted(group.owners)
            assert set(group.targets) <= set(group.members)

    @invariant()
    def the_log_knows_everything(self) -> None:
        for twin in twins_of(self.bench):
            self.compare(twin, self.bench.shard)

    def compare(self, twin: GroupShard, live: GroupShard) -> None:
        assert offsets_of(twin) == offsets_of(live)
        assert set(twin.groups) == set(live.groups)
        group, other = live.groups.get(GROUP), twin.groups.get(GROUP)
        assert type(group) is type(other)
        if isinstance(group, ConsumerGroup) and isinstance(other, ConsumerGroup):
            for name in (
                "epoch",
                "metadata_hash",
                "assignment_epoch",
                "assigned_at_ms",
                "members",
                "static_members",
                "targets",
                "regexes",
                "owners",
                "state",
            ):
                assert getattr(other, name) == getattr(group, name), name

    def teardown(self) -> None:
        """After the faults all members soon own their target assignments."""
        if not hasattr(self, "clients"):
            return
        for client in self.clients:
            client.stalled, client.topics = False, ("orders",)
        self.rounds(70)
        group = self.bench.consumer()
        assert group.state is ConsumerGroupState.STABLE
        assert set(group.members) == {client.member_id for client in self.clients}
        assert self.owned_by(self.clients) == [*range(PARTITIONS)]


LIMITS = settings(
    max_examples=examples(50),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

TestClassicGroup = pytest.mark.gate(pytest.mark.slow(ClassicMachine.TestCase))
TestClassicGroup.settings = LIMITS
TestModernGroup = pytest.mark.gate(pytest.mark.slow(ModernMachine.TestCase))
TestModernGroup.settings = LIMITS
