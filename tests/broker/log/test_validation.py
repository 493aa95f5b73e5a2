"""Errors found in a batch's records are reported from any slice of the validation."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.log.batch import parse_batch, rewritten, with_log_append_time
from pykafka2.broker.log.record_validation import (
    SLICE,
    BatchRules,
    InvalidRecords,
    InvalidTimestamps,
    RecordValidation,
    check_usual_records,
)
from pykafka2.broker.log.validation import ALWAYS_CHECKED, start_validation, validate
from pykafka2.errors import InvalidRecord, UnknownServerError
from pykafka2.records.batch import COUNT, COUNT_AT, HEADER_BYTES, RecordBatch
from pykafka2.records.encoder import BatchBuilder, encode_record
from tests.gate import examples

NOW_MS = 1_000_000
DAY_MS = 86_400_000
LONGEST_DELTA = 8191  # of a timestamp in two bytes
RULES = BatchRules(
    max_bytes=1 << 30,
    segment_bytes=1 << 30,
    needs_keys=False,
    codec=None,
    level=None,
    is_create_time=True,
    before_ms=1 << 62,
    after_ms=DAY_MS,
)


def batch_of(timestamps: list[int], compression: str = "none", key: bytes | None = b"k") -> RecordBatch:
    builder = BatchBuilder(compression, max_bytes=1 << 30)
    for timestamp in timestamps:
        builder.append(timestamp, key, b"")
    return parse_batch(builder.build())


def with_body(batch: RecordBatch, body: bytes, codec_id: int = 0) -> RecordBatch:
    """Return the batch with other records under its header."""
    return rewritten(batch, (batch.attributes & ~7) | codec_id, batch.max_timestamp, body)


@pytest.mark.parametrize("newest_at", [0, SLICE // 2, SLICE, 2 * SLICE + 5])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_the_newest_timestamp_of_all_slices_replaces_a_wrong_one_in_the_header(
    newest_at: int, compression: str
) -> None:
    timestamps = [NOW_MS + number % 7 for number in range(2 * SLICE + 10)]
    timestamps[newest_at] = newest = NOW_MS + 500
    right = batch_of(timestamps, compression)
    wrong = rewritten(right, right.attributes, NOW_MS - 5, right.buffer[HEADER_BYTES:])
    for batch in (right, wrong):
        validation = start_validation(batch, RULES, NOW_MS, strict=True)
        assert validation is not None
        assert [validation.advance(SLICE) for _ in range(3)] == [False, False, True]
        kept = validate(batch, RULES, NOW_MS, strict=True, validation=validation)
        assert kept.max_timestamp == newest
        kept.verify_crc("the batch")


@pytest.mark.parametrize("bad_at", [[1], [1, SLICE + 3]])
def test_invalid_records_are_reported_before_offsets_out_of_order(bad_at: list[int]) -> None:
    from pykafka2.compression import codec

    count = 2 * SLICE
    rows = [
        # The sixth record and the last one are swapped.
        encode_record(0, {5: count - 1, count - 1: 5}.get(at, at), None if at in bad_at else b"k", b"", [])
        for at in range(count)
    ]
    batch = with_body(batch_of([NOW_MS] * count), codec("gzip").compress(b"".join(rows)), 1)
    with pytest.raises(UnknownServerError):
        validate(batch, RULES, NOW_MS, strict=True)
    with pytest.raises(InvalidRecords) as refused:
        validate(batch, attrs.evolve(RULES, needs_keys=True), NOW_MS, strict=True)
    assert [one.index for one in refused.value.record_errors] == bad_at


def test_more_records_than_the_bytes_can_hold_are_rejected_without_decoding() -> None:
    count = ALWAYS_CHECKED + 20
    smallest = b"".join(encode_record(0, delta, None, None, []) for delta in range(count))
    batch = with_body(batch_of([NOW_MS] * count), smallest)
    assert validate(batch, RULES, NOW_MS, strict=False) == batch
    for more in (count + 1, count + 5):
        header = bytearray(batch.buffer[:HEADER_BYTES])
        COUNT.pack_into(header, COUNT_AT, more)
        header[23:27] = (more - 1).to_bytes(4, "big")
        claimed = RecordBatch(memoryview(bytes(header) + smallest))
        claimed = with_body(claimed, smallest)
        with pytest.raises(InvalidRecord, match=f"{more} records do not fit into"):
            validate(claimed, RULES, NOW_MS, strict=False)


@pytest.mark.parametrize("large_at", [0, 7, SLICE - 1, SLICE, 2 * SLICE + 9])
@pytest.mark.parametrize(("compression", "is_rejected"), [("gzip", True), ("none", False)])
def test_record_above_max_decompressed_message_bytes_is_rejected_if_it_was_compressed(
    compression: str, is_rejected: bool, large_at: int
) -> None:
    builder = BatchBuilder(compression, max_bytes=1 << 30)
    for number in range(2 * SLICE + 10):
        # Seven bytes more in the record: its attributes, deltas, and lengths.
        builder.append(NOW_MS, None, b"v" * (92 + (number == large_at)))
    batch = parse_batch(builder.build())
    size = 100 + (large_at >= 64)  # the offset delta in two bytes
    fits, rejects = (attrs.evolve(RULES, max_record_bytes=limit) for limit in (size, size - 1))
    assert validate(batch, fits, NOW_MS, strict=False) is batch
    if is_rejected:
        words = f"a record has {size} bytes decompressed, max.decompressed.message.bytes is {size - 1}"
        with pytest.raises(InvalidRecord, match=words):
            validate(batch, rejects, NOW_MS, strict=False)
    else:
        assert not rejects.need_decoding(batch, NOW_MS)
        decodes = attrs.evolve(rejects, before_ms=1000)
        assert decodes.need_decoding(batch, NOW_MS)
        for rules in (rejects, decodes):
            assert validate(batch, rules, NOW_MS, strict=False) is batch


@pytest.mark.parametrize("count", [ALWAYS_CHECKED, ALWAYS_CHECKED + 10])
def test_batches_marked_as_log_append_time_are_rejected_by_a_topic_with_that_type(count: int) -> None:
    marked = with_log_append_time(batch_of([NOW_MS] * count), NOW_MS)
    append_time = attrs.evolve(RULES, is_create_time=False)
    with pytest.raises(InvalidTimestamps) as refused:
        validate(marked, append_time, NOW_MS, strict=False)
    assert [one.index for one in refused.value.record_errors] == list(range(count))
    kept = validate(marked, RULES, NOW_MS, strict=False)
    assert (kept.timestamp_type, kept.max_timestamp) == (0, NOW_MS)


@pytest.mark.gate
@settings(max_examples=examples(300), deadline=None)
@given(
    values=st.lists(
        st.tuples(st.integers(-100, 9000), st.none() | st.binary(max_size=200)), min_size=1, max_size=8
    ),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    is_create_time=st.booleans(),
    needs_keys=st.booleans(),
    after_ms=st.sampled_from([0, 5000, DAY_MS]),
)
def test_short_check_of_a_small_batch_agrees_with_the_full_check_or_is_inconclusive(
    values: list[tuple[int, bytes | None]],
    changes: list[tuple[int, int]],
    is_create_time: bool,
    needs_keys: bool,
    after_ms: int,
) -> None:
    rules = attrs.evolve(RULES, is_create_time=is_create_time, needs_keys=needs_keys, after_ms=after_ms)
    rows = [encode_record(time, at, value, value, []) for at, (time, value) in enumerate(values)]
    body = bytearray(b"".join(rows))
    for at, byte in changes:
        body[at % len(body)] = byte
    batch = with_body(batch_of([NOW_MS] * len(values)), bytes(body))
    found = check_usual_records(batch, rules, NOW_MS)
    if found is not None:
        assert RecordValidation(batch, rules, NOW_MS).finish() == found
    elif not changes and not needs_keys:
        newest = max(time for time, _ in values)
        assert newest > (min(after_ms, LONGEST_DELTA) if is_create_time else LONGEST_DELTA)


@pytest.mark.parametrize("count", [1, ALWAYS_CHECKED])
def test_records_of_small_batches_are_not_decoded(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordValidation, "finish", lambda _: pytest.fail("the records were decoded"))
    batch = batch_of([NOW_MS] * count)
    assert validate(batch, RULES, NOW_MS, strict=False) == batch
