"""Frames: lengths, headers by version, gathered writes, requests of unknown versions."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.errors import CorruptData, KafkaStorageError, UnsupportedVersion
from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.framing import (
    MIN_UNCOPIED_BYTES,
    decode_request,
    decode_request_header,
    decode_request_start,
    decode_response,
    encode_request,
    encode_response,
    in_memory,
)
from pykafka2.protocol.gathered_part import GatheredPart
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.gate import examples


def produce(*records: bytes) -> ProduceRequest:
    partitions = [PartitionProduceData(index=n, records=one) for n, one in enumerate(records)]
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30000,
        topic_data=[TopicProduceData(name="orders", partition_data=partitions)],
    )


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("client_id", [None, "", "a client"])
def test_requests_and_responses_cross_with_their_headers(version: int, client_id: str | None) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    frame = b"".join(encode_request(request, version, 42, client_id))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, decoded = decode_request(frame[4:])
    assert decoded == request
    assert (header.request_api_key, header.request_api_version) == (12, version)
    assert (header.correlation_id, header.client_id) == (42, client_id)

    answer = b"".join(encode_response(HeartbeatResponse(error_code=27), version, 42))
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    correlation_id, response = decode_response(answer[4:], HeartbeatRequest, version)
    assert (correlation_id, response.error_code) == (42, 27)


def test_large_records_are_handed_out_uncopied_and_small_pieces_joined() -> None:
    large, small = bytes(MIN_UNCOPIED_BYTES), b"small"
    buffers = encode_request(produce(large, small, large, small), 9, 1, "c")
    assert [one is large for one in buffers] == [False, True, False, True, False]
    frame = b"".join(buffers)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    _, decoded = decode_request(frame[4:])
    assert decoded == produce(large, small, large, small)


@pytest.mark.parametrize("before", [0, 10, MIN_UNCOPIED_BYTES - 200, MIN_UNCOPIED_BYTES])
@pytest.mark.parametrize("after", [0, 10, MIN_UNCOPIED_BYTES - 200, MIN_UNCOPIED_BYTES])
@pytest.mark.parametrize("middle", [MIN_UNCOPIED_BYTES - 1, MIN_UNCOPIED_BYTES])
def test_fields_around_a_long_part_keep_their_place(before: int, middle: int, after: int) -> None:
    records = (b"b" * before, b"m" * middle, b"a" * after)
    pieces = encode_request(produce(*records), 12, 1, "c")
    decoded = decode_request(b"".join(pieces)[4:])[1]
    assert decoded == produce(*records)
    long = [one for one in records if len(one) >= MIN_UNCOPIED_BYTES]
    assert [piece for piece in pieces if any(piece is one for one in records)] == long
    assert len(pieces) <= 2 * len(long) + 1


def test_a_small_request_is_one_buffer() -> None:
    assert len(encode_request(produce(b"a", b"b"), 9, 1, "c")) == 1


def test_a_large_last_piece_leaves_nothing_after_it() -> None:
    large = bytes(MIN_UNCOPIED_BYTES)
    buffers = encode_request(produce(large), 3, 1, "c")
    assert buffers[-1] is large
    assert len(buffers) == 2


def test_an_api_that_we_do_not_speak_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match=r"API key 4$"):
        decode_request(bytes.fromhex("0004 0000 00000001 ffff"))


def test_a_version_too_new_is_refused_and_its_header_still_read() -> None:
    frame = bytes.fromhex("0012 0063 00000009 0001 61 00  0261 0262 00")
    header, offset = decode_request_header(frame)
    assert (header.correlation_id, header.client_id, offset) == (9, "a", 12)
    with pytest.raises(UnsupportedVersion, match="ApiVersions version 99 is not between 0 and 5"):
        decode_request(frame)


def test_an_unstable_version_is_not_served() -> None:
    with pytest.raises(UnsupportedVersion, match="InitProducerId version 6"):
        decode_request(bytes.fromhex("0016 0006 00000009 ffff 00"))


@pytest.mark.parametrize("size", range(11))
def test_a_frame_too_short_for_its_header_is_corrupt(size: int) -> None:
    frame = b"".join(encode_request(ApiVersionsRequest(), 0, 1, "c"))[4:]
    assert len(frame) == 11
    with pytest.raises(CorruptData, match="RequestHeader") if size < 11 else pytest.raises(AssertionError):
        decode_request(frame[:size])


def test_bytes_after_a_request_or_response_are_corrupt() -> None:
    frame = b"".join(encode_request(ApiVersionsRequest(), 0, 1, "c"))[4:]
    with pytest.raises(CorruptData, match="ApiVersionsRequest v0: 1 bytes follow"):
        decode_request(frame + b"!")
    answer = b"".join(encode_response(ApiVersionsResponse(api_keys=[]), 0, 1))[4:]
    with pytest.raises(CorruptData, match="ApiVersionsResponse v0: 1 bytes follow"):
        decode_response(answer + b"!", ApiVersionsRequest, 0)


class RecordsFile:
    """The file of a part, in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def fileno(self) -> int:
        return -1

    def read(self, position: int, size: int) -> bytes:
        return self.data[position : position + size]


def fetched(*records: bytes | FilePart | GatheredPart) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=n, high_watermark=0, records=r) for n, r in enumerate(records)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize(
    "sizes", [[MIN_UNCOPIED_BYTES], [9000, 20_000], [10, 9000], [9000, 10], [10, 10], [0]]
)
def test_file_parts_of_a_response_are_not_read(version: int, sizes: list[int]) -> None:
    data = bytes(range(256)) * 100
    files = [FilePart(RecordsFile(data), 7, size) for size in sizes]
    in_bytes = [data[7 : 7 + size] for size in sizes]
    frame = encode_response(fetched(*files), version, 1)
    assert [part for part in frame if isinstance(part, FilePart)] == [
        part for part in files if len(part) >= MIN_UNCOPIED_BYTES
    ]
    assert b"".join(in_memory(frame)) == b"".join(encode_response(fetched(*in_bytes), version, 1))


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize("sizes", [[[4096, 4096]], [[9000, 20_000], [10, 9000]], [[10, 10]], [[]]])
def test_buffers_of_a_response_are_joined_only_if_they_are_small(
    version: int, sizes: list[list[int]]
) -> None:
    data = memoryview(bytes(range(256)) * 100)
    gathered = [GatheredPart([data[7 : 7 + size] for size in part]) for part in sizes]
    frame = encode_response(fetched(*gathered), version, 1)
    assert [part for part in frame if isinstance(part, GatheredPart)] == [
        part for part in gathered if len(part) >= MIN_UNCOPIED_BYTES
    ]
    joined = [part.read() for part in gathered]
    assert b"".join(in_memory(frame)) == b"".join(encode_response(fetched(*joined), version, 1))


def test_file_part_of_a_file_that_became_shorter_cannot_be_read() -> None:
    with pytest.raises(KafkaStorageError, match="only 3 of them are left"):
        FilePart(RecordsFile(bytes(10)), 7, 4).read()


def test_file_part_of_a_file_that_cannot_be_read_raises_a_storage_error() -> None:
    class BrokenFile(RecordsFile):
        def read(self, position: int, size: int) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(KafkaStorageError, match="Input/output error"):
        FilePart(BrokenFile(b""), 7, 4).read()


@pytest.mark.gate
@settings(max_examples=examples(300), deadline=None)
@given(
    api_key=st.sampled_from([3, 12, 18, -1, 999]),
    version=st.integers(-1, 20),
    client_id=st.none() | st.text(max_size=40),
    changes=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=2),
    size=st.integers(0, 80),
)
def test_start_of_a_request_is_that_of_its_header(
    api_key: int, version: int, client_id: str | None, changes: list[tuple[int, int]], size: int
) -> None:
    text = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(text)
    frame = bytearray(struct.pack(">hhih", api_key, version, 77, length) + text + b"\0\1\2")
    for at, byte in changes:
        frame[at % len(frame)] = byte
    data = bytes(frame[:size])
    try:
        header, position = decode_request_header(data)
    except (CorruptData, UnsupportedVersion) as error:
        with pytest.raises(type(error)):
            decode_request_start(data)
    else:
        assert decode_request_start(data) == (
            header.request_api_key,
            header.request_api_version,
            header.correlation_id,
            header.client_id,
            position,
        )
