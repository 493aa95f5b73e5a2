"""Kafka's files beside a segment: values survive their bytes, and damage is reported or ends the entries."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.controller.metadata.batches import decode_metadata_record, encode_metadata_record
from pykafka2.broker.log.disk.index_files import (
    ProducerEntry,
    decode_producer_snapshot,
    decode_transaction_index,
    encode_producer_snapshot,
    encode_transaction_index,
)
from pykafka2.broker.log.disk.text_files import (
    decode_epochs,
    decode_offsets,
    decode_properties,
    decode_topic_id,
    encode_epochs,
    encode_offsets,
    encode_properties,
    encode_topic_id,
)
from pykafka2.broker.log.leader_epochs import EpochEntry
from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.errors import CorruptData
from pykafka2.protocol.messages.metadata_records import ConfigRecord

INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
RISING = st.lists(st.integers(1, 1 << 30), unique=True, max_size=20).map(sorted)


@pytest.mark.gate
@given(st.lists(st.tuples(INT64, INT64, INT64), max_size=10), RISING)
def test_transaction_index_survives_its_bytes(values: list[tuple[int, int, int]], rising: list[int]) -> None:
    entries = [
        AbortedTransaction(producer, first, last, stable)
        for (producer, first, stable), last in zip(values, rising, strict=False)
    ]
    assert decode_transaction_index(encode_transaction_index(entries), "orders-0") == entries


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "not a whole number of entries"),
        (lambda data: b"\0\1" + data[2:], "version 1 is not 0"),
        (lambda data: data + data[:34], "not in order"),
    ],
)
def test_damaged_transaction_index_is_reported(damage: object, message: str) -> None:
    assert callable(damage)
    encoded = encode_transaction_index([AbortedTransaction(1, 0, 9, 10), AbortedTransaction(2, 5, 20, 21)])
    with pytest.raises(CorruptData, match=f"0.txnindex: .*{message}"):
        decode_transaction_index(damage(encoded), "0.txnindex")


@given(st.lists(st.builds(ProducerEntry, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64), max_size=5))
def test_producer_snapshot_survives_its_bytes(producers: list[ProducerEntry]) -> None:
    assert decode_producer_snapshot(encode_producer_snapshot(producers), "snapshot") == producers


@given(st.data())
def test_any_damaged_bit_of_a_snapshot_is_reported(data: st.DataObject) -> None:
    encoded = bytearray(encode_producer_snapshot([ProducerEntry(7, 0, 1, 2, 1, 3, 0, -1)] * 2))
    index = data.draw(st.integers(0, len(encoded) - 1))
    encoded[index] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptData, match=r"0\.snapshot"):
        decode_producer_snapshot(bytes(encoded), "0.snapshot")


def test_snapshot_cut_short_is_reported() -> None:
    encoded = encode_producer_snapshot([ProducerEntry(7, 0, 1, 2, 1, 3, 0, -1)] * 2)
    for size_bytes in range(len(encoded)):
        with pytest.raises(CorruptData, match=r"0\.snapshot"):
            decode_producer_snapshot(encoded[:size_bytes], "0.snapshot")


def test_offset_checkpoint_has_version_count_and_entries() -> None:
    offsets = {("orders", 0): 12, ("orders", 1): 0, ("a.b_c-d", 7): 1 << 40}
    text = encode_offsets(offsets)
    assert text == f"0\n3\norders 0 12\norders 1 0\na.b_c-d 7 {1 << 40}\n"
    assert decode_offsets(text, "recovery-point-offset-checkpoint") == offsets
    assert decode_offsets("0\n0\n", "here") == decode_offsets("", "here") == {}


@pytest.mark.parametrize(
    "text",
    [
        "1\n1\norders 0 12\n",
        "0\n2\norders 0 12\n",
        "0\n1\norders 0\n",
        "0\n1\norders 0 x\n",
        "0\n",
        "\0\0\0",
    ],
)
def test_damaged_offset_checkpoint_is_reported(text: str) -> None:
    with pytest.raises(CorruptData, match="recovery-point"):
        decode_offsets(text, "recovery-point-offset-checkpoint")


def test_epoch_checkpoint_is_read_in_order() -> None:
    epochs = [EpochEntry(0, 0), EpochEntry(3, 17), EpochEntry(4, 17)]
    assert encode_epochs(epochs) == "0\n3\n0 0\n3 17\n4 17\n"
    assert decode_epochs(encode_epochs(epochs), "leader-epoch-checkpoint") == epochs
    for wrong in ([EpochEntry(3, 0), EpochEntry(3, 5)], [EpochEntry(3, 7), EpochEntry(4, 6)]):
        with pytest.raises(CorruptData, match="does not follow"):
            decode_epochs(encode_epochs(wrong), "leader-epoch-checkpoint")


def test_topic_id_is_written_as_kafka_does() -> None:
    topic_id = UUID("6b4bdaf5-9c49-4e24-a33a-4cc4cba0560a")
    text = "version: 0\ntopic_id: a0va9ZxJTiSjOkzEy6BWCg"
    assert encode_topic_id(topic_id) == text
    assert decode_topic_id(text, "partition.metadata") == topic_id
    for wrong in (
        "version: 1\ntopic_id: a0va9ZxJTiSjOkzEy6BWCg",
        "version: 0\n",
        "version: 0\ntopic_id: abc",
    ):
        with pytest.raises(CorruptData, match=r"partition\.metadata"):
            decode_topic_id(wrong, "partition.metadata")


def test_properties_are_read_with_comments_and_written_with_the_version() -> None:
    text = "#\n#Thu Nov 26 14:42:53 UTC 2026\nnode.id=0\ndirectory.id=ZKUaH10s\nversion=1\ncluster.id=a=b\n"
    properties = {"node.id": "0", "directory.id": "ZKUaH10s", "cluster.id": "a=b"}
    assert decode_properties(text, "meta.properties") == properties
    assert decode_properties(encode_properties(properties), "meta.properties") == properties
    with pytest.raises(CorruptData, match="version 0 is not 1"):
        decode_properties("version=0\nbroker.id=0\n", "meta.properties")


def test_metadata_record_survives_its_frame() -> None:
    record = ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000")
    encoded = encode_metadata_record(record, 0)
    assert encoded[:3] == b"\x01\x04\x00"
    assert decode_metadata_record(encoded, "here") == (record, 0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\0\4\0", "frame version 0 is not 1"),
        (b"\1\x7f\0", "no metadata record with API key 127"),
        (b"\1\4\1", "ConfigRecord has no version 1, only up to 0"),
        (b"\1\4\0\2", "ConfigRecord"),
        (b"\1", "ends"),
        (b"", "ends"),
    ],
)
def test_damaged_metadata_record_is_reported(value: bytes, message: str) -> None:
    with pytest.raises(CorruptData, match=message):
        decode_metadata_record(value, "__cluster_metadata-0")
