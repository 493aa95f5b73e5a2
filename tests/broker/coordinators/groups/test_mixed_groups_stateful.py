"""Consumers of both protocols in one group, at random, with crashing coordinators.

The group changes its type when the first KIP-848 member joins or the last one leaves. After every step each
partition has one owner at most, and the log has the whole group; in the end every member has partitions.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup, GroupState
from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroup
from pykafka2.broker.coordinators.settings import GroupSettings
from pykafka2.errors import NotEnoughReplicas
from tests.broker.coordinators.groups.test_groups_stateful import (
    PARTITIONS,
    ClassicClient,
    ModernClient,
    offsets_of,
    twins_of,
)
from tests.broker.support.bench import GROUP, ORDERS, ShardBench
from tests.gate import examples

WHO = st.integers(0, 1)


class MixedMachine(RuleBasedStateMachine):
    @initialize(static=st.booleans(), settled=st.booleans())
    def begin(self, static: bool, settled: bool) -> None:
        self.bench = ShardBench(GroupSettings(consumer_assignment_interval=0.0, initial_rebalance_delay=1.0))
        self.old = [ClassicClient(self.bench, f"i{n}" if static else None) for n in range(2)]
        self.new = [ModernClient(self.bench, f"m{n}") for n in range(2)]
        self.active = [False, False]  # which new clients are active
        if settled:
            self.rounds(8)

    def rounds(self, count: int) -> None:
        for _ in range(count):
            for old in self.old:
                old.step()
            for new, active in zip(self.new, self.active, strict=True):
                if active:
                    new.step()
            self.bench.advance(1.0)

    @rule(count=st.integers(1, 6))
    def some_rounds(self, count: int) -> None:
        self.rounds(count)

    @rule(who=WHO)
    def an_old_one_acts(self, who: int) -> None:
        self.old[who].step()

    @rule(who=WHO)
    def an_old_one_crashes(self, who: int) -> None:
        self.old[who].crash()

    @rule(who=WHO)
    def an_old_one_leaves(self, who: int) -> None:
        old = self.old[who]
        if old.member_id and old.waiting is None:
            self.bench.leave(old.member_id)
            old.crash()

    @rule(who=WHO)
    def a_new_one_acts(self, who: int) -> None:
        self.active[who] = True
        self.new[who].step()

    @rule(who=WHO)
    def a_new_one_leaves(self, who: int) -> None:
        self.active[who] = False
        self.new[who].leave(-1)

    @rule(who=WHO)
    def a_new_one_is_silent(self, who: int) -> None:
        self.active[who] = False

    @rule(seconds=st.sampled_from([1.0, 6.0, 11.0, 21.0, 46.0]))
    def time_passes(self, seconds: float) -> None:
        self.bench.advance(seconds)

    @rule()
    def coordinator_moves(self) -> None:
        self.bench.reload()

    @rule(who=WHO, is_old=st.booleans())
    def one_append_fails(self, who: int, is_old: bool) -> None:
        self.bench.log.fails_with = NotEnoughReplicas()
        if is_old:
            self.old[who].step()
        elif self.active[who]:
            self.new[who].step()
        self.bench.log.fails_with = None

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        group = self.bench.shard.groups.get(GROUP)
        if isinstance(group, ClassicGroup):
            owned = [
                partition
                for old in self.old
                if old.member_id in group.members and old.generation == group.generation
                for partition in old.owned
            ]
            assert len(owned) == len(set(owned))
        elif isinstance(group, ConsumerGroup):
            reading = [(new.member_id, new.owned) for new in self.new]
            reading += [
                (old.member_id, old.owned)
                for old in self.old
                if old.member_id in group.members and old.generation == group.members[old.member_id].epoch
            ]
            for member_id, owned_by in reading:
                if member_id in group.members:
                    for partition in owned_by:
                        assert group.owners.get((ORDERS, partition)) == member_id

    @invariant()
    def the_log_knows_the_group(self) -> None:
        live = self.bench.shard
        group = live.groups.get(GROUP)
        for twin in twins_of(self.bench):
            other = twin.groups.get(GROUP)
            assert offsets_of(twin) == offsets_of(live)
            assert type(other) is type(group)
            if isinstance(group, ConsumerGroup) and isinstance(other, ConsumerGroup):
                assert (other.members, other.targets, other.epoch, other.owners) == (
                    group.members,
                    group.targets,
                    group.epoch,
                    group.owners,
                )
            elif isinstance(group, ClassicGroup) and isinstance(other, ClassicGroup):
                assert other.logged == group.logged

    def teardown(self) -> None:
        """End the faults: one stable group of all active clients, and each partition owned once."""
        if not hasattr(self, "old"):
            return
        self.rounds(60)
        if isinstance(self.bench.shard.groups[GROUP], ClassicGroup):
            # As in Apache Kafka, the rebalance of a downgrade is lost with its coordinator.
            for old in self.old:
                old.join()
            self.rounds(30)
        group = self.bench.shard.groups[GROUP]
        taking_part = {old.member_id for old in self.old}
        owned = [partition for old in self.old for partition in old.owned]
        for new, active in zip(self.new, self.active, strict=True):
            if active:
                taking_part.add(new.member_id)
                owned += new.owned
        assert set(group.members) == taking_part
        assert group.state.value == GroupState.STABLE.value
        assert sorted(owned) == list(range(PARTITIONS))
        assert isinstance(group, ConsumerGroup) == any(self.active)


TestMixedGroup = pytest.mark.gate(pytest.mark.slow(MixedMachine.TestCase))
TestMixedGroup.settings = settings(
    max_examples=examples(60),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
