"""kafka-python's names for errors, serializers and calls, for programs that only change their import."""

from __future__ import annotations

import pytest

import pykafka2
from pykafka2 import ConsumerRecord, errors
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


def test_record_unpacks_and_indexes_like_kafka_pythons_named_tuple() -> None:
    fields = [
        "topic",
        "partition",
        "leader_epoch",
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "value",
        "headers",
        "checksum",
        "serialized_key_size",
        "serialized_value_size",
        "serialized_header_size",
    ]
    plain = ConsumerRecord("orders", 1, 7, 1_000, 0, None, b"v", [], 3, -1, 1)
    with_headers = ConsumerRecord("orders", 1, 8, 2_000, 1, b"k", None, [("ü", b"12"), ("n", None)], 3, 1, -1)
    for record, header_size in ((plain, -1), (with_headers, 5)):
        named = dict(zip(fields, record, strict=True))
        assert (named.pop("checksum"), named.pop("serialized_header_size")) == (None, header_size)
        assert named == {name: getattr(record, name) for name in named}
        assert len(record) == len(fields)
        assert (record[3], record[-1], record[:2]) == (record.offset, header_size, ("orders", 1))
    topic, partition, leader_epoch, offset, *_ = plain
    assert (topic, partition, leader_epoch, offset) == ("orders", 1, 3, 7)
    with pytest.raises(IndexError):
        plain[13]
