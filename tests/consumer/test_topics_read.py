"""The topic ids for offsets of a transaction, when topics are deleted and created again (KIP-1319)."""

from __future__ import annotations

import pytest

from pykafka2.consumer.state import topics_read
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.consumer.state.topics_read import TopicsRead
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import ConsumerRecord, TopicPartition

ORDERS, REFUNDS = TopicPartition("orders", 0), TopicPartition("refunds", 0)
OLD, NEW, OTHER = b"o" * 16, b"n" * 16, b"r" * 16


class Reader:
    """A subscription of two partitions, whose topic ids the test sets."""

    def __init__(self) -> None:
        self.subscription = Subscription()
        self.queue = IterationQueue()
        self.ids_by_origin: dict[tuple[TopicPartition, int], bytes] = {}
        self.topics_read = TopicsRead(
            self.subscription, self.queue, lambda *place: self.ids_by_origin.get(place, ZERO_UUID)
        )
        self.assign(OLD)

    def assign(self, topic_id: bytes) -> None:
        self.subscription.assign([ORDERS, REFUNDS])
        self.begin(ORDERS, topic_id)
        self.begin(REFUNDS, OTHER)

    def begin(self, partition: TopicPartition, topic_id: bytes) -> None:
        assigned = self.subscription.find(partition)
        self.ids_by_origin[partition, assigned.origin] = topic_id
        self.subscription.positions.setdefault(partition, 0)

    def read(self, partition: TopicPartition, count: int) -> None:
        self.subscription.positions[partition] += count

    def recreate(self, partition: TopicPartition) -> None:
        """Reset the position to the beginning of the new topic."""
        self.subscription.begin_reset(partition, -2)
        generation = self.subscription.find(partition).generation
        self.subscription.end_resets({partition: (generation, 0)})
        self.begin(partition, NEW)


@pytest.fixture
def reader() -> Reader:
    return Reader()


def test_ids_are_those_of_the_positions(reader: Reader) -> None:
    reader.read(ORDERS, 3)
    assert reader.topics_read.ids() == {ORDERS: OLD, REFUNDS: OTHER}


@pytest.mark.parametrize("count", [0, 2])
def test_id_is_that_of_the_records_read_first(reader: Reader, count: int) -> None:
    reader.read(ORDERS, 3)
    reader.recreate(ORDERS)
    reader.read(ORDERS, count)
    assert reader.topics_read.ids() == {ORDERS: OLD, REFUNDS: OTHER}


def test_second_call_returns_the_same_ids_until_more_is_read(reader: Reader) -> None:
    reader.read(ORDERS, 3)
    reader.recreate(ORDERS)
    assert [reader.topics_read.ids()[ORDERS] for _ in range(3)] == [OLD, OLD, OLD]
    reader.read(REFUNDS, 1)
    assert reader.topics_read.ids()[ORDERS] == OLD
    reader.read(ORDERS, 1)
    assert [reader.topics_read.ids()[ORDERS] for _ in range(2)] == [NEW, NEW]


def test_seek_after_the_call_continues_with_the_new_id(reader: Reader) -> None:
    reader.read(ORDERS, 3)
    reader.recreate(ORDERS)
    assert reader.topics_read.ids()[ORDERS] == OLD
    reader.subscription.seek(ORDERS, 0)
    reader.begin(ORDERS, NEW)
    assert reader.topics_read.ids()[ORDERS] == NEW


def test_topic_without_records_since_the_last_call_has_the_new_id(reader: Reader) -> None:
    reader.read(ORDERS, 3)
    reader.topics_read.ids()
    reader.recreate(ORDERS)
    reader.read(ORDERS, 1)
    assert reader.topics_read.ids()[ORDERS] == NEW


def test_records_of_two_topics_since_the_last_call_have_the_first_id(reader: Reader) -> None:
    reader.read(ORDERS, 3)
    reader.topics_read.ids()
    reader.read(ORDERS, 1)
    reader.recreate(ORDERS)
    reader.read(ORDERS, 1)
    assert reader.topics_read.ids()[ORDERS] == OLD


def test_call_during_the_reset_does_not_count_as_the_first(reader: Reader) -> None:
    reader.read(ORDERS, 3)
    reader.subscription.begin_reset(ORDERS, -2)
    assert reader.topics_read.ids() == {ORDERS: OLD, REFUNDS: OTHER}
    generation = reader.subscription.find(ORDERS).generation
    reader.subscription.end_resets({ORDERS: (generation, 0)})
    reader.begin(ORDERS, NEW)
    assert reader.topics_read.ids()[ORDERS] == OLD
    reader.read(ORDERS, 1)
    assert reader.topics_read.ids()[ORDERS] == NEW


def test_revoked_partition_keeps_its_id_until_it_is_read_again(reader: Reader) -> None:
    reader.read(ORDERS, 3)
    reader.subscription.assign([])
    assert reader.topics_read.ids()[ORDERS] == OLD
    reader.assign(NEW)
    reader.subscription.assign([])
    reader.assign(NEW)
    assert reader.topics_read.ids()[ORDERS] == OLD
    reader.read(ORDERS, 1)
    assert reader.topics_read.ids()[ORDERS] == NEW


def test_records_returned_from_the_queue_count_as_read(reader: Reader) -> None:
    records = [ConsumerRecord("orders", 0, offset, 0, 0, None, None, []) for offset in range(3)]
    reader.read(ORDERS, 3)
    reader.queue.put({ORDERS: records})
    reader.queue.cut(3)
    reader.topics_read.ids()
    next(reader.queue.slice)  # the position stays 3
    reader.recreate(ORDERS)
    assert reader.topics_read.ids()[ORDERS] == OLD


def test_next_offsets_have_the_ids_and_equal_offsets_without(reader: Reader) -> None:
    reader.read(ORDERS, 3)
    before = reader.topics_read.next_offsets()
    reader.recreate(ORDERS)
    after = reader.topics_read.next_offsets()
    assert [getattr(offsets[ORDERS], "topic_id", None) for offsets in (before, after)] == [OLD, NEW]
    assert before == {ORDERS: (3, "", -1), REFUNDS: (0, "", -1)}
    assert repr(before[ORDERS]) == "OffsetAndMetadata(offset=3, metadata='', leader_epoch=-1)"
    reader.ids_by_origin.clear()
    assert not hasattr(reader.topics_read.next_offsets()[ORDERS], "topic_id")


def test_applications_without_metadata_have_a_bounded_number_of_ids(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_read, "MAX_LEFT", 1)
    reader.read(ORDERS, 1)
    reader.read(REFUNDS, 1)
    reader.subscription.assign([])
    assert reader.topics_read.ids() == {REFUNDS: OTHER}
