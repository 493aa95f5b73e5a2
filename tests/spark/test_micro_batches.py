"""Ends of micro-batches, requested in Spark's order, against a broker and without Spark."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import attrs
import pytest

from pykafka2 import KafkaProducer, TopicPartition
from pykafka2.errors import (
    ConfigurationError,
    FencedLeaderEpoch,
    InvalidTopicException,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.offsets import ListOffsetsRequest
from pykafka2.testing import KafkaCluster, Topic
from spark_connector import connections
from spark_connector.errors import DataLoss
from spark_connector.offsets import Offsets
from spark_connector.options.source_options import source_options
from spark_connector.source.micro_batches import MicroBatches
from spark_connector.source.samples import Samples
from spark_connector.source.topics import Topics
from tests.gate import rest_in_gate
from tests.spark.kafka_data import AGES, add_partitions, age_out, send

pytestmark = pytest.mark.kafka(brokers=1, topics={"t": Topic(partitions=2, configs=AGES)})

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


@attrs.define
class Stream:
    """A query's reader as Spark has it, with a clock that stands still."""

    batches: MicroBatches
    slept: list[float]
    now: float = 100.0

    def begin(self) -> Offsets:
        """The first batch, which is empty."""
        first = self.batches.first_offsets()
        assert self.next(first) == first
        return first

    def next(self, start: Offsets, *, once: bool = False) -> Offsets:
        return self.batches.end_of_next(dict(start), takes_all=once)


@contextmanager
def stream(cluster: KafkaCluster, **settings: str) -> Iterator[Stream]:
    chosen = {"subscribe": "t"} if not {"assign", "subscribePattern", "subscribe"} & settings.keys() else {}
    options = source_options(
        {"kafka.bootstrap.servers": cluster.bootstrap_servers, **chosen, **settings}, streaming=True
    )
    with connections.new_consumer(options.kafka) as consumer, connections.new_admin(options.kafka) as admin:
        slept: list[float] = []
        topics = Topics(options, consumer, admin, slept.append)
        samples = Samples(consumer, options.isolation_level)
        found = Stream(MicroBatches(options, topics, samples, lambda: found.now), slept)
        yield found


# ---------------------------------------------------------------------------------------- the beginning


def test_a_new_query_begins_at_the_end(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5, 3])
    with stream(kafka_cluster) as query:
        assert query.begin() == {T0: 5, T1: 3}


def test_first_offsets_stay_the_same_when_requested_again(kafka_cluster: KafkaCluster) -> None:
    with stream(kafka_cluster) as query:
        assert query.batches.first_offsets() == {T0: 0, T1: 0}
        send(kafka_cluster, "t", [5])
        assert query.batches.first_offsets() == {T0: 0, T1: 0}


def test_the_first_batch_is_empty_and_the_second_has_all(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5, 3])
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        assert query.begin() == {T0: 0, T1: 0}
        assert query.next({T0: 0, T1: 0}) == {T0: 5, T1: 3}


def test_the_first_batch_played_again_is_not_followed_by_an_empty_one(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5])
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        first = query.batches.first_offsets()
        query.batches.begun()
        assert query.next(first) == {T0: 5, T1: 0}


def test_resumed_query_has_no_empty_first_batch(
    kafka_cluster: KafkaCluster,
) -> None:
    """Only the batch that begins where the query begins is left empty."""
    send(kafka_cluster, "t", [5, 3])
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        assert query.batches.first_offsets() == {T0: 0, T1: 0}
        assert query.next({T0: 2, T1: 0}) == {T0: 5, T1: 3}
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        query.batches.first_offsets()
        assert query.next({T0: 0, T1: 2}) == {T0: 5, T1: 3}


@pytest.mark.parametrize("has_first", [True, False])
def test_without_a_start_the_first_batch_alone_is_empty(kafka_cluster: KafkaCluster, has_first: bool) -> None:
    """Before Spark 4.2 it does not say where a batch begins, so limits do not count."""
    send(kafka_cluster, "t", [5, 3])
    with stream(kafka_cluster, startingOffsets="earliest", maxOffsetsPerTrigger="2") as query:
        if has_first:
            query.batches.first_offsets()
            assert query.batches.end_of_next(None, takes_all=False) == {T0: 0, T1: 0}
        assert query.batches.end_of_next(None, takes_all=False) == {T0: 5, T1: 3}


def test_resumed_query_has_no_empty_batch(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5])
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        assert query.next({T0: 2, T1: 0}) == {T0: 5, T1: 0}


@pytest.mark.parametrize(
    ("settings", "is_empty"),
    [
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": '{"t": {"0": 2, "1": -2}}'}, False),
        ({"startingTimestamp": "0"}, False),
        ({"startingOffsets": "latest"}, True),
        ({"startingOffsets": '{"t": {"0": 2, "1": -1}}'}, True),
        ({"startingTimestamp": "0", "startingOffsetsByTimestampStrategy": "latest"}, True),
    ],
    ids=str,
)
def test_once_reads_at_once_where_the_beginning_is_found_again(
    kafka_cluster: KafkaCluster, settings: dict[str, str], is_empty: bool
) -> None:
    send(kafka_cluster, "t", [5, 1])
    with stream(kafka_cluster, **settings) as query:
        first = query.batches.first_offsets()
        assert query.next(first, once=True) == (first if is_empty else {T0: 5, T1: 1})


@pytest.mark.parametrize(
    ("settings", "begins"),
    [
        ({"startingOffsets": '{"t": {"0": 2, "1": -2}}'}, {T0: 2, T1: 0}),
        ({"startingOffsets": '{"t": {"0": -1, "1": 1}}'}, {T0: 5, T1: 1}),
        ({"assign": '{"t": [1]}'}, {T1: 3}),
        ({"assign": '{"t": [1]}', "startingOffsets": '{"t": {"1": 2}}'}, {T1: 2}),
        ({"assign": '{"t": [1]}', "startingTimestamp": "2000"}, {T1: 1}),
        ({"subscribePattern": "t", "startingOffsets": "earliest"}, {T0: 0, T1: 0}),
        (
            {"subscribePattern": "t", "startingOffsetsByTimestamp": '{"t": {"0": 3500, "1": 0}}'},
            {T0: 3, T1: 0},
        ),
        ({"startingTimestamp": "2000"}, {T0: 1, T1: 1}),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 3500, "1": 0}}'}, {T0: 3, T1: 0}),
        ({"startingTimestamp": "1000", "startingOffsets": "latest"}, {T0: 0, T1: 0}),
        (
            {"startingTimestamp": "1000", "startingOffsetsByTimestamp": '{"t": {"0": 9000, "1": 9000}}'},
            {T0: 0, T1: 0},
        ),
        (
            {"startingOffsetsByTimestamp": '{"t": {"0": 2000, "1": 2000}}', "startingOffsets": "latest"},
            {T0: 1, T1: 1},
        ),
        ({"startingTimestamp": "4000", "startingOffsetsByTimestampStrategy": "latest"}, {T0: 3, T1: 3}),
    ],
    ids=str,
)
def test_query_starts_at_its_starting_offsets(
    kafka_cluster: KafkaCluster, settings: dict[str, str], begins: Offsets
) -> None:
    send(kafka_cluster, "t", [5, 3], first_ms=1000)
    with stream(kafka_cluster, **settings) as query:
        assert query.begin() == begins


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"startingTimestamp": "4000"}, "startingTimestamp: t-1 has no record of that time or later"),
        (
            {"startingOffsetsByTimestamp": '{"t": {"0": 0, "1": 9000}}'},
            "startingOffsetsByTimestamp: t-1 has no",
        ),
        (
            {"startingOffsets": '{"t": {"0": 0}}'},
            "startingOffsets must name exactly .*: it does not name t-1",
        ),
        (
            {"startingOffsets": '{"t": {"0": 0, "1": 0, "7": 0}}'},
            "it names t-7, which the query does not read",
        ),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 0}}'}, "startingOffsetsByTimestamp must name exactly"),
    ],
    ids=str,
)
def test_missing_starting_offset_raises_with_the_reason(
    kafka_cluster: KafkaCluster, settings: dict[str, str], words: str
) -> None:
    send(kafka_cluster, "t", [5, 3], first_ms=1000)
    with stream(kafka_cluster, **settings) as query, pytest.raises(ConfigurationError, match=words):
        query.begin()


# ---------------------------------------------------------------------------------------- what is read


def test_a_topic_that_is_not_there_is_named(kafka_cluster: KafkaCluster) -> None:
    with (
        stream(kafka_cluster, subscribe="t,nothing") as query,
        pytest.raises(UnknownTopicOrPartition, match="subscribe: topic 'nothing' does not exist"),
    ):
        query.begin()


def test_a_partition_that_is_not_there_is_named(kafka_cluster: KafkaCluster) -> None:
    with (
        stream(kafka_cluster, assign='{"t": [0, 9]}') as query,
        pytest.raises(UnknownTopicOrPartition, match="assign: topic 't' has no partition 9"),
    ):
        query.begin()


def test_every_topic_and_partition_that_is_not_there_is_named(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("u", partitions=1)
    for settings, names in (
        ({"subscribe": "t,missing-1,missing-2"}, ["topic 'missing-1'", "topic 'missing-2'"]),
        (
            {"assign": '{"t": [0, 8, 9], "u": [0, 7], "gone": [0]}'},
            ["'t' has no partition 8", "'t' has no partition 9", "'u' has no partition 7", "topic 'gone'"],
        ),
    ):
        with stream(kafka_cluster, **settings) as query, pytest.raises(UnknownTopicOrPartition) as refused:
            query.begin()
        assert [name for name in names if name not in str(refused.value)] == []
        assert str(refused.value).count(";") == len(names) - 1


def test_only_assigned_partitions_are_read(kafka_cluster: KafkaCluster) -> None:
    with stream(kafka_cluster, assign='{"t": [1]}') as query:
        assert query.begin() == {T1: 0}


def test_a_pattern_takes_whole_names_and_later_topics(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("orders-1", partitions=1)
    for other in ("old-orders-1", "orders-12"):
        kafka_cluster.create_topic(other, partitions=1)
    with stream(kafka_cluster, subscribePattern=r"orders-\d") as query:
        first = query.begin()
        assert first == {TopicPartition("orders-1", 0): 0}
        kafka_cluster.create_topic("orders-2", partitions=1)
        send(kafka_cluster, "orders-2", [4])
        assert query.next(first) == {TopicPartition("orders-1", 0): 0, TopicPartition("orders-2", 0): 4}


def test_a_new_partition_is_read_from_its_beginning(kafka_cluster: KafkaCluster) -> None:
    with stream(kafka_cluster) as query:
        first = query.begin()
        add_partitions(kafka_cluster, "t", 3)
        send(kafka_cluster, "t", [1, 0, 6])
        assert query.next(first) == {T0: 1, T1: 0, T2: 6}


def test_query_without_new_records_has_no_batch(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5])
    with stream(kafka_cluster) as query:
        first = query.begin()
        assert query.next(first) == first
        assert query.batches.last_ends() == first


def test_committed_reads_end_before_an_open_transaction(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5])
    with (
        KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="x") as producer,
        stream(kafka_cluster, startingOffsets="earliest", isolation="read_committed") as committed,
        stream(kafka_cluster, startingOffsets="earliest") as uncommitted,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", value=b"x", partition=0)
        producer.flush()
        assert committed.next(committed.begin()) == {T0: 5, T1: 0}
        assert uncommitted.next(uncommitted.begin()) == {T0: 6, T1: 0}
        producer.commit_transaction()
        assert committed.next({T0: 5, T1: 0})[T0] > 5


# ---------------------------------------------------------------------------------------- limits


def test_a_limit_is_shared_out_and_ends(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [30, 10])
    with stream(kafka_cluster, startingOffsets="earliest", maxOffsetsPerTrigger="20") as query:
        at = query.begin()
        seen = []
        while (following := query.next(at)) != at:
            seen.append(following)
            at = following
        assert seen == [{T0: 15, T1: 5}, {T0: 30, T1: 10}]


def test_once_knows_no_limit(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [30, 10])
    with stream(kafka_cluster, startingOffsets="earliest", maxOffsetsPerTrigger="20") as query:
        assert query.next(query.batches.first_offsets(), once=True) == {T0: 30, T1: 10}


def test_the_largest_limits_are_none(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [30, 10])
    most = str(2**63 - 1)
    settings = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": most, "maxBytesPerTrigger": most}
    with stream(kafka_cluster, **settings) as query:
        assert query.next(query.begin()) == {T0: 30, T1: 10}


def test_few_records_wait_for_more_or_for_the_delay(kafka_cluster: KafkaCluster) -> None:
    settings = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "5s", "startingOffsets": "earliest"}
    with stream(kafka_cluster, **settings) as query:
        first = query.begin()
        send(kafka_cluster, "t", [3])
        assert query.next(first) == (at := {T0: 3, T1: 0})  # the first batch does not wait
        send(kafka_cluster, "t", [3])
        assert query.next(at) == at
        query.now += 4.9
        assert query.next(at) == at
        query.now += 0.2
        assert query.next(at) == (at := {T0: 6, T1: 0})
        send(kafka_cluster, "t", [10])
        assert query.next(at) == {T0: 16, T1: 0}


def test_minimum_and_maximum_offsets_per_trigger_both_hold(kafka_cluster: KafkaCluster) -> None:
    settings = {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "20", "startingOffsets": "earliest"}
    send(kafka_cluster, "t", [25])
    with stream(kafka_cluster, **settings) as query:
        assert query.next(query.begin()) == {T0: 20, T1: 0}
        assert query.next({T0: 20, T1: 0}) == {T0: 20, T1: 0}


@pytest.mark.gate
@pytest.mark.parametrize("batch_bytes", rest_in_gate([4_000, 60_000, 1 << 20]))
def test_bytes_are_limited_within_a_quarter(kafka_cluster: KafkaCluster, batch_bytes: int) -> None:
    send(kafka_cluster, "t", [6000, 2000], size=100, batch_bytes=batch_bytes)
    batches = kafka_cluster.log("t", 0).batches()
    per_record = sum(batch.size_bytes for batch in batches) / 6000
    with stream(kafka_cluster, startingOffsets="earliest", maxBytesPerTrigger="200k") as query:
        at, taken = query.begin(), []
        while (following := query.next(at)) != at:
            taken.append(sum(following[one] - at[one] for one in at) * per_record)
            at = following
    assert at == {T0: 6000, T1: 2000}
    for size in taken[:-1]:
        assert size == pytest.approx(200 << 10, rel=0.25)


@pytest.mark.gate
def test_records_that_grow_are_limited_as_well(kafka_cluster: KafkaCluster) -> None:
    for size in (1000, 3000):
        send(kafka_cluster, "t", [400], size=size, batch_bytes=16_000)
    with stream(kafka_cluster, startingOffsets="earliest", maxBytesPerTrigger="1000k") as query:
        end = query.next(query.begin())[T0]
    taken = sum(one.size_bytes for one in kafka_cluster.log("t", 0).batches() if one.base_offset < end)
    assert taken == pytest.approx(1000 << 10, rel=0.25)


def test_one_record_larger_than_the_limit_is_still_read(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [2], size=5000)
    with stream(kafka_cluster, startingOffsets="earliest", maxBytesPerTrigger="10") as query:
        assert query.next(query.begin()) == {T0: 1, T1: 0}


# ---------------------------------------------------------------------------------------- available now


def test_available_now_ends_at_the_offsets_of_its_start(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5, 5])
    settings = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "6", "minOffsetsPerTrigger": "5"}
    with stream(kafka_cluster, **settings) as query:
        query.batches.prepare_for_available_now()
        add_partitions(kafka_cluster, "t", 3)
        send(kafka_cluster, "t", [5, 5, 5])
        at = {T0: 0, T1: 0}
        assert query.next(at) == (at := {T0: 3, T1: 3})
        assert query.next(at) == (at := {T0: 5, T1: 5})  # though fewer than minOffsetsPerTrigger
        assert query.next(at) == at


@pytest.fixture
def no_topic_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers older than Kafka 2.8, with which a topic that is created again looks truncated."""
    monkeypatch.setattr(MicroBatches, "_recreated", lambda self: set())


@pytest.mark.usefixtures("no_topic_ids")
@pytest.mark.parametrize("is_lenient", [False, True], ids=["fails", "goes on"])
def test_available_offsets_lost_during_the_run_are_a_loss(
    kafka_cluster: KafkaCluster, is_lenient: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic is created again, with more records than were read and fewer than there were."""
    send(kafka_cluster, "t", [8, 0])
    settings = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
    with stream(kafka_cluster, **settings, failOnDataLoss=str(not is_lenient)) as query:
        query.batches.prepare_for_available_now()
        at = query.next({T0: 0, T1: 0})
        assert at == {T0: 4, T1: 0}
        kafka_cluster.delete_topic("t")
        kafka_cluster.create_topic("t", partitions=2)
        send(kafka_cluster, "t", [6, 0])
        if is_lenient:
            assert query.next(at) == {T0: 6, T1: 0}
            assert "t-0 ended at offset 8 when the run" in caplog.text
            return
        with pytest.raises(DataLoss, match=r"t-0 ended at offset 8 .* but now ends at 6"):
            query.next(at)


@pytest.mark.usefixtures("no_topic_ids")
def test_a_partition_that_was_available_and_never_begun_is_missed(kafka_cluster: KafkaCluster) -> None:
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        first = query.begin()
        add_partitions(kafka_cluster, "t", 3)
        send(kafka_cluster, "t", [0, 0, 5])
        query.batches.prepare_for_available_now()
        kafka_cluster.delete_topic("t")
        kafka_cluster.create_topic("t", partitions=2)
        with pytest.raises(DataLoss, match=r"t-2 was deleted since the run of Trigger\.AvailableNow began"):
            query.next(first)


def knowing_one_partition(request: Any, response: Any) -> Any:
    """The response of a broker that does not know recently added partitions."""
    changed = copy.deepcopy(response)  # the broker may have kept its own
    for topic in changed.topics:
        topic.partitions = [one for one in topic.partitions if one.partition_index == 0]
    return changed


def test_a_partition_that_was_overlooked_when_the_run_began_stays_where_it_is(
    kafka_cluster: KafkaCluster,
) -> None:
    """A query that forgets its position reads the partition again from its beginning, in the next run."""
    send(kafka_cluster, "t", [4, 4])
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        assert query.next(query.begin()) == (at := {T0: 4, T1: 4})
        send(kafka_cluster, "t", [3, 3])
        kafka_cluster.controls.rule(
            api=MetadataRequest, times=1, then="replace_reply", reply=knowing_one_partition
        )
        query.batches.prepare_for_available_now()
        assert query.next(at) == (at := {T0: 7, T1: 4})
        assert query.next(at) == at


def test_available_now_run_never_moves_back(kafka_cluster: KafkaCluster) -> None:
    """Spark asks where a new query begins after the run has begun."""
    with stream(kafka_cluster) as query:
        query.batches.prepare_for_available_now()
        send(kafka_cluster, "t", [5, 5])
        assert query.begin() == (first := {T0: 5, T1: 5})
        assert query.next(first) == first


# ---------------------------------------------------------------------------------------- losses


def lose(cluster: KafkaCluster) -> None:
    cluster.delete_topic("t")
    cluster.create_topic("t", partitions=2)
    send(cluster, "t", [1])


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({T0: 5, T1: 0}, "t-0 was truncated from offset 5 to 1. Some data may have been missed"),
        ({T0: 0, T1: 0, T2: 3}, "t-2 no longer exists. Some data may have been missed"),
    ],
    ids=["back", "gone"],
)
def test_a_loss_fails_the_query(kafka_cluster: KafkaCluster, start: Offsets, words: str) -> None:
    lose(kafka_cluster)
    with stream(kafka_cluster) as query, pytest.raises(DataLoss, match=words):
        query.next(start)


@pytest.mark.parametrize("start", [{T0: 5, T1: 0}, {T0: 0, T1: 0, T2: 3}], ids=["back", "gone"])
def test_loss_is_logged_and_skipped_without_fail_on_data_loss(
    kafka_cluster: KafkaCluster, start: Offsets, caplog: pytest.LogCaptureFixture
) -> None:
    lose(kafka_cluster)
    with stream(kafka_cluster, failOnDataLoss="false") as query, caplog.at_level(logging.WARNING):
        assert query.next(start) == {T0: 1, T1: 0}
        assert "the query continues because failOnDataLoss is false" in caplog.text


def test_one_brokers_ignorance_of_a_partition_is_no_loss(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [4, 4])
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        at = query.next(query.begin())
        send(kafka_cluster, "t", [0, 3])
        kafka_cluster.controls.rule(
            api=MetadataRequest, times=1, then="replace_reply", reply=knowing_one_partition
        )
        assert query.next(at) == {T0: 4, T1: 7}
        assert query.slept == [1.0]


def test_stale_end_offset_of_a_replaced_leader_is_no_loss(kafka_cluster: KafkaCluster) -> None:
    """It does not know its successor, and ends earlier (KAFKA-7703)."""

    def of_old(request: Any, response: Any) -> Any:
        changed = copy.deepcopy(response)
        for topic in changed.topics:
            for one in topic.partitions:
                one.offset = min(one.offset, 1)
        return changed

    send(kafka_cluster, "t", [4, 4])
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        at = query.next(query.begin())
        send(kafka_cluster, "t", [0, 3])
        kafka_cluster.controls.rule(api=ListOffsetsRequest, times=2, then="replace_reply", reply=of_old)
        assert query.next(at) == {T0: 4, T1: 7}
        assert query.slept == [1.0, 1.0]


def test_a_topic_that_was_deleted_is_a_loss(kafka_cluster: KafkaCluster) -> None:
    with (
        stream(kafka_cluster) as query,
        stream(kafka_cluster, failOnDataLoss="false") as lenient,
    ):
        first = query.begin()
        lenient.begin()
        kafka_cluster.delete_topic("t")
        with pytest.raises(DataLoss, match="t-0, t-1 no longer exists"):
            query.next(first)
        assert lenient.next(first) == {}


@pytest.mark.gate
def test_deleted_topic_is_skipped_while_the_query_runs(
    kafka_cluster: KafkaCluster,
) -> None:
    kafka_cluster.create_topic("u", partitions=1)
    settings = {"subscribe": "t,u", "startingOffsets": "earliest", "failOnDataLoss": "false"}
    with stream(kafka_cluster, **settings) as query:
        first = at = query.begin()
        kafka_cluster.delete_topic("u")
        for count in (1, 2, 3):  # the offsets of the first one do not speak of it any more
            send(kafka_cluster, "t", [1])
            at = query.next(at)
            assert at == {T0: count, T1: 0}
    with stream(kafka_cluster, **settings) as again:
        at = again.next(first)
        assert at == again.next(at) == {T0: 3, T1: 0}
    with (
        stream(kafka_cluster, **settings) as later,
        pytest.raises(UnknownTopicOrPartition, match="topic 'u' does not exist"),
    ):
        later.next(at)


def recreate(cluster: KafkaCluster, topic: str, counts: list[int]) -> None:
    """Delete a topic and create it again, with this many records in each partition."""
    cluster.delete_topic(topic)
    cluster.create_topic(topic, partitions=len(counts))
    send(cluster, topic, counts)


SELECTIONS = pytest.mark.parametrize(
    "selection",
    [{"subscribe": "t,u"}, {"subscribePattern": "[tu]"}, {"assign": '{"t": [0, 1], "u": [0]}'}],
    ids=lambda selection: next(iter(selection)),
)
U0 = TopicPartition("u", 0)


@SELECTIONS
@pytest.mark.parametrize("count", [3, 5, 8], ids=["fewer records", "as many records", "more records"])
def test_topic_that_is_created_again_during_a_run_is_a_loss(
    kafka_cluster: KafkaCluster, selection: dict[str, str], count: int
) -> None:
    kafka_cluster.create_topic("u", partitions=1)
    send(kafka_cluster, "t", [5, 4])
    with stream(kafka_cluster, startingOffsets="earliest", **selection) as query:
        at = query.next(query.begin())
        assert at == {T0: 5, T1: 4, U0: 0}
        recreate(kafka_cluster, "t", [count, 0])
        for _ in range(2):
            with pytest.raises(DataLoss, match="topic 't' was deleted and created again"):
                query.next(at)


@SELECTIONS
@pytest.mark.parametrize("count", [3, 5, 8], ids=["fewer records", "as many records", "more records"])
def test_topic_that_is_created_again_during_a_run_is_read_from_0_after_a_warning(
    kafka_cluster: KafkaCluster, selection: dict[str, str], count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """One batch leaves it out, so that the checkpoint says where the new topic begins."""
    kafka_cluster.create_topic("u", partitions=1)
    send(kafka_cluster, "t", [5, 4])
    settings = {**selection, "startingOffsets": "earliest", "failOnDataLoss": "false"}
    with stream(kafka_cluster, **settings) as query:
        at = query.next(query.begin())
        recreate(kafka_cluster, "t", [count, 2])
        send(kafka_cluster, "u", [7])
        without = query.next(at)
        assert without == {U0: 7}
        assert caplog.text.count("topic 't' was deleted and created again") == 1
        assert query.next(without) == {T0: count, T1: 2, U0: 7}
        assert caplog.text.count("created again") == 1
    with stream(kafka_cluster, **settings) as again:  # the batch is replayed
        assert again.next(without) == {T0: count, T1: 2, U0: 7}


@pytest.mark.gate
def test_two_topics_that_are_created_again_are_one_batch_each_run(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("u", partitions=1)
    settings = {"subscribe": "t,u", "startingOffsets": "earliest", "failOnDataLoss": "false"}
    with stream(kafka_cluster, **settings) as query:
        send(kafka_cluster, "t", [1])
        at = query.next(query.begin())
        for count in (2, 3):
            recreate(kafka_cluster, "t", [count, 0])
            recreate(kafka_cluster, "u", [count])
            at = query.next(at)
            assert at == {}
            at = query.next(at)
            assert at == {T0: count, T1: 0, U0: count}


def test_topic_that_is_created_again_during_available_now_is_left_to_the_next_run(
    kafka_cluster: KafkaCluster,
) -> None:
    kafka_cluster.create_topic("u", partitions=1)
    send(kafka_cluster, "t", [5, 4])
    settings = {"subscribe": "t,u", "startingOffsets": "earliest", "failOnDataLoss": "false"}
    with stream(kafka_cluster, **settings, maxOffsetsPerTrigger="6") as query:
        query.batches.prepare_for_available_now()
        at = query.next(query.begin())
        recreate(kafka_cluster, "t", [8, 2])
        assert query.next(at) == {U0: 0}
        assert query.next({U0: 0}) == {U0: 0}
    with stream(kafka_cluster, **settings) as later:
        assert later.next({U0: 0}) == {T0: 8, T1: 2, U0: 0}


@pytest.mark.gate
@pytest.mark.parametrize("has_first", [True, False], ids=["new query", "resumed query"])
def test_topic_that_is_created_again_before_the_first_batch_of_available_now_is_a_loss(
    kafka_cluster: KafkaCluster, has_first: bool
) -> None:
    send(kafka_cluster, "t", [5, 4])
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        if has_first:
            query.batches.first_offsets()
            recreate(kafka_cluster, "t", [8, 7])
        query.batches.prepare_for_available_now()
        if not has_first:
            recreate(kafka_cluster, "t", [8, 7])
        with pytest.raises(DataLoss, match="topic 't' was deleted and created again"):
            query.next({T0: 2, T1: 2})


def test_topic_that_is_created_again_is_noticed_without_a_start(kafka_cluster: KafkaCluster) -> None:
    """Before Spark 4.2."""
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        query.begin()
        recreate(kafka_cluster, "t", [1, 1])
        with pytest.raises(DataLoss, match="created again"):
            query.batches.end_of_next(None, takes_all=False)


@pytest.mark.parametrize("count", [3, 8], ids=["fewer records", "more records"])
@pytest.mark.parametrize("is_lenient", [False, True], ids=["fails", "goes on"])
def test_topic_that_is_created_again_between_two_lookups_of_a_batch_is_noticed(
    kafka_cluster: KafkaCluster, is_lenient: bool, count: int
) -> None:
    """The first lookup finds no topic, and the retry a new one."""
    kafka_cluster.create_topic("u", partitions=1)
    send(kafka_cluster, "t", [5, 4])
    settings = {"subscribe": "t,u", "failOnDataLoss": str(not is_lenient).lower()}
    with stream(kafka_cluster, startingOffsets="earliest", **settings) as query:
        at = query.next(query.begin())
        kafka_cluster.delete_topic("t")

        def create(_: float) -> None:
            if query.batches._topics._find()[1]:
                kafka_cluster.create_topic("t", partitions=2)
                send(kafka_cluster, "t", [count, count])

        query.batches._topics._sleep = create
        if not is_lenient:
            with pytest.raises(DataLoss, match="topic 't' was deleted and created again"):
                query.next(at)
            return
        without = query.next(at)
        assert without == {U0: 0}
        assert query.next(without) == {T0: count, T1: count, U0: 0}


def test_topic_that_is_created_again_is_left_out_although_another_one_is_looked_up_again(
    kafka_cluster: KafkaCluster,
) -> None:
    kafka_cluster.create_topic("u", partitions=1)
    send(kafka_cluster, "t", [5, 4])
    send(kafka_cluster, "u", [7])
    settings = {"subscribe": "t,u", "startingOffsets": "earliest", "failOnDataLoss": "false"}
    with stream(kafka_cluster, **settings) as query:
        at = query.next(query.begin())
        recreate(kafka_cluster, "t", [8, 2])
        kafka_cluster.delete_topic("u")
        without = query.next(at)
        assert without == {}
        assert query.next(without) == {T0: 8, T1: 2}


def test_topic_that_is_created_again_before_it_was_read_is_no_loss(kafka_cluster: KafkaCluster) -> None:
    settings = {"subscribePattern": "[tu]", "startingOffsets": "earliest", "minOffsetsPerTrigger": "3"}
    with stream(kafka_cluster, **settings) as query:
        query.begin()
        send(kafka_cluster, "t", [3])
        at = query.next({T0: 0, T1: 0})
        kafka_cluster.create_topic("u", partitions=1)
        send(kafka_cluster, "u", [1])
        assert query.next(at) == at, "held back"
        recreate(kafka_cluster, "u", [3])
        assert query.next(at) == at
        assert query.next(at) == {**at, U0: 3}


def test_stale_topic_id_of_a_lagging_broker_is_no_loss(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stream(kafka_cluster, startingOffsets="earliest") as query:
        at = query.begin()
        send(kafka_cluster, "t", [1])
        topics = query.batches._topics
        find, answers = topics._find, [{"t": b"stale"}, {}]

        def lagging() -> Any:
            found = find()
            topics.ids.update(answers.pop(0) if answers else {})
            return found

        monkeypatch.setattr(Topics, "_find", lambda self: lagging())
        assert query.next(at) == {T0: 1, T1: 0}
        assert len(query.slept) == 1


def test_topics_of_a_pattern_can_be_created_and_deleted(kafka_cluster: KafkaCluster) -> None:
    """A deleted topic is a loss like any other; topics that match by now are read from their beginning."""
    kafka_cluster.create_topic("orders-1", partitions=1)
    kafka_cluster.create_topic("orders-2", partitions=1)
    send(kafka_cluster, "orders-1", [3])
    kept, later = TopicPartition("orders-1", 0), TopicPartition("orders-3", 0)
    settings = {"subscribePattern": r"orders-\d", "startingOffsets": "earliest"}
    with (
        stream(kafka_cluster, **settings) as strict,
        stream(kafka_cluster, **settings, failOnDataLoss="false") as lenient,
    ):
        first = strict.begin()
        assert lenient.begin() == first
        kafka_cluster.delete_topic("orders-2")
        kafka_cluster.create_topic("orders-3", partitions=1)
        send(kafka_cluster, "orders-3", [4])
        with pytest.raises(DataLoss, match="orders-2-0 no longer exists"):
            strict.next(first)
        assert lenient.next(first) == {kept: 3, later: 4}


def test_a_new_partition_that_does_not_begin_at_0_is_a_loss(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5, 5])
    age_out(kafka_cluster, "t", 1)
    with (
        stream(kafka_cluster) as query,
        pytest.raises(DataLoss, match="new partition t-1 begins at offset 5, not at 0"),
    ):
        query.next({T0: 5})


def test_a_new_partition_counts_from_where_its_log_begins(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [5, 5])
    age_out(kafka_cluster, "t", 1)
    with stream(kafka_cluster, failOnDataLoss="false", maxOffsetsPerTrigger="1") as query:
        assert query.next({T0: 5}) == {T0: 5, T1: 6}


def test_every_truncated_or_deleted_partition_is_logged(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka_cluster, "t", [1, 2])
    gone = [TopicPartition("t", number) for number in (2, 3)]
    start = {T0: 5, T1: 6, **dict.fromkeys(gone, 1)}
    with stream(kafka_cluster, failOnDataLoss="false") as query, caplog.at_level(logging.WARNING):
        assert query.next(start) == {T0: 1, T1: 2}
    for words in (
        "t-0 was truncated from offset 5 to 1",
        "t-1 was truncated from offset 6 to 2",
        "t-2, t-3 no longer exists",
    ):
        assert words in caplog.text


def test_every_new_partition_not_starting_at_0_is_logged(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka_cluster, "t", [5, 4])
    age_out(kafka_cluster, "t", 0)
    age_out(kafka_cluster, "t", 1)
    add_partitions(kafka_cluster, "t", 4)
    send(kafka_cluster, "t", [0, 0, 3, 3])
    settings = {"failOnDataLoss": "false", "maxOffsetsPerTrigger": "6"}
    with stream(kafka_cluster, **settings) as query, caplog.at_level(logging.WARNING):
        assert query.next({T2: 2}) == {T0: 6, T1: 5, T2: 3, TopicPartition("t", 3): 3}
    assert "new partition t-0 begins at offset 5, not at 0" in caplog.text
    assert "new partition t-1 begins at offset 4, not at 0" in caplog.text


@pytest.mark.usefixtures("no_topic_ids")
def test_every_lost_end_of_available_offsets_is_logged(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka_cluster, "t", [8, 9])
    settings = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "2", "failOnDataLoss": "false"}
    with stream(kafka_cluster, **settings) as query, caplog.at_level(logging.WARNING):
        query.batches.prepare_for_available_now()
        at = query.next({T0: 0, T1: 0})
        assert at == {T0: 1, T1: 1}
        kafka_cluster.delete_topic("t")
        kafka_cluster.create_topic("t", partitions=2)
        send(kafka_cluster, "t", [6, 7])
        query.next(at)
    assert "t-0 ended at offset 8 when the run" in caplog.text
    assert "t-1 ended at offset 9 when the run" in caplog.text


@pytest.mark.parametrize("how", ["subscribe", "assign"])
def test_each_deleted_topic_of_a_named_list_is_a_loss(kafka_cluster: KafkaCluster, how: str) -> None:
    """They were there when the query began, so they are no misspelt names, and the third is read on."""
    settings = {"failOnDataLoss": "false", "startingOffsets": "earliest"}
    settings[how] = "t,u,v" if how == "subscribe" else '{"t": [0, 1], "u": [0], "v": [0]}'
    for name in ("u", "v"):
        kafka_cluster.create_topic(name, partitions=1)
    with stream(kafka_cluster, **settings) as query:
        first = query.begin()
        kafka_cluster.delete_topic("u")
        send(kafka_cluster, "t", [1])
        at = query.next(first)
        assert at == {T0: 1, T1: 0, TopicPartition("v", 0): 0}
        kafka_cluster.delete_topic("v")
        assert query.next(at) == query.next({T0: 1, T1: 0}) == {T0: 1, T1: 0}
    with stream(kafka_cluster, **settings) as again:
        assert again.next(first) == {T0: 1, T1: 0}, "the offsets speak of both"


# ---------------------------------------------------------------------------------------- brokers in trouble


def test_error_of_a_topic_names_no_topic_with_another_error(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Described(dict[str, object]):
        errors: ClassVar = {
            "t": TopicAuthorizationFailed("refused"),
            "u": InvalidTopicException("illegal"),
            "v": TopicAuthorizationFailed("refused"),
        }

    with stream(kafka_cluster, subscribe="t,u,v") as query:
        topics = query.batches._topics
        monkeypatch.setattr(topics._admin, "describe_topics", lambda *_, **__: Described(), raising=False)
        with pytest.raises(TopicAuthorizationFailed, match=r"^subscribe: topic 't', 'v': refused"):
            topics.partitions()


def test_offset_lookup_is_retried(kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with stream(
        kafka_cluster, **{"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "70"}
    ) as query:
        topics = query.batches._topics
        failures = [FencedLeaderEpoch(), FencedLeaderEpoch()]

        def ends(partitions: object) -> Offsets:
            if failures:
                raise failures.pop()
            return {T0: 1}

        monkeypatch.setattr(topics._consumer, "end_offsets", ends, raising=False)
        assert topics.ends([T0]) == {T0: 1}
        assert query.slept == [0.07, 0.07]
        failures += [FencedLeaderEpoch() for _ in range(3)]
        with pytest.raises(FencedLeaderEpoch):
            topics.ends([T0])
