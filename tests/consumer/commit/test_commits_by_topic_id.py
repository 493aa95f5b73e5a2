"""Commits, and questions for them, name topics by their ids where these are known (OffsetCommit v10)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, OffsetAndMetadata, TopicPartition
from pykafka2.errors import (
    GroupIdNotFound,
    RetriableCommitFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.testing import KafkaCluster, Simulation
from tests.consumer.commit.stories import FIRST, GROUP, ORDERS, SECOND, at, committed, produce, read, reader

pytestmark = pytest.mark.slow


def topics_of(cluster: KafkaCluster, api: str) -> list[tuple[int, str, bool]]:
    """For each request: its version, and each topic's name, and whether it has an id."""
    return [
        (entry.version, topic.name, topic.topic_id != ZERO_UUID)
        for entry in cluster.history.entries(api)
        for topic in (entry.request.topics or entry.request.groups[0].topics)
    ]


@pytest.mark.gate
@pytest.mark.parametrize("options", [{}, {"group_protocol": "consumer"}], ids=["classic", "consumer"])
def test_classic_and_consumer_protocols_commit_by_topic_id(
    simulation: Simulation, cluster: KafkaCluster, options: dict[str, Any]
) -> None:
    settings = {"group_id": GROUP, "auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    with simulation.consumer(cluster, "orders", **settings) as consumer:
        while len(consumer.assignment()) < 2 or consumer.position(FIRST) + consumer.position(SECOND) < 20:
            consumer.poll(200)
        consumer.commit()
        assert consumer.committed(FIRST) == 10
    assert committed(cluster) == at(10, 10)
    assert set(topics_of(cluster, "OffsetCommit")) == {(10, "", True)}
    assert set(topics_of(cluster, "OffsetFetch")) == {(10, "", True)}


def test_topics_that_the_metadata_does_not_have_are_named(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    other = TopicPartition("orders", 0)
    with simulation.consumer(cluster, group_id=GROUP, enable_auto_commit=False) as consumer:
        assert consumer.committed(other) is None
        consumer.commit({other: OffsetAndMetadata(3)})
        assert consumer.committed(other) == 3
    assert set(topics_of(cluster, "OffsetCommit")) == {(9, "orders", False)}
    assert set(topics_of(cluster, "OffsetFetch")) == {(9, "orders", False)}


def test_offsets_are_not_committed_to_a_recreated_topic(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    outcomes: list[BaseException | None] = []
    consumer = reader(simulation, cluster)
    read(consumer, 6)
    make_anew(simulation, cluster)
    consumer.commit_async(callback=lambda offsets, error: outcomes.append(error))
    consumer.poll(0)
    simulation.sleep(0.5)
    consumer.poll(0)
    [error] = outcomes
    assert isinstance(error, RetriableCommitFailed)
    assert isinstance(error.__cause__, UnknownTopicId)
    with pytest.raises(GroupIdNotFound):  # what was to be written is of the topic that is gone
        committed(cluster)


@pytest.mark.parametrize("how", ["commit", "explicit", "close"])
def test_offsets_of_a_retried_commit_are_not_committed_to_a_recreated_topic(
    simulation: Simulation, cluster: KafkaCluster, how: str
) -> None:
    """By the next attempt the new topic is known; the offsets are of the old one all the same."""
    consumer = reader(simulation, cluster, enable_auto_commit=how == "close")
    read(consumer, 6)
    make_anew(simulation, cluster)
    if how == "explicit":
        with pytest.raises(UnknownTopicId, match="orders: deleted, and created again"):
            consumer.commit({FIRST: 3})
    else:
        COMMITTING[how](consumer)
    with pytest.raises(GroupIdNotFound):
        committed(cluster)


class Reports:
    """An interceptor that stores the offsets of each commit."""

    def __init__(self, reported: list[dict[TopicPartition, int]]) -> None:
        self._reported = reported

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._reported.append({partition: committed.offset for partition, committed in offsets.items()})


def test_commit_for_a_topic_that_never_existed_does_not_call_it_deleted(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    missing = TopicPartition("oders", 0)
    consumer = reader(simulation, cluster, [FIRST, missing], allow_auto_create_topics=False)
    consumer.poll(1000)
    with pytest.raises(UnknownTopicOrPartition, match="oders does not exist on the brokers, so its offsets"):
        consumer.commit({FIRST: 7, missing: 3}, timeout_ms=20_000)
    assert committed(cluster) == {FIRST: 7}


@pytest.mark.gate
@pytest.mark.parametrize("how", ["commit", "explicit", "close"])
def test_commit_ends_as_soon_as_its_topics_are_known_to_be_deleted(
    simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Positions in deleted topics are left out; the others are committed."""
    for topic in ("others", "more"):
        cluster.create_topic(topic, 1)
    places = [FIRST, SECOND, TopicPartition("others", 0), TopicPartition("more", 0)]
    produce(simulation, cluster, 5, places[2:])
    reported: list[dict[TopicPartition, int]] = []
    consumer = reader(
        simulation,
        cluster,
        places,
        enable_auto_commit=how == "close",
        allow_auto_create_topics=False,
        interceptors=[Reports(reported)],
    )
    read(consumer, 30)
    for topic in ("others", "more"):
        cluster.delete_topic(topic)
    began_at = simulation.now
    with caplog.at_level(logging.WARNING, "pykafka2"):
        if how == "explicit":
            with pytest.raises(UnknownTopicOrPartition, match="others, more do not exist"):
                consumer.commit({places[2]: 4, FIRST: 7, places[3]: 3})
        else:
            COMMITTING[how](consumer)
    assert simulation.now - began_at < 3
    assert committed(cluster) == ({FIRST: 7} if how == "explicit" else at(10, 10))
    assert reported == ([] if how == "explicit" else [at(10, 10)])
    assert not caplog.messages


@pytest.mark.gate
@pytest.mark.parametrize("how", ["commit", "automatic", "commit_async"])
def test_commit_of_positions_leaves_out_a_topic_that_was_deleted_before(
    simulation: Simulation, cluster: KafkaCluster, how: str
) -> None:
    cluster.create_topic("others", 1)
    other = TopicPartition("others", 0)
    produce(simulation, cluster, 5, [other])
    consumer = reader(
        simulation,
        cluster,
        [*ORDERS, other],
        allow_auto_create_topics=False,
        enable_auto_commit=how == "automatic",
        auto_commit_interval_ms=20_000,
    )
    read(consumer, 25)
    cluster.delete_topic("others")
    consumer._core.cluster.metadata.request_update()
    simulation.sleep(20)
    began_at = simulation.now
    if how == "commit_async":
        consumer.commit_async()
        simulation.sleep(0.2)
    else:
        COMMITTING[how](consumer)
    assert simulation.now - began_at < 0.5
    simulation.sleep(1)
    [request] = cluster.history.requests("OffsetCommit")
    assert len(request.topics) == 1
    assert committed(cluster) == at(10, 10)


def test_explicit_commit_with_a_topic_that_was_deleted_before_commits_the_others(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    cluster.create_topic("others", 1)
    other = TopicPartition("others", 0)
    produce(simulation, cluster, 5, [other])
    consumer = reader(
        simulation, cluster, [*ORDERS, other], enable_auto_commit=False, allow_auto_create_topics=False
    )
    read(consumer, 25)
    cluster.delete_topic("others")
    consumer._core.cluster.metadata.request_update()
    simulation.sleep(5)
    with pytest.raises(UnknownTopicOrPartition, match="others does not exist"):
        consumer.commit({other: 4, FIRST: 7})
    assert committed(cluster) == {FIRST: 7}


COMMITTING: dict[str, Callable[[KafkaConsumer], object]] = {
    "commit": lambda consumer: consumer.commit(),
    "automatic": lambda consumer: consumer.poll(0),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "assign": lambda consumer: consumer.assign([TopicPartition("others", 0)]),
    "close": lambda consumer: consumer.close(),
}


@pytest.mark.gate
@pytest.mark.parametrize("how", COMMITTING)
def test_offsets_of_the_old_topic_are_not_committed_once_the_new_one_is_known(
    simulation: Simulation, cluster: KafkaCluster, how: str
) -> None:
    """The consumer learns of the new topic in the background; the next reader would begin at offset 6."""
    consumer = reader(simulation, cluster, enable_auto_commit=how != "commit", auto_commit_interval_ms=1000)
    read(consumer, 6)
    make_anew(simulation, cluster)
    simulation.sleep(5)
    COMMITTING[how](consumer)
    simulation.sleep(1)
    with pytest.raises(GroupIdNotFound):
        committed(cluster)


@pytest.mark.gate
def test_stored_offsets_are_not_committed_to_a_recreated_topic(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster, [FIRST], enable_auto_offset_store=False)
    for record in consumer.poll(5000)[FIRST]:
        consumer.store_offsets(record)
    make_anew(simulation, cluster)
    simulation.sleep(5)
    consumer.commit()
    with pytest.raises(GroupIdNotFound):
        committed(cluster)


@pytest.mark.gate
def test_explicit_offsets_of_a_recreated_topic_raise_unknown_topic_id(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster, [FIRST])
    read(consumer, 6)
    make_anew(simulation, cluster)
    simulation.sleep(5)
    with pytest.raises(UnknownTopicId, match="orders: deleted, and created again"):
        consumer.commit({FIRST: OffsetAndMetadata(6)})
    consumer.seek(FIRST, 1)
    consumer.commit()
    assert committed(cluster) == {FIRST: 1}, "a place in the new topic, chosen by the application"


@pytest.mark.gate
@pytest.mark.parametrize("how", ["unsubscribe", "close"])
@pytest.mark.parametrize("options", [{}, {"group_protocol": "consumer"}], ids=["classic", "consumer"])
def test_close_does_not_wait_for_commits_of_a_deleted_topic(
    simulation: Simulation, cluster: KafkaCluster, how: str, options: dict[str, Any]
) -> None:
    """Its commit would be refused until all of the time is over."""
    cluster.create_topic("others", 1)
    other = TopicPartition("others", 0)
    produce(simulation, cluster, 3, [other])
    consumer = simulation.consumer(
        cluster,
        "orders",
        "others",
        group_id=GROUP,
        auto_offset_reset="earliest",
        allow_auto_create_topics=False,
        auto_commit_interval_ms=60_000,
        **options,
    )
    assert len(all_of(consumer, 23)) == 2
    cluster.delete_topic("others")
    simulation.sleep(10)
    began = simulation.now
    COMMITTING[how](consumer)
    assert simulation.now - began < 0.5
    assert committed(cluster) == at(10, 10)
    consumer.close()


@pytest.mark.gate
def test_a_rebalance_just_as_the_new_topic_is_known_skips_none_of_its_records(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    with simulation.consumer(cluster, "orders", group_id=GROUP, auto_offset_reset="earliest") as consumer:
        assert all_of(consumer, 20) == {0: list(range(10)), 1: list(range(10))}
        make_anew(simulation, cluster, 15)
        simulation.sleep(5)
        consumer.enforce_rebalance()
        simulation.sleep(0.1)
        assert all_of(consumer, 30) == {0: list(range(15)), 1: list(range(15))}


def all_of(consumer: KafkaConsumer, count: int) -> dict[int, list[int]]:
    """The offsets of so many records, by partition."""
    found: dict[int, list[int]] = {}
    for _ in range(40):
        for partition, records in consumer.poll(200).items():
            found.setdefault(partition.partition, []).extend(record.offset for record in records)
        if sum(map(len, found.values())) >= count:
            break
    return found


def test_committed_of_a_recreated_topic_uses_the_new_topic_id(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster)
    read(consumer, 6)
    make_anew(simulation, cluster)
    assert consumer.committed(FIRST) is None


def make_anew(simulation: Simulation, cluster: KafkaCluster, count: int = 1) -> None:
    """The topic `orders` is deleted, and there is another one of its name."""
    cluster.delete_topic("orders")
    cluster.create_topic("orders", 2)
    produce(simulation, cluster, count, ORDERS)
