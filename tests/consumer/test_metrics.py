"""Values of the consumer's metrics, in virtual time; tests/test_java_metrics.py compares them with Java's."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.consumer.group.member import Rebalances
from pykafka2.consumer.poll.meters import PollTimes
from pykafka2.consumer.state.measures import MeasuresByTopic, TopicMeasures
from pykafka2.errors import IllegalState, RebalanceInProgress
from pykafka2.events import RequestAnswered, RequestSent
from pykafka2.metric_table import CONSUMER, GROUP, POLLS
from pykafka2.metrics import Metrics, without_tags
from pykafka2.testing import Simulation
from tests.driver.interleave import at_every_line, at_line


def rows_of(client: Any, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by its tags other than client-id."""
    return {
        tuple(value for tag, value in row.tags.items() if tag != "client-id"): row.value
        for row in client.metric_rows()
        if row.name == name
    }


def read(consumer: KafkaConsumer, wanted: int) -> None:
    while wanted > 0:
        wanted -= sum(map(len, consumer.poll(1000).values()))


@pytest.mark.slow
def test_lag_and_lead_of_each_partition_follow_the_position(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"orders": 2, "clicks": 1})
    producer = simulation.producer(cluster)
    for partition, count in ((0, 10), (1, 3)):
        producer.send_many("orders", [b"v"] * count, partition=partition).result(10)
    consumer = simulation.consumer(cluster, auto_offset_reset="earliest", max_poll_records=2)
    consumer.assign([TopicPartition("orders", 0)])
    assert math.isnan(rows_of(consumer, "records-lag")["orders", "0"])
    read(consumer, 2)
    assert rows_of(consumer, "records-lag") == {("orders", "0"): 8}
    assert rows_of(consumer, "records-lead") == {("orders", "0"): 2}
    simulation.run_for(1)
    read(consumer, 8)
    assert rows_of(consumer, "records-lag") == {("orders", "0"): 0}
    assert rows_of(consumer, "records-lag-max") == {(): 0, ("orders", "0"): 8}
    assert rows_of(consumer, "records-lead-min") == {(): 10, ("orders", "0"): 2}
    consumer.assign([TopicPartition("orders", 1), TopicPartition("clicks", 0)])
    read(consumer, 3)
    lags = rows_of(consumer, "records-lag")
    assert lags.keys() == {("orders", "1"), ("clicks", "0")}
    assert lags["orders", "1"] == 0
    assert rows_of(consumer, "records-consumed-total")["orders",] == 13
    consumer.poll(1000)
    assert rows_of(consumer, "records-lead") == {("orders", "1"): 3, ("clicks", "0"): 0}
    assert rows_of(consumer, "records-lead-min")[()] == 0
    assert rows_of(consumer, "preferred-read-replica") == {("orders", "1"): -1, ("clicks", "0"): -1}


def test_lag_is_measured_at_most_ten_times_a_second(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics=["orders"])
    producer = simulation.producer(cluster)
    producer.send_many("orders", [b"v"] * 10, partition=0).result(10)
    consumer = simulation.consumer(cluster, auto_offset_reset="earliest", max_poll_records=1)
    consumer.assign([TopicPartition("orders", 0)])
    read(consumer, 4)
    assert rows_of(consumer, "records-lag-avg")["orders", "0"] == 9, "that of the first poll"
    simulation.run_for(0.2)
    read(consumer, 1)
    assert rows_of(consumer, "records-lag-avg")["orders", "0"] == 7, "of 9 and 5"


@pytest.mark.slow
def test_lag_of_long_ago_is_not_in_the_maximum(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics=["orders"])
    producer = simulation.producer(cluster)
    producer.send_many("orders", [b"v"] * 10, partition=0).result(10)
    consumer = simulation.consumer(cluster, auto_offset_reset="earliest", max_poll_records=5)
    consumer.assign([TopicPartition("orders", 0)])
    read(consumer, 5)
    assert rows_of(consumer, "records-lag-max")["orders", "0"] == 5
    simulation.run_for(70)
    assert math.isnan(rows_of(consumer, "records-lag-max")["orders", "0"])
    read(consumer, 5)
    assert rows_of(consumer, "records-lag-max")["orders", "0"] == 0


@pytest.mark.parametrize("way", ["poll", "in place", "columns", "next"])
def test_records_of_interrupted_polls_are_counted_once(simulation: Simulation, way: str) -> None:
    class Interrupting:
        left = 2

        def interrupt(self, *arguments: Any) -> None:
            self.left -= 1
            if self.left >= 0:
                raise KeyboardInterrupt

        on_consume = on_columns = interrupt

    cluster = simulation.cluster(brokers=1, topics=["orders", "clicks"])
    producer = simulation.producer(cluster)
    producer.send_many("orders", [b"v"] * 5, partition=0).result(10)
    consumer = simulation.consumer(cluster, auto_offset_reset="earliest", interceptors=[Interrupting()])
    consumer.assign([TopicPartition("orders", 0)])

    def read() -> Any:
        if way == "columns":
            return consumer.poll_columns(5000)
        return next(consumer) if way == "next" else consumer.poll(5000, update_offsets=way == "poll")

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            read()
    assert consumer.metrics()["records-consumed-total"] == 0
    assert read()
    assert consumer.metrics()["records-consumed-total"] == 5
    with pytest.raises(IllegalState):
        consumer.seek(TopicPartition("clicks", 0), 0)
    assert consumer.poll(0) or way != "in place"
    assert consumer.metrics()["records-consumed-total"] == (10 if way == "in place" else 5)


def test_topic_that_two_threads_measure_first_has_one_count() -> None:
    """A program reads the metrics, also in a signal handler, while the first records arrive."""

    def attempt(line: int) -> bool:
        topics = MeasuresByTopic(metrics := Metrics())
        found: list[TopicMeasures] = []
        was_struck = at_line(
            MeasuresByTopic.__missing__.__code__,
            line,
            lambda: found.append(topics["orders"]),
            lambda: found.append(topics["orders"]),
        )
        for measures in found:
            measures.records += 1
            measures.sizes.add((100,))
        [row] = [
            row
            for row in metrics.rows(CONSUMER, "a")
            if row.name == "records-consumed-total" and "topic" in row.tags
        ]
        assert row.value == len(found)
        return was_struck

    assert len([*at_every_line(attempt)]) >= 3


def test_time_between_polls_and_the_share_of_waiting(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics=["orders"])
    consumer = simulation.consumer(cluster)
    consumer.subscribe(["orders"])
    assert consumer.metrics()["last-poll-seconds-ago"] == -1
    for seconds in (1, 3, 2):
        consumer.poll(1000)
        simulation.run_for(seconds)
    consumer.poll(0)
    metrics = consumer.metrics()
    assert metrics["time-between-poll-avg"] == pytest.approx(3000, rel=0.05)
    assert metrics["time-between-poll-max"] == pytest.approx(4000, rel=0.05)
    assert metrics["poll-idle-ratio-avg"] == pytest.approx(1 / 3, rel=0.05)
    simulation.run_for(7)
    assert consumer.metrics()["last-poll-seconds-ago"] == pytest.approx(7, abs=0.1)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalances_heartbeats_and_commits_are_counted(simulation: Simulation, protocol: str) -> None:
    cluster = simulation.cluster(brokers=2, topics={"orders": 2})
    seen: list[str] = []
    members = [
        simulation.consumer(
            cluster, group_id="g", group_protocol=protocol, client_id=name, enable_auto_commit=False
        )
        for name in ("first", "second")
    ]
    first, second = members
    first.subscribe(["orders"], on_assigned=lambda partitions: seen.append("assigned"))
    while not first.assignment():
        first.poll(100)
    simulation.run_for(12)
    first.poll(0)
    metrics = first.metrics()
    assert metrics["rebalance-total"] == metrics["rebalance-rate-per-hour"] == 1
    assert metrics["rebalance-latency-total"] == metrics["rebalance-latency-max"] > 0
    assert 11 < metrics["last-rebalance-seconds-ago"] < 13
    assert metrics["heartbeat-total"] >= 2
    assert 0 < metrics["heartbeat-response-time-max"] < 1000
    assert 0 <= metrics["last-heartbeat-seconds-ago"] < 6
    assert seen
    assert metrics["partition-assigned-latency-max"] >= 0
    assert math.isnan(metrics["partition-revoked-latency-max"])
    assert ("join-total" in metrics) == (protocol == "classic")
    first.commit({TopicPartition("orders", 0): 0})
    first.committed(TopicPartition("orders", 0))
    metrics = first.metrics()
    assert metrics["commit-total"] == 1
    assert 0 < metrics["commit-latency-avg"] < 1000
    assert metrics["commit-sync-time-ns-total"] >= metrics["commit-latency-avg"] * 1e6 * 0.99
    assert metrics["committed-time-ns-total"] > 0
    second.subscribe(["orders"])
    while not len(first.assignment()) == len(second.assignment()) == 1:
        first.poll(100)
        second.poll(100)
    simulation.run_for(6)
    for member in members:
        member.poll(0)
    assert first.metrics()["rebalance-total"] >= 2
    assert second.metrics()["rebalance-total"] >= 1
    if protocol == "classic":
        assert first.metrics()["join-total"] == first.metrics()["sync-total"] == 2


def test_latencies_of_commits_are_in_milliseconds(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"orders": 2})
    consumer = simulation.consumer(cluster, group_id="g")
    consumer.assign([TopicPartition("orders", 0)])
    cluster.controls.rule(api="OffsetCommit", then="delay:0.5", times=1)
    for offset in (1, 2):
        consumer.commit({TopicPartition("orders", 0): offset})
    metrics = consumer.metrics()
    assert 500 <= metrics["commit-latency-max"] < 600
    assert 250 <= metrics["commit-latency-avg"] < 300
    assert metrics["commit-total"] == 2


def test_bytes_of_a_node_are_those_of_its_requests_and_responses(simulation: Simulation) -> None:
    events: list[RequestSent | RequestAnswered] = []

    class Watching:
        def on_request(self, event: RequestSent | RequestAnswered) -> None:
            events.append(event)

        on_response = on_request

    cluster = simulation.cluster(brokers=2, topics={"orders": 2})
    producer = simulation.producer(cluster, interceptors=[Watching()])
    for partition in (0, 1, 1):
        producer.send("orders", b"v", partition=partition).result(10)
    for name, kind in (("outgoing-byte-total", RequestSent), ("incoming-byte-total", RequestAnswered)):
        found = rows_of(producer, name)
        for node in (0, 1):
            sizes = [one.size_bytes for one in events if isinstance(one, kind) and one.node_id == node]
            assert found[f"node-{node}",] == sum(sizes) > 0
        assert found[()] == sum(one.size_bytes for one in events if isinstance(one, kind))


def test_failed_join_is_counted_as_a_failed_rebalance(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"orders": 2})
    consumer = simulation.consumer(cluster, group_id="g")
    consumer.subscribe(["orders"])
    cluster.controls.fail_next("SyncGroup", RebalanceInProgress)
    while not consumer.assignment():
        consumer.poll(100)
    metrics = consumer.metrics()
    assert (metrics["failed-rebalance-total"], metrics["rebalance-total"]) == (1, 1)
    assert metrics["join-total"] == 2


def test_connections_requests_and_bytes_are_counted_by_node(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"orders": 2})
    producer = simulation.producer(cluster)
    for partition in (0, 1, 1):
        producer.send("orders", b"v", partition=partition).result(10)
    requests, responses = rows_of(producer, "request-total"), rows_of(producer, "response-total")
    assert requests["node-0",] > 0 < requests["node-1",]
    assert requests[()] == sum(count for tags, count in requests.items() if tags)
    assert requests == responses
    sent = rows_of(producer, "outgoing-byte-total")
    for tags, count in requests.items():
        average, largest = (
            rows_of(producer, "request-size-avg")[tags],
            rows_of(producer, "request-size-max")[tags],
        )
        assert average * count == pytest.approx(sent[tags])
        assert average <= largest
    metrics = producer.metrics()
    assert metrics["network-io-total"] == metrics["request-total"] + metrics["response-total"]
    opened, closed = metrics["connection-creation-total"], metrics["connection-close-total"]
    assert opened - closed == metrics["connection-count"]
    assert metrics["select-total"] > 0
    assert metrics["io-wait-time-ns-total"] > 0, "in virtual time a turn takes no time"
    cluster.controls.kill_broker(1)
    simulation.run_for(1)
    assert producer.metrics()["connection-close-total"] > closed


def test_rebalance_lasts_from_its_first_attempt_and_counts_for_an_hour() -> None:
    now = [0.0]
    metrics = Metrics(lambda: now[0])
    rebalances = Rebalances(metrics, lambda: now[0])
    for _ in range(2):
        metrics.windows.turn()
        rebalances.begin()
        now[0] += 1
        rebalances.fail()
        now[0] += 2
        rebalances.succeed()
        found = without_tags(metrics.rows(GROUP, "a"))
        assert found["rebalance-latency-max"] == 3000
        assert found["rebalance-rate-per-hour"] == found["failed-rebalance-rate-per-hour"] == 1
        now[0] += 3601
    assert found["rebalance-total"] == found["failed-rebalance-total"] == 2


def test_time_in_a_listener_is_in_milliseconds(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"orders": 2})
    consumer = simulation.consumer(cluster, group_id="g")
    other = simulation.consumer(cluster, group_id="other")
    consumer.subscribe(["orders"], on_assigned=lambda partitions: simulation.sleep(0.25))
    other.subscribe(["orders"])
    for member in (consumer, other):
        while not member.assignment():
            member.poll(100)
    assert consumer.metrics()["partition-assigned-latency-max"] == pytest.approx(250)
    assert math.isnan(other.metrics()["partition-assigned-latency-max"]), "it has no listener"


def test_longest_time_between_polls_is_that_of_the_last_windows() -> None:
    now = [0.0]
    metrics = Metrics(lambda: now[0])
    times = PollTimes(metrics, lambda: now[0])
    for gap in (9, *[4] * 20):
        metrics.windows.turn()
        times.begin(now[0])
        times.ended_at = now[0]
        now[0] += gap
    assert without_tags(metrics.rows(POLLS, "a"))["time-between-poll-max"] == 4000
