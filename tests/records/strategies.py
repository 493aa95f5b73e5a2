"""Records as Hypothesis draws them: nulls, empties, long and short fields, odd names, times in any order."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from pykafka2.records.encoder import BatchBuilder
from pykafka2.types import Headers


class Input(NamedTuple):
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# Around the lengths at which a varint grows: 64 and 8192.
LENGTHS = st.sampled_from([0, 1, 10, 63, 64, 65, 8190, 8191, 8192, 8193])
LONG = LENGTHS.map(lambda length: b"x" * length)
FIELDS = st.none() | st.binary(max_size=40) | LONG

NAMES = st.text(max_size=10) | st.binary(max_size=6).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=20)), max_size=4)

NOW = 1_700_000_000_000
TIMESTAMPS = (
    st.just(NOW)
    | st.integers(NOW - 100, NOW + 100)
    | st.integers(NOW - 10**7, NOW + 10**7)
    | st.integers(-1, 2**50)
)

RECORDS = st.builds(Input, TIMESTAMPS, FIELDS, FIELDS, HEADERS | st.just([]))
RECORD_LISTS = st.lists(RECORDS, min_size=1, max_size=12)


def build(records: list[Input], codec: int | str = 0, base_offset: int = 0) -> bytes:
    builder = BatchBuilder(codec, max_bytes=1 << 30)
    for record in records:
        builder.append(*record)
    return builder.build(base_offset=base_offset)
