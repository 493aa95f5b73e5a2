"""kafka-python's names for errors, serializers and calls, for programs that only change their import."""

from __future__ import annotations

import pytest

import pykafka2
from pykafka2 import errors
from pykafka2.errors import SerializationError
from pykafka2.serializers import DefaultSerializer, JsonSerializer


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("UnknownTopicOrPartitionError", "UnknownTopicOrPartition"),
        ("TopicAuthorizationFailedError", "TopicAuthorizationFailed"),
        ("ProducerFencedError", "ProducerFenced"),
        ("IllegalStateError", "IllegalState"),
        ("MessageSizeTooLargeError", "MessageTooLarge"),
        ("NotLeaderForPartitionError", "NotLeaderOrFollower"),
        ("KafkaConfigurationError", "ConfigurationError"),
        ("KafkaConnectionError", "Disconnected"),
        ("UnknownError", "UnknownServerError"),
    ],
)
def test_errors_have_kafka_pythons_names_too(theirs: str, ours: str) -> None:
    assert getattr(errors, theirs) is getattr(errors, ours)


def test_a_name_that_nobody_has_is_no_error_class() -> None:
    with pytest.raises(AttributeError, match="NoSuchThingError"):
        _ = errors.NoSuchThingError  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'for_codeError'"):
        _ = errors.for_codeError  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["DefaultSerializer", "JsonSerializer", "Serializer", "Deserializer"])
def test_serializers_can_be_imported_as_kafka_pythons(name: str) -> None:
    assert getattr(pykafka2, name).__name__ == name


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_default_serializer_goes_both_ways(encoding: str) -> None:
    one = DefaultSerializer(encoding)
    data = one.serialize("orders", [], "Żółć")
    assert data == "Żółć".encode(encoding)
    assert one.deserialize("orders", [], data) == "Żółć"
    assert one.deserialize("orders", [], None) is None


@pytest.mark.parametrize("data", [b"raw", bytearray(b"raw"), memoryview(b"raw"), None])
def test_the_default_serializer_leaves_bytes_as_they_are(data: object) -> None:
    assert DefaultSerializer().serialize("orders", [], data) == data  # type: ignore[arg-type]


def test_the_default_serializer_refuses_what_is_neither() -> None:
    with pytest.raises(SerializationError, match="DefaultSerializer for topic orders: cannot serialize int"):
        DefaultSerializer().serialize("orders", [], 42)  # type: ignore[arg-type]


def test_the_json_serializer_goes_both_ways_too() -> None:
    one = JsonSerializer()
    data = one.serialize("orders", [], {"a": [1, 2]})
    assert one.deserialize("orders", [], data) == {"a": [1, 2]}
    assert one.deserialize("orders", [], b'{"a": 1}') == {"a": 1}
    assert one.deserialize("orders", [], None) is None
    with pytest.raises(SerializationError, match=r"JsonSerializer .* cannot deserialize 1 byte"):
        one.deserialize("orders", [], b"{")
