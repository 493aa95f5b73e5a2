"""KIP-848: epochs, assignment by the coordinator, step-by-step reconciliation, static members, patterns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.coordinators.groups.consumer.assignors import ASSIGNORS, Subscriber
from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroupState, MemberState
from pykafka2.broker.coordinators.runtime import Entry
from pykafka2.broker.coordinators.settings import GroupSettings, TopicTable
from pykafka2.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from tests.broker.support.bench import GROUP, ORDERS, REFUNDS, ShardBench, assigned
from tests.error_codes import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REGULAR_EXPRESSION,
    INVALID_REQUEST,
    NON_EMPTY_GROUP,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
)
from tests.gate import examples

AT_ONCE = GroupSettings(consumer_assignment_interval=0.0)
ALL = [0, 1, 2, 3, 4, 5]


@pytest.fixture
def bench() -> ShardBench:
    return ShardBench(AT_ONCE)


def test_member_at_epoch_0_joins_and_gets_all_partitions(bench: ShardBench) -> None:
    answer = bench.beat("a", 0)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert answer.heartbeat_interval_ms == 5000
    assert assigned(answer) == {ORDERS: ALL}
    assert assigned(bench.beat("a", 2)) is None, "nothing new"
    assert bench.consumer().state is ConsumerGroupState.STABLE


def test_version_0_member_gets_a_member_id(bench: ShardBench) -> None:
    answer = bench.beat("", 0, version=0)
    assert answer.member_id == "0001"
    assert bench.beat("", 0, version=1).error_code == INVALID_REQUEST


def test_partition_is_assigned_only_after_its_owner_revoked_it(bench: ShardBench) -> None:
    bench.beat("a", 0)
    second = bench.beat("b", 0)
    assert (second.member_epoch, assigned(second)) == (3, {})
    assert bench.consumer().members["b"].state is MemberState.UNRELEASED_PARTITIONS
    told = bench.beat("a", 2, owned={ORDERS: ALL})
    assert (told.member_epoch, assigned(told)) == (2, {ORDERS: [0, 1, 2]}), "at its old epoch still"
    assert bench.consumer().state is ConsumerGroupState.RECONCILING
    assert assigned(bench.beat("b", 3)) is None
    assert assigned(bench.beat("a", 2)) is None, "it has not said that it gave them up"
    done = bench.beat("a", 2, owned={ORDERS: [0, 1, 2]})
    assert done.member_epoch == 3
    assert assigned(bench.beat("b", 3)) == {ORDERS: [3, 4, 5]}
    assert bench.consumer().state is ConsumerGroupState.STABLE


def test_member_that_does_not_revoke_in_its_rebalance_timeout_is_fenced(bench: ShardBench) -> None:
    bench.beat("a", 0, rebalance=20.0)
    bench.beat("b", 0)
    bench.beat("a", 2)
    assert bench.consumer().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    bench.advance(19.9)
    assert bench.beat("a", 2).error_code == 0
    bench.advance(0.1)
    assert bench.beat("a", 2).error_code == UNKNOWN_MEMBER_ID
    assert assigned(bench.beat("b", 3)) == {ORDERS: ALL}


def test_a_silent_member_is_out_after_the_session_timeout(bench: ShardBench) -> None:
    bench.beat("a", 0)
    bench.beat("b", 0)
    bench.advance(30.0)
    bench.beat("b", 3)
    bench.advance(15.0)
    assert list(bench.consumer().members) == ["b"]
    answer = bench.beat("b", 3)
    assert (answer.member_epoch, assigned(answer)) == (4, {ORDERS: ALL})


def test_epoch_minus_1_leaves(bench: ShardBench) -> None:
    bench.beat("a", 0)
    answer = bench.beat("a", -1)
    assert (answer.error_code, answer.member_epoch) == (0, -1)
    assert bench.consumer().state is ConsumerGroupState.EMPTY
    assert bench.beat("a", 2).error_code == UNKNOWN_MEMBER_ID
    assert bench.beat("a", -1).error_code == UNKNOWN_MEMBER_ID
    assert bench.beat("a", -1, group_id="none").error_code == GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("epoch", "owned", "code"),
    [(4, [0], FENCED_MEMBER_EPOCH), (0, None, 0), (2, [0, 1, 2], 0), (1, [0], FENCED_MEMBER_EPOCH)],
)
def test_only_the_members_epoch_or_the_one_before_is_taken(
    bench: ShardBench, epoch: int, owned: list[int] | None, code: int
) -> None:
    bench.beat("a", 0)
    bench.beat("b", 0)
    bench.beat("a", 2, owned={ORDERS: [0, 1, 2]})
    assert bench.consumer().members["a"].epoch == 3
    answer = bench.beat("a", epoch, owned=None if owned is None else {ORDERS: owned})
    assert answer.error_code == code


def test_previous_epoch_is_accepted_only_with_a_subset_of_the_owned_partitions(bench: ShardBench) -> None:
    """The answer with the new epoch may be lost, but a member that reads more than its own is behind."""
    bench.beat("a", 0)
    bench.beat("b", 0)
    bench.beat("a", 2, owned={ORDERS: [0, 1, 2]})
    assert bench.beat("a", 2, owned={ORDERS: [0, 1, 2, 3]}).error_code == FENCED_MEMBER_EPOCH
    assert bench.beat("a", 2).error_code == FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    "options",
    [
        {"epoch": -3},
        {"epoch": -2},
        {"instance": ""},
        {"rebalance": -0.001},
        {"owned": {ORDERS: [1]}},
        {"group_id": ""},
    ],
)
def test_inconsistent_heartbeats_are_invalid_requests(bench: ShardBench, options: dict[str, object]) -> None:
    epoch = options.pop("epoch", 0)
    assert bench.beat("a", epoch, **options).error_code == INVALID_REQUEST  # type: ignore[arg-type]


def test_unknown_assignors_are_refused(bench: ShardBench) -> None:
    assert bench.beat("a", 0, assignor="sticky").error_code == UNSUPPORTED_ASSIGNOR
    assert bench.beat("a", 0, assignor="range").error_code == 0
    described = bench.call(
        ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False)
    )
    assert described.groups[0].assignor_name == "range"


def test_heartbeats_to_groups_that_do_not_exist(bench: ShardBench) -> None:
    assert bench.beat("a", 2).error_code == GROUP_ID_NOT_FOUND
    assert bench.shard.groups == {}


def test_a_full_group_takes_no_more() -> None:
    bench = ShardBench(GroupSettings(consumer_max_size=1))
    assert bench.beat("a", 0).error_code == 0
    assert bench.beat("b", 0).error_code == GROUP_MAX_SIZE_REACHED
    assert bench.beat("a", 2).error_code == 0


def test_a_static_member_leaves_for_a_while_and_finds_its_partitions(bench: ShardBench) -> None:
    bench.beat("a", 0, instance="one")
    bench.beat("b", 0, instance="two")
    bench.beat("a", 2, owned={ORDERS: [0, 1, 2]}, instance="one")
    bench.beat("b", 3, instance="two")
    epoch = bench.consumer().epoch
    assert bench.beat("a", -2, instance="one").member_epoch == -2
    assert bench.consumer().members["a"].epoch == -2
    assert assigned(bench.beat("b", 3, instance="two")) is None
    back = bench.beat("a2", 0, instance="one")
    assert (back.member_epoch, assigned(back)) == (epoch, {ORDERS: [0, 1, 2]})
    assert bench.consumer().epoch == epoch, "no rebalance"
    assert set(bench.consumer().members) == {"a2", "b"}
    assert bench.beat("a", epoch, instance="one").error_code == FENCED_INSTANCE_ID


def test_static_member_that_leaves_temporarily_has_revoked_its_partitions(bench: ShardBench) -> None:
    bench.beat("a", 0, instance="one")
    bench.beat("b", 0)
    assert assigned(bench.beat("a", 2, instance="one")) == {ORDERS: [0, 1, 2]}
    assert assigned(bench.beat("b", 3)) is None, "it has not said yet that it reads the others no more"
    bench.beat("a", -2, instance="one")
    assert assigned(bench.beat("b", 3)) == {ORDERS: [3, 4, 5]}


def test_an_instance_in_use_is_not_released(bench: ShardBench) -> None:
    bench.beat("a", 0, instance="one")
    assert bench.beat("b", 0, instance="one").error_code == UNRELEASED_INSTANCE_ID
    assert bench.beat("b", 2, instance="other").error_code == UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_is_out_after_its_session(bench: ShardBench) -> None:
    bench.beat("a", 0, instance="one")
    bench.beat("a", -2, instance="one")
    bench.advance(45.0)
    assert bench.consumer().members == {}


def test_a_changed_subscription_takes_partitions_away(bench: ShardBench) -> None:
    bench.beat("a", 0, topics=["orders", "refunds"])
    answer = bench.beat("a", 2, topics=["refunds"], owned={ORDERS: ALL, REFUNDS: [0, 1, 2]})
    assert assigned(answer) == {REFUNDS: [0, 1, 2]}
    assert bench.beat("a", 2, owned={REFUNDS: [0, 1, 2]}).member_epoch == 3


def test_new_partitions_are_assigned_at_the_next_heartbeat(bench: ShardBench) -> None:
    bench.beat("a", 0)
    bench.runtime.carry_out(bench.shard.on_topics(TopicTable({"orders": (ORDERS, 8)})), bench.now)
    answer = bench.beat("a", 2)
    assert (answer.member_epoch, assigned(answer)) == (3, {ORDERS: [*ALL, 6, 7]})


def test_a_deleted_topic_is_taken_away(bench: ShardBench) -> None:
    bench.beat("a", 0, topics=["orders", "refunds"])
    bench.runtime.carry_out(bench.shard.on_topics(TopicTable({"orders": (ORDERS, 6)})), bench.now)
    assert assigned(bench.beat("a", 2, owned={ORDERS: ALL, REFUNDS: [0, 1, 2]})) == {ORDERS: ALL}


def test_targets_are_made_at_most_once_an_interval() -> None:
    bench = ShardBench(GroupSettings(consumer_assignment_interval=1.0))
    bench.beat("a", 0)
    answer = bench.beat("b", 0)
    assert (answer.member_epoch, assigned(answer)) == (2, {})
    assert bench.consumer().state is ConsumerGroupState.ASSIGNING
    bench.advance(1.0)
    assert bench.beat("b", 2).member_epoch == 3


def test_interval_of_0_assigns_at_once_also_if_the_wall_clock_jumped_back(bench: ShardBench) -> None:
    bench.beat("a", 0)
    bench.now -= 60.0
    assert bench.beat("b", 0).member_epoch == 3


# -- patterns -----------------------------------------------------------------------------------------


def test_regex_subscription_matches_present_and_later_topics(bench: ShardBench) -> None:
    assert assigned(bench.beat("a", 0, regex="ord.*")) == {ORDERS: ALL}
    topics = TopicTable({"orders": (ORDERS, 6), "ordinary": (REFUNDS, 1)})
    bench.runtime.carry_out(bench.shard.on_topics(topics), bench.now)
    assert assigned(bench.beat("a", 2)) == {ORDERS: ALL, REFUNDS: [0]}
    bench.reload()
    assert bench.consumer().regexes == {"ord.*": frozenset({"orders", "ordinary"})}


def test_a_pattern_matches_whole_names(bench: ShardBench) -> None:
    assert assigned(bench.beat("a", 0, regex="order")) == {}


def test_a_pattern_and_names_go_together(bench: ShardBench) -> None:
    answer = bench.beat("a", 0, regex="order.", topics=["refunds"])
    assert assigned(answer) == {ORDERS: ALL, REFUNDS: [0, 1, 2]}


def test_a_pattern_that_is_none_is_refused(bench: ShardBench) -> None:
    assert bench.beat("a", 0, regex="(").error_code == INVALID_REGULAR_EXPRESSION
    assert bench.shard.groups == {}


def test_unused_regex_is_removed(bench: ShardBench) -> None:
    bench.beat("a", 0, regex="ord.*")
    bench.beat("b", 0, regex="ref.*")
    bench.beat("a", -1)
    assert set(bench.consumer().regexes) == {"ref.*"}
    bench.beat("b", 3, regex="", topics=["orders"])
    assert bench.consumer().regexes == {}


# -- coordinators, other protocols --------------------------------------------------------------------


def test_group_continues_under_its_next_coordinator(bench: ShardBench) -> None:
    bench.beat("a", 0)
    bench.beat("b", 0)
    bench.beat("a", 2)
    bench.reload()
    assert bench.consumer().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert bench.beat("a", 2, owned={ORDERS: [0, 1, 2]}).member_epoch == 3
    assert assigned(bench.beat("b", 3)) == {ORDERS: [3, 4, 5]}
    bench.reload()
    bench.advance(44.0)
    assert len(bench.consumer().members) == 2
    bench.advance(1.0)
    assert bench.consumer().members == {}


def test_rebalance_timeout_continues_under_the_next_coordinator(bench: ShardBench) -> None:
    bench.beat("a", 0, rebalance=20.0)
    bench.beat("b", 0)
    bench.beat("a", 2)
    bench.reload()
    bench.advance(20.0)
    assert set(bench.consumer().members) == {"b"}


def test_a_group_that_changed_its_protocol_leaves_nothing_behind(bench: ShardBench) -> None:
    bench.beat("a", 0)
    bench.beat("a", -1)
    bench.member_id()
    assert bench.delete_group() == 0
    last = {one.key: one for one in bench.log.entries if isinstance(one, Entry)}
    bench.log.entries[:] = last.values()
    bench.log.commit_all()
    bench.reload()
    assert bench.shard.groups == {}, "from the compacted log either"


def test_empty_groups_change_their_protocol(bench: ShardBench) -> None:
    bench.commit(5)
    assert bench.beat("a", 0).error_code == 0
    bench.reload()
    assert bench.consumer().epoch == 2
    assert bench.committed() == 5
    bench.beat("a", -1)
    member = bench.member_id()
    bench.join(member)
    bench.reload()
    assert bench.classic().state.value == "Empty"
    assert bench.committed() == 5


def test_groups_with_members_are_not_deleted(bench: ShardBench) -> None:
    bench.beat("a", 0)
    assert bench.delete_group() == NON_EMPTY_GROUP
    bench.beat("a", -1)
    assert bench.delete_group() == 0
    bench.reload()
    assert bench.shard.groups == {}


def test_empty_group_is_removed_with_its_last_offset() -> None:
    settings = GroupSettings(offsets_retention=600.0, offsets_retention_check_interval=10.0)
    bench = ShardBench(settings)
    bench.beat("a", 0)
    bench.commit(5, member="a", generation=2)
    bench.beat("a", -1)
    bench.advance(590.0)
    assert bench.committed() == 5
    bench.advance(20.0)
    assert bench.shard.groups == {}


def test_describing_shows_assignment_and_target(bench: ShardBench) -> None:
    bench.beat("a", 0)
    bench.beat("b", 0, instance="two")
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP, "none"], include_authorized_operations=False)
    group, unknown = bench.call(request).groups
    assert (unknown.error_code, unknown.error_message) == (GROUP_ID_NOT_FOUND, "Group none not found.")
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Reconciling",
        3,
        3,
        "uniform",
    )
    a, b = group.members
    assert [one.partitions for one in a.assignment.topic_partitions] == [ALL]
    assert [one.partitions for one in a.target_assignment.topic_partitions] == [[0, 1, 2]]
    assert (b.instance_id, b.member_epoch, b.subscribed_topic_names) == ("two", 3, ["orders"])
    assert b.assignment.topic_partitions == []
    assert b.target_assignment.topic_partitions[0].topic_name == "orders"
    bench.beat("a", 2)
    (group,) = bench.call(request).groups[:1]
    assert [one.partitions for one in group.members[0].assignment.topic_partitions] == [ALL], "not given up"
    assert bench.describe().error_message == "Group billing is not a classic group."


# -- assignors ----------------------------------------------------------------------------------------

TOPIC_IDS = [bytes([n]) * 16 for n in range(4)]
members_of = st.dictionaries(
    st.sampled_from([f"m{n}" for n in range(7)]),
    st.builds(Subscriber, topics=st.frozensets(st.sampled_from(TOPIC_IDS))),
    max_size=7,
)
sizes_of = st.dictionaries(st.sampled_from(TOPIC_IDS), st.integers(1, 9))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(members=members_of, sizes=sizes_of)
def test_every_partition_that_is_read_has_one_owner_that_reads_it(
    name: str, members: dict[str, Subscriber], sizes: dict[bytes, int]
) -> None:
    result = ASSIGNORS[name](members, sizes)
    assert set(result) == set(members)
    owned = sorted(one for partitions in result.values() for one in partitions)
    read = {topic_id for member in members.values() for topic_id in member.topics}
    assert owned == sorted((t, p) for t, size in sizes.items() if t in read for p in range(size))
    for member_id, partitions in result.items():
        assert {topic_id for topic_id, _ in partitions} <= members[member_id].topics
    assert ASSIGNORS[name](dict(reversed(members.items())), sizes) == result


@given(count=st.integers(1, 7), sizes=sizes_of, left=st.integers(0, 6))
@settings(max_examples=examples(60))
def test_uniform_is_balanced_and_moves_no_more_than_it_must(
    count: int, sizes: dict[bytes, int], left: int
) -> None:
    uniform = ASSIGNORS["uniform"]
    everything = frozenset(sizes)
    first = uniform({f"m{n}": Subscriber(everything) for n in range(count)}, sizes)
    totals = [len(partitions) for partitions in first.values()]
    assert max(totals) - min(totals) <= 1
    stay = {f"m{n}" for n in range(count) if n != left} or {"m9"}
    again = uniform({one: Subscriber(everything, frozenset(first.get(one, ()))) for one in stay}, sizes)
    totals = [len(partitions) for partitions in again.values()]
    assert max(totals) - min(totals) <= 1
    for one in stay & set(first):
        assert first[one] <= again[one], "who stays keeps what it has"


def test_consumer_group_uniformly_hands_out_as_apache_kafka_does() -> None:
    """Seven partitions, members that come one by one and go again, as in the scenario of that name."""
    topic = TOPIC_IDS[0]
    has: dict[str, frozenset[tuple[bytes, int]]] = {}
    seen = []
    for step in ("+a", "+b", "+c", "+d", "-a", "-b", "-c"):
        if step[0] == "+":
            has[step[1]] = frozenset()
        else:
            del has[step[1]]
        members = {one: Subscriber(frozenset({topic}), owned) for one, owned in has.items()}
        given = ASSIGNORS["uniform"](members, {topic: 7})
        has = {one: frozenset(partitions) for one, partitions in given.items()}
        seen.append(" ".join(one + "".join(str(n) for _, n in sorted(has[one])) for one in sorted(has)))
    assert seen == [
        "a0123456",
        "a0123 b456",
        "a012 b45 c36",
        "a01 b45 c36 d2",
        "b45 c36 d012",
        "c346 d0125",
        "d0123456",
    ]


def test_range_gives_equal_numbers_of_all_topics_to_the_same_member() -> None:
    everything = frozenset(TOPIC_IDS[:2])
    members = {
        "a": Subscriber(everything),
        "b": Subscriber(everything),
        "z": Subscriber(everything, instance_id="i"),
    }
    result = ASSIGNORS["range"](members, dict.fromkeys(TOPIC_IDS[:2], 5))
    assert {name: sorted(p for t, p in owned if t == TOPIC_IDS[0]) for name, owned in result.items()} == {
        "z": [0, 1],
        "a": [2, 3],
        "b": [4],
    }
    for owned in result.values():
        assert {p for t, p in owned if t == TOPIC_IDS[0]} == {p for t, p in owned if t == TOPIC_IDS[1]}
