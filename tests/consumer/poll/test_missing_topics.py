"""poll() waits for missing topics and unreachable brokers, and logs a warning once a minute."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import (
    ClusterAuthorizationFailed,
    ConfigurationError,
    CoordinatorNotAvailable,
    NoBrokersAvailable,
    SaslAuthenticationFailed,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pykafka2.types import TopicPartition
from tests.cluster.scripted import Hold, Later
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)


@pytest.mark.parametrize("call", ["subscribe", "assign"])
def test_a_topic_that_does_not_exist_is_warned_of_once_a_minute(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    with cluster.consumer() as consumer, caplog.at_level("WARNING"):
        if call == "subscribe":
            consumer.subscribe(["missing"])
        else:
            consumer.assign([TopicPartition("missing", 0)])
        until = cluster.now + 179
        while cluster.now < until:
            assert consumer.poll(1000) == {}
        said = [message for message in caplog.messages if "'missing'" in message]
        assert len(said) == 3, said
        assert "missing" in consumer.explain()


def test_brokers_that_cannot_be_reached_are_warned_of_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.brokers[0].stop()
    with cluster.consumer("orders") as consumer, caplog.at_level("WARNING", logger="pykafka2.consumer"):
        until = cluster.now + 179
        while cluster.now < until:
            assert consumer.poll(1000) == {}
        said = [message for message in caplog.messages if "] waiting for a broker: " in message]
        assert all(message.startswith(f"[{consumer._core.options.client_id}] ") for message in said)
        assert len(said) == 3, caplog.messages
        assert "waiting for orders" not in caplog.text, "one cause is enough"
        assert "No broker is connected" in consumer.explain()


LONG = 3 * 60.0
"""Longer than default_api_timeout_ms."""


def values_of(polled: dict[TopicPartition, list[Any]]) -> list[bytes]:
    return [record.value for records in polled.values() for record in records]


def start_all(cluster: LogCluster) -> None:
    for broker in cluster.brokers:
        broker.is_up = True


@pytest.mark.parametrize("read", ["poll", "iteration", "columns"])
@pytest.mark.parametrize("what", ["subscribe", "assign", "pattern"])
def test_consumer_started_before_the_brokers_waits_and_reads(
    read: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = LogCluster({"orders": [0], "payments": [1]}, brokers=2)
    cluster.append("orders", 0, b"0")
    for broker in cluster.brokers:
        broker.stop()
    with cluster.consumer() as consumer, caplog.at_level("WARNING", logger="pykafka2.consumer"):
        if what == "subscribe":
            consumer.subscribe(["orders", "payments"])
        elif what == "assign":
            consumer.assign([ORDERS_0, TopicPartition("payments", 0)])
        else:
            consumer.subscribe(pattern="orders|payments")
        cluster.runtime.call_later(LONG - 1, lambda: start_all(cluster))
        began = cluster.now
        if read == "poll":
            found = values_of(consumer.poll(float("inf")))
        elif read == "columns":
            found = next(iter(consumer.poll_columns(float("inf")).values())).values
        else:
            found = [next(consumer).value]
        assert found == [b"0"]
        assert LONG - 1 <= cluster.now - began < LONG + 5
        said = [message for message in caplog.messages if "] waiting for a broker: " in message]
        assert len(said) == 3, caplog.messages


@pytest.mark.gate
@pytest.mark.parametrize("what", ["subscribe", "assign", "pattern", "partition"])
def test_missing_topic_is_waited_for_until_it_exists(what: str, caplog: pytest.LogCaptureFixture) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    with (
        cluster.consumer(metadata_max_age_ms=1000) as consumer,
        caplog.at_level("WARNING", logger="pykafka2.consumer"),
    ):
        if what == "subscribe":
            consumer.subscribe(["orders", "payments", "parcels"])
        elif what == "assign":
            consumer.assign([ORDERS_0, TopicPartition("payments", 0), TopicPartition("parcels", 0)])
        elif what == "pattern":
            consumer.subscribe(pattern="pay.*|parcels")
        else:
            consumer.assign([ORDERS_0, TopicPartition("orders", 1), TopicPartition("orders", 2)])

        def create() -> None:
            if what == "partition":
                topic = cluster.topics["orders"]
                topic.leaders += [0, 0]
                topic.epochs += [0, 0]
                cluster.append("orders", 1, b"first")
            else:
                cluster.add_topic("payments", [0])
                cluster.add_topic("parcels", [0])
                cluster.append("payments", 0, b"first")

        assert consumer.poll(1000) == {}
        words = {"pattern": "No topic matches 'pay.*|parcels'", "partition": "no partition 1"}
        assert words.get(what, "topic 'payments' does not exist") in consumer.explain()
        assert "call subscribe()" not in consumer.explain()
        cluster.runtime.call_later(LONG - 10, create)
        began = cluster.now
        assert values_of(consumer.poll(float("inf"))) == [b"first"]
        assert LONG - 10 <= cluster.now - began < LONG
        cause = words.get(what, "topic 'payments' does not exist").lower()
        assert len([message for message in caplog.messages if cause in message]) == 3, caplog.messages


@pytest.mark.parametrize("what", ["subscribe", "assign"])
def test_topic_that_is_deleted_while_it_is_read_is_waited_for(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = LogCluster({"orders": [0], "payments": [0]}, brokers=1)
    cluster.append("orders", 0, b"0")
    with cluster.consumer() as consumer, caplog.at_level("WARNING", logger="pykafka2.consumer"):
        if what == "subscribe":
            consumer.subscribe(["orders", "payments"])
        else:
            consumer.assign([ORDERS_0, TopicPartition("payments", 0)])
        assert values_of(consumer.poll(5000)) == [b"0"]
        for name in ("orders", "payments"):
            del cluster.topics[name]

        def create() -> None:
            cluster.logs.clear()
            for name in ("orders", "payments"):
                cluster.add_topic(name, [0])
                cluster.append(name, 0, b"again")

        cluster.runtime.call_later(LONG, create)
        began = cluster.now
        found = values_of(consumer.poll(float("inf"))) + values_of(consumer.poll(10_000))
        assert found == [b"again", b"again"]
        assert LONG <= cluster.now - began < LONG + 15
        assert (
            len([message for message in caplog.messages if "topic 'orders' does not exist" in message]) >= 2
        )


def test_connected_broker_that_never_sends_metadata_is_warned_of_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.on(MetadataRequest, lambda request, broker: Hold())
    with cluster.consumer("orders") as consumer, caplog.at_level("WARNING", logger="pykafka2.consumer"):
        assert consumer.poll(1000 * LONG - 2000) == {}
        said = [message for message in caplog.messages if "'orders'" in message or "no broker" in message]
        assert 3 <= len(said) <= 4, caplog.messages
        assert "for 65 s; the last request failed: bootstrap broker broker-0:9092 did not respond" in said[1]


@pytest.mark.gate
def test_loss_of_all_brokers_during_an_endless_poll_is_warned_of_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=2)
    cluster.append("orders", 0, b"0")
    with cluster.consumer("orders") as consumer, caplog.at_level("WARNING", logger="pykafka2.consumer"):
        assert values_of(consumer.poll(5000)) == [b"0"]
        for broker in cluster.brokers:
            broker.stop()

        def start() -> None:
            start_all(cluster)
            cluster.append("orders", 0, b"1")

        counts: list[int] = []
        for seconds in (30.0, 90.0, 150.0):
            cluster.runtime.call_later(
                seconds, lambda: counts.append(caplog.text.count("] waiting for a broker: "))
            )
        cluster.runtime.call_later(LONG, start)
        assert values_of(consumer.poll(float("inf"))) == [b"1"]
        assert counts == [1, 2, 3]


def test_topic_that_is_missing_again_is_warned_of_again(caplog: pytest.LogCaptureFixture) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    with (
        cluster.consumer("orders", "payments", metadata_max_age_ms=1000) as consumer,
        caplog.at_level("WARNING", logger="pykafka2.consumer"),
    ):
        for count in (1, 2):
            consumer.poll(10_000)
            said = [message for message in caplog.messages if "topic 'payments' does not exist" in message]
            assert len(said) == count, caplog.messages
            cluster.add_topic("payments", [0])
            consumer.poll(10_000)
            del cluster.topics["payments"]


def not_available(request: FindCoordinatorRequest, broker: object) -> FindCoordinatorResponse:
    coordinators = [
        Coordinator(key=key, node_id=-1, host="", port=-1, error_code=CoordinatorNotAvailable.code)
        for key in request.coordinator_keys
    ]
    return FindCoordinatorResponse(coordinators=coordinators)


@pytest.mark.parametrize("metadata_max_age_ms", [300_000, 1000])
def test_coordinator_that_is_not_available_is_warned_of_once_a_minute(
    caplog: pytest.LogCaptureFixture, metadata_max_age_ms: int
) -> None:
    """The topic of the committed offsets cannot be created, because there are fewer brokers than replicas."""
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.on(FindCoordinatorRequest, not_available)
    with (
        cluster.consumer("orders", group_id="billing", metadata_max_age_ms=metadata_max_age_ms) as consumer,
        caplog.at_level("WARNING", logger="pykafka2.consumer"),
    ):
        assert consumer.poll(1000 * LONG) == {}
        said = [message for message in caplog.messages if "the coordinator of group 'billing'" in message]
        assert len(said) == 3, caplog.messages
        assert "coordinator is not available" in said[0]
        assert said == caplog.messages


@pytest.mark.gate
def test_unknown_coordinator_does_not_mean_that_assigned_partitions_cannot_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = LogCluster({"orders": [0], "payments": [0]}, brokers=1)
    cluster.on(FindCoordinatorRequest, not_available)
    with (
        cluster.consumer(group_id="billing", enable_auto_commit=False) as consumer,
        caplog.at_level("WARNING", logger="pykafka2.consumer"),
    ):
        consumer.assign([ORDERS_0, TopicPartition("payments", 0)])
        consumer.seek_to_beginning()
        consumer.commit_async({ORDERS_0: 0})
        for number in range(90):
            for topic in ("orders", "payments"):
                cluster.append(topic, 0, b"%d" % number)
            consumer.commit_async({ORDERS_0: number})
            read: list[bytes] = []
            while len(read) < 2:
                read += values_of(consumer.poll(1000))
            assert read == [b"%d" % number] * 2
            assert consumer.poll(1000) == {}
        said = [message for message in caplog.messages if "] waiting for " in message]
        assert [message.split(", without which")[0] for message in said] == [
            f"[{consumer._core.options.client_id}] waiting for the coordinator of group 'billing'"
        ] * 2
        assert ".; " not in said[0]


@pytest.mark.parametrize("call", ["position", "next_position_of_missing"])
def test_position_of_a_missing_topic_keeps_its_timeout(call: str) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    if call == "position":
        cluster.brokers[0].stop()
    with cluster.consumer(default_api_timeout_ms=3000) as consumer:
        topic = "orders" if call == "position" else "missing"
        consumer.assign([TopicPartition(topic, 0)])
        began = cluster.now
        with pytest.raises((NoBrokersAvailable, UnknownTopicOrPartition)):
            consumer.position(TopicPartition(topic, 0))
        assert 3 <= cluster.now - began < 4


def test_a_partition_that_was_missing_is_not_complained_of_when_it_is_not_read_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    with cluster.consumer() as consumer, caplog.at_level("WARNING"):
        consumer.assign([TopicPartition("orders", 7)])
        for _ in range(5):
            assert consumer.poll(1000) == {}
        caplog.clear()
        consumer.assign([TopicPartition("orders", 0)])
        for _ in range(100):
            assert consumer.poll(1000) == {}
        assert "partition 7" not in caplog.text


def test_a_topic_that_has_no_metadata_for_a_while_keeps_its_positions() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    for number in range(4):
        cluster.append("orders", 0, b"%d" % number)
    with cluster.consumer("orders", max_poll_records=1) as consumer:
        assert [one.value for some in consumer.poll(1000).values() for one in some] == [b"0"]
        topic = cluster.topics.pop("orders")
        for _ in range(3):
            consumer.bootstrap(refresh=True)
            consumer.poll(100)
        returned = consumer.position(ORDERS_0, timeout_ms=100)
        cluster.topics["orders"] = topic
        consumer.bootstrap(refresh=True)
        assert consumer.position(ORDERS_0) == returned >= 1


def test_brokers_that_are_not_reached_for_a_moment_are_not_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.brokers[0].stop()
    with cluster.consumer("orders") as consumer, caplog.at_level("WARNING", logger="pykafka2.consumer"):
        for _ in range(8):
            consumer.poll(100)
        assert not [message for message in caplog.messages if "] waiting for a broker: " in message]


@pytest.mark.parametrize(("old", "new"), [("smallest", "earliest"), ("largest", "latest")])
def test_old_names_of_the_reset_policy_are_refused_with_the_right_one(old: str, new: str) -> None:
    with pytest.raises(ConfigurationError, match=f"auto_offset_reset.*{new}"):
        LogCluster({}).consumer(auto_offset_reset=old)


def test_fatal_metadata_error_ends_a_poll_that_waits() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    refused = MetadataResponse(brokers=[], topics=[], error_code=ClusterAuthorizationFailed.code)
    cluster.on(MetadataRequest, lambda request, broker: Later(2.0, lambda: refused))
    with cluster.consumer("orders") as consumer:
        began = cluster.now
        with pytest.raises(ClusterAuthorizationFailed):
            consumer.poll(60_000)
        assert cluster.now - began < 3


def test_an_error_that_each_poll_raises_does_not_grow() -> None:
    """Its traceback would, by some frames a poll, and keep all that is in them."""
    cluster = LogCluster({"orders": [0]}, brokers=1)
    with cluster.consumer("orders") as consumer:
        consumer.poll(100)
        error = consumer._core.cluster.metadata.last_error = SaslAuthenticationFailed("no such user")
        for _ in range(3):
            with pytest.raises(SaslAuthenticationFailed, match="no such user"):
                consumer.poll()
        assert error.__traceback__ is None


def test_explain_names_a_partition_that_its_topic_has_not() -> None:
    """It said that the partition waits for its first position, and not that it waits in vain."""
    with LogCluster({"orders": [0, 0]}, brokers=1).consumer() as consumer:
        consumer.assign([TopicPartition("orders", 1), TopicPartition("orders", 9)])
        consumer.poll(300)
        explained = consumer.explain()
        assert "topic 'orders' has 2 partitions and no partition 9." in explained
        assert "no partition 1" not in explained


@pytest.mark.gate
@pytest.mark.parametrize("is_added_later", [False, True])
def test_missing_partition_is_warned_of_while_another_always_has_records(
    is_added_later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    for number in range(2000):
        cluster.append("orders", 0, b"%d" % number)
    with cluster.consumer(max_poll_records=1) as consumer, caplog.at_level("WARNING"):
        if is_added_later:
            consumer.assign([ORDERS_0])
            assert consumer.poll(1000)
        consumer.assign([TopicPartition("orders", 7), ORDERS_0])
        began = cluster.now
        while cluster.now - began < 119:
            cluster.runtime.run_for(0.1)
            assert consumer.poll(1000)
        assert not consumer._core.buffer.is_empty
        said = [message for message in caplog.messages if "no partition 7" in message]
        assert len(said) == 2, caplog.messages
