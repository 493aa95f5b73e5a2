"""Commits and places on a scripted coordinator: what a fault of a moment must not spoil."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pykafka2 import KafkaConsumer
from pykafka2.consumer.commit.errors import refusal_in
from pykafka2.consumer.commit.topic_ids import NO_IDS, TopicIds
from pykafka2.consumer.state.group_identity import GroupIdentity
from pykafka2.consumer.state.subscription import Hold as Holding
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.errors import (
    CorruptResponse,
    KafkaTimeoutError,
    NotCoordinator,
    RebalanceInProgress,
    StaleMemberEpoch,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.types import OffsetAndMetadata
from tests.cluster.scripted import Hold, ScriptedBroker
from tests.consumer.commit.scripted_coordinator import (
    FIND_COORDINATOR,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OldCluster,
)
from tests.consumer.commit.stories import FIRST, ORDERS, SECOND


@pytest.fixture
def cluster() -> OldCluster:
    return OldCluster({FIND_COORDINATOR: (0, 3), OFFSET_COMMIT: (2, 8), OFFSET_FETCH: (1, 7)})


def reader(cluster: OldCluster, **options: Any) -> KafkaConsumer:
    consumer = cluster.consumer(group_id="old", **{"enable_auto_commit": False, **options})
    consumer.assign(ORDERS)
    return consumer


def refused(*codes: int) -> OffsetCommitResponse:
    partitions = [
        OffsetCommitResponsePartition(partition_index=number, error_code=code)
        for number, code in enumerate(codes)
    ]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=partitions)])


def sent(cluster: OldCluster) -> list[int]:
    requests = cluster.requests(OffsetCommitRequest)
    return [one.topics[0].partitions[0].committed_offset for one in requests]


# ---------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize("is_last", [True, False])
def test_fatal_error_is_reported_before_retriable_ones(is_last: bool) -> None:
    codes = [NotCoordinator.code, TopicAuthorizationFailed.code]
    error = refusal_in(refused(*(codes if is_last else reversed(codes))), ORDERS)
    assert isinstance(error, TopicAuthorizationFailed)
    assert f"orders-{int(is_last)}" in str(error)
    assert f"orders-{int(not is_last)}" not in str(error)


def fetched(group_id: str, offset: int, *numbers: int) -> OffsetFetchResponseGroup:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=number, committed_offset=offset + number, metadata="")
        for number in numbers
    ]
    topics = [OffsetFetchResponseTopics(name="orders", partitions=partitions)]
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def test_committed_offsets_are_those_of_the_own_group_and_no_partition_may_be_missing(
    cluster: OldCluster,
) -> None:
    with reader(cluster) as consumer:
        assert consumer._core.group is not None
        committed = consumer._core.group.resume._committed
        response = OffsetFetchResponse(groups=[fetched("old", 5, 0, 1), fetched("another", 70, 0, 1)])
        assert committed.refusal(response, ORDERS, NO_IDS) is None
        found = committed.read(response, ORDERS)
        assert {one: outcome.offset for one, outcome in found.items() if outcome is not None} == {
            ORDERS[0]: 5,
            ORDERS[1]: 6,
        }
        for number in (0, 1):
            error = committed.refusal(OffsetFetchResponse(groups=[fetched("old", 5, number)]), ORDERS, NO_IDS)
            assert isinstance(error, CorruptResponse)
            assert str(error).endswith(f"lacks orders-{1 - number}")


def test_abandoned_commit_does_not_block_later_ones(cluster: OldCluster) -> None:
    with reader(cluster) as consumer:
        consumer.commit({FIRST: 0})
        cluster.on(OffsetCommitRequest, lambda request, broker: Hold())
        assert consumer._core.group is not None
        abandoned = consumer._core.group.committer._begin(
            {FIRST: OffsetAndMetadata(1, "", -1)}, 60, is_retried=True
        )
        cluster.runtime.run_for(0.1)
        abandoned.completion.cancel()
        consumer.commit_async({FIRST: 2})
        cluster.runtime.run_for(0.1)
        assert sent(cluster) == [0, 1, 2]


def test_member_with_a_new_epoch_repeats_its_commit_at_once(cluster: OldCluster) -> None:
    times = []

    def stale_once(request: OffsetCommitRequest, broker: ScriptedBroker) -> OffsetCommitResponse:
        times.append(cluster.now)
        if len(times) > 1:
            return cluster.commit(request, broker)
        group_status.identity = GroupIdentity("me", 6, None, 1)
        return refused(StaleMemberEpoch.code)

    with reader(cluster) as consumer:
        assert consumer._core.group is not None
        group_status = consumer._core.group.group_status
        group_status.identity = GroupIdentity("me", 5, None, 1)
        cluster.on(OffsetCommitRequest, stale_once)
        consumer.commit({FIRST: 1})
        assert times[1] - times[0] < 0.05
        epochs = [one.generation_id_or_member_epoch for one in cluster.requests(OffsetCommitRequest)]
        assert epochs == [5, 6]


def test_unknown_topic_in_a_commit_response_refreshes_metadata(cluster: OldCluster) -> None:
    with reader(cluster) as consumer:
        consumer.commit({FIRST: 0})
        cluster.runtime.run_for(5)
        before = len(cluster.requests(MetadataRequest))
        cluster.on(OffsetCommitRequest, lambda *_: refused(UnknownTopicOrPartition.code))
        consumer.commit_async({FIRST: 1})
        cluster.runtime.run_for(2)
        assert len(cluster.requests(MetadataRequest)) > before


# ---------------------------------------------------------------------------------------- automatic ones


def test_after_a_long_pause_automatic_commits_do_not_come_in_a_row(cluster: OldCluster) -> None:
    with reader(cluster, enable_auto_commit=True, auto_commit_interval_ms=5000) as consumer:
        consumer.seek(FIRST, 0)
        consumer.poll(100)
        cluster.runtime.run_for(60)
        for offset in range(1, 5):
            consumer.seek(FIRST, offset)
            consumer.poll(500)
        assert len(sent(cluster)) == 1


def test_only_one_automatic_commit_is_in_flight(cluster: OldCluster) -> None:
    held = Hold()
    cluster.on(OffsetCommitRequest, lambda request, broker: held)
    with reader(cluster, enable_auto_commit=True, auto_commit_interval_ms=100) as consumer:
        consumer.seek(FIRST, 0)
        for _ in range(10):
            consumer.poll(200)
        assert len(sent(cluster)) == 1
        consumer.close(timeout=0.1)


def test_automatic_commits_wait_where_there_is_no_member(
    cluster: OldCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "pykafka2"),
        reader(cluster, enable_auto_commit=True, auto_commit_interval_ms=100) as consumer,
    ):
        consumer.seek(FIRST, 0)
        assert consumer._core.group is not None
        consumer._core.group.group_status.commit_error = RebalanceInProgress("not now")
        for _ in range(5):
            consumer.poll(200)
        assert not [message for message in caplog.messages if "automatic commit" in message]
        consumer._core.group.group_status.commit_error = None
        consumer.poll(200)
        cluster.runtime.run_for(0.1)
        assert sent(cluster)


# ---------------------------------------------------------------------------------------- ends


def test_close_reports_each_commit_outcome_though_callbacks_raise(cluster: OldCluster) -> None:
    outcomes: list[tuple[int, BaseException | None]] = []

    def raising(offsets: Any, error: BaseException | None) -> None:
        outcomes.append((offsets[FIRST].offset, error))
        raise ValueError(offsets[FIRST].offset)

    consumer = reader(cluster)
    for offset in (1, 2, 3):
        consumer.commit_async({FIRST: offset}, raising)
    cluster.runtime.run_for(1)
    with pytest.raises(ValueError, match="1"):
        consumer.close()
    assert outcomes == [(1, None), (2, None), (3, None)]


def test_stored_offsets_of_kept_partitions_are_not_committed_with_revoked_ones(cluster: OldCluster) -> None:
    with reader(cluster, enable_auto_commit=True, enable_auto_offset_store=False) as consumer:
        consumer.store_offsets(offsets={FIRST: 3, SECOND: 4})
        consumer.assign([FIRST])
        cluster.runtime.run_for(1)
        assert set(cluster.offsets) == {SECOND}


def test_a_commit_that_a_ctrl_c_ended_is_not_sent_later(cluster: OldCluster) -> None:
    held = Hold()
    cluster.on(OffsetCommitRequest, lambda request, broker: held)
    with reader(cluster) as consumer:
        consumer.commit_async({FIRST: 1})
        driver = consumer._core.cluster.driver
        wait_until = driver.wait_until

        def interrupted(*arguments: Any) -> bool:
            wait_until(lambda: False, 0.2)
            raise KeyboardInterrupt

        driver.wait_until = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            consumer.commit({FIRST: 2})
        driver.wait_until = wait_until  # type: ignore[method-assign]
        cluster.on(OffsetCommitRequest, cluster.commit)
        held.release(cluster.commit(cluster.requests(OffsetCommitRequest)[0], cluster.brokers[0]))
        cluster.runtime.run_for(5)
        assert sent(cluster) == [1]


# ---------------------------------------------------------------------------------------- places


def test_offset_fetch_of_an_earlier_assignment_is_repeated(cluster: OldCluster) -> None:
    held: list[tuple[Hold, OffsetFetchRequest]] = []

    def tell(request: OffsetFetchRequest, broker: ScriptedBroker) -> Any:
        if held:
            return cluster.tell(request, broker)
        held.append((Hold(), request))
        return held[0][0]

    with reader(cluster) as consumer:
        consumer.commit({FIRST: 5})
        cluster.on(OffsetFetchRequest, tell)
        consumer.poll(200)
        hold, request = held[0]
        answer: OffsetFetchResponse = cluster.tell(request, cluster.brokers[0])
        consumer.assign([])
        consumer.commit({FIRST: 7})
        consumer.assign([FIRST])
        hold.release(answer)
        assert consumer.position(FIRST) == 7


def test_invalid_committed_offset_is_not_read_as_none(cluster: OldCluster) -> None:
    def odd(request: OffsetFetchRequest, broker: ScriptedBroker) -> OffsetFetchResponse:
        response = cluster.tell(request, broker)
        response.topics[0].partitions[0].committed_offset = -5
        return response

    cluster.on(OffsetFetchRequest, odd)
    with reader(cluster) as consumer, pytest.raises(KafkaTimeoutError, match="orders-0 at -5"):
        consumer.committed(FIRST, timeout_ms=500)


def test_topics_are_named_by_ids_only_where_all_have_one(cluster: OldCluster) -> None:
    with reader(cluster) as consumer:
        consumer.poll(100)
        metadata = consumer._core.cluster.metadata
        assert set(TopicIds.of(["orders"], metadata).by_name) == {"orders"}
        assert TopicIds.of(["orders", "unknown"], metadata).by_name == {}


@pytest.fixture
def subscription() -> Subscription:
    subscription = Subscription()
    subscription.assign([FIRST])
    return subscription


def test_leader_epoch_is_unknown_after_skipped_offsets(subscription: Subscription) -> None:
    subscription.seek(FIRST, 5, leader_epoch=3)
    subscription.skip_to(FIRST, 9)
    assert subscription.positions == {FIRST: 9}
    assert subscription.leader_epochs == {}


def test_a_place_found_for_an_earlier_reset_does_not_count(subscription: Subscription) -> None:
    subscription.begin_reset(FIRST, -2)
    earlier = subscription.changes
    subscription.begin_reset(FIRST, -1)
    subscription.end_resets({FIRST: (earlier, 0)})
    assert subscription.positions == {}
    subscription.end_resets({FIRST: (subscription.changes, 8)})
    assert subscription.positions == {FIRST: 8}


def test_partition_revoked_before_its_callback_stays_revoking(subscription: Subscription) -> None:
    subscription.add_pending([SECOND])
    subscription.mark_revoking([SECOND])
    subscription.confirm([SECOND])
    assert subscription.held(Holding.REVOKING) == [SECOND]
