"""`commit`: it blocks, tries again what passes, and says why it failed."""

from __future__ import annotations

import pytest

from pykafka2 import OffsetAndMetadata
from pykafka2.errors import (
    CommitFailed,
    CoordinatorLoadInProgress,
    GroupAuthorizationFailed,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinator,
    OffsetMetadataTooLarge,
    RequestTimedOut,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.consumer.commit.stories import FIRST, ORDERS, SECOND, Callbacks, at, committed, read, reader


def test_commit_writes_the_offsets_of_returned_records(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = reader(simulation, cluster, [FIRST])
    read(consumer, 3)
    consumer.commit()
    assert committed(cluster) == {FIRST: 3}
    assert consumer.committed(FIRST) == 3
    assert consumer.committed(SECOND) is None


def test_explicit_offsets_are_committed_with_metadata_and_leader_epoch(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster)
    consumer.commit({FIRST: OffsetAndMetadata(7, "half past two", 0), SECOND: 4})
    assert consumer.committed(FIRST, metadata=True) == OffsetAndMetadata(7, "half past two", 0)
    assert consumer.committed(ORDERS) == {
        FIRST: OffsetAndMetadata(7, "half past two", 0),
        SECOND: OffsetAndMetadata(4),
    }


def test_the_leader_epoch_of_the_last_record_is_committed(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    leader = cluster.partition(*FIRST).leader
    cluster.controls.move_leader(FIRST, (leader + 1) % 3)
    epoch = cluster.partition(*FIRST).leader_epoch
    assert epoch > 0
    with simulation.producer(cluster) as producer:
        producer.send("orders", b"of the new epoch", partition=0).result(10)
    consumer = reader(simulation, cluster, [FIRST])
    read(consumer, 10)
    consumer.commit()
    assert consumer.committed(FIRST, metadata=True) == OffsetAndMetadata(10, "", 0)
    read(consumer, 1)
    consumer.commit()
    assert consumer.committed(FIRST, metadata=True) == OffsetAndMetadata(11, "", epoch)


def test_a_lower_offset_may_be_committed_and_the_last_one_counts(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster)
    consumer.commit({FIRST: 9})
    consumer.commit({FIRST: 2})
    assert committed(cluster) == {FIRST: 2}


@pytest.mark.parametrize(
    "error", [CoordinatorLoadInProgress, NotCoordinator, RequestTimedOut, UnknownTopicOrPartition]
)
def test_retriable_commit_error_is_retried(
    simulation: Simulation, cluster: KafkaCluster, error: type[KafkaError]
) -> None:
    consumer = reader(simulation, cluster)
    cluster.controls.fail_next(OffsetCommitRequest, error, times=3)
    consumer.commit({FIRST: 5})
    assert committed(cluster) == {FIRST: 5}
    assert cluster.history.count("OffsetCommit") == 4


def test_a_lost_connection_is_tried_again(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = reader(simulation, cluster)
    cluster.controls.lose_reply(OffsetCommitRequest)
    cluster.controls.disconnect_next(OffsetCommitRequest)
    consumer.commit({FIRST: 5})
    assert committed(cluster) == {FIRST: 5}


@pytest.mark.gate
@pytest.mark.slow
def test_commit_gives_up_after_a_minute_with_the_last_error(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster)
    cluster.controls.fail_next(OffsetCommitRequest, CoordinatorLoadInProgress, times=10_000)
    began_at = simulation.now
    with pytest.raises(
        KafkaTimeoutError, match=r"orders-0.*60 s.*loading its log.*unknown whether it was written"
    ):
        consumer.commit({FIRST: 5})
    assert 58 < simulation.now - began_at <= 61
    assert cluster.history.count("OffsetCommit") < 120, "with back-off"


def test_commit_timeout_may_be_shorter_and_the_next_commit_uses_the_same_connection(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """Over the same connection, as in Java: over another one it could overtake it, and the group go back."""
    consumer = reader(simulation, cluster)
    consumer.commit({FIRST: 4})
    cluster.controls.delay(OffsetCommitRequest, 0.3, times=1)
    began_at = simulation.now
    with pytest.raises(KafkaTimeoutError):
        consumer.commit({FIRST: 5}, timeout_ms=60)
    assert simulation.now - began_at < 0.1
    assert consumer.health()["group"]["last_commit_error"]
    consumer.commit({FIRST: 6}, timeout_ms=5000)
    simulation.sleep(1)
    assert committed(cluster) == {FIRST: 6}
    assert len({entry.peer for entry in cluster.history.entries("OffsetCommit")}) == 1


def test_next_commit_waits_at_most_the_request_timeout(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = reader(simulation, cluster, request_timeout_ms=2000)
    cluster.controls.rule(api="OffsetCommit", then="swallow", times=1)
    with pytest.raises(KafkaTimeoutError):
        consumer.commit({FIRST: 5}, timeout_ms=500)
    began_at = simulation.now
    consumer.commit({FIRST: 6})
    assert 1 < simulation.now - began_at < 3
    assert committed(cluster) == {FIRST: 6}


def test_unanswered_commit_looks_up_the_coordinator_again(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """It may be another by then, although the connection stands."""
    consumer = reader(simulation, cluster, request_timeout_ms=2000)
    consumer.commit({FIRST: 4})
    cluster.controls.rule(api="OffsetCommit", then="swallow", times=1)
    consumer.commit({FIRST: 5})
    assert committed(cluster) == {FIRST: 5}
    assert cluster.history.count("FindCoordinator") == 2


def test_a_partition_that_the_answer_leaves_out_was_not_committed(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """And a failed commit is not reported as written."""
    consumer = reader(simulation, cluster)

    def leave_out(request: OffsetCommitRequest, response: OffsetCommitResponse) -> OffsetCommitResponse:
        kept = [one for one in response.topics[0].partitions if one.partition_index == 0]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=kept)])

    cluster.controls.rule(api="OffsetCommit", then="replace_reply", reply=leave_out)
    with pytest.raises(KafkaTimeoutError, match="the response to the commit lacks orders-1"):
        consumer.commit({FIRST: 5, SECOND: 5}, timeout_ms=3000)
    consumer.commit({FIRST: 6}, timeout_ms=3000)


def test_the_last_failure_is_shown_until_a_commit_is_written(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster)
    cluster.controls.fail_next(OffsetCommitRequest, OffsetMetadataTooLarge)
    with pytest.raises(OffsetMetadataTooLarge):
        consumer.commit({FIRST: 5})
    assert "orders-0" in consumer.health()["group"]["last_commit_error"]
    assert "The last commit failed: orders-0" in consumer.explain()
    consumer.commit({FIRST: 6})
    assert consumer.health()["group"]["last_commit_error"] is None
    assert "commit failed" not in consumer.explain()


@pytest.mark.parametrize("error", [OffsetMetadataTooLarge, GroupAuthorizationFailed])
def test_fatal_commit_error_is_raised_at_once(
    simulation: Simulation, cluster: KafkaCluster, error: type[KafkaError]
) -> None:
    consumer = reader(simulation, cluster)
    cluster.controls.fail_next(OffsetCommitRequest, error)
    with pytest.raises(error, match="orders-0"):
        consumer.commit({FIRST: 5})
    assert cluster.history.count("OffsetCommit") == 1
    consumer.commit({FIRST: 5})


def test_a_group_that_has_members_does_not_take_offsets_of_others(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster)
    cluster.controls.fail_next(OffsetCommitRequest, UnknownMemberId)
    with pytest.raises(CommitFailed, match=r"has members.*assign\(\).*use another group_id"):
        consumer.commit({FIRST: 5})


def test_callbacks_of_earlier_commits_have_run_when_it_returns(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer, callbacks = reader(simulation, cluster), Callbacks()
    for offset in range(1, 4):
        consumer.commit_async({FIRST: offset}, callbacks)
    assert callbacks.offsets == []
    consumer.commit({FIRST: 4})
    assert callbacks.offsets == [1, 2, 3]
    assert committed(cluster) == {FIRST: 4}


def test_commit_waits_for_earlier_commits_though_they_fail(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer, callbacks = reader(simulation, cluster), Callbacks()
    cluster.controls.fail_next(OffsetCommitRequest, NotCoordinator, times=3)
    for offset in range(1, 4):
        consumer.commit_async({FIRST: offset}, callbacks)
    consumer.commit({FIRST: 4})
    assert [error is not None for error in callbacks.errors] == [True, True, True]
    assert committed(cluster) == {FIRST: 4}


def test_commit_of_no_offsets_sends_no_request(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = reader(simulation, cluster)
    consumer.commit({})
    consumer.commit()
    cluster.history.never("OffsetCommit")


@pytest.mark.gate
@pytest.mark.slow
def test_a_commit_does_not_wait_behind_a_held_fetch(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = reader(simulation, cluster, fetch_max_wait_ms=20_000)
    read(consumer, 20)
    simulation.run_for(1)
    cluster.controls.hold(FetchRequest)
    for leader in range(3):
        for topic, number in ORDERS:
            cluster.controls.move_leader((topic, number), leader)
        cluster.controls.move_coordinator("readers", leader)
        consumer.poll(2000)
        began_at = simulation.now
        consumer.commit()
        assert simulation.now - began_at < 1
    cluster.controls.release(FetchRequest)
    assert committed(cluster) == at(10, 10)


def test_a_wakeup_ends_the_next_poll_and_no_commit(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = reader(simulation, cluster)
    consumer.wakeup()
    consumer.commit({FIRST: 5})
    assert committed(cluster) == {FIRST: 5}
    began_at = simulation.now
    consumer.poll(60_000)
    assert simulation.now - began_at < 1


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ([FIRST], "TopicPartition: OffsetAndMetadata"),
        ({"orders": 5}, "partition"),
        ({FIRST: "5"}, "orders-0"),
        ({FIRST: -1}, "must be an int from 0"),
        ({FIRST: True}, "orders-0"),
        ({FIRST: 2**63}, "orders-0"),
        ({FIRST: OffsetAndMetadata(1, 7)}, "metadata"),  # type: ignore[arg-type]
        ({FIRST: OffsetAndMetadata(1, "", -2)}, "epoch"),
    ],
)
def test_invalid_offset_is_rejected_by_name(
    simulation: Simulation, cluster: KafkaCluster, offsets: object, words: str
) -> None:
    consumer = reader(simulation, cluster)
    with pytest.raises((TypeError, ValueError), match=words):
        consumer.commit(offsets)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError), match=words):
        consumer.commit_async(offsets)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout_ms"):
        consumer.commit({FIRST: 1}, timeout_ms=-1)
    cluster.history.never("OffsetCommit")
