"""The names that programs import from kafka-python, compared with those of the installed kafka-python."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import pykafka2
from pykafka2 import admin, errors, partitioner, structs

kafka = pytest.importorskip("kafka")
kafka_errors: Any = pytest.importorskip("kafka.errors")

NOT_OURS = {
    "PartitionProducerState",  # describe_producers returns the producers of a partition as a tuple
    "AsyncConsumerRebalanceListener",  # listeners of its asyncio interface
    "MemberState",  # how its groups work inside
    "TopicPartitionReplica",  # in pykafka2.structs
}


def classes_of(module: ModuleType) -> dict[str, type]:
    return {name: one for name, one in vars(module).items() if isinstance(one, type)}


def test_each_error_of_kafka_python_can_be_imported() -> None:
    theirs = [name for name, one in classes_of(kafka_errors).items() if issubclass(one, Exception)]
    assert len(theirs) > 150
    assert [name for name in theirs if not hasattr(errors, name)] == []


def test_each_error_is_caught_by_the_same_roots() -> None:
    theirs = {name: one for name, one in classes_of(kafka_errors).items() if issubclass(one, Exception)}
    for name, cls in theirs.items():
        for root, above in theirs.items():
            if issubclass(cls, above):
                assert issubclass(getattr(errors, name), getattr(errors, root)), (name, root)


def test_each_error_has_the_same_code() -> None:
    for name, cls in classes_of(kafka_errors).items():
        if issubclass(cls, kafka_errors.BrokerResponseError) and cls.errno is not None:
            assert getattr(errors, name).code == cls.errno, name


@pytest.mark.parametrize("module", ["", ".structs", ".partitioner", ".admin"])
def test_each_public_name_of_kafka_python_can_be_imported(module: str) -> None:
    theirs = __import__(f"kafka{module}", fromlist=["names"])
    ours = {"": pykafka2, ".structs": structs, ".partitioner": partitioner, ".admin": admin}[module]
    names = getattr(theirs, "__all__", None) or classes_of(theirs)
    assert len(names) > 2
    assert {name for name in names if not hasattr(ours, name)} <= NOT_OURS


def test_named_tuples_have_the_same_fields_in_the_same_order() -> None:
    for name, cls in classes_of(__import__("kafka.structs", fromlist=["names"])).items():
        fields = getattr(cls, "_fields", None)
        if fields is not None and name != "ConsumerGroupMetadata":  # ours is no tuple
            assert getattr(structs, name)._fields == fields, name


def test_record_has_the_fields_of_kafka_pythons_in_the_same_order() -> None:
    theirs: Any = __import__("kafka.consumer.fetcher", fromlist=["ConsumerRecord"]).ConsumerRecord
    ours = pykafka2.ConsumerRecord("orders", 1, 7, 1_000, 0, b"k", b"v", [("n", b"12")], 3, 1, 1)
    unpacked = theirs(*ours)
    assert unpacked.serialized_header_size == 3
    for field in set(theirs._fields) - {"checksum", "serialized_header_size"}:
        assert getattr(unpacked, field) == getattr(ours, field), field
