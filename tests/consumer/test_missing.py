"""A topic or a cluster that is not there is warned of, once a minute, and said by explain()."""

from __future__ import annotations

import pytest

from pykafka2.errors import ConfigurationError, KafkaError, SaslAuthenticationFailed
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster


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
        assert len(said) == 3, caplog.messages
        assert "No broker is connected" in consumer.explain()


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
