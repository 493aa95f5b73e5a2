"""Subscriptions and assignments as bytes."""

from __future__ import annotations

import pytest

from pykafka2.consumer.assignors.assignor import Assignment, MemberSubscription
from pykafka2.consumer.assignors.wire_format import (
    assignment_bytes,
    read_assignment,
    read_subscription,
    subscription_bytes,
)
from pykafka2.errors import CorruptData
from tests.consumer.assignors.groups import partitions

FULL = MemberSubscription(("t", "u"), b"data", partitions("t-0", "t-2", "u-1"), 7, "east")
# What ConsumerProtocol.serializeSubscription of kafka-clients 4.3.1 makes of the same.
FULL_BYTES = bytes.fromhex(
    "0003" "00000002" "000174" "000175" "0000000464617461"
    "00000002" "000174" "00000002" "00000000" "00000002" "000175" "00000001" "00000001"
    "00000007" "000465617374"
)  # fmt: skip


def test_a_subscription_is_written_as_kafka_writes_it() -> None:
    assert subscription_bytes(FULL) == FULL_BYTES
    assert read_subscription(FULL_BYTES) == FULL


@pytest.mark.parametrize(
    ("version", "read"),
    [
        (0, MemberSubscription(FULL.topics, FULL.user_data)),
        (1, MemberSubscription(FULL.topics, FULL.user_data, FULL.owned)),
        (2, MemberSubscription(FULL.topics, FULL.user_data, FULL.owned, FULL.generation)),
    ],
)
def test_older_subscription_version_lacks_later_fields(version: int, read: MemberSubscription) -> None:
    assert read_subscription(subscription_bytes(FULL, version)) == read


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    later = b"\0\x09" + FULL_BYTES[2:] + b"what version 9 has more"
    assert read_subscription(later, instance_id="one").instance_id == "one"
    assert read_subscription(later).owned == FULL.owned


def test_owned_partitions_are_sorted_by_topic_and_number() -> None:
    shuffled = MemberSubscription(("u", "t"), b"data", partitions("u-1", "t-2", "t-0"), 7, "east")
    assert subscription_bytes(shuffled) == FULL_BYTES


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_assignment_survives_the_way(version: int) -> None:
    assignment = Assignment(partitions("t-0", "t-2", "u-1"), b"data")
    assert read_assignment(assignment_bytes(assignment, version)) == assignment
    assert read_assignment(assignment_bytes(Assignment(), version)) == Assignment()


def test_a_later_assignment_is_read_as_far_as_it_is_known() -> None:
    assignment = Assignment(partitions("t-0", "t-2"), b"data")
    assert (
        read_assignment(b"\0\x09" + assignment_bytes(assignment)[2:] + b"what version 9 has more")
        == assignment
    )


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0", b"\0\3\0\0\0\7abc"])
def test_malformed_subscription_bytes_raise_corrupt_data(data: bytes) -> None:
    with pytest.raises(CorruptData):
        read_subscription(data)
    with pytest.raises(CorruptData):
        read_assignment(data)
