"""Long messages: read as short ones are, but arrays that would take too much memory are refused before."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.errors import CorruptData
from pykafka2.protocol import primitives
from pykafka2.protocol import struct as structs
from pykafka2.protocol.declared import memory_of_element, resolved_fields
from pykafka2.protocol.decoding import decoder_of, weighing_decoder_of
from pykafka2.protocol.fields import Field
from pykafka2.protocol.messages.committed_offsets import OffsetDeleteRequest
from pykafka2.protocol.messages.configs import ListConfigResourcesRequest
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pykafka2.protocol.primitives import DECODE_ERRORS, Budget, uvarint
from pykafka2.protocol.struct import Message
from tests.gate import examples
from tests.protocol.strategies import instances, message_versions


@pytest.mark.gate
@pytest.mark.slow
@settings(max_examples=examples(20))
@given(st.data())
def test_both_decoders_decode_the_same(data: st.DataObject) -> None:
    cls, version = data.draw(st.sampled_from(message_versions()))
    frame = data.draw(instances(cls, version)).encode(version)
    flexible = cls.is_flexible(version)
    plain = decoder_of(cls, version, flexible)(frame, 0, len(frame))
    assert weighing_decoder_of(cls, version, flexible)(frame, 0, len(frame), Budget()) == plain


@pytest.mark.parametrize(
    ("cls", "version", "frame"),
    [
        (MetadataRequest, 8, struct.pack(">i", 1_000_001)),
        (MetadataRequest, 9, uvarint(1_000_002)),
        (OffsetDeleteRequest, 0, struct.pack(">hi", 0, 1_000_001)),
        (ListConfigResourcesRequest, 1, uvarint(1_000_002)),
    ],
    ids=["structs", "compact structs", "structs behind a string", "compact numbers"],
)
def test_array_of_more_than_a_million_elements_is_rejected_before_it_is_made_as_in_kafka(
    cls: type[Message], version: int, frame: bytes
) -> None:
    tracemalloc.start()
    try:
        frame += bytes(12_000_000)  # enough for each
        whole = len(frame)
        with pytest.raises(CorruptData, match="1000001 elements are announced, more than 1000000"):
            cls.decode(frame, version)
        assert tracemalloc.get_traced_memory()[1] < 2 * whole + (1 << 20)
    finally:
        tracemalloc.stop()


def test_array_of_a_million_elements_is_decoded() -> None:
    frame = uvarint(1_000_001) + bytes(1_000_000) + b"\0"
    assert len(ListConfigResourcesRequest.decode(frame, 1).resource_types) == 1_000_000


def test_topics_without_names_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million of two bytes each would be 100 MB of objects."""
    monkeypatch.setattr(primitives, "MAX_DECODED_BYTES", 64 << 20)
    count = 1_000_000
    frame = struct.pack(">i", count) + bytes(2 * count)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptData, match=r"v8, field topics: its elements would take more than 64 MiB"):
            MetadataRequest.decode(frame, 8)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_elements_of_all_arrays_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primitives, "MAX_DECODED_BYTES", 1 << 20)
    monkeypatch.setattr(structs, "LONG_BYTES", 1 << 10)
    topic: dict[str, Any] = {"error_code": 0, "name": "t", "is_internal": False}
    partition = {"error_code": 0, "partition_index": 0, "leader_id": 0, "replica_nodes": [], "isr_nodes": []}

    def answer(topics: int, partitions: int) -> bytes:
        given = {"throttle_time_ms": 0, "brokers": [], "cluster_id": None, "controller_id": 0}
        kinds = {one.name: one.struct for one in resolved_fields(MetadataResponse)}
        make_topic: Any = kinds["topics"]
        make_partition: Any = {one.name: one.struct for one in resolved_fields(make_topic)}["partitions"]
        each = [make_partition(**partition) for _ in range(partitions)]
        made = [make_topic(**topic, partitions=each) for _ in range(topics)]
        return MetadataResponse(**given, topics=made).encode(8)

    assert len(MetadataResponse.decode(answer(10, 100), 8).topics) == 10
    with pytest.raises(
        CorruptData, match=r"field topics.partitions: its elements would take more than 1 MiB"
    ):
        MetadataResponse.decode(answer(60, 100), 8)


def arrays() -> Iterator[tuple[Field, int, bool]]:
    """Every array of structs, in the first version that has it."""
    seen: set[int] = set()

    def inside(cls: Any, version: int, flexible: bool) -> Iterator[tuple[Field, int, bool]]:
        for one in resolved_fields(cls):
            if one.struct is not None and version in one.versions and id(one) not in seen:
                seen.add(id(one))
                if one.array:
                    yield one, version, flexible
                yield from inside(one.struct, version, flexible)

    kinds: list[tuple[type[Message], int]] = message_versions()
    for cls, version in kinds:
        yield from inside(cls, version, cls.is_flexible(version))


@pytest.mark.gate
def test_no_element_takes_much_more_memory_than_it_is_weighed_with() -> None:
    found = []
    for one, version, flexible in arrays():
        assert one.struct is not None
        decoder = decoder_of(one.struct, version, flexible)
        for filling in (bytes(400), b"\1" * 400, b"\xff" * 400):
            try:
                decoder(filling, 0, len(filling))
            except DECODE_ERRORS:
                continue
            tracemalloc.start()
            made = [decoder(filling, 0, len(filling))[0] for _ in range(100)]
            taken = tracemalloc.get_traced_memory()[0] / 100
            tracemalloc.stop()
            assert made
            if filling == bytes(400) and taken > 1.25 * memory_of_element(one, version):
                found.append((one.name, version, taken, memory_of_element(one, version)))
    assert found == []
