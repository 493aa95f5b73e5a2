"""The extension and the Python code agree at each bound, where random batches are rare."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka2.native import BATCH, QUEUE
from pykafka2.producer.accumulator.open_batch import NS_PER_MS, OpenBatch, note_time
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.partitioning.murmur2 import positive_murmur2
from pykafka2.producer.partitioning.topic_route import Route
from pykafka2.records.batch import HEADER, HEADER_BYTES, LENGTH_END, RecordBatch
from pykafka2.records.encoder import NO_HEADERS
from pykafka2.records.rows import Fields
from pykafka2.records.varint import varint
from tests.native.both import extension, running
from tests.native.differential import encoded, field, outcome
from tests.producer.accumulator.test_batch import a_batch
from tests.records.strategies import NOW

compiled = extension()

LONG = b"\xff" * 9
ROW: Fields = [b"v", None, NOW, NO_HEADERS, None]


def padded(number: int, size: int) -> bytes:
    """Return a varint of more bytes than it needs."""
    raw = number << 1
    return bytes(raw >> 7 * at & 0x7F | (0x80 if at < size - 1 else 0) for at in range(size))


def record(
    offset: int | bytes = 0,
    *,
    delta: int | bytes = 0,
    key: bytes = b"\1",
    value: bytes = b"\2v",
    headers: bytes = b"\0",
) -> bytes:
    """Return a record; numbers can be given as bytes."""
    body = b"\0" + as_bytes(delta) + as_bytes(offset) + key + value + headers
    return varint(len(body)) + body


def as_bytes(number: int | bytes) -> bytes:
    return number if isinstance(number, bytes) else varint(number)


def batch_of(
    records: list[bytes], last: int | None = None, base_time: int = NOW, attributes: int = 0
) -> RecordBatch:
    body = b"".join(records)
    last = len(records) - 1 if last is None else last
    size = HEADER_BYTES - LENGTH_END + len(body)
    header = HEADER.pack(
        100, size, 3, 2, 0, attributes, last, base_time, base_time + 9, -1, -1, -1, len(records)
    )
    return RecordBatch(memoryview(header + body))


def with_headers(*names: bytes) -> bytes:
    return varint(len(names)) + b"".join(field(name) + field(b"x" if name else b"") for name in names)


PLAIN = record()
BATCHES = {
    "a delta of 64 bits": batch_of([record(delta=LONG + b"\1")]),
    "a delta of 65 bits": batch_of([record(delta=LONG + b"\2")]),
    "a delta of 11 bytes": batch_of([record(delta=b"\x80" * 10 + b"\0")]),
    "a length of 5 bytes": batch_of([padded(len(PLAIN) - 1, 5) + PLAIN[1:]]),
    "a length of 6 bytes": batch_of([padded(len(PLAIN) - 1, 6) + PLAIN[1:]]),
    "a size of 5 bytes": batch_of([record(value=padded(1, 5) + b"v")]),
    "a size of 6 bytes": batch_of([record(value=padded(1, 6) + b"v")]),
    "null of 2 bytes": batch_of([record(key=b"\x81\0")]),
    "no bytes": batch_of([b""]),
    "an empty record": batch_of([b"\0"]),
    "a length of -1": batch_of([b"\1" + PLAIN]),
    "a length that ends beyond the batch": batch_of([varint(len(PLAIN)) + PLAIN[1:]]),
    "a length without its end": batch_of([PLAIN, b"\x82"]),
    "a record without its number of headers": batch_of([record(headers=b"")]),
    "a value that ends beyond the record": batch_of([record(value=b"\4v", headers=b"")]),
    "a value into the next record": batch_of([record(value=b"\4v", headers=b""), record(1)]),
    "a value with all bytes of the record": batch_of([record(value=b"\4v\0", headers=b"")]),
    "bytes behind the headers": batch_of([record(headers=b"\0\0"), record(1)]),
    "zero headers in 2 bytes": batch_of([record(headers=b"\x80\0")]),
    "zero headers in 2 bytes, often": batch_of([record(n, headers=b"\x80\0") for n in range(64)]),
    "-1 headers": batch_of([record(headers=b"\1")]),
    "one header without bytes": batch_of([record(headers=b"\2")]),
    "more headers than bytes": batch_of([record(headers=varint(9) + b"\2h\2x")]),
    "a header without a name": batch_of([record(headers=varint(1) + b"\1\2x")]),
    "names of one length": batch_of([record(headers=with_headers(b"aa", b"ab", b"aa"))]),
    "names that begin alike": batch_of([record(headers=with_headers(b"ab", b"a", b"abc", b""))]),
    "many names": batch_of([record(n, headers=with_headers(b"%d" % (n % 11), b"x")) for n in range(40)]),
    "headers, then none": batch_of([record(headers=with_headers(b"a")), record(1)]),
    "none, then headers": batch_of([PLAIN, record(1, headers=with_headers(b"a"))]),
    "gaps": batch_of([PLAIN, record(2), record(7)], last=7),
    "an offset twice": batch_of([PLAIN, record(2), record(2)], last=7),
    "an offset before": batch_of([PLAIN, record(3), record(2)], last=7),
    "an offset of -1": batch_of([record(-1), record(3)], last=7),
    "an offset beyond the last": batch_of([PLAIN, record(8)], last=7),
    "an offset of 6 bytes": batch_of([PLAIN, record(padded(3, 6))], last=7),
    "offsets that are counted": batch_of([PLAIN, record(9), record(1)]),
    "log-append time": batch_of([PLAIN, record(1, delta=5)], attributes=8),
    "log-append time and any delta": batch_of([record(delta=LONG + b"\1")], attributes=8),
    "the latest time": batch_of([record(delta=5)], base_time=(1 << 63) - 16),
    "a time of 65 bits": batch_of([record(delta=16)], base_time=(1 << 63) - 16),
    "the earliest time": batch_of([record(delta=-1)], base_time=1 - (1 << 63)),
    "a time before the earliest": batch_of([record(delta=-2)], base_time=1 - (1 << 63)),
    "offsets of too few bytes": batch_of([record(min(n, 63)) for n in range(66)]),
}


def check(batch: RecordBatch, first_offset: int) -> None:
    found = []
    for implementation in (None, compiled):
        with running(implementation):
            found.append(outcome(batch, list(ROW), first_offset, 1000))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", BATCHES)
def test_batches_at_a_bound_are_decoded_alike(name: str) -> None:
    for first_offset in (100, 101, 102, 107):
        check(BATCHES[name], first_offset)


@pytest.mark.slow
def test_offsets_of_three_bytes_are_decoded_alike() -> None:
    # With an offset of two bytes, such a record would be another one without damage.
    records = [record(n, key=b"\2k", value=b"\4\0\0", headers=with_headers(b"")) for n in range(8194)]
    check(batch_of(records), 8291)


def rows(*changes: dict[int, Any]) -> Fields:
    fields: Fields = []
    for change in changes:
        fields += [change.get(at, ROW[at]) for at in range(5)]
    return fields


@pytest.mark.parametrize(
    "fields",
    [
        *(rows({0: b"v" * size, 1: b"k" * size}) for size in (0, 1, 62, 63, 64, 127, 128, 8191, 8192)),
        rows({0: None}, {1: b""}, {0: b""}),
        rows({2: NOW}, {2: NOW + 5}, {2: NOW + 1}),
        rows({2: NOW + 9}, {2: NOW}),
        rows({2: -1}, {2: NOW}),
        rows({2: NOW}, {2: -1}),
        rows({2: 1 << 62}, {2: 0}),
        rows({2: NOW}, {2: 1 << 63}),
        rows(*[{}] * 65),
        rows(*[{2: NOW + n % 3} for n in range(8194)]),
    ],
)
def test_rows_at_a_bound_are_encoded_alike(fields: Fields) -> None:
    found = []
    for implementation in (None, compiled):
        with running(implementation):
            found.append(encoded(fields))
    assert found[0] == found[1]


def an_open_batch(room_bytes: int = 1000) -> OpenBatch:
    batch: OpenBatch = a_batch().open
    batch.append((b"v", None, NOW, NO_HEADERS, None), 60)
    note_time(batch, NOW)
    batch.room_bytes = room_bytes
    return batch


def test_a_record_joins_if_it_takes_no_more_than_the_room() -> None:
    row = (b"v", None, NOW, NO_HEADERS, None)
    batch = an_open_batch(20)
    assert compiled.append_unlocked(batch, row, 21) is None
    assert compiled.append_unlocked(batch, row, 20).batch_index == 1
    assert (batch.count, batch.room_bytes) == (2, 0)
    assert compiled.append_unlocked(batch, row, 1) is None
    assert compiled.swap_room(batch, 7) == 0
    assert batch.room_bytes == 7


class Shortcut:
    """A compiled shortcut for a topic of two partitions, whose open batches it appends to."""

    def __init__(self, *, keys_decide: bool = True, smallest_bytes: int = 10) -> None:
        self.batches = [an_open_batch(), an_open_batch()]
        self.metadata = SimpleNamespace(snapshot=object())
        self.route = Route.__new__(Route)
        self.route.snapshot = self.metadata.snapshot
        self.route.queues = []
        for batch in self.batches:
            queue = PartitionQueue.__new__(PartitionQueue)
            queue.tail = batch
            self.route.queues.append(queue)
        self.now_ns = NOW * NS_PER_MS
        self.send = compiled.shortcut(
            {"orders": self.batches[0]},
            {"orders": self.route},
            self.metadata,
            lambda: self.now_ns,
            keys_decide,
            note_time,
            NO_HEADERS,
            smallest_bytes,
        )


def test_a_key_decides_which_batch_its_record_joins() -> None:
    shortcut = Shortcut()
    for number in range(20):
        key = b"key-%d" % number
        batch = shortcut.batches[positive_murmur2(key) % 2]
        before = batch.count, batch.room_bytes
        assert shortcut.send("orders", b"value", key, None).batch_index == before[0]
        assert (batch.count, batch.room_bytes) == (before[0] + 1, before[1] - 10 - 5 - len(key))
        assert batch.fields[-5:] == [b"value", key, NOW, NO_HEADERS, None]


def test_a_record_without_a_key_takes_the_bytes_of_its_value() -> None:
    shortcut = Shortcut()
    assert shortcut.send("orders", b"value", None, print) is not None
    assert shortcut.batches[0].room_bytes == 1000 - 10 - 5
    assert shortcut.batches[0].fields[-5:] == [b"value", None, NOW, NO_HEADERS, print]


@pytest.mark.parametrize(
    "arguments",
    [
        ("other", b"v", None, None),
        ("other", b"v", b"k", None),
        ("orders", "v", None, None),
        ("orders", bytearray(b"v"), None, None),
        ("orders", None, b"k", None),
        ("orders", b"v", "k", None),
        ("orders", b"v", bytearray(b"k"), None),
        ("orders", b"v", None, "no function"),
        (5, b"v", None, None),
    ],
    ids=str,
)
def test_the_shortcut_leaves_unusual_records_to_python(arguments: tuple[Any, ...]) -> None:
    shortcut = Shortcut()
    assert shortcut.send(*arguments) is None
    assert [batch.count for batch in shortcut.batches] == [1, 1]


def test_the_shortcut_leaves_keys_to_another_partitioner() -> None:
    assert Shortcut(keys_decide=False).send("orders", b"v", b"k", None) is None


def test_the_shortcut_leaves_keys_to_python_until_the_route_is_current() -> None:
    shortcut = Shortcut()
    shortcut.metadata.snapshot = object()
    assert shortcut.send("orders", b"v", b"k", None) is None
    assert shortcut.send("orders", b"v", None, None) is not None


def test_a_record_with_a_key_of_another_millisecond_has_its_own_time() -> None:
    shortcut = Shortcut()
    key = b"k"
    batch = shortcut.batches[positive_murmur2(key) % 2]
    shortcut.now_ns = (NOW + 3) * NS_PER_MS
    assert shortcut.send("orders", b"v", key, None) is not None
    assert batch.fields[2::5] == [NOW, NOW + 3]
    shortcut.now_ns = (NOW - 1) * NS_PER_MS  # before the first record: the delta would be negative
    assert shortcut.send("orders", b"v", key, None) is None


def test_an_error_of_the_clock_leaves_the_shortcut() -> None:
    def no_clock() -> int:
        raise OSError("no clock")

    send = compiled.shortcut(
        {"orders": an_open_batch()}, {}, object(), no_clock, True, note_time, NO_HEADERS, 10
    )
    with pytest.raises(OSError, match="no clock"):
        send("orders", b"v", None, None)


def test_positions_outside_of_the_buffer_are_refused() -> None:
    lists: tuple[Any, ...] = ([], [], [], [], {})
    for index, position in ((-1, 0), (0, -1), (0, 2)):
        with pytest.raises(ValueError, match="not within the buffer"):
            compiled.decode_rows(b"\0", *lists, index, 3, position, 0, -1, 3, 0, True, False)
        with pytest.raises(ValueError, match="not within the buffer"):
            compiled.decode_records(b"\0", "t", 0, 0, 0, index, 3, position, 0, -1, 3, 0, True, False, 0)


def test_functions_of_a_module_without_classes_are_refused() -> None:
    spec = importlib.util.find_spec("pykafka2_c")
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    with pytest.raises(TypeError, match="classes are not bound"):
        fresh.shortcut({}, {}, object(), int, True, note_time, NO_HEADERS, 10)
    with pytest.raises(ValueError, match="not bound"):
        fresh.decode_records(b"\0", "t", 0, 0, 0, 0, 1, 0, 0, -1, 0, 0, True, False, 0)
    with pytest.raises(TypeError):
        fresh.append_unlocked(an_open_batch(), (b"v", None, NOW, NO_HEADERS, None), 1)
    with pytest.raises(TypeError):
        fresh.swap_room(an_open_batch(), 1)
    assert fresh.murmur2(b"key") == positive_murmur2(b"key")


def test_a_class_stays_bound_when_another_is_refused() -> None:
    for kind, slots in ((QUEUE, ("head",)), (BATCH, ("outcome", "fields"))):
        with pytest.raises(TypeError, match="has no slot"):
            compiled.bind(kind, type("Other", (), {"__slots__": slots}))
    shortcut = Shortcut()
    for key in (None, b"a", b"b", b"c"):
        assert shortcut.send("orders", b"v", key, None) is not None
