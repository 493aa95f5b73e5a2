"""Start positions: the committed offset of the group, else that of auto_offset_reset."""

from __future__ import annotations

import pytest

from pykafka2 import OffsetAndMetadata
from pykafka2.errors import (
    CoordinatorLoadInProgress,
    GroupAuthorizationFailed,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartition,
    NotCoordinator,
    UnstableOffsetCommit,
)
from pykafka2.protocol.messages.committed_offsets import OffsetFetchRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.consumer.commit.stories import FIRST, GROUP, ORDERS, SECOND, committed, produce, read, reader


@pytest.fixture(autouse=True)
def seven_are_done(simulation: Simulation, cluster: KafkaCluster) -> None:
    """The group has committed 7 of the first partition, and nothing of the second."""
    with reader(simulation, cluster) as consumer:
        consumer.commit({FIRST: OffsetAndMetadata(7, "m", 0)})
    cluster.history.clear()


def test_reading_resumes_at_the_committed_offset_or_the_reset_policy(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster)
    assert read(consumer, 13) == {FIRST: [7, 8, 9], SECOND: list(range(10))}


@pytest.mark.gate
def test_committed_offsets_of_all_partitions_are_fetched_in_one_stable_request(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster)
    assert (consumer.position(FIRST), consumer.position(SECOND)) == (7, 0)
    [request] = cluster.history.requests(OffsetFetchRequest)
    assert request.require_stable
    assert [topic.partition_indexes for topic in request.groups[0].topics or []] == [[0, 1]]


def test_reset_policy_none_raises_only_for_partitions_without_a_commit(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster, auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartition, match="orders-1"):
        consumer.poll(1000)
    consumer.seek(SECOND, 9)
    assert read(consumer, 4) == {FIRST: [7, 8, 9], SECOND: [9]}


def test_committed_offset_out_of_range_is_reset_by_the_policy(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    with reader(simulation, cluster) as consumer:
        consumer.commit({FIRST: 500})
    assert read(reader(simulation, cluster, [FIRST]), 1) == {FIRST: [0]}


@pytest.mark.parametrize(
    "error", [UnstableOffsetCommit, CoordinatorLoadInProgress, NotCoordinator, "disconnect", "lost"]
)
def test_an_error_that_passes_never_leads_to_a_reset(
    simulation: Simulation, cluster: KafkaCluster, error: type[KafkaError] | str
) -> None:
    if error == "disconnect":
        cluster.controls.disconnect_next(OffsetFetchRequest, times=5)
    elif error == "lost":
        cluster.controls.lose_reply(OffsetFetchRequest, times=5)
    else:
        cluster.controls.fail_next(OffsetFetchRequest, error, times=5)  # type: ignore[arg-type]
    consumer = reader(simulation, cluster, [FIRST])
    assert read(consumer, 3) == {FIRST: [7, 8, 9]}


@pytest.mark.gate
@pytest.mark.slow
def test_unstable_offsets_are_fetched_again_until_they_are_stable(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    cluster.controls.fail_next(OffsetFetchRequest, UnstableOffsetCommit, times=10_000)
    consumer = reader(simulation, cluster, [FIRST], default_api_timeout_ms=5000)
    assert consumer.poll(12_000) == {}
    with pytest.raises(KafkaTimeoutError, match="committed offset is not known yet"):
        consumer.position(FIRST, timeout_ms=2000)
    assert "orders-0" in consumer.health()["group"]["committed_offsets_awaited"]
    assert "orders-0 waits: the committed offset is not known yet" in consumer.explain()
    assert "still open" in consumer.explain()
    cluster.controls.clear()
    assert read(consumer, 3) == {FIRST: [7, 8, 9]}


def test_refused_offset_fetch_is_raised_once_and_retried(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    cluster.controls.fail_next(OffsetFetchRequest, GroupAuthorizationFailed)
    consumer = reader(simulation, cluster, [FIRST])
    with pytest.raises(GroupAuthorizationFailed, match=GROUP):
        consumer.poll(1000)
    assert read(consumer, 3) == {FIRST: [7, 8, 9]}


def test_seek_during_an_offset_fetch_wins(simulation: Simulation, cluster: KafkaCluster) -> None:
    cluster.controls.hold(OffsetFetchRequest)
    consumer = reader(simulation, cluster, [FIRST])
    consumer.poll(500)
    consumer.seek(FIRST, 2)
    cluster.controls.release(OffsetFetchRequest)
    assert read(consumer, 2) == {FIRST: [2, 3]}
    assert consumer.position(FIRST) == 4


def test_seek_to_end_during_an_offset_fetch_wins(simulation: Simulation, cluster: KafkaCluster) -> None:
    cluster.controls.hold(OffsetFetchRequest)
    consumer = reader(simulation, cluster, [FIRST])
    consumer.poll(500)
    consumer.seek_to_end(FIRST)
    cluster.controls.release(OffsetFetchRequest)
    assert consumer.position(FIRST) == 10


def test_partition_assigned_again_fetches_its_committed_offset_again(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster, [SECOND])
    assert consumer.position(SECOND) == 0
    with reader(simulation, cluster) as another:
        another.commit({SECOND: 4})
    consumer.assign([FIRST])
    assert consumer.position(FIRST) == 7
    consumer.assign(ORDERS)
    assert consumer.position(SECOND) == 4
    assert consumer.position(FIRST) == 7


def test_partitions_assigned_during_an_offset_fetch_get_their_positions(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    cluster.controls.hold(OffsetFetchRequest, times=1)
    consumer = reader(simulation, cluster, [SECOND])
    consumer.poll(500)
    consumer.assign(ORDERS)
    consumer.poll(500)
    cluster.controls.release(OffsetFetchRequest)
    assert consumer.position(FIRST) == 7
    assert consumer.position(SECOND) == 0


def test_next_consumer_continues_at_the_offset_committed_by_close(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    found: list[int] = []
    for _ in range(3):
        with reader(simulation, cluster, [FIRST], enable_auto_commit=True, max_poll_records=1) as consumer:
            found += read(consumer, 1)[FIRST]
    assert found == [7, 8, 9]
    assert committed(cluster)[FIRST] == 10


def test_committed_asks_for_any_partition(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = reader(simulation, cluster, [])
    assert consumer.committed(FIRST) == 7
    assert consumer.committed(FIRST, metadata=True) == OffsetAndMetadata(7, "m", 0)
    assert consumer.committed(SECOND) is None
    assert consumer.committed(set(ORDERS)) == {FIRST: OffsetAndMetadata(7, "m", 0), SECOND: None}
    assert consumer.committed([]) == {}
    both = dict.fromkeys(ORDERS)
    assert consumer.committed(both.keys()) == consumer.committed(set(ORDERS))
    assert consumer.committed(tuple(ORDERS)) == consumer.committed(set(ORDERS))  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="partition"):
        consumer.committed("orders")  # type: ignore[call-overload]
    cluster.controls.fail_next(OffsetFetchRequest, GroupAuthorizationFailed)
    with pytest.raises(GroupAuthorizationFailed):
        consumer.committed(FIRST)
    cluster.controls.fail_next(OffsetFetchRequest, UnstableOffsetCommit, times=3)
    assert consumer.committed(FIRST) == 7
    cluster.controls.hold(OffsetFetchRequest)
    with pytest.raises(KafkaTimeoutError):
        consumer.committed(FIRST, timeout_ms=1000)


def test_offsets_of_an_open_transaction_are_waited_for(simulation: Simulation, cluster: KafkaCluster) -> None:
    cluster.controls.fail_next(OffsetFetchRequest, UnstableOffsetCommit, times=5)
    consumer = reader(simulation, cluster, [FIRST], isolation_level="read_committed")
    began_at = simulation.now
    assert read(consumer, 1) == {FIRST: [7]}
    assert simulation.now > began_at + 1


@pytest.mark.gate
def test_open_transaction_blocks_only_consumers_of_its_partitions(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """The question for a partition that is not wanted any more is not waited for."""
    with simulation.producer(cluster, transactional_id="copier") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({SECOND: OffsetAndMetadata(5)}, GROUP)
        consumer = reader(simulation, cluster, [SECOND])
        assert consumer.poll(1000) == {}
        consumer.assign(ORDERS)
        consumer.poll(1000)
        consumer.seek(SECOND, 9)
        assert read(consumer, 4) == {FIRST: [7, 8, 9], SECOND: [9]}
        producer.abort_transaction()


@pytest.mark.gate
def test_group_without_commits_starts_at_the_reset_policy(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    produce(simulation, cluster, 1, [FIRST])
    assert read(reader(simulation, cluster, [FIRST], group_id="others"), 1) == {FIRST: [0]}


@pytest.mark.gate
def test_refused_offset_fetch_is_retried_at_most_ten_times_a_second(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    rule = cluster.controls.fail_next(OffsetFetchRequest, GroupAuthorizationFailed, times=1000)
    consumer = reader(simulation, cluster)
    errors = 0
    began = simulation.now
    while simulation.now < began + 5 or errors < rule.fired:
        try:
            consumer.poll(100)
        except GroupAuthorizationFailed:
            errors += 1
            simulation.sleep(0.001)
    assert 3 < errors == rule.fired <= 52
    cluster.controls.remove_rule(rule)
    assert read(consumer, 3)[FIRST][:1] == [7]
