"""kafka-python's names for errors, serializers and calls, for programs that only change their import."""

from __future__ import annotations

from typing import Any

import pytest

import pykafka2
from pykafka2 import ConsumerRecord, IsolationLevel, KafkaProducer, errors, partitioner, structs
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.errors import ConfigurationError, SerializationError
from pykafka2.partitioner import DefaultPartitioner, StickyPartitioner
from pykafka2.serializers import DefaultSerializer, JsonSerializer
from pykafka2.testing import KafkaCluster


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
        ("BrokerResponseError", "BrokerError"),
        ("KafkaProtocolError", "CorruptData"),
        ("LogTruncationError", "LogTruncated"),
    ],
)
def test_errors_have_kafka_pythons_names_too(theirs: str, ours: str) -> None:
    assert getattr(errors, theirs) is getattr(errors, ours)


@pytest.mark.parametrize(
    ("root", "some"),
    [
        ("RetriableError", ["NotLeaderOrFollower", "Disconnected", "KafkaTimeoutError", "NodeNotReadyError"]),
        ("InvalidMetadataError", ["NotLeaderOrFollower", "UnknownTopicOrPartition", "StaleMetadata"]),
        ("AuthorizationError", ["TopicAuthorizationFailed", "GroupAuthorizationFailed"]),
        ("BrokerResponseError", ["AuthorizationError", "OffsetOutOfRange"]),
    ],
)
def test_kafka_pythons_root_catches_the_errors_below_it(root: str, some: list[str]) -> None:
    for name in some:
        assert issubclass(getattr(errors, name), getattr(errors, root))


def test_retriable_errors_are_the_classes_below_retriable_error() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    kafka_errors = [one for one in classes if issubclass(one, errors.KafkaError)]
    assert len(kafka_errors) > 150
    # Once its time is up, a delivery is not retried, although it is a timeout.
    exceptions = {errors.DeliveryTimeout}
    for cls in kafka_errors:
        assert cls.retriable == (issubclass(cls, errors.RetriableError) and cls not in exceptions)


def test_every_error_class_is_found_by_its_name_with_error_behind_it() -> None:
    classes = {
        name: one
        for name, one in vars(errors).items()
        if isinstance(one, type) and issubclass(one, errors.KafkaError) and not name.endswith("Error")
    }
    assert len(classes) > 100
    assert {name: getattr(errors, f"{name}Error") for name in classes} == classes


def test_unknown_name_is_no_error_class() -> None:
    with pytest.raises(AttributeError, match="NoSuchThingError"):
        _ = errors.NoSuchThingError  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'for_codeError'"):
        _ = errors.for_codeError  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["DefaultSerializer", "JsonSerializer", "Serializer", "Deserializer"])
def test_serializers_can_be_imported_as_kafka_pythons(name: str) -> None:
    assert getattr(pykafka2, name).__name__ == name


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_default_serializer_round_trips(encoding: str) -> None:
    one = DefaultSerializer(encoding)
    data = one.serialize("orders", [], "Żółć")
    assert data == "Żółć".encode(encoding)
    assert one.deserialize("orders", [], data) == "Żółć"
    assert one.deserialize("orders", [], None) is None


@pytest.mark.parametrize("data", [b"raw", bytearray(b"raw"), memoryview(b"raw"), None])
def test_the_default_serializer_leaves_bytes_as_they_are(data: object) -> None:
    assert DefaultSerializer().serialize("orders", [], data) == data  # type: ignore[arg-type]


def test_default_serializer_rejects_other_types() -> None:
    with pytest.raises(SerializationError, match="DefaultSerializer for topic orders: cannot serialize int"):
        DefaultSerializer().serialize("orders", [], 42)  # type: ignore[arg-type]


def test_json_serializer_round_trips() -> None:
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


def test_modules_structs_and_partitioner_hold_the_public_classes() -> None:
    for name in ("ConsumerGroupMetadata", "OffsetAndMetadata", "OffsetAndTimestamp", "TopicPartition"):
        assert getattr(structs, name) is getattr(pykafka2, name)
    assert structs.TopicPartitionReplica("orders", 1, 2).broker_id == 2
    assert partitioner.Partitioner is pykafka2.Partitioner
    assert [partitioner.murmur2(key) & 0x7FFFFFFF for key in (b"foo", b"bar")] == [597841616, 988958145]


@pytest.mark.parametrize("cls", [DefaultPartitioner, StickyPartitioner])
def test_kafka_pythons_partitioners_place_keys_as_ours_does(cls: type[DefaultPartitioner]) -> None:
    class Traced(cls):  # type: ignore[misc, valid-type]
        calls = 0

        def partition(self, *arguments: Any) -> Any:
            Traced.calls += 1
            return super().partition(*arguments)

    keys = [b"key %d" % number for number in range(20)]
    with KafkaCluster(brokers=1, topics={"orders": 5}) as cluster:
        placed = []
        for listener in (None, cls(), Traced()):
            with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, partitioner=listener) as producer:
                sent = [producer.send("orders", b"v", key=key) for key in keys]
                placed.append([one.result(timeout=30).partition for one in sent])
                plain = {producer.send("orders", b"v").result(timeout=30).partition for _ in range(10)}
        assert placed[0] == placed[1] == placed[2]
        assert plain == {0, 1, 2, 3, 4}  # the subclass takes partitions in turn
    assert Traced.calls == 30


@pytest.mark.parametrize("cls", [DefaultPartitioner, StickyPartitioner])
def test_call_of_a_kafka_python_2_partitioner_places_keys(cls: type[DefaultPartitioner]) -> None:
    class Third(cls):  # type: ignore[misc, valid-type]
        @classmethod
        def __call__(cls, key: bytes | None, all_partitions: list[int], available: list[int]) -> int:
            return all_partitions[2] if key is not None else available[3]

    with (
        KafkaCluster(brokers=1, topics={"orders": 5}) as cluster,
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, partitioner=Third()) as producer,
    ):
        sent = [producer.send("orders", b"v", key=key) for key in (b"a", b"b", None)]
        assert [one.result(timeout=30).partition for one in sent] == [2, 2, 3]


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (IsolationLevel.READ_COMMITTED, "read_committed"),
        (IsolationLevel.READ_UNCOMMITTED, "read_uncommitted"),
    ],
)
def test_isolation_level_takes_the_enum(level: IsolationLevel, name: str) -> None:
    assert CONSUMER_OPTIONS.parse(None, {"isolation_level": level}).isolation_level == name
    assert CONSUMER_OPTIONS.parse(None, {"isolation_level": name.upper()}).isolation == int(level)
    with pytest.raises(ConfigurationError, match="isolation_level=1 is not valid; use"):
        CONSUMER_OPTIONS.parse(None, {"isolation_level": 1})
