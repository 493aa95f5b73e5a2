"""The collector of a share consumer on batches and acquired ranges that a table names."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.consumer.bad_records import BadRecords
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.errors import (
    CorruptData,
    CorruptMessage,
    KafkaError,
    SerializationError,
    UnsupportedCompressionType,
)
from pykafka2.metrics import Metrics
from pykafka2.records.control import build_end_marker
from pykafka2.share.decoding import AcquiredData, Records, ShareBuffer, ShareCollector
from pykafka2.share.locks import Locks
from pykafka2.share.options import SHARE_CONSUMER_OPTIONS
from pykafka2.share.records import AcknowledgeType
from pykafka2.types import TopicPartition
from tests.broker.support.batches import batch
from tests.share.test_locks import SetClock

PARTITION = TopicPartition("t", 0)
ACCEPT, RELEASE, REJECT = [*AcknowledgeType][:3]
GAP = 0


def at(offset: int, data: bytes) -> bytes:
    """Return a batch with this first offset."""
    return offset.to_bytes(8, "big") + data[8:]


class Collecting:
    """A collector with acquired data, and its locks."""

    def __init__(self, **options: Any) -> None:
        parsed = SHARE_CONSUMER_OPTIONS.parse(None, {"group_id": "g", **options})
        self.clock = SetClock()
        self.locks = Locks(self.clock, None, 100.0, lambda: None)
        self.buffer = ShareBuffer()
        bad_records = BadRecords(parsed.on_bad_record, Interceptors(()))
        metrics = Metrics(self.clock.monotonic)
        self.collector = ShareCollector(parsed, self.buffer, self.locks, bad_records, self.clock, metrics)

    def put(self, records: bytes, *acquired: tuple[int, int, int]) -> None:
        until = self.clock.now + 10
        data = AcquiredData(
            *((b"id", 0), PARTITION, 0, [*acquired], memoryview(records)), self.clock.now, until
        )
        self.buffer.put(data)

    def collect(self, limit: int = 500, *, is_strict: bool = False) -> list[tuple[int, int]]:
        """Return offsets and delivery counts of the records."""
        found: Records = self.collector.collect(limit, is_strict=is_strict)[0]
        return [(one.offset, one.delivery_count) for one in found.get(PARTITION, [])]

    def decided(self) -> dict[int, int]:
        """Return the acknowledgements that are sent now, by offset."""
        self.locks.flush(accepts=False)
        return {offset: int(lock.type) for lock in self.locks.take_ready(0) for offset in lock.offsets}

    def held(self) -> list[int]:
        return sorted(offset for lock, offsets in self.locks.open_locks() for offset in offsets)


def test_each_acquired_range_has_its_delivery_count_and_other_records_are_left_out() -> None:
    one = Collecting()
    one.put(at(3, batch([b"v"] * 4)) + at(7, batch([b"v"] * 4)), (4, 5, 1), (6, 8, 3), (10, 10, 2))
    assert one.collect() == [(4, 1), (5, 1), (6, 3), (7, 3), (8, 3), (10, 2)]
    assert one.decided() == {}
    assert one.held() == [4, 5, 6, 7, 8, 10]


def test_acquired_offsets_without_a_record_are_acknowledged_as_gaps() -> None:
    one = Collecting()
    marker = at(4, build_end_marker(True, 0, 1, 0, 0))
    one.put(at(2, batch([b"v"] * 2)) + marker + at(7, batch([b"v"])), (1, 5, 1), (6, 9, 2))
    assert one.collect() == [(2, 1), (3, 1), (7, 2)]
    assert one.decided() == dict.fromkeys((1, 4, 5, 6, 8, 9), GAP)
    assert one.held() == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_records_with_expired_locks_are_dropped() -> None:
    one = Collecting()
    one.put(at(0, batch([b"v"] * 2)), (0, 1, 1))
    one.clock.now += 10
    one.put(at(2, batch([b"v"] * 2)), (2, 3, 1))
    assert one.collect() == [(2, 1), (3, 1)]
    assert one.buffer.first() is None


def test_limit_is_exact_if_it_is_strict_and_leaves_whole_responses_otherwise() -> None:
    one = Collecting()
    for first in (0, 4):
        one.put(at(first, batch([b"v"] * 4)), (first, first + 3, 1))
    assert one.buffer.count() == 8
    assert [offset for offset, _ in one.collect(3, is_strict=True)] == [0, 1, 2]
    assert [offset for offset, _ in one.collect(2, is_strict=True)] == [3, 4]
    assert [offset for offset, _ in one.collect(1)] == [5, 6, 7]
    assert one.collect(1) == []
    assert (one.collector.records, one.buffer.count()) == (8, 0)


@pytest.mark.parametrize(
    ("policy", "damaged", "type", "error"),
    [
        ("skip", {"corrupt": True}, REJECT, None),
        ("skip", {"codec": 1, "damage": True}, REJECT, None),
        ("raise", {"corrupt": True}, RELEASE, CorruptMessage),
        ("raise", {"codec": 1, "damage": True}, RELEASE, CorruptData),
        ("skip", {"attributes": 7}, RELEASE, UnsupportedCompressionType),
    ],
)
def test_unreadable_batch_decides_all_of_its_acquired_records(
    policy: str, damaged: dict[str, Any], type: int, error: type[KafkaError] | None
) -> None:
    one = Collecting(on_bad_record=policy)
    one.put(at(0, batch([b"v"] * 2)) + at(2, batch([b"v"] * 3, **damaged)), (1, 3, 1), (4, 4, 2))
    assert one.collect() == [(1, 1)]
    if error is not None:
        with pytest.raises(error):
            one.collect()
    assert one.collect() == []
    assert one.decided() == dict.fromkeys((2, 3, 4), type)
    assert one.held() == [1, 2, 3, 4]
    assert one.buffer.first() is None


@pytest.mark.parametrize(("policy", "type"), [("skip", REJECT), ("raise", RELEASE)])
@pytest.mark.parametrize("bad", [(0,), (1,), (3,), (0, 1), (0, 1, 2, 3)])
def test_each_record_that_a_deserializer_refuses_is_decided_and_raised_once(
    policy: str, type: int, bad: tuple[int, ...]
) -> None:
    one = Collecting(on_bad_record=policy, value_deserializer=int)
    one.put(at(0, batch([b"x" if number in bad else b"1" for number in range(4)])), (0, 3, 1))
    found: list[int] = []
    errors: list[KafkaError] = []
    while one.buffer.first() is not None:
        try:
            found += [offset for offset, _ in one.collect()]
        except SerializationError as error:
            errors.append(error)
    assert found == [offset for offset in range(4) if offset not in bad]
    assert len(errors) == (len(bad) if policy == "raise" else 0)
    assert one.decided() == dict.fromkeys(bad, type)
