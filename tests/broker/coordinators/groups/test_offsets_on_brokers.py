"""Committed offsets of groups, over the wire and in virtual time: who may commit, what expires or goes."""

from __future__ import annotations

import pytest

from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages.group_admin import DeleteGroupsRequest, ListGroupsRequest
from pykafka2.testing.simulation import Simulation
from pykafka2.types import TopicPartition
from tests.broker.support.bench import ClusterBench
from tests.error_codes import (
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION,
    NON_EMPTY_GROUP,
    NOT_COORDINATOR,
    OFFSET_METADATA_TOO_LARGE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)

# -- offsets ------------------------------------------------------------------------------------------


def test_commits_without_a_generation_need_an_empty_group(bench: ClusterBench) -> None:
    assert bench.commit(3) == 0
    ids = [bench.member_id() for _ in range(2)]
    for one in ids:
        bench.join(one)
    bench.advance(6.5)
    assert bench.group.state == "CompletingRebalance"
    assert bench.commit(4) == UNKNOWN_MEMBER_ID
    assert bench.commit(4, member=ids[0], generation=1) == REBALANCE_IN_PROGRESS
    bench.settle(ids, 1)
    assert bench.commit(4) == UNKNOWN_MEMBER_ID
    assert bench.commit(4, member=ids[0], generation=2) == ILLEGAL_GENERATION
    assert bench.commit(4, member=ids[0], generation=1) == 0
    assert bench.committed() == 4


def test_metadata_has_a_limit(bench: ClusterBench) -> None:
    assert bench.commit(1, metadata="x" * 4096) == 0
    assert bench.commit(2, metadata="x" * 4097) == OFFSET_METADATA_TOO_LARGE
    assert bench.committed() == 1


@pytest.mark.parametrize("version", range(1, 10))
def test_uncommitted_offset_is_minus_one_without_an_error(bench: ClusterBench, version: int) -> None:
    if version >= 8:
        group = bench.fetch([0, 5], version=version)
        assert group.error_code == 0
        assert [(one.committed_offset, one.error_code) for one in group.topics[0].partitions] == [(-1, 0)] * 2
        return
    asked = offsets.OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 5])
    answer = bench.call(offsets.OffsetFetchRequest(group_id="billing", topics=[asked]), version)
    assert answer.error_code == 0
    assert [(one.committed_offset, one.error_code) for one in answer.topics[0].partitions] == [(-1, 0)] * 2


@pytest.mark.gate
def test_offsets_expire_after_their_retention_and_the_group_dies(simulation: Simulation) -> None:
    minutes = 30
    bench = ClusterBench(simulation, config={"offsets.retention.minutes": minutes})
    (member,) = bench.stable(1)
    assert bench.commit(5, member=member, generation=1) == 0
    bench.leave(member)
    bench.advance(minutes * 60 - 30.0)
    assert bench.committed() == 5
    bench.advance(700.0)  # offsets.retention.check.interval.ms, and some
    assert bench.committed() == -1
    assert bench.describe().error_code == GROUP_ID_NOT_FOUND


def test_retention_keeps_offsets_of_subscribed_topics_only(simulation: Simulation) -> None:
    bench = ClusterBench(simulation, config={"offsets.retention.minutes": 10})
    (member,) = bench.stable(1, session=1800.0)
    assert bench.commit(5, member=member, generation=1) == 0
    assert bench.commit(6, member=member, generation=1, topic="refunds") == 0
    bench.advance(1300.0)
    assert bench.group.offsets == {TopicPartition("orders", 0): 5}


def test_a_deleted_topic_takes_its_offsets_along(simulation: Simulation) -> None:
    bench = ClusterBench(simulation, brokers=3)
    assert bench.commit(5) == 0
    assert bench.commit(6, topic="refunds") == 0
    bench.cluster.delete_topic("orders")
    bench.advance(0.2)
    assert bench.group.offsets == {TopicPartition("refunds", 0): 6}
    bench.reload()
    assert bench.group.offsets == {TopicPartition("refunds", 0): 6}


# -- administration -----------------------------------------------------------------------------------


def test_groups_with_members_and_offsets_in_use_stay(bench: ClusterBench) -> None:
    (member,) = bench.stable(1)
    assert bench.commit(5, member=member, generation=1) == 0
    assert bench.delete_group() == NON_EMPTY_GROUP
    assert bench.delete_group("nobody") == GROUP_ID_NOT_FOUND

    def delete_offset(topic: str) -> tuple[int, int]:
        asked = offsets.OffsetDeleteRequestTopic(
            name=topic, partitions=[offsets.OffsetDeleteRequestPartition(partition_index=0)]
        )
        answer = bench.call(offsets.OffsetDeleteRequest(group_id="billing", topics=[asked]))
        return answer.error_code, answer.topics[0].partitions[0].error_code

    assert delete_offset("orders") == (0, GROUP_SUBSCRIBED_TO_TOPIC)
    assert delete_offset("refunds") == (0, 0)
    bench.leave(member)
    assert delete_offset("orders") == (0, 0)
    assert bench.committed() == -1
    assert bench.delete_group() == 0


@pytest.mark.parametrize("version", range(7))
def test_an_unknown_group_is_dead_and_since_version_6_not_found(bench: ClusterBench, version: int) -> None:
    group = bench.describe("nobody", version)
    assert (group.group_state, group.error_code) == ("Dead", GROUP_ID_NOT_FOUND if version >= 6 else 0)


def test_lists_and_descriptions_come_from_all_partitions(simulation: Simulation) -> None:
    bench = ClusterBench(simulation, brokers=3)
    names = [f"g{number}" for number in range(12)]
    homes = {name: bench.cluster.coordinator(name) for name in names}
    for name in names:
        bench.moved(homes[name])
        assert bench.commit(1, group_id=name) == 0
    listed: list[str] = []
    for broker in range(3):
        answer = bench.wire(broker).call(ListGroupsRequest(states_filter=["Empty"]), 5)
        assert {one.group_type for one in answer.groups} == {"classic"}
        listed += [one.group_id for one in answer.groups]
    assert sorted(listed) == sorted(names)
    assert bench.wire(0).call(ListGroupsRequest(types_filter=["consumer"]), 5).groups == []
    answer = bench.wire(0).call(DeleteGroupsRequest(groups_names=names), 2)
    assert {one.group_id: one.error_code for one in answer.results} == {
        name: 0 if homes[name] == 0 else NOT_COORDINATOR for name in names
    }
