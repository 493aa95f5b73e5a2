"""Committed offsets: commits by members and others, fetches, transactions, expiry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.broker.coordinators.replay import Producer, record_of
from pykafka2.broker.coordinators.runtime import Entry
from pykafka2.broker.coordinators.settings import GroupSettings
from pykafka2.protocol.messages import committed_offsets as wire
from pykafka2.protocol.messages.group_records import LegacyOffsetCommitKey, OffsetCommitKey, OffsetCommitValue
from tests.broker.support.bench import GROUP, ORDERS, REFUNDS, Bench, ShardBench
from tests.error_codes import (
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION,
    INVALID_GROUP_ID,
    NON_EMPTY_GROUP,
    OFFSET_METADATA_TOO_LARGE,
    REBALANCE_IN_PROGRESS,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSTABLE_OFFSET_COMMIT,
    UNSUPPORTED_VERSION,
)

MakeBench = Callable[..., Bench]

MOVER = Producer(7, 0)
DAY = 86400.0
TEN_MINUTES = GroupSettings(offsets_retention=600.0, offsets_retention_check_interval=10.0)


@pytest.mark.parametrize("version", range(2, 11))
def test_empty_group_accepts_commits_without_a_member_in_every_version(
    shard_bench: ShardBench, version: int
) -> None:
    assert shard_bench.commit(42, version=version) == 0
    assert shard_bench.committed() == 42
    assert shard_bench.describe().group_state == "Empty"


def test_group_with_members_rejects_commits_without_a_member(bench: Bench) -> None:
    (member,) = bench.stable(1)
    assert bench.commit() == UNKNOWN_MEMBER_ID
    assert bench.commit(generation=1) == UNKNOWN_MEMBER_ID
    assert bench.commit(member=member, generation=0) == ILLEGAL_GENERATION
    assert bench.commit(member=member, generation=1) == 0


def test_commit_before_the_assignment_gets_rebalance_in_progress(bench: Bench) -> None:
    (member,) = bench.stable(1)
    bench.join(member)
    bench.advance(0.1)
    assert bench.commit() == UNKNOWN_MEMBER_ID
    assert bench.commit(member=member, generation=2) == REBALANCE_IN_PROGRESS


def test_transactional_commit_is_accepted_before_the_assignment(shard_bench: ShardBench) -> None:
    """Its producer does not wait for rebalances; the member's generation is checked nevertheless."""
    (member,) = shard_bench.stable(1)
    shard_bench.join(member)
    assert shard_bench.commit_transactional(8, MOVER, member=member, generation=2) == 0
    assert shard_bench.commit_transactional(8, MOVER, member=member, generation=1) == ILLEGAL_GENERATION


def test_commit_with_a_generation_to_a_missing_group_is_rejected(shard_bench: ShardBench) -> None:
    assert shard_bench.commit(member="m", generation=3, version=8) == ILLEGAL_GENERATION
    assert shard_bench.commit(member="m", generation=3, version=9) == GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("metadata", "code"),
    [("x" * 4096, 0), ("x" * 4097, OFFSET_METADATA_TOO_LARGE), ("é" * 4096, 0), (None, 0)],
)
def test_offset_metadata_above_4096_characters_is_rejected(
    bench: Bench, metadata: str | None, code: int
) -> None:
    assert bench.commit(metadata=metadata) == code
    assert bench.committed() == (-1 if code else 5)


@pytest.mark.parametrize("version", range(1, 10))
def test_uncommitted_offset_is_minus_one_without_an_error(bench: Bench, version: int) -> None:
    def partitions(group_id: str) -> list[tuple[int, int, str | None, int]]:
        if version >= 8:
            group = bench.fetch([0, 5], group_id=group_id, version=version)
        else:
            topic = wire.OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 5])
            group = bench.call(wire.OffsetFetchRequest(group_id=group_id, topics=[topic]), version)
        assert group.error_code == 0
        return [
            (one.partition_index, one.committed_offset, one.metadata, one.error_code)
            for one in group.topics[0].partitions
        ]

    assert partitions("missing") == [(0, -1, "", 0), (5, -1, "", 0)]
    bench.commit(5)
    assert partitions(GROUP) == [(0, 5, "", 0), (5, -1, "", 0)]


def test_offset_fetch_without_topics_returns_all_offsets(shard_bench: ShardBench) -> None:
    shard_bench.commit(5, partition=1)
    shard_bench.commit(6, partition=0, metadata="note")
    shard_bench.commit(7, topic="refunds")
    everything = shard_bench.fetch(None)
    assert {
        (topic.name, one.partition_index): (one.committed_offset, one.metadata)
        for topic in everything.topics
        for one in topic.partitions
    } == {("orders", 0): (6, "note"), ("orders", 1): (5, ""), ("refunds", 0): (7, "")}
    for version in range(2, 8):
        old = shard_bench.call(wire.OffsetFetchRequest(group_id=GROUP, topics=None), version)
        assert [topic.name for topic in old.topics] == ["orders", "refunds"]
        assert old.error_code == 0
    topics = [wire.OffsetFetchRequestTopic(name="orders", partition_indexes=[1, 5])]
    oldest = shard_bench.call(wire.OffsetFetchRequest(group_id=GROUP, topics=topics), 1)
    assert [one.committed_offset for one in oldest.topics[0].partitions] == [5, -1]


def test_offsets_by_topic_id_in_version_10(shard_bench: ShardBench) -> None:
    assert shard_bench.commit(9, version=10) == 0
    assert shard_bench.commit(9, topic="no such topic id", version=10) == UNKNOWN_TOPIC_ID
    response = shard_bench.fetch([0], version=10)
    assert response.topics[0].topic_id == ORDERS
    assert response.topics[0].partitions[0].committed_offset == 9
    assert (
        shard_bench.fetch([0], topic="no such topic id", version=10).topics[0].partitions[0].error_code
        == UNKNOWN_TOPIC_ID
    )
    assert [topic.topic_id for topic in shard_bench.fetch(None, version=10).topics] == [ORDERS]


def test_commits_to_topics_that_do_not_exist_are_refused(shard_bench: ShardBench) -> None:
    assert shard_bench.commit(topic="nothing") == UNKNOWN_TOPIC_OR_PARTITION
    assert shard_bench.commit(partition=6) == UNKNOWN_TOPIC_OR_PARTITION
    assert shard_bench.commit_transactional(5, MOVER, group_id="other") == 0
    assert shard_bench.shard.offsets.committed == {}


def test_offsets_in_legacy_records_are_loaded(shard_bench: ShardBench) -> None:
    record = record_of(
        LegacyOffsetCommitKey(group=GROUP, topic="orders", partition=0),
        OffsetCommitValue(offset=3, metadata="", commit_timestamp=1),
        0,
    )
    shard_bench.log.entries.append(Entry(record.key, record.value))
    shard_bench.log.commit_all()
    shard_bench.reload()
    assert shard_bench.committed() == 3


@pytest.mark.parametrize("version", [9, 10])
def test_commit_stores_the_topic_id_in_record_version_4(shard_bench: ShardBench, version: int) -> None:
    shard_bench.commit(5, version=version)
    value = shard_bench.log.entries[-1].value
    assert value is not None
    assert value[:2] == b"\0\4"
    assert OffsetCommitValue.decode(value[2:], 4).topic_id == ORDERS


def test_offset_of_a_former_topic_with_the_same_name_is_not_returned_by_topic_id(
    shard_bench: ShardBench,
) -> None:
    record = record_of(
        OffsetCommitKey(group=GROUP, topic="orders", partition=0),
        OffsetCommitValue(offset=3, metadata="", commit_timestamp=1, topic_id=REFUNDS),
    )
    shard_bench.log.entries.append(Entry(record.key, record.value))
    shard_bench.log.commit_all()
    shard_bench.reload()
    assert shard_bench.committed(version=9) == 3  # as in Kafka: only a request with an id can tell them apart
    assert shard_bench.committed(version=10) == -1
    shard_bench.commit(4)
    assert shard_bench.committed(version=10) == 4


def test_deleting_a_topic_deletes_its_offsets(make_bench: MakeBench) -> None:
    bench = make_bench(brokers=3)
    assert bench.commit(5) == 0
    assert bench.commit(6, topic="refunds") == 0
    bench.delete_topic("orders")
    assert [topic.name for topic in bench.fetch(None).topics] == ["refunds"]
    bench.reload()
    assert bench.committed(topic="refunds") == 6
    assert list(bench.shard.offsets.committed[GROUP]) == [("refunds", 0)]


# -- transactions -------------------------------------------------------------------------------------


def test_transactional_offset_is_visible_after_the_commit(shard_bench: ShardBench) -> None:
    shard_bench.commit(1)
    assert shard_bench.commit_transactional(8, MOVER) == 0
    assert shard_bench.committed() == 1
    assert shard_bench.committed(require_stable=True) == -1 - UNSTABLE_OFFSET_COMMIT
    assert shard_bench.committed(1, require_stable=True) == -1, "only its own partitions are unstable"
    shard_bench.end_transaction(MOVER, committed=True)
    assert shard_bench.committed(require_stable=True) == 8


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("reloaded", ["before the marker", "after the marker"])
def test_pending_offsets_outlive_their_coordinator(
    shard_bench: ShardBench, reloaded: str, committed: bool
) -> None:
    shard_bench.commit(1)
    shard_bench.commit_transactional(8, MOVER)
    if reloaded == "before the marker":
        shard_bench.reload()
        assert shard_bench.committed(require_stable=True) == -1 - UNSTABLE_OFFSET_COMMIT
    shard_bench.end_transaction(MOVER, committed)
    if reloaded == "after the marker":
        shard_bench.reload()
    assert shard_bench.committed(require_stable=True) == (8 if committed else 1)


def test_transactions_of_two_producers_end_independently(shard_bench: ShardBench) -> None:
    other = Producer(8, 0)
    shard_bench.commit_transactional(8, MOVER)
    shard_bench.commit_transactional(9, other, partition=1)
    shard_bench.end_transaction(other, committed=True)
    assert shard_bench.committed(1, require_stable=True) == 9
    assert shard_bench.committed(0, require_stable=True) == -1 - UNSTABLE_OFFSET_COMMIT


def test_later_commit_outlives_the_offset_of_a_transaction(shard_bench: ShardBench) -> None:
    """The later record counts as in Apache Kafka, not the later marker; for the next coordinator, too."""
    shard_bench.commit_transactional(8, MOVER)
    shard_bench.commit(9)
    shard_bench.end_transaction(MOVER, committed=True)
    assert shard_bench.committed(require_stable=True) == 9
    shard_bench.reload()
    assert shard_bench.committed(require_stable=True) == 9
    shard_bench.commit_transactional(10, MOVER)
    shard_bench.end_transaction(MOVER, committed=True)
    assert shard_bench.committed(require_stable=True) == 10


@pytest.mark.parametrize("how", ["OffsetDelete", "the topic goes"])
def test_pending_offsets_can_be_deleted_before_they_are_committed(shard_bench: ShardBench, how: str) -> None:
    shard_bench.commit_transactional(8, MOVER)
    if how == "OffsetDelete":
        assert delete(shard_bench) == (0, 0)
    else:
        shard_bench.set_topics({}, recreated=["orders"])
    assert shard_bench.committed(require_stable=True) == -1, "it is not unstable any more"
    shard_bench.end_transaction(MOVER, committed=True)
    assert shard_bench.committed() == -1


def test_deleting_a_group_removes_its_pending_transactional_offsets(shard_bench: ShardBench) -> None:
    shard_bench.commit_transactional(8, MOVER)
    assert shard_bench.delete_group() == 0
    assert not shard_bench.shard.offsets.has_open_transaction(GROUP)
    shard_bench.end_transaction(MOVER, committed=True)
    assert GROUP not in shard_bench.shard.groups
    assert shard_bench.committed() == -1
    shard_bench.reload()
    assert shard_bench.committed() == -1


def test_transactional_commit_checks_member_and_generation_if_present(shard_bench: ShardBench) -> None:
    (member,) = shard_bench.stable(1)
    assert shard_bench.commit_transactional(8, MOVER, version=2) == 0
    assert shard_bench.commit_transactional(8, MOVER) == 0
    assert shard_bench.commit_transactional(8, MOVER, member=member, generation=1) == 0
    assert shard_bench.commit_transactional(8, MOVER, member=member, generation=0) == ILLEGAL_GENERATION
    assert shard_bench.commit_transactional(8, MOVER, member="stranger", generation=1) == UNKNOWN_MEMBER_ID
    assert (
        shard_bench.commit_transactional(8, MOVER, generation=4, member="m", group_id="none")
        == ILLEGAL_GENERATION
    )
    assert shard_bench.commit_transactional(8, MOVER, group_id="") == INVALID_GROUP_ID


# -- deletion and expiry ------------------------------------------------------------------------------


def delete(bench: Bench, topic: str = "orders", partition: int = 0) -> tuple[int, int | None]:
    """Send OffsetDelete. Return its error code, and the partition's if it has one."""
    deleted = wire.OffsetDeleteRequestPartition(partition_index=partition)
    topics = [wire.OffsetDeleteRequestTopic(name=topic, partitions=[deleted])]
    response = bench.call(wire.OffsetDeleteRequest(group_id=GROUP, topics=topics))
    return response.error_code, response.topics[0].partitions[0].error_code if response.topics else None


def test_offsets_of_topics_that_members_read_are_not_deleted(bench: Bench) -> None:
    assert delete(bench) == (GROUP_ID_NOT_FOUND, None)
    (member,) = bench.stable(1)
    bench.commit(5, member=member, generation=1)
    bench.commit(6, member=member, generation=1, topic="refunds")
    assert delete(bench) == (0, GROUP_SUBSCRIBED_TO_TOPIC)
    assert delete(bench, "refunds") == (0, 0)
    assert delete(bench, "refunds") == (0, 0)
    assert delete(bench, "nothing") == (0, 3)
    assert delete(bench, partition=6) == (0, 3)
    assert [topic.name for topic in bench.fetch(None).topics] == ["orders"]
    bench.leave(member)
    assert delete(bench) == (0, 0)
    assert bench.committed() == -1


def test_offset_delete_requires_other_protocol_types_to_be_empty(shard_bench: ShardBench) -> None:
    shard_bench.stable(1, kind="connect")
    assert delete(shard_bench) == (NON_EMPTY_GROUP, None)


def test_offsets_expire_a_week_after_the_group_became_empty(shard_bench: ShardBench) -> None:
    (member,) = shard_bench.stable(1, session=1800.0)
    shard_bench.commit(5, member=member, generation=1)
    for _ in range(5):
        shard_bench.advance(1000.0)
        assert shard_bench.heartbeat(member, 1) == 0
    shard_bench.leave(member)
    shard_bench.advance(7 * DAY - 1000.0)
    assert shard_bench.committed() == 5, (
        "more than a week since the commit, less since the group became empty"
    )
    shard_bench.advance(2000.0)
    assert shard_bench.shard.groups == {}, "the group goes with its last offset"
    shard_bench.reload()
    assert shard_bench.shard.offsets.committed == {}


def test_offsets_without_members_expire_a_week_after_the_last_commit(shard_bench: ShardBench) -> None:
    shard_bench.commit(5)
    shard_bench.commit(6, partition=1)
    shard_bench.advance(5 * DAY)
    shard_bench.commit(6, partition=1)
    shard_bench.advance(3 * DAY)
    assert (shard_bench.committed(0), shard_bench.committed(1)) == (-1, 6)


def test_offsets_of_unsubscribed_topics_of_a_live_group_expire(make_bench: MakeBench) -> None:
    bench = make_bench({"offsets.retention.minutes": 10, "offsets.retention.check.interval.ms": 60_000})
    (member,) = bench.stable(1, session=1800.0)
    bench.commit(5, member=member, generation=1)
    bench.commit(6, member=member, generation=1, topic="refunds")
    bench.advance(700.0)
    assert [topic.name for topic in bench.fetch(None).topics] == ["orders"]


def test_live_group_of_another_protocol_type_keeps_its_offsets() -> None:
    bench = ShardBench(TEN_MINUTES)
    (member,) = bench.stable(1, session=1800.0, kind="connect")
    bench.commit(5, member=member, generation=1)
    bench.advance(1200.0)
    assert bench.committed() == 5


@pytest.mark.parametrize("committed", [5, -1], ids=["beside a commit", "alone"])
def test_offsets_with_a_pending_transaction_do_not_expire(committed: int) -> None:
    bench = ShardBench(TEN_MINUTES)
    if committed >= 0:
        bench.commit(committed)
    bench.commit_transactional(6, MOVER)
    bench.advance(1200.0)
    assert GROUP in bench.shard.groups
    assert bench.committed() == committed
    bench.end_transaction(MOVER, committed=False)
    bench.advance(20.0)
    assert bench.shard.groups == {}


def test_retention_time_of_old_commit_versions_is_used(shard_bench: ShardBench) -> None:
    shard_bench.commit(5, version=4, retention_ms=3_600_000)
    shard_bench.reload()
    shard_bench.advance(3000.0)
    assert shard_bench.committed() == 5
    shard_bench.advance(700.0)
    assert shard_bench.committed() == -1


# -- KIP-1319: TxnOffsetCommit by topic id ------------------------------------------------------------


def test_version_6_commits_by_topic_id_and_names_the_topic_by_it() -> None:
    bench = ShardBench()
    assert bench.commit_transactional(8, MOVER, version=6) == 0
    bench.end_transaction(MOVER, committed=True)
    assert bench.committed() == 8
    offset = bench.shard.offsets.committed[GROUP]["orders", 0]
    assert offset.topic_id == bench.topic_id("orders")


@pytest.mark.parametrize("is_before_4_4", [True, False])
def test_kafka_4_4_stores_the_topic_id_of_commits_by_name_too(is_before_4_4: bool) -> None:
    bench = ShardBench(GroupSettings(is_before_4_4=is_before_4_4))
    assert bench.commit_transactional(8, MOVER, version=5) == 0
    bench.end_transaction(MOVER, committed=True)
    stored = bench.shard.offsets.committed[GROUP]["orders", 0].topic_id
    assert stored == (bytes(16) if is_before_4_4 else bench.topic_id("orders"))


def test_version_6_names_missing_groups_and_stale_epochs() -> None:
    bench = ShardBench(GroupSettings(consumer_assignment_interval=0.0))
    bench.beat("a", 0)
    missing = {"generation": 4, "member": "m", "group_id": "none"}
    assert bench.commit_transactional(8, MOVER, version=6, **missing) == GROUP_ID_NOT_FOUND
    assert bench.commit_transactional(8, MOVER, version=5, **missing) == ILLEGAL_GENERATION
    stale = {"member": "a", "generation": 9}
    assert bench.commit_transactional(8, MOVER, version=6, **stale) == STALE_MEMBER_EPOCH
    assert bench.commit_transactional(8, MOVER, version=5, **stale) == ILLEGAL_GENERATION
    assert bench.commit_transactional(8, MOVER, version=6, member="b", generation=2) == UNKNOWN_MEMBER_ID
    assert bench.commit_transactional(8, MOVER, version=6, member="a", generation=2) == 0


def test_offsets_of_a_recreated_topic_are_rejected_by_id_or_dropped() -> None:
    bench = ShardBench()
    old = bench.topic_id("orders")
    assert bench.commit_transactional(8, MOVER, version=6) == 0
    bench.set_topics({"orders": (bytes([7]) * 16, 6)}, recreated=["orders"])
    assert bench.commit_transactional(9, MOVER, version=6, topic_id=old) == UNKNOWN_TOPIC_ID
    bench.end_transaction(MOVER, committed=True)
    assert bench.committed() == -1
    assert bench.committed(require_stable=True) == -1


# -- KIP-848 ------------------------------------------------------------------------------------------


def test_commit_of_a_consumer_group_member_is_checked_against_its_epoch(bench: Bench) -> None:
    bench.beat("m", 0)
    assert bench.commit(5, member="m", generation=2) == 0
    assert bench.commit(5, member="m", generation=3) == STALE_MEMBER_EPOCH
    assert bench.commit(5, member="other", generation=2) == UNKNOWN_MEMBER_ID
    assert bench.commit(5) == UNKNOWN_MEMBER_ID
    assert bench.commit(5, member="m", generation=2, version=8) == UNSUPPORTED_VERSION


def test_old_epoch_may_commit_partitions_the_member_still_owns() -> None:
    """KIP-1251, Kafka 4.3; before it any old epoch was stale."""
    bench = ShardBench(GroupSettings(consumer_assignment_interval=0.0))
    bench.beat("a", 0)
    bench.beat("b", 0)
    bench.beat("a", 2, owned={ORDERS: list(range(6))})
    bench.beat("a", 2, owned={ORDERS: [0, 1, 2]})
    assert bench.consumer().members["a"].epoch == 3
    assert bench.commit(5, member="a", generation=2, partition=0) == 0
    assert bench.commit(5, member="a", generation=2, partition=5) == STALE_MEMBER_EPOCH
    bench.beat("b", 3)
    assert bench.commit(5, member="b", generation=2, partition=5) == STALE_MEMBER_EPOCH
    assert bench.commit_transactional(5, MOVER, member="a", generation=2, partition=5) == ILLEGAL_GENERATION


def test_offset_fetch_of_a_consumer_group_member_is_checked_against_its_epoch(bench: Bench) -> None:
    bench.beat("m", 0)
    assert bench.commit(5, member="m", generation=2) == 0
    assert bench.committed(member="m", epoch=2) == 5
    assert bench.fetch([0], member="m", epoch=1).error_code == STALE_MEMBER_EPOCH
    assert bench.fetch([0], member="other", epoch=2).error_code == UNKNOWN_MEMBER_ID
    assert bench.committed() == 5, "a fetch without a member is allowed"
