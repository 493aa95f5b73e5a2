"""Added partitions, elected leaders and reassigned replicas.

The error messages are those of Apache Kafka 4.3.1 for the same requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pykafka2.errors import name_of
from pykafka2.protocol.messages.cluster import UpdateFeaturesRequest
from pykafka2.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from pykafka2.testing.cluster import Topic
from tests.broker.support.admin_requests import (
    BROKER,
    EMPTY,
    NOT_CONSISTENT,
    NOT_REGISTERED,
    SET,
    TOPIC,
    TWICE,
    Outcome,
    add_partitions,
    alter,
    create,
    metadata_of,
    topic_of,
    value_of,
)
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

DONE: Outcome = ("NONE", None)


# ---------------------------------------------------------------------- partitions, elections, moves


@pytest.mark.kafka(brokers=3, topics={"p": Topic(2, 2)})
def test_partitions_can_only_be_added(live: LiveCluster) -> None:
    wire = live.connect(1)
    currently = "The topic p currently has 2 partition(s); {} would not be an increase."
    attempted = "Attempted to add 1 additional partition(s), but only {} assignment(s) were specified."
    refusals: list[tuple[int, Sequence[Sequence[int]] | None, str, str]] = [
        (2, None, "INVALID_PARTITIONS", "Topic already has 2 partition(s)."),
        (1, None, "INVALID_PARTITIONS", currently.format(1)),
        (-1, None, "INVALID_PARTITIONS", currently.format(-1)),
        (3, [[0, 1], [1, 2]], "INVALID_REPLICA_ASSIGNMENT", attempted.format(2)),
        (3, [], "INVALID_REPLICA_ASSIGNMENT", attempted.format(0)),
        (3, [[0]], "INVALID_REPLICA_ASSIGNMENT", NOT_CONSISTENT.format(1, 2)),
        (3, [[0, 0]], "INVALID_REPLICA_ASSIGNMENT", TWICE),
        (3, [[]], "INVALID_REPLICA_ASSIGNMENT", EMPTY),
        (3, [[0, 9]], "INVALID_REPLICA_ASSIGNMENT", NOT_REGISTERED.format(9)),
    ]
    for count, assignments, error, words in refusals:
        assert add_partitions(wire, "p", count, assignments) == (error, words)
    assert add_partitions(wire, "nosuch", 3) == ("UNKNOWN_TOPIC_OR_PARTITION", None)
    assert add_partitions(wire, "p", 5, validate_only=True) == DONE
    assert len(metadata_of(wire, "p")[0].partitions) == 2
    assert add_partitions(wire, "p", 3, [[2, 0]]) == DONE
    assert add_partitions(wire, "p", 5) == DONE
    partitions = metadata_of(live.connect(2), "p")[0].partitions
    assert list(partitions[2].replica_nodes) == [2, 0]
    assert [len(one.replica_nodes) for one in partitions] == [2] * 5
    with live.connect(partitions[4].leader_id) as leader:
        assert produce(leader, "p", 4, batch([b"to a new one"])).error_code == 0


def elect(
    wire: RawClient, topic: str | None, *numbers: int, unclean: bool = False
) -> dict[tuple[str, int], Outcome] | str:
    partitions = None if topic is None else [TopicPartitions(topic=topic, partitions=list(numbers))]
    response = wire.call(ElectLeadersRequest(election_type=int(unclean), topic_partitions=partitions), 2)
    if response.error_code:
        return name_of(response.error_code)
    return {
        (result.topic, one.partition_id): (name_of(one.error_code), one.error_message)
        for result in response.replica_election_results
        for one in result.partition_result
    }


@pytest.mark.kafka(brokers=3)
def test_elect_leaders_elects_preferred_replicas(live: LiveCluster) -> None:
    create(live.connect(), topic_of("e", assignment={0: [0, 1], 1: [1, 0]}))
    wire = live.connect(1)
    not_needed = ("ELECTION_NOT_NEEDED", "Leader election not needed for topic partition.")
    assert elect(wire, "e", 0) == {("e", 0): not_needed}
    assert elect(wire, "e", 0, unclean=True) == {("e", 0): not_needed}
    assert elect(wire, "e", 9) == {("e", 9): ("UNKNOWN_TOPIC_OR_PARTITION", "No such partition as e-9")}
    assert elect(wire, "f", 0) == {("f", 0): ("UNKNOWN_TOPIC_OR_PARTITION", "No such topic as f")}
    live.controls.crash_broker(0)
    unavailable = ("PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available.")
    assert elect(wire, "e", 0, 1) == {("e", 0): unavailable, ("e", 1): not_needed}
    assert elect(wire, None) == {("e", 0): unavailable}
    live.controls.restart_broker(0)
    live.wait_for(lambda: 0 in live.cluster.partition("e", 0).isr)
    before = live.cluster.partition("e", 0)
    assert elect(wire, None) == {("e", 0): DONE}
    after = live.cluster.partition("e", 0)
    assert (before.leader, after.leader) == (1, 0)
    assert after.leader_epoch == before.leader_epoch + 1


@pytest.mark.kafka(brokers=2)
def test_partition_named_twice_in_one_election_begins_two_leader_epochs(live: LiveCluster) -> None:
    """Kafka's electLeaders decides both before the records of the first are replayed."""
    create(live.connect(), topic_of("e", assignment={0: [0, 1], 1: [0, 1]}))
    for number in (0, 1):
        live.controls.move_leader(("e", number), 1)
    before = live.cluster.partition("e", 0).leader_epoch
    assert elect(live.connect(), "e", 0, 0, 1) == {("e", 0): DONE, ("e", 1): DONE}
    elected = [live.cluster.partition("e", number) for number in (0, 1)]
    assert [(one.leader, one.leader_epoch) for one in elected] == [(0, before + 2), (0, before + 1)]
    live.cluster.check()


@pytest.mark.kafka(brokers=2)
def test_unclean_election_elects_a_replica_outside_the_isr(live: LiveCluster) -> None:
    create(live.connect(1), topic_of("e", assignment={0: [0, 1]}), topic_of("f", assignment={0: [0]}))
    controls = live.controls
    controls.crash_broker(1)
    live.wait_for(lambda: live.cluster.partition("e", 0).isr == (0,))
    controls.crash_broker(0)
    controls.restart_broker(1)
    live.wait_for(lambda: not live.cluster.controller.image.brokers[1].is_fenced)
    assert live.cluster.partition("e", 0).leader == -1
    none = ("ELIGIBLE_LEADERS_NOT_AVAILABLE", "Eligible topic partition leaders are not available.")
    assert elect(live.connect(1), "f", 0, unclean=True) == {("f", 0): none}
    assert elect(live.connect(1), "e", 0, unclean=True) == {("e", 0): DONE}
    assert live.cluster.partition("e", 0).leader == 1
    assert live.cluster.partition("e", 0).isr == (1,)


def reassign(
    wire: RawClient, number: int, target: Sequence[int] | None, *, topic: str = "m", **more: Any
) -> Outcome:
    partition = ReassignablePartition(
        partition_index=number, replicas=None if target is None else list(target)
    )
    reassigned = ReassignableTopic(name=topic, partitions=[partition])
    response = wire.call(AlterPartitionReassignmentsRequest(topics=[reassigned], **more), 1)
    assert response.error_code == 0
    (result,) = response.responses[0].partitions
    return name_of(result.error_code), result.error_message


def moving(wire: RawClient, *numbers: int) -> list[tuple[int, list[int], list[int], list[int]]]:
    topics = (
        [ListPartitionReassignmentsTopics(name="m", partition_indexes=list(numbers))] if numbers else None
    )
    listed = wire.call(ListPartitionReassignmentsRequest(topics=topics), 0).topics
    return [
        (one.partition_index, list(one.replicas), list(one.adding_replicas), list(one.removing_replicas))
        for topic in listed
        for one in topic.partitions
    ]


@pytest.mark.kafka(brokers=3)
def test_invalid_reassignments_are_rejected(live: LiveCluster) -> None:
    wire = live.connect(2)
    create(wire, topic_of("m", assignment={0: [0, 1]}))
    invalid = "INVALID_REPLICA_ASSIGNMENT"
    assert reassign(wire, 0, None) == ("NO_REASSIGNMENT_IN_PROGRESS", None)
    assert reassign(wire, 0, []) == (invalid, EMPTY)
    assert reassign(wire, 0, [0, 0]) == (invalid, TWICE)
    assert reassign(wire, 0, [9]) == (invalid, NOT_REGISTERED.format(9))
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert reassign(wire, 7, [0]) == (unknown, "Unable to find partition m:7.")
    assert reassign(wire, 0, [0], topic="no") == (unknown, "Unable to find a topic named no.")
    assert reassign(wire, 0, [0, 1, 2], allow_replication_factor_change=False) == (
        "INVALID_REPLICATION_FACTOR",
        "The replication factor is changed from 2 to 3",
    )
    assert reassign(wire, 0, [0, 1]) == DONE
    assert moving(wire) == []


@pytest.mark.gate
@pytest.mark.kafka(brokers=3)
def test_reassignment_copies_the_records_and_removes_the_old_replicas(live: LiveCluster) -> None:
    wire = live.connect()
    create(wire, topic_of("m", assignment={0: [0, 1]}))
    values = [str(number).encode() for number in range(50)]
    for value in values:
        assert produce(wire, "m", 0, batch([value])).error_code == 0
    live.controls.pause_followers(brokers=[2])
    assert reassign(wire, 0, [1, 2]) == DONE
    assert moving(wire) == moving(wire, 0) == [(0, [1, 2, 0], [2], [0])]
    assert moving(wire, 1) == []
    assert live.cluster.partition("m", 0).leader == 0
    live.controls.resume_followers()
    live.wait_for(lambda: not moving(wire))
    view = live.cluster.partition("m", 0)
    assert (sorted(view.replicas), view.leader, sorted(view.isr)) == ([1, 2], 1, [1, 2])
    live.wait_for(lambda: live.cluster.log("m", 0, broker=2).values() == values)
    assert ("m", 0) not in live.cluster.brokers[0].replicas.replicas
    refused = produce(wire, "m", 0, batch([b"to the old leader"]))
    assert name_of(refused.error_code) == "NOT_LEADER_OR_FOLLOWER"
    assert produce(live.connect(1), "m", 0, batch([b"to the new one"])).error_code == 0
    live.wait_for(lambda: live.cluster.log("m", 0, broker=2).values() == [*values, b"to the new one"])


@pytest.mark.kafka(brokers=3)
def test_reassignment_can_be_cancelled_or_changed_and_reordering_needs_no_copy(live: LiveCluster) -> None:
    wire = live.connect()
    create(wire, topic_of("m", assignment={0: [0, 1]}))
    live.controls.pause_followers(brokers=[2])
    assert reassign(wire, 0, [2]) == DONE
    assert moving(wire) == [(0, [2, 0, 1], [2], [0, 1])]
    assert reassign(wire, 0, [0, 2]) == DONE
    assert moving(wire) == [(0, [0, 2, 1], [2], [1])]
    assert reassign(wire, 0, None) == DONE
    assert moving(wire) == []
    image = live.cluster.controller.image
    partition = image.topics["m"].partitions[0]
    assert (partition.replicas, partition.leader) == ((0, 1), 0)
    assert ("m", 0) not in live.cluster.brokers[2].replicas.replicas
    # Another order and fewer replicas need no copy, so they are immediate.
    assert reassign(wire, 0, [1, 0]) == DONE
    view = live.cluster.controller.image.topics["m"].partitions[0]
    assert (view.replicas, view.leader, view.leader_epoch) == ((1, 0), 0, partition.leader_epoch)
    assert reassign(wire, 0, [1]) == DONE
    view = live.cluster.controller.image.topics["m"].partitions[0]
    assert (view.replicas, view.leader, view.isr) == ((1,), 1, (1,))
    live.controls.resume_followers()
    assert reassign(wire, 0, [1, 2, 0]) == DONE
    live.wait_for(lambda: sorted(live.cluster.partition("m", 0).isr) == [0, 1, 2])
    assert moving(wire) == []


@pytest.mark.kafka(brokers=3)
def test_reassignment_changed_before_its_end_has_kafkas_replicas(live: LiveCluster, wire: RawClient) -> None:
    """Recorded from three brokers of 4.3.1 with throttled replication: an adding replica counts as present.

    A target without it lists it as adding and removing. Such a reassignment ends only by its cancellation.
    """
    create(wire, topic_of("m", assignment={0: [0, 1]}))
    live.controls.pause_followers(brokers=[2])
    for target, shown in (
        ([0, 2], (0, [0, 2, 1], [2], [1])),
        ([0, 1], (0, [0, 1, 2], [2], [2])),
        ([1, 2], (0, [1, 2, 0], [2], [0])),
    ):
        assert reassign(wire, 0, target) == DONE
        assert moving(wire) == [shown]
    assert reassign(wire, 0, None) == DONE
    view = live.cluster.controller.image.topics["m"].partitions[0]
    assert (view.replicas, view.leader, view.leader_epoch) == ((1, 0), 0, 1)
    assert reassign(wire, 0, [2, 1]) == DONE
    assert reassign(wire, 0, [2]) == DONE
    assert moving(wire) == [(0, [2, 0, 1], [2], [0, 1])]
    assert reassign(wire, 0, None) == DONE
    assert reassign(wire, 0, [0, 2]) == DONE
    assert reassign(wire, 0, [0, 1]) == DONE
    live.controls.resume_followers()
    live.wait_for(lambda: sorted(live.cluster.partition("m", 0).isr) == [0, 1, 2])
    assert moving(wire) == [(0, [0, 1, 2], [2], [2])]
    assert reassign(wire, 0, None) == DONE
    assert live.cluster.controller.image.topics["m"].partitions[0].replicas == (0, 1)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=3)
def test_reassignment_to_fewer_replicas_waits_until_the_rest_are_in_the_isr(live: LiveCluster) -> None:
    wire = live.connect()
    create(wire, topic_of("m", assignment={0: [0, 1, 2]}))
    live.controls.shrink_isr(("m", 0), 1)
    assert reassign(wire, 0, [0, 1]) == DONE
    assert moving(wire) == [(0, [0, 1, 2], [], [2])]
    live.controls.resume_followers()
    live.wait_for(lambda: not moving(wire))
    assert sorted(live.cluster.partition("m", 0).isr) == [0, 1]


@pytest.mark.kafka(brokers=4)
def test_reassignment_continues_after_a_controller_failover(live: LiveCluster) -> None:
    wire = live.connect(1)
    create(wire, topic_of("m", assignment={0: [1, 2]}))
    assert produce(wire, "m", 0, batch([b"1", b"2"])).error_code == 0
    assert alter(wire, BROKER, "", ("log.retention.ms", SET, "12345")) == DONE
    live.controls.pause_followers(brokers=[3])
    assert reassign(wire, 0, [3, 1]) == DONE
    before = live.cluster.controller.epoch
    live.controls.crash_broker(live.cluster.controller.id)
    live.wait_for(lambda: live.cluster.controller.epoch > before)
    assert moving(wire) == [(0, [3, 1, 2], [3], [2])]
    assert value_of(live.connect(3), TOPIC, "m", "retention.ms") == ("12345", 3)
    live.controls.resume_followers()
    live.wait_for(lambda: not moving(wire))
    assert sorted(live.cluster.partition("m", 0).replicas) == [1, 3]
    live.wait_for(lambda: live.cluster.log("m", 0, broker=3).values() == [b"1", b"2"])


@pytest.mark.kafka(brokers=2, topics={"m": 1})
@pytest.mark.parametrize("broker", [0, 1])
def test_list_reassignments_and_update_features_ignore_a_timeout_of_zero(
    live: LiveCluster, broker: int
) -> None:
    """Kafka's controller uses the timeouts of five requests only; kafka-go sends 0 ms in others."""
    wire = live.connect(broker)
    listed = wire.call(ListPartitionReassignmentsRequest(topics=None, timeout_ms=0), 0)
    assert (name_of(listed.error_code), listed.topics) == ("NONE", [])
    updated = wire.call(UpdateFeaturesRequest(feature_updates=[], timeout_ms=0, validate_only=True), 2)
    assert name_of(updated.error_code) == "NONE"
    elected = wire.call(ElectLeadersRequest(topic_partitions=None, timeout_ms=0), 2)
    assert name_of(elected.error_code) == "REQUEST_TIMED_OUT"
