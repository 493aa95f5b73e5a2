"""Automatic commits: from poll, not too often, and only what an earlier call handed over."""

from __future__ import annotations

import logging
import re
from itertools import pairwise

import pytest

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.errors import CoordinatorLoadInProgress, IllegalState
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.consumer.commit.stories import FIRST, ORDERS, SECOND, at, committed, read, reader


def automatic(simulation: Simulation, cluster: KafkaCluster, *partitions: TopicPartition) -> KafkaConsumer:
    return reader(simulation, cluster, partitions or ORDERS, enable_auto_commit=True)


def sent(cluster: KafkaCluster) -> list[int]:
    """The offsets of the first partition in all commits."""
    return [
        one.topics[0].partitions[0].committed_offset for one in cluster.history.requests(OffsetCommitRequest)
    ]


@pytest.mark.gate
@pytest.mark.slow
def test_automatic_commits_are_at_least_the_interval_apart(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = automatic(simulation, cluster)
    for _ in range(100):
        consumer.poll(100)
        simulation.run_for(0.2)
    times = [entry.received_at for entry in cluster.history.entries("OffsetCommit")]
    assert 4 <= len(times) <= 6, "20 to 30 seconds, one every five"
    assert min(later - earlier for earlier, later in pairwise(times)) >= 5


def test_the_first_one_comes_after_the_interval_too(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = automatic(simulation, cluster, FIRST)
    consumer.seek(FIRST, 3)  # so that there is something to commit from the beginning
    for _ in range(60):
        consumer.poll(100)
    fetched, committed = cluster.history.entries("Fetch")[0], cluster.history.entries("OffsetCommit")[0]
    assert 4.9 < committed.received_at - fetched.received_at < 5.5


def test_a_commit_of_the_applications_own_does_not_move_them(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = automatic(simulation, cluster)
    read(consumer, 1)
    for _ in range(3):
        simulation.run_for(1.5)
        consumer.commit({SECOND: 1})
    simulation.run_for(1)
    consumer.poll()
    simulation.run_for(0.1)
    assert cluster.history.count("OffsetCommit") == 4, "the automatic one came after 5 s all the same"


@pytest.mark.gate
def test_disabled_automatic_commit_commits_no_offsets(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = automatic(simulation, cluster)
    read(consumer, 5)
    simulation.run_for(30)
    cluster.history.never("OffsetCommit")


@pytest.mark.gate
@pytest.mark.slow
def test_automatic_commit_covers_only_records_of_earlier_polls(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = automatic(simulation, cluster, FIRST)
    read(consumer, 4)
    simulation.run_for(6)
    read(consumer, 1)
    simulation.run_for(1)
    assert committed(cluster) == {FIRST: 4}, "the fifth may still be worked on"
    simulation.run_for(6)
    consumer.poll(100, max_records=1)
    simulation.run_for(1)
    assert committed(cluster) == {FIRST: 5}


@pytest.mark.gate
@pytest.mark.slow
def test_long_poll_continues_automatic_commits(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = automatic(simulation, cluster, FIRST)
    read(consumer, 10)
    consumer.poll(20_000)
    assert 3 <= cluster.history.count("OffsetCommit") <= 4


@pytest.mark.gate
def test_iteration_counts_only_records_that_were_handed_out(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = automatic(simulation, cluster, FIRST)
    for record in consumer:
        if record.offset == 3:
            break
    consumer.close()
    assert committed(cluster) == {FIRST: 4}


@pytest.mark.gate
@pytest.mark.slow
def test_a_slow_application_that_iterates_is_committed_for_in_between(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = automatic(simulation, cluster, FIRST)
    for record in consumer:
        simulation.run_for(2.0)
        if record.offset == 9:
            break
        done = committed(cluster).get(FIRST, 0) if cluster.history.count("OffsetCommit") else 0
        assert done <= record.offset, "the one that is being worked on does not count"
    assert sent(cluster)[:2] == sorted(set(sent(cluster)))[:2]
    assert 3 <= len(sent(cluster)) <= 4, "20 seconds, one every five"


def test_iteration_and_polls_may_be_mixed(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer = reader(simulation, cluster, [FIRST])
    assert next(consumer).offset == 0
    consumer.commit()
    assert committed(cluster) == {FIRST: 1}
    assert [record.offset for record in consumer.poll(1000, max_records=2)[FIRST]] == [1, 2]
    consumer.commit()
    assert committed(cluster) == {FIRST: 3}
    iterator = iter(consumer)
    assert next(iterator).offset == 3
    assert next(consumer).offset == 4
    assert next(iterator).offset == 5
    consumer.commit()
    assert committed(cluster) == {FIRST: 6}
    consumer.seek(FIRST, 1)
    consumer.commit()
    assert committed(cluster) == {FIRST: 1}
    assert next(iterator).offset == 1
    consumer.pause(FIRST)
    assert consumer.poll(100) == {}
    consumer.commit()
    assert committed(cluster) == {FIRST: 2}


def test_close_commits_and_leaving_by_an_exception_does_not(
    simulation: Simulation, cluster: KafkaCluster
) -> None:

    def fail_at_the_first(consumer: KafkaConsumer) -> None:
        with consumer:
            for record in consumer:
                raise LookupError(record.offset)

    with pytest.raises(LookupError):
        fail_at_the_first(automatic(simulation, cluster, FIRST))
    cluster.history.never("OffsetCommit")
    with automatic(simulation, cluster, FIRST) as consumer:
        read(consumer, 2)
    assert committed(cluster) == {FIRST: 2}
    consumer = automatic(simulation, cluster, FIRST)
    read(consumer, 2)
    consumer.close(autocommit=False)
    assert committed(cluster) == {FIRST: 2}


def test_kafka_pythons_first_argument_of_close_is_understood(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """There `close(False)` commits nothing; a timeout stands in its place here."""
    consumer = automatic(simulation, cluster, FIRST)
    read(consumer, 1)
    consumer.close(False)
    cluster.history.never("OffsetCommit")
    consumer = automatic(simulation, cluster, FIRST)
    read(consumer, 1)
    consumer.close(True)
    assert committed(cluster) == {FIRST: 1}


def test_partitions_that_the_application_leaves_are_committed(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = automatic(simulation, cluster, FIRST)
    read(consumer, 3)
    consumer.assign([SECOND])
    simulation.run_for(0.5)
    assert committed(cluster) == {FIRST: 3}
    read(consumer, 2)
    consumer.unsubscribe()
    simulation.run_for(0.5)
    assert committed(cluster) == at(3, 2)
    consumer.assign(ORDERS)
    assert (consumer.position(FIRST), consumer.position(SECOND)) == (3, 2)


def test_switched_off_nothing_is_committed(simulation: Simulation, cluster: KafkaCluster) -> None:
    with reader(simulation, cluster) as consumer:
        read(consumer, 5)
        consumer.poll(10_000)
    cluster.history.never("OffsetCommit")


@pytest.mark.gate
def test_failed_automatic_commit_is_logged_and_repeated_after_the_interval(
    simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = automatic(simulation, cluster, FIRST)
    read(consumer, 3)
    cluster.controls.fail_next(OffsetCommitRequest, CoordinatorLoadInProgress)
    with caplog.at_level(logging.WARNING, "pykafka2"):
        for _ in range(30):
            consumer.poll(500, max_records=1)
            simulation.run_for(0.5)
    [line] = [message for message in caplog.messages if "automatic commit" in message]
    assert re.match(r"\[.+\] the automatic commit of orders-0 at \d+ to group '.+' failed; ", line)
    assert "the next one follows in 5 s" in line
    assert committed(cluster)[FIRST] > 3


@pytest.mark.gate
@pytest.mark.slow
def test_slow_coordinator_gets_one_automatic_commit_at_a_time(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = automatic(simulation, cluster, FIRST)
    read(consumer, 3)
    cluster.controls.hold(OffsetCommitRequest)
    for _ in range(40):
        consumer.poll(500)
    assert cluster.history.count("OffsetCommit") == 1


class TestMarking:
    """enable_auto_offset_store=False: only what is marked is committed."""

    def marking(self, simulation: Simulation, cluster: KafkaCluster) -> KafkaConsumer:
        return reader(simulation, cluster, enable_auto_commit=True, enable_auto_offset_store=False)

    def test_only_marks_are_committed(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        consumer = self.marking(simulation, cluster)
        consumer.pause(SECOND)
        records = consumer.poll(1000)[FIRST]
        consumer.commit()
        cluster.history.never("OffsetCommit")
        consumer.store_offsets(records[4])
        consumer.store_offsets(offsets={SECOND: 7})
        consumer.close()
        assert committed(cluster) == at(5, 7)
        epoch = records[4].leader_epoch
        [request] = cluster.history.requests(OffsetCommitRequest)
        epochs = {one.partition_index: one.committed_leader_epoch for one in request.topics[0].partitions}
        assert epochs == {0: epoch, 1: -1}, "a record's mark has its epoch, as what poll() counts has"
        assert epoch >= 0

    def test_a_mark_is_forgotten_when_its_partition_is_left(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        consumer = self.marking(simulation, cluster)
        consumer.store_offsets(offsets={FIRST: 3, SECOND: 4})
        consumer.seek(FIRST, 0)
        consumer.commit()
        assert committed(cluster) == {SECOND: 4}
        consumer.assign([FIRST])
        simulation.run_for(1)
        assert cluster.history.count("OffsetCommit") == 2, "on the way, as is automatic"
        consumer.commit()
        assert cluster.history.count("OffsetCommit") == 2, "nothing is marked any more"

    def test_stored_offset_outlives_records_read_again(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """Records that an iteration had taken out are read again after pause(), and before a rebalance."""
        consumer = self.marking(simulation, cluster)
        for record in consumer:
            consumer.store_offsets(record)
            if record.partition == 0 and record.offset == 4:
                break
        consumer.pause(FIRST)
        consumer.commit()
        assert committed(cluster)[FIRST] == 5
        consumer.resume(FIRST)
        records = consumer.poll(1000)[FIRST]
        assert records[0].offset == 5

    def test_a_mark_outlives_the_first_position(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        reader(simulation, cluster).commit({FIRST: 2})
        consumer = self.marking(simulation, cluster)
        consumer.store_offsets(offsets={FIRST: 3})
        assert consumer.position(FIRST) == 2
        consumer.commit()
        assert committed(cluster)[FIRST] == 3

    def test_invalid_store_offsets_calls_are_rejected(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        consumer = self.marking(simulation, cluster)
        with pytest.raises(IllegalState, match="not assigned"):
            consumer.store_offsets(offsets={TopicPartition("orders", 9): 1})
        with pytest.raises(TypeError, match="either a record or offsets"):
            consumer.store_offsets()
        with pytest.raises(IllegalState, match="enable_auto_offset_store"):
            reader(simulation, cluster).store_offsets(offsets={FIRST: 1})
