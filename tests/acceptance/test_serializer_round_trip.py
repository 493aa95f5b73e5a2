"""Every shipped pair keeps its value from send to poll, with Java's bytes in the log; yours too.

The golden bytes are those of `tests/test_serializers.py`, made by Java 4.3.1 and compared with Java itself in
the conformance stage; here each pair travels the whole way.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.testing import KafkaCluster
from pykafka2.types import Headers
from tests.test_serializers import GOLDEN


class TaggedSerializer:
    """A user's own: sees topic and headers."""

    def serialize(self, topic: str, headers: Headers, data: str) -> bytes:
        headers.append(("encoded-for", topic.encode()))
        return data[::-1].encode()


class TaggedDeserializer:
    def deserialize(self, topic: str, headers: Headers, data: bytes) -> tuple[str, str, str]:
        return topic, dict(headers)["encoded-for"].decode(), data.decode()[::-1]  # type: ignore[union-attr]


def through(cluster: KafkaCluster, serializer: Any, deserializer: Any, value: Any) -> Any:
    """Send as key and value, read back: what the consumer hands over, the same for both."""
    servers = cluster.bootstrap_servers
    with KafkaProducer(
        bootstrap_servers=servers, key_serializer=serializer, value_serializer=serializer
    ) as producer:
        producer.send("values", value, key=value, partition=0)
        producer.send("values", None, key=None, partition=0)
    with KafkaConsumer(
        "values",
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        key_deserializer=deserializer,
        value_deserializer=deserializer,
        consumer_timeout_ms=10_000,
    ) as consumer:
        records = iter(consumer)
        first, second = next(records), next(records)
    assert (second.key, second.value) == (None, None), "None stays None"
    assert first.key == first.value
    return first.value


@pytest.mark.slow
@pytest.mark.parametrize(("serializer", "deserializer", "value", "golden"), GOLDEN)
def test_a_shipped_pair_keeps_its_value_with_javas_bytes(
    serializer: Any, deserializer: Any, value: Any, golden: str
) -> None:
    with KafkaCluster(brokers=1, topics={"values": 1}) as cluster:
        assert through(cluster, serializer, deserializer, value) == value
        log = cluster.log("values", 0)
        assert log.values() == log.keys() == [bytes.fromhex(golden), None]


@pytest.mark.slow
def test_a_pair_of_yours_sees_topic_and_headers() -> None:
    with KafkaCluster(brokers=1, topics={"values": 1}) as cluster:
        seen = through(cluster, TaggedSerializer(), TaggedDeserializer(), "hello")
        assert seen == ("values", "values", "hello")
        log = cluster.log("values", 0)
        assert log.values() == log.keys() == [b"olleh", None]
