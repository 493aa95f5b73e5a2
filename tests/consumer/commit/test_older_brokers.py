"""Brokers older than KIP-699 and KIP-709: one group in each request."""

from __future__ import annotations

import pytest

from pykafka2 import OffsetAndMetadata
from pykafka2.errors import KafkaTimeoutError, TopicAuthorizationFailed, UnstableOffsetCommit
from pykafka2.protocol.messages.committed_offsets import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.registry import API_KEYS
from tests.cluster.scripted import Later, ScriptedBroker
from tests.consumer.commit.scripted_coordinator import (
    FIND_COORDINATOR,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    ORDERS,
    OldCluster,
)


@pytest.mark.parametrize(
    ("commits", "fetches"), [((2, 2), (1, 1)), ((2, 5), (1, 4)), ((2, 8), (1, 7))], ids=["1.0", "2.1", "2.8"]
)
def test_offsets_are_committed_and_resumed(commits: tuple[int, int], fetches: tuple[int, int]) -> None:
    cluster = OldCluster({FIND_COORDINATOR: (0, 3), OFFSET_COMMIT: commits, OFFSET_FETCH: fetches})
    cluster.append("orders", 0, *[b"x"] * 10)
    with cluster.reader() as consumer:
        assert consumer.position(ORDERS[0]) == 0
        assert len(consumer.poll(1000, max_records=4)[ORDERS[0]]) == 4
        consumer.commit()
        assert consumer.committed(ORDERS[0], metadata=True) == OffsetAndMetadata(4)
        assert consumer.committed(ORDERS[1]) == 0
    with cluster.reader() as consumer:
        assert consumer.position(ORDERS[0]) == 4


@pytest.mark.parametrize(("newest", "waits"), [(7, True), (6, False)], ids=["2.8", "2.4"])
def test_offsets_of_an_open_transaction_are_waited_for_where_brokers_can(newest: int, waits: bool) -> None:
    """OffsetFetch has had `require_stable` since version 7 (KIP-447), several groups since version 8."""
    cluster = OldCluster({FIND_COORDINATOR: (0, 3), OFFSET_COMMIT: (2, 8), OFFSET_FETCH: (1, newest)})
    with cluster.reader() as consumer:
        assert consumer.position(ORDERS[0]) == 0
        assert consumer.committed(ORDERS[0]) is None
    requests = cluster.requests(OffsetFetchRequest)
    assert [request.require_stable for request in requests] == [waits] * 2


def test_brokers_are_upgraded_while_the_consumer_runs() -> None:
    """Fields for old brokers must not be set in a newer version, which has no place for them."""
    old = {FIND_COORDINATOR: (0, 3), OFFSET_COMMIT: (2, 8), OFFSET_FETCH: (1, 7)}
    cluster = OldCluster(old)
    cluster.append("orders", 0, *[b"x"] * 10)
    with cluster.reader() as consumer:
        assert len(consumer.poll(1000, max_records=4)[ORDERS[0]]) == 4
        consumer.commit()
        [broker] = cluster.brokers
        broker.versions.update({key: (API_KEYS[key].min_version, API_KEYS[key].max_version) for key in old})
        broker.versions[OFFSET_COMMIT] = (2, 8)
        broker.disconnect()
        assert consumer.committed(ORDERS[0]) == 4
        assert len(consumer.poll(5000, max_records=4)[ORDERS[0]]) == 4
        consumer.commit()
    assert cluster.offsets[ORDERS[0]].committed_offset == 8
    assert len(cluster.requests(FindCoordinatorRequest)) == 2


@pytest.mark.parametrize("refused", [0, 1])
def test_fatal_error_of_one_partition_is_raised_before_retriable_ones(refused: int) -> None:
    cluster = OldCluster({FIND_COORDINATOR: (0, 3), OFFSET_COMMIT: (2, 8), OFFSET_FETCH: (1, 7)})

    def tell(request: OffsetFetchRequest, broker: ScriptedBroker) -> OffsetFetchResponse:
        response = cluster.tell(request, broker)
        for one in response.topics[0].partitions:
            error = TopicAuthorizationFailed if one.partition_index == refused else UnstableOffsetCommit
            one.error_code = error.code or 0
        return response

    cluster.on(OffsetFetchRequest, tell)
    with cluster.reader() as consumer, pytest.raises(TopicAuthorizationFailed, match=f"orders-{refused}"):
        consumer.poll(5000)


def test_commit_is_sent_while_a_timed_out_one_is_unanswered() -> None:
    cluster = OldCluster({FIND_COORDINATOR: (0, 3), OFFSET_COMMIT: (2, 8), OFFSET_FETCH: (1, 7)})
    cluster.on(
        OffsetCommitRequest, lambda request, broker: Later(3.0, lambda: cluster.commit(request, broker))
    )
    with cluster.reader() as consumer:
        for offset in (5, 6):
            with pytest.raises(KafkaTimeoutError):
                consumer.commit({ORDERS[0]: offset}, timeout_ms=500)
        assert len(cluster.requests(OffsetCommitRequest)) == 2
