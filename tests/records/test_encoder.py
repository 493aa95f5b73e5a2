"""The builder's promises: when it is full, what it refuses, what an interruption leaves."""

from __future__ import annotations

import array
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.errors import ConfigurationError, UnsupportedCompressionType
from pykafka2.records.batch import HEADER_BYTES, batches
from pykafka2.records.decoder import decode_records
from pykafka2.records.encoder import BatchBuilder

from .strategies import CODECS, NOW, RECORD_LISTS, Input


def test_the_bytes_of_a_batch_are_those_of_the_protocol() -> None:
    builder = BatchBuilder()
    builder.append(1000, b"k", b"v", [("h", None)])
    builder.append(1005, None, b"", [])
    blob = builder.build(
        base_offset=7, producer_id=11, producer_epoch=2, base_sequence=5, is_transactional=True
    )
    first = bytes.fromhex("18 00 00 00 02 6b 02 76 02 02 68 01".replace(" ", ""))
    first = bytes([(len(first) - 1) * 2]) + first[1:]
    second = bytes.fromhex("0c000a02010000")
    header = bytes.fromhex(
        "0000000000000007"  # base offset
        + f"{49 + len(first) + len(second):08x}"  # length
        + "ffffffff"  # leader epoch
        + "02"  # magic
        + blob[17:21].hex()  # checksum, of which below
        + "0010"  # attributes: transactional
        + "00000001"  # last offset delta
        + "00000000000003e8"  # base timestamp
        + "00000000000003ed"  # max timestamp
        + "000000000000000b"  # producer id
        + "0002"  # producer epoch
        + "00000005"  # base sequence
        + "00000002"  # count
    )
    assert blob == header + first + second
    import crc32c

    assert int.from_bytes(blob[17:21], "big") == crc32c.crc32c(blob[21:])


def test_append_answers_offsets_until_the_batch_is_full() -> None:
    builder = BatchBuilder(max_bytes=HEADER_BYTES + 3 * 109)
    value = b"x" * 100
    assert [builder.append(NOW, None, value) for _ in range(5)] == [0, 1, 2, None, None]
    assert builder.count == 3
    assert builder.size_estimate == len(builder.build()) == HEADER_BYTES + 3 * 109
    assert builder.is_full
    assert builder.append(NOW, None, None) is None


def test_first_record_is_accepted_at_any_size() -> None:
    builder = BatchBuilder(max_bytes=10)
    assert builder.append(NOW, None, b"x" * 1000) == 0
    assert builder.append(NOW, None, b"") is None


@pytest.mark.slow
@given(RECORD_LISTS, st.integers(0, 400))
def test_space_is_promised_only_where_there_is_some(records: list[Input], max_bytes: int) -> None:
    builder = BatchBuilder(max_bytes=max_bytes)
    for record in records:
        promised = builder.has_room_for(record.key, record.value, record.headers)
        appended = builder.append(*record) is not None
        assert appended or not promised


@pytest.mark.gate
@pytest.mark.slow
@given(RECORD_LISTS, st.integers(100, 400))
def test_a_batch_of_several_records_is_never_larger_than_allowed(
    records: list[Input], max_bytes: int
) -> None:
    builder = BatchBuilder(max_bytes=max_bytes)
    taken = [record for record in records if builder.append(*record) is not None]
    blob = builder.build()
    assert len(taken) == 1 or len(blob) <= max_bytes
    [batch] = batches(blob)
    assert [r.value for r in decode_records(batch, "t", 0)] == [record.value for record in taken]
    assert batch.max_timestamp == max(record.timestamp for record in taken)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compression_ratio_admits_more_records_into_a_batch(codec: str) -> None:
    pessimist, optimist = BatchBuilder(codec), BatchBuilder(codec, compression_ratio=0.25)
    for builder in (pessimist, optimist):
        while builder.append(NOW, None, b"the same words again") is not None:
            pass
    assert optimist.count > 3 * pessimist.count
    assert len(optimist.build()) <= optimist.max_bytes
    assert optimist.size_estimate <= optimist.max_bytes


@pytest.mark.parametrize("field", ["text", 5, object()])
def test_field_other_than_bytes_is_rejected_and_changes_nothing(field: object) -> None:
    builder = BatchBuilder()
    builder.append(NOW, None, b"before")
    before = builder.build()
    with pytest.raises(TypeError):
        builder.append(NOW, None, field)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        builder.append(NOW, field, b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        builder.append(NOW, None, b"", [("name", field)])  # type: ignore[list-item]
    assert builder.build() == before


def test_a_float_is_no_timestamp() -> None:
    with pytest.raises(TypeError):
        BatchBuilder().append(1.5, None, b"")  # type: ignore[arg-type]


@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1])
def test_a_timestamp_must_fit_into_64_bits(timestamp: int) -> None:
    builder = BatchBuilder()
    with pytest.raises(ValueError, match="64 bits"):
        builder.append(timestamp, None, b"")
    builder.append(0, None, b"")
    with pytest.raises(ValueError, match="64 bits"):
        builder.append(timestamp, None, b"")
    assert builder.count == 1


def test_buffers_count_by_their_bytes_not_their_items() -> None:
    numbers = array.array("i", [1, 2, 3])
    builder = BatchBuilder()
    builder.append(NOW, bytearray(b"key"), memoryview(numbers))
    [batch] = batches(builder.build())
    [record] = decode_records(batch, "t", 0)
    assert (record.key, record.value) == (b"key", numbers.tobytes())


def test_an_interrupted_append_leaves_a_whole_batch() -> None:
    """Raise, like Ctrl-C, an exception out of the middle of append, here from the headers' iterator."""

    def interrupted() -> Iterator[tuple[str, bytes]]:
        yield "name", b"value"
        raise KeyboardInterrupt

    builder = BatchBuilder()
    builder.append(NOW, None, b"before")
    with pytest.raises(KeyboardInterrupt):
        builder.append(NOW, None, b"lost", interrupted())
    builder.append(NOW, None, b"after")
    [batch] = batches(builder.build())
    assert [(r.offset, r.value) for r in decode_records(batch, "t", 0)] == [(0, b"before"), (1, b"after")]


def test_an_empty_batch_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="without records"):
        BatchBuilder().build()


def test_building_again_with_other_producer_fields_changes_nothing_else() -> None:
    builder = BatchBuilder("zstd")
    builder.append(NOW, b"k", b"v")
    first, second = builder.build(), builder.build(producer_id=9, producer_epoch=1, base_sequence=3)
    [batch] = batches(second)
    batch.verify_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 1, 3)
    assert first[61:] == second[61:]
    assert builder.build() == first


def test_log_append_time_is_that_of_every_record() -> None:
    builder = BatchBuilder()
    builder.append(NOW, None, b"a")
    builder.append(NOW + 50, None, b"b")
    [batch] = batches(builder.build(log_append_time=NOW + 1000))
    assert [(r.timestamp, r.timestamp_type) for r in decode_records(batch, "t", 0)] == [(NOW + 1000, 1)] * 2


@pytest.mark.parametrize(
    ("codec", "level"), [("gzip", 10), ("lz4", 0), ("zstd", 23), ("none", 1), ("snappy", 1)]
)
def test_a_level_that_kafka_does_not_have_is_refused_at_once(codec: str, level: int) -> None:
    with pytest.raises(ConfigurationError, match=str(level)):
        BatchBuilder(codec, level)


def test_an_unknown_codec_is_refused_at_once() -> None:
    with pytest.raises(UnsupportedCompressionType, match="brotli"):
        BatchBuilder("brotli")
