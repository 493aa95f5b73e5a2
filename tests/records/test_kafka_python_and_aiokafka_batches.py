"""kafka-python and aiokafka read what we write, and we read what they write."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.records.batch import batches
from pykafka2.records.decoder import decode_tuples
from tests.gate import examples

from .peers import BUILDERS, READERS
from .strategies import CODECS, FIELDS, NOW, Input, build

# Peers encode header names strictly, hence no surrogates; and times within what they take.
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=9)), max_size=3)
PEER_RECORDS = st.lists(
    st.builds(Input, st.integers(NOW - 10**5, NOW + 10**5), FIELDS, FIELDS, HEADERS), min_size=1, max_size=8
)


@pytest.mark.parametrize("peer", list(READERS))
@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(25))
@given(records=PEER_RECORDS)
def test_peers_read_our_batches(peer: str, codec: str, records: list[Input]) -> None:
    source = READERS[peer](build(records, codec, base_offset=70))
    batch = source.next_batch()
    assert batch.validate_crc()
    found = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    assert found == [(70 + index, *record) for index, record in enumerate(records)]
    assert not source.has_next()


@pytest.mark.parametrize("peer", list(READERS))
@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(25))
@given(records=PEER_RECORDS)
def test_batches_of_peers_are_read(peer: str, codec: str, records: list[Input]) -> None:
    builder = BUILDERS[peer](
        magic=2,
        compression_type=CODECS.index(codec),
        is_transactional=True,
        producer_id=5,
        producer_epoch=1,
        base_sequence=10,
        batch_size=1 << 20,
    )
    for index, record in enumerate(records):
        builder.append(index, *record)
    [batch] = batches(bytes(builder.build()))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 1, 10)
    assert batch.is_transactional
    assert list(decode_tuples(batch, read_offsets=True)) == [
        (index, *record) for index, record in enumerate(records)
    ]


@pytest.mark.parametrize("peer", list(READERS))
def test_without_a_codec_the_bytes_are_the_same(peer: str) -> None:
    records = [Input(NOW + n, b"key", b"value" * n, [("name", b"x"), ("none", None)]) for n in range(100)]
    builder = BUILDERS[peer](
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for index, record in enumerate(records):
        builder.append(index, *record)
    theirs = bytes(builder.build())
    ours = build(records)
    # They leave the leader epoch 0, we say -1, that it is not known, as the Java client does.
    assert (theirs[:12], theirs[16:]) == (ours[:12], ours[16:])
