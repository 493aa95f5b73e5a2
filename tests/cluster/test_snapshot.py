"""How a metadata answer changes the snapshot of the cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.cluster import validation as answers
from pykafka2.cluster.snapshot import (
    BELIEVED_AFTER,
    ClusterSnapshot,
    merge_response,
    with_leader,
    without_topics,
)
from pykafka2.errors import (
    CorruptResponse,
    LeaderNotAvailable,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import Node

ID_A, ID_B = bytes([1] * 16), bytes([2] * 16)


def partition(number: int, leader: int, epoch: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        partition_index=number, leader_id=leader, leader_epoch=epoch, replica_nodes=[0, 1], isr_nodes=[leader]
    )


def topic(
    name: str, *partitions: MetadataResponsePartition, topic_id: bytes = ID_A, error_code: int = 0
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=name, topic_id=topic_id, partitions=list(partitions), error_code=error_code
    )


def answer(*topics: MetadataResponseTopic, brokers: int = 2) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=f"h{node_id}", port=9092)
            for node_id in range(brokers)
        ],
        cluster_id="c",
        controller_id=1,
        topics=list(topics),
    )


def known(*topics: MetadataResponseTopic) -> ClusterSnapshot:
    return merge_response(ClusterSnapshot(), answer(*topics), ())


def test_response_replaces_the_snapshot_whole() -> None:
    snapshot = known(topic("orders", partition(0, 1, 5), partition(1, 0, 3)))
    assert snapshot.version == 1
    assert snapshot.controller_id == 1
    assert snapshot.nodes[0] == Node(0, "h0", 9092)
    info = snapshot.partition("orders", 0)
    assert info is not None
    assert (info.leader, info.leader_epoch, info.replicas, info.isr) == (1, 5, (0, 1), (1,))
    assert snapshot.names_by_id == {ID_A: "orders"}


def test_topics_that_an_answer_does_not_name_stay_known() -> None:
    before = known(topic("orders", partition(0, 1, 5)), topic("bills", partition(0, 0, 0), topic_id=ID_B))
    after = merge_response(before, answer(topic("bills", partition(0, 1, 1), topic_id=ID_B)), {"orders"})
    assert after.partition("orders", 0) == before.partition("orders", 0)
    assert after.version == 2


def test_unkept_topics_missing_in_the_response_are_dropped() -> None:
    before = known(topic("orders", partition(0, 1, 5)), topic("bills", partition(0, 0, 0), topic_id=ID_B))
    after = merge_response(before, answer(), {"bills"})
    assert set(after.topics) == {"bills"}
    assert after.names_by_id == {ID_B: "bills"}


def test_a_broker_that_is_behind_does_not_bring_back_an_old_leader() -> None:
    before = known(topic("orders", partition(0, 1, 5)))
    after = merge_response(before, answer(topic("orders", partition(0, 0, 4))), ())
    info = after.partition("orders", 0)
    assert info is not None
    assert (info.leader, info.leader_epoch) == (1, 5)


def test_leader_hint_is_dropped_after_three_contrary_responses() -> None:
    """Hints in other responses can be wrong, and their epoch may never come; the cached metadata is kept."""
    hinted = with_leader(known(topic("orders", partition(0, 1, 5))), "orders", 0, 0, 9)
    behind = answer(topic("orders", partition(0, 1, 5)))
    for _ in range(BELIEVED_AFTER - 1):
        hinted = merge_response(hinted, behind, ())
        info = hinted.partition("orders", 0)
        assert info is not None
        assert (info.leader, info.leader_epoch) == (0, 9)
    abandoned = merge_response(hinted, behind, ())
    confirmed = merge_response(hinted, answer(topic("orders", partition(0, 0, 9))), ())
    for _ in range(BELIEVED_AFTER):
        confirmed = merge_response(confirmed, behind, ())
    for snapshot, expected in ((abandoned, (1, 5)), (confirmed, (0, 9))):
        info = snapshot.partition("orders", 0)
        assert info is not None
        assert (info.leader, info.leader_epoch) == expected


def test_recreated_topic_starts_with_new_epochs() -> None:
    before = known(topic("orders", partition(0, 1, 5)))
    after = merge_response(before, answer(topic("orders", partition(0, 0, 0), topic_id=ID_B)), ())
    info = after.partition("orders", 0)
    assert info is not None
    assert (info.leader, info.leader_epoch) == (0, 0)
    assert after.topics["orders"].topic_id == ID_B


@pytest.mark.parametrize("was_missed", [False, True])
def test_recreated_topic_ignores_one_stale_broker(
    was_missed: bool,
) -> None:
    old, new = (topic("orders", partition(0, 1, 5), topic_id=one) for one in (ID_A, ID_B))
    now = known(old)
    for _ in range(BELIEVED_AFTER if was_missed else 0):
        now = merge_response(now, answer(topic("orders", error_code=UnknownTopicOrPartition.code or 0)), ())
    now = merge_response(now, answer(new), ())
    for _ in range(BELIEVED_AFTER - 1):
        now = merge_response(now, answer(old), ())
        assert now.topics["orders"].topic_id == ID_B
        assert now.topics["orders"].is_in_doubt, "a broker that knows is queried soon"
    confirmed = merge_response(now, answer(new), ())
    assert not confirmed.topics["orders"].is_in_doubt
    believed = merge_response(now, answer(old), ())
    assert believed.topics["orders"].topic_id == ID_A, "or the first one was wrong, and all others are right"
    assert not believed.topics["orders"].is_in_doubt


@pytest.mark.parametrize("between", [UnknownTopicOrPartition.code or 0, 0])
def test_known_topic_is_not_in_doubt_when_returned_again(between: int) -> None:
    """After brokers that did not know it, or its id."""
    old = topic("orders", partition(0, 1, 5))
    now = known(old)
    for _ in range(BELIEVED_AFTER):
        received = topic("orders", partition(0, 1, 5), topic_id=bytes(16), error_code=between)
        now = merge_response(now, answer(received), ())
    now = merge_response(now, answer(old), ())
    assert now.topics["orders"].topic_id == ID_A
    assert now.topics["orders"].is_usable
    assert not now.topics["orders"].is_in_doubt


def test_leader_election_keeps_the_known_leader() -> None:
    before = known(topic("orders", partition(0, 1, 5)))
    after = merge_response(before, answer(topic("orders", error_code=LeaderNotAvailable.code)), ())
    assert after.partition("orders", 0) == before.partition("orders", 0)
    assert isinstance(after.topics["orders"].error, LeaderNotAvailable)


def test_known_topic_reported_as_unknown_is_first_in_doubt_and_then_removed() -> None:
    snapshot = known(topic("orders", partition(0, 1, 5)))
    gone = answer(topic("orders", error_code=UnknownTopicOrPartition.code))
    for _ in range(BELIEVED_AFTER - 1):
        snapshot = merge_response(snapshot, gone, ())
        assert snapshot.topics["orders"].is_usable
    snapshot = merge_response(snapshot, gone, ())
    assert not snapshot.topics["orders"].is_usable


def test_kept_topic_missing_in_a_full_list_is_first_in_doubt() -> None:
    snapshot = known(topic("orders", partition(0, 1, 5)), topic("bills", partition(0, 0, 0), topic_id=ID_B))
    for _ in range(BELIEVED_AFTER - 1):
        snapshot = merge_response(snapshot, answer(), {"orders"}, names_all=True)
        assert set(snapshot.topics) == {"orders"}
        assert snapshot.topics["orders"].is_usable
        assert snapshot.topics["orders"].is_in_doubt
    snapshot = merge_response(snapshot, answer(), {"orders"}, names_all=True)
    assert not snapshot.topics["orders"].is_usable
    assert not snapshot.topics["orders"].is_in_doubt


def test_unauthorized_topic_missing_in_a_full_list_keeps_its_error() -> None:
    snapshot = known(topic("orders", error_code=TopicAuthorizationFailed.code))
    for _ in range(BELIEVED_AFTER + 1):
        snapshot = merge_response(snapshot, answer(), {"orders"}, names_all=True)
        assert isinstance(snapshot.topics["orders"].error, TopicAuthorizationFailed)


def test_lower_partition_count_is_first_in_doubt_and_then_accepted() -> None:
    """A topic never loses partitions: the broker that answered does not know those added recently."""
    snapshot = known(topic("orders", partition(0, 1, 5), partition(1, 0, 0)))
    behind = answer(topic("orders", partition(0, 1, 6)))
    for _ in range(BELIEVED_AFTER - 1):
        snapshot = merge_response(snapshot, behind, ())
        assert set(snapshot.topics["orders"].partitions) == {0, 1}
        assert snapshot.topics["orders"].is_in_doubt
    assert (
        not merge_response(snapshot, answer(topic("orders", partition(0, 1, 6), partition(1, 0, 0))), ())
        .topics["orders"]
        .is_in_doubt
    )
    snapshot = merge_response(snapshot, behind, ())
    assert set(snapshot.topics["orders"].partitions) == {0}
    anew = merge_response(
        known(topic("orders", partition(0, 1, 5), partition(1, 0, 0))),
        answer(topic("orders", partition(0, 1, 0), topic_id=ID_B)),
        (),
    )
    assert set(anew.topics["orders"].partitions) == {0}, "another topic has its own"


def test_a_topic_that_may_not_be_seen_any_more_is_not_in_doubt() -> None:
    """Otherwise it would be requested without end."""
    snapshot = known(topic("orders", partition(0, 1, 5), partition(1, 0, 0)))
    snapshot = merge_response(snapshot, answer(topic("orders", partition(0, 1, 5))), ())
    assert snapshot.topics["orders"].is_in_doubt
    refused = answer(topic("orders", error_code=TopicAuthorizationFailed.code))
    snapshot = merge_response(snapshot, refused, ())
    assert not snapshot.topics["orders"].is_in_doubt
    assert set(snapshot.topics["orders"].partitions) == {0, 1}


def test_a_topics_error_names_it() -> None:
    snapshot = known(topic("orders", error_code=TopicAuthorizationFailed.code))
    error = snapshot.topics["orders"].error
    assert isinstance(error, TopicAuthorizationFailed)
    assert "'orders'" in str(error)


def test_a_hint_at_a_newer_leader_is_taken_and_an_older_one_is_not() -> None:
    before = known(topic("orders", partition(0, 1, 5)))
    after = with_leader(before, "orders", 0, 7, 6, [Node(7, "h7", 9092)])
    info = after.partition("orders", 0)
    assert info is not None
    assert (info.leader, info.leader_epoch) == (7, 6)
    assert after.nodes[7].host == "h7"
    assert with_leader(after, "orders", 0, 1, 6) is after
    assert with_leader(after, "orders", 0, 99, 7) is after, "an address in no response"
    assert with_leader(after, "bills", 0, 1, 7) is after


def test_a_hint_at_a_leader_that_is_none_of_the_brokers_is_not_waited_for_without_end() -> None:
    before = known(topic("orders", partition(0, 1, 5)))
    assert with_leader(before, "orders", 0, 7, 2**31 - 1, [Node(7, "h7", 9092)]) is before, "no such epoch"
    misled = with_leader(before, "orders", 0, 7, 50, [Node(7, "h7", 9092)])
    after = merge_response(misled, answer(topic("orders", partition(0, 1, 5))), ())
    info = after.partition("orders", 0)
    assert info is not None
    assert (info.leader, info.leader_epoch) == (1, 5)


def test_forgotten_topics_are_not_in_the_snapshot() -> None:
    assert not without_topics(known(topic("orders", partition(0, 1, 5))), {"orders"}).topics


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 6)), max_size=12))
def test_an_epoch_never_runs_back_while_the_topic_is_the_same(received: list[tuple[int, int]]) -> None:
    snapshot = ClusterSnapshot()
    highest = -1
    for leader, epoch in received:
        snapshot = merge_response(
            snapshot, answer(topic("orders", partition(0, leader, epoch)), brokers=4), ()
        )
        info = snapshot.partition("orders", 0)
        assert info is not None
        if epoch >= 0:
            assert info.leader_epoch >= highest
            highest = max(highest, epoch)
        else:
            highest = info.leader_epoch  # a broker that does not say epochs is believed


def test_more_partitions_than_any_topic_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_PARTITIONS", 3)
    received = [
        MetadataResponsePartition(partition_index=number, leader_id=0, replica_nodes=[], isr_nodes=[])
        for number in range(4)
    ]
    for count in (3, 4):
        topic = MetadataResponseTopic(name="orders", partitions=received[:count])
        answer = MetadataResponse(brokers=[], topics=[topic])
        if count == 3:
            assert answers.checked_metadata(answer) == []
        else:
            with pytest.raises(
                CorruptResponse, match="4 partitions of topic 'orders'; at most 3 are accepted"
            ):
                answers.checked_metadata(answer)


def test_response_without_a_topic_id_keeps_the_topic() -> None:
    """One of an older version: what it does not know yet is no other topic's."""
    with_id = known(topic("orders", partition(0, 1, 5)))
    without = merge_response(with_id, answer(topic("orders", partition(0, 0, 4), topic_id=ZERO_UUID)), ())
    info = without.partition("orders", 0)
    assert info is not None
    assert (info.leader, info.leader_epoch) == (1, 5)


# ---------------------------------------------------------------------- several topics and partitions


def leaders(snapshot: ClusterSnapshot) -> dict[tuple[str, int], int]:
    return {
        (name, one.partition): one.leader
        for name, of in snapshot.topics.items()
        for one in of.partitions.values()
    }


def test_hints_at_leaders_of_several_partitions_leave_all_others_as_they_are() -> None:
    snapshot = known(
        topic("orders", partition(0, 1, 5), partition(1, 1, 5), partition(2, 1, 5)),
        topic("bills", partition(0, 1, 5), topic_id=ID_B),
    )
    endpoints = [Node(7, "h7", 9092), Node(8, "h8", 9092)]
    snapshot = with_leader(snapshot, "orders", 0, 8, 6, endpoints)
    snapshot = with_leader(snapshot, "orders", 2, 7, 6)
    assert leaders(snapshot) == {("orders", 0): 8, ("orders", 1): 1, ("orders", 2): 7, ("bills", 0): 1}
    received = topic("orders", partition(0, 1, 5), partition(1, 1, 5), partition(2, 1, 5))
    older = answer(received, brokers=9)
    for _ in range(BELIEVED_AFTER - 1):
        snapshot = merge_response(snapshot, older, {"bills"})
        assert [leaders(snapshot)["orders", number] for number in (0, 2)] == [8, 7], (
            "both hints are remembered"
        )
    snapshot = merge_response(snapshot, older, {"bills"})
    assert leaders(snapshot) == {("orders", 0): 1, ("orders", 1): 1, ("orders", 2): 1, ("bills", 0): 1}


def test_every_topic_that_a_list_of_all_leaves_out_is_unknown_in_the_end() -> None:
    ids = {name: bytes([number] * 16) for number, name in enumerate("abcd", start=1)}
    snapshot = known(*(topic(name, partition(0, 1, 5), topic_id=one) for name, one in ids.items()))
    rest = answer(
        topic("b", partition(0, 1, 6), topic_id=ids["b"]), topic("d", partition(0, 1, 5), topic_id=ids["d"])
    )
    for _ in range(BELIEVED_AFTER):
        snapshot = merge_response(snapshot, rest, set(ids), names_all=True)
    unknown = {
        name for name, one in snapshot.topics.items() if one.error_code == UnknownTopicOrPartition.code
    }
    assert unknown == {"a", "c"}
    assert snapshot.names_by_id.keys() >= {ids["b"], ids["d"]}


def test_topics_without_ids_have_no_names_by_id() -> None:
    """Brokers before 2.8 tell none."""
    snapshot = known(*(topic(name, partition(0, 1, 5), topic_id=ZERO_UUID) for name in "ab"))
    assert snapshot.names_by_id == {}
    assert set(without_topics(snapshot, {"a", "c"}).topics) == {"b"}
