"""The markers at the end of a transaction, ours and kafka-python's view of them."""

from __future__ import annotations

import pytest

from pykafka2.errors import CorruptData
from pykafka2.records.batch import batches
from pykafka2.records.control import ControlMarker, build_end_marker, parse_control, read_marker
from pykafka2.records.encoder import BatchBuilder

from .peers import READERS
from .strategies import NOW


@pytest.mark.parametrize("committed", [True, False])
def test_end_marker_has_the_outcome_of_its_transaction(committed: bool) -> None:
    blob = build_end_marker(
        committed, NOW, 7, 2, coordinator_epoch=4, base_offset=99, partition_leader_epoch=3
    )
    [batch] = batches(blob)
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 2, -1)
    assert (batch.base_offset, batch.partition_leader_epoch, batch.count) == (99, 3, 1)
    marker = read_marker(batch)
    assert marker == ControlMarker(int(committed), 4)
    assert (marker.is_commit, marker.is_abort) == (committed, not committed)
    [theirs] = list(READERS["kafka-python"](blob).next_batch())
    assert (theirs.commit, theirs.abort) == (committed, not committed)


def test_other_control_records_keep_their_type() -> None:
    assert parse_control(b"\0\0\0\2", b"anything") == ControlMarker(2)


def test_a_newer_version_may_have_grown() -> None:
    assert parse_control(b"\0\1\0\1more", b"\0\1\0\0\0\5more") == ControlMarker(1, 5)


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b""), (b"\0\0\0", b""), (b"\0\0\0\1", None), (b"\0\0\0\1", b"\0\0\0"), (b"\xff\xff\0\1", b"")],
)
def test_a_damaged_marker_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptData):
        parse_control(key, value)


def test_a_control_batch_without_a_record_is_corrupt() -> None:
    builder = BatchBuilder()
    builder.append(NOW, None, None)
    blob = bytearray(builder.build(is_control=True)[:61])
    blob[8:12] = (49).to_bytes(4, "big")
    blob[57:61] = bytes(4)
    [batch] = batches(blob)
    with pytest.raises(CorruptData, match="without a record"):
        read_marker(batch, check_crcs=False)
