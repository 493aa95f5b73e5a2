"""A topic or a cluster that is not there is warned of, once a minute, and said by explain()."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import ConfigurationError, KafkaError, SaslAuthenticationFailed, UnknownTopicOrPartition
from pykafka2.types import TopicPartition
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
            try:
                assert consumer.poll(1000) == {}
            except KafkaError:
                cluster.runtime.run_for(1)
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
            try:
                assert consumer.poll(1000) == {}
            except KafkaError:
                cluster.runtime.run_for(1)
        said = [message for message in caplog.messages if "no broker is connected" in message]
        assert all(
            message.startswith(f"[{consumer._options.client_id}] no record can be read") for message in said
        )
        assert len(said) == 3, caplog.messages
        assert "No broker is connected" in consumer.explain()


def test_endless_poll_raises_for_a_missing_topic_in_time() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    with cluster.consumer("missing", default_api_timeout_ms=3000) as consumer:
        began = cluster.now
        with pytest.raises(UnknownTopicOrPartition, match="missing"):
            consumer.poll(float("inf"))
        assert cluster.now - began < 4
        assert consumer.poll(1000) == {}, "once; the wait begins anew"
        with pytest.raises(UnknownTopicOrPartition, match="missing"):
            consumer.poll(3000)


@pytest.mark.parametrize("what", [["missing"], [TopicPartition("orders", 7)]], ids=["topic", "partition"])
def test_missing_topic_is_raised_in_time_despite_frequent_metadata_responses(what: list[Any]) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    with cluster.consumer(default_api_timeout_ms=3000) as consumer:
        if what == ["missing"]:
            consumer.subscribe([*what, "orders"])
        else:
            consumer.assign([*what, TopicPartition("orders", 0)])
        began, version = cluster.now, consumer.metrics()["metadata-version"]
        told = None
        while told is None and cluster.now - began < 6:
            cluster.move_leader("orders", 0, 0)
            consumer.bootstrap(refresh=True)
            try:
                consumer.poll(300)
            except UnknownTopicOrPartition as error:
                told = str(error)
        assert told is not None
        assert "missing" in told or "no partition 7" in told
        assert consumer.metrics()["metadata-version"] > version + 3


def test_a_partition_that_was_missing_is_not_complained_of_when_it_is_not_read_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    with cluster.consumer(default_api_timeout_ms=10_000) as consumer, caplog.at_level("WARNING"):
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
        assert not [message for message in caplog.messages if "no broker is connected" in message]


@pytest.mark.parametrize(("old", "new"), [("smallest", "earliest"), ("largest", "latest")])
def test_old_names_of_the_reset_policy_are_refused_with_the_right_one(old: str, new: str) -> None:
    with pytest.raises(ConfigurationError, match=f"auto_offset_reset.*{new}"):
        LogCluster({}).consumer(auto_offset_reset=old)


def test_an_error_that_each_poll_raises_does_not_grow() -> None:
    """Its traceback would, by some frames a poll, and keep all that is in them."""
    cluster = LogCluster({"orders": [0]}, brokers=1)
    with cluster.consumer("orders") as consumer:
        consumer.poll(100)
        error = consumer._cluster.metadata.last_error = SaslAuthenticationFailed("no such user")
        for _ in range(3):
            with pytest.raises(SaslAuthenticationFailed, match="no such user"):
                consumer.poll()
        assert error.__traceback__ is None


def test_explain_names_a_partition_that_its_topic_has_not() -> None:
    """It said that the partition waits for its first position, and not that it waits in vain."""
    with LogCluster({"orders": [0, 0]}, brokers=1).consumer() as consumer:
        consumer.assign([TopicPartition("orders", 1), TopicPartition("orders", 9)])
        consumer.poll(300)
        told = consumer.explain()
        assert "topic 'orders' has 2 partitions and no partition 9." in told
        assert "no partition 1" not in told


@pytest.mark.parametrize("is_added_later", [False, True])
def test_a_missing_partition_raises_in_time_while_another_always_has_records(is_added_later: bool) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    for number in range(200):
        cluster.append("orders", 0, b"%d" % number)
    with cluster.consumer(default_api_timeout_ms=3000, max_poll_records=1) as consumer:
        if is_added_later:
            consumer.assign([ORDERS_0])
            assert consumer.poll(1000)
        consumer.assign([TopicPartition("orders", 7), TopicPartition("orders", 0)])
        began, raised = cluster.now, None
        while raised is None and cluster.now - began < 10:
            cluster.runtime.run_for(0.1)
            try:
                consumer.poll(1000)
            except UnknownTopicOrPartition as error:
                raised = error
        assert "no partition 7" in str(raised)
        assert 3 <= cluster.now - began < 5
        assert not consumer._buffer.is_empty


def test_missing_partition_raises_in_time_despite_a_long_metadata_backoff() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    for number in range(600):
        cluster.append("orders", 0, b"%d" % number)
    options = {"default_api_timeout_ms": 5000, "retry_backoff_ms": 20_000, "retry_backoff_max_ms": 20_000}
    with cluster.consumer(max_poll_records=1, **options) as consumer:
        consumer.assign([ORDERS_0, TopicPartition("orders", 9)])
        began = cluster.now

        def poll_on() -> None:
            while cluster.now - began < 30:
                cluster.runtime.run_for(0.1)
                consumer.poll(1000)

        with pytest.raises(UnknownTopicOrPartition, match="no partition 9"):
            poll_on()
        assert 5 <= cluster.now - began < 6
        assert not consumer._buffer.is_empty
